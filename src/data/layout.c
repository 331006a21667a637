#include <inttypes.h>
#include <stdio.h>

#include "data/format.h"

lac_status lac_storage_need(lac_context *context, const lac_storage *storage, size_t size, const char *what) {
  if (storage->size < size) {
    return lac_fail(context, LAC_E_INPUT, "%s: the file ends at offset %zu, expected at least %zu bytes for %s",
                    storage->path, storage->size, size, what);
  }
  return LAC_OK;
}

/* "(60000, 28, 28)" */
static void shape_text(int axes, const int64_t *shape, char *text, size_t limit) {
  size_t used = (size_t)snprintf(text, limit, "(");
  for (int i = 0; i < axes && used < limit; i++) {
    used += (size_t)snprintf(text + used, limit - used, i ? ", %" PRId64 : "%" PRId64, shape[i]);
  }
  if (used < limit) {
    snprintf(text + used, limit - used, ")");
  }
}

lac_status lac_layout_shape(lac_context *context, lac_dataset *dataset, size_t offset, int axes, const int64_t *shape,
                            int64_t *bytes) {
  const char *path = dataset->storage->path;
  if (axes < 1 || axes > LAC_AXES) {
    return lac_fail(context, LAC_E_INPUT, "%s: offset %zu: found an array of %d axes, expected 1 to %d", path, offset,
                    axes, LAC_AXES);
  }
  char text[LAC_AXES * 22];
  shape_text(axes, shape, text, sizeof text);
  int64_t columns = 1, total;
  for (int i = 0; i < axes; i++) {
    if (shape[i] <= 0) {
      return lac_fail(context, LAC_E_INPUT, "%s: offset %zu: found shape %s, expected at least one %s", path, offset,
                      text, i == 0 ? "row" : "column");
    }
    dataset->shape[i] = shape[i];
    if (i > 0 && __builtin_mul_overflow(columns, shape[i], &columns)) {
      return lac_fail(context, LAC_E_INPUT, "%s: offset %zu: found shape %s, which no file can hold", path, offset,
                      text);
    }
  }
  if (__builtin_mul_overflow(columns, shape[0], &total) ||
      __builtin_mul_overflow(total, (int64_t)lac_type_size(dataset->type), bytes)) {
    return lac_fail(context, LAC_E_INPUT, "%s: offset %zu: found shape %s, which no file can hold", path, offset, text);
  }
  dataset->axes = axes;
  dataset->rows = shape[0];
  dataset->columns = columns;
  return LAC_OK;
}

lac_status lac_layout_values(lac_context *context, lac_dataset *dataset, size_t offset, int64_t bytes) {
  const lac_storage *storage = dataset->storage;
  if (storage->size < offset || storage->size - offset != (uint64_t)bytes) {
    char text[LAC_AXES * 22];
    shape_text(dataset->axes, dataset->shape, text, sizeof text);
    return lac_fail(
        context, LAC_E_INPUT, "%s: offset %zu: found %zu bytes of values, expected %" PRId64 " for shape %s of %s%s",
        storage->path, offset, storage->size < offset ? 0 : storage->size - offset, bytes, text,
        lac_type_name(dataset->type), storage->size < offset + (uint64_t)bytes ? ": the file is truncated" : "");
  }
  dataset->values = storage->bytes + offset;
  dataset->row_stride = dataset->columns * (int64_t)lac_type_size(dataset->type);
  return LAC_OK;
}
