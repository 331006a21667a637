#include "laconic/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/convert.h"
#include "data/format.h"

enum { LAC_BLOCK_BYTES = 1 << 18, LAC_TILE = 64 };

static const lac_format *const formats[] = {
    &lac_format_npy,     &lac_format_hdf5,     &lac_format_idx,  &lac_format_fvecs,
    &lac_format_bvecs,   &lac_format_ivecs,    &lac_format_fbin, &lac_format_u8bin,
    &lac_format_cifar10, &lac_format_cifar100, &lac_format_csv,  NULL,
};

static const char *const format_names[] = {"npy",  "hdf5",  "idx",     "fvecs",    "bvecs", "ivecs",
                                           "fbin", "u8bin", "cifar10", "cifar100", "csv",   NULL};

const char *const *lac_dataset_formats(void) {
  return format_names;
}

static const struct {
  const char *name;
  size_t size;
} types[] = {
    [LAC_U8] = {"u8", 1},   [LAC_I32] = {"i32", 4}, [LAC_F16] = {"f16", 2}, [LAC_F32] = {"f32", 4},
    [LAC_F64] = {"f64", 8}, [LAC_I64] = {"i64", 8}, [LAC_I8] = {"i8", 1},   [LAC_I16] = {"i16", 2},
};

const char *lac_type_name(lac_type type) {
  return types[type].name;
}
size_t lac_type_size(lac_type type) {
  return types[type].size;
}

/* ---- Opening ---- */

static bool ends_with(const char *name, size_t length, const char *suffix) {
  size_t tail = strlen(suffix);
  return length > tail && strncasecmp(name + length - tail, suffix, tail) == 0;
}

static bool has_suffix(const lac_format *format, const char *name, size_t length) {
  for (const char *const *suffix = format->suffixes; *suffix; suffix++) {
    if (ends_with(name, length, *suffix)) {
      return true;
    }
  }
  return false;
}

/* Length of a name without ".gz". */
static size_t inner_length(const char *name) {
  size_t length = strlen(name);
  return ends_with(name, length, ".gz") ? length - 3 : length;
}

/* Among the formats without a magic number that the name's suffix stands for, the one that the size fits. NULL in
 * *found when the suffix stands for none. */
static lac_status find_by_suffix(lac_context *context, const lac_storage *storage, const lac_format **found) {
  const char *name = storage->file;
  size_t length = inner_length(name);
  const lac_format *named = NULL, *other = NULL, *fitting = NULL;
  int fits = 0;
  for (int i = 0; formats[i]; i++) {
    if (!formats[i]->probe && has_suffix(formats[i], name, length)) {
      other = named;
      named = formats[i];
      if (named->fits && named->fits(storage)) {
        fitting = named;
        fits++;
      }
    }
  }
  *found = other ? fitting : named;
  if (other && fits != 1) {
    *found = NULL;
    return lac_fail(context, LAC_E_INPUT,
                    "%s: offset 0: found %zu bytes that fit %s %s and %s, expected one of them: name the format",
                    storage->path, storage->size, fits == 0 ? "neither" : "both", other->name, named->name);
  }
  return LAC_OK;
}

static const lac_format *find_by_magic(const lac_storage *storage, bool weak) {
  for (int i = 0; formats[i]; i++) {
    if (formats[i]->probe && formats[i]->weak == weak && formats[i]->probe(storage->bytes, storage->size)) {
      return formats[i];
    }
  }
  return NULL;
}

/* A format with a magic number that the file's name promises but its content lacks: its reader says what is wrong. */
static const lac_format *find_promised(const char *name) {
  size_t length = inner_length(name);
  for (int i = 0; formats[i]; i++) {
    if (formats[i]->probe && has_suffix(formats[i], name, length)) {
      return formats[i];
    }
  }
  return NULL;
}

static lac_status recognise(lac_context *context, const lac_storage *storage, const lac_format **found) {
  *found = find_by_magic(storage, false);
  if (!*found) {
    LAC_TRY(find_by_suffix(context, storage, found));
  }
  if (!*found) {
    *found = find_by_magic(storage, true);
  }
  if (!*found) {
    *found = find_promised(storage->file);
  }
  if (!*found) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: offset 0: found no known magic number, and its extension is none of a known format: name the "
                    "format",
                    storage->path);
  }
  return LAC_OK;
}

static lac_status find_by_name(lac_context *context, const char *path, const char *name, const lac_format **found) {
  *found = NULL;
  for (int i = 0; name && formats[i]; i++) {
    if (strcmp(formats[i]->name, name) == 0) {
      *found = formats[i];
    }
  }
  if (!name || *found) {
    return LAC_OK;
  }
  char list[256] = "";
  for (size_t i = 0, used = 0; format_names[i] && used < sizeof list; i++) {
    used += (size_t)snprintf(list + used, sizeof list - used, i ? ", %s" : "%s", format_names[i]);
  }
  return lac_fail(context, LAC_E_USAGE, "%s: format: found '%s', expected one of %s", path, name, list);
}

