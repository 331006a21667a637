/* A calibration: its file there and back and broken in every place, its answers, and its measurements, those of
 * messages on a simulated network whose figures are known. */
#include <jansson.h>
#include <math.h>

#include "base/memory.h"
#include "plan/calibration.h"
#include "support.h"

static const lac_hash_entry codes = {.which = {128, LAC_U8, 64, LAC_ENCODER_LINEAR},
                                     .points = 30000,
                                     .costs = {.mac = {.begin = 1.7e-7,
                                                       .visit = 3.1e-8,
                                                       .kinds = 2,
                                                       .submodel = {1.3e-8, 0},
                                                       .handling = 4e-7,
                                                       .z = 1.0 / 3e5,
                                                       .early = LAC_HASH_EARLY,
                                                       .early_begin = 2.3e-7,
                                                       .early_z = 1.0 / 7e4},
                                               .start_point = 2e-6,
                                               .start_fixed = 0.4,
                                               .iteration_point = 1e-9,
                                               .iteration_fixed = 3e-3,
                                               .finish_point = 3e-7,
                                               .finish_fixed = 1e-3}};
static const lac_gradient_entry gradient = {.model = "resnet20",
                                            .batch = 128,
                                            .precision = LAC_PRECISION_F32,
                                            .backend = "onednn",
                                            .parameters = 272474,
                                            .flops = 8.1e7,
                                            .seconds = 0.5};
static const lac_link_entry link_entry = {.backend = "mpi", .message = 2e-6, .byte = 1e-10};

static lac_calibration *filled(lac_context *context) {
  lac_calibration *made;
  assert_ok(context, lac_calibration_create(context, &made));
  assert_ok(context, lac_calibration_put_hash(context, made, &codes, NULL));
  assert_ok(context, lac_calibration_put_gradient(context, made, &gradient, NULL));
  assert_ok(context, lac_calibration_put_link(context, made, &link_entry, NULL));
  return made;
}

static char *text_of(lac_context *context, const lac_calibration *calibration) {
  char *text;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  assert_non_null(stream);
  assert_ok(context, lac_calibration_write(context, calibration, stream));
  fclose(stream);
  return text;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void there_and_back(void **state) {
  lac_context *context = *state;
  lac_calibration *made = filled(context), *read;
  char reason[256] = "x";
  assert_ok(context, lac_calibration_save(context, made, "c.json"));
  assert_ok(context, lac_calibration_load(context, "c.json", &read));
  assert_memory_equal(&read->machine, &made->machine, sizeof made->machine);
  assert_int_equal(read->hash_count, 1);
  lac_hash_costs costs = codes.costs;
  costs.basis = LAC_BASIS_MEASURED;
  assert_memory_equal(&read->hash[0].costs, &costs, sizeof costs);
  assert_memory_equal(&read->hash[0].which, &codes.which, sizeof codes.which);
  assert_int_equal(read->hash[0].points, codes.points);
  assert_memory_equal(&read->gradients[0], &gradient, sizeof gradient);
  assert_memory_equal(&read->links[0], &link_entry, sizeof link_entry);
  assert_true(lac_calibration_is_here(read, reason, sizeof reason));
  assert_string_equal(reason, "");
  lac_calibration_destroy(&made);
  lac_calibration_destroy(&read);
  assert_null(read);
  lac_calibration_destroy(&read);
}

static void digits_come_back(void **state) {
  lac_context *context = *state;
  static const double values[] = {0, 1.0 / 3, 5e-324, 1e-7, 123456789.125, 0.1, 999999999999999.9};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    lac_calibration *made = filled(context), *read;
    made->hash[0].costs.mac.z = made->links[0].byte = values[i];
    char *text = text_of(context, made);
    assert_ok(context, lac_calibration_parse(context, "c.json", text, strlen(text), &read));
    assert_true(read->hash[0].costs.mac.z == values[i] && read->links[0].byte == values[i]);
    free(text);
    lac_calibration_destroy(&made);
    lac_calibration_destroy(&read);
  }
}

