/* Classifiers: their files bit for bit and with every kind of damage, and what they answer against their parts. */
#include "classifier/classifier.h"

#include <math.h>

#include "base/random.h"
#include "classifier/onnx.h"
#include "data/picture_files.h"
#include "data/prepare.h"
#include "laconic/dataset.h"

enum { PICTURES = 11, BATCH = 4, CLASSES = 3 };
static const lac_image_shape shape = {2, 6, 5};
enum { PIXELS = 2 * 6 * 5 };
static const char layers[] =
    "conv 4 kernel=3 pad=1 # comment\nbatchnorm\nrelu\nmaxpool 2\ndropout 0.25\ndense 5 bias=no\nbatchnorm\nrelu\n"
    "dense classes";

/* ---- making ---- */

/* A network with everything that is saved with it. */
typedef struct made {
  lac_net *net;
  float *parameters, *statistics;
  lac_prepare *prepare;
} made;

static void fill(float *values, int64_t count, int stream, double low, double high) {
  lac_random random = lac_random_stream(7, LAC_RANDOM_TEST, (uint64_t)stream, 0);
  for (int64_t i = 0; i < count; i++) {
    values[i] = (float)(low + (high - low) * lac_random_uniform(&random));
  }
}

static lac_prepare *make_preparation(lac_context *context, lac_prepare_kind kind, lac_image_shape of) {
  lac_prepare *prepare;
  assert_ok(context, lac_prepare_create(context, kind, of, &prepare));
  int64_t groups = kind == LAC_PREPARE_CHANNELS ? of.channels : 1;
  if (kind == LAC_PREPARE_ZCA) {
    fill(prepare->mean, prepare->pixels, 1, -0.1, 0.1);
    fill(prepare->whitening, prepare->pixels * prepare->pixels, 2, -0.3, 0.3);
  } else if (kind != LAC_PREPARE_NONE) {
    fill(prepare->mean, groups, 1, 100, 140);
    fill(prepare->scale, groups, 2, 0.01, 0.02);
  }
  assert_ok(context, lac_prepare_complete(context, prepare));
  return prepare;
}

static made make(lac_context *context, const char *text, lac_prepare_kind kind) {
  made self = {.prepare = make_preparation(context, kind, shape)};
  assert_ok(context, lac_net_create(context, text, "layers", shape, CLASSES, BATCH, NULL, &self.net));
  int64_t n = lac_net_parameters(self.net), s = lac_net_statistics(self.net);
  self.parameters = calloc((size_t)n, sizeof(float));
  self.statistics = calloc((size_t)s + 1, sizeof(float));
  fill(self.parameters, n, 3, -0.5, 0.5);
  fill(self.statistics, s, 4, 0.1, 1);
  return self;
}

static void clear(made *self) {
  lac_net_destroy(&self->net);
  lac_prepare_destroy(&self->prepare);
  free(self->parameters);
  free(self->statistics);
}

static void save(lac_context *context, const made *self, const char *path) {
  static const lac_text_pair pairs[] = {{"options", "{\"seed\": 1}"}, {"error", "0.25"}};
  assert_ok(context,
            lac_classifier_save(context, path, self->net, self->parameters, self->statistics, self->prepare, pairs, 2));
}

/* A file of its own for each thing that is asked of pictures: pictures.npy, labels.npy. */
static lac_images *make_images(lac_context *context, int32_t classes) {
  uint8_t pixels[PICTURES * PIXELS];
  int32_t labels[PICTURES];
  lac_random random = lac_random_stream(8, LAC_RANDOM_TEST, 0, 0);
  for (size_t i = 0; i < sizeof pixels; i++) {
    pixels[i] = (uint8_t)(256 * lac_random_uniform(&random));
  }
  for (int i = 0; i < PICTURES; i++) {
    labels[i] = i % classes;
  }
  lac_images *images;
  put_npy("pictures.npy", "|u1", "(11, 2, 6, 5)", pixels, sizeof pixels);
  put_npy("labels.npy", "<i4", "(11,)", labels, sizeof labels);
  assert_ok(context, lac_images_open(context, "pictures.npy+labels.npy", LAC_IMAGES_TEST, &images));
  return images;
}

