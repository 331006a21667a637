/* Labelled pictures: a set read from its files, how its pixels are prepared for a network, and batches of it.
 *
 * A set is immutable and may be read by several threads at once; so may a preparation. Batches are keyed: what batch
 * `step` of a replica holds, and how its pictures are flipped and cropped, depends on (seed, replica, step) and the
 * other options alone, so that a run can be resumed at any step and repeated on any back end. */
#ifndef LACONIC_IMAGES_H
#define LACONIC_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"
#include "laconic/shape.h"
#include "laconic/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_images lac_images;

typedef enum lac_images_part { LAC_IMAGES_TRAIN, LAC_IMAGES_TEST } lac_images_part;

/* Reads a set. `source` is one of
 *
 *     mnist:DIR, fashion-mnist:DIR     {train,t10k}-{images-idx3,labels-idx1}-ubyte; fashion-mnist: alone stands for
 *                                      /usr/share/datasets/fashion-mnist, where Debian puts it
 *     cifar10:DIR                      data_batch_{1..5}.bin, test_batch.bin
 *     PICTURES+LABELS                  two files of any format that lac_dataset_open reads: (N, H, W), (N, C, H, W) or
 *                                      (N, H, W, C), and (N) or (N, 1); a part makes no difference
 *
 * A file of a named set that is not there may be there as NAME.gz. (N, H, W, C) is what four axes mean when the last is
 * 1 or 3 and the second is neither. File names may hold a +: the first one counts that has files on both sides. Only
 * the files of the part need be there. Bytes are mapped and stay bytes.
 *
 * Labels are integers from 0; the classes are the largest label of the file + 1, at least 2 (10 for the named sets, and
 * a label beyond is an error). Errors: INPUT (a file that is missing; numbers of pictures and labels that differ; a
 * label below 0 or above 100,000; pixels not finite as float32; pictures of another shape; always the file, and the row
 * where there is one), USAGE for an unknown source, IO, MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_images_open(lac_context *context, const char *source, lac_images_part part,
                                                lac_images **images);

/* The pictures of one file, without labels, for prediction. `shape` tells how the columns of (N, C H W) are laid out;
 * more axes must be those of the shape, as (N, C, H, W), (N, H, W, C) or, with one channel, (N, H, W). Errors: INPUT
 * (pixels not finite, another shape), USAGE for a shape without pixels, IO, MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_images_open_unlabelled(lac_context *context, const char *path,
                                                           lac_image_shape shape, lac_images **images);

/* Pictures order[0], …, order[rows - 1] of another set as a set of its own, of as many classes; pixels are shared by
 * counted references, so that the order of destruction does not matter. Errors: USAGE for no rows or rows outside,
 * MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_images_select(lac_context *context, const lac_images *images, int64_t rows,
                                                  const int64_t *order, lac_images **selected);

/* Two parts of a set: `held` pictures drawn by the seed, and the rest, both in the order of the set. A part without
 * pictures is NULL. Errors: USAGE for a number outside 0..N, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_images_split(lac_context *context, const lac_images *images, int64_t seed,
                                                 int64_t held, lac_images **rest, lac_images **held_out);

/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_images_destroy(lac_images **images);

/* Local. */
LAC_API int64_t lac_images_count(const lac_images *images);
LAC_API lac_image_shape lac_images_shape(const lac_images *images);
LAC_API int64_t lac_images_classes(const lac_images *images);       /* 0 for an unlabelled set */
LAC_API const int32_t *lac_images_labels(const lac_images *images); /* (N), borrowed; NULL for an unlabelled set */
LAC_API const char *lac_images_source(const lac_images *images);    /* borrowed */

/* 64-bit fingerprint of the shape, the pixels as float32 in their order, and the labels if there are any: equal for
 * equal sets, however they are stored. One pass. Errors: IO, INPUT (as reading), MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_images_fingerprint(lac_context *context, const lac_images *images,
                                                       uint64_t *fingerprint);

/* ---- preparation ---- */

/* none: the pixels as they are; scale: (x - mean) / deviation with one mean and deviation over all pixels; channels:
 * with one for each channel; zca: each picture less its mean, divided by its own deviation, then whitened by zero-phase
 * component analysis. */
typedef enum lac_prepare_kind {
  LAC_PREPARE_NONE,
  LAC_PREPARE_SCALE,
  LAC_PREPARE_CHANNELS,
  LAC_PREPARE_ZCA
} lac_prepare_kind;
LAC_API extern const char *const lac_prepare_names[]; /* none, scale, channels, zca; ends with NULL */

typedef struct lac_prepare lac_prepare;

