/* A network from outside, and what all back ends share: softmax, dropout, starting values. */
#include "laconic/net.h"

#include <math.h>

#include "base/random.h"
#include "nn/backend.h"
#include "support.h"

/* ---- softmax ---- */

static void softmax_has_its_closed_form(void **state) {
  (void)state;
  const float scores[] = {0, (float)log(3), 1, 1}; /* 1/4, 3/4; 1/2, 1/2 */
  const int32_t labels[] = {0, 1};
  float probabilities[4], gradient[4];
  double loss;
  int64_t errors;
  lac_softmax(2, 2, scores, labels, probabilities, gradient, &loss, &errors);
  static const double expected[] = {0.25, 0.75, 0.5, 0.5}, slope[] = {-0.375, 0.375, 0.25, -0.25};
  for (int i = 0; i < 4; i++) {
    assert_true(fabs((double)probabilities[i] - expected[i]) < 1e-7);
    assert_true(fabs((double)gradient[i] - slope[i]) < 1e-7);
  }
  assert_true(fabs(loss - (log(4) + log(2)) / 2) < 1e-7);
  assert_int_equal(errors, 1); /* an equal score is no error */
  lac_softmax(2, 2, scores, labels, NULL, NULL, NULL, NULL);
  lac_softmax(2, 2, scores, NULL, probabilities, NULL, NULL, NULL);
  assert_true(fabs((double)probabilities[1] - 0.75) < 1e-7);
}

static void softmax_bears_extreme_scores(void **state) {
  (void)state;
  static const struct {
    float scores[3];
    int32_t label;
    double probabilities[3], loss;
    int64_t errors;
  } cases[] = {
      {{3e38F, -3e38F, 0}, 0, {1, 0, 0}, 0, 0},
      {{3e38F, -3e38F, 0}, 2, {1, 0, 0}, 3e38, 1},
      {{3e38F, -3e38F, 0}, 1, {1, 0, 0}, 6e38, 1}, /* more than a float holds */
      {{-3e38F, -3e38F, -3e38F}, 1, {1. / 3, 1. / 3, 1. / 3}, 1.0986122886681098, 0},
      {{1000, 1000, 999}, 0, {0.42231879825, 0.42231879825, 0.15536240349}, 0.86199480368, 0},
      {{-1000, 0, -2000}, 2, {0, 1, 0}, 2000, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float probabilities[3], gradient[3];
    double loss;
    int64_t errors;
    lac_softmax(1, 3, cases[i].scores, &cases[i].label, probabilities, gradient, &loss, &errors);
    for (int c = 0; c < 3; c++) {
      assert_true(fabs((double)probabilities[c] - cases[i].probabilities[c]) < 1e-7);
      assert_true(fabs((double)gradient[c] - cases[i].probabilities[c] + (c == cases[i].label)) < 1e-7);
    }
    assert_true(fabs(loss - cases[i].loss) <= 1e-7 * fmax(1, cases[i].loss));
    assert_int_equal(errors, cases[i].errors);
  }
  for (int at = 0; at < 3; at++) { /* what is not a number is not passed over in silence */
    float scores[3] = {1, 2, 3};
    scores[at] = NAN;
    const int32_t label = 2;
    double loss;
    int64_t errors;
    lac_softmax(1, 3, scores, &label, NULL, NULL, &loss, &errors);
    assert_true(isnan(loss));
    assert_int_equal(errors, 1);
  }
}

/* ---- dropout ---- */

enum { UNITS = 100000 };

static int64_t count_dropped(const float *a, const float *b) {
  int64_t count = 0;
  for (int64_t i = 0; i < UNITS; i++) {
    count += a[i] == 0 && b[i] == 0;
  }
  return count;
}

/* Within five standard errors of a binomial. */
static void assert_rate(int64_t count, double rate) {
  assert_true(fabs((double)count - UNITS * rate) < 5 * sqrt(UNITS * rate * (1 - rate)) + 1);
}

static void dropout_keeps_its_rate(void **state) {
  (void)state;
  static const double rates[] = {0, 0.01, 0.2, 0.25, 0.5, 0.9};
  static float mask[UNITS];
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    lac_dropout_mask((lac_net_key){1, 2, 3}, 4, rates[i], UNITS, mask);
    for (int64_t j = 0; j < UNITS; j++) {
      assert_true(mask[j] == 0 || mask[j] == (float)(1 / (1 - rates[i])));
    }
    assert_rate(count_dropped(mask, mask), rates[i]);
  }
}

