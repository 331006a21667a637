/* HDF5 in the layout of ann-benchmarks: arrays named train, test, neighbors, distances. A contiguous array is mapped
 * where it stands in the file; chunked, compressed and compact ones are read by blocks of rows.
 *
 * The library may be built without locks, and is one for the whole process: calls of it are serialised here by the one
 * global variable that this needs. */
#include <hdf5.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "data/format.h"

/* Packed data grow by less than this on reading (deflate: 1032 times), so that a small file cannot claim any size. */
enum { HDF5_RATIO = 2048, HDF5_NAMES = 256, HDF5_CACHE_SLOTS = 12421 };
static const size_t hdf5_cache = (size_t)1 << 28, hdf5_cache_most = (size_t)1 << 30;

static pthread_mutex_t hdf5_lock = PTHREAD_MUTEX_INITIALIZER;

/* An open array; handles below 0 are none. */
typedef struct hdf5_array {
  const lac_storage *storage;
  hid_t file, set, type, space, creation;
  int axes;
  hsize_t shape[H5S_MAX_RANK];
} hdf5_array;

/* ---- Under the lock, with the library's error output silenced ---- */

static herr_t first_line(unsigned n, const H5E_error2_t *error, void *text) {
  const char **first = text;
  if (n == 0 && error->desc) {
    *first = error->desc;
  }
  return 0;
}

/* INPUT with what was tried and the innermost reason that the library gives. */
static lac_status fail_hdf5(lac_context *context, const lac_storage *storage, const char *what) {
  const char *reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_line, &reason);
  return lac_fail(context, LAC_E_INPUT, "%s: HDF5: %s: %s", storage->path, what, reason);
}

static void close_array(hdf5_array *self) {
  if (self->creation >= 0) {
    H5Pclose(self->creation);
  }
  if (self->space >= 0) {
    H5Sclose(self->space);
  }
  if (self->type >= 0) {
    H5Tclose(self->type);
  }
  if (self->set >= 0) {
    H5Dclose(self->set);
  }
  if (self->file >= 0) {
    H5Fclose(self->file);
  }
}

static bool is_on_disk(const lac_storage *storage) {
  return storage->descriptor >= 0;
}

static lac_status open_file(lac_context *context, hdf5_array *self) {
  const lac_storage *storage = self->storage;
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (access < 0) {
    return fail_hdf5(context, storage, "cannot be set up");
  }
  char name[64];
  snprintf(name, sizeof name, "memory-%p", (const void *)storage); /* the library tells files in memory apart by it */
  herr_t set = 0;
  if (!is_on_disk(storage)) {
    set = H5Pset_fapl_core(access, (size_t)1 << 16, false);
    set = set < 0 ? set : H5Pset_file_image(access, (void *)(uintptr_t)storage->bytes, storage->size);
  } else {
#if H5_VERSION_GE(1, 10, 7)
    set = H5Pset_file_locking(access, false, true); /* readers of other formats do not lock either */
#endif
  }
  self->file = set < 0 ? -1 : H5Fopen(is_on_disk(storage) ? storage->file : name, H5F_ACC_RDONLY, access);
  lac_status status = self->file < 0 ? fail_hdf5(context, storage, "cannot be opened") : LAC_OK;
  H5Pclose(access);
  return status;
}

/* The arrays at the top of a file: how many, and their names as far as they fit. */
typedef struct name_list {
  int count;
  char only[HDF5_NAMES], all[HDF5_NAMES];
} name_list;

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *argument) {
  (void)info;
  name_list *list = argument;
  hid_t object = H5Oopen(group, name, H5P_DEFAULT);
  if (object < 0) {
    return 0; /* a link that leads nowhere */
  }
  if (H5Iget_type(object) == H5I_DATASET) {
    size_t used = strlen(list->all);
    snprintf(list->all + used, sizeof list->all - used, list->count ? ", %s" : "%s", name);
    snprintf(list->only, sizeof list->only, "%s", name);
    list->count++;
  }
  H5Oclose(object);
  return 0;
}

