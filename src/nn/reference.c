#include "nn/reference.h"

#include <string.h>

#include "base/memory.h"

static const lac_reference_layer *const layers[LAC_NODE_KINDS] = {
    [LAC_NODE_CONV] = &lac_reference_conv,           [LAC_NODE_DENSE] = &lac_reference_dense,
    [LAC_NODE_BATCHNORM] = &lac_reference_batchnorm, [LAC_NODE_RELU] = &lac_reference_relu,
    [LAC_NODE_MAXPOOL] = &lac_reference_maxpool,     [LAC_NODE_AVGPOOL] = &lac_reference_avgpool,
    [LAC_NODE_DROPOUT] = &lac_reference_dropout,     [LAC_NODE_ADD] = &lac_reference_add,
};

void lac_reference_transpose(int64_t rows, int64_t columns, const float *from, float *to) {
  for (int64_t j = 0; j < columns; j++) {
    for (int64_t i = 0; i < rows; i++) {
      to[j * rows + i] = from[i * columns + j];
    }
  }
}

/* ---- making ---- */

static bool works_in_place(const lac_graph *graph, const lac_node *node) {
  return (node->kind == LAC_NODE_RELU || node->kind == LAC_NODE_DROPOUT) && graph->nodes[node->input].uses == 1;
}

/* A gradient is needed where parameters lie before it. */
static bool needs_gradient(const lac_reference *self, const lac_node *node) {
  return node->weight_count > 0 || (node->input >= 0 && self->nodes[node->input].gradient) ||
         (node->other >= 0 && self->nodes[node->other].gradient);
}

static lac_status create_node(lac_context *context, lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  lac_reference_node *own = &self->nodes[i];
  int64_t channels = node->shape.channels, size = self->graph->batch * channels * lac_plane(node);
  own->in_place = works_in_place(self->graph, node);
  if (own->in_place) {
    own->out = self->nodes[node->input].out;
    own->gradient = self->nodes[node->input].gradient;
  } else {
    LAC_TRY(LAC_NEW(context, size, &own->out));
    if (needs_gradient(self, node)) {
      LAC_TRY(LAC_NEW(context, size, &own->gradient));
    }
  }
  if (node->kind == LAC_NODE_MAXPOOL) {
    LAC_TRY(LAC_NEW(context, size, &own->places));
  } else if (node->kind == LAC_NODE_DROPOUT) {
    LAC_TRY(LAC_NEW(context, size, &own->mask));
  } else if (node->kind == LAC_NODE_BATCHNORM) {
    LAC_TRY(LAC_NEW(context, channels, &own->mean));
    LAC_TRY(LAC_NEW(context, channels, &own->scale));
  }
  const lac_reference_layer *layer = layers[node->kind];
  int64_t scratch = layer && layer->scratch ? layer->scratch(self->graph, node) : 0;
  if (scratch > (int64_t)LAC_GRAPH_PARAMETERS) {
    return lac_fail(context, LAC_E_UNSUPPORTED,
                    "layers, line %d: found %lld numbers in the windows of a row of pixels, the reference back end "
                    "takes at most %lld",
                    node->line, (long long)scratch, (long long)LAC_GRAPH_PARAMETERS);
  }
  self->scratch_count = scratch > self->scratch_count ? scratch : self->scratch_count;
  return LAC_OK;
}

/* Backward goes from the last node to the first: whoever comes later to a gradient adds to it. */
static lac_status order_gradients(lac_context *context, lac_reference *self) {
  bool *begun;
  LAC_TRY(LAC_NEW(context, self->graph->count, &begun));
  for (int i = self->graph->count - 1; i > 0; i--) {
    int sources[2] = {self->graph->nodes[i].input, self->graph->nodes[i].other};
    for (int side = 0; side < 2; side++) {
      if (sources[side] >= 0) {
        self->nodes[i].adds[side] = begun[sources[side]];
        begun[sources[side]] = true;
      }
    }
  }
  lac_free(begun);
  return LAC_OK;
}

static void destroy(void *state) {
  lac_reference *self = state;
  for (int i = 0; self->nodes && i < self->graph->count; i++) {
    lac_reference_node *own = &self->nodes[i];
    if (!own->in_place) {
      lac_free(own->out);
      lac_free(own->gradient);
    }
    lac_free(own->places);
    lac_free(own->mask);
    lac_free(own->mean);
    lac_free(own->scale);
  }
  lac_free(self->nodes);
  lac_free(self->scratch);
  lac_free(self->scores);
  lac_free(self);
}

