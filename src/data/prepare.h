/* What a preparation is inside the room. */
#ifndef LACONIC_DATA_PREPARE_H
#define LACONIC_DATA_PREPARE_H

#include "data/images.h"
#include "math/product.h"

/* Added to the variance of a picture whose contrast is normalised, for pixels from 0 to 255. */
#define LAC_CONTRAST_FLOOR 10.0

enum { LAC_ZCA_PIXELS = 32768 }; /* most pixels of a picture: a covariance of 8 GiB */

struct lac_prepare {
  lac_prepare_kind kind;
  lac_image_shape shape;
  int64_t pixels;     /* D = C H W */
  float *mean;        /* scale (1), channels (C), zca (D), none NULL */
  float *scale;       /* scale (1), channels (C), else NULL */
  float *whitening;   /* zca (D, D), symmetric, else NULL */
  lac_factor *factor; /* zca: the same, as the product wants it */
};

/* Allocates what the kind has, all zero. Errors: USAGE for a shape without pixels, INPUT for zca of more than
 * LAC_ZCA_PIXELS, MEMORY. */
LAC_MUST_USE lac_status lac_prepare_create(lac_context *context, lac_prepare_kind kind, lac_image_shape shape,
                                           lac_prepare **prepare);

/* To be called when the arrays are filled. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_prepare_complete(lac_context *context, lac_prepare *prepare);

/* Prepares pictures in place: pixels (count, C, H, W). Errors: MEMORY. */
LAC_MUST_USE lac_status lac_prepare_pixels(lac_context *context, const lac_prepare *prepare, int64_t count,
                                           float *pixels);

/* (x - mean) / sqrt(variance + 10) of one picture, in place. */
void lac_prepare_contrast(int64_t pixels, float *picture);

/* Fills a preparation of kind zca. Errors: as lac_prepare_fit. */
LAC_MUST_USE lac_status lac_zca_fit(lac_context *context, const lac_images *images, double epsilon,
                                    lac_prepare *prepare);

/* The preparation of kind zca in a cache; *prepare stays NULL when there is none of these pixels and this epsilon.
 * Errors: INPUT when the file is no cache or damaged, OUTPUT when there is none and none can be written, IO, MEMORY. */
LAC_MUST_USE lac_status lac_zca_cache_read(lac_context *context, const char *path, lac_image_shape shape,
                                           uint64_t fingerprint, double epsilon, lac_prepare **prepare);
LAC_MUST_USE lac_status lac_zca_cache_write(lac_context *context, const char *path, const lac_prepare *prepare,
                                            uint64_t fingerprint, double epsilon);

#endif
