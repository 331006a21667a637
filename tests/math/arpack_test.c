/* Eigenvalues of matrices that are made from them: a reflection of a diagonal. */
#include "math/arpack.h"

#include <math.h>
#include <pthread.h>

#include "base/memory.h"
#include "base/random.h"
#include "support.h"

/* a (n, n) = H diag(values) H with H = I - 2 u u' of a random unit vector u: entry by entry, in O(n^2). */
static double *reflected(int64_t n, const double *values) {
  double *a = malloc((size_t)(n * n) * sizeof *a), *u = malloc((size_t)n * sizeof *u), norm = 0, inside = 0;
  assert_non_null(a);
  assert_non_null(u);
  lac_random stream = lac_random_stream(7, LAC_RANDOM_TEST, 0, 0);
  for (int64_t i = 0; i < n; i++) {
    u[i] = lac_random_normal(&stream);
    norm += u[i] * u[i];
  }
  for (int64_t i = 0; i < n; i++) {
    u[i] /= sqrt(norm);
    inside += values[i] * u[i] * u[i];
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      a[i * n + j] = (i == j ? values[i] : 0) + u[i] * u[j] * (4 * inside - 2 * values[i] - 2 * values[j]);
    }
  }
  free(u);
  return a;
}

static double dot(int64_t n, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += x[i] * y[i];
  }
  return sum;
}

/* The `count` first of values (n), which fall, are found with what makes vectors eigenvectors. */
static void check(lac_context *context, int64_t n, int64_t count, const double *values) {
  double *a = reflected(n, values), *kept = reflected(n, values);
  double *found = malloc((size_t)count * sizeof *found), *vectors = malloc((size_t)(count * n) * sizeof *vectors);
  double scale = fmax(fabs(values[0]), 1e-300) * 1e-10;
  assert_non_null(found);
  assert_non_null(vectors);
  assert_ok(context, lac_largest_eigen(context, n, a, count, found, vectors));
  for (int64_t i = 0; i < count; i++) {
    const double *v = vectors + i * n;
    double largest = 0;
    assert_true(fabs(found[i] - values[i]) <= scale);
    for (int64_t j = 0; j < n; j++) {
      assert_true(fabs(dot(n, kept + j * n, v) - found[i] * v[j]) <= 10 * scale);
      largest = fabs(v[j]) > fabs(largest) ? v[j] : largest;
    }
    assert_true(largest > 0);
    for (int64_t other = 0; other <= i; other++) {
      assert_true(fabs(dot(n, v, vectors + other * n) - (other == i)) < 1e-9);
    }
  }
  free(vectors);
  free(found);
  free(kept);
  free(a);
}

enum { N = 320, FEW = 17 };

static void falling_values(void **state) {
  double values[N];
  for (int64_t i = 0; i < N; i++) {
    values[i] = 40 * pow(0.93, (double)i);
  }
  check(*state, N, FEW, values);
  check(*state, N, 1, values);
  check(*state, N, N / 10, values);
  check(*state, N, N / 3, values); /* LAPACK's */
  check(*state, 60, FEW, values);  /* as well */
}

/* The top of a spectrum that is nearly a line, as of a second difference: Lanczos's method is slow. */
static void values_that_crowd(void **state) {
  double values[N];
  for (int64_t i = 0; i < N; i++) {
    values[i] = 2 + 2 * cos(acos(-1) * (double)(i + 1) / (N + 1));
  }
  check(*state, N, FEW, values);
}

/* Values that are there several times, few values that are not zero, equal ones and none at all: a Krylov space ends
 * before `count` vectors, and LAPACK's dsyevr says nothing of values that it has missed. */
static void values_that_repeat(void **state) {
  double values[4][N];
  for (int64_t i = 0; i < N; i++) {
    values[0][i] = i < 6 ? 5 : i < 12 ? 3 : 1 / (1 + 0.1 * (double)i);
    values[1][i] = i < 5 ? 7 - (double)i : 0;
    values[2][i] = 3;
    values[3][i] = 0;
  }
  for (int kind = 0; kind < 4; kind++) {
    check(*state, N, FEW, values[kind]);
    check(*state, N, N / 3, values[kind]); /* LAPACK's */
    check(*state, 60, FEW, values[kind]);
  }
}

typedef struct counted {
  int64_t n, products;
  const double *a;
} counted;

static void count_product(void *self, const double *x, double *y) {
  counted *matrix = self;
  matrix->products++;
  for (int64_t i = 0; i < matrix->n; i++) {
    y[i] = dot(matrix->n, matrix->a + i * matrix->n, x);
  }
}

/* That it is ARPACK which finds them, in the products that it may make, or says that it has not. */
static void products_are_few(void **state) {
  double values[N], found[FEW] = {-1}, *vectors = malloc(FEW * N * sizeof *vectors);
  assert_non_null(vectors);
  for (int64_t i = 0; i < N; i++) {
    values[i] = 40 * pow(0.93, (double)i);
  }
  double *a = reflected(N, values);
  counted matrix = {N, 0, a};
  lac_linear_map map = {N, count_product, &matrix};
  lac_arpack arpack = lac_arpack_largest(&map, FEW);
  bool converged = true;
  arpack.products = 5;
  assert_ok(*state, lac_arpack_symmetric(*state, &arpack, found, vectors, &converged));
  assert_false(converged);
  assert_int_equal(matrix.products, 5);
  assert_true(found[0] == -1);
  arpack.products = N;
  matrix.products = 0;
  assert_ok(*state, lac_arpack_symmetric(*state, &arpack, found, vectors, &converged));
  assert_true(converged && matrix.products < N / 2);
  for (int64_t i = 0; i < FEW; i++) {
    assert_true(fabs(found[i] - values[i]) < 1e-9);
  }
  free(a);
  free(vectors);
}

