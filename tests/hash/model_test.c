/* Model files: what is saved is what is loaded, and what is no model is refused with one clear line. */
#include "hash/model.h"

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "laconic/tensors.h"
#include "support.h"

enum { L = 5, D = 7, M = 3 };

static void fill(lac_random *stream, float *values, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    values[i] = (float)lac_random_normal(stream);
  }
}

static lac_hash *random_model(lac_context *context, int64_t centres) {
  lac_hash *model;
  assert_ok(context, lac_hash_create(context, L, D, centres ? LAC_HASH_BA : LAC_HASH_ITQ, centres, &model));
  lac_random stream = lac_random_stream(1, LAC_RANDOM_TEST, 0, (uint64_t)centres);
  if (centres) {
    fill(&stream, model->centres, centres * D);
    model->width = 1.0 / 3;
  }
  fill(&stream, model->weight, L * model->features);
  fill(&stream, model->bias, L);
  fill(&stream, model->decoder, D * L);
  fill(&stream, model->offset, D);
  return model;
}

static void goes_round(void **state) {
  for (int64_t centres = 0; centres <= M; centres += M) {
    lac_hash *model = random_model(*state, centres), *again;
    assert_ok(*state, lac_hash_set_meta(*state, model, "options", "{\"bits\": 5}"));
    assert_ok(*state, lac_hash_set_meta(*state, model, "shares", "1"));
    assert_ok(*state, lac_hash_set_meta(*state, model, "shares", "1,2 \xC3\xA9\n"));
    assert_ok(*state, lac_hash_save(*state, model, "m.safetensors"));
    assert_ok(*state, lac_hash_load(*state, "m.safetensors", &again));
    assert_int_equal(lac_hash_bits(again), L);
    assert_int_equal(lac_hash_columns(again), D);
    assert_string_equal(lac_hash_method_name(again), centres ? "ba" : "itq");
    assert_int_equal(lac_hash_encoder_kind(again), centres ? LAC_ENCODER_RBF : LAC_ENCODER_LINEAR);
    assert_memory_equal(again->weight, model->weight, sizeof(float) * (size_t)(L * model->features));
    assert_memory_equal(again->bias, model->bias, sizeof(float) * L);
    assert_memory_equal(lac_hash_decoder_weight(again), model->decoder, sizeof(float) * D * L);
    assert_memory_equal(lac_hash_decoder_bias(again), model->offset, sizeof(float) * D);
    if (centres) {
      assert_memory_equal(again->centres, model->centres, sizeof(float) * (size_t)(centres * D));
      assert_true(again->width == 1.0 / 3);
      assert_null(lac_hash_encoder_weight(again));
    } else {
      assert_ptr_equal(lac_hash_encoder_weight(again), again->weight);
    }
    assert_string_equal(lac_hash_meta(again, "options"), "{\"bits\": 5}");
    assert_string_equal(lac_hash_meta(again, "shares"), "1,2 \xC3\xA9\n");
    assert_null(lac_hash_meta(again, "absent"));
    assert_int_equal(again->meta_count, 2);
    lac_hash_destroy(&model);
    lac_hash_destroy(&again);
    assert_null(again);
    lac_hash_destroy(&again);
  }
}

static void refuses_reserved_and_malformed_metadata(void **state) {
  lac_hash *model = random_model(*state, 0);
  assert_failure(*state, lac_hash_set_meta(*state, model, "laconic.method", "x"), LAC_E_USAGE, "reserved");
  assert_failure(*state, lac_hash_set_meta(*state, model, "name", "\xFF"), LAC_E_USAGE, "UTF-8");
  assert_int_equal(model->meta_count, 0);
  lac_hash_destroy(&model);
}

/* One change of a good file each, and a word of the message it must lead to. */
typedef struct change {
  const char *tensor, *key, *value, *words;
  int axis;
  int64_t size;
} change;

static void load_changed(lac_context *context, const char *path, const change *made) {
  lac_tensors *file;
  float data[64] = {0};
  lac_tensor tensors[8];
  lac_text_pair pairs[8];
  assert_ok(context, lac_tensors_open(context, path, &file));
  int64_t count = 0, pair_count = 0;
  for (int64_t i = 0; i < lac_tensors_count(file); i++) {
    lac_tensor tensor = *lac_tensors_at(file, i);
    tensor.data = data;
    if (made->tensor && strcmp(made->tensor, tensor.name) == 0) {
      if (made->size < 0) {
        continue;
      }
      tensor.shape[made->axis] = made->size;
      tensor.axes = made->axis >= tensor.axes ? made->axis + 1 : tensor.axes;
    }
    tensors[count++] = tensor;
  }
  for (int64_t i = 0; i < lac_tensors_pair_count(file); i++) {
    lac_text_pair pair = *lac_tensors_pair_at(file, i);
    if (made->key && strcmp(made->key, pair.key) == 0) {
      if (!made->value) {
        continue;
      }
      pair.value = made->value;
    }
    pairs[pair_count++] = pair;
  }
  assert_ok(context, lac_tensors_write(context, "changed.safetensors", tensors, count, pairs, pair_count));
  lac_tensors_close(&file);
  lac_hash *model;
  assert_failure(context, lac_hash_load(context, "changed.safetensors", &model), LAC_E_INPUT, made->words);
  assert_null(model);
}

