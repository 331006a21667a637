/* Preparations in use: the cache of a whitening, files that do not fit, and that what a picture becomes depends on
 * nothing else. What they compute is tested against numpy, in pictures_test.py. */
#include <math.h>
#include <sys/stat.h>

#include "base/parallel.h"
#include "base/random.h"
#include "data/picture_files.h"
#include "data/prepare.h"

static char folder[64];

static int enter(void **state) {
  enter_folder(folder);
  return make_context(state);
}

static int leave(void **state) {
  leave_folder(folder);
  return drop_context(state);
}

enum { N = 300, CHANNELS = 3, HEIGHT = 5, WIDTH = 7, PIXELS = CHANNELS * HEIGHT * WIDTH };

static const lac_image_shape shape = {CHANNELS, HEIGHT, WIDTH};

/* N pictures of bytes that depend on a seed. */
static lac_images *make_set(lac_context *context, const char *name, int64_t seed) {
  static uint8_t pixels[N * PIXELS];
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_TEST, 0, 0);
  for (int i = 0; i < N * PIXELS; i++) {
    uint8_t before = i % PIXELS ? pixels[i - 1] : 0;
    pixels[i] = (uint8_t)((before + 3 * lac_random_below(&stream, 256)) / 4);
  }
  put_npy(name, "|u1", "(300, 3, 5, 7)", pixels, sizeof pixels);
  lac_images *images;
  assert_ok(context, lac_images_open_unlabelled(context, name, shape, &images));
  return images;
}

static lac_prepare *fit(lac_context *context, const lac_images *images, lac_prepare_kind kind, const char *cache) {
  lac_prepare *prepare;
  assert_ok(context, lac_prepare_fit(context, images, kind, 0.1, cache, &prepare));
  assert_int_equal(lac_prepare_kind_of(prepare), kind);
  assert_int_equal(lac_shape_pixels(lac_prepare_shape(prepare)), PIXELS);
  return prepare;
}

static void expect_same(const lac_prepare *a, const lac_prepare *b) {
  lac_tensor x[3], y[3];
  int64_t count = lac_prepare_tensors(a, x);
  assert_int_equal(lac_prepare_tensors(b, y), count);
  for (int64_t i = 0; i < count; i++) {
    assert_string_equal(x[i].name, y[i].name);
    assert_memory_equal(x[i].data, y[i].data, lac_tensor_bytes(&x[i]));
  }
}

/* ---- One picture at a time ---- */

typedef struct shared_work {
  const lac_prepare *prepare;
  const lac_images *images;
  float *out; /* (N, PIXELS) */
} shared_work;

static lac_status apply_one(void *argument, lac_context *context, int64_t chunk, int thread) {
  shared_work *self = argument;
  (void)thread;
  return lac_prepare_apply(context, self->prepare, self->images, chunk, 1, self->out + chunk * PIXELS);
}

static void pictures_are_prepared_alone(void **state) {
  lac_context *context = *state;
  lac_images *images = make_set(context, "x.npy", 1);
  float *whole = malloc(sizeof(float) * N * PIXELS), *single = malloc(sizeof(float) * N * PIXELS);
  assert_true(whole && single);
  for (int kind = LAC_PREPARE_NONE; kind <= LAC_PREPARE_ZCA; kind++) {
    lac_prepare *prepare = fit(context, images, (lac_prepare_kind)kind, NULL);
    assert_ok(context, lac_prepare_apply(context, prepare, images, 0, N, whole));
    shared_work work = {prepare, images, single};
    assert_ok(context, lac_parallel(context, 3, N, apply_one, &work));
    assert_memory_equal(single, whole, sizeof(float) * N * PIXELS);
    assert_ok(context, lac_prepare_apply(context, prepare, images, 17, 201, single));
    assert_memory_equal(single, whole + 17 * PIXELS, sizeof(float) * 201 * PIXELS);
    single[0] = 5;
    assert_ok(context, lac_prepare_apply(context, prepare, images, N, 0, single));
    assert_true(single[0] == 5);
    assert_failure(context, lac_prepare_apply(context, prepare, images, N, 1, single), LAC_E_USAGE,
                   "x.npy: 1 pictures from 300 on asked for, expected them among 0 to 299");
    assert_failure(context, lac_prepare_apply(context, prepare, images, -1, 1, single), LAC_E_USAGE, "from -1 on");
    assert_failure(context, lac_prepare_apply(context, prepare, images, 0, -1, single), LAC_E_USAGE, "-1 pictures");
    lac_images *other;
    assert_ok(context, lac_images_open_unlabelled(context, "x.npy", shape, &other));
    other->shape = (lac_image_shape){CHANNELS, WIDTH, HEIGHT};
    assert_failure(context, lac_prepare_apply(context, prepare, other, 0, 1, single), LAC_E_USAGE,
                   "x.npy: found pictures of 3 x 7 x 5, expected 3 x 5 x 7 as they are prepared");
    lac_images_destroy(&other);
    lac_prepare_destroy(&prepare);
    assert_null(prepare);
    lac_prepare_destroy(&prepare);
  }
  lac_images_destroy(&images);
  free(single);
  free(whole);
}

