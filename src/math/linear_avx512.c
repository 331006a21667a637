#include "math/linear.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Tiles of 8 x 2 products and of 8 vectors x 3 registers of a gradient: 16 and 24 accumulators hide the latency of the
 * multiply-add units, which are the bound (10 loads for 16 multiply-adds, 11 for 24, two of either a cycle).
 *
 * A product is one register of 16 partial sums whatever the tile, folded in halves at the end: lane i with i + 8, then
 * i + 4, i + 2, i + 1. All functions are inlined with constant shapes, so that the arrays are registers. */
#define TARGET __attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl")))
#define INLINE TARGET __attribute__((always_inline)) static inline

enum { WIDTH = 16, AHEAD = 4096 }; /* floats of a register; bytes that expansion reads ahead */

/* Lengths are multiples of LAC_LANES: half a register may be left. */
INLINE __mmask16 lanes_left(int64_t left) {
  return left < WIDTH ? (__mmask16)((1U << left) - 1) : (__mmask16)0xffff;
}

INLINE float sum_lanes(__m512 v) {
  __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(v), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* Halves of a, then of b. */
INLINE __m512 fold_halves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

INLINE __m512 fold_quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Sums of the lanes of four registers, four partial sums of each left. */
INLINE __m512 fold_four(const __m512 *s) {
  return fold_quarters(fold_halves(s[0], s[1]), fold_halves(s[2], s[3]));
}

/* Element 4 i + j of the result is the sum of the lanes of s[4 j + i]. */
INLINE __m512 sums_of_16(const __m512 *s) {
  __m512 a = fold_four(s), b = fold_four(s + 4), c = fold_four(s + 8), d = fold_four(s + 12);
  __m512 ab = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  __m512 cd = _mm512_add_ps(_mm512_shuffle_ps(c, d, 0x44), _mm512_shuffle_ps(c, d, 0xee));
  return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x88), _mm512_shuffle_ps(ab, cd, 0xdd));
}

/* s[r + rows v] += the products of one register of each row and vector. */
INLINE void multiply(int rows, int vectors, int64_t length, const float *x, const float *w, __mmask16 mask, __m512 *s) {
  __m512 b[8];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
    b[v] = _mm512_maskz_loadu_ps(mask, w + v * length);
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; r++) {
    __m512 a = _mm512_maskz_loadu_ps(mask, x + r * length);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      s[r + rows * v] = _mm512_fmadd_ps(a, b[v], s[r + rows * v]);
    }
  }
}

INLINE void clear_sums(__m512 *s) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    s[i] = _mm512_setzero_ps();
  }
}

/* The sums of the lanes of s[r + rows v]. */
INLINE void store_sums(int rows, int vectors, const __m512 *s, float *out, int64_t ldo) {
  float sums[16];
  _mm512_storeu_ps(sums, sums_of_16(s));
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < vectors; v++) {
      int place = r + rows * v;
      out[r * ldo + v] = sums[place % 4 * 4 + place / 4];
    }
  }
}

INLINE void products_tile(int rows, int vectors, int64_t length, const float *x, const float *w, float *out,
                          int64_t ldo) {
  __m512 s[16];
  clear_sums(s);
  int64_t k = 0;
  for (; k + WIDTH <= length; k += WIDTH) {
    multiply(rows, vectors, length, x + k, w + k, 0xffff, s);
  }
  if (k < length) {
    multiply(rows, vectors, length, x + k, w + k, lanes_left(length - k), s);
  }
  store_sums(rows, vectors, s, out, ldo);
}

TARGET static void one_product(int64_t length, const float *x, const float *w, float *out) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t k = 0; k < length; k += WIDTH) {
    __mmask16 mask = lanes_left(length - k);
    sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, x + k), _mm512_maskz_loadu_ps(mask, w + k), sum);
  }
  *out = sum_lanes(sum);
}

