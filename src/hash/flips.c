#include "hash/flips.h"

#include <string.h>

#include "math/linear.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* More flips than this per bit mean that rounding has made a cycle: the state is as good as it gets. */
enum { LAC_FLIPS_PER_BIT = 64 };

/* ---- start and value, for a compiler that vectorises ---- */

#define INLINE __attribute__((always_inline)) static inline

enum { WORD = 64, HALF = 32, PIECE = 32 };

/* v += rows of G for the bits of z, in their order; a piece of v at a time stays in registers. */
INLINE void add_rows(const lac_flips *problem, const uint64_t *z, int64_t words, int64_t first, int64_t lanes,
                     float *v) {
  float sums[PIECE];
  memcpy(sums, v + first, (size_t)lanes * sizeof *sums);
  for (int64_t word = 0; word < words; word++) {
    for (uint64_t rest = z[word]; rest; rest &= rest - 1) {
      const float *row = problem->gram + (word * WORD + __builtin_ctzll(rest)) * problem->padded + first;
#pragma GCC unroll 1
      for (int64_t k = 0; k < lanes; k++) {
        sums[k] += row[k];
      }
    }
  }
  memcpy(v + first, sums, (size_t)lanes * sizeof *sums);
}

INLINE void start_any(const lac_flips *problem, const uint64_t *z, const uint64_t *h, float mu, const float *c,
                      float *sign, float *cost, float *v) {
  int64_t bits = problem->bits, padded = problem->padded, words = (bits + WORD - 1) / WORD;
  for (int64_t half = 0; half < 2 * words; half++) {
    uint32_t set = (uint32_t)(z[half / 2] >> (half % 2 * HALF));
    uint32_t differ = set ^ (uint32_t)(h[half / 2] >> (half % 2 * HALF));
    for (int j = 0; j < HALF; j++) {
      sign[half * HALF + j] = (float)(1 - 2 * (int)(set >> j & 1));
      cost[half * HALF + j] = mu * (float)(1 - 2 * (int)(differ >> j & 1));
    }
  }
  for (int64_t l = 0; l < padded; l++) {
    v[l] = -c[l];
  }
  for (int64_t l = bits; l < padded; l++) {
    v[l] = sign[l] = cost[l] = 0;
  }
  int64_t first = 0;
  for (; first + PIECE <= padded; first += PIECE) {
    add_rows(problem, z, words, first, PIECE, v);
  }
  for (; first < padded; first += LAC_LANES) {
    add_rows(problem, z, words, first, LAC_LANES, v);
  }
}

typedef float floats __attribute__((vector_size(LAC_LANES * sizeof(float))));
typedef int32_t masks __attribute__((vector_size(LAC_LANES * sizeof(int32_t))));
typedef double doubles __attribute__((vector_size(LAC_LANES * sizeof(double))));
typedef int64_t wide_masks __attribute__((vector_size(LAC_LANES * sizeof(int64_t))));

/* Summed in eight lanes, which are added in the end. */
INLINE double value_any(const lac_flips *problem, const float *sign, const float *cost, const float *v, const float *c,
                        uint64_t *code, int64_t *distance) {
  int64_t padded = problem->padded, words = (problem->bits + WORD - 1) / WORD;
  int differ = 0;
  doubles sums = {0};
  for (int64_t l = 0; l < padded; l += LAC_LANES) {
    floats s, first, second;
    memcpy(&s, sign + l, sizeof s);
    memcpy(&first, v + l, sizeof first);
    memcpy(&second, c + l, sizeof second);
    doubles term = __builtin_convertvector(first, doubles) - __builtin_convertvector(second, doubles);
    masks negative = s < 0;
    sums += (doubles)((wide_masks)term & __builtin_convertvector(negative, wide_masks));
  }
  for (int64_t half = 0; half < 2 * words; half++) {
    uint32_t set = 0;
    for (int j = 0; j < HALF; j++) {
      set |= (uint32_t)(sign[half * HALF + j] < 0) << j;
    }
    for (int j = 0; j < HALF; j++) {
      differ += cost[half * HALF + j] < 0;
    }
    code[half / 2] = (half % 2 ? code[half / 2] : 0) | (uint64_t)set << (half % 2 * HALF);
  }
  *distance = differ;
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

static void plain_start(const lac_flips *problem, const uint64_t *z, const uint64_t *h, float mu, const float *c,
                        float *sign, float *cost, float *v) {
  start_any(problem, z, h, mu, c, sign, cost, v);
}

static double plain_value(const lac_flips *problem, const float *sign, const float *cost, const float *v,
                          const float *c, uint64_t *code, int64_t *distance) {
  return value_any(problem, sign, cost, v, c, code, distance);
}

/* ---- flips ---- */

static inline void flip(const lac_flips *problem, int64_t l, float *sign, float *cost, float *v) {
  const float *row = problem->gram + l * problem->padded;
  float s = sign[l];
  for (int64_t k = 0; k < problem->padded; k++) {
    v[k] += s * row[k];
  }
  sign[l] = -s;
  cost[l] = -cost[l];
}

static int64_t plain_flips(const lac_flips *problem, float *sign, float *cost, float *v) {
  int64_t flips = 0, standing = 0, l = 0;
  while (standing < problem->bits && flips < LAC_FLIPS_PER_BIT * problem->bits) {
    float change = problem->diagonal[l] + cost[l] + 2 * sign[l] * v[l];
    if (change < -problem->threshold) {
      flip(problem, l, sign, cost, v);
      flips++;
      standing = 0;
    }
    standing++;
    l = l + 1 == problem->bits ? 0 : l + 1;
  }
  return flips;
}

#if defined(__x86_64__)
#define LAC_AVX2 __attribute__((target("avx2,fma")))

/* Which of the eight bits from l on would gain. No fused operation: the same bits as plain C. */
LAC_AVX2 static inline unsigned gains(const lac_flips *problem, int64_t l, const float *sign, const float *cost,
                                      const float *v, __m256 limit) {
  __m256 fixed = _mm256_add_ps(_mm256_loadu_ps(problem->diagonal + l), _mm256_loadu_ps(cost + l));
  __m256 twice = _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(2), _mm256_loadu_ps(sign + l)), _mm256_loadu_ps(v + l));
  return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(_mm256_add_ps(fixed, twice), limit, _CMP_LT_OQ));
}