static size_t read_file(const char *path, char **content) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  size_t bytes = (size_t)ftell(file);
  rewind(file);
  *content = malloc(bytes + 1);
  assert_int_equal(fread(*content, 1, bytes, file), bytes);
  fclose(file);
  return bytes;
}

/* ---- files ---- */

static void check_same(const made *self, const lac_classifier *loaded) {
  lac_tensor ours[3], theirs[3];
  const lac_net *net = lac_classifier_net(loaded);
  assert_string_equal(lac_net_text(net), lac_net_text(self->net));
  lac_image_shape input = lac_net_input(net);
  assert_true(input.channels == shape.channels && input.height == shape.height && input.width == shape.width);
  assert_int_equal(lac_net_classes(net), CLASSES);
  assert_memory_equal(lac_classifier_parameters(loaded), self->parameters,
                      (size_t)lac_net_parameters(net) * sizeof(float));
  assert_memory_equal(lac_classifier_statistics(loaded), self->statistics,
                      (size_t)lac_net_statistics(net) * sizeof(float));
  int64_t count = lac_prepare_tensors(self->prepare, ours);
  assert_int_equal(lac_prepare_kind_of(lac_classifier_prepare(loaded)), lac_prepare_kind_of(self->prepare));
  assert_int_equal(lac_prepare_tensors(lac_classifier_prepare(loaded), theirs), count);
  for (int64_t i = 0; i < count; i++) {
    assert_memory_equal(ours[i].data, theirs[i].data, lac_tensor_bytes(&ours[i]));
  }
  assert_string_equal(lac_classifier_meta(loaded, "options"), "{\"seed\": 1}");
  assert_string_equal(lac_classifier_meta(loaded, "error"), "0.25");
  assert_null(lac_classifier_meta(loaded, "absent"));
}

static void goes_round(void **state) {
  static const char *const texts[] = {layers, "dense classes"};
  for (int i = 0; i < 2; i++) {
    for (int kind = LAC_PREPARE_NONE; kind <= LAC_PREPARE_ZCA; kind++) {
      made self = make(*state, texts[i], (lac_prepare_kind)kind);
      lac_classifier *loaded;
      save(*state, &self, "a.safetensors");
      assert_ok(*state, lac_classifier_load(*state, "a.safetensors", 3, NULL, &loaded));
      assert_string_equal(lac_classifier_path(loaded), "a.safetensors");
      assert_int_equal(lac_net_batch(lac_classifier_net(loaded)), 3);
      check_same(&self, loaded);
      made again = self;
      again.net = loaded->net;
      again.parameters = loaded->parameters;
      again.statistics = loaded->statistics;
      again.prepare = loaded->prepare;
      save(*state, &again, "b.safetensors");
      char *one, *two;
      size_t bytes = read_file("a.safetensors", &one);
      assert_int_equal(read_file("b.safetensors", &two), bytes);
      assert_memory_equal(one, two, bytes);
      free(one);
      free(two);
      lac_classifier_destroy(&loaded);
      assert_null(loaded);
      lac_classifier_destroy(&loaded);
      clear(&self);
    }
  }
}

/* A network without batch norm has no statistics to give. */
static void statistics_may_be_none(void **state) {
  made self = make(*state, "dense classes", LAC_PREPARE_NONE);
  lac_classifier *loaded;
  assert_ok(*state,
            lac_classifier_save(*state, "none.safetensors", self.net, self.parameters, NULL, self.prepare, NULL, 0));
  assert_ok(*state, lac_classifier_load(*state, "none.safetensors", 1, NULL, &loaded));
  lac_classifier_destroy(&loaded);
  clear(&self);
}

/* One change of a good file, and words of the message that it must lead to. */
typedef struct change {
  const char *tensor, *key, *value, *words;
  int axis;
  int64_t size; /* of that axis; -1: no such tensor, -2: it is there under another name */
  lac_tensor_type type;
} change;

static lac_tensor change_tensor(lac_tensor tensor, const change *how) {
  if (how->size == -2) {
    tensor.name = "another";
  } else if (how->size > 0) {
    tensor.shape[how->axis] = how->size;
    tensor.axes = how->axis >= tensor.axes ? how->axis + 1 : tensor.axes;
  } else if (how->type) {
    tensor.type = how->type;
  }
  return tensor;
}

