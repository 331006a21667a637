/* The Z step: every point's code is optimised by itself, in blocks of rows so that the products are matrix products.
 *
 * E_Q of a point is |x - A z - a|^2 + mu Hamming(z, h(x)). Starts are h(x), the code of the previous Z step and, in the
 * first Z steps, the truncated solution of the problem relaxed to [0, 1]^L; each is improved by bit flips, the best is
 * kept; up to LAC_EXACT_BITS bits an enumeration then proves or betters it.
 *
 * Bounds: two products of 2 L D flop a point in BLAS, then flips in the first-level cache. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "hash/enumerate.h"
#include "hash/flips.h"
#include "hash/trainer.h"
#include "math/blas.h"

enum { LAC_RELAX_ROUNDS = 12 };

/* What the points of a Z step share. */
typedef struct lac_zstep {
  lac_trainer *trainer;
  double mu;
  lac_flips flips;
  lac_flip_fn kernel;
  float *gram, *diagonal;    /* (L, padded), (padded) */
  float *shift;              /* (L): A'a, so that c = A'x - A'a */
  lac_enumeration *exact;    /* when L <= LAC_EXACT_BITS, else NULL */
  int order[LAC_EXACT_BITS]; /* P: the bit that column k of R belongs to */
  float *back;               /* (L, L): y = back c, R^-T */
  float *relax;              /* (L, L): (G + r I)^-1 when a relaxed start is made, else NULL */
  float weight;              /* r */
  lac_mac_sums *sums;        /* by block */
} lac_zstep;

/* Scratch of one thread. */
typedef struct lac_zscratch {
  float *x, *input;                        /* (LAC_BLOCK, padded) */
  float *product;                          /* (LAC_BLOCK, 2 L): margins without bias, then c */
  float *relaxed, *clipped, *dual, *right; /* (LAC_BLOCK, L) */
  float *sign, *cost, *v;                  /* (padded L) */
  uint64_t *h, *try_code, *best;           /* (words) */
} lac_zscratch;

static lac_status scratch_create(lac_context *context, const lac_trainer *trainer, bool relax, lac_zscratch *scratch) {
  int64_t bits = trainer->common->bits, words = trainer->common->words, padded = lac_padded(bits);
  LAC_TRY(LAC_NEW(context, LAC_BLOCK * trainer->x.padded, &scratch->x));
  LAC_TRY(LAC_NEW(context, trainer->input.data == trainer->x.data ? 0 : LAC_BLOCK * trainer->input.padded,
                  &scratch->input));
  LAC_TRY(LAC_NEW(context, 2 * LAC_BLOCK * bits, &scratch->product));
  LAC_TRY(LAC_NEW(context, relax ? LAC_BLOCK * bits : 0, &scratch->relaxed));
  LAC_TRY(LAC_NEW(context, relax ? LAC_BLOCK * bits : 0, &scratch->clipped));
  LAC_TRY(LAC_NEW(context, relax ? LAC_BLOCK * bits : 0, &scratch->dual));
  LAC_TRY(LAC_NEW(context, relax ? LAC_BLOCK * bits : 0, &scratch->right));
  LAC_TRY(LAC_NEW(context, padded, &scratch->sign));
  LAC_TRY(LAC_NEW(context, padded, &scratch->cost));
  LAC_TRY(LAC_NEW(context, padded, &scratch->v));
  LAC_TRY(LAC_NEW(context, words, &scratch->h));
  LAC_TRY(LAC_NEW(context, words, &scratch->try_code));
  return LAC_NEW(context, words, &scratch->best);
}

static void scratch_clear(lac_zscratch *scratch) {
  lac_free(scratch->x);
  lac_free(scratch->input);
  lac_free(scratch->product);
  lac_free(scratch->relaxed);
  lac_free(scratch->clipped);
  lac_free(scratch->dual);
  lac_free(scratch->right);
  lac_free(scratch->sign);
  lac_free(scratch->cost);
  lac_free(scratch->v);
  lac_free(scratch->h);
  lac_free(scratch->try_code);
  lac_free(scratch->best);
}

static void pack_margins(int64_t bits, int64_t words, const float *margin, const float *bias, uint64_t *code) {
  memset(code, 0, (size_t)words * sizeof *code);
  for (int64_t l = 0; l < bits; l++) {
    code[l / 64] |= (uint64_t)(margin[l] + bias[l] >= 0) << (l % 64);
  }
}

