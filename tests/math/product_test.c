/* Products by every kernel that the processor has: against double precision, and free of what stands beside a row. */
#include "math/product.h"

#include <math.h>

#include "base/random.h"
#include "support.h"

static float *random_values(int64_t count, uint64_t stream_number) {
  lac_random stream = lac_random_stream(1, LAC_RANDOM_TEST, 2, stream_number);
  float *values = malloc((size_t)count * sizeof *values);
  for (int64_t i = 0; i < count; i++) {
    values[i] = (float)lac_random_normal(&stream);
  }
  return values;
}

static void products_are_right(void **state) {
  static const int64_t shapes[][3] = {{1, 1, 1},    {16, 784, 7},   {17, 3, 5},     {64, 256, 120},
                                      {5, 257, 31}, {100, 513, 12}, {33, 1000, 11}, {16, 20, 29}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t L = shapes[s][0], D = shapes[s][1], N = shapes[s][2];
    float *w = random_values(L * D, 2 * s), *x = random_values(N * D, 2 * s + 1);
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      lac_factor *factor;
      assert_ok(*state, lac_factor_create(*state, (lac_isa)isa, w, L, D, &factor));
      int64_t width = lac_factor_width(factor);
      assert_true(width >= L && width % 16 == 0);
      float *y = malloc((size_t)(N * width) * sizeof *y);
      memset(y, 0xFF, (size_t)(N * width) * sizeof *y);
      lac_factor_product(factor, x, N, y);
      for (int64_t i = 0; i < N * width; i++) {
        int64_t row = i / width, l = i % width;
        double sum = 0, scale = 0;
        for (int64_t k = 0; k < D && l < L; k++) {
          sum += (double)x[row * D + k] * w[l * D + k];
          scale += fabs((double)x[row * D + k] * w[l * D + k]);
        }
        assert_true(fabs(y[i] - sum) <= 1e-6 * scale * sqrt((double)D)); /* and zero beyond L */
      }
      free(y);
      lac_factor_destroy(&factor);
      assert_null(factor);
    }
    free(w);
    free(x);
  }
}

/* w.x = 0 but for rounding, so that any other order of additions gives other bits. */
static void bits_do_not_depend_on_the_neighbours(void **state) {
  enum { L = 40, D = 600, N = 61 };
  float *w = random_values(L * D, 100), *x = random_values(N * D, 101);
  for (int i = 0; i < L * D / 2; i++) {
    w[i / (D / 2) * D + D / 2 + i % (D / 2)] = -w[i / (D / 2) * D + i % (D / 2)];
  }
  for (int i = 0; i < N * D / 2; i++) {
    x[i / (D / 2) * D + D / 2 + i % (D / 2)] = x[i / (D / 2) * D + i % (D / 2)];
  }
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    lac_factor *all, *one;
    assert_ok(*state, lac_factor_create(*state, (lac_isa)isa, w, L, D, &all));
    int64_t width = lac_factor_width(all);
    float *whole = malloc((size_t)(N * width) * sizeof *whole), *part = malloc((size_t)(N * width) * sizeof *part);
    lac_factor_product(all, x, N, whole);
    int64_t rounded = 0;
    for (int64_t i = 0; i < N * width; i++) {
      rounded += whole[i] != 0;
    }
    assert_true(rounded > N * L / 2);
    for (int64_t first = 0, count = 1; first < N; first += count, count = count % 17 + 3) {
      count = first + count > N ? N - first : count;
      lac_factor_product(all, x + first * D, count, part + first * width);
    }
    assert_memory_equal(part, whole, (size_t)(N * width) * sizeof *whole);
    for (int64_t l = 0; l < L; l += 7) { /* nor on the other rows of W */
      assert_ok(*state, lac_factor_create(*state, (lac_isa)isa, w + l * D, 1, D, &one));
      lac_factor_product(one, x, N, part);
      for (int64_t i = 0; i < N; i++) {
        assert_memory_equal(&part[i * lac_factor_width(one)], &whole[i * width + l], sizeof *whole);
      }
      lac_factor_destroy(&one);
    }
    lac_factor_destroy(&all);
    free(whole);
    free(part);
  }
  free(w);
  free(x);
}

/* The chain that the header promises, step by step in C: what AVX2 and AVX-512 must both give. */
static void fused_kernels_are_one_chain(void **state) {
  enum { L = 20, D = 300, N = 13 };
  float *w = random_values(L * D, 200), *x = random_values(N * D, 201);
  for (int isa = LAC_ISA_AVX2; isa <= (int)lac_cpu_isa(); isa++) {
    lac_factor *factor;
    assert_ok(*state, lac_factor_create(*state, (lac_isa)isa, w, L, D, &factor));
    int64_t width = lac_factor_width(factor);
    float *y = malloc((size_t)(N * width) * sizeof *y);
    lac_factor_product(factor, x, N, y);
    for (int i = 0; i < N * L; i++) {
      float chain = 0;
      for (int k = 0; k < D; k++) {
        chain = fmaf(x[i / L * D + k], w[i % L * D + k], chain);
      }
      assert_memory_equal(&y[i / L * width + i % L], &chain, sizeof chain);
    }
    free(y);
    lac_factor_destroy(&factor);
  }
  free(w);
  free(x);
}

static void values_that_are_not_finite_reach_the_whole_row(void **state) {
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  enum { L = 18, D = 40, N = 9 };
  float *w = random_values(L * D, 300), *x = random_values(N * D, 301);
  memset(w, 0, sizeof *w * D); /* 0 * infinity is no number */
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    lac_factor *factor;
    assert_ok(*state, lac_factor_create(*state, (lac_isa)isa, w, L, D, &factor));
    int64_t width = lac_factor_width(factor);
    float *y = malloc((size_t)(N * width) * sizeof *y);
    for (int b = 0; b < 3; b++) {
      float before = x[4 * D + 11 * b];
      x[4 * D + 11 * b] = bad[b];
      lac_factor_product(factor, x, N, y);
      for (int64_t i = 0; i < N * L; i++) {
        assert_int_equal(isfinite(y[i / L * width + i % L]) != 0, i / L != 4);
      }
      x[4 * D + 11 * b] = before;
    }
    free(y);
    lac_factor_destroy(&factor);
  }
  free(w);
  free(x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_right), cmocka_unit_test(bits_do_not_depend_on_the_neighbours),
      cmocka_unit_test(fused_kernels_are_one_chain), cmocka_unit_test(values_that_are_not_finite_reach_the_whole_row)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
