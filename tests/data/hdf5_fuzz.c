/* The input is a recipe for an HDF5 file rather than its bytes: the HDF5 library itself does not withstand damaged
 * metadata, and what is tried here is our reader. Whatever arrays the library can write, of any type, shape, layout,
 * filter and place, must be refused or give the very values that were written. */
#include "fuzz.h"

#include <hdf5.h>

enum { RECIPE_AXES = 10, RECIPE_BYTES = 1 << 14 };

typedef struct recipe {
  const uint8_t *at, *end;
} recipe;

/* The next byte of the recipe, below `limit`; 0 at its end. */
static int take(recipe *self, int limit) {
  return self->at < self->end ? *self->at++ % limit : 0;
}

static hid_t half_type(void) {
  hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

static hid_t compound_type(void) {
  hid_t type = H5Tcreate(H5T_COMPOUND, 8);
  H5Tinsert(type, "x", 0, H5T_IEEE_F32LE);
  H5Tinsert(type, "y", 4, H5T_STD_I32LE);
  return type;
}

static hid_t take_type(recipe *self) {
  const hid_t types[] = {H5T_STD_U8LE,  H5T_STD_I8LE,  H5T_STD_I16LE,  H5T_STD_I16BE,  H5T_STD_I32LE,  H5T_STD_I32BE,
                         H5T_STD_I64LE, H5T_STD_I64BE, H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE,
                         H5T_STD_U16LE, H5T_STD_U32BE, H5T_STD_U64LE,  H5T_STD_B8LE,   H5T_C_S1,       H5T_UNIX_D32LE};
  enum { TYPES = sizeof types / sizeof types[0] };
  int kind = take(self, TYPES + 4);
  hid_t type = kind == TYPES ? compound_type() : kind < TYPES ? H5Tcopy(types[kind]) : half_type();
  if (kind == TYPES + 2) {
    H5Tset_order(type, H5T_ORDER_BE);
  } else if (kind == TYPES + 3) {
    H5Tset_precision(type, 12); /* a float of no usual kind */
  }
  return type;
}

static hid_t take_layout(recipe *self, hid_t type, int axes, const hsize_t *shape) {
  hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
  int kind = take(self, 4), filters = take(self, 9);
  H5Pset_alloc_time(layout, (H5D_alloc_time_t)(H5D_ALLOC_TIME_EARLY + take(self, 3)));
  if (kind == 0) {
    H5Pset_layout(layout, H5D_CONTIGUOUS);
  } else if (kind == 1) {
    H5Pset_layout(layout, H5D_COMPACT);
  } else if (axes > 0) {
    hsize_t chunk[RECIPE_AXES];
    for (int i = 0; i < axes; i++) {
      hsize_t most = shape[i] > 0 ? shape[i] : 1;
      chunk[i] = 1 + (hsize_t)take(self, 256) % most;
    }
    H5Pset_chunk(layout, axes, chunk);
    (void)(filters & 1 && H5Pset_shuffle(layout));
    (void)(filters & 2 && H5Pset_deflate(layout, 1));
    (void)(filters & 4 && H5Pset_fletcher32(layout));
    if (filters == 8 && H5Tget_class(type) == H5T_INTEGER) { /* alone: the library does not withstand more */
      H5Pset_scaleoffset(layout, H5Z_SO_INT, 0);
    }
  }
  return layout;
}

/* One array of the recipe; *written says that all its values are those of `values`, which are *bytes long. */
static void take_array(recipe *self, hid_t place, const char *name, uint8_t *values, size_t *bytes, bool *written) {
  hsize_t shape[RECIPE_AXES], total = 1;
  int axes = take(self, RECIPE_AXES + 1);
  for (int i = 0; i < axes; i++) {
    shape[i] = (hsize_t)take(self, 256);
    total *= shape[i] <= RECIPE_BYTES / 8 / (total ? total : 1) ? shape[i] : 0;
    shape[i] = total ? shape[i] : 0;
  }
  hid_t type = take_type(self), layout = take_layout(self, type, axes, shape);
  hid_t space = axes ? H5Screate_simple(axes, shape, NULL) : H5Screate(take(self, 2) ? H5S_SCALAR : H5S_NULL);
  hid_t set = H5Dcreate2(place, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
  *bytes = (size_t)total * H5Tget_size(type);
  *written = false;
  if (set >= 0 && total && take(self, 8) != 7) {
    for (size_t i = 0; i < *bytes; i++) {
      values[i] = (uint8_t)take(self, 256);
    }
    *written = H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
  }
  H5Dclose(set);
  H5Sclose(space);
  H5Tclose(type);
  H5Pclose(layout);
}

/* The file of a recipe, malloc'ed; NULL when the library would not make it. `values` are those of the array that the
 * reader should choose, if *written. */
static uint8_t *make_file(recipe *self, size_t *size, uint8_t *values, size_t *bytes, bool *written) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_fapl_core(access, 4096, false);
  H5Pset_libver_bounds(access, take(self, 2) ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
  H5Pset_userblock(creation, take(self, 4) == 3 ? 512 : 0);
  hid_t file = H5Fcreate("recipe", H5F_ACC_TRUNC, creation, access);
  int place = take(self, 6);
  if (place >= 4) {
    H5Gclose(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  if (place == 3) {
    H5Lcreate_soft("/nowhere", file, "link", H5P_DEFAULT, H5P_DEFAULT);
  }
  take_array(self, file, place == 0 ? "train" : place == 5 ? "group/train" : "other", values, bytes, written);
  if (place == 2) {
    uint8_t more[RECIPE_BYTES];
    size_t more_bytes;
    bool more_written;
    take_array(self, file, "second", more, &more_bytes, &more_written);
    *written = false;
  }
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  ssize_t length = H5Fget_file_image(file, NULL, 0);
  uint8_t *image = length > 0 ? malloc((size_t)length) : NULL;
  *size = image && H5Fget_file_image(file, image, (size_t)length) == length ? (size_t)length : 0;
  H5Fclose(file);
  H5Pclose(access);
  H5Pclose(creation);
  return image;
}

static void compare(const uint8_t *image, size_t size, const uint8_t *values, size_t bytes) {
  lac_context *context;
  lac_dataset *dataset;
  if (lac_context_create(&context)) {
    return;
  }
  if (!lac_dataset_open_memory(context, "fuzz", image, size, "hdf5", &dataset)) {
    uint8_t *read = malloc(bytes);
    size_t element = lac_type_size(lac_dataset_type(dataset));
    size_t found = (size_t)(lac_dataset_rows(dataset) * lac_dataset_columns(dataset)) * element;
    fuzz_require(read && found == bytes, "there are as many values as were written");
    fuzz_require(!lac_dataset_read_native(context, dataset, 0, lac_dataset_rows(dataset), read), "they can be read");
    for (size_t i = 0; i < bytes; i++) {
      size_t from = dataset->swapped ? i / element * element + element - 1 - i % element : i;
      fuzz_require(read[i] == values[from], "they are what was written");
    }
    free(read);
  }
  lac_dataset_destroy(&dataset);
  lac_context_destroy(&context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  recipe self = {data, data + size};
  uint8_t values[RECIPE_BYTES];
  size_t length = 0, bytes = 0;
  bool written = false;
  uint8_t *image = NULL;
  H5E_BEGIN_TRY {
    image = make_file(&self, &length, values, &bytes, &written);
  }
  H5E_END_TRY
  if (image && length) {
    fuzz_format(image, length, "fuzz", "hdf5");
    if (written) {
      compare(image, length, values, bytes);
    }
    fuzz_format(image, length * (size_t)take(&self, 256) / 256, "fuzz", "hdf5"); /* truncated */
  }
  free(image);
  return 0;
}
