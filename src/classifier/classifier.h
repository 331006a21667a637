/* What a classifier is inside the room. */
#ifndef LACONIC_CLASSIFIER_CLASSIFIER_H
#define LACONIC_CLASSIFIER_CLASSIFIER_H

#include "laconic/classifier.h"
#include "nn/net.h"

struct lac_classifier {
  lac_tensors *file; /* its path and metadata */
  lac_net *net;
  lac_prepare *prepare;
  float *parameters, *statistics;
  float *pictures; /* (batch, C, H, W): a block of prepared pictures */
};

/* lac_classifier_load from an open file, which is taken, also on failure: *file becomes NULL. */
LAC_MUST_USE lac_status lac_classifier_from_tensors(lac_context *context, lac_tensors **file, int64_t batch,
                                                    const lac_net_options *options, lac_classifier **classifier);

#endif
