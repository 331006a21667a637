#include "hash/flips.h"

#include "math/linear.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* More flips than this per bit mean that rounding has made a cycle: the state is as good as it gets. */
enum { LAC_FLIPS_PER_BIT = 64 };

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
#endif

lac_flip_fn lac_flip_kernel(lac_isa isa) {
#if defined(__x86_64__)
  if (isa >= LAC_ISA_AVX2) {
    return avx2_flips;
  }
#else
  (void)isa;
#endif
  return plain_flips;
}
