/* The second largest modulus by every method that applies, beside formulas, and the bounds of mixing times from it. */
#include "mixing/spectrum.h"

#include <math.h>
#include <pthread.h>

#include "base/memory.h"
#include "base/random.h"
#include "laconic/mixing.h"
#include "mixing/eigen.h"
#include "support.h"

enum { ENTRIES = 8 }; /* most of a row of what is built here */

static const double two_pi = 6.28318530717958647693;

static void near(const char *what, double found, double expected, double error) {
  if (!(fabs(found - expected) <= error)) {
    fail_msg("%s: found %.17g, expected %.17g within %.3g", what, found, expected, error);
  }
}

/* ---- Matrices by hand ---- */

static lac_weights new_weights(lac_context *context, int64_t n) {
  lac_weights w = {.n = n};
  assert_ok(context, LAC_NEW(context, n + 1, &w.start));
  assert_ok(context, LAC_NEW(context, n * ENTRIES, &w.column));
  assert_ok(context, LAC_NEW(context, n * ENTRIES, &w.weight));
  return w;
}

static void drop_weights(lac_weights *w) {
  lac_free(w->weight);
  lac_free(w->column);
  lac_free(w->start);
}

/* Adds to entry (i, j) of the last row, whose columns rise. */
static void add(lac_weights *w, int64_t i, int64_t j, double weight) {
  int64_t at = w->start[i + 1];
  for (int64_t e = w->start[i]; e < w->start[i + 1]; e++) {
    if (w->column[e] == j) {
      w->weight[e] += weight;
      return;
    }
  }
  while (at > w->start[i] && w->column[at - 1] > j) {
    w->column[at] = w->column[at - 1];
    w->weight[at] = w->weight[at - 1];
    at--;
  }
  w->column[at] = (int32_t)j;
  w->weight[at] = weight;
  w->start[i + 1]++;
}

static void begin_row(lac_weights *w, int64_t i) {
  w->start[i + 1] = w->start[i];
}

/* `own` stays, of the rest `forward` goes to the next and what is left to the one before. */
static lac_weights ring_of(lac_context *context, int64_t n, double own, double forward) {
  lac_weights w = new_weights(context, n);
  for (int64_t i = 0; i < n; i++) {
    begin_row(&w, i);
    if (own > 0) {
      add(&w, i, i, own);
    }
    add(&w, i, (i + 1) % n, (1 - own) * forward);
    if (forward < 1) {
      add(&w, i, (i + n - 1) % n, (1 - own) * (1 - forward));
    }
  }
  return w;
}

/* Uniform weights of rows x columns with edges that do not meet, and a chord here and there: degrees differ. */
static lac_weights uniform_grid(lac_context *context, int64_t rows, int64_t columns) {
  int64_t n = rows * columns;
  lac_weights w = new_weights(context, n);
  for (int64_t i = 0; i < n; i++) {
    begin_row(&w, i);
    int64_t row = i / columns, column = i % columns, step = rows / 2 * columns;
    add(&w, i, i, 1);
    if (row > 0) {
      add(&w, i, i - columns, 1);
    }
    if (row + 1 < rows) {
      add(&w, i, i + columns, 1);
    }
    if (column > 0) {
      add(&w, i, i - 1, 1);
    }
    if (column + 1 < columns) {
      add(&w, i, i + 1, 1);
    }
    if (i % 7 == 0 && i + step < n) {
      add(&w, i, i + step, 1);
    }
    if (i >= step && (i - step) % 7 == 0) {
      add(&w, i, i - step, 1);
    }
    double degree = (double)(w.start[i + 1] - w.start[i]);
    for (int64_t e = w.start[i]; e < w.start[i + 1]; e++) {
      w.weight[e] = 1 / degree;
    }
  }
  return w;
}

/* Two random cycles over all: nearly always 4 different neighbours; weights of 1/5, doubled where an edge is. Symmetric
 * and doubly stochastic; `own` instead of 1/5 stays. One way only when directed, and then every row has 2 neighbours.
 */
