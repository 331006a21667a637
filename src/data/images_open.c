/* The sets that lac_images_open knows, and the checks of what their files hold. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/format.h"
#include "data/images.h"

enum { LABEL_LIMIT = 100000, NAMED_CLASSES = 10 };

/* ---- Pictures ---- */

static bool is_channels(int64_t size) {
  return size == 1 || size == 3;
}

/* The shape that a file's axes mean. */
static lac_status shape_of_axes(lac_context *context, const lac_dataset *file, lac_image_shape *shape,
                                bool *interleaved) {
  int64_t n[8];
  int axes = lac_dataset_shape(file, n);
  *interleaved = false;
  if (axes == 3) {
    *shape = (lac_image_shape){1, n[1], n[2]};
  } else if (axes == 4) {
    bool last = !is_channels(n[1]) && is_channels(n[3]);
    *shape = last ? (lac_image_shape){n[3], n[1], n[2]} : (lac_image_shape){n[1], n[2], n[3]};
    *interleaved = last && shape->channels > 1;
  } else {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found an array of %d axes, expected pictures (N, H, W), (N, C, H, W) or (N, H, W, C)",
                    lac_dataset_path(file), axes);
  }
  return LAC_OK;
}

static bool same_shape(lac_image_shape a, lac_image_shape b) {
  return a.channels == b.channels && a.height == b.height && a.width == b.width;
}

/* How the rows of a file hold pictures of a given shape; false when they do not. */
static bool axes_hold(const lac_dataset *file, lac_image_shape shape, int64_t pixels, bool *interleaved) {
  int64_t n[8];
  int axes = lac_dataset_shape(file, n);
  *interleaved = false;
  if (lac_dataset_columns(file) != pixels) {
    return false;
  }
  if (axes == 4 && !same_shape((lac_image_shape){n[1], n[2], n[3]}, shape)) {
    *interleaved = true;
    return same_shape((lac_image_shape){n[3], n[1], n[2]}, shape);
  }
  return axes == 2 || axes == 4 || (axes == 3 && same_shape((lac_image_shape){1, n[1], n[2]}, shape));
}

static lac_status check_floats(lac_context *context, const lac_dataset *file, int64_t first, int64_t count,
                               const float *values) {
  int64_t columns = lac_dataset_columns(file);
  for (int64_t i = 0; i < count * columns; i++) {
    if (!isfinite(values[i])) {
      return lac_fail(context, LAC_E_INPUT,
                      "%s: row %" PRId64 ", column %" PRId64 ": found %f, expected a pixel that is finite as float32",
                      lac_dataset_path(file), lac_dataset_first_row(file) + first + i / columns, i % columns,
                      (double)values[i]);
    }
  }
  return LAC_OK;
}

/* Integers are finite as they are; their rows are checked nevertheless, so that what was opened can be read. */
static lac_status check_pixels(lac_context *context, const lac_dataset *file) {
  lac_type type = lac_dataset_type(file);
  int64_t rows = lac_dataset_rows(file), block = lac_dataset_block(file);
  if (type != LAC_F16 && type != LAC_F32 && type != LAC_F64) {
    return lac_dataset_check_rows(context, file, 0, rows);
  }
  float *values;
  LAC_TRY(LAC_NEW(context, block * lac_dataset_columns(file), &values));
  lac_status status = LAC_OK;
  for (int64_t first = 0; first < rows && !status; first += block) {
    int64_t count = rows - first < block ? rows - first : block;
    status = lac_context_interrupted(context)
                 ? lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted while it was read", lac_dataset_path(file))
                 : lac_dataset_read_f32(context, file, first, count, values);
    if (!status) {
      status = check_floats(context, file, first, count, values);
    }
  }
  lac_free(values);
  return status;
}

/* Appends a file of pictures, which from now on belongs to the set. */
static lac_status add_file(lac_context *context, lac_images *images, const char *path, const char *format) {
  lac_dataset *file;
  LAC_TRY(lac_dataset_open(context, path, format, &file));
  images->file[images->files++] = file;
  images->count += lac_dataset_rows(file);
  return check_pixels(context, file);
}

/* ---- Labels ---- */

static lac_status check_labels(lac_context *context, const char *path, const int32_t *labels, int64_t count,
                               int32_t most) {
  for (int64_t i = 0; i < count; i++) {
    if (labels[i] < 0 || labels[i] > most) {
      return lac_fail(context, LAC_E_INPUT, "%s: row %" PRId64 ": found label %" PRId32 ", expected 0 to %" PRId32,
                      path, i, labels[i], most);
    }
  }
  return LAC_OK;
}

