/* Which worker a submodel visits when, in one W step: known to every worker from the seed alone. */
#ifndef LACONIC_MAC_PATH_H
#define LACONIC_MAC_PATH_H

#include "laconic/mac.h"

/* Visits are numbered from 0: `training` visits with training, each run of P of them one epoch, then P - 1 that hand
 * out the final copy. In epoch k a submodel goes to the successor in ring k of where it stands; the last lap goes on
 * around the last ring. So every epoch visits each worker once, and never the same one twice in a row when P > 1. */
typedef struct lac_path {
  int64_t submodels; /* M */
  int workers;       /* P */
  int64_t rings;
  int64_t training, visits;
  int *successor; /* (rings, P) */
} lac_path;

/* Draws the rings of a W step from (seed, iteration, epoch). Errors: MEMORY. */
LAC_MUST_USE lac_status lac_path_create(lac_context *context, const lac_mac_options *options, int64_t submodels,
                                        int workers, int64_t iteration, lac_path *path);
void lac_path_destroy(lac_path *path);

/* Submodels start in contiguous blocks, as even as can be: [first, first + count) at this worker. */
int64_t lac_path_first(const lac_path *path, int worker);
int lac_path_start(const lac_path *path, int64_t submodel);

/* The worker of visit + 1, for a submodel whose visit `visit` is at `worker`; -1 after the last. */
int lac_path_next(const lac_path *path, int worker, int64_t visit);

#endif
