/* What the machine gives one thread, for comparison: sgemm of the system's BLAS in GFLOP/s of CPU time and the stream
 * triad a = b + s c in GB/s, counted as three numbers moved a step. `machine [REPEATS]` prints medians and extremes;
 * `machine REPEATS json` one line of JSON. Unset OPENBLAS_CORETYPE first: it may ask for another processor's kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "math/blas.h"

enum { REPEATS = 9, MOST_REPEATS = 1000, TRIAD = 1 << 24 };

typedef struct figure {
  double low, median, high;
} figure;

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static figure figure_of(double *rates, int count) {
  qsort(rates, (size_t)count, sizeof *rates, by_value);
  return (figure){rates[0], rates[count / 2], rates[count - 1]};
}

/* C (m, n) = A (m, k) B (n, k)' */
static lac_status measure_sgemm(lac_context *context, int64_t m, int64_t n, int64_t k, int repeats, double *rates) {
  float *a = NULL, *b = NULL, *c = NULL;
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
    lac_sgemm(false, true, m, n, k, 1, a, k, b, k, 0, c, n);
    rates[r < 0 ? 0 : r] = 2e-9 * (double)m * (double)n * (double)k / (cpu_seconds() - start);
  }
done:
  lac_free(c);
  lac_free(b);
  lac_free(a);
  return status;
}

static lac_status measure_triad(lac_context *context, int repeats, double *rates) {
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

static lac_status run(lac_context *context, int repeats, bool json) {
  double rates[MOST_REPEATS];
  LAC_TRY(measure_sgemm(context, 2048, 2048, 2048, repeats, rates));
  figure square = figure_of(rates, repeats);
  LAC_TRY(measure_sgemm(context, 4096, 64, 784, repeats, rates));
  figure narrow = figure_of(rates, repeats);
  LAC_TRY(measure_triad(context, repeats, rates));
  figure triad = figure_of(rates, repeats);
  if (json) {
    printf("{\"sgemm_gflops\":%.2f,\"sgemm_784_64_gflops\":%.2f,\"triad_gb_per_s\":%.2f}\n", square.median,
           narrow.median, triad.median);
    return LAC_OK;
  }
  printf("one thread, CPU time, %d repeats         median     min     max\n", repeats);
  printf("sgemm 2048 x 2048 x 2048    GFLOP/s    %7.1f %7.1f %7.1f\n", square.median, square.low, square.high);
  printf("sgemm 4096 x 64 x 784       GFLOP/s    %7.1f %7.1f %7.1f\n", narrow.median, narrow.low, narrow.high);
  printf("stream triad, 3 x 128 MiB   GB/s       %7.2f %7.2f %7.2f\n", triad.median, triad.low, triad.high);
  return LAC_OK;
}

int main(int argc, char **argv) {
  int repeats = argc > 1 ? atoi(argv[1]) : REPEATS;
  bool json = argc > 2 && strcmp(argv[2], "json") == 0;
  if (repeats < 1 || repeats > MOST_REPEATS || argc > 3 || (argc == 3 && !json)) {
    fprintf(stderr, "usage: machine [REPEATS [json]], REPEATS from 1 to %d\n", MOST_REPEATS);
    return 2;
  }
  lac_context *context;
  if (lac_context_create(&context) != LAC_OK) {
    return 1;
  }
  lac_status status = run(context, repeats, json);
  if (status) {
    fprintf(stderr, "machine: %s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
