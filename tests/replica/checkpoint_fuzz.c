/* Any bytes as a checkpoint: opening and restoring end in a status, and a replica that was restored can go on. */
#include "replica/checkpoint.h"
#include "store/safetensors.h"
#include "support.h"

enum { N = 5 };

static lac_status slope(void *user, lac_context *context, int64_t step, const float *x, float *gradient,
                        lac_batch_result *result) {
  (void)user, (void)context, (void)step, (void)x;
  memset(gradient, 0, N * sizeof *gradient);
  *result = (lac_batch_result){.loss = 1, .points = 1};
  return LAC_OK;
}

static void restore(lac_context *context, const lac_checkpoint_file *file, int workers) {
  static const float start[N] = {0};
  lac_replica_options options = {.method = LAC_METHOD_PARLE,
                                 .epochs = 1,
                                 .inner_steps = 1,
                                 .average = 0.25,
                                 .gamma = 100,
                                 .rho = 1,
                                 .scoping = 1,
                                 .optimizer = {.kind = LAC_OPTIMIZER_NESTEROV, .momentum = 0.9},
                                 .learning_rate = 0.1,
                                 .drop_factor = 1};
  lac_objective objective = {.parameters = N, .batches_per_pass = 1, .gradient = slope};
  lac_replica *replica;
  if (lac_replica_create(context, NULL, &objective, &options, start, &replica) != LAC_OK) {
    abort();
  }
  lac_status status = lac_checkpoint_restore(context, file, 0, workers, replica);
  if (status ? !*lac_context_message(context) : lac_replica_advance(context, replica, 1) != LAC_OK) {
    abort();
  }
  lac_replica_destroy(&replica);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lac_context *context;
  lac_tensors *tensors;
  lac_checkpoint_file *file;
  if (lac_context_create(&context) != LAC_OK) {
    abort();
  }
  if (lac_tensors_open_memory(context, "input", data, size, &tensors) == LAC_OK) {
    if (lac_checkpoint_from_tensors(context, &tensors, "model", N, &file) == LAC_OK) {
      if (lac_checkpoint_replicas(file) < 1000) { /* the mean reads each, or stops at the first that is missing */
        restore(context, file, lac_checkpoint_replicas(file));
        restore(context, file, lac_checkpoint_replicas(file) + 1);
      }
      lac_checkpoint_close(&file);
    } else if (file || tensors || !*lac_context_message(context)) {
      abort();
    }
  }
  lac_context_destroy(&context);
  return 0;
}
