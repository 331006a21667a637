/* Sets of pictures: every kind of source, against the function of (picture, channel, row, column) that its files were
 * written with; and everything that may be wrong with them. */
#include <zlib.h>

#include "data/images.h"
#include "data/picture_files.h"

static char folder[64];

static int enter(void **state) {
  enter_folder(folder);
  return make_context(state);
}

static int leave(void **state) {
  leave_folder(folder);
  return drop_context(state);
}

/* The pixel that every test file has at a place, in a set of a number. */
static uint8_t pixel(int set, int64_t n, int64_t c, int64_t y, int64_t x) {
  return (uint8_t)((set * 101 + n * 31 + c * 57 + y * 7 + x * 13) % 251);
}

static uint8_t label_of(int set, int64_t n) {
  return (uint8_t)((n * 7 + set) % 10);
}

/* Pictures [first, first + count) of a set as (n, c, h, w), or with the channels last. */
static uint8_t *make_pixels(int set, int64_t first, int64_t count, lac_image_shape shape, bool last) {
  uint8_t *pixels = malloc((size_t)(count * lac_shape_pixels(shape)));
  assert_non_null(pixels);
  for (int64_t n = 0; n < count; n++) {
    for (int64_t c = 0; c < shape.channels; c++) {
      for (int64_t y = 0; y < shape.height; y++) {
        for (int64_t x = 0; x < shape.width; x++) {
          int64_t place = last ? ((n * shape.height + y) * shape.width + x) * shape.channels + c
                               : ((n * shape.channels + c) * shape.height + y) * shape.width + x;
          pixels[place] = pixel(set, first + n, c, y, x);
        }
      }
    }
  }
  return pixels;
}

/* The set's pictures, unprepared, are those of `rows` of a set of test files. */
static void expect_pixels(lac_context *context, const lac_images *images, int set, const int64_t *rows) {
  lac_image_shape shape = lac_images_shape(images);
  int64_t count = lac_images_count(images), pixels = lac_shape_pixels(shape);
  lac_prepare *none;
  float *out = malloc((size_t)(count * pixels) * sizeof *out);
  assert_non_null(out);
  assert_ok(context, lac_prepare_fit(context, images, LAC_PREPARE_NONE, 0, NULL, &none));
  assert_ok(context, lac_prepare_apply(context, none, images, 0, count, out));
  for (int64_t n = 0; n < count; n++) {
    uint8_t *expected = make_pixels(set, rows ? rows[n] : n, 1, shape, false);
    for (int64_t i = 0; i < pixels; i++) {
      if (out[n * pixels + i] != expected[i]) {
        fail_msg("picture %d, pixel %d: %g, expected %d", (int)n, (int)i, (double)out[n * pixels + i], expected[i]);
      }
    }
    free(expected);
  }
  /* A few from the middle, so that blocks and files do not begin where the set does. */
  if (count > 3) {
    float *some = malloc((size_t)((count - 3) * pixels) * sizeof *some);
    assert_non_null(some);
    assert_ok(context, lac_prepare_apply(context, none, images, 2, count - 3, some));
    assert_memory_equal(some, out + 2 * pixels, (size_t)((count - 3) * pixels) * sizeof *some);
    free(some);
  }
  lac_prepare_destroy(&none);
  free(out);
}

static void expect_set(lac_context *context, const char *source, lac_images_part part, int set, int64_t count,
                       lac_image_shape shape, int64_t classes) {
  lac_images *images;
  assert_ok(context, lac_images_open(context, source, part, &images));
  assert_string_equal(lac_images_source(images), source);
  assert_int_equal(lac_images_count(images), count);
  lac_image_shape found = lac_images_shape(images);
  assert_memory_equal(&found, &shape, sizeof shape);
  assert_int_equal(lac_images_classes(images), classes);
  for (int64_t i = 0; i < count; i++) {
    assert_int_equal(lac_images_labels(images)[i], label_of(set, i));
  }
  expect_pixels(context, images, set, NULL);
  lac_images_destroy(&images);
  assert_null(images);
}

