/* Bounds: memory. A step reads and writes x and its state and reads d once: 20 bytes a number for nesterov. */
#include "laconic/optimizer.h"

#include <math.h>

#define LAC_REAL float
#define LAC_REAL_SQRT sqrtf
#include "optim/rules.inc"

int lac_optimizer_vectors(const lac_optimizer_options *options) {
  static const int vectors[LAC_OPTIMIZER_KINDS] = {0, 1, 1, 1, 2, 3};
  return vectors[options->kind];
}

void lac_optimizer_step(const lac_optimizer_options *options, int64_t n, double learning_rate, int64_t count,
                        const float *direction, float *const state[LAC_OPTIMIZER_VECTORS], float *x) {
  lac_rule_step(options, n, learning_rate, count, direction, state, x);
}