static void write_changed(lac_context *context, const char *path, const change *how) {
  static const float data[PIXELS * PIXELS * 4];
  lac_tensors *file;
  lac_tensor tensors[32];
  lac_text_pair pairs[16];
  int64_t count = 0, pair_count = 0;
  assert_ok(context, lac_tensors_open(context, path, &file));
  for (int64_t i = 0; i < lac_tensors_count(file); i++) {
    lac_tensor tensor = *lac_tensors_at(file, i);
    tensor.data = data;
    bool meant = how->tensor && strcmp(how->tensor, tensor.name) == 0;
    if (!meant || how->size != -1) {
      tensors[count++] = meant ? change_tensor(tensor, how) : tensor;
    }
  }
  for (int64_t i = 0; i < lac_tensors_pair_count(file); i++) {
    lac_text_pair pair = *lac_tensors_pair_at(file, i);
    bool meant = how->key && strcmp(how->key, pair.key) == 0;
    if (!meant || how->value) {
      pairs[pair_count++] = meant ? (lac_text_pair){pair.key, how->value} : pair;
    }
  }
  if (how->tensor && how->size == -3) {
    tensors[count++] = (lac_tensor){.name = how->tensor, .type = LAC_TENSOR_F32, .axes = 1, .shape = {1}, .data = data};
  }
  assert_ok(context, lac_tensors_write(context, "changed.safetensors", tensors, count, pairs, pair_count));
  lac_tensors_close(&file);
}

