#include "laconic/topology.h"

#include <math.h>
#include <sys/stat.h>
#include <time.h>

#include "support.h"

enum { MOST = 40 };

static lac_topology *make(lac_context *context, int kind, int64_t n, int64_t degree) {
  lac_topology *topology;
  lac_topology_options options = {.kind = kind, .degree = degree};
  assert_ok(context, lac_topology_create(context, &options, n, 1, &topology));
  return topology;
}

static lac_status try_file(lac_context *context, const char *path, int weights, int64_t workers,
                           lac_topology **topology) {
  char name[64];
  snprintf(name, sizeof name, "%s", path);
  lac_topology_options options = {.graph = name, .weights = weights, .kind = LAC_TOPOLOGY_RING};
  return lac_topology_create(context, &options, workers, 1, topology);
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* The topology of a text in a file of that name. */
static lac_topology *read_text(lac_context *context, const char *path, const char *text, int weights) {
  lac_topology *topology;
  write_file(path, text);
  assert_ok(context, try_file(context, path, weights, 0, &topology));
  assert_int_equal(lac_topology_kind_of(topology), LAC_TOPOLOGY_FILE);
  return topology;
}

static double weight_at(const lac_weights *weights, int64_t i, int64_t j) {
  for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
    if (weights->column[k] == j) {
      return weights->weight[k];
    }
  }
  return 0;
}

static void assert_near(double found, double expected) {
  if (!(fabs(found - expected) <= 1e-14)) {
    fail_msg("found %.17g, expected %.17g", found, expected);
  }
}

/* What lac_weights promises: rising columns, positive weights, rows that sum to 1. */
static void assert_stochastic(const lac_weights *weights) {
  assert_int_equal(weights->start[0], 0);
  for (int64_t i = 0; i < weights->n; i++) {
    double sum = 0;
    for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
      assert_in_range(weights->column[k], 0, weights->n - 1);
      assert_true(k == weights->start[i] || weights->column[k - 1] < weights->column[k]);
      assert_true(weights->weight[k] > 0);
      sum += weights->weight[k];
    }
    if (!(fabs(sum - 1) <= 1e-12)) {
      fail_msg("row %d sums to %.17g", (int)i, sum);
    }
  }
}

static void assert_matrix(const lac_weights *weights, int64_t n, const double *expected) {
  assert_int_equal(weights->n, n);
  assert_stochastic(weights);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      assert_near(weight_at(weights, i, j), expected[i * n + j]);
    }
  }
}

static void assert_same(const lac_weights *a, const lac_weights *b) {
  assert_int_equal(a->n, b->n);
  assert_memory_equal(a->start, b->start, (size_t)(a->n + 1) * sizeof *a->start);
  assert_memory_equal(a->column, b->column, (size_t)a->start[a->n] * sizeof *a->column);
  assert_memory_equal(a->weight, b->weight, (size_t)a->start[a->n] * sizeof *a->weight);
}

static lac_connection connection_of(lac_context *context, const lac_topology *topology) {
  lac_connection connection;
  assert_ok(context, lac_topology_connection(context, topology, &connection));
  return connection;
}

/* ---- kinds ---- */

/* Neighbours by hand: -1 ends a row. */
static void assert_rows(lac_context *context, int kind, int64_t n, const int rows[][8]) {
  lac_topology *topology = make(context, kind, n, 0);
  const lac_weights *weights = lac_topology_weights(topology, 0);
  assert_int_equal(lac_topology_kind_of(topology), kind);
  assert_int_equal(lac_topology_workers(topology), n);
  assert_int_equal(lac_topology_phases(topology), 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t count = 0;
    for (; rows[i][count] >= 0; count++) {
      assert_int_equal(weights->column[weights->start[i] + count], rows[i][count]);
    }
    assert_int_equal(weights->start[i + 1] - weights->start[i], count);
  }
  lac_topology_destroy(&topology);
  assert_null(topology);
  lac_topology_destroy(&topology);
}

static void neighbours_are_those_of_the_definition(void **state) {
  const int one[][8] = {{0, -1}};
  const int three[][8] = {{0, 1, 2, -1}, {0, 1, 2, -1}, {0, 1, 2, -1}};
  const int pair[][8] = {{0, 1, -1}, {0, 1, -1}};
  const int ring[][8] = {{0, 1, 4, -1}, {0, 1, 2, -1}, {1, 2, 3, -1}, {2, 3, 4, -1}, {0, 3, 4, -1}};
  const int star[][8] = {{0, 1, 2, 3, -1}, {0, 1, -1}, {0, 2, -1}, {0, 3, -1}};
  /* 0 1 2 / 3 4 5 */
  const int grid[][8] = {{0, 1, 3, -1}, {0, 1, 2, 4, -1}, {1, 2, 5, -1},
                         {0, 3, 4, -1}, {1, 3, 4, 5, -1}, {2, 4, 5, -1}};
  /* 0 1 2 3 / 4 5 6 7 / 8 9 10 11 */
  const int torus[][8] = {{0, 1, 3, 4, 8, -1},  {0, 1, 2, 5, 9, -1},  {1, 2, 3, 6, 10, -1},  {0, 2, 3, 7, 11, -1},
                          {0, 4, 5, 7, 8, -1},  {1, 4, 5, 6, 9, -1},  {2, 5, 6, 7, 10, -1},  {3, 4, 6, 7, 11, -1},
                          {0, 4, 8, 9, 11, -1}, {1, 5, 8, 9, 10, -1}, {2, 6, 9, 10, 11, -1}, {3, 7, 8, 10, 11, -1}};
  const int cube[][8] = {{0, 1, 2, 4, -1}, {0, 1, 3, 5, -1}, {0, 2, 3, 6, -1}, {1, 2, 3, 7, -1},
                         {0, 4, 5, 6, -1}, {1, 4, 5, 7, -1}, {2, 4, 6, 7, -1}, {3, 5, 6, 7, -1}};
  const int exponential[][8] = {
      {0, 1, 2, 4, -1}, {0, 1, 2, 3, -1}, {1, 2, 3, 4, -1}, {0, 2, 3, 4, -1}, {0, 1, 3, 4, -1}};
  assert_rows(*state, LAC_TOPOLOGY_COMPLETE, 1, one);
  assert_rows(*state, LAC_TOPOLOGY_COMPLETE, 3, three);
  assert_rows(*state, LAC_TOPOLOGY_RING, 2, pair);
  assert_rows(*state, LAC_TOPOLOGY_RING, 3, three);
  assert_rows(*state, LAC_TOPOLOGY_RING, 5, ring);
  assert_rows(*state, LAC_TOPOLOGY_STAR, 4, star);
  assert_rows(*state, LAC_TOPOLOGY_GRID, 6, grid);
  assert_rows(*state, LAC_TOPOLOGY_TORUS, 12, torus);
  assert_rows(*state, LAC_TOPOLOGY_HYPERCUBE, 2, pair);
  assert_rows(*state, LAC_TOPOLOGY_HYPERCUBE, 8, cube);
  assert_rows(*state, LAC_TOPOLOGY_EXPONENTIAL, 5, exponential);
}

