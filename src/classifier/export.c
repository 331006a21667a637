/* A classifier as an ONNX graph: the preparation, then the layers one by one. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "classifier/classifier.h"
#include "classifier/onnx.h"
#include "data/prepare.h"

/* A value of the graph. After a dense layer and after whitening it is (N, C H W), else (N, C, H, W). */
typedef struct value {
  char name[LAC_ONNX_NAME];
  bool flat;
} value;

typedef struct exporter {
  lac_onnx *onnx;
  const lac_classifier *classifier;
  const lac_graph *graph;
  value *values; /* of each node */
  int reshaped;  /* values that were brought into another layout so far, for their names */
} exporter;

#define ADD_NODE(self, operation, output, ...) \
  lac_onnx_node((self)->onnx, operation, output, (const char *const[]){__VA_ARGS__, NULL})

static value named(const char *name, bool flat) {
  value made = {.flat = flat};
  snprintf(made.name, sizeof made.name, "%s", name);
  return made;
}

/* ---- layouts ---- */

/* A value as rows, for what needs them. */
static value flatten(exporter *self, value from) {
  if (from.flat) {
    return from;
  }
  value to = {.flat = true};
  snprintf(to.name, sizeof to.name, "rows.%d", ++self->reshaped);
  ADD_NODE(self, "Flatten", to.name, from.name);
  lac_onnx_int(self->onnx, "axis", 1);
  return to;
}

/* A value as pictures of this shape. */
static value unflatten(exporter *self, value from, lac_image_shape shape) {
  if (!from.flat) {
    return from;
  }
  value to = {.flat = false};
  char sizes[LAC_ONNX_NAME];
  snprintf(to.name, sizeof to.name, "pictures.%d", ++self->reshaped);
  snprintf(sizes, sizeof sizes, "pictures.%d.shape", self->reshaped);
  const int64_t values[] = {0, shape.channels, shape.height, shape.width}; /* 0: as many as there are */
  lac_onnx_integers(self->onnx, sizes, 4, values);
  ADD_NODE(self, "Reshape", to.name, from.name, sizes);
  return to;
}

/* ---- preparation ---- */

/* (x - mean) scale, with a mean and a scale for each of `groups`. */
static value export_scale(exporter *self, value pixels, const lac_tensor *mean, const lac_tensor *scale) {
  const int64_t shape[] = {mean->shape[0], 1, 1};
  lac_onnx_floats(self->onnx, mean->name, 3, shape, mean->data);
  lac_onnx_floats(self->onnx, scale->name, 3, shape, scale->data);
  ADD_NODE(self, "Sub", "prepare.centred", pixels.name, mean->name);
  ADD_NODE(self, "Mul", "prepare.scaled", "prepare.centred", scale->name);
  return named("prepare.scaled", false);
}

static void average_rows(exporter *self, const char *output, const char *input) {
  static const int64_t pixels[] = {1};
  ADD_NODE(self, "ReduceMean", output, input);
  lac_onnx_ints(self->onnx, "axes", 1, pixels);
  lac_onnx_int(self->onnx, "keepdims", 1);
}

/* Contrast normalisation of each picture, then W (u - m). */
static value export_zca(exporter *self, value pixels, const lac_tensor *mean, const lac_tensor *whitening) {
  static const float floor[] = {(float)LAC_CONTRAST_FLOOR};
  static const int64_t one[] = {1};
  value rows = flatten(self, pixels);
  average_rows(self, "prepare.brightness", rows.name);
  ADD_NODE(self, "Sub", "prepare.dark", rows.name, "prepare.brightness");
  ADD_NODE(self, "Mul", "prepare.squares", "prepare.dark", "prepare.dark");
  average_rows(self, "prepare.variance", "prepare.squares");
  lac_onnx_floats(self->onnx, "prepare.floor", 1, one, floor);
  ADD_NODE(self, "Add", "prepare.above", "prepare.variance", "prepare.floor");
  ADD_NODE(self, "Sqrt", "prepare.contrast", "prepare.above");
  ADD_NODE(self, "Div", "prepare.normal", "prepare.dark", "prepare.contrast");
  lac_onnx_floats(self->onnx, mean->name, 1, mean->shape, mean->data);
  ADD_NODE(self, "Sub", "prepare.centred", "prepare.normal", mean->name);
  lac_onnx_floats(self->onnx, whitening->name, 2, whitening->shape, whitening->data);
  ADD_NODE(self, "Gemm", "prepare.whitened", "prepare.centred", whitening->name);
  lac_onnx_int(self->onnx, "transB", 1);
  return named("prepare.whitened", true);
}

