/* A second problem for the engine: a two-layer linear network y = B A x with continuous coordinates z, whose iterates
 * have a closed form. Each row of A and of B is a submodel; what travels are the sums of its normal equations, so that
 * a W step is an exact fit, whatever the number of shards.
 *
 *   E_Q = 1/2 sum |y - B z|^2 + mu/2 sum |z - A x|^2
 *   W step: A = (sum z x')(sum x x')^-1, B = (sum y z')(sum z z')^-1
 *   Z step: (B'B + mu I) z = B'y + mu A x, after which, with r = y - B A x,
 *           E_Q = 1/2 sum r'(I + B B' / mu)^-1 r
 *
 * The last line is what the oracle computes E_Q by, over all points at once and in long double. */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/workers.h"
#include "laconic/mac.h"

enum { LIMIT = 5, POINTS = 64, REPORTS = 16, SHARDS = 16 };

/* Sizes: inputs D, hidden K, outputs C, all at most LIMIT; M = K + C submodels. */
typedef struct network_data {
  int64_t d, k, c, points;
  double x[POINTS][LIMIT], y[POINTS][LIMIT], z[POINTS][LIMIT];
} network_data;

typedef struct network {
  double a[LIMIT][LIMIT], b[LIMIT][LIMIT]; /* (K, D), (C, K) */
} network;

typedef struct network_shard {
  const network_data *data;
  int64_t first, end;
  network model, kept;
  double z[POINTS][LIMIT], kept_z[POINTS][LIMIT];
} network_shard;

/* The state of a travelling submodel: sums of its normal equations g w = h. */
typedef struct equations {
  double g[LIMIT][LIMIT], h[LIMIT];
} equations;

