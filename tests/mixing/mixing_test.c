/* Mixing times beside closed forms, and beside computations in other ways: single steps of plain vectors, a coupon
 * collector's time, a simulation with dense matrices and a generator of its own. */
#include "laconic/mixing.h"

#include <math.h>

#include "support.h"

enum { MOST = 64, SIDE = 16, LONGEST = 1500 };

static lac_process_options options_of(int protocol, int kind) {
  return (lac_process_options){
      .protocol = protocol, .topology = {.kind = kind, .degree = 3}, .period = 1, .slack = 1, .delay = 0};
}

static lac_process *make(lac_context *context, const lac_process_options *options, int64_t n, int64_t seed) {
  lac_process *process;
  assert_ok(context, lac_process_create(context, options, n, seed, &process));
  return process;
}

static lac_mixing_time time_with(lac_context *context, const lac_process_options *options, int64_t n, int64_t seed,
                                 const lac_mixing_options *mixing) {
  lac_mixing_time time;
  lac_process *process = make(context, options, n, seed);
  assert_ok(context, lac_mixing_time_of(context, process, mixing, &time));
  lac_process_destroy(&process);
  return time;
}

static lac_mixing_time time_of(lac_context *context, const lac_process_options *options, int64_t n, int kind) {
  lac_mixing_options mixing = {.kind = kind, .precision = 0.01, .samples = 4096, .dense = 4096};
  return time_with(context, options, n, 1, &mixing);
}

static double exact(lac_context *context, const lac_process_options *options, int64_t n) {
  lac_mixing_time time = time_of(context, options, n, LAC_MIXING_AUTO);
  assert_int_equal(time.kind, LAC_MIXING_EXACT);
  assert_true(time.updates == time.rounds * (double)n);
  assert_true(time.lower == time.rounds && time.upper == time.rounds && time.standard_error == 0);
  assert_string_equal(time.reason, "");
  return time.rounds;
}

static void assert_equal(double found, double expected, const char *what, int64_t n) {
  if (found != expected) {
    fail_msg("%s of %lld: found %g, expected %g", what, (long long)n, found, expected);
  }
}

static void assert_close(double found, double expected, double allowed, const char *what) {
  if (!(fabs(found - expected) <= allowed)) {
    fail_msg("%s: found %.10g, expected %.10g within %g", what, found, expected, allowed);
  }
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* ---- closed forms ---- */

static void one_round_or_none(void **state) {
  for (int64_t n = 1; n <= 64; n += 7) {
    for (int protocol = LAC_PROTOCOL_ALLREDUCE; protocol <= LAC_PROTOCOL_SERVER; protocol++) {
      lac_process_options options = options_of(protocol, LAC_TOPOLOGY_RING);
      assert_equal(exact(*state, &options, n), n > 1, "means", n);
      options.period = 12;
      assert_equal(exact(*state, &options, n), n > 1 ? 12 : 0, "means at times", n);
    }
    lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_COMPLETE);
    assert_equal(exact(*state, &options, n), n > 1, "dpsgd on complete", n);
    options.protocol = LAC_PROTOCOL_PERIODIC;
    assert_equal(exact(*state, &options, n), n > 1 ? 25 : 0, "periodic", n);
  }
  for (int protocol = 0; protocol < LAC_PROTOCOLS; protocol++) {
    lac_process_options options = options_of(protocol, LAC_TOPOLOGY_COMPLETE);
    lac_mixing_time time = time_of(*state, &options, 1, LAC_MIXING_AUTO);
    assert_true(time.rounds == 0 && time.updates == 0 && time.standard_error == 0 && time.spectral_gap == 1);
    if (lac_protocol_asynchronous(protocol)) {
      time = time_of(*state, &options, 1, LAC_MIXING_AVERAGED);
      assert_true(time.rounds == 0 && time.updates == 0 && time.spectral_gap == 1);
    }
  }
}

/* TV after t rounds is (1 - 1/n) (1 - slack)^t. */
static void slack_of_means(void **state) {
  static const double slacks[] = {0.5, 0.3, 0.1, 0.02, 0.001};
  for (int s = 0; s < 5; s++) {
    for (int64_t n = 2; n <= 64; n *= 2) {
      lac_process_options options = options_of(LAC_PROTOCOL_ALLREDUCE, LAC_TOPOLOGY_RING);
      options.slack = slacks[s];
      double t = 0, away = 1 - 1 / (double)n;
      for (; away > 0.25 + 1e-12; t++) {
        away *= 1 - slacks[s];
      }
      double found = exact(*state, &options, n);
      assert_equal(found, t, "slack", n);
      options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_COMPLETE); /* the same matrix, squared */
      options.slack = slacks[s];
      assert_equal(exact(*state, &options, n), t, "slack of a complete graph", n);
      assert_close(found, log(4 * (1 - 1 / (double)n)) / slacks[s], 1, "about ln(4 (1 - 1/n)) / slack");
    }
  }
}

static void one_peer_is_log2(void **state) {
  lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_ONE_PEER);
  for (int64_t k = 1; k <= 7; k++) {
    options.period = 1;
    assert_equal(exact(*state, &options, 1 << k), (double)k, "one-peer", 1 << k);
    options.period = 3;
    assert_equal(exact(*state, &options, 1 << k), (double)(3 * k), "one-peer every third round", 1 << k);
  }
}

