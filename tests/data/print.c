/* print FILE…: what the readers make of files, for the test that has another program write them. A line of JSON each;
 * the values, read in blocks of uneven size, go to N.values as float32 and, if they are integers, to N.integers, where
 * N counts the files from 1. print --copy OUT FILE: writes the file's array as OUT. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/format.h"

/* A text as a JSON string. */
static void print_text(const char *text) {
  putchar('"');
  for (; *text; text++) {
    printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
  }
  putchar('"');
}

/* Opens FILE or FORMAT=FILE. */
static lac_status open_named(lac_context *context, const char *name, lac_dataset **dataset) {
  char format[16] = "";
  const char *equals = strchr(name, '=');
  if (!equals || (size_t)(equals - name) >= sizeof format) {
    return lac_dataset_open(context, name, NULL, dataset);
  }
  memcpy(format, name, (size_t)(equals - name));
  return lac_dataset_open(context, equals + 1, format, dataset);
}

static lac_status write_values(lac_context *context, const lac_dataset *dataset, int number, bool integers) {
  char path[64];
  snprintf(path, sizeof path, "%d.%s", number, integers ? "integers" : "values");
  FILE *file = fopen(path, "wb");
  int64_t rows = lac_dataset_rows(dataset), columns = lac_dataset_columns(dataset);
  void *values = malloc((size_t)(rows * columns) * 4);
  lac_status status = file && values ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot write %s", path);
  int64_t count = 1;
  for (int64_t first = 0; first < rows && !status; first += count, count = count * 3 % 61 + 1) {
    count = rows - first < count ? rows - first : count;
    status = integers ? lac_dataset_read_i32(context, dataset, first, count, values)
                      : lac_dataset_read_f32(context, dataset, first, count, values);
    if (!status && fwrite(values, 4, (size_t)(count * columns), file) != (size_t)(count * columns)) {
      status = lac_fail(context, LAC_E_IO, "cannot write %s", path);
    }
  }
  free(values);
  if (file) {
    fclose(file);
  }
  return status;
}

static lac_status print_dataset(lac_context *context, const lac_dataset *dataset, int number) {
  double low, high, variance, again;
  int64_t bad_row, bad_column, shape[8];
  uint64_t fingerprint;
  size_t stride = 0;
  LAC_TRY(lac_dataset_range(context, dataset, &low, &high, &bad_row, &bad_column));
  LAC_TRY(lac_dataset_fingerprint(context, dataset, &fingerprint));
  LAC_TRY(lac_dataset_variance(context, dataset, 1, &variance));
  LAC_TRY(lac_dataset_variance(context, dataset, 3, &again));
  LAC_TRY(write_values(context, dataset, number, false));
  bool integers = write_values(context, dataset, number, true) == LAC_OK;
  printf("{\"format\": \"%s\", \"type\": \"%s\", \"rows\": %" PRId64 ", \"columns\": %" PRId64 ", \"shape\": [",
         lac_dataset_format(dataset), lac_type_name(lac_dataset_type(dataset)), lac_dataset_rows(dataset),
         lac_dataset_columns(dataset));
  int axes = lac_dataset_shape(dataset, shape);
  for (int i = 0; i < axes; i++) {
    printf(i ? ", %" PRId64 : "%" PRId64, shape[i]);
  }
  printf("], \"low\": \"%.17g\", \"high\": \"%.17g\", \"bad_row\": %" PRId64 ", \"bad_column\": %" PRId64
         ", \"variance\": \"%.17g\", \"same_variance\": %s, \"fingerprint\": \"%016" PRIx64
         "\", \"integers\": %s, \"mapped\": %s, \"bytes\": %s}\n",
         low, high, bad_row, bad_column, variance, memcmp(&variance, &again, sizeof again) == 0 ? "true" : "false",
         fingerprint, integers ? "true" : "false", dataset->values ? "true" : "false",
         lac_dataset_bytes(dataset, &stride) ? "true" : "false");
  return LAC_OK;
}

static lac_status copy_dataset(lac_context *context, const char *to, const lac_dataset *dataset) {
  int64_t rows = lac_dataset_rows(dataset), columns = lac_dataset_columns(dataset);
  lac_type type = lac_dataset_type(dataset);
  void *values;
  LAC_TRY(lac_allocate(context, rows * columns, lac_type_size(type), &values));
  lac_status status = lac_dataset_read_native(context, dataset, 0, rows, values);
  if (!status) {
    status = lac_array_write(context, to, type, values, rows, columns);
  }
  lac_free(values);
  return status;
}

int main(int argc, char **argv) {
  lac_context *context;
  if (lac_context_create(&context)) {
    return 1;
  }
  const char *copy = argc == 4 && strcmp(argv[1], "--copy") == 0 ? argv[2] : NULL;
  int failures = 0;
  for (int i = copy ? 3 : 1; i < argc; i++) {
    lac_dataset *dataset = NULL;
    lac_status status = open_named(context, argv[i], &dataset);
    if (!status) {
      status = copy ? copy_dataset(context, copy, dataset) : print_dataset(context, dataset, i);
    }
    if (status) {
      printf("{\"status\": \"%s\", \"message\": ", lac_status_name(status));
      print_text(lac_context_message(context));
      printf("}\n");
      failures++;
    }
    lac_dataset_destroy(&dataset);
  }
  lac_context_destroy(&context);
  return copy ? failures : 0;
}
