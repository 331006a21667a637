/* Networks computed once more, in double precision, picture by picture, by the definition of each layer in plain loops:
 * what back ends are compared with. Gradients are central differences of this loss. */
#ifndef LACONIC_TESTS_NN_ORACLE_H
#define LACONIC_TESTS_NN_ORACLE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/backend.h"

typedef struct oracle {
  const lac_graph *graph;
  int64_t count;       /* pictures */
  const float *inputs; /* (count, C, H, W) */
  double **out;        /* of each node, (count, C, H, W) */
  float **masks;       /* of each dropout, the same; NULL in an array of NULL: no dropout */
  const double *parameters;
  const float *given; /* statistics for batch norm; NULL: of the batch */
  double *statistics; /* of the batch, unbiased */
  double *probabilities;
} oracle;

static inline int64_t oracle_size(const oracle *self, int i) {
  lac_image_shape shape = self->graph->nodes[i].shape;
  return self->count * shape.channels * shape.height * shape.width;
}

static inline oracle oracle_make(const lac_graph *graph, int64_t count, const float *inputs) {
  oracle self = {.graph = graph, .count = count, .inputs = inputs};
  self.out = calloc((size_t)graph->count, sizeof *self.out);
  self.masks = calloc((size_t)graph->count, sizeof *self.masks);
  for (int i = 0; i < graph->count; i++) {
    self.out[i] = calloc((size_t)oracle_size(&self, i), sizeof **self.out);
  }
  self.statistics = calloc((size_t)graph->statistics + 1, sizeof *self.statistics);
  self.probabilities = calloc((size_t)(count * graph->classes), sizeof *self.probabilities);
  return self;
}

/* Switches dropout on. */
static inline void oracle_drop(oracle *self, lac_net_key key) {
  for (int i = 0; i < self->graph->count; i++) {
    if (self->graph->nodes[i].kind == LAC_NODE_DROPOUT) {
      self->masks[i] = realloc(self->masks[i], (size_t)oracle_size(self, i) * sizeof **self->masks);
      lac_dropout_mask(key, i, self->graph->nodes[i].rate, oracle_size(self, i), self->masks[i]);
    }
  }
}

static inline void oracle_clear(oracle *self) {
  for (int i = 0; i < self->graph->count; i++) {
    free(self->out[i]);
    free(self->masks[i]);
  }
  free(self->out);
  free(self->masks);
  free(self->statistics);
  free(self->probabilities);
}

/* The number at a place of an activation, `outside` beyond its picture. */
static inline double oracle_at(const double *x, lac_image_shape shape, int64_t n, int64_t c, int64_t row,
                               int64_t column, double outside) {
  bool inside = row >= 0 && row < shape.height && column >= 0 && column < shape.width;
  return inside ? x[((n * shape.channels + c) * shape.height + row) * shape.width + column] : outside;
}

/* One number of a convolution or a pool. */
static inline double oracle_window(const oracle *self, const lac_node *node, int64_t n, int64_t c, int64_t row,
                                   int64_t column) {
  const double *x = self->out[node->input], *weight = self->parameters + node->weight;
  lac_image_shape shape = self->graph->nodes[node->input].shape;
  bool conv = node->kind == LAC_NODE_CONV, most = node->kind == LAC_NODE_MAXPOOL;
  int64_t k = node->kernel, first = conv ? 0 : c, end = conv ? shape.channels : c + 1;
  double value = most ? -INFINITY : conv && node->bias ? self->parameters[node->offset + c] : 0;
  for (int64_t from = first; from < end; from++) {
    for (int64_t y = 0; y < k; y++) {
      for (int64_t z = 0; z < k; z++) {
        double pixel = oracle_at(x, shape, n, from, row * node->stride - node->pad + y,
                                 column * node->stride - node->pad + z, most ? -INFINITY : 0);
        value = most   ? fmax(value, pixel)
                : conv ? value + pixel * weight[((c * shape.channels + from) * k + y) * k + z]
                       : value + pixel / (double)(k * k);
      }
    }
  }
  return value;
}

static inline void oracle_windows(oracle *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  double *out = self->out[i];
  for (int64_t n = 0; n < self->count; n++) {
    for (int64_t c = 0; c < node->shape.channels; c++) {
      for (int64_t row = 0; row < node->shape.height; row++) {
        for (int64_t column = 0; column < node->shape.width; column++) {
          *out++ = oracle_window(self, node, n, c, row, column);
        }
      }
    }
  }
}

