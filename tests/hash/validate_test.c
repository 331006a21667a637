/* Validation precision where it is known: codes that keep every distance, codes that keep none. */
#include "shard.h"

/* Numbers with digits 0 and 1 only in base 3: no three of them are evenly spaced, so that no two points are equally far
 * from a third. */
static int64_t spread(int64_t i) {
  int64_t value = 0;
  for (int64_t power = 1; i; i >>= 1, power *= 3) {
    value += (i & 1) * power;
  }
  return value;
}

enum { POINTS = 64, BITS = 400 };

/* One column of points at spread(i), mixed up, and a bit for each place: the Hamming distance is the distance. */
static void make_line(lac_context *context, lac_hash_options *options, lac_training *common, shard *made) {
  *options = some_options(BITS, 2);
  *common = make_training(options, 1, 1);
  make_shard(context, common, 0, POINTS, false, made);
  for (int64_t i = 0; i < POINTS; i++) {
    ((float *)made->values)[i] = (float)spread(i * 37 % POINTS);
  }
  made->shift[0] = 0;
  made->trainer.x.scale = made->trainer.input.scale = 1;
  for (int64_t l = 0; l < BITS; l++) {
    made->trainer.model.weight[l * 8] = 1;
    made->trainer.model.bias[l] = -(float)l - 0.5F;
  }
}

static void codes_that_keep_distances_are_precise(void **state) {
  static const int64_t ks[] = {1, 5, 12};
  for (int i = 0; i < 3; i++) {
    lac_hash_options options;
    lac_training common;
    shard at;
    double sum, weight;
    make_line(*state, &options, &common, &at);
    assert_ok(*state, lac_validation_create(*state, &at.trainer, 9, 50, ks[i]));
    assert_ok(*state, lac_validate(&at.trainer, *state, &sum, &weight));
    assert_true(weight == 9 && fabs(sum - 9) < 1e-12);
    drop_shard(&at);
  }
}

/* The same code everywhere: any k of the base come as likely, k / base of them are true. */
static void equal_codes_are_no_better_than_chance(void **state) {
  lac_hash_options options;
  lac_training common;
  shard at;
  double sum, weight;
  make_line(*state, &options, &common, &at);
  assert_ok(*state, lac_validation_create(*state, &at.trainer, 14, 50, 10));
  memset(at.trainer.model.weight, 0, BITS * 8 * sizeof(float));
  assert_ok(*state, lac_validate(&at.trainer, *state, &sum, &weight));
  assert_true(weight == 14 && fabs(sum - 14 * 10.0 / 50) < 1e-12);
  drop_shard(&at);
}

static void without_queries_it_has_no_weight(void **state) {
  lac_hash_options options;
  lac_training common;
  shard at;
  double sum, weight;
  make_line(*state, &options, &common, &at);
  assert_ok(*state, lac_validate(&at.trainer, *state, &sum, &weight));
  assert_true(sum == 0 && weight == 0);
  drop_shard(&at);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(codes_that_keep_distances_are_precise),
      cmocka_unit_test(equal_codes_are_no_better_than_chance),
      cmocka_unit_test(without_queries_it_has_no_weight),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