static void expect_refused(lac_context *context, const char *source, lac_status status, const char *words) {
  lac_images *images = (lac_images *)context;
  assert_failure(context, lac_images_open(context, source, LAC_IMAGES_TRAIN, &images), status, words);
  assert_null(images);
}

static void put_labels(const char *path, int set, int64_t count) {
  uint8_t labels[1000];
  for (int64_t i = 0; i < count; i++) {
    labels[i] = label_of(set, i);
  }
  put_idx(path, 1, &count, labels);
}

static void put_mnist(const char *pictures, const char *labels, int set, int64_t count, lac_image_shape shape) {
  uint8_t *pixels = make_pixels(set, 0, count, shape, false);
  put_idx(pictures, 3, (int64_t[]){count, shape.height, shape.width}, pixels);
  put_labels(labels, set, count);
  free(pixels);
}

/* Packs a file and removes it. */
static void pack(const char *path) {
  char bytes[65536], packed[96];
  FILE *file = fopen(path, "rb");
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  snprintf(packed, sizeof packed, "%s.gz", path);
  gzFile out = gzopen(packed, "wb");
  assert_true(gzwrite(out, bytes, (unsigned)size) == (int)size);
  assert_int_equal(gzclose(out), Z_OK);
  assert_int_equal(remove(path), 0);
}

/* ---- Named sets ---- */

static const lac_image_shape small = {1, 6, 5};

