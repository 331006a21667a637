/* The W step's inner loop beside the machine: `kernels [REPEATS]`, one thread, CPU time, medians. Markdown on stdout.
 *
 * For D columns and c encoders trained together the first table has GFLOP/s of
 *
 *   products    margins of a block of rows, the block in cache        2 c flop per element
 *   accumulate  the gradient from them, the block in cache            2 c flop per element
 *   pass        what a visit does: parts of a block, bytes from memory expanded to floats on the way into products,
 *               accumulate; "apart" with the bytes expanded before
 *   sgemm       the system's BLAS, C (rows, c) of the same block: what products could be were its bits free
 *
 * and of the pass also the GB/s of bytes that come from memory. The second table has expand alone, in cache and from
 * memory, and the machine's square sgemm and stream triad. Unset OPENBLAS_CORETYPE first: it may ask for another
 * processor's kernels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "math/linear.h"
#include "rates.h"

enum { REPEATS = 7, MOST_REPEATS = 100, BLOCK = 128, PART = 32, DATA_BYTES = 1 << 27 };
static const double least_flops = 4e8; /* of a measurement */

typedef struct bench {
  const lac_linear_kernels *kernels;
  int64_t columns, count; /* D, c; D is a multiple of LAC_LANES here */
  int64_t rows;           /* of the bytes in memory */
  uint8_t *bytes;         /* (rows, columns) */
  float *shift;           /* (columns) */
  float *block;           /* (BLOCK, columns) */
  float *weight;          /* (count, columns) */
  float *gradient;        /* (count, columns) */
  float *factors;         /* (BLOCK, count) */
} bench;

typedef void bench_work(const bench *b);

static void products(const bench *b) {
  b->kernels->products(BLOCK, b->count, b->columns, b->block, b->weight, b->factors, b->count);
}

static void accumulate(const bench *b) {
  b->kernels->accumulate(BLOCK, b->count, b->columns, b->block, b->factors, b->count, b->gradient);
}

static void expand_rows(const bench *b, const uint8_t *from, int64_t rows) {
  for (int64_t i = 0; i < rows; i++) {
    b->kernels->expand(b->columns, from + i * b->columns, 1.0F / 255, b->shift, b->block + i * b->columns);
  }
}

static void expand(const bench *b) {
  expand_rows(b, b->bytes, BLOCK);
}

static void expand_all(const bench *b) {
  for (int64_t i = 0; i < b->rows; i += BLOCK) {
    expand_rows(b, b->bytes + i * b->columns, BLOCK);
  }
}

/* Factors are scaled down so that the gradient stays a number. */
static void step(const bench *b, int64_t rows) {
  for (int64_t j = 0; j < rows * b->count; j++) {
    b->factors[j] *= 1e-6F;
  }
  b->kernels->accumulate(rows, b->count, b->columns, b->block, b->factors, b->count, b->gradient);
}

static void pass(const bench *b) {
  for (int64_t i = 0; i < b->rows; i += PART) {
    const lac_byte_rows rows = {b->bytes + i * b->columns, (size_t)b->columns, b->columns, 1.0F / 255, b->shift};
    b->kernels->expand_products(PART, b->count, b->columns, &rows, b->block, b->weight, b->factors, b->count);
    step(b, PART);
  }
}

static void pass_apart(const bench *b) {
  for (int64_t i = 0; i < b->rows; i += PART) {
    expand_rows(b, b->bytes + i * b->columns, PART);
    b->kernels->products(PART, b->count, b->columns, b->block, b->weight, b->factors, b->count);
    step(b, PART);
  }
}

/* Calls a second, each of `repeats` rates from as many calls as make least_flops. */
static figure calls_per_second(const bench *b, bench_work *work, double flops, int repeats) {
  double rates[MOST_REPEATS];
  int64_t calls = (int64_t)(least_flops / flops) + 1;
  work(b);
  for (int r = 0; r < repeats; r++) {
    double start = cpu_seconds();
    for (int64_t call = 0; call < calls; call++) {
      work(b);
    }
    rates[r] = (double)calls / (cpu_seconds() - start);
  }
  return figure_of(rates, repeats);
}

static void bench_clear(bench *b) {
  lac_free(b->bytes);
  lac_free(b->shift);
  lac_free(b->block);
  lac_free(b->weight);
  lac_free(b->gradient);
  lac_free(b->factors);
}