/* Worker 0's vector, phase by phase; all workers are alike. */
static double one_peer_by_steps(int64_t n, double slack) {
  double x[MOST] = {1}, away = 1;
  int64_t t = 0, phases = 0;
  while ((1 << phases) < n) {
    phases++;
  }
  for (; away > 0.25 + 1e-12; t++) {
    double next[MOST] = {0};
    for (int64_t i = 0; i < n; i++) {
      next[i] += (1 - slack / 2) * x[i];
      next[(i + (1 << t % phases)) % n] += slack / 2 * x[i];
    }
    memcpy(x, next, sizeof x);
    away = 0;
    for (int64_t i = 0; i < n; i++) {
      away += fabs(x[i] - 1 / (double)n) / 2;
    }
  }
  return (double)t - (t > 0 && (1 - 1 / (double)n) <= 0.25);
}

static void one_peer_of_any_size(void **state) {
  lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_ONE_PEER);
  static const double slacks[] = {1, 0.7, 0.05};
  for (int s = 0; s < 3; s++) {
    options.slack = slacks[s];
    for (int64_t n = 2; n <= 40; n += 1 + n / 8) {
      assert_equal(exact(*state, &options, n), one_peer_by_steps(n, slacks[s]), "one-peer", n);
    }
  }
}

/* ---- single steps of a topology's matrix ---- */

static double distance_from(int64_t n, const double *x, const double *pi) {
  double away = 0;
  for (int64_t j = 0; j < n; j++) {
    away += fmax(x[j] - pi[j], 0);
  }
  return away;
}

/* x <- x (slack W + (1 - slack) I) */
static void advance(const lac_weights *weights, double slack, double *x) {
  double next[MOST];
  for (int64_t i = 0; i < weights->n; i++) {
    next[i] = (1 - slack) * x[i];
  }
  for (int64_t i = 0; i < weights->n; i++) {
    for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
      next[weights->column[k]] += slack * x[i] * weights->weight[k];
    }
  }
  memcpy(x, next, (size_t)weights->n * sizeof *x);
}

/* From each of the first `starts` workers; pi is where worker 0 is after very long. */
static double steps_of(const lac_weights *weights, double slack, int64_t starts) {
  static double x[MOST][MOST];
  double pi[MOST] = {1};
  memset(x, 0, sizeof x);
  for (int64_t t = 0; t < 20000; t++) {
    advance(weights, slack, pi);
  }
  for (int64_t i = 0; i < starts; i++) {
    x[i][i] = 1;
  }
  for (double t = 0;; t++) {
    double most = 0;
    for (int64_t i = 0; i < starts; i++) {
      most = fmax(most, distance_from(weights->n, x[i], pi));
    }
    if (most <= 0.25 + 1e-12) {
      return t;
    }
    for (int64_t i = 0; i < starts; i++) {
      advance(weights, slack, x[i]);
    }
  }
}

static void check_steps(lac_context *context, lac_process_options options, int64_t n, int64_t starts) {
  lac_process *process = make(context, &options, n, 1);
  double expected = steps_of(lac_topology_weights(lac_process_topology(process), 0), options.slack, starts);
  lac_process_destroy(&process);
  assert_equal(exact(context, &options, n), expected * (double)options.period,
               lac_topology_kind_name(options.topology.kind), n);
}

static void topologies_step_by_step(void **state) {
  static const int alike[] = {LAC_TOPOLOGY_RING, LAC_TOPOLOGY_TORUS, LAC_TOPOLOGY_HYPERCUBE, LAC_TOPOLOGY_EXPONENTIAL};
  static const int other[] = {LAC_TOPOLOGY_STAR, LAC_TOPOLOGY_GRID, LAC_TOPOLOGY_RANDOM_REGULAR};
  static const int64_t sizes[] = {16, 32, 64};
  for (int s = 0; s < 3; s++) {
    for (int k = 0; k < 4; k++) {
      check_steps(*state, options_of(LAC_PROTOCOL_DPSGD, alike[k]), sizes[s], 1);
    }
  }
  for (int k = 0; k < 3; k++) {
    lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, other[k]);
    check_steps(*state, options, 12, 12);
    options.topology.weights = LAC_WEIGHTS_UNIFORM; /* pi is not uniform then */
    options.slack = 0.15;
    options.period = 4;
    check_steps(*state, options, 20, 20);
  }
}

static double dpsgd(lac_context *context, int kind, int64_t n) {
  lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, kind);
  return exact(context, &options, n);
}

static void growth(void **state) {
  double ring = dpsgd(*state, LAC_TOPOLOGY_RING, 64) / dpsgd(*state, LAC_TOPOLOGY_RING, 32);
  assert_close(ring, 4, 0.05, "a ring of 64 beside one of 32");
  double torus = dpsgd(*state, LAC_TOPOLOGY_TORUS, 256) / dpsgd(*state, LAC_TOPOLOGY_TORUS, 64);
  assert_close(torus, 4, 0.2, "a torus of 256 beside one of 64");
  static const int logarithmic[] = {LAC_TOPOLOGY_HYPERCUBE, LAC_TOPOLOGY_EXPONENTIAL};
  for (int k = 0; k < 2; k++) { /* log n doubles from 16 to 256; any power of n from .7 on would grow by more than 6 */
    double more = dpsgd(*state, logarithmic[k], 256) / dpsgd(*state, logarithmic[k], 16);
    assert_true(more >= 1 && more <= 3);
  }
}