/* Gaussian elimination with pivoting; the systems here are small and well conditioned. */
static void solve(int64_t n, long double g[LIMIT][LIMIT], long double h[LIMIT]) {
  for (int64_t i = 0; i < n; i++) {
    int64_t pivot = i;
    for (int64_t r = i + 1; r < n; r++) {
      pivot = fabsl(g[r][i]) > fabsl(g[pivot][i]) ? r : pivot;
    }
    for (int64_t j = 0; j < n; j++) {
      long double swapped = g[i][j];
      g[i][j] = g[pivot][j];
      g[pivot][j] = swapped;
    }
    long double swapped = h[i];
    h[i] = h[pivot];
    h[pivot] = swapped;
    for (int64_t r = 0; r < n; r++) {
      long double factor = g[r][i] / g[i][i];
      for (int64_t j = i; r != i && j < n; j++) {
        g[r][j] -= factor * g[i][j];
      }
      h[r] -= r != i ? factor * h[i] : 0;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    h[i] /= g[i][i];
  }
}

static void solve_equations(int64_t n, const equations *system, double *w) {
  long double g[LIMIT][LIMIT], h[LIMIT];
  for (int64_t i = 0; i < n; i++) {
    h[i] = system->h[i];
    for (int64_t j = 0; j < n; j++) {
      g[i][j] = system->g[i][j];
    }
  }
  solve(n, g, h);
  for (int64_t i = 0; i < n; i++) {
    w[i] = (double)h[i];
  }
}

/* ---- the problem ---- */

static size_t equation_bytes(const void *argument, int64_t m) {
  (void)argument;
  (void)m;
  return sizeof(equations);
}

static lac_status w_begin(void *argument, lac_context *context, int64_t iteration) {
  (void)argument;
  (void)context;
  (void)iteration;
  return LAC_OK;
}

static lac_status pack(void *argument, lac_context *context, int64_t m, void *state) {
  (void)argument;
  (void)context;
  (void)m;
  memset(state, 0, sizeof(equations));
  return LAC_OK;
}

/* Adds this shard's part of the sums: one pass is one addition of all its points. */
static void add_points(const network_shard *self, int64_t m, equations *sums) {
  const network_data *data = self->data;
  bool encoder = m < data->k;
  int64_t n = encoder ? data->d : data->k;
  for (int64_t p = self->first; p < self->end; p++) {
    const double *in = encoder ? data->x[p] : self->z[p];
    double out = encoder ? self->z[p][m] : data->y[p][m - data->k];
    for (int64_t i = 0; i < n; i++) {
      sums->h[i] += in[i] * out;
      for (int64_t j = 0; j < n; j++) {
        sums->g[i][j] += in[i] * in[j];
      }
    }
  }
}

static lac_status train(void *argument, lac_context *context, int64_t count, const int64_t *ids, const int64_t *visits,
                        int64_t passes, void *const *states) {
  (void)context;
  (void)visits;
  for (int64_t i = 0; i < count; i++) {
    for (int64_t pass = 0; pass < passes; pass++) {
      add_points(argument, ids[i], states[i]);
    }
  }
  return LAC_OK;
}

static lac_status unpack(void *argument, lac_context *context, int64_t m, const void *state) {
  network_shard *self = argument;
  const network_data *data = self->data;
  (void)context;
  if (m < data->k) {
    solve_equations(data->d, state, self->model.a[m]);
  } else {
    solve_equations(data->k, state, self->model.b[m - data->k]);
  }
  return LAC_OK;
}

/* out (rows) = w (rows, columns) in. */
static void apply(int64_t rows, int64_t columns, const double w[LIMIT][LIMIT], const double *in, double *out) {
  for (int64_t i = 0; i < rows; i++) {
    out[i] = 0;
    for (int64_t j = 0; j < columns; j++) {
      out[i] += w[i][j] * in[j];
    }
  }
}

static void new_coordinates(const network_shard *self, double mu, const double *ax, const double *y, double *z) {
  const network_data *data = self->data;
  equations system = {{{0}}, {0}};
  for (int64_t i = 0; i < data->k; i++) {
    system.h[i] = mu * ax[i];
    system.g[i][i] = mu;
    for (int64_t c = 0; c < data->c; c++) {
      system.h[i] += self->model.b[c][i] * y[c];
      for (int64_t j = 0; j < data->k; j++) {
        system.g[i][j] += self->model.b[c][i] * self->model.b[c][j];
      }
    }
  }
  solve_equations(data->k, &system, z);
}

static lac_status z_step(void *argument, lac_context *context, double mu, lac_mac_sums *sums) {
  network_shard *self = argument;
  const network_data *data = self->data;
  (void)context;
  for (int64_t p = self->first; p < self->end; p++) {
    double ax[LIMIT], bz[LIMIT], bax[LIMIT];
    apply(data->k, data->d, self->model.a, data->x[p], ax);
    new_coordinates(self, mu, ax, data->y[p], self->z[p]);
    apply(data->c, data->k, self->model.b, self->z[p], bz);
    apply(data->c, data->k, self->model.b, ax, bax);
    for (int64_t c = 0; c < data->c; c++) {
      sums->penalised += 0.5 * (data->y[p][c] - bz[c]) * (data->y[p][c] - bz[c]);
      sums->nested += 0.5 * (data->y[p][c] - bax[c]) * (data->y[p][c] - bax[c]);
    }
    for (int64_t k = 0; k < data->k; k++) {
      double gap = self->z[p][k] - ax[k];
      sums->penalised += 0.5 * mu * gap * gap;
      sums->disagreements += fabs(gap) > 1e-9;
    }
  }
  sums->points = self->end - self->first;
  return LAC_OK;
}

/* The measure: less error of the nested model is better. */
static lac_status validate(void *argument, lac_context *context, double *sum, double *weight) {
  network_shard *self = argument;
  const network_data *data = self->data;
  (void)context;
  *sum = 0;
  *weight = (double)(self->end - self->first);
  for (int64_t p = self->first; p < self->end; p++) {
    double ax[LIMIT], bax[LIMIT];
    apply(data->k, data->d, self->model.a, data->x[p], ax);
    apply(data->c, data->k, self->model.b, ax, bax);
    for (int64_t c = 0; c < data->c; c++) {
      *sum -= (data->y[p][c] - bax[c]) * (data->y[p][c] - bax[c]);
    }
  }
  return LAC_OK;
}

static lac_status save(void *argument, lac_context *context) {
  network_shard *self = argument;
  (void)context;
  self->kept = self->model;
  memcpy(self->kept_z, self->z, sizeof self->z);
  return LAC_OK;
}

static lac_status restore(void *argument, lac_context *context) {
  network_shard *self = argument;
  (void)context;
  self->model = self->kept;
  memcpy(self->z, self->kept_z, sizeof self->z);
  return LAC_OK;
}

static lac_mac_problem problem_of(const network_data *data, bool validated) {
  return (lac_mac_problem){.name = "linear network",
                           .submodels = data->k + data->c,
                           .submodel_bytes = equation_bytes,
                           .w_begin = w_begin,
                           .pack = pack,
                           .train = train,
                           .unpack = unpack,
                           .z_step = z_step,
                           .validate = validated ? validate : NULL,
                           .save = save,
                           .restore = restore};
}

/* ---- data ---- */

static void draw(network_data *data, int64_t d, int64_t k, int64_t c, int64_t points) {
  lac_random stream = lac_random_stream(77, LAC_RANDOM_TEST, (uint64_t)d, (uint64_t)c);
  *data = (network_data){.d = d, .k = k, .c = c, .points = points};
  for (int64_t p = 0; p < points; p++) {
    for (int64_t i = 0; i < LIMIT; i++) {
      data->x[p][i] = lac_random_normal(&stream);
      data->y[p][i] = lac_random_normal(&stream) + data->x[p][0] - 0.5 * data->x[p][1];
      data->z[p][i] = lac_random_normal(&stream) + 0.3 * data->x[p][2];
    }
  }
}

/* ---- the oracle ---- */

typedef struct figures {
  double penalised, nested;
} figures;

/* The least-squares map from `in` (points, n) to column `column` of `out`. */
static void fit(const network_data *data, int64_t n, const double in[POINTS][LIMIT], const double out[POINTS][LIMIT],
                int64_t column, long double w[LIMIT]) {
  long double g[LIMIT][LIMIT] = {{0}};
  memset(w, 0, LIMIT * sizeof *w);
  for (int64_t p = data->points - 1; p >= 0; p--) {
    for (int64_t i = 0; i < n; i++) {
      w[i] += (long double)in[p][i] * out[p][column];
      for (int64_t j = 0; j < n; j++) {
        g[i][j] += (long double)in[p][i] * in[p][j];
      }
    }
  }
  solve(n, g, w);
}

/* 1/2 r'(I + B B' / mu)^-1 r by a (C, C) system; the problem itself solves (K, K) ones. */
static long double penalised_of(const network_data *data, long double b[LIMIT][LIMIT], const long double *r,
                                double mu) {
  long double g[LIMIT][LIMIT], h[LIMIT], sum = 0;
  for (int64_t i = 0; i < data->c; i++) {
    h[i] = r[i];
    for (int64_t j = 0; j < data->c; j++) {
      g[i][j] = i == j;
      for (int64_t k = 0; k < data->k; k++) {
        g[i][j] += b[i][k] * b[j][k] / mu;
      }
    }
  }
  solve(data->c, g, h);
  for (int64_t i = 0; i < data->c; i++) {
    sum += 0.5L * r[i] * h[i];
  }
  return sum;
}

/* z = A x + B'(B B' + mu I)^-1 r, the other form of the Z step. */
static void move_coordinates(const network_data *data, long double b[LIMIT][LIMIT], const long double *ax,
                             const long double *r, double mu, double *z) {
  long double g[LIMIT][LIMIT], h[LIMIT];
  for (int64_t i = 0; i < data->c; i++) {
    h[i] = r[i];
    for (int64_t j = 0; j < data->c; j++) {
      g[i][j] = i == j ? mu : 0;
      for (int64_t k = 0; k < data->k; k++) {
        g[i][j] += b[i][k] * b[j][k];
      }
    }
  }
  solve(data->c, g, h);
  for (int64_t k = 0; k < data->k; k++) {
    long double moved = ax[k];
    for (int64_t i = 0; i < data->c; i++) {
      moved += b[i][k] * h[i];
    }
    z[k] = (double)moved;
  }
}

/* One iteration over all points; moves data->z. */
static figures iterate(network_data *data, double mu) {
  long double a[LIMIT][LIMIT], b[LIMIT][LIMIT], penalised = 0, nested = 0;
  for (int64_t k = 0; k < data->k; k++) {
    fit(data, data->d, data->x, data->z, k, a[k]);
  }
  for (int64_t c = 0; c < data->c; c++) {
    fit(data, data->k, data->z, data->y, c, b[c]);
  }
  for (int64_t p = 0; p < data->points; p++) {
    long double ax[LIMIT] = {0}, r[LIMIT];
    for (int64_t k = 0; k < data->k; k++) {
      for (int64_t i = 0; i < data->d; i++) {
        ax[k] += a[k][i] * data->x[p][i];
      }
    }
    for (int64_t c = 0; c < data->c; c++) {
      r[c] = data->y[p][c];
      for (int64_t k = 0; k < data->k; k++) {
        r[c] -= b[c][k] * ax[k];
      }
      nested += 0.5L * r[c] * r[c];
    }
    penalised += penalised_of(data, b, r, mu);
    move_coordinates(data, b, ax, r, mu, data->z[p]);
  }
  return (figures){(double)penalised, (double)nested};
}

/* ---- runs ---- */

typedef struct network_run {
  network_shard shards[SHARDS];
  void *addresses[SHARDS];
  lac_mac_report reports[REPORTS];
  int64_t reported;
  lac_mac_result result;
} network_run;

static void note_report(void *user, const lac_mac_report *report) {
  network_run *made = user;
  if (made->reported < REPORTS) {
    made->reports[made->reported++] = *report;
  }
}

typedef struct network_plan {
  const network_data *data;
  lac_mac_options options;
  bool validated;
} network_plan;

static lac_status run_engine(lac_context *context, const network_plan *plan, lac_team team, network_run **made) {
  const network_data *data = plan->data;
  lac_mac_problem problem = problem_of(data, plan->validated);
  LAC_TRY(LAC_NEW(context, 1, made));
  for (int s = 0; s < team.count; s++) {
    network_shard *shard = &(*made)->shards[s];
    shard->data = data;
    shard->first = (team.first + s) * data->points / team.total;
    shard->end = (team.first + s + 1) * data->points / team.total;
    memcpy(shard->z, data->z, sizeof shard->z);
    (*made)->addresses[s] = shard;
  }
  return lac_mac_run(context, &team, &problem, (*made)->addresses, &plan->options, note_report, *made,
                     &(*made)->result);
}

static bool near(double found, double expected) {
  return fabs(found - expected) <= 1e-10 * (1 + fabs(expected));
}

/* Reports against the oracle's. */
static lac_status check_figures(lac_context *context, const network_plan *plan, const network_run *made) {
  network_data moving = *plan->data;
  double mu = plan->options.mu;
  CHECK(context, made->reported == plan->options.iterations);
  for (int64_t i = 0; i < made->reported; i++) {
    figures expected = iterate(&moving, mu);
    if (!near(made->reports[i].penalised, expected.penalised) || !near(made->reports[i].nested, expected.nested)) {
      return lac_fail(context, LAC_E_INTERNAL, "iteration %lld: E_Q %.15g, nested %.15g, expected %.15g, %.15g",
                      (long long)i + 1, made->reports[i].penalised, made->reports[i].nested, expected.penalised,
                      expected.nested);
    }
    CHECK(context, made->reports[i].points == plan->data->points);
    mu *= plan->options.mu_factor;
  }
  return LAC_OK;
}

static lac_status check_same(lac_context *context, int rank, const network_run *ring, const network_run *serial) {
  const network_shard *a = &ring->shards[0], *b = &serial->shards[rank];
  CHECK(context, memcmp(&a->model, &b->model, sizeof a->model) == 0);
  CHECK(context, memcmp(&a->model, &serial->shards[0].model, sizeof a->model) == 0);
  CHECK(context, memcmp(a->z, b->z, sizeof a->z) == 0);
  CHECK(context, ring->reported == serial->reported);
  for (int64_t i = 0; i < ring->reported; i++) {
    const lac_mac_report *x = &ring->reports[i], *y = &serial->reports[i];
    CHECK(context, memcmp(&x->penalised, &y->penalised, sizeof x->penalised) == 0);
    CHECK(context, memcmp(&x->nested, &y->nested, sizeof x->nested) == 0);
    CHECK(context, x->disagreements == y->disagreements && x->accepted == y->accepted);
  }
  return LAC_OK;
}

static lac_status both_body(lac_world *world, void *argument) {
  const network_plan *plan = argument;
  lac_context *context = lac_world_context(world);
  int total = lac_world_size(world), rank = lac_world_rank(world);
  network_run *ring = NULL, *serial = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, run_engine(context, plan, (lac_team){world, total, rank, 1}, &ring), cleanup);
  LAC_TRY_GOTO(status, run_engine(context, plan, (lac_team){NULL, total, 0, total}, &serial), cleanup);
  LAC_TRY_GOTO(status, check_same(context, rank, ring, serial), cleanup);
  int64_t messages =
      lac_mac_messages(plan->data->k + plan->data->c, total, plan->options.epochs, plan->options.local_epochs) *
      ring->result.w_steps;
  if (ring->result.messages != messages ||
      ring->result.bytes != messages * (int64_t)(sizeof(equations) + LAC_MAC_ENVELOPE)) {
    LAC_TRY_GOTO(status, lac_fail(context, LAC_E_INTERNAL, "messages or bytes differ"), cleanup);
  }
  if (!plan->validated) {
    status = check_figures(context, plan, ring);
  }
cleanup:
  lac_free(ring);
  lac_free(serial);
  return status;
}