static lac_weights random_cycles(lac_context *context, int64_t n, double own, bool directed) {
  lac_weights w = new_weights(context, n);
  int64_t *order[2], *place[2];
  for (int c = 0; c < 2; c++) {
    assert_ok(context, LAC_NEW(context, n, &order[c]));
    assert_ok(context, LAC_NEW(context, n, &place[c]));
    lac_random stream = lac_random_stream(n, LAC_RANDOM_TEST, (uint64_t)c, 0);
    lac_random_permutation(&stream, n, order[c]);
    for (int64_t i = 0; i < n; i++) {
      place[c][order[c][i]] = i;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    begin_row(&w, i);
    if (own > 0) {
      add(&w, i, i, own);
    }
    for (int c = 0; c < 2; c++) {
      double part = (1 - own) / (directed ? 2 : 4);
      add(&w, i, order[c][(place[c][i] + 1) % n], part);
      if (!directed) {
        add(&w, i, order[c][(place[c][i] + n - 1) % n], part);
      }
    }
  }
  for (int c = 0; c < 2; c++) {
    lac_free(place[c]);
    lac_free(order[c]);
  }
  return w;
}

/* Random weights of two random cycles and of staying: not doubly stochastic. */
static lac_weights random_directed(lac_context *context, int64_t n) {
  lac_weights w = random_cycles(context, n, 0.1, true);
  lac_random stream = lac_random_stream(n, LAC_RANDOM_TEST, 9, 0);
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t e = w.start[i]; e < w.start[i + 1]; e++) {
      w.weight[e] = 0.1 + lac_random_uniform(&stream);
      sum += w.weight[e];
    }
    for (int64_t e = w.start[i]; e < w.start[i + 1]; e++) {
      w.weight[e] /= sum;
    }
  }
  return w;
}

static lac_spectrum by(lac_context *context, const lac_weights *w, int method) {
  lac_spectrum spectrum;
  assert_ok(context, lac_spectrum_of_weights(context, w, method, &spectrum));
  return spectrum;
}

/* ---- Tests ---- */

/* The same topologies with their formulas and as matrices of which nothing is known. */
static void formulas_are_what_all_eigenvalues_say(void **state) {
  static const struct {
    int kind, weights;
    int64_t first, last, step; /* workers; step 0 doubles */
  } cases[] = {
      {LAC_TOPOLOGY_COMPLETE, LAC_WEIGHTS_METROPOLIS, 1, 9, 1},
      {LAC_TOPOLOGY_RING, LAC_WEIGHTS_METROPOLIS, 2, 30, 1},
      {LAC_TOPOLOGY_RING, LAC_WEIGHTS_UNIFORM, 101, 102, 1},
      {LAC_TOPOLOGY_TORUS, LAC_WEIGHTS_METROPOLIS, 9, 9, 1},
      {LAC_TOPOLOGY_TORUS, LAC_WEIGHTS_METROPOLIS, 12, 48, 4},
      {LAC_TOPOLOGY_STAR, LAC_WEIGHTS_METROPOLIS, 2, 12, 1},
      {LAC_TOPOLOGY_STAR, LAC_WEIGHTS_UNIFORM, 2, 12, 1},
      {LAC_TOPOLOGY_HYPERCUBE, LAC_WEIGHTS_METROPOLIS, 2, 256, 0},
      {LAC_TOPOLOGY_EXPONENTIAL, LAC_WEIGHTS_METROPOLIS, 2, 40, 1},
      {LAC_TOPOLOGY_EXPONENTIAL, LAC_WEIGHTS_UNIFORM, 200, 230, 15},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    for (int64_t n = cases[c].first; n <= cases[c].last; n += cases[c].step ? cases[c].step : n) {
      lac_topology_options options = {.kind = cases[c].kind, .weights = cases[c].weights};
      lac_topology *topology;
      assert_ok(*state, lac_topology_create(*state, &options, n, 1, &topology));
      lac_spectrum formula, dense = by(*state, lac_topology_weights(topology, 0), LAC_SPECTRUM_DENSE);
      assert_ok(*state, lac_mixing_spectrum(*state, topology, &formula));
      assert_int_equal(formula.method, LAC_SPECTRUM_CLOSED);
      assert_true(formula.converged && formula.normal && dense.converged && dense.normal);
      char what[64];
      snprintf(what, sizeof what, "%s of %d", lac_topology_kind_name(cases[c].kind), (int)n);
      near(what, formula.second, dense.second, 1e-12);
      near(what, formula.least_pi, dense.least_pi, 1e-12);
      lac_topology_destroy(&topology);
    }
  }
}