/* That the array is in this file: a link may lead to another. */
static lac_status check_own(lac_context *context, const hdf5_array *self, const char *name) {
  char own[4096], other[4096];
  ssize_t here = H5Fget_name(self->file, own, sizeof own), there = H5Fget_name(self->set, other, sizeof other);
  if (here < 0 || there < 0 || here >= (ssize_t)sizeof own || strcmp(own, other) != 0) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: HDF5: found the array '%s' in the other file %s, expected it in this one", self->storage->path,
                    name, there < 0 ? "?" : other);
  }
  return LAC_OK;
}

/* The array that the path names, else train, else the only one. */
static lac_status open_array(lac_context *context, hdf5_array *self, const char *part) {
  name_list list = {0};
  if (H5Literate(self->file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, add_name, &list) < 0) {
    return fail_hdf5(context, self->storage, "its content cannot be listed");
  }
  const char *name = part ? part : H5Lexists(self->file, "train", H5P_DEFAULT) > 0 ? "train" : list.only;
  if (!part && name == list.only && list.count != 1) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: HDF5: found %d arrays at the top (%s) and none is train, expected FILE:NAME to name one",
                    self->storage->path, list.count, list.all);
  }
  self->set = H5Dopen2(self->file, name, H5P_DEFAULT);
  if (self->set < 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: HDF5: found no array '%s', expected one of those there: %s",
                    self->storage->path, name, list.count ? list.all : "none");
  }
  LAC_TRY(check_own(context, self, name));
  self->type = H5Dget_type(self->set);
  self->space = H5Dget_space(self->set);
  self->creation = H5Dget_create_plist(self->set);
  if (self->type < 0 || self->space < 0 || self->creation < 0) {
    return fail_hdf5(context, self->storage, "the array's type or shape cannot be read");
  }
  return LAC_OK;
}

/* Half precision has no name in the library: 1 sign, 5 exponent and 10 mantissa bits. */
static bool is_half(hid_t type) {
  size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
  return H5Tget_size(type) == 2 &&
         H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 && sign == 15 &&
         exponent == 10 && exponent_bits == 5 && mantissa == 0 && mantissa_bits == 10 && H5Tget_ebias(type) == 15;
}

static bool map_type(hid_t type, lac_type *mapped) {
  const struct {
    hid_t little, big;
    lac_type type;
  } types[] = {{H5T_STD_U8LE, H5T_STD_U8BE, LAC_U8},     {H5T_STD_I8LE, H5T_STD_I8BE, LAC_I8},
               {H5T_STD_I16LE, H5T_STD_I16BE, LAC_I16},  {H5T_STD_I32LE, H5T_STD_I32BE, LAC_I32},
               {H5T_STD_I64LE, H5T_STD_I64BE, LAC_I64},  {H5T_IEEE_F32LE, H5T_IEEE_F32BE, LAC_F32},
               {H5T_IEEE_F64LE, H5T_IEEE_F64BE, LAC_F64}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (H5Tequal(type, types[i].little) > 0 || H5Tequal(type, types[i].big) > 0) {
      *mapped = types[i].type;
      return true;
    }
  }
  *mapped = LAC_F16;
  return H5Tget_class(type) == H5T_FLOAT && is_half(type);
}

static lac_status read_layout(lac_context *context, hdf5_array *self, lac_dataset *dataset, int64_t *bytes) {
  H5T_order_t order = H5Tget_order(self->type);
  if ((order != H5T_ORDER_LE && order != H5T_ORDER_BE) || !map_type(self->type, &dataset->type)) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: HDF5: found elements of class %d and %zu bytes, expected u1, i1, i2, i4, i8, f2, f4 or f8",
                    self->storage->path, (int)H5Tget_class(self->type), H5Tget_size(self->type));
  }
  dataset->swapped = order == H5T_ORDER_BE && lac_type_size(dataset->type) > 1;
  self->axes = H5Sget_simple_extent_ndims(self->space);
  if (self->axes < 0 || H5Sget_simple_extent_dims(self->space, self->shape, NULL) < 0) {
    return fail_hdf5(context, self->storage, "the array's shape cannot be read");
  }
  int64_t shape[LAC_AXES];
  for (int i = 0; i < self->axes && i < LAC_AXES; i++) {
    shape[i] = self->shape[i] > INT64_MAX ? INT64_MAX : (int64_t)self->shape[i];
  }
  return lac_layout_shape(context, dataset, 0, self->axes, shape, bytes);
}