/* A gzipped file is known by content, unless its name says that it is of a format where such bytes may be data. */
static lac_status inflate_if_gzip(lac_context *context, lac_storage *storage) {
  size_t length = strlen(storage->file);
  if (!lac_storage_is_gzip(storage)) {
    return LAC_OK;
  }
  for (int i = 0; formats[i]; i++) {
    if (!formats[i]->probe && has_suffix(formats[i], storage->file, length)) {
      return LAC_OK;
    }
  }
  return lac_storage_inflate(context, storage);
}

/* Makes a dataset of a storage and takes the caller's reference to it, also on failure. */
static lac_status open_storage(lac_context *context, lac_storage *storage, const lac_format *format,
                               lac_dataset **dataset) {
  lac_dataset *made = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, inflate_if_gzip(context, storage), failed);
  if (!format) {
    LAC_TRY_GOTO(status, recognise(context, storage, &format), failed);
  }
  if (storage->part && !format->parts) {
    status = lac_fail(context, LAC_E_INPUT, "%s: ':%s' names a dataset inside an HDF5 file, but the format of %s is %s",
                      storage->path, storage->part, storage->file, format->name);
    goto failed;
  }
  LAC_TRY_GOTO(status, LAC_NEW(context, 1, &made), failed);
  made->storage = storage;
  made->format = format->name;
  LAC_TRY_GOTO(status, format->open(context, made), failed);
  *dataset = made;
  return LAC_OK;

failed:
  lac_storage_release(storage);
  lac_free(made);
  return status;
}

lac_status lac_dataset_open(lac_context *context, const char *path, const char *format, lac_dataset **dataset) {
  *dataset = NULL;
  const lac_format *known;
  lac_storage *storage;
  LAC_TRY(find_by_name(context, path, format, &known));
  LAC_TRY(lac_storage_map(context, path, &storage));
  return open_storage(context, storage, known, dataset);
}

lac_status lac_dataset_open_memory(lac_context *context, const char *name, const void *bytes, size_t size,
                                   const char *format, lac_dataset **dataset) {
  *dataset = NULL;
  const lac_format *known;
  lac_storage *storage;
  LAC_TRY(find_by_name(context, name, format, &known));
  if (size == 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: the file is empty (0 bytes)", name);
  }
  LAC_TRY(lac_storage_borrow(context, name, bytes, size, &storage));
  return open_storage(context, storage, known, dataset);
}

lac_status lac_dataset_borrow(lac_context *context, const void *memory, lac_type type, int64_t rows, int64_t columns,
                              size_t stride, lac_dataset **dataset) {
  *dataset = NULL;
  size_t size = lac_type_size(type), least;
  if (!memory || rows < 1 || columns < 1) {
    return lac_fail(context, LAC_E_USAGE, "(memory): found %" PRId64 " rows of %" PRId64 " columns, expected some",
                    rows, columns);
  }
  if (__builtin_mul_overflow((size_t)columns, size, &least) || stride < least) {
    return lac_fail(context, LAC_E_USAGE,
                    "(memory): found a stride of %zu bytes, expected at least %" PRId64 " columns of %zu", stride,
                    columns, size);
  }
  int64_t bytes;
  if (__builtin_mul_overflow(rows, stride, &bytes)) {
    return lac_fail(context, LAC_E_USAGE, "(memory): found %" PRId64 " rows of %zu bytes, which no memory can hold",
                    rows, stride);
  }
  lac_dataset *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  lac_status status = lac_storage_borrow(context, "(memory)", memory, (size_t)bytes, &made->storage);
  if (status) {
    lac_free(made);
    return status;
  }
  made->format = "memory";
  made->type = type;
  made->axes = 2;
  made->rows = made->shape[0] = rows;
  made->columns = made->shape[1] = columns;
  made->values = memory;
  made->row_stride = (int64_t)stride;
  *dataset = made;
  return LAC_OK;
}

static lac_status check_range(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count) {
  if (first < 0 || count < 0 || first > dataset->rows || count > dataset->rows - first) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: rows %" PRId64 " to %" PRId64 " asked for, expected rows in 0 to %" PRId64,
                    dataset->storage->path, first, (int64_t)((uint64_t)first + (uint64_t)count - 1), dataset->rows - 1);
  }
  return LAC_OK;
}