static void refuses_what_is_no_classifier(void **state) {
  static const change changes[] = {
      {.key = "laconic.kind", .words = "metadata 'laconic.kind': found none, expected a classifier"},
      {.key = "laconic.kind", .value = "hash", .words = "'laconic.kind': found 'hash', expected 'classifier'"},
      {.key = "laconic.version", .words = "'laconic.version': found none"},
      {.key = "laconic.version", .value = "2", .words = "'laconic.version': found '2', expected '1'"},
      {.key = "laconic.input", .words = "'laconic.input': found none"},
      {.key = "laconic.input", .value = "", .words = "'laconic.input': found '', expected [channels, height, width]"},
      {.key = "laconic.input", .value = "[2, 6]", .words = "found '[2, 6]', expected [channels"},
      {.key = "laconic.input", .value = "[2, 6, 5, 1]", .words = "expected [channels, height, width]"},
      {.key = "laconic.input", .value = "[2, 6, \"5\"]", .words = "expected [channels, height, width]"},
      {.key = "laconic.input", .value = "[2, 0, 5]", .words = "expected [channels, height, width]"},
      {.key = "laconic.input", .value = "[2, 6, 4294967301]", .words = "expected [channels, height, width]"},
      {.key = "laconic.input", .value = "2", .words = "expected [channels, height, width]"},
      {.key = "laconic.input",
       .value = "[5, 6, 2]",
       .words = "tensor '01.conv.weight': found F32 of [4, 2, 3, 3], expected F32 of [4, 5, 3, 3]"},
      {.key = "laconic.classes", .words = "'laconic.classes': found none"},
      {.key = "laconic.classes", .value = "1", .words = "found '1', expected a whole number of at least 2"},
      {.key = "laconic.classes", .value = "3.5", .words = "found '3.5', expected a whole number"},
      {.key = "laconic.classes", .value = "[3]", .words = "found '[3]', expected a whole number"},
      {.key = "laconic.classes",
       .value = "4",
       .words = "tensor '09.dense.weight': found F32 of [3, 5], expected F32 of [4, 5]"},
      {.key = "laconic.layers", .words = "'laconic.layers': found none"},
      {.key = "laconic.layers",
       .value = "conv 4 kernel=3\nbatchnrm",
       .words = "changed.safetensors: metadata "
                "'laconic.layers': line 2: found "
                "'batchnrm'"},
      {.key = "laconic.layers", .value = "", .words = "changed.safetensors: metadata 'laconic.layers': found"},
      {.key = "laconic.layers", .value = "dense classes", .words = "tensor '01.dense.weight': found none"},
      {.key = "prepare", .words = "'prepare'"},
      {.key = "prepare", .value = "magic", .words = "'magic', expected none, scale, channels or zca"},
      {.key = "prepare", .value = "zca", .words = "prepare.mean"},
      {.key = "prepare", .value = "none", .words = "found 15 tensors, expected 13"},
      {.tensor = "01.conv.weight",
       .size = -1,
       .words = "tensor '01.conv.weight': found none, expected F32 of [4, 2, 3, 3]"},
      {.tensor = "01.conv.bias", .size = -1, .words = "tensor '01.conv.bias': found none"},
      {.tensor = "02.batchnorm.scale", .size = -1, .words = "tensor '02.batchnorm.scale': found none"},
      {.tensor = "02.batchnorm.shift", .size = -1, .words = "tensor '02.batchnorm.shift': found none"},
      {.tensor = "07.batchnorm.mean", .size = -1, .words = "tensor '07.batchnorm.mean': found none"},
      {.tensor = "07.batchnorm.variance", .size = -2, .words = "tensor '07.batchnorm.variance': found none"},
      {.tensor = "06.dense.weight", .size = -1, .words = "tensor '06.dense.weight': found none"},
      {.tensor = "prepare.mean", .size = -1, .words = "prepare.mean"},
      {.tensor = "prepare.scale", .size = -1, .words = "prepare.scale"},
      {.tensor = "prepare.scale", .axis = 0, .size = 2, .words = "prepare.scale"},
      {.tensor = "one.more", .size = -3, .words = "found 16 tensors, expected 15"},
      {.tensor = "01.conv.weight",
       .axis = 3,
       .size = 5,
       .words = "found F32 of [4, 2, 3, 5], expected F32 of [4, 2, 3, 3]"},
      {.tensor = "01.conv.weight",
       .axis = 4,
       .size = 1,
       .words = "found F32 of [4, 2, 3, 3, 1], expected F32 of [4, 2, 3, 3]"},
      {.tensor = "06.dense.weight", .axis = 1, .size = 25, .words = "found F32 of [5, 25], expected F32 of [5, 24]"},
      {.tensor = "06.dense.weight", .type = LAC_TENSOR_I32, .words = "found I32 of [5, 24], expected F32 of [5, 24]"},
      {.tensor = "07.batchnorm.mean", .axis = 0, .size = 6, .words = "found F32 of [6], expected F32 of [5]"},
  };
  made self = make(*state, layers, LAC_PREPARE_SCALE);
  save(*state, &self, "good.safetensors");
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    lac_classifier *loaded;
    write_changed(*state, "good.safetensors", &changes[i]);
    assert_failure(*state, lac_classifier_load(*state, "changed.safetensors", 2, NULL, &loaded), LAC_E_INPUT,
                   changes[i].words);
    assert_non_null(strstr(lac_context_message(*state), "changed.safetensors"));
    assert_null(loaded);
  }
  clear(&self);
}

/* Values that no training may leave: neither loaded nor saved. */
static void refuses_values_that_are_no_numbers(void **state) {
  static const struct {
    float value;
    const char *tensor, *words;
  } bad[] = {
      {NAN, "01.conv.weight", "element 7: found nan, expected a finite number"},
      {INFINITY, "09.dense.bias", "element 2: found inf, expected a finite number"},
      {-INFINITY, "07.batchnorm.mean", "element 1: found -inf, expected a finite number"},
      {NAN, "07.batchnorm.variance", "element 0: found nan, expected a finite number"},
      {-1, "02.batchnorm.variance", "element 3: found -1, expected a finite number of at least 0"},
  };
  static const int64_t places[] = {7, 2, 1, 0, 3};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    made self = make(*state, layers, LAC_PREPARE_NONE);
    lac_tensors *file;
    save(*state, &self, "good.safetensors");
    assert_ok(*state, lac_tensors_open(*state, "good.safetensors", &file));
    char *content, words[160];
    size_t bytes = read_file("good.safetensors", &content);
    size_t offset = bytes;
    for (int64_t t = lac_tensors_count(file) - 1; t >= 0; t--) { /* the data are at the end, in this order */
      offset -= lac_tensor_bytes(lac_tensors_at(file, t));
      if (strcmp(lac_tensors_at(file, t)->name, bad[i].tensor) == 0) {
        break;
      }
    }
    memcpy(content + offset + (size_t)places[i] * sizeof(float), &bad[i].value, sizeof(float));
    put_file("bad.safetensors", "wb", content, bytes);
    lac_classifier *loaded;
    snprintf(words, sizeof words, "bad.safetensors: tensor '%s': %s", bad[i].tensor, bad[i].words);
    if (isfinite(bad[i].value)) {
      assert_failure(*state, lac_classifier_load(*state, "bad.safetensors", 2, NULL, &loaded), LAC_E_INPUT, words);
    } else {
      assert_failure(*state, lac_classifier_load(*state, "bad.safetensors", 2, NULL, &loaded), LAC_E_INPUT,
                     "expected a finite number");
    }
    for (int64_t p = 0; p < lac_net_piece_count(self.net); p++) {
      lac_net_piece piece = lac_net_piece_at(self.net, p);
      if (strcmp(piece.name, bad[i].tensor) == 0) {
        (piece.statistic ? self.statistics : self.parameters)[piece.offset + places[i]] = bad[i].value;
      }
    }
    unlink("bad.safetensors");
    assert_failure(*state,
                   lac_classifier_save(*state, "bad.safetensors", self.net, self.parameters, self.statistics,
                                       self.prepare, NULL, 0),
                   LAC_E_NUMERICAL, words);
    assert_int_equal(access("bad.safetensors", F_OK), -1);
    free(content);
    lac_tensors_close(&file);
    clear(&self);
  }
}