static void mnist(void **state) {
  lac_context *context = *state;
  expect_refused(context, "mnist:.", LAC_E_INPUT, "./train-images-idx3-ubyte: found no such file");
  put_mnist("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 1, 300, small);
  expect_set(context, "mnist:.", LAC_IMAGES_TRAIN, 1, 300, small, 10);
  pack("train-images-idx3-ubyte");
  expect_set(context, "fashion-mnist:.", LAC_IMAGES_TRAIN, 1, 300, small, 10);
  pack("train-labels-idx1-ubyte");
  char source[96];
  snprintf(source, sizeof source, "mnist:%s", folder);
  expect_set(context, source, LAC_IMAGES_TRAIN, 1, 300, small, 10);
  lac_images *images;
  assert_failure(context, lac_images_open(context, "mnist:.", LAC_IMAGES_TEST, &images), LAC_E_INPUT,
                 "./t10k-images-idx3-ubyte");
  put_mnist("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 2, 7, small);
  expect_set(context, "mnist:.", LAC_IMAGES_TEST, 2, 7, small, 10);
  remove("t10k-labels-idx1-ubyte");
  assert_failure(context, lac_images_open(context, "mnist:.", LAC_IMAGES_TEST, &images), LAC_E_INPUT,
                 "./t10k-labels-idx1-ubyte: found no such file, expected it or t10k-labels-idx1-ubyte.gz");
}

/* Pixels of a file that is not packed are those of the mapping. */
static void bytes_stay_bytes(void **state) {
  lac_context *context = *state;
  lac_images *images;
  size_t stride;
  put_mnist("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 1, 10, small);
  assert_ok(context, lac_images_open(context, "mnist:.", LAC_IMAGES_TRAIN, &images));
  assert_non_null(lac_dataset_bytes(images->file[0], &stride));
  assert_int_equal(stride, 30);
  lac_images_destroy(&images);
}

static void fashion_mnist_has_a_home(void **state) {
  lac_context *context = *state;
  lac_images *images;
  lac_status status = lac_images_open(context, "fashion-mnist:", LAC_IMAGES_TEST, &images);
  if (status) { /* on a machine without it */
    assert_int_equal(status, LAC_E_INPUT);
    assert_non_null(strstr(lac_context_message(context), "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte"));
    return;
  }
  assert_int_equal(lac_images_count(images), 10000);
  assert_int_equal(lac_images_shape(images).width, 28);
  lac_images_destroy(&images);
}

static void mnist_files_that_do_not_fit(void **state) {
  lac_context *context = *state;
  put_mnist("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 1, 20, small);
  put_labels("train-labels-idx1-ubyte", 1, 19);
  expect_refused(context, "mnist:.", LAC_E_INPUT,
                 "./train-labels-idx1-ubyte: found 19 labels, expected 20 as there are pictures in "
                 "./train-images-idx3-ubyte");
  uint8_t labels[20] = {[17] = 10};
  put_idx("train-labels-idx1-ubyte", 1, (int64_t[]){20}, labels);
  expect_refused(context, "mnist:.", LAC_E_INPUT, "./train-labels-idx1-ubyte: row 17: found label 10, expected 0 to 9");
  put_idx("train-labels-idx1-ubyte", 2, (int64_t[]){10, 2}, labels);
  expect_refused(context, "mnist:.", LAC_E_INPUT,
                 "./train-labels-idx1-ubyte: found rows of 2 values, expected one label a row");
  put_idx("train-images-idx3-ubyte", 1, (int64_t[]){20}, labels);
  expect_refused(context, "mnist:.", LAC_E_INPUT, "./train-images-idx3-ubyte: found an array of 1 axes");
  put_file("train-images-idx3-ubyte", "wb", "\x93NUMPY", 6);
  expect_refused(context, "mnist:.", LAC_E_INPUT, "./train-images-idx3-ubyte: offset 0");
  expect_refused(context, "mnist:", LAC_E_USAGE, "mnist:: found no folder, expected mnist:DIR");
  expect_refused(context, "cifar10:", LAC_E_USAGE, "expected cifar10:DIR");
  expect_refused(context, "mnist", LAC_E_USAGE, "mnist: found no set of pictures by this name");
  expect_refused(context, "emnist:.", LAC_E_USAGE, "expected mnist:DIR, fashion-mnist:DIR, cifar10:DIR or PICTURES+LA");
}

static const lac_image_shape cifar = {3, 32, 32};

/* Records [first, first + count) of a set. */
static void put_cifar(const char *path, int set, int64_t first, int64_t count) {
  uint8_t *pixels = make_pixels(set, first, count, cifar, false);
  put_file(path, "wb", "", 0);
  for (int64_t i = 0; i < count; i++) {
    uint8_t label = label_of(set, first + i);
    put_file(path, "ab", &label, 1);
    put_file(path, "ab", pixels + i * 3072, 3072);
  }
  free(pixels);
}

static void cifar10(void **state) {
  lac_context *context = *state;
  static const int64_t counts[5] = {3, 100, 1, 40, 7};
  int64_t first = 0;
  for (int i = 0; i < 5; i++) {
    char path[32];
    snprintf(path, sizeof path, "data_batch_%d.bin", i + 1);
    put_cifar(path, 3, first, counts[i]);
    first += counts[i];
  }
  expect_set(context, "cifar10:.", LAC_IMAGES_TRAIN, 3, first, cifar, 10);
  pack("data_batch_3.bin");
  expect_set(context, "cifar10:.", LAC_IMAGES_TRAIN, 3, first, cifar, 10);
  put_cifar("test_batch.bin", 4, 0, 5);
  expect_set(context, "cifar10:.", LAC_IMAGES_TEST, 4, 5, cifar, 10);

  /* Selected across the borders of files, twice over; the whole goes first. */
  lac_images *images, *some, *fewer;
  static const int64_t order[] = {150, 0, 1, 2, 3, 4, 102, 103, 104, 0, 143}, again[] = {8, 8, 1, 2, 10};
  int64_t rows[11];
  assert_ok(context, lac_images_open(context, "cifar10:.", LAC_IMAGES_TRAIN, &images));
  assert_ok(context, lac_images_select(context, images, 11, order, &some));
  assert_ok(context, lac_images_select(context, some, 5, again, &fewer));
  lac_images_destroy(&images);
  expect_pixels(context, some, 3, order);
  lac_images_destroy(&some);
  for (int i = 0; i < 5; i++) {
    rows[i] = order[again[i]];
    assert_int_equal(lac_images_labels(fewer)[i], label_of(3, rows[i]));
  }
  expect_pixels(context, fewer, 3, rows);
  assert_int_equal(lac_images_count(fewer), 5);
  assert_int_equal(lac_images_classes(fewer), 10);
  assert_string_equal(lac_images_source(fewer), "cifar10:.");
  assert_failure(context, lac_images_select(context, fewer, 0, order, &some), LAC_E_USAGE, "0 pictures");
  assert_failure(context, lac_images_select(context, fewer, 1, (int64_t[]){5}, &some), LAC_E_USAGE,
                 "picture 5 selected, expected 0 to 4");
  assert_failure(context, lac_images_select(context, fewer, 1, (int64_t[]){-1}, &some), LAC_E_USAGE, "picture -1");
  assert_null(some);
  lac_images_destroy(&fewer);
}

static void cifar_files_that_do_not_fit(void **state) {
  lac_context *context = *state;
  put_cifar("data_batch_1.bin", 0, 0, 200);
  expect_refused(context, "cifar10:.", LAC_E_INPUT, "./data_batch_2.bin: found no such file");
  put_file("data_batch_2.bin.xz", "wb", "x", 1);
  expect_refused(context, "cifar10:.", LAC_E_INPUT,
                 "./data_batch_2.bin: found data_batch_2.bin.xz only, expected it unpacked (xz -dk)");
  for (int i = 2; i <= 5; i++) {
    char path[32];
    snprintf(path, sizeof path, "data_batch_%d.bin", i);
    put_cifar(path, 0, 0, 200);
  }
  /* A label that recognising the format, which looks at a sample, does not see. */
  FILE *file = fopen("data_batch_4.bin", "r+b");
  fseek(file, 199L * 3073, SEEK_SET);
  fputc(10, file);
  fclose(file);
  expect_refused(context, "cifar10:.", LAC_E_INPUT, "./data_batch_4.bin: row 199: found label 10, expected 0 to 9");
  put_file("data_batch_5.bin", "ab", "x", 1);
  expect_refused(context, "cifar10:.", LAC_E_INPUT, "./data_batch_5.bin: record 200 at offset 614600");
}

/* ---- Two files ---- */

/* The same pictures in several layouts; their labels in several types. */
static void two_files(void **state) {
  lac_context *context = *state;
  const lac_image_shape colour = {3, 4, 6}, grey = {1, 4, 6}, wide = {5, 4, 6};
  uint8_t *planes = make_pixels(5, 0, 30, colour, false), *mixed = make_pixels(5, 0, 30, colour, true),
          *single = make_pixels(5, 0, 30, grey, false), *many = make_pixels(5, 0, 30, wide, false);
  float floats[30 * 72];
  for (int i = 0; i < 30 * 72; i++) {
    floats[i] = planes[i];
  }
  put_npy("planes.npy", "|u1", "(30, 3, 4, 6)", planes, 30 * 72);
  put_npy("mixed+rgb.npy", "|u1", "(30, 4, 6, 3)", mixed, 30 * 72);
  put_npy("floats.npy", "<f4", "(30, 3, 4, 6)", floats, sizeof floats);
  put_npy("grey.npy", "|u1", "(30, 4, 6)", single, 30 * 24);
  put_npy("last.npy", "|u1", "(30, 4, 6, 1)", single, 30 * 24);
  put_npy("many.npy", "|u1", "(30, 5, 4, 6)", many, 30 * 120);
  int64_t wide_labels[30];
  float float_labels[30];
  FILE *csv = fopen("labels.csv", "w");
  for (int i = 0; i < 30; i++) {
    wide_labels[i] = label_of(5, i);
    float_labels[i] = (float)wide_labels[i];
    fprintf(csv, i ? "%d\n" : "label\n%d\n", (int)wide_labels[i]);
  }
  fclose(csv);
  put_labels("labels-idx1-ubyte", 5, 30);
  put_npy("labels.npy", "<i8", "(30,)", wide_labels, sizeof wide_labels);
  put_npy("a+b.npy", "<f4", "(30, 1)", float_labels, sizeof float_labels);
  expect_set(context, "planes.npy+labels.npy", LAC_IMAGES_TRAIN, 5, 30, colour, 10);
  expect_set(context, "planes.npy+labels-idx1-ubyte", LAC_IMAGES_TEST, 5, 30, colour, 10);
  expect_set(context, "mixed+rgb.npy+labels.csv", LAC_IMAGES_TRAIN, 5, 30, colour, 10);
  expect_set(context, "mixed+rgb.npy+a+b.npy", LAC_IMAGES_TRAIN, 5, 30, colour, 10);
  expect_set(context, "floats.npy+a+b.npy", LAC_IMAGES_TRAIN, 5, 30, colour, 10);
  expect_set(context, "grey.npy+labels.npy", LAC_IMAGES_TRAIN, 5, 30, grey, 10);
  expect_set(context, "last.npy+labels.npy", LAC_IMAGES_TRAIN, 5, 30, grey, 10);
  expect_set(context, "many.npy+labels.npy", LAC_IMAGES_TRAIN, 5, 30, wide, 10);

  /* One fingerprint for one set; another for other labels, other pixels, another order, another shape. */
  static const struct {
    const char *source;
    bool same;
  } stored[] = {{"planes.npy+labels.npy", true}, {"mixed+rgb.npy+a+b.npy", true}, {"floats.npy+labels.csv", true},
                {"planes.npy+zeros.npy", false}, {"tall.npy+labels.npy", false},  {"changed.npy+labels.npy", false}};
  memset(wide_labels, 0, sizeof wide_labels);
  put_npy("zeros.npy", "<i8", "(30,)", wide_labels, sizeof wide_labels);
  put_npy("tall.npy", "|u1", "(30, 3, 6, 4)", planes, 30 * 72);
  planes[30 * 72 - 1] ^= 1;
  put_npy("changed.npy", "|u1", "(30, 3, 4, 6)", planes, 30 * 72);
  uint64_t first = 0, fingerprint, pixels = 0;
  for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
    lac_images *images;
    assert_ok(context, lac_images_open(context, stored[i].source, LAC_IMAGES_TRAIN, &images));
    assert_ok(context, lac_images_fingerprint(context, images, &fingerprint));
    first = i ? first : fingerprint;
    if ((fingerprint == first) != stored[i].same) {
      fail_msg("%s: fingerprint %llx, of the first %llx", stored[i].source, (unsigned long long)fingerprint,
               (unsigned long long)first);
    }
    if (i == 0) {
      assert_ok(context, lac_images_pixel_fingerprint(context, images, &pixels));
      lac_images *turned;
      int64_t order[30];
      for (int64_t k = 0; k < 30; k++) {
        order[k] = 29 - k;
      }
      assert_ok(context, lac_images_select(context, images, 30, order, &turned));
      assert_ok(context, lac_images_fingerprint(context, turned, &fingerprint));
      assert_true(fingerprint != first);
      lac_images_destroy(&turned);
    }
    if (strcmp(stored[i].source, "planes.npy+zeros.npy") == 0) {
      assert_int_equal(lac_images_classes(images), 2); /* at least */
      assert_ok(context, lac_images_pixel_fingerprint(context, images, &fingerprint));
      assert_true(fingerprint == pixels && pixels != first);
    }
    lac_images_destroy(&images);
  }
  free(planes);
  free(mixed);
  free(single);
  free(many);
}

static void two_files_that_do_not_fit(void **state) {
  lac_context *context = *state;
  float pixels[24] = {0};
  double wide[24] = {[13] = 1e39};
  int64_t labels[6] = {0, 1, 2, 100000, 4, 5};
  float fractions[6] = {0, 1, 2, 3, 4.5f, 5};
  put_npy("x.npy", "<f4", "(6, 2, 2)", pixels, sizeof pixels);
  put_npy("y.npy", "<i8", "(6,)", labels, sizeof labels);
  lac_images *images;
  assert_ok(context, lac_images_open(context, "x.npy+y.npy", LAC_IMAGES_TRAIN, &images));
  assert_int_equal(lac_images_classes(images), 100001);
  lac_images_destroy(&images);
  labels[3] = 100001;
  put_npy("y.npy", "<i8", "(6,)", labels, sizeof labels);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT, "y.npy: row 3: found label 100001, expected 0 to 100000");
  labels[2] = -1;
  put_npy("y.npy", "<i8", "(6,)", labels, sizeof labels);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT, "y.npy: row 2: found label -1, expected 0 to 100000");
  labels[2] = (int64_t)1 << 40;
  put_npy("y.npy", "<i8", "(6,)", labels, sizeof labels);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT, "y.npy: row 2, column 0: found 1.09951163e+12, expected an int");
  put_npy("y.npy", "<f4", "(6,)", fractions, sizeof fractions);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT, "y.npy: row 4, column 0: found 4.5, expected an integer");
  put_npy("y.npy", "<f4", "(2, 3)", fractions, sizeof fractions);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT, "y.npy: found rows of 3 values, expected one label a row");
  put_npy("y.npy", "<f4", "(4,)", fractions, 4 * sizeof *fractions);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT,
                 "y.npy: found 4 labels, expected 6 as there are pictures in x.npy");
  pixels[9] = -1.0f / 0.0f;
  put_npy("x.npy", "<f4", "(6, 2, 2)", pixels, sizeof pixels);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT, "x.npy: row 2, column 1: found -inf, expected a pixel");
  put_npy("x.npy", "<f8", "(6, 2, 2)", wide, sizeof wide);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT,
                 "x.npy: row 3, column 1: found inf, expected a pixel that is fin");
  memset(pixels, 0, sizeof pixels);
  put_npy("x.npy", "<f4", "(6, 4)", pixels, sizeof pixels);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT,
                 "x.npy: found an array of 2 axes, expected pictures (N, H, W), (N, C, H, W) or (N, H, W, C)");
  put_npy("x.npy", "<f4", "(6, 1, 1, 2, 2)", pixels, sizeof pixels);
  expect_refused(context, "x.npy+y.npy", LAC_E_INPUT, "x.npy: found an array of 5 axes");
  expect_refused(context, "none.npy+y.npy", LAC_E_INPUT, "none.npy: cannot be opened");
  put_npy("x.npy", "|u1", "(6, 2, 2)", "abcdefghijklmnopqrstuvwx", 24);
  expect_refused(context, "x.npy+none.npy", LAC_E_INPUT, "none.npy: cannot be opened");
  expect_refused(context, "x.npy", LAC_E_USAGE, "x.npy: found no set of pictures by this name");
  expect_refused(context, "x.npy+", LAC_E_USAGE, "x.npy+: found no set of pictures by this name");
  expect_refused(context, "+", LAC_E_USAGE, "+: found no set");
  expect_refused(context, "", LAC_E_USAGE, "found no set");
}

