/* lac_mixing_exact beside stepping one by one with plain loops. */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "laconic/mixing.h"
#include "support.h"

enum { MOST = 32, LONGEST = 20000 };

/* row <- row W */
static void step(int64_t m, const double *matrix, double *row) {
  double next[MOST] = {0};
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < m; j++) {
      next[j] += row[i] * matrix[i * m + j];
    }
  }
  memcpy(row, next, (size_t)m * sizeof *row);
}

static double total_variation(int64_t m, const double *left, const double *right) {
  double more = 0;
  for (int64_t j = 0; j < m; j++) {
    more += fmax(left[j] - right[j], 0); /* of two distributions, what the one has more */
  }
  return more;
}

/* Far beyond the longest time here: W^(2^20), whose rows have the same limit or do not; pi is the first. */
static bool find_limit(int64_t m, const double *matrix, double *pi) {
  double power[MOST * MOST], square[MOST * MOST];
  memcpy(power, matrix, (size_t)(m * m) * sizeof *matrix);
  for (int k = 0; k < 20; k++) {
    memcpy(square, power, (size_t)(m * m) * sizeof *matrix);
    for (int64_t i = 0; i < m; i++) {
      step(m, power, square + i * m);
    }
    memcpy(power, square, (size_t)(m * m) * sizeof *matrix);
  }
  double sum = 0;
  for (int64_t i = 0; i < m; i++) {
    if (total_variation(m, power + i * m, power) > 1e-9) {
      return false;
    }
    sum += power[i];
  }
  for (int64_t j = 0; j < m; j++) {
    pi[j] = power[j] / sum; /* rounding errors double with every squaring */
  }
  return true;
}

/* The definition; -1 for chains that do not mix. */
static int64_t step_by_step(int64_t m, int64_t watched, const double *matrix) {
  double rows[MOST][MOST] = {{0}}, pi[MOST];
  if (!find_limit(m, matrix, pi)) {
    return -1;
  }
  for (int64_t i = 0; i < watched; i++) {
    rows[i][i] = 1;
  }
  for (int64_t t = 0; t < LONGEST; t++) {
    double largest = 0;
    for (int64_t i = 0; i < watched; i++) {
      largest = fmax(largest, total_variation(m, rows[i], pi));
    }
    if (largest <= 0.25 + 1e-12) {
      return t;
    }
    for (int64_t i = 0; i < watched; i++) {
      step(m, matrix, rows[i]);
    }
  }
  return -2;
}

static int64_t exact(lac_context *context, int64_t m, int64_t watched, const double *matrix) {
  double *copy = NULL;
  int64_t steps = -3;
  assert_ok(context, LAC_NEW(context, m * m, &copy));
  memcpy(copy, matrix, (size_t)(m * m) * sizeof *copy);
  assert_ok(context, lac_mixing_exact(context, m, watched, copy, &steps));
  lac_free(copy);
  return steps;
}

static void compare(lac_context *context, int64_t m, int64_t watched, const double *matrix, const char *what) {
  int64_t found = exact(context, m, watched, matrix), expected = step_by_step(m, watched, matrix);
  if (found != expected) {
    fail_msg("%s of %lld slots, %lld watched: found %lld, step by step %lld", what, (long long)m, (long long)watched,
             (long long)found, (long long)expected);
  }
}

/* Ring of n >= 3: `own` stays, the rest goes to both sides. */
static void fill_ring(int64_t n, double own, double *matrix) {
  memset(matrix, 0, (size_t)(n * n) * sizeof *matrix);
  for (int64_t i = 0; i < n; i++) {
    matrix[i * n + i] = own;
    matrix[i * n + (i + 1) % n] = (1 - own) / 2;
    matrix[i * n + (i + n - 1) % n] = (1 - own) / 2;
  }
}

static void rings(void **state) {
  double matrix[MOST * MOST] = {0};
  for (int64_t n = 3; n <= 24; n++) {
    fill_ring(n, 1.0 / 3, matrix);
    compare(*state, n, n, matrix, "a ring");
    fill_ring(n, 0.9, matrix);
    compare(*state, n, n, matrix, "a lazy ring");
    fill_ring(n, 0, matrix); /* two classes where n is even */
    compare(*state, n, n, matrix, "a ring without own weights");
  }
}

static void hypercubes(void **state) {
  double matrix[MOST * MOST] = {0};
  for (int dimension = 1; dimension <= 5; dimension++) {
    int64_t n = (int64_t)1 << dimension;
    memset(matrix, 0, sizeof matrix);
    for (int64_t i = 0; i < n; i++) {
      matrix[i * n + i] = 1.0 / (dimension + 1);
      for (int bit = 0; bit < dimension; bit++) {
        matrix[i * n + (i ^ ((int64_t)1 << bit))] = 1.0 / (dimension + 1);
      }
    }
    compare(*state, n, n, matrix, "a hypercube");
  }
}