static lac_status create(lac_context *context, const lac_graph *graph, const lac_net_options *options, void **state) {
  if (options->precision != LAC_PRECISION_F32) {
    return lac_fail(context, LAC_E_UNSUPPORTED, "found precision bf16, but the reference back end has f32 only");
  }
  lac_reference *self;
  LAC_TRY(LAC_NEW(context, 1, &self));
  self->graph = graph;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, graph->count, &self->nodes), fail);
  for (int i = 0; i < graph->count; i++) {
    LAC_TRY_GOTO(status, create_node(context, self, i), fail);
  }
  LAC_TRY_GOTO(status, order_gradients(context, self), fail);
  LAC_TRY_GOTO(status, LAC_NEW(context, self->scratch_count, &self->scratch), fail);
  LAC_TRY_GOTO(status, LAC_NEW(context, 2 * graph->batch * graph->classes, &self->scores), fail);
  *state = self;
  return LAC_OK;
fail:
  destroy(self);
  return status;
}

/* ---- passes ---- */

/* The pictures, (N, C, P), become the first activation, (C, N, P), and every layer follows. */
static lac_status run_forward(lac_context *context, lac_reference *self, const float *pictures) {
  const lac_graph *graph = self->graph;
  int64_t channels = graph->input.channels, plane = lac_plane(&graph->nodes[0]);
  for (int64_t c = 0; c < channels; c++) {
    for (int64_t n = 0; n < self->count; n++) {
      memcpy(self->nodes[0].out + (c * self->count + n) * plane, pictures + (n * channels + c) * plane,
             (size_t)plane * sizeof *pictures);
    }
  }
  for (int i = 1; i < graph->count; i++) {
    layers[graph->nodes[i].kind]->forward(self, i);
    LAC_TRY(self->pass == LAC_PASS_TRAIN ? lac_graph_pause(graph, context) : LAC_OK);
  }
  lac_reference_transpose(graph->classes, self->count, self->nodes[graph->count - 1].out, self->scores);
  return LAC_OK;
}

static lac_status gradient(lac_context *context, void *state, const float *parameters, const float *pictures,
                           const int32_t *labels, lac_net_key key, float *out, double *loss, int64_t *errors) {
  lac_reference *self = state;
  const lac_graph *graph = self->graph;
  self->pass = LAC_PASS_TRAIN;
  self->count = graph->batch;
  self->parameters = parameters;
  self->key = key;
  self->gradient = out;
  LAC_TRY(run_forward(context, self, pictures));
  float *dscores = self->scores + graph->batch * graph->classes;
  lac_softmax(graph->batch, graph->classes, self->scores, labels, NULL, dscores, loss, errors);
  lac_reference_transpose(graph->batch, graph->classes, dscores, self->nodes[graph->count - 1].gradient);
  for (int i = graph->count - 1; i > 0; i--) {
    if (self->nodes[i].gradient) {
      layers[graph->nodes[i].kind]->backward(self, i);
      LAC_TRY(lac_graph_pause(graph, context));
    }
  }
  return LAC_OK;
}

static lac_status predict(lac_context *context, void *state, const float *parameters, const float *statistics,
                          int64_t count, const float *pictures, const int32_t *labels, float *probabilities,
                          double *loss, int64_t *errors) {
  lac_reference *self = state;
  self->pass = LAC_PASS_PREDICT;
  self->count = count;
  self->parameters = parameters;
  self->statistics = statistics;
  LAC_TRY(run_forward(context, self, pictures));
  lac_softmax(count, self->graph->classes, self->scores, labels, probabilities, NULL, loss, errors);
  return LAC_OK;
}

static lac_status collect(lac_context *context, void *state, const float *parameters, const float *pictures,
                          float *statistics) {
  lac_reference *self = state;
  self->pass = LAC_PASS_COLLECT;
  self->count = self->graph->batch;
  self->parameters = parameters;
  self->collected = statistics;
  return run_forward(context, self, pictures);
}

const lac_backend lac_backend_reference = {"reference", create, destroy, gradient, predict, collect};
