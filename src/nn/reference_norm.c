/* Batch normalisation, and sums. Source: Ioffe and Szegedy 2015. */
#include <math.h>

#include "nn/reference.h"

/* ---- sums: in lanes, which the compiler turns into vectors, of short runs, which are added in double ---- */

enum { LANES = 16, RUN = 512 };

static double add_lanes(const float lanes[LANES]) {
  double sum = 0;
  for (int l = 0; l < LANES; l++) {
    sum += lanes[l];
  }
  return sum;
}

/* The sum over i < count of `term`, an expression in i. */
#define SUM_IN_LANES(count, term)                                             \
  double sum = 0;                                                             \
  for (int64_t start = 0; start < (count); start += RUN) {                    \
    int64_t end = (count)-start < RUN ? (count) : start + RUN, first = start; \
    float lanes[LANES] = {0};                                                 \
    for (; first + LANES <= end; first += LANES) {                            \
      for (int l = 0; l < LANES; l++) {                                       \
        int64_t i = first + l;                                                \
        lanes[l] += (term);                                                   \
      }                                                                       \
    }                                                                         \
    sum += add_lanes(lanes);                                                  \
    for (int64_t i = first; i < end; i++) {                                   \
      sum += (term);                                                          \
    }                                                                         \
  }                                                                           \
  return sum

double lac_reference_sum(const float *x, int64_t count) {
  SUM_IN_LANES(count, x[i]);
}

double lac_reference_square(const float *x, float centre, int64_t count) {
  SUM_IN_LANES(count, (x[i] - centre) * (x[i] - centre));
}

double lac_reference_product(const float *x, float centre, const float *y, int64_t count) {
  SUM_IN_LANES(count, (x[i] - centre) * y[i]);
}

void lac_reference_channel_sums(int64_t channels, int64_t count, const float *from, float *gradient) {
  for (int64_t c = 0; c < channels; c++) {
    gradient[c] = (float)lac_reference_sum(from + c * count, count);
  }
}

/* ---- the layer ---- */

/* Mean and variance of a channel: of the batch, or given. What is collected is the unbiased variance. */
static void moments(lac_reference *self, const lac_node *node, int64_t c, const float *x, int64_t m, float *mean,
                    double *variance) {
  if (self->pass == LAC_PASS_PREDICT) {
    *mean = self->statistics[node->mean + c];
    *variance = self->statistics[node->variance + c];
    return;
  }
  *mean = (float)(lac_reference_sum(x, m) / (double)m);
  double squares = lac_reference_square(x, *mean, m);
  *variance = squares / (double)m;
  if (self->pass == LAC_PASS_COLLECT) {
    self->collected[node->mean + c] = *mean;
    self->collected[node->variance + c] = (float)(m > 1 ? squares / (double)(m - 1) : 0);
  }
}

static void forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  lac_reference_node *own = &self->nodes[i];
  int64_t m = self->count * lac_plane(node);
  for (int64_t c = 0; c < node->shape.channels; c++) {
    const float *x = self->nodes[node->input].out + c * m;
    float *out = own->out + c * m;
    double variance;
    moments(self, node, c, x, m, &own->mean[c], &variance);
    own->scale[c] = (float)(1 / sqrt(variance + (double)LAC_BATCHNORM_EPSILON));
    float mean = own->mean[c], slope = own->scale[c] * self->parameters[node->weight + c];
    float shift = self->parameters[node->offset + c];
    for (int64_t j = 0; j < m; j++) {
      out[j] = (x[j] - mean) * slope + shift;
    }
  }
}

/* With xh = (x - mean) scale and d = dout:  dshift = sum d,  dweight = sum d xh,
 * dx = weight scale (d - dshift / m - xh dweight / m). */
static void backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  const lac_reference_node *own = &self->nodes[i];
  int64_t m = self->count * lac_plane(node);
  for (int64_t c = 0; c < node->shape.channels; c++) {
    const float *x = self->nodes[node->input].out + c * m, *dout = own->gradient + c * m;
    float mean = own->mean[c], scale = own->scale[c];
    double dshift = lac_reference_sum(dout, m), dweight = lac_reference_product(x, mean, dout, m) * scale;
    self->gradient[node->weight + c] = (float)dweight;
    self->gradient[node->offset + c] = (float)dshift;
    float *dx = self->nodes[node->input].gradient;
    if (dx) {
      float slope = self->parameters[node->weight + c] * scale;
      float level = (float)(dshift / (double)m), lean = (float)(dweight * scale / (double)m);
      bool adds = own->adds[0];
      dx += c * m;
      for (int64_t j = 0; j < m; j++) {
        lac_store(dx + j, slope * (dout[j] - level - (x[j] - mean) * lean), adds);
      }
    }
  }
}

const lac_reference_layer lac_reference_batchnorm = {NULL, forward, backward};
