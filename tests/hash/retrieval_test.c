/* Precision and recall with ties averaged: against listing every order of the base, against a sum over single codes'
 * chances, and by hand. */
#include <float.h>
#include <math.h>

#include "base/random.h"
#include "hash/hamming.h"
#include "support.h"

static int distance_of(const uint8_t *a, const uint8_t *b, int64_t bits) {
  int distance = 0;
  for (int64_t l = 0; l < bits; l++) {
    distance += (a[l / 8] >> l % 8 & 1) != (b[l / 8] >> l % 8 & 1);
  }
  return distance;
}

static const int64_t ks[] = {1, 2, 3, 5, 7, 100, 1000}, Rs[] = {1, 2, 4, 6, 7, 250, 10000};
enum { CUTS = 7, ROWS = 7, DEPTH = 5, BITS = 3, QUERIES = 3 };

static uint8_t *random_codes(int64_t rows, int64_t bits, uint64_t what) {
  lac_random stream = lac_random_stream(5, LAC_RANDOM_TEST, what, (uint64_t)bits);
  int64_t bytes = (bits + 7) / 8;
  uint8_t *codes = malloc((size_t)(rows * bytes));
  assert_non_null(codes);
  for (int64_t i = 0; i < rows * bytes; i++) {
    codes[i] = (uint8_t)lac_random_bits(&stream);
  }
  return codes;
}

/* True neighbours need not be near in Hamming distance, only different from each other. */
static int32_t *random_truth(int64_t queries, int64_t depth, int64_t rows) {
  lac_random stream = lac_random_stream(6, LAC_RANDOM_TEST, (uint64_t)depth, (uint64_t)rows);
  int32_t *truth = malloc((size_t)(queries * depth) * sizeof *truth);
  int64_t *order = malloc((size_t)rows * sizeof *order);
  assert_true(truth && order);
  for (int64_t q = 0; q < queries; q++) {
    lac_random_permutation(&stream, rows, order);
    for (int64_t i = 0; i < depth; i++) {
      truth[q * depth + i] = (int32_t)order[i];
    }
  }
  free(order);
  return truth;
}

static void check_close(const double *found, const double *expected, int count) {
  for (int i = 0; i < count; i++) {
    if (isnan(expected[i]) != isnan(found[i]) || fabs(found[i] - expected[i]) > 1e-12) {
      fail_msg("cut %d: found %.17g, expected %.17g", i, found[i], expected[i]);
    }
  }
}

/* Next permutation in lexicographic order; false after the last. */
static bool next_order(int *order, int n) {
  int i = n - 2, j = n - 1;
  while (i >= 0 && order[i] > order[i + 1]) {
    i--;
  }
  if (i < 0) {
    return false;
  }
  while (order[j] < order[i]) {
    j--;
  }
  int held = order[i];
  order[i] = order[j];
  order[j] = held;
  for (int a = i + 1, b = n - 1; a < b; a++, b--) {
    held = order[a];
    order[a] = order[b];
    order[b] = held;
  }
  return true;
}

/* Sorts the base by distance, ties as the order has them, and adds what the first k, or R, then hold. */
static void add_order(const uint8_t *base, const uint8_t *query, const int32_t *truth, const int *order,
                      double *precision, double *recall) {
  int ranking[ROWS], count = 0;
  for (int d = 0; d <= BITS; d++) {
    for (int i = 0; i < ROWS; i++) {
      if (distance_of(&base[order[i]], query, BITS) == d) {
        ranking[count++] = order[i];
      }
    }
  }
  for (int c = 0; c < CUTS; c++) {
    for (int i = 0; i < ks[c] && i < ROWS; i++) {
      for (int t = 0; t < ks[c] && t < DEPTH; t++) {
        precision[c] += truth[t] == ranking[i] ? 1.0 / (double)ks[c] : 0;
      }
    }
    for (int i = 0; i < Rs[c] && i < ROWS; i++) {
      recall[c] += truth[0] == ranking[i];
    }
  }
}

