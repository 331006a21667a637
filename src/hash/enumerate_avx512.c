#include "hash/enumerate.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma,popcnt,avx512f,avx512bw,avx512vl")))

typedef __m512 sixteen;

TARGET static inline sixteen load(const float *from) {
  return _mm512_loadu_ps(from);
}
TARGET static inline void store(float *to, sixteen v) {
  _mm512_storeu_ps(to, v);
}
TARGET static inline sixteen all(float value) {
  return _mm512_set1_ps(value);
}
TARGET static inline sixteen add(sixteen a, sixteen b) {
  return _mm512_add_ps(a, b);
}
TARGET static inline sixteen subtract(sixteen a, sixteen b) {
  return _mm512_sub_ps(a, b);
}
TARGET static inline sixteen multiply(sixteen a, sixteen b) {
  return _mm512_mul_ps(a, b);
}
TARGET static inline unsigned below(sixteen a, sixteen b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
TARGET static inline sixteen negated(sixteen v, unsigned mask) {
  return _mm512_mask_sub_ps(v, (__mmask16)mask, _mm512_setzero_ps(), v);
}
TARGET static inline float sum_of(sixteen v, unsigned mask) {
  __m512 kept = _mm512_maskz_mov_ps((__mmask16)mask, v);
  __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(kept), 1));
  __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(kept), high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

#include "hash/enumerate_points.h"

const lac_exact_kernels lac_exact_avx512 = {find_code, find_points};
#endif