/* Masks that differ in one part of their key drop as often together as chance has it. */
static void dropout_masks_are_independent(void **state) {
  (void)state;
  static const struct {
    lac_net_key key;
    int node;
  } keys[] = {{{1, 0, 0}, 1}, {{2, 0, 0}, 1}, {{1, 1, 0}, 1},
              {{1, 0, 1}, 1}, {{1, 0, 0}, 2}, {{-1, 3, 1000000007}, 9000}};
  enum { KEYS = sizeof keys / sizeof *keys };
  float(*masks)[UNITS] = malloc(KEYS * sizeof *masks);
  assert_non_null(masks);
  for (int i = 0; i < KEYS; i++) {
    lac_dropout_mask(keys[i].key, keys[i].node, 0.3, UNITS, masks[i]);
    for (int j = 0; j < i; j++) {
      assert_rate(count_dropped(masks[i], masks[j]), 0.09);
    }
    int64_t neighbours = 0; /* units of one mask, from one to the next and from block to block */
    for (int64_t u = 16; u < UNITS; u++) {
      neighbours += masks[i][u] == 0 && masks[i][u - 16] == 0;
    }
    assert_rate(neighbours, 0.09);
  }
  free(masks);
}

/* By the definition in its header: 16 bits a unit, from the lowest of each number on; so all back ends agree. */
static void dropout_follows_its_definition(void **state) {
  (void)state;
  static float mask[UNITS];
  lac_random stream = lac_random_stream(5, LAC_RANDOM_DROPOUT, (uint64_t)6 << 32 | 8, 7);
  lac_dropout_mask((lac_net_key){.seed = 5, .replica = 6, .step = 7}, 8, 0.4, UNITS, mask);
  for (int64_t i = 0; i < UNITS; i += 4) {
    uint64_t bits = lac_random_bits(&stream);
    for (int part = 0; part < 4; part++) {
      assert_int_equal(mask[i + part] == 0, (bits >> (16 * part) & 0xFFFF) < 0.4 * 65536);
    }
  }
  for (int64_t count = 0; count < 70; count++) { /* a shorter mask is the beginning of a longer one, and no more */
    float part[71];
    part[count] = 9;
    lac_dropout_mask((lac_net_key){.seed = 5, .replica = 6, .step = 7}, 8, 0.4, count, part);
    assert_memory_equal(part, mask, (size_t)count * sizeof *mask);
    assert_true(part[count] == 9);
  }
}

/* ---- networks ---- */

static lac_net *make_net(lac_context *context, const char *text, lac_image_shape input, int64_t classes,
                         int64_t batch) {
  lac_net *net;
  assert_ok(context, lac_net_create(context, text, "test", input, classes, batch, NULL, &net));
  return net;
}

static void a_network_tells_what_it_is(void **state) {
  static const char text[] = "conv 6 kernel=3 stride=2 bias=no\nbatchnorm\nrelu\ndense classes\n";
  lac_net *net = make_net(*state, text, (lac_image_shape){2, 9, 7}, 4, 5);
  assert_string_equal(lac_net_text(net), text);
  assert_int_equal(lac_net_parameters(net), 108 + 12 + 4 * 72 + 4);
  assert_int_equal(lac_net_statistics(net), 12);
  assert_int_equal(lac_net_input(net).channels, 2);
  assert_int_equal(lac_net_input(net).height, 9);
  assert_int_equal(lac_net_input(net).width, 7);
  assert_int_equal(lac_net_classes(net), 4);
  assert_int_equal(lac_net_batch(net), 5);
  assert_true(lac_net_flops(net) == 2 * (108 * 4 * 3 + 4 * 72)); /* a multiplication and an addition each */
  static const lac_net_piece pieces[] = {
      {"01.conv.weight", false, 0, 4, {6, 2, 3, 3}}, {"02.batchnorm.scale", false, 108, 1, {6}},
      {"02.batchnorm.shift", false, 114, 1, {6}},    {"04.dense.weight", false, 120, 2, {4, 72}},
      {"04.dense.bias", false, 408, 1, {4}},         {"02.batchnorm.mean", true, 0, 1, {6}},
      {"02.batchnorm.variance", true, 6, 1, {6}},
  };
  assert_int_equal(lac_net_piece_count(net), 7);
  for (int64_t i = 0; i < 7; i++) {
    lac_net_piece piece = lac_net_piece_at(net, i);
    assert_string_equal(piece.name, pieces[i].name);
    assert_int_equal(piece.statistic, pieces[i].statistic);
    assert_int_equal(piece.offset, pieces[i].offset);
    assert_int_equal(piece.axes, pieces[i].axes);
    assert_memory_equal(piece.shape, pieces[i].shape, sizeof piece.shape);
  }
  assert_int_equal(lac_net_piece_at(net, 7).axes, 0);
  assert_int_equal(lac_net_piece_at(net, -1).axes, 0);
  lac_net_destroy(&net);
  assert_null(net);
  lac_net_destroy(&net);
}