lac_status lac_trainer_encode(lac_context *context, lac_trainer *trainer, uint64_t *codes) {
  int64_t bits = trainer->common->bits, words = trainer->common->words;
  float *input = NULL, *margin = NULL;
  lac_status status = LAC_NEW(context, LAC_BLOCK * trainer->input.padded, &input);
  if (!status) {
    status = LAC_NEW(context, LAC_BLOCK * bits, &margin);
  }
  for (int64_t first = 0; !status && first < trainer->x.count; first += LAC_BLOCK) {
    int64_t n = trainer->x.count - first < LAC_BLOCK ? trainer->x.count - first : LAC_BLOCK;
    status = lac_rows_read(context, &trainer->input, first, n, input);
    if (status) {
      break;
    }
    lac_sgemm(false, true, n, bits, trainer->input.padded, 1, input, trainer->input.padded, trainer->model.weight,
              trainer->input.padded, 0, margin, bits);
    for (int64_t i = 0; i < n; i++) {
      pack_margins(bits, words, margin + i * bits, trainer->model.bias, codes + (first + i) * words);
    }
  }
  lac_free(input);
  lac_free(margin);
  return status;
}

/* ---- what the points share ---- */

/* R with P'G P = R'R, pivoted so that the shortest remaining column comes first: the long ones, whose bits decide most,
 * are then enumerated first. In exact arithmetic this is the R of A P = Q R. */
static lac_status factorise(lac_context *context, lac_zstep *step, const double *gram) {
  int64_t bits = step->flips.bits;
  double *rest = NULL, *r = NULL;
  float columns[LAC_EXACT_BITS * LAC_EXACT_BITS] = {0};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &rest), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &r), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, 1, &step->exact), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &step->back), done);
  memcpy(rest, gram, (size_t)(bits * bits) * sizeof *rest);
  double largest = 0;
  for (int64_t l = 0; l < bits; l++) {
    step->order[l] = (int)l;
    largest = fmax(largest, gram[l * bits + l]);
  }
  for (int64_t k = 0; k < bits; k++) {
    int64_t pivot = k;
    for (int64_t j = k + 1; j < bits; j++) {
      if (rest[step->order[j] * bits + step->order[j]] < rest[step->order[pivot] * bits + step->order[pivot]]) {
        pivot = j;
      }
    }
    int at = step->order[pivot];
    step->order[pivot] = step->order[k];
    step->order[k] = at;
    for (int64_t i = 0; i < k; i++) { /* the columns found so far follow the order */
      double swap = r[i * bits + pivot];
      r[i * bits + pivot] = r[i * bits + k];
      r[i * bits + k] = swap;
    }
    double square = rest[at * bits + at];
    if (square <= 1e-12 * largest) {
      continue; /* depends on the others: takes no part of its own */
    }
    double root = sqrt(square);
    for (int64_t j = k; j < bits; j++) {
      r[k * bits + j] = rest[at * bits + step->order[j]] / root;
    }
    for (int64_t i = k + 1; i < bits; i++) {
      for (int64_t j = k + 1; j < bits; j++) {
        rest[step->order[i] * bits + step->order[j]] -= r[k * bits + i] * r[k * bits + j];
      }
    }
  }
  /* y = R^-T c by substitution, one unit vector at a time. */
  for (int64_t column = 0; column < bits; column++) {
    double y[LAC_EXACT_BITS];
    for (int64_t k = 0; k < bits; k++) {
      double sum = k == column ? 1 : 0;
      for (int64_t j = 0; j < k; j++) {
        sum -= r[j * bits + k] * y[j];
      }
      y[k] = r[k * bits + k] > 0 ? sum / r[k * bits + k] : 0;
      step->back[k * bits + step->order[column]] = (float)y[k];
    }
  }
  for (int64_t k = 0; k < bits; k++) {
    for (int64_t i = 0; i <= k; i++) {
      columns[k * LAC_EXACT_BITS + i] = (float)r[i * bits + k];
    }
  }
  lac_enumeration_prepare(bits, columns, (float)step->mu, step->exact);
done:
  lac_free(rest);
  lac_free(r);
  return status;
}

