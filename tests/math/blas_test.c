/* Products against sums written out, factorisations against what defines them. */
#include "math/blas.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>

#include "base/memory.h"
#include "base/random.h"
#include "support.h"

static double *random_matrix(int64_t rows, int64_t columns, uint64_t key) {
  double *a = malloc((size_t)(rows * columns) * sizeof *a);
  assert_non_null(a);
  lac_random stream = lac_random_stream(5, LAC_RANDOM_TEST, key, 0);
  for (int64_t i = 0; i < rows * columns; i++) {
    a[i] = lac_random_normal(&stream);
  }
  return a;
}

/* a a' + shift I, (n, n). */
static double *definite_matrix(int64_t n, double shift, uint64_t key) {
  double *a = random_matrix(n, n, key), *s = calloc((size_t)(n * n), sizeof *s);
  assert_non_null(s);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      for (int64_t k = 0; k < n; k++) {
        s[i * n + j] += a[i * n + k] * a[j * n + k];
      }
    }
    s[i * n + i] += shift;
  }
  free(a);
  return s;
}

static double *copy_of(const double *a, int64_t count) {
  double *copy = malloc((size_t)count * sizeof *copy);
  assert_non_null(copy);
  memcpy(copy, a, (size_t)count * sizeof *copy);
  return copy;
}

/* Largest entry of |op(a) op(b) - c|, a (m, k) and b (k, n) after transposition. */
static double product_error(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                            const double *c) {
  double worst = 0;
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++) {
        sum += (ta ? a[l * m + i] : a[i * k + l]) * (tb ? b[j * k + l] : b[l * n + j]);
      }
      worst = fmax(worst, fabs(sum - c[i * n + j]));
    }
  }
  return worst;
}

static void products_in_all_four_ways(void **state) {
  (void)state;
  const int64_t m = 7, n = 11, k = 13, ldc = 17;
  double *a = random_matrix(m, k, 1), *b = random_matrix(k, n, 2);
  for (int way = 0; way < 4; way++) {
    bool ta = way & 1, tb = way & 2;
    double c[7 * 17], packed[7 * 11];
    float a32[7 * 13], b32[13 * 11], c32[7 * 17];
    for (int64_t i = 0; i < m * k; i++) {
      a32[i] = (float)a[i];
    }
    for (int64_t i = 0; i < k * n; i++) {
      b32[i] = (float)b[i];
    }
    for (int64_t i = 0; i < m * ldc; i++) {
      c[i] = c32[i] = 3;
    }
    lac_dgemm(ta, tb, m, n, k, 2, a, ta ? m : k, b, tb ? k : n, 0.5, c, ldc);
    lac_sgemm(ta, tb, m, n, k, 2, a32, ta ? m : k, b32, tb ? k : n, 0.5f, c32, ldc);
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < n; j++) {
        packed[i * n + j] = (c[i * ldc + j] - 1.5) / 2;
        assert_true(fabs(c[i * ldc + j] - c32[i * ldc + j]) < 1e-4);
      }
      for (int64_t j = n; j < ldc; j++) {
        assert_true(c[i * ldc + j] == 3 && c32[i * ldc + j] == 3); /* beyond the row: not touched */
      }
    }
    assert_true(product_error(ta, tb, m, n, k, a, b, packed) < 1e-13);
  }
  free(b);
  free(a);
}

/* The second difference matrix of size n has eigenvalues 2 - 2 cos(pi i / (n + 1)) and sines as eigenvectors. */
static void eigenvalues_in_closed_form(void **state) {
  const int64_t n = 30, count = 6;
  const double pi = acos(-1);
  double *a = calloc((size_t)(n * n), sizeof *a), values[6], vectors[6 * 30];
  assert_non_null(a);
  for (int64_t i = 0; i < n; i++) {
    a[i * n + i] = 2;
    if (i > 0) {
      a[i * n + i - 1] = a[(i - 1) * n + i] = -1;
    }
  }
  assert_int_equal(lac_symmetric_eigen(*state, n, a, count, values, vectors), LAC_OK);
  for (int64_t i = 0; i < count; i++) {
    double angle = pi * (double)(n - i) / (double)(n + 1);
    assert_true(fabs(values[i] - (2 - 2 * cos(angle))) < 1e-12);
    double largest = 0, cosine = 0;
    for (int64_t j = 0; j < n; j++) {
      double v = vectors[i * n + j];
      largest = fabs(v) > fabs(largest) ? v : largest;
      cosine += v * sin(angle * (double)(j + 1)) * sqrt(2.0 / (double)(n + 1));
    }
    assert_true(largest > 0);
    assert_true(fabs(fabs(cosine) - 1) < 1e-12);
  }
  free(a);
}

