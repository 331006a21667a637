/* What the machine gives one thread, for comparison: sgemm of the system's BLAS in GFLOP/s of CPU time and the stream
 * triad a = b + s c in GB/s, counted as three numbers moved a step. `machine [REPEATS]` prints medians and extremes;
 * `machine REPEATS json` one line of JSON. Unset OPENBLAS_CORETYPE first: it may ask for another processor's kernels.
 */
#include <stdio.h>
#include <string.h>

#include "rates.h"

enum { REPEATS = 9, MOST_REPEATS = 1000 };

static lac_status run(lac_context *context, int repeats, bool json) {
  double rates[MOST_REPEATS];
  LAC_TRY(measure_sgemm(context, 2048, 2048, 2048, 0, repeats, rates));
  figure square = figure_of(rates, repeats);
  LAC_TRY(measure_sgemm(context, 4096, 64, 784, 0, repeats, rates));
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
