#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/faiss.h"
#include "cli/output.h"
#include "laconic/tensors.h"

typedef struct info_options {
  lac_common_options common;
  char *format;
  bool range;
} info_options;

static const lac_option info_option_table[] = {
    LAC_FORMAT_OPTION(info_options, format, "format", "FILE"),
    {.key = "range",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(info_options, range),
     .fallback = "true",
     .help = "do not read the values: no range, no check that they are finite, no fingerprint"},
    LAC_OPTIONS_END,
};

/* One line for people: a name and its value. */
static void print_row(lac_session *session, const char *name, const char *value) {
  lac_print(session, "%-12s %s\n", name, value);
}

static void print_count(lac_session *session, const char *name, int64_t value) {
  lac_print(session, "%-12s %" PRId64 "\n", name, value);
}

static void shape_text(const int64_t *shape, int axes, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < axes && used < bytes; i++) {
    used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i ? " x " : "", shape[i]);
  }
}

static json_t *json_shape(const int64_t *shape, int axes) {
  json_t *array = json_array();
  for (int i = 0; i < axes; i++) {
    json_array_append_new(array, json_integer(shape[i]));
  }
  return array;
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

typedef struct value_facts {
  double low, high;
  int64_t bad_row, bad_column;
  uint64_t fingerprint;
} value_facts;

static lac_status read_values(lac_session *session, const lac_dataset *dataset, value_facts *values) {
  CLI_TRY(
      lac_dataset_range(session->context, dataset, &values->low, &values->high, &values->bad_row, &values->bad_column));
  return lac_dataset_fingerprint(session->context, dataset, &values->fingerprint);
}

static json_t *json_bad_value(const value_facts *values) {
  return values->bad_row < 0 ? json_null()
                             : json_pack("{s:I, s:I}", "row", values->bad_row, "column", values->bad_column);
}

static void print_dataset_json(lac_session *session, const char *path, const lac_dataset *dataset,
                               const value_facts *values) {
  int64_t shape[8];
  int axes = lac_dataset_shape(dataset, shape);
  json_t *object =
      json_pack("{s:o, s:s, s:I, s:I, s:s, s:o}", "file", lac_json_text(path), "format", lac_dataset_format(dataset),
                "rows", lac_dataset_rows(dataset), "columns", lac_dataset_columns(dataset), "type",
                lac_type_name(lac_dataset_type(dataset)), "shape", json_shape(shape, axes));
  if (object && values) {
    char fingerprint[32];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, values->fingerprint);
    json_object_set_new(object, "low", lac_json_real(values->low));
    json_object_set_new(object, "high", lac_json_real(values->high));
    json_object_set_new(object, "not_finite", json_bad_value(values));
    json_object_set_new(object, "fingerprint", json_string(fingerprint));
  }
  lac_print_json(session, object);
}

static void print_dataset(lac_session *session, const char *path, const lac_dataset *dataset,
                          const value_facts *values) {
  int64_t shape[8];
  char text[256];
  int axes = lac_dataset_shape(dataset, shape);
  print_row(session, "file", path);
  print_row(session, "format", lac_dataset_format(dataset));
  print_count(session, "rows", lac_dataset_rows(dataset));
  print_count(session, "columns", lac_dataset_columns(dataset));
  print_row(session, "type", lac_type_name(lac_dataset_type(dataset)));
  shape_text(shape, axes, text, sizeof text);
  print_row(session, "shape", text);
  if (!values) {
    return;
  }
  lac_print(session, "%-12s %.12g to %.12g\n", "range", values->low, values->high);
  if (values->bad_row < 0) {
    print_row(session, "finite", "yes");
  } else {
    lac_print(session, "%-12s no: row %" PRId64 ", column %" PRId64 "\n", "finite", values->bad_row,
              values->bad_column);
  }
  lac_print(session, "%-12s %016" PRIx64 "\n", "fingerprint", values->fingerprint);
}

