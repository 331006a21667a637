#include "hash/enumerate.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma,popcnt")))

typedef struct sixteen {
  __m256 low, high;
} sixteen;

TARGET static inline sixteen load(const float *from) {
  return (sixteen){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
TARGET static inline void store(float *to, sixteen v) {
  _mm256_storeu_ps(to, v.low);
  _mm256_storeu_ps(to + 8, v.high);
}
TARGET static inline sixteen all(float value) {
  __m256 eight = _mm256_set1_ps(value);
  return (sixteen){eight, eight};
}
TARGET static inline sixteen add(sixteen a, sixteen b) {
  return (sixteen){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
TARGET static inline sixteen subtract(sixteen a, sixteen b) {
  return (sixteen){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
TARGET static inline sixteen multiply(sixteen a, sixteen b) {
  return (sixteen){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
TARGET static inline unsigned below(sixteen a, sixteen b) {
  unsigned low = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ));
  return low | (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)) << 8;
}

/* Ones in the lanes whose bit of the mask, from `first` on, is set. */
TARGET static inline __m256 lanes_of(unsigned mask, int first) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  __m256i kept = _mm256_and_si256(_mm256_set1_epi32((int)(mask >> first)), bits);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(kept, bits));
}
TARGET static inline sixteen negated(sixteen v, unsigned mask) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return (sixteen){_mm256_xor_ps(v.low, _mm256_and_ps(lanes_of(mask, 0), sign)),
                   _mm256_xor_ps(v.high, _mm256_and_ps(lanes_of(mask, 8), sign))};
}
TARGET static inline float sum_of(sixteen v, unsigned mask) {
  __m256 eight = _mm256_add_ps(_mm256_and_ps(v.low, lanes_of(mask, 0)), _mm256_and_ps(v.high, lanes_of(mask, 8)));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#include "hash/enumerate_points.h"

const lac_exact_kernels lac_exact_avx2 = {find_code, find_points};
#endif
