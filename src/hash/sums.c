/* The decoder's sums [Z 1]^T [Z 1 X] of a shard, and the least-squares decoder from the sums of all shards.
 *
 * Why sums and not stochastic gradients: one lap gives the exact fit, a stochastic fit of the same size needs several
 * laps and is never exact. And a Z step changes few bits, so that the sums are brought up to date from the bits that
 * changed: a pass of 2 L D flop per point becomes one of a few additions of a row. Rows that have joined a subsample
 * are added whole, once. */
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "hash/trainer.h"
#include "math/blas.h"

enum { LAC_SUMS_ROWS = 65536 }; /* rows whose sums are gathered apart, and added in order afterwards */

typedef struct lac_gather {
  lac_trainer *trainer;
  double *runs; /* (runs, L + 1, L + 1 + D), and behind each the sum of |x|^2 of rows not summed before */
  int64_t size; /* of one of them */
} lac_gather;

/* Adds [Z 1]^T [Z 1] of n <= LAC_BLOCK rows, by counting rows with both bits set. set is scratch (L + 1) of masks. */
typedef struct lac_mask {
  uint64_t word[LAC_BLOCK / 64];
} lac_mask;

static void add_pairs(const lac_training *common, const uint64_t *codes, int64_t n, lac_mask *set, double *sums) {
  int64_t bits = common->bits, stride = bits + 1 + common->columns;
  memset(set, 0, (size_t)(bits + 1) * sizeof *set);
  for (int64_t i = 0; i < n; i++) {
    uint64_t mark = UINT64_C(1) << (i % 64);
    for (int64_t word = 0; word < common->words; word++) {
      for (uint64_t rest = codes[i * common->words + word]; rest; rest &= rest - 1) {
        set[word * 64 + __builtin_ctzll(rest)].word[i / 64] |= mark;
      }
    }
    set[bits].word[i / 64] |= mark;
  }
  for (int64_t l = 0; l <= bits; l++) {
    for (int64_t k = l; k <= bits; k++) {
      int both = 0;
      for (int word = 0; word < LAC_BLOCK / 64; word++) {
        both += __builtin_popcountll(set[l].word[word] & set[k].word[word]);
      }
      sums[l * stride + k] += both;
    }
  }
}

/* Sum of |x|^2 over n rows. */
static double squares(const float *x, int64_t n, int64_t padded) {
  double total = 0;
  for (int64_t i = 0; i < n; i++) {
    float lanes[LAC_LANES] = {0};
    for (int64_t k = 0; k < padded; k += LAC_LANES) {
      for (int64_t lane = 0; lane < LAC_LANES; lane++) {
        lanes[lane] += x[i * padded + k + lane] * x[i * padded + k + lane];
      }
    }
    for (int64_t lane = 0; lane < LAC_LANES; lane++) {
      total += (double)lanes[lane];
    }
  }
  return total;
}

/* Adds [Z 1]^T X of n rows as one product. bits (n, L + 1) and product (L + 1, padded) are scratch. */
static void add_products(const lac_trainer *trainer, int64_t first, int64_t n, const float *x, float *bits,
                         float *product, double *sums) {
  const lac_training *common = trainer->common;
  int64_t head = common->bits + 1, padded = trainer->x.padded, stride = head + common->columns;
  for (int64_t i = 0; i < n; i++) {
    const uint64_t *code = trainer->codes + (first + i) * common->words;
    for (int64_t l = 0; l < common->bits; l++) {
      bits[i * head + l] = (float)(code[l / 64] >> (l % 64) & 1);
    }
    bits[i * head + common->bits] = 1;
  }
  lac_sgemm(true, false, head, padded, n, 1, bits, head, x, padded, 0, product, padded);
  for (int64_t l = 0; l < head; l++) {
    for (int64_t c = 0; c < common->columns; c++) {
      sums[l * stride + head + c] += (double)product[l * padded + c];
    }
  }
}

/* Adds what the bits of row i that differ from the codes summed last change in [Z 1]^T X. */
static void add_changes(const lac_training *common, const lac_linear_kernels *kernels, const uint64_t *code,
                        const uint64_t *before, const float *x, double *sums) {
  int64_t head = common->bits + 1, stride = head + common->columns;
  for (int64_t word = 0; word < common->words; word++) {
    for (uint64_t rest = code[word] ^ before[word]; rest; rest &= rest - 1) {
      int bit = __builtin_ctzll(rest);
      kernels->add(common->columns, code[word] >> bit & 1 ? 1 : -1, x, sums + (word * 64 + bit) * stride + head);
    }
  }
}

