/* Bit flips against the objective itself, in double precision: every variant makes the same flips, ends where no single
 * flip gains, and keeps v = G z - c; and what begins and ends a search. */
#include "hash/flips.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "math/linear.h"
#include "support.h"

enum { MOST = 130, SPAN = 136 }; /* bits, and padded */

/* G = A'A, c = A'y for a random A (depth, L) and y. */
typedef struct problem {
  int64_t bits, padded;
  float gram[MOST * SPAN], diagonal[SPAN], c[MOST];
  double mu;
  uint8_t h[MOST], z[MOST];
} problem;

static void make_problem(problem *p, int64_t bits, int64_t depth, double mu, lac_random *stream) {
  static double a[256 * MOST];
  double y[256];
  *p = (problem){.bits = bits, .padded = lac_padded(bits), .mu = mu};
  for (int64_t i = 0; i < depth; i++) {
    y[i] = 2 * lac_random_normal(stream);
    for (int64_t l = 0; l < bits; l++) {
      a[i * bits + l] = lac_random_normal(stream) / sqrt((double)depth);
    }
  }
  for (int64_t l = 0; l < bits; l++) {
    double c = 0;
    for (int64_t i = 0; i < depth; i++) {
      c += a[i * bits + l] * y[i];
    }
    p->c[l] = (float)c;
    for (int64_t k = 0; k < bits; k++) {
      double g = 0;
      for (int64_t i = 0; i < depth; i++) {
        g += a[i * bits + l] * a[i * bits + k];
      }
      p->gram[l * p->padded + k] = (float)g;
    }
    p->diagonal[l] = p->gram[l * p->padded + l];
    p->h[l] = (uint8_t)(lac_random_bits(stream) & 1);
    p->z[l] = (uint8_t)(lac_random_bits(stream) & 1);
  }
  for (int64_t l = bits; l < p->padded; l++) {
    p->diagonal[l] = 1e30F;
  }
}

/* z'Gz - 2 c'z + mu Hamming(z, h) */
static double objective(const problem *p, const uint8_t *z) {
  double value = 0;
  for (int64_t l = 0; l < p->bits; l++) {
    value += z[l] != p->h[l] ? p->mu : 0;
    if (z[l]) {
      value -= 2 * (double)p->c[l];
      for (int64_t k = 0; k < p->bits; k++) {
        value += z[k] ? (double)p->gram[l * p->padded + k] : 0;
      }
    }
  }
  return value;
}

typedef struct point {
  float sign[SPAN], cost[SPAN], v[SPAN];
} point;

static void start(const problem *p, point *at) {
  memset(at, 0, sizeof *at);
  for (int64_t l = 0; l < p->bits; l++) {
    double v = -(double)p->c[l];
    for (int64_t k = 0; k < p->bits; k++) {
      v += p->z[k] ? (double)p->gram[l * p->padded + k] : 0;
    }
    at->v[l] = (float)v;
    at->sign[l] = p->z[l] ? -1 : 1;
    at->cost[l] = (float)(p->z[l] == p->h[l] ? p->mu : -p->mu);
  }
}

static lac_flips view(const problem *p, float threshold) {
  return (lac_flips){p->bits, p->padded, p->gram, p->diagonal, threshold};
}

/* What a finished search must satisfy. `error` bounds the rounding of v. */
static void check_end(const problem *p, const point *at, float threshold, double error) {
  uint8_t z[MOST];
  for (int64_t l = 0; l < p->bits; l++) {
    assert_true(at->sign[l] == 1 || at->sign[l] == -1);
    z[l] = at->sign[l] < 0;
    assert_true(at->cost[l] == (float)(z[l] == p->h[l] ? p->mu : -p->mu));
  }
  double value = objective(p, z);
  assert_true(value <= objective(p, p->z) + error);
  for (int64_t l = 0; l < p->bits; l++) {
    double v = -(double)p->c[l];
    for (int64_t k = 0; k < p->bits; k++) {
      v += z[k] ? (double)p->gram[l * p->padded + k] : 0;
    }
    assert_true(fabs(v - (double)at->v[l]) < error);
    z[l] ^= 1;
    assert_true(objective(p, z) > value - (double)threshold - 4 * error); /* no flip gains more */
    z[l] ^= 1;
  }
  for (int64_t l = p->bits; l < p->padded; l++) {
    assert_true(at->v[l] == 0 && at->sign[l] == 0 && at->cost[l] == 0);
  }
}

