/* Pools. Planes of the pictures of all channels stand one after the other, and each is pooled by itself. */
#include <string.h>

#include "nn/reference.h"

/* One window, clipped to the plane. */
typedef struct window {
  int64_t top, bottom, left, right;
} window;

static int64_t clip(int64_t value, int64_t most) {
  return value < 0 ? 0 : value < most ? value : most;
}

static window window_at(const lac_node *node, const lac_node *from, int64_t y, int64_t x) {
  int64_t top = y * node->stride - node->pad, left = x * node->stride - node->pad;
  return (window){clip(top, from->shape.height), clip(top + node->kernel, from->shape.height),
                  clip(left, from->shape.width), clip(left + node->kernel, from->shape.width)};
}

/* Place of the largest number, the first of equal ones. */
static int64_t largest(const float *plane, int64_t width, const window *in) {
  int64_t best = in->top * width + in->left;
  float most = plane[best];
  for (int64_t y = in->top; y < in->bottom; y++) {
    for (int64_t at = y * width + in->left; at < y * width + in->right; at++) {
      float value = plane[at];
      best = value > most ? at : best;
      most = value > most ? value : most;
    }
  }
  return best;
}

static void maxpool_forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i], *from = &self->graph->nodes[node->input];
  float *out = self->nodes[i].out;
  int32_t *places = self->nodes[i].places;
  for (int64_t p = 0; p < self->count * node->shape.channels; p++) {
    const float *plane = self->nodes[node->input].out + p * lac_plane(from);
    for (int64_t y = 0; y < node->shape.height; y++) {
      for (int64_t x = 0; x < node->shape.width; x++) {
        window in = window_at(node, from, y, x);
        *places = (int32_t)largest(plane, from->shape.width, &in);
        *out++ = plane[*places++];
      }
    }
  }
}

/* Both pools add to the gradient of what they read. */
static float *begin_gradient(lac_reference *self, int i) {
  const lac_node *from = &self->graph->nodes[self->graph->nodes[i].input];
  float *dx = self->nodes[self->graph->nodes[i].input].gradient;
  if (dx && !self->nodes[i].adds[0]) {
    memset(dx, 0, (size_t)lac_reference_size(self, from) * sizeof *dx);
  }
  return dx;
}

static void maxpool_backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i], *from = &self->graph->nodes[node->input];
  const float *dout = self->nodes[i].gradient;
  const int32_t *places = self->nodes[i].places;
  float *dx = begin_gradient(self, i);
  for (int64_t p = 0; dx && p < self->count * node->shape.channels; p++, dx += lac_plane(from)) {
    for (int64_t j = 0; j < lac_plane(node); j++) {
      dx[*places++] += *dout++;
    }
  }
}

static void avgpool_forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i], *from = &self->graph->nodes[node->input];
  float *out = self->nodes[i].out, part = 1 / ((float)node->kernel * (float)node->kernel);
  for (int64_t p = 0; p < self->count * node->shape.channels; p++) {
    const float *plane = self->nodes[node->input].out + p * lac_plane(from);
    for (int64_t y = 0; y < node->shape.height; y++) {
      for (int64_t x = 0; x < node->shape.width; x++) {
        window in = window_at(node, from, y, x);
        float sum = 0;
        for (int64_t row = in.top; row < in.bottom; row++) {
          for (int64_t column = in.left; column < in.right; column++) {
            sum += plane[row * from->shape.width + column];
          }
        }
        *out++ = sum * part;
      }
    }
  }
}

static void avgpool_backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i], *from = &self->graph->nodes[node->input];
  const float *dout = self->nodes[i].gradient;
  float *dx = begin_gradient(self, i), part = 1 / ((float)node->kernel * (float)node->kernel);
  for (int64_t p = 0; dx && p < self->count * node->shape.channels; p++, dx += lac_plane(from)) {
    for (int64_t y = 0; y < node->shape.height; y++) {
      for (int64_t x = 0; x < node->shape.width; x++) {
        window in = window_at(node, from, y, x);
        float share = *dout++ * part;
        for (int64_t row = in.top; row < in.bottom; row++) {
          for (int64_t column = in.left; column < in.right; column++) {
            dx[row * from->shape.width + column] += share;
          }
        }
      }
    }
  }
}

const lac_reference_layer lac_reference_maxpool = {NULL, maxpool_forward, maxpool_backward};
const lac_reference_layer lac_reference_avgpool = {NULL, avgpool_forward, avgpool_backward};