/* The value at "hash[0].z" or "machine.cores" replaced (value NULL: taken away), and the file refused by that name. */
static void refuse_key(lac_context *context, const json_t *whole, const char *list, const char *key, json_t *value,
                       const char *words) {
  char place[128];
  json_t *root = json_deep_copy(whole), *object = root;
  lac_calibration *read = (lac_calibration *)"";
  if (list && strcmp(list, "machine") == 0) {
    object = json_object_get(root, list);
    snprintf(place, sizeof place, "c.json: machine.%s: ", key);
  } else if (list) {
    object = json_array_get(json_object_get(root, list), 0);
    snprintf(place, sizeof place, "c.json: %s[0].%s: ", list, key);
  } else {
    snprintf(place, sizeof place, "c.json: %s: ", key);
  }
  assert_non_null(json_object_get(object, key));
  assert_int_equal(value ? json_object_set_new(object, key, value) : json_object_del(object, key), 0);
  char *text = json_dumps(root, JSON_COMPACT);
  assert_failure(context, lac_calibration_parse(context, "c.json", text, strlen(text), &read), LAC_E_INPUT, place);
  assert_failure(context, LAC_E_INPUT, LAC_E_INPUT, words);
  assert_failure(context, LAC_E_INPUT, LAC_E_INPUT, "expected ");
  assert_null(read);
  free(text);
  json_decref(root);
}

static void every_broken_key_is_named(void **state) {
  lac_context *context = *state;
  static const struct {
    const char *list, *key;
    char kind; /* t: text, n: name, c: count, s: seconds, p: positive, a: array, o: object */
  } keys[] = {{NULL, "laconic", 't'},
              {NULL, "machine", 'o'},
              {NULL, "hash", 'a'},
              {NULL, "gradients", 'a'},
              {NULL, "links", 'a'},
              {"machine", "processor", 't'},
              {"machine", "cores", 'c'},
              {"machine", "kernels", 't'},
              {"hash", "columns", 'c'},
              {"hash", "type", 'n'},
              {"hash", "bits", 'c'},
              {"hash", "encoder", 'n'},
              {"hash", "points", 'c'},
              {"hash", "begin", 's'},
              {"hash", "visit", 's'},
              {"hash", "submodels", 'a'},
              {"hash", "handling", 's'},
              {"hash", "z", 's'},
              {"hash", "early_begin", 's'},
              {"hash", "early_z", 's'},
              {"hash", "start_point", 's'},
              {"hash", "start_fixed", 's'},
              {"hash", "iteration_point", 's'},
              {"hash", "iteration_fixed", 's'},
              {"hash", "finish_point", 's'},
              {"hash", "finish_fixed", 's'},
              {"gradients", "model", 't'},
              {"gradients", "batch", 'c'},
              {"gradients", "precision", 'n'},
              {"gradients", "backend", 't'},
              {"gradients", "parameters", 'c'},
              {"gradients", "flops", 'p'},
              {"gradients", "seconds", 'p'},
              {"links", "backend", 't'},
              {"links", "message", 's'},
              {"links", "byte", 's'}};
  lac_calibration *made = filled(context);
  char *text = text_of(context, made), long_text[256];
  json_t *root = json_loads(text, 0, NULL);
  assert_non_null(root);
  memset(long_text, 'x', sizeof long_text);
  long_text[sizeof long_text - 1] = 0;
  size_t tested = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const char *list = keys[i].list, *key = keys[i].key;
    char kind = keys[i].kind;
    refuse_key(context, root, list, key, NULL, "found nothing");
    refuse_key(context, root, list, key, json_null(), "found null");
    refuse_key(context, root, list, key, json_true(), "found true");
    if (kind != 't' && kind != 'n') {
      refuse_key(context, root, list, key, json_string("a\nb"), "found 'a?b'");
    } else {
      refuse_key(context, root, list, key, json_string(""), "found ''");
      refuse_key(context, root, list, key, json_string(long_text), "found 'xxx");
      refuse_key(context, root, list, key, json_integer(3), "found 3");
    }
    if (strchr("csp", kind)) {
      refuse_key(context, root, list, key, json_integer(-1), "found -1");
      refuse_key(context, root, list, key, json_real(-0.5), "found -0.5");
    }
    if (strchr("cp", kind)) {
      refuse_key(context, root, list, key, json_integer(0), "found 0");
    }
    if (kind == 'c') {
      refuse_key(context, root, list, key, json_real(2.5), "found 2.5");
      refuse_key(context, root, list, key, json_integer(INT64_C(1) << 62), "found 4611686018427387904");
    }
    if (strchr("ao", kind)) {
      refuse_key(context, root, list, key, json_integer(1), "found 1");
    } else {
      refuse_key(context, root, list, key, json_array(), "found an array of 0");
      refuse_key(context, root, list, key, json_object(), "found an object");
    }
    tested += list != NULL;
  }
  /* Every key that is written is in the list above. */
  assert_int_equal(tested, json_object_size(json_object_get(root, "machine")) +
                               json_object_size(json_array_get(json_object_get(root, "hash"), 0)) +
                               json_object_size(json_array_get(json_object_get(root, "gradients"), 0)) +
                               json_object_size(json_array_get(json_object_get(root, "links"), 0)));
  refuse_key(context, root, "hash", "submodels", json_pack("[]"), "found an array of 0");
  refuse_key(context, root, "hash", "submodels", json_pack("[iiiii]", 1, 1, 1, 1, 1), "found an array of 5");
  refuse_key(context, root, "hash", "type", json_string("u9"), "found 'u9', expected one of u8, i32");
  refuse_key(context, root, "hash", "encoder", json_string("x"), "expected one of linear, rbf");
  refuse_key(context, root, "gradients", "precision", json_string("f16"), "expected one of f32, bf16");
  refuse_key(context, root, "hash", "bits", json_integer(1025), "from 1 to 1024");
  json_decref(root);
  free(text);
  lac_calibration_destroy(&made);
}

