/* Measuring of the programs in this folder: CPU time, medians, what sgemm and the stream triad reach. */
#ifndef LACONIC_BENCH_RATES_H
#define LACONIC_BENCH_RATES_H

#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "math/blas.h"

enum { TRIAD = 1 << 24 }; /* numbers in an array of the triad */

typedef struct figure {
  double low, median, high;
} figure;

static inline double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline int by_value(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static inline figure figure_of(double *rates, int count) {
  qsort(rates, (size_t)count, sizeof *rates, by_value);
  return (figure){rates[0], rates[count / 2], rates[count - 1]};
}

/* C (m, n) = A (m, k) B (n, k)' in GFLOP/s; each rate is of as many calls as make `least` flops. */
static inline lac_status measure_sgemm(lac_context *context, int64_t m, int64_t n, int64_t k, double least, int repeats,
                                       double *rates) {
  float *a = NULL, *b = NULL, *c = NULL;
  double flops = 2 * (double)m * (double)n * (double)k;
  int64_t calls = flops < least ? (int64_t)(least / flops) + 1 : 1;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, m * k, &a), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n * k, &b), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, m * n, &c), done);
  for (int64_t i = 0; i < m * k || i < n * k; i++) {
    if (i < m * k) {
      a[i] = (float)(i % 17) - 8;
    }
    if (i < n * k) {
      b[i] = (float)(i % 13) - 6;
    }
  }
  for (int r = -1; r < repeats; r++) { /* the first warms up */
    double start = cpu_seconds();
    for (int64_t call = 0; call < calls; call++) {
      lac_sgemm(false, true, m, n, k, 1, a, k, b, k, 0, c, n);
    }
    rates[r < 0 ? 0 : r] = 1e-9 * flops * (double)calls / (cpu_seconds() - start);
  }
done:
  lac_free(c);
  lac_free(b);
  lac_free(a);
  return status;
}

/* a = b + s c in GB/s, counted as three numbers moved a step. */
static inline lac_status measure_triad(lac_context *context, int repeats, double *rates) {
  double *a = NULL, *b = NULL, *c = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, TRIAD, &a), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, TRIAD, &b), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, TRIAD, &c), done);
  for (int r = -1; r < repeats; r++) {
    double start = cpu_seconds(), scale = r + 3;
    for (int64_t i = 0; i < TRIAD; i++) {
      a[i] = b[i] + scale * c[i];
    }
    rates[r < 0 ? 0 : r] = 1e-9 * 3 * sizeof(double) * TRIAD / (cpu_seconds() - start);
    b[r + 1] = a[r + 1] + 1; /* what is computed is used */
  }
done:
  lac_free(c);
  lac_free(b);
  lac_free(a);
  return status;
}

#endif
