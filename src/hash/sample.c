#include "hash/sample.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

void lac_sample_rows(int64_t seed, lac_sample purpose, int64_t shard, int64_t of, int64_t count, int64_t *rows) {
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_SAMPLE, (uint64_t)purpose, (uint64_t)shard);
  int64_t width = count ? of / count : 0, longer = count ? of % count : 0, first = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t stratum = width + (i < longer);
    rows[i] = first + lac_random_below(&stream, stratum);
    first += stratum;
  }
}

static lac_status copy_bytes(lac_context *context, const lac_rows *source, const int64_t *rows, int64_t count,
                             lac_row_copy *copy) {
  uint8_t *bytes;
  size_t width = (size_t)source->columns;
  LAC_TRY(LAC_NEW(context, count * source->columns, &bytes));
  copy->memory = bytes;
  copy->rows.bytes = bytes;
  copy->rows.stride = width;
  for (int64_t i = 0; i < count; i++) {
    memcpy(bytes + (size_t)i * width, source->bytes + (size_t)rows[i] * source->stride, width);
  }
  return lac_dataset_borrow(context, bytes, LAC_U8, count, source->columns, width, &copy->data);
}

static lac_status copy_floats(lac_context *context, const lac_rows *source, const int64_t *rows, int64_t count,
                              lac_row_copy *copy) {
  float *values;
  LAC_TRY(LAC_NEW(context, count * source->columns, &values));
  copy->memory = values;
  for (int64_t i = 0; i < count; i++) {
    LAC_TRY(lac_dataset_read_f32(context, source->data, rows[i], 1, values + i * source->columns));
  }
  return lac_dataset_borrow(context, values, LAC_F32, count, source->columns, (size_t)source->columns * sizeof *values,
                            &copy->data);
}

lac_status lac_rows_copy(lac_context *context, const lac_rows *source, const int64_t *rows, int64_t count,
                         lac_row_copy *copy) {
  *copy = (lac_row_copy){.rows = *source};
  lac_status status =
      source->bytes ? copy_bytes(context, source, rows, count, copy) : copy_floats(context, source, rows, count, copy);
  copy->rows.data = copy->data;
  copy->rows.count = count;
  if (status) {
    lac_row_copy_clear(copy);
  }
  return status;
}

void lac_row_copy_clear(lac_row_copy *copy) {
  lac_dataset_destroy(&copy->data);
  lac_free(copy->memory);
  *copy = (lac_row_copy){.data = NULL};
}
