/* Every variant of the training kernels that the processor has: against double precision, and free of what stands
 * beside a row, a vector or a piece. */
#include "math/linear.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "support.h"

/* Lengths around the widths of registers and of groups of registers. */
static const int64_t lengths[] = {8, 16, 24, 32, 40, 48, 72, 80, 88, 120, 784};

enum { GUARD = 24 }; /* floats behind an array that must keep their value */

static const float guard = -77.25F;

/* `count` values and a guard behind them, aligned as the kernels ask for. */
static float *guarded(lac_context *context, int64_t count) {
  float *values;
  assert_ok(context, LAC_NEW(context, count + GUARD, &values));
  for (int64_t i = 0; i < GUARD; i++) {
    values[count + i] = guard;
  }
  return values;
}

static void check_guard(const float *values, int64_t count) {
  for (int64_t i = 0; i < GUARD; i++) {
    assert_true(values[count + i] == guard);
  }
}

static float *random_values(lac_context *context, int64_t count, uint64_t key) {
  lac_random stream = lac_random_stream(3, LAC_RANDOM_TEST, 11, key);
  float *values = guarded(context, count);
  for (int64_t i = 0; i < count; i++) {
    values[i] = (float)lac_random_normal(&stream);
  }
  return values;
}

/* Rows whose second half undoes the first, so that a product with itself or another of them is 0 but for rounding and
 * any other order of additions gives other bits. `sign` is 1 or -1. */
static float *cancelling_values(lac_context *context, int64_t rows, int64_t length, float sign, uint64_t key) {
  float *values = random_values(context, rows * length, key);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < length / 2; k++) {
      values[i * length + length / 2 + k] = sign * values[i * length + k];
    }
  }
  return values;
}

static void products_are_right(void **state) {
  static const int64_t shapes[][2] = {{1, 1}, {1, 5}, {2, 3},  {3, 7},  {4, 3},
                                      {5, 4}, {7, 2}, {9, 13}, {16, 6}, {33, 1}};
  for (size_t t = 0; t < sizeof lengths / sizeof *lengths; t++) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      const int64_t length = lengths[t], n = shapes[s][0], count = shapes[s][1], ldo = count + (int64_t)(s % 3);
      float *x = random_values(*state, n * length, 2 * s), *w = random_values(*state, count * length, 2 * s + 1);
      for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
        float *out = guarded(*state, n * ldo);
        for (int64_t i = 0; i < n * ldo; i++) {
          out[i] = guard;
        }
        lac_linear((lac_isa)isa)->products(n, count, length, x, w, out, ldo);
        for (int64_t i = 0; i < n * ldo; i++) {
          if (i % ldo >= count) {
            assert_true(out[i] == guard);
            continue;
          }
          double sum = 0, scale = 0;
          for (int64_t k = 0; k < length; k++) {
            double term = (double)x[i / ldo * length + k] * (double)w[i % ldo * length + k];
            sum += term;
            scale += fabs(term);
          }
          assert_true(fabs((double)out[i] - sum) <= (double)(length / LAC_LANES + 4) * 6e-8 * scale);
        }
        check_guard(out, n * ldo);
        lac_free(out);
      }
      lac_free(x);
      lac_free(w);
    }
  }
}

static void accumulation_is_right(void **state) {
  static const int64_t shapes[][2] = {{1, 1}, {1, 5}, {2, 3}, {3, 7}, {4, 2}, {5, 4}, {7, 9}, {16, 6}, {33, 1}};
  for (size_t t = 0; t < sizeof lengths / sizeof *lengths; t++) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      const int64_t length = lengths[t], n = shapes[s][0], count = shapes[s][1], ldc = count + (int64_t)(s % 3);
      float *x = random_values(*state, n * length, 50 + s), *c = random_values(*state, n * ldc, 80 + s);
      float *start = random_values(*state, count * length, 110 + s);
      for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
        float *w = guarded(*state, count * length);
        memcpy(w, start, (size_t)(count * length) * sizeof *w);
        lac_linear((lac_isa)isa)->accumulate(n, count, length, x, c, ldc, w);
        for (int64_t j = 0; j < count; j++) {
          for (int64_t k = 0; k < length; k++) {
            double sum = (double)start[j * length + k], scale = fabs(sum);
            for (int64_t i = 0; i < n; i++) {
              double term = (double)c[i * ldc + j] * (double)x[i * length + k];
              sum += term;
              scale += fabs(term);
            }
            assert_true(fabs((double)w[j * length + k] - sum) <= (double)(n + 1) * 6e-8 * scale);
          }
        }
        check_guard(w, count * length);
        lac_free(w);
      }
      lac_free(x);
      lac_free(c);
      lac_free(start);
    }
  }
}