static value export_preparation(exporter *self, value pixels) {
  lac_tensor tensors[3];
  lac_prepare_tensors(self->classifier->prepare, tensors);
  switch (lac_prepare_kind_of(self->classifier->prepare)) {
    case LAC_PREPARE_SCALE:
    case LAC_PREPARE_CHANNELS:
      return export_scale(self, pixels, &tensors[0], &tensors[1]);
    case LAC_PREPARE_ZCA:
      return export_zca(self, pixels, &tensors[0], &tensors[1]);
    case LAC_PREPARE_NONE:
      break;
  }
  return pixels;
}

/* ---- layers ---- */

static void slide(exporter *self, const lac_node *node) {
  const int64_t kernel[] = {node->kernel, node->kernel}, stride[] = {node->stride, node->stride},
                pads[] = {node->pad, node->pad, node->pad, node->pad};
  lac_onnx_ints(self->onnx, "kernel_shape", 2, kernel);
  lac_onnx_ints(self->onnx, "strides", 2, stride);
  lac_onnx_ints(self->onnx, "pads", 4, pads);
}

/* Name of an array of a layer, as in the model file. */
static const char *part_name(int layer, const lac_node *node, const char *part, char name[LAC_ONNX_NAME]) {
  snprintf(name, LAC_ONNX_NAME, "%02d.%s.%s", layer, lac_node_names[node->kind], part);
  return name;
}

static void export_product(exporter *self, int i, const char *operation, const char *input, const char *output) {
  const lac_node *node = &self->graph->nodes[i];
  char weight[LAC_ONNX_NAME], bias[LAC_ONNX_NAME];
  lac_onnx_node(self->onnx, operation, output,
                (const char *const[]){input, part_name(i, node, "weight", weight),
                                      node->bias ? part_name(i, node, "bias", bias) : NULL, NULL});
}

static void export_conv(exporter *self, int i, const char *input, const char *output) {
  export_product(self, i, "Conv", input, output);
  slide(self, &self->graph->nodes[i]);
}

static void export_dense(exporter *self, int i, const char *input, const char *output) {
  export_product(self, i, "Gemm", input, output);
  lac_onnx_int(self->onnx, "transB", 1);
}

static void export_batchnorm(exporter *self, int i, const char *input, const char *output) {
  const lac_node *node = &self->graph->nodes[i];
  char scale[LAC_ONNX_NAME], shift[LAC_ONNX_NAME], mean[LAC_ONNX_NAME], variance[LAC_ONNX_NAME];
  ADD_NODE(self, "BatchNormalization", output, input, part_name(i, node, "scale", scale),
           part_name(i, node, "shift", shift), part_name(i, node, "mean", mean),
           part_name(i, node, "variance", variance));
  lac_onnx_float(self->onnx, "epsilon", LAC_BATCHNORM_EPSILON);
}

static void export_relu(exporter *self, int i, const char *input, const char *output) {
  (void)i;
  ADD_NODE(self, "Relu", output, input);
}

static void export_maxpool(exporter *self, int i, const char *input, const char *output) {
  ADD_NODE(self, "MaxPool", output, input);
  slide(self, &self->graph->nodes[i]);
}

static void export_avgpool(exporter *self, int i, const char *input, const char *output) {
  const lac_node *node = &self->graph->nodes[i];
  const lac_image_shape *from = &self->graph->nodes[node->input].shape;
  if (node->pad == 0 && node->kernel == from->height && node->kernel == from->width) {
    ADD_NODE(self, "GlobalAveragePool", output, input);
  } else {
    ADD_NODE(self, "AveragePool", output, input);
    slide(self, node);
    lac_onnx_int(self->onnx, "count_include_pad", 1);
  }
}

