/* The search for one point, written once for all instruction sets. A file that includes this defines before
 *
 *   TARGET                    the attribute of functions that use the set
 *   sixteen                   16 floats, with
 *   load, store, all          from and to memory; one value in every lane
 *   add, subtract, multiply
 *   below(a, b)               bit i is set where a < b in lane i
 *   negated(v, mask)          -v in the lanes of the mask, v elsewhere
 *   sum_of(v, mask)           of the lanes in the mask: lane i is added to i + 8, then i + 4, i + 2, i + 1 */
#ifndef LACONIC_HASH_ENUMERATE_POINTS_H
#define LACONIC_HASH_ENUMERATE_POINTS_H

#include "hash/enumerate.h"

/* More flips than this per bit mean that rounding has made a cycle: the state is as good as it gets. */
enum { LAC_FLIPS_PER_BIT = 64 };

/* Costs of the 16 values of a digit: the digits above are set, rest = y - R z over them, and spent is what their rows
 * and their distance cost. Returns which are below the limit. */
TARGET static inline unsigned price(const lac_enumeration *tables, int digit, uint32_t h, const float *rest,
                                    float spent, float limit, float *cost) {
  const float(*sum)[LAC_DIGIT_VALUES] = tables->rows[digit];
  const float *target = rest + digit * LAC_DIGIT_BITS;
  sixteen a = subtract(all(target[0]), load(sum[0])), b = subtract(all(target[1]), load(sum[1]));
  sixteen c = subtract(all(target[2]), load(sum[2])), d = subtract(all(target[3]), load(sum[3]));
  sixteen squares = add(add(multiply(a, a), multiply(b, b)), add(multiply(c, c), multiply(d, d)));
  uint32_t value = h >> (digit * LAC_DIGIT_BITS) & (LAC_DIGIT_VALUES - 1);
  sixteen costs = add(squares, add(all(spent), load(tables->distance[digit][value])));
  store(cost, costs);
  return below(costs, all(limit));
}

TARGET static inline void enumerate(const lac_enumeration *tables, const float *y, uint32_t h, uint32_t *z,
                                    float *best) {
  enum { TOP = LAC_DIGITS - 1 };
  float rest[LAC_DIGITS][LAC_EXACT_BITS], cost[LAC_DIGITS][LAC_DIGIT_VALUES], least = *best;
  unsigned open[LAC_DIGITS];
  uint32_t code = 0; /* the digits above the present one */
  int digit = TOP;
  store(rest[TOP], load(y));
  open[TOP] = price(tables, TOP, h, rest[TOP], 0, least, cost[TOP]);
  for (;;) {
    if (!open[digit]) {
      if (digit == TOP) {
        break;
      }
      digit++;
      code &= ~UINT32_C(0) << ((digit + 1) * LAC_DIGIT_BITS);
      continue;
    }
    int value = __builtin_ctz(open[digit]);
    open[digit] &= open[digit] - 1;
    float spent = cost[digit][value];
    if (!(spent < least)) {
      continue; /* the best has fallen since */
    }
    uint32_t with = code | (uint32_t)value << (digit * LAC_DIGIT_BITS);
    if (digit == 0) {
      least = spent;
      *z = with;
      continue;
    }
    store(rest[digit - 1], subtract(load(rest[digit]), load(tables->columns[digit][value])));
    code = with;
    digit--;
    open[digit] = price(tables, digit, h, rest[digit], spent, least, cost[digit]);
  }
  *best = least;
}

/* v = G z - c */
TARGET static inline sixteen slope(const lac_exact *exact, uint32_t z, sixteen c) {
  const float(*gram)[LAC_DIGIT_VALUES][LAC_EXACT_BITS] = exact->gram;
  sixteen low = add(load(gram[0][z & 15]), load(gram[1][z >> 4 & 15]));
  sixteen high = add(load(gram[2][z >> 8 & 15]), load(gram[3][z >> 12 & 15]));
  return subtract(add(low, high), c);
}

/* z'Gz - 2 c'z + mu Hamming(z, h) */
TARGET static inline float value_at(const lac_exact *exact, uint32_t z, uint32_t h, sixteen v, sixteen c) {
  return sum_of(subtract(v, c), z) + exact->mu * (float)__builtin_popcount(z ^ h);
}

/* Flips bits cyclically while the objective falls; see flips.h. */
TARGET static inline uint32_t flipped(const lac_exact *exact, uint32_t h, sixteen *slopes) {
  const sixteen diagonal = load(exact->diagonal), mu = all(exact->mu), two = all(2), limit = all(-exact->threshold);
  sixteen v = *slopes;
  uint32_t z = h;
  int next = 0;
  for (int64_t flips = 0; flips < LAC_FLIPS_PER_BIT * exact->bits; flips++) {
    sixteen change = add(add(diagonal, negated(mu, z ^ h)), multiply(two, negated(v, z)));
    unsigned gains = below(change, limit);
    if (!gains) {
      break;
    }
    unsigned later = gains & ~0U << next;
    int bit = __builtin_ctz(later ? later : gains);
    v = add(v, load(exact->moves[z >> bit & 1][bit]));
    z ^= UINT32_C(1) << bit;
    next = bit + 1;
  }
  *slopes = v;
  return z;
}

/* y = R^-T c */
TARGET static inline sixteen turned(const lac_exact *exact, const float *c) {
  sixteen sums[4];
  for (int j = 0; j < 4; j++) {
    sums[j] = multiply(all(c[j]), load(exact->back[j]));
  }
  for (int j = 4; j < LAC_EXACT_BITS; j++) {
    sums[j % 4] = add(sums[j % 4], multiply(all(c[j]), load(exact->back[j])));
  }
  return add(add(sums[0], sums[1]), add(sums[2], sums[3]));
}

TARGET static inline void find_point(const lac_exact *exact, const float *c, uint32_t h, lac_exact_point *point) {
  const unsigned whole = 0xffff;
  float y[LAC_EXACT_BITS];
  sixteen target = load(c), v = slope(exact, h, target), image = turned(exact, c);
  store(y, image);
  point->z = h;
  point->nested = point->value = value_at(exact, h, h, v, target);
  uint32_t z = flipped(exact, h, &v);
  if (z != h) {
    float value = value_at(exact, z, h, v, target);
    if (value < point->value) {
      point->z = z;
      point->value = value;
    }
  }
  z = point->z;
  float bound = (point->value + sum_of(multiply(image, image), whole)) * (1 - 1e-5F); /* more than rounding */
  enumerate(&exact->search, y, h, &z, &bound);
  if (z != point->z) {
    float value = value_at(exact, z, h, slope(exact, z, target), target);
    if (value < point->value) {
      point->z = z;
      point->value = value;
    }
  }
}

TARGET static void find_points(const lac_exact *exact, int64_t n, const float *c, int64_t stride, const uint32_t *h,
                               lac_exact_point *points) {
  for (int64_t i = 0; i < n; i++) {
    find_point(exact, c + i * stride, h[i], &points[i]);
  }
}

TARGET static void find_code(const lac_enumeration *tables, const float *y, uint32_t h, uint32_t *z, float *best) {
  enumerate(tables, y, h, z, best);
}

#endif
