/* IDX, the format of the MNIST files: bytes 0, 0, type, axes; each axis as a big-endian uint32; big-endian values.
 * Source: LeCun, Cortes and Burges, the page of the MNIST database. */
#include "data/format.h"

enum { IDX_HEAD = 4 };

static bool idx_type(uint8_t code, lac_type *type) {
  switch (code) {
    case 0x08:
      *type = LAC_U8;
      return true;
    case 0x09:
      *type = LAC_I8;
      return true;
    case 0x0b:
      *type = LAC_I16;
      return true;
    case 0x0c:
      *type = LAC_I32;
      return true;
    case 0x0d:
      *type = LAC_F32;
      return true;
    case 0x0e:
      *type = LAC_F64;
      return true;
    default:
      return false;
  }
}

static bool idx_probe(const uint8_t *bytes, size_t size) {
  lac_type type;
  return size >= IDX_HEAD && bytes[0] == 0 && bytes[1] == 0 && idx_type(bytes[2], &type) && bytes[3] >= 1 &&
         bytes[3] <= LAC_AXES;
}

static lac_status idx_open(lac_context *context, lac_dataset *dataset) {
  const lac_storage *storage = dataset->storage;
  const uint8_t *bytes = storage->bytes;
  LAC_TRY(lac_storage_need(context, storage, IDX_HEAD, "the magic number of IDX"));
  if (!idx_probe(bytes, storage->size)) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: offset 0: found magic number %02x %02x %02x %02x, expected 00 00, a type (08 09 0b 0c 0d 0e) "
                    "and 1 to %d axes, as IDX has",
                    storage->path, bytes[0], bytes[1], bytes[2], bytes[3], LAC_AXES);
  }
  int axes = bytes[3];
  size_t values = IDX_HEAD + 4 * (size_t)axes;
  LAC_TRY(lac_storage_need(context, storage, values, "the sizes of the axes"));
  int64_t shape[LAC_AXES], size;
  for (int i = 0; i < axes; i++) {
    const uint8_t *axis = bytes + IDX_HEAD + 4 * i;
    shape[i] = (int64_t)axis[0] << 24 | axis[1] << 16 | axis[2] << 8 | axis[3];
  }
  idx_type(bytes[2], &dataset->type);
  dataset->swapped = true;
  LAC_TRY(lac_layout_shape(context, dataset, IDX_HEAD, axes, shape, &size));
  return lac_layout_values(context, dataset, values, size);
}

static const char *const idx_suffixes[] = {".idx", "-ubyte", NULL};

const lac_format lac_format_idx = {
    .name = "idx", .suffixes = idx_suffixes, .weak = true, .probe = idx_probe, .open = idx_open};