static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40, 64, 65, 100, 128, 130};

static void ends_where_no_flip_gains(void **state) {
  (void)state;
  static const double mus[] = {0, 0.01, 0.5, 3};
  static problem p;
  lac_random stream = lac_random_stream(7, LAC_RANDOM_TEST, 13, 0);
  int64_t flips = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    for (int trial = 0; trial < 12; trial++) {
      make_problem(&p, sizes[s], trial % 3 ? 200 : 1 + sizes[s] / 2, mus[trial % 4], &stream);
      const float threshold = 1e-5F;
      lac_flips problem_view = view(&p, threshold);
      for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
        point at;
        start(&p, &at);
        flips += lac_flip_kernels_of((lac_isa)isa)->flips(&problem_view, at.sign, at.cost, at.v);
        check_end(&p, &at, threshold, 1e-4);
      }
    }
  }
  assert_true(flips > 1000);
}

static void variants_make_the_same_flips(void **state) {
  (void)state;
  static problem p;
  lac_random stream = lac_random_stream(8, LAC_RANDOM_TEST, 13, 1);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    for (int trial = 0; trial < 40; trial++) {
      make_problem(&p, sizes[s], trial % 2 ? 60 : 3, trial % 5 * 0.1, &stream);
      lac_flips problem_view = view(&p, 1e-6F);
      point plain, other;
      start(&p, &plain);
      int64_t flips = lac_flip_kernels_of(LAC_ISA_PLAIN)->flips(&problem_view, plain.sign, plain.cost, plain.v);
      for (int isa = LAC_ISA_PLAIN + 1; isa <= (int)lac_cpu_isa(); isa++) {
        start(&p, &other);
        assert_int_equal(lac_flip_kernels_of((lac_isa)isa)->flips(&problem_view, other.sign, other.cost, other.v),
                         flips);
        assert_memory_equal(&plain, &other, sizeof plain);
      }
    }
  }
}

static void pack(const uint8_t *bits, int64_t count, uint64_t *words) {
  memset(words, 0, (size_t)((count + 63) / 64) * sizeof *words);
  for (int64_t l = 0; l < count; l++) {
    words[l / 64] |= (uint64_t)bits[l] << (l % 64);
  }
}

