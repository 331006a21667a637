/* The loss of the W step's encoders: from margins to what every row adds to every gradient.
 *
 * The loss of an encoder at a row with bit y = 1 or -1 is the modified Huber loss of its slack s = 1 - y (w x + b): s^2
 * for s in [0, 1], 2 s - 1 above, 0 below (see wstep.c). Half of -dloss/dmargin is y min(max(s, 0), 1).
 *
 * Bound: a dozen instructions for a register of encoders and a row, where products and gradient take 2 D multiply-adds.
 *
 * All variants do the same operations in the same order: the same bits from each of them. */
#ifndef LACONIC_HASH_HINGE_H
#define LACONIC_HASH_HINGE_H

#include <stdint.h>

#include "math/cpu.h"

typedef struct lac_hinge {
  int64_t count;           /* encoders */
  const int32_t *half;     /* (count): which 32 bits of a code hold an encoder's bit */
  const int32_t *left;     /* (count): how many bits are above it there */
  const float *bias, *eta; /* (count) */
  float *total;            /* (count): the sums over rows, in their order, of y min(max(s, 0), 1) are added to it */
} lac_hinge;

/* factors (n, count): products w x; become eta y min(max(s, 0), 1). Row i has the code at codes + rows[i] words. */
typedef void (*lac_hinge_kernel)(const lac_hinge *hinge, const uint64_t *codes, int64_t words, const int64_t *rows,
                                 int64_t n, float *factors);

/* The kernel for an instruction set that the processor has. */
lac_hinge_kernel lac_hinge_kernel_of(lac_isa isa);

#endif
