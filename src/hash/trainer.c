#include "hash/trainer.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

static int64_t parameters_size(const lac_training *common) {
  return common->bits * (lac_padded(common->features) + 1) + (common->bits + 1) * lac_padded(common->columns);
}

static lac_status parameters_create(lac_context *context, const lac_training *common, lac_parameters *parameters) {
  LAC_TRY(LAC_NEW(context, parameters_size(common), &parameters->weight));
  parameters->decoder = parameters->weight + common->bits * lac_padded(common->features);
  parameters->bias = parameters->decoder + (common->bits + 1) * lac_padded(common->columns);
  return LAC_OK;
}

static void parameters_copy(const lac_training *common, const lac_parameters *from, lac_parameters *to) {
  memcpy(to->weight, from->weight, (size_t)parameters_size(common) * sizeof(float));
}

lac_status lac_trainer_create(lac_context *context, const lac_training *common, int64_t number, lac_trainer *trainer) {
  int64_t rows = trainer->x.count;
  trainer->common = common;
  trainer->number = number;
  trainer->subsample = 1;
  LAC_TRY(parameters_create(context, common, &trainer->model));
  LAC_TRY(LAC_NEW(context, rows * common->words, &trainer->codes));
  LAC_TRY(LAC_NEW(context, (rows + LAC_CHUNK - 1) / LAC_CHUNK, &trainer->order));
  LAC_TRY(LAC_NEW(context, rows * common->words, &trainer->summed));
  LAC_TRY(LAC_NEW(context, (common->bits + 1) * (common->bits + 1 + common->columns), &trainer->local));
  if (common->options->method != LAC_HASH_BA) {
    return LAC_OK;
  }
  LAC_TRY(parameters_create(context, common, &trainer->kept));
  LAC_TRY(LAC_NEW(context, rows * common->words, &trainer->kept_codes));
  return LAC_NEW(context, (common->bits + 1) * (common->bits + 1 + common->columns), &trainer->sums);
}

void lac_trainer_clear(lac_trainer *trainer) {
  lac_free(trainer->model.weight);
  lac_free(trainer->kept.weight);
  lac_free(trainer->codes);
  lac_free(trainer->kept_codes);
  lac_free(trainer->summed);
  lac_free(trainer->local);
  lac_free(trainer->sums);
  lac_free(trainer->order);
  lac_validation_destroy(trainer->validation);
}

static lac_status save(void *shard, lac_context *context) {
  (void)context;
  lac_trainer *trainer = shard;
  parameters_copy(trainer->common, &trainer->model, &trainer->kept);
  memcpy(trainer->kept_codes, trainer->codes, (size_t)(trainer->x.count * trainer->common->words) * sizeof(uint64_t));
  return LAC_OK;
}

static lac_status restore(void *shard, lac_context *context) {
  (void)context;
  lac_trainer *trainer = shard;
  parameters_copy(trainer->common, &trainer->kept, &trainer->model);
  memcpy(trainer->codes, trainer->kept_codes, (size_t)(trainer->x.count * trainer->common->words) * sizeof(uint64_t));
  lac_validation_set_taken(trainer->validation, false);
  return LAC_OK;
}

int64_t lac_subsample_block(const lac_trainer *trainer, int64_t subsample, int64_t group) {
  int64_t blocks = (trainer->x.count + LAC_BLOCK - 1) / LAC_BLOCK;
  if (subsample == 1 || (group + 1) * subsample >= blocks) {
    return group * subsample;
  }
  lac_random stream = lac_random_stream(trainer->common->options->seed, LAC_RANDOM_SUBSAMPLE, (uint64_t)trainer->number,
                                        (uint64_t)group);
  return group * subsample + lac_random_below(&stream, subsample);
}

static int64_t points(const void *shard) {
  const lac_trainer *trainer = shard;
  return lac_subsample_rows(trainer->x.count, trainer->subsample);
}

lac_mac_problem lac_hash_problem(int64_t bits, bool validate, bool widen) {
  return (lac_mac_problem){.name = "binary autoencoder",
                           .submodels = 2 * bits,
                           .points = points,
                           .submodel_bytes = lac_w_bytes,
                           .w_begin = lac_w_begin,
                           .pack = lac_w_pack,
                           .train = lac_w_train,
                           .unpack = lac_w_unpack,
                           .w_end = lac_w_end,
                           .z_step = lac_z_step,
                           .validate = validate ? lac_validate : NULL,
                           .widen = widen ? lac_z_widen : NULL,
                           .save = save,
                           .restore = restore};
}
