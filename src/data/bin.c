/* fbin and u8bin, the formats of the billion-scale benchmarks: rows and columns as little-endian uint32, then the
 * values. Source: big-ann-benchmarks. */
#include <string.h>

#include "data/format.h"

enum { BIN_HEAD = 8 };

static lac_status bin_open(lac_context *context, lac_dataset *dataset, lac_type type) {
  const lac_storage *storage = dataset->storage;
  LAC_TRY(lac_storage_need(context, storage, BIN_HEAD, "the numbers of rows and columns"));
  uint32_t head[2];
  memcpy(head, storage->bytes, sizeof head);
  int64_t shape[2] = {head[0], head[1]}, size;
  dataset->type = type;
  LAC_TRY(lac_layout_shape(context, dataset, 0, 2, shape, &size));
  return lac_layout_values(context, dataset, BIN_HEAD, size);
}

static lac_status fbin_open(lac_context *context, lac_dataset *dataset) {
  return bin_open(context, dataset, LAC_F32);
}

static lac_status u8bin_open(lac_context *context, lac_dataset *dataset) {
  return bin_open(context, dataset, LAC_U8);
}

static const char *const fbin_suffixes[] = {".fbin", NULL};
static const char *const u8bin_suffixes[] = {".u8bin", NULL};

const lac_format lac_format_fbin = {.name = "fbin", .suffixes = fbin_suffixes, .open = fbin_open};
const lac_format lac_format_u8bin = {.name = "u8bin", .suffixes = u8bin_suffixes, .open = u8bin_open};
