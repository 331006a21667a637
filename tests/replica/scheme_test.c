/* The scheme in double, against the four methods written down one by one as the papers' rules have them, on quadratics
 * f_a(x) = sum over i of c_i (x_i - o_ai)^2 / 2: gradients that differ from replica to replica and from batch to batch.
 */
#include <math.h>

#include "laconic/replica.h"
#include "support.h"

#define LAC_REAL double
#define LAC_REAL_SQRT sqrt
#include "optim/rules.inc"
#include "replica/scheme.inc"

enum { N = 3, REPLICAS = 3, STEPS = 60, LONG = 25 };

/* The gradient of batch `step` of replica a at x. */
static double slope(int a, int64_t step, int i, double x) {
  static const double curvature[N] = {0.2, 1, 2.5};
  double optimum = (a + 1) * (i + 1) * 0.25 + 0.125 * (double)((step * 7 + a * 3 + i) % 5 - 2);
  return curvature[i] * (x - optimum);
}

typedef struct setting {
  int replicas;
  int64_t batches; /* a pass: few, so that the scopes reach their limits */
  double decay;
  bool late; /* the mean is one outer step old */
  int scoping;
} setting;

static double limited(double value, double limit) {
  return value < limit ? value : limit;
}

/* 0.1, and a tenth of it from epoch 3 on. */
static double outer_rate(const setting *s, int t) {
  return (double)t / (double)s->batches < 3 ? 0.1 : 0.01;
}

/* r, and with late means at most 0.2 over the rate. */
static double coupling(const setting *s, int t) {
  double growth = 1;
  for (int k = 0; k < t * s->scoping; k++) {
    growth *= 1 + 1 / (2 * (double)s->batches);
  }
  double limit = s->late ? limited(10, 0.2 / outer_rate(s, t)) : 10;
  return limited(growth, limit);
}

/* ---- the rules, one by one ---- */

static void by_hand_parle(const setting *s, bool coupled, double x[REPLICAS][N]) {
  double m[REPLICAS][N] = {{0}}, q[REPLICAS][N] = {{0}}, z[REPLICAS][N], before[REPLICAS][N] = {{0}};
  int64_t batch = 0;
  for (int t = 0; t < STEPS; t++) {
    double growth = 1;
    for (int k = 0; k < t * s->scoping; k++) {
      growth *= 1 + 1 / (2 * (double)s->batches);
    }
    double g = limited(growth / 100, 1), r = coupled ? coupling(s, t) : 0;
    for (int a = 0; a < s->replicas; a++) {
      double y[N];
      memcpy(y, x[a], sizeof y);
      memcpy(z[a], x[a], sizeof y);
      for (int l = 0; l < LONG; l++) {
        for (int i = 0; i < N; i++) {
          double d = slope(a, batch + l, i, y[i]) + s->decay * y[i] + g * (y[i] - x[a][i]);
          m[a][i] = 0.9 * m[a][i] + d;
          y[i] -= 0.1 * (d + 0.9 * m[a][i]);
          z[a][i] = 0.75 * z[a][i] + 0.25 * y[i];
        }
      }
    }
    batch += LONG;
    for (int i = 0; i < N; i++) {
      double mean = 0;
      for (int a = 0; a < s->replicas; a++) {
        mean += z[a][i] / s->replicas;
      }
      for (int a = 0; a < s->replicas; a++) {
        double d = (x[a][i] - z[a][i]) + r * (x[a][i] - mean);
        if (s->late && coupled) { /* z - mean z as it was a step ago, nothing at first */
          d = (1 + r) * (x[a][i] - z[a][i]) + r * before[a][i];
          before[a][i] = z[a][i] - mean;
        }
        q[a][i] = 0.9 * q[a][i] + d;
        x[a][i] -= outer_rate(s, t) * (d + 0.9 * q[a][i]);
      }
    }
  }
}

