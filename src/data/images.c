/* Sets of pictures: reading them, and parts of them. How a set is opened is in images_open.c. */
#include "data/images.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/fingerprint.h"
#include "data/format.h"

enum { BLOCK_PIXELS = 1 << 16 };

void lac_images_destroy(lac_images **images) {
  if (!*images) {
    return;
  }
  for (int i = 0; i < (*images)->files; i++) {
    lac_dataset_destroy(&(*images)->file[i]);
  }
  lac_free((*images)->order);
  lac_free((*images)->labels);
  free((*images)->source);
  lac_free(*images);
  *images = NULL;
}

int64_t lac_images_count(const lac_images *images) {
  return images->count;
}
lac_image_shape lac_images_shape(const lac_images *images) {
  return images->shape;
}
int64_t lac_images_classes(const lac_images *images) {
  return images->classes;
}
const int32_t *lac_images_labels(const lac_images *images) {
  return images->labels;
}
const char *lac_images_source(const lac_images *images) {
  return images->source;
}

lac_status lac_shape_check(lac_context *context, lac_image_shape shape, int64_t *pixels) {
  if (shape.channels < 1 || shape.height < 1 || shape.width < 1 ||
      __builtin_mul_overflow(shape.channels, shape.height, pixels) ||
      __builtin_mul_overflow(*pixels, shape.width, pixels)) {
    return lac_fail(context, LAC_E_USAGE,
                    "shape: found %" PRId64 " x %" PRId64 " x %" PRId64
                    ", expected channels, height and width from 1 up",
                    shape.channels, shape.height, shape.width);
  }
  return LAC_OK;
}

int64_t lac_images_block(const lac_images *images) {
  int64_t pictures = BLOCK_PIXELS / lac_shape_pixels(images->shape);
  return pictures < 1 ? 1 : pictures;
}

/* ---- Parts of a set ---- */

static lac_status copy_selected(lac_context *context, const lac_images *images, int64_t rows, const int64_t *order,
                                lac_images *made) {
  LAC_TRY(lac_copy_text(context, images->source, &made->source));
  LAC_TRY(LAC_NEW(context, rows, &made->order));
  if (images->labels) {
    LAC_TRY(LAC_NEW(context, rows, &made->labels));
  }
  for (int64_t i = 0; i < rows; i++) {
    made->order[i] = images->order ? images->order[order[i]] : order[i];
    if (images->labels) {
      made->labels[i] = images->labels[order[i]];
    }
  }
  for (; made->files < images->files; made->files++) {
    const lac_dataset *file = images->file[made->files];
    LAC_TRY(lac_dataset_slice(context, file, 0, lac_dataset_rows(file), &made->file[made->files]));
  }
  return LAC_OK;
}

lac_status lac_images_select(lac_context *context, const lac_images *images, int64_t rows, const int64_t *order,
                             lac_images **selected) {
  *selected = NULL;
  if (rows < 1) {
    return lac_fail(context, LAC_E_USAGE, "%s: %" PRId64 " pictures selected, expected at least 1", images->source,
                    rows);
  }
  for (int64_t i = 0; i < rows; i++) {
    if (order[i] < 0 || order[i] >= images->count) {
      return lac_fail(context, LAC_E_USAGE, "%s: picture %" PRId64 " selected, expected 0 to %" PRId64, images->source,
                      order[i], images->count - 1);
    }
  }
  lac_images *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  made->interleaved = images->interleaved;
  made->shape = images->shape;
  made->count = rows;
  made->classes = images->classes;
  lac_status status = copy_selected(context, images, rows, order, made);
  if (status) {
    lac_images_destroy(&made);
    return status;
  }
  *selected = made;
  return LAC_OK;
}

/* ---- Reading ---- */

/* (H, W, C) to (C, H, W). */
static void separate(lac_image_shape shape, const float *from, float *to) {
  int64_t plane = shape.height * shape.width;
  for (int64_t i = 0; i < plane; i++) {
    for (int64_t c = 0; c < shape.channels; c++) {
      to[c * plane + i] = *from++;
    }
  }
}

