/* Bit flips: the inner loop of the Z step for one point.
 *
 * The objective in z in {0, 1}^L is z'Gz - 2 c'z + sum_l [z_l != h_l] mu with G = A'A, c = A'(x - a). With v = G z - c,
 * flipping bit l changes it by G_ll + 2 s_l v_l + mu t_l, s_l = 1 - 2 z_l, t_l = 1 when z_l = h_l and else -1; after a
 * flip v += s_l G_l.
 *
 * Bound: all L changes are found at once, about L / 8 * 6 vector instructions per flip with everything in the
 * first-level cache; a point takes a handful of flips. Arithmetic-bound. */
#ifndef LACONIC_HASH_FLIPS_H
#define LACONIC_HASH_FLIPS_H

#include <stdint.h>

#include "math/cpu.h"

typedef struct lac_flips {
  int64_t bits, padded;  /* L, and L rounded up to LAC_LANES */
  const float *gram;     /* (L, padded): G, the padding zero */
  const float *diagonal; /* (padded): G_ll; a huge value in the padding, so that it never flips */
  float threshold;       /* a flip must gain more than this: ends the search in the face of rounding */
} lac_flips;

/* Flips bits cyclically while the objective falls, until L bits in a row stand. sign (padded) holds s, cost (padded)
 * holds mu t, v (padded) is kept up to date; bits that flip have their sign and cost negated. Returns the number of
 * flips. */
typedef int64_t (*lac_flip_fn)(const lac_flips *problem, float *sign, float *cost, float *v);

lac_flip_fn lac_flip_kernel(lac_isa isa);

#endif
