/* The Z step: every point's code is optimised by itself, in blocks of rows so that the products are matrix products.
 *
 * E_Q of a point is |x - A z - a|^2 + mu Hamming(z, h(x)). Up to LAC_EXACT_BITS bits the best code is found by
 * enumeration. Above, starts are h(x), the code of the previous Z step and, in the first Z steps, the truncated
 * solution of the problem relaxed to [0, 1]^L; each is improved by bit flips, the best is kept.
 *
 * Bounds: a product of 4 L D flop a point (the multiply-add units), then flips and search in the first-level cache. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "hash/codes.h"
#include "hash/enumerate.h"
#include "hash/flips.h"
#include "hash/trainer.h"
#include "math/blas.h"

enum { LAC_RELAX_ROUNDS = 12 };

/* Scratch of one thread. */
typedef struct lac_zscratch {
  float *x, *input;                        /* (LAC_BLOCK, padded) */
  float *product;                          /* room for margins and c */
  float *relaxed, *clipped, *dual, *right; /* (LAC_BLOCK, L) */
  float *sign, *cost, *v;                  /* (64 words) */
  uint64_t *h, *try_code, *best;           /* (LAC_BLOCK, words), (words), (words) */
  uint8_t *packed;                         /* (LAC_BLOCK, bytes of a code): h */
} lac_zscratch;

/* What the points of a Z step share. */
typedef struct lac_zstep {
  lac_trainer *trainer;
  double mu;
  lac_flips flips;
  const lac_flip_kernels *kernels;
  float *gram, *diagonal; /* (L, padded), (padded) */
  int64_t width, stride;  /* L rounded up for a product; from a point's margins or c to the next's */
  lac_factor *encoder;    /* margins; and behind them c where the inputs of both are the same */
  lac_factor *decoder;    /* c else, else NULL */
  float *bias, *shift;    /* (width): of the encoder; A'a, so that c = A'x - A'a; zeros in the padding of shift */
  lac_sign_kernel sign;
  lac_exact *exact; /* when L <= LAC_EXACT_BITS, else NULL */
  const lac_exact_kernels *exact_kernels;
  int *order;             /* (L): the bit that column l here belongs to: P of enumerate.h, or as they are */
  uint16_t codes[2][256]; /* what a byte of a code in that order is in the model's, when exact */
  int64_t leave;          /* a subsample of one block in so many is left as it is; 0: none */
  float *relax;           /* (L, L): (G + r I)^-1 when a relaxed start is made, else NULL */
  float weight;           /* r */
  lac_mac_sums *sums;     /* by block */
  lac_zscratch *scratch;  /* by thread */
} lac_zstep;

static lac_status scratch_create(lac_context *context, const lac_zstep *step, lac_zscratch *scratch) {
  const lac_trainer *trainer = step->trainer;
  int64_t bits = trainer->common->bits, words = trainer->common->words;
  int64_t relaxed = step->relax ? LAC_BLOCK * bits : 0;
  LAC_TRY(LAC_NEW(context, LAC_BLOCK * trainer->x.padded, &scratch->x));
  LAC_TRY(LAC_NEW(context, step->decoder ? LAC_BLOCK * trainer->input.padded : 0, &scratch->input));
  LAC_TRY(LAC_NEW(context, 2 * LAC_BLOCK * step->width, &scratch->product));
  LAC_TRY(LAC_NEW(context, relaxed, &scratch->relaxed));
  LAC_TRY(LAC_NEW(context, relaxed, &scratch->clipped));
  LAC_TRY(LAC_NEW(context, relaxed, &scratch->dual));
  LAC_TRY(LAC_NEW(context, relaxed, &scratch->right));
  LAC_TRY(LAC_NEW(context, 64 * words, &scratch->sign));
  LAC_TRY(LAC_NEW(context, 64 * words, &scratch->cost));
  LAC_TRY(LAC_NEW(context, 64 * words, &scratch->v));
  LAC_TRY(LAC_NEW(context, LAC_BLOCK * words, &scratch->h));
  LAC_TRY(LAC_NEW(context, LAC_BLOCK * ((bits + 7) / 8), &scratch->packed));
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
  lac_free(scratch->packed);
  lac_free(scratch->try_code);
  lac_free(scratch->best);
}

