#include "nn/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/profile.h"

const char *const lac_net_backend_names[] = {"auto", "reference", "onednn", NULL};
const char *const lac_net_precision_names[] = {"f32", "bf16", NULL};
const char *const lac_net_convolution_names[] = {"direct", "auto", NULL};

/* ---- making ---- */

static lac_status choose_backend(lac_context *context, const lac_net_options *options, const char *source,
                                 const lac_backend **backend) {
  if (options->backend < LAC_BACKEND_AUTO || options->backend > LAC_BACKEND_ONEDNN ||
      options->precision < LAC_PRECISION_F32 || options->precision > LAC_PRECISION_BF16 ||
      options->convolution < LAC_CONVOLUTION_DIRECT || options->convolution > LAC_CONVOLUTION_AUTO) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: found back end %d, precision %d and convolution %d, expected values of their enumerations",
                    source, options->backend, options->precision, options->convolution);
  }
  *backend = &lac_backend_reference;
#ifdef LACONIC_HAVE_ONEDNN
  if (options->backend != LAC_BACKEND_REFERENCE) {
    *backend = &lac_backend_onednn;
  }
#else
  if (options->backend == LAC_BACKEND_ONEDNN) {
    return lac_fail(context, LAC_E_UNSUPPORTED, "%s: found back end onednn, but this build was made without oneDNN",
                    source);
  }
#endif
  return LAC_OK;
}

static double count_flops(const lac_graph *graph) {
  double flops = 0;
  for (int i = 0; i < graph->count; i++) {
    const lac_node *node = &graph->nodes[i];
    if (node->kind == LAC_NODE_CONV || node->kind == LAC_NODE_DENSE) {
      flops += 2 * (double)node->weight_count * (double)node->shape.height * (double)node->shape.width;
    }
  }
  return flops;
}

lac_status lac_net_create(lac_context *context, const char *text, const char *source, lac_image_shape input,
                          int64_t classes, int64_t batch, const lac_net_options *options, lac_net **net) {
  static const lac_net_options usual = {LAC_BACKEND_AUTO, LAC_PRECISION_F32, LAC_CONVOLUTION_DIRECT};
  *net = NULL;
  options = options ? options : &usual;
  lac_net *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, choose_backend(context, options, source, &made->backend), fail);
  LAC_TRY_GOTO(status, lac_copy_text(context, text, &made->text), fail);
  LAC_TRY_GOTO(status, lac_graph_parse(context, text, source, input, classes, batch, &made->graph), fail);
  LAC_TRY_GOTO(status, made->backend->create(context, &made->graph, options, &made->state), fail);
  made->options = *options;
  made->options.backend = made->backend == &lac_backend_reference ? LAC_BACKEND_REFERENCE : LAC_BACKEND_ONEDNN;
  made->flops = count_flops(&made->graph);
  *net = made;
  return LAC_OK;
fail:
  lac_net_destroy(&made);
  return status;
}

void lac_net_destroy(lac_net **net) {
  lac_net *self = *net;
  if (self) {
    if (self->state) {
      self->backend->destroy(self->state);
    }
    lac_graph_clear(&self->graph);
    free(self->text);
    lac_free(self);
    *net = NULL;
  }
}

/* ---- asking ---- */

int64_t lac_net_parameters(const lac_net *net) {
  return net->graph.parameters;
}

int64_t lac_net_statistics(const lac_net *net) {
  return net->graph.statistics;
}

lac_image_shape lac_net_input(const lac_net *net) {
  return net->graph.input;
}

int64_t lac_net_classes(const lac_net *net) {
  return net->graph.classes;
}

int64_t lac_net_batch(const lac_net *net) {
  return net->graph.batch;
}

const char *lac_net_text(const lac_net *net) {
  return net->text;
}

const char *lac_net_backend_name(const lac_net *net) {
  return net->backend->name;
}

lac_net_options lac_net_options_of(const lac_net *net) {
  return net->options;
}

double lac_net_flops(const lac_net *net) {
  return net->flops;
}

double lac_net_activation_bytes(const lac_net *net) {
  double numbers = 0;
  for (int i = 0; i < net->graph.count; i++) {
    lac_image_shape shape = net->graph.nodes[i].shape;
    numbers += 2 * (double)shape.channels * (double)shape.height * (double)shape.width;
  }
  return numbers * (double)sizeof(float);
}

/* ---- pieces ---- */

static lac_net_piece vector_piece(int layer, const lac_node *node, const char *part, bool statistic, int64_t offset) {
  lac_net_piece piece = {.statistic = statistic, .offset = offset, .axes = 1, .shape = {node->shape.channels}};
  snprintf(piece.name, sizeof piece.name, "%02d.%s.%s", layer, lac_node_names[node->kind], part);
  return piece;
}

static lac_net_piece weight_piece(int layer, const lac_node *node) {
  bool norm = node->kind == LAC_NODE_BATCHNORM;
  lac_net_piece piece = vector_piece(layer, node, norm ? "scale" : "weight", false, node->weight);
  if (!norm) {
    piece.axes = node->kind == LAC_NODE_CONV ? 4 : 2;
    piece.shape[1] = node->weight_count / node->shape.channels;
  }
  if (node->kind == LAC_NODE_CONV) {
    piece.shape[1] /= node->kernel * node->kernel;
    piece.shape[2] = piece.shape[3] = node->kernel;
  }
  return piece;
}

