/* How long exchanges of replicas take on a cluster: what lac_plan_round, lac_plan_replicas and the rehearsal share. */
#ifndef LACONIC_PLAN_EXCHANGE_H
#define LACONIC_PLAN_EXCHANGE_H

#include "laconic/plan.h"

/* How often a worker looks at its messages while it computes a gradient: between the layers of a network. */
enum { LAC_PLAN_LOOKS = 16 };

/* Vectors that leave and enter each worker of a topology in a mixing, on the average over its phases. */
typedef struct lac_degrees {
  double *out, *in; /* (n): its readers, and those whom it reads */
  double *asked;    /* (n): how many ask it, when everybody asks one of those whom it reads */
  double *crowd;    /* (n): how many ask the one whom it asks, on the average, itself among them */
  double *readers;  /* (n): who reads it in any phase */
} lac_degrees;

/* Errors: MEMORY. */
LAC_MUST_USE lac_status lac_degrees_open(lac_context *context, const lac_topology *topology, lac_degrees *degrees);
void lac_degrees_close(lac_degrees *degrees);

/* Synchronous exchanges with neighbours: a worker i mixes when `own[i]` seconds have passed since its last mixing and
 * the vectors of those whom it reads have come; it sends its own `lead[i]` seconds after its last mixing, to its
 * readers one after the other. */
typedef struct lac_neighbour_rounds {
  const lac_topology *topology;
  const double *own, *lead; /* (n) */
  double vector, latency;   /* seconds that a vector takes to leave, and of its way */
} lac_neighbour_rounds;

/* Seconds from a mixing to the next in the long run: the greatest mean over the cycles of who waits for whom, found by
 * letting the rounds follow each other. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_neighbour_rounds_time(lac_context *context, const lac_neighbour_rounds *rounds,
                                                  double *seconds);

/* Ring all-reduces: of the `gradients` from a mixing to the next the first `hidden` are computed while the exchange is
 * under way, which then gets on only when a worker looks at its messages, LAC_PLAN_LOOKS times a gradient. */
typedef struct lac_ring_rounds {
  int workers;
  const double *gradient; /* (n): seconds of one */
  double gradients, hidden;
  double piece, latency; /* seconds that an n-th of a vector takes to leave, and of its way */
} lac_ring_rounds;

/* Seconds from a mixing to the next in the long run. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_ring_rounds_time(lac_context *context, const lac_ring_rounds *rounds, double *seconds);

/* A job with what follows from it: for n workers whose options and cluster have been checked. */
typedef struct lac_replica_plan {
  const lac_replica_job *job;
  const lac_cluster *cluster;
  lac_process *process;  /* NULL for one worker */
  lac_degrees degrees;   /* where there is a topology */
  int workers, protocol; /* protocol -1 for one worker */
  bool mixes, nested, asynchronous;
  double inner, period;          /* gradients of an outer step, outer steps from a mixing to the next */
  double vector, latency;        /* seconds that a vector takes to leave a worker, and of its way */
  double *gradient;              /* (n): seconds of a gradient and its update */
  double slowest, fastest, mean; /* of these */
  double speeds;                 /* their sum */
} lac_replica_plan;

/* Checks everything and fills the plan; close it also after a failure. Errors: USAGE, MEMORY, those of
 * lac_replica_check. */
LAC_MUST_USE lac_status lac_replica_plan_open(lac_context *context, const lac_replica_job *job,
                                              const lac_cluster *cluster, int workers, lac_replica_plan *plan);
void lac_replica_plan_close(lac_replica_plan *plan);

/* Whether a peer's model is only read when it is asked for, so that one vector travels in place of two. */
bool lac_replica_plan_only_reads(const lac_replica_plan *plan);

/* Fills speedup and efficiency from the time of all gradients of the job. */
void lac_replica_plan_rate(const lac_replica_plan *plan, lac_plan *result);

/* Bytes of the worker that needs most: the trainer's vectors. */
double lac_replica_plan_memory(const lac_replica_plan *plan);

#endif
