/* Fits of exact timings give what these were made of; what cannot be below 0 is not. */
#include <math.h>

#include "plan/fit.h"
#include "support.h"

/* W steps of `submodels` submodels, half of them encoders, over n points in batches. */
static lac_fit_row timing(double n, double submodels, double batch, const double x[3]) {
  double visits = ceil(submodels / batch);
  lac_fit_row row = {.factor = {n * visits, n * submodels / 2, submodels}};
  row.seconds = row.factor[0] * x[0] + row.factor[1] * x[1] + row.factor[2] * x[2];
  return row;
}

static void exact_timings_are_taken_apart(void **state) {
  (void)state;
  static const double truths[][3] = {{31e-9, 12e-9, 0.4e-6}, {0, 12e-9, 0.4e-6}, {31e-9, 0, 1e-6}, {1e-9, 1e-7, 0}};
  for (int t = 0; t < 4; t++) {
    const double *x = truths[t];
    const lac_fit_row rows[] = {timing(10000, 128, 128, x), timing(30000, 128, 128, x), timing(10000, 128, 2, x),
                                timing(10000, 128, 8, x), timing(256, 128, 128, x)};
    double found[LAC_FIT_UNKNOWNS];
    lac_fit(rows, 5, 3, found);
    for (int i = 0; i < 3; i++) {
      assert_true(fabs(found[i] - x[i]) <= 1e-6 * x[i] + 1e-18);
    }
  }
}

static void lines(void **state) {
  (void)state;
  const double n[] = {64, 4096, 1 << 20}, exact[] = {1 + 0.5 * 64, 1 + 0.5 * 4096, 1 + 0.5 * (1 << 20)};
  double fixed, each;
  lac_fit_line(n, exact, 3, &fixed, &each);
  assert_true(fabs(fixed - 1) < 1e-9 && fabs(each - 0.5) < 1e-12);
  lac_fit_line(n, (const double[]){3, 3, 3}, 3, &fixed, &each);
  assert_true(fabs(fixed - 3) < 1e-12 && fabs(each) < 1e-12);
  /* Falling: the line would rise to the left. What is left is the best constant for relative errors,
   * sum(1 / t) / sum(1 / t^2). */
  lac_fit_line((const double[]){1, 2}, (const double[]){2, 1}, 2, &fixed, &each);
  assert_true(fabs(fixed - 1.5 / 1.25) < 1e-12 && each == 0);
  /* Through a point left of 0: the best slope alone, sum(n / t) / sum((n / t)^2). */
  lac_fit_line((const double[]){1, 2}, (const double[]){1, 3}, 2, &fixed, &each);
  assert_true(fixed == 0 && fabs(each - (1 + 2.0 / 3) / (1 + 4.0 / 9)) < 1e-12);
}

static void little_to_go_by(void **state) {
  (void)state;
  double fixed, each;
  lac_fit_line(NULL, NULL, 0, &fixed, &each);
  assert_true(fixed == 0 && each == 0);
  /* One point leaves the two open: one of them takes it all. */
  lac_fit_line((const double[]){10}, (const double[]){5}, 1, &fixed, &each);
  assert_true(fabs(fixed + 10 * each - 5) < 1e-12 && (fixed == 0 || each == 0));
  /* A timing of 0 is none. */
  lac_fit_line((const double[]){1, 2, 3}, (const double[]){0, 4, 6}, 3, &fixed, &each);
  assert_true(fabs(fixed) < 1e-9 && fabs(each - 2) < 1e-9);
}

static void medians(void **state) {
  (void)state;
  double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
  assert_true(lac_fit_median(odd, 3) == 3);
  assert_true(lac_fit_median(even, 4) == 2.5);
  assert_true(lac_fit_median(one, 1) == 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact_timings_are_taken_apart),
      cmocka_unit_test(lines),
      cmocka_unit_test(little_to_go_by),
      cmocka_unit_test(medians),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