lac_status lac_trainer_encode(lac_context *context, lac_trainer *trainer, uint64_t *codes) {
  int64_t bits = trainer->common->bits, words = trainer->common->words, padded = trainer->input.padded;
  lac_encoding encoding = {0};
  float *input = NULL, *margin = NULL;
  uint8_t *packed = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status,
               lac_encoding_create(context, trainer->model.weight, trainer->model.bias, bits, padded, &encoding), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * padded, &input), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * lac_factor_width(encoding.factor), &margin), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * encoding.bytes, &packed), done);
  int64_t groups = (trainer->x.count + LAC_BLOCK * trainer->subsample - 1) / (LAC_BLOCK * trainer->subsample);
  for (int64_t group = 0; group < groups; group++) {
    int64_t first = lac_subsample_block(trainer, trainer->subsample, group) * LAC_BLOCK;
    int64_t n = trainer->x.count - first < LAC_BLOCK ? trainer->x.count - first : LAC_BLOCK;
    LAC_TRY_GOTO(status, lac_rows_read(context, &trainer->input, first, n, input), done);
    lac_encoding_run(&encoding, input, n, margin, packed);
    for (int64_t i = 0; i < n; i++) {
      lac_words_of(packed + i * encoding.bytes, encoding.bytes, codes + (first + i) * words);
    }
  }
done:
  lac_encoding_clear(&encoding);
  lac_free(input);
  lac_free(margin);
  lac_free(packed);
  return status;
}

/* ---- what the points share ---- */

/* R with P'G P = R'R, pivoted so that the shortest remaining column comes first: the long ones, whose bits decide most,
 * are then enumerated first. In exact arithmetic this is the R of A P = Q R. */
