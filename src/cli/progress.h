/* The progress line: on stderr, only when that is a terminal, gone when the work is done. */
#ifndef LACONIC_CLI_PROGRESS_H
#define LACONIC_CLI_PROGRESS_H

#include "cli/session.h"

/* Shows a line in place of the last one, cut to the terminal's width. Callable from any worker. */
void lac_progress_show(lac_session *session, const char *format, ...) LAC_PRINTF(2, 3);

/* Removes the line. Callable from any worker. */
void lac_progress_clear(lac_session *session);

/* The same for a caller that holds the session's lock. */
void lac_progress_erase(lac_session *session);

/* Progress of a long call that says how much of it is done: shows "what 42 %, 10 s left", at most ten times a second.
 */
typedef struct lac_progress_meter {
  lac_session *session;
  const char *what;
  double begin, shown; /* seconds on the clock */
} lac_progress_meter;

lac_progress_meter lac_progress_meter_begin(lac_session *session, const char *what);

/* `user` is a meter; fits lac_progress_fn. */
void lac_progress_meter_update(void *user, double done);

/* "1 h 05 min", "3 min 20 s", "12 s". */
const char *lac_seconds_text(double seconds, char text[32]);

#endif
