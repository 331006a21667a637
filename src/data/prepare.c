/* Preparations: fitting the simple ones, and applying any. */
#include "data/prepare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Pictures that a product with the whitening matrix takes at a time: more leave the cache. */
enum { PRODUCT_PICTURES = 128 };

const char *const lac_prepare_names[] = {"none", "scale", "channels", "zca", NULL};

void lac_prepare_destroy(lac_prepare **prepare) {
  if (*prepare) {
    lac_factor_destroy(&(*prepare)->factor);
    lac_free((*prepare)->whitening);
    lac_free((*prepare)->scale);
    lac_free((*prepare)->mean);
    lac_free(*prepare);
    *prepare = NULL;
  }
}

lac_prepare_kind lac_prepare_kind_of(const lac_prepare *prepare) {
  return prepare->kind;
}
lac_image_shape lac_prepare_shape(const lac_prepare *prepare) {
  return prepare->shape;
}

static lac_status allocate_arrays(lac_context *context, lac_prepare *prepare) {
  switch (prepare->kind) {
    case LAC_PREPARE_NONE:
      return LAC_OK;
    case LAC_PREPARE_SCALE:
      LAC_TRY(LAC_NEW(context, 1, &prepare->mean));
      return LAC_NEW(context, 1, &prepare->scale);
    case LAC_PREPARE_CHANNELS:
      LAC_TRY(LAC_NEW(context, prepare->shape.channels, &prepare->mean));
      return LAC_NEW(context, prepare->shape.channels, &prepare->scale);
    case LAC_PREPARE_ZCA:
      if (prepare->pixels > LAC_ZCA_PIXELS) {
        return lac_fail(context, LAC_E_INPUT, "zca: found pictures of %" PRId64 " pixels, expected at most %d",
                        prepare->pixels, (int)LAC_ZCA_PIXELS);
      }
      LAC_TRY(LAC_NEW(context, prepare->pixels, &prepare->mean));
      return LAC_NEW(context, prepare->pixels * prepare->pixels, &prepare->whitening);
  }
  return lac_fail(context, LAC_E_USAGE, "preparation: found kind %d, expected none, scale, channels or zca",
                  (int)prepare->kind);
}

lac_status lac_prepare_create(lac_context *context, lac_prepare_kind kind, lac_image_shape shape,
                              lac_prepare **prepare) {
  *prepare = NULL;
  int64_t pixels;
  lac_prepare *made;
  LAC_TRY(lac_shape_check(context, shape, &pixels));
  LAC_TRY(LAC_NEW(context, 1, &made));
  made->kind = kind;
  made->shape = shape;
  made->pixels = pixels;
  lac_status status = allocate_arrays(context, made);
  if (status) {
    lac_prepare_destroy(&made);
    return status;
  }
  *prepare = made;
  return LAC_OK;
}

lac_status lac_prepare_complete(lac_context *context, lac_prepare *prepare) {
  return prepare->whitening ? lac_factor_create(context, lac_cpu_isa(), prepare->whitening, prepare->pixels,
                                                prepare->pixels, &prepare->factor)
                            : LAC_OK;
}

/* ---- Fitting ---- */

/* Pixels are in groups of which each has a mean and a deviation: all of them, or the channels. */
typedef struct moments {
  int64_t groups, length; /* pixels of a picture in each */
  double *mean, *square;  /* (groups) sums; in the second pass square adds up distances from the mean */
  bool second;
} moments;

static double sum_of(const float *values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += values[i];
  }
  return sum;
}

static double square_of(const float *values, int64_t n, double mean) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += (values[i] - mean) * (values[i] - mean);
  }
  return sum;
}

static lac_status take_moments(void *argument, lac_context *context, int64_t first, int64_t count, float *pixels) {
  moments *self = argument;
  (void)context, (void)first;
  for (int64_t i = 0; i < count * self->groups; i++, pixels += self->length) {
    int64_t group = i % self->groups;
    if (self->second) {
      self->square[group] += square_of(pixels, self->length, self->mean[group]);
    } else {
      self->mean[group] += sum_of(pixels, self->length);
    }
  }
  return LAC_OK;
}

