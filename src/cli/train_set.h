/* The pictures of a training: read, split, prepared; once for all workers of the process. */
#ifndef LACONIC_CLI_TRAIN_SET_H
#define LACONIC_CLI_TRAIN_SET_H

#include "cli/train.h"

/* A part of the data as the network sees it. */
typedef struct lac_train_part {
  lac_images *images; /* NULL: there is none */
  float *pixels;      /* (N, C, H, W), prepared */
} lac_train_part;

typedef struct lac_train_set {
  lac_prepare *prepare;
  lac_train_part train, held_out, test;
  uint64_t fingerprint; /* of the training file's pictures and labels */
} lac_train_set;

/* Reads --data and --test, holds a part of the training set out, fits the preparation to the rest and applies it.
 * Errors: those of lac_images_open and lac_prepare_fit, USAGE. */
LAC_MUST_USE lac_status lac_train_set_open(lac_session *session, const lac_train_options *options, lac_train_set *set);
void lac_train_set_close(lac_train_set *set);

#endif
