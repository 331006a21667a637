/* Any bytes as a model file: opening, reading every tensor, loading as a hash model and encoding with it must end in a
 * status, and what was opened must hold to what the header promises. */
#include "hash/model.h"
#include "store/safetensors.h"
#include "support.h"

/* Whatever the reader accepts lies inside the file, end to end. */
static void check_opened(lac_context *context, const lac_tensors *file, size_t size) {
  size_t total = 0;
  for (int64_t i = 0; i < lac_tensors_count(file); i++) {
    const lac_tensor *tensor = lac_tensors_at(file, i);
    size_t bytes = lac_tensor_bytes(tensor);
    if (bytes > size || lac_tensor_elements(tensor) < 0 || !lac_tensors_find(file, tensor->name)) {
      abort();
    }
    char *data = malloc(bytes + 1);
    if (lac_tensors_read(context, file, tensor, data) != LAC_OK) {
      abort();
    }
    free(data);
    total += bytes;
  }
  for (int64_t i = 0; i < lac_tensors_pair_count(file); i++) {
    if (!lac_tensors_meta(file, lac_tensors_pair_at(file, i)->key)) {
      abort();
    }
  }
  if (total > size) {
    abort();
  }
}

/* A model that was loaded encodes and decodes a row of its size. */
static void check_model(lac_context *context, const lac_hash *model) {
  int64_t columns = lac_hash_columns(model);
  float *x = calloc((size_t)columns, sizeof *x);
  uint8_t code[128];
  lac_dataset *dataset;
  double error;
  if (lac_dataset_borrow(context, x, LAC_F32, 1, columns, (size_t)columns * sizeof *x, &dataset) != LAC_OK ||
      lac_hash_encode(context, model, dataset, 0, 1, 1, code) != LAC_OK) {
    abort();
  }
  lac_status status = lac_hash_error(context, model, dataset, code, 1, &error);
  if (status != LAC_OK && status != LAC_E_NUMERICAL) {
    abort();
  }
  lac_dataset_destroy(&dataset);
  free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lac_context *context;
  lac_tensors *file;
  lac_hash *model;
  if (lac_context_create(&context) != LAC_OK) {
    abort();
  }
  if (lac_tensors_open_memory(context, "input", data, size, &file) == LAC_OK) {
    check_opened(context, file, size);
    if (lac_hash_from_tensors(context, "input", file, &model) == LAC_OK) {
      check_model(context, model);
      lac_hash_destroy(&model);
    }
    lac_tensors_close(&file);
  } else if (file || !*lac_context_message(context)) {
    abort();
  }
  lac_context_destroy(&context);
  return 0;
}