static lac_status fit_moments(lac_context *context, const lac_images *images, moments *self, lac_prepare *prepare) {
  double count = (double)images->count * (double)self->length;
  LAC_TRY(LAC_NEW(context, self->groups, &self->mean));
  LAC_TRY(LAC_NEW(context, self->groups, &self->square));
  LAC_TRY(lac_images_each(context, images, take_moments, self));
  for (int64_t i = 0; i < self->groups; i++) {
    self->mean[i] /= count;
  }
  self->second = true;
  LAC_TRY(lac_images_each(context, images, take_moments, self));
  for (int64_t i = 0; i < self->groups; i++) {
    double deviation = sqrt(self->square[i] / count);
    prepare->mean[i] = (float)self->mean[i];
    prepare->scale[i] = deviation > 0 ? (float)(1 / deviation) : 1;
    if (!isfinite(prepare->scale[i]) || !isfinite(prepare->mean[i])) {
      return lac_fail(context, LAC_E_NUMERICAL,
                      "%s: found mean %g and deviation %g of the pixels, expected them within the range of float32",
                      images->source, self->mean[i], deviation);
    }
  }
  return LAC_OK;
}

static lac_status fit_groups(lac_context *context, const lac_images *images, int64_t groups, lac_prepare *prepare) {
  moments self = {.groups = groups, .length = prepare->pixels / groups};
  lac_status status = fit_moments(context, images, &self, prepare);
  lac_free(self.square);
  lac_free(self.mean);
  return status;
}

static lac_status fit_kind(lac_context *context, const lac_images *images, double epsilon, lac_prepare *prepare) {
  switch (prepare->kind) {
    case LAC_PREPARE_SCALE:
      return fit_groups(context, images, 1, prepare);
    case LAC_PREPARE_CHANNELS:
      return fit_groups(context, images, images->shape.channels, prepare);
    case LAC_PREPARE_ZCA:
      return lac_zca_fit(context, images, epsilon, prepare);
    default:
      return LAC_OK;
  }
}

static lac_status fit_fresh(lac_context *context, const lac_images *images, lac_prepare_kind kind, double epsilon,
                            lac_prepare **prepare) {
  lac_prepare *made;
  LAC_TRY(lac_prepare_create(context, kind, images->shape, &made));
  lac_status status = fit_kind(context, images, epsilon, made);
  if (!status) {
    status = lac_prepare_complete(context, made);
  }
  if (status) {
    lac_prepare_destroy(&made);
    return status;
  }
  *prepare = made;
  return LAC_OK;
}

static lac_status fit_cached(lac_context *context, const lac_images *images, double epsilon, const char *cache,
                             lac_prepare **prepare) {
  uint64_t fingerprint;
  LAC_TRY(lac_images_pixel_fingerprint(context, images, &fingerprint));
  LAC_TRY(lac_zca_cache_read(context, cache, images->shape, fingerprint, epsilon, prepare));
  if (*prepare) {
    return LAC_OK;
  }
  LAC_TRY(fit_fresh(context, images, LAC_PREPARE_ZCA, epsilon, prepare));
  lac_status status = lac_zca_cache_write(context, cache, *prepare, fingerprint, epsilon);
  if (status) {
    lac_prepare_destroy(prepare);
  }
  return status;
}

lac_status lac_prepare_fit(lac_context *context, const lac_images *images, lac_prepare_kind kind, double zca_epsilon,
                           const char *cache, lac_prepare **prepare) {
  *prepare = NULL;
  if (kind != LAC_PREPARE_ZCA) {
    return fit_fresh(context, images, kind, zca_epsilon, prepare);
  }
  if (!(zca_epsilon > 0) || !isfinite(zca_epsilon)) {
    return lac_fail(context, LAC_E_USAGE, "zca: found epsilon %g, expected more than 0", zca_epsilon);
  }
  return cache ? fit_cached(context, images, zca_epsilon, cache, prepare)
               : fit_fresh(context, images, kind, zca_epsilon, prepare);
}

