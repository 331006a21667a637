/* Classifiers as safetensors files. docs/model-format.md describes them. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "classifier/classifier.h"
#include "store/safetensors.h"

/* Metadata of what the struct itself holds. Keys of callers do not begin like that. */
static const char reserved[] = "laconic.", prepare_key[] = "prepare";
static const char kind_key[] = "laconic.kind", version_key[] = "laconic.version", layers_key[] = "laconic.layers",
                  input_key[] = "laconic.input", classes_key[] = "laconic.classes",
                  convolution_key[] = "laconic.convolution";
static const char kind_value[] = "classifier", version_value[] = "1";

enum { OWN_PAIRS = 7, PREPARE_TENSORS = 3 };

static bool is_variance(const lac_net_piece *piece) {
  const char *part = strrchr(piece->name, '.');
  return piece->statistic && part && strcmp(part, ".variance") == 0;
}

static int64_t piece_size(const lac_net_piece *piece) {
  int64_t size = 1;
  for (int i = 0; i < piece->axes; i++) {
    size *= piece->shape[i];
  }
  return size;
}

/* The place of the first value that no model may have; -1 when there is none. */
static int64_t find_bad(const lac_net_piece *piece, const float *values) {
  float least = is_variance(piece) ? 0 : -INFINITY;
  for (int64_t i = 0; i < piece_size(piece); i++) {
    if (!isfinite(values[i]) || values[i] < least) {
      return i;
    }
  }
  return -1;
}

static const char *expected_value(const lac_net_piece *piece) {
  return is_variance(piece) ? "a finite number of at least 0" : "a finite number";
}

/* ---- saving ---- */

static lac_status check_arguments(lac_context *context, const char *path, const lac_net *net,
                                  const lac_prepare *prepare, const lac_text_pair *pairs, int64_t pair_count) {
  lac_image_shape takes = lac_net_input(net), gives = lac_prepare_shape(prepare);
  if (takes.channels != gives.channels || takes.height != gives.height || takes.width != gives.width) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: found a preparation of pictures of %" PRId64 " x %" PRId64 " x %" PRId64 ", expected %" PRId64
                    " x %" PRId64 " x %" PRId64 " as of the network",
                    path, gives.channels, gives.height, gives.width, takes.channels, takes.height, takes.width);
  }
  for (int64_t i = 0; i < pair_count; i++) {
    const char *key = pairs[i].key;
    if (strncmp(key, reserved, sizeof reserved - 1) == 0 || strcmp(key, prepare_key) == 0) {
      return lac_fail(context, LAC_E_USAGE, "%s: metadata key '%s': found a reserved name, expected another", path,
                      key);
    }
  }
  return LAC_OK;
}

/* The network's arrays, then those of the preparation. `names` keeps the texts: (pieces). */
static lac_status collect_tensors(lac_context *context, const char *path, const lac_net *net, const float *parameters,
                                  const float *statistics, lac_net_piece *pieces, lac_tensor *tensors) {
  for (int64_t i = 0; i < lac_net_piece_count(net); i++) {
    lac_net_piece *piece = &pieces[i];
    *piece = lac_net_piece_at(net, i);
    const float *values = (piece->statistic ? statistics : parameters) + piece->offset;
    int64_t bad = find_bad(piece, values);
    if (bad >= 0) {
      return lac_fail(context, LAC_E_NUMERICAL, "%s: tensor '%s': element %" PRId64 ": found %g, expected %s", path,
                      piece->name, bad, (double)values[bad], expected_value(piece));
    }
    tensors[i] = (lac_tensor){.name = piece->name, .type = LAC_TENSOR_F32, .axes = piece->axes, .data = values};
    memcpy(tensors[i].shape, piece->shape, sizeof piece->shape);
  }
  return LAC_OK;
}

