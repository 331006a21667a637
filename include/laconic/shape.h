/* The shape of a picture, as data sets and networks mean it. */
#ifndef LACONIC_SHAPE_H
#define LACONIC_SHAPE_H

#include <stdint.h>

/* Pixels in memory are (channels, height, width), width fastest. */
typedef struct lac_image_shape {
  int64_t channels, height, width;
} lac_image_shape;

#endif
