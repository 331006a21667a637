#include "base/memory.h"
#include "hash/trainer.h"
#include "laconic/plan.h"

lac_status lac_plan_hash_job(lac_context *context, const lac_hash_options *options, double points, int64_t columns,
                             const lac_hash_costs *costs, lac_ring_job *job) {
  LAC_TRY(lac_hash_options_check(context, options, columns));
  int64_t bits = options->bits, features = options->encoder == LAC_ENCODER_RBF ? options->centres : columns;
  double decoder = 0;
  for (int64_t m = 1; m < 2 * bits; m += 2) {
    decoder += (double)lac_submodel_bytes(bits, columns, features, m);
  }
  int64_t one_in = lac_subsample(options, (int64_t)points, columns), full = options->mac.full_iterations;
  *job = (lac_ring_job){.points = points,
                        .submodels = 2 * bits,
                        .epochs = options->mac.epochs,
                        .batch = options->mac.batch,
                        .iterations = options->mac.iterations,
                        .subsampled = one_in > 1 ? options->mac.iterations - full : 0,
                        .subsample = 1 / (double)one_in,
                        .granule = LAC_BLOCK,
                        .local_epochs = options->mac.local_epochs,
                        .bytes = {(double)lac_submodel_bytes(bits, columns, features, 0) + LAC_MAC_ENVELOPE,
                                  decoder / (double)bits + LAC_MAC_ENVELOPE},
                        .costs = {.kinds = 2},
                        .seed = options->seed};
  if (costs) {
    job->costs = costs->mac;
    /* Of points that join later the first Z step is made then. */
    double later = options->encoder == LAC_ENCODER_LINEAR ? (1 - job->subsample) * costs->mac.early_z : 0;
    job->start_point = costs->start_point > later ? costs->start_point - later : 0;
    job->start_fixed = costs->start_fixed;
    job->iteration_point = costs->iteration_point;
    job->iteration_fixed = costs->iteration_fixed;
    job->finish_point = costs->finish_point;
    job->finish_fixed = costs->finish_fixed;
  }
  return LAC_OK;
}