static void broken_files(void **state) {
  lac_context *context = *state;
  static const struct {
    const char *text, *words;
  } files[] = {
      {"{", "c.json: line 1, column 1"},
      {"[]", "c.json: found no JSON object"},
      {"3", "c.json: found no JSON object"},
      {"{\"laconic\": \"1\", \"laconic\": \"2\"}", "c.json: line 1"},
      {"{\"laconic\": \"1\"} x", "c.json: line 1"},
      {"{\"laconic\": 1e999}", "c.json: line 1"},
      {"{\"laconic\": \"1\", \"machine\": []}", "c.json: machine: found an array of 0, expected an object"},
      {"{\"laconic\": \"1\", \"machine\": {\"processor\": \"p\", \"cores\": 1, \"kernels\": \"k\"}, \"hash\": [3]}",
       "c.json: hash[0]"},
      {"{\"laconic\": \"1\", \"machine\": {\"processor\": \"p\", \"cores\": 1, \"kernels\": \"k\"}, \"hash\": [], "
       "\"gradients\": [], \"links\": [{\"backend\": \"mpi\", \"message\": 1, \"byte\": 1}, {\"backend\": \"mpi\", "
       "\"message\": 1, \"byte\": 1}]}",
       "c.json: links[1]: found a case for the second time"},
  };
  lac_calibration *read;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    assert_failure(context, lac_calibration_parse(context, "c.json", files[i].text, strlen(files[i].text), &read),
                   LAC_E_INPUT, files[i].words);
    assert_null(read);
  }
  size_t large = (16 << 20) + 1;
  char *zeros = calloc(large, 1);
  assert_failure(context, lac_calibration_parse(context, "c.json", zeros, large, &read), LAC_E_INPUT,
                 "at most 16777216");
  free(zeros);
  assert_failure(context, lac_calibration_load(context, "none.json", &read), LAC_E_INPUT, "none.json");
  assert_failure(context, lac_calibration_load(context, "/dev/null", &read), LAC_E_INPUT, "/dev/null");
}

/* What a later version adds is passed over. */
static void unknown_keys(void **state) {
  lac_context *context = *state;
  lac_calibration *made = filled(context), *read;
  char *text = text_of(context, made), *again;
  json_t *root = json_loads(text, 0, NULL);
  json_object_set_new(root, "later", json_true());
  json_object_set_new(json_array_get(json_object_get(root, "hash"), 0), "later", json_true());
  char *more = json_dumps(root, JSON_REAL_PRECISION(17));
  assert_ok(context, lac_calibration_parse(context, "c.json", more, strlen(more), &read));
  again = text_of(context, read);
  assert_string_equal(again, text);
  free(text);
  free(more);
  free(again);
  json_decref(root);
  lac_calibration_destroy(&made);
  lac_calibration_destroy(&read);
}

