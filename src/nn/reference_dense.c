/* A dense layer: out (units, N) = W x + b. What it reads is (inputs, N) already when a channel is one pixel; else its
 * (C, N, H W) is turned to (C, H W, N), channel by channel. */
#include "math/blas.h"
#include "nn/reference.h"

static int64_t scratch(const lac_graph *graph, const lac_node *node) {
  const lac_node *from = &graph->nodes[node->input];
  return lac_plane(from) == 1 ? 0 : graph->batch * from->shape.channels * lac_plane(from);
}

/* (C, N, P) to (C, P, N), or back with the two counts exchanged. */
static void turn(int64_t channels, int64_t rows, int64_t columns, const float *from, float *to) {
  for (int64_t c = 0; c < channels; c++) {
    lac_reference_transpose(rows, columns, from + c * rows * columns, to + c * rows * columns);
  }
}

static const float *input_of(lac_reference *self, const lac_node *from, const float *x) {
  if (lac_plane(from) == 1) {
    return x;
  }
  turn(from->shape.channels, self->count, lac_plane(from), x, self->scratch);
  return self->scratch;
}

static void forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i], *from = &self->graph->nodes[node->input];
  const float *x = input_of(self, from, self->nodes[node->input].out), *bias = self->parameters + node->offset;
  float *out = self->nodes[i].out;
  int64_t units = node->shape.channels, inputs = node->weight_count / units, count = self->count;
  for (int64_t u = 0; node->bias && u < units; u++) {
    for (int64_t n = 0; n < count; n++) {
      out[u * count + n] = bias[u];
    }
  }
  lac_sgemm(false, false, units, count, inputs, 1, self->parameters + node->weight, inputs, x, count,
            node->bias ? 1 : 0, out, count);
}

static void backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i], *from = &self->graph->nodes[node->input];
  const float *x = input_of(self, from, self->nodes[node->input].out), *dout = self->nodes[i].gradient;
  float *dx = self->nodes[node->input].gradient;
  int64_t units = node->shape.channels, inputs = node->weight_count / units, count = self->count;
  int64_t plane = lac_plane(from);
  lac_sgemm(false, true, units, inputs, count, 1, dout, count, x, count, 0, self->gradient + node->weight, inputs);
  if (node->bias) {
    lac_reference_channel_sums(units, count, dout, self->gradient + node->offset);
  }
  if (!dx) {
    return;
  }
  bool adds = self->nodes[i].adds[0];
  lac_sgemm(true, false, inputs, count, units, 1, self->parameters + node->weight, inputs, dout, count,
            plane == 1 && adds ? 1 : 0, plane == 1 ? dx : self->scratch, count);
  for (int64_t c = 0; plane > 1 && c < from->shape.channels; c++) {
    for (int64_t n = 0; n < count; n++) {
      for (int64_t p = 0; p < plane; p++) {
        lac_store(dx + (c * count + n) * plane + p, self->scratch[(c * plane + p) * count + n], adds);
      }
    }
  }
}

const lac_reference_layer lac_reference_dense = {scratch, forward, backward};