static lac_status gather_run(void *argument, lac_context *context, int64_t run, int thread) {
  (void)thread;
  const lac_gather *gather = argument;
  lac_trainer *trainer = gather->trainer;
  const lac_training *common = trainer->common;
  int64_t padded = trainer->x.padded, head = common->bits + 1, words = common->words;
  double *sums = gather->runs + run * (gather->size + 1);
  float *x = NULL, *bits = NULL, *product = NULL;
  lac_mask *set = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * padded, &x), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * head, &bits), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, head * padded, &product), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, head, &set), done);
  int64_t end = (run + 1) * LAC_SUMS_ROWS < trainer->x.count ? (run + 1) * LAC_SUMS_ROWS : trainer->x.count;
  for (int64_t first = run * LAC_SUMS_ROWS; first < end; first += LAC_BLOCK) {
    int64_t n = end - first < LAC_BLOCK ? end - first : LAC_BLOCK, block = first / LAC_BLOCK;
    if (!lac_subsample_takes(trainer, trainer->subsample, block)) {
      continue;
    }
    add_pairs(common, trainer->codes + first * words, n, set, sums);
    if (trainer->summed_subsample == 0 || !lac_subsample_takes(trainer, trainer->summed_subsample, block)) {
      LAC_TRY_GOTO(status, lac_rows_read(context, &trainer->x, first, n, x), done);
      add_products(trainer, first, n, x, bits, product, sums);
      sums[gather->size] += squares(x, n, padded);
      continue;
    }
    for (int64_t i = first; i < first + n; i++) {
      const uint64_t *code = trainer->codes + i * words, *before = trainer->summed + i * words;
      if (memcmp(code, before, (size_t)words * sizeof *code) != 0) {
        LAC_TRY_GOTO(status, lac_rows_read(context, &trainer->x, i, 1, x), done);
        add_changes(common, trainer->x.kernels, code, before, x, sums);
      }
    }
  }
done:
  lac_free(x);
  lac_free(bits);
  lac_free(product);
  lac_free(set);
  return status;
}

lac_status lac_sums_update(lac_context *context, lac_trainer *trainer) {
  const lac_training *common = trainer->common;
  int64_t head = common->bits + 1, stride = head + common->columns;
  int64_t runs = (trainer->x.count + LAC_SUMS_ROWS - 1) / LAC_SUMS_ROWS;
  double start = lac_seconds();
  lac_gather gather = {.trainer = trainer, .size = head * stride};
  LAC_TRY(LAC_NEW(context, runs * (gather.size + 1), &gather.runs));
  lac_status status = lac_parallel(context, common->options->threads, runs, gather_run, &gather);
  if (!status) {
    for (int64_t l = 0; l < head; l++) {
      memset(trainer->local + l * stride, 0, (size_t)head * sizeof *trainer->local); /* pairs are counted anew */
    }
    for (int64_t run = 0; run < runs; run++) {
      const double *sums = gather.runs + run * (gather.size + 1);
      for (int64_t i = 0; i < gather.size; i++) {
        trainer->local[i] += sums[i];
      }
      trainer->square += sums[gather.size];
    }
    for (int64_t l = 0; l < head; l++) {
      for (int64_t k = 0; k < l; k++) {
        trainer->local[l * stride + k] = trainer->local[k * stride + l];
      }
    }
    memcpy(trainer->summed, trainer->codes, (size_t)(trainer->x.count * common->words) * sizeof *trainer->summed);
    trainer->summed_subsample = trainer->subsample;
  }
  lac_free(gather.runs);
  lac_profile_add(context, "w sums", lac_seconds() - start, 0, 0, 0);
  return status;
}

lac_status lac_decoder_solve(lac_context *context, const lac_training *common, const double *sums, float *decoder,
                             double *explained) {
  int64_t head = common->bits + 1, columns = common->columns, stride = head + columns, padded = lac_padded(columns);
  double *gram = NULL, *right = NULL, *square = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, head * head, &gram), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, head * columns, &right), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, head * head, &square), done);
  double points = sums[common->bits * stride + common->bits];
  for (int64_t l = 0; l < head; l++) {
    memcpy(gram + l * head, sums + l * stride, (size_t)head * sizeof *gram);
    memcpy(right + l * columns, sums + l * stride + head, (size_t)columns * sizeof *right);
    gram[l * head + l] += 1e-7 * points; /* a bit that never changes, or two equal bits */
  }
  LAC_TRY_GOTO(status, lac_solve_definite(context, head, gram, columns, right), done);
  lac_dgemm(false, true, head, head, columns, 1, right, columns, right, columns, 0, square, head);
  *explained = 0;
  for (int64_t l = 0; l < head; l++) {
    /* |X|^2 - |X - Z F|^2 = 2 <F, Z'X> - <F, Z'Z F> */
    for (int64_t c = 0; c < columns; c++) {
      *explained += 2 * right[l * columns + c] * sums[l * stride + head + c];
      decoder[l * padded + c] = (float)right[l * columns + c];
    }
    for (int64_t k = 0; k < head; k++) {
      *explained -= sums[l * stride + k] * square[l * head + k];
    }
  }
done:
  lac_free(gram);
  lac_free(right);
  lac_free(square);
  return status;
}