static void other_machines(void **state) {
  lac_context *context = *state;
  lac_calibration *made = filled(context);
  lac_machine here = made->machine;
  char reason[256];
  assert_true(here.cores >= 1 && *here.processor && *here.kernels);
  made->machine.cores++;
  assert_false(lac_calibration_is_here(made, reason, sizeof reason));
  assert_non_null(strstr(reason, here.processor));
  made->machine = here;
  lac_calibration_text(made->machine.processor, "Abacus 1");
  assert_false(lac_calibration_is_here(made, reason, sizeof reason));
  assert_non_null(strstr(reason, "Abacus 1"));
  made->machine = here;
  lac_calibration_text(made->machine.version, "0.0.1");
  assert_false(lac_calibration_is_here(made, reason, sizeof reason));
  assert_non_null(strstr(reason, "0.0.1"));
  made->machine = here;
  lac_calibration_text(made->machine.kernels, "beads");
  assert_false(lac_calibration_is_here(made, reason, sizeof reason));
  assert_non_null(strstr(reason, "beads"));
  lac_calibration_destroy(&made);
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static bool close_to(double a, double b) {
  return fabs(a - b) <= 1e-12 * fabs(b);
}

static void assert_same_costs(const lac_hash_costs *a, const lac_hash_costs *b) {
  assert_true(close_to(a->mac.begin, b->mac.begin) && close_to(a->mac.visit, b->mac.visit) &&
              close_to(a->mac.z, b->mac.z) && close_to(a->mac.handling, b->mac.handling));
  assert_int_equal(a->mac.kinds, b->mac.kinds);
  for (int i = 0; i < a->mac.kinds; i++) {
    assert_true(close_to(a->mac.submodel[i], b->mac.submodel[i]));
  }
  assert_true(close_to(a->start_point, b->start_point) && close_to(a->start_fixed, b->start_fixed));
  assert_true(close_to(a->iteration_point, b->iteration_point) && close_to(a->iteration_fixed, b->iteration_fixed));
  assert_true(close_to(a->finish_point, b->finish_point) && close_to(a->finish_fixed, b->finish_fixed));
}

static void scaling(void **state) {
  (void)state;
  static const lac_hash_case cases[] = {{128, LAC_U8, 64, LAC_ENCODER_LINEAR}, {128, LAC_F32, 64, LAC_ENCODER_LINEAR},
                                        {784, LAC_U8, 16, LAC_ENCODER_LINEAR}, {1, LAC_U8, 1, LAC_ENCODER_LINEAR},
                                        {4096, LAC_U8, 1024, LAC_ENCODER_RBF}, {32, LAC_U8, 17, LAC_ENCODER_RBF}};
  lac_hash_costs costs;
  /* To itself, and to the same sizes in another type: what was measured. */
  lac_hash_scale(&codes, &cases[0], &costs);
  assert_same_costs(&costs, &codes.costs);
  assert_int_equal(costs.basis, LAC_BASIS_SCALED);
  lac_hash_scale(&codes, &cases[1], &costs);
  assert_same_costs(&costs, &codes.costs);
  for (int i = 0; i < 6; i++) { /* there and back */
    lac_hash_entry there = {.which = cases[i]};
    lac_hash_scale(&codes, &cases[i], &there.costs);
    assert_true(there.costs.mac.z > 0 && isfinite(there.costs.mac.z) && there.costs.mac.submodel[0] > 0);
    assert_true(there.costs.mac.submodel[1] == 0);
    lac_hash_scale(&there, &codes.which, &costs);
    assert_same_costs(&costs, &codes.costs);
  }
  /* Assumed costs scale to assumed costs. */
  for (int i = 0; i < 6; i++) {
    lac_hash_entry from = {.which = codes.which};
    lac_hash_costs assumed;
    lac_hash_assumed(&from.which, &from.costs);
    lac_hash_assumed(&cases[i], &assumed);
    lac_hash_scale(&from, &cases[i], &costs);
    assert_same_costs(&costs, &assumed);
  }
}

/* Where arithmetic is proportional to the columns, so is time, but for what does not depend on them. */
static void growth(void **state) {
  (void)state;
  lac_hash_costs a, b;
  lac_hash_assumed(&(lac_hash_case){1 << 20, LAC_U8, 64, LAC_ENCODER_LINEAR}, &a);
  lac_hash_assumed(&(lac_hash_case){1 << 21, LAC_U8, 64, LAC_ENCODER_LINEAR}, &b);
  assert_true(fabs(b.mac.submodel[0] / a.mac.submodel[0] - 2) < 1e-2 && fabs(b.mac.visit / a.mac.visit - 2) < 1e-2);
  assert_true(fabs(b.mac.z / a.mac.z - 2) < 1e-2 && fabs(b.mac.begin / a.mac.begin - 2) < 1e-2);
  assert_true(fabs(b.finish_point / a.finish_point - 2) < 1e-2);
  assert_true(b.mac.handling == a.mac.handling);
}

static void answers_on_codes(void **state) {
  lac_context *context = *state;
  lac_calibration *made = filled(context);
  lac_hash_entry other = codes;
  lac_hash_costs costs, expected;
  lac_calibration_hash(made, &codes.which, &costs);
  assert_int_equal(costs.basis, LAC_BASIS_MEASURED);
  assert_same_costs(&costs, &codes.costs);
  other.which = (lac_hash_case){512, LAC_U8, 64, LAC_ENCODER_LINEAR};
  other.costs.mac.z = 1;
  assert_ok(context, lac_calibration_put_hash(context, made, &other, NULL));
  other.which = (lac_hash_case){240, LAC_U8, 16, LAC_ENCODER_LINEAR};
  assert_ok(context, lac_calibration_put_hash(context, made, &other, NULL));
  /* 240 is nearer to 128 than to 512, and the case of 16 bits works otherwise. */
  lac_hash_case asked = {240, LAC_U8, 32, LAC_ENCODER_LINEAR};
  lac_calibration_hash(made, &asked, &costs);
  lac_hash_scale(&codes, &asked, &expected);
  assert_same_costs(&costs, &expected);
  assert_int_equal(costs.basis, LAC_BASIS_SCALED);
  asked = (lac_hash_case){128, LAC_U8, 64, LAC_ENCODER_RBF};
  lac_calibration_hash(made, &asked, &costs);
  assert_int_equal(costs.basis, LAC_BASIS_ASSUMED);
  lac_calibration_hash(NULL, &codes.which, &costs);
  lac_hash_assumed(&codes.which, &expected);
  assert_int_equal(costs.basis, LAC_BASIS_ASSUMED);
  assert_same_costs(&costs, &expected);
  lac_calibration_destroy(&made);
}

static void replacing(void **state) {
  lac_context *context = *state;
  lac_calibration *made = filled(context);
  lac_hash_entry again = codes;
  lac_hash_costs costs;
  bool replaced = false;
  again.costs.mac.z = 7;
  assert_ok(context, lac_calibration_put_hash(context, made, &again, &replaced));
  assert_true(replaced);
  assert_int_equal(made->hash_count, 1);
  lac_calibration_hash(made, &codes.which, &costs);
  assert_true(costs.mac.z == 7);
  lac_gradient_entry other = gradient;
  lac_calibration_text(other.backend, "reference");
  assert_ok(context, lac_calibration_put_gradient(context, made, &other, &replaced));
  assert_false(replaced);
  assert_ok(context, lac_calibration_put_gradient(context, made, &other, &replaced));
  assert_true(replaced);
  assert_int_equal(made->gradient_count, 2);
  lac_calibration_destroy(&made);
}

static void answers_on_gradients(void **state) {
  lac_context *context = *state;
  lac_calibration *made = filled(context);
  lac_basis basis;
  double flops = gradient.flops;
  assert_true(lac_calibration_gradient(made, "resnet20", 128, LAC_PRECISION_F32, flops, &basis) == 0.5);
  assert_int_equal(basis, LAC_BASIS_MEASURED);
  assert_true(close_to(lac_calibration_gradient(made, "resnet20", 32, LAC_PRECISION_F32, flops, &basis), 0.125));
  assert_int_equal(basis, LAC_BASIS_SCALED);
  assert_true(close_to(lac_calibration_gradient(made, "allcnn", 256, LAC_PRECISION_F32, 3 * flops, &basis), 3));
  assert_int_equal(basis, LAC_BASIS_SCALED);
  assert_true(close_to(lac_calibration_gradient(made, "resnet20", 128, LAC_PRECISION_BF16, flops, &basis), 0.5));
  assert_int_equal(basis, LAC_BASIS_SCALED);
  /* The same name on larger pictures. */
  assert_true(close_to(lac_calibration_gradient(made, "resnet20", 128, LAC_PRECISION_F32, 4 * flops, &basis), 2));
  assert_int_equal(basis, LAC_BASIS_SCALED);
  lac_gradient_entry slow = gradient;
  lac_calibration_text(slow.backend, "reference");
  slow.seconds = 4;
  assert_ok(context, lac_calibration_put_gradient(context, made, &slow, NULL));
  assert_true(lac_calibration_gradient(made, "resnet20", 128, LAC_PRECISION_F32, flops, &basis) == 0.5);
  double one = lac_calibration_gradient(NULL, "resnet20", 1, LAC_PRECISION_F32, flops, &basis);
  assert_int_equal(basis, LAC_BASIS_ASSUMED);
  assert_true(one > 0 &&
              close_to(lac_calibration_gradient(NULL, "x", 10, LAC_PRECISION_F32, 2 * flops, &basis), 20 * one));
  lac_calibration_destroy(&made);
}

static void answers_on_links(void **state) {
  lac_context *context = *state;
  lac_calibration *made = filled(context);
  double message, byte;
  assert_true(lac_calibration_link(made, "mpi", &message, &byte));
  assert_true(message == link_entry.message && byte == link_entry.byte);
  assert_false(lac_calibration_link(made, "local", &message, &byte));
  assert_false(lac_calibration_link(NULL, "mpi", &message, &byte));
  lac_calibration_destroy(&made);
}

/* ---- measurements ----------------------------------------------------------------------------------------------- */

static void drawn_points(void **state) {
  lac_context *context = *state;
  enum { ROWS = 300, COLUMNS = 20 };
  float first[ROWS * COLUMNS], values[ROWS * COLUMNS];
  for (int type = LAC_U8; type <= LAC_I16; type++) {
    void *points;
    lac_dataset *data;
    assert_ok(context, lac_draw_points(context, (lac_type)type, ROWS, COLUMNS, &points));
    assert_ok(context, lac_dataset_borrow(context, points, (lac_type)type, ROWS, COLUMNS,
                                          COLUMNS * lac_type_size((lac_type)type), &data));
    assert_ok(context, lac_dataset_read_f32(context, data, 0, ROWS, type == LAC_U8 ? first : values));
    double sum = 0, square = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
      sum += (double)first[i];
      square += (double)first[i] * (double)first[i];
      assert_true(type == LAC_U8 || values[i] == first[i] - (type == LAC_I8 ? 128 : 0));
    }
    double mean = sum / (ROWS * COLUMNS), deviation = sqrt(square / (ROWS * COLUMNS) - mean * mean);
    assert_true(mean > 100 && mean < 156 && deviation > 20 && deviation < 60);
    lac_dataset_destroy(&data);
    lac_free(points);
  }
}