/* ---- Without labels ---- */

static void unlabelled(void **state) {
  lac_context *context = *state;
  const lac_image_shape shapes[] = {{3, 4, 6}, {1, 4, 6}, {2, 3, 2}};
  static const struct {
    int shape;
    bool last;
    const char *axes;
  } cases[] = {{0, false, "(9, 72)"},      {0, false, "(9, 3, 4, 6)"}, {0, true, "(9, 4, 6, 3)"},
               {1, false, "(9, 24)"},      {1, false, "(9, 4, 6)"},    {1, false, "(9, 1, 4, 6)"},
               {1, false, "(9, 4, 6, 1)"}, {2, true, "(9, 3, 2, 2)"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_image_shape shape = shapes[cases[i].shape];
    uint8_t *pixels = make_pixels(6, 0, 9, shape, cases[i].last);
    put_npy("x.npy", "|u1", cases[i].axes, pixels, (size_t)(9 * lac_shape_pixels(shape)));
    free(pixels);
    lac_images *images;
    assert_ok(context, lac_images_open_unlabelled(context, "x.npy", shape, &images));
    assert_int_equal(lac_images_count(images), 9);
    assert_int_equal(lac_images_classes(images), 0);
    assert_null(lac_images_labels(images));
    assert_string_equal(lac_images_source(images), "x.npy");
    expect_pixels(context, images, 6, NULL);
    lac_images_destroy(&images);
  }
  static const struct {
    lac_image_shape shape;
    const char *axes;
  } bad[] = {{{3, 4, 6}, "(9, 6, 4, 3)"}, {{3, 4, 6}, "(9, 72, 1)"}, {{3, 4, 5}, "(9, 72)"}, {{1, 4, 6}, "(9, 24, 3)"}};
  uint8_t *pixels = make_pixels(6, 0, 9, shapes[0], false);
  lac_images *images = (lac_images *)context;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    put_npy("x.npy", "|u1", bad[i].axes, pixels, 9 * 72);
    assert_failure(context, lac_images_open_unlabelled(context, "x.npy", bad[i].shape, &images), LAC_E_INPUT,
                   "x.npy: found rows of 72 values");
    assert_null(images);
  }
  free(pixels);
  const lac_image_shape none[] = {{0, 4, 6}, {3, -4, 6}, {3, 4, 0}, {(int64_t)1 << 40, (int64_t)1 << 40, 1}};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    assert_failure(context, lac_images_open_unlabelled(context, "x.npy", none[i], &images), LAC_E_USAGE, "shape");
  }
  assert_failure(context, lac_images_open_unlabelled(context, "none.npy", shapes[0], &images), LAC_E_INPUT, "none.npy");
  float nan[4] = {0, 0, 0.0f / 0.0f, 0};
  put_npy("x.npy", "<f4", "(2, 2)", nan, sizeof nan);
  assert_failure(context, lac_images_open_unlabelled(context, "x.npy", (lac_image_shape){1, 1, 2}, &images),
                 LAC_E_INPUT, "x.npy: row 1, column 0: found");
}

