/* Arrays to files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "laconic/dataset.h"
#include "laconic/output.h"

enum { LAC_WRITE_BYTES = 1 << 20 };

/* What an extension stands for. */
typedef enum array_kind { ARRAY_NPY, ARRAY_FVECS, ARRAY_BVECS, ARRAY_IVECS } array_kind;

static const struct {
  const char *suffix;
  lac_type type; /* of a vecs file */
} kinds[] = {[ARRAY_NPY] = {".npy", LAC_U8},
             [ARRAY_FVECS] = {".fvecs", LAC_F32},
             [ARRAY_BVECS] = {".bvecs", LAC_U8},
             [ARRAY_IVECS] = {".ivecs", LAC_I32}};

static const char *const npy_codes[] = {
    [LAC_U8] = "|u1",  [LAC_I32] = "<i4", [LAC_F16] = "<f2", [LAC_F32] = "<f4",
    [LAC_F64] = "<f8", [LAC_I64] = "<i8", [LAC_I8] = "|i1",  [LAC_I16] = "<i2",
};

static bool holds(array_kind kind, lac_type type) {
  return kind == ARRAY_NPY || kinds[kind].type == type;
}

static lac_status fail_extension(lac_context *context, const char *path, const char *found, lac_type type) {
  char expected[64] = "";
  size_t used = 0;
  for (int i = ARRAY_NPY; i <= ARRAY_IVECS; i++) {
    if (holds((array_kind)i, type)) {
      used += (size_t)snprintf(expected + used, sizeof expected - used, "%s%s", used ? " or " : "", kinds[i].suffix);
    }
  }
  return lac_fail(context, LAC_E_USAGE, "%s: found extension '%s', expected %s for values of type %s", path, found,
                  expected, lac_type_name(type));
}

static lac_status find_kind(lac_context *context, const char *path, lac_type type, array_kind *kind) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  for (int i = ARRAY_NPY; i <= ARRAY_IVECS; i++) {
    if (dot && strcasecmp(dot, kinds[i].suffix) == 0 && holds((array_kind)i, type)) {
      *kind = (array_kind)i;
      return LAC_OK;
    }
  }
  return fail_extension(context, path, dot ? dot : "", type);
}

static lac_status go_on(lac_context *context, const char *path) {
  return lac_context_interrupted(context)
             ? lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted while writing it", path)
             : LAC_OK;
}

/* Magic number, version 1.0, length and dictionary, padded so that the values begin at a multiple of 64. */
static lac_status write_npy_header(lac_context *context, lac_output *output, lac_type type, int64_t rows,
                                   int64_t columns) {
  enum { HEAD = 128, PREFIX = 10 };
  char head[HEAD + 1];
  int used = snprintf(head + PREFIX, sizeof head - PREFIX,
                      "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }", npy_codes[type],
                      rows, columns);
  memcpy(head, "\x93NUMPY\x01\x00", 8);
  head[8] = HEAD - PREFIX;
  head[9] = 0;
  memset(head + PREFIX + used, ' ', (size_t)(HEAD - PREFIX - used));
  head[HEAD - 1] = '\n';
  return lac_output_write(context, output, head, HEAD);
}

static lac_status write_values(lac_context *context, lac_output *output, const uint8_t *values, size_t bytes) {
  while (bytes > 0) {
    size_t step = bytes < LAC_WRITE_BYTES ? bytes : LAC_WRITE_BYTES;
    LAC_TRY(lac_output_write(context, output, values, step));
    LAC_TRY(go_on(context, output->path));
    values += step;
    bytes -= step;
  }
  return LAC_OK;
}

static lac_status write_records(lac_context *context, lac_output *output, lac_type type, const uint8_t *values,
                                int64_t rows, int64_t columns) {
  size_t size = (size_t)columns * lac_type_size(type);
  int32_t dimension = (int32_t)columns;
  for (int64_t row = 0; row < rows; row++, values += size) {
    LAC_TRY(lac_output_write(context, output, &dimension, sizeof dimension));
    LAC_TRY(lac_output_write(context, output, values, size));
    if (row % 4096 == 0) {
      LAC_TRY(go_on(context, output->path));
    }
  }
  return LAC_OK;
}

