/* One worker's side of training a hash model: its shard of the data, the coordinates Z, its copy of the model, and the
 * operations that the MAC engine calls. All vectors are in *training units*: x' = scale x + shift, scaled to [0, 1] by
 * one global range and centred, so that mu means the same for every data set.
 *
 * Files: rows.c reads blocks, start.c has principal components and ITQ, begin.c makes the first model of them,
 * features.c the inputs of RBF encoders, wstep.c trains encoders and gathers the decoder's sums, zstep.c and
 * enumerate*.c optimise the coordinates, codes.c encodes, validate.c measures precision, train.c puts it together
 * (run.h). */
#ifndef LACONIC_HASH_TRAINER_H
#define LACONIC_HASH_TRAINER_H

#include "hash/model.h"
#include "laconic/mac.h"
#include "math/linear.h"

enum {
  LAC_BLOCK = 128, /* rows that are worked on together; a multiple of LAC_CHUNK */
  LAC_CHUNK = 16,  /* adjacent rows that stay together when the order of the data is redrawn */
};

/* A view of rows as centred, scaled floats. */
typedef struct lac_rows {
  const lac_dataset *data;
  const uint8_t *bytes; /* NULL unless the rows are bytes in memory */
  size_t stride;
  int64_t count, columns, padded; /* padded: columns rounded up to LAC_LANES */
  float scale;
  const float *shift; /* (padded), zero in the padding */
  const lac_linear_kernels *kernels;
} lac_rows;

/* out (count, padded) = rows [first, first + count), the padding zero. */
LAC_MUST_USE lac_status lac_rows_read(lac_context *context, const lac_rows *rows, int64_t first, int64_t count,
                                      float *out);

/* The same, and out (count, vectors) = their products with w (vectors, padded), vectors > 0: bit for bit what the
 * kernels' products give. */
LAC_MUST_USE lac_status lac_rows_products(lac_context *context, const lac_rows *rows, int64_t first, int64_t count,
                                          int64_t vectors, const float *w, float *x, float *out);

/* Says that these rows will be read soon: rows in a redrawn order are out of the processor's guesses. */
void lac_rows_ahead(const lac_rows *rows, int64_t first, int64_t count);

/* A preconditioner for gradients: P = I - E^T diag(1 - floor / lambda) E for the largest eigenvalues lambda of the
 * inputs' covariance. It shrinks the few directions of large variance to the variance of the first one left out. */
typedef struct lac_preconditioner {
  int64_t rank;
  const float *vectors; /* (rank, padded features) */
  const float *factors; /* (rank): 1 - floor / lambda */
  double floor, trace;  /* largest eigenvalue and trace of the covariance after preconditioning */
} lac_preconditioner;

/* What does not differ between shards; borrowed by every trainer of the process. */
typedef struct lac_training {
  const lac_hash_options *options;
  lac_team team;
  int64_t bits, words; /* L, and ceil(L / 64): words of a packed code */
  int64_t columns, features;
  double variance; /* total variance per point in training units */
  lac_preconditioner precondition;
} lac_training;

/* The model in training units: one piece of memory, so that encoder and decoder weights of equal width are one matrix.
 */
typedef struct lac_parameters {
  float *weight;  /* (L, padded features); owns the memory of all three */
  float *decoder; /* (L + 1, padded columns): row l is what bit l adds, the last row is the offset; follows weight */
  float *bias;    /* (L) */
} lac_parameters;

typedef struct lac_trainer {
  const lac_training *common;
  int64_t number; /* of the shard */
  lac_rows x;     /* decoder targets */
  lac_rows input; /* encoder inputs: x itself, or RBF features as bytes */
  lac_parameters model, kept;
  uint64_t *codes, *kept_codes; /* Z (rows, words) */
  uint64_t *summed;             /* (rows, words): the codes that local holds the sums of, where it does */
  double *local, *sums;         /* (L + 1, L + 1 + columns): [Z 1]^T [Z 1 X] of this shard, and of all */
  double square;                /* sum of |x|^2 over the rows that local holds the sums of */
  int64_t subsample;            /* of so many blocks one takes part in the steps: lac_subsample_block(); 1: all do */
  int64_t summed_subsample;     /* the subsample that local holds the sums of; 0: of no block yet */
  int64_t *order;               /* chunks that take part, in the order of this iteration */
  int64_t chunks;               /* how many they are */
  int64_t relaxed_starts;       /* Z steps that still make a relaxed start */
  struct lac_validation *validation;
} lac_trainer;

/* Of `rows` rows, those in a subsample of one in `subsample` blocks. */
static inline int64_t lac_subsample_rows(int64_t rows, int64_t subsample) {
  int64_t blocks = (rows + LAC_BLOCK - 1) / LAC_BLOCK, taken = (blocks + subsample - 1) / subsample;
  int64_t missing = blocks > 0 && (blocks - 1) % subsample == 0 ? blocks * LAC_BLOCK - rows : 0;
  return taken * LAC_BLOCK - missing;
}

/* The block of the shard that takes part for the group-th `subsample` neighbouring ones: one at random, by seed and
 * shard, so that no order of the data, sorted or periodic, is sampled one-sidedly. Of the last group it is the first,
 * so that how many rows take part depends on their number alone. */
int64_t lac_subsample_block(const lac_trainer *trainer, int64_t subsample, int64_t group);

