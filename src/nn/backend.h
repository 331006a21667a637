/* What computes a graph. A back end owns all activations, in whatever layout it likes; parameters, gradients,
 * statistics, pictures and probabilities cross this line in the canonical layouts of laconic/net.h. */
#ifndef LACONIC_NN_BACKEND_H
#define LACONIC_NN_BACKEND_H

#include "nn/graph.h"

typedef struct lac_backend {
  const char *name;

  /* Everything is allocated here. The graph outlives the state. Errors: UNSUPPORTED, MEMORY. */
  lac_status (*create)(lac_context *context, const lac_graph *graph, const lac_net_options *options, void **state);
  void (*destroy)(void *state);

  /* Forward with batch statistics and dropout, then backward: see lac_net_gradient; labels have been checked. */
  lac_status (*gradient)(lac_context *context, void *state, const float *parameters, const float *pictures,
                         const int32_t *labels, lac_net_key key, float *gradient, double *loss, int64_t *errors);
  /* See lac_net_predict; what lac_softmax makes of the scores: with labels, which have been checked, also the mean loss
   * and the errors. Any output may be NULL. */
  lac_status (*predict)(lac_context *context, void *state, const float *parameters, const float *statistics,
                        int64_t count, const float *pictures, const int32_t *labels, float *probabilities, double *loss,
                        int64_t *errors);
  /* See lac_net_collect. */
  lac_status (*collect)(lac_context *context, void *state, const float *parameters, const float *pictures,
                        float *statistics);
} lac_backend;

extern const lac_backend lac_backend_reference;
#ifdef LACONIC_HAVE_ONEDNN
extern const lac_backend lac_backend_onednn;
#endif

#define LAC_BATCHNORM_EPSILON 1e-5F

/* The dropout mask of a node: mask[i] = 0 or 1 / (1 - rate), for the outputs (batch, C, H, W) in canonical order. Keyed
 * by (key, node), equal on all back ends: a unit is dropped when its 16 random bits are below rate * 65536. */
void lac_dropout_mask(lac_net_key key, int node, double rate, int64_t count, float *mask);

/* Softmax with cross-entropy over scores (batch, classes): probabilities, and when labels are given gradient
 * (batch, classes) = (probabilities - one at the label) / batch, the mean loss, and in how many rows a class has a
 * larger score than the label, or one that is not a number. Any output may be NULL. */
void lac_softmax(int64_t batch, int64_t classes, const float *scores, const int32_t *labels, float *probabilities,
                 float *gradient, double *loss, int64_t *errors);

#endif