/* A file that ends anywhere is refused, and never read beyond its end. */
static void refuses_files_that_are_cut(void **state) {
  made self = make(*state, layers, LAC_PREPARE_CHANNELS);
  char *content;
  lac_classifier *loaded;
  save(*state, &self, "good.safetensors");
  size_t bytes = read_file("good.safetensors", &content);
  for (size_t size = 0; size < bytes; size += size < 2000 ? 13 : 97) {
    put_file("cut.safetensors", "wb", content, size);
    assert_failure(*state, lac_classifier_load(*state, "cut.safetensors", 2, NULL, &loaded), LAC_E_INPUT,
                   "cut.safetensors");
    assert_null(loaded);
  }
  free(content);
  clear(&self);
}

static void refuses_what_cannot_be_saved(void **state) {
  static const lac_text_pair bad[][1] = {
      {{"laconic.kind", "x"}}, {{"laconic.new", "x"}}, {{"prepare", "x"}}, {{"text", "\xFF"}}};
  static const char *const words[] = {"no: metadata key 'laconic.kind': found a reserved name", "'laconic.new'",
                                      "'prepare'", "UTF-8"};
  made self = make(*state, layers, LAC_PREPARE_NONE);
  for (int i = 0; i < 4; i++) {
    assert_failure(
        *state, lac_classifier_save(*state, "no", self.net, self.parameters, self.statistics, self.prepare, bad[i], 1),
        LAC_E_USAGE, words[i]);
  }
  lac_prepare *other = make_preparation(*state, LAC_PREPARE_NONE, (lac_image_shape){1, 6, 5});
  assert_failure(*state, lac_classifier_save(*state, "no", self.net, self.parameters, self.statistics, other, NULL, 0),
                 LAC_E_USAGE, "found a preparation of pictures of 1 x 6 x 5, expected 2 x 6 x 5");
  assert_failure(
      *state,
      lac_classifier_save(*state, "no/folder", self.net, self.parameters, self.statistics, self.prepare, NULL, 0),
      LAC_E_OUTPUT, "no/folder");
  assert_failure(
      *state,
      lac_classifier_save(*state, "/dev/full", self.net, self.parameters, self.statistics, self.prepare, NULL, 0),
      LAC_E_IO, "/dev/full: writing failed");
  assert_int_equal(access("no", F_OK), -1);
  lac_prepare_destroy(&other);
  clear(&self);
}

