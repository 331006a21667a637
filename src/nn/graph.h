/* A network as a list of nodes in the order of computation. Made from a description by lac_graph_parse; back ends walk
 * it forwards and backwards. */
#ifndef LACONIC_NN_GRAPH_H
#define LACONIC_NN_GRAPH_H

#include "laconic/net.h"

typedef enum lac_node_kind {
  LAC_NODE_INPUT, /* the first node: the pictures */
  LAC_NODE_CONV,
  LAC_NODE_DENSE, /* sees its input as one row of channels x height x width numbers */
  LAC_NODE_BATCHNORM,
  LAC_NODE_RELU,
  LAC_NODE_MAXPOOL,
  LAC_NODE_AVGPOOL, /* divides by the whole window; padding counts as zeros */
  LAC_NODE_DROPOUT, /* what is kept is multiplied by 1 / (1 - rate) */
  LAC_NODE_ADD,
  LAC_NODE_KINDS
} lac_node_kind;

typedef struct lac_node {
  lac_node_kind kind;
  int input;                    /* node whose output this one reads; -1 for INPUT */
  int other;                    /* ADD: the second one, never the same as input; else -1 */
  int uses;                     /* nodes that read this one's output (the softmax counts as one); never 0 */
  lac_image_shape shape;        /* of the output */
  int64_t kernel, stride, pad;  /* CONV and the pools: square; pad < kernel, so that no window lies in it wholly */
  double rate;                  /* DROPOUT */
  bool bias;                    /* CONV, DENSE */
  int64_t weight, weight_count; /* offset and size in the parameters: CONV (out, in, k, k), DENSE (out, in), BATCHNORM
                                   scale (channels); count 0: none */
  int64_t offset, offset_count; /* the same for biases and BATCHNORM shifts (channels) */
  int64_t mean, variance;       /* BATCHNORM: offsets in the statistics, (channels) each */
  int line;                     /* of the description, from 1 */
} lac_node;

/* What a description may ask for, so that no size overflows and no typing error fills the memory. */
enum { LAC_GRAPH_NODES = 10000 };
#define LAC_GRAPH_PARAMETERS 2147483647.0 /* also of one activation, for a whole batch: an int holds each */
#define LAC_GRAPH_ACTIVATIONS 0x1p33      /* of all of them together */

typedef struct lac_graph {
  lac_node *nodes;
  int count; /* the last node gives (classes, 1, 1) */
  int64_t parameters, statistics;
  int64_t classes, batch;
  lac_image_shape input;
  lac_net_pause_fn pause; /* called between the steps of a gradient; NULL: none */
  void *pause_user;
} lac_graph;

/* Between two steps of a gradient. */
static inline lac_status lac_graph_pause(const lac_graph *graph, lac_context *context) {
  return graph->pause ? graph->pause(graph->pause_user, context) : LAC_OK;
}

/* input, conv, dense, … as a description calls them. */
extern const char *const lac_node_names[LAC_NODE_KINDS];

/* Parses a description; on failure *graph is empty. Parameters are laid out node by node, the weight then the offset,
 * without gaps. Errors: as lac_net_create. */
LAC_MUST_USE lac_status lac_graph_parse(lac_context *context, const char *text, const char *source,
                                        lac_image_shape input, int64_t classes, int64_t batch, lac_graph *graph);
void lac_graph_clear(lac_graph *graph);

#endif
