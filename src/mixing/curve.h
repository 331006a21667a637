/* The averaged curve of realised mixing times: max_i TV over time, from the identity on, on a grid of times that grows
 * by 1 %; and where the average of many passes 1/4. */
#ifndef LACONIC_MIXING_CURVE_H
#define LACONIC_MIXING_CURVE_H

#include <stdbool.h>

#include "laconic/context.h"

typedef struct lac_curve {
  int64_t count;        /* grid times, from 0 */
  int64_t *time;        /* (count) */
  double *sum, *square; /* (count): of all paths, and of their squares */
  int64_t paths;        /* added so far: the caller's affair */
} lac_curve;

/* A distance at which a path counts as done: well below 1/4, so that the average passes it before. */
#define LAC_CURVE_SETTLED 0.125

int64_t lac_curve_after(int64_t time);
/* A curve up to the first grid time of `horizon` or later. Errors: MEMORY. Close it in any case. */
LAC_MUST_USE lac_status lac_curve_open(lac_context *context, int64_t horizon, lac_curve *curve);
void lac_curve_close(lac_curve *curve);
/* A path's distance at grid time k. */
void lac_curve_add(lac_curve *curve, int64_t k, double distance);
/* When the average first is at most 1/4, between grid times, and its standard error: the average's over its slope,
 * which is taken from 4/5 to 5/4 of that time, as of few paths the curve is rough. False when it never is. */
bool lac_curve_crossing(const lac_curve *curve, double *time, double *error);

/* max over the workers of the distance (TV) between their row of x (workers, columns) and the mean of those rows, which
 * is left in mean (columns). */
double lac_curve_distance(int64_t workers, int64_t columns, const double *x, double *mean);

#endif
