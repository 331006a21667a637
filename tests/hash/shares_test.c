/* Shares by largest remainder: cases worked out by hand, and what holds for all. */
#include <math.h>

#include "base/random.h"
#include "laconic/hash.h"
#include "support.h"

static void hand_computed(void **state) {
  static const struct {
    int64_t rows;
    int workers;
    double speeds[4];
    int64_t counts[4];
  } cases[] = {
      {10, 4, {1, 1, 1, 1}, {3, 3, 2, 2}},  /* quotas 2.5: ties go to the lower number */
      {8, 2, {3, 1}, {6, 2}},               /* exact */
      {10, 3, {1, 2, 4}, {1, 3, 6}},        /* quotas 1.43 2.86 5.71: remainders .43 .86 .71 */
      {100, 3, {.1, .1, .1}, {34, 33, 33}}, /* thirds */
      {5, 4, {1, 1, 1, 1e9}, {1, 1, 1, 2}}, /* each at least one */
      {4, 4, {1e-300, 1, 1, 1e300}, {1, 1, 1, 1}},
      {1000000007, 2, {1, 1}, {500000004, 500000003}},
      {1, 1, {5}, {1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t counts[4];
    assert_ok(*state, lac_hash_shares(*state, cases[i].rows, cases[i].workers, cases[i].speeds, counts));
    for (int p = 0; p < cases[i].workers; p++) {
      assert_int_equal(counts[p], cases[i].counts[p]);
    }
  }
  int64_t counts[3];
  assert_ok(*state, lac_hash_shares(*state, 11, 3, NULL, counts));
  assert_int_equal(counts[0], 4);
  assert_int_equal(counts[1], 4);
  assert_int_equal(counts[2], 3);
}

/* The counts add up, none is empty, and where no quota is below one each count is its quota rounded up or down. */
static void add_up_and_stay_within_one(void **state) {
  enum { MOST = 200 };
  lac_random stream = lac_random_stream(1, LAC_RANDOM_TEST, 1, 1);
  for (int trial = 0; trial < 500; trial++) {
    int workers = 1 + (int)lac_random_below(&stream, MOST);
    int64_t rows = workers + lac_random_below(&stream, trial % 2 ? 1000 : 100000000000), counts[MOST], total = 0;
    double speeds[MOST], sum = 0;
    bool small = false;
    for (int p = 0; p < workers; p++) {
      speeds[p] = 0.5 + lac_random_uniform(&stream);
      sum += speeds[p];
    }
    assert_ok(*state, lac_hash_shares(*state, rows, workers, speeds, counts));
    for (int p = 0; p < workers; p++) {
      small = small || (double)rows * speeds[p] / sum < 1;
    }
    for (int p = 0; p < workers; p++) {
      double quota = (double)rows * speeds[p] / sum;
      assert_true(counts[p] >= 1);
      assert_true(small || fabs((double)counts[p] - quota) < 1.0001);
      total += counts[p];
    }
    assert_true(total == rows);
  }
}

static void refuses_bad_arguments(void **state) {
  int64_t counts[4];
  static const double bad[][2] = {{1, 0}, {1, -1}, {1, NAN}, {1, INFINITY}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_failure(*state, lac_hash_shares(*state, 9, 2, bad[i], counts), LAC_E_USAGE, "speed of worker 1: found");
  }
  assert_failure(*state, lac_hash_shares(*state, 3, 4, NULL, counts), LAC_E_USAGE, "workers: found 4, expected 1 to 3");
  assert_failure(*state, lac_hash_shares(*state, 3, 0, NULL, counts), LAC_E_USAGE, "workers: found 0, expected 1 to 3");
  assert_failure(*state, lac_hash_shares(*state, 3, -1, NULL, counts), LAC_E_USAGE, "workers: found -1");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(hand_computed), cmocka_unit_test(add_up_and_stay_within_one),
                                     cmocka_unit_test(refuses_bad_arguments)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