/* ---- gaps ---- */

static void gaps(void **state) {
  const double turn = 2 * 3.14159265358979323846;
  lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING);
  double ring = (1 + 2 * cos(turn / 16)) / 3, pairs = 1 - (1 - cos(turn / 16)) / 16;
  assert_close(time_of(*state, &options, 16, 0).spectral_gap, 1 - ring, 1e-9, "ring");
  options.slack = 0.2;
  options.period = 3;
  assert_close(time_of(*state, &options, 16, 0).spectral_gap, 1 - cbrt(0.2 * ring + 0.8), 1e-9, "loose ring");
  assert_close(time_of(*state, &options, 16, LAC_MIXING_BOUND).spectral_gap, 1 - cbrt(0.2 * ring + 0.8), 1e-9, "bound");
  options.protocol = LAC_PROTOCOL_ALLREDUCE;
  assert_close(time_of(*state, &options, 16, 0).spectral_gap, 1 - cbrt(0.8), 1e-12, "loose means");
  options = options_of(LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING);
  assert_close(time_of(*state, &options, 16, 0).spectral_gap, 1 - pow(15.0 / 16, 16), 1e-9, "async-server");
  options.protocol = LAC_PROTOCOL_ADPSGD;
  assert_close(time_of(*state, &options, 16, 0).spectral_gap, 1 - pow(pairs, 16), 1e-9, "pairs of a ring");
  options.protocol = LAC_PROTOCOL_ASYNC_RING;
  assert_close(time_of(*state, &options, 16, 0).spectral_gap, 1 - pow((15 + ring) / 16, 16), 1e-9, "async-ring");
  options = options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE);
  assert_close(time_of(*state, &options, 16, 0).spectral_gap, 1 - pow(14.0 / 15, 16), 1e-9, "pairs of all");
}

/* ---- realised ---- */

/* The chance that some of n workers has not stepped in t updates, by inclusion and exclusion. */
static double chance_of_a_rest(int64_t n, double t) {
  double sum = 0, choose = 1;
  for (int64_t k = 1; k <= n; k++) {
    choose *= (double)(n - k + 1) / (double)k;
    sum += (k % 2 ? 1 : -1) * choose * pow(1 - (double)k / (double)n, t);
  }
  return sum;
}

/* Of u workers that have not been at the server and n - u whose model is the server's, a row of the former is 1 - 1/n
 * away from the mean of the rows, one of the latter u/n: the most is 1 - 1/n while u > 0, and 0 then. */
static void a_server_collects_coupons(void **state) {
  for (int64_t n = 4; n <= 16; n *= 2) {
    lac_process_options options = options_of(LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING);
    double expected = 0;
    while ((1 - 1 / (double)n) * chance_of_a_rest(n, expected) > 0.25) {
      expected++;
    }
    lac_mixing_time time = time_of(*state, &options, n, LAC_MIXING_AUTO);
    assert_int_equal(time.kind, LAC_MIXING_REALISED);
    assert_close(time.updates, expected, 1 + 3 * time.standard_error * (double)n, "a coupon collector's time");
    assert_close(time.rounds * (double)n, time.updates, 1e-9, "rounds");
    if (n == 16) {
      assert_close(time.updates, 65, 4, "16 workers and a server");
    }
  }
}

/* xorshift64* (Vigna 2016) */
static uint64_t drawn = 88172645463325252u;

static int64_t draw(int64_t limit) {
  drawn ^= drawn >> 12;
  drawn ^= drawn << 25;
  drawn ^= drawn >> 27;
  return (int64_t)((drawn * 2685821657736338717u >> 33) % (uint64_t)limit);
}

/* A simulation: a matrix is drawn into w (n, n). */
typedef struct simulation {
  void (*fill)(int64_t n, double w[SIDE][SIDE]);
  int64_t n, horizon, paths;
  double updates, error;
} simulation;

static void fill_identity(int64_t n, double w[SIDE][SIDE]) {
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      w[i][j] = i == j;
    }
  }
}

static void fill_pair(double w[SIDE][SIDE], int64_t i, int64_t j) {
  w[i][i] = w[i][j] = w[j][i] = w[j][j] = 0.5;
}

static void mean_of_three(int64_t n, double w[SIDE][SIDE]) {
  int64_t i = draw(n);
  fill_identity(n, w);
  w[i][i] = w[i][(i + 1) % n] = w[i][(i + n - 1) % n] = 1.0 / 3;
}

static void edge_of_ring(int64_t n, double w[SIDE][SIDE]) {
  int64_t i = draw(n);
  fill_identity(n, w);
  fill_pair(w, i, (i + 1) % n); /* every edge alike, whoever asks */
}

static void any_pair(int64_t n, double w[SIDE][SIDE]) {
  int64_t i = draw(n), j = draw(n);
  while (j == i) {
    j = draw(n);
  }
  fill_identity(n, w);
  fill_pair(w, i, j);
}

static void multiply(int64_t n, double w[SIDE][SIDE], double x[SIDE][SIDE]) {
  static double product[SIDE][SIDE];
  for (int64_t i = 0; i < n; i++) {
    memset(product[i], 0, sizeof product[i]);
    for (int64_t k = 0; k < n; k++) {
      for (int64_t j = 0; w[i][k] != 0 && j < n; j++) {
        product[i][j] += w[i][k] * x[k][j];
      }
    }
  }
  memcpy(x, product, (size_t)n * sizeof product[0]);
}