/* The pieces of a network cover both of its vectors without gaps. */
static void pieces_cover_the_vectors(void **state) {
  char *text;
  assert_ok(*state, lac_net_builtin(*state, "wrn-40-1", 0.25, &text));
  lac_net *net = make_net(*state, text, (lac_image_shape){3, 8, 8}, 10, 1);
  int64_t covered[2] = {0, 0};
  for (int64_t i = 0; i < lac_net_piece_count(net); i++) {
    lac_net_piece piece = lac_net_piece_at(net, i);
    assert_int_equal(piece.offset, covered[piece.statistic]);
    int64_t count = 1;
    for (int axis = 0; axis < piece.axes; axis++) {
      count *= piece.shape[axis];
    }
    covered[piece.statistic] += count;
  }
  assert_int_equal(covered[false], lac_net_parameters(net));
  assert_int_equal(covered[true], lac_net_statistics(net));
  assert_string_equal(lac_net_piece_at(net, lac_net_piece_count(net) - 1).name, "130.batchnorm.variance");
  lac_net_destroy(&net);
  free(text);
}

/* Moments of `count` numbers that should be normal with mean 0: each within five of its standard errors. */
static void assert_normal(const float *values, int64_t count, double variance) {
  double sum = 0, squares = 0;
  int64_t within = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += (double)values[i];
    squares += (double)values[i] * (double)values[i];
    within += fabs((double)values[i]) < sqrt(variance);
  }
  double n = (double)count;
  assert_true(fabs(sum / n) < 5 * sqrt(variance / n));
  assert_true(fabs(squares / n - variance) < 5 * variance * sqrt(2 / n));
  assert_true(fabs((double)within / n - 0.6827) < 5 * sqrt(0.6827 * 0.3173 / n));
}

static void starting_values_have_their_variance(void **state) {
  lac_net *net = make_net(*state, "conv 30 kernel=5\nbatchnorm\nrelu\ndense 40\ndense 40\ndense classes",
                          (lac_image_shape){3, 12, 12}, 10, 2);
  int64_t n = lac_net_parameters(net);
  float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b), statistics[60];
  assert_true(a && b);
  lac_net_initialise(net, 1, a, statistics);
  int64_t conv = 30 * 75, first = conv + 30 + 60, dense = 40 * 30 * 64, second = first + dense + 40;
  assert_normal(a, conv, 2.0 / 75);
  assert_normal(a + first, dense, 2.0 / (30 * 64));
  assert_normal(a + second, 1600, 2.0 / 40);
  for (int64_t i = 0; i < 30; i++) {
    assert_true(a[conv + i] == 0 && a[conv + 30 + i] == 1 && a[conv + 60 + i] == 0);
    assert_true(statistics[i] == 0 && statistics[30 + i] == 1);
  }
  for (int64_t i = 0; i < 40; i++) {
    assert_true(a[first + dense + i] == 0);
  }
  lac_net_initialise(net, 1, b, statistics);
  assert_memory_equal(a, b, (size_t)n * sizeof *a);
  lac_net_initialise(net, 2, b, statistics);
  double product = 0; /* weights of two seeds, and of two layers, have nothing to do with each other */
  for (int64_t i = 0; i < conv; i++) {
    product += (double)a[i] * (double)b[i];
  }
  assert_true(fabs(product) < 5 * 2.0 / 75 * sqrt((double)conv));
  product = 0;
  for (int64_t i = 0; i < 1600; i++) {
    product += (double)a[i] * (double)a[second + i];
  }
  assert_true(fabs(product) < 5 * sqrt(2.0 / 75 * 2.0 / 40 * 1600));
  free(a);
  free(b);
  lac_net_destroy(&net);
}