/* Fits a preparation to a training set. Variances are divided by the number of values; where all pixels are equal they
 * are shifted only.
 *
 * zca: contrast normalisation u = (x - mean) / sqrt(variance + 10) of a picture, whose pixels must be from 0 to 255
 * (Coates, Ng and Lee 2011), then W (u - m) with m the mean of u over the pictures and W = V diag((values +
 * epsilon)^-1/2) V' of its covariance; `zca_epsilon` > 0, since a picture less its mean has a direction without any
 * variance. With a `cache` (a file name, may be NULL) the fit is read from there if it is of the same pixels (by
 * fingerprint) and epsilon, else made and written there, in place of a fit to others; a file that holds anything else
 * is an INPUT error and stays. `zca_epsilon` and `cache` say nothing to the other kinds.
 *
 * Cost of a zca fit: N D^2 + 11 D^3 flop and 4 D^2 float64, at most 32,768 pixels D. Errors: USAGE, INPUT, OUTPUT (the
 * cache; found before the work), IO, NUMERICAL, MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_prepare_fit(lac_context *context, const lac_images *images, lac_prepare_kind kind,
                                                double zca_epsilon, const char *cache, lac_prepare **prepare);

/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_prepare_destroy(lac_prepare **prepare);

/* Local. */
LAC_API lac_prepare_kind lac_prepare_kind_of(const lac_prepare *prepare);
LAC_API lac_image_shape lac_prepare_shape(const lac_prepare *prepare);

/* Rows [first, first + count) prepared, into out (count, C, H, W). What a picture becomes depends neither on the
 * pictures beside it nor on how many there are. Cost of zca: 2 D^2 flop a picture. Errors: USAGE for other shapes and
 * rows outside, INPUT (as reading), IO, MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_prepare_apply(lac_context *context, const lac_prepare *prepare,
                                                  const lac_images *images, int64_t first, int64_t count, float *out);

/* What a preparation is made of, for model files, borrowed until it is destroyed; at most 3 tensors, F32, whose number
 * is returned. The metadata pair "prepare" = the name of the kind goes with them.
 *
 *     scale, channels     prepare.mean and prepare.scale (1) or (C): (x - mean) scale
 *     zca                 prepare.mean (D) and prepare.whitening (D, D): m and W; D = C H W */
LAC_API int64_t lac_prepare_tensors(const lac_prepare *prepare, lac_tensor tensors[3]);

/* The way back. Errors: INPUT (file; metadata or tensors missing, of another type or shape, not finite), USAGE for a
 * shape without pixels, IO, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_prepare_load(lac_context *context, const lac_tensors *file, lac_image_shape shape,
                                                 lac_prepare **prepare);

/* ---- batches ---- */

typedef struct lac_batches lac_batches;

typedef struct lac_batches_options {
  int64_t batch;
  int64_t seed;
  int64_t replica, replicas; /* i of n, from 0 */
  /* f in (0, 1]: replica i sees ceil(f N) pictures of one shared shuffle, from floor(i N / n) on, wrapping; with f >=
   * 1 / n every picture is seen by one. */
  double fraction;
  bool replacement; /* draw every picture anew instead of shuffling the replica's part each pass */
  bool flip;        /* left to right, every second picture on average */
  int64_t crop;     /* pad by so many pixels by reflection, edge not repeated, then crop at a random place; 0: none */
  bool ahead;       /* a thread makes batch step + 1 while the caller works on step; the batches are the same */
} lac_batches_options;

/* Batches of a set, prepared once as a whole: pixels (N, C, H, W) float32, which several replicas of one process share:
 * `prepared` is lac_prepare_apply of all of it. `images` and `prepared` are borrowed and must outlive the batches.
 * Costs memory for 2 points row numbers and one batch, two when ahead. Errors: INPUT when the replica's part is less
 * than a batch, USAGE (an option out of range, padding that is not smaller than a side, an unlabelled set), MEMORY.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_batches_create(lac_context *context, const lac_images *images,
                                                   const float *prepared, const lac_batches_options *options,
                                                   lac_batches **batches);

/* Destroys and nulls; takes NULL. Ends the thread, if there is one. Local. */
LAC_API void lac_batches_destroy(lac_batches **batches);

/* Local. */
LAC_API int64_t lac_batches_points(const lac_batches *batches);   /* pictures of this replica */
LAC_API int64_t lac_batches_per_pass(const lac_batches *batches); /* B = floor(points / batch) */

/* Batch `step` (from 0; pass step / B, whose partial batch is dropped): *pictures (batch, C, H, W), aligned to 64
 * bytes, and *labels (batch), borrowed until the next call. Steps may be asked for in any order; one after another is
 * quickest, a new pass costs a shuffle. One thread at a time. Errors: USAGE for a step below 0. Local. */
LAC_API LAC_MUST_USE lac_status lac_batches_get(lac_context *context, lac_batches *batches, int64_t step,
                                                const float **pictures, const int32_t **labels);

/* How many pictures of a set of `count` no replica sees, with n replicas of the fraction f each. Local. */
LAC_API int64_t lac_batches_unseen(int64_t count, int64_t replicas, double fraction);

#ifdef __cplusplus
}
#endif

#endif