/* A picture of one value becomes what the mean of the others makes of nothing: its own contrast is 0, not 0 / 0. */
static void flat_pictures_have_no_contrast(void **state) {
  (void)state;
  float picture[PIXELS];
  for (int i = 0; i < PIXELS; i++) {
    picture[i] = 200;
  }
  lac_prepare_contrast(PIXELS, picture);
  for (int i = 0; i < PIXELS; i++) {
    assert_true(picture[i] == 0);
  }
}

/* ---- The cache ---- */

static ino_t number_of(const char *path) {
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  return about.st_ino;
}

/* Changes the mean in a cache: what comes from there can be told from what is fitted. */
static void mark_cache(const char *path) {
  FILE *file = fopen(path, "r+b");
  uint64_t header;
  float mark = 0.625f;
  assert_int_equal(fread(&header, sizeof header, 1, file), 1);
  fseek(file, (long)(8 + header), SEEK_SET);
  assert_int_equal(fwrite(&mark, sizeof mark, 1, file), 1);
  assert_int_equal(fclose(file), 0);
}

static bool is_marked(const lac_prepare *prepare) {
  lac_tensor tensors[3];
  assert_int_equal(lac_prepare_tensors(prepare, tensors), 2);
  assert_string_equal(tensors[0].name, "prepare.mean");
  return *(const float *)tensors[0].data == 0.625f;
}

static void cache(void **state) {
  lac_context *context = *state;
  lac_images *images = make_set(context, "x.npy", 1), *others = make_set(context, "y.npy", 2);
  lac_prepare *plain = fit(context, images, LAC_PREPARE_ZCA, NULL), *prepare;
  prepare = fit(context, images, LAC_PREPARE_ZCA, "cache");
  expect_same(prepare, plain);
  lac_prepare_destroy(&prepare);

  ino_t written = number_of("cache");
  prepare = fit(context, images, LAC_PREPARE_ZCA, "cache"); /* as it was written */
  expect_same(prepare, plain);
  assert_true(number_of("cache") == written);
  lac_prepare_destroy(&prepare);
  mark_cache("cache");
  prepare = fit(context, images, LAC_PREPARE_ZCA, "cache"); /* from the cache, really */
  assert_true(is_marked(prepare));
  lac_prepare_destroy(&prepare);

  prepare = fit(context, others, LAC_PREPARE_ZCA, "cache"); /* of other pixels: fitted, and put in its place */
  assert_false(is_marked(prepare));
  lac_prepare *again = fit(context, others, LAC_PREPARE_ZCA, NULL);
  expect_same(prepare, again);
  lac_prepare_destroy(&again);
  lac_prepare_destroy(&prepare);
  mark_cache("cache");
  prepare = fit(context, others, LAC_PREPARE_ZCA, "cache");
  assert_true(is_marked(prepare));
  lac_prepare_destroy(&prepare);
  assert_ok(context, lac_prepare_fit(context, others, LAC_PREPARE_ZCA, 0.2, "cache", &prepare)); /* another epsilon */
  assert_false(is_marked(prepare));
  lac_prepare_destroy(&prepare);

  /* The same pixels from another file are the same pixels; one picture less is not. */
  prepare = fit(context, images, LAC_PREPARE_ZCA, "cache");
  lac_prepare_destroy(&prepare);
  mark_cache("cache");
  lac_images *copy = make_set(context, "copy.npy", 1), *fewer;
  prepare = fit(context, copy, LAC_PREPARE_ZCA, "cache");
  assert_true(is_marked(prepare));
  lac_prepare_destroy(&prepare);
  int64_t order[N];
  for (int64_t i = 0; i < N; i++) {
    order[i] = i;
  }
  assert_ok(context, lac_images_select(context, copy, N - 1, order, &fewer));
  prepare = fit(context, fewer, LAC_PREPARE_ZCA, "cache");
  assert_false(is_marked(prepare));
  lac_prepare_destroy(&prepare);

  /* Other kinds leave it alone. */
  prepare = fit(context, images, LAC_PREPARE_SCALE, "nothing");
  assert_int_not_equal(access("nothing", F_OK), 0);
  lac_prepare_destroy(&prepare);
  lac_images_destroy(&fewer);
  lac_images_destroy(&copy);
  lac_images_destroy(&others);
  lac_images_destroy(&images);
  lac_prepare_destroy(&plain);
}

