#include "math/product.h"

#include <string.h>

#include "base/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A panel is PANEL rows of W side by side, (columns, PANEL). A kernel multiplies a tile of rows of x with DEPTH columns
 * of one panel, which then stay in the first-level cache (16 KiB) for the next tile; with AVX-512, of two panels and
 * half as many columns. */
enum { PANEL = 16, DEPTH = 256, MOST_TILE_ROWS = 6 };

/* y[r] (PANEL) += sum over k of x[r][k] panel[k], for the rows of a tile. */
typedef void (*lac_tile_kernel)(const float *panel, int64_t depth, const float *const *x, float *const *y);

/* Adds the products with columns [k, k + depth). */
typedef void (*lac_slice_kernel)(const lac_factor *factor, int64_t k, int64_t depth, const float *x, int64_t n,
                                 float *y);

struct lac_factor {
  int64_t columns, panels, depth;
  lac_slice_kernel slice;
  int tile_rows; /* of slices made of tiles */
  lac_tile_kernel kernel;
  float *packed; /* (panels, columns, PANEL) */
};

enum { PLAIN_ROWS = 3, AVX2_ROWS = 6 }; /* tiles that leave registers for the operands */

static void tile_plain(const float *panel, int64_t depth, const float *const *x, float *const *y) {
  typedef float four __attribute__((vector_size(16)));
  four sums[PLAIN_ROWS][4], w[4];
  for (int r = 0; r < PLAIN_ROWS; r++) {
    memcpy(sums[r], y[r], sizeof sums[r]);
  }
  for (int64_t k = 0; k < depth; k++) {
    memcpy(w, panel + k * PANEL, sizeof w);
#pragma GCC unroll 3
    for (int r = 0; r < PLAIN_ROWS; r++) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; v++) {
        sums[r][v] += x[r][k] * w[v];
      }
    }
  }
  for (int r = 0; r < PLAIN_ROWS; r++) {
    memcpy(y[r], sums[r], sizeof sums[r]);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void tile_avx2(const float *panel, int64_t depth, const float *const *x,
                                                          float *const *y) {
  __m256 low[AVX2_ROWS], high[AVX2_ROWS];
#pragma GCC unroll 6
  for (int r = 0; r < AVX2_ROWS; r++) {
    low[r] = _mm256_loadu_ps(y[r]);
    high[r] = _mm256_loadu_ps(y[r] + 8);
  }
  for (int64_t k = 0; k < depth; k++) {
    __m256 w_low = _mm256_load_ps(panel + k * PANEL), w_high = _mm256_load_ps(panel + k * PANEL + 8);
#pragma GCC unroll 6
    for (int r = 0; r < AVX2_ROWS; r++) {
      __m256 value = _mm256_broadcast_ss(x[r] + k);
      low[r] = _mm256_fmadd_ps(value, w_low, low[r]);
      high[r] = _mm256_fmadd_ps(value, w_high, high[r]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < AVX2_ROWS; r++) {
    _mm256_storeu_ps(y[r], low[r]);
    _mm256_storeu_ps(y[r] + 8, high[r]);
  }
}

#endif

/* One tile: rows [row, row + tile) of x with columns [k, k + depth) of one panel. A tile's missing rows repeat the last
 * one and add into a dummy. */
static void run_tile(const lac_factor *factor, int64_t panel, int64_t k, int64_t depth, const float *x, int64_t row,
                     int64_t n, float *y) {
  const float *from[MOST_TILE_ROWS];
  float *to[MOST_TILE_ROWS], dummy[PANEL] = {0};
  int64_t width = factor->panels * PANEL;
  for (int r = 0; r < factor->tile_rows; r++) {
    int64_t i = row + r < n ? row + r : n - 1;
    from[r] = x + i * factor->columns + k;
    to[r] = row + r < n ? y + i * width + panel * PANEL : dummy;
  }
  factor->kernel(factor->packed + (panel * factor->columns + k) * PANEL, depth, from, to);
}

static void slice_of_tiles(const lac_factor *factor, int64_t k, int64_t depth, const float *x, int64_t n, float *y) {
  for (int64_t panel = 0; panel < factor->panels; panel++) {
    for (int64_t row = 0; row < n; row += factor->tile_rows) {
      run_tile(factor, panel, k, depth, x, row, n, y);
    }
  }
}

#if defined(__x86_64__)
#define LAC_AVX512 __attribute__((target("avx512f")))

/* `rows` rows times `panels` panels: 12 x 2 accumulators against 14 loads a column, so that the multiply-add units are
 * the bound. Rows are a fixed distance apart, which spares a pointer register each. */
LAC_AVX512 __attribute__((always_inline)) static inline void tile_avx512(int rows, int panels, const lac_factor *factor,
                                                                         const float *packed, int64_t depth,
                                                                         const float *x, float *y) {
  int64_t width = factor->panels * PANEL, stride = factor->columns;
  __m512 sums[12][2];
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
      sums[r][p] = _mm512_loadu_ps(y + r * width + p * PANEL);
    }
  }
  for (int64_t k = 0; k < depth; k++) {
    __m512 w[2];
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
      w[p] = _mm512_load_ps(packed + (p * stride + k) * PANEL);
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
      __m512 value = _mm512_set1_ps(x[r * stride + k]);
#pragma GCC unroll 2
      for (int p = 0; p < panels; p++) {
        sums[r][p] = _mm512_fmadd_ps(value, w[p], sums[r][p]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
      _mm512_storeu_ps(y + r * width + p * PANEL, sums[r][p]);
    }
  }
}

LAC_AVX512 __attribute__((always_inline)) static inline void panels_avx512(int panels, const lac_factor *factor,
                                                                           const float *packed, int64_t depth,
                                                                           const float *x, int64_t n, float *y) {
  int64_t width = factor->panels * PANEL, row = 0;
  for (; row + 12 <= n; row += 12) {
    tile_avx512(12, panels, factor, packed, depth, x + row * factor->columns, y + row * width);
  }
  for (; row + 4 <= n; row += 4) {
    tile_avx512(4, panels, factor, packed, depth, x + row * factor->columns, y + row * width);
  }
  for (; row < n; row++) {
    tile_avx512(1, panels, factor, packed, depth, x + row * factor->columns, y + row * width);
  }
}

LAC_AVX512 static void slice_avx512(const lac_factor *factor, int64_t k, int64_t depth, const float *x, int64_t n,
                                    float *y) {
  const float *packed = factor->packed + k * PANEL;
  int64_t panel = 0;
  for (; panel + 2 <= factor->panels; panel += 2) {
    panels_avx512(2, factor, packed + panel * factor->columns * PANEL, depth, x + k, n, y + panel * PANEL);
  }
  if (panel < factor->panels) {
    panels_avx512(1, factor, packed + panel * factor->columns * PANEL, depth, x + k, n, y + panel * PANEL);
  }
}
#endif

static void choose_kernel(lac_factor *factor, lac_isa isa) {
  factor->slice = slice_of_tiles;
  factor->depth = DEPTH;
  factor->kernel = tile_plain;
  factor->tile_rows = PLAIN_ROWS;
#if defined(__x86_64__)
  if (isa == LAC_ISA_AVX512) {
    factor->slice = slice_avx512;
    factor->depth = DEPTH / 2;
  } else if (isa == LAC_ISA_AVX2) {
    factor->kernel = tile_avx2;
    factor->tile_rows = AVX2_ROWS;
  }
#endif
  (void)isa;
}

lac_status lac_factor_create(lac_context *context, lac_isa isa, const float *w, int64_t rows, int64_t columns,
                             lac_factor **factor) {
  *factor = NULL;
  lac_factor *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  choose_kernel(made, isa);
  made->columns = columns;
  made->panels = (rows + PANEL - 1) / PANEL;
  lac_status status = LAC_NEW(context, made->panels * columns * PANEL, &made->packed);
  if (status) {
    lac_free(made);
    return status;
  }
  for (int64_t i = 0; i < rows; i++) {
    float *to = made->packed + i / PANEL * columns * PANEL + i % PANEL;
    for (int64_t k = 0; k < columns; k++) {
      to[k * PANEL] = w[i * columns + k];
    }
  }
  *factor = made;
  return LAC_OK;
}

void lac_factor_destroy(lac_factor **factor) {
  if (*factor) {
    lac_free((*factor)->packed);
    lac_free(*factor);
    *factor = NULL;
  }
}

int64_t lac_factor_width(const lac_factor *factor) {
  return factor->panels * PANEL;
}

void lac_factor_product(const lac_factor *factor, const float *x, int64_t n, float *y) {
  memset(y, 0, (size_t)(n * lac_factor_width(factor)) * sizeof *y);
  for (int64_t k = 0; k < factor->columns; k += factor->depth) {
    int64_t depth = factor->columns - k < factor->depth ? factor->columns - k : factor->depth;
    factor->slice(factor, k, depth, x, n, y);
  }
}