static void weights_are_those_of_the_definition(void **state) {
  lac_topology *topology;
  lac_topology_options options = {.kind = LAC_TOPOLOGY_STAR};
  const double metropolis[] = {.25, .25, .25, .25, .25, .75, 0, 0, .25, 0, .75, 0, .25, 0, 0, .75};
  const double uniform[] = {.25, .25, .25, .25, .5, .5, 0, 0, .5, 0, .5, 0, .5, 0, 0, .5};
  assert_ok(*state, lac_topology_create(*state, &options, 4, 1, &topology));
  assert_matrix(lac_topology_weights(topology, 0), 4, metropolis);
  lac_connection connection = connection_of(*state, topology);
  assert_true(connection.symmetric && connection.doubly);
  lac_topology_destroy(&topology);
  options.weights = LAC_WEIGHTS_UNIFORM;
  assert_ok(*state, lac_topology_create(*state, &options, 4, 1, &topology));
  assert_matrix(lac_topology_weights(topology, 0), 4, uniform);
  connection = connection_of(*state, topology);
  assert_true(!connection.symmetric && !connection.doubly);
  lac_topology_destroy(&topology);
}

/* A grid of 2 x 3: corners have 2 neighbours, those between them 3. Corner 0: 1/(1 + 2) to corner 3, 1/(1 + 3) to 1. */
static void metropolis_takes_the_higher_degree(void **state) {
  lac_topology *topology = make(*state, LAC_TOPOLOGY_GRID, 6, 0);
  const lac_weights *weights = lac_topology_weights(topology, 0);
  assert_int_equal(lac_topology_rows(topology), 2);
  assert_near(weight_at(weights, 0, 3), 1. / 3);
  assert_near(weight_at(weights, 0, 1), 1. / 4);
  assert_near(weight_at(weights, 0, 0), 5. / 12);
  assert_near(weight_at(weights, 1, 1), 1. / 4);
  assert_near(weight_at(weights, 1, 4), 1. / 4);
  lac_topology_destroy(&topology);
}

static int64_t side_of(int64_t n, int64_t least) {
  int64_t side = 0;
  for (int64_t r = least; r <= n / r; r++) {
    side = n % r ? side : r;
  }
  return side;
}

static int bits_of(int64_t x) {
  return __builtin_popcountll((unsigned long long)x);
}

/* Steps from a to b along a line of `length`, or around it. */
static int64_t apart(int64_t a, int64_t b, int64_t length, bool around) {
  int64_t steps = llabs(a - b);
  return around && length - steps < steps ? length - steps : steps;
}

/* Whether i takes from j: the definitions as a property of pairs, where the product lists neighbours. */
static bool takes(int kind, int64_t n, int64_t i, int64_t j) {
  int64_t ahead = (j - i + n) % n, width;
  switch (kind) {
    case LAC_TOPOLOGY_COMPLETE:
      return i != j;
    case LAC_TOPOLOGY_RING:
      return apart(i, j, n, true) == 1;
    case LAC_TOPOLOGY_TORUS:
      width = n / side_of(n, 3);
      return apart(i / width, j / width, n / width, true) + apart(i % width, j % width, width, true) == 1;
    case LAC_TOPOLOGY_GRID:
      width = n / side_of(n, 2);
      return apart(i / width, j / width, n / width, false) + apart(i % width, j % width, width, false) == 1;
    case LAC_TOPOLOGY_STAR:
      return i != j && i * j == 0;
    case LAC_TOPOLOGY_HYPERCUBE:
      return bits_of(i ^ j) == 1;
    default:
      return bits_of(ahead) == 1; /* a power of two */
  }
}

static bool can_be(int kind, int64_t n) {
  switch (kind) {
    case LAC_TOPOLOGY_COMPLETE:
      return true;
    case LAC_TOPOLOGY_TORUS:
      return side_of(n, 3) > 0;
    case LAC_TOPOLOGY_GRID:
      return side_of(n, 2) > 0;
    case LAC_TOPOLOGY_HYPERCUBE:
      return n >= 2 && bits_of(n) == 1;
    default:
      return n >= 2;
  }
}

static void assert_takes(const lac_weights *weights, int kind, int64_t n, int kind_of_weights) {
  int degree[MOST] = {0};
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      degree[i] += takes(kind, n, i, j);
    }
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      int d = kind_of_weights == LAC_WEIGHTS_METROPOLIS && degree[j] > degree[i] ? degree[j] : degree[i];
      if (i != j) {
        assert_near(weight_at(weights, i, j), takes(kind, n, i, j) ? 1. / (1 + d) : 0);
      }
    }
    assert_true(weight_at(weights, i, i) > 0);
  }
  assert_stochastic(weights);
}