static void expect_cache_refused(lac_context *context, const lac_images *images, const char *path, lac_status status,
                                 const char *words) {
  lac_prepare *prepare = (lac_prepare *)context;
  assert_failure(context, lac_prepare_fit(context, images, LAC_PREPARE_ZCA, 0.1, path, &prepare), status, words);
  assert_null(prepare);
}

/* What is no cache stays as it is. */
static void files_that_are_no_cache(void **state) {
  lac_context *context = *state;
  lac_images *images = make_set(context, "x.npy", 1);
  put_file("text", "wb", "my notes, much longer than eight bytes", 38);
  expect_cache_refused(context, images, "text", LAC_E_INPUT, "text: offset 0");
  lac_prepare *prepare = fit(context, images, LAC_PREPARE_ZCA, NULL);
  lac_tensor tensors[3];
  lac_text_pair pairs[] = {{"prepare", "zca"}, {"laconic.kind", "hash"}};
  assert_ok(context, lac_tensors_write(context, "model", tensors, lac_prepare_tensors(prepare, tensors), pairs, 2));
  expect_cache_refused(context, images, "model", LAC_E_INPUT, "model: found a file that is no cache of a zca prepara");
  lac_prepare_destroy(&prepare);
  expect_cache_refused(context, images, "none/cache", LAC_E_OUTPUT, "none");
  prepare = fit(context, images, LAC_PREPARE_ZCA, "cache");
  lac_prepare_destroy(&prepare);
  FILE *file = fopen("cache", "r+b"); /* damaged behind its header */
  float nan = NAN;
  fseek(file, -4, SEEK_END);
  assert_int_equal(fwrite(&nan, sizeof nan, 1, file), 1);
  fclose(file);
  expect_cache_refused(context, images, "cache", LAC_E_INPUT,
                       "cache: tensor 'prepare.whitening': element 11024: found nan");
  lac_images_destroy(&images);
}

static void fits_that_are_refused(void **state) {
  lac_context *context = *state;
  lac_images *images = make_set(context, "x.npy", 1);
  lac_prepare *prepare;
  static const double epsilons[] = {0, -1, NAN, INFINITY};
  for (int i = 0; i < 4; i++) {
    assert_failure(context, lac_prepare_fit(context, images, LAC_PREPARE_ZCA, epsilons[i], NULL, &prepare), LAC_E_USAGE,
                   "zca: found epsilon");
    assert_null(prepare);
  }
  assert_failure(context, lac_prepare_fit(context, images, (lac_prepare_kind)4, 1, NULL, &prepare), LAC_E_USAGE,
                 "found kind 4");
  lac_images_destroy(&images);
  static uint8_t wide[2 * 32769];
  put_npy("wide.npy", "|u1", "(2, 1, 32769)", wide, sizeof wide);
  assert_ok(context, lac_images_open_unlabelled(context, "wide.npy", (lac_image_shape){1, 1, 32769}, &images));
  assert_failure(context, lac_prepare_fit(context, images, LAC_PREPARE_ZCA, 0.1, NULL, &prepare), LAC_E_INPUT,
                 "zca: found pictures of 32769 pixels, expected at most 32768");
  lac_images_destroy(&images);
  float huge[4] = {3e38f, -3e38f, 3e38f, -3e38f}, tiny[4] = {0, 1e-45f, 0, 0};
  put_npy("tiny.npy", "<f4", "(2, 1, 2)", tiny, sizeof tiny);
  assert_ok(context, lac_images_open_unlabelled(context, "tiny.npy", (lac_image_shape){1, 1, 2}, &images));
  assert_failure(context, lac_prepare_fit(context, images, LAC_PREPARE_SCALE, 0, NULL, &prepare), LAC_E_NUMERICAL,
                 "tiny.npy: found mean");
  lac_images_destroy(&images);
  put_npy("huge.npy", "<f4", "(2, 1, 2)", huge, sizeof huge);
  assert_ok(context, lac_images_open_unlabelled(context, "huge.npy", (lac_image_shape){1, 1, 2}, &images));
  assert_ok(context, lac_prepare_fit(context, images, LAC_PREPARE_SCALE, 0, NULL, &prepare));
  assert_ok(context, lac_prepare_apply(context, prepare, images, 0, 2, huge));
  for (int i = 0; i < 4; i++) {
    assert_true(fabsf(huge[i] - (i % 2 ? -1 : 1)) < 1e-6f);
  }
  lac_prepare_destroy(&prepare);
  lac_images_destroy(&images);
}

