/* Bit flips: the inner loop of the Z step for one point, with what comes before and after it.
 *
 * The objective in z in {0, 1}^L is z'Gz - 2 c'z + sum_l [z_l != h_l] mu with G = A'A, c = A'(x - a). With v = G z - c,
 * flipping bit l changes it by G_ll + 2 s_l v_l + mu t_l, s_l = 1 - 2 z_l, t_l = 1 when z_l = h_l and else -1; after a
 * flip v += s_l G_l.
 *
 * Bound: all L changes are found at once, about L / 8 * 6 vector instructions per flip with everything in the
 * first-level cache; a point takes a handful of flips. A start adds a row of G for every bit that is set: L / 2 rows of
 * L / 16 registers with AVX-512, as much as a handful of flips. Arithmetic-bound.
 *
 * All variants do the same operations in the same order, none fused: the same bits from each of them. */
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

typedef struct lac_flip_kernels {
  /* The state of code z: sign s, cost mu t, v = G z - c; zero from the bits to `padded`, what is behind not negative.
   * z, h (words) are packed, zero beyond the bits; c (padded) is zero there; sign, cost and v (64 words). */
  void (*start)(const lac_flips *problem, const uint64_t *z, const uint64_t *h, float mu, const float *c, float *sign,
                float *cost, float *v);

  /* Flips bits cyclically while the objective falls, until L bits in a row stand. sign (padded) holds s, cost (padded)
   * holds mu t, v (padded) is kept up to date; bits that flip have their sign and cost negated. Returns the number of
   * flips. */
  int64_t (*flips)(const lac_flips *problem, float *sign, float *cost, float *v);

  /* z'Gz - 2 c'z of a state, its code (words), and in how many bits it differs from h (mu > 0); sign and cost (64
   * words) not negative beyond the bits. */
  double (*value)(const lac_flips *problem, const float *sign, const float *cost, const float *v, const float *c,
                  uint64_t *code, int64_t *distance);
} lac_flip_kernels;

/* The variant for an instruction set, which the processor must have. */
const lac_flip_kernels *lac_flip_kernels_of(lac_isa isa);

#endif