/* (G + r I)^-1 with r = sqrt(s_1 s_L) of the extreme eigenvalues, floored. */
static lac_status prepare_relaxation(lac_context *context, lac_zstep *step, const double *gram) {
  int64_t bits = step->trainer->common->bits;
  double *copy = NULL, *values = NULL, *vectors = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &copy), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits, &values), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &vectors), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &step->relax), done);
  memcpy(copy, gram, (size_t)(bits * bits) * sizeof *copy);
  LAC_TRY_GOTO(status, lac_symmetric_eigen(context, bits, copy, bits, values, vectors), done);
  double largest = fmax(values[0], 1e-30), weight = sqrt(largest * fmax(values[bits - 1], 1e-6 * largest));
  memcpy(copy, gram, (size_t)(bits * bits) * sizeof *copy);
  for (int64_t l = 0; l < bits; l++) {
    copy[l * bits + l] += weight;
  }
  LAC_TRY_GOTO(status, lac_invert_definite(context, bits, copy), done);
  for (int64_t i = 0; i < bits * bits; i++) {
    step->relax[i] = (float)copy[i];
  }
  step->weight = (float)weight;
done:
  lac_free(copy);
  lac_free(values);
  lac_free(vectors);
  return status;
}

static lac_status zstep_create(lac_context *context, lac_zstep *step, bool relax) {
  const lac_training *common = step->trainer->common;
  const float *decoder = step->trainer->model.decoder;
  int64_t bits = common->bits, columns = common->columns, padded = lac_padded(columns), width = lac_padded(bits);
  double *gram = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &gram), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * width, &step->gram), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, width, &step->diagonal), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits, &step->shift), done);
  const float *offset = decoder + bits * padded;
  double trace = 0;
  for (int64_t l = 0; l < bits; l++) {
    for (int64_t k = 0; k <= l; k++) {
      double sum = 0;
      for (int64_t c = 0; c < columns; c++) {
        sum += (double)decoder[l * padded + c] * (double)decoder[k * padded + c];
      }
      gram[l * bits + k] = gram[k * bits + l] = sum;
      step->gram[l * width + k] = step->gram[k * width + l] = (float)sum;
    }
    double sum = 0;
    for (int64_t c = 0; c < columns; c++) {
      sum += (double)decoder[l * padded + c] * (double)offset[c];
    }
    step->shift[l] = (float)sum;
    step->diagonal[l] = (float)gram[l * bits + l];
    trace += gram[l * bits + l];
  }
  for (int64_t l = bits; l < width; l++) {
    step->diagonal[l] = 1e30F;
  }
  step->flips = (lac_flips){.bits = bits,
                            .padded = width,
                            .gram = step->gram,
                            .diagonal = step->diagonal,
                            .threshold = (float)(1e-6 * (trace / (double)bits + step->mu))};
  step->kernel = lac_flip_kernel(lac_cpu_isa());
  if (bits <= LAC_EXACT_BITS) {
    LAC_TRY_GOTO(status, factorise(context, step, gram), done);
  }
  if (relax) {
    LAC_TRY_GOTO(status, prepare_relaxation(context, step, gram), done);
  }
done:
  lac_free(gram);
  return status;
}

static void zstep_clear(lac_zstep *step) {
  lac_free(step->gram);
  lac_free(step->diagonal);
  lac_free(step->shift);
  lac_free(step->exact);
  lac_free(step->back);
  lac_free(step->relax);
  lac_free(step->sums);
}

/* ---- one point ---- */

/* v = G z - c, signs and costs of the code z. */
static void start_from(const lac_zstep *step, const uint64_t *z, const uint64_t *h, const float *c,
                       lac_zscratch *scratch) {
  int64_t bits = step->flips.bits, width = step->flips.padded;
  float mu = (float)step->mu;
  for (int64_t l = 0; l < bits; l++) {
    scratch->v[l] = -c[l];
    uint64_t bit = z[l / 64] >> (l % 64) & 1;
    scratch->sign[l] = bit ? -1 : 1;
    scratch->cost[l] = bit == (h[l / 64] >> (l % 64) & 1) ? mu : -mu;
  }
  for (int64_t l = bits; l < width; l++) {
    scratch->v[l] = scratch->sign[l] = scratch->cost[l] = 0;
  }
  for (int64_t word = 0; word < step->trainer->common->words; word++) {
    for (uint64_t rest = z[word]; rest; rest &= rest - 1) {
      const float *row = step->gram + (word * 64 + __builtin_ctzll(rest)) * width;
      for (int64_t k = 0; k < width; k++) {
        scratch->v[k] += row[k];
      }
    }
  }
}