static void several_phases_have_no_spectrum(void **state) {
  lac_topology_options options = {.kind = LAC_TOPOLOGY_ONE_PEER};
  lac_topology *topology;
  lac_spectrum spectrum;
  assert_ok(*state, lac_topology_create(*state, &options, 8, 1, &topology));
  assert_failure(*state, lac_mixing_spectrum(*state, topology, &spectrum), LAC_E_USAGE, "3 phases");
  lac_topology_destroy(&topology);
}

/* Dense, ARPACK and shift-invert find the same; Lanczos nearly so, and nothing that is larger. */
static void compare_methods(lac_context *context, lac_weights w, const char *what) {
  lac_spectrum dense = by(context, &w, LAC_SPECTRUM_DENSE);
  static const int methods[] = {LAC_SPECTRUM_ARPACK, LAC_SPECTRUM_SHIFT_INVERT};
  for (int m = 0; m < 2; m++) {
    lac_spectrum other = by(context, &w, methods[m]);
    assert_int_equal(other.method, methods[m]);
    assert_true(other.converged && other.normal);
    near(what, other.second, dense.second, 1e-9);
    near(what, other.least_pi, dense.least_pi, 1e-15);
  }
  lac_spectrum bound = by(context, &w, LAC_SPECTRUM_LANCZOS);
  assert_int_equal(bound.method, LAC_SPECTRUM_LANCZOS);
  assert_true(bound.converged && bound.second <= dense.second + 1e-12);
  near(what, bound.second, dense.second, 1e-4 * (1 - dense.second) + 1e-9);
  drop_weights(&w);
}

static void methods_agree(void **state) {
  compare_methods(*state, ring_of(*state, 90, 1.0 / 3, 0.5), "a ring");
  compare_methods(*state, ring_of(*state, 90, 0.01, 0.5), "a ring whose other end does not count"); /* -.98, .9976 */
  compare_methods(*state, ring_of(*state, 91, 0, 0.5), "an odd ring without own weights");
  compare_methods(*state, ring_of(*state, 90, 1e-4, 0.5), "a ring nearly of two classes"); /* -.9998, .9976 */
  compare_methods(*state, uniform_grid(*state, 9, 13), "a grid with uniform weights");
  compare_methods(*state, random_cycles(*state, 200, 0.2, false), "a random graph");
  compare_methods(*state, random_cycles(*state, 150, 0.7, false), "a lazy random graph");
  compare_methods(*state, random_cycles(*state, 150, 0, false), "a random graph without own weights");
}

/* A chain that drifts is reversible too: w and q to the right and left give pi in proportion to (w / q)^i. */
static void a_drift_is_symmetrised(void **state) {
  int64_t n = 60;
  lac_weights w = new_weights(*state, n);
  for (int64_t i = 0; i < n; i++) {
    begin_row(&w, i);
    double right = i + 1 < n ? 0.3 : 0, left = i > 0 ? 0.2 : 0;
    add(&w, i, i, 1 - right - left);
    if (right > 0) {
      add(&w, i, i + 1, right);
    }
    if (left > 0) {
      add(&w, i, i - 1, left);
    }
  }
  /* Karlin and McGregor: 1 - p - q + 2 sqrt(pq) cos(pi k / n) */
  double expected = 0.5 + 2 * sqrt(0.06) * cos(two_pi / 2 / (double)n);
  double pi = 0.5 / (pow(1.5, (double)n) - 1);
  static const int methods[] = {LAC_SPECTRUM_DENSE, LAC_SPECTRUM_ARPACK, LAC_SPECTRUM_SHIFT_INVERT};
  for (int m = 0; m < 3; m++) {
    lac_spectrum found = by(*state, &w, methods[m]);
    assert_true(found.normal);
    near("a drift", found.second, expected, 1e-9);
    near("pi of a drift, relative", found.least_pi / pi, 1, 1e-9);
  }
  drop_weights(&w);
}

