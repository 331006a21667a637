/* What the commands `laconic plan …` share: how a prediction is printed and drawn, and speeds as people write them. */
#ifndef LACONIC_CLI_PLAN_REPORT_H
#define LACONIC_CLI_PLAN_REPORT_H

#include <jansson.h>

#include "cli/session.h"

/* One line: what is said of a job at one number of workers. */
typedef struct lac_plan_row {
  lac_plan plan;
  const char *source; /* "formula", "sim", … */
  const char *label;  /* of its curve; NULL when there is one only */
  lac_link *links;    /* (workers), or NULL when they are not asked for */
  bool unitless;      /* its times are in no known unit */
} lac_plan_row;

/* {"workers", "speedup", "efficiency", "seconds": {"w", "z", "serial", "communication", "waiting", "total"},
 * "messages", "bytes", "link_bytes", "memory_per_worker", "source"}, "label" and "links": [{"messages", "bytes"}, …]
 * where there are such, and then what is in `extra`, an object, whose reference is taken, or NULL. */
void lac_plan_print_json(lac_session *session, const lac_plan_row *row, json_t *extra);

/* The same for people: a table of all rows, and for each curve of source "formula" a sentence that says how many
 * workers pay and what takes the time beyond them. */
void lac_plan_print_table(lac_session *session, const lac_plan_row *rows, int count);

/* For people: what leaves the link of each worker, a line for each row and for neighbours that send the same. */
void lac_plan_print_links(lac_session *session, const lac_plan_row *rows, int count);

/* {"event": "done", "best_workers", "best_speedup"}, and "label" where there is one: the highest speedup of source
 * "formula", with the fewest workers that reach it. */
void lac_plan_print_done(lac_session *session, const lac_plan_row *rows, int count);

/* "1,1,0.5" into speeds (workers), repeated from its start as often as need be. Errors: USAGE. */
LAC_MUST_USE lac_status lac_parse_speeds(lac_session *session, const char *key, const char *text, int workers,
                                         double *speeds);

/* Speedup and total time, called `time`, against workers, side by side, a curve for each (label, source), and the ideal
 * speedup. Errors: those of lac_plot_write. */
LAC_MUST_USE lac_status lac_plan_draw(lac_session *session, const char *path, const char *time,
                                      const lac_plan_row *rows, int count);

#endif