static lac_status read_labels(lac_context *context, lac_images *images, const lac_dataset *file, int32_t most) {
  const char *path = lac_dataset_path(file);
  int64_t rows = lac_dataset_rows(file), columns = lac_dataset_columns(file);
  if (columns != 1) {
    return lac_fail(context, LAC_E_INPUT, "%s: found rows of %" PRId64 " values, expected one label a row", path,
                    columns);
  }
  if (rows != images->count) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found %" PRId64 " labels, expected %" PRId64 " as there are pictures in %s", path, rows,
                    images->count, lac_dataset_path(images->file[0]));
  }
  LAC_TRY(LAC_NEW(context, rows, &images->labels));
  LAC_TRY(lac_dataset_read_i32(context, file, 0, rows, images->labels));
  return check_labels(context, path, images->labels, rows, most);
}

static lac_status add_labels(lac_context *context, lac_images *images, const char *path, const char *format,
                             int32_t most) {
  lac_dataset *file;
  LAC_TRY(lac_dataset_open(context, path, format, &file));
  lac_status status = read_labels(context, images, file, most);
  lac_dataset_destroy(&file);
  return status;
}

/* ---- Named sets ---- */

/* FOLDER/NAME or FOLDER/NAME.gz, whichever is there; to be freed with free(). */
static lac_status find_file(lac_context *context, const char *folder, const char *name, char **path) {
  static const char *const endings[] = {"", ".gz", ".xz"};
  bool packed = false;
  for (int i = 0; i < 3; i++) {
    LAC_TRY(lac_format_text(context, path, "%s/%s%s", folder, name, endings[i]));
    bool there = access(*path, F_OK) == 0;
    if (there && i < 2) {
      return LAC_OK;
    }
    packed = there;
    free(*path);
    *path = NULL;
  }
  if (packed) {
    return lac_fail(context, LAC_E_INPUT, "%s/%s: found %s.xz only, expected it unpacked (xz -dk)", folder, name, name);
  }
  return lac_fail(context, LAC_E_INPUT, "%s/%s: found no such file, expected it or %s.gz", folder, name, name);
}

