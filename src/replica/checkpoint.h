/* What a checkpoint is in memory and in its file. */
#ifndef LACONIC_REPLICA_CHECKPOINT_H
#define LACONIC_REPLICA_CHECKPOINT_H

#include "laconic/checkpoint.h"
#include "laconic/tensors.h"

/* Where one replica stands, and its sums since the means were restarted. */
typedef struct lac_checkpoint_place {
  int64_t step, gradients, batches, errors, points;
  double loss;
} lac_checkpoint_place;

struct lac_checkpoint {
  int replicas, count; /* vectors of each replica */
  int64_t parameters, step, gradients;
  bool pending;
  const char *names[LAC_REPLICA_VECTORS];
  float *values;               /* (replicas, count, parameters) */
  lac_checkpoint_place *place; /* (replicas); the first is step and gradients */
};

struct lac_checkpoint_file {
  lac_tensors *tensors;
  int replicas;
  int64_t parameters, step, gradients;
  bool pending;
  /* Of each replica, with commas between them, borrowed. */
  const char *places; /* "STEP GRADIENTS"; NULL: all the same */
  const char *sums;   /* "BATCHES ERRORS POINTS LOSS", the loss as the 64 bits of a double in hexadecimal; NULL: none */
};

#define LAC_CHECKPOINT_KIND "checkpoint"
#define LAC_CHECKPOINT_VERSION "1"

/* Errors: OUTPUT, IO, MEMORY. */
LAC_MUST_USE lac_status lac_checkpoint_write(lac_context *context, const char *path, const lac_checkpoint *checkpoint,
                                             const char *model, const char *totals);

/* lac_checkpoint_open of a file that is open; takes *tensors over and nulls it, also on failure. */
LAC_MUST_USE lac_status lac_checkpoint_from_tensors(lac_context *context, lac_tensors **tensors, const char *model,
                                                    int64_t parameters, lac_checkpoint_file **file);

#endif
