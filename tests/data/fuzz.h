/* What every reader's fuzz target does with its input: opens it, and if that works, uses it in every way. Reading may
 * fail, but all failures leave one line and nothing behind. */
#ifndef LACONIC_TESTS_DATA_FUZZ_H
#define LACONIC_TESTS_DATA_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/format.h"

enum { FUZZ_VALUES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_require(bool condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "not so: %s\n", what);
    abort();
  }
}

static inline lac_status fuzz_status(lac_context *context, lac_status status) {
  const char *message = lac_context_message(context);
  if (status) {
    fuzz_require(strncmp(message, "fuzz", 4) == 0, "the message names the file");
    fuzz_require(!strchr(message, '\n'), "the message is one line");
  }
  return status;
}

static inline void fuzz_rows(lac_context *context, const lac_dataset *dataset) {
  int64_t rows = lac_dataset_rows(dataset), columns = lac_dataset_columns(dataset);
  fuzz_require(rows > 0 && columns > 0, "there are rows and columns");
  if (rows > FUZZ_VALUES / columns) {
    return; /* more than a fuzzer has time for */
  }
  float *values = malloc((size_t)(rows * columns) * sizeof *values);
  fuzz_require(values != NULL, "there is memory");
  if (!fuzz_status(context, lac_dataset_read_f32(context, dataset, 0, rows, values))) {
    float *last = malloc((size_t)columns * sizeof *last);
    fuzz_require(last && !lac_dataset_read_f32(context, dataset, rows - 1, 1, last), "a row can be read again");
    fuzz_require(memcmp(last, values + (rows - 1) * columns, (size_t)columns * sizeof *last) == 0,
                 "a row is the same again");
    free(last);
  }
  (void)!fuzz_status(context, lac_dataset_read_i32(context, dataset, 0, rows, (int32_t *)values));
  free(values);
  double low, high;
  uint64_t fingerprint;
  int64_t row, column;
  if (!fuzz_status(context, lac_dataset_range(context, dataset, &low, &high, &row, &column))) {
    fuzz_require(row >= 0 || low <= high, "finite values have a range");
  }
  (void)!fuzz_status(context, lac_dataset_variance(context, dataset, 1, &low));
  (void)!fuzz_status(context, lac_dataset_fingerprint(context, dataset, &fingerprint));
}

/* format: NULL to have it recognised. */
static inline void fuzz_format(const uint8_t *data, size_t size, const char *name, const char *format) {
  lac_context *context;
  lac_dataset *dataset;
  if (lac_context_create(&context)) {
    return;
  }
  if (!fuzz_status(context, lac_dataset_open_memory(context, name, data, size, format, &dataset))) {
    fuzz_rows(context, dataset);
  } else {
    fuzz_require(dataset == NULL, "a failure leaves NULL");
  }
  lac_dataset_destroy(&dataset);
  lac_context_destroy(&context);
}

#endif