static void reading_can_be_interrupted(void **state) {
  lac_context *context = *state;
  lac_images *images, *more;
  lac_prepare *prepare;
  float pixels[24] = {1};
  int64_t labels[6] = {0};
  uint64_t fingerprint;
  put_npy("x.npy", "<f4", "(6, 2, 2)", pixels, sizeof pixels);
  put_npy("y.npy", "<i8", "(6,)", labels, sizeof labels);
  assert_ok(context, lac_images_open(context, "x.npy+y.npy", LAC_IMAGES_TRAIN, &images));
  assert_ok(context, lac_prepare_fit(context, images, LAC_PREPARE_NONE, 0, NULL, &prepare));
  lac_context_interrupt(context);
  assert_failure(context, lac_images_open(context, "x.npy+y.npy", LAC_IMAGES_TRAIN, &more), LAC_E_INTERRUPTED, "x.npy");
  assert_failure(context, lac_images_fingerprint(context, images, &fingerprint), LAC_E_INTERRUPTED, "x.npy+y.npy");
  assert_failure(context, lac_prepare_apply(context, prepare, images, 0, 6, pixels), LAC_E_INTERRUPTED, "x.npy+y.npy");
  lac_prepare_destroy(&prepare);
  assert_failure(context, lac_prepare_fit(context, images, LAC_PREPARE_SCALE, 0, NULL, &prepare), LAC_E_INTERRUPTED,
                 "x.npy+y.npy");
  lac_images_destroy(&images);
}