static bool is_directed(int kind) {
  return kind == LAC_TOPOLOGY_EXPONENTIAL || kind == LAC_TOPOLOGY_ONE_PEER;
}

static void every_size_is_built_or_refused(void **state) {
  for (int kind = 0; kind < LAC_TOPOLOGY_ONE_PEER; kind++) {
    for (int64_t n = 1; n <= MOST; n++) {
      for (int weights = LAC_WEIGHTS_METROPOLIS; weights <= LAC_WEIGHTS_UNIFORM; weights++) {
        lac_topology *topology;
        lac_topology_options options = {.kind = kind, .weights = weights, .degree = 4};
        if (!can_be(kind, n)) {
          assert_failure(*state, lac_topology_create(*state, &options, n, 1, &topology), LAC_E_USAGE, "say ");
          assert_null(topology);
          continue;
        }
        assert_ok(*state, lac_topology_create(*state, &options, n, 1, &topology));
        assert_takes(lac_topology_weights(topology, 0), kind, n, weights);
        lac_connection connection = connection_of(*state, topology);
        assert_int_equal(connection.components, 1);
        assert_int_equal(connection.period, 1);
        if (weights == LAC_WEIGHTS_METROPOLIS) {
          assert_true(connection.doubly);
          assert_true(connection.symmetric || (is_directed(kind) && n > 3));
        }
        lac_topology_destroy(&topology);
      }
    }
  }
}

/* Where n is a power of two, the phases' product is 11'/n: every entry of a path of halves is 1/n. */
static void one_peer_averages_in_log2_rounds(void **state) {
  for (int64_t n = 2; n <= MOST; n++) {
    lac_topology *topology = make(*state, LAC_TOPOLOGY_ONE_PEER, n, 0);
    int phases = lac_topology_phases(topology);
    assert_true((1 << phases) >= n && (1 << (phases - 1)) < n);
    double x[MOST] = {1}, y[MOST];
    for (int phase = 0; phase < phases; phase++) {
      const lac_weights *weights = lac_topology_weights(topology, phase);
      assert_stochastic(weights);
      for (int64_t i = 0; i < n; i++) {
        assert_near(weight_at(weights, i, i), 0.5);
        assert_near(weight_at(weights, i, (i + (1 << phase)) % n), 0.5);
        y[i] = (x[i] + x[(i + (1 << phase)) % n]) / 2;
      }
      memcpy(x, y, sizeof x);
    }
    for (int64_t i = 0; bits_of(n) == 1 && i < n; i++) {
      assert_near(x[i], 1. / (double)n);
    }
    lac_connection connection = connection_of(*state, topology);
    assert_int_equal(connection.components, 1);
    assert_int_equal(connection.period, 1);
    assert_true(connection.doubly && connection.symmetric == (n == 2));
    lac_topology_destroy(&topology);
  }
}

static void random_regular_graphs_are_regular_and_connect(void **state) {
  for (int64_t n = 1; n <= MOST; n++) {
    for (int64_t degree = 1; degree <= MOST; degree++) {
      lac_topology *topology;
      lac_topology_options options = {.kind = LAC_TOPOLOGY_RANDOM_REGULAR, .degree = degree};
      bool can = degree < n && n * degree % 2 == 0 && (degree > 1 || n == 2);
      if (!can) {
        assert_failure(*state, lac_topology_create(*state, &options, n, n + degree, &topology), LAC_E_USAGE, "found");
        continue;
      }
      assert_ok(*state, lac_topology_create(*state, &options, n, n + degree, &topology));
      const lac_weights *weights = lac_topology_weights(topology, 0);
      assert_stochastic(weights);
      for (int64_t i = 0; i < n; i++) {
        assert_int_equal(weights->start[i + 1] - weights->start[i], degree + 1);
        assert_near(weight_at(weights, i, i), 1. / (double)(degree + 1));
      }
      lac_connection connection = connection_of(*state, topology);
      assert_int_equal(connection.components, 1);
      assert_true(connection.symmetric && connection.doubly);
      lac_topology_destroy(&topology);
    }
  }
}

static void a_seed_is_a_graph(void **state) {
  static const int64_t degrees[] = {2, 4, 25};
  for (size_t d = 0; d < sizeof degrees / sizeof *degrees; d++) {
    lac_topology_options options = {.kind = LAC_TOPOLOGY_RANDOM_REGULAR, .degree = degrees[d]};
    lac_topology *a, *b, *c;
    assert_ok(*state, lac_topology_create(*state, &options, 30, 7, &a));
    assert_ok(*state, lac_topology_create(*state, &options, 30, 7, &b));
    assert_ok(*state, lac_topology_create(*state, &options, 30, 8, &c));
    const lac_weights *first = lac_topology_weights(a, 0), *other = lac_topology_weights(c, 0);
    assert_same(first, lac_topology_weights(b, 0));
    assert_memory_not_equal(first->column, other->column, (size_t)first->start[30] * sizeof *first->column);
    lac_topology_destroy(&a);
    lac_topology_destroy(&b);
    lac_topology_destroy(&c);
  }
}

/* Each edge of a random graph of n vertices and degree d has the same probability d / (n - 1). Over 3,000 graphs the
 * count of each of the 28 edges is binomial; none is off by more than five standard deviations. */
