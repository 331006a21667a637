/* Layers that take each number by itself. The first two may work in place: no layer needs its own output but relu, and
 * of that only where it is above zero, which another relu or a dropout behind it changes only where they pass nothing
 * back. */
#include <string.h>

#include "nn/reference.h"

/* Tells the compiler that numbers do not depend on each other, although what is read may be what is written. */
#if defined(__GNUC__) && !defined(__clang__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

static void relu_forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const float *x = self->nodes[node->input].out;
  float *out = self->nodes[i].out;
  int64_t size = lac_reference_size(self, node);
  INDEPENDENT
  for (int64_t j = 0; j < size; j++) {
    out[j] = x[j] < 0 ? 0 : x[j]; /* so that what is not a number stays */
  }
}

static void relu_backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const float *out = self->nodes[i].out, *dout = self->nodes[i].gradient;
  float *dx = self->nodes[node->input].gradient;
  int64_t size = dx ? lac_reference_size(self, node) : 0;
  bool adds = self->nodes[i].adds[0];
  INDEPENDENT
  for (int64_t j = 0; j < size; j++) {
    float slope = dout[j];
    lac_store(dx + j, out[j] > 0 ? slope : 0, adds);
  }
}

/* to = from x mask; the mask is picture by picture, (N, C, P), the rest channel by channel, (C, N, P). */
static void apply_mask(const lac_reference *self, const lac_node *node, const float *mask, const float *from, float *to,
                       bool adds) {
  int64_t channels = node->shape.channels, plane = lac_plane(node);
  for (int64_t c = 0; c < channels; c++) {
    for (int64_t n = 0; n < self->count; n++) {
      const float *of = mask + (n * channels + c) * plane;
      INDEPENDENT
      for (int64_t p = 0; p < plane; p++) {
        lac_store(to + p, from[p] * of[p], adds);
      }
      from += plane;
      to += plane;
    }
  }
}

static void dropout_forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const lac_reference_node *own = &self->nodes[i];
  const float *x = self->nodes[node->input].out;
  if (self->pass == LAC_PASS_TRAIN) {
    lac_dropout_mask(self->key, i, node->rate, lac_reference_size(self, node), own->mask);
    apply_mask(self, node, own->mask, x, own->out, false);
  } else if (!own->in_place) {
    memcpy(own->out, x, (size_t)lac_reference_size(self, node) * sizeof *x);
  }
}

static void dropout_backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const lac_reference_node *own = &self->nodes[i];
  if (self->nodes[node->input].gradient) {
    apply_mask(self, node, own->mask, own->gradient, self->nodes[node->input].gradient, own->adds[0]);
  }
}

static void add_forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const float *a = self->nodes[node->input].out, *b = self->nodes[node->other].out;
  float *out = self->nodes[i].out;
  int64_t size = lac_reference_size(self, node);
  for (int64_t j = 0; j < size; j++) {
    out[j] = a[j] + b[j];
  }
}

static void add_backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const float *dout = self->nodes[i].gradient;
  for (int side = 0; side < 2; side++) {
    float *dx = self->nodes[side == 0 ? node->input : node->other].gradient;
    int64_t size = dx ? lac_reference_size(self, node) : 0;
    bool adds = self->nodes[i].adds[side];
    for (int64_t j = 0; j < size; j++) {
      lac_store(dx + j, dout[j], adds);
    }
  }
}

const lac_reference_layer lac_reference_relu = {NULL, relu_forward, relu_backward};
const lac_reference_layer lac_reference_dropout = {NULL, dropout_forward, dropout_backward};
const lac_reference_layer lac_reference_add = {NULL, add_forward, add_backward};
