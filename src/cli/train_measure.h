/* What is measured at the end of an epoch, the work shared by the workers. */
#ifndef LACONIC_CLI_TRAIN_MEASURE_H
#define LACONIC_CLI_TRAIN_MEASURE_H

#include "cli/train_set.h"

/* Batch-norm statistics of the network at `parameters`: the mean over batches 0 to count - 1 of `plain`, which worker r
 * of P takes r, r + P, … of, dropout off. statistics (lac_net_statistics), the same bits on all workers; world NULL:
 * this worker alone. Collective. */
LAC_MUST_USE lac_status lac_measure_statistics(lac_context *context, lac_world *world, lac_net *net, lac_batches *plain,
                                               int64_t count, const float *parameters, float *statistics);

typedef struct lac_measured {
  double error, loss; /* fraction of wrong pictures, mean cross-entropy; NaN for a part that is not there */
} lac_measured;

/* Of one part of the data: worker r of P takes its contiguous share; world NULL: this worker takes all. Collective. */
LAC_MUST_USE lac_status lac_measure_part(lac_context *context, lac_world *world, lac_net *net, const float *parameters,
                                         const float *statistics, const lac_train_part *part, lac_measured *measured);

#endif
