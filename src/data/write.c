/* Arrays to files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "laconic/dataset.h"

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

static lac_status find_kind(lac_context *context, const char *path, lac_type type, array_kind *kind) {
  const char *dot = strrchr(path, '.');
  for (int i = ARRAY_NPY; i <= ARRAY_IVECS; i++) {
    if (dot && strcasecmp(dot, kinds[i].suffix) == 0) {
      *kind = (array_kind)i;
      if (i != ARRAY_NPY && kinds[i].type != type) {
        return lac_fail(context, LAC_E_USAGE, "%s: an array of type %s asked for, %s holds %s", path,
                        lac_type_name(type), kinds[i].suffix, lac_type_name(kinds[i].type));
      }
      return LAC_OK;
    }
  }
  return lac_fail(context, LAC_E_USAGE, "%s: found extension '%s', expected .npy, .fvecs, .bvecs or .ivecs", path,
                  dot ? dot : "");
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

static lac_status write_npy(lac_context *context, lac_output *output, lac_type type, const uint8_t *values,
                            int64_t rows, int64_t columns) {
  LAC_TRY(write_npy_header(context, output, type, rows, columns));
  size_t left = (size_t)(rows * columns) * lac_type_size(type);
  while (left > 0) {
    size_t step = left < LAC_WRITE_BYTES ? left : LAC_WRITE_BYTES;
    LAC_TRY(lac_output_write(context, output, values, step));
    LAC_TRY(go_on(context, output->path));
    values += step;
    left -= step;
  }
  return LAC_OK;
}

static lac_status write_vecs(lac_context *context, lac_output *output, lac_type type, const uint8_t *values,
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

lac_status lac_array_write(lac_context *context, const char *path, lac_type type, const void *values, int64_t rows,
                           int64_t columns) {
  array_kind kind = ARRAY_NPY;
  int64_t total;
  LAC_TRY(find_kind(context, path, type, &kind));
  if (rows < 1 || columns < 1 || __builtin_mul_overflow(rows, columns, &total) ||
      __builtin_mul_overflow(total, (int64_t)lac_type_size(type), &total) ||
      (kind != ARRAY_NPY && columns > INT32_MAX)) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: an array of %" PRId64 " rows and %" PRId64 " columns asked for, which %s cannot hold", path,
                    rows, columns, kinds[kind].suffix);
  }
  lac_output output;
  LAC_TRY(lac_output_open(context, path, &output));
  lac_status status = kind == ARRAY_NPY ? write_npy(context, &output, type, values, rows, columns)
                                        : write_vecs(context, &output, type, values, rows, columns);
  if (status) {
    lac_output_discard(&output);
    return status;
  }
  return lac_output_commit(context, &output);
}
