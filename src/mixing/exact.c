/* The exact mixing time of a dense chain.
 *
 * The powers W^(2^k) are made and kept until one has mixed; the stationary distribution is the limit of any row under
 * the first of them that is a contraction. Then the time of one row, the worst of the last power that has not mixed, is
 * found by bisection: a vector times stored squares, m^2 a step. All rows that have not mixed are carried to that time
 * at once, a product for every bit, and as long as some are not mixed there, the worst of them says how much further.
 * Nearly always the first time is the answer, so that t costs log2(t) squarings and a product for each further bit of
 * it, half of them on average.
 *
 * A product is 2 m^3 flops; half as many, and a few blocks, where W is symmetric, as its powers are and commute.
 * Matrices with few entries, as a sparse graph's first powers are, are multiplied entry by entry.
 *
 * All is in double precision: an error of a power doubles with every squaring, so that after log2(t) of them about
 * t 2^-53 is left of the times, which single precision would spoil at t near 10^4. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "laconic/mixing.h"
#include "math/blas.h"

enum { MOST_POWERS = 63, LEAST_BLOCK = 128, BLOCKS = 16, SPARSE = 16, TILE = 16, MOST_ITERATIONS = 1000 };

static const double mixed = 0.25 + 1e-12; /* times whose distance is exactly 1/4 are not lost to rounding */
static const double nothing = 1e-60; /* smaller entries become 0: what they could add up to in 2^62 steps is too small
                                        to be seen, and the products of larger ones are normal numbers */

typedef struct chain {
  lac_context *context;
  int64_t m, watched;
  bool symmetric;
  double *power[MOST_POWERS]; /* (m, m): W^(2^k); the first is the caller's */
  double *pi;                 /* (m) */
  double *row, *next;         /* (m) */
} chain;

/* ---- Whether it mixes at all ---- */

/* Breadth first from `root` along the positive entries, or against them. level (m) holds -1 where nobody was yet. */
static void visit(int64_t m, const double *matrix, int64_t root, bool against, int64_t *level, int64_t *queue) {
  int64_t head = 0, tail = 0;
  level[root] = 0;
  queue[tail++] = root;
  while (head < tail) {
    int64_t i = queue[head++];
    for (int64_t j = 0; j < m; j++) {
      if (level[j] < 0 && (against ? matrix[j * m + i] : matrix[i * m + j]) > 0) {
        level[j] = level[i] + 1;
        queue[tail++] = j;
      }
    }
  }
}

static void forget(int64_t m, int64_t *level) {
  for (int64_t i = 0; i < m; i++) {
    level[i] = -1;
  }
}

/* A slot that all slots reach, or -1 where there is none: then two sets of slots never meet. */
static int64_t common_target(int64_t m, const double *matrix, int64_t *level, int64_t *queue) {
  int64_t root = 0;
  forget(m, level);
  for (int64_t i = 0; i < m; i++) {
    if (level[i] < 0) {
      root = i; /* of those that reach what was seen before, the last root alone can be reached by all */
      visit(m, matrix, root, true, level, queue);
    }
  }
  forget(m, level);
  visit(m, matrix, root, true, level, queue);
  for (int64_t i = 0; i < m; i++) {
    if (level[i] < 0) {
      return -1;
    }
  }
  return root;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The rows of W^t have a common limit if and only if one slot is reached by all and its class has period 1: the common
 * divisor of level[i] + 1 - level[j] over the entries (i, j) of the class. */
static lac_status has_limit(lac_context *context, int64_t m, const double *matrix, bool *limit) {
  int64_t *level = NULL, *queue = NULL, period = 0;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, m, &level), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, m, &queue), done);
  int64_t root = common_target(m, matrix, level, queue);
  if (root >= 0) {
    forget(m, level);
    visit(m, matrix, root, false, level, queue);
    for (int64_t i = 0; i < m && period != 1; i++) {
      for (int64_t j = 0; j < m && level[i] >= 0; j++) {
        if (matrix[i * m + j] > 0) {
          int64_t around = level[i] + 1 - level[j];
          period = common_divisor(around < 0 ? -around : around, period);
        }
      }
    }
  }
  *limit = period == 1;
done:
  lac_free(queue);
  lac_free(level);
  return status;
}

/* ---- Products ---- */

static bool is_symmetric(int64_t m, const double *matrix) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < i; j++) {
      if (matrix[i * m + j] != matrix[j * m + i]) {
        return false;
      }
    }
  }
  return true;
}

static bool is_sparse(int64_t rows, int64_t m, const double *matrix) {
  int64_t entries = 0, most = rows * m / SPARSE;
  for (int64_t i = 0; i < rows * m && entries <= most; i++) {
    entries += matrix[i] != 0;
  }
  return entries <= most;
}