static lac_status factorise(lac_context *context, lac_zstep *step, const double *gram) {
  int64_t bits = step->flips.bits;
  double *rest = NULL, *r = NULL;
  float columns[LAC_EXACT_BITS * LAC_EXACT_BITS] = {0}, back[LAC_EXACT_BITS * LAC_EXACT_BITS];
  float turned[LAC_EXACT_BITS * LAC_EXACT_BITS];
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &rest), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &r), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, 1, &step->exact), done);
  memcpy(rest, gram, (size_t)(bits * bits) * sizeof *rest);
  double largest = 0;
  for (int64_t l = 0; l < bits; l++) {
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
  /* y = R^-T c by substitution, one unit vector at a time; c in the order of the columns. */
  for (int64_t column = 0; column < bits; column++) {
    double y[LAC_EXACT_BITS];
    for (int64_t k = 0; k < bits; k++) {
      double sum = k == column ? 1 : 0;
      for (int64_t j = 0; j < k; j++) {
        sum -= r[j * bits + k] * y[j];
      }
      y[k] = r[k * bits + k] > 0 ? sum / r[k * bits + k] : 0;
      back[k * bits + column] = (float)y[k];
    }
  }
  for (int64_t k = 0; k < bits; k++) {
    for (int64_t i = 0; i <= k; i++) {
      columns[k * LAC_EXACT_BITS + i] = (float)r[i * bits + k];
    }
    for (int64_t i = 0; i < bits; i++) {
      turned[k * bits + i] = (float)gram[step->order[k] * bits + step->order[i]];
    }
  }
  lac_exact_prepare(bits, turned, back, columns, (float)step->mu, step->flips.threshold, step->exact);
  for (int64_t l = 0; l < bits; l++) {
    for (int value = 0; value < 256; value++) {
      step->codes[l / 8][value] |= (uint16_t)((value >> l % 8 & 1) << step->order[l]);
    }
  }
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

/* Rows of weight (L, padded) in the order of the step, from row `first` on of rows (…, padded). */
static void put_rows(const lac_zstep *step, const float *weight, int64_t padded, int64_t first, float *rows) {
  for (int64_t l = 0; l < step->flips.bits; l++) {
    memcpy(rows + (first + l) * padded, weight + step->order[l] * padded, (size_t)padded * sizeof *rows);
  }
}

/* One factor where encoder and decoder see the same rows, so that they are read once. */
static lac_status prepare_products(lac_context *context, lac_zstep *step) {
  const lac_trainer *trainer = step->trainer;
  bool same = trainer->x.data == trainer->input.data;
  int64_t width = step->width, inputs = trainer->input.padded, padded = trainer->x.padded, stacked = same ? 2 : 1;
  float *rows = NULL, *own = NULL;
  lac_status status = LAC_OK;
  step->stride = stacked * width;
  LAC_TRY_GOTO(status, LAC_NEW(context, stacked * width * inputs, &rows), done);
  put_rows(step, trainer->model.weight, inputs, 0, rows);
  if (same) {
    put_rows(step, trainer->model.decoder, padded, width, rows);
  } else {
    LAC_TRY_GOTO(status, LAC_NEW(context, width * padded, &own), done);
    put_rows(step, trainer->model.decoder, padded, 0, own);
    LAC_TRY_GOTO(status, lac_factor_create(context, lac_cpu_isa(), own, width, padded, &step->decoder), done);
  }
  status = lac_factor_create(context, lac_cpu_isa(), rows, stacked * width, inputs, &step->encoder);
done:
  lac_free(rows);
  lac_free(own);
  return status;
}

/* step->gram and what depends on it, and the order of the bits; gram (L, L). */
static lac_status prepare_flips(lac_context *context, lac_zstep *step, double *gram) {
  const float *decoder = step->trainer->model.decoder;
  int64_t bits = step->trainer->common->bits, columns = step->trainer->common->columns, padded = lac_padded(columns);
  int64_t width = lac_padded(bits);
  double trace = 0, *wide;
  LAC_TRY(LAC_NEW(context, bits * width, &step->gram));
  LAC_TRY(LAC_NEW(context, width, &step->diagonal));
  LAC_TRY(LAC_NEW(context, bits, &step->order));
  LAC_TRY(LAC_NEW(context, bits * columns, &wide));
  for (int64_t i = 0; i < bits * columns; i++) {
    wide[i] = (double)decoder[i / columns * padded + i % columns];
  }
  lac_dgemm(false, true, bits, bits, columns, 1, wide, columns, wide, columns, 0, gram, bits);
  lac_free(wide);
  for (int64_t l = 0; l < bits; l++) {
    step->order[l] = (int)l;
    for (int64_t k = 0; k <= l; k++) {
      gram[k * bits + l] = gram[l * bits + k]; /* to the last digit */
      step->gram[l * width + k] = step->gram[k * width + l] = (float)gram[l * bits + k];
    }
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
  step->kernels = lac_flip_kernels_of(lac_cpu_isa());
  return LAC_OK;
}

/* What is added to the products. */
static lac_status prepare_offsets(lac_context *context, lac_zstep *step) {
  const lac_parameters *model = &step->trainer->model;
  int64_t bits = step->flips.bits, columns = step->trainer->common->columns, padded = lac_padded(columns);
  const float *offset = model->decoder + bits * padded;
  LAC_TRY(LAC_NEW(context, step->width, &step->shift));
  LAC_TRY(LAC_NEW(context, step->width, &step->bias));
  for (int64_t l = 0; l < bits; l++) {
    const float *column = model->decoder + step->order[l] * padded;
    double sum = 0;
    for (int64_t c = 0; c < columns; c++) {
      sum += (double)column[c] * (double)offset[c];
    }
    step->shift[l] = (float)sum;
    step->bias[l] = model->bias[step->order[l]];
  }
  lac_pad_bias(step->bias, bits, step->bias);
  return LAC_OK;
}

static lac_status zstep_create(lac_context *context, lac_zstep *step, bool relax) {
  int64_t bits = step->trainer->common->bits, threads = step->trainer->common->options->threads;
  double *gram = NULL;
  lac_status status = LAC_OK;
  step->width = (bits + LAC_EXACT_BITS - 1) / LAC_EXACT_BITS * LAC_EXACT_BITS;
  step->sign = lac_sign_kernel_of(lac_cpu_isa());
  step->exact_kernels = lac_exact_kernels_of(lac_cpu_isa());
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * bits, &gram), done);
  LAC_TRY_GOTO(status, prepare_flips(context, step, gram), done);
  if (bits <= LAC_EXACT_BITS) {
    LAC_TRY_GOTO(status, factorise(context, step, gram), done);
  }
  if (relax) {
    LAC_TRY_GOTO(status, prepare_relaxation(context, step, gram), done);
  }
  LAC_TRY_GOTO(status, prepare_offsets(context, step), done);
  LAC_TRY_GOTO(status, prepare_products(context, step), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, threads, &step->scratch), done);
  for (int64_t thread = 0; thread < threads; thread++) {
    LAC_TRY_GOTO(status, scratch_create(context, step, &step->scratch[thread]), done);
  }
