/* The first model: statistics of the data, PCA, ITQ, random projections; and the preconditioner of the encoders'
 * gradients. */
#ifndef LACONIC_HASH_START_H
#define LACONIC_HASH_START_H

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

/* Sample of the rows of the shards here, in training units: (count, padded) each. */
typedef struct lac_start_sample {
  int64_t total;   /* over all shards */
  int64_t *counts; /* by shard here */
  float **rows;    /* by shard here */
} lac_start_sample;

/* Draws about `total` rows, shared over shards in proportion to their sizes. Collective. */
LAC_MUST_USE lac_status lac_start_sample_create(lac_context *context, const lac_team *team, const lac_rows *const *rows,
                                                int64_t seed, int64_t total, lac_start_sample *sample);
void lac_start_sample_clear(const lac_team *team, lac_start_sample *sample);

/* How many rows of the sample equal another row of the same shard's sample, over all shards. Collective. */
LAC_MUST_USE lac_status lac_start_duplicates(lac_context *context, const lac_team *team, const lac_start_sample *sample,
                                             int64_t padded, int64_t *duplicates);

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
