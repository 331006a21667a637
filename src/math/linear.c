#include "math/linear.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- plain C: eight partial sums, as the vector variants have them ---- */

static void plain_products(int64_t n, int64_t count, int64_t length, const float *x, const float *w, float *out,
                           int64_t ldo) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < count; j++) {
      const float *a = x + i * length, *b = w + j * length;
      float lanes[LAC_LANES] = {0};
      for (int64_t k = 0; k < length; k += LAC_LANES) {
        for (int64_t lane = 0; lane < LAC_LANES; lane++) {
          lanes[lane] += a[k + lane] * b[k + lane];
        }
      }
      out[i * ldo + j] =
          ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    }
  }
}

static void plain_accumulate(int64_t n, int64_t count, int64_t length, const float *x, const float *c, int64_t ldc,
                             float *w) {
  for (int64_t j = 0; j < count; j++) {
    for (int64_t i = 0; i < n; i++) {
      float factor = c[i * ldc + j];
      for (int64_t k = 0; k < length; k++) {
        w[j * length + k] += factor * x[i * length + k];
      }
    }
  }
}

static void plain_expand(int64_t length, const uint8_t *in, float scale, const float *shift, float *out) {
  for (int64_t i = 0; i < length; i++) {
    out[i] = scale * (float)in[i] + shift[i];
  }
}

static void plain_expand_products(int64_t n, int64_t count, int64_t length, const lac_byte_rows *rows, float *x,
                                  const float *w, float *out, int64_t ldo) {
  for (int64_t i = 0; i < n; i++) {
    float *row = x + i * length;
    plain_expand(rows->columns, rows->bytes + (size_t)i * rows->stride, rows->scale, rows->shift, row);
    memset(row + rows->columns, 0, (size_t)(length - rows->columns) * sizeof *row);
  }
  plain_products(n, count, length, x, w, out, ldo);
}

static void plain_add(int64_t length, double sign, const float *x, double *sums) {
  for (int64_t i = 0; i < length; i++) {
    sums[i] += sign * (double)x[i];
  }
}

static const lac_linear_kernels plain_kernels = {plain_products, plain_expand_products, plain_accumulate, plain_expand,
                                                 plain_add};

#if defined(__x86_64__)

#define LAC_AVX2 __attribute__((target("avx2,fma")))

LAC_AVX2 static inline float sum_lanes(__m256 v) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* Blocks of rows x vectors with one named register per product or per piece of a weight vector: arrays of registers are
 * kept in memory by some compilers. One accumulator per product, so that the order of its sum is the same in every
 * block shape. */
#define LAC_LOAD(p) _mm256_loadu_ps(p)

LAC_AVX2 static inline void products_4x3(int64_t length, const float *x, const float *w, float *out, int64_t ldo) {
  __m256 s00 = _mm256_setzero_ps(), s01 = s00, s02 = s00, s10 = s00, s11 = s00, s12 = s00;
  __m256 s20 = s00, s21 = s00, s22 = s00, s30 = s00, s31 = s00, s32 = s00;
  const float *x1 = x + length, *x2 = x1 + length, *x3 = x2 + length, *w1 = w + length, *w2 = w1 + length;
  for (int64_t k = 0; k < length; k += LAC_LANES) {
    __m256 b0 = LAC_LOAD(w + k), b1 = LAC_LOAD(w1 + k), b2 = LAC_LOAD(w2 + k), a = LAC_LOAD(x + k);
    s00 = _mm256_fmadd_ps(a, b0, s00);
    s01 = _mm256_fmadd_ps(a, b1, s01);
    s02 = _mm256_fmadd_ps(a, b2, s02);
    a = LAC_LOAD(x1 + k);
    s10 = _mm256_fmadd_ps(a, b0, s10);
    s11 = _mm256_fmadd_ps(a, b1, s11);
    s12 = _mm256_fmadd_ps(a, b2, s12);
    a = LAC_LOAD(x2 + k);
    s20 = _mm256_fmadd_ps(a, b0, s20);
    s21 = _mm256_fmadd_ps(a, b1, s21);
    s22 = _mm256_fmadd_ps(a, b2, s22);
    a = LAC_LOAD(x3 + k);
    s30 = _mm256_fmadd_ps(a, b0, s30);
    s31 = _mm256_fmadd_ps(a, b1, s31);
    s32 = _mm256_fmadd_ps(a, b2, s32);
  }
  out[0] = sum_lanes(s00), out[1] = sum_lanes(s01), out[2] = sum_lanes(s02);
  out += ldo;
  out[0] = sum_lanes(s10), out[1] = sum_lanes(s11), out[2] = sum_lanes(s12);
  out += ldo;
  out[0] = sum_lanes(s20), out[1] = sum_lanes(s21), out[2] = sum_lanes(s22);
  out += ldo;
  out[0] = sum_lanes(s30), out[1] = sum_lanes(s31), out[2] = sum_lanes(s32);
}