/* What no product reaches: a gap of 1.3e-9. The formula is not used, a ring's file has it not. */
static void a_long_ring_is_inverted(void **state) {
  for (int64_t n = 1000; n <= 100000; n *= 10) {
    lac_weights w = ring_of(*state, n, 1.0 / 3, 0.5);
    lac_spectrum found = by(*state, &w, LAC_SPECTRUM_ANY);
    assert_int_equal(found.method, LAC_SPECTRUM_SHIFT_INVERT);
    double half = sin(two_pi / 2 / (double)n);
    near("gap of a ring, relative", (1 - found.second) / (4.0 / 3 * half * half), 1, 1e-5);
    near("pi", found.least_pi * (double)n, 1, 1e-12);
    drop_weights(&w);
  }
}

/* Friedman 2003: of random d-regular graphs all but the first adjacency eigenvalue are near 2 sqrt(d - 1) at most. */
static void random_graphs_are_iterated(void **state) {
  lac_weights w = random_cycles(*state, 4000, 0.2, false);
  lac_spectrum found = by(*state, &w, LAC_SPECTRUM_ANY);
  assert_int_equal(found.method, LAC_SPECTRUM_LANCZOS);
  assert_true(found.converged && found.normal);
  near("a random 4-regular graph", found.second, (1 + 2 * sqrt(3)) / 5, 0.01);
  near("Lanczos beside ARPACK", found.second, by(*state, &w, LAC_SPECTRUM_ARPACK).second, 1e-7);
  drop_weights(&w);
}

/* The analysis knows before the work what it would take; of a path it is little: n entries below the diagonal at most.
 */
static void full_factors_are_not_made(void **state) {
  lac_weights random = random_cycles(*state, 3000, 0.2, false), ring = ring_of(*state, 3000, 0.2, 0.5);
  lac_cholesky *factor;
  assert_ok(*state, lac_cholesky_create(*state, &random, 1.1, -1, 1e5, 1e30, &factor));
  assert_null(factor);
  assert_ok(*state, lac_cholesky_create(*state, &random, 1.1, -1, 1e30, 1e5, &factor));
  assert_null(factor);
  assert_ok(*state, lac_cholesky_create(*state, &ring, 1.1, -1, 3 * 3000, 1e5, &factor));
  assert_non_null(factor);
  /* (1.1 I - W) x = b has x = 10 for b = 1, whose every row sums to .1. */
  double *b, *x;
  assert_ok(*state, LAC_NEW(*state, 3000, &b));
  assert_ok(*state, LAC_NEW(*state, 3000, &x));
  for (int i = 0; i < 3000; i++) {
    b[i] = 1;
  }
  assert_ok(*state, lac_cholesky_solve(*state, factor, b, x));
  for (int i = 0; i < 3000; i++) {
    near("a solution", x[i], 10, 1e-10);
  }
  lac_free(x);
  lac_free(b);
  lac_cholesky_destroy(&factor);
  assert_null(factor);
  assert_failure(*state, lac_cholesky_create(*state, &ring, 0.5, -1, 1e30, 1e30, &factor), LAC_E_NUMERICAL,
                 "not positive definite");
  drop_weights(&ring);
  drop_weights(&random);
}

