/* The exact Z step's search against a look at all 2^L codes. */
#include "hash/enumerate.h"

#include <math.h>

#include "base/random.h"
#include "support.h"

/* |R z - y|^2 + mu Hamming(z, h) */
static double value_of(int64_t bits, const float *r, const float *y, double mu, uint32_t h, uint32_t z) {
  double value = mu * __builtin_popcount(z ^ h);
  for (int64_t i = 0; i < bits; i++) {
    double rest = -(double)y[i];
    for (int64_t j = i; j < bits; j++) {
      rest += z >> j & 1 ? (double)r[i * bits + j] : 0;
    }
    value += rest * rest;
  }
  return value;
}

static void minimum_of(int64_t bits, const float *r, const float *y, double mu, uint32_t h, double *value) {
  *value = INFINITY;
  for (uint32_t z = 0; z < UINT32_C(1) << bits; z++) {
    *value = fmin(*value, value_of(bits, r, y, mu, h, z));
  }
}

/* The search on R given by rows. */
static void enumerate(int64_t bits, const float *r, const float *y, double mu, uint32_t h, uint32_t *z, float *best) {
  float columns[LAC_EXACT_BITS * LAC_EXACT_BITS];
  for (int64_t k = 0; k < bits; k++) {
    for (int64_t i = 0; i < LAC_EXACT_BITS; i++) {
      columns[k * LAC_EXACT_BITS + i] = i <= k ? r[i * bits + k] : 0;
    }
  }
  float padded[LAC_EXACT_BITS] = {0};
  lac_enumeration tables;
  memcpy(padded, y, (size_t)bits * sizeof *y);
  memset(&tables, 0xFF, sizeof tables); /* what was there does not count */
  lac_enumeration_prepare(bits, columns, (float)mu, &tables);
  lac_enumerate(&tables, padded, h, z, best);
}

/* Upper triangular R. */
static void make_problem(int64_t bits, int kind, lac_random *stream, float *r, float *y) {
  for (int64_t i = 0; i < bits * bits; i++) {
    r[i] = i / bits <= i % bits ? (float)lac_random_normal(stream) : 0;
  }
  for (int64_t i = 0; i < bits; i++) {
    y[i] = (float)(2 * lac_random_normal(stream));
    if (kind == 1 && i % 3 == 1) { /* dependent columns: a row of zeros */
      for (int64_t j = i; j < bits; j++) {
        r[i * bits + j] = 0;
      }
      y[i] = 0;
    }
    if (kind == 2) { /* lengths of very different size */
      float size = powf(10, (float)(i % 5) - 3);
      for (int64_t j = i; j < bits; j++) {
        r[i * bits + j] *= size;
      }
      y[i] *= size;
    }
  }
}

static void finds_the_minimum(void **state) {
  (void)state;
  static const double mus[] = {0, 0.02, 0.7, 5, 1e6};
  float r[12 * 12], y[12];
  lac_random stream = lac_random_stream(9, LAC_RANDOM_TEST, 14, 0);
  int64_t moved = 0;
  for (int64_t bits = 1; bits <= 12; bits++) {
    for (int trial = 0; trial < (bits < 9 ? 60 : 15); trial++) {
      double mu = mus[trial % 5], least;
      make_problem(bits, trial % 3, &stream, r, y);
      uint32_t h = (uint32_t)lac_random_bits(&stream) & ((1U << bits) - 1), z = h ^ (uint32_t)(trial / 5 % 2),
               start = z;
      minimum_of(bits, r, y, mu, h, &least);
      double first = value_of(bits, r, y, mu, h, z);
      float best = (float)first;
      enumerate(bits, r, y, mu, h, &z, &best);
      double rounding = 1e-5 * (least + 1) + 1e-7 * first;
      assert_true(z < UINT32_C(1) << bits);
      assert_true(value_of(bits, r, y, mu, h, z) <= least + rounding);
      assert_true(fabs((double)best - value_of(bits, r, y, mu, h, z)) <= rounding);
      moved += z != start;
      if (mu == 1e6) {
        assert_int_equal(z, h); /* any bit costs more than the rest can gain */
      }
    }
  }
  assert_true(moved > 100);
}

/* Small integers: no rounding, so that the minimum and its ties are exact. A start of the least value stays, whatever
 * other codes have it too. */
static void another_code_needs_a_strict_gain(void **state) {
  (void)state;
  lac_random stream = lac_random_stream(10, LAC_RANDOM_TEST, 14, 1);
  int64_t tied = 0;
  for (int trial = 0; trial < 300; trial++) {
    int64_t bits = 1 + trial % 8;
    float r[64], y[8];
    for (int64_t i = 0; i < bits * bits; i++) {
      r[i] = i / bits <= i % bits ? (float)(lac_random_below(&stream, 3) - 1) : 0;
    }
    for (int64_t i = 0; i < bits; i++) {
      y[i] = (float)(lac_random_below(&stream, 5) - 2);
    }
    double mu = (double)(trial % 3), least;
    uint32_t h = (uint32_t)lac_random_bits(&stream) & ((1U << bits) - 1);
    minimum_of(bits, r, y, mu, h, &least);
    int64_t minima = 0;
    for (uint32_t z = 0; z < UINT32_C(1) << bits; z++) {
      double value = value_of(bits, r, y, mu, h, z);
      uint32_t found = z;
      float best = (float)value;
      enumerate(bits, r, y, mu, h, &found, &best);
      if (value == least) {
        minima++;
        assert_int_equal(found, z);
      } else {
        assert_int_not_equal(found, z);
      }
      assert_true((double)best == least && value_of(bits, r, y, mu, h, found) == least);
    }
    tied += minima > 1;
  }
  assert_true(tied > 20);
}

/* A bound below every code's value: nothing is found, nothing changes. */
static void a_bound_that_nothing_beats_stands(void **state) {
  (void)state;
  lac_random stream = lac_random_stream(11, LAC_RANDOM_TEST, 14, 2);
  for (int64_t bits = 1; bits <= LAC_EXACT_BITS; bits++) {
    float r[LAC_EXACT_BITS * LAC_EXACT_BITS], y[LAC_EXACT_BITS], best = 0;
    make_problem(bits, 0, &stream, r, y);
    uint32_t z = 1;
    enumerate(bits, r, y, 0.1, 0, &z, &best);
    assert_true(z == 1 && best == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_minimum),
      cmocka_unit_test(another_code_needs_a_strict_gain),
      cmocka_unit_test(a_bound_that_nothing_beats_stands),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