/* Spectra as those of covariances, of every steepness: ARPACK finds them all, and none is left to LAPACK. */
static void decaying_spectra_converge(void **state) {
  static const double powers[] = {0.3, 0.5, 1, 2, 5};
  double values[N], found[32], *vectors = malloc(32 * N * sizeof *vectors);
  assert_non_null(vectors);
  for (size_t p = 0; p < sizeof powers / sizeof *powers; p++) {
    for (int64_t i = 0; i < N; i++) {
      values[i] = 20 * pow((double)(i + 1), -powers[p]);
    }
    double *a = reflected(N, values);
    for (int64_t count = 1; count <= N / 10; count++) {
      counted matrix = {N, 0, a};
      lac_linear_map map = {N, count_product, &matrix};
      lac_arpack arpack = lac_arpack_largest(&map, count);
      bool converged = false;
      assert_ok(*state, lac_arpack_symmetric(*state, &arpack, found, vectors, &converged));
      if (!converged) {
        fail_msg("power %g, %lld values: not converged after %lld products", powers[p], (long long)count,
                 (long long)matrix.products);
      }
      for (int64_t i = 0; i < count; i++) {
        const double *v = vectors + i * N;
        assert_true(fabs(found[i] - values[i]) <= 1e-10 * values[0]);
        for (int64_t j = 0; j < N; j++) {
          assert_true(fabs(dot(N, a + j * N, v) - found[i] * v[j]) <= 1e-9 * values[0]);
        }
      }
    }
    free(a);
  }
  free(vectors);
}

/* Where its space is exhausted ARPACK would go on from a vector that depends on what it did before. Whether it is
 * exhausted is up to rounding: matrices of few different values, to both tolerances, are the ones that may be. */
static void nothing_depends_on_what_was_before(void **state) {
  double values[2][N], found[2][FEW], *vectors[2];
  for (int64_t i = 0; i < N; i++) {
    values[0][i] = i < 5 ? 7 - (double)i : 0;
    values[1][i] = 3; /* every vector is an eigenvector */
  }
  for (int turn = 0; turn < 2; turn++) {
    vectors[turn] = malloc(FEW * N * sizeof **vectors);
    assert_non_null(vectors[turn]);
  }
  for (int test = 0; test < 4; test++) {
    double *a = reflected(N, values[test / 2]);
    counted matrix = {N, 0, a};
    lac_linear_map map = {N, count_product, &matrix};
    lac_arpack arpack = lac_arpack_largest(&map, FEW);
    bool converged[2];
    int64_t products[2];
    arpack.tolerance = test % 2 ? arpack.tolerance : 0;
    for (int turn = 0; turn < 2; turn++) {
      memset(found[turn], 0, sizeof found[turn]);
      memset(vectors[turn], 0, FEW * N * sizeof **vectors);
      matrix.products = 0;
      arpack.repeatable = true;
      assert_ok(*state, lac_arpack_symmetric(*state, &arpack, found[turn], vectors[turn], &converged[turn]));
      products[turn] = matrix.products;
      arpack.repeatable = false; /* takes vectors of its own, if any */
      bool ignored;
      double *other = malloc(FEW * N * sizeof *other), some[FEW];
      assert_non_null(other);
      assert_ok(*state, lac_arpack_symmetric(*state, &arpack, some, other, &ignored));
      free(other);
    }
    assert_int_equal(converged[0], converged[1]);
    assert_int_equal(products[0], products[1]);
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    assert_memory_equal(vectors[0], vectors[1], FEW * N * sizeof **vectors);
    free(a);
  }
  free(vectors[0]);
  free(vectors[1]);
}

typedef struct job {
  double values[3];
  lac_status status;
} job;

static void *one_of_several(void *argument) {
  job *mine = argument;
  lac_context *context = NULL;
  double values[N];
  for (int64_t i = 0; i < N; i++) {
    values[i] = 40 * pow(0.93, (double)i);
  }
  double *vectors = malloc(3 * N * sizeof *vectors);
  mine->status = vectors ? lac_context_create(&context) : LAC_E_MEMORY;
  for (int turn = 0; turn < 20 && !mine->status; turn++) {
    double *copy = reflected(N, values);
    mine->status = lac_largest_eigen(context, N, copy, 3, mine->values, vectors);
    free(copy);
  }
  lac_context_destroy(&context);
  free(vectors);
  return NULL;
}

/* ARPACK itself has one state for all. */
static void several_at_once(void **state) {
  (void)state;
  pthread_t threads[3];
  job jobs[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, one_of_several, &jobs[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(jobs[i].status, LAC_OK);
    for (int v = 0; v < 3; v++) {
      assert_true(jobs[i].values[v] == jobs[0].values[v]);
      assert_true(fabs(jobs[i].values[v] - 40 * pow(0.93, v)) < 1e-9);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(falling_values),
      cmocka_unit_test(values_that_crowd),
      cmocka_unit_test(values_that_repeat),
      cmocka_unit_test(products_are_few),
      cmocka_unit_test(decaying_spectra_converge),
      cmocka_unit_test(nothing_depends_on_what_was_before),
      cmocka_unit_test(several_at_once),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