LAC_AVX2 static inline void products_4x2(int64_t length, const float *x, const float *w, float *out, int64_t ldo) {
  __m256 s00 = _mm256_setzero_ps(), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  const float *x1 = x + length, *x2 = x1 + length, *x3 = x2 + length, *w1 = w + length;
  for (int64_t k = 0; k < length; k += LAC_LANES) {
    __m256 b0 = LAC_LOAD(w + k), b1 = LAC_LOAD(w1 + k), a = LAC_LOAD(x + k);
    s00 = _mm256_fmadd_ps(a, b0, s00);
    s01 = _mm256_fmadd_ps(a, b1, s01);
    a = LAC_LOAD(x1 + k);
    s10 = _mm256_fmadd_ps(a, b0, s10);
    s11 = _mm256_fmadd_ps(a, b1, s11);
    a = LAC_LOAD(x2 + k);
    s20 = _mm256_fmadd_ps(a, b0, s20);
    s21 = _mm256_fmadd_ps(a, b1, s21);
    a = LAC_LOAD(x3 + k);
    s30 = _mm256_fmadd_ps(a, b0, s30);
    s31 = _mm256_fmadd_ps(a, b1, s31);
  }
  out[0] = sum_lanes(s00), out[1] = sum_lanes(s01);
  out += ldo;
  out[0] = sum_lanes(s10), out[1] = sum_lanes(s11);
  out += ldo;
  out[0] = sum_lanes(s20), out[1] = sum_lanes(s21);
  out += ldo;
  out[0] = sum_lanes(s30), out[1] = sum_lanes(s31);
}

LAC_AVX2 static inline void products_4x1(int64_t length, const float *x, const float *w, float *out, int64_t ldo) {
  __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t k = 0; k < length; k += LAC_LANES) {
    __m256 b = LAC_LOAD(w + k);
    s0 = _mm256_fmadd_ps(LAC_LOAD(x + k), b, s0);
    s1 = _mm256_fmadd_ps(LAC_LOAD(x + length + k), b, s1);
    s2 = _mm256_fmadd_ps(LAC_LOAD(x + 2 * length + k), b, s2);
    s3 = _mm256_fmadd_ps(LAC_LOAD(x + 3 * length + k), b, s3);
  }
  out[0] = sum_lanes(s0);
  out[ldo] = sum_lanes(s1);
  out[2 * ldo] = sum_lanes(s2);
  out[3 * ldo] = sum_lanes(s3);
}

LAC_AVX2 static inline void products_1x1(int64_t length, const float *x, const float *w, float *out) {
  __m256 sum = _mm256_setzero_ps();
  for (int64_t k = 0; k < length; k += LAC_LANES) {
    sum = _mm256_fmadd_ps(LAC_LOAD(x + k), LAC_LOAD(w + k), sum);
  }
  *out = sum_lanes(sum);
}

LAC_AVX2 static void avx2_products(int64_t n, int64_t count, int64_t length, const float *x, const float *w, float *out,
                                   int64_t ldo) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    int64_t j = 0;
    for (; j + 3 <= count && j + 4 != count; j += 3) {
      products_4x3(length, x + i * length, w + j * length, out + i * ldo + j, ldo);
    }
    for (; j + 2 <= count; j += 2) { /* two or four are left */
      products_4x2(length, x + i * length, w + j * length, out + i * ldo + j, ldo);
    }
    if (j < count) {
      products_4x1(length, x + i * length, w + j * length, out + i * ldo + j, ldo);
    }
  }
  for (; i < n; i++) {
    for (int64_t j = 0; j < count; j++) {
      products_1x1(length, x + i * length, w + j * length, out + i * ldo + j);
    }
  }
}