static double spread_of(int64_t n, double x[SIDE][SIDE]) {
  double mean[SIDE] = {0}, most = 0;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      mean[j] += x[i][j] / (double)n;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    most = fmax(most, distance_from(n, x[i], mean));
  }
  return most;
}

static double first_below(const double *sum, int64_t horizon, int64_t paths) {
  for (int64_t t = 0; t < horizon; t++) {
    if (sum[t] <= (double)paths / 4) {
      return (double)t;
    }
  }
  fail_msg("the simulation did not mix within %lld updates", (long long)horizon);
  return NAN;
}

/* The crossing of the mean of all paths; its error by the crossings of ten parts of them. */
static void cross(simulation *s, double (*part)[LONGEST]) {
  static double all[LONGEST];
  double square = 0, sum = 0;
  memset(all, 0, sizeof all);
  for (int p = 0; p < 10; p++) {
    for (int64_t t = 0; t < s->horizon; t++) {
      all[t] += part[p][t];
    }
    double found = first_below(part[p], s->horizon, s->paths / 10);
    sum += found, square += found * found;
  }
  s->updates = first_below(all, s->horizon, s->paths);
  s->error = sqrt((square / 10 - sum / 10 * sum / 10) / 9);
}

static void simulate(simulation *s) {
  static double part[10][LONGEST], x[SIDE][SIDE], w[SIDE][SIDE];
  memset(part, 0, sizeof part);
  for (int64_t path = 0; path < s->paths; path++) {
    fill_identity(s->n, x);
    for (int64_t t = 0; t < s->horizon; t++) {
      part[path % 10][t] += spread_of(s->n, x);
      s->fill(s->n, w);
      multiply(s->n, w, x);
    }
  }
  cross(s, part);
}

static void check_simulated(lac_context *context, simulation s, lac_process_options options, double known) {
  simulate(&s);
  lac_mixing_time time = time_of(context, &options, s.n, LAC_MIXING_AUTO);
  double error = time.standard_error * (double)s.n;
  assert_int_equal(time.kind, LAC_MIXING_REALISED);
  assert_true(time.samples >= 32 && error > 0 && error <= 0.01 * time.updates);
  assert_true(time.lower == time.rounds - time.standard_error && time.upper == time.rounds + time.standard_error);
  assert_close(time.updates, s.updates, 1 + 3 * hypot(error, s.error), "beside a simulation with dense matrices");
  assert_close(time.updates, known, 0.06 * known, "beside what is known");
}

static void realised_beside_a_simulation(void **state) {
  check_simulated(*state, (simulation){.fill = mean_of_three, .n = 16, .horizon = 700, .paths = 600},
                  options_of(LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING), 350);
  check_simulated(*state, (simulation){.fill = edge_of_ring, .n = 16, .horizon = 500, .paths = 600},
                  options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING), 255);
  check_simulated(*state, (simulation){.fill = any_pair, .n = 16, .horizon = 150, .paths = 1500},
                  options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE), 73);
}

/* A ring of eight whose models travel: on each of 16 links one message, which arrives with one chance at every update.
 */
typedef struct post {
  double x[8][8], copy[8][2][8], letter[8][2][8];
  bool sent[8][2];
  int64_t stepped;
} post;

static void deliver(post *p, int64_t i, int side, double chance) {
  int64_t from = (i + (side ? 1 : 7)) % 8;
  if (p->sent[i][side] && (double)draw(1 << 30) < chance * (1 << 30)) {
    memcpy(p->copy[i][side], p->letter[i][side], sizeof p->copy[i][side]);
    p->sent[i][side] = false;
  }
  if (!p->sent[i][side] && from == p->stepped) {
    memcpy(p->letter[i][side], p->x[from], sizeof p->x[from]);
    p->sent[i][side] = true;
  }
}

static void step_with_post(post *p, double chance) {
  int64_t i = draw(8);
  double fresh[8];
  for (int64_t c = 0; c < 8; c++) {
    fresh[c] = (p->x[i][c] + p->copy[i][0][c] + p->copy[i][1][c]) / 3;
  }
  for (int64_t reader = 0; reader < 8; reader++) { /* before the new model is there */
    deliver(p, reader, 0, chance);
    deliver(p, reader, 1, chance);
  }
  memcpy(p->x[i], fresh, sizeof fresh);
  p->stepped = i;
}

static double spread_of_post(const post *p) {
  static double x[SIDE][SIDE];
  for (int64_t i = 0; i < 8; i++) {
    memcpy(x[i], p->x[i], sizeof p->x[i]);
  }
  return spread_of(8, x);
}

static void begin_post(post *p) {
  *p = (post){.stepped = -1};
  for (int64_t i = 0; i < 8; i++) {
    p->x[i][i] = p->copy[i][0][(i + 7) % 8] = p->copy[i][1][(i + 1) % 8] = 1;
  }
}

