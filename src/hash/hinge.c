#include "hash/hinge.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* No branches: their outcome is anybody's guess. */
static inline float pull(float sign, float margin) {
  float slack = 1 - sign * margin, positive = slack > 0 ? slack : 0;
  return sign * (positive < 1 ? positive : 1);
}

static void hinge_plain(const lac_hinge *hinge, const uint64_t *codes, int64_t words, const int64_t *rows, int64_t n,
                        float *restrict factors) {
  const int64_t count = hinge->count;
  const float *restrict bias = hinge->bias, *restrict eta = hinge->eta;
  float *restrict total = hinge->total;
  for (int64_t i = 0; i < n; i++) {
    const uint64_t *code = codes + rows[i] * words;
    float *restrict factor = factors + i * count;
    for (int64_t j = 0; j < count; j++) {
      int32_t bit = 32 * hinge->half[j] + 31 - hinge->left[j];
      float sign = (float)(2 * (int)(code[bit / 64] >> (bit % 64) & 1) - 1);
      float step = pull(sign, factor[j] + bias[j]);
      total[j] += step;
      factor[j] = step * eta[j];
    }
  }
}

#if defined(__x86_64__)
/* A register of encoders stays while all rows pass it by. Shifted to the left, a bit of a code is the sign bit of a
 * number that is positive where the bit is not set: y t is then t with its sign turned by one exclusive or. */
#define AVX2 __attribute__((target("avx2")))

enum { LANES = 8 };

/* The first eight lanes of a register from p, or those that the mask has; zero in the others. */
AVX2 __attribute__((always_inline)) static inline __m256 some_floats(const float *p, __m256i mask, bool whole) {
  return whole ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, mask);
}

/* The encoders from `first` on, as many as the mask has lanes. */
AVX2 __attribute__((always_inline)) static inline void hinge_register(const lac_hinge *hinge, const uint64_t *codes,
                                                                      int64_t words, const int64_t *rows, int64_t n,
                                                                      int64_t first, __m256i mask, bool whole,
                                                                      float *factors) {
  const __m256 zero = _mm256_setzero_ps(), one = _mm256_set1_ps(1);
  const __m256i top = _mm256_set1_epi32(INT32_MIN);
  const __m256i half = _mm256_maskload_epi32(hinge->half + first, mask);
  const __m256i left = _mm256_maskload_epi32(hinge->left + first, mask);
  const __m256 bias = some_floats(hinge->bias + first, mask, whole);
  const __m256 eta = some_floats(hinge->eta + first, mask, whole);
  __m256 total = some_floats(hinge->total + first, mask, whole);
  for (int64_t i = 0; i < n; i++) {
    const int *code = (const int *)(const void *)(codes + rows[i] * words);
    float *factor = factors + i * hinge->count + first;
    __m256i bits = _mm256_sllv_epi32(_mm256_mask_i32gather_epi32(half, code, half, mask, sizeof *code), left);
    __m256 turn = _mm256_castsi256_ps(_mm256_andnot_si256(bits, top));
    __m256 margin = _mm256_add_ps(some_floats(factor, mask, whole), bias);
    __m256 slack = _mm256_sub_ps(one, _mm256_xor_ps(margin, turn));
    __m256 step = _mm256_xor_ps(_mm256_min_ps(_mm256_max_ps(slack, zero), one), turn);
    total = _mm256_add_ps(total, step);
    if (whole) {
      _mm256_storeu_ps(factor, _mm256_mul_ps(step, eta));
    } else {
      _mm256_maskstore_ps(factor, mask, _mm256_mul_ps(step, eta));
    }
  }
  _mm256_maskstore_ps(hinge->total + first, mask, total);
}

AVX2 static void hinge_avx2(const lac_hinge *hinge, const uint64_t *codes, int64_t words, const int64_t *rows,
                            int64_t n, float *factors) {
  int64_t j = 0;
  for (; j + LANES <= hinge->count; j += LANES) {
    hinge_register(hinge, codes, words, rows, n, j, _mm256_set1_epi32(-1), true, factors);
  }
  if (j < hinge->count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(hinge->count - j)), lane);
    hinge_register(hinge, codes, words, rows, n, j, mask, false, factors);
  }
}

#define TARGET __attribute__((target("avx2,avx512f,avx512bw,avx512vl")))

/* y t for t in lanes. */
TARGET static inline __m512 turned(__m512 t, __m512i turn) {
  return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(t), turn));
}

TARGET static void hinge_avx512(const lac_hinge *hinge, const uint64_t *codes, int64_t words, const int64_t *rows,
                                int64_t n, float *factors) {
  enum { WIDTH = 16 };
  const __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1);
  const __m512i top = _mm512_set1_epi32(INT32_MIN);
  for (int64_t j = 0; j < hinge->count; j += WIDTH) {
    int64_t lanes = hinge->count - j;
    const __mmask16 mask = lanes < WIDTH ? (__mmask16)((1U << lanes) - 1) : (__mmask16)0xffff;
    const __m512i half = _mm512_maskz_loadu_epi32(mask, hinge->half + j);
    const __m512i left = _mm512_maskz_loadu_epi32(mask, hinge->left + j);
    const __m512 bias = _mm512_maskz_loadu_ps(mask, hinge->bias + j), eta = _mm512_maskz_loadu_ps(mask, hinge->eta + j);
    __m512 total = _mm512_maskz_loadu_ps(mask, hinge->total + j);
    for (int64_t i = 0; i < n; i++) {
      const uint64_t *code = codes + rows[i] * words;
      float *factor = factors + i * hinge->count + j;
      __m512i bits = words == 1 ? _mm512_permutexvar_epi32(half, _mm512_set1_epi64((long long)*code))
                                : _mm512_mask_i32gather_epi32(half, mask, half, code, (int)sizeof(int32_t));
      __m512i turn = _mm512_andnot_si512(_mm512_sllv_epi32(bits, left), top);
      __m512 margin = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, factor), bias);
      __m512 slack = _mm512_sub_ps(one, turned(margin, turn));
      __m512 step = turned(_mm512_min_ps(_mm512_max_ps(slack, zero), one), turn);
      total = _mm512_add_ps(total, step);
      _mm512_mask_storeu_ps(factor, mask, _mm512_mul_ps(step, eta));
    }
    _mm512_mask_storeu_ps(hinge->total + j, mask, total);
  }
}
#endif

lac_hinge_kernel lac_hinge_kernel_of(lac_isa isa) {
#if defined(__x86_64__)
  if (isa == LAC_ISA_AVX512) {
    return hinge_avx512;
  }
  if (isa == LAC_ISA_AVX2) {
    return hinge_avx2;
  }
#endif
  (void)isa;
  return hinge_plain;
}
