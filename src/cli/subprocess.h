/* Other programs: started, waited for, and what they print. */
#ifndef LACONIC_CLI_SUBPROCESS_H
#define LACONIC_CLI_SUBPROCESS_H

#include "cli/session.h"

typedef struct lac_captured {
  char *text; /* what it printed on stdout, ends with a 0; the caller's to free, NULL when it could not be started */
  size_t used, room;
  char error[512]; /* the last line on its stderr */
  int code;        /* exit status, or -1 when it was ended by a signal */
} lac_captured;

/* Runs a program, found by PATH, to its end and keeps what it prints; argv ends with NULL. An interrupt ends it and
 * whatever it has started. Errors: IO when it cannot be started, INTERRUPTED, MEMORY. */
LAC_MUST_USE lac_status lac_run_program(lac_session *session, char *const *argv, lac_captured *out);

#endif