/* Numbers 1, 2, 3 and 6 of one channel: mean 3, variance 14 / 3; 4 pictures of 1 x 1 and one of 2 x 2. */
static void collected_statistics_are_the_sample_s(void **state) {
  static const float pictures[] = {1, 2, 3, 6};
  static const struct {
    lac_image_shape shape;
    int64_t batch;
    double mean, variance;
  } cases[] = {{{1, 1, 1}, 4, 3, 14.0 / 3}, {{1, 2, 2}, 1, 3, 14.0 / 3}, {{1, 1, 1}, 1, 1, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_net *net = make_net(*state, "batchnorm\ndense classes", cases[i].shape, 2, cases[i].batch);
    float parameters[12] = {1}, statistics[2];
    assert_in_range(lac_net_parameters(net), 1, 12);
    assert_ok(*state, lac_net_collect(*state, net, parameters, pictures, statistics));
    assert_true(fabs((double)statistics[0] - cases[i].mean) < 1e-6);
    assert_true(fabs((double)statistics[1] - cases[i].variance) < 1e-6);
    lac_net_destroy(&net);
  }
}

/* Another key drops other units; the same key the same; prediction drops none. */
static void keys_decide_what_is_dropped(void **state) {
  lac_net *net = make_net(*state, "dropout 0.5\ndense classes bias=no", (lac_image_shape){8, 1, 1}, 2, 16);
  static const lac_net_key keys[] = {{1, 0, 0}, {1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}};
  float parameters[16], gradient[16], pictures[128], probabilities[32];
  int32_t labels[16] = {0};
  double loss[5];
  int64_t errors;
  for (int i = 0; i < 16; i++) {
    parameters[i] = (float)(i + 1) / 16;
  }
  for (int i = 0; i < 128; i++) {
    pictures[i] = (float)(i % 7) - 2;
  }
  for (int i = 0; i < 5; i++) {
    assert_ok(*state,
              lac_net_gradient(*state, net, parameters, pictures, labels, keys[i], gradient, &loss[i], &errors));
    for (int j = 0; j < i; j++) {
      assert_int_equal(loss[i] == loss[j], i == 1 && j == 0);
    }
  }
  assert_ok(*state, lac_net_predict(*state, net, parameters, NULL, 16, pictures, probabilities));
  for (int n = 0; n < 16; n++) {
    double margin = 0; /* of the second class over the first, without dropout */
    for (int j = 0; j < 8; j++) {
      margin += (double)(pictures[8 * n + j] * (parameters[8 + j] - parameters[j]));
    }
    assert_true(fabs((double)probabilities[2 * n + 1] - 1 / (1 + exp(-margin))) < 1e-5);
  }
  lac_net_destroy(&net);
}

static void what_cannot_be_is_refused(void **state) {
  static const char text[] = "dense classes";
  const lac_image_shape shape = {4, 1, 1};
  static const struct {
    lac_net_options options;
    lac_status status;
    const char *message;
  } cases[] = {
      {{3, 0, 0}, LAC_E_USAGE, "test: found back end 3, precision 0 and convolution 0, expected values"},
      {{0, -1, 0}, LAC_E_USAGE, "test: found back end 0, precision -1"},
      {{0, 0, 2}, LAC_E_USAGE, "convolution 2, expected values"},
      {{LAC_BACKEND_REFERENCE, LAC_PRECISION_BF16, 0},
       LAC_E_UNSUPPORTED,
       "found precision bf16, but the reference back end has f32 only"},
#ifndef LACONIC_HAVE_ONEDNN
      {{LAC_BACKEND_ONEDNN, 0, 0}, LAC_E_UNSUPPORTED, "test: found back end onednn, but this build was made without"},
#endif
  };
  lac_net *net;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_failure(*state, lac_net_create(*state, text, "test", shape, 3, 2, &cases[i].options, &net), cases[i].status,
                   cases[i].message);
    assert_null(net);
  }
  assert_failure(*state, lac_net_create(*state, "dense 4", "test", shape, 3, 2, NULL, &net), LAC_E_INPUT,
                 "test: line 1");
  assert_null(net);
  net = make_net(*state, text, shape, 3, 2);
  float parameters[15] = {0}, gradient[15], pictures[8] = {0}, probabilities[6];
  double loss;
  int64_t errors;
  for (int32_t label = -1; label <= 3; label += 4) {
    const int32_t labels[] = {1, label};
    char message[80];
    snprintf(message, sizeof message, "picture 1: found label %d, expected 0 to 2", (int)label);
    assert_failure(
        *state, lac_net_gradient(*state, net, parameters, pictures, labels, (lac_net_key){0}, gradient, &loss, &errors),
        LAC_E_INPUT, message);
  }
  assert_failure(*state, lac_net_predict(*state, net, parameters, NULL, 3, pictures, probabilities), LAC_E_USAGE,
                 "found 3 pictures to predict, expected 1 to 2");
  assert_failure(*state, lac_net_predict(*state, net, parameters, NULL, 0, pictures, probabilities), LAC_E_USAGE,
                 "found 0 pictures");
  lac_net_destroy(&net);
}

