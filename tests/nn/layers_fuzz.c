/* A description of layers: a fault leaves one line and nothing behind; what is accepted has the form that back ends
 * rely on, and small networks compute. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "laconic/net.h"
#include "nn/graph.h"

enum { CHANNELS = 2, SIDE = 8, CLASSES = 3, BATCH = 2, PIXELS = BATCH * CHANNELS * SIDE * SIDE };
static const lac_image_shape picture = {CHANNELS, SIDE, SIDE};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "not so: %s\n", what);
    abort();
  }
}

static void check_node(const lac_graph *graph, int i, int64_t *parameters, int64_t *statistics) {
  const lac_node *node = &graph->nodes[i];
  require(node->input < i && node->other < i && (node->input >= 0) == (i > 0), "a node reads earlier ones");
  require((node->other >= 0) == (node->kind == LAC_NODE_ADD) && node->other != (i ? node->input : -2),
          "a sum has two different sides");
  require(node->uses > 0, "somebody reads a node");
  require(node->shape.channels > 0 && node->shape.height > 0 && node->shape.width > 0, "a node has numbers");
  if (node->weight_count + node->offset_count > 0) {
    require(node->weight == *parameters && node->offset == *parameters + node->weight_count, "there are no gaps");
    *parameters += node->weight_count + node->offset_count;
  }
  if (node->kind == LAC_NODE_BATCHNORM) {
    require(node->mean == *statistics && node->variance == *statistics + node->shape.channels, "nor in statistics");
    *statistics += 2 * node->shape.channels;
  }
}

/* Numbers and multiplications, roughly: what a fuzzer has time for. */
static double work_of(const lac_graph *graph) {
  double work = (double)graph->parameters;
  for (int i = 1; i < graph->count; i++) {
    const lac_node *node = &graph->nodes[i];
    double plane = (double)node->shape.height * (double)node->shape.width, k = (double)node->kernel;
    work += plane * ((double)node->weight_count + (double)node->shape.channels * (k * k + 1));
  }
  return work * BATCH;
}

static void compute(lac_context *context, const char *text) {
  static const lac_net_options options = {.backend = LAC_BACKEND_REFERENCE};
  lac_net *net;
  if (lac_net_create(context, text, "fuzz", picture, CLASSES, BATCH, &options, &net)) {
    return;
  }
  int64_t n = lac_net_parameters(net), errors;
  float *parameters = malloc((size_t)n * sizeof *parameters), *gradient = malloc((size_t)n * sizeof *gradient);
  float *statistics = malloc((size_t)lac_net_statistics(net) * sizeof *statistics + 1);
  float pictures[PIXELS], probabilities[BATCH * CLASSES];
  const int32_t labels[BATCH] = {0, 2};
  double loss;
  require(parameters && gradient && statistics, "there is memory");
  for (int i = 0; i < PIXELS; i++) {
    pictures[i] = (float)(i * 37 % 101) / 50 - 1;
  }
  lac_net_initialise(net, 1, parameters, statistics);
  require(
      !lac_net_gradient(context, net, parameters, pictures, labels, (lac_net_key){1, 2, 3}, gradient, &loss, &errors),
      "there is a gradient");
  require(!lac_net_collect(context, net, parameters, pictures, statistics), "there are statistics");
  require(!lac_net_predict(context, net, parameters, statistics, 1, pictures, probabilities), "there is a prediction");
  free(parameters);
  free(gradient);
  free(statistics);
  lac_net_destroy(&net);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lac_context *context;
  lac_graph graph;
  char *text = malloc(size + 1);
  if (!text || lac_context_create(&context)) {
    free(text);
    return 0;
  }
  memcpy(text, data, size);
  text[size] = 0;
  if (lac_graph_parse(context, text, "fuzz", picture, CLASSES, BATCH, &graph)) {
    const char *message = lac_context_message(context);
    require(strncmp(message, "fuzz: ", 6) == 0 && !strchr(message, '\n'), "a fault is one line that names the source");
    require(!graph.nodes, "a failure leaves nothing");
  } else {
    int64_t parameters = 0, statistics = 0;
    for (int i = 0; i < graph.count; i++) {
      check_node(&graph, i, &parameters, &statistics);
    }
    require(parameters == graph.parameters && statistics == graph.statistics, "all parameters belong to a node");
    const lac_image_shape *last = &graph.nodes[graph.count - 1].shape;
    require(last->channels == CLASSES && last->height == 1 && last->width == 1, "there is one number a class");
    if (work_of(&graph) < 1e6) {
      compute(context, text);
    }
    lac_graph_clear(&graph);
  }
  lac_context_destroy(&context);
  free(text);
  return 0;
}
