/* A run of lac_hash_train, in parts: train.c drives it, features.c makes the RBF encoder's inputs, begin.c the first
 * model. What returns a status is collective. */
#ifndef LACONIC_HASH_RUN_H
#define LACONIC_HASH_RUN_H

#include "hash/start.h"
#include "hash/trainer.h"

/* A run of lac_hash_train. */
typedef struct lac_run {
  lac_context *context;
  const lac_hash_options *options;
  const lac_team *team;
  const lac_dataset *const *data;
  lac_training common;
  lac_statistics statistics;
  float scale, *shift;      /* x' = scale x + shift; (padded D) */
  lac_trainer *trainers;    /* (shards here) */
  float *vectors, *factors; /* of the preconditioner */
  float *centres;           /* (m, D) in units of the data */
  float *feature_shift;     /* (padded m) */
  double width;             /* s of the RBF */
  uint8_t **features;       /* by shard here: (rows, m) */
  lac_dataset **feature_data;
  lac_hash_progress_fn progress;
  void *user;
  double start;
} lac_run;

/* mu is given in units of the data's variance per bit: the same values then serve all data sets and lengths of codes.
 */
double lac_run_mu_unit(const lac_training *common);

/* Whether the start needs principal components: as many as bits. */
bool lac_run_needs_components(const lac_hash_options *options);

/* The rows of a dataset as scale x + shift; borrowed. */
lac_rows lac_run_rows(const lac_dataset *data, float scale, const float *shift);

/* Centres, features of all points, and their means; sets the trainers' inputs to them. */
LAC_MUST_USE lac_status lac_run_set_features(lac_run *run);

/* What is validated, the first model and the first codes. */
LAC_MUST_USE lac_status lac_run_begin(lac_run *run);

/* Sums over all shards for the current codes, and the decoder from them at every shard here. */
LAC_MUST_USE lac_status lac_run_fit_decoder(lac_run *run, double *explained);

#endif