static void delays_beside_a_simulation(void **state) {
  static double part[10][LONGEST];
  simulation s = {.n = 8, .horizon = 1200, .paths = 600};
  post p;
  for (int64_t path = 0; path < s.paths; path++) {
    begin_post(&p);
    for (int64_t t = 0; t < s.horizon; t++) {
      part[path % 10][t] += spread_of_post(&p);
      step_with_post(&p, 1 / (1 + 1.5 * 8));
    }
  }
  cross(&s, part);
  lac_process_options options = options_of(LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING);
  lac_mixing_time fresh = time_of(*state, &options, 8, LAC_MIXING_AUTO);
  options.delay = 1.5;
  lac_mixing_time late = time_of(*state, &options, 8, LAC_MIXING_AUTO);
  assert_close(late.updates, s.updates, 1 + 3 * hypot(8 * late.standard_error, s.error), "async-ring with a delay");
  assert_true(late.rounds > 1.5 * fresh.rounds);
}

/* Twenty seeds scatter as each of them says. */
static void the_standard_error_is_honest(void **state) {
  static const lac_mixing_options mixing = {
      .kind = LAC_MIXING_REALISED, .precision = 0.03, .samples = 4096, .dense = 4096};
  lac_process_options options = options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING);
  double sum = 0, square = 0, error = 0;
  for (int seed = 0; seed < 20; seed++) {
    lac_mixing_time time = time_with(*state, &options, 16, seed, &mixing);
    sum += time.rounds / 20, square += time.rounds * time.rounds / 20, error += time.standard_error / 20;
  }
  double deviation = sqrt((square - sum * sum) * 20 / 19);
  if (deviation < error / 2 || deviation > 2 * error) {
    fail_msg("20 seeds scatter by %g, and say %g", deviation, error);
  }
}

static void sampling_stops_where_it_is_told(void **state) {
  lac_process_options options = options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING);
  lac_mixing_options mixing = {.kind = LAC_MIXING_REALISED, .precision = 1e-4, .samples = 40, .dense = 4096};
  assert_int_equal(time_with(*state, &options, 8, 1, &mixing).samples, 40);
  mixing.precision = 1;
  assert_int_equal(time_with(*state, &options, 8, 1, &mixing).samples, 32);
}

/* Of a process that mixes in every k-th of a worker's updates about k times as many; of a loose one at least as many.
 */
static void modifiers_slow_down(void **state) {
  lac_process_options options = options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING);
  double plain = time_of(*state, &options, 8, 0).rounds;
  options.period = 6;
  double seldom = time_of(*state, &options, 8, 0).rounds;
  assert_close(seldom / plain, 6, 0.9, "every sixth of a worker's updates");
  options.period = 1;
  options.slack = 0.1; /* W_t near I: t -> 1/slack in the limit, and fluctuations even out */
  double loose = time_of(*state, &options, 8, 0).rounds;
  assert_true(loose > 5 * plain && loose < 15 * plain);
}

/* ---- averaged ---- */

static double averaged(lac_context *context, const lac_process_options *options, int64_t n) {
  lac_mixing_time time = time_of(context, options, n, LAC_MIXING_AVERAGED);
  assert_int_equal(time.kind, LAC_MIXING_AVERAGED);
  assert_true(time.samples == 0 && time.standard_error == 0);
  return time.updates;
}

/* (1 - 1/n) (1 - 1/(n - 1))^t of pairs, (1 - 1/n)^t of a server whose own row stays. */
static void averaged_closed_forms(void **state) {
  for (int64_t n = 3; n <= 64; n += 6) {
    double workers = (double)n, away = 1 - 1 / workers, pairs = 0, server = 0;
    lac_process_options options = options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE);
    for (; away > 0.25; pairs++) {
      away *= 1 - 1 / (workers - 1);
    }
    assert_close(averaged(*state, &options, n), pairs, 1e-9, "pairs of all");
    assert_close(pairs, workers * log(4), 4, "about n ln 4");
    for (away = 1; away > 0.25; server++) {
      away *= 1 - 1 / workers;
    }
    options.protocol = LAC_PROTOCOL_ASYNC_SERVER;
    assert_close(averaged(*state, &options, n), server, 1e-9, "a server");
  }
}

/* How often each matrix is drawn, from many events of a walk. */
static void count_events(lac_context *context, const lac_process *process, int64_t events, double mean[SIDE][SIDE]) {
  int64_t n = lac_process_workers(process);
  lac_walk *walk;
  memset(mean, 0, SIDE * sizeof mean[0]);
  assert_ok(context, lac_walk_create(context, process, 9, &walk));
  for (int64_t t = 0; t < events; t++) {
    const lac_process_event *event = lac_walk_next(walk);
    for (int32_t r = 0; r < event->rows; r++) {
      double *row = mean[event->row[r].slot];
      row[event->row[r].slot] -= 1;
      for (int32_t k = 0; k < event->row[r].count; k++) {
        row[event->row[r].column[k]] += event->row[r].weight[k];
      }
    }
  }
  lac_walk_destroy(&walk);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      mean[i][j] = (i == j) + mean[i][j] / (double)events;
    }
  }
}

static double steps_of_dense(int64_t n, double w[SIDE][SIDE]) {
  static double power[SIDE][SIDE], x[SIDE][SIDE];
  memcpy(power, w, sizeof power);
  for (int k = 0; k < 20; k++) {
    memcpy(x, power, sizeof x);
    multiply(n, x, power);
  }
  double t = 0;
  for (fill_identity(n, x);; t++) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
      most = fmax(most, distance_from(n, x[i], power[0]));
    }
    if (most <= 0.25) {
      return t;
    }
    multiply(n, w, x);
  }
}