static void sparse_row(int64_t m, int64_t first, const double *a, const double *b, double *c) {
  memset(c + first, 0, (size_t)(m - first) * sizeof *c);
  for (int64_t k = 0; k < m; k++) {
    if (a[k] != 0) {
      for (int64_t j = first; j < m; j++) {
        c[j] += a[k] * b[k * m + j];
      }
    }
  }
}

/* The lower triangle becomes the upper, tile by tile: a column has a cache line for every row. */
static void mirror(int64_t m, double *c) {
  for (int64_t top = 0; top < m; top += TILE) {
    for (int64_t left = 0; left <= top; left += TILE) {
      for (int64_t i = top; i < top + TILE && i < m; i++) {
        for (int64_t j = left; j < left + TILE && j < i; j++) {
          c[i * m + j] = c[j * m + i];
        }
      }
    }
  }
}

/* c (rows, m) = a (rows, m) b (m, m). `half`: the product is symmetric, the upper triangle is computed and mirrored. */
static lac_status multiply(lac_context *context, int64_t rows, int64_t m, bool half, const double *a, const double *b,
                           double *c) {
  bool sparse = is_sparse(rows, m, a);
  int64_t block = m / BLOCKS > LEAST_BLOCK ? m / BLOCKS : LEAST_BLOCK;
  for (int64_t top = 0; top < rows; top += block) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "the mixing time was interrupted");
    }
    int64_t here = rows - top < block ? rows - top : block;
    if (sparse) {
      for (int64_t i = top; i < top + here; i++) {
        sparse_row(m, half ? i : 0, a + i * m, b, c + i * m);
      }
    } else {
      int64_t first = half ? top : 0;
      lac_dgemm(false, false, here, m - first, m, 1, a + top * m, m, b + first, m, 0, c + top * m + first, m);
    }
  }
  if (half) {
    mirror(m, c);
  }
  return LAC_OK;
}

/* Rows sum to 1 again: an error of the sums would double with every squaring. A symmetric matrix stays symmetric; what
 * is left of its sums' errors then does not grow. */
static void normalise(const chain *c, double *matrix) {
  int64_t m = c->m;
  for (int64_t i = 0; i < m; i++) {
    double sum = 0;
    for (int64_t j = 0; j < m; j++) {
      sum += matrix[i * m + j];
    }
    c->row[i] = c->symmetric ? 1 / sqrt(sum) : 1 / sum;
  }
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < m; j++) {
      double value = matrix[i * m + j] * (c->symmetric ? c->row[i] * c->row[j] : c->row[i]);
      matrix[i * m + j] = value < nothing ? 0 : value;
    }
  }
}

/* ---- Distances ---- */

static double distance(int64_t m, const double *left, const double *right) {
  double sum = 0;
  for (int64_t j = 0; j < m; j++) {
    sum += fabs(left[j] - right[j]);
  }
  return 0.5 * sum;
}

/* Of the rows, the one farthest from `from`. */
static int64_t farthest(int64_t rows, int64_t m, const double *matrix, const double *from, double *largest) {
  int64_t found = 0;
  *largest = -1;
  for (int64_t i = 0; i < rows; i++) {
    double here = distance(m, matrix + i * m, from);
    if (here > *largest) {
      *largest = here;
      found = i;
    }
  }
  return found;
}

/* pi, once a power's rows are all within less than 1/2 of the first: any two are then closer than 1, so that the power
 * brings any two distributions closer by a factor (Dobrushin), and any distribution to pi. */
static bool find_stationary(const chain *c, const double *power) {
  double spread;
  (void)farthest(c->m, c->m, power, power, &spread);
  if (spread > 0.45) {
    return false;
  }
  for (int64_t i = 0; i < c->m; i++) {
    c->pi[i] = 1 / (double)c->m;
  }
  double last = 2;
  for (int i = 0; i < MOST_ITERATIONS; i++) {
    lac_dgemm(false, false, 1, c->m, c->m, 1, c->pi, c->m, power, c->m, 0, c->next, c->m);
    double moved = distance(c->m, c->pi, c->next);
    memcpy(c->pi, c->next, (size_t)c->m * sizeof *c->pi);
    if (moved < 1e-15 || (moved < 1e-12 && moved >= last)) {
      break; /* it moves by rounding alone */
    }
    last = moved;
  }
  return true;
}

/* ---- Squaring and bisection ---- */

static bool power_has_mixed(const chain *c, int k) {
  double largest;
  (void)farthest(c->watched, c->m, c->power[k], c->pi, &largest);
  return largest <= mixed;
}

