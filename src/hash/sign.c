#include "hash/sign.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static bool sign_plain(const float *y, const float *bias, int64_t bytes, uint8_t *code) {
  float trace = 0; /* 0 * t is 0 for finite t and NaN otherwise */
  for (int64_t i = 0; i < bytes; i++) {
    unsigned bits = 0;
    for (int b = 0; b < 8; b++) {
      float t = y[8 * i + b] + bias[8 * i + b];
      bits |= (unsigned)(t >= 0) << b;
      trace += 0 * t;
    }
    code[i] = (uint8_t)bits;
  }
  return trace == 0;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool sign_avx2(const float *y, const float *bias, int64_t bytes, uint8_t *code) {
  const __m256 zero = _mm256_setzero_ps();
  __m256 trace = zero;
  for (int64_t i = 0; i < bytes; i++) {
    __m256 t = _mm256_add_ps(_mm256_loadu_ps(y + 8 * i), _mm256_loadu_ps(bias + 8 * i));
    code[i] = (uint8_t)_mm256_movemask_ps(_mm256_cmp_ps(t, zero, _CMP_GE_OQ));
    trace = _mm256_add_ps(trace, _mm256_mul_ps(zero, t));
  }
  return _mm256_movemask_ps(_mm256_cmp_ps(trace, zero, _CMP_EQ_OQ)) == 0xFF;
}
#endif

lac_sign_kernel lac_sign_kernel_of(lac_isa isa) {
#if defined(__x86_64__)
  if (isa != LAC_ISA_PLAIN) {
    return sign_avx2; /* the time is in the product before it: wider registers would not be felt */
  }
#endif
  (void)isa;
  return sign_plain;
}