LAC_AVX2 static inline void flip_avx2(const lac_flips *problem, int64_t l, float *sign, float *cost, float *v) {
  const float *row = problem->gram + l * problem->padded;
  __m256 s = _mm256_broadcast_ss(sign + l);
  for (int64_t k = 0; k < problem->padded; k += LAC_LANES) {
    _mm256_storeu_ps(v + k, _mm256_add_ps(_mm256_loadu_ps(v + k), _mm256_mul_ps(s, _mm256_loadu_ps(row + k))));
  }
  sign[l] = -sign[l];
  cost[l] = -cost[l];
}

/* The same sequence of flips as plain C: eight bits are judged at once, and those behind a flip are judged anew. */
LAC_AVX2 static int64_t avx2_flips(const lac_flips *problem, float *sign, float *cost, float *v) {
  __m256 limit = _mm256_set1_ps(-problem->threshold);
  int64_t flips = 0, most = LAC_FLIPS_PER_BIT * problem->bits, last = -1; /* last: the bit flipped last */
  for (;;) {
    int64_t before = flips;
    for (int64_t l = 0; l < problem->padded; l += LAC_LANES) {
      unsigned open = 0xff;
      unsigned mask;
      while ((mask = gains(problem, l, sign, cost, v, limit) & open) != 0) {
        int bit = __builtin_ctz(mask);
        flip_avx2(problem, l + bit, sign, cost, v);
        last = l + bit;
        flips++;
        open = bit == 7 ? 0 : 0xffU << (bit + 1);
        if (flips == most) {
          return flips;
        }
      }
      if (last >= 0 && flips == before && last < l) {
        return flips; /* a whole round since the last flip */
      }
    }
    if (flips == before) {
      return flips;
    }
  }
}

LAC_AVX2 static void avx2_start(const lac_flips *problem, const uint64_t *z, const uint64_t *h, float mu,
                                const float *c, float *sign, float *cost, float *v) {
  start_any(problem, z, h, mu, c, sign, cost, v);
}

LAC_AVX2 static double avx2_value(const lac_flips *problem, const float *sign, const float *cost, const float *v,
                                  const float *c, uint64_t *code, int64_t *distance) {
  return value_any(problem, sign, cost, v, c, code, distance);
}

#define LAC_AVX512 __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl")))

LAC_AVX512 static void avx512_start(const lac_flips *problem, const uint64_t *z, const uint64_t *h, float mu,
                                    const float *c, float *sign, float *cost, float *v) {
  start_any(problem, z, h, mu, c, sign, cost, v);
}

LAC_AVX512 static double avx512_value(const lac_flips *problem, const float *sign, const float *cost, const float *v,
                                      const float *c, uint64_t *code, int64_t *distance) {
  return value_any(problem, sign, cost, v, c, code, distance);
}
#endif

const lac_flip_kernels *lac_flip_kernels_of(lac_isa isa) {
  static const lac_flip_kernels plain = {plain_start, plain_flips, plain_value};
#if defined(__x86_64__)
  static const lac_flip_kernels avx2 = {avx2_start, avx2_flips, avx2_value};
  static const lac_flip_kernels avx512 = {avx512_start, avx2_flips, avx512_value};
  if (isa >= LAC_ISA_AVX2) {
    return isa == LAC_ISA_AVX512 ? &avx512 : &avx2;
  }
#else
  (void)isa;
#endif
  return &plain;
}