struct lac_array_writer {
  lac_output output;
  array_kind kind;
  lac_type type;
  int64_t rows, columns, written;
};

lac_status lac_array_check(lac_context *context, const char *path, lac_type type) {
  array_kind kind = ARRAY_NPY;
  LAC_TRY(lac_output_check(context, path));
  return find_kind(context, path, type, &kind);
}

static lac_status check_sizes(lac_context *context, const char *path, const lac_array_writer *writer) {
  int64_t total;
  if (writer->rows < 1 || writer->columns < 1 || __builtin_mul_overflow(writer->rows, writer->columns, &total) ||
      __builtin_mul_overflow(total, (int64_t)lac_type_size(writer->type), &total) ||
      (writer->kind != ARRAY_NPY && writer->columns > INT32_MAX)) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: an array of %" PRId64 " rows and %" PRId64 " columns asked for, which %s cannot hold", path,
                    writer->rows, writer->columns, kinds[writer->kind].suffix);
  }
  return LAC_OK;
}

lac_status lac_array_create(lac_context *context, const char *path, lac_type type, int64_t rows, int64_t columns,
                            lac_array_writer **writer) {
  *writer = NULL;
  lac_array_writer made = {.kind = ARRAY_NPY, .type = type, .rows = rows, .columns = columns};
  LAC_TRY(find_kind(context, path, type, &made.kind));
  LAC_TRY(check_sizes(context, path, &made));
  LAC_TRY(lac_output_open(context, path, &made.output));
  lac_status status = LAC_OK;
  if (made.kind == ARRAY_NPY) {
    status = write_npy_header(context, &made.output, type, rows, columns);
  }
  if (!status) {
    status = LAC_NEW(context, 1, writer);
  }
  if (status) {
    lac_output_discard(&made.output);
    return status;
  }
  **writer = made;
  return LAC_OK;
}

lac_status lac_array_append(lac_context *context, lac_array_writer *writer, const void *values, int64_t rows) {
  if (rows < 0 || rows > writer->rows - writer->written) {
    return lac_fail(context, LAC_E_USAGE, "%s: %" PRId64 " rows after row %" PRId64 " asked for, of %" PRId64,
                    writer->output.path, rows, writer->written, writer->rows);
  }
  LAC_TRY(writer->kind == ARRAY_NPY
              ? write_values(context, &writer->output, values,
                             (size_t)(rows * writer->columns) * lac_type_size(writer->type))
              : write_records(context, &writer->output, writer->type, values, rows, writer->columns));
  writer->written += rows;
  return LAC_OK;
}

lac_status lac_array_finish(lac_context *context, lac_array_writer **writer) {
  lac_status status;
  if ((*writer)->written < (*writer)->rows) {
    status = lac_fail(context, LAC_E_USAGE, "%s: finished after %" PRId64 " rows, of %" PRId64, (*writer)->output.path,
                      (*writer)->written, (*writer)->rows);
  } else {
    status = lac_output_commit(context, &(*writer)->output);
  }
  lac_array_discard(writer);
  return status;
}

void lac_array_discard(lac_array_writer **writer) {
  if (*writer) {
    lac_output_discard(&(*writer)->output);
    lac_free(*writer);
    *writer = NULL;
  }
}

lac_status lac_array_write(lac_context *context, const char *path, lac_type type, const void *values, int64_t rows,
                           int64_t columns) {
  lac_array_writer *writer;
  LAC_TRY(lac_array_create(context, path, type, rows, columns, &writer));
  lac_status status = lac_array_append(context, writer, values, rows);
  if (!status) {
    return lac_array_finish(context, &writer);
  }
  lac_array_discard(&writer);
  return status;
}