lac_status lac_dataset_slice(lac_context *context, const lac_dataset *whole, int64_t first, int64_t count,
                             lac_dataset **dataset) {
  *dataset = NULL;
  LAC_TRY(check_range(context, whole, first, count));
  if (count == 0) {
    return lac_fail(context, LAC_E_USAGE, "%s: a slice of 0 rows asked for, expected at least 1", whole->storage->path);
  }
  lac_dataset *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = *whole;
  made->storage = lac_storage_share(whole->storage);
  made->first_row += first;
  made->rows = made->shape[0] = count;
  if (made->values) {
    made->values += first * made->row_stride;
  }
  *dataset = made;
  return LAC_OK;
}

void lac_dataset_destroy(lac_dataset **dataset) {
  if (*dataset) {
    lac_storage_release((*dataset)->storage);
    lac_free(*dataset);
    *dataset = NULL;
  }
}

/* ---- What it is ---- */

int64_t lac_dataset_rows(const lac_dataset *dataset) {
  return dataset->rows;
}
int64_t lac_dataset_columns(const lac_dataset *dataset) {
  return dataset->columns;
}
lac_type lac_dataset_type(const lac_dataset *dataset) {
  return dataset->type;
}
const char *lac_dataset_format(const lac_dataset *dataset) {
  return dataset->format;
}
int64_t lac_dataset_first_row(const lac_dataset *dataset) {
  return dataset->first_row;
}
const char *lac_dataset_path(const lac_dataset *dataset) {
  return dataset->storage->path;
}

int lac_dataset_shape(const lac_dataset *dataset, int64_t shape[8]) {
  memcpy(shape, dataset->shape, sizeof dataset->shape);
  return dataset->axes;
}

const uint8_t *lac_dataset_bytes(const lac_dataset *dataset, size_t *stride) {
  if (dataset->type != LAC_U8 || !dataset->values || dataset->storage->column_offsets) {
    return NULL;
  }
  *stride = (size_t)dataset->row_stride;
  return dataset->values;
}

int64_t lac_dataset_block(const lac_dataset *dataset) {
  int64_t rows = LAC_BLOCK_BYTES / 8 / dataset->columns;
  return rows < 1 ? 1 : rows;
}

/* ---- Reading ---- */

/* The dimension that stands before each row of a vecs file. */
static lac_status check_records(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count) {
  const uint8_t *record = dataset->values + first * dataset->row_stride - 4;
  for (int64_t i = 0; i < count; i++, record += dataset->row_stride) {
    int32_t dimension;
    memcpy(&dimension, record, sizeof dimension);
    if (dimension != dataset->columns) {
      return lac_fail(context, LAC_E_INPUT,
                      "%s: record %" PRId64 " at offset %td: found dimension %" PRId32 ", expected %" PRId64
                      " as in record 0",
                      dataset->storage->path, dataset->first_row + first + i, record - dataset->storage->bytes,
                      dimension, dataset->columns);
    }
  }
  return LAC_OK;
}

lac_status lac_dataset_check_rows(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count) {
  LAC_TRY(check_range(context, dataset, first, count));
  LAC_TRY(lac_storage_check(context, dataset->storage));
  return dataset->records ? check_records(context, dataset, first, count) : LAC_OK;
}

/* A conversion and the bytes of what it makes. */
typedef struct conversion {
  lac_convert_fn convert;
  size_t size;
} conversion;

/* Rows whose columns are adjacent. */
static void convert_rows(const lac_dataset *dataset, conversion to, const uint8_t *in, int64_t stride, int64_t count,
                         uint8_t *out) {
  int64_t columns = dataset->columns;
  if (stride == columns * (int64_t)lac_type_size(dataset->type)) {
    to.convert(dataset->type, dataset->swapped, in, count * columns, out);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    to.convert(dataset->type, dataset->swapped, in + i * stride, columns, out + (size_t)(i * columns) * to.size);
  }
}

/* Up to LAC_TILE rows of a Fortran-order array, where a column's rows are adjacent: columns are converted in groups,
 * then stored transposed, so that both sides are walked a cache line at a time. */
static void convert_tile(const lac_dataset *dataset, conversion to, const uint8_t *in, int64_t rows, uint8_t *out) {
  enum { GROUP = 16 };
  uint64_t tile[GROUP][LAC_TILE];
  const int64_t *offsets = dataset->storage->column_offsets;
  for (int64_t column = 0; column < dataset->columns; column += GROUP) {
    int64_t width = dataset->columns - column < GROUP ? dataset->columns - column : GROUP;
    for (int64_t j = 0; j < width; j++) {
      to.convert(dataset->type, dataset->swapped, in + offsets[column + j], rows, tile[j]);
    }
    for (int64_t i = 0; i < rows; i++) {
      uint8_t *cell = out + (size_t)(i * dataset->columns + column) * to.size;
      for (int64_t j = 0; j < width; j++, cell += to.size) {
        const uint8_t *from = (const uint8_t *)tile[j] + (size_t)i * to.size;
        switch (to.size) { /* a copy of known size is one instruction */
          case 8:
            memcpy(cell, from, 8);
            break;
          case 4:
            memcpy(cell, from, 4);
            break;
          case 2:
            memcpy(cell, from, 2);
            break;
          default:
            *cell = *from;
        }
      }
    }
  }
}

