/* Sums of losses and errors over any number of pictures, against scores that are known exactly. */
#include <math.h>

#include "laconic/net.h"
#include "support.h"

enum { CLASSES = 3, BATCH = 4 };

/* A network whose scores are its pictures: a dense layer with the identity. */
typedef struct copier {
  lac_net *net;
  float parameters[CLASSES * CLASSES + CLASSES];
} copier;

static copier make_copier(lac_context *context, int64_t batch) {
  copier made = {.parameters = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
  assert_ok(context, lac_net_create(context, "dense classes", "layers", (lac_image_shape){1, 1, CLASSES}, CLASSES,
                                    batch, NULL, &made.net));
  assert_int_equal(lac_net_parameters(made.net), CLASSES * CLASSES + CLASSES);
  return made;
}

/* -log softmax, in the order of its definition. */
static double loss_of(const float *scores, int32_t label) {
  double sum = 0;
  for (int i = 0; i < CLASSES; i++) {
    sum += exp((double)scores[i] - scores[label]);
  }
  return log(sum);
}

static const float scores[][CLASSES] = {{0, 1, 2}, {0.5F, -3, 0.25F}, {1, 1, 1},    {2, 2, 0},  {-1, 0, -7}, {3, 0, 3},
                                        {0, 9, 9}, {-2, -2, -2.5F},   {0.1F, 0, 0}, {0, 40, 0}, {6, 5, 4}};
static const int32_t labels[] = {2, 1, 0, 2, 1, 0, 0, 2, 0, 1, 2};
enum { COUNT = sizeof labels / sizeof *labels };

static void sums_do_not_depend_on_the_batch(void **state) {
  double expected = 0;
  for (int i = 0; i < COUNT; i++) {
    expected += loss_of(scores[i], labels[i]);
  }
  for (int64_t batch = 1; batch <= COUNT + 1; batch++) {
    copier self = make_copier(*state, batch);
    double loss;
    int64_t errors;
    assert_ok(*state,
              lac_net_evaluate(*state, self.net, self.parameters, NULL, COUNT, scores[0], labels, &loss, &errors));
    assert_true(fabs(loss - expected) < 1e-6 * expected);
    assert_int_equal(errors, 5); /* 1, 3, 6, 7 and 10: another class is ahead; equal ones are no error */
    lac_net_destroy(&self.net);
  }
}

/* A loss that a probability in float32 has no room for. */
static void a_hopeless_picture_has_its_loss(void **state) {
  static const float far[][CLASSES] = {{0, 1000, 0}, {0, 0, 0}};
  static const int32_t wrong[] = {0, 1};
  copier self = make_copier(*state, BATCH);
  double loss;
  int64_t errors;
  assert_ok(*state, lac_net_evaluate(*state, self.net, self.parameters, NULL, 2, far[0], wrong, &loss, &errors));
  assert_true(fabs(loss - (1000 + log(3))) < 1e-6);
  assert_int_equal(errors, 1);
  lac_net_destroy(&self.net);
}

static void what_is_no_number_is_wrong(void **state) {
  static const int32_t any[] = {0, 1, 2};
  float odd[3][CLASSES] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  copier self = make_copier(*state, BATCH);
  double loss;
  int64_t errors;
  odd[1][0] = NAN;
  assert_ok(*state, lac_net_evaluate(*state, self.net, self.parameters, NULL, 3, odd[0], any, &loss, &errors));
  assert_int_equal(errors, 1);
  assert_false(isfinite(loss));
  lac_net_destroy(&self.net);
}

static void refuses_what_is_out_of_range(void **state) {
  int32_t bad[COUNT];
  copier self = make_copier(*state, BATCH);
  double loss = 1;
  int64_t errors = 1;
  memcpy(bad, labels, sizeof bad);
  bad[6] = CLASSES;
  assert_failure(*state,
                 lac_net_evaluate(*state, self.net, self.parameters, NULL, COUNT, scores[0], bad, &loss, &errors),
                 LAC_E_INPUT, "picture 6: found label 3, expected 0 to 2");
  bad[6] = -1;
  assert_failure(*state,
                 lac_net_evaluate(*state, self.net, self.parameters, NULL, COUNT, scores[0], bad, &loss, &errors),
                 LAC_E_INPUT, "picture 6: found label -1");
  assert_failure(*state, lac_net_evaluate(*state, self.net, self.parameters, NULL, -1, NULL, NULL, &loss, &errors),
                 LAC_E_USAGE, "-1 pictures");
  assert_ok(*state, lac_net_evaluate(*state, self.net, self.parameters, NULL, 0, NULL, NULL, &loss, &errors));
  assert_true(loss == 0);
  assert_int_equal(errors, 0);
  lac_net_destroy(&self.net);
}

static void stops_when_interrupted(void **state) {
  copier self = make_copier(*state, BATCH);
  lac_context *context;
  double loss;
  int64_t errors;
  assert_ok(*state, lac_context_create(&context));
  lac_context_interrupt(context);
  assert_failure(context,
                 lac_net_evaluate(context, self.net, self.parameters, NULL, COUNT, scores[0], labels, &loss, &errors),
                 LAC_E_INTERRUPTED, "interrupted after 0 of 11 pictures");
  lac_context_destroy(&context);
  lac_net_destroy(&self.net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_do_not_depend_on_the_batch), cmocka_unit_test(a_hopeless_picture_has_its_loss),
      cmocka_unit_test(what_is_no_number_is_wrong),      cmocka_unit_test(refuses_what_is_out_of_range),
      cmocka_unit_test(stops_when_interrupted),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
