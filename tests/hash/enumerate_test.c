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
  uint32_t start = *z;
  float bound = *best;
  lac_exact_kernels_of(LAC_ISA_PLAIN)->enumerate(&tables, padded, h, z, best);
  for (int isa = LAC_ISA_PLAIN + 1; isa <= (int)lac_cpu_isa(); isa++) { /* every variant: the same bits */
    uint32_t found = start;
    float least = bound;
    lac_exact_kernels_of((lac_isa)isa)->enumerate(&tables, padded, h, &found, &least);
    assert_int_equal(found, *z);
    assert_memory_equal(&least, best, sizeof least);
  }
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

/* G = R'R and back = R^-T for a random upper triangular R of a sound diagonal: all rounded to float at the end. */
typedef struct problem {
  int64_t bits;
  double gram[LAC_EXACT_BITS * LAC_EXACT_BITS];
  float single[LAC_EXACT_BITS * LAC_EXACT_BITS], back[LAC_EXACT_BITS * LAC_EXACT_BITS];
  float columns[LAC_EXACT_BITS * LAC_EXACT_BITS];
} problem;

static void make_gram(int64_t bits, lac_random *stream, problem *made) {
  double r[LAC_EXACT_BITS * LAC_EXACT_BITS] = {0};
  *made = (problem){.bits = bits};
  for (int64_t i = 0; i < bits; i++) {
    for (int64_t j = i; j < bits; j++) {
      r[i * bits + j] = (i == j ? 1 : 0.4) * lac_random_normal(stream) + (i == j ? 2 : 0);
      r[i * bits + j] = i == j ? fabs(r[i * bits + j]) + 0.2 : r[i * bits + j];
      made->columns[j * LAC_EXACT_BITS + i] = (float)r[i * bits + j];
    }
  }
  for (int64_t i = 0; i < bits * bits; i++) {
    for (int64_t k = 0; k < bits; k++) {
      made->gram[i] += r[k * bits + i / bits] * r[k * bits + i % bits];
    }
    made->single[i] = (float)made->gram[i];
  }
  for (int64_t column = 0; column < bits; column++) {
    double y[LAC_EXACT_BITS];
    for (int64_t k = 0; k < bits; k++) {
      y[k] = k == column;
      for (int64_t j = 0; j < k; j++) {
        y[k] -= r[j * bits + k] * y[j];
      }
      y[k] /= r[k * bits + k];
      made->back[k * bits + column] = (float)y[k];
    }
  }
}

/* z'Gz - 2 c'z + mu Hamming(z, h) */
static double objective(const problem *p, const float *c, double mu, uint32_t h, uint32_t z) {
  double value = mu * __builtin_popcount(z ^ h);
  for (int64_t l = 0; l < p->bits; l++) {
    for (int64_t k = 0; k < p->bits && z >> l & 1; k++) {
      value += z >> k & 1 ? p->gram[l * p->bits + k] : 0;
    }
    value -= z >> l & 1 ? 2 * (double)c[l] : 0;
  }
  return value;
}

/* Every variant finds the least value, says what it and the start are worth, and gives the same bits as the others. */
static void points_are_optimal_in_all_variants(void **state) {
  (void)state;
  enum { POINTS = 9, STRIDE = LAC_EXACT_BITS + 5 };
  static const double mus[] = {0, 0.05, 0.6, 40};
  lac_random stream = lac_random_stream(12, LAC_RANDOM_TEST, 14, 3);
  static lac_exact exact;
  int64_t moved = 0;
  for (int64_t bits = 1; bits <= LAC_EXACT_BITS; bits += bits < 12 ? 1 : 4) {
    for (int trial = 0; trial < (bits < 10 ? 8 : 4); trial++) {
      const double mu = mus[trial % 4];
      problem p;
      make_gram(bits, &stream, &p);
      lac_exact_prepare(bits, p.single, p.back, p.columns, (float)mu, 1e-6F, &exact);
      float c[POINTS * STRIDE];
      uint32_t h[POINTS];
      for (int64_t i = 0; i < POINTS * STRIDE; i++) { /* what is between the rows does not count */
        c[i] = i % STRIDE < bits ? (float)(2.5 * lac_random_normal(&stream)) : i % STRIDE < LAC_EXACT_BITS ? 0 : NAN;
      }
      for (int i = 0; i < POINTS; i++) {
        h[i] = (uint32_t)lac_random_bits(&stream) & ((1U << bits) - 1);
      }
      lac_exact_point first[POINTS], other[POINTS];
      memset(first, 0, sizeof first);
      memset(other, 0, sizeof other);
      lac_exact_kernels_of(LAC_ISA_PLAIN)->points(&exact, POINTS, c, STRIDE, h, first);
      for (int i = 0; i < POINTS; i++) {
        const float *row = c + i * STRIDE;
        double least = INFINITY, size = 1;
        for (uint32_t z = 0; z < UINT32_C(1) << bits && bits <= 12; z++) {
          least = fmin(least, objective(&p, row, mu, h[i], z));
        }
        for (int64_t l = 0; l < bits; l++) {
          size += fabs((double)row[l]) + p.gram[l * bits + l];
        }
        double value = objective(&p, row, mu, h[i], first[i].z);
        assert_true(first[i].z < UINT32_C(1) << bits);
        assert_true(bits > 12 || value <= least + 4e-5 * size);
        assert_true(fabs(value - (double)first[i].value) < 1e-5 * size);
        assert_true(fabs(objective(&p, row, mu, h[i], h[i]) - (double)first[i].nested) < 1e-5 * size);
        moved += first[i].z != h[i];
      }
      for (int isa = LAC_ISA_PLAIN + 1; isa <= (int)lac_cpu_isa(); isa++) {
        lac_exact_kernels_of((lac_isa)isa)->points(&exact, POINTS, c, STRIDE, h, other);
        assert_memory_equal(first, other, sizeof first);
      }
    }
  }
  assert_true(moved > 300);
}

/* A matrix that is no A'A, as rounding may make one look: flips would go round for ever. */
static void a_cycle_of_flips_ends(void **state) {
  (void)state;
  static lac_exact exact;
  const float c[LAC_EXACT_BITS] = {0};
  float none[LAC_EXACT_BITS * LAC_EXACT_BITS] = {0}, gram[LAC_EXACT_BITS * LAC_EXACT_BITS] = {0};
  lac_exact_prepare(LAC_EXACT_BITS, gram, none, none, 0, 0, &exact);
  for (int l = 0; l < LAC_EXACT_BITS; l++) {
    exact.diagonal[l] = -1; /* every flip seems to gain 1 and leaves the slopes as they are */
  }
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    const uint32_t h = 5;
    lac_exact_point point;
    lac_exact_kernels_of((lac_isa)isa)->points(&exact, 1, c, LAC_EXACT_BITS, &h, &point);
    assert_true(point.z == h && point.value == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_minimum),
      cmocka_unit_test(another_code_needs_a_strict_gain),
      cmocka_unit_test(a_bound_that_nothing_beats_stands),
      cmocka_unit_test(points_are_optimal_in_all_variants),
      cmocka_unit_test(a_cycle_of_flips_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
