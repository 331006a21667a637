/* Starting values. Source: He, Zhang, Ren and Sun 2015. */
#include <math.h>

#include "base/random.h"
#include "nn/net.h"

static void draw_weights(const lac_node *node, int layer, int64_t seed, float *weights) {
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_WEIGHTS, (uint64_t)layer, 0);
  double deviation = sqrt(2 / ((double)node->weight_count / (double)node->shape.channels)); /* over the fan-in */
  for (int64_t i = 0; i < node->weight_count; i++) {
    weights[i] = (float)(deviation * lac_random_normal(&stream));
  }
}

static void fill(float *to, int64_t count, float value) {
  for (int64_t i = 0; i < count; i++) {
    to[i] = value;
  }
}

void lac_net_initialise(const lac_net *net, int64_t seed, float *parameters, float *statistics) {
  for (int i = 0; i < net->graph.count; i++) {
    const lac_node *node = &net->graph.nodes[i];
    if (node->kind == LAC_NODE_CONV || node->kind == LAC_NODE_DENSE) {
      draw_weights(node, i, seed, parameters + node->weight);
    } else if (node->kind == LAC_NODE_BATCHNORM) {
      fill(parameters + node->weight, node->weight_count, 1);
      fill(statistics + node->mean, node->shape.channels, 0);
      fill(statistics + node->variance, node->shape.channels, 1);
    }
    fill(parameters + node->offset, node->offset_count, 0);
  }
}