static void as_every_order_of_ties(void **state) {
  for (uint64_t round = 0; round < 4; round++) {
    uint8_t *base = random_codes(ROWS, BITS, 10 * round), *query = random_codes(QUERIES, BITS, 10 * round + 1);
    int32_t *truth = random_truth(QUERIES, DEPTH, ROWS);
    double precision[CUTS] = {0}, recall[CUTS] = {0}, found_precision[CUTS], found_recall[CUTS];
    int orders = 0;
    for (int q = 0; q < QUERIES; q++) {
      int order[ROWS] = {0, 1, 2, 3, 4, 5, 6};
      do {
        add_order(base, &query[q], truth + q * DEPTH, order, precision, recall);
        orders++;
      } while (next_order(order, ROWS));
    }
    assert_int_equal(orders, QUERIES * 5040);
    for (int c = 0; c < CUTS; c++) {
      precision[c] = ks[c] <= DEPTH ? precision[c] / orders : NAN;
      recall[c] = Rs[c] <= ROWS ? recall[c] / orders : NAN;
    }
    assert_ok(*state, lac_retrieval_measure(*state, base, ROWS, query, QUERIES, BITS, truth, DEPTH, ks, CUTS, Rs, CUTS,
                                            2, found_precision, found_recall));
    check_close(found_precision, precision, CUTS);
    check_close(found_recall, recall, CUTS);
    free(base);
    free(query);
    free(truth);
  }
}

/* The chance that a code is among the first `cut`, from how many are nearer and how many as near. */
static double chance_of(const int *distances, int64_t rows, int32_t id, int64_t cut) {
  int64_t nearer = 0, equal = 0;
  for (int64_t i = 0; i < rows; i++) {
    nearer += distances[i] < distances[id];
    equal += distances[i] == distances[id];
  }
  return fmin(1, fmax(0, (double)(cut - nearer) / (double)equal));
}

static void expect(const lac_codes *codes, const int32_t *truth, int64_t depth, double *precision, double *recall) {
  int64_t bytes = (codes->bits + 7) / 8;
  int *distances = malloc((size_t)codes->rows * sizeof *distances);
  assert_non_null(distances);
  for (int64_t q = 0; q < codes->queries; q++) {
    for (int64_t i = 0; i < codes->rows; i++) {
      distances[i] = distance_of(codes->base + i * bytes, codes->query + q * bytes, codes->bits);
    }
    for (int c = 0; c < CUTS; c++) {
      for (int64_t t = 0; t < ks[c] && t < depth; t++) {
        precision[c] += chance_of(distances, codes->rows, truth[q * depth + t], ks[c]) / (double)ks[c];
      }
      recall[c] += chance_of(distances, codes->rows, truth[q * depth], Rs[c]);
    }
  }
  for (int c = 0; c < CUTS; c++) {
    precision[c] = ks[c] <= depth && ks[c] <= codes->rows ? precision[c] / (double)codes->queries : NAN;
    recall[c] = Rs[c] <= codes->rows ? recall[c] / (double)codes->queries : NAN;
  }
  free(distances);
}

/* All widths, kernels and numbers of threads give one answer, the last two to the last bit. */
static void as_single_chances(void **state) {
  const int64_t widths[] = {1, 7, 8, 9, 16, 63, 64, 65, 100, 255, 256, 1024}, rows[] = {300, 1, 257, 1030};
  for (int w = 0; w < 12; w++) {
    lac_codes codes = {.rows = rows[w % 4], .queries = w % 3 == 0 ? 130 : 5, .bits = widths[w]};
    int64_t depth = codes.rows < 100 ? codes.rows : 100;
    uint8_t *base = random_codes(codes.rows, codes.bits, 20), *query = random_codes(codes.queries, codes.bits, 21);
    int32_t *truth = random_truth(codes.queries, depth, codes.rows);
    codes.base = base;
    codes.query = query;
    double precision[CUTS] = {0}, recall[CUTS] = {0}, first[2 * CUTS], again[2 * CUTS];
    expect(&codes, truth, depth, precision, recall);
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      for (int64_t threads = 1; threads <= 3; threads++) {
        double *out = isa == 0 && threads == 1 ? first : again;
        codes.kernels = lac_hamming_kernels_of((lac_isa)isa);
        assert_ok(*state, lac_retrieval_measure_with(*state, &codes, truth, depth, ks, CUTS, Rs, CUTS, threads, out,
                                                     out + CUTS));
        assert_memory_equal(out, first, sizeof first);
      }
    }
    check_close(first, precision, CUTS);
    check_close(first + CUTS, recall, CUTS);
    free(base);
    free(query);
    free(truth);
  }
}