/* z'Gz - 2 c'z + mu Hamming(z, h) of the state in scratch, and its code. */
static double value_of(const lac_zstep *step, const float *c, const lac_zscratch *scratch, uint64_t *code,
                       int64_t *distance) {
  double value = 0;
  int64_t differ = 0;
  memset(code, 0, (size_t)step->trainer->common->words * sizeof *code);
  for (int64_t l = 0; l < step->flips.bits; l++) {
    if (scratch->sign[l] < 0) {
      code[l / 64] |= UINT64_C(1) << (l % 64);
      value += (double)scratch->v[l] - (double)c[l];
    }
    differ += scratch->cost[l] < 0;
  }
  *distance = differ;
  return value + step->mu * (double)differ;
}

typedef struct lac_best {
  double value;
  int64_t distance;
} lac_best;

/* Flips from the state in scratch; keeps the result if it is strictly better. */
static void descend(const lac_zstep *step, const float *c, lac_zscratch *scratch, lac_best *best) {
  int64_t distance;
  step->kernel(&step->flips, scratch->sign, scratch->cost, scratch->v);
  double value = value_of(step, c, scratch, scratch->try_code, &distance);
  if (value < best->value) {
    best->value = value;
    best->distance = distance;
    memcpy(scratch->best, scratch->try_code, (size_t)step->trainer->common->words * sizeof *scratch->best);
  }
}

/* Bit by bit to the better of {0, 1}, the later bits still relaxed; leaves a state for flips in scratch. relaxed (L).
 */
static void truncate_relaxed(const lac_zstep *step, const float *relaxed, const uint64_t *h, const float *c,
                             lac_zscratch *scratch) {
  int64_t bits = step->flips.bits, width = step->flips.padded;
  float mu = (float)step->mu;
  for (int64_t k = 0; k < width; k++) {
    scratch->v[k] = k < bits ? -c[k] : 0;
    scratch->sign[k] = scratch->cost[k] = 0;
  }
  for (int64_t l = 0; l < bits; l++) {
    const float *row = step->gram + l * width;
    for (int64_t k = 0; k < width; k++) {
      scratch->v[k] += relaxed[l] * row[k];
    }
  }
  for (int64_t l = 0; l < bits; l++) {
    uint64_t bit = h[l / 64] >> (l % 64) & 1;
    float up = 1 - relaxed[l], down = -relaxed[l], g = step->diagonal[l];
    float one = up * (2 * scratch->v[l] + up * g) + (bit ? 0 : mu);
    float zero = down * (2 * scratch->v[l] + down * g) + (bit ? mu : 0);
    bool set = one < zero;
    float move = set ? up : down;
    const float *row = step->gram + l * width;
    for (int64_t k = 0; k < width; k++) {
      scratch->v[k] += move * row[k];
    }
    scratch->sign[l] = set ? -1 : 1;
    scratch->cost[l] = set == (bit != 0) ? mu : -mu;
  }
}

/* min over [0, 1]^L of z'Gz - 2 c'z + mu Hamming, Hamming linear in z, for a block of points by ADMM: the smooth part
 * solves (G + r I) z = c + mu (h - 1/2) + r (clipped - dual). The result is in scratch->clipped. Started from h. */
static void relax_block(const lac_zstep *step, int64_t n, const uint64_t *h_codes, lac_zscratch *scratch) {
  int64_t bits = step->flips.bits, words = step->trainer->common->words, size = n * bits;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t l = 0; l < bits; l++) {
      scratch->clipped[i * bits + l] = (float)(h_codes[i * words + l / 64] >> (l % 64) & 1);
    }
  }
  memset(scratch->dual, 0, (size_t)size * sizeof *scratch->dual);
  float mu = (float)step->mu, weight = step->weight;
  for (int round = 0; round < LAC_RELAX_ROUNDS; round++) {
    for (int64_t i = 0; i < n; i++) {
      const float *c = scratch->product + (2 * i + 1) * bits;
      for (int64_t l = 0; l < bits; l++) {
        int64_t at = i * bits + l;
        float h = (float)(h_codes[i * words + l / 64] >> (l % 64) & 1);
        scratch->right[at] = c[l] + mu * (h - 0.5F) + weight * (scratch->clipped[at] - scratch->dual[at]);
      }
    }
    lac_sgemm(false, false, n, bits, bits, 1, scratch->right, bits, step->relax, bits, 0, scratch->relaxed, bits);
    for (int64_t at = 0; at < size; at++) {
      float moved = scratch->relaxed[at] + scratch->dual[at];
      scratch->clipped[at] = moved < 0 ? 0 : moved > 1 ? 1 : moved;
      scratch->dual[at] = moved - scratch->clipped[at];
    }
  }
}