static void random_regular_graphs_favour_no_edge(void **state) {
  enum { N = 8, DEGREE = 3, GRAPHS = 3000 };
  int count[N][N] = {{0}};
  for (int seed = 0; seed < GRAPHS; seed++) {
    lac_topology_options options = {.kind = LAC_TOPOLOGY_RANDOM_REGULAR, .degree = DEGREE};
    lac_topology *topology;
    assert_ok(*state, lac_topology_create(*state, &options, N, seed, &topology));
    for (int64_t i = 0; i < N; i++) {
      for (int64_t j = 0; j < N; j++) {
        count[i][j] += weight_at(lac_topology_weights(topology, 0), i, j) > 0;
      }
    }
    assert_int_equal(connection_of(*state, topology).components, 1); /* of 19,355 graphs 35 are two of four */
    lac_topology_destroy(&topology);
  }
  double p = (double)DEGREE / (N - 1), deviation = sqrt(GRAPHS * p * (1 - p));
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) {
      assert_true(fabs(count[i][j] - GRAPHS * p) < 5 * deviation);
    }
  }
}

/* The triangles of a large random regular graph are a Poisson number of mean (d - 1)^3 / 6 (Bollobas 1980): a repair
 * that prefers what is near would show in them first. */
static void triangles_of_random_graphs_are_as_many_as_expected(void **state) {
  enum { N = 20000, DEGREE = 4, GRAPHS = 20 };
  int64_t triangles = 0;
  for (int seed = 0; seed < GRAPHS; seed++) {
    lac_topology_options options = {.kind = LAC_TOPOLOGY_RANDOM_REGULAR, .degree = DEGREE};
    lac_topology *topology;
    assert_ok(*state, lac_topology_create(*state, &options, N, seed, &topology));
    const lac_weights *weights = lac_topology_weights(topology, 0);
    for (int64_t i = 0; i < N; i++) {
      for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
        for (int64_t l = weights->start[i]; l < k; l++) {
          int32_t a = weights->column[l], b = weights->column[k];
          triangles += i < a && a < b && weight_at(weights, a, b) > 0;
        }
      }
    }
    lac_topology_destroy(&topology);
  }
  double mean = GRAPHS * 27 / 6.; /* 90, a Poisson number */
  assert_true(fabs((double)triangles - mean) < 5 * sqrt(mean));
}

static void a_hundred_thousand_workers_are_built_at_once(void **state) {
  static const struct {
    int kind;
    int64_t workers;
  } large[] = {{LAC_TOPOLOGY_RING, 100000},      {LAC_TOPOLOGY_TORUS, 100000},
               {LAC_TOPOLOGY_GRID, 100000},      {LAC_TOPOLOGY_STAR, 100000},
               {LAC_TOPOLOGY_HYPERCUBE, 131072}, {LAC_TOPOLOGY_EXPONENTIAL, 100000},
               {LAC_TOPOLOGY_ONE_PEER, 100000},  {LAC_TOPOLOGY_RANDOM_REGULAR, 100000}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    lac_topology *topology = make(*state, large[i].kind, large[i].workers, 4);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    if (seconds > 5) { /* sanitised too; what is quadratic takes minutes */
      fail_msg("%s of %d workers took %.1f seconds", lac_topology_kind_name(large[i].kind), (int)large[i].workers,
               seconds);
    }
    lac_connection connection = connection_of(*state, topology);
    assert_int_equal(connection.components, 1);
    assert_int_equal(connection.period, 1);
    assert_true(connection.doubly);
    lac_topology_destroy(&topology);
  }
}

