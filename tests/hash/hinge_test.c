/* The W step's loss: every variant that the processor has against the loss's own differences in double precision, and
 * against plain C to the bit. */
#include "hash/hinge.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "support.h"

enum { GUARD = 16 };

static const float guard = -77.25F;

/* s^2 for s in [0, 1], 2 s - 1 above, 0 below, of s = 1 - y t. */
static double loss(double y, double t) {
  double s = 1 - y * t;
  return s <= 0 ? 0 : s <= 1 ? s * s : 2 * s - 1;
}

/* -dloss/dt / 2 by central differences, which are exact where the loss is quadratic or linear on both sides. */
static double half_slope(double y, double t) {
  const double h = 1e-6;
  return -(loss(y, t + h) - loss(y, t - h)) / (4 * h);
}

typedef struct bench {
  int64_t count, n, words;
  uint64_t *codes; /* (2 n, words), of which every second is looked at, from the last to the first */
  int64_t *rows, *bits;
  int32_t *half, *left;
  float *bias, *eta, *total, *factors;
} bench;

static void make_bench(lac_context *context, int64_t count, int64_t n, int64_t words, bench *made) {
  lac_random stream = lac_random_stream(6, LAC_RANDOM_TEST, (uint64_t)count, (uint64_t)(n * 100 + words));
  *made = (bench){.count = count, .n = n, .words = words};
  assert_ok(context, LAC_NEW(context, 2 * n * words, &made->codes));
  assert_ok(context, LAC_NEW(context, n, &made->rows));
  assert_ok(context, LAC_NEW(context, count, &made->bits));
  assert_ok(context, LAC_NEW(context, count, &made->half));
  assert_ok(context, LAC_NEW(context, count, &made->left));
  assert_ok(context, LAC_NEW(context, count, &made->bias));
  assert_ok(context, LAC_NEW(context, count, &made->eta));
  assert_ok(context, LAC_NEW(context, count + GUARD, &made->total));
  assert_ok(context, LAC_NEW(context, n * count + GUARD, &made->factors));
  for (int64_t i = 0; i < 2 * n * words; i++) {
    made->codes[i] = (uint64_t)lac_random_below(&stream, INT64_MAX) * 2 + (uint64_t)lac_random_below(&stream, 2);
  }
  for (int64_t i = 0; i < n; i++) {
    made->rows[i] = 2 * (n - 1 - i) + 1;
  }
  for (int64_t j = 0; j < count; j++) {
    made->bits[j] = lac_random_below(&stream, 64 * words);
    made->half[j] = (int32_t)(made->bits[j] / 32);
    made->left[j] = (int32_t)(31 - made->bits[j] % 32);
    made->bias[j] = 0.3F * (float)lac_random_normal(&stream);
    made->eta[j] = (float)lac_random_uniform(&stream);
    made->total[j] = (float)lac_random_normal(&stream);
  }
  for (int64_t i = 0; i < n * count; i++) { /* on every part of the loss */
    made->factors[i] = 1.5F * (float)lac_random_normal(&stream);
  }
  for (int64_t g = 0; g < GUARD; g++) {
    made->total[count + g] = made->factors[n * count + g] = guard;
  }
}

static void drop_bench(bench *made) {
  lac_free(made->codes);
  lac_free(made->rows);
  lac_free(made->bits);
  lac_free(made->half);
  lac_free(made->left);
  lac_free(made->bias);
  lac_free(made->eta);
  lac_free(made->total);
  lac_free(made->factors);
}

static double sign_of(const bench *made, int64_t i, int64_t j) {
  uint64_t word = made->codes[made->rows[i] * made->words + made->bits[j] / 64];
  return word >> (made->bits[j] % 64) & 1 ? 1 : -1;
}

static void check_slopes(const bench *before, const bench *after) {
  for (int64_t j = 0; j < before->count; j++) {
    double total = (double)before->total[j];
    for (int64_t i = 0; i < before->n; i++) {
      double margin = (double)before->factors[i * before->count + j] + (double)before->bias[j];
      double slope = half_slope(sign_of(before, i, j), margin);
      total += slope;
      assert_true(fabs((double)after->factors[i * before->count + j] - slope * (double)before->eta[j]) < 3e-6);
    }
    assert_true(fabs((double)after->total[j] - total) < 1e-5 * (double)(before->n + 1));
  }
}

static void check_guards(const bench *made) {
  for (int64_t g = 0; g < GUARD; g++) {
    assert_true(made->total[made->count + g] == guard && made->factors[made->n * made->count + g] == guard);
  }
}

static void run(lac_isa isa, bench *made) {
  const lac_hinge hinge = {made->count, made->half, made->left, made->bias, made->eta, made->total};
  lac_hinge_kernel_of(isa)(&hinge, made->codes, made->words, made->rows, made->n, made->factors);
}

static void slopes_are_those_of_the_loss(void **state) {
  static const int64_t counts[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 64};
  static const int64_t shapes[][2] = {{1, 1}, {2, 3}, {32, 1}, {31, 2}, {5, 4}}; /* rows, words of a code */
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      bench before, plain, after;
      make_bench(*state, counts[c], shapes[s][0], shapes[s][1], &before);
      make_bench(*state, counts[c], shapes[s][0], shapes[s][1], &plain);
      run(LAC_ISA_PLAIN, &plain);
      check_slopes(&before, &plain);
      check_guards(&plain);
      for (int isa = LAC_ISA_PLAIN + 1; isa <= (int)lac_cpu_isa(); isa++) {
        make_bench(*state, counts[c], shapes[s][0], shapes[s][1], &after);
        run((lac_isa)isa, &after);
        check_guards(&after);
        assert_memory_equal(after.total, plain.total, (size_t)after.count * sizeof *after.total);
        assert_memory_equal(after.factors, plain.factors, (size_t)(after.n * after.count) * sizeof *after.factors);
        drop_bench(&after);
      }
      drop_bench(&plain);
      drop_bench(&before);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(slopes_are_those_of_the_loss)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