static lac_status bench_fill(lac_context *context, int64_t columns, int64_t count, bench *b) {
  *b = (bench){.kernels = lac_linear(lac_cpu_isa()), .columns = columns, .count = count};
  b->rows = DATA_BYTES / columns / BLOCK * BLOCK;
  LAC_TRY(LAC_NEW(context, b->rows * columns, &b->bytes));
  LAC_TRY(LAC_NEW(context, columns, &b->shift));
  LAC_TRY(LAC_NEW(context, BLOCK * columns, &b->block));
  LAC_TRY(LAC_NEW(context, count * columns, &b->weight));
  LAC_TRY(LAC_NEW(context, count * columns, &b->gradient));
  LAC_TRY(LAC_NEW(context, BLOCK * count, &b->factors));
  for (int64_t i = 0; i < b->rows * columns; i++) {
    b->bytes[i] = (uint8_t)(i * 2654435761U >> 13);
  }
  for (int64_t i = 0; i < columns; i++) {
    b->shift[i] = -0.5F;
  }
  for (int64_t i = 0; i < count * columns; i++) {
    b->weight[i] = (float)(i % 7) * 0.1F - 0.3F;
  }
  expand(b);
  return LAC_OK;
}

static lac_status measure_row(lac_context *context, int64_t columns, int64_t count, int repeats) {
  double rates[MOST_REPEATS];
  bench b;
  lac_status status = bench_fill(context, columns, count, &b);
  if (!status) {
    status = measure_sgemm(context, BLOCK, count, columns, least_flops, repeats, rates);
  }
  if (!status) {
    double block = 2e-9 * BLOCK * (double)(count * columns), data = (double)(b.rows * columns);
    double sgemm = figure_of(rates, repeats).median;
    double one = block * calls_per_second(&b, products, 1e9 * block, repeats).median;
    double two = block * calls_per_second(&b, accumulate, 1e9 * block, repeats).median;
    double passes = calls_per_second(&b, pass, 4 * data * (double)count, repeats).median;
    double apart = calls_per_second(&b, pass_apart, 4 * data * (double)count, repeats).median;
    if (!isfinite(b.gradient[0])) {
      status = lac_fail(context, LAC_E_NUMERICAL, "the gradient is not finite");
    }
    printf("| %4lld | %8lld | %8.1f | %10.1f | %5.1f | %5.1f | %5.1f | %9.2f | %9.2f |\n", (long long)columns,
           (long long)count, one, two, sgemm, 4e-9 * data * (double)count * passes, 4e-9 * data * (double)count * apart,
           1e-9 * data * passes, one / sgemm);
    fflush(stdout);
  }
  bench_clear(&b);
  return status;
}

static lac_status measure_expand(lac_context *context, int64_t columns, int repeats) {
  bench b;
  lac_status status = bench_fill(context, columns, 1, &b);
  if (!status) {
    double block = BLOCK * (double)columns, data = (double)(b.rows * columns);
    printf("| expand, D = %lld, in cache, bytes read and floats written | %.2f GB/s |\n", (long long)columns,
           5e-9 * block * calls_per_second(&b, expand, 2 * block, repeats).median);
    printf("| expand, D = %lld, bytes from memory | %.2f GB/s |\n", (long long)columns,
           1e-9 * data * calls_per_second(&b, expand_all, 2 * data, repeats).median);
  }
  bench_clear(&b);
  return status;
}

static lac_status run(lac_context *context, int repeats) {
  static const int64_t columns[] = {128, 784}, counts[] = {1, 8, 32, 64};
  double rates[MOST_REPEATS];
  printf("blocks of %d rows, kernels: %s, one thread, CPU time, median of %d\n\n", BLOCK, lac_isa_name(lac_cpu_isa()),
         repeats);
  printf("| D | encoders | products | accumulate | sgemm | pass | pass, apart | pass, GB/s | products of sgemm |\n");
  printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 4; j++) {
      LAC_TRY(measure_row(context, columns[i], counts[j], repeats));
    }
  }
  printf("\n| | |\n| --- | --- |\n");
  LAC_TRY(measure_expand(context, 128, repeats));
  LAC_TRY(measure_expand(context, 784, repeats));
  LAC_TRY(measure_sgemm(context, 2048, 2048, 2048, 0, repeats, rates));
  printf("| sgemm 2048 x 2048 x 2048 | %.1f GFLOP/s |\n", figure_of(rates, repeats).median);
  LAC_TRY(measure_triad(context, repeats, rates));
  printf("| stream triad, 3 x 128 MiB | %.2f GB/s |\n", figure_of(rates, repeats).median);
  return LAC_OK;
}

int main(int argc, char **argv) {
  int repeats = argc > 1 ? atoi(argv[1]) : REPEATS;
  if (repeats < 1 || repeats > MOST_REPEATS || argc > 2) {
    fprintf(stderr, "usage: kernels [REPEATS], REPEATS from 1 to %d\n", MOST_REPEATS);
    return 2;
  }
  lac_context *context;
  if (lac_context_create(&context) != LAC_OK) {
    return 1;
  }
  lac_status status = run(context, repeats);
  if (status) {
    fprintf(stderr, "kernels: %s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