static lac_status open_mnist(lac_context *context, lac_images *images, const char *folder, lac_images_part part) {
  bool train = part == LAC_IMAGES_TRAIN;
  char *pictures = NULL, *labels = NULL;
  lac_status status;
  LAC_TRY_GOTO(status,
               find_file(context, folder, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", &pictures),
               done);
  LAC_TRY_GOTO(status,
               find_file(context, folder, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", &labels), done);
  LAC_TRY_GOTO(status, add_file(context, images, pictures, "idx"), done);
  LAC_TRY_GOTO(status, shape_of_axes(context, images->file[0], &images->shape, &images->interleaved), done);
  status = add_labels(context, images, labels, "idx", NAMED_CLASSES - 1);

done:
  free(labels);
  free(pictures);
  return status;
}

/* The byte before the pixels of a record is its label. */
static lac_status take_cifar_labels(lac_context *context, lac_images *images) {
  LAC_TRY(LAC_NEW(context, images->count, &images->labels));
  int32_t *labels = images->labels;
  for (int i = 0; i < images->files; i++) {
    const lac_dataset *file = images->file[i];
    int64_t rows = lac_dataset_rows(file);
    LAC_TRY(lac_dataset_check_rows(context, file, 0, rows));
    for (int64_t row = 0; row < rows; row++) {
      labels[row] = (file->values + row * file->row_stride)[-1];
    }
    LAC_TRY(check_labels(context, lac_dataset_path(file), labels, rows, NAMED_CLASSES - 1));
    labels += rows;
  }
  return LAC_OK;
}

static lac_status open_cifar10(lac_context *context, lac_images *images, const char *folder, lac_images_part part) {
  static const char *const names[2][LAC_IMAGES_FILES + 1] = {
      [LAC_IMAGES_TRAIN] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                            "data_batch_5.bin", NULL},
      [LAC_IMAGES_TEST] = {"test_batch.bin", NULL}};
  for (const char *const *name = names[part == LAC_IMAGES_TEST]; *name; name++) {
    char *path;
    LAC_TRY(find_file(context, folder, *name, &path));
    lac_status status = add_file(context, images, path, "cifar10");
    free(path);
    LAC_TRY(status);
  }
  LAC_TRY(shape_of_axes(context, images->file[0], &images->shape, &images->interleaved));
  return take_cifar_labels(context, images);
}

typedef struct named_set {
  const char *name;
  const char *folder; /* where it is when the source does not say; NULL: it must */
  lac_status (*open)(lac_context *context, lac_images *images, const char *folder, lac_images_part part);
} named_set;

static const named_set named_sets[] = {{"mnist", NULL, open_mnist},
                                       {"fashion-mnist", "/usr/share/datasets/fashion-mnist", open_mnist},
                                       {"cifar10", NULL, open_cifar10}};

/* The set whose name stands before the first colon of a source, and what follows it. */
static const named_set *find_set(const char *source, const char **folder) {
  const char *colon = strchr(source, ':');
  for (size_t i = 0; colon && i < sizeof named_sets / sizeof *named_sets; i++) {
    size_t length = strlen(named_sets[i].name);
    if ((size_t)(colon - source) == length && memcmp(source, named_sets[i].name, length) == 0) {
      *folder = colon[1] ? colon + 1 : named_sets[i].folder;
      return &named_sets[i];
    }
  }
  return NULL;
}

/* ---- Two files ---- */

/* Whether FILE or the FILE of FILE:PART is there. */
static bool is_there(char *path) {
  char *colon = strrchr(path, ':');
  bool there = access(path, F_OK) == 0;
  if (!there && colon) {
    *colon = 0;
    there = access(path, F_OK) == 0;
    *colon = ':';
  }
  return there;
}

/* Puts an end where PICTURES+LABELS is to be divided: at the first + with files on both sides, or else at the first one
 * at all, so that opening says what is missing. NULL when there is no +. */
static char *divide(char *source) {
  char *first = strchr(source, '+');
  for (char *plus = first; plus; plus = strchr(plus + 1, '+')) {
    *plus = 0;
    if (is_there(source) && is_there(plus + 1)) {
      return plus + 1;
    }
    *plus = '+';
  }
  if (!first) {
    return NULL;
  }
  *first = 0;
  return first + 1;
}

static lac_status open_pair(lac_context *context, lac_images *images, const char *pictures, const char *labels) {
  LAC_TRY(add_file(context, images, pictures, NULL));
  LAC_TRY(shape_of_axes(context, images->file[0], &images->shape, &images->interleaved));
  LAC_TRY(add_labels(context, images, labels, NULL, LABEL_LIMIT));
  images->classes = 2;
  for (int64_t i = 0; i < images->count; i++) {
    images->classes = images->labels[i] >= images->classes ? images->labels[i] + 1 : images->classes;
  }
  return LAC_OK;
}

static lac_status open_two_files(lac_context *context, lac_images *images, const char *source) {
  char *pictures;
  LAC_TRY(lac_copy_text(context, source, &pictures));
  const char *labels = divide(pictures);
  lac_status status =
      labels && *pictures && *labels
          ? open_pair(context, images, pictures, labels)
          : lac_fail(context, LAC_E_USAGE,
                     "%s: found no set of pictures by this name, expected mnist:DIR, fashion-mnist:DIR, cifar10:DIR "
                     "or PICTURES+LABELS",
                     source);
  free(pictures);
  return status;
}

/* ---- Opening ---- */

static lac_status open_source(lac_context *context, lac_images *images, const char *source, lac_images_part part) {
  const char *folder = NULL;
  const named_set *set = find_set(source, &folder);
  LAC_TRY(lac_copy_text(context, source, &images->source));
  if (!set) {
    return open_two_files(context, images, source);
  }
  if (!folder) {
    return lac_fail(context, LAC_E_USAGE, "%s: found no folder, expected %s:DIR", source, set->name);
  }
  images->classes = NAMED_CLASSES;
  return set->open(context, images, folder, part);
}

lac_status lac_images_open(lac_context *context, const char *source, lac_images_part part, lac_images **images) {
  *images = NULL;
  lac_images *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  lac_status status = open_source(context, made, source, part);
  if (status) {
    lac_images_destroy(&made);
    return status;
  }
  *images = made;
  return LAC_OK;
}

static lac_status open_shaped(lac_context *context, lac_images *images, const char *path, lac_image_shape shape) {
  int64_t pixels;
  LAC_TRY(lac_shape_check(context, shape, &pixels));
  LAC_TRY(lac_copy_text(context, path, &images->source));
  LAC_TRY(add_file(context, images, path, NULL));
  images->shape = shape;
  if (!axes_hold(images->file[0], shape, pixels, &images->interleaved)) {
    int64_t n[8];
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found rows of %" PRId64 " values in an array of %d axes, expected pictures of %" PRId64
                    " x %" PRId64 " x %" PRId64 " (channels, height, width)",
                    path, lac_dataset_columns(images->file[0]), lac_dataset_shape(images->file[0], n), shape.channels,
                    shape.height, shape.width);
  }
  images->interleaved = images->interleaved && shape.channels > 1;
  return LAC_OK;
}

lac_status lac_images_open_unlabelled(lac_context *context, const char *path, lac_image_shape shape,
                                      lac_images **images) {
  *images = NULL;
  lac_images *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  lac_status status = open_shaped(context, made, path, shape);
  if (status) {
    lac_images_destroy(&made);
    return status;
  }
  *images = made;
  return LAC_OK;
}