static void averaged_beside_drawn_events(void **state) {
  static const int kinds[] = {LAC_TOPOLOGY_STAR, LAC_TOPOLOGY_GRID, LAC_TOPOLOGY_RING, LAC_TOPOLOGY_EXPONENTIAL};
  static double mean[SIDE][SIDE];
  for (int c = 0; c < 8; c++) {
    lac_process_options options = options_of(c % 2 ? LAC_PROTOCOL_ADPSGD : LAC_PROTOCOL_ASYNC_RING, kinds[c / 2]);
    options.slack = c / 2 == 1 ? 0.3 : 1;
    lac_process *process = make(*state, &options, 10, 1);
    count_events(*state, process, 400000, mean);
    lac_process_destroy(&process);
    double found = averaged(*state, &options, 10), expected = steps_of_dense(10, mean);
    assert_close(found, expected, 1 + 0.01 * expected, lac_topology_kind_name(kinds[c / 2]));
  }
}

/* ---- never ---- */

static lac_mixing_time time_of_graph(lac_context *context, lac_process_options options, const char *path, int kind) {
  char name[64];
  snprintf(name, sizeof name, "%s", path);
  options.topology.graph = name;
  options.topology.weights = LAC_WEIGHTS_FILE;
  return time_of(context, &options, 0, kind);
}

static void assert_never(const lac_mixing_time *time, const char *words) {
  assert_true(isinf(time->rounds) && isinf(time->updates) && time->spectral_gap == 0);
  if (!strstr(time->reason, words)) {
    fail_msg("reason '%s', expected '%s' in it", time->reason, words);
  }
}

static void parts_never_mix(void **state) {
  static const int kinds[] = {LAC_MIXING_AUTO, LAC_MIXING_EXACT, LAC_MIXING_BOUND};
  write_file("parts.edges", "0 1 0.5\n2 3 0.5\n3 4 0.25\n");
  for (int slack = 0; slack < 2; slack++) {
    lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING);
    options.slack = slack ? 0.5 : 1;
    for (int k = 0; k < 3; k++) {
      lac_mixing_time time = time_of_graph(*state, options, "parts.edges", kinds[k]);
      assert_never(&time, "2 parts");
    }
    options.protocol = slack ? LAC_PROTOCOL_ADPSGD : LAC_PROTOCOL_ASYNC_RING;
    lac_mixing_time time = time_of_graph(*state, options, "parts.edges", LAC_MIXING_REALISED);
    assert_never(&time, "2 parts");
    time = time_of_graph(*state, options, "parts.edges", LAC_MIXING_AVERAGED);
    assert_never(&time, "2 parts");
  }
}

static void swinging_never_mixes(void **state) {
  static const int kinds[] = {LAC_MIXING_AUTO, LAC_MIXING_EXACT, LAC_MIXING_BOUND};
  lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING);
  write_file("square.edges", "0 1 0.5\n1 2 0.5\n2 3 0.5\n0 3 0.5\n");
  write_file("turn.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 1\n2 3 1\n3 1 1\n");
  for (int k = 0; k < 3; k++) {
    lac_mixing_time time = time_of_graph(*state, options, "square.edges", kinds[k]);
    assert_never(&time, "bipartite");
    time = time_of_graph(*state, options, "turn.mtx", kinds[k]);
    assert_never(&time, "period 3");
  }
  options.period = 3; /* rounds between do not help */
  lac_mixing_time time = time_of_graph(*state, options, "square.edges", LAC_MIXING_AUTO);
  assert_never(&time, "bipartite");
  options.period = 1;
  options.slack = 0.5; /* a row is 1/2, 1/4, 0, 1/4 then */
  time = time_of_graph(*state, options, "square.edges", LAC_MIXING_AUTO);
  assert_true(time.rounds == 1 && !*time.reason);
  options.slack = 1;
  options.protocol = LAC_PROTOCOL_ADPSGD; /* a single pair at a time breaks it */
  time = time_of_graph(*state, options, "square.edges", LAC_MIXING_AUTO);
  assert_true(isfinite(time.rounds) && !*time.reason);
}

/* Worker 1 listens and is not heard: pi is worker 0's alone, and worker 1 gets there by halves. */
static void listeners_mix(void **state) {
  lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING);
  write_file("listen.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n2 1 0.5\n2 2 0.5\n");
  lac_mixing_time time = time_of_graph(*state, options, "listen.mtx", LAC_MIXING_EXACT);
  assert_true(time.rounds == 2 && !*time.reason);
  options.protocol = LAC_PROTOCOL_ASYNC_RING; /* TV of the mean matrix (3/4)^t */
  time = time_of_graph(*state, options, "listen.mtx", LAC_MIXING_AVERAGED);
  assert_true(time.updates == 5 && !*time.reason);
  time = time_of_graph(*state, options, "listen.mtx", LAC_MIXING_REALISED); /* E[2^-k / 2] = (3/4)^t / 2, k of t */
  assert_true(time.updates == 3 && !*time.reason);
  write_file("sway.mtx", /* two listen to two who exchange their models for ever */
             "%%MatrixMarket matrix coordinate real general\n4 4 5\n1 2 1\n2 1 0.5\n2 3 0.5\n3 4 1\n4 3 1\n");
  options.protocol = LAC_PROTOCOL_DPSGD;
  time = time_of_graph(*state, options, "sway.mtx", LAC_MIXING_EXACT);
  assert_never(&time, "swings for ever");
  write_file("torn.mtx", /* worker 1 is torn between two that do not listen */
             "%%MatrixMarket matrix coordinate real general\n3 3 4\n1 1 1\n3 3 1\n2 1 0.5\n2 3 0.5\n");
  time = time_of_graph(*state, options, "torn.mtx", LAC_MIXING_EXACT);
  assert_never(&time, "2 parts");
}

