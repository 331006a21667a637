/* The exact Z step for one point: enumeration with pruning, four bits at a time.
 *
 * With A P = Q R the objective is |R z - y|^2 + mu Hamming(z, h) plus a constant, y = Q'(x - a). R is upper triangular,
 * so that the terms of a row are known once the bits from that row on are: a partial code whose terms already exceed
 * the best value found cannot win (a sphere decoder). The start comes from bit flips and is nearly always the minimum
 * already.
 *
 * Bound: arithmetic in the first-level cache. A node prices the 16 settings of four bits with vector operations and no
 * branch; a point needs about ten nodes where bit by bit it needs fifty with two mispredicted branches each. */
#ifndef LACONIC_HASH_ENUMERATE_H
#define LACONIC_HASH_ENUMERATE_H

#include <stdint.h>

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

/* Minimum over z of |R z - y|^2 + mu Hamming(z, h), y (LAC_EXACT_BITS) zero beyond the bits. *z holds a start and *best
 * its value; another z needs a value below *best. */
void lac_enumerate(const lac_enumeration *tables, const float *y, uint32_t h, uint32_t *z, float *best);

#endif
