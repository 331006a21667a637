/* Replicas that speak seldom: one trainer for data-parallel SGD, Elastic-SGD, Entropy-SGD and Parle.
 *
 * Each worker of a world has one replica of a flat parameter vector and an objective of its own, a call-back that gives
 * the gradient of a batch. The four methods are one scheme, of outer steps t = 0, 1, …:
 *
 *     entropy, parle   y = z = x; L times: d = grad f(y) + g (y - x), y steps along d, z <- (1 - a) z + a y
 *                      D = (x - z) + r (x - mean of z over the replicas); entropy has one replica and no r
 *     elastic          D = grad f(x) + r (x - mean of x over the replicas)
 *     sgd              D = mean over the replicas of grad f(x)
 *     all              x steps along D
 *
 * with g = min((1 + 1/(2B))^(c t) / gamma, 1), r = min((1 + 1/(2B))^(c t) / rho, 10), B batches a pass and c = 1 in the
 * paper. The one communication is that mean: a vector every L gradients, or every one. The answer is the mean of x over
 * the replicas.
 *
 * In place of the mean any communication process of laconic/process.h can be taken (`exchange`): elastic and parle are
 * then drawn to what it makes of their offers, W_t z for the mean of z. With sgd the models themselves are mixed,
 * X <- W_t X + U, and each replica steps along its own gradient; only allreduce without period and slack averages
 * gradients.
 *
 * Source: Chaudhari et al. 2017 (Parle; the rule of the authors' experiments); Chaudhari et al. 2016 (Entropy-SGD);
 * Zhang, Choromanska and LeCun 2015 (Elastic averaging SGD). docs/replicas.md has the details. */
#ifndef LACONIC_REPLICA_H
#define LACONIC_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/mixing.h"
#include "laconic/optimizer.h"
#include "laconic/options.h"
#include "laconic/process.h"
#include "laconic/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a gradient says of its batch besides. */
typedef struct lac_batch_result {
  double loss;    /* mean over the batch */
  int64_t errors; /* of its points, wrong ones */
  int64_t points;
} lac_batch_result;

/* What is minimised: the mean over the replicas of their losses. Whatever is random in a gradient must be keyed by
 * `step` alone, so that a run can be repeated and resumed. */
typedef struct lac_objective {
  int64_t parameters;       /* n */
  int64_t batches_per_pass; /* B: so many gradients see this replica's data once */
  /* gradient (n), written, of batch `step` (from 0, rising without end) at x (n); both are aligned to 64 bytes. */
  lac_status (*gradient)(void *user, lac_context *context, int64_t step, const float *x, float *gradient,
                         lac_batch_result *result);
  void *user;
} lac_objective;

typedef enum lac_replica_method {
  LAC_METHOD_SGD,
  LAC_METHOD_ELASTIC,
  LAC_METHOD_ENTROPY,
  LAC_METHOD_PARLE
} lac_replica_method;

typedef struct lac_replica_options {
  int method;                      /* lac_replica_method */
  double epochs;                   /* an epoch is B outer steps: a pass, or L passes with inner steps */
  int64_t inner_steps;             /* L */
  double average;                  /* a */
  double gamma, rho;               /* their first values */
  double scoping;                  /* c: 4 for a schedule of a quarter of the length; 0: 1 */
  bool overlap;                    /* the mean of an outer step travels while the next is computed, and is used there */
  lac_optimizer_options optimizer; /* of y in entropy and parle, of x in elastic and sgd */
  double outer_momentum;           /* of x in entropy and parle, by Nesterov's rule */
  double learning_rate;            /* eta at first; y keeps it, x follows the schedule */
  int schedule;                    /* lac_schedule_kind */
  char *drops;                     /* "2,4,6": epochs at which the rate drops */
  double drop_factor;
  double warm_up;               /* epochs */
  lac_process_options exchange; /* zeros: allreduce, period 1, slack 1 */
  int64_t seed;                 /* of what is random in the exchange; not in the table */
} lac_replica_options;

/* The table of these options, but for the exchange's topology, period, slack and delay, which have their own
 * (lac_topology_option_table, lac_process_option_table). Borrowed. Local. */
LAC_API const lac_option *lac_replica_option_table(void);

/* Texts that contradict each other or the number of workers, and a topology that cannot be had. Errors: USAGE, INPUT,
 * MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_replica_check(lac_context *context, const lac_replica_options *options,
                                                  int workers);

typedef struct lac_replica lac_replica;

/* A replica that starts at `start` (n), equal on all workers. world NULL is a world of one. The objective's call-back
 * and the options must outlive it. B of the scheme is the least over the workers. Collective. Errors: USAGE, also for a
 * world that had a replica which was destroyed with an overlapped exchange under way; MEMORY. */