/* A register of bytes as floats. */
LAC_AVX2 static inline __m256 avx2_expanded(const uint8_t *in, const float *shift, __m256 factor) {
  __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)in)));
  return _mm256_fmadd_ps(factor, value, _mm256_loadu_ps(shift));
}

/* Two rows times four vectors; the conversion of the bytes hides behind the multiply-adds. Columns are a multiple of
 * LAC_LANES. */
LAC_AVX2 static inline void expand_2x4(const lac_byte_rows *rows, float *x, const float *w, float *out, int64_t ldo) {
  __m256 s00 = _mm256_setzero_ps(), s01 = s00, s02 = s00, s03 = s00, s10 = s00, s11 = s00, s12 = s00, s13 = s00;
  const int64_t length = rows->columns;
  const uint8_t *in = rows->bytes, *in1 = in + rows->stride;
  const __m256 factor = _mm256_set1_ps(rows->scale);
  const float *w1 = w + length, *w2 = w1 + length, *w3 = w2 + length;
  float *x1 = x + length;
  for (int64_t k = 0; k < length; k += LAC_LANES) {
    __m256 a0 = avx2_expanded(in + k, rows->shift + k, factor), a1 = avx2_expanded(in1 + k, rows->shift + k, factor);
    _mm256_storeu_ps(x + k, a0);
    _mm256_storeu_ps(x1 + k, a1);
    __m256 b = LAC_LOAD(w + k);
    s00 = _mm256_fmadd_ps(a0, b, s00);
    s10 = _mm256_fmadd_ps(a1, b, s10);
    b = LAC_LOAD(w1 + k);
    s01 = _mm256_fmadd_ps(a0, b, s01);
    s11 = _mm256_fmadd_ps(a1, b, s11);
    b = LAC_LOAD(w2 + k);
    s02 = _mm256_fmadd_ps(a0, b, s02);
    s12 = _mm256_fmadd_ps(a1, b, s12);
    b = LAC_LOAD(w3 + k);
    s03 = _mm256_fmadd_ps(a0, b, s03);
    s13 = _mm256_fmadd_ps(a1, b, s13);
  }
  out[0] = sum_lanes(s00), out[1] = sum_lanes(s01), out[2] = sum_lanes(s02), out[3] = sum_lanes(s03);
  out += ldo;
  out[0] = sum_lanes(s10), out[1] = sum_lanes(s11), out[2] = sum_lanes(s12), out[3] = sum_lanes(s13);
}

/* Pieces of four weight vectors stay in registers while all rows are added to them: seven loads for twelve
 * multiply-adds, of which two of either go in a cycle. */
LAC_AVX2 static inline void accumulate_4x3(int64_t n, int64_t length, const float *x, const float *c, int64_t ldc,
                                           float *w) {
  float *w1 = w + length, *w2 = w1 + length, *w3 = w2 + length;
  __m256 s00 = LAC_LOAD(w), s01 = LAC_LOAD(w + 8), s02 = LAC_LOAD(w + 16);
  __m256 s10 = LAC_LOAD(w1), s11 = LAC_LOAD(w1 + 8), s12 = LAC_LOAD(w1 + 16);
  __m256 s20 = LAC_LOAD(w2), s21 = LAC_LOAD(w2 + 8), s22 = LAC_LOAD(w2 + 16);
  __m256 s30 = LAC_LOAD(w3), s31 = LAC_LOAD(w3 + 8), s32 = LAC_LOAD(w3 + 16);
  for (int64_t i = 0; i < n; i++) {
    __m256 a0 = LAC_LOAD(x), a1 = LAC_LOAD(x + 8), a2 = LAC_LOAD(x + 16), factor = _mm256_broadcast_ss(c);
    s00 = _mm256_fmadd_ps(factor, a0, s00);
    s01 = _mm256_fmadd_ps(factor, a1, s01);
    s02 = _mm256_fmadd_ps(factor, a2, s02);
    factor = _mm256_broadcast_ss(c + 1);
    s10 = _mm256_fmadd_ps(factor, a0, s10);
    s11 = _mm256_fmadd_ps(factor, a1, s11);
    s12 = _mm256_fmadd_ps(factor, a2, s12);
    factor = _mm256_broadcast_ss(c + 2);
    s20 = _mm256_fmadd_ps(factor, a0, s20);
    s21 = _mm256_fmadd_ps(factor, a1, s21);
    s22 = _mm256_fmadd_ps(factor, a2, s22);
    factor = _mm256_broadcast_ss(c + 3);
    s30 = _mm256_fmadd_ps(factor, a0, s30);
    s31 = _mm256_fmadd_ps(factor, a1, s31);
    s32 = _mm256_fmadd_ps(factor, a2, s32);
    x += length;
    c += ldc;
  }
  _mm256_storeu_ps(w, s00);
  _mm256_storeu_ps(w + 8, s01);
  _mm256_storeu_ps(w + 16, s02);
  _mm256_storeu_ps(w1, s10);
  _mm256_storeu_ps(w1 + 8, s11);
  _mm256_storeu_ps(w1 + 16, s12);
  _mm256_storeu_ps(w2, s20);
  _mm256_storeu_ps(w2 + 8, s21);
  _mm256_storeu_ps(w2 + 16, s22);
  _mm256_storeu_ps(w3, s30);
  _mm256_storeu_ps(w3 + 8, s31);
  _mm256_storeu_ps(w3 + 16, s32);
}

