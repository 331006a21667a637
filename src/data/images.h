/* What a set of pictures is inside the room. */
#ifndef LACONIC_DATA_IMAGES_H
#define LACONIC_DATA_IMAGES_H

#include "laconic/dataset.h"
#include "laconic/images.h"

enum { LAC_IMAGES_FILES = 5 }; /* most files of a set: CIFAR-10's training part */

struct lac_images {
  char *source;
  int files;
  lac_dataset *file[LAC_IMAGES_FILES]; /* their rows one after another are the rows that `order` names */
  bool interleaved;                    /* a row of a file is (H, W, C) rather than (C, H, W) */
  lac_image_shape shape;
  int64_t count;   /* N */
  int64_t *order;  /* (N) rows of the files; NULL: all, as they come */
  int32_t *labels; /* (N) or NULL */
  int64_t classes;
};

/* C H W. The shape of a set never overflows it. */
static inline int64_t lac_shape_pixels(lac_image_shape shape) {
  return shape.channels * shape.height * shape.width;
}

/* Pixels of a shape that a caller or a file names. Errors: USAGE when there are none or too many to count. */
LAC_MUST_USE lac_status lac_shape_check(lac_context *context, lac_image_shape shape, int64_t *pixels);

/* Pictures that make a block of about a quarter of a megabyte as float32, at least 1. */
int64_t lac_images_block(const lac_images *images);

/* Pictures [first, first + count), which must be there, as float32 into out (count, C, H, W). Errors: IO, INPUT,
 * MEMORY, and INTERRUPTED. */
LAC_MUST_USE lac_status lac_images_read(lac_context *context, const lac_images *images, int64_t first, int64_t count,
                                        float *out);

/* Calls `take` for each block of pictures in turn: pixels (count, C, H, W), which it may change. Errors: as reading,
 * and what take returns. */
typedef lac_status (*lac_take_pictures)(void *argument, lac_context *context, int64_t first, int64_t count,
                                        float *pixels);
LAC_MUST_USE lac_status lac_images_each(lac_context *context, const lac_images *images, lac_take_pictures take,
                                        void *argument);

/* lac_images_fingerprint without the labels. */
LAC_MUST_USE lac_status lac_images_pixel_fingerprint(lac_context *context, const lac_images *images,
                                                     uint64_t *fingerprint);

#endif