static void codes_are_measured(void **state) {
  lac_context *context = *state;
  lac_calibration *made;
  lac_hash_options options;
  assert_ok(context, lac_calibration_create(context, &made));
  assert_ok(context, lac_options_default(context, lac_hash_option_table(), &options));
  assert_int_equal(options.mac.iterations - options.mac.full_iterations, LAC_HASH_EARLY); /* what is counted apart */
  options.bits = 17;
  assert_failure(context, lac_calibration_measure_hash(context, made, 16, LAC_U8, &options), LAC_E_INPUT, "17 bits");
  options.bits = 4;
  options.method = LAC_HASH_PCA;
  assert_failure(context, lac_calibration_measure_hash(context, made, 16, LAC_U8, &options), LAC_E_USAGE, "ba");
  options.method = LAC_HASH_BA;
  assert_failure(context, lac_calibration_measure_hash(context, made, 0, LAC_U8, &options), LAC_E_USAGE, "0 columns");
  assert_int_equal(made->hash_count, 0);
  assert_ok(context, lac_calibration_measure_hash(context, made, 8, LAC_U8, &options));
  const lac_hash_entry *entry = &made->hash[0];
  const lac_mac_costs *mac = &entry->costs.mac;
  assert_int_equal(made->hash_count, 1);
  assert_int_equal(entry->points, 30000);
  assert_int_equal(mac->kinds, 2);
  assert_true(mac->z > 0 && mac->begin >= 0 && mac->visit + 4 * mac->submodel[0] > 0 && mac->submodel[1] == 0);
  assert_true(entry->costs.start_point + entry->costs.start_fixed > 0);
  assert_true(lac_measured(mac->z) == mac->z && lac_measured(1.0 / 3) == 0.33333 && lac_measured(-1) == 0);
  lac_calibration_destroy(&made);
}

