/* fvecs, bvecs and ivecs: each row is a record of its dimension (little-endian int32) and its values. Source: the page
 * of the TEXMEX corpora.
 *
 * All records have the dimension of the first, which is checked without a pass over a large file: the size must divide
 * into such records; on opening, every record of a file up to VECS_SCAN bytes and a sample of evenly spaced ones,
 * with the first and the last, of a larger file; and every record again whenever its row is read. */
#include <inttypes.h>
#include <string.h>

#include "data/format.h"

enum { VECS_HEAD = 4, VECS_SCAN = 1 << 20, VECS_SAMPLE = 64 };

static int32_t dimension_at(const lac_storage *storage, int64_t record, int64_t size) {
  int32_t dimension;
  memcpy(&dimension, storage->bytes + record * size, sizeof dimension);
  return dimension;
}

/* Records between a good one and a later bad one: the first bad one of a file that is out of step from there on. */
static int64_t first_bad(const lac_storage *storage, int64_t good, int64_t bad, int64_t size, int32_t dimension) {
  while (bad - good > 1) {
    int64_t middle = good + (bad - good) / 2;
    if (dimension_at(storage, middle, size) == dimension) {
      good = middle;
    } else {
      bad = middle;
    }
  }
  return bad;
}

static lac_status check_sample(lac_context *context, const lac_storage *storage, int64_t rows, int64_t size,
                               int32_t dimension) {
  int64_t sample = storage->size <= VECS_SCAN || rows < VECS_SAMPLE ? rows : VECS_SAMPLE;
  int64_t good = 0;
  for (int64_t i = 1; i < sample; i++) {
    int64_t record = (int64_t)((double)i / (double)(sample - 1) * (double)(rows - 1));
    if (dimension_at(storage, record, size) != dimension) {
      record = first_bad(storage, good, record, size, dimension);
      return lac_fail(context, LAC_E_INPUT,
                      "%s: record %" PRId64 " at offset %" PRId64 ": found dimension %" PRId32 ", expected %" PRId32
                      " as in record 0",
                      storage->path, record, record * size, dimension_at(storage, record, size), dimension);
    }
    good = record;
  }
  return LAC_OK;
}

static lac_status vecs_open(lac_context *context, lac_dataset *dataset, lac_type type) {
  const lac_storage *storage = dataset->storage;
  LAC_TRY(lac_storage_need(context, storage, VECS_HEAD, "the dimension of record 0"));
  int32_t dimension = dimension_at(storage, 0, 0);
  if (dimension < 1) {
    return lac_fail(context, LAC_E_INPUT, "%s: record 0 at offset 0: found dimension %" PRId32 ", expected 1 or more",
                    storage->path, dimension);
  }
  int64_t size = VECS_HEAD + dimension * (int64_t)lac_type_size(type), rows = (int64_t)storage->size / size, bytes;
  int64_t rest = (int64_t)storage->size % size;
  LAC_TRY(rows > 0 ? check_sample(context, storage, rows, size, dimension) : LAC_OK);
  if (rest != 0) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: record %" PRId64 " at offset %" PRId64 ": found %" PRId64 " bytes, expected %" PRId64
                    " for dimension %" PRId32 ": the file is truncated or no %s file",
                    storage->path, rows, rows * size, rest, size, dimension, dataset->format);
  }
  int64_t shape[2] = {rows, dimension};
  dataset->type = type;
  dataset->records = true;
  LAC_TRY(lac_layout_shape(context, dataset, 0, 2, shape, &bytes));
  dataset->values = storage->bytes + VECS_HEAD;
  dataset->row_stride = size;
  return LAC_OK;
}

static lac_status fvecs_open(lac_context *context, lac_dataset *dataset) {
  return vecs_open(context, dataset, LAC_F32);
}

static lac_status bvecs_open(lac_context *context, lac_dataset *dataset) {
  return vecs_open(context, dataset, LAC_U8);
}

static lac_status ivecs_open(lac_context *context, lac_dataset *dataset) {
  return vecs_open(context, dataset, LAC_I32);
}

static const char *const fvecs_suffixes[] = {".fvecs", NULL};
static const char *const bvecs_suffixes[] = {".bvecs", NULL};
static const char *const ivecs_suffixes[] = {".ivecs", NULL};

const lac_format lac_format_fvecs = {.name = "fvecs", .suffixes = fvecs_suffixes, .open = fvecs_open};
const lac_format lac_format_bvecs = {.name = "bvecs", .suffixes = bvecs_suffixes, .open = bvecs_open};
const lac_format lac_format_ivecs = {.name = "ivecs", .suffixes = ivecs_suffixes, .open = ivecs_open};
