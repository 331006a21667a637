/* A network that classifies images, made from a description of its layers, a line each.
 *
 * A network has no parameters of its own: they are one flat vector of float32 in one canonical layout, which the caller
 * keeps, exchanges and stores, whatever layout a back end computes in. So are its batch-norm statistics. All memory is
 * allocated when the network is made. One network is used by one thread at a time.
 *
 * A description (docs/layers.md has the grammar):
 *
 *     # comment
 *     input 784                         checks that a picture has so many numbers; first line only
 *     conv 20 kernel=5                  channels; also stride=1 pad=0 bias=yes
 *     batchnorm
 *     relu
 *     maxpool 3                         window; stride= the window, pad=0; avgpool the same; avgpool all: whole picture
 *     dropout 0.25
 *     dense 500                         also bias=yes; sees the picture as channels x height x width
 *     mark a                            names the activation here
 *     from a                            goes on from it
 *     add a                             residual: adds it
 *     dense classes                     or conv classes: as many as there are classes; never scaled by a width
 *
 * The last activation, one number a class, goes into a softmax with cross-entropy. */
#ifndef LACONIC_NET_H
#define LACONIC_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"
#include "laconic/options.h"
#include "laconic/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_net lac_net;

/* reference: im2col and BLAS, everywhere; onednn: the oneDNN library. */
typedef enum lac_net_backend { LAC_BACKEND_AUTO, LAC_BACKEND_REFERENCE, LAC_BACKEND_ONEDNN } lac_net_backend;
typedef enum lac_net_precision { LAC_PRECISION_F32, LAC_PRECISION_BF16 } lac_net_precision;
/* direct: the plain algorithms; auto: whichever oneDNN thinks fastest (Winograd, say). */
typedef enum lac_net_convolution { LAC_CONVOLUTION_DIRECT, LAC_CONVOLUTION_AUTO } lac_net_convolution;

typedef struct lac_net_options {
  int backend;     /* lac_net_backend; auto: onednn where the build has it */
  int precision;   /* lac_net_precision of products and activations; parameters and gradients stay float32 */
  int convolution; /* lac_net_convolution */
} lac_net_options;

/* auto, reference, onednn; f32, bf16; direct, auto: for option tables, each ends with NULL. */
LAC_API extern const char *const lac_net_backend_names[];
LAC_API extern const char *const lac_net_precision_names[];
LAC_API extern const char *const lac_net_convolution_names[];

/* backend, precision and convolution, for lac_net_options. Local. */
LAC_API const lac_option *lac_net_option_table(void);

/* A network for up to `batch` pictures at once; the text is a description, `source` what messages call it (a file
 * name). Errors: INPUT (source and line, found, expected: unknown layers or keys, a window larger than its picture,
 * marks that are unknown or of another shape, an output that nothing reads, a last layer that does not give one number
 * a class, more than 2^31 parameters or 2^33 activations), USAGE, UNSUPPORTED (a back end this build lacks, bf16 on a
 * processor without), MEMORY. `options` may be NULL. Local. */
LAC_API LAC_MUST_USE lac_status lac_net_create(lac_context *context, const char *text, const char *source,
                                               lac_image_shape input, int64_t classes, int64_t batch,
                                               const lac_net_options *options, lac_net **net);
LAC_API void lac_net_destroy(lac_net **net);

/* The description of a built-in: lenet, allcnn, resnet20, wrn-D-K (D = 6 k + 4), mlp:784-500-10 (its first and last
 * numbers are checked against `input` and `classes` by lac_net_create). Channels and units are multiplied by `width`
 * and rounded, at least 1. *text is malloc'ed, the caller's. Errors: USAGE for an unknown name (the nearest is
 * suggested) or numbers out of range, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_net_builtin(lac_context *context, const char *name, double width, char **text);
/* The pictures that a built-in is known for, and its classes: of lenet 1 x 28 x 28, of an mlp a row of its first number
 * and its last, of all others 3 x 32 x 32; 10 classes. Local. */
LAC_API lac_image_shape lac_net_builtin_input(const char *name, int64_t *classes);

