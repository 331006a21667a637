#include "plan/fit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Solves the normal equations of the unknowns in `set` by elimination, with columns scaled to length 1. False when they
 * are dependent. */
static bool solve(const lac_fit_row *rows, int64_t count, const int *set, int size, double *x) {
  double a[LAC_FIT_UNKNOWNS][LAC_FIT_UNKNOWNS + 1] = {{0}}, length[LAC_FIT_UNKNOWNS] = {0};
  for (int64_t r = 0; r < count; r++) {
    for (int i = 0; i < size; i++) {
      double f = rows[r].factor[set[i]] / rows[r].seconds;
      length[i] += f * f;
    }
  }
  for (int64_t r = 0; r < count; r++) {
    for (int i = 0; i < size; i++) {
      double f = rows[r].factor[set[i]] / rows[r].seconds / sqrt(length[i] > 0 ? length[i] : 1);
      for (int k = 0; k < size; k++) {
        a[i][k] += f * (rows[r].factor[set[k]] / rows[r].seconds / sqrt(length[k] > 0 ? length[k] : 1));
      }
      a[i][size] += f;
    }
  }
  for (int i = 0; i < size; i++) {
    if (a[i][i] < 1e-9) {
      return false;
    }
    for (int k = i + 1; k < size; k++) {
      double factor = a[k][i] / a[i][i];
      for (int c = i; c <= size; c++) {
        a[k][c] -= factor * a[i][c];
      }
    }
  }
  for (int i = size - 1; i >= 0; i--) {
    double sum = a[i][size];
    for (int k = i + 1; k < size; k++) {
      sum -= a[i][k] * x[set[k]] * sqrt(length[k]);
    }
    x[set[i]] = sum / a[i][i] / sqrt(length[i]);
  }
  return true;
}

static double error_of(const lac_fit_row *rows, int64_t count, int unknowns, const double *x) {
  double sum = 0;
  for (int64_t r = 0; r < count; r++) {
    double value = -rows[r].seconds;
    for (int i = 0; i < unknowns; i++) {
      value += rows[r].factor[i] * x[i];
    }
    sum += value / rows[r].seconds * (value / rows[r].seconds);
  }
  return sum;
}

void lac_fit(const lac_fit_row *rows, int64_t count, int unknowns, double x[LAC_FIT_UNKNOWNS]) {
  double best = INFINITY;
  memset(x, 0, LAC_FIT_UNKNOWNS * sizeof *x);
  for (int mask = 0; mask < 1 << unknowns; mask++) {
    double tried[LAC_FIT_UNKNOWNS] = {0};
    int set[LAC_FIT_UNKNOWNS], size = 0;
    bool fits = true;
    for (int i = 0; i < unknowns; i++) {
      if (mask >> i & 1) {
        set[size++] = i;
      }
    }
    if (!solve(rows, count, set, size, tried)) {
      continue;
    }
    for (int i = 0; i < unknowns; i++) {
      fits = fits && tried[i] >= 0 && isfinite(tried[i]);
    }
    double error = error_of(rows, count, unknowns, tried);
    if (fits && error < best) {
      best = error;
      memcpy(x, tried, sizeof tried);
    }
  }
}

void lac_fit_line(const double *n, const double *seconds, int64_t count, double *fixed, double *each) {
  lac_fit_row rows[16];
  double x[LAC_FIT_UNKNOWNS];
  int64_t used = 0;
  for (int64_t i = 0; i < count && used < 16; i++) {
    if (seconds[i] > 0) {
      rows[used++] = (lac_fit_row){.factor = {1, n[i]}, .seconds = seconds[i]};
    }
  }
  lac_fit(rows, used, 2, x);
  *fixed = x[0];
  *each = x[1];
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

double lac_fit_median(double *values, int64_t count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
