/* The file of a calibration: JSON, every key of which must be there. Keys that are not known are passed over, so that a
 * later version may write more. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "data/storage.h"
#include "hash/model.h"
#include "laconic/output.h"
#include "plan/calibration.h"

enum { FILE_BYTES = 16 << 20, SHOWN = 64, PLACE = 64 };

/* ---- what the objects hold: tables by which they are both read and written -------------------------------------- */

typedef enum field_kind {
  FIELD_END,
  FIELD_TEXT,     /* char[LAC_CALIBRATION_TEXT], not empty */
  FIELD_COUNT,    /* int64_t, 1 or more */
  FIELD_BITS,     /* int64_t, 1 to 1024 */
  FIELD_COST,     /* double, 0 or more */
  FIELD_POSITIVE, /* double, above 0 */
  FIELD_TYPE,     /* lac_type, by name */
  FIELD_ENCODER,  /* int, by name */
  FIELD_PRECISION,
  FIELD_SUBMODELS, /* lac_mac_costs: an array of seconds, one for each kind */
} field_kind;

typedef struct field {
  const char *key;
  field_kind kind;
  size_t offset;
} field;

static const field machine_fields[] = {{"processor", FIELD_TEXT, offsetof(lac_machine, processor)},
                                       {"cores", FIELD_COUNT, offsetof(lac_machine, cores)},
                                       {"kernels", FIELD_TEXT, offsetof(lac_machine, kernels)},
                                       {0}};

static const field hash_fields[] = {{"columns", FIELD_COUNT, offsetof(lac_hash_entry, which.columns)},
                                    {"type", FIELD_TYPE, offsetof(lac_hash_entry, which.type)},
                                    {"bits", FIELD_BITS, offsetof(lac_hash_entry, which.bits)},
                                    {"encoder", FIELD_ENCODER, offsetof(lac_hash_entry, which.encoder)},
                                    {"points", FIELD_COUNT, offsetof(lac_hash_entry, points)},
                                    {"begin", FIELD_COST, offsetof(lac_hash_entry, costs.mac.begin)},
                                    {"visit", FIELD_COST, offsetof(lac_hash_entry, costs.mac.visit)},
                                    {"submodels", FIELD_SUBMODELS, offsetof(lac_hash_entry, costs.mac)},
                                    {"handling", FIELD_COST, offsetof(lac_hash_entry, costs.mac.handling)},
                                    {"z", FIELD_COST, offsetof(lac_hash_entry, costs.mac.z)},
                                    {"early_begin", FIELD_COST, offsetof(lac_hash_entry, costs.mac.early_begin)},
                                    {"early_z", FIELD_COST, offsetof(lac_hash_entry, costs.mac.early_z)},
                                    {"start_point", FIELD_COST, offsetof(lac_hash_entry, costs.start_point)},
                                    {"start_fixed", FIELD_COST, offsetof(lac_hash_entry, costs.start_fixed)},
                                    {"iteration_point", FIELD_COST, offsetof(lac_hash_entry, costs.iteration_point)},
                                    {"iteration_fixed", FIELD_COST, offsetof(lac_hash_entry, costs.iteration_fixed)},
                                    {"finish_point", FIELD_COST, offsetof(lac_hash_entry, costs.finish_point)},
                                    {"finish_fixed", FIELD_COST, offsetof(lac_hash_entry, costs.finish_fixed)},
                                    {0}};

static const field gradient_fields[] = {{"model", FIELD_TEXT, offsetof(lac_gradient_entry, model)},
                                        {"batch", FIELD_COUNT, offsetof(lac_gradient_entry, batch)},
                                        {"precision", FIELD_PRECISION, offsetof(lac_gradient_entry, precision)},
                                        {"backend", FIELD_TEXT, offsetof(lac_gradient_entry, backend)},
                                        {"parameters", FIELD_COUNT, offsetof(lac_gradient_entry, parameters)},
                                        {"flops", FIELD_POSITIVE, offsetof(lac_gradient_entry, flops)},
                                        {"seconds", FIELD_POSITIVE, offsetof(lac_gradient_entry, seconds)},
                                        {0}};

static const field link_fields[] = {{"backend", FIELD_TEXT, offsetof(lac_link_entry, backend)},
                                    {"message", FIELD_COST, offsetof(lac_link_entry, message)},
                                    {"byte", FIELD_COST, offsetof(lac_link_entry, byte)},
                                    {0}};