/* Whether the array's values stand in the file as they are; *offset is where. */
static bool is_mappable(const hdf5_array *self, haddr_t *offset) {
  *offset = HADDR_UNDEF;
  if (H5Pget_layout(self->creation) == H5D_CONTIGUOUS && H5Pget_external_count(self->creation) == 0) {
    *offset = H5Dget_offset(self->set);
  }
  return *offset != HADDR_UNDEF;
}

/* That the file holds values for every element, and enough bytes of them. */
static lac_status check_stored(lac_context *context, const hdf5_array *self, int64_t bytes) {
  H5D_layout_t layout = H5Pget_layout(self->creation);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(self->creation) != 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: HDF5: found values in other files, expected them in this one",
                    self->storage->path);
  }
  hsize_t stored = H5Dget_storage_size(self->set);
  bool enough = layout == H5D_CHUNKED ? (uint64_t)bytes / HDF5_RATIO <= stored : (uint64_t)bytes == stored;
  if (stored > self->storage->size || !enough) {
    return lac_fail(context, LAC_E_INPUT, "%s: HDF5: found %" PRIu64 " bytes stored, expected values of %" PRId64,
                    self->storage->path, (uint64_t)stored, bytes);
  }
  return LAC_OK;
}

/* That the values are packed in a usual way, which the library can undo. It does not withstand all combinations of the
 * unusual ones, even in files of its own. */
static lac_status check_filters(lac_context *context, const hdf5_array *self) {
  int count = H5Pget_nfilters(self->creation);
  for (int i = 0; i < count; i++) {
    unsigned flags;
    size_t parameters = 0;
    H5Z_filter_t filter = H5Pget_filter2(self->creation, (unsigned)i, &flags, &parameters, NULL, 0, NULL, NULL);
    bool usual = filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_FLETCHER32;
    if (!usual || H5Zfilter_avail(filter) <= 0) {
      return lac_fail(context, LAC_E_UNSUPPORTED,
                      "%s: HDF5: found values packed by filter %d, expected only %d (deflate), %d (shuffle) or %d "
                      "(checksum)",
                      self->storage->path, (int)filter, H5Z_FILTER_DEFLATE, H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32);
    }
  }
  return LAC_OK;
}

/* Reopens a chunked array with a cache for the chunks that some threads' blocks of rows lie in: without it, each block
 * would unpack them again. */
static lac_status widen_cache(lac_context *context, hdf5_array *self, const lac_dataset *dataset) {
  hsize_t chunk[H5S_MAX_RANK];
  if (H5Pget_layout(self->creation) != H5D_CHUNKED) {
    return LAC_OK;
  }
  if (H5Pget_chunk(self->creation, H5S_MAX_RANK, chunk) != self->axes) {
    return fail_hdf5(context, self->storage, "the array's chunks cannot be read");
  }
  double band = (double)chunk[0] * (double)lac_type_size(dataset->type);
  for (int i = 1; i < self->axes; i++) {
    hsize_t across = (self->shape[i] + chunk[i] - 1) / chunk[i];
    band *= (double)across * (double)chunk[i];
  }
  double wanted = 4 * band < (double)hdf5_cache ? 4 * band : band > (double)hdf5_cache ? band : (double)hdf5_cache;
  char name[HDF5_NAMES];
  ssize_t length = H5Iget_name(self->set, name, sizeof name);
  if (wanted > (double)hdf5_cache_most || length <= 0 || length >= (ssize_t)sizeof name) {
    return LAC_OK; /* slow, but right */
  }
  H5Dclose(self->set); /* first: an array that is open keeps the cache that it has */
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  H5Pset_chunk_cache(access, HDF5_CACHE_SLOTS, (size_t)wanted, 1);
  self->set = H5Dopen2(self->file, name, access);
  H5Pclose(access);
  return self->set < 0 ? fail_hdf5(context, self->storage, "the array cannot be opened again") : LAC_OK;
}