/* Distances 0, 1, 1, 1, 2; the true three are at 1, 1 and 2. Among the first two: code 0 and one of the three at 1, so
 * one of the true ones with chance 2/3: 1/3 of two. Of the first three, two of the three at 1: 4/3 hits of three. */
static void by_hand(void **state) {
  const uint8_t base[] = {0, 1, 2, 4, 3}, query = 0;
  const int32_t truth[] = {1, 2, 4};
  const int64_t cuts[] = {1, 2, 3};
  double precision[3], recall[3];
  assert_ok(*state,
            lac_retrieval_measure(*state, base, 5, &query, 1, 8, truth, 3, cuts, 3, cuts, 3, 1, precision, recall));
  check_close(precision, (double[]){0, 1.0 / 3, 4.0 / 9}, 3);
  check_close(recall, (double[]){0, 1.0 / 3, 2.0 / 3}, 3);
}

static void unknown_is_not_a_number(void **state) {
  const uint8_t base[] = {0, 1}, query = 0;
  const int32_t truth[] = {0};
  const int64_t cuts[] = {1, 2, 3};
  double precision[3], recall[3];
  assert_ok(*state,
            lac_retrieval_measure(*state, base, 2, &query, 1, 8, truth, 1, cuts, 3, cuts, 3, 1, precision, recall));
  check_close(precision, (double[]){1, NAN, NAN}, 3);
  check_close(recall, (double[]){1, 1, NAN}, 3);
  assert_ok(*state,
            lac_retrieval_measure(*state, base, 2, &query, 0, 8, truth, 1, cuts, 3, cuts, 3, 1, precision, recall));
  check_close(precision, (double[]){NAN, NAN, NAN}, 3);
  assert_ok(*state, lac_retrieval_measure(*state, base, 2, &query, 1, 8, truth, 1, NULL, 0, NULL, 0, 1, NULL, NULL));
}

static void bad_input_is_refused(void **state) {
  lac_context *context = *state;
  const uint8_t base[] = {0, 1}, query[] = {0, 1};
  const int64_t cut = 1, bad_cut = 0;
  double precision, recall;
  for (int32_t bad = -1; bad <= 2; bad += 3) {
    const int32_t truth[] = {0, 1, 0, bad};
    assert_failure(
        context,
        lac_retrieval_measure(context, base, 2, query, 2, 8, truth, 2, &cut, 1, &cut, 1, 1, &precision, &recall),
        LAC_E_INPUT, "truth: row 1, column 1");
  }
  const int32_t truth[] = {0, 1};
  assert_failure(
      context,
      lac_retrieval_measure(context, base, 2, query, 2, 8, truth, 1, &bad_cut, 1, &cut, 1, 1, &precision, &recall),
      LAC_E_USAGE, "precision at k of 0");
  assert_failure(
      context,
      lac_retrieval_measure(context, base, 2, query, 2, 8, truth, 1, &cut, 1, &bad_cut, 1, 1, &precision, &recall),
      LAC_E_USAGE, "recall at R of 0");
  assert_failure(
      context, lac_retrieval_measure(context, base, 2, query, 2, 8, truth, 0, &cut, 1, &cut, 1, 1, &precision, &recall),
      LAC_E_INPUT, "0 neighbours");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_every_order_of_ties),  cmocka_unit_test(as_single_chances),    cmocka_unit_test(by_hand),
      cmocka_unit_test(unknown_is_not_a_number), cmocka_unit_test(bad_input_is_refused),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