/* Rows [row, row + count) of the files, which lie in one. */
static lac_status read_run(lac_context *context, const lac_images *images, int64_t row, int64_t count, float *scratch,
                           float *out) {
  int64_t pixels = lac_shape_pixels(images->shape);
  int file = 0;
  while (row >= lac_dataset_rows(images->file[file])) {
    row -= lac_dataset_rows(images->file[file++]);
  }
  LAC_TRY(lac_dataset_read_f32(context, images->file[file], row, count, out));
  for (int64_t i = 0; images->interleaved && i < count; i++) {
    memcpy(scratch, out + i * pixels, (size_t)pixels * sizeof *scratch);
    separate(images->shape, scratch, out + i * pixels);
  }
  return LAC_OK;
}

/* How many of pictures [first, first + count) lie one after another in one file, from first on. */
static int64_t run_length(const lac_images *images, int64_t first, int64_t count) {
  int64_t row = images->order ? images->order[first] : first, left = row;
  int file = 0;
  while (left >= lac_dataset_rows(images->file[file])) {
    left -= lac_dataset_rows(images->file[file++]);
  }
  int64_t most = lac_dataset_rows(images->file[file]) - left, length = 1;
  most = most < count ? most : count;
  if (!images->order) {
    return most;
  }
  while (length < most && images->order[first + length] == row + length) {
    length++;
  }
  return length;
}

lac_status lac_images_read(lac_context *context, const lac_images *images, int64_t first, int64_t count, float *out) {
  if (lac_context_interrupted(context)) {
    return lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted while it was read", images->source);
  }
  int64_t pixels = lac_shape_pixels(images->shape);
  float *scratch = NULL;
  if (images->interleaved) {
    LAC_TRY(LAC_NEW(context, pixels, &scratch));
  }
  lac_status status = LAC_OK;
  for (int64_t i = 0, length; i < count && !status; i += length) {
    length = run_length(images, first + i, count - i);
    int64_t row = images->order ? images->order[first + i] : first + i;
    status = read_run(context, images, row, length, scratch, out + i * pixels);
  }
  lac_free(scratch);
  return status;
}

lac_status lac_images_each(lac_context *context, const lac_images *images, lac_take_pictures take, void *argument) {
  int64_t block = lac_images_block(images);
  float *pixels;
  LAC_TRY(LAC_NEW(context, block * lac_shape_pixels(images->shape), &pixels));
  lac_status status = LAC_OK;
  for (int64_t first = 0; first < images->count && !status; first += block) {
    int64_t count = images->count - first < block ? images->count - first : block;
    status = lac_images_read(context, images, first, count, pixels);
    if (!status) {
      status = take(argument, context, first, count, pixels);
    }
  }
  lac_free(pixels);
  return status;
}

/* ---- Fingerprint ---- */

typedef struct running_hash {
  size_t bytes; /* of a picture */
  uint64_t hash;
} running_hash;

static lac_status take_hash(void *argument, lac_context *context, int64_t first, int64_t count, float *pixels) {
  running_hash *self = argument;
  const uint8_t *picture = (const uint8_t *)pixels;
  (void)context, (void)first;
  for (int64_t i = 0; i < count; i++, picture += self->bytes) {
    self->hash = lac_fingerprint_absorb(self->hash, lac_fingerprint_row(picture, self->bytes));
  }
  return LAC_OK;
}

/* Before it is finished. */
static lac_status hash_pixels(lac_context *context, const lac_images *images, uint64_t *hash) {
  running_hash self = {.bytes = (size_t)lac_shape_pixels(images->shape) * sizeof(float)};
  self.hash = lac_fingerprint_absorb((uint64_t)images->count, (uint64_t)images->shape.channels);
  self.hash = lac_fingerprint_absorb(self.hash, (uint64_t)images->shape.height);
  self.hash = lac_fingerprint_absorb(self.hash, (uint64_t)images->shape.width);
  LAC_TRY(lac_images_each(context, images, take_hash, &self));
  *hash = self.hash;
  return LAC_OK;
}

lac_status lac_images_pixel_fingerprint(lac_context *context, const lac_images *images, uint64_t *fingerprint) {
  uint64_t hash;
  LAC_TRY(hash_pixels(context, images, &hash));
  *fingerprint = lac_fingerprint_finish(hash);
  return LAC_OK;
}

lac_status lac_images_fingerprint(lac_context *context, const lac_images *images, uint64_t *fingerprint) {
  uint64_t hash;
  LAC_TRY(hash_pixels(context, images, &hash));
  for (int64_t i = 0; images->labels && i < images->count; i++) {
    hash = lac_fingerprint_absorb(hash, (uint64_t)images->labels[i]);
  }
  *fingerprint = lac_fingerprint_finish(hash);
  return LAC_OK;
}