/* The pieces of a node in one of the two vectors: 0 to 2. */
static int node_pieces(const lac_node *node, bool statistic) {
  return statistic ? 2 * (node->kind == LAC_NODE_BATCHNORM) : (node->weight_count > 0) + (node->offset_count > 0);
}

int64_t lac_net_piece_count(const lac_net *net) {
  int64_t count = 0;
  for (int i = 0; i < net->graph.count; i++) {
    count += node_pieces(&net->graph.nodes[i], false) + node_pieces(&net->graph.nodes[i], true);
  }
  return count;
}

lac_net_piece lac_net_piece_at(const lac_net *net, int64_t index) {
  for (int statistic = 0; index >= 0 && statistic < 2; statistic++) {
    for (int i = 0; i < net->graph.count; i++) {
      const lac_node *node = &net->graph.nodes[i];
      int count = node_pieces(node, statistic);
      if (index >= count) {
        index -= count;
      } else if (statistic) {
        return index == 0 ? vector_piece(i, node, "mean", true, node->mean)
                          : vector_piece(i, node, "variance", true, node->variance);
      } else if (index == 0) {
        return weight_piece(i, node);
      } else {
        return vector_piece(i, node, node->kind == LAC_NODE_BATCHNORM ? "shift" : "bias", false, node->offset);
      }
    }
  }
  return (lac_net_piece){.axes = 0}; /* there is none */
}

/* ---- computing ---- */

static lac_status check_labels(lac_context *context, const lac_graph *graph, int64_t count, const int32_t *labels) {
  for (int64_t i = 0; i < count; i++) {
    if (labels[i] < 0 || labels[i] >= graph->classes) {
      return lac_fail(context, LAC_E_INPUT, "picture %" PRId64 ": found label %" PRId32 ", expected 0 to %" PRId64, i,
                      labels[i], graph->classes - 1);
    }
  }
  return LAC_OK;
}

void lac_net_set_pause(lac_net *net, lac_net_pause_fn pause, void *user) {
  net->graph.pause = pause;
  net->graph.pause_user = user;
}

lac_status lac_net_gradient(lac_context *context, lac_net *net, const float *parameters, const float *pictures,
                            const int32_t *labels, lac_net_key key, float *gradient, double *loss, int64_t *errors) {
  double start = lac_seconds();
  LAC_TRY(check_labels(context, &net->graph, net->graph.batch, labels));
  LAC_TRY(net->backend->gradient(context, net->state, parameters, pictures, labels, key, gradient, loss, errors));
  lac_profile_add(context, "net gradient", lac_seconds() - start, 0, 0, 3 * net->flops * (double)net->graph.batch);
  return LAC_OK;
}

lac_status lac_net_predict(lac_context *context, lac_net *net, const float *parameters, const float *statistics,
                           int64_t count, const float *pictures, float *probabilities) {
  double start = lac_seconds();
  if (count < 1 || count > net->graph.batch) {
    return lac_fail(context, LAC_E_USAGE, "found %" PRId64 " pictures to predict, expected 1 to %" PRId64, count,
                    net->graph.batch);
  }
  LAC_TRY(net->backend->predict(context, net->state, parameters, statistics, count, pictures, NULL, probabilities, NULL,
                                NULL));
  lac_profile_add(context, "net predict", lac_seconds() - start, 0, 0, net->flops * (double)count);
  return LAC_OK;
}

lac_status lac_net_evaluate(lac_context *context, lac_net *net, const float *parameters, const float *statistics,
                            int64_t count, const float *pictures, const int32_t *labels, double *loss_sum,
                            int64_t *errors) {
  double start = lac_seconds();
  const lac_graph *graph = &net->graph;
  int64_t pixels = graph->input.channels * graph->input.height * graph->input.width;
  *loss_sum = 0;
  *errors = 0;
  if (count < 0) {
    return lac_fail(context, LAC_E_USAGE, "found %" PRId64 " pictures to evaluate, expected 0 or more", count);
  }
  LAC_TRY(check_labels(context, graph, count, labels));
  for (int64_t first = 0; first < count; first += graph->batch) {
    int64_t block = count - first < graph->batch ? count - first : graph->batch, wrong;
    double mean;
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted after %" PRId64 " of %" PRId64 " pictures", first,
                      count);
    }
    LAC_TRY(net->backend->predict(context, net->state, parameters, statistics, block, pictures + first * pixels,
                                  labels + first, NULL, &mean, &wrong));
    *loss_sum += mean * (double)block;
    *errors += wrong;
  }
  lac_profile_add(context, "net evaluate", lac_seconds() - start, 0, 0, net->flops * (double)count);
  return LAC_OK;
}

lac_status lac_net_collect(lac_context *context, lac_net *net, const float *parameters, const float *pictures,
                           float *statistics) {
  double start = lac_seconds();
  LAC_TRY(net->backend->collect(context, net->state, parameters, pictures, statistics));
  lac_profile_add(context, "net collect", lac_seconds() - start, 0, 0, net->flops * (double)net->graph.batch);
  return LAC_OK;
}