/* Local. */
LAC_API int64_t lac_net_parameters(const lac_net *net); /* n */
LAC_API int64_t lac_net_statistics(const lac_net *net); /* numbers of batch-norm statistics; 0 without batch norm */
LAC_API lac_image_shape lac_net_input(const lac_net *net);
LAC_API int64_t lac_net_classes(const lac_net *net);
LAC_API int64_t lac_net_batch(const lac_net *net);
LAC_API const char *lac_net_text(const lac_net *net);           /* the description, borrowed */
LAC_API const char *lac_net_backend_name(const lac_net *net);   /* the one in use, borrowed */
LAC_API lac_net_options lac_net_options_of(const lac_net *net); /* as it was made; auto has become a back end */
LAC_API double lac_net_flops(const lac_net *net); /* of a forward pass of one picture; backward is twice that */
/* Bytes that a gradient of one picture takes of memory, at most: the output of every layer and its derivative. */
LAC_API double lac_net_activation_bytes(const lac_net *net);

/* Named pieces of the flat vectors, in their order and without gaps: first those of the parameters, then those of the
 * statistics. conv weight (out, in, kernel, kernel), dense weight (out, in), their bias and batchnorm's scale, shift,
 * mean, variance (channels). */
typedef struct lac_net_piece {
  char name[64]; /* "03.conv.weight": number of the layer, kind, part */
  bool statistic;
  int64_t offset; /* in its vector */
  int axes;
  int64_t shape[4];
} lac_net_piece;
LAC_API int64_t lac_net_piece_count(const lac_net *net);
LAC_API lac_net_piece lac_net_piece_at(const lac_net *net, int64_t index);

/* Starting values, keyed by (seed, layer): weights normal with variance 2 / fan-in (He et al. 2015), biases 0,
 * batch norm 1 and 0. parameters (n). Statistics start at mean 0, variance 1. Local. */
LAC_API void lac_net_initialise(const lac_net *net, int64_t seed, float *parameters, float *statistics);

/* What keys the dropout of a call: the same key drops the same units, on every back end. */
typedef struct lac_net_key {
  int64_t seed, replica, step;
} lac_net_key;

/* `pause` is called between the layers of every lac_net_gradient, by its thread, so that something else, messages say,
 * is looked after while it computes. It must leave the net and the call's vectors alone; when it fails, so does the
 * call. NULL for none. Local. */
typedef lac_status (*lac_net_pause_fn)(void *user, lac_context *context);
LAC_API void lac_net_set_pause(lac_net *net, lac_net_pause_fn pause, void *user);

/* Forward and backward over exactly `batch` pictures (batch, C, H, W) with labels (batch) in [0, classes): gradient (n)
 * of the mean cross-entropy, written, not added; *loss that mean, *errors in how many pictures another class had a
 * larger score (or one that is not a number). Batch norm uses the batch's own mean and variance (epsilon 1e-5). Errors:
 * INPUT for a label out of range. A loss that is not finite is no error, but the caller's to see. Local. */
LAC_API LAC_MUST_USE lac_status lac_net_gradient(lac_context *context, lac_net *net, const float *parameters,
                                                 const float *pictures, const int32_t *labels, lac_net_key key,
                                                 float *gradient, double *loss, int64_t *errors);

/* Probabilities (count, classes) of count <= batch pictures: no dropout, batch norm by `statistics`.
 * Errors: USAGE for another count. Local. */
LAC_API LAC_MUST_USE lac_status lac_net_predict(lac_context *context, lac_net *net, const float *parameters,
                                                const float *statistics, int64_t count, const float *pictures,
                                                float *probabilities);

/* The same for any number of pictures at once (count, C, H, W), against labels (count): *loss_sum, the sum of their
 * cross-entropies, and *errors, in how many another class had a larger score (or one that is not a number). Sums, so
 * that parts of a set can be added up. Errors: INPUT for a label out of range, USAGE for a count below 0, INTERRUPTED.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_net_evaluate(lac_context *context, lac_net *net, const float *parameters,
                                                 const float *statistics, int64_t count, const float *pictures,
                                                 const int32_t *labels, double *loss_sum, int64_t *errors);

/* Batch-norm statistics of a full batch, dropout off: a forward pass whose batch norms use the batch's own mean and
 * variance; writes these (variance times m / (m - 1) for m > 1 numbers a channel) into statistics. The caller averages
 * over batches. Local. */
LAC_API LAC_MUST_USE lac_status lac_net_collect(lac_context *context, lac_net *net, const float *parameters,
                                                const float *pictures, float *statistics);

#ifdef __cplusplus
}
#endif

#endif