/* The state of a code and the value of a state, against the same in double precision; all variants to the bit. */
static void states_and_values(void **state) {
  (void)state;
  enum { WHOLE = 192 };
  static problem p;
  lac_random stream = lac_random_stream(9, LAC_RANDOM_TEST, 13, 2);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    for (int trial = 0; trial < 20; trial++) {
      float sign[3][WHOLE], cost[3][WHOLE], v[3][WHOLE], c[SPAN] = {0};
      uint64_t z[3], h[3], code[3][3];
      double value[3];
      int64_t differ[3], expected = 0;
      point at;
      make_problem(&p, sizes[s], 60, 0.25, &stream);
      if (trial < 2) {
        memset(p.z, trial, sizeof p.z); /* no bit, every bit */
      }
      memcpy(c, p.c, (size_t)p.bits * sizeof *c);
      pack(p.z, p.bits, z);
      pack(p.h, p.bits, h);
      start(&p, &at);
      lac_flips problem_view = view(&p, 0);
      for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
        const lac_flip_kernels *kernels = lac_flip_kernels_of((lac_isa)isa);
        int64_t words = (p.bits + 63) / 64;
        memset(code[isa], 0xff, sizeof code[isa]);
        kernels->start(&problem_view, z, h, (float)p.mu, c, sign[isa], cost[isa], v[isa]);
        value[isa] = kernels->value(&problem_view, sign[isa], cost[isa], v[isa], c, code[isa], &differ[isa]);
        assert_memory_equal(sign[isa], at.sign, (size_t)p.padded * sizeof(float));
        assert_memory_equal(cost[isa], at.cost, (size_t)p.padded * sizeof(float));
        for (int64_t l = 0; l < p.padded; l++) {
          assert_true(fabs((double)v[isa][l] - (double)at.v[l]) < 1e-4);
          assert_true(v[isa][l] == v[0][l] && (l < p.bits || v[isa][l] == 0));
        }
        assert_memory_equal(code[isa], z, (size_t)words * sizeof *z);
        assert_true(value[isa] == value[0] && differ[isa] == differ[0]);
      }
      for (int64_t l = 0; l < p.bits; l++) {
        expected += p.z[l] != p.h[l];
      }
      assert_int_equal(differ[0], expected);
      assert_true(fabs(value[0] + p.mu * (double)expected - objective(&p, p.z)) < 1e-3);
    }
  }
}

/* The order of the search, on a case worked out by hand. G = [[2, 3], [3, 2]], c = (2, 2), mu = 0: from z = 00 (value
 * 0) bit 0 is tried first and gains 2 (10: value -2); bit 1 would then cost 2 - 4 + 6 = 4. From 11 (value 2) bit 0
 * gains 4 and goes first. */
static void bits_are_tried_in_order(void **state) {
  (void)state;
  static problem p;
  p = (problem){.bits = 2, .padded = 8, .gram = {2, 3, 0, 0, 0, 0, 0, 0, 3, 2}, .diagonal = {2, 2}, .c = {2, 2}};
  for (int l = 2; l < 8; l++) {
    p.diagonal[l] = 1e30F;
  }
  lac_flips problem_view = view(&p, 0);
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    point at;
    p.z[0] = p.z[1] = 0;
    start(&p, &at);
    assert_int_equal(lac_flip_kernels_of((lac_isa)isa)->flips(&problem_view, at.sign, at.cost, at.v), 1);
    assert_true(at.sign[0] == -1 && at.sign[1] == 1);
    assert_true(at.v[0] == 0 && at.v[1] == 1);
    p.z[0] = p.z[1] = 1;
    start(&p, &at);
    assert_int_equal(lac_flip_kernels_of((lac_isa)isa)->flips(&problem_view, at.sign, at.cost, at.v), 1);
    assert_true(at.sign[0] == 1 && at.sign[1] == -1);
  }
}

/* A matrix that is no A'A, as rounding may make one look: flips would go round for ever. */
static void a_cycle_ends(void **state) {
  (void)state;
  static problem p;
  for (size_t s = 1; s < sizeof sizes / sizeof *sizes; s++) {
    p = (problem){.bits = sizes[s], .padded = lac_padded(sizes[s])};
    for (int64_t l = 0; l < p.padded; l++) {
      p.diagonal[l] = l < p.bits ? -1 : 1e30F; /* every flip seems to gain 1 and leaves v as it is */
    }
    lac_flips problem_view = view(&p, 0);
    int64_t flips = 0;
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      point at;
      start(&p, &at);
      int64_t made = lac_flip_kernels_of((lac_isa)isa)->flips(&problem_view, at.sign, at.cost, at.v);
      assert_true(isa == 0 || made == flips);
      flips = made;
    }
    assert_true(flips > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ends_where_no_flip_gains),
      cmocka_unit_test(variants_make_the_same_flips),
      cmocka_unit_test(states_and_values),
      cmocka_unit_test(bits_are_tried_in_order),
      cmocka_unit_test(a_cycle_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