/* ---- Loading ---- */

static void expect_load_refused(lac_context *context, const lac_tensor *tensors, int64_t count, const char *kind,
                                const char *words) {
  lac_text_pair pair = {"prepare", kind};
  lac_tensors *file;
  lac_prepare *prepare = (lac_prepare *)context;
  assert_ok(context, lac_tensors_write(context, "model", tensors, count, &pair, kind ? 1 : 0));
  assert_ok(context, lac_tensors_open(context, "model", &file));
  assert_failure(context, lac_prepare_load(context, file, (lac_image_shape){2, 1, 2}, &prepare), LAC_E_INPUT, words);
  assert_null(prepare);
  lac_tensors_close(&file);
}

static void files_that_do_not_fit(void **state) {
  lac_context *context = *state;
  static const float values[20] = {1, 2, 3, 4}, bad[4] = {1, 2, INFINITY, 4};
  static const double doubles[4] = {1, 2, 3, 4};
  const lac_tensor mean2 = {"prepare.mean", LAC_TENSOR_F32, 1, {2}, values},
                   scale2 = {"prepare.scale", LAC_TENSOR_F32, 1, {2}, values},
                   mean4 = {"prepare.mean", LAC_TENSOR_F32, 1, {4}, values};
  expect_load_refused(context, NULL, 0, NULL, "model: __metadata__ 'prepare': found nothing, expected none, scale");
  expect_load_refused(context, NULL, 0, "pca", "model: __metadata__ 'prepare': found 'pca', expected none, scale");
  expect_load_refused(context, NULL, 0, "scale", "model: tensor 'prepare.mean': found none, expected F32 of [1]");
  expect_load_refused(context, &mean2, 1, "channels", "model: tensor 'prepare.scale': found none, expected F32 of [2]");
  expect_load_refused(context, (lac_tensor[]){mean4, scale2}, 2, "channels",
                      "model: tensor 'prepare.mean': found F32 of [4], expected F32 of [2]");
  expect_load_refused(context, (lac_tensor[]){mean4, {"prepare.whitening", LAC_TENSOR_F32, 2, {4, 5}, values}}, 2,
                      "zca", "model: tensor 'prepare.whitening': found F32 of [4, 5], expected F32 of [4, 4]");
  expect_load_refused(context, (lac_tensor[]){mean4, {"prepare.whitening", LAC_TENSOR_F32, 1, {16}, values}}, 2, "zca",
                      "found F32 of [16], expected F32 of [4, 4]");
  expect_load_refused(context, (lac_tensor[]){mean2, {"prepare.scale", LAC_TENSOR_F64, 1, {2}, doubles}}, 2, "channels",
                      "model: tensor 'prepare.scale': found F64 of [2], expected F32 of [2]");
  expect_load_refused(context,
                      (lac_tensor[]){{"prepare.mean", LAC_TENSOR_F32, 1, {4}, bad},
                                     {"prepare.whitening", LAC_TENSOR_F32, 2, {4, 4}, values}},
                      2, "zca", "model: tensor 'prepare.mean': element 2: found inf, expected a finite number");
  lac_text_pair pair = {"prepare", "none"};
  lac_tensors *file;
  lac_prepare *prepare;
  assert_ok(context, lac_tensors_write(context, "model", NULL, 0, &pair, 1));
  assert_ok(context, lac_tensors_open(context, "model", &file));
  assert_string_equal(lac_tensors_path(file), "model");
  assert_failure(context, lac_prepare_load(context, file, (lac_image_shape){1, 0, 2}, &prepare), LAC_E_USAGE,
                 "shape: found 1 x 0 x 2");
  lac_tensors_close(&file);
}

static void names_are_of_kinds(void **state) {
  (void)state;
  assert_string_equal(lac_prepare_names[LAC_PREPARE_NONE], "none");
  assert_string_equal(lac_prepare_names[LAC_PREPARE_SCALE], "scale");
  assert_string_equal(lac_prepare_names[LAC_PREPARE_CHANNELS], "channels");
  assert_string_equal(lac_prepare_names[LAC_PREPARE_ZCA], "zca");
  assert_null(lac_prepare_names[LAC_PREPARE_ZCA + 1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(pictures_are_prepared_alone, enter, leave),
      cmocka_unit_test(flat_pictures_have_no_contrast),
      cmocka_unit_test_setup_teardown(cache, enter, leave),
      cmocka_unit_test_setup_teardown(files_that_are_no_cache, enter, leave),
      cmocka_unit_test_setup_teardown(fits_that_are_refused, enter, leave),
      cmocka_unit_test_setup_teardown(files_that_do_not_fit, enter, leave),
      cmocka_unit_test(names_are_of_kinds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