/* One register of each of four vectors: the columns that are left. */
LAC_AVX2 static inline void accumulate_4x1(int64_t n, int64_t length, const float *x, const float *c, int64_t ldc,
                                           float *w) {
  float *w1 = w + length, *w2 = w1 + length, *w3 = w2 + length;
  __m256 s0 = LAC_LOAD(w), s1 = LAC_LOAD(w1), s2 = LAC_LOAD(w2), s3 = LAC_LOAD(w3);
  for (int64_t i = 0; i < n; i++) {
    __m256 a = LAC_LOAD(x);
    s0 = _mm256_fmadd_ps(_mm256_broadcast_ss(c), a, s0);
    s1 = _mm256_fmadd_ps(_mm256_broadcast_ss(c + 1), a, s1);
    s2 = _mm256_fmadd_ps(_mm256_broadcast_ss(c + 2), a, s2);
    s3 = _mm256_fmadd_ps(_mm256_broadcast_ss(c + 3), a, s3);
    x += length;
    c += ldc;
  }
  _mm256_storeu_ps(w, s0);
  _mm256_storeu_ps(w1, s1);
  _mm256_storeu_ps(w2, s2);
  _mm256_storeu_ps(w3, s3);
}

/* A piece of one vector; eight sums hide the latency of an addition. */
LAC_AVX2 static inline void accumulate_1x8(int64_t n, int64_t length, const float *x, const float *c, int64_t ldc,
                                           float *w) {
  __m256 s0 = LAC_LOAD(w), s1 = LAC_LOAD(w + 8), s2 = LAC_LOAD(w + 16), s3 = LAC_LOAD(w + 24);
  __m256 s4 = LAC_LOAD(w + 32), s5 = LAC_LOAD(w + 40), s6 = LAC_LOAD(w + 48), s7 = LAC_LOAD(w + 56);
  for (int64_t i = 0; i < n; i++) {
    __m256 factor = _mm256_broadcast_ss(c);
    s0 = _mm256_fmadd_ps(factor, LAC_LOAD(x), s0);
    s1 = _mm256_fmadd_ps(factor, LAC_LOAD(x + 8), s1);
    s2 = _mm256_fmadd_ps(factor, LAC_LOAD(x + 16), s2);
    s3 = _mm256_fmadd_ps(factor, LAC_LOAD(x + 24), s3);
    s4 = _mm256_fmadd_ps(factor, LAC_LOAD(x + 32), s4);
    s5 = _mm256_fmadd_ps(factor, LAC_LOAD(x + 40), s5);
    s6 = _mm256_fmadd_ps(factor, LAC_LOAD(x + 48), s6);
    s7 = _mm256_fmadd_ps(factor, LAC_LOAD(x + 56), s7);
    x += length;
    c += ldc;
  }
  _mm256_storeu_ps(w, s0);
  _mm256_storeu_ps(w + 8, s1);
  _mm256_storeu_ps(w + 16, s2);
  _mm256_storeu_ps(w + 24, s3);
  _mm256_storeu_ps(w + 32, s4);
  _mm256_storeu_ps(w + 40, s5);
  _mm256_storeu_ps(w + 48, s6);
  _mm256_storeu_ps(w + 56, s7);
}