/* ---- bounds ---- */

/* Workers 0 and 2 ask nobody, but worker 1 asks either of them, and a pair mixes both ways: W = I - L/12 on the
 * average, L the Laplacian of a path of three, whose eigenvalues are 0, 1 and 3. */
static void pairs_mix_along_one_way_links(void **state) {
  lac_process_options options = options_of(LAC_PROTOCOL_ADPSGD, 0);
  options.topology.weights = LAC_WEIGHTS_FILE;
  write_file("asker.mtx",
             "%%MatrixMarket matrix coordinate real general\n3 3 4\n"
             "1 1 1\n2 1 0.5\n2 3 0.5\n3 3 1\n");
  double expected = 0, far = 1, slow = 0.5, quick = 1.0 / 6;
  for (; far > 0.25; expected++) {
    slow *= 11.0 / 12;
    quick *= 3.0 / 4;
    far = (fabs(slow + quick) + fabs(2 * quick) + fabs(slow - quick)) / 2; /* of an end's row; the middle is nearer */
  }
  lac_process *process;
  options.topology.graph = (char[]){"asker.mtx"};
  assert_ok(*state, lac_process_create(*state, &options, 0, 1, &process));
  assert_close(lac_process_cost_of(process).messages, 2, 0, "one worker asks");
  lac_process_destroy(&process);
  lac_mixing_time time = time_of_graph(*state, options, "asker.mtx", LAC_MIXING_AVERAGED);
  assert_close(time.updates, expected, 1e-9, "pairs along one-way links");
  assert_close(time.spectral_gap, 1 - pow(11.0 / 12, 3), 1e-9, "their gap");
  time = time_of_graph(*state, options, "asker.mtx", LAC_MIXING_REALISED);
  assert_true(time.samples > 0 && time.updates >= expected && time.updates < 3 * expected);
  write_file("two.mtx",
             "%%MatrixMarket matrix coordinate real general\n4 4 6\n"
             "1 1 1\n2 1 0.5\n2 2 0.5\n3 3 1\n4 3 0.5\n4 4 0.5\n");
  time = time_of_graph(*state, options, "two.mtx", LAC_MIXING_REALISED);
  assert_never(&time, "2 parts");
}

static void check_bounds(lac_context *context, lac_process_options options, int64_t n) {
  double found = exact(context, &options, n);
  lac_mixing_time bound = time_of(context, &options, n, LAC_MIXING_BOUND);
  assert_int_equal(bound.kind, LAC_MIXING_BOUND);
  assert_true(isnan(bound.rounds) && isnan(bound.updates));
  if (!(bound.lower <= found && found <= bound.upper && bound.upper < 1e9)) {
    fail_msg("%s of %lld, slack %g, period %lld: exact %g, bounds %g to %g",
             lac_topology_kind_name(options.topology.kind), (long long)n, options.slack, (long long)options.period,
             found, bound.lower, bound.upper);
  }
}

static void bounds_enclose(void **state) {
  static const int64_t sizes[] = {4, 6, 8, 10, 12, 16, 18, 24, 30, 32, 36, 42, 48, 50, 60, 64};
  for (int kind = 0; kind < LAC_TOPOLOGY_FILE; kind++) {
    for (int s = 0; kind != LAC_TOPOLOGY_ONE_PEER && s < 16; s++) {
      int64_t n = sizes[s];
      if ((kind == LAC_TOPOLOGY_HYPERCUBE && (n & (n - 1)) != 0) ||
          (kind == LAC_TOPOLOGY_TORUS && (n < 12 || n == 50))) {
        continue;
      }
      lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, kind);
      check_bounds(*state, options, n);
      options.slack = 0.35;
      check_bounds(*state, options, n);
      options.period = 5;
      check_bounds(*state, options, n);
      options.protocol = LAC_PROTOCOL_ALLREDUCE;
      check_bounds(*state, options, n);
    }
  }
  for (int protocol = LAC_PROTOCOL_ALLREDUCE; protocol <= LAC_PROTOCOL_PERIODIC; protocol++) {
    if (!lac_protocol_asynchronous(protocol)) {
      check_bounds(*state, options_of(protocol, LAC_TOPOLOGY_COMPLETE), 1);
    }
  }
}

static void bounds_with_uniform_weights(void **state) {
  static const int kinds[] = {LAC_TOPOLOGY_STAR, LAC_TOPOLOGY_GRID};
  for (int k = 0; k < 2; k++) {
    for (int64_t n = 4; n <= 64; n += 10) {
      lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, kinds[k]);
      options.topology.weights = LAC_WEIGHTS_UNIFORM;
      check_bounds(*state, options, n);
      options.slack = 0.2;
      check_bounds(*state, options, n);
    }
  }
}

/* ---- what cannot be had ---- */