TARGET static void products(int64_t n, int64_t count, int64_t length, const float *x, const float *w, float *out,
                            int64_t ldo) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    int64_t j = 0;
    for (; j + 2 <= count; j += 2) {
      products_tile(8, 2, length, x + i * length, w + j * length, out + i * ldo + j, ldo);
    }
    if (j < count) {
      products_tile(8, 1, length, x + i * length, w + j * length, out + i * ldo + j, ldo);
    }
  }
  for (; i < n; i++) { /* a few rows, and often many vectors: gradients along the preconditioner's directions */
    int64_t j = 0;
    for (; j + 8 <= count; j += 8) {
      products_tile(1, 8, length, x + i * length, w + j * length, out + i * ldo + j, ldo);
    }
    for (; j < count; j++) {
      one_product(length, x + i * length, w + j * length, out + i * ldo + j);
    }
  }
}

/* A register of bytes as floats, of which `mask` has the lanes; the others become zero. */
INLINE __m512 expanded(const uint8_t *in, const float *shift, __m512 factor, __mmask16 mask) {
  __m512 value = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, in)));
  return _mm512_fmadd_ps(factor, value, _mm512_maskz_loadu_ps(mask, shift));
}

/* One register of each of `tall` rows from its bytes, kept in x, times one of each of `vectors` vectors. */
INLINE void expand_multiply(int tall, int vectors, int64_t length, const lac_byte_rows *rows, int64_t k, float *x,
                            const float *w, __mmask16 bytes, __mmask16 mask, __m512 *s) {
  __m512 a[8];
#pragma GCC unroll 8
  for (int r = 0; r < tall; r++) {
    const uint8_t *in = rows->bytes + (size_t)r * rows->stride;
    if (k % 64 == 0) {
      _mm_prefetch((const char *)(const void *)(in + k) + AHEAD, _MM_HINT_T0);
    }
    a[r] = expanded(in + k, rows->shift + k, _mm512_set1_ps(rows->scale), bytes);
    _mm512_mask_storeu_ps(x + r * length + k, mask, a[r]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
    __m512 b = _mm512_maskz_loadu_ps(mask, w + v * length + k);
#pragma GCC unroll 8
    for (int r = 0; r < tall; r++) {
      s[r + tall * v] = _mm512_fmadd_ps(a[r], b, s[r + tall * v]);
    }
  }
}

/* The conversion of the bytes hides behind the multiply-adds: with all 16 sums over 2 rows and 8 vectors it is made
 * once for 8 of them, with 4 and 4 for 4; 8 rows of one vector are eight streams of bytes. */
INLINE void expand_tile(int tall, int vectors, int64_t length, const lac_byte_rows *rows, float *x, const float *w,
                        float *out, int64_t ldo) {
  __m512 s[16];
  clear_sums(s);
  int64_t k = 0;
  for (; k + WIDTH <= rows->columns; k += WIDTH) {
    expand_multiply(tall, vectors, length, rows, k, x, w, 0xffff, 0xffff, s);
  }
  if (k < length) {
    __mmask16 bytes = (__mmask16)((1U << (rows->columns - k)) - 1);
    expand_multiply(tall, vectors, length, rows, k, x, w, bytes, lanes_left(length - k), s);
  }
  store_sums(tall, vectors, s, out, ldo);
}

/* The first `vectors` vectors by tiles, while x is made; the others from x. */
INLINE void expand_by_tiles(int tall, int vectors, int64_t n, int64_t count, int64_t length, lac_byte_rows rows,
                            float *x, const float *w, float *out, int64_t ldo) {
  int64_t i = 0;
  for (; i + tall <= n; i += tall) {
    expand_tile(tall, vectors, length, &rows, x + i * length, w, out + i * ldo, ldo);
    rows.bytes += (size_t)tall * rows.stride;
  }
  if (count > vectors) {
    products(i, count - vectors, length, x, w + vectors * length, out + vectors, ldo);
  }
  for (; i < n; i++) {
    expand_tile(1, vectors, length, &rows, x + i * length, w, out + i * ldo, ldo);
    products(1, count - vectors, length, x + i * length, w + vectors * length, out + i * ldo + vectors, ldo);
    rows.bytes += rows.stride;
  }
}

TARGET static void expand_products(int64_t n, int64_t count, int64_t length, const lac_byte_rows *rows, float *x,
                                   const float *w, float *out, int64_t ldo) {
  if (count >= 8) {
    expand_by_tiles(2, 8, n, count, length, *rows, x, w, out, ldo);
  } else if (count >= 4) {
    expand_by_tiles(4, 4, n, count, length, *rows, x, w, out, ldo);
  } else {
    expand_by_tiles(8, 1, n, count, length, *rows, x, w, out, ldo);
  }
}

/* `pieces` registers of each of `vectors` vectors stay in registers while all rows are added to them. */
INLINE void accumulate_tile(int vectors, int pieces, int64_t n, int64_t length, const float *x, const float *c,
                            int64_t ldc, float *w, __mmask16 mask) {
  __m512 s[24];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
#pragma GCC unroll 8
    for (int p = 0; p < pieces; p++) {
      s[v * pieces + p] = _mm512_maskz_loadu_ps(mask, w + v * length + p * WIDTH);
    }
  }
  for (int64_t i = 0; i < n; i++) {
    __m512 a[8];
#pragma GCC unroll 8
    for (int p = 0; p < pieces; p++) {
      a[p] = _mm512_maskz_loadu_ps(mask, x + p * WIDTH);
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
      __m512 factor = _mm512_set1_ps(c[v]);
#pragma GCC unroll 8
      for (int p = 0; p < pieces; p++) {
        s[v * pieces + p] = _mm512_fmadd_ps(factor, a[p], s[v * pieces + p]);
      }
    }
    x += length;
    c += ldc;
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) {
#pragma GCC unroll 8
    for (int p = 0; p < pieces; p++) {
      _mm512_mask_storeu_ps(w + v * length + p * WIDTH, mask, s[v * pieces + p]);
    }
  }
}