/* ---- Applying ---- */

static void shift_and_scale(const lac_prepare *prepare, int64_t groups, int64_t count, float *pixels) {
  int64_t length = prepare->pixels / groups;
  for (int64_t i = 0; i < count * groups; i++, pixels += length) {
    float mean = prepare->mean[i % groups], scale = prepare->scale[i % groups];
    for (int64_t j = 0; j < length; j++) {
      pixels[j] = (pixels[j] - mean) * scale;
    }
  }
}

void lac_prepare_contrast(int64_t pixels, float *picture) {
  double mean = sum_of(picture, pixels) / (double)pixels;
  double variance = square_of(picture, pixels, mean) / (double)pixels;
  double scale = 1 / sqrt(variance + LAC_CONTRAST_FLOOR);
  for (int64_t i = 0; i < pixels; i++) {
    picture[i] = (float)((picture[i] - mean) * scale);
  }
}

/* Up to PRODUCT_PICTURES. product (pictures, width of the factor). */
static void whiten(const lac_prepare *prepare, int64_t count, float *pixels, float *product) {
  int64_t n = prepare->pixels, width = lac_factor_width(prepare->factor);
  for (int64_t i = 0; i < count; i++) {
    float *picture = pixels + i * n;
    lac_prepare_contrast(n, picture);
    for (int64_t j = 0; j < n; j++) {
      picture[j] -= prepare->mean[j];
    }
  }
  lac_factor_product(prepare->factor, pixels, count, product);
  for (int64_t i = 0; i < count; i++) {
    memcpy(pixels + i * n, product + i * width, (size_t)n * sizeof *pixels);
  }
}

static lac_status whiten_all(lac_context *context, const lac_prepare *prepare, int64_t count, float *pixels) {
  float *product;
  int64_t most = count < PRODUCT_PICTURES ? count : PRODUCT_PICTURES;
  LAC_TRY(LAC_NEW(context, most * lac_factor_width(prepare->factor), &product));
  for (int64_t i = 0; i < count; i += most) {
    whiten(prepare, count - i < most ? count - i : most, pixels + i * prepare->pixels, product);
  }
  lac_free(product);
  return LAC_OK;
}

lac_status lac_prepare_pixels(lac_context *context, const lac_prepare *prepare, int64_t count, float *pixels) {
  switch (prepare->kind) {
    case LAC_PREPARE_SCALE:
      shift_and_scale(prepare, 1, count, pixels);
      return LAC_OK;
    case LAC_PREPARE_CHANNELS:
      shift_and_scale(prepare, prepare->shape.channels, count, pixels);
      return LAC_OK;
    case LAC_PREPARE_ZCA:
      return whiten_all(context, prepare, count, pixels);
    default:
      return LAC_OK;
  }
}

lac_status lac_prepare_apply(lac_context *context, const lac_prepare *prepare, const lac_images *images, int64_t first,
                             int64_t count, float *out) {
  lac_image_shape has = images->shape, takes = prepare->shape;
  if (has.channels != takes.channels || has.height != takes.height || has.width != takes.width) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: found pictures of %" PRId64 " x %" PRId64 " x %" PRId64 ", expected %" PRId64 " x %" PRId64
                    " x %" PRId64 " as they are prepared",
                    images->source, has.channels, has.height, has.width, takes.channels, takes.height, takes.width);
  }
  if (first < 0 || count < 0 || first > images->count || count > images->count - first) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: %" PRId64 " pictures from %" PRId64 " on asked for, expected them among 0 to %" PRId64,
                    images->source, count, first, images->count - 1);
  }
  for (int64_t i = 0; i < count; i += PRODUCT_PICTURES) {
    int64_t pictures = count - i < PRODUCT_PICTURES ? count - i : PRODUCT_PICTURES;
    float *pixels = out + i * prepare->pixels;
    LAC_TRY(lac_images_read(context, images, first + i, pictures, pixels));
    LAC_TRY(lac_prepare_pixels(context, prepare, pictures, pixels));
  }
  return LAC_OK;
}