static void gradients_are_measured(void **state) {
  lac_context *context = *state;
  lac_calibration *made;
  lac_net *net;
  char *text, long_name[200];
  lac_basis basis;
  assert_ok(context, lac_calibration_create(context, &made));
  assert_ok(context, lac_net_builtin(context, "mlp:16-8-4", 1, &text));
  assert_ok(context, lac_net_create(context, text, "mlp", (lac_image_shape){1, 1, 16}, 4, 3, NULL, &net));
  memset(long_name, 'x', sizeof long_name);
  long_name[sizeof long_name - 1] = 0;
  assert_failure(context, lac_calibration_measure_gradient(context, made, long_name, net), LAC_E_USAGE, "199");
  assert_failure(context, lac_calibration_measure_gradient(context, made, "", net), LAC_E_USAGE, "0 bytes");
  assert_ok(context, lac_calibration_measure_gradient(context, made, "mlp:16-8-4", net));
  const lac_gradient_entry *entry = &made->gradients[0];
  assert_int_equal(entry->batch, 3);
  assert_int_equal(entry->parameters, lac_net_parameters(net));
  assert_string_equal(entry->backend, lac_net_backend_name(net));
  double seconds = lac_calibration_gradient(made, "mlp:16-8-4", 3, LAC_PRECISION_F32, lac_net_flops(net), &basis);
  assert_true(seconds > 0 && seconds < 1);
  assert_int_equal(basis, LAC_BASIS_MEASURED);
  free(text);
  lac_net_destroy(&net);
  lac_calibration_destroy(&made);
}

