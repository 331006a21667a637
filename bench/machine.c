/* What the machine gives one thread, for comparison: sgemm of the system's BLAS in GFLOP/s of CPU time, the products of
 * float32 and of bfloat16 that AVX-512 makes in registers, where there is AVX512_BF16, and the stream triad
 * a = b + s c in GB/s, counted as three numbers moved a step. `machine [REPEATS]` prints medians and extremes;
 * `machine REPEATS json` one line of JSON. Unset OPENBLAS_CORETYPE first: it may ask for another processor's kernels.
 */
#include <stdio.h>
#include <string.h>

#include "rates.h"

enum { REPEATS = 9, MOST_REPEATS = 1000 };

#ifdef __x86_64__
/* Sixteen independent ones, `count` times. */
#define REPEAT(instruction, count)                                                                                    \
  do {                                                                                                                \
    int64_t left = (count);                                                                                           \
    __asm__ volatile("vpxord %%zmm30, %%zmm30, %%zmm30\n1:\n" LINES(instruction) "dec %0\njnz 1b\nvzeroupper\n"       \
                     : "+r"(left)                                                                                     \
                     :                                                                                                \
                     : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                       "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");                                                  \
  } while (0)
#define LINE(instruction, to) instruction " %%zmm30, %%zmm30, %%zmm" #to "\n"
#define FOUR(instruction, a, b, c, d) \
  LINE(instruction, a) LINE(instruction, b) LINE(instruction, c) LINE(instruction, d)
#define LINES(instruction)      \
  FOUR(instruction, 0, 1, 2, 3) \
  FOUR(instruction, 4, 5, 6, 7) FOUR(instruction, 8, 9, 10, 11) FOUR(instruction, 12, 13, 14, 15)

/* GFLOP/s of vfmadd231ps, or of vdpbf16ps, which has twice the products. */
static figure measure_products(bool bf16, int repeats, double *rates) {
  const int64_t count = 10000000;
  for (int r = -1; r < repeats; r++) {
    double start = cpu_seconds();
    if (bf16) {
      REPEAT("vdpbf16ps", count);
    } else {
      REPEAT("vfmadd231ps", count);
    }
    rates[r < 0 ? 0 : r] = 1e-9 * 16 * (bf16 ? 64 : 32) * (double)count / (cpu_seconds() - start);
  }
  return figure_of(rates, repeats);
}

static bool has_bf16(void) {
  return __builtin_cpu_supports("avx512bf16");
}
#else
static figure measure_products(bool bf16, int repeats, double *rates) {
  (void)bf16;
  (void)repeats;
  (void)rates;
  return (figure){0, 0, 0};
}

static bool has_bf16(void) {
  return false;
}
#endif

static void print_products(int repeats, double *rates) {
  for (int bf16 = 0; has_bf16() && bf16 < 2; bf16++) {
    figure products = measure_products(bf16, repeats, rates);
    printf("%s in registers    GFLOP/s    %7.1f %7.1f %7.1f\n", bf16 ? "vdpbf16ps  " : "vfmadd231ps", products.median,
           products.low, products.high);
  }
}

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
  print_products(repeats, rates);
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