/* The name of a value in a table of names, NULL beyond its end. */
static const char *name_of(field_kind kind, int value) {
  if (kind == FIELD_TYPE) {
    return value <= LAC_I16 ? lac_type_name((lac_type)value) : NULL;
  }
  return (kind == FIELD_ENCODER ? lac_hash_encoder_names : lac_net_precision_names)[value];
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct reader {
  lac_context *context;
  const char *path;
  char place[PLACE]; /* of the object that is read: "hash[2]." */
} reader;

/* What stands where something else was expected; one line of text whatever the file holds. */
static void show(const json_t *value, char text[SHOWN]) {
  char shown[LAC_SPAN_SHOWN + 1];
  switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
      lac_span_show((lac_span){json_string_value(value), json_string_value(value) + json_string_length(value)}, shown);
      snprintf(text, SHOWN, "'%s'", shown);
      break;
    case JSON_INTEGER:
      snprintf(text, SHOWN, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
      break;
    case JSON_REAL:
      snprintf(text, SHOWN, "%g", json_real_value(value));
      break;
    case JSON_OBJECT:
      snprintf(text, SHOWN, "an object");
      break;
    case JSON_ARRAY:
      snprintf(text, SHOWN, "an array of %zu", json_array_size(value));
      break;
    case JSON_TRUE:
    case JSON_FALSE:
      snprintf(text, SHOWN, json_is_true(value) ? "true" : "false");
      break;
    case JSON_NULL:
    default:
      snprintf(text, SHOWN, value ? "null" : "nothing");
  }
}

static lac_status refuse(const reader *self, const char *key, const json_t *found, const char *expected) {
  char text[SHOWN];
  show(found, text);
  return lac_fail(self->context, LAC_E_INPUT, "%s: %s%s: found %s, expected %s", self->path, self->place, key, text,
                  expected);
}

static lac_status read_text(const reader *self, const char *key, const json_t *value, char *text) {
  size_t length = json_string_length(value); /* 0 of what is no string */
  if (length == 0 || length >= LAC_CALIBRATION_TEXT || strlen(json_string_value(value)) != length) {
    return refuse(self, key, value, "a text of 1 to 127 bytes");
  }
  memcpy(text, json_string_value(value), length + 1);
  return LAC_OK;
}

static lac_status read_count(const reader *self, const char *key, const json_t *value, int64_t most, int64_t *count) {
  char expected[SHOWN];
  *count = json_integer_value(value); /* 0 of what is no integer */
  if (*count < 1 || *count > most) {
    snprintf(expected, sizeof expected, "a whole number from 1 to %" PRId64, most);
    return refuse(self, key, value, expected);
  }
  return LAC_OK;
}

static lac_status read_real(const reader *self, const char *key, const json_t *value, bool positive, double *real) {
  *real = json_is_number(value) ? json_number_value(value) : -1;
  const double most = 1e15; /* seconds, or operations of a picture */
  if (!(*real <= most) || !(positive ? *real > 0 : *real >= 0)) {
    return refuse(self, key, value, positive ? "a number above 0, at most 1e15" : "a number of seconds from 0 to 1e15");
  }
  return LAC_OK;
}

static lac_status read_name(const reader *self, const char *key, const json_t *value, field_kind kind, int *number) {
  char expected[2 * SHOWN] = "one of";
  const char *text = json_string_value(value), *name;
  for (*number = 0; (name = name_of(kind, *number)); ++*number) {
    if (text && strcmp(text, name) == 0) {
      return LAC_OK;
    }
    size_t length = strlen(expected);
    snprintf(expected + length, sizeof expected - length, "%s %s", *number ? "," : "", name);
  }
  return refuse(self, key, value, expected);
}

static lac_status read_submodels(const reader *self, const char *key, const json_t *value, lac_mac_costs *costs) {
  size_t kinds = json_array_size(value); /* 0 of what is no array */
  if (kinds != 2) {
    return refuse(self, key, value, "an array of 2 numbers of seconds, of encoders and groups of the decoder");
  }
  costs->kinds = (int)kinds;
  for (size_t i = 0; i < kinds; i++) {
    char place[PLACE];
    snprintf(place, sizeof place, "%s[%zu]", key, i);
    LAC_TRY(read_real(self, place, json_array_get(value, i), false, &costs->submodel[i]));
  }
  return LAC_OK;
}

static lac_status read_field(const reader *self, const field *each, const json_t *value, char *into) {
  void *at = into + each->offset;
  switch (each->kind) {
    case FIELD_TEXT:
      return read_text(self, each->key, value, at);
    case FIELD_COUNT:
      return read_count(self, each->key, value, INT64_C(1000000000000000), at);
    case FIELD_BITS:
      return read_count(self, each->key, value, 1024, at);
    case FIELD_COST:
    case FIELD_POSITIVE:
      return read_real(self, each->key, value, each->kind == FIELD_POSITIVE, at);
    case FIELD_TYPE: {
      int number;
      LAC_TRY(read_name(self, each->key, value, each->kind, &number));
      *(lac_type *)at = (lac_type)number;
      return LAC_OK;
    }
    case FIELD_ENCODER:
    case FIELD_PRECISION:
      return read_name(self, each->key, value, each->kind, at);
    case FIELD_SUBMODELS:
      return read_submodels(self, each->key, value, at);
    case FIELD_END:
    default:
      return LAC_OK;
  }
}

static lac_status read_object(const reader *self, const field *fields, const json_t *object, void *into) {
  if (!json_is_object(object)) {
    return refuse(self, "", object, "an object");
  }
  for (const field *each = fields; each->key; each++) {
    LAC_TRY(read_field(self, each, json_object_get(object, each->key), into));
  }
  return LAC_OK;
}

static lac_status read_hash(const reader *self, const json_t *object, lac_calibration *into, bool *twice) {
  lac_hash_entry entry = {.costs.basis = LAC_BASIS_MEASURED};
  LAC_TRY(read_object(self, hash_fields, object, &entry));
  entry.costs.mac.early = LAC_HASH_EARLY;
  return lac_calibration_put_hash(self->context, into, &entry, twice);
}

static lac_status read_gradient(const reader *self, const json_t *object, lac_calibration *into, bool *twice) {
  lac_gradient_entry entry = {.batch = 0};
  LAC_TRY(read_object(self, gradient_fields, object, &entry));
  return lac_calibration_put_gradient(self->context, into, &entry, twice);
}

static lac_status read_link(const reader *self, const json_t *object, lac_calibration *into, bool *twice) {
  lac_link_entry entry = {.message = 0};
  LAC_TRY(read_object(self, link_fields, object, &entry));
  return lac_calibration_put_link(self->context, into, &entry, twice);
}

typedef lac_status (*read_fn)(const reader *self, const json_t *object, lac_calibration *into, bool *twice);

static lac_status read_list(reader *self, const json_t *root, const char *key, read_fn read, lac_calibration *into) {
  const json_t *list = json_object_get(root, key);
  self->place[0] = 0;
  if (!json_is_array(list) || json_array_size(list) > LAC_CALIBRATION_CASES) {
    return refuse(self, key, list, "an array of at most 10000 cases");
  }
  for (size_t i = 0; i < json_array_size(list); i++) {
    bool twice;
    snprintf(self->place, sizeof self->place, "%s[%zu].", key, i);
    LAC_TRY(read(self, json_array_get(list, i), into, &twice));
    if (twice) {
      return lac_fail(self->context, LAC_E_INPUT, "%s: %s[%zu]: found a case for the second time, expected each once",
                      self->path, key, i);
    }
  }
  return LAC_OK;
}

static lac_status read_root(reader *self, const json_t *root, lac_calibration *into) {
  if (!json_is_object(root)) {
    return lac_fail(self->context, LAC_E_INPUT, "%s: found no JSON object, expected a calibration", self->path);
  }
  LAC_TRY(read_text(self, "laconic", json_object_get(root, "laconic"), into->machine.version));
  const json_t *machine = json_object_get(root, "machine");
  if (!json_is_object(machine)) {
    return refuse(self, "machine", machine, "an object");
  }
  snprintf(self->place, sizeof self->place, "machine.");
  LAC_TRY(read_object(self, machine_fields, machine, &into->machine));
  LAC_TRY(read_list(self, root, "hash", read_hash, into));
  LAC_TRY(read_list(self, root, "gradients", read_gradient, into));
  return read_list(self, root, "links", read_link, into);
}

lac_status lac_calibration_parse(lac_context *context, const char *path, const void *bytes, size_t size,
                                 lac_calibration **calibration) {
  reader self = {.context = context, .path = path};
  json_error_t error;
  *calibration = NULL;
  if (size > FILE_BYTES) {
    return lac_fail(context, LAC_E_INPUT, "%s: found %zu bytes, expected a calibration of at most %d", path, size,
                    FILE_BYTES);
  }
  json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (!root) {
    char shown[LAC_SPAN_SHOWN + 1]; /* the reader's own words repeat what they stumbled over */
    const char *near = strstr(error.text, " near ");
    size_t length = near ? (size_t)(near - error.text) : strlen(error.text);
    lac_span_show((lac_span){error.text, error.text + length}, shown);
    return lac_fail(context, LAC_E_INPUT, "%s: line %d, column %d: %s; expected a calibration in JSON", path,
                    error.line, error.column, shown);
  }
  lac_status status = LAC_NEW(context, 1, calibration);
  if (!status) {
    status = read_root(&self, root, *calibration);
  }
  json_decref(root);
  if (status) {
    lac_calibration_destroy(calibration);
  }
  return status;
}

lac_status lac_calibration_load(lac_context *context, const char *path, lac_calibration **calibration) {
  lac_storage *storage;
  *calibration = NULL;
  LAC_TRY(lac_storage_map(context, path, &storage));
  lac_status status = lac_calibration_parse(context, path, storage->bytes, storage->size, calibration);
  lac_storage_release(storage);
  return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static lac_status write_text(lac_context *context, FILE *file, const char *text) {
  json_t *value = json_string(text);
  char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
  json_decref(value);
  if (!quoted) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a text of a calibration");
  }
  fputs(quoted, file);
  free(quoted);
  return LAC_OK;
}

static lac_status write_real(lac_context *context, FILE *file, double value) {
  char *text;
  LAC_TRY(lac_real_text(context, value, &text));
  fputs(text, file);
  free(text);
  return LAC_OK;
}

static lac_status write_submodels(lac_context *context, FILE *file, const lac_mac_costs *costs) {
  for (int i = 0; i < costs->kinds; i++) {
    fputs(i ? ", " : "[", file);
    LAC_TRY(write_real(context, file, costs->submodel[i]));
  }
  fputs("]", file);
  return LAC_OK;
}

static lac_status write_value(lac_context *context, FILE *file, field_kind kind, const void *at) {
  switch (kind) {
    case FIELD_TEXT:
      return write_text(context, file, at);
    case FIELD_COUNT:
    case FIELD_BITS:
      fprintf(file, "%" PRId64, *(const int64_t *)at);
      return LAC_OK;
    case FIELD_COST:
    case FIELD_POSITIVE:
      return write_real(context, file, *(const double *)at);
    case FIELD_TYPE:
      return write_text(context, file, lac_type_name(*(const lac_type *)at));
    case FIELD_ENCODER:
    case FIELD_PRECISION:
      return write_text(context, file, name_of(kind, *(const int *)at));
    case FIELD_SUBMODELS:
      return write_submodels(context, file, at);
    case FIELD_END:
    default:
      return LAC_OK;
  }
}

static lac_status write_object(lac_context *context, FILE *file, const field *fields, const void *from) {
  for (const field *each = fields; each->key; each++) {
    fprintf(file, "%s\"%s\": ", each == fields ? "{" : ", ", each->key);
    LAC_TRY(write_value(context, file, each->kind, (const char *)from + each->offset));
  }
  fputs("}", file);
  return LAC_OK;
}

/* A case a line. */
static lac_status write_list(lac_context *context, FILE *file, const char *key, const field *fields,
                             const void *entries, int64_t count, size_t size) {
  fprintf(file, ",\n  \"%s\": [", key);
  for (int64_t i = 0; i < count; i++) {
    fputs(i ? ",\n    " : "\n    ", file);
    LAC_TRY(write_object(context, file, fields, (const char *)entries + (size_t)i * size));
  }
  fputs("]", file);
  return LAC_OK;
}

lac_status lac_calibration_write(lac_context *context, const lac_calibration *calibration, FILE *file) {
  fputs("{\n  \"laconic\": ", file);
  LAC_TRY(write_text(context, file, calibration->machine.version));
  fputs(",\n  \"machine\": ", file);
  LAC_TRY(write_object(context, file, machine_fields, &calibration->machine));
  LAC_TRY(write_list(context, file, "hash", hash_fields, calibration->hash, calibration->hash_count,
                     sizeof *calibration->hash));
  LAC_TRY(write_list(context, file, "gradients", gradient_fields, calibration->gradients, calibration->gradient_count,
                     sizeof *calibration->gradients));
  LAC_TRY(write_list(context, file, "links", link_fields, calibration->links, calibration->link_count,
                     sizeof *calibration->links));
  fputs("\n}\n", file);
  return LAC_OK;
}

lac_status lac_calibration_save(lac_context *context, const lac_calibration *calibration, const char *path) {
  lac_output output;
  LAC_TRY(lac_output_open(context, path, &output));
  lac_status status = lac_calibration_write(context, calibration, output.file);
  if (!status) {
    status = lac_output_commit(context, &output);
  }
  lac_output_discard(&output);
  return status;
}