static lac_mac_options options_of(int64_t iterations, int64_t epochs) {
  return (lac_mac_options){
      .iterations = iterations, .mu = 0.1, .mu_factor = 3, .epochs = epochs, .undo_limit = 2, .seed = 4};
}

static void test_iterates(void **state) {
  (void)state;
  network_data data;
  draw(&data, 4, 2, 5, 61);
  for (int64_t epochs = 1; epochs <= 2; epochs++) {
    network_plan plan = {&data, options_of(6, epochs), false};
    lac_world_options options = plain();
    run(options, both_body, &plan, LAC_OK, NULL);
    options.delay_seed = 2;
    options.delay_limit_us = 1000;
    run(options, both_body, &plan, LAC_OK, NULL);
    plan.options.local_epochs = true;
    run(options, both_body, &plan, LAC_OK, NULL);
  }
}

/* With the error itself as the measure, no accepted step raises it. */
static lac_status falling_body(lac_world *world, void *argument) {
  LAC_TRY(both_body(world, argument));
  const network_plan *plan = argument;
  lac_context *context = lac_world_context(world);
  int total = lac_world_size(world);
  network_run *ring = NULL;
  lac_status status = run_engine(context, plan, (lac_team){world, total, lac_world_rank(world), 1}, &ring);
  double before = INFINITY;
  bool undone = false, falls = true;
  for (int64_t i = 0; !status && i < ring->reported; i++) {
    const lac_mac_report *report = &ring->reports[i];
    falls = falls && (!report->accepted || report->nested <= before * (1 + 1e-12));
    before = report->accepted ? report->nested : before;
    undone = undone || !report->accepted;
  }
  lac_free(ring);
  LAC_TRY(status);
  CHECK(context, falls && undone);
  return LAC_OK;
}

