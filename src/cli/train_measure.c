#include "cli/train_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void share_of(const lac_world *world, int *rank, int *workers) {
  *rank = world ? lac_world_rank(world) : 0;
  *workers = world ? lac_world_size(world) : 1;
}

lac_status lac_measure_statistics(lac_context *context, lac_world *world, lac_net *net, lac_batches *plain,
                                  int64_t count, const float *parameters, float *statistics) {
  int64_t numbers = lac_net_statistics(net);
  int rank, workers;
  if (numbers == 0) {
    return LAC_OK;
  }
  share_of(world, &rank, &workers);
  double *sums = calloc((size_t)numbers, sizeof *sums);
  if (!sums) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate %lld batch-norm statistics", (long long)numbers);
  }
  lac_status status = LAC_OK;
  for (int64_t batch = rank; !status && batch < count; batch += workers) {
    const float *pictures;
    const int32_t *labels;
    status = lac_batches_get(context, plain, batch, &pictures, &labels);
    if (!status) {
      status = lac_net_collect(context, net, parameters, pictures, statistics);
    }
    for (int64_t i = 0; !status && i < numbers; i++) {
      sums[i] += (double)statistics[i];
    }
  }
  if (!status && world) {
    status = lac_world_sum_f64(world, sums, numbers);
  }
  for (int64_t i = 0; !status && i < numbers; i++) {
    statistics[i] = (float)(sums[i] / (double)count);
  }
  free(sums);
  return status;
}

lac_status lac_measure_part(lac_context *context, lac_world *world, lac_net *net, const float *parameters,
                            const float *statistics, const lac_train_part *part, lac_measured *measured) {
  *measured = (lac_measured){NAN, NAN};
  if (!part->images) {
    return LAC_OK;
  }
  int rank, workers;
  share_of(world, &rank, &workers);
  lac_image_shape shape = lac_images_shape(part->images);
  int64_t count = lac_images_count(part->images), pixels = shape.channels * shape.height * shape.width;
  int64_t first = count * rank / workers, end = count * (rank + 1) / workers, errors = 0;
  double sums[2] = {0, 0};
  if (end > first) {
    CLI_TRY(lac_net_evaluate(context, net, parameters, statistics, end - first, part->pixels + first * pixels,
                             lac_images_labels(part->images) + first, &sums[0], &errors));
  }
  sums[1] = (double)errors;
  if (world) {
    CLI_TRY(lac_world_sum_f64(world, sums, 2));
  }
  *measured = (lac_measured){.error = sums[1] / (double)count, .loss = sums[0] / (double)count};
  return LAC_OK;
}