done:
  lac_free(gram);
  return status;
}

static void zstep_clear(lac_zstep *step) {
  for (int64_t thread = 0; step->scratch && thread < step->trainer->common->options->threads; thread++) {
    scratch_clear(&step->scratch[thread]);
  }
  lac_factor_destroy(&step->encoder);
  lac_factor_destroy(&step->decoder);
  lac_free(step->gram);
  lac_free(step->diagonal);
  lac_free(step->bias);
  lac_free(step->shift);
  lac_free(step->exact);
  lac_free(step->order);
  lac_free(step->relax);
  lac_free(step->sums);
  lac_free(step->scratch);
}

/* ---- one point ---- */

/* The state of code z in scratch. */
static void start_from(const lac_zstep *step, const uint64_t *z, const uint64_t *h, const float *c,
                       lac_zscratch *scratch) {
  step->kernels->start(&step->flips, z, h, (float)step->mu, c, scratch->sign, scratch->cost, scratch->v);
}

/* z'Gz - 2 c'z + mu Hamming(z, h) of the state in scratch, and its code. */
static double value_of(const lac_zstep *step, const float *c, const lac_zscratch *scratch, uint64_t *code,
                       int64_t *distance) {
  double value = step->kernels->value(&step->flips, scratch->sign, scratch->cost, scratch->v, c, code, distance);
  return value + step->mu * (double)*distance;
}

typedef struct lac_best {
  double value;
  int64_t distance;
} lac_best;