/* What a kind of layer needs its input as, and what it becomes; kinds without a function are passed over. */
typedef enum layout { AS_IT_IS, PICTURES, ROWS } layout;

static const struct {
  layout input;
  void (*write)(exporter *self, int node, const char *input, const char *output);
} layers[LAC_NODE_KINDS] = {
    [LAC_NODE_CONV] = {PICTURES, export_conv},           [LAC_NODE_DENSE] = {ROWS, export_dense},
    [LAC_NODE_BATCHNORM] = {AS_IT_IS, export_batchnorm}, [LAC_NODE_RELU] = {AS_IT_IS, export_relu},
    [LAC_NODE_MAXPOOL] = {PICTURES, export_maxpool},     [LAC_NODE_AVGPOOL] = {PICTURES, export_avgpool},
};

/* Both sides of a sum in one layout; they are of one shape. */
static value export_add(exporter *self, const lac_node *node, const char *output) {
  value a = self->values[node->input], b = self->values[node->other];
  if (a.flat != b.flat) {
    a = unflatten(self, a, node->shape);
    b = unflatten(self, b, node->shape);
  }
  ADD_NODE(self, "Add", output, a.name, b.name);
  return named(output, a.flat);
}

static value export_layer(exporter *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  char output[LAC_ONNX_NAME];
  snprintf(output, sizeof output, "%02d.%s", i, lac_node_names[node->kind]);
  if (node->kind == LAC_NODE_ADD) {
    return export_add(self, node, output);
  }
  value input = self->values[node->input];
  if (!layers[node->kind].write) {
    return input;
  }
  lac_image_shape shape = self->graph->nodes[node->input].shape;
  bool channels = node->kind == LAC_NODE_BATCHNORM && shape.height * shape.width > 1; /* a scale for each of them */
  if (layers[node->kind].input == PICTURES || channels) {
    input = unflatten(self, input, shape);
  } else if (layers[node->kind].input == ROWS) {
    input = flatten(self, input);
  }
  layers[node->kind].write(self, i, input.name, output);
  return named(output, input.flat);
}

/* ---- the graph ---- */

static void export_pieces(exporter *self) {
  const lac_classifier *from = self->classifier;
  for (int64_t i = 0; i < lac_net_piece_count(from->net); i++) {
    lac_net_piece piece = lac_net_piece_at(from->net, i);
    const float *values = (piece.statistic ? from->statistics : from->parameters) + piece.offset;
    lac_onnx_floats(self->onnx, piece.name, piece.axes, piece.shape, values);
  }
}

static void export_all(exporter *self) {
  const lac_image_shape *shape = &self->graph->input;
  const int64_t pixels[] = {0, shape->channels, shape->height, shape->width}, classes[] = {0, self->graph->classes};
  lac_onnx_input(self->onnx, "pixels", 4, pixels);
  self->values[0] = export_preparation(self, named("pixels", false));
  export_pieces(self);
  for (int i = 1; i < self->graph->count; i++) {
    self->values[i] = export_layer(self, i);
  }
  value scores = flatten(self, self->values[self->graph->count - 1]);
  ADD_NODE(self, "Softmax", "probabilities", scores.name);
  lac_onnx_int(self->onnx, "axis", 1);
  lac_onnx_output(self->onnx, "probabilities", 2, classes);
}

lac_status lac_classifier_export_onnx(lac_context *context, const lac_classifier *classifier, const char *path) {
  exporter self = {.classifier = classifier, .graph = &classifier->net->graph};
  LAC_TRY(lac_onnx_create(context, &self.onnx));
  lac_status status = LAC_NEW(context, self.graph->count, &self.values);
  if (!status) {
    export_all(&self);
    status = lac_onnx_write(self.onnx, path);
  }
  lac_free(self.values);
  lac_onnx_destroy(&self.onnx);
  return status;
}