static inline void oracle_dense(oracle *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  int64_t inputs = oracle_size(self, node->input) / self->count, units = node->shape.channels;
  for (int64_t n = 0; n < self->count; n++) {
    for (int64_t u = 0; u < units; u++) {
      double sum = node->bias ? self->parameters[node->offset + u] : 0;
      for (int64_t j = 0; j < inputs; j++) {
        sum += self->parameters[node->weight + u * inputs + j] * self->out[node->input][n * inputs + j];
      }
      self->out[i][n * units + u] = sum;
    }
  }
}

static inline void oracle_norm(oracle *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  int64_t plane = node->shape.height * node->shape.width, channels = node->shape.channels, m = self->count * plane;
  for (int64_t c = 0; c < channels; c++) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < m; j++) {
      mean += self->out[node->input][(j / plane * channels + c) * plane + j % plane] / (double)m;
    }
    for (int64_t j = 0; j < m; j++) {
      double x = self->out[node->input][(j / plane * channels + c) * plane + j % plane];
      variance += (x - mean) * (x - mean) / (double)m;
    }
    self->statistics[node->mean + c] = mean;
    self->statistics[node->variance + c] = m > 1 ? variance * (double)m / (double)(m - 1) : 0;
    if (self->given) {
      mean = self->given[node->mean + c];
      variance = self->given[node->variance + c];
    }
    for (int64_t j = 0; j < m; j++) {
      int64_t at = (j / plane * channels + c) * plane + j % plane;
      self->out[i][at] = (self->out[node->input][at] - mean) / sqrt(variance + (double)LAC_BATCHNORM_EPSILON) *
                             self->parameters[node->weight + c] +
                         self->parameters[node->offset + c];
    }
  }
}

static inline void oracle_points(oracle *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const float *mask = self->masks[i];
  for (int64_t j = 0; j < oracle_size(self, i); j++) {
    double x = node->kind == LAC_NODE_INPUT ? (double)self->inputs[j] : self->out[node->input][j];
    self->out[i][j] = node->kind == LAC_NODE_RELU  ? fmax(x, 0)
                      : node->kind == LAC_NODE_ADD ? x + self->out[node->other][j]
                      : mask                       ? x * (double)mask[j]
                                                   : x;
  }
}

static inline void oracle_forward(oracle *self) {
  for (int i = 0; i < self->graph->count; i++) {
    switch (self->graph->nodes[i].kind) {
      case LAC_NODE_CONV:
      case LAC_NODE_MAXPOOL:
      case LAC_NODE_AVGPOOL:
        oracle_windows(self, i);
        break;
      case LAC_NODE_DENSE:
        oracle_dense(self, i);
        break;
      case LAC_NODE_BATCHNORM:
        oracle_norm(self, i);
        break;
      default:
        oracle_points(self, i);
    }
  }
  const double *scores = self->out[self->graph->count - 1];
  int64_t classes = self->graph->classes;
  for (int64_t n = 0; n < self->count; n++) {
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) {
      sum += exp(scores[n * classes + c]);
    }
    for (int64_t c = 0; c < classes; c++) {
      self->probabilities[n * classes + c] = exp(scores[n * classes + c]) / sum;
    }
  }
}

/* Mean cross-entropy, and how many pictures have a label that is not the likeliest. */
static inline double oracle_loss(oracle *self, const double *parameters, const int32_t *labels, int64_t *errors) {
  self->parameters = parameters;
  oracle_forward(self);
  double loss = 0;
  *errors = 0;
  for (int64_t n = 0; n < self->count; n++) {
    const double *row = self->probabilities + n * self->graph->classes;
    double likeliest = 0;
    for (int64_t c = 0; c < self->graph->classes; c++) {
      likeliest = fmax(likeliest, row[c]);
    }
    loss -= log(row[labels[n]]) / (double)self->count;
    *errors += likeliest > row[labels[n]];
  }
  return loss;
}

/* The slope of the loss along one parameter. The step is so small that hardly ever a number crosses the kink of a relu
 * or overtakes another in a pool; double precision still leaves eight digits. */
static inline double oracle_slope(oracle *self, double *parameters, const int32_t *labels, int64_t at) {
  const double step = 1e-7;
  double before = parameters[at];
  int64_t errors;
  parameters[at] = before + step;
  double above = oracle_loss(self, parameters, labels, &errors);
  parameters[at] = before - step;
  double below = oracle_loss(self, parameters, labels, &errors);
  parameters[at] = before;
  return (above - below) / (2 * step);
}

#endif