/* A product is that of its row and its vector alone: the same bits in every block shape and at every place in it. */
static void a_product_does_not_see_its_neighbours(void **state) {
  enum { ROWS = 13, VECTORS = 11 };
  for (size_t t = 0; t < sizeof lengths / sizeof *lengths; t++) {
    const int64_t length = lengths[t];
    float *x = cancelling_values(*state, ROWS, length, 1, 200 + t);
    float *w = cancelling_values(*state, VECTORS, length, -1, 220 + t);
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      const lac_linear_kernels *kernels = lac_linear((lac_isa)isa);
      float alone[ROWS * VECTORS], beside[ROWS * VECTORS];
      for (int64_t i = 0; i < ROWS * VECTORS; i++) {
        kernels->products(1, 1, length, x + i / VECTORS * length, w + i % VECTORS * length, alone + i, 1);
      }
      for (int64_t n = 1; n <= ROWS; n++) {
        for (int64_t count = 1; count <= VECTORS; count++) {
          int64_t row = ROWS - n, vector = (n * 5 + count * 3) % (VECTORS - count + 1);
          kernels->products(n, count, length, x + row * length, w + vector * length, beside, count);
          for (int64_t i = 0; i < n * count; i++) {
            assert_memory_equal(&beside[i], &alone[(row + i / count) * VECTORS + vector + i % count], sizeof *alone);
          }
        }
      }
    }
    lac_free(x);
    lac_free(w);
  }
}

/* The same of a sum of rows: whatever vectors stand beside it, and in whatever pieces the rows come. */
static void an_accumulation_does_not_see_its_neighbours(void **state) {
  enum { ROWS = 9, VECTORS = 11 };
  for (size_t t = 0; t < sizeof lengths / sizeof *lengths; t++) {
    const int64_t length = lengths[t];
    float *x = random_values(*state, ROWS * length, 300 + t), *c = random_values(*state, ROWS * VECTORS, 320 + t);
    float *start = random_values(*state, VECTORS * length, 340 + t);
    float *alone = guarded(*state, VECTORS * length), *beside = guarded(*state, VECTORS * length);
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      const lac_linear_kernels *kernels = lac_linear((lac_isa)isa);
      memcpy(alone, start, (size_t)(VECTORS * length) * sizeof *alone);
      for (int64_t j = 0; j < VECTORS; j++) {
        kernels->accumulate(ROWS, 1, length, x, c + j, VECTORS, alone + j * length);
      }
      for (int64_t count = 1; count <= VECTORS; count++) {
        for (int64_t piece = 1; piece <= ROWS; piece += 3) {
          int64_t vector = (count * 3 + piece) % (VECTORS - count + 1);
          memcpy(beside, start, (size_t)(VECTORS * length) * sizeof *beside);
          for (int64_t row = 0; row < ROWS; row += piece) {
            int64_t n = ROWS - row < piece ? ROWS - row : piece;
            kernels->accumulate(n, count, length, x + row * length, c + row * VECTORS + vector, VECTORS,
                                beside + vector * length);
          }
          assert_memory_equal(beside + vector * length, alone + vector * length,
                              (size_t)(count * length) * sizeof *alone);
          assert_memory_equal(beside, start, (size_t)(vector * length) * sizeof *start); /* the others stand */
        }
      }
    }
    lac_free(x);
    lac_free(c);
    lac_free(start);
    lac_free(alone);
    lac_free(beside);
  }
}