static void sizes_that_cannot_be_name_near_ones(void **state) {
  static const struct {
    int kind;
    int64_t workers, degree;
    const char *words;
  } wrong[] = {
      {LAC_TOPOLOGY_HYPERCUBE, 12, 0, "say 8 or 16"},
      {LAC_TOPOLOGY_HYPERCUBE, 1, 0, "say 2"},
      {LAC_TOPOLOGY_TORUS, 17, 0, "say 16 or 18"},
      {LAC_TOPOLOGY_TORUS, 13, 0, "say 12 or 15"}, /* 14 is 2 x 7 */
      {LAC_TOPOLOGY_TORUS, 8, 0, "say 9"},
      {LAC_TOPOLOGY_TORUS, 99991, 0, "say 99990 or 99992"}, /* a prime; 99992 = 29 x 3448 by its divisors */
      {LAC_TOPOLOGY_GRID, 7, 0, "say 6 or 8"},
      {LAC_TOPOLOGY_GRID, 3, 0, "say 4"},
      {LAC_TOPOLOGY_RING, 1, 0, "say 2"},
      {LAC_TOPOLOGY_RING, 0, 0, "say 2"},
      {LAC_TOPOLOGY_COMPLETE, 0, 0, "say 1"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 9, 3, "say 8 or 10"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 4, 4, "random-regular of degree 4 cannot have: say 5"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 3, 3, "say 4"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 3, 5, "say 6"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 8, 1, "--degree: found 1"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 8, 0, "--degree: found 0"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 8, INT64_MAX, "--degree: found"},
      {LAC_TOPOLOGY_RANDOM_REGULAR, 8, INT32_MAX - 1, "nor any near"},
      {LAC_TOPOLOGY_COMPLETE, 16385, 0, "no more than 16384"},
      {LAC_TOPOLOGY_RING, INT32_MAX, 0, "no more than 89478485"},
      {LAC_TOPOLOGY_RING, INT64_MAX, 0, "--workers"},
      {LAC_TOPOLOGY_RING, -1, 0, "--workers: found -1"},
      {LAC_TOPOLOGY_FILE, 8, 0, "--topology"},
      {-1, 8, 0, "--topology"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    lac_topology *topology;
    lac_topology_options options = {.kind = wrong[i].kind, .degree = wrong[i].degree};
    assert_failure(*state, lac_topology_create(*state, &options, wrong[i].workers, 1, &topology), LAC_E_USAGE,
                   wrong[i].words);
    assert_null(topology);
  }
  lac_topology *topology;
  lac_topology_options options = {.weights = LAC_WEIGHTS_FILE};
  assert_failure(*state, lac_topology_create(*state, &options, 8, 1, &topology), LAC_E_USAGE, "--graph");
  options.weights = 3;
  assert_failure(*state, lac_topology_create(*state, &options, 8, 1, &topology), LAC_E_USAGE, "--weights");
}

static void the_options_are_those_of_the_struct(void **state) {
  lac_topology_options options;
  const lac_option *table = lac_topology_option_table();
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_int_equal(options.kind, LAC_TOPOLOGY_RING);
  assert_int_equal(options.weights, LAC_WEIGHTS_METROPOLIS);
  assert_int_equal(options.degree, 4);
  assert_null(options.graph);
  for (int kind = 0; kind < LAC_TOPOLOGY_FILE; kind++) {
    assert_ok(*state, lac_options_set(*state, table, &options, "topology", lac_topology_kind_name(kind)));
    assert_int_equal(options.kind, kind);
  }
  assert_string_equal(lac_topology_kind_name(LAC_TOPOLOGY_FILE), "file");
  assert_failure(*state, lac_options_set(*state, table, &options, "topology", "file"), LAC_E_USAGE, "topology");
  assert_failure(*state, lac_options_set(*state, table, &options, "degree", "0"), LAC_E_USAGE, "degree");
  assert_ok(*state, lac_options_set(*state, table, &options, "weights", "file"));
  assert_ok(*state, lac_options_set(*state, table, &options, "graph", "my.mtx"));
  assert_int_equal(options.weights, LAC_WEIGHTS_FILE);
  assert_string_equal(options.graph, "my.mtx");
  lac_options_clear(table, &options);
}

/* ---- files ---- */

static void a_graph_is_the_same_in_every_form(void **state) {
  static const char *const texts[][2] = {
      {"a.edges", "# a path and a triangle\n0 1\n1 2\n\n3 2\n  4\t3 \n2 4"},
      {"b.edges", "% CR LF, weights that do not count\r\n2 4 7\r\n1 0 1\r\n2 1 1e-9\r\n3 4 +.5\r\n2 3 2\r\n"},
      {"c.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n% a comment\n\n5 5 5\n2 1\n3 2\n4 3\n5 4\n5 3\n"},
      {"d.mtx",
       "%%matrixmarket MATRIX Coordinate integer General\r\n5 5 10\r\n1 2 1\r\n2 1 1\r\n3 2 1\r\n2 3 4\r\n4 3 1\r\n"
       "3 4 1\r\n5 4 1\r\n4 5 1\r\n5 3 1\r\n3 5 9\r\n"},
      {"e",
       "\xef\xbb\xbf%%MatrixMarket matrix coordinate real symmetric\n5 5 6\n2 1 1\n3 2 1\n4 3 1\n5 4 1\n5 3 1\n5 2 0"},
  };
  /* Degrees 1, 2, 3, 2, 2. */
  const double expected[] = {2. / 3, 1. / 3, 0, 0, 0,      1. / 3,  5. / 12, 1. / 4, 0, 0,      0,      1. / 4, 1. / 4,
                             1. / 4, 1. / 4, 0, 0, 1. / 4, 5. / 12, 1. / 3,  0,      0, 1. / 4, 1. / 3, 5. / 12};
  lac_topology *first = NULL;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    lac_topology *topology = read_text(*state, texts[i][0], texts[i][1], LAC_WEIGHTS_METROPOLIS);
    assert_matrix(lac_topology_weights(topology, 0), 5, expected);
    lac_connection connection = connection_of(*state, topology);
    assert_true(connection.symmetric && connection.doubly);
    assert_int_equal(connection.components, 1);
    if (first) {
      assert_same(lac_topology_weights(topology, 0), lac_topology_weights(first, 0));
      lac_topology_destroy(&topology);
    } else {
      first = topology;
    }
  }
  lac_topology_destroy(&first);
}

/* A built topology, written as a file and read back. */
static void a_written_topology_is_read_back(void **state) {
  lac_topology *built = make(*state, LAC_TOPOLOGY_TORUS, 30, 0), *read;
  const lac_weights *weights = lac_topology_weights(built, 0);
  FILE *edges = fopen("torus.edges", "w"), *market = fopen("torus.mtx", "w");
  assert_true(edges && market);
  fprintf(market, "%%%%MatrixMarket matrix coordinate real general\n30 30 %d\n", (int)weights->start[30]);
  for (int64_t i = 0; i < 30; i++) {
    for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
      fprintf(market, "%d %d %.17g\n", (int)i + 1, weights->column[k] + 1, weights->weight[k]);
      if (weights->column[k] < i) {
        fprintf(edges, "%d %d\n", (int)i, weights->column[k]);
      }
    }
  }
  fclose(edges);
  fclose(market);
  assert_ok(*state, try_file(*state, "torus.edges", LAC_WEIGHTS_METROPOLIS, 30, &read));
  assert_same(lac_topology_weights(read, 0), weights);
  lac_topology_destroy(&read);
  assert_ok(*state, try_file(*state, "torus.mtx", LAC_WEIGHTS_FILE, 30, &read));
  for (int64_t i = 0; i < 30; i++) {
    for (int64_t j = 0; j < 30; j++) {
      assert_near(weight_at(lac_topology_weights(read, 0), i, j), weight_at(weights, i, j));
    }
  }
  lac_topology_destroy(&read);
  lac_topology_destroy(&built);
}

