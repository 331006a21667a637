/* Optimisers over a flat vector, and schedules of the learning rate.
 *
 * An optimiser turns a direction d (a gradient, or what stands for one) into a step x <- x - eta u(d, state). Its state
 * is a few vectors as long as x, which the caller can see, store and put back, so that a run can be resumed exactly. */
#ifndef LACONIC_OPTIMIZER_H
#define LACONIC_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"
#include "laconic/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With m, v zero at first, b1 = momentum, b2 = second, e = epsilon, t from 1:
 *
 *     sgd        u = d
 *     momentum   m = b1 m + d;  u = m                                         Polyak 1964
 *     nesterov   m = b1 m + d;  u = d + b1 m                                  Nesterov 1983, as Sutskever et al. 2013
 *     rmsprop    v = b2 v + (1 - b2) d^2;  u = d / (sqrt(v) + e)              Tieleman and Hinton 2012
 *     adam       m = b1 m + (1 - b1) d;  v = b2 v + (1 - b2) d^2;
 *                u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + e)              Kingma and Ba 2015
 *     amsgrad    adam with the largest v so far in place of v                 Reddi et al. 2018, corrected as adam
 */
typedef enum lac_optimizer_kind {
  LAC_OPTIMIZER_SGD,
  LAC_OPTIMIZER_MOMENTUM,
  LAC_OPTIMIZER_NESTEROV,
  LAC_OPTIMIZER_RMSPROP,
  LAC_OPTIMIZER_ADAM,
  LAC_OPTIMIZER_AMSGRAD,
  LAC_OPTIMIZER_KINDS
} lac_optimizer_kind;

enum { LAC_OPTIMIZER_VECTORS = 3 }; /* most vectors of state */

typedef struct lac_optimizer_options {
  int kind;            /* lac_optimizer_kind */
  double momentum;     /* b1 */
  double second;       /* b2 */
  double epsilon;      /* e */
  double weight_decay; /* w */
  bool decoupled; /* the decay is x <- x - eta w x beside the step (Loshchilov and Hutter 2019), not d <- d + w x */
} lac_optimizer_options;

/* Vectors of state. Local. */
LAC_API int lac_optimizer_vectors(const lac_optimizer_options *options);

/* One step, the `count`-th from 1. x (n), direction (n), state: as many vectors (n) as lac_optimizer_vectors says, zero
 * before the first step. Numbers do not mix: a vector may be stepped in pieces. Local. */
LAC_API void lac_optimizer_step(const lac_optimizer_options *options, int64_t n, double learning_rate, int64_t count,
                                const float *direction, float *const state[LAC_OPTIMIZER_VECTORS], float *x);

/* ---- schedules ---- */

/* step: times `factor` at each of the given times; cosine: from the learning rate to 0 over the whole run. */
typedef enum lac_schedule_kind { LAC_SCHEDULE_STEP, LAC_SCHEDULE_COSINE } lac_schedule_kind;

enum { LAC_SCHEDULE_DROPS = 32 };

typedef struct lac_schedule {
  int kind; /* lac_schedule_kind */
  double learning_rate;
  double warm_up; /* rises linearly from 0 over so many units of time */
  double length;  /* units of time of the whole run, for cosine */
  double factor;  /* step */
  int drops;
  double at[LAC_SCHEDULE_DROPS]; /* rising */
} lac_schedule;

/* Reads "2,4,6" into at and drops; "" is none. Errors: USAGE for text that is not rising positive numbers, or too many.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_schedule_parse_drops(lac_context *context, const char *text,
                                                         lac_schedule *schedule);

/* The learning rate at a time, in the units of the schedule (passes, or outer epochs). A drop counts from its very time
 * on. Local. */
LAC_API double lac_schedule_at(const lac_schedule *schedule, double time);

#ifdef __cplusplus
}
#endif

#endif
