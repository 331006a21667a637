/* What a network is made of. */
#ifndef LACONIC_NN_NET_H
#define LACONIC_NN_NET_H

#include "nn/backend.h"

struct lac_net {
  char *text;
  lac_graph graph;
  lac_net_options options;
  const lac_backend *backend;
  void *state;
  double flops;
};

#endif