static void a_file_of_weights_is_the_matrix(void **state) {
  /* Row 1 has no diagonal and gets what is missing, row 2 has no diagonal and needs none, row 3 sums to 1 - 1e-7. */
  lac_topology *topology =
      read_text(*state, "w.mtx",
                "%%MatrixMarket matrix coordinate real general\n3 3 6\n1 2 0.25\n2 3 0.5\n2 1 0.5\n"
                "3 1 0.2\n3 3 0.7999999\n1 3 0.125\n",
                LAC_WEIGHTS_FILE);
  const double expected[] = {.625, .25, .125, .5, 0, .5, .2 / .9999999, 0, .7999999 / .9999999};
  assert_matrix(lac_topology_weights(topology, 0), 3, expected);
  assert_int_equal(lac_topology_weights(topology, 0)->start[2], 5); /* zeros are no entries */
  lac_connection connection = connection_of(*state, topology);
  assert_true(!connection.symmetric && !connection.doubly);
  assert_int_equal(connection.components, 1);
  assert_int_equal(connection.period, 1);
  lac_topology_destroy(&topology);
  topology = read_text(*state, "w.edges", "0 1 0.5\n1 2 0.25\n0 0 .5\n", LAC_WEIGHTS_FILE);
  const double both[] = {.5, .5, 0, .5, .25, .25, 0, .25, .75};
  assert_matrix(lac_topology_weights(topology, 0), 3, both);
  connection = connection_of(*state, topology);
  assert_true(connection.symmetric && connection.doubly);
  lac_topology_destroy(&topology);
}

static void directed_graphs_go_with_uniform_weights(void **state) {
  /* 0 takes from 1 and 2, 1 from 2, 2 from nobody: three components. */
  lac_topology *topology =
      read_text(*state, "directed.mtx", "%%MatrixMarket matrix coordinate pattern general\n3 3 3\n1 2\n1 3\n2 3\n",
                LAC_WEIGHTS_UNIFORM);
  const double expected[] = {1. / 3, 1. / 3, 1. / 3, 0, .5, .5, 0, 0, 1};
  assert_matrix(lac_topology_weights(topology, 0), 3, expected);
  lac_connection connection = connection_of(*state, topology);
  assert_int_equal(connection.components, 3);
  assert_int_equal(connection.closed, 1); /* worker 2's: all hear of it in the end */
  lac_topology_destroy(&topology);
}