static void convert_transposed(const lac_dataset *dataset, conversion to, int64_t first, int64_t count, uint8_t *out) {
  for (int64_t i = 0; i < count; i += LAC_TILE) {
    int64_t rows = count - i < LAC_TILE ? count - i : LAC_TILE;
    convert_tile(dataset, to, dataset->values + (first + i) * dataset->row_stride, rows,
                 out + (size_t)(i * dataset->columns) * to.size);
  }
}

/* Rows that are not in memory: read a block at a time. */
static lac_status convert_blocks(lac_context *context, const lac_dataset *dataset, conversion to, int64_t first,
                                 int64_t count, uint8_t *out) {
  int64_t stride = dataset->columns * (int64_t)lac_type_size(dataset->type), block = lac_dataset_block(dataset);
  uint8_t *raw;
  LAC_TRY(lac_allocate(context, block < count ? block : count, (size_t)stride, (void **)&raw));
  lac_status status = LAC_OK;
  for (int64_t i = 0; i < count && !status; i += block) {
    int64_t rows = count - i < block ? count - i : block;
    status = dataset->storage->ops->read(context, dataset->storage->state, dataset->first_row + first + i, rows, raw);
    if (!status) {
      convert_rows(dataset, to, raw, stride, rows, out + (size_t)(i * dataset->columns) * to.size);
    }
  }
  lac_free(raw);
  return status;
}

static lac_status read_rows(lac_context *context, const lac_dataset *dataset, conversion to, int64_t first,
                            int64_t count, void *out) {
  LAC_TRY(lac_dataset_check_rows(context, dataset, first, count));
  if (!dataset->values) {
    return convert_blocks(context, dataset, to, first, count, out);
  }
  if (dataset->storage->column_offsets) {
    convert_transposed(dataset, to, first, count, out);
  } else {
    convert_rows(dataset, to, dataset->values + first * dataset->row_stride, dataset->row_stride, count, out);
  }
  return LAC_OK;
}

lac_status lac_dataset_read_f32(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                                float *out) {
  return read_rows(context, dataset, (conversion){lac_convert_f32, sizeof(float)}, first, count, out);
}

lac_status lac_dataset_read_f64(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                                double *out) {
  return read_rows(context, dataset, (conversion){lac_convert_f64, sizeof(double)}, first, count, out);
}

lac_status lac_dataset_read_native(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                                   void *out) {
  return read_rows(context, dataset, (conversion){lac_convert_native, lac_type_size(dataset->type)}, first, count, out);
}

/* float64 holds every int32 exactly, and an int64 that it rounds is beyond int32 anyway. */
static lac_status narrow_i32(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                             const double *values, int32_t *out) {
  for (int64_t i = 0; i < count * dataset->columns; i++) {
    if (!(values[i] >= INT32_MIN && values[i] <= INT32_MAX) || values[i] != (double)(int32_t)values[i]) {
      return lac_fail(
          context, LAC_E_INPUT, "%s: row %" PRId64 ", column %" PRId64 ": found %.9g, expected an integer of 32 bits",
          dataset->storage->path, dataset->first_row + first + i / dataset->columns, i % dataset->columns, values[i]);
    }
    out[i] = (int32_t)values[i];
  }
  return LAC_OK;
}

lac_status lac_dataset_read_i32(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                                int32_t *out) {
  if (dataset->type == LAC_I32) {
    return lac_dataset_read_native(context, dataset, first, count, out);
  }
  LAC_TRY(check_range(context, dataset, first, count));
  int64_t block = lac_dataset_block(dataset);
  double *values;
  LAC_TRY(lac_allocate(context, (block < count ? block : count) * dataset->columns, sizeof *values, (void **)&values));
  lac_status status = LAC_OK;
  for (int64_t i = 0; i < count && !status; i += block) {
    int64_t rows = count - i < block ? count - i : block;
    status = lac_dataset_read_f64(context, dataset, first + i, rows, values);
    if (!status) {
      status = narrow_i32(context, dataset, first + i, rows, values, out + i * dataset->columns);
    }
  }
  lac_free(values);
  return status;
}