static void by_hand_elastic(const setting *s, double x[REPLICAS][N]) {
  double q[REPLICAS][N] = {{0}}, before[REPLICAS][N] = {{0}};
  for (int t = 0; t < STEPS; t++) {
    double r = coupling(s, t);
    for (int i = 0; i < N; i++) {
      double mean = 0;
      for (int a = 0; a < s->replicas; a++) {
        mean += x[a][i] / s->replicas;
      }
      for (int a = 0; a < s->replicas; a++) {
        double d = slope(a, t, i, x[a][i]) + s->decay * x[a][i] + r * (s->late ? before[a][i] : x[a][i] - mean);
        before[a][i] = x[a][i] - mean;
        q[a][i] = 0.9 * q[a][i] + d;
        x[a][i] -= outer_rate(s, t) * (d + 0.9 * q[a][i]);
      }
    }
  }
}

static void by_hand_sgd(const setting *s, double x[REPLICAS][N]) {
  double q[N] = {0}, before[N] = {0};
  for (int t = 0; t < STEPS; t++) {
    for (int i = 0; i < N; i++) {
      double d = 0;
      for (int a = 0; a < s->replicas; a++) {
        d += slope(a, t, i, x[0][i]) / s->replicas;
      }
      if (s->late) {
        double mine = d;
        d = before[i];
        before[i] = mine;
        if (t == 0) {
          continue;
        }
      }
      d += s->decay * x[0][i];
      q[i] = 0.9 * q[i] + d;
      for (int a = 0; a < s->replicas; a++) {
        x[a][i] -= outer_rate(s, t) * (d + 0.9 * q[i]);
      }
    }
  }
}

/* ---- the scheme ---- */

typedef struct run {
  lac_scheme scheme;
  double x[N], y[N], z[N], d[N], inner[LAC_OPTIMIZER_VECTORS][N], outer[LAC_OPTIMIZER_VECTORS][N];
} run;

static void open_run(lac_context *context, const lac_replica_options *options, int64_t batches, const double *x,
                     run *r) {
  memset(r, 0, sizeof *r);
  assert_ok(context, lac_scheme_init(context, options, N, batches, &r->scheme));
  memcpy(r->x, x, sizeof r->x);
  r->scheme.x = r->x, r->scheme.d = r->d;
  if (lac_scheme_nested(options)) {
    r->scheme.y = r->y, r->scheme.z = r->z;
  }
  for (int v = 0; v < LAC_OPTIMIZER_VECTORS; v++) {
    r->scheme.inner_state[v] = r->inner[v];
    r->scheme.outer_state[v] = r->outer[v];
  }
}

static void by_scheme(lac_context *context, const setting *s, int method, double x[REPLICAS][N]) {
  static char drops[] = "3";
  lac_replica_options options = {
      .method = method,
      .epochs = 1000,
      .inner_steps = LONG,
      .average = 0.25,
      .gamma = 100,
      .rho = 1,
      .scoping = s->scoping,
      .optimizer = {.kind = LAC_OPTIMIZER_NESTEROV, .momentum = 0.9, .weight_decay = s->decay},
      .outer_momentum = 0.9,
      .learning_rate = 0.1,
      .schedule = LAC_SCHEDULE_STEP,
      .drops = drops,
      .drop_factor = 0.1,
      .overlap = s->late};
  run runs[REPLICAS];
  double away[REPLICAS][N];
  for (int a = 0; a < s->replicas; a++) {
    open_run(context, &options, s->batches, x[a], &runs[a]);
  }
  for (int t = 0; t < STEPS; t++) {
    double mean[N] = {0};
    for (int a = 0; a < s->replicas; a++) {
      lac_scheme *scheme = &runs[a].scheme;
      do {
        const double *at = lac_scheme_point(scheme);
        for (int i = 0; i < N; i++) {
          scheme->d[i] = slope(a, scheme->gradients, i, at[i]);
        }
      } while (!lac_scheme_take(scheme));
      for (int i = 0; i < N; i++) {
        mean[i] += lac_scheme_offer(scheme)[i] / s->replicas;
      }
    }
    for (int a = 0; a < s->replicas; a++) {
      double now[N], *use = s->late ? away[a] : now;
      memcpy(now, mean, sizeof now);
      lac_scheme_compare(&runs[a].scheme, lac_scheme_offer(&runs[a].scheme), now);
      lac_scheme_update(&runs[a].scheme, s->late && t == 0 ? NULL : use);
      memcpy(away[a], now, sizeof now);
    }
  }
  for (int a = 0; a < s->replicas; a++) {
    memcpy(x[a], runs[a].x, sizeof runs[a].x);
  }
}

