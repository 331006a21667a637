#include "hash/enumerate.h"

#include <string.h>

/* ---- plain C ---- */

#define TARGET

typedef struct sixteen {
  float lane[LAC_EXACT_BITS];
} sixteen;

static inline sixteen load(const float *from) {
  sixteen v;
  memcpy(v.lane, from, sizeof v.lane);
  return v;
}
static inline void store(float *to, sixteen v) {
  memcpy(to, v.lane, sizeof v.lane);
}
static inline sixteen all(float value) {
  sixteen v;
  for (int i = 0; i < LAC_EXACT_BITS; i++) {
    v.lane[i] = value;
  }
  return v;
}
static inline sixteen add(sixteen a, sixteen b) {
  for (int i = 0; i < LAC_EXACT_BITS; i++) {
    a.lane[i] += b.lane[i];
  }
  return a;
}
static inline sixteen subtract(sixteen a, sixteen b) {
  for (int i = 0; i < LAC_EXACT_BITS; i++) {
    a.lane[i] -= b.lane[i];
  }
  return a;
}
static inline sixteen multiply(sixteen a, sixteen b) {
  for (int i = 0; i < LAC_EXACT_BITS; i++) {
    a.lane[i] *= b.lane[i];
  }
  return a;
}
static inline unsigned below(sixteen a, sixteen b) {
  unsigned mask = 0;
  for (int i = 0; i < LAC_EXACT_BITS; i++) {
    mask |= (unsigned)(a.lane[i] < b.lane[i]) << i;
  }
  return mask;
}
static inline sixteen negated(sixteen v, unsigned mask) {
  for (int i = 0; i < LAC_EXACT_BITS; i++) {
    v.lane[i] = mask >> i & 1 ? -v.lane[i] : v.lane[i];
  }
  return v;
}
static inline float sum_of(sixteen v, unsigned mask) {
  for (int i = 0; i < LAC_EXACT_BITS; i++) {
    v.lane[i] = mask >> i & 1 ? v.lane[i] : 0;
  }
  for (int half = LAC_EXACT_BITS / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) {
      v.lane[i] += v.lane[i + half];
    }
  }
  return v.lane[0];
}

#include "hash/enumerate_points.h"

static const lac_exact_kernels plain_kernels = {find_code, find_points};

const lac_exact_kernels *lac_exact_kernels_of(lac_isa isa) {
#if defined(__x86_64__)
  if (isa == LAC_ISA_AVX512) {
    return &lac_exact_avx512;
  }
  if (isa == LAC_ISA_AVX2) {
    return &lac_exact_avx2;
  }
#endif
  (void)isa;
  return &plain_kernels;
}

/* ---- tables ---- */

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

void lac_exact_prepare(int64_t bits, const float *gram, const float *back, const float *columns, float mu,
                       float threshold, lac_exact *exact) {
  memset(exact, 0, sizeof *exact);
  exact->bits = bits;
  exact->mu = mu;
  exact->threshold = threshold;
  lac_enumeration_prepare(bits, columns, mu, &exact->search);
  for (int64_t l = 0; l < LAC_EXACT_BITS; l++) {
    exact->diagonal[l] = l < bits ? gram[l * bits + l] : forbidden;
    for (int64_t k = 0; k < bits && l < bits; k++) {
      exact->back[l][k] = back[k * bits + l];
      exact->moves[0][l][k] = gram[l * bits + k];
      exact->moves[1][l][k] = -gram[l * bits + k];
    }
  }
  for (int digit = 0; digit < LAC_DIGITS; digit++) {
    for (int value = 0; value < LAC_DIGIT_VALUES; value++) {
      for (int bit = 0; bit < LAC_DIGIT_BITS; bit++) {
        for (int64_t k = 0; k < LAC_EXACT_BITS && value >> bit & 1; k++) {
          exact->gram[digit][value][k] += exact->moves[0][digit * LAC_DIGIT_BITS + bit][k];
        }
      }
    }
  }
}
