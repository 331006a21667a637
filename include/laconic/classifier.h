/* A classifier: a trained network with its statistics and the preparation of its pictures, as one model file.
 *
 * docs/model-format.md describes the file. Whoever applies a classifier gives it pixels as they are in a data file: the
 * preparation is part of the model. One classifier is used by one thread at a time. */
#ifndef LACONIC_CLASSIFIER_H
#define LACONIC_CLASSIFIER_H

#include <stdint.h>

#include "laconic/context.h"
#include "laconic/images.h"
#include "laconic/net.h"
#include "laconic/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_classifier lac_classifier;

/* Writes a model: parameters (n) and statistics of the network (may be NULL when it has none), a preparation of
 * pictures of its shape, and pairs that say where the model comes from. The same arguments give the same bytes. Errors:
 * USAGE (a preparation of another shape; a key that is `prepare` or begins with `laconic.`; keys or texts that
 * lac_tensors_write does not take), NUMERICAL (values that are not finite, a variance below 0: nothing is written),
 * OUTPUT, IO, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_classifier_save(lac_context *context, const char *path, const lac_net *net,
                                                    const float *parameters, const float *statistics,
                                                    const lac_prepare *prepare, const lac_text_pair *pairs,
                                                    int64_t pair_count);

/* Reads a model, to be applied to up to `batch` pictures at once. `options` may be NULL. Errors: INPUT (the file and
 * what is wrong: no classifier, another version, layers that are none, tensors that are missing, too many, of another
 * type or shape, not finite), and as lac_net_create: USAGE, UNSUPPORTED, MEMORY; IO. Local. */
LAC_API LAC_MUST_USE lac_status lac_classifier_load(lac_context *context, const char *path, int64_t batch,
                                                    const lac_net_options *options, lac_classifier **classifier);

/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_classifier_destroy(lac_classifier **classifier);

/* Borrowed, valid until the classifier is destroyed. Local. */
LAC_API const char *lac_classifier_path(const lac_classifier *classifier); /* as it was loaded */
LAC_API const lac_net *lac_classifier_net(const lac_classifier *classifier);
LAC_API const float *lac_classifier_parameters(const lac_classifier *classifier); /* (n) */
LAC_API const float *lac_classifier_statistics(const lac_classifier *classifier);
LAC_API const lac_prepare *lac_classifier_prepare(const lac_classifier *classifier);
LAC_API const char *lac_classifier_meta(const lac_classifier *classifier,
                                        const char *key); /* NULL when there is none */

/* Probabilities (count, classes) of the pictures [first, first + count) of a set, as they are in their file. Errors:
 * INPUT for pictures of another shape, USAGE for rows outside, NUMERICAL when a picture's are no numbers, and as
 * lac_prepare_apply. Local. */
LAC_API LAC_MUST_USE lac_status lac_classifier_predict(lac_context *context, lac_classifier *classifier,
                                                       const lac_images *images, int64_t first, int64_t count,
                                                       float *probabilities);

/* Sums of the losses and errors of the same pictures, as lac_net_evaluate. Errors: INPUT for pictures of another shape
 * or more classes than the model's, USAGE for a set without labels and rows outside, and as lac_prepare_apply. Local.
 */
LAC_API LAC_MUST_USE lac_status lac_classifier_evaluate(lac_context *context, lac_classifier *classifier,
                                                        const lac_images *images, int64_t first, int64_t count,
                                                        double *loss_sum, int64_t *errors);

/* Writes the classifier as an ONNX model (opset 13): input `pixels` (N, C, H, W) float32 as in a data file, N free, and
 * output `probabilities` (N, classes). The preparation is part of it, dropout is not. Errors: UNSUPPORTED beyond the 2
 * GiB that such a file may have, OUTPUT, IO, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_classifier_export_onnx(lac_context *context, const lac_classifier *classifier,
                                                           const char *path);

#ifdef __cplusplus
}
#endif

#endif