/* Rows of random weights, each entry there with the given probability. */
static void fill_random(uint64_t draw, int64_t m, double density, double *matrix) {
  lac_random stream = lac_random_stream(1, LAC_RANDOM_TEST, draw, 0);
  for (int64_t i = 0; i < m; i++) {
    double sum = 0;
    while (sum == 0) {
      for (int64_t j = 0; j < m; j++) {
        matrix[i * m + j] = lac_random_uniform(&stream) < density ? lac_random_uniform(&stream) : 0;
        sum += matrix[i * m + j];
      }
    }
    for (int64_t j = 0; j < m; j++) {
      matrix[i * m + j] /= sum;
    }
  }
}

/* Sparse ones may have several classes, or a period, which the steps show as well. */
static void random_chains(void **state) {
  double matrix[MOST * MOST] = {0};
  int never = 0, mixing = 0;
  for (uint64_t draw = 0; draw < 120; draw++) {
    int64_t m = 2 + (int64_t)(draw % 19);
    fill_random(draw, m, draw % 3 == 0 ? 1 : draw % 3 == 1 ? 0.3 : 1.5 / (double)m, matrix);
    if (draw % 2 == 0) { /* slowly */
      for (int64_t i = 0; i < m * m; i++) {
        matrix[i] *= 0.05;
      }
      for (int64_t i = 0; i < m; i++) {
        matrix[i * m + i] += 0.95;
      }
    }
    compare(*state, m, m, matrix, "a random chain");
    compare(*state, m, (m + 1) / 2, matrix, "a random chain");
    if (exact(*state, m, m, matrix) < 0) {
      never++;
    } else {
      mixing++;
    }
  }
  assert_true(never >= 10 && mixing >= 60); /* both have been seen */
}

/* A random symmetric matrix: pairs of slots averaged, one pair after another and back. */
static void symmetric_chains(void **state) {
  double matrix[MOST * MOST] = {0};
  for (uint64_t draw = 0; draw < 30; draw++) {
    int64_t m = 3 + (int64_t)(draw % 16);
    lac_random stream = lac_random_stream(2, LAC_RANDOM_TEST, draw, 0);
    memset(matrix, 0, sizeof matrix);
    for (int64_t i = 0; i < m; i++) {
      for (int64_t j = 0; j < i; j++) {
        bool there = j + 1 == i || lac_random_uniform(&stream) < 0.2;
        matrix[i * m + j] = matrix[j * m + i] = there ? lac_random_uniform(&stream) / (double)m : 0;
      }
    }
    for (int64_t i = 0; i < m; i++) {
      double sum = 0;
      for (int64_t j = 0; j < m; j++) {
        sum += matrix[i * m + j];
      }
      matrix[i * m + i] = 1 - sum;
    }
    compare(*state, m, m, matrix, "a symmetric chain");
    compare(*state, m, 2, matrix, "a symmetric chain");
  }
}

static void periodic_and_reducible_chains_never_mix(void **state) {
  double matrix[MOST * MOST] = {0};
  for (int64_t n = 2; n <= 9; n++) { /* round and round */
    memset(matrix, 0, sizeof matrix);
    for (int64_t i = 0; i < n; i++) {
      matrix[i * n + (i + 1) % n] = 1;
    }
    assert_int_equal(exact(*state, n, n, matrix), -1);
    matrix[0] = matrix[1] = 0.5; /* one waits now and then */
    compare(*state, n, n, matrix, "a cycle with a wait");
  }
  for (int64_t n = 2; n <= 9; n++) { /* nobody moves */
    memset(matrix, 0, sizeof matrix);
    for (int64_t i = 0; i < n; i++) {
      matrix[i * n + i] = 1;
    }
    assert_int_equal(exact(*state, n, n, matrix), -1);
  }
  /* The first is left for good, to one of two that nobody leaves. */
  const double two_ends[] = {0.5, 0.25, 0.25, 0, 1, 0, 0, 0, 1};
  assert_int_equal(exact(*state, 3, 3, two_ends), -1);
  /* To a single one: 2^-t are left after t steps. */
  const double one_end[] = {0.5, 0.5, 0, 1};
  assert_int_equal(exact(*state, 2, 2, one_end), 2);
}