static lac_status write_file(lac_context *context, const char *path, const lac_net *net, const lac_prepare *prepare,
                             const lac_tensor *tensors, int64_t count, lac_text_pair *pairs, int64_t pair_count) {
  lac_image_shape shape = lac_net_input(net);
  char input[96], classes[32];
  snprintf(input, sizeof input, "[%" PRId64 ", %" PRId64 ", %" PRId64 "]", shape.channels, shape.height, shape.width);
  snprintf(classes, sizeof classes, "%" PRId64, lac_net_classes(net));
  const lac_text_pair own[OWN_PAIRS] = {
      {kind_key, kind_value},
      {version_key, version_value},
      {layers_key, lac_net_text(net)},
      {input_key, input},
      {classes_key, classes},
      {convolution_key, lac_net_convolution_names[lac_net_options_of(net).convolution]},
      {prepare_key, lac_prepare_names[lac_prepare_kind_of(prepare)]},
  };
  memcpy(pairs, own, sizeof own);
  return lac_tensors_write(context, path, tensors, count, pairs, OWN_PAIRS + pair_count);
}

lac_status lac_classifier_save(lac_context *context, const char *path, const lac_net *net, const float *parameters,
                               const float *statistics, const lac_prepare *prepare, const lac_text_pair *pairs,
                               int64_t pair_count) {
  LAC_TRY(check_arguments(context, path, net, prepare, pairs, pair_count));
  lac_net_piece *pieces = NULL;
  lac_tensor *tensors = NULL;
  lac_text_pair *all = NULL;
  int64_t count = lac_net_piece_count(net);
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, count, &pieces), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, count + PREPARE_TENSORS, &tensors), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, OWN_PAIRS + pair_count, &all), done);
  LAC_TRY_GOTO(status, collect_tensors(context, path, net, parameters, statistics, pieces, tensors), done);
  count += lac_prepare_tensors(prepare, tensors + count);
  for (int64_t i = 0; i < pair_count; i++) {
    all[OWN_PAIRS + i] = pairs[i];
  }
  status = write_file(context, path, net, prepare, tensors, count, all, pair_count);
done:
  lac_free(all);
  lac_free(tensors);
  lac_free(pieces);
  return status;
}

/* ---- loading ---- */

static lac_status find_text(lac_context *context, const lac_tensors *file, const char *key, const char **text) {
  *text = lac_tensors_meta(file, key);
  return *text
             ? LAC_OK
             : lac_fail(context, LAC_E_INPUT, "%s: metadata '%s': found none, expected a classifier written by laconic",
                        lac_tensors_path(file), key);
}

static lac_status expect_text(lac_context *context, const lac_tensors *file, const char *key, const char *expected) {
  const char *found;
  LAC_TRY(find_text(context, file, key, &found));
  return strcmp(found, expected) == 0
             ? LAC_OK
             : lac_fail(context, LAC_E_INPUT, "%s: metadata '%s': found '%.40s', expected '%s'", lac_tensors_path(file),
                        key, found, expected);
}

/* Whole numbers from `least` on, as a JSON list or, when it is one, alone. */
static lac_status read_sizes(lac_context *context, const lac_tensors *file, const char *key, int64_t least, int count,
                             const char *expected, int64_t *sizes) {
  const char *text;
  LAC_TRY(find_text(context, file, key, &text));
  json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
  bool good = json_is_array(value) ? count > 1 && json_array_size(value) == (size_t)count : value && count == 1;
  for (int i = 0; good && i < count; i++) {
    const json_t *size = count > 1 ? json_array_get(value, (size_t)i) : value;
    sizes[i] = json_integer_value(size); /* 0 for anything else */
    good = sizes[i] >= least && sizes[i] <= INT32_MAX;
  }
  json_decref(value);
  return good ? LAC_OK
              : lac_fail(context, LAC_E_INPUT, "%s: metadata '%s': found '%.40s', expected %s", lac_tensors_path(file),
                         key, text, expected);
}

/* That the file holds the arrays of a graph, before anything is allocated by their sizes. A net that has but a graph
 * can tell its pieces. */
static lac_status check_pieces(lac_context *context, const lac_tensors *file, const lac_graph *graph) {
  const lac_net outline = {.graph = *graph};
  for (int64_t i = 0; i < lac_net_piece_count(&outline); i++) {
    lac_net_piece piece = lac_net_piece_at(&outline, i);
    LAC_TRY(lac_tensors_check_f32(context, file, piece.name, piece.axes, piece.shape));
  }
  return LAC_OK;
}