static void test_undo(void **state) {
  (void)state;
  network_data data;
  draw(&data, 4, 3, 3, 50);
  network_plan plan = {&data, options_of(16, 1), true};
  run(plain(), falling_body, &plan, LAC_OK, NULL);
}

/* Coordinates that are a linear map of the inputs and outputs without noise: the first W step finds both maps, the Z
 * step moves nothing, and the run ends with both errors zero. */
static lac_status exact_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  network_run *ring = NULL;
  lac_status status =
      run_engine(context, argument, (lac_team){world, lac_world_size(world), lac_world_rank(world), 1}, &ring);
  bool good = !status && ring->result.converged && ring->result.iterations == 1 && ring->reports[0].penalised < 1e-20 &&
              ring->reports[0].nested < 1e-20;
  lac_free(ring);
  LAC_TRY(status);
  CHECK(context, good);
  return LAC_OK;
}

static void test_exact_fit_converges(void **state) {
  (void)state;
  network_data data;
  draw(&data, 3, 2, 4, 40);
  for (int64_t p = 0; p < data.points; p++) {
    data.z[p][0] = data.x[p][0] - 2 * data.x[p][2];
    data.z[p][1] = 0.5 * data.x[p][1] + data.x[p][2];
    for (int64_t c = 0; c < data.c; c++) {
      data.y[p][c] = (double)(c + 1) * data.z[p][0] - data.z[p][1];
    }
  }
  network_plan plan = {&data, options_of(6, 1), false};
  run(plain(), exact_body, &plan, LAC_OK, NULL);
}

