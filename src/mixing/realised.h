/* Sampling of realised mixing times. */
#ifndef LACONIC_MIXING_REALISED_H
#define LACONIC_MIXING_REALISED_H

#include "laconic/mixing.h"
#include "mixing/process.h"

typedef struct lac_realised {
  double updates; /* events: of one worker, or rounds of all for synchronous protocols */
  double error;   /* its standard error */
  int64_t paths;
} lac_realised;

/* A process that mixes. (slots, workers) numbers in memory. Errors: INTERRUPTED, MEMORY. Local. */
LAC_MUST_USE lac_status lac_mixing_realised(lac_context *context, const lac_process *process,
                                            const lac_mixing_options *options, lac_realised *result);

#endif