static lac_status info_dataset(lac_session *session, const info_options *options, const char *path) {
  lac_dataset *dataset;
  CLI_TRY(lac_dataset_open(session->context, path, options->format, &dataset));
  value_facts found;
  lac_status status = options->range ? read_values(session, dataset, &found) : LAC_OK;
  if (!status) {
    const value_facts *shown = options->range ? &found : NULL;
    print_dataset(session, path, dataset, shown);
    print_dataset_json(session, path, dataset, shown);
  }
  lac_dataset_destroy(&dataset);
  return status;
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* safetensors has no magic number: the header's length, then a JSON object. */
static bool is_safetensors(const char *path) {
  unsigned char start[9];
  struct stat about;
  FILE *file = lac_open_regular(path);
  if (!file) {
    return false;
  }
  bool whole = fread(start, 1, sizeof start, file) == sizeof start && fstat(fileno(file), &about) == 0;
  fclose(file);
  uint64_t length = 0;
  for (int i = 8; i-- > 0 && whole;) {
    length = length << 8 | start[i];
  }
  return whole && start[8] == '{' && length >= 2 && length <= (uint64_t)about.st_size - 8;
}

static json_t *json_tensors(const lac_tensors *tensors) {
  json_t *array = json_array();
  for (int64_t i = 0; i < lac_tensors_count(tensors); i++) {
    const lac_tensor *tensor = lac_tensors_at(tensors, i);
    json_array_append_new(
        array, json_pack("{s:s, s:s, s:o}", "name", tensor->name, "type", lac_tensor_type_name(tensor->type), "shape",
                         json_shape(tensor->shape, tensor->axes)));
  }
  return array;
}

static json_t *json_metadata(const lac_tensors *tensors) {
  json_t *object = json_object();
  for (int64_t i = 0; i < lac_tensors_pair_count(tensors); i++) {
    const lac_text_pair *pair = lac_tensors_pair_at(tensors, i);
    json_object_set_new(object, pair->key, lac_json_nested(pair->value));
  }
  return object;
}

/* A text of several lines beside its name. */
static void print_lines(lac_session *session, const char *name, const char *text) {
  int width = strlen(name) > 12 ? (int)strlen(name) : 12;
  do {
    int length = (int)strcspn(text, "\n");
    lac_print(session, "%-*s %.*s\n", width, name, length, text);
    text += length + (text[length] == '\n');
    name = "";
  } while (*text);
}

static void print_tensors(lac_session *session, const lac_tensors *tensors) {
  for (int64_t i = 0; i < lac_tensors_count(tensors); i++) {
    const lac_tensor *tensor = lac_tensors_at(tensors, i);
    char text[256];
    shape_text(tensor->shape, tensor->axes, text, sizeof text);
    lac_print(session, "%-12s %s, %s, %s\n", "tensor", tensor->name, lac_tensor_type_name(tensor->type), text);
  }
  for (int64_t i = 0; i < lac_tensors_pair_count(tensors); i++) {
    const lac_text_pair *pair = lac_tensors_pair_at(tensors, i);
    print_lines(session, pair->key, pair->value);
  }
}

/* What a header says of a model of the project. */
typedef struct model_facts {
  const char *kind;            /* hash, classifier; NULL: no model of the project */
  int64_t bits, columns;       /* hash: L, D */
  const char *input, *classes; /* classifier, as in the file */
  int64_t parameters;          /* classifier: numbers that were trained */
} model_facts;

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* All arrays but those of the preparation and the statistics. */
static int64_t count_parameters(const lac_tensors *tensors) {
  int64_t count = 0;
  for (int64_t i = 0; i < lac_tensors_count(tensors); i++) {
    const lac_tensor *tensor = lac_tensors_at(tensors, i);
    if (strncmp(tensor->name, "prepare.", strlen("prepare.")) != 0 && !ends_with(tensor->name, ".mean") &&
        !ends_with(tensor->name, ".variance")) {
      count += lac_tensor_elements(tensor);
    }
  }
  return count;
}

static model_facts find_facts(const lac_tensors *tensors) {
  model_facts facts = {.kind = lac_tensors_meta(tensors, "laconic.kind")};
  const lac_tensor *decoder = lac_tensors_find(tensors, "decoder.weight"); /* (D, L) */
  if (facts.kind && strcmp(facts.kind, "hash") == 0 && decoder && decoder->axes == 2) {
    facts.columns = decoder->shape[0];
    facts.bits = decoder->shape[1];
    return facts;
  }
  facts.input = lac_tensors_meta(tensors, "laconic.input");
  facts.classes = lac_tensors_meta(tensors, "laconic.classes");
  if (facts.kind && strcmp(facts.kind, "classifier") == 0 && facts.input && facts.classes) {
    facts.parameters = count_parameters(tensors);
    return facts;
  }
  return (model_facts){.kind = NULL};
}

static void print_facts(lac_session *session, const model_facts *facts) {
  if (!facts->kind) {
    print_row(session, "format", "safetensors");
  } else if (!facts->input) {
    print_row(session, "format", "safetensors, a hash model");
    print_count(session, "columns", facts->columns);
    print_count(session, "bits", facts->bits);
  } else {
    print_row(session, "format", "safetensors, a classifier");
    print_row(session, "input", facts->input);
    print_row(session, "classes", facts->classes);
    print_count(session, "parameters", facts->parameters);
  }
}

static json_t *json_positive(int64_t value) {
  return value > 0 ? json_integer(value) : json_null();
}

static lac_status info_tensors(lac_session *session, const char *path) {
  lac_tensors *tensors;
  CLI_TRY(lac_tensors_open(session->context, path, &tensors));
  model_facts facts = find_facts(tensors);
  print_row(session, "file", path);
  print_facts(session, &facts);
  print_tensors(session, tensors);
  json_t *object = json_pack(
      "{s:o, s:s, s:n, s:o, s:s, s:o, s:s?, s:o, s:o, s:o, s:o, s:o}", "file", lac_json_text(path), "format",
      "safetensors", "rows", "columns", json_positive(facts.columns), "type",
      lac_tensors_count(tensors) ? lac_tensor_type_name(lac_tensors_at(tensors, 0)->type) : "none", "bits",
      json_positive(facts.bits), "kind", facts.kind, "input", facts.input ? lac_json_nested(facts.input) : json_null(),
      "classes", facts.classes ? json_positive(strtoll(facts.classes, NULL, 10)) : json_null(), "parameters",
      json_positive(facts.parameters), "tensors", json_tensors(tensors), "metadata", json_metadata(tensors));
  lac_tensors_close(&tensors);
  lac_print_json(session, object);
  return LAC_OK;
}

static lac_status info_faiss(lac_session *session, const char *path) {
  lac_faiss_about about;
  CLI_TRY(lac_faiss_describe(session, path, &about));
  print_row(session, "file", path);
  lac_print(session, "%-12s faiss, %s\n", "format", about.what);
  print_count(session, "rows", about.rows);
  print_count(session, "columns", about.columns);
  print_row(session, "type", about.binary ? "bit" : "f32");
  if (about.bits) {
    print_count(session, "bits", about.bits);
  }
  print_row(session, "trained", about.trained ? "yes" : "no");
  lac_print_json(session, json_pack("{s:o, s:s, s:I, s:I, s:s, s:s, s:s, s:o, s:b}", "file", lac_json_text(path),
                                    "format", "faiss", "rows", about.rows, "columns", about.columns, "type",
                                    about.binary ? "bit" : "f32", "index", about.index, "what", about.what, "bits",
                                    about.bits ? json_integer(about.bits) : json_null(), "trained", about.trained));
  return LAC_OK;
}

static lac_status run_info(lac_session *session, const void *argument, char *const *operands, int count) {
  const info_options *options = argument;
  (void)count;
  if (options->format) {
    return info_dataset(session, options, operands[0]);
  }
  if (lac_faiss_recognise(operands[0])) {
    return info_faiss(session, operands[0]);
  }
  if (is_safetensors(operands[0])) {
    return info_tensors(session, operands[0]);
  }
  return info_dataset(session, options, operands[0]);
}

static const lac_option_group info_groups[] = {{.title = "Options", .own = info_option_table}, {0}};

const lac_command lac_command_info = {
    .name = "info",
    .operands = "FILE",
    .least = 1,
    .most = 1,
    .summary = "say what a data or model file is",
    .description =
        "Says what a file is: its format, the rows, columns and type of its values, their range and "
        "fingerprint; of a model its tensors and where it came from; of a FAISS index its kind and sizes.\n\n"
        "FILE.h5:NAME is the dataset NAME of an HDF5 file. The fingerprint is equal for equal arrays of one type, "
        "whatever format they are stored in. With --json, one line: file, format, rows, columns, type and "
        "more; null stands for what a file does not have.",
    .example = "laconic info train-images-idx3-ubyte.gz\nlaconic info --json model.safetensors",
    .groups = info_groups,
    .options_size = sizeof(info_options),
    .run = run_info,
};
