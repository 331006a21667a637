/* Applying a classifier to pictures as they are in their files. */
#include "classifier/classifier.h"

#include <inttypes.h>
#include <math.h>

#include "base/memory.h"

void lac_classifier_destroy(lac_classifier **classifier) {
  lac_classifier *self = *classifier;
  if (self) {
    lac_tensors_close(&self->file);
    lac_net_destroy(&self->net);
    lac_prepare_destroy(&self->prepare);
    lac_free(self->parameters);
    lac_free(self->statistics);
    lac_free(self->pictures);
    lac_free(self);
    *classifier = NULL;
  }
}

const char *lac_classifier_path(const lac_classifier *classifier) {
  return lac_tensors_path(classifier->file);
}

const lac_net *lac_classifier_net(const lac_classifier *classifier) {
  return classifier->net;
}

const float *lac_classifier_parameters(const lac_classifier *classifier) {
  return classifier->parameters;
}

const float *lac_classifier_statistics(const lac_classifier *classifier) {
  return classifier->statistics;
}

const lac_prepare *lac_classifier_prepare(const lac_classifier *classifier) {
  return classifier->prepare;
}

const char *lac_classifier_meta(const lac_classifier *classifier, const char *key) {
  return lac_tensors_meta(classifier->file, key);
}

/* ---- applying ---- */

static lac_status check_shape(lac_context *context, const lac_classifier *self, const lac_images *images) {
  lac_image_shape has = lac_images_shape(images), takes = lac_net_input(self->net);
  if (has.channels != takes.channels || has.height != takes.height || has.width != takes.width) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found pictures of %" PRId64 " x %" PRId64 " x %" PRId64 ", expected %" PRId64 " x %" PRId64
                    " x %" PRId64 " as in the model %s",
                    lac_images_source(images), has.channels, has.height, has.width, takes.channels, takes.height,
                    takes.width, lac_classifier_path(self));
  }
  return LAC_OK;
}

static int64_t block_of(const lac_classifier *self, int64_t left) {
  int64_t batch = lac_net_batch(self->net);
  return left < batch ? left : batch;
}

static lac_status check_numbers(lac_context *context, const lac_classifier *self, const lac_images *images,
                                int64_t first, int64_t count, const float *probabilities) {
  int64_t classes = lac_net_classes(self->net);
  for (int64_t i = 0; i < count * classes; i++) {
    if (!isfinite(probabilities[i])) {
      return lac_fail(context, LAC_E_NUMERICAL,
                      "%s: picture %" PRId64 ": found a probability that is no number, the model %s leaves float32",
                      lac_images_source(images), first + i / classes, lac_classifier_path(self));
    }
  }
  return LAC_OK;
}

lac_status lac_classifier_predict(lac_context *context, lac_classifier *classifier, const lac_images *images,
                                  int64_t first, int64_t count, float *probabilities) {
  LAC_TRY(check_shape(context, classifier, images));
  for (int64_t done = 0; done < count;) {
    int64_t block = block_of(classifier, count - done);
    float *out = probabilities + done * lac_net_classes(classifier->net);
    LAC_TRY(lac_prepare_apply(context, classifier->prepare, images, first + done, block, classifier->pictures));
    LAC_TRY(lac_net_predict(context, classifier->net, classifier->parameters, classifier->statistics, block,
                            classifier->pictures, out));
    LAC_TRY(check_numbers(context, classifier, images, first + done, block, out));
    done += block;
  }
  return LAC_OK;
}

static lac_status check_classes(lac_context *context, const lac_classifier *self, const lac_images *images) {
  int64_t has = lac_images_classes(images), takes = lac_net_classes(self->net);
  if (has == 0) {
    return lac_fail(context, LAC_E_USAGE, "%s: found no labels, expected some to compare with",
                    lac_images_source(images));
  }
  if (has > takes) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found %" PRId64 " classes, expected at most %" PRId64 " as in the model %s",
                    lac_images_source(images), has, takes, lac_classifier_path(self));
  }
  return LAC_OK;
}

lac_status lac_classifier_evaluate(lac_context *context, lac_classifier *classifier, const lac_images *images,
                                   int64_t first, int64_t count, double *loss_sum, int64_t *errors) {
  *loss_sum = 0;
  *errors = 0;
  LAC_TRY(check_shape(context, classifier, images));
  LAC_TRY(check_classes(context, classifier, images));
  for (int64_t done = 0; done < count;) {
    int64_t block = block_of(classifier, count - done), wrong;
    double loss;
    LAC_TRY(lac_prepare_apply(context, classifier->prepare, images, first + done, block, classifier->pictures));
    LAC_TRY(lac_net_evaluate(context, classifier->net, classifier->parameters, classifier->statistics, block,
                             classifier->pictures, lac_images_labels(images) + first + done, &loss, &wrong));
    *loss_sum += loss;
    *errors += wrong;
    done += block;
  }
  return LAC_OK;
}
