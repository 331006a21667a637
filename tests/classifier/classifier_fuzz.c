/* Any bytes as a classifier: loading ends in a status, and what was loaded answers for a picture and can be exported.
 */
#include <math.h>

#include "classifier/classifier.h"
#include "store/safetensors.h"
#include "support.h"

/* What a description may ask for here, in numbers and in products: what is asked of a machine is its user's business,
 * and the fuzzer has little memory and time. */
static const double most_numbers = 1 << 22, most_products = 1e8;

static bool is_modest(const lac_graph *graph) {
  double numbers = 0, products = 0;
  for (int i = 0; i < graph->count; i++) {
    const lac_node *node = &graph->nodes[i];
    double plane = (double)node->shape.height * (double)node->shape.width;
    double window = node->kernel > 0 ? (double)node->kernel * (double)node->kernel : 1;
    numbers += (double)node->shape.channels * plane * window;
    products += (double)node->weight_count * plane;
  }
  return numbers <= most_numbers && products <= most_products;
}

/* Whether the file has no network at all, or one of a modest size. */
static bool may_load(lac_context *context, const lac_tensors *file) {
  const char *input = lac_tensors_meta(file, "laconic.input"), *classes = lac_tensors_meta(file, "laconic.classes"),
             *layers = lac_tensors_meta(file, "laconic.layers");
  long long size[3], count;
  lac_graph graph;
  if (!input || !classes || !layers || sscanf(input, " [ %lld , %lld , %lld", &size[0], &size[1], &size[2]) != 3 ||
      sscanf(classes, "%lld", &count) != 1 ||
      lac_graph_parse(context, layers, "layers", (lac_image_shape){size[0], size[1], size[2]}, count, 2, &graph) !=
          LAC_OK) {
    return true;
  }
  bool modest = is_modest(&graph);
  lac_graph_clear(&graph);
  return modest;
}

/* Probabilities of a black picture are none or sum up to 1. */
static void check_answer(lac_context *context, lac_classifier *model) {
  lac_image_shape shape = lac_net_input(lac_classifier_net(model));
  int64_t pixels = shape.channels * shape.height * shape.width, classes = lac_net_classes(lac_classifier_net(model));
  float *black = calloc((size_t)pixels, sizeof *black), *out = calloc((size_t)classes, sizeof *out);
  double sum = 0;
  if (lac_net_predict(context, model->net, model->parameters, model->statistics, 1, black, out) != LAC_OK) {
    abort();
  }
  for (int64_t i = 0; i < classes; i++) {
    sum += out[i];
  }
  if (isfinite(sum) && fabs(sum - 1) > 1e-4 * (double)classes) {
    abort();
  }
  free(black);
  free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lac_context *context;
  lac_tensors *file;
  lac_classifier *model;
  if (lac_context_create(&context) != LAC_OK) {
    abort();
  }
  if (lac_tensors_open_memory(context, "input", data, size, &file) == LAC_OK) {
    if (!may_load(context, file)) {
      lac_tensors_close(&file);
    } else if (lac_classifier_from_tensors(context, &file, 2, NULL, &model) == LAC_OK) {
      check_answer(context, model);
      if (lac_classifier_export_onnx(context, model, "/dev/null") != LAC_OK) {
        abort();
      }
      lac_classifier_destroy(&model);
    } else if (model || file || !*lac_context_message(context)) {
      abort();
    }
  }
  lac_context_destroy(&context);
  return 0;
}