/* Zeros behind the columns change nothing: a row has the same product in a wider padding. */
static void padding_does_not_show(void **state) {
  enum { ROWS = 5, VECTORS = 4 };
  for (int64_t columns = 1; columns <= 90; columns += 1 + columns / 9) {
    const int64_t narrow = lac_padded(columns), wide = narrow + 40;
    assert_true(narrow >= columns && narrow < columns + LAC_LANES && narrow % LAC_LANES == 0);
    float *x = guarded(*state, ROWS * narrow), *w = guarded(*state, VECTORS * narrow);
    float *wide_x = guarded(*state, ROWS * wide), *wide_w = guarded(*state, VECTORS * wide);
    lac_random stream = lac_random_stream(4, LAC_RANDOM_TEST, 12, (uint64_t)columns);
    for (int64_t i = 0; i < ROWS * columns; i++) {
      x[i / columns * narrow + i % columns] = wide_x[i / columns * wide + i % columns] =
          (float)lac_random_normal(&stream);
    }
    for (int64_t i = 0; i < VECTORS * columns; i++) {
      w[i / columns * narrow + i % columns] = wide_w[i / columns * wide + i % columns] =
          (float)lac_random_normal(&stream);
    }
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      const lac_linear_kernels *kernels = lac_linear((lac_isa)isa);
      float out[ROWS * VECTORS], wide_out[ROWS * VECTORS];
      kernels->products(ROWS, VECTORS, narrow, x, w, out, VECTORS);
      kernels->products(ROWS, VECTORS, wide, wide_x, wide_w, wide_out, VECTORS);
      assert_memory_equal(out, wide_out, sizeof out);
      kernels->accumulate(ROWS, VECTORS, wide, wide_x, out, VECTORS, wide_w);
      for (int64_t j = 0; j < VECTORS; j++) {
        for (int64_t k = columns; k < wide; k++) {
          assert_true(wide_w[j * wide + k] == 0);
        }
        memcpy(wide_w + j * wide, w + j * narrow, (size_t)narrow * sizeof *w);
      }
    }
    lac_free(x);
    lac_free(w);
    lac_free(wide_x);
    lac_free(wide_w);
  }
}

/* One chain of fused multiply-adds over the rows, written out. */
static void vector_accumulation_is_one_chain(void **state) {
  enum { ROWS = 21, VECTORS = 3, LENGTH = 88 };
  float *x = random_values(*state, ROWS * LENGTH, 400), *c = random_values(*state, ROWS * VECTORS, 401);
  float *start = random_values(*state, VECTORS * LENGTH, 402), *w = guarded(*state, VECTORS * LENGTH);
  for (int isa = LAC_ISA_AVX2; isa <= (int)lac_cpu_isa(); isa++) {
    memcpy(w, start, sizeof *w * VECTORS * LENGTH);
    lac_linear((lac_isa)isa)->accumulate(ROWS, VECTORS, LENGTH, x, c, VECTORS, w);
    for (int j = 0; j < VECTORS; j++) {
      for (int k = 0; k < LENGTH; k++) {
        float chain = start[j * LENGTH + k];
        for (int i = 0; i < ROWS; i++) {
          chain = fmaf(c[i * VECTORS + j], x[i * LENGTH + k], chain);
        }
        assert_memory_equal(&w[j * LENGTH + k], &chain, sizeof chain);
      }
    }
  }
  lac_free(x);
  lac_free(c);
  lac_free(start);
  lac_free(w);
}

/* Bytes of any number at any address; each to the nearest float or one beside it, and the same bits wherever it
 * stands. */
static void bytes_expand_to_scaled_floats(void **state) {
  enum { MOST = 70 };
  uint8_t *bytes = malloc(MOST); /* exactly: what is read beyond shows in a sanitised run */
  float *shift = random_values(*state, MOST, 500), out[MOST + GUARD], one;
  const float scale = 1.0F / 255;
  assert_non_null(bytes);
  for (int i = 0; i < MOST; i++) {
    bytes[i] = (uint8_t)(i < 3 ? 255 - i : i * 37);
  }
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    const lac_linear_kernels *kernels = lac_linear((lac_isa)isa);
    for (int64_t first = 0; first < 9; first++) {
      for (int64_t length = 1; first + length <= MOST; length += 1 + length / 5) {
        for (int64_t i = 0; i < MOST + GUARD; i++) {
          out[i] = guard;
        }
        kernels->expand(length, bytes + first, scale, shift + first, out);
        for (int64_t i = 0; i < length; i++) {
          double expected = (double)scale * bytes[first + i] + (double)shift[first + i];
          assert_true(fabs((double)out[i] - expected) <= 6e-8 * (1 + fabs((double)shift[first + i])));
          kernels->expand(1, bytes + first + i, scale, shift + first + i, &one);
          assert_memory_equal(&one, &out[i], sizeof one);
        }
        for (int64_t i = length; i < MOST + GUARD; i++) {
          assert_true(out[i] == guard);
        }
      }
    }
  }
  free(bytes);
  lac_free(shift);
}