static lac_status measure_link(lac_world *world, void *argument) {
  return lac_calibration_measure_link(lac_world_context(world), world, lac_world_rank(world) == 0 ? argument : NULL);
}

/* A message of b bytes takes b / bandwidth and the latency. */
static void links_are_measured(void **state) {
  lac_context *context = *state;
  lac_cluster cluster = {.latency = 25e-6, .bandwidth = 1.25e9};
  lac_calibration *made;
  double message, byte;
  assert_ok(context, lac_calibration_create(context, &made));
  for (int workers = 1; workers <= 3; workers++) {
    lac_world_options options = {.backend = "sim", .workers = workers, .cluster = &cluster};
    assert_ok(context, lac_world_run(context, &options, measure_link, made));
    assert_int_equal(lac_calibration_link(made, "sim", &message, &byte), workers > 1);
  }
  assert_true(fabs(message / cluster.latency - 1) < 1e-4 && fabs(byte * cluster.bandwidth - 1) < 1e-4);
  lac_world_options local = {.backend = "local", .workers = 2};
  assert_ok(context, lac_world_run(context, &local, measure_link, made));
  assert_true(lac_calibration_link(made, "local", &message, &byte));
  assert_true(message >= 0 && byte >= 0 && message + byte > 0);
  lac_calibration_destroy(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(there_and_back, make_context, drop_context),
      cmocka_unit_test_setup_teardown(digits_come_back, make_context, drop_context),
      cmocka_unit_test_setup_teardown(every_broken_key_is_named, make_context, drop_context),
      cmocka_unit_test_setup_teardown(broken_files, make_context, drop_context),
      cmocka_unit_test_setup_teardown(unknown_keys, make_context, drop_context),
      cmocka_unit_test_setup_teardown(other_machines, make_context, drop_context),
      cmocka_unit_test(scaling),
      cmocka_unit_test(growth),
      cmocka_unit_test_setup_teardown(answers_on_codes, make_context, drop_context),
      cmocka_unit_test_setup_teardown(replacing, make_context, drop_context),
      cmocka_unit_test_setup_teardown(answers_on_gradients, make_context, drop_context),
      cmocka_unit_test_setup_teardown(answers_on_links, make_context, drop_context),
      cmocka_unit_test_setup_teardown(drawn_points, make_context, drop_context),
      cmocka_unit_test_setup_teardown(codes_are_measured, make_context, drop_context),
      cmocka_unit_test_setup_teardown(gradients_are_measured, make_context, drop_context),
      cmocka_unit_test_setup_teardown(links_are_measured, make_context, drop_context),
  };
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  leave_folder(folder);
  return failed;
}