static void options_are_the_callers(void **state) {
  made self = make(*state, layers, LAC_PREPARE_NONE);
  lac_net_options options;
  lac_classifier *loaded;
  save(*state, &self, "a.safetensors");
  assert_ok(*state, lac_options_default(*state, lac_net_option_table(), &options));
  assert_int_equal(options.backend, LAC_BACKEND_AUTO);
  assert_int_equal(options.precision, LAC_PRECISION_F32);
  assert_int_equal(options.convolution, LAC_CONVOLUTION_AUTO);
  assert_ok(*state, lac_options_set(*state, lac_net_option_table(), &options, "backend", "reference"));
  assert_ok(*state, lac_classifier_load(*state, "a.safetensors", 2, &options, &loaded));
  assert_string_equal(lac_net_backend_name(lac_classifier_net(loaded)), "reference");
  assert_int_equal(lac_net_options_of(lac_classifier_net(loaded)).backend, LAC_BACKEND_REFERENCE);
  lac_classifier_destroy(&loaded);
  options.precision = LAC_PRECISION_BF16;
  assert_failure(*state, lac_classifier_load(*state, "a.safetensors", 2, &options, &loaded), LAC_E_UNSUPPORTED, "bf16");
  assert_null(loaded);
  assert_failure(*state, lac_classifier_load(*state, "a.safetensors", 0, NULL, &loaded), LAC_E_USAGE, "batches of 0");
  clear(&self);
}

/* ---- answers ---- */

static lac_classifier *load_saved(lac_context *context, const made *self, int64_t batch) {
  lac_classifier *loaded;
  save(context, self, "m.safetensors");
  assert_ok(context, lac_classifier_load(context, "m.safetensors", batch, NULL, &loaded));
  return loaded;
}

/* Preparation and network one after the other, a picture at a time. */
static void answers_are_those_of_the_parts(void **state) {
  lac_images *images = make_images(*state, CLASSES);
  for (int kind = LAC_PREPARE_NONE; kind <= LAC_PREPARE_ZCA; kind++) {
    made self = make(*state, layers, (lac_prepare_kind)kind);
    float expected[PICTURES * CLASSES], found[PICTURES * CLASSES], picture[PIXELS];
    double loss = 0, sum;
    int64_t wrong = 0, errors;
    for (int64_t i = 0; i < PICTURES; i++) {
      assert_ok(*state, lac_prepare_apply(*state, self.prepare, images, i, 1, picture));
      assert_ok(*state, lac_net_predict(*state, self.net, self.parameters, self.statistics, 1, picture,
                                        expected + i * CLASSES));
      const float *row = expected + i * CLASSES;
      float own = row[i % CLASSES];
      loss -= log(own);
      wrong += own < row[0] || own < row[1] || own < row[2];
    }
    for (int64_t batch = 1; batch <= PICTURES + 1; batch += 3) {
      lac_classifier *loaded = load_saved(*state, &self, batch);
      memset(found, 0, sizeof found);
      assert_ok(*state, lac_classifier_predict(*state, loaded, images, 2, PICTURES - 2, found + 2 * CLASSES));
      assert_ok(*state, lac_classifier_predict(*state, loaded, images, 0, 2, found));
      for (int i = 0; i < PICTURES * CLASSES; i++) {
        assert_true(fabsf(found[i] - expected[i]) < 2e-6F);
      }
      assert_ok(*state, lac_classifier_evaluate(*state, loaded, images, 0, PICTURES, &sum, &errors));
      assert_true(fabs(sum - loss) < 1e-5 * loss);
      assert_int_equal(errors, wrong);
      lac_classifier_destroy(&loaded);
    }
    clear(&self);
  }
  lac_images_destroy(&images);
}