static void start(double x[REPLICAS][N]) {
  for (int a = 0; a < REPLICAS; a++) {
    for (int i = 0; i < N; i++) {
      x[a][i] = 1 - 0.5 * i;
    }
  }
}

static void compare(const char *what, int replicas, double found[REPLICAS][N], double expected[REPLICAS][N]) {
  for (int a = 0; a < replicas; a++) {
    for (int i = 0; i < N; i++) {
      if (!(fabs(found[a][i] - expected[a][i]) <= 1e-12 * (1 + fabs(expected[a][i])))) {
        fail_msg("%s, replica %d, number %d: found %.15g, expected %.15g", what, a, i, found[a][i], expected[a][i]);
      }
    }
  }
}

/* With 2 batches a pass g passes 1 at t = 21 and r passes 10 at t = 11; with 100 neither does. */
static const setting settings[] = {{3, 2, 0, false, 1},    {3, 2, 0.01, false, 1}, {2, 15, 1e-3, false, 1},
                                   {3, 100, 0, false, 1},  {1, 2, 1e-3, false, 1}, {3, 2, 0.01, true, 1},
                                   {2, 15, 1e-3, true, 1}, {3, 100, 0, true, 1},   {3, 8, 0, false, 4},
                                   {3, 8, 0, true, 4}};

static void parle_is_the_papers_rule(void **state) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    double found[REPLICAS][N], expected[REPLICAS][N];
    start(found), start(expected);
    by_scheme(*state, &settings[i], LAC_METHOD_PARLE, found);
    by_hand_parle(&settings[i], true, expected);
    compare("parle", settings[i].replicas, found, expected);
  }
}

static void entropy_is_one_uncoupled_replica(void **state) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    double found[REPLICAS][N], expected[REPLICAS][N];
    setting alone = settings[i];
    alone.replicas = 1;
    alone.late = false;
    start(found), start(expected);
    by_scheme(*state, &alone, LAC_METHOD_ENTROPY, found);
    by_hand_parle(&alone, false, expected);
    compare("entropy", 1, found, expected);
  }
}

static void elastic_is_the_papers_rule(void **state) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    double found[REPLICAS][N], expected[REPLICAS][N];
    start(found), start(expected);
    by_scheme(*state, &settings[i], LAC_METHOD_ELASTIC, found);
    by_hand_elastic(&settings[i], expected);
    compare("elastic", settings[i].replicas, found, expected);
  }
}

static void sgd_takes_the_mean_gradient(void **state) {
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    double found[REPLICAS][N], expected[REPLICAS][N];
    start(found), start(expected);
    by_scheme(*state, &settings[i], LAC_METHOD_SGD, found);
    by_hand_sgd(&settings[i], expected);
    compare("sgd", settings[i].replicas, found, expected);
  }
}