static lac_status check_count(lac_context *context, const lac_tensors *file, const lac_net *net,
                              const lac_prepare *prepare) {
  lac_tensor tensors[PREPARE_TENSORS];
  int64_t found = lac_tensors_count(file), expected = lac_net_piece_count(net) + lac_prepare_tensors(prepare, tensors);
  return found == expected
             ? LAC_OK
             : lac_fail(context, LAC_E_INPUT,
                        "%s: found %" PRId64 " tensors, expected %" PRId64 " of the network and the preparation",
                        lac_tensors_path(file), found, expected);
}

static lac_status read_pieces(lac_context *context, lac_classifier *self) {
  LAC_TRY(LAC_NEW(context, lac_net_parameters(self->net), &self->parameters));
  LAC_TRY(LAC_NEW(context, lac_net_statistics(self->net), &self->statistics));
  for (int64_t i = 0; i < lac_net_piece_count(self->net); i++) {
    lac_net_piece piece = lac_net_piece_at(self->net, i);
    float *values = (piece.statistic ? self->statistics : self->parameters) + piece.offset;
    LAC_TRY(lac_tensors_read_f32(context, self->file, piece.name, piece.axes, piece.shape, values));
    int64_t bad = find_bad(&piece, values);
    if (bad >= 0) {
      return lac_fail(context, LAC_E_INPUT, "%s: tensor '%s': element %" PRId64 ": found %g, expected %s",
                      lac_tensors_path(self->file), piece.name, bad, (double)values[bad], expected_value(&piece));
    }
  }
  return LAC_OK;
}

/* What a file says of its network. */
typedef struct outline {
  const char *layers;
  char *source; /* what messages about the layers begin with */
  lac_image_shape input;
  int64_t classes;
} outline;

static lac_status read_outline(lac_context *context, const lac_tensors *file, outline *about) {
  int64_t input[3];
  LAC_TRY(expect_text(context, file, kind_key, kind_value));
  LAC_TRY(expect_text(context, file, version_key, version_value));
  LAC_TRY(read_sizes(context, file, input_key, 1, 3, "[channels, height, width]", input));
  LAC_TRY(read_sizes(context, file, classes_key, 2, 1, "a whole number of at least 2", &about->classes));
  LAC_TRY(find_text(context, file, layers_key, &about->layers));
  about->input = (lac_image_shape){input[0], input[1], input[2]};
  return lac_format_text(context, &about->source, "%s: metadata '%s'", lac_tensors_path(file), layers_key);
}

static lac_status check_graph(lac_context *context, const lac_tensors *file, const outline *about, int64_t batch) {
  lac_graph graph;
  LAC_TRY(lac_graph_parse(context, about->layers, about->source, about->input, about->classes, batch, &graph));
  lac_status status = check_pieces(context, file, &graph);
  lac_graph_clear(&graph);
  return status;
}

static lac_status load(lac_context *context, lac_classifier *self, const outline *about, int64_t batch,
                       const lac_net_options *options) {
  lac_image_shape shape = about->input;
  LAC_TRY(check_graph(context, self->file, about, batch));
  LAC_TRY(lac_prepare_load(context, self->file, shape, &self->prepare));
  LAC_TRY(lac_net_create(context, about->layers, about->source, shape, about->classes, batch, options, &self->net));
  LAC_TRY(check_count(context, self->file, self->net, self->prepare));
  LAC_TRY(read_pieces(context, self));
  return LAC_NEW(context, batch * shape.channels * shape.height * shape.width, &self->pictures);
}

lac_status lac_classifier_from_tensors(lac_context *context, lac_tensors **file, int64_t batch,
                                       const lac_net_options *options, lac_classifier **classifier) {
  *classifier = NULL;
  lac_classifier *made;
  lac_status status = LAC_NEW(context, 1, &made);
  if (status) {
    lac_tensors_close(file);
    return status;
  }
  made->file = *file;
  *file = NULL;
  outline about = {.source = NULL};
  status = read_outline(context, made->file, &about);
  if (!status) {
    status = load(context, made, &about, batch, options);
  }
  free(about.source);
  if (status) {
    lac_classifier_destroy(&made);
    return status;
  }
  *classifier = made;
  return LAC_OK;
}

lac_status lac_classifier_load(lac_context *context, const char *path, int64_t batch, const lac_net_options *options,
                               lac_classifier **classifier) {
  *classifier = NULL;
  lac_tensors *file;
  LAC_TRY(lac_tensors_open(context, path, &file));
  return lac_classifier_from_tensors(context, &file, batch, options, classifier);
}