/* Flips from the state in scratch; keeps the result if it is strictly better. */
static void descend(const lac_zstep *step, const float *c, lac_zscratch *scratch, lac_best *best) {
  int64_t distance;
  step->kernels->flips(&step->flips, scratch->sign, scratch->cost, scratch->v);
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
static void relax_block(const lac_zstep *step, int64_t n, const float *c_rows, const uint64_t *h_codes,
                        lac_zscratch *scratch) {
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
      const float *c = c_rows + i * step->stride;
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

static void optimise_point(const lac_zstep *step, const float *c, const float *clipped, const uint64_t *h,
                           uint64_t *code, lac_zscratch *scratch, lac_mac_sums *sums) {
  int64_t words = step->trainer->common->words, distance;
  start_from(step, h, h, c, scratch);
  lac_best best = {.distance = 0};
  best.value = value_of(step, c, scratch, scratch->best, &distance);
  sums->nested += best.value;
  descend(step, c, scratch, &best);
  if (memcmp(code, h, (size_t)words * sizeof *code) != 0) {
    start_from(step, code, h, c, scratch);
    descend(step, c, scratch, &best);
  }
  if (step->relax) {
    truncate_relaxed(step, clipped, h, c, scratch);
    descend(step, c, scratch, &best);
  }
  memcpy(code, scratch->best, (size_t)words * sizeof *code);
  sums->penalised += best.value;
  sums->disagreements += best.distance;
}

/* ---- a block of points ---- */

static void optimise_with_flips(const lac_zstep *step, int64_t first, int64_t n, const float *margins, const float *c,
                                lac_zscratch *scratch, lac_mac_sums *sums) {
  int64_t bits = step->flips.bits, words = step->trainer->common->words, bytes = (bits + 7) / 8;
  uint64_t *codes = step->trainer->codes + first * words;
  for (int64_t i = 0; i < n; i++) {
    uint8_t *packed = scratch->packed + i * bytes;
    (void)step->sign(margins + i * step->stride, step->bias, bytes, packed);
    lac_words_of(packed, bytes, scratch->h + i * words);
  }
  lac_validation_take(step->trainer->validation, first, n, scratch->packed);
  if (step->relax) {
    relax_block(step, n, c, scratch->h, scratch);
  }
  for (int64_t i = 0; i < n; i++) {
    optimise_point(step, c + i * step->stride, scratch->clipped + i * bits, scratch->h + i * words, codes + i * words,
                   scratch, sums);
  }
}

/* A code in the model's order of bits. */
static uint16_t in_order(const lac_zstep *step, uint32_t code) {
  return step->codes[0][code & 255] | step->codes[1][code >> 8];
}

static void optimise_exactly(const lac_zstep *step, int64_t first, int64_t n, const float *margins, const float *c,
                             lac_zscratch *scratch, lac_mac_sums *sums) {
  uint64_t *codes = step->trainer->codes + first; /* of one word each */
  uint32_t h[LAC_BLOCK] = {0};
  lac_exact_point points[LAC_BLOCK];
  int64_t bytes = (step->flips.bits + 7) / 8;
  for (int64_t i = 0; i < n; i++) {
    uint8_t packed[2] = {0};
    (void)step->sign(margins + i * step->stride, step->bias, bytes, packed);
    h[i] = packed[0] | (uint32_t)packed[1] << 8;
    uint16_t code = in_order(step, h[i]);
    for (int64_t byte = 0; byte < bytes; byte++) {
      scratch->packed[i * bytes + byte] = (uint8_t)(code >> 8 * byte);
    }
  }
  lac_validation_take(step->trainer->validation, first, n, scratch->packed);
  step->exact_kernels->points(step->exact, n, c, step->stride, h, points);
  for (int64_t i = 0; i < n; i++) {
    uint32_t z = points[i].z;
    codes[i] = in_order(step, z);
    sums->nested += (double)points[i].nested;
    sums->penalised += (double)points[i].value;
    sums->disagreements += __builtin_popcount(z ^ h[i]);
  }
}

static lac_status optimise_block(void *argument, lac_context *context, int64_t block, lac_zscratch *scratch) {
  lac_zstep *step = argument;
  lac_trainer *trainer = step->trainer;
  int64_t first = block * LAC_BLOCK;
  int64_t n = trainer->x.count - first < LAC_BLOCK ? trainer->x.count - first : LAC_BLOCK;
  float *c = scratch->product + (step->decoder ? LAC_BLOCK : 1) * step->width;
  LAC_TRY(lac_rows_read(context, &trainer->x, first, n, scratch->x));
  if (step->decoder) {
    LAC_TRY(lac_rows_read(context, &trainer->input, first, n, scratch->input));
    lac_factor_product(step->encoder, scratch->input, n, scratch->product);
    lac_factor_product(step->decoder, scratch->x, n, c);
  } else {
    lac_factor_product(step->encoder, scratch->x, n, scratch->product);
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t l = 0; l < step->width; l++) {
      c[i * step->stride + l] -= step->shift[l];
    }
  }
  if (step->exact) {
    optimise_exactly(step, first, n, scratch->product, c, scratch, &step->sums[block]);
  } else {
    optimise_with_flips(step, first, n, scratch->product, c, scratch, &step->sums[block]);
  }
  step->sums[block].points = n;
  return lac_context_interrupted(context) ? lac_fail(context, LAC_E_INTERRUPTED, "interrupted in a Z step") : LAC_OK;
}

/* Threads take runs of blocks. */
enum { LAC_BLOCKS_PER_RUN = 32 };

static lac_status optimise_run(void *argument, lac_context *context, int64_t run, int thread) {
  lac_zstep *step = argument;
  int64_t blocks = (step->trainer->x.count + LAC_BLOCK - 1) / LAC_BLOCK;
  int64_t end = (run + 1) * LAC_BLOCKS_PER_RUN;
  for (int64_t block = run * LAC_BLOCKS_PER_RUN; block < blocks && block < end; block++) {
    const lac_trainer *trainer = step->trainer;
    if (lac_subsample_takes(trainer, trainer->subsample, block) &&
        (step->leave == 0 || !lac_subsample_takes(trainer, step->leave, block))) {
      LAC_TRY(optimise_block(step, context, block, &step->scratch[thread]));
    }
  }
  return LAC_OK;
}

/* Sum of |x - a|^2 over the points, from sums that are there already: what the objectives of the points leave out. */
static double squared_offsets(const lac_trainer *trainer) {
  const lac_training *common = trainer->common;
  int64_t bits = common->bits, head = bits + 1;
  const double *ones = trainer->local + bits * (head + common->columns);
  const double *sum = ones + head; /* of x */
  const float *offset = trainer->model.decoder + bits * trainer->x.padded;
  double total = trainer->square, points = ones[bits];
  for (int64_t c = 0; c < common->columns; c++) {
    double a = (double)offset[c];
    total += a * (points * a - 2 * sum[c]);
  }
  return total;
}

/* The points of all blocks that take part, but for those of a subsample of one in `leave`; sums without squared
 * offsets. */
static lac_status optimise(lac_trainer *trainer, lac_context *context, double mu, int64_t leave, lac_mac_sums *sums) {
  double start = lac_seconds();
  int64_t blocks = (trainer->x.count + LAC_BLOCK - 1) / LAC_BLOCK,
          runs = (blocks + LAC_BLOCKS_PER_RUN - 1) / LAC_BLOCKS_PER_RUN;
  lac_zstep step = {.trainer = trainer, .mu = mu, .leave = leave};
  lac_status status =
      zstep_create(context, &step, trainer->common->bits > LAC_EXACT_BITS && trainer->relaxed_starts > 0);
  *sums = (lac_mac_sums){0};
  if (!status) {
    status = LAC_NEW(context, blocks, &step.sums);
  }
  if (!status) {
    status = lac_parallel(context, trainer->common->options->threads, runs, optimise_run, &step);
  }
  for (int64_t block = 0; !status && block < blocks; block++) {
    sums->penalised += step.sums[block].penalised;
    sums->nested += step.sums[block].nested;
    sums->disagreements += step.sums[block].disagreements;
    sums->points += step.sums[block].points;
  }
  zstep_clear(&step);
  lac_profile_add(context, "z codes", lac_seconds() - start, 0, 0,
                  4.0 * (double)(sums->points * trainer->common->columns * trainer->common->bits));
  return status;
}

lac_status lac_z_step(void *shard, lac_context *context, double mu, lac_mac_sums *sums) {
  lac_trainer *trainer = shard;
  LAC_TRY(optimise(trainer, context, mu, 0, sums));
  if (trainer->relaxed_starts > 0) {
    trainer->relaxed_starts--;
  }
  double offset = squared_offsets(trainer);
  sums->penalised += offset;
  sums->nested += offset;
  lac_validation_set_taken(trainer->validation, true);
  return LAC_OK;
}

lac_status lac_z_widen(void *shard, lac_context *context, double mu) {
  lac_trainer *trainer = shard;
  lac_mac_sums sums;
  int64_t before = trainer->subsample;
  trainer->subsample = 1;
  return optimise(trainer, context, mu, before, &sums);
}