LAC_API LAC_MUST_USE lac_status lac_replica_create(lac_context *context, lac_world *world,
                                                   const lac_objective *objective, const lac_replica_options *options,
                                                   const float *start, lac_replica **replica);
/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_replica_destroy(lac_replica **replica);

/* The process of these options for so many workers; destroy it. Errors: as lac_replica_check. Local. */
LAC_API LAC_MUST_USE lac_status lac_replica_process(lac_context *context, const lac_replica_options *options,
                                                    int workers, lac_process **process);

/* Makes `steps` outer steps, L gradients or one each. With P workers an outer step sends 2 (P - 1) messages of together
 * 2 (P - 1) / P vectors from each (a ring all-reduce in one fixed order, model traffic); entropy sends none; another
 * exchange sends what lac_process_cost_of says.
 * Collective. Errors: NUMERICAL naming step and worker when a loss is not finite, those of the objective, TIMEOUT,
 * PEER, INTERRUPTED. */
LAC_API LAC_MUST_USE lac_status lac_replica_advance(lac_context *context, lac_replica *replica, int64_t steps);

/* ---- exchanges without rounds: async-server, adpsgd, async-ring ----
 *
 * A worker then waits for nobody but whom it has asked; lac_replica_advance ends on a worker when those who may ask it
 * have made their steps. Counts, step numbers and what is mixed depend on timing, but on the back end "sim".
 * Async-server ends an advance with all workers at the server's copy; a run that is taken up again begins with fresh
 * copies. */

/* Answers peers; with rounds passes on what has come of an exchange that is under way (overlapped, or of models), which
 * otherwise waits for the gradient's end. An objective whose gradients take long calls this within them, at whatever
 * points; the gradient's x does not change. Local. */
LAC_API LAC_MUST_USE lac_status lac_replica_serve(lac_context *context, lac_replica *replica);

/* `ask` is called before every outer step of such an exchange. When it says true on any worker, the advance ends soon
 * on all, after numbers of steps that may differ. NULL for none. Local. */
typedef bool (*lac_replica_ask_fn)(void *user);
LAC_API void lac_replica_ask(lac_replica *replica, lac_replica_ask_fn ask, void *user);

/* A worker's mixings in its own order. adpsgd: `with` was averaged with, the version-th time (from 1); that of worker i
 * with j is the same of j with i. async-server: on worker 0 those whose updates came in, in that order, the version-th
 * of each; on the others their own, with worker 0. async-ring: of each mixing the models that were mixed in, those
 * after the version-th that `with` had sent, and at the end an entry of the worker itself, whose own sent so far the
 * version counts. Of long runs the newest are kept, at least 2^17 and at most 2^18 (8 MiB). */
typedef struct lac_replica_event {
  int32_t with;
  int64_t version;
  int64_t update; /* of this worker's own, from 1: the newest that it has made, or is about to make with this mixing */
  double seconds; /* lac_world_now of this worker */
} lac_replica_event;

enum { LAC_STALE_BUCKETS = 16 };

typedef struct lac_replica_history {
  int64_t count, dropped;         /* kept, and older ones that are not */
  const lac_replica_event *event; /* (count), borrowed until the next call on the replica */
  /* How many updates old models were that were mixed in (async-ring: by this worker's own count, async-server: by the
   * server's, of all workers, on worker 0), or in how many means a model took part while its gradient was computed
   * (adpsgd): 0, 1, 2-3, 4-7, … */
  int64_t stale[LAC_STALE_BUCKETS];
  int64_t refused; /* adpsgd: asked one that was waiting itself */
} lac_replica_history;
LAC_API lac_replica_history lac_replica_history_of(const lac_replica *replica);

