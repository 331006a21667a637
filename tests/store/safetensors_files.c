/* The C side of safetensors_reader_test.py. `write FILE` writes tensors that the test knows by formula; `copy IN OUT`
 * reads a file and writes its tensors and metadata again. */
#include <inttypes.h>

#include "base/memory.h"
#include "laconic/tensors.h"
#include "support.h"

enum { ROWS = 3, COLUMNS = 5 };

static lac_status write_known(lac_context *context, const char *path) {
  static uint8_t bytes[ROWS * COLUMNS];
  static int16_t shorts[COLUMNS];
  static float singles[ROWS * COLUMNS];
  static double doubles[ROWS];
  static int64_t longs[ROWS];
  static const uint16_t halves[3] = {0x3C00, 0xC000, 0x3555}; /* 1, -2, 0.333 */
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    bytes[i] = (uint8_t)(17 * i);
    singles[i] = (float)i / 8 - 1;
  }
  for (int i = 0; i < COLUMNS; i++) {
    shorts[i] = (int16_t)(-10000 * i + 20000);
  }
  for (int i = 0; i < ROWS; i++) {
    doubles[i] = 1.0 / (i + 3);
    longs[i] = INT64_MIN + i;
  }
  const lac_tensor tensors[] = {
      {.name = "bytes", .type = LAC_TENSOR_U8, .axes = 2, .shape = {ROWS, COLUMNS}, .data = bytes},
      {.name = "shorts", .type = LAC_TENSOR_I16, .axes = 1, .shape = {COLUMNS}, .data = shorts},
      {.name = "singles", .type = LAC_TENSOR_F32, .axes = 2, .shape = {ROWS, COLUMNS}, .data = singles},
      {.name = "halves", .type = LAC_TENSOR_F16, .axes = 3, .shape = {1, 3, 1}, .data = halves},
      {.name = "\xC3\xA9\"\\\n", .type = LAC_TENSOR_F64, .axes = 1, .shape = {ROWS}, .data = doubles},
      {.name = "longs", .type = LAC_TENSOR_I64, .axes = 1, .shape = {ROWS}, .data = longs},
      {.name = "scalar", .type = LAC_TENSOR_F32, .axes = 0, .data = singles},
      {.name = "empty", .type = LAC_TENSOR_F32, .axes = 2, .shape = {0, 4}, .data = singles},
  };
  const lac_text_pair pairs[] = {{"plain", "text"}, {"\xE2\x82\xAC", "two\nlines \"quoted\""}, {"", ""}};
  return lac_tensors_write(context, path, tensors, (int64_t)(sizeof tensors / sizeof *tensors), pairs, 3);
}

static lac_status copy(lac_context *context, const char *from, const char *to) {
  lac_tensors *file;
  LAC_TRY(lac_tensors_open(context, from, &file));
  int64_t count = lac_tensors_count(file), pair_count = lac_tensors_pair_count(file);
  lac_tensor *tensors = calloc((size_t)count + 1, sizeof *tensors);
  lac_text_pair *pairs = calloc((size_t)pair_count + 1, sizeof *pairs);
  lac_status status = LAC_OK;
  for (int64_t i = 0; i < count && !status; i++) {
    tensors[i] = *lac_tensors_at(file, i);
    void *data = malloc(lac_tensor_bytes(&tensors[i]) + 1);
    tensors[i].data = data;
    status = lac_tensors_read(context, file, lac_tensors_at(file, i), data);
  }
  for (int64_t i = 0; i < pair_count; i++) {
    pairs[i] = *lac_tensors_pair_at(file, i);
  }
  if (!status) {
    status = lac_tensors_write(context, to, tensors, count, pairs, pair_count);
  }
  for (int64_t i = 0; i < count; i++) {
    free((void *)tensors[i].data);
  }
  free(tensors);
  free(pairs);
  lac_tensors_close(&file);
  return status;
}

int main(int argc, char **argv) {
  lac_context *context;
  lac_status status = lac_context_create(&context);
  if (!status && argc == 3 && strcmp(argv[1], "write") == 0) {
    status = write_known(context, argv[2]);
  } else if (!status && argc == 4 && strcmp(argv[1], "copy") == 0) {
    status = copy(context, argv[2], argv[3]);
  } else {
    return 64;
  }
  if (status) {
    fprintf(stderr, "%s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
