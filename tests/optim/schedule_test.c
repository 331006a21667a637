#include <math.h>

#include "laconic/optimizer.h"
#include "support.h"

static void near(double found, double expected) {
  if (!(fabs(found - expected) <= 1e-12)) {
    fail_msg("found %.15g, expected %.15g", found, expected);
  }
}

static void steps_drop_at_their_times(void **state) {
  lac_schedule schedule = {.kind = LAC_SCHEDULE_STEP, .learning_rate = 0.1, .factor = 0.2};
  assert_ok(*state, lac_schedule_parse_drops(*state, "2,4,6.5", &schedule));
  assert_int_equal(schedule.drops, 3);
  near(lac_schedule_at(&schedule, 0), 0.1);
  near(lac_schedule_at(&schedule, nextafter(2, 0)), 0.1);
  near(lac_schedule_at(&schedule, 2), 0.02);
  near(lac_schedule_at(&schedule, 4), 0.004);
  near(lac_schedule_at(&schedule, 6.499), 0.004);
  near(lac_schedule_at(&schedule, 1e9), 0.0008);
}

static void cosine_falls_to_nothing(void **state) {
  (void)state;
  lac_schedule schedule = {.kind = LAC_SCHEDULE_COSINE, .learning_rate = 0.4, .length = 12};
  near(lac_schedule_at(&schedule, 0), 0.4);
  near(lac_schedule_at(&schedule, 4), 0.3); /* (1 + cos 60 degrees) / 2 */
  near(lac_schedule_at(&schedule, 6), 0.2);
  near(lac_schedule_at(&schedule, 12), 0);
  near(lac_schedule_at(&schedule, 13), 0); /* and stays there */
}

static void warm_up_rises_in_a_line(void **state) {
  (void)state;
  lac_schedule step = {.kind = LAC_SCHEDULE_STEP, .learning_rate = 0.1, .warm_up = 4};
  near(lac_schedule_at(&step, 0), 0);
  near(lac_schedule_at(&step, 1), 0.025);
  near(lac_schedule_at(&step, 4), 0.1);
  lac_schedule cosine = {.kind = LAC_SCHEDULE_COSINE, .learning_rate = 0.1, .warm_up = 2, .length = 6};
  near(lac_schedule_at(&cosine, 1), 0.05);
  near(lac_schedule_at(&cosine, 2), 0.1);
  near(lac_schedule_at(&cosine, 4), 0.05); /* half of what is left */
}

static void drops_must_rise(void **state) {
  static const char *const wrong[] = {"2,",  ",2",  "2,2", "4,2",   "0",   "-1",  "a",
                                      "2;4", "nan", "inf", "1e999", "2 4", "2,,4"};
  lac_schedule schedule = {0};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_failure(*state, lac_schedule_parse_drops(*state, wrong[i], &schedule), LAC_E_USAGE, wrong[i]);
  }
  assert_ok(*state, lac_schedule_parse_drops(*state, "", &schedule));
  assert_int_equal(schedule.drops, 0);
  assert_ok(*state, lac_schedule_parse_drops(*state, NULL, &schedule));
  assert_int_equal(schedule.drops, 0);
  char many[1024] = "1";
  for (int i = 2, length = 1; i <= LAC_SCHEDULE_DROPS + 1; i++) {
    length += snprintf(many + length, sizeof many - (size_t)length, ",%d", i);
  }
  assert_failure(*state, lac_schedule_parse_drops(*state, many, &schedule), LAC_E_USAGE, "32");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(steps_drop_at_their_times, make_context, drop_context),
      cmocka_unit_test(cosine_falls_to_nothing),
      cmocka_unit_test(warm_up_rises_in_a_line),
      cmocka_unit_test_setup_teardown(drops_must_rise, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
