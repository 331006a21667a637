/* Contexts: messages are each context's own; log, interrupt flag and profile are shared with the children. Statuses:
 * one table gives symbol, text and exit status. */
#include "laconic/context.h"

#include <pthread.h>

#include "base/profile.h"
#include "laconic/version.h"
#include "support.h"

typedef struct lines {
  int count;
  lac_log_level last_level;
  char last[2048];
  bool inside; /* set while a call is running: calls must not overlap */
  bool overlapped;
} lines;

static void keep(void *user, lac_log_level level, const char *line) {
  lines *kept = user;
  kept->overlapped |= kept->inside;
  kept->inside = true;
  kept->count++;
  kept->last_level = level;
  snprintf(kept->last, sizeof kept->last, "%s", line);
  kept->inside = false;
}

static void messages_are_each_contexts_own(void **state) {
  (void)state;
  lac_context *parent, *child;
  assert_int_equal(lac_context_create(&parent), LAC_OK);
  assert_string_equal(lac_context_message(parent), "");
  assert_int_equal(lac_context_child(parent, &child), LAC_OK);
  assert_int_equal(lac_fail(child, LAC_E_INPUT, "%s: row %d", "a.npy", 7), LAC_E_INPUT);
  assert_string_equal(lac_context_message(child), "a.npy: row 7");
  assert_string_equal(lac_context_message(parent), "");
  lac_context_destroy(&child);
  assert_null(child);
  lac_context_destroy(&child);
  lac_context_destroy(&parent);
}

static void a_message_can_name_the_one_before(void **state) {
  (void)state;
  lac_context *context;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  (void)!lac_fail(context, LAC_E_IO, "disk full");
  (void)!lac_fail(context, LAC_E_IO, "worker 3: %s", lac_context_message(context));
  assert_string_equal(lac_context_message(context), "worker 3: disk full");
  lac_context_destroy(&context);
}

static void long_messages_are_cut_not_overrun(void **state) {
  (void)state;
  lac_context *context;
  char text[5000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  (void)!lac_fail(context, LAC_E_INPUT, "%s", text);
  size_t length = strlen(lac_context_message(context));
  assert_true(length >= 500 && length < sizeof text);
  assert_int_equal(strspn(lac_context_message(context), "x"), length);
  lac_context_destroy(&context);
}

static void log_levels_and_children(void **state) {
  (void)state;
  lac_context *parent, *child;
  lines kept = {0};
  assert_int_equal(lac_context_create(&parent), LAC_OK);
  assert_int_equal(lac_context_child(parent, &child), LAC_OK);
  lac_context_log(child, LAC_LOG_ERROR, "nobody listens");
  lac_context_set_log(parent, LAC_LOG_INFO, keep, &kept);
  lac_context_log(child, LAC_LOG_DEBUG, "too quiet");
  assert_int_equal(kept.count, 0);
  lac_context_log(child, LAC_LOG_INFO, "%d points", 5);
  assert_int_equal(kept.count, 1);
  assert_int_equal(kept.last_level, LAC_LOG_INFO);
  assert_string_equal(kept.last, "5 points");
  lac_context_set_log(child, LAC_LOG_INFO, NULL, NULL);
  lac_context_log(parent, LAC_LOG_ERROR, "off again");
  assert_int_equal(kept.count, 1);
  lac_context_destroy(&child);
  lac_context_destroy(&parent);
}

enum { THREADS = 4, LINES = 500 };

static void *speak(void *argument) {
  lac_context *context = argument;
  for (int i = 0; i < LINES; i++) {
    lac_context_log(context, LAC_LOG_WARNING, "line %d", i);
  }
  return NULL;
}

static void log_calls_do_not_overlap(void **state) {
  (void)state;
  lac_context *parent, *children[THREADS];
  pthread_t threads[THREADS];
  lines kept = {0};
  assert_int_equal(lac_context_create(&parent), LAC_OK);
  lac_context_set_log(parent, LAC_LOG_WARNING, keep, &kept);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(lac_context_child(parent, &children[i]), LAC_OK);
    assert_int_equal(pthread_create(&threads[i], NULL, speak, children[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    lac_context_destroy(&children[i]);
  }
  assert_int_equal(kept.count, THREADS * LINES);
  assert_false(kept.overlapped);
  lac_context_destroy(&parent);
}

static void interrupt_reaches_all_relatives(void **state) {
  (void)state;
  lac_context *parent, *child, *sibling, *other;
  assert_int_equal(lac_context_create(&parent), LAC_OK);
  assert_int_equal(lac_context_create(&other), LAC_OK);
  assert_int_equal(lac_context_child(parent, &child), LAC_OK);
  assert_int_equal(lac_context_child(child, &sibling), LAC_OK);
  lac_context_interrupt(child);
  assert_true(lac_context_interrupted(parent));
  assert_true(lac_context_interrupted(sibling));
  assert_false(lac_context_interrupted(other)); /* no state outside contexts */
  assert_ptr_equal(lac_context_profile(sibling), lac_context_profile(parent));
  lac_context_destroy(&sibling);
  lac_context_destroy(&child);
  lac_context_destroy(&parent);
  lac_context_destroy(&other);
}

static void statuses_come_from_one_table(void **state) {
  (void)state;
  /* Written out here again: scripts rely on the exit statuses. */
  static const struct {
    lac_status status;
    const char *name;
    int exit_status;
  } expected[] = {{LAC_OK, "LAC_OK", 0},
                  {LAC_E_USAGE, "LAC_E_USAGE", 2},
                  {LAC_E_INPUT, "LAC_E_INPUT", 2},
                  {LAC_E_OUTPUT, "LAC_E_OUTPUT", 2},
                  {LAC_E_UNSUPPORTED, "LAC_E_UNSUPPORTED", 2},
                  {LAC_E_IO, "LAC_E_IO", 1},
                  {LAC_E_MEMORY, "LAC_E_MEMORY", 1},
                  {LAC_E_TIMEOUT, "LAC_E_TIMEOUT", 1},
                  {LAC_E_PEER, "LAC_E_PEER", 1},
                  {LAC_E_NUMERICAL, "LAC_E_NUMERICAL", 1},
                  {LAC_E_INTERNAL, "LAC_E_INTERNAL", 1},
                  {LAC_E_INTERRUPTED, "LAC_E_INTERRUPTED", 130}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    assert_string_equal(lac_status_name(expected[i].status), expected[i].name);
    assert_int_equal(lac_status_exit(expected[i].status), expected[i].exit_status);
    assert_true(strlen(lac_status_text(expected[i].status)) > 0);
  }
  assert_string_equal(lac_status_name((lac_status)1000), "LAC_E_INTERNAL");
  assert_int_equal(lac_status_exit((lac_status)1000), 1);
}

static void version_is_the_headers(void **state) {
  (void)state;
  assert_string_equal(lac_version(), LAC_VERSION);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_are_each_contexts_own),    cmocka_unit_test(a_message_can_name_the_one_before),
      cmocka_unit_test(long_messages_are_cut_not_overrun), cmocka_unit_test(log_levels_and_children),
      cmocka_unit_test(log_calls_do_not_overlap),          cmocka_unit_test(interrupt_reaches_all_relatives),
      cmocka_unit_test(statuses_come_from_one_table),      cmocka_unit_test(version_is_the_headers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
