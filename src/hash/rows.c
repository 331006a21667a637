#include <string.h>

#include "base/memory.h"
#include "hash/trainer.h"

void lac_rows_ahead(const lac_rows *rows, int64_t first, int64_t count) {
  enum { LINE = 64 };
  if (rows->bytes) {
    const uint8_t *at = rows->bytes + (size_t)first * rows->stride;
    for (const uint8_t *end = at + (size_t)count * rows->stride; at < end; at += LINE) {
      __builtin_prefetch(at, 0, 2);
    }
  }
}

lac_status lac_rows_read(lac_context *context, const lac_rows *rows, int64_t first, int64_t count, float *out) {
  int64_t columns = rows->columns, padded = rows->padded;
  if (rows->bytes) {
    for (int64_t i = 0; i < count; i++) {
      float *row = out + i * padded;
      rows->kernels->expand(columns, rows->bytes + (size_t)(first + i) * rows->stride, rows->scale, rows->shift, row);
      memset(row + columns, 0, (size_t)(padded - columns) * sizeof *row);
    }
    return LAC_OK;
  }
  LAC_TRY(lac_dataset_read_f32(context, rows->data, first, count, out));
  /* The rows came tightly packed: spread them from the last to the first, scaling on the way. */
  for (int64_t i = count - 1; i >= 0; i--) {
    memmove(out + i * padded, out + i * columns, (size_t)columns * sizeof *out);
    float *row = out + i * padded;
    for (int64_t j = 0; j < columns; j++) {
      row[j] = rows->scale * row[j] + rows->shift[j];
    }
    memset(row + columns, 0, (size_t)(padded - columns) * sizeof *row);
  }
  return LAC_OK;
}

lac_status lac_rows_products(lac_context *context, const lac_rows *rows, int64_t first, int64_t count, int64_t vectors,
                             const float *w, float *x, float *out) {
  if (rows->bytes) {
    const lac_byte_rows bytes = {rows->bytes + (size_t)first * rows->stride, rows->stride, rows->columns, rows->scale,
                                 rows->shift};
    rows->kernels->expand_products(count, vectors, rows->padded, &bytes, x, w, out, vectors);
    return LAC_OK;
  }
  LAC_TRY(lac_rows_read(context, rows, first, count, x));
  rows->kernels->products(count, vectors, rows->padded, x, w, out, vectors);
  return LAC_OK;
}