static lac_status select_and_read(lac_context *context, const hdf5_array *self, int64_t first, int64_t count,
                                  void *raw) {
  hsize_t start[H5S_MAX_RANK] = {(hsize_t)first}, block[H5S_MAX_RANK];
  memcpy(block, self->shape, sizeof block);
  block[0] = (hsize_t)count;
  hid_t from = H5Scopy(self->space), to = H5Screate_simple(self->axes, block, NULL);
  bool done = from >= 0 && to >= 0 && H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, block, NULL) >= 0 &&
              H5Dread(self->set, self->type, to, from, H5P_DEFAULT, raw) >= 0;
  lac_status status = LAC_OK;
  if (!done) {
    char what[80];
    snprintf(what, sizeof what, "rows %" PRId64 " to %" PRId64 " cannot be read", first, first + count - 1);
    status = fail_hdf5(context, self->storage, what);
  }
  if (from >= 0) {
    H5Sclose(from);
  }
  if (to >= 0) {
    H5Sclose(to);
  }
  return status;
}

/* ---- Around the lock ---- */

static lac_status read_blocks(lac_context *context, void *state, int64_t first, int64_t count, void *raw) {
  lac_status status;
  pthread_mutex_lock(&hdf5_lock);
  H5E_BEGIN_TRY {
    status = select_and_read(context, state, first, count, raw);
  }
  H5E_END_TRY
  pthread_mutex_unlock(&hdf5_lock);
  return status;
}

static void destroy_array(void *state) {
  pthread_mutex_lock(&hdf5_lock);
  H5E_BEGIN_TRY {
    close_array(state);
  }
  H5E_END_TRY
  pthread_mutex_unlock(&hdf5_lock);
  lac_free(state);
}

static const lac_block_ops hdf5_ops = {read_blocks, destroy_array};

/* Fills the dataset; *keep says that the array stays open for reading. */
static lac_status fill_dataset(lac_context *context, hdf5_array *self, lac_dataset *dataset, bool *keep) {
  int64_t bytes = 0;
  haddr_t offset;
  LAC_TRY(open_file(context, self));
  LAC_TRY(open_array(context, self, dataset->storage->part));
  LAC_TRY(read_layout(context, self, dataset, &bytes));
  if (!is_mappable(self, &offset)) {
    LAC_TRY(check_stored(context, self, bytes));
    LAC_TRY(check_filters(context, self));
    *keep = true;
    return widen_cache(context, self, dataset);
  }
  if (offset > self->storage->size || self->storage->size - offset < (uint64_t)bytes) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: offset %" PRIu64 ": found %zu bytes to the end of the file, expected %" PRId64 " of values",
                    self->storage->path, (uint64_t)offset,
                    offset > self->storage->size ? 0 : self->storage->size - (size_t)offset, bytes);
  }
  dataset->values = self->storage->bytes + offset;
  dataset->row_stride = dataset->columns * (int64_t)lac_type_size(dataset->type);
  return LAC_OK;
}

static lac_status hdf5_open(lac_context *context, lac_dataset *dataset) {
  lac_storage *storage = dataset->storage;
  hdf5_array *self;
  LAC_TRY(LAC_NEW(context, 1, &self));
  *self = (hdf5_array){.storage = storage, .file = -1, .set = -1, .type = -1, .space = -1, .creation = -1};
  bool keep = false;
  lac_status status;
  pthread_mutex_lock(&hdf5_lock);
  H5E_BEGIN_TRY {
    status = fill_dataset(context, self, dataset, &keep);
    if (status || !keep) {
      close_array(self);
    }
  }
  H5E_END_TRY
  pthread_mutex_unlock(&hdf5_lock);
  if (status || !keep) {
    lac_free(self);
    return status;
  }
  storage->state = self;
  storage->ops = &hdf5_ops;
  return LAC_OK;
}

static bool hdf5_probe(const uint8_t *bytes, size_t size) {
  return size >= 8 && memcmp(bytes, "\x89HDF\r\n\x1a\n", 8) == 0;
}

static const char *const hdf5_suffixes[] = {".h5", ".hdf5", ".hdf", NULL};

const lac_format lac_format_hdf5 = {
    .name = "hdf5", .suffixes = hdf5_suffixes, .parts = true, .probe = hdf5_probe, .open = hdf5_open};