/* Proves or betters the best code by enumeration. The value of a code is |R z - y|^2 - |y|^2 + mu Hamming. */
static void enumerate_point(const lac_zstep *step, const float *c, const uint64_t *h, lac_zscratch *scratch,
                            lac_best *best) {
  int64_t bits = step->flips.bits;
  float y[LAC_EXACT_BITS] = {0}, square = 0;
  for (int64_t k = 0; k < bits; k++) {
    float sum = 0;
    for (int64_t j = 0; j < bits; j++) {
      sum += step->back[k * bits + j] * c[j];
    }
    y[k] = sum;
    square += sum * sum;
  }
  uint32_t z = 0, start, hashed = 0;
  for (int64_t k = 0; k < bits; k++) {
    z |= (uint32_t)(scratch->best[0] >> step->order[k] & 1) << k;
    hashed |= (uint32_t)(h[0] >> step->order[k] & 1) << k;
  }
  start = z;
  float bound = ((float)best->value + square) * (1 - 1e-5F); /* a gain must be more than rounding */
  lac_enumerate(step->exact, y, hashed, &z, &bound);
  if (z != start) {
    uint64_t code = 0;
    for (int64_t k = 0; k < bits; k++) {
      code |= (uint64_t)(z >> k & 1) << step->order[k];
    }
    start_from(step, &code, h, c, scratch);
    descend(step, c, scratch, best);
  }
}

static void optimise_point(const lac_zstep *step, int64_t row, int64_t in_block, lac_zscratch *scratch,
                           const uint64_t *h, lac_mac_sums *sums) {
  const lac_training *common = step->trainer->common;
  int64_t words = common->words, bits = common->bits, distance;
  uint64_t *code = step->trainer->codes + row * words;
  const float *c = scratch->product + (2 * in_block + 1) * bits;
  start_from(step, h, h, c, scratch);
  lac_best best = {.distance = 0};
  best.value = value_of(step, c, scratch, scratch->best, &distance);
  sums->nested += best.value;
  descend(step, c, scratch, &best);
  if (!step->exact && memcmp(code, h, (size_t)words * sizeof *code) != 0) {
    start_from(step, code, h, c, scratch);
    descend(step, c, scratch, &best);
  }
  if (step->relax) {
    truncate_relaxed(step, scratch->clipped + in_block * bits, h, c, scratch);
    descend(step, c, scratch, &best);
  }
  if (step->exact) {
    enumerate_point(step, c, h, scratch, &best);
  }
  memcpy(code, scratch->best, (size_t)words * sizeof *code);
  sums->penalised += best.value;
  sums->disagreements += best.distance;
  sums->points++;
}

/* ---- a block of points ---- */

