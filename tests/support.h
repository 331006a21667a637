/* What the tests of every room share. */
#ifndef LACONIC_TESTS_SUPPORT_H
#define LACONIC_TESTS_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "laconic/context.h"

/* Fails the test with the message that the call left. */
#define assert_ok(context, call)                                                                   \
  do {                                                                                             \
    lac_status assert_status = (call);                                                             \
    if (assert_status) {                                                                           \
      fail_msg("%s: %s: %s", #call, lac_status_name(assert_status), lac_context_message(context)); \
    }                                                                                              \
  } while (0)

/* Numbers in double precision; cmocka's own compares floats. */
#define assert_equal_within(found, expected, most)                                \
  do {                                                                            \
    double found_value = (found), expected_value = (expected);                    \
    if (!(fabs(found_value - expected_value) <= (most))) {                        \
      fail_msg("%s: %.17g, expected %.17g", #found, found_value, expected_value); \
    }                                                                             \
  } while (0)

/* The call fails with this status, and its message, one line, contains `words`. */
#define assert_failure(context, call, status, words)                                                      \
  do {                                                                                                    \
    lac_status assert_status = (call);                                                                    \
    const char *assert_line = lac_context_message(context);                                               \
    if (assert_status != (status)) {                                                                      \
      fail_msg("%s: %s, expected %s: %s", #call, lac_status_name(assert_status), lac_status_name(status), \
               assert_status ? assert_line : "");                                                         \
    }                                                                                                     \
    if (!strstr(assert_line, (words)) || strchr(assert_line, '\n')) {                                     \
      fail_msg("%s: message '%s', expected '%s' in it", #call, assert_line, (words));                     \
    }                                                                                                     \
  } while (0)

/* CMOCKA_TEST_FILTER in the environment: a pattern for the names of the cases to run. */
__attribute__((constructor)) static void choose_cases(void) {
  const char *pattern = getenv("CMOCKA_TEST_FILTER");
  if (pattern) {
    cmocka_set_test_filter(pattern);
  }
}

/* Setup and teardown: *state is a context. */
static inline int make_context(void **state) {
  return lac_context_create((lac_context **)state) == LAC_OK ? 0 : -1;
}

static inline int drop_context(void **state) {
  lac_context_destroy((lac_context **)state);
  return 0;
}

/* Makes the test program's working folder a fresh one, which leave_folder removes with the files in it. */
static inline void enter_folder(char folder[64]) {
  snprintf(folder, 64, "/tmp/laconic-test-XXXXXX");
  if (!mkdtemp(folder) || chdir(folder) != 0) {
    perror(folder);
    exit(1);
  }
}

static inline void leave_folder(const char *folder) {
  char command[96];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  if (chdir("/") != 0 || system(command) != 0) {
    perror(folder);
  }
}

#endif
