/* What training says while it runs: progress line, JSON lines, learning curves. */
#ifndef LACONIC_CLI_HASH_TRAIN_REPORT_H
#define LACONIC_CLI_HASH_TRAIN_REPORT_H

#include "cli/session.h"

typedef struct lac_train_report {
  lac_session *session;
  int64_t limit, full;                        /* most iterations; the last ones, that are over all points */
  int64_t wide;                               /* iterations over all points so far */
  double worked;                              /* points that took part in the iterations so far, added up */
  int count;                                  /* iterations so far */
  double *iteration, *e_q, *e_ba, *precision; /* (limit); precision in percent, NaN without validation */
} lac_train_report;

LAC_MUST_USE lac_status lac_train_report_open(lac_session *session, const lac_mac_options *options,
                                              lac_train_report *report);
void lac_train_report_close(lac_train_report *report);

/* `user` is a report; fits lac_hash_progress_fn. */
void lac_train_report_update(void *user, const lac_hash_progress *progress);

/* Draws the learning curves. Errors: IO. */
LAC_MUST_USE lac_status lac_train_report_plot(const lac_train_report *report, const char *path);

#endif
