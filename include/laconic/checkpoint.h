/* Checkpoints: the state of all replicas of a run between two outer steps, in one safetensors file, from which the run
 * goes on bit for bit. docs/model-format.md describes the file. */
#ifndef LACONIC_CHECKPOINT_H
#define LACONIC_CHECKPOINT_H

#include "laconic/replica.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- writing ---- */

/* Writes checkpoints to one path, by a thread of its own while the training goes on. */
typedef struct lac_checkpoint_writer lac_checkpoint_writer;

/* `model` is a text that says what the parameters mean, a network's description say: a checkpoint is read only for the
 * same. Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_checkpoint_writer_create(lac_context *context, const char *path, const char *model,
                                                             lac_checkpoint_writer **writer);
/* Waits; destroys and nulls; takes NULL. Local. */
LAC_API void lac_checkpoint_writer_destroy(lac_checkpoint_writer **writer);

/* The state of all replicas, brought to worker 0. */
typedef struct lac_checkpoint lac_checkpoint;

/* Gathers: each worker but 0 sends its vectors and counters there, as one message of control traffic. *checkpoint is
 * NULL on the others. Collective. Errors: MEMORY, PEER, TIMEOUT, INTERRUPTED. */
LAC_API LAC_MUST_USE lac_status lac_checkpoint_gather(lac_context *context, lac_world *world, lac_replica *replica,
                                                      lac_checkpoint **checkpoint);
/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_checkpoint_destroy(lac_checkpoint **checkpoint);

/* Begins to write; takes the checkpoint over and nulls it, also on failure. `totals` is a text of the caller's that is
 * stored with it. The checkpoint before it is on disk when this returns, and its failure is this call's. Errors:
 * OUTPUT, IO, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_checkpoint_writer_put(lac_context *context, lac_checkpoint_writer *writer,
                                                          lac_checkpoint **checkpoint, const char *totals);
/* Waits until the last checkpoint is on disk. Errors: as put. Local. */
LAC_API LAC_MUST_USE lac_status lac_checkpoint_writer_wait(lac_context *context, lac_checkpoint_writer *writer);

/* ---- reading ---- */

typedef struct lac_checkpoint_file lac_checkpoint_file;

/* Errors: INPUT (no checkpoint, a damaged one, or one of another model or number of parameters), MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_checkpoint_open(lac_context *context, const char *path, const char *model,
                                                    int64_t parameters, lac_checkpoint_file **file);
/* Closes and nulls; takes NULL. Local. */
LAC_API void lac_checkpoint_close(lac_checkpoint_file **file);

/* Local. */
LAC_API int lac_checkpoint_replicas(const lac_checkpoint_file *file);
LAC_API const char *lac_checkpoint_totals(const lac_checkpoint_file *file); /* borrowed */

/* Puts replica `rank` of `workers` where its namesake stood, or, when there were other than `workers`, at the means of
 * all stored vectors, with the counters of the first and sums of loss that begin anew. Errors: INPUT for vectors that
 * are missing (the run had other options) or not finite, IO. Collective. */
LAC_API LAC_MUST_USE lac_status lac_checkpoint_restore(lac_context *context, const lac_checkpoint_file *file, int rank,
                                                       int workers, lac_replica *replica);

#ifdef __cplusplus
}
#endif

#endif