static void refuses_what_is_no_model(void **state) {
  static const change linear[] = {
      {.key = "laconic.kind", .words = "'laconic.kind': found none"},
      {.key = "laconic.kind", .value = "net", .words = "found 'net', expected one of hash"},
      {.key = "laconic.version", .value = "2", .words = "found '2', expected one of 1"},
      {.key = "laconic.method", .value = "magic", .words = "found 'magic', expected one of ba, itq, pca, lsh"},
      {.key = "laconic.encoder", .value = "tree", .words = "found 'tree', expected one of linear, rbf"},
      {.key = "laconic.encoder", .value = "rbf", .words = "'encoder.centres': found none"},
      {.tensor = "encoder.weight", .size = -1, .words = "'encoder.weight': found none"},
      {.tensor = "encoder.bias", .size = -1, .words = "'encoder.bias': found none"},
      {.tensor = "decoder.weight", .size = -1, .words = "'decoder.weight': found none"},
      {.tensor = "decoder.bias", .size = -1, .words = "'decoder.bias': found none"},
      {.tensor = "encoder.weight", .axis = 0, .size = 4, .words = "found F32 of [4, 7], expected F32 of [5, 7]"},
      {.tensor = "encoder.bias", .axis = 0, .size = 6, .words = "found F32 of [6], expected F32 of [5]"},
      {.tensor = "decoder.weight", .axis = 1, .size = 0, .words = "found shape [7, 0]"},
      {.tensor = "decoder.weight", .axis = 0, .size = 0, .words = "found shape [0, 5]"},
      {.tensor = "decoder.bias", .axis = 1, .size = 2, .words = "found F32 of [7, 2], expected F32 of [7]"},
  };
  static const change rbf[] = {
      {.key = "laconic.width", .words = "'laconic.width': found none"},
      {.key = "laconic.width", .value = "0", .words = "found '0', expected a number above 0"},
      {.key = "laconic.width", .value = "nan", .words = "found 'nan', expected a number above 0"},
      {.key = "laconic.width", .value = "1e999", .words = "expected a number above 0"},
      {.key = "laconic.encoder", .value = "linear", .words = "found F32 of [5, 3], expected F32 of [5, 7]"},
      {.tensor = "encoder.centres", .axis = 1, .size = 6, .words = "found F32 of [3, 6], expected F32 of [3, 7]"},
      {.tensor = "encoder.centres", .axis = 0, .size = 0, .words = "found no row"},
      {.tensor = "encoder.weight", .axis = 1, .size = 2, .words = "found F32 of [5, 2], expected F32 of [5, 3]"},
  };
  lac_hash *model = random_model(*state, 0);
  assert_ok(*state, lac_hash_save(*state, model, "linear.safetensors"));
  lac_hash_destroy(&model);
  model = random_model(*state, M);
  assert_ok(*state, lac_hash_save(*state, model, "rbf.safetensors"));
  lac_hash_destroy(&model);
  for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
    load_changed(*state, "linear.safetensors", &linear[i]);
  }
  for (size_t i = 0; i < sizeof rbf / sizeof *rbf; i++) {
    load_changed(*state, "rbf.safetensors", &rbf[i]);
  }
}

static void refuses_values_that_are_not_finite(void **state) {
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    lac_hash *model = random_model(*state, 0), *again;
    model->decoder[3] = bad[i];
    assert_ok(*state, lac_hash_save(*state, model, "nan.safetensors"));
    assert_failure(*state, lac_hash_load(*state, "nan.safetensors", &again), LAC_E_INPUT,
                   "nan.safetensors: tensor 'decoder.weight': element 3: found");
    lac_hash_destroy(&model);
  }
}

static void refuses_files_that_cannot_be_read_or_written(void **state) {
  lac_hash *model;
  assert_failure(*state, lac_hash_load(*state, "absent", &model), LAC_E_INPUT, "absent: cannot be read: No such file");
  assert_failure(*state, lac_hash_load(*state, ".", &model), LAC_E_INPUT, ".: is no regular file");
  assert_failure(*state, lac_hash_load(*state, "/dev/zero", &model), LAC_E_INPUT, "is no regular file");
  model = random_model(*state, 0);
  assert_failure(*state, lac_hash_save(*state, model, "no/such/folder"), LAC_E_OUTPUT, "no/such/folder: its folder");
  assert_failure(*state, lac_hash_save(*state, model, "/dev/full"), LAC_E_IO,
                 "/dev/full: writing failed: No space left");
  lac_hash_destroy(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(goes_round),
      cmocka_unit_test(refuses_reserved_and_malformed_metadata),
      cmocka_unit_test(refuses_what_is_no_model),
      cmocka_unit_test(refuses_values_that_are_not_finite),
      cmocka_unit_test(refuses_files_that_cannot_be_read_or_written),
  };
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests(tests, make_context, drop_context);
  leave_folder(folder);
  return failed;
}