/* A gap of 1.3e-7 is more than the products that are made can show: what they have is less than the truth. */
static void without_convergence_there_is_a_lower_bound(void **state) {
  int64_t n = 10000;
  lac_weights w = ring_of(*state, n, 1.0 / 3, 0.5);
  lac_spectrum found = by(*state, &w, LAC_SPECTRUM_LANCZOS);
  double half = sin(two_pi / 2 / (double)n), gap = 4.0 / 3 * half * half, lower, upper;
  assert_false(found.converged);
  assert_true(1 - found.second > gap && 1 - found.second < 1e-4);
  lac_mixing_bounds(&found, &lower, &upper);
  assert_true(lower > 1e4 && lower < log(2) / gap && isnan(upper));
  drop_weights(&w);
}

/* All weights alike, too many for all eigenvalues: after the constant vector nothing is left. */
static void a_complete_graph_has_nothing_else(void **state) {
  int64_t n = 600;
  lac_weights w = {.n = n};
  assert_ok(*state, LAC_NEW(*state, n + 1, &w.start));
  assert_ok(*state, LAC_NEW(*state, n * n, &w.column));
  assert_ok(*state, LAC_NEW(*state, n * n, &w.weight));
  for (int64_t e = 0; e < n * n; e++) {
    w.start[e / n + 1] = e + 1;
    w.column[e] = (int32_t)(e % n);
    w.weight[e] = 1 / (double)n;
  }
  lac_spectrum found = by(*state, &w, LAC_SPECTRUM_ANY);
  assert_true(found.converged);
  near("a complete graph", found.second, 0, 1e-12);
  drop_weights(&w);
}

/* One way round: eigenvalues own + (1 - own) e^(2 pi i k / n), a normal matrix. */
static void directed_rings_are_normal(void **state) {
  for (int64_t n = 60; n <= 600; n += 540) {
    lac_weights w = ring_of(*state, n, 0.5, 1);
    lac_spectrum found = by(*state, &w, LAC_SPECTRUM_ANY), iterated = by(*state, &w, LAC_SPECTRUM_ARPACK);
    assert_true(found.normal && found.converged && iterated.normal && iterated.converged);
    near("a directed ring", found.second, cos(two_pi / 2 / (double)n), 1e-9);
    near("a directed ring, iterated", iterated.second, cos(two_pi / 2 / (double)n), 1e-9);
    near("pi", found.least_pi * (double)n, 1, 1e-9);
    drop_weights(&w);
  }
}

static void other_directed_graphs_are_not_normal(void **state) {
  for (int64_t n = 80; n <= 400; n += 160) {
    lac_weights w = random_directed(*state, n);
    lac_spectrum dense = by(*state, &w, LAC_SPECTRUM_DENSE), iterated = by(*state, &w, LAC_SPECTRUM_ARPACK);
    assert_false(dense.normal);
    assert_false(iterated.normal);
    near("a directed graph", iterated.second, dense.second, 1e-7);
    /* pi by a thousand steps of the plain chain */
    double *pi, *next, least = 1;
    assert_ok(*state, LAC_NEW(*state, n, &pi));
    assert_ok(*state, LAC_NEW(*state, n, &next));
    pi[0] = 1;
    for (int t = 0; t < 1000; t++) {
      memset(next, 0, (size_t)n * sizeof *next);
      for (int64_t i = 0; i < n; i++) {
        for (int64_t e = w.start[i]; e < w.start[i + 1]; e++) {
          next[w.column[e]] += pi[i] * w.weight[e];
        }
      }
      memcpy(pi, next, (size_t)n * sizeof *pi);
    }
    for (int64_t i = 0; i < n; i++) {
      least = fmin(least, pi[i]);
    }
    near("pi", dense.least_pi / least, 1, 1e-6);
    lac_free(next);
    lac_free(pi);
    lac_spectrum spectrum;
    assert_failure(*state, lac_spectrum_of_weights(*state, &w, LAC_SPECTRUM_SHIFT_INVERT, &spectrum), LAC_E_USAGE,
                   "not reversible");
    drop_weights(&w);
  }
}

