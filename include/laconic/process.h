/* Communication processes: a protocol as data, the random sequence of row-stochastic matrices that its workers' models
 * go through.
 *
 * The state is a matrix X (m, d), a row for each slot: the workers' models first, then buffers that can hold a stale
 * copy (the server's, and with a delay those that a worker has of its neighbours and those that travel; they are the
 * workers' models at first, the server's its own). At event t, X <- W_t X + U_t:
 * W_t is row-stochastic, U_t puts the update of whoever stepped into the slot that it writes, computed at the slot that
 * it read. An event is one worker's update; a synchronous round of n workers is one event that counts as n updates.
 *
 * Source: Lu, Nash and De Sa 2020 (MixML); docs/mixing.md has the definitions used here. */
#ifndef LACONIC_PROCESS_H
#define LACONIC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"
#include "laconic/options.h"
#include "laconic/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One vocabulary for `laconic mix --protocol` and `laconic train --exchange`:
 *
 *     allreduce     synchronous: every worker gets the mean, W = 11'/n
 *     server        the same by way of worker 0
 *     async-server  a worker adds its update to the server's copy and takes that; one slot more, the server's
 *     dpsgd         synchronous: every worker gets its row's mean of its neighbours, W of the topology
 *     adpsgd        a worker and a random neighbour both get their mean
 *     async-ring    a worker gets its row's mean of its own model and its neighbours'
 *     periodic      allreduce every `period` rounds (local SGD)
 *
 * Sources: Lian et al. 2017 (dpsgd), Lian et al. 2018 (adpsgd). */
typedef enum lac_protocol {
  LAC_PROTOCOL_ALLREDUCE,
  LAC_PROTOCOL_SERVER,
  LAC_PROTOCOL_ASYNC_SERVER,
  LAC_PROTOCOL_DPSGD,
  LAC_PROTOCOL_ADPSGD,
  LAC_PROTOCOL_ASYNC_RING,
  LAC_PROTOCOL_PERIODIC,
  LAC_PROTOCOLS
} lac_protocol;

/* The protocols' names in the order above, ending with NULL, for option tables. Local. */
LAC_API const char *const *lac_protocol_names(void);
/* Whether a worker steps alone, without waiting for a round of all. Local. */
LAC_API bool lac_protocol_asynchronous(int protocol);
/* Whether it asks for a topology. Local. */
LAC_API bool lac_protocol_on_topology(int protocol);

enum { LAC_PERIOD_LOCAL = 25 }; /* periods of periodic when none is given */

typedef struct lac_process_options {
  int protocol;                  /* lac_protocol; in the tables of those who use this: --protocol or --exchange */
  lac_topology_options topology; /* of dpsgd, adpsgd and async-ring */
  int64_t period; /* --period: mixes only in every period-th round, or of a worker's own updates; periodic takes 1 to
                     mean LAC_PERIOD_LOCAL */
  double slack;   /* --slack G in (0, 1]: G W + (1 - G) I in place of W */
  double delay;   /* --delay: of async-ring, mean rounds that a model travels (geometrically distributed), up to 10^6;
                     0: a neighbour's model is read as it is. A link carries one model at a time, so that what is read
                     is older, up to a round and twice the delay on the average: it is kept until the next comes */
} lac_process_options;

/* Key protocol, for programs that call it so. Borrowed. Local. */
LAC_API const lac_option *lac_protocol_option_table(void);
/* Keys period, slack, delay; those of the topology are in its own table. Borrowed. Local. */
LAC_API const lac_option *lac_process_option_table(void);

/* A row of W_t that is not that of the identity: slot <- sum over k of weight[k] X[column[k]]. */
typedef struct lac_process_row {
  int32_t slot;
  int32_t count;
  const int32_t *column;
  const double *weight;
} lac_process_row;

typedef struct lac_process_event {
  int32_t worker;      /* that stepped, or -1: all of them did, each reading and writing its own slot */
  int32_t updates;     /* 1, or n */
  int32_t read, write; /* slots of the worker's gradient and update */
  bool first;          /* the update comes before the mixing, X <- W (X + U): async-server, whose updates between those
                          that mix are written at the worker alone: that they reach the server with the next one, as
                          they do in training, is not in W */
  int32_t rows;
  const lac_process_row *row; /* (rows), all of them from X as it was before the event's mixing */
} lac_process_event;

typedef struct lac_process lac_process;

/* A process of `workers` workers (0: as many as the topology's file has). Errors: those of lac_topology_create; USAGE
 * for what contradicts itself; MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_process_create(lac_context *context, const lac_process_options *options,
                                                   int64_t workers, int64_t seed, lac_process **process);
/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_process_destroy(lac_process **process);

/* Local. */
LAC_API int lac_process_protocol(const lac_process *process);
LAC_API int64_t lac_process_workers(const lac_process *process);
LAC_API int64_t lac_process_slots(const lac_process *process);
LAC_API int64_t lac_process_period(const lac_process *process);
LAC_API double lac_process_slack(const lac_process *process);
/* NULL for protocols that have none. Borrowed. Local. */
LAC_API const lac_topology *lac_process_topology(const lac_process *process);

/* A walk through the process: event t of path `path` is the same whenever it is asked for. */
typedef struct lac_walk lac_walk;
/* Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_walk_create(lac_context *context, const lac_process *process, int64_t path,
                                                lac_walk **walk);
LAC_API void lac_walk_destroy(lac_walk **walk);
/* The next event, valid until the next call. Local. */
LAC_API const lac_process_event *lac_walk_next(lac_walk *walk);

/* Model vectors sent by all workers together in a round of n updates, on the average over a period, and the messages
 * that carry them. With a delay as without: models that a busy link lets go are counted. */
typedef struct lac_process_cost {
  double messages; /* a round */
  double vectors;  /* a round: times the bytes of a model */
} lac_process_cost;
LAC_API lac_process_cost lac_process_cost_of(const lac_process *process);

#ifdef __cplusplus
}
#endif
#endif