static void assert_refused(lac_context *context, lac_process_options options, lac_mixing_options mixing,
                           const char *words) {
  lac_mixing_time time;
  lac_process *process = make(context, &options, 8, 1);
  assert_failure(context, lac_mixing_time_of(context, process, &mixing, &time), LAC_E_USAGE, words);
  lac_process_destroy(&process);
}

static void bad_kinds(void **state) {
  lac_mixing_options mixing = {.kind = LAC_MIXING_EXACT, .precision = 0.01, .samples = 64, .dense = 4096};
  lac_process_options random = options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING);
  lac_process_options fixed = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING);
  assert_refused(*state, random, mixing, "found exact for adpsgd");
  mixing.kind = LAC_MIXING_BOUND;
  assert_refused(*state, random, mixing, "found bound for adpsgd");
  assert_refused(*state, options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_ONE_PEER), mixing, "phases");
  mixing.kind = LAC_MIXING_AVERAGED;
  assert_refused(*state, fixed, mixing, "found averaged for dpsgd");
  random.period = 2;
  assert_refused(*state, random, mixing, "expected realised");
  mixing.kind = LAC_MIXING_REALISED;
  assert_refused(*state, fixed, mixing, "found realised for dpsgd");
  mixing.samples = 0;
  assert_refused(*state, random, mixing, "samples: found 0");
  mixing.samples = 64;
  mixing.dense = 7;
  assert_refused(*state, random, mixing, "found 8 slots, expected at most 7");
  mixing.kind = LAC_MIXING_EXACT;
  assert_refused(*state, fixed, mixing, "found 8 slots, expected at most 7");
  mixing.kind = LAC_MIXING_AUTO;
  assert_int_equal(time_with(*state, &fixed, 8, 1, &mixing).kind, LAC_MIXING_BOUND);
  fixed.protocol = LAC_PROTOCOL_SERVER; /* a formula, whatever the size */
  lac_mixing_time time = time_with(*state, &fixed, 1000000, 1, &mixing);
  assert_true(time.kind == LAC_MIXING_EXACT && time.rounds == 1);
  random = options_of(LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING);
  random.delay = 1;
  assert_refused(*state, random, mixing, "found 8 slots, expected at most 7");
  mixing.dense = 8; /* copies do not count */
  assert_int_equal(time_with(*state, &random, 8, 1, &mixing).kind, LAC_MIXING_REALISED);
}

static void option_table(void **state) {
  const lac_option *table = lac_mixing_option_table();
  static const char *const bad[][2] = {{"kind", "exect"},     {"precision", "0"},    {"precision", "nan"},
                                       {"precision", "1.01"}, {"samples", "31"},     {"samples", "many"},
                                       {"dense-limit", "0"},  {"dense-limit", "1e9"}};
  lac_mixing_options options;
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_true(options.kind == LAC_MIXING_AUTO && options.precision == 0.01 && options.samples == 4096);
  assert_int_equal(options.dense, 4096);
  for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
    assert_failure(*state, lac_options_set(*state, table, &options, bad[b][0], bad[b][1]), LAC_E_USAGE, bad[b][0]);
  }
  for (int kind = 0; kind < LAC_MIXING_KINDS; kind++) {
    assert_ok(*state, lac_options_set(*state, table, &options, "kind", lac_mixing_kind_name(kind)));
    assert_int_equal(options.kind, kind);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_round_or_none, make_context, drop_context),
      cmocka_unit_test_setup_teardown(slack_of_means, make_context, drop_context),
      cmocka_unit_test_setup_teardown(one_peer_is_log2, make_context, drop_context),
      cmocka_unit_test_setup_teardown(one_peer_of_any_size, make_context, drop_context),
      cmocka_unit_test_setup_teardown(topologies_step_by_step, make_context, drop_context),
      cmocka_unit_test_setup_teardown(growth, make_context, drop_context),
      cmocka_unit_test_setup_teardown(gaps, make_context, drop_context),
      cmocka_unit_test_setup_teardown(a_server_collects_coupons, make_context, drop_context),
      cmocka_unit_test_setup_teardown(realised_beside_a_simulation, make_context, drop_context),
      cmocka_unit_test_setup_teardown(delays_beside_a_simulation, make_context, drop_context),
      cmocka_unit_test_setup_teardown(the_standard_error_is_honest, make_context, drop_context),
      cmocka_unit_test_setup_teardown(sampling_stops_where_it_is_told, make_context, drop_context),
      cmocka_unit_test_setup_teardown(modifiers_slow_down, make_context, drop_context),
      cmocka_unit_test_setup_teardown(averaged_closed_forms, make_context, drop_context),
      cmocka_unit_test_setup_teardown(averaged_beside_drawn_events, make_context, drop_context),
      cmocka_unit_test_setup_teardown(parts_never_mix, make_context, drop_context),
      cmocka_unit_test_setup_teardown(swinging_never_mixes, make_context, drop_context),
      cmocka_unit_test_setup_teardown(listeners_mix, make_context, drop_context),
      cmocka_unit_test_setup_teardown(pairs_mix_along_one_way_links, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bounds_enclose, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bounds_with_uniform_weights, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bad_kinds, make_context, drop_context),
      cmocka_unit_test_setup_teardown(option_table, make_context, drop_context),
  };
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests_name("mixing/mixing", tests, NULL, NULL);
  leave_folder(folder);
  return failed;
}