static void enclose(lac_context *context, lac_weights w, const char *what) {
  int64_t n = w.n, steps;
  double *dense = NULL, lower, upper;
  assert_ok(context, LAC_NEW(context, n * n, &dense));
  for (int64_t i = 0; i < n; i++) {
    for (int64_t e = w.start[i]; e < w.start[i + 1]; e++) {
      dense[i * n + w.column[e]] = w.weight[e];
    }
  }
  assert_ok(context, lac_mixing_exact(context, n, n, dense, &steps));
  lac_spectrum spectrum = by(context, &w, LAC_SPECTRUM_DENSE);
  lac_mixing_bounds(&spectrum, &lower, &upper);
  if (!(lower <= (double)steps && (double)steps <= upper && upper < 100 * lower)) {
    fail_msg("%s: %lld steps are not within %.17g and %.17g", what, (long long)steps, lower, upper);
  }
  if (n >= 60) {
    spectrum = by(context, &w, LAC_SPECTRUM_ANY);
    double again[2];
    lac_mixing_bounds(&spectrum, &again[0], &again[1]);
    near(what, again[0] / lower, 1, 1e-6);
  }
  lac_free(dense);
  drop_weights(&w);
}

static void bounds_enclose_the_exact_time(void **state) {
  for (int64_t n = 3; n <= 40; n += 3) {
    enclose(*state, ring_of(*state, n, 1.0 / 3, 0.5), "a ring");
    enclose(*state, ring_of(*state, n, 0.9, 0.5), "a lazy ring");
    enclose(*state, ring_of(*state, n, 0.5, 1), "a directed ring");
    enclose(*state, ring_of(*state, n, 0.01, 0.5), "a ring nearly without own weights");
  }
  enclose(*state, uniform_grid(*state, 4, 5), "a grid");
  enclose(*state, uniform_grid(*state, 8, 9), "a grid");
  enclose(*state, random_cycles(*state, 50, 0.2, false), "a random graph");
  enclose(*state, random_cycles(*state, 130, 0, false), "a random graph");
}

static void bounds_at_the_ends(void **state) {
  (void)state;
  double lower, upper;
  lac_spectrum spectrum = {.second = 0, .least_pi = 1, .converged = true, .normal = true}; /* one worker */
  lac_mixing_bounds(&spectrum, &lower, &upper);
  assert_true(lower == 0 && upper == 0);
  spectrum.least_pi = 0.1; /* complete */
  lac_mixing_bounds(&spectrum, &lower, &upper);
  assert_true(lower == 1 && upper == 1);
  spectrum.second = 0.5; /* ln 2 / ln 2; log2(2 sqrt 10) = 2.66 */
  lac_mixing_bounds(&spectrum, &lower, &upper);
  assert_true(fabs(lower - 1) < 1e-12 && upper == 3);
  spectrum.second = 1;
  lac_mixing_bounds(&spectrum, &lower, &upper);
  assert_true(isinf(lower) && isinf(upper));
  spectrum.second = 0.99;
  spectrum.converged = false;
  lac_mixing_bounds(&spectrum, &lower, &upper);
  near("the lower bound", lower, log(2) / -log(0.99), 1e-9);
  assert_true(isnan(upper));
  spectrum.converged = true;
  spectrum.normal = false;
  lac_mixing_bounds(&spectrum, &lower, &upper);
  assert_true(isnan(upper));
}

static void what_does_not_connect_is_refused(void **state) {
  lac_weights w = new_weights(*state, 4); /* 0 and 2, 1 and 3 */
  for (int64_t i = 0; i < 4; i++) {
    begin_row(&w, i);
    add(&w, i, i, 0.5);
    add(&w, i, (i + 2) % 4, 0.5);
  }
  lac_spectrum spectrum;
  assert_failure(*state, lac_spectrum_of_weights(*state, &w, LAC_SPECTRUM_ANY, &spectrum), LAC_E_USAGE,
                 "2 of 4 workers");
  drop_weights(&w);
  w = ring_of(*state, 600, 0, 0.5); /* two classes: eigenvalue -1 */
  near("an even ring without own weights", by(*state, &w, LAC_SPECTRUM_ANY).second, 1, 1e-9);
  drop_weights(&w);
}