static void connection_tells_components_and_period(void **state) {
  static const struct {
    const char *path, *text;
    int weights;
    int components, closed, period;
    bool symmetric, doubly;
  } cases[] = {
      {"two", "0 1\n2 3\n3 4\n4 2\n", LAC_WEIGHTS_METROPOLIS, 2, 2, 1, true, true},
      {"three", "0 5\n2 3\n1 4\n", LAC_WEIGHTS_METROPOLIS, 3, 3, 1, true, true},
      /* Without diagonals: an even ring is bipartite, an odd one is not. */
      {"even", "0 1 .5\n1 2 .5\n2 3 .5\n3 0 .5\n", LAC_WEIGHTS_FILE, 1, 1, 2, true, true},
      {"odd", "0 1 .5\n1 2 .5\n2 0 .5\n", LAC_WEIGHTS_FILE, 1, 1, 1, true, true},
      {"lazy", "0 1 .5\n1 2 .5\n2 3 .5\n3 0 .25\n0 0 .25\n3 3 .25", LAC_WEIGHTS_FILE, 1, 1, 1, true, true},
      {"pairs", "0 1 1\n2 3 1\n", LAC_WEIGHTS_FILE, 2, 2, 2, true, true},
      /* A directed cycle of three, then cycles of 6 and 4 that share two vertices: 2; of 3 and 2: 1. */
      {"cycle.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 1\n2 3 1\n3 1 1\n", LAC_WEIGHTS_FILE, 1,
       1, 3, false, true},
      {"six.mtx",
       "%%MatrixMarket matrix coordinate real general\n6 6 7\n1 2 1\n2 3 1\n3 4 1\n4 5 .5\n5 6 1\n6 1 1\n4 1 .5\n",
       LAC_WEIGHTS_FILE, 1, 1, 2, false, false},
      {"odd.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 2 1\n2 3 .5\n3 1 1\n2 1 .5\n",
       LAC_WEIGHTS_FILE, 1, 1, 1, false, false},
      /* One way from a pair to a pair; worker 0's has period 2. */
      {"way.mtx", "%%MatrixMarket matrix coordinate real general\n4 4 5\n1 2 1\n2 1 .5\n2 3 .5\n3 4 1\n4 3 1\n",
       LAC_WEIGHTS_FILE, 2, 1, 2, false, false},
      /* One way from a pair to a worker that stays. */
      {"stay.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 2 1\n2 1 .5\n2 3 .5\n3 3 1\n",
       LAC_WEIGHTS_FILE, 2, 1, 2, false, false},
      /* Worker 0 leaves for ever. */
      {"leaves.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n2 2 1\n", LAC_WEIGHTS_FILE, 2, 1, 1,
       false, false},
      /* Doubly stochastic, not symmetric. */
      {"doubly.mtx",
       "%%MatrixMarket matrix coordinate real general\n3 3 6\n1 1 .5\n1 2 .5\n2 2 .5\n2 3 .5\n3 3 .5\n3 1 .5\n",
       LAC_WEIGHTS_FILE, 1, 1, 1, false, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_topology *topology = read_text(*state, cases[i].path, cases[i].text, cases[i].weights);
    lac_connection found = connection_of(*state, topology);
    if (found.components != cases[i].components || found.closed != cases[i].closed || found.period != cases[i].period ||
        found.symmetric != cases[i].symmetric || found.doubly != cases[i].doubly) {
      fail_msg("%s: found %d components, %d closed, period %d, symmetric %d, doubly %d", cases[i].path,
               (int)found.components, (int)found.closed, (int)found.period, found.symmetric, found.doubly);
    }
    lac_topology_destroy(&topology);
  }
}

/* What is wrong with a file: with its name, its line, what was found and what was expected. */
static void bad_files_are_named_with_their_line(void **state) {
#define MARKET "%%MatrixMarket matrix coordinate "
  enum { M = LAC_WEIGHTS_METROPOLIS, U = LAC_WEIGHTS_UNIFORM, F = LAC_WEIGHTS_FILE };
  static const struct {
    const char *path, *text;
    int weights, workers;
    const char *words;
  } cases[] = {
      {"g", "0 1\n1 1\n", M, 0, "g: line 2: vertex 1 has an edge to itself"},
      {"g.mtx", MARKET "real symmetric\n2 2 2\n2 1 1\n2 2 1\n", M, 0, "g.mtx: line 4: vertex 2 has an edge to itself"},
      {"g", "0 1\n\n1 2\n1 0\n", M, 0, "g: line 4: found edge "},
      {"g", "0 1\n\n1 2\n1 0\n", M, 0, "it is in line 1"},
      {"g", "0 1 .5\n0 1 .5\n", F, 0, "g: line 2: found edge"},
      {"g", "0 1 .5\n0 0 .5\n0 0 .5\n", F, 0, "g: line 3: found edge 0 0 a second time"},
      {"g.mtx", MARKET "pattern general\n2 2 3\n1 2\n2 1\n1 2\n", U, 0, "g.mtx: line 5: found entry 1 2 a second time"},
      {"g", "0 1\n3 1\n", M, 0, "g: line 2: found no edge of vertex 2, expected one for each of 4"},
      {"g", "0 1\n", M, 3, "g: line 1: found no edge of vertex 2, expected one for each of 3"},
      {"g", "# far\n0 2147483646\n", M, 0, "g: line 2: found no edge of vertex 1"},
      {"g", "0 1 1\n2 2 1\n", F, 0, "g: line 2: found no edge of vertex 2"},
      {"g", "0 1 1\n2 0 0\n", M, 3, "g: line 2: found no edge of vertex 2"},
      {"g.mtx", MARKET "pattern symmetric\n4 4 2\n2 1\n4 1\n", M, 0, "g.mtx: line 2: found no edge of vertex 3"},
      {"g.mtx", MARKET "pattern general\n2147483647 2147483647 1\n2 1\n", U, 0,
       "g.mtx: line 2: found no edge of vertex 3"},
      {"g", "0 1\n1 4\n", M, 4, "g: line 2: found vertex '4', expected a whole number from 0 to 3"},
      {"g", "0 1\n-1 0\n", M, 0, "g: line 2: found vertex '-1'"},
      {"g", "0 1.0\n", M, 0, "g: line 1: found vertex '1.0'"},
      {"g", "0 2147483647\n", M, 0,
       "g: line 1: found vertex '2147483647', expected a whole number from 0 to 2147483646"},
      {"g", "0 99999999999999999999999\n", M, 0, "g: line 1: found vertex '99999999999999999999999'"},
      {"g.mtx", MARKET "pattern symmetric\n2 2 1\n2 0\n", M, 0,
       "g.mtx: line 3: found vertex '0', expected a whole number from 1 to 2"},
      {"g.mtx", MARKET "pattern symmetric\n2 2 1\n3 1\n", M, 0, "g.mtx: line 3: found vertex '3'"},
      {"g.mtx", MARKET "pattern symmetric\n2 2 1\n2 1\n", M, 3, "g.mtx: line 2: found 2 vertices, expected 3"},
      {"g", "0 1 1\n1 2 -0.5\n", F, 0, "g: line 2: found weight '-0.5'"},
      {"g", "0 1 1\n1 2 nan\n", F, 0, "g: line 2: found weight 'nan'"},
      {"g", "0 1 1\n1 2 inf\n", F, 0, "g: line 2: found weight 'inf'"},
      {"g", "0 1 1\n1 2 1e999\n", M, 0, "g: line 2: found weight '1e999'"},
      {"g", "0 1 0x1\n", F, 0, "g: line 1: found weight '0x1'"},
      {"g", "0 1 .5\n1 2 .6\n0 0 .5\n", F, 0, "g: line 2: with this, the weights of vertex 1 sum to 1.1, expected 1"},
      {"g", "0 1 .5\n0 0 .4\n", F, 0, "g: line 2: with this, the weights of vertex 0 sum to 0.9"},
      {"g", "0 1 .5\n0 0 .50001\n", F, 0, "g: line 2: with this"},
      {"g", "0 1 1e308\n1 2 1e308\n", F, 0, "g: line 1: with this"},
      {"g.mtx", MARKET "real general\n2 2 3\n1 2 1\n2 1 1\n2 2 1\n", F, 0,
       "g.mtx: line 5: with this, the weights of vertex 2 sum to 2"},
      {"g", "0 1\n", F, 0, "g: line 1: found 2 numbers, expected 3"},
      {"g.mtx", MARKET "pattern general\n2 2 1\n1 2\n", F, 0,
       "g.mtx: line 1: found a pattern matrix, which has no weights"},
      {"g.mtx", MARKET "pattern general\n2 3 1\n1 2\n", U, 0,
       "g.mtx: line 2: found a matrix of 2 x 3, expected a square"},
      {"g.mtx", MARKET "pattern general\n3 3 3\n1 2\n2 1\n2 3\n", M, 0, "g.mtx: line 5: found entry 2 3 without 3 2"},
      {"g.mtx", MARKET "pattern symmetric\n2 2 1\n1 2\n", M, 0, "g.mtx: line 3: found row 1 and column 2"},
      {"g", "\n# nothing\n", M, 0, "g: line 2: the file ends without an edge"},
      {"g", "", M, 0, "g: the file is empty"},
      {"g.mtx", MARKET "pattern symmetric\n3 3 2\n2 1\n", M, 0, "g.mtx: line 2: found 1 lines of entries, expected 2"},
      {"g.mtx", MARKET "pattern symmetric\n3 3 1\n2 1\n3 1\n", M, 0,
       "g.mtx: line 2: found 2 lines of entries, expected 1"},
      {"g.mtx", MARKET "real symmetric\n3 3 2\n2 1 1\n3 1", M, 0, "g.mtx: line 4: found 2 numbers, expected 3"},
      {"g.mtx", MARKET "pattern symmetric\n", M, 0, "g.mtx: line 1: the file ends, expected a line of rows"},
      {"g.mtx", MARKET "pattern symmetric\n3 3\n", M, 0, "g.mtx: line 2: found entries ''"},
      {"g.mtx", MARKET "pattern symmetric\n3 3 2 1\n", M, 0, "g.mtx: line 2: found '1'"},
      {"g.mtx", MARKET "pattern symmetric\n3 3 99999999999\n2 1\n", M, 0, "g.mtx: line 2: found entries '99999999999'"},
      {"g.mtx", MARKET "pattern symmetric\n3000000000 3 2\n", M, 0, "g.mtx: line 2: found rows '3000000000'"},
      {"g.mtx", MARKET "pattern symmetric\n0 0 0\n", M, 0, "g.mtx: line 2: the file ends without an edge"},
      {"g.mtx", MARKET "complex general\n", M, 0, "g.mtx: line 1: found 'complex', expected pattern, real or integer"},
      {"g.mtx", MARKET "real skew-symmetric\n", M, 0, "g.mtx: line 1: found 'skew-symmetric'"},
      {"g.mtx", MARKET "real general more\n", M, 0, "g.mtx: line 1: found 'more'"},
      {"g.mtx", "%%MatrixMarket matrix array real general\n2 2\n", M, 0,
       "g.mtx: line 1: found 'array', expected coordinate"},
      {"g.mtx", "%%MatrixMarket\n", M, 0, "g.mtx: line 1: found '', expected matrix"},
      {"g.mtx", "4 4 3\n2 1\n", M, 0, "g.mtx: line 1: found '4 4 3', expected %%MatrixMarket"},
      {"g", "0 1\n0\n", M, 0, "g: line 2: found 1 numbers, expected 2 as line 1"},
      {"g", "0 1\n0 2 1\n", M, 0, "g: line 2: found 3 numbers, expected 2 as line 1"},
      {"g", "0 1 2 3\n", M, 0, "g: line 1: found 4 numbers"},
      {"g", "0,1\n", M, 0, "g: line 1: found 1 numbers, expected two vertices"},
      {"g", "a \x01\n", M, 0, "g: line 1: found vertex 'a'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_topology *topology;
    write_file(cases[i].path, cases[i].text);
    assert_failure(*state, try_file(*state, cases[i].path, cases[i].weights, cases[i].workers, &topology), LAC_E_INPUT,
                   cases[i].words);
    assert_null(topology);
  }
#undef MARKET
}

static void missing_files_and_folders_are_named(void **state) {
  lac_topology *topology;
  assert_failure(*state, try_file(*state, "none.mtx", 0, 0, &topology), LAC_E_INPUT, "none.mtx: cannot be opened");
  assert_int_equal(mkdir("folder", 0700), 0);
  assert_failure(*state, try_file(*state, "folder", 0, 0, &topology), LAC_E_INPUT, "folder: is a folder");
  write_file("part", "0 1\n");
  assert_failure(*state, try_file(*state, "part:one", 0, 0, &topology), LAC_E_INPUT, "part:one: no such file");
  assert_ok(*state, try_file(*state, "part", 0, 0, &topology));
  lac_topology_destroy(&topology);
}

/* Lines and numbers of any length: none is copied whole, none breaks the message. */
static void long_lines_are_read_or_refused(void **state) {
  enum { LONG = 1 << 20 };
  lac_topology *topology;
  FILE *file = fopen("long", "w");
  assert_non_null(file);
  for (int i = 0; i < LONG; i++) {
    fputc(i == 0 ? '#' : 'x', file);
  }
  fprintf(file, "\n0%*s1\n", LONG, "");
  fclose(file);
  assert_ok(*state, try_file(*state, "long", 0, 0, &topology));
  assert_int_equal(lac_topology_workers(topology), 2);
  lac_topology_destroy(&topology);
  file = fopen("long", "w");
  assert_non_null(file);
  fprintf(file, "0 1 1\n0 2 ");
  for (int i = 0; i < LONG; i++) {
    fputc('1', file);
  }
  fclose(file);
  assert_failure(*state, try_file(*state, "long", 0, 0, &topology), LAC_E_INPUT, "long: line 2: found weight '1111");
  assert_true(strlen(lac_context_message(*state)) < 200);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_context, drop_context)
  const struct CMUnitTest tests[] = {
      TEST(neighbours_are_those_of_the_definition),
      TEST(weights_are_those_of_the_definition),
      TEST(metropolis_takes_the_higher_degree),
      TEST(every_size_is_built_or_refused),
      TEST(one_peer_averages_in_log2_rounds),
      TEST(random_regular_graphs_are_regular_and_connect),
      TEST(a_seed_is_a_graph),
      TEST(random_regular_graphs_favour_no_edge),
      TEST(triangles_of_random_graphs_are_as_many_as_expected),
      TEST(a_hundred_thousand_workers_are_built_at_once),
      TEST(sizes_that_cannot_be_name_near_ones),
      TEST(the_options_are_those_of_the_struct),
      TEST(a_graph_is_the_same_in_every_form),
      TEST(a_written_topology_is_read_back),
      TEST(a_file_of_weights_is_the_matrix),
      TEST(directed_graphs_go_with_uniform_weights),
      TEST(connection_tells_components_and_period),
      TEST(bad_files_are_named_with_their_line),
      TEST(missing_files_and_folders_are_named),
      TEST(long_lines_are_read_or_refused),
  };
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  leave_folder(folder);
  return failed;
}