static void all_eigenvectors_and_one(void **state) {
  const int64_t n = 9;
  double *s = definite_matrix(n, 0, 3), values[9], vectors[81], one_value, one[9];
  double *copy = copy_of(s, n * n), *again = copy_of(s, n * n);
  assert_int_equal(lac_symmetric_eigen(*state, n, copy, n, values, vectors), LAC_OK);
  assert_int_equal(lac_symmetric_eigen(*state, n, again, 1, &one_value, one), LAC_OK);
  assert_true(fabs(one_value - values[0]) < 1e-10 * values[0]);
  for (int64_t i = 0; i < n; i++) {
    assert_true(i == 0 || values[i] <= values[i - 1]);
    for (int64_t j = 0; j < n; j++) {
      double product = 0; /* s v = value v */
      for (int64_t k = 0; k < n; k++) {
        product += s[j * n + k] * vectors[i * n + k];
      }
      assert_true(fabs(product - values[i] * vectors[i * n + j]) < 1e-10 * values[0]);
    }
  }
  free(again);
  free(copy);
  free(s);
}

static void svd_recomposes(void **state) {
  const int64_t n = 12;
  double *a = random_matrix(n, n, 4), *copy = copy_of(a, n * n), s[12], u[144], vt[144], us[144];
  assert_int_equal(lac_svd(*state, n, copy, s, u, vt), LAC_OK);
  for (int64_t i = 0; i < n; i++) {
    assert_true(s[i] >= 0 && (i == 0 || s[i] <= s[i - 1]));
    for (int64_t j = 0; j < n; j++) {
      us[i * n + j] = u[i * n + j] * s[j];
    }
  }
  assert_true(product_error(false, false, n, n, n, us, vt, a) < 1e-12);
  double identity[144] = {0};
  for (int64_t i = 0; i < n; i++) {
    identity[i * n + i] = 1;
  }
  assert_true(product_error(true, false, n, n, n, u, u, identity) < 1e-12);
  assert_true(product_error(false, true, n, n, n, vt, vt, identity) < 1e-12);
  free(copy);
  free(a);
}

static void qr_is_thin_orthogonal_triangular(void **state) {
  const int64_t m = 20, n = 6;
  double *a = random_matrix(m, n, 5), *q = copy_of(a, m * n), r[36], identity[36] = {0};
  assert_int_equal(lac_qr(*state, m, n, q, r), LAC_OK);
  for (int64_t i = 0; i < n; i++) {
    identity[i * n + i] = 1;
    for (int64_t j = 0; j < i; j++) {
      assert_true(r[i * n + j] == 0);
    }
  }
  assert_true(product_error(false, false, m, n, n, q, r, a) < 1e-12);
  assert_true(product_error(true, false, n, n, m, q, q, identity) < 1e-12);
  free(q);
  free(a);
}

static void solving_and_inverting_definite_systems(void **state) {
  const int64_t n = 10, columns = 3;
  double *s = definite_matrix(n, 1, 6), *b = random_matrix(n, columns, 7), identity[100] = {0};
  double *a = copy_of(s, n * n), *x = copy_of(b, n * columns);
  assert_int_equal(lac_solve_definite(*state, n, a, columns, x), LAC_OK);
  assert_true(product_error(false, false, n, columns, n, s, x, b) < 1e-9);
  free(a);
  a = copy_of(s, n * n);
  assert_int_equal(lac_invert_definite(*state, n, a), LAC_OK);
  for (int64_t i = 0; i < n; i++) {
    identity[i * n + i] = 1;
  }
  assert_true(product_error(false, false, n, n, n, s, a, identity) < 1e-9);
  free(x);
  free(a);
  free(b);
  free(s);
}

