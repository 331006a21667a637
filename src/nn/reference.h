/* The reference back end: every layer in plain loops, im2col and BLAS, one thread.
 *
 * An activation is stored channel by channel, (C, N, H, W) for the N pictures of the pass, so that a convolution is one
 * product per block of columns, straight into its place, and a channel is one run of numbers for batch norm. */
#ifndef LACONIC_NN_REFERENCE_H
#define LACONIC_NN_REFERENCE_H

#include "nn/backend.h"

typedef enum lac_pass {
  LAC_PASS_TRAIN,   /* batch statistics, dropout */
  LAC_PASS_PREDICT, /* given statistics */
  LAC_PASS_COLLECT, /* batch statistics, written */
} lac_pass;

typedef struct lac_reference_node {
  float *out, *gradient; /* (C, N, H, W) of this node's output; the gradient NULL where nobody needs one */
  bool in_place;         /* both are those of node.input, which nobody else reads */
  bool adds[2];          /* whether the gradient of input, other has been begun by a later node */
  int32_t *places;       /* MAXPOOL (C, N, H, W): where in its plane each number came from */
  float *mask;           /* DROPOUT (N, C, H, W) */
  float *mean, *scale;   /* BATCHNORM (C): of the batch, and 1 / sqrt(variance + epsilon) */
} lac_reference_node;

typedef struct lac_reference {
  const lac_graph *graph;
  lac_reference_node *nodes;
  float *scratch; /* columns of a convolution, or the rows of a dense layer */
  int64_t scratch_count;
  float *scores; /* (N, classes), and room for as many gradients */
  /* Of the pass. */
  lac_pass pass;
  int64_t count; /* N */
  const float *parameters, *statistics;
  lac_net_key key;
  float *gradient, *collected;
} lac_reference;

/* A layer's part of a pass; `i` is its node. Backward turns the gradient of its output into that of its parameters and,
 * where there is a place for them, those of its inputs. */
typedef struct lac_reference_layer {
  int64_t (*scratch)(const lac_graph *graph, const lac_node *node); /* numbers that it needs there; NULL: 0 */
  void (*forward)(lac_reference *self, int i);
  void (*backward)(lac_reference *self, int i);
} lac_reference_layer;

extern const lac_reference_layer lac_reference_conv, lac_reference_dense, lac_reference_batchnorm, lac_reference_relu,
    lac_reference_maxpool, lac_reference_avgpool, lac_reference_dropout, lac_reference_add;

static inline int64_t lac_plane(const lac_node *node) {
  return node->shape.height * node->shape.width;
}

/* Numbers of a node's output in this pass. */
static inline int64_t lac_reference_size(const lac_reference *self, const lac_node *node) {
  return self->count * node->shape.channels * lac_plane(node);
}

/* Stores a gradient, or adds it to what is there. */
static inline void lac_store(float *to, float value, bool adds) {
  *to = adds ? *to + value : value;
}

/* Sums of x, x x' and (x - centre) y in an order that depends on the count alone. */
double lac_reference_sum(const float *x, int64_t count);
double lac_reference_square(const float *x, float centre, int64_t count);
double lac_reference_product(const float *x, float centre, const float *y, int64_t count);

/* gradient[c] = sum of channel c of `from`. */
void lac_reference_channel_sums(int64_t channels, int64_t count, const float *from, float *gradient);

/* to (columns, rows) = from (rows, columns) transposed. */
void lac_reference_transpose(int64_t rows, int64_t columns, const float *from, float *to);

#endif
