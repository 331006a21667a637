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
 * with g = min((1 + 1/(2B))^t / gamma, 1), r = min((1 + 1/(2B))^t / rho, 10) and B batches a pass. The one
 * communication is that mean: a vector every L gradients, or every one. The answer is the mean of x over the replicas.
 *
 * Source: Chaudhari et al. 2017 (Parle; the rule of the authors' experiments); Chaudhari et al. 2016 (Entropy-SGD);
 * Zhang, Choromanska and LeCun 2015 (Elastic averaging SGD). docs/replicas.md has the details. */
#ifndef LACONIC_REPLICA_H
#define LACONIC_REPLICA_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/optimizer.h"
#include "laconic/options.h"
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
  bool overlap;                    /* the mean of an outer step travels while the next is computed, and is used there */
  lac_optimizer_options optimizer; /* of y in entropy and parle, of x in elastic and sgd */
  double outer_momentum;           /* of x in entropy and parle, by Nesterov's rule */
  double learning_rate;            /* eta at first; y keeps it, x follows the schedule */
  int schedule;                    /* lac_schedule_kind */
  char *drops;                     /* "2,4,6": epochs at which the rate drops */
  double drop_factor;
  double warm_up; /* epochs */
} lac_replica_options;

/* The table of these options. Borrowed. Local. */
LAC_API const lac_option *lac_replica_option_table(void);

/* Texts that contradict each other or the number of workers. Errors: USAGE. Local. */
LAC_API LAC_MUST_USE lac_status lac_replica_check(lac_context *context, const lac_replica_options *options,
                                                  int workers);

typedef struct lac_replica lac_replica;

/* A replica that starts at `start` (n), equal on all workers. world NULL is a world of one. The objective's call-back
 * and the options must outlive it. B of the scheme is the least over the workers. Collective. Errors: USAGE, MEMORY. */
LAC_API LAC_MUST_USE lac_status lac_replica_create(lac_context *context, lac_world *world,
                                                   const lac_objective *objective, const lac_replica_options *options,
                                                   const float *start, lac_replica **replica);
/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_replica_destroy(lac_replica **replica);

/* Makes `steps` outer steps, L gradients or one each. With P workers an outer step sends 2 (P - 1) messages of together
 * 2 (P - 1) / P vectors from each (a ring all-reduce in one fixed order, model traffic); entropy sends none.
 * Collective. Errors: NUMERICAL naming step and worker when a loss is not finite, those of the objective, TIMEOUT,
 * PEER, INTERRUPTED. */
LAC_API LAC_MUST_USE lac_status lac_replica_advance(lac_context *context, lac_replica *replica, int64_t steps);

/* Where the training stands. Local. */
typedef struct lac_replica_progress {
  int64_t step, steps; /* outer steps made, and of the whole run */
  int64_t gradients;   /* by this replica */
  double epochs;       /* step / B */
  double passes;       /* gradients / B */
  double learning_rate, g, r;
  double loss;            /* mean loss of the batches since the last lac_replica_restart_means, NaN without any */
  int64_t errors, points; /* of the same batches */
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
  int count;
  const char *names[LAC_REPLICA_VECTORS]; /* "x", "inner.0", "outer.0", …, "pending" */
  float *vectors[LAC_REPLICA_VECTORS];    /* (n) each: the replica's own memory, which may be written */
} lac_replica_state;

/* Waits for a mean that travels, if need be. A replica of the same options whose vectors are given these values, and
 * whose step, gradients and pending are set by lac_replica_restore, goes on bit for bit as this one would. Collective.
 */
LAC_API LAC_MUST_USE lac_status lac_replica_state_of(lac_context *context, lac_replica *replica,
                                                     lac_replica_state *state);
/* Sets step, gradients and pending. Local. */
LAC_API void lac_replica_restore(lac_replica *replica, const lac_replica_state *state);

#ifdef __cplusplus
}
#endif

#endif