static void refuses_pictures_that_do_not_fit(void **state) {
  static const uint8_t pixels[2 * PIXELS];
  made self = make(*state, layers, LAC_PREPARE_SCALE);
  lac_classifier *loaded = load_saved(*state, &self, BATCH);
  lac_images *many = make_images(*state, CLASSES + 1), *other, *unlabelled;
  float out[PICTURES * CLASSES];
  double loss;
  int64_t errors;
  assert_failure(*state, lac_classifier_evaluate(*state, loaded, many, 0, 0, &loss, &errors), LAC_E_INPUT,
                 "pictures.npy+labels.npy: found 4 classes, expected at most 3 as in the model m.safetensors");
  put_npy("other.npy", "|u1", "(2, 3, 4, 5)", pixels, 2 * PIXELS);
  assert_ok(*state, lac_images_open_unlabelled(*state, "other.npy", (lac_image_shape){3, 4, 5}, &other));
  assert_failure(*state, lac_classifier_predict(*state, loaded, other, 0, 0, out), LAC_E_INPUT,
                 "other.npy: found pictures of 3 x 4 x 5, expected 2 x 6 x 5 as in the model m.safetensors");
  put_npy("rows.npy", "|u1", "(2, 60)", pixels, 2 * PIXELS);
  assert_ok(*state, lac_images_open_unlabelled(*state, "rows.npy", shape, &unlabelled));
  assert_failure(*state, lac_classifier_evaluate(*state, loaded, unlabelled, 0, 2, &loss, &errors), LAC_E_USAGE,
                 "rows.npy: found no labels");
  assert_failure(*state, lac_classifier_predict(*state, loaded, unlabelled, 1, 2, out), LAC_E_USAGE, "rows.npy");
  assert_failure(*state, lac_classifier_predict(*state, loaded, unlabelled, -1, 1, out), LAC_E_USAGE, "rows.npy");
  lac_images_destroy(&many);
  lac_images_destroy(&other);
  lac_images_destroy(&unlabelled);
  lac_classifier_destroy(&loaded);
  clear(&self);
}

static void an_answer_that_is_no_number_is_a_failure(void **state) {
  made self = make(*state, "dense 4\nrelu\ndense classes", LAC_PREPARE_NONE);
  float pixels[3 * PIXELS] = {0}, out[3 * CLASSES];
  lac_images *images;
  pixels[PIXELS + 1] = 3e38F;
  for (int64_t i = 0; i < lac_net_parameters(self.net); i++) {
    self.parameters[i] = i % 2 ? 100 : -90;
  }
  put_npy("far.npy", "<f4", "(3, 2, 6, 5)", pixels, sizeof pixels);
  assert_ok(*state, lac_images_open_unlabelled(*state, "far.npy", shape, &images));
  lac_classifier *loaded = load_saved(*state, &self, 2);
  assert_ok(*state, lac_classifier_predict(*state, loaded, images, 0, 1, out));
  assert_failure(*state, lac_classifier_predict(*state, loaded, images, 0, 3, out), LAC_E_NUMERICAL,
                 "far.npy: picture 1: found a probability that is no number");
  lac_classifier_destroy(&loaded);
  lac_images_destroy(&images);
  clear(&self);
}

/* ---- ONNX: what tests/cli/classifier_test.py cannot reach ---- */

static void refuses_to_export(void **state) {
  static const float one[1];
  made self = make(*state, layers, LAC_PREPARE_ZCA);
  lac_classifier *loaded = load_saved(*state, &self, 1);
  assert_failure(*state, lac_classifier_export_onnx(*state, loaded, "no/folder"), LAC_E_OUTPUT, "no/folder");
  assert_failure(*state, lac_classifier_export_onnx(*state, loaded, "/dev/full"), LAC_E_IO, "/dev/full");
  lac_classifier_destroy(&loaded);
  clear(&self);
  lac_onnx *onnx; /* an array that is never looked at: the sizes decide */
  assert_ok(*state, lac_onnx_create(*state, &onnx));
  lac_onnx_floats(onnx, "large", 2, (const int64_t[]){1 << 15, 1 << 14}, one);
  assert_failure(*state, lac_onnx_write(onnx, "large.onnx"), LAC_E_UNSUPPORTED,
                 "bytes to write, an ONNX file has at most 2147483647");
  assert_int_equal(access("large.onnx", F_OK), -1);
  lac_onnx_destroy(&onnx);
  assert_null(onnx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(goes_round),
      cmocka_unit_test(statistics_may_be_none),
      cmocka_unit_test(refuses_what_is_no_classifier),
      cmocka_unit_test(refuses_values_that_are_no_numbers),
      cmocka_unit_test(refuses_files_that_are_cut),
      cmocka_unit_test(refuses_what_cannot_be_saved),
      cmocka_unit_test(options_are_the_callers),
      cmocka_unit_test(answers_are_those_of_the_parts),
      cmocka_unit_test(refuses_pictures_that_do_not_fit),
      cmocka_unit_test(an_answer_that_is_no_number_is_a_failure),
      cmocka_unit_test(refuses_to_export),
  };
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests(tests, make_context, drop_context);
  leave_folder(folder);
  return failed;
}