/* One register of one vector: the columns that are left. */
LAC_AVX2 static inline void accumulate_1x1(int64_t n, int64_t length, const float *x, const float *c, int64_t ldc,
                                           float *w) {
  __m256 sum = LAC_LOAD(w);
  for (int64_t i = 0; i < n; i++) {
    sum = _mm256_fmadd_ps(_mm256_broadcast_ss(c + i * ldc), LAC_LOAD(x + i * length), sum);
  }
  _mm256_storeu_ps(w, sum);
}

LAC_AVX2 static void avx2_accumulate(int64_t n, int64_t count, int64_t length, const float *x, const float *c,
                                     int64_t ldc, float *w) {
  enum { PIECE = 3 * LAC_LANES };
  int64_t fours = count / 4 * 4, k = 0;
  for (; k + PIECE <= length; k += PIECE) {
    for (int64_t j = 0; j < fours; j += 4) {
      accumulate_4x3(n, length, x + k, c + j, ldc, w + j * length + k);
    }
  }
  for (; k < length; k += LAC_LANES) {
    for (int64_t j = 0; j < fours; j += 4) {
      accumulate_4x1(n, length, x + k, c + j, ldc, w + j * length + k);
    }
  }
  for (int64_t j = fours; j < count; j++) {
    for (k = 0; k + 8 * LAC_LANES <= length; k += 8 * LAC_LANES) {
      accumulate_1x8(n, length, x + k, c + j, ldc, w + j * length + k);
    }
    for (; k < length; k += LAC_LANES) {
      accumulate_1x1(n, length, x + k, c + j, ldc, w + j * length + k);
    }
  }
}

LAC_AVX2 static void avx2_expand(int64_t length, const uint8_t *in, float scale, const float *shift, float *out) {
  __m256 factor = _mm256_set1_ps(scale);
  int64_t i = 0;
  for (; i + LAC_LANES <= length; i += LAC_LANES) {
    _mm256_storeu_ps(out + i, avx2_expanded(in + i, shift + i, factor));
  }
  for (; i < length; i++) {
    out[i] = fmaf(scale, (float)in[i], shift[i]);
  }
}

LAC_AVX2 static void avx2_expand_products(int64_t n, int64_t count, int64_t length, const lac_byte_rows *rows, float *x,
                                          const float *w, float *out, int64_t ldo) {
  enum { VECTORS = 4 };
  lac_byte_rows rest = *rows;
  int64_t i = 0;
  if (count >= VECTORS && rows->columns == length) {
    for (; i + 2 <= n; i += 2) {
      expand_2x4(&rest, x + i * length, w, out + i * ldo, ldo);
      rest.bytes += 2 * rows->stride;
    }
    avx2_products(i, count - VECTORS, length, x, w + VECTORS * length, out + VECTORS, ldo);
  }
  for (int64_t r = i; r < n; r++) {
    avx2_expand(rows->columns, rest.bytes, rows->scale, rows->shift, x + r * length);
    memset(x + r * length + rows->columns, 0, (size_t)(length - rows->columns) * sizeof *x);
    rest.bytes += rows->stride;
  }
  avx2_products(n - i, count, length, x + i * length, w, out + i * ldo, ldo);
}

/* Bound by the second-level cache, from which the sums come and to which they go. */
LAC_AVX2 static void avx2_add(int64_t length, double sign, const float *x, double *sums) {
  __m256d factor = _mm256_set1_pd(sign);
  int64_t i = 0;
  for (; i + 4 <= length; i += 4) {
    __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
    _mm256_storeu_pd(sums + i, _mm256_fmadd_pd(factor, value, _mm256_loadu_pd(sums + i)));
  }
  plain_add(length - i, sign, x + i, sums + i);
}

static const lac_linear_kernels avx2_kernels = {avx2_products, avx2_expand_products, avx2_accumulate, avx2_expand,
                                                avx2_add};
#endif

const lac_linear_kernels *lac_linear(lac_isa isa) {
#if defined(__x86_64__)
  if (isa == LAC_ISA_AVX512) {
    return &lac_linear_avx512;
  }
  if (isa == LAC_ISA_AVX2) {
    return &avx2_kernels;
  }
#else
  (void)isa;
#endif
  return &plain_kernels;
}