/* A file that is cut while it is in use is an error, not a signal. */
static void files_can_be_cut(void **state) {
  lac_context *context = *state;
  lac_images *images;
  uint64_t fingerprint;
  put_mnist("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 1, 100, small);
  assert_ok(context, lac_images_open(context, "mnist:.", LAC_IMAGES_TRAIN, &images));
  assert_int_equal(truncate("train-images-idx3-ubyte", 100), 0);
  assert_failure(context, lac_images_fingerprint(context, images, &fingerprint), LAC_E_IO, "train-images-idx3-ubyte");
  lac_images_destroy(&images);
  lac_images_destroy(&images);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(mnist, enter, leave),
      cmocka_unit_test_setup_teardown(bytes_stay_bytes, enter, leave),
      cmocka_unit_test_setup_teardown(fashion_mnist_has_a_home, enter, leave),
      cmocka_unit_test_setup_teardown(mnist_files_that_do_not_fit, enter, leave),
      cmocka_unit_test_setup_teardown(cifar10, enter, leave),
      cmocka_unit_test_setup_teardown(cifar_files_that_do_not_fit, enter, leave),
      cmocka_unit_test_setup_teardown(two_files, enter, leave),
      cmocka_unit_test_setup_teardown(two_files_that_do_not_fit, enter, leave),
      cmocka_unit_test_setup_teardown(unlabelled, enter, leave),
      cmocka_unit_test_setup_teardown(reading_can_be_interrupted, enter, leave),
      cmocka_unit_test_setup_teardown(files_can_be_cut, enter, leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