/* By hand: x = 1, 2; y = 2, 5; z = 1, 1; mu = 1. A = 3/5, B = 7/2, r = -0.1, 0.8, nested 0.325, E_Q = 0.325 / 13.25. */
static void test_by_hand(void **state) {
  (void)state;
  lac_context *context;
  network_run *made = NULL;
  network_data data = {.d = 1, .k = 1, .c = 1, .points = 2};
  data.x[0][0] = data.z[0][0] = data.z[1][0] = 1;
  data.x[1][0] = data.y[0][0] = 2;
  data.y[1][0] = 5;
  network_plan plan = {&data, options_of(1, 1), false};
  plan.options.mu = 1;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_ok(context, run_engine(context, &plan, (lac_team){NULL, 2, 0, 2}, &made));
  assert_true(near(made->shards[1].model.a[0][0], 0.6) && near(made->shards[0].model.b[0][0], 3.5));
  assert_true(near(made->reports[0].nested, 0.325) && near(made->reports[0].penalised, 0.325 / 13.25));
  assert_true(near(made->shards[0].z[0][0], 7.6 / 13.25) && near(made->shards[1].z[1][0], 18.7 / 13.25));
  lac_free(made);
  lac_context_destroy(&context);
}

/* By hand from the rule: twelve steps of 1.8, or as many as there are over the same range, of 2.7 at most. */
static void test_factors_of_mu(void **state) {
  (void)state;
  static const struct {
    int64_t iterations;
    double asked, expected;
  } cases[] = {{13, 0, 1.8},
               {25, 0, 1.3416407864998738},
               {37, 0, 1.2164403991146799},
               {2, 0, 2.7},
               {7, 0, 2.7},
               {1, 0, 1.8},
               {0, 0, 1.8},
               {25, 3, 3},
               {13, 1.1, 1.1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_mac_options options = {.iterations = cases[i].iterations, .mu_factor = cases[i].asked};
    assert_true(fabs(lac_mac_mu_factor(&options) - cases[i].expected) < 1e-12);
  }
  assert_true(lac_mac_mu_factor(&(lac_mac_options){.iterations = 13}) == 1.8);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_iterates), cmocka_unit_test(test_undo),          cmocka_unit_test(test_exact_fit_converges),
      cmocka_unit_test(test_by_hand),  cmocka_unit_test(test_factors_of_mu),
  };
  static const int counts[] = {1, 2, 3, 5, 8};
  int failed = 0;
  run_on_workers(argc, argv, tests, counts, failed);
  return failed;
}
