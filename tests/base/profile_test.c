#include "base/profile.h"

#include <pthread.h>

#include "support.h"

static void events_add_up(void **state) {
  lac_event events[4];
  char w_name[] = "w step"; /* told apart by characters, not by address */
  assert_int_equal(lac_profile_events(*state, events, 4), 0);
  lac_profile_add(*state, "w step", 2.0, 3, 100, 1e6);
  lac_profile_add(*state, "z step", 0.5, 0, 0, 5);
  lac_profile_add(*state, w_name, 1.0, 4, 50, 2e6);
  assert_int_equal(lac_profile_events(*state, events, 4), 2);
  assert_string_equal(events[0].name, "w step");
  assert_int_equal(events[0].count, 2);
  assert_true(events[0].seconds == 3.0 && events[0].least == 1.0 && events[0].most == 2.0);
  assert_int_equal(events[0].messages, 7);
  assert_int_equal(events[0].bytes, 150);
  assert_true(events[0].flops == 3e6);
  assert_string_equal(events[1].name, "z step");
  assert_true(events[1].least == 0.5 && events[1].most == 0.5);
  lac_event one;
  assert_int_equal(lac_profile_events(*state, &one, 1), 2);
  assert_string_equal(one.name, "w step");
}

static void too_many_kinds_lose_no_seconds(void **state) {
  static char names[100][24];
  lac_event events[200];
  for (int i = 0; i < 100; i++) {
    snprintf(names[i], sizeof names[i], "kind %d", i);
    lac_profile_add(*state, names[i], 1, 1, 1, 1);
  }
  int count = lac_profile_events(*state, events, 200);
  assert_int_equal(count, 64);
  double seconds = 0;
  for (int i = 0; i < count; i++) {
    seconds += events[i].seconds;
  }
  assert_true(seconds == 100);
  assert_string_equal(events[63].name, "other");
}

enum { THREADS = 4, CALLS = 2000 };

static void *add(void *argument) {
  for (int i = 0; i < CALLS; i++) {
    lac_profile_add(argument, "event", 1, 1, 2, 3);
  }
  return NULL;
}

static void workers_lose_nothing(void **state) {
  pthread_t threads[THREADS];
  lac_context *children[THREADS];
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(lac_context_child(*state, &children[i]), LAC_OK);
    assert_int_equal(pthread_create(&threads[i], NULL, add, children[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    lac_context_destroy(&children[i]);
  }
  lac_event event;
  assert_int_equal(lac_profile_events(*state, &event, 1), 1);
  assert_int_equal(event.count, THREADS * CALLS);
  assert_int_equal(event.bytes, 2 * THREADS * CALLS);
  assert_true(event.seconds == THREADS * CALLS);
}

static void clock_goes_forward(void **state) {
  (void)state;
  double before = lac_seconds();
  for (int i = 0; i < 1000; i++) {
    double now = lac_seconds();
    assert_true(now >= before);
    before = now;
  }
}

int main(void) {
#define CONTEXT_TEST(name) cmocka_unit_test_setup_teardown(name, make_context, drop_context)
  const struct CMUnitTest tests[] = {CONTEXT_TEST(events_add_up), CONTEXT_TEST(too_many_kinds_lose_no_seconds),
                                     CONTEXT_TEST(workers_lose_nothing), cmocka_unit_test(clock_goes_forward)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