/* Rows that are expanded on their way into a product: the bits of expand, zeros behind the columns, and the bits of
 * products, for every number of rows and vectors. */
static void expanding_products_are_expand_and_products(void **state) {
  enum { MOST = 19, VECTORS = 18, GAP = 3 };
  static const int64_t widths[] = {1, 7, 8, 9, 15, 16, 17, 31, 40, 47, 784};
  for (size_t t = 0; t < sizeof widths / sizeof *widths; t++) {
    const int64_t columns = widths[t], length = lac_padded(columns), stride = columns + GAP;
    const int64_t size = (MOST - 1) * stride + columns;
    uint8_t *bytes = malloc((size_t)size); /* exactly */
    assert_non_null(bytes);
    for (int64_t i = 0; i < size; i++) {
      bytes[i] = (uint8_t)(i * 151 + i / 7);
    }
    float *shift = random_values(*state, columns, 700 + t), *w = guarded(*state, VECTORS * length);
    lac_random stream = lac_random_stream(3, LAC_RANDOM_TEST, 12, t);
    for (int64_t i = 0; i < VECTORS * length; i++) {
      w[i] = i % length < columns ? (float)lac_random_normal(&stream) : 0;
    }
    const lac_byte_rows rows = {bytes, (size_t)stride, columns, 1.0F / 255, shift};
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      const lac_linear_kernels *kernels = lac_linear((lac_isa)isa);
      float *expected = guarded(*state, MOST * length), products[MOST * VECTORS];
      for (int64_t i = 0; i < MOST; i++) {
        kernels->expand(columns, bytes + i * stride, rows.scale, shift, expected + i * length);
      }
      for (int64_t n = 0; n <= MOST; n++) {
        for (int64_t count = 1; count <= VECTORS; count++) {
          const int64_t ldo = count + n % 2;
          float *x = guarded(*state, n * length), *out = guarded(*state, n * ldo);
          for (int64_t i = 0; i < n * ldo; i++) {
            out[i] = guard;
          }
          for (int64_t i = 0; i < n * length; i++) {
            x[i] = guard;
          }
          kernels->products(n, count, length, expected, w, products, count);
          kernels->expand_products(n, count, length, &rows, x, w, out, ldo);
          assert_memory_equal(x, expected, (size_t)(n * length) * sizeof *x);
          for (int64_t i = 0; i < n * ldo; i++) {
            assert_memory_equal(&out[i], i % ldo < count ? &products[i / ldo * count + i % ldo] : &guard, sizeof *out);
          }
          check_guard(x, n * length);
          check_guard(out, n * ldo);
          lac_free(x);
          lac_free(out);
        }
      }
      lac_free(expected);
    }
    free(bytes);
    lac_free(shift);
    lac_free(w);
  }
}

/* Single numbers added to and taken from doubles, without rounding of their own. */
static void rows_are_added_to_doubles(void **state) {
  enum { MOST = 45 };
  float *x = random_values(*state, MOST, 600);
  double sums[MOST + 1], expected[MOST + 1];
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    for (int64_t length = 0; length <= MOST; length++) {
      for (int sign = -1; sign <= 1; sign += 2) {
        for (int64_t i = 0; i <= MOST; i++) {
          sums[i] = expected[i] = 1e6 / (double)(3 * i + 1);
          expected[i] = i >= length ? expected[i] : sign > 0 ? expected[i] + x[i] : expected[i] - x[i];
        }
        lac_linear((lac_isa)isa)->add(length, sign, x, sums);
        assert_memory_equal(sums, expected, sizeof sums);
      }
    }
  }
  lac_free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_right),
      cmocka_unit_test(accumulation_is_right),
      cmocka_unit_test(a_product_does_not_see_its_neighbours),
      cmocka_unit_test(an_accumulation_does_not_see_its_neighbours),
      cmocka_unit_test(padding_does_not_show),
      cmocka_unit_test(vector_accumulation_is_one_chain),
      cmocka_unit_test(bytes_expand_to_scaled_floats),
      cmocka_unit_test(expanding_products_are_expand_and_products),
      cmocka_unit_test(rows_are_added_to_doubles),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
