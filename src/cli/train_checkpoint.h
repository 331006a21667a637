/* Checkpoints: the state of all replicas between two outer steps, in one safetensors file.
 *
 * Tensors "R.NAME" (n), F32, for replica R and each vector NAME of lac_replica_state_of. Metadata laconic.kind =
 * checkpoint, laconic.version, .replicas, .parameters, .step, .gradients, .pending, .layers (the network's description)
 * and .totals, a JSON object of the command's own. docs/model-format.md describes the file. */
#ifndef LACONIC_CLI_TRAIN_CHECKPOINT_H
#define LACONIC_CLI_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "cli/train.h"

/* A state on its way to a file; on worker 0 alone. */
typedef struct lac_checkpoint {
  int replicas, count; /* vectors of each replica */
  int64_t parameters, step, gradients;
  bool pending;
  const char *names[LAC_REPLICA_VECTORS];
  float *values; /* (replicas, count, parameters) */
} lac_checkpoint;

/* Brings the vectors of all replicas to worker 0, as control messages. Collective. Errors: MEMORY, those of messages.
 */
LAC_MUST_USE lac_status lac_checkpoint_gather(lac_context *context, lac_world *world, lac_replica *replica,
                                              int64_t parameters, lac_checkpoint *checkpoint);
void lac_checkpoint_clear(lac_checkpoint *checkpoint);

/* Errors: OUTPUT, IO, MEMORY. */
LAC_MUST_USE lac_status lac_checkpoint_write(lac_context *context, const char *path, const lac_checkpoint *checkpoint,
                                             const char *layers, const char *totals);

/* The same by a thread of its own: takes the checkpoint over. One at a time: the last one is waited for first, and its
 * failure returned. */
typedef struct lac_checkpoint_writer lac_checkpoint_writer;
LAC_MUST_USE lac_status lac_checkpoint_writer_create(lac_context *context, const char *path, const char *layers,
                                                     lac_checkpoint_writer **writer);
LAC_MUST_USE lac_status lac_checkpoint_writer_put(lac_context *context, lac_checkpoint_writer *writer,
                                                  lac_checkpoint *checkpoint, const char *totals);
LAC_MUST_USE lac_status lac_checkpoint_writer_wait(lac_context *context, lac_checkpoint_writer *writer);
/* Waits; destroys and nulls; takes NULL. */
void lac_checkpoint_writer_destroy(lac_checkpoint_writer **writer);

/* A checkpoint to go on from. */
typedef struct lac_checkpoint_file {
  lac_tensors *tensors;
  const char *path; /* borrowed */
  int replicas;
  int64_t parameters, step, gradients;
  bool pending;
  json_t *totals;
} lac_checkpoint_file;

/* Errors: INPUT: no checkpoint, a damaged one, or one of another network than `layers`, which has that many parameters.
 */
LAC_MUST_USE lac_status lac_checkpoint_open(lac_context *context, const char *path, const char *layers,
                                            int64_t parameters, lac_checkpoint_file *file);
void lac_checkpoint_close(lac_checkpoint_file *file);

/* Puts a replica where its namesake stood; with another number of workers every replica starts at the means of the
 * stored vectors. Errors: INPUT for vectors that are missing or not finite, IO. Collective. */
LAC_MUST_USE lac_status lac_checkpoint_restore(lac_context *context, const lac_checkpoint_file *file, int rank,
                                               int workers, lac_replica *replica);

#endif