/* The powers up to the first that has mixed, whose number is *top; -1 when none of the first 63 has. */
static lac_status square(chain *c, int *top) {
  bool stationary = false;
  int k = 0;
  for (; k < MOST_POWERS; k++) {
    if (k > 0) {
      LAC_TRY(LAC_NEW(c->context, c->m * c->m, &c->power[k]));
      LAC_TRY(multiply(c->context, c->m, c->m, c->symmetric, c->power[k - 1], c->power[k - 1], c->power[k]));
    }
    normalise(c, c->power[k]);
    stationary = stationary || find_stationary(c, c->power[k]);
    if (stationary && power_has_mixed(c, k)) {
      break;
    }
  }
  if (k == MOST_POWERS) {
    *top = -1;
    return LAC_OK;
  }
  while (k > 0 && power_has_mixed(c, k - 1)) {
    k--; /* one that had, before pi was known */
  }
  *top = k;
  return LAC_OK;
}

/* Least number of steps after which a distribution that has not mixed has, where 2^top are enough. */
static int64_t steps_of_row(const chain *c, const double *from, int top) {
  int64_t steps = 0;
  memcpy(c->row, from, (size_t)c->m * sizeof *from);
  for (int k = top - 1; k >= 0; k--) {
    lac_dgemm(false, false, 1, c->m, c->m, 1, c->row, c->m, c->power[k], c->m, 0, c->next, c->m);
    if (distance(c->m, c->next, c->pi) > mixed) {
      memcpy(c->row, c->next, (size_t)c->m * sizeof *c->row);
      steps += (int64_t)1 << k;
    }
  }
  return steps + 1;
}

/* Keeps the rows that have not mixed. */
static int64_t drop_mixed(const chain *c, int64_t rows, double *matrix) {
  int64_t left = 0;
  for (int64_t i = 0; i < rows; i++) {
    if (distance(c->m, matrix + i * c->m, c->pi) > mixed) {
      memmove(matrix + left++ * c->m, matrix + i * c->m, (size_t)c->m * sizeof *matrix);
    }
  }
  return left;
}

/* top >= 1 and W^(2^(top - 1)) has not mixed. */
static lac_status bisect(chain *c, int top, int64_t *steps) {
  double *rows = NULL, *spare = NULL;
  size_t bytes = (size_t)(c->watched * c->m) * sizeof *rows;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(c->context, c->watched * c->m, &rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(c->context, c->watched * c->m, &spare), done);
  memcpy(rows, c->power[top - 1], bytes);
  int64_t time = (int64_t)1 << (top - 1);
  for (int64_t left = drop_mixed(c, c->watched, rows); left > 0; left = drop_mixed(c, left, rows)) {
    double largest;
    int64_t worst = farthest(left, c->m, rows, c->pi, &largest);
    int64_t more = steps_of_row(c, rows + worst * c->m, top - 1);
    for (int k = 0; k < top; k++) {
      if (more >> k & 1) {
        LAC_TRY_GOTO(status, multiply(c->context, left, c->m, c->symmetric && left == c->m, rows, c->power[k], spare),
                     done);
        double *product = spare;
        spare = rows;
        rows = product;
      }
    }
    time += more;
  }
  *steps = time;
done:
  lac_free(spare);
  lac_free(rows);
  return status;
}

/* Whether the watched slots have mixed before the first step. */
static bool mixed_at_once(const chain *c) {
  for (int64_t i = 0; i < c->watched; i++) {
    if (1 - c->pi[i] > mixed) {
      return false;
    }
  }
  return true;
}

lac_status lac_mixing_exact(lac_context *context, int64_t m, int64_t watched, double *matrix, int64_t *steps) {
  chain c = {.context = context, .m = m, .watched = watched, .symmetric = is_symmetric(m, matrix), .power = {matrix}};
  bool limit;
  int top = -1;
  *steps = -1;
  lac_status status;
  LAC_TRY_GOTO(status, has_limit(context, m, matrix, &limit), done);
  if (!limit) {
    goto done;
  }
  LAC_TRY_GOTO(status, LAC_NEW(context, m, &c.pi), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, m, &c.row), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, m, &c.next), done);
  LAC_TRY_GOTO(status, square(&c, &top), done);
  if (top == 0) {
    *steps = mixed_at_once(&c) ? 0 : 1;
  } else if (top > 0) {
    status = bisect(&c, top, steps);
  }
done:
  for (int k = 1; k < MOST_POWERS; k++) {
    lac_free(c.power[k]);
  }
  lac_free(c.next);
  lac_free(c.row);
  lac_free(c.pi);
  return status;
}