static void scopes_grow_to_their_limits(void **state) {
  lac_replica_options options = {.method = LAC_METHOD_PARLE, .gamma = 100, .rho = 1, .scoping = 1, .inner_steps = 1};
  run r;
  double x[N] = {0};
  open_run(*state, &options, 2, x, &r);
  static const struct {
    int64_t t;
    double g, r;
  } known[] = {{0, 0.01, 1},
               {1, 0.0125, 1.25},
               {2, 0.015625, 1.5625},
               {10, 0.0931322574615479, 9.31322574615479},
               {11, 0.116415321826935, 10},
               {20, 0.867361737988404, 10},
               {21, 1, 10},
               {1000, 1, 10},
               {100000, 1, 10}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    r.scheme.step = known[i].t;
    assert_true(fabs(lac_scheme_g(&r.scheme) - known[i].g) < 1e-14);
    assert_true(fabs(lac_scheme_r(&r.scheme) - known[i].r) < 1e-13);
  }
  options.scoping = 5; /* a fifth of the steps to the same place */
  for (size_t i = 3; i < sizeof known / sizeof *known; i++) {
    if (known[i].t % 5 == 0) {
      r.scheme.step = known[i].t / 5;
      assert_true(fabs(lac_scheme_g(&r.scheme) - known[i].g) < 1e-14);
      assert_true(fabs(lac_scheme_r(&r.scheme) - known[i].r) < 1e-13);
    }
  }
  options.scoping = 0; /* as if nobody had set it: the paper's */
  r.scheme.step = 2;
  assert_true(lac_scheme_g(&r.scheme) == 0.015625 && lac_scheme_r(&r.scheme) == 1.5625);
}

/* Late means: however long r grows at a constant rate, replicas without gradients come together. */
static void late_replicas_come_together(void **state) {
  static const int methods[] = {LAC_METHOD_ELASTIC, LAC_METHOD_PARLE};
  for (size_t m = 0; m < 2; m++) {
    lac_replica_options options = {.method = methods[m],
                                   .epochs = 1e6,
                                   .inner_steps = 3,
                                   .average = 0.25,
                                   .gamma = 100,
                                   .rho = 1,
                                   .scoping = 1,
                                   .optimizer = {.kind = LAC_OPTIMIZER_NESTEROV, .momentum = 0.9},
                                   .outer_momentum = 0.9,
                                   .learning_rate = 0.1,
                                   .drop_factor = 0.1,
                                   .overlap = true};
    run runs[2];
    double apart[2][N] = {{-1, -2, 3}, {1, 2, -3}}, away[2][N] = {{0}};
    open_run(*state, &options, 5, apart[0], &runs[0]);
    open_run(*state, &options, 5, apart[1], &runs[1]);
    for (int t = 0; t < 2000; t++) {
      double mean[N] = {0};
      for (int a = 0; a < 2; a++) {
        do {
          (void)lac_scheme_point(&runs[a].scheme);
          memset(runs[a].d, 0, sizeof runs[a].d);
        } while (!lac_scheme_take(&runs[a].scheme));
        for (int i = 0; i < N; i++) {
          mean[i] += lac_scheme_offer(&runs[a].scheme)[i] / 2;
        }
      }
      for (int a = 0; a < 2; a++) {
        double now[N];
        memcpy(now, mean, sizeof now);
        lac_scheme_compare(&runs[a].scheme, lac_scheme_offer(&runs[a].scheme), now);
        lac_scheme_update(&runs[a].scheme, t == 0 ? NULL : away[a]);
        memcpy(away[a], now, sizeof now);
      }
    }
    for (int i = 0; i < N; i++) {
      assert_true(fabs(runs[0].x[i] - runs[1].x[i]) < 1e-3);
      assert_true(fabs(runs[0].x[i] + runs[1].x[i]) < 1e-9); /* and their mean stays */
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(parle_is_the_papers_rule, make_context, drop_context),
      cmocka_unit_test_setup_teardown(entropy_is_one_uncoupled_replica, make_context, drop_context),
      cmocka_unit_test_setup_teardown(elastic_is_the_papers_rule, make_context, drop_context),
      cmocka_unit_test_setup_teardown(sgd_takes_the_mean_gradient, make_context, drop_context),
      cmocka_unit_test_setup_teardown(scopes_grow_to_their_limits, make_context, drop_context),
      cmocka_unit_test_setup_teardown(late_replicas_come_together, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
