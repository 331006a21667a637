/* The first model: statistics of the data, PCA, ITQ, random projections; and the preconditioner of the encoders'
 * gradients. */
#ifndef LACONIC_HASH_START_H
#define LACONIC_HASH_START_H

#include "hash/sample.h"
#include "hash/trainer.h"

/* Statistics over all shards, in units of the data. */
typedef struct lac_statistics {
  int64_t points, constant; /* constant: columns with one value only */
  double low, high;         /* range of all values */
  double variance;          /* mean of |x - mean|^2 */
  double *mean;             /* (D), owned */
} lac_statistics;

/* One pass over the data. Errors: INPUT for a value that is not finite (file, row, column). Collective. */
LAC_MUST_USE lac_status lac_statistics_create(lac_context *context, const lac_team *team,
                                              const lac_dataset *const *data, int64_t threads,
                                              lac_statistics *statistics);

/* A shard's part of a sample. Bytes in memory stay where they are, others are copied once. */
typedef struct lac_start_shard {
  int64_t count;
  lac_rows rows;     /* the shard's, or the copy's */
  int64_t *numbers;  /* (count): which of them; NULL: all */
  lac_row_copy copy; /* empty where there are numbers */
} lac_start_shard;

/* Sample of the rows of the shards here, in the units of the data until they are worked on. */
typedef struct lac_start_sample {
  int64_t total;           /* over all shards */
  lac_start_shard *shards; /* by shard here */
  float *block;            /* (LAC_SAMPLE_BLOCK, padded), scratch */
} lac_start_sample;

/* Draws about `total` rows, shared over shards in proportion to their sizes; the rows are borrowed. Collective. */
LAC_MUST_USE lac_status lac_start_sample_create(lac_context *context, const lac_team *team, const lac_rows *const *rows,
                                                int64_t seed, int64_t total, lac_start_sample *sample);
void lac_start_sample_clear(const lac_team *team, lac_start_sample *sample);

enum { LAC_SAMPLE_BLOCK = 512 };

/* Works on n <= LAC_SAMPLE_BLOCK rows as floats in training units, x (n, padded): the shard's from `first` on. */
typedef lac_status (*lac_sample_work)(void *self, lac_context *context, int64_t first, int64_t n, const float *x);

/* Hands a shard's sample over, block by block. Errors: those of reading and of the work. Local. */
LAC_MUST_USE lac_status lac_start_blocks(lac_context *context, const lac_start_sample *sample, int shard,
                                         lac_sample_work work, void *self);

/* How many rows of the sample equal another row of the same shard's sample, over all shards. Collective. */
LAC_MUST_USE lac_status lac_start_duplicates(lac_context *context, const lac_team *team, const lac_start_sample *sample,
                                             int64_t *duplicates);

/* Largest eigenvalues (count) and eigenvectors (count, padded) of the sample's second moments about zero (the rows are
 * centred), and the trace. Found on shard 0 and sent to the others, so that all have the same bits. Collective. */
LAC_MUST_USE lac_status lac_start_pca(lac_context *context, const lac_team *team, const lac_start_sample *sample,
                                      int64_t columns, int64_t count, double *values, float *vectors, double *trace);

/* Iterative quantisation: turns the projections weight (L, padded) so that the sample's projections are near +-1 up to
 * a factor. B = sign(V R), then S W T' = svd(B' V), R = T S' (Gong and Lazebnik 2011). It is done `attempts` times, in
 * step, from random rotations that are keyed by (seed, attempt): weight has room for (attempts, L, padded), holds the
 * projections first, and in the end what each attempt made of them. Collective. */
LAC_MUST_USE lac_status lac_start_itq(lac_context *context, const lac_team *team, const lac_start_sample *sample,
                                      int64_t padded, int64_t bits, int64_t seed, int64_t attempts, float *weight);

/* Rows of independent normal numbers: locality-sensitive hashing. The same on all shards. Local. */
void lac_start_random(int64_t columns, int64_t bits, int64_t seed, float *weight);

/* Scales each row of weight (L, padded) so that the mean of |w x| over the sample is 1: the margin of a support vector
 * machine. Collective. */
LAC_MUST_USE lac_status lac_start_scale(lac_context *context, const lac_team *team, const lac_start_sample *sample,
                                        int64_t padded, int64_t bits, float *weight);

/* `bytes` of shard 0's process to all. Collective. */
LAC_MUST_USE lac_status lac_team_share(const lac_team *team, void *data, size_t bytes);

#endif