/* Found by hand: a distance of exactly 1/4 has mixed; 1 slot; all-reduce; several lengths of the same decay. */
static void known_times(void **state) {
  const double one[] = {1};
  assert_int_equal(exact(*state, 1, 1, one), 0);
  const double half[] = {0.75, 0.25, 0.25, 0.75}; /* distance 1/2 2^-t */
  assert_int_equal(exact(*state, 2, 2, half), 1);
  const double unread[] = {0.9, 0.1, 0.9, 0.1}; /* pi_0 = .9: the first slot is near enough before any step */
  assert_int_equal(exact(*state, 2, 1, unread), 0);
  assert_int_equal(exact(*state, 2, 2, unread), 1);
  double matrix[MOST * MOST] = {0};
  for (int64_t n = 2; n <= MOST; n++) {
    for (int64_t i = 0; i < n * n; i++) {
      matrix[i] = 1 / (double)n;
    }
    assert_int_equal(exact(*state, n, n, matrix), 1);
  }
  /* 1/2 (1 - 2e)^t <= 1/4 at t = ln 2 / -ln(1 - 2e) */
  for (int k = 0; k < 10; k++) {
    double e = 1e-3 * pow(7, -k);
    const double slow[] = {1 - e, e, e, 1 - e};
    double expected = ceil(log(2) / -log1p(-2 * e));
    double found = (double)exact(*state, 2, 2, slow);
    if (fabs(found - expected) > 1e-15 * expected / e) {
      fail_msg("two slots that exchange %.3g: found %.17g, expected %.17g", e, found, expected);
    }
  }
}

/* Slack all-reduce: distance (1 - gamma)^t (1 - 1/n); the time for small gamma is log 4 / gamma. */
static void slack(void **state) {
  double matrix[MOST * MOST] = {0};
  for (int64_t n = 2; n <= MOST; n += 6) {
    for (int k = 0; k < 7; k++) {
      double gamma = 0.5 * pow(10, -k);
      for (int64_t i = 0; i < n * n; i++) {
        matrix[i] = gamma / (double)n + (i % (n + 1) == 0 ? 1 - gamma : 0);
      }
      double parts = 4 * (1 - 1 / (double)n), found = (double)exact(*state, n, n, matrix);
      double time = ceil(log(parts) / -log1p(-gamma) - 1e-9);
      if (fabs(found - time) > 1e-15 * time / gamma ||
          fabs(found * gamma / log(parts) - 1) > gamma / log(parts) + gamma) {
        fail_msg("slack %.3g of %lld: found %.17g, expected %.17g", gamma, (long long)n, found, time);
      }
    }
  }
}

/* Larger than a block of products, where few entries are there at first and all at last: a ring of n has
 * TV = 1/2 sum_j |1/n sum_(k > 0) lambda_k^t cos(2 pi j k / n)|, alike for all slots. */
static void large_rings(void **state) {
  static const double two_pi = 6.28318530717958647693;
  for (int64_t n = 200; n <= 400; n += 91) {
    double *matrix = NULL;
    assert_ok(*state, LAC_NEW(*state, n * n, &matrix));
    fill_ring(n, 1.0 / 3, matrix);
    int64_t found = exact(*state, n, n, matrix);
    for (int64_t t = found - 1; t <= found; t++) {
      double sum = 0;
      for (int64_t j = 0; j < n; j++) {
        double difference = 0;
        for (int64_t k = 1; k < n; k++) {
          difference += pow((1 + 2 * cos(two_pi * (double)k / (double)n)) / 3, (double)t) *
                        cos(two_pi * (double)(j * k % n) / (double)n);
        }
        sum += fabs(difference) / (double)n;
      }
      if ((0.5 * sum <= 0.25) != (t == found)) {
        fail_msg("a ring of %lld: found %lld, but the distance at %lld is %.17g", (long long)n, (long long)found,
                 (long long)t, 0.5 * sum);
      }
    }
    /* The same chain, not symmetric to look at: one more slot that reads slot 0 and that nobody reads. */
    int64_t m = n + 1;
    double *wider = NULL;
    assert_ok(*state, LAC_NEW(*state, m * m, &wider));
    for (int64_t i = 0; i < n; i++) {
      memcpy(wider + i * m, matrix + i * n, (size_t)n * sizeof *matrix);
    }
    wider[n * m] = 1;
    assert_int_equal(exact(*state, m, n, wider), found);
    assert_int_equal(exact(*state, m, m, wider), found + 1);
    lac_free(wider);
    lac_free(matrix);
  }
}

static void an_interrupt_ends_it(void **state) {
  double matrix[] = {0.9, 0.1, 0.1, 0.9};
  int64_t steps;
  lac_context_interrupt(*state);
  assert_failure(*state, lac_mixing_exact(*state, 2, 2, matrix, &steps), LAC_E_INTERRUPTED, "interrupted");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(rings, make_context, drop_context),
      cmocka_unit_test_setup_teardown(hypercubes, make_context, drop_context),
      cmocka_unit_test_setup_teardown(random_chains, make_context, drop_context),
      cmocka_unit_test_setup_teardown(symmetric_chains, make_context, drop_context),
      cmocka_unit_test_setup_teardown(periodic_and_reducible_chains_never_mix, make_context, drop_context),
      cmocka_unit_test_setup_teardown(known_times, make_context, drop_context),
      cmocka_unit_test_setup_teardown(slack, make_context, drop_context),
      cmocka_unit_test_setup_teardown(large_rings, make_context, drop_context),
      cmocka_unit_test_setup_teardown(an_interrupt_ends_it, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
