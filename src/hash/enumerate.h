/* The exact Z step of codes of up to 16 bits: bit flips, then enumeration with pruning, four bits at a time.
 *
 * The objective in z is z'Gz - 2 c'z + mu Hamming(z, h) with G = A'A, c = A'(x - a). With A P = Q R it is also
 * |R z - y|^2 - |y|^2 + mu Hamming(z, h), y = Q'(x - a) = R^-T c. R is upper triangular, so that the terms of a row are
 * known once the bits from that row on are: a partial code whose terms already exceed the best value found cannot win
 * (a sphere decoder). The start comes from bit flips and is nearly always the minimum already.
 *
 * Bound: latency of short chains in registers and the first-level cache (the tables are 17 KiB), and the branches that
 * the search takes. A node prices the 16 settings of four bits at once, which is one register with AVX-512; a point
 * needs about ten nodes where bit by bit it needs fifty with two mispredicted branches each.
 *
 * All variants do the same operations in the same order, none fused: the same bits from each of them. */
#ifndef LACONIC_HASH_ENUMERATE_H
#define LACONIC_HASH_ENUMERATE_H

#include <stdint.h>

#include "math/cpu.h"

enum {
  LAC_EXACT_BITS = 16, /* up to here the Z step is exact */
  LAC_DIGIT_BITS = 4,
  LAC_DIGITS = LAC_EXACT_BITS / LAC_DIGIT_BITS,
  LAC_DIGIT_VALUES = 1 << LAC_DIGIT_BITS
};

/* What depends on R and mu alone. A code of fewer than 16 bits is padded with bits that cannot be set. */
typedef struct lac_enumeration {
  float rows[LAC_DIGITS][LAC_DIGIT_BITS][LAC_DIGIT_VALUES];       /* what a digit adds to its own rows of R z */
  float columns[LAC_DIGITS][LAC_DIGIT_VALUES][LAC_EXACT_BITS];    /* what it adds to all rows */
  float distance[LAC_DIGITS][LAC_DIGIT_VALUES][LAC_DIGIT_VALUES]; /* mu Hamming by digit of h and digit of z */
} lac_enumeration;

/* columns (bits, LAC_EXACT_BITS): those of R, zero below the diagonal; bits <= LAC_EXACT_BITS. */
void lac_enumeration_prepare(int64_t bits, const float *columns, float mu, lac_enumeration *tables);

/* What the points of a Z step share. */
typedef struct lac_exact {
  lac_enumeration search;
  float back[LAC_EXACT_BITS][LAC_EXACT_BITS];               /* row j: what c_j adds to y */
  float gram[LAC_DIGITS][LAC_DIGIT_VALUES][LAC_EXACT_BITS]; /* what a digit of z adds to G z */
  float moves[2][LAC_EXACT_BITS][LAC_EXACT_BITS];           /* what a flip of bit l from 0, from 1 adds to G z */
  float diagonal[LAC_EXACT_BITS];                           /* G_ll; a huge value where there is no bit */
  float mu, threshold; /* a flip must gain more than the threshold: ends the flips in the face of rounding */
  int64_t bits;
} lac_exact;

/* gram (bits, bits); back (bits, bits): y = back c; columns as above. */
void lac_exact_prepare(int64_t bits, const float *gram, const float *back, const float *columns, float mu,
                       float threshold, lac_exact *exact);

typedef struct lac_exact_point {
  float nested, value; /* of h(x) and of z, without |x - a|^2 */
  uint32_t z;
} lac_exact_point;

typedef struct lac_exact_kernels {
  /* Minimum over z of |R z - y|^2 + mu Hamming(z, h), y (LAC_EXACT_BITS) zero beyond the bits. *z holds a start and
   * *best its value; another z needs a value below *best. */
  void (*enumerate)(const lac_enumeration *tables, const float *y, uint32_t h, uint32_t *z, float *best);

  /* The best z of n points: rows of c (n, LAC_EXACT_BITS) are `stride` apart and zero beyond the bits. */
  void (*points)(const lac_exact *exact, int64_t n, const float *c, int64_t stride, const uint32_t *h,
                 lac_exact_point *points);
} lac_exact_kernels;

/* The variant for an instruction set, which the processor must have. */
const lac_exact_kernels *lac_exact_kernels_of(lac_isa isa);

#if defined(__x86_64__)
extern const lac_exact_kernels lac_exact_avx2, lac_exact_avx512; /* in files of their own */
#endif

#endif
