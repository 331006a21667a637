/* The exact Z step: depth-first enumeration of codes with pruning, as in a sphere decoder.
 *
 * With A = Q R the objective is |R z - y|^2 + mu Hamming(z, h) plus a constant, y = Q'(x - a). R is upper triangular,
 * so that the term of row k is known once bits k..L-1 are: a partial code whose terms already exceed the best value
 * found cannot win. The start comes from bit flips and is nearly always the minimum, so that few of the 2^L codes are
 * visited. */
#include <string.h>

#include "hash/trainer.h"

typedef struct lac_search {
  const float *columns; /* (L, LAC_EXACT_BITS): of R, zero below the diagonal */
  float mu, best;
  uint32_t h, found;
} lac_search;

/* Bits above `level` are set in z; rest = y - R z over those bits, rows 0..level; cost is that of the rows above. */
static void search_level(lac_search *search, int64_t level, const float *rest, float cost, uint32_t z) {
  float with[LAC_EXACT_BITS];
  const float *column = search->columns + level * LAC_EXACT_BITS;
  float diagonal = column[level], residual = rest[level];
  float zero = cost + residual * residual, one = cost + (residual - diagonal) * (residual - diagonal);
  uint32_t bit = UINT32_C(1) << level;
  if (search->h & bit) {
    zero += search->mu;
  } else {
    one += search->mu;
  }
  if (level == 0) {
    if (zero < search->best) {
      search->best = zero;
      search->found = z;
    }
    if (one < search->best) {
      search->best = one;
      search->found = z | bit;
    }
    return;
  }
  bool one_first = one < zero;
  for (int turn = 0; turn < 2; turn++) {
    if ((turn == 0) == one_first) {
      if (one < search->best) {
        for (int k = 0; k < LAC_EXACT_BITS; k++) { /* all of them: a fixed number is vectorised */
          with[k] = rest[k] - column[k];
        }
        search_level(search, level - 1, with, one, z | bit);
      }
    } else if (zero < search->best) {
      search_level(search, level - 1, rest, zero, z);
    }
  }
}

void lac_enumerate(int64_t bits, const float *columns, const float *y, float mu, uint32_t h, uint32_t *z, float *best) {
  lac_search search = {.columns = columns, .mu = mu, .best = *best, .h = h, .found = *z};
  float rest[LAC_EXACT_BITS] = {0};
  memcpy(rest, y, (size_t)bits * sizeof *y);
  search_level(&search, bits - 1, rest, 0, 0);
  *z = search.found;
  *best = search.best;
}
