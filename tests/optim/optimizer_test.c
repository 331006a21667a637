/* Every rule against two steps computed by hand, in float through the library and in double through the same source. */
#include <math.h>

#include "laconic/optimizer.h"
#include "support.h"

#define LAC_REAL double
#define LAC_REAL_SQRT sqrt
#include "optim/rules.inc"

/* From x = 1 with eta = 1/2, b1 = 1/2, b2 = 3/4, e = 1 along d1, then d2. */
typedef struct sequence {
  const char *name;
  int kind;
  double decay;
  bool decoupled;
  double d[2], x[2];
} sequence;

static const sequence sequences[] = {
    {"sgd", LAC_OPTIMIZER_SGD, 0, false, {1, 2}, {0.5, -0.5}},
    /* m = 1, 2.5 */
    {"momentum", LAC_OPTIMIZER_MOMENTUM, 0, false, {1, 2}, {0.5, -0.75}},
    /* u = 1 + 0.5, 2 + 1.25 */
    {"nesterov", LAC_OPTIMIZER_NESTEROV, 0, false, {1, 2}, {0.25, -1.375}},
    /* v = 1/4, 19/16: 1 - 1/3, then 2/3 - 1 / (1 + sqrt(19)/4) */
    {"rmsprop", LAC_OPTIMIZER_RMSPROP, 0, false, {1, 2}, {0.6666666666666667, 0.1881347419}},
    /* m = 1/2, 5/4; v = 1/4, 19/16; unbiased 1, 5/3 and 1, 19/7 */
    {"adam", LAC_OPTIMIZER_ADAM, 0, false, {1, 2}, {0.75, 0.4352387087}},
    /* m = 1, 1/2; v = 1, 3/4; unbiased 2, 2/3 and 4, 12/7 */
    {"adam, falling", LAC_OPTIMIZER_ADAM, 0, false, {2, 0}, {0.6666666666666667, 0.5223232407}},
    /* the largest v stays 1: 16/7 */
    {"amsgrad, falling", LAC_OPTIMIZER_AMSGRAD, 0, false, {2, 0}, {0.6666666666666667, 0.5339627687}},
    /* d + x/2: m = 3/2, 3/4 + 2 + 1/8 */
    {"momentum, decay", LAC_OPTIMIZER_MOMENTUM, 0.5, false, {1, 2}, {0.25, -1.1875}},
    /* x (1 - 1/4) beside m = 1, 2.5 */
    {"momentum, decoupled", LAC_OPTIMIZER_MOMENTUM, 0.5, true, {1, 2}, {0.25, -1.0625}},
};

static lac_optimizer_options options_of(const sequence *s) {
  return (lac_optimizer_options){.kind = s->kind,
                                 .momentum = 0.5,
                                 .second = 0.75,
                                 .epsilon = 1,
                                 .weight_decay = s->decay,
                                 .decoupled = s->decoupled};
}

static void close_to(const char *name, int step, double found, double expected, double tolerance) {
  if (!(fabs(found - expected) <= tolerance)) {
    fail_msg("%s, step %d: found %.12f, expected %.12f", name, step, found, expected);
  }
}

static void rules_follow_sequences(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
    const sequence *s = &sequences[i];
    lac_optimizer_options options = options_of(s);
    double x = 1, states[LAC_OPTIMIZER_VECTORS] = {0};
    double *const vectors[LAC_OPTIMIZER_VECTORS] = {&states[0], &states[1], &states[2]};
    float x32 = 1, states32[LAC_OPTIMIZER_VECTORS] = {0};
    float *const vectors32[LAC_OPTIMIZER_VECTORS] = {&states32[0], &states32[1], &states32[2]};
    for (int step = 0; step < 2; step++) {
      float d32 = (float)s->d[step];
      lac_rule_step(&options, 1, 0.5, step + 1, &s->d[step], vectors, &x);
      lac_optimizer_step(&options, 1, 0.5, step + 1, &d32, vectors32, &x32);
      close_to(s->name, step + 1, x, s->x[step], 1e-9);
      close_to(s->name, step + 1, (double)x32, s->x[step], 1e-6);
    }
  }
}

/* The number of state vectors is what the rules touch: the others may be NULL. */
static void state_is_as_many_vectors_as_said(void **state) {
  (void)state;
  for (int kind = 0; kind < LAC_OPTIMIZER_KINDS; kind++) {
    lac_optimizer_options options = {.kind = kind, .momentum = 0.9, .second = 0.99, .epsilon = 1e-8};
    float values[LAC_OPTIMIZER_VECTORS][2] = {{0}}, d[2] = {1, -1}, x[2] = {0, 0};
    float *vectors[LAC_OPTIMIZER_VECTORS] = {NULL, NULL, NULL};
    for (int v = 0; v < lac_optimizer_vectors(&options); v++) {
      vectors[v] = values[v];
    }
    lac_optimizer_step(&options, 2, 0.1, 1, d, vectors, x);
    assert_true(x[0] < 0 && x[1] > 0);
    for (int v = 0; v < lac_optimizer_vectors(&options); v++) {
      assert_true(values[v][0] != 0); /* and each one is used */
    }
  }
}

/* A step of the whole is the steps of its pieces. */
static void numbers_do_not_mix(void **state) {
  (void)state;
  for (int kind = 0; kind < LAC_OPTIMIZER_KINDS; kind++) {
    enum { N = 37 };
    lac_optimizer_options options = {
        .kind = kind, .momentum = 0.9, .second = 0.99, .epsilon = 1e-8, .weight_decay = 0.01};
    float whole[1 + LAC_OPTIMIZER_VECTORS][N], pieces[1 + LAC_OPTIMIZER_VECTORS][N], d[N];
    memset(whole, 0, sizeof whole);
    for (int i = 0; i < N; i++) {
      whole[0][i] = (float)(i - 11) / 7;
    }
    memcpy(pieces, whole, sizeof whole);
    for (int step = 1; step <= 5; step++) {
      for (int i = 0; i < N; i++) {
        d[i] = (float)((i * 7 + step * 5) % 13 - 6) / 3;
      }
      float *const all[LAC_OPTIMIZER_VECTORS] = {whole[1], whole[2], whole[3]};
      lac_optimizer_step(&options, N, 0.05, step, d, all, whole[0]);
      for (int first = 0; first < N; first += 10) {
        int count = N - first < 10 ? N - first : 10;
        float *const some[LAC_OPTIMIZER_VECTORS] = {pieces[1] + first, pieces[2] + first, pieces[3] + first};
        lac_optimizer_step(&options, count, 0.05, step, d + first, some, pieces[0] + first);
      }
    }
    assert_memory_equal(whole, pieces, sizeof whole);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_follow_sequences),
      cmocka_unit_test(state_is_as_many_vectors_as_said),
      cmocka_unit_test(numbers_do_not_mix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