/* Descent with these gradients learns: two classes of noisy stripes, horizontal and vertical, which no single pixel
 * tells apart. */
static void gradients_teach(void **state) {
  enum { BATCH = 32, SIDE = 8 };
  lac_net *net = make_net(*state, "conv 4 kernel=3\nbatchnorm\nrelu\nmaxpool 2\ndropout 0.1\ndense classes",
                          (lac_image_shape){1, SIDE, SIDE}, 2, BATCH);
  int64_t n = lac_net_parameters(net), errors, wrong = 0;
  float *parameters = malloc((size_t)n * sizeof *parameters), *gradient = malloc((size_t)n * sizeof *gradient);
  float statistics[8], pictures[BATCH * SIDE * SIDE], probabilities[BATCH * 2];
  int32_t labels[BATCH];
  double loss, first = 0;
  assert_true(parameters && gradient);
  lac_net_initialise(net, 1, parameters, statistics);
  lac_random random = lac_random_stream(1, LAC_RANDOM_TEST, 0, 0);
  for (int step = 0; step <= 60; step++) {
    for (int i = 0; i < BATCH * SIDE * SIDE; i++) {
      int picture = i / (SIDE * SIDE), row = i / SIDE % SIDE, column = i % SIDE;
      if (i % (SIDE * SIDE) == 0) {
        labels[picture] = (int32_t)lac_random_below(&random, 2);
      }
      int phase = picture % 2;
      pictures[i] = (float)(((labels[picture] ? row : column) + phase) % 2 + 0.3 * lac_random_normal(&random));
    }
    if (step < 60) {
      assert_ok(*state, lac_net_gradient(*state, net, parameters, pictures, labels, (lac_net_key){1, 0, step}, gradient,
                                         &loss, &errors));
      first = step == 0 ? loss : first;
      for (int64_t i = 0; i < n; i++) {
        parameters[i] -= 0.1F * gradient[i];
      }
    }
  }
  assert_true(loss < first / 4);
  assert_ok(*state, lac_net_collect(*state, net, parameters, pictures, statistics));
  assert_ok(*state, lac_net_predict(*state, net, parameters, statistics, BATCH, pictures, probabilities));
  for (int i = 0; i < BATCH; i++) {
    wrong += probabilities[2 * i + labels[i]] < 0.5F;
  }
  assert_true(wrong <= 1);
  free(parameters);
  free(gradient);
  lac_net_destroy(&net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax_has_its_closed_form),
      cmocka_unit_test(softmax_bears_extreme_scores),
      cmocka_unit_test(dropout_keeps_its_rate),
      cmocka_unit_test(dropout_masks_are_independent),
      cmocka_unit_test(dropout_follows_its_definition),
      cmocka_unit_test_setup_teardown(a_network_tells_what_it_is, make_context, drop_context),
      cmocka_unit_test_setup_teardown(pieces_cover_the_vectors, make_context, drop_context),
      cmocka_unit_test_setup_teardown(starting_values_have_their_variance, make_context, drop_context),
      cmocka_unit_test_setup_teardown(collected_statistics_are_the_sample_s, make_context, drop_context),
      cmocka_unit_test_setup_teardown(keys_decide_what_is_dropped, make_context, drop_context),
      cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, make_context, drop_context),
      cmocka_unit_test_setup_teardown(gradients_teach, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