static void an_interrupt_ends_it(void **state) {
  lac_weights w = random_cycles(*state, 700, 0.2, false), ring = ring_of(*state, 700, 0.2, 0.5);
  lac_spectrum spectrum;
  lac_context_interrupt(*state);
  assert_failure(*state, lac_spectrum_of_weights(*state, &w, LAC_SPECTRUM_ARPACK, &spectrum), LAC_E_INTERRUPTED, "");
  assert_failure(*state, lac_spectrum_of_weights(*state, &ring, LAC_SPECTRUM_ANY, &spectrum), LAC_E_INTERRUPTED, "");
  drop_weights(&ring);
  drop_weights(&w);
}

/* Several at a time, as in a sweep: ARPACK's saved variables are one set for the process. */
typedef struct job {
  lac_context *context;
  lac_weights weights;
  int method;
  double alone, together[3];
} job;

static void *work(void *argument) {
  job *j = argument;
  for (int i = 0; i < 3; i++) {
    lac_spectrum spectrum = {0};
    j->together[i] =
        lac_spectrum_of_weights(j->context, &j->weights, j->method, &spectrum) == LAC_OK ? spectrum.second : NAN;
  }
  return NULL;
}

static void threads_do_not_meet(void **state) {
  job jobs[] = {{.weights = random_cycles(*state, 300, 0.2, false), .method = LAC_SPECTRUM_ARPACK},
                {.weights = ring_of(*state, 500, 0.2, 0.5), .method = LAC_SPECTRUM_SHIFT_INVERT},
                {.weights = random_directed(*state, 400), .method = LAC_SPECTRUM_ARPACK},
                {.weights = uniform_grid(*state, 20, 20), .method = LAC_SPECTRUM_ARPACK}};
  enum { JOBS = sizeof jobs / sizeof *jobs };
  pthread_t threads[JOBS];
  for (int i = 0; i < JOBS; i++) {
    assert_ok(*state, lac_context_child(*state, &jobs[i].context));
    jobs[i].alone = by(*state, &jobs[i].weights, jobs[i].method).second;
  }
  for (int i = 0; i < JOBS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
  }
  for (int i = 0; i < JOBS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  for (int i = 0; i < JOBS; i++) {
    for (int k = 0; k < 3; k++) {
      near("beside others", jobs[i].together[k], jobs[i].alone, 0);
    }
    lac_context_destroy(&jobs[i].context);
    drop_weights(&jobs[i].weights);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(formulas_are_what_all_eigenvalues_say, make_context, drop_context),
      cmocka_unit_test_setup_teardown(several_phases_have_no_spectrum, make_context, drop_context),
      cmocka_unit_test_setup_teardown(methods_agree, make_context, drop_context),
      cmocka_unit_test_setup_teardown(a_drift_is_symmetrised, make_context, drop_context),
      cmocka_unit_test_setup_teardown(a_long_ring_is_inverted, make_context, drop_context),
      cmocka_unit_test_setup_teardown(random_graphs_are_iterated, make_context, drop_context),
      cmocka_unit_test_setup_teardown(full_factors_are_not_made, make_context, drop_context),
      cmocka_unit_test_setup_teardown(without_convergence_there_is_a_lower_bound, make_context, drop_context),
      cmocka_unit_test_setup_teardown(a_complete_graph_has_nothing_else, make_context, drop_context),
      cmocka_unit_test_setup_teardown(directed_rings_are_normal, make_context, drop_context),
      cmocka_unit_test_setup_teardown(other_directed_graphs_are_not_normal, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bounds_enclose_the_exact_time, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bounds_at_the_ends, make_context, drop_context),
      cmocka_unit_test_setup_teardown(what_does_not_connect_is_refused, make_context, drop_context),
      cmocka_unit_test_setup_teardown(an_interrupt_ends_it, make_context, drop_context),
      cmocka_unit_test_setup_teardown(threads_do_not_meet, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
