/* Small least-squares problems whose solutions cannot be below 0: what costs are found by. */
#ifndef LACONIC_PLAN_FIT_H
#define LACONIC_PLAN_FIT_H

#include <stdint.h>

enum { LAC_FIT_UNKNOWNS = 3 };

/* One timing: a combination of the unknowns took so many seconds. */
typedef struct lac_fit_row {
  double factor[LAC_FIT_UNKNOWNS];
  double seconds; /* above 0 */
} lac_fit_row;

/* The x >= 0 (unknowns) with the least sum over the rows of ((factor x - seconds) / seconds)^2: errors count relative
 * to what was timed, so that short timings say as much as long ones. Exact: every set of unknowns that may be 0 is
 * tried. Rows that leave an unknown open give 0 for it; no rows give 0 for all. */
void lac_fit(const lac_fit_row *rows, int64_t count, int unknowns, double x[LAC_FIT_UNKNOWNS]);

/* seconds = fixed + each n, from pairs. */
void lac_fit_line(const double *n, const double *seconds, int64_t count, double *fixed, double *each);

/* The middle one of `count` > 0 values, the mean of the middle two of an even number; sorts them. */
double lac_fit_median(double *values, int64_t count);

#endif