static inline bool lac_subsample_takes(const lac_trainer *trainer, int64_t subsample, int64_t block) {
  return block == lac_subsample_block(trainer, subsample, block / subsample);
}

/* The number of the i-th row that takes part: the same for units of rows that a block has `unit` of. */
static inline int64_t lac_subsample_at(const lac_trainer *trainer, int64_t i, int64_t unit) {
  return lac_subsample_block(trainer, trainer->subsample, i / unit) * unit + i % unit;
}

/* The subsample that a run over so many points begins with, 1 where it begins with all. */
int64_t lac_subsample(const lac_hash_options *options, int64_t points, int64_t columns);

/* What options and the number of columns must satisfy together. Errors: USAGE, INPUT. */
LAC_MUST_USE lac_status lac_hash_options_check(lac_context *context, const lac_hash_options *options, int64_t columns);

/* Rows, over all shards, that the start is found from, for inputs of that many columns. */
int64_t lac_start_rows(const lac_hash_options *options, int64_t columns);

/* Validation queries, over all shards. */
int64_t lac_validation_queries(const lac_hash_options *options, int64_t points);

/* Allocates a shard's parts that the model and the rows do not own. x and input are set already. */
LAC_MUST_USE lac_status lac_trainer_create(lac_context *context, const lac_training *common, int64_t number,
                                           lac_trainer *trainer);
void lac_trainer_clear(lac_trainer *trainer);

/* The problem for lac_mac_run: M = 2 L submodels. Submodel 2 l is encoder l: weights and bias, trained by stochastic
 * gradient descent. Submodel 2 g + 1 is group g of the decoder: a share of the columns of [Z 1]^T [Z 1 X], summed on
 * its first lap. They alternate because the ring starts each worker with a contiguous block of submodels, and an
 * encoder costs a pass over the data where a group costs next to nothing: every worker begins with its share of both.
 */
lac_mac_problem lac_hash_problem(int64_t bits, bool validate, bool widen);

static inline bool lac_is_encoder(int64_t m) {
  return m % 2 == 0;
}

/* Columns [first, last) of [Z 1 X] whose sums travel with decoder group g of L. */
void lac_decoder_group(int64_t bits, int64_t columns, int64_t g, int64_t *first, int64_t *last);

/* Brings the shard's own sums up to date with the codes of the rows that take part. */
LAC_MUST_USE lac_status lac_sums_update(lac_context *context, lac_trainer *trainer);

/* The least-squares decoder from the sums over all shards, into decoder (L + 1, padded columns); *explained is what it
 * takes off the sum of |x|^2. A bit that is the same at all points gets the smallest weights that fit. */
LAC_MUST_USE lac_status lac_decoder_solve(lac_context *context, const lac_training *common, const double *sums,
                                          float *decoder, double *explained);

/* Codes under the current encoder, h(x), of the shard's rows that take part: codes (rows, words). */
LAC_MUST_USE lac_status lac_trainer_encode(lac_context *context, lac_trainer *trainer, uint64_t *codes);

/* Bytes of submodel m while it travels, without its envelope. */
size_t lac_submodel_bytes(int64_t bits, int64_t columns, int64_t features, int64_t m);

/* MAC operations, by file; see lac_mac_problem. `shard` is a lac_trainer. */
size_t lac_w_bytes(const void *shard, int64_t m);
LAC_MUST_USE lac_status lac_w_begin(void *shard, lac_context *context, int64_t iteration);
LAC_MUST_USE lac_status lac_w_pack(void *shard, lac_context *context, int64_t m, void *state);
LAC_MUST_USE lac_status lac_w_train(void *shard, lac_context *context, int64_t count, const int64_t *ids,
                                    const int64_t *visits, int64_t passes, void *const *states);
LAC_MUST_USE lac_status lac_w_unpack(void *shard, lac_context *context, int64_t m, const void *state);
LAC_MUST_USE lac_status lac_w_end(void *shard, lac_context *context);
LAC_MUST_USE lac_status lac_z_step(void *shard, lac_context *context, double mu, lac_mac_sums *sums);
LAC_MUST_USE lac_status lac_z_widen(void *shard, lac_context *context, double mu);
LAC_MUST_USE lac_status lac_validate(void *shard, lac_context *context, double *sum, double *weight);

/* lac_validate for `count` linear encoders without bias in place of the trainer's, weights (count, L, padded D), by one
 * reading of the rows: results (count) of sum and weight each. */
LAC_MUST_USE lac_status lac_validate_starts(lac_trainer *trainer, lac_context *context, int64_t count,
                                            const float *weights, double (*results)[2]);

/* Validation within a shard: queries and a base sample of its own, from the rows that take part, so that no data
 * travel. */
LAC_MUST_USE lac_status lac_validation_create(lac_context *context, lac_trainer *trainer, int64_t queries, int64_t base,
                                              int64_t k);
/* Takes h(x) of rows [first, first + n), packed codes `bytes` long each, from a Z step, which finds them anyway: where
 * validation uses one of them. For several threads at once, of different rows. Takes NULL. */
void lac_validation_take(struct lac_validation *validation, int64_t first, int64_t n, const uint8_t *codes);
/* Whether all codes have been taken under the current encoder, so that lac_validate needs none of its own. Takes NULL.
 */
void lac_validation_set_taken(struct lac_validation *validation, bool taken);
void lac_validation_destroy(struct lac_validation *validation);

#endif
