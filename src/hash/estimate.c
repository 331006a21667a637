/* What a run of training would take, from options and sizes alone. */
#include "base/memory.h"
#include "hash/start.h"
#include "hash/trainer.h"

/* Bytes per point that a shard keeps beside the mapped data: codes Z, the kept ones, the summed ones, and RBF features.
 */
static int64_t bytes_per_point(const lac_hash_options *options) {
  int64_t words = (options->bits + 63) / 64, copies = options->method == LAC_HASH_BA ? 3 : 2;
  return copies * words * 8 + (options->encoder == LAC_ENCODER_RBF ? options->centres : 0);
}

void lac_hash_options_resolve(lac_hash_options *options, int64_t points, int64_t columns, int workers) {
  int64_t submodels = 2 * options->bits;
  options->validation = lac_validation_queries(options, points);
  if (options->subsample == 0) {
    options->subsample = lac_subsample(options, points, columns);
  }
  if (options->encoder == LAC_ENCODER_LINEAR) {
    options->sample = lac_start_rows(options, columns);
  }
  options->mac.mu_factor = lac_mac_mu_factor(&options->mac);
  if (options->mac.batch == 0) {
    options->mac.batch = (submodels + workers - 1) / workers;
  }
}

/* At the peak of a start: of a sample of bytes the row numbers, of others (bytes of some files, too) the values; its
 * projections, the triangle of its moments, the whole, and a copy where it is LAPACK's. An RBF encoder's centres are
 * there three times. Everything else is converted block by block. */
static int64_t start_bytes(const lac_hash_options *options, int64_t sample, int64_t columns, int64_t features,
                           lac_type type) {
  int64_t sampled = type == LAC_U8 ? 8 : columns * 4;
  int64_t centres = options->encoder == LAC_ENCODER_RBF ? options->centres * columns * (8 + 8 + 4) : 0;
  return sample * (sampled + options->bits * 4) + LAC_SAMPLE_BLOCK * features * 4 + features * features * (4 + 8 + 8) +
         centres;
}

lac_status lac_hash_train_estimate(lac_context *context, const lac_hash_options *options, int64_t points,
                                   int64_t columns, lac_type type, int workers, lac_hash_estimate *estimate) {
  *estimate = (lac_hash_estimate){0};
  LAC_TRY(lac_hash_options_check(context, options, columns));
  int64_t bits = options->bits, features = options->encoder == LAC_ENCODER_RBF ? options->centres : columns;
  int64_t sample = lac_start_rows(options, features), all = points * workers;
  sample = sample < all ? (sample + workers - 1) / workers : points;
  if (options->method == LAC_HASH_BA) {
    int64_t total = 0;
    estimate->submodels = 2 * bits;
    for (int64_t m = 0; m < estimate->submodels; m++) {
      int64_t size = (int64_t)lac_submodel_bytes(bits, columns, features, m) + LAC_MAC_ENVELOPE;
      total += size;
      estimate->submodel_bytes = size > estimate->submodel_bytes ? size : estimate->submodel_bytes;
    }
    estimate->messages = lac_mac_messages(estimate->submodels, workers, options->mac.epochs, options->mac.local_epochs);
    estimate->bytes = estimate->messages / estimate->submodels * total;
  }
  int64_t sums = (bits + 1) * (bits + 1 + columns) * 8;
  int64_t runs = (points + 65535) / 65536;
  estimate->memory = points * bytes_per_point(options) + start_bytes(options, sample, columns, features, type) +
                     (4 + runs) * sums + 3 * (2 * bits + 1) * columns * 4;
  return LAC_OK;
}