static lac_status optimise_block(void *argument, lac_context *context, int64_t block, lac_zscratch *scratch) {
  lac_zstep *step = argument;
  lac_trainer *trainer = step->trainer;
  const lac_training *common = trainer->common;
  int64_t bits = common->bits, words = common->words, padded = trainer->x.padded, first = block * LAC_BLOCK;
  int64_t n = trainer->x.count - first < LAC_BLOCK ? trainer->x.count - first : LAC_BLOCK;
  bool same = trainer->x.data == trainer->input.data;
  uint64_t *h_codes;
  LAC_TRY(lac_rows_read(context, &trainer->x, first, n, scratch->x));
  if (!same) {
    LAC_TRY(lac_rows_read(context, &trainer->input, first, n, scratch->input));
  }
  LAC_TRY(LAC_NEW(context, n * words, &h_codes));
  if (same) { /* encoder and decoder weights lie one behind the other: one product reads the rows once */
    lac_sgemm(false, true, n, 2 * bits, padded, 1, scratch->x, padded, trainer->model.weight, padded, 0,
              scratch->product, 2 * bits);
  } else {
    lac_sgemm(false, true, n, bits, trainer->input.padded, 1, scratch->input, trainer->input.padded,
              trainer->model.weight, trainer->input.padded, 0, scratch->product, 2 * bits);
    lac_sgemm(false, true, n, bits, padded, 1, scratch->x, padded, trainer->model.decoder, padded, 0,
              scratch->product + bits, 2 * bits);
  }
  for (int64_t i = 0; i < n; i++) {
    float *c = scratch->product + (2 * i + 1) * bits;
    for (int64_t l = 0; l < bits; l++) {
      c[l] -= step->shift[l];
    }
    pack_margins(bits, words, scratch->product + 2 * i * bits, trainer->model.bias, h_codes + i * words);
  }
  if (step->relax) {
    relax_block(step, n, h_codes, scratch);
  }
  for (int64_t i = 0; i < n; i++) {
    optimise_point(step, first + i, i, scratch, h_codes + i * words, &step->sums[block]);
  }
  lac_free(h_codes);
  return lac_context_interrupted(context) ? lac_fail(context, LAC_E_INTERRUPTED, "interrupted in a Z step") : LAC_OK;
}

/* Threads take runs of blocks, so that scratch memory is made once a run. */
enum { LAC_BLOCKS_PER_RUN = 32 };

static lac_status optimise_run(void *argument, lac_context *context, int64_t run, int thread) {
  (void)thread;
  lac_zstep *step = argument;
  lac_zscratch scratch = {0};
  int64_t blocks = (step->trainer->x.count + LAC_BLOCK - 1) / LAC_BLOCK;
  lac_status status = scratch_create(context, step->trainer, step->relax != NULL, &scratch);
  for (int64_t block = run * LAC_BLOCKS_PER_RUN; !status && block < blocks && block < (run + 1) * LAC_BLOCKS_PER_RUN;
       block++) {
    status = optimise_block(step, context, block, &scratch);
  }
  scratch_clear(&scratch);
  return status;
}

/* Sum of |x - a|^2 over the shard, from sums that are there already: what the objectives of the points leave out. */
static double squared_offsets(const lac_trainer *trainer) {
  const lac_training *common = trainer->common;
  int64_t bits = common->bits, head = bits + 1;
  const double *sum = trainer->local + bits * (head + common->columns) + head; /* of x */
  const float *offset = trainer->model.decoder + bits * trainer->x.padded;
  double total = trainer->square;
  for (int64_t c = 0; c < common->columns; c++) {
    double a = (double)offset[c];
    total += a * ((double)trainer->x.count * a - 2 * sum[c]);
  }
  return total;
}

lac_status lac_z_step(void *shard, lac_context *context, double mu, lac_mac_sums *sums) {
  lac_trainer *trainer = shard;
  double start = lac_seconds();
  int64_t blocks = (trainer->x.count + LAC_BLOCK - 1) / LAC_BLOCK,
          runs = (blocks + LAC_BLOCKS_PER_RUN - 1) / LAC_BLOCKS_PER_RUN;
  lac_zstep step = {.trainer = trainer, .mu = mu};
  lac_status status =
      zstep_create(context, &step, trainer->common->bits > LAC_EXACT_BITS && trainer->relaxed_starts > 0);
  if (!status) {
    status = LAC_NEW(context, blocks, &step.sums);
  }
  if (!status) {
    status = lac_parallel(context, trainer->common->options->threads, runs, optimise_run, &step);
  }
  if (trainer->relaxed_starts > 0) {
    trainer->relaxed_starts--;
  }
  double offset = squared_offsets(trainer);
  *sums = (lac_mac_sums){.penalised = offset, .nested = offset};
  for (int64_t block = 0; !status && block < blocks; block++) {
    sums->penalised += step.sums[block].penalised;
    sums->nested += step.sums[block].nested;
    sums->disagreements += step.sums[block].disagreements;
    sums->points += step.sums[block].points;
  }
  zstep_clear(&step);
  lac_profile_add(context, "z codes", lac_seconds() - start, 0, 0,
                  4.0 * (double)(trainer->x.count * trainer->common->columns * trainer->common->bits));
  return status;
}
