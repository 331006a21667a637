#include "hash/enumerate.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Larger than any value: what setting a padding bit costs. */
static const float forbidden = 1e30F;

void lac_enumeration_prepare(int64_t bits, const float *columns, float mu, lac_enumeration *tables) {
  memset(tables, 0, sizeof *tables);
  for (int digit = 0; digit < LAC_DIGITS; digit++) {
    for (int value = 0; value < LAC_DIGIT_VALUES; value++) {
      float *sum = tables->columns[digit][value];
      float price = 0;
      for (int bit = 0; bit < LAC_DIGIT_BITS; bit++) {
        int64_t column = digit * LAC_DIGIT_BITS + bit;
        if (!(value >> bit & 1)) {
          continue;
        }
        if (column >= bits) {
          price = forbidden;
          continue;
        }
        for (int row = 0; row < LAC_EXACT_BITS; row++) {
          sum[row] += columns[column * LAC_EXACT_BITS + row];
        }
      }
      for (int row = 0; row < LAC_DIGIT_BITS; row++) {
        tables->rows[digit][row][value] = sum[digit * LAC_DIGIT_BITS + row];
      }
      for (int h = 0; h < LAC_DIGIT_VALUES; h++) {
        tables->distance[digit][h][value] = price + mu * (float)__builtin_popcount((unsigned)(h ^ value));
      }
    }
  }
}

typedef struct lac_search {
  const lac_enumeration *tables;
  float best;
  uint32_t h, found;
} lac_search;

/* Which of the 16 costs are below the best. */
static inline unsigned below(const float *cost, float best) {
  unsigned mask = 0;
#if defined(__SSE2__)
  __m128 limit = _mm_set1_ps(best);
  for (int value = 0; value < LAC_DIGIT_VALUES; value += 4) {
    mask |= (unsigned)_mm_movemask_ps(_mm_cmplt_ps(_mm_loadu_ps(cost + value), limit)) << value;
  }
#else
  for (int value = 0; value < LAC_DIGIT_VALUES; value++) {
    mask |= (unsigned)(cost[value] < best) << value;
  }
#endif
  return mask;
}

/* The digits above are set in z; rest = y - R z over them; spent is what their rows and their distance cost. */
static void search_digit(lac_search *search, int digit, const float *rest, float spent, uint32_t z) {
  const lac_enumeration *tables = search->tables;
  float cost[LAC_DIGIT_VALUES], with[LAC_EXACT_BITS];
  const float *distance = tables->distance[digit][search->h >> (digit * LAC_DIGIT_BITS) & (LAC_DIGIT_VALUES - 1)];
  for (int value = 0; value < LAC_DIGIT_VALUES; value++) {
    cost[value] = spent + distance[value];
  }
  for (int row = 0; row < LAC_DIGIT_BITS; row++) {
    float target = rest[digit * LAC_DIGIT_BITS + row];
    const float *sum = tables->rows[digit][row];
    for (int value = 0; value < LAC_DIGIT_VALUES; value++) {
      float residual = target - sum[value];
      cost[value] += residual * residual;
    }
  }
  for (unsigned open = below(cost, search->best); open; open &= open - 1) {
    int value = __builtin_ctz(open);
    if (!(cost[value] < search->best)) {
      continue; /* the best has fallen since */
    }
    uint32_t code = z | (uint32_t)value << (digit * LAC_DIGIT_BITS);
    if (digit == 0) {
      search->best = cost[value];
      search->found = code;
      continue;
    }
    const float *column = tables->columns[digit][value];
    for (int row = 0; row < LAC_EXACT_BITS; row++) {
      with[row] = rest[row] - column[row];
    }
    search_digit(search, digit - 1, with, cost[value], code);
  }
}

void lac_enumerate(const lac_enumeration *tables, const float *y, uint32_t h, uint32_t *z, float *best) {
  lac_search search = {.tables = tables, .best = *best, .h = h, .found = *z};
  search_digit(&search, LAC_DIGITS - 1, y, 0, 0);
  *z = search.found;
  *best = search.best;
}