/* The mixing time of this run itself, the same on all workers; lac_mixing_time_of the process of lac_replica_process is
 * its prediction.
 *
 * Exchanges without rounds: worker 0 gathers the newest part of the histories, puts the mixings in one order (each
 * worker's own, and by their times where that leaves a choice) and replays them from the identity in up to 64 windows
 * that follow one another. kind is LAC_MIXING_REALISED: max_i TV(row i, mean of the workers' rows), averaged over the
 * windows, passes 1/4 after `updates` of all workers together, rounds = updates / n. The updates that a period leaves
 * out and those that found nobody to mix with count, too. samples is the number of windows, standard_error that over
 * them, spectral_gap NaN. Where the record is too short for 4 windows, and beyond 1,024 workers, rounds, updates,
 * lower, upper and standard_error are NaN, samples is 0 and `reason` says why. That async-server leaves all at one copy
 * at the end of an advance does not count as a mixing.
 *
 * It can differ from the prediction, which lets a random worker step next: where workers wait for each other they step
 * more evenly, and it is less; at the end of an advance the slow ones step alone, and it is more; with a period K a
 * window begins anywhere in it, about (K - 1) / 2 rounds less. Elastic's and parle's workers send before they mix, so
 * that their neighbours read what was there a mixing earlier: on a ring of 8 that takes half as long again.
 *
 * A call gathers at most 2^18 events of 32 bytes in all, from each worker an equal share, in P - 1 messages: control
 * traffic, beside a barrier, an agreement and a broadcast. Worker 0 needs some 100 bytes for each event; 16 P^2 and,
 * with async-ring, at most 8 P for each mixing of a window. On one core the replay of a full record takes a tenth of a
 * second with up to 64 workers, and some 10 with 1,024.
 *
 * Rounds of all: nothing is random, and the time is that of the process with the options' defaults, exact or a bound.
 * It is computed by the first call, on worker 0, and kept; later calls send nothing. One replica has mixed at 0.
 *
 * Between advances. Collective. Errors: MEMORY, TIMEOUT, PEER, INTERRUPTED, and those of lac_mixing_time_of. */
LAC_API LAC_MUST_USE lac_status lac_replica_observe(lac_context *context, lac_replica *replica, lac_mixing_time *time);

/* Where the training stands. Local. */
typedef struct lac_replica_progress {
  int64_t step, steps; /* outer steps made, and of the whole run */
  int64_t gradients;   /* by this replica */
  double epochs;       /* step / B */
  double passes;       /* gradients / B */
  double learning_rate, g, r;
  double loss;            /* mean loss of the batches since the last lac_replica_restart_means, NaN without any */
  int64_t errors, points; /* of the same batches */
  double lost; /* since then, of a slack below 1: part of the moves towards the mean that float32 could not hold */
} lac_replica_progress;
LAC_API lac_replica_progress lac_replica_progress_of(const lac_replica *replica);
LAC_API void lac_replica_restart_means(lac_replica *replica);
/* B: the least over the workers. Local. */
LAC_API int64_t lac_replica_batches_per_pass(const lac_replica *replica);

/* The answer so far, mean (n), the same bits on all workers: control traffic, 2 (P - 1) / P vectors from each.
 * Collective. */
LAC_API LAC_MUST_USE lac_status lac_replica_answer(lac_context *context, lac_replica *replica, float *mean);
/* The replica's own x (n), borrowed. Local. */
LAC_API const float *lac_replica_own(const lac_replica *replica);
/* How far apart the replicas are: root mean square over them of |x - mean| / |mean|. Collective. */
LAC_API LAC_MUST_USE lac_status lac_replica_spread(lac_context *context, lac_replica *replica, const float *mean,
                                                   double *spread);

/* ---- the state between outer steps, for checkpoints ---- */

enum { LAC_REPLICA_VECTORS = 2 + 2 * LAC_OPTIMIZER_VECTORS };

typedef struct lac_replica_state {
  int64_t parameters; /* n */
  int64_t step, gradients;
  bool pending; /* overlapped: the vector "pending" holds a mean that is still to be used */
  /* Sums since the last lac_replica_restart_means: losses of batches, errors of points. */
  double loss;
  int64_t batches, errors, points;
  int count;
  const char *names[LAC_REPLICA_VECTORS]; /* "x", "inner.0", "outer.0", …, "pending" */
  float *vectors[LAC_REPLICA_VECTORS];    /* (n) each: the replica's own memory, which may be written */
} lac_replica_state;

/* Waits for a mean that travels, if need be. A replica of the same options whose vectors are given these values, and
 * whose step, gradients, pending and sums are set by lac_replica_restore, goes on bit for bit as this one would; of its
 * progress only `lost` begins anew. Collective. */
LAC_API LAC_MUST_USE lac_status lac_replica_state_of(lac_context *context, lac_replica *replica,
                                                     lac_replica_state *state);
/* Sets step, gradients, pending and the sums. Local. */
LAC_API void lac_replica_restore(lac_replica *replica, const lac_replica_state *state);

#ifdef __cplusplus
}
#endif

#endif