static void indefinite_systems_are_refused(void **state) {
  double a[4] = {1, 2, 2, 1}, again[4] = {1, 2, 2, 1}, b[2] = {1, 1};
  assert_int_equal(lac_solve_definite(*state, 2, a, 1, b), LAC_E_NUMERICAL);
  assert_non_null(strstr(lac_context_message(*state), "2 x 2"));
  assert_int_equal(lac_invert_definite(*state, 2, again), LAC_E_NUMERICAL);
}

static void squares_of_a_matrix(void **state) {
  (void)state;
  const int64_t n = 9, k = 31, lda = 13;
  double *a = random_matrix(k, lda, 10);
  float a32[31 * 13], c[9 * 9];
  for (int64_t i = 0; i < k * lda; i++) {
    a32[i] = (float)a[i];
  }
  for (int64_t i = 0; i < n * n; i++) {
    c[i] = NAN; /* what was there before does not count */
  }
  lac_ssyrk(n, k, a32, lda, c);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = i; j < n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++) {
        sum += a[l * lda + i] * a[l * lda + j];
      }
      assert_true(fabs(sum - (double)c[i * n + j]) < 1e-4);
    }
  }
  free(a);
}

static void call_of(lac_context *context, int which, int64_t n, const double *a, const float *a32, double *out,
                    double *work, float *out32) {
  memcpy(work, a, (size_t)(n * n) * sizeof *work);
  switch (which) {
    case 0:
      lac_sgemm(true, false, n, n, n, 1, a32, n, a32, n, 0, out32, n);
      break;
    case 1:
      lac_ssyrk(n, n, a32, n, out32);
      break;
    case 2:
      lac_dgemm(false, true, n, n, n, 1, a, n, a, n, 0, out, n);
      break;
    case 3:
      assert_ok(context, lac_symmetric_eigen(context, n, work, n / 2, out, out + n));
      break;
    case 4:
      assert_ok(context, lac_svd(context, n, work, out, out + n, out + n + n * n));
      break;
    case 5:
      assert_ok(context, lac_qr(context, n, n, work, out));
      break;
    case 6:
      assert_ok(context, lac_solve_definite(context, n, work, n, out));
      break;
    default:
      assert_ok(context, lac_invert_definite(context, n, work));
      break;
  }
}

/* A program around the library may have set OpenBLAS to all cores: the bits of no call must notice. */
static void other_peoples_thread_count_does_not_show(void **state) {
  enum { N = 200, SIZE = 2 * N * N + N };
  double *a = definite_matrix(N, 1, 8), *out[2], *work[2];
  float *a32 = malloc(sizeof *a32 * N * N), *out32[2];
  assert_non_null(a32);
  for (int64_t i = 0; i < N * N; i++) {
    a32[i] = (float)a[i];
  }
  for (int which = 0; which < 8; which++) {
    for (int turn = 0; turn < 2; turn++) {
      out[turn] = calloc(SIZE, sizeof *out[turn]);
      work[turn] = calloc((size_t)N * N, sizeof *work[turn]);
      out32[turn] = calloc((size_t)N * N, sizeof *out32[turn]);
      assert_true(out[turn] && work[turn] && out32[turn]);
      for (int64_t i = 0; i < N * N; i++) {
        out[turn][i] = a[N * N - 1 - i];
      }
      openblas_set_num_threads(turn ? 4 : 1);
      call_of(*state, which, N, a, a32, out[turn], work[turn], out32[turn]);
      assert_int_equal(openblas_get_num_threads(), 1);
    }
    assert_memory_equal(out[0], out[1], SIZE * sizeof *out[0]);
    assert_memory_equal(work[0], work[1], sizeof *work[0] * N * N);
    assert_memory_equal(out32[0], out32[1], sizeof *out32[0] * N * N);
    for (int turn = 0; turn < 2; turn++) {
      free(out[turn]);
      free(work[turn]);
      free(out32[turn]);
    }
  }
  free(a32);
  free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_in_all_four_ways),
      cmocka_unit_test(squares_of_a_matrix),
      cmocka_unit_test(eigenvalues_in_closed_form),
      cmocka_unit_test(all_eigenvectors_and_one),
      cmocka_unit_test(svd_recomposes),
      cmocka_unit_test(qr_is_thin_orthogonal_triangular),
      cmocka_unit_test(solving_and_inverting_definite_systems),
      cmocka_unit_test(indefinite_systems_are_refused),
      cmocka_unit_test(other_peoples_thread_count_does_not_show),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