/* All columns of `vectors` vectors, `pieces` registers at a time, then one at a time. */
INLINE void accumulate_vectors(int vectors, int pieces, int64_t n, int64_t length, const float *x, const float *c,
                               int64_t ldc, float *w) {
  int64_t k = 0;
  for (; k + pieces * WIDTH <= length; k += pieces * WIDTH) {
    accumulate_tile(vectors, pieces, n, length, x + k, c, ldc, w + k, 0xffff);
  }
  for (; k < length; k += WIDTH) {
    accumulate_tile(vectors, 1, n, length, x + k, c, ldc, w + k, lanes_left(length - k));
  }
}

TARGET static void accumulate(int64_t n, int64_t count, int64_t length, const float *x, const float *c, int64_t ldc,
                              float *w) {
  int64_t j = 0;
  for (; j + 8 <= count; j += 8) {
    accumulate_vectors(8, 3, n, length, x, c + j, ldc, w + j * length);
  }
  if (j + 4 <= count) {
    accumulate_vectors(4, 6, n, length, x, c + j, ldc, w + j * length);
    j += 4;
  }
  for (; j < count; j++) {
    accumulate_vectors(1, 8, n, length, x, c + j, ldc, w + j * length);
  }
}

/* Bound by what memory delivers, and in the second-level cache by the stores. Pages end before the processor's own
 * prefetching has become useful: the lines of the next page are asked for by name. */
TARGET static void expand(int64_t length, const uint8_t *in, float scale, const float *shift, float *out) {
  __m512 factor = _mm512_set1_ps(scale);
  int64_t i = 0;
  for (; i + WIDTH <= length; i += WIDTH) {
    if (i % 64 == 0) {
      _mm_prefetch((const char *)(const void *)(in + i) + AHEAD, _MM_HINT_T0);
    }
    _mm512_storeu_ps(out + i, expanded(in + i, shift + i, factor, 0xffff));
  }
  if (i < length) {
    __mmask16 mask = lanes_left(length - i);
    _mm512_mask_storeu_ps(out + i, mask, expanded(in + i, shift + i, factor, mask));
  }
}

/* Bound by the second-level cache, from which the sums come and to which they go. */
TARGET static void add(int64_t length, double sign, const float *x, double *sums) {
  __m512d factor = _mm512_set1_pd(sign);
  for (int64_t i = 0; i < length; i += 8) {
    __mmask8 mask = (__mmask8)lanes_left(length - i < 8 ? length - i : 8);
    __m512d value = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x + i));
    _mm512_mask_storeu_pd(sums + i, mask, _mm512_fmadd_pd(factor, value, _mm512_maskz_loadu_pd(mask, sums + i)));
  }
}

const lac_linear_kernels lac_linear_avx512 = {products, expand_products, accumulate, expand, add};
#endif
