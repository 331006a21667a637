/* The binary versions of CIFAR-10 and CIFAR-100: records of one label byte (two for CIFAR-100: coarse and fine) and
 * 3072 pixels, 3 planes of 32 x 32. The rows here are the pixels. Source: Krizhevsky's page of the sets.
 *
 * There is no magic number: sizes and labels must fit. Labels are checked in an evenly spaced sample of records. */
#include <inttypes.h>

#include "data/format.h"

enum { CIFAR_PIXELS = 3072, CIFAR_SAMPLE = 64 };

/* How many values each label has; `second` is 0 when there is one label. */
typedef struct cifar_kind {
  int first, second;
} cifar_kind;

static const cifar_kind cifar10 = {10, 0}, cifar100 = {20, 100};

static int64_t label_bytes(cifar_kind kind) {
  return kind.second ? 2 : 1;
}

/* The first record of the sample whose labels are out of range, or -1. */
static int64_t find_bad_label(const lac_storage *storage, cifar_kind kind) {
  int64_t size = label_bytes(kind) + CIFAR_PIXELS, rows = (int64_t)storage->size / size;
  int64_t sample = rows < CIFAR_SAMPLE ? rows : CIFAR_SAMPLE;
  for (int64_t i = 0; i < sample; i++) {
    int64_t record = i * rows / sample;
    const uint8_t *labels = storage->bytes + record * size;
    if (labels[0] >= kind.first || (kind.second && labels[1] >= kind.second)) {
      return record;
    }
  }
  return -1;
}

static bool cifar_fits(const lac_storage *storage, cifar_kind kind) {
  return storage->size % (size_t)(label_bytes(kind) + CIFAR_PIXELS) == 0 && find_bad_label(storage, kind) < 0;
}

static lac_status cifar_open(lac_context *context, lac_dataset *dataset, cifar_kind kind) {
  const lac_storage *storage = dataset->storage;
  int64_t labels = label_bytes(kind), size = labels + CIFAR_PIXELS, bytes;
  int64_t rows = (int64_t)storage->size / size, rest = (int64_t)storage->size % size;
  if (rest != 0) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: record %" PRId64 " at offset %" PRId64 ": found %" PRId64 " bytes, expected %" PRId64
                    ": the file is truncated or no %s file",
                    storage->path, rows, rows * size, rest, size, dataset->format);
  }
  int64_t bad = find_bad_label(storage, kind);
  if (bad >= 0) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: record %" PRId64 " at offset %" PRId64 ": found a label beyond those of %s, expected 0 to %d",
                    storage->path, bad, bad * size, dataset->format, (kind.second ? kind.second : kind.first) - 1);
  }
  int64_t shape[4] = {rows, 3, 32, 32};
  dataset->type = LAC_U8;
  LAC_TRY(lac_layout_shape(context, dataset, 0, 4, shape, &bytes));
  dataset->values = storage->bytes + labels;
  dataset->row_stride = size;
  return LAC_OK;
}

static bool cifar10_fits(const lac_storage *storage) {
  return cifar_fits(storage, cifar10);
}
static bool cifar100_fits(const lac_storage *storage) {
  return cifar_fits(storage, cifar100);
}
static lac_status cifar10_open(lac_context *context, lac_dataset *dataset) {
  return cifar_open(context, dataset, cifar10);
}
static lac_status cifar100_open(lac_context *context, lac_dataset *dataset) {
  return cifar_open(context, dataset, cifar100);
}

static const char *const cifar_suffixes[] = {".bin", NULL};

const lac_format lac_format_cifar10 = {
    .name = "cifar10", .suffixes = cifar_suffixes, .fits = cifar10_fits, .open = cifar10_open};
const lac_format lac_format_cifar100 = {
    .name = "cifar100", .suffixes = cifar_suffixes, .fits = cifar100_fits, .open = cifar100_open};
