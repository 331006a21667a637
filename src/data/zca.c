/* Whitening by zero-phase component analysis: the linear map that makes pixels uncorrelated and changes pictures least.
 * Source: Bell and Sejnowski 1997; contrast normalisation and epsilon as in Coates, Ng and Lee 2011. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "data/prepare.h"
#include "math/blas.h"

/* Pictures whose products are summed in float32; the sums of blocks are added in float64. */
enum { BLOCK_PICTURES = 1024 };

typedef struct zca {
  int64_t pixels; /* D */
  double low, high;
  double *mean;       /* (D) */
  float *block;       /* (BLOCK_PICTURES, D) */
  float *product;     /* (D, D), upper triangle */
  double *covariance; /* (D, D), upper triangle, then both */
} zca;

static lac_status take_mean(void *argument, lac_context *context, int64_t first, int64_t count, float *pixels) {
  zca *self = argument;
  (void)context, (void)first;
  for (int64_t i = 0; i < count; i++, pixels += self->pixels) {
    float low = pixels[0], high = pixels[0];
    for (int64_t j = 0; j < self->pixels; j++) {
      low = pixels[j] < low ? pixels[j] : low;
      high = pixels[j] > high ? pixels[j] : high;
    }
    self->low = fmin(self->low, low);
    self->high = fmax(self->high, high);
    lac_prepare_contrast(self->pixels, pixels);
    for (int64_t j = 0; j < self->pixels; j++) {
      self->mean[j] += pixels[j];
    }
  }
  return LAC_OK;
}

static lac_status fit_mean(lac_context *context, const lac_images *images, zca *self, float *mean) {
  self->low = INFINITY;
  self->high = -INFINITY;
  LAC_TRY(lac_images_each(context, images, take_mean, self));
  if (self->low < 0 || self->high > 255 || self->high <= 1) {
    return lac_fail(context, LAC_E_INPUT, "%s: found pixels from %g to %g, expected them to use 0 to 255 for zca",
                    images->source, self->low, self->high);
  }
  for (int64_t j = 0; j < self->pixels; j++) {
    self->mean[j] /= (double)images->count;
    mean[j] = (float)self->mean[j];
  }
  return LAC_OK;
}

/* Adds the products of `count` pictures, each less the mean, to the covariance. */
static void add_products(zca *self, int64_t count) {
  int64_t n = self->pixels;
  for (int64_t i = 0; i < count; i++) {
    float *picture = self->block + i * n;
    lac_prepare_contrast(n, picture);
    for (int64_t j = 0; j < n; j++) {
      picture[j] = (float)(picture[j] - self->mean[j]);
    }
  }
  lac_ssyrk(n, count, self->block, n, self->product);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = i; j < n; j++) {
      self->covariance[i * n + j] += self->product[i * n + j];
    }
  }
}

static lac_status fit_covariance(lac_context *context, const lac_images *images, zca *self) {
  int64_t n = self->pixels;
  for (int64_t first = 0; first < images->count; first += BLOCK_PICTURES) {
    int64_t count = images->count - first < BLOCK_PICTURES ? images->count - first : BLOCK_PICTURES;
    LAC_TRY(lac_images_read(context, images, first, count, self->block));
    add_products(self, count);
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = i; j < n; j++) {
      self->covariance[i * n + j] /= (double)images->count;
      self->covariance[j * n + i] = self->covariance[i * n + j];
    }
  }
  return LAC_OK;
}

/* W = V diag((values + epsilon)^-1/2) V'. `covariance` is destroyed. */
static lac_status whitening_of(lac_context *context, int64_t n, double *covariance, double epsilon, double *values,
                               double *vectors, float *whitening) {
  LAC_TRY(lac_symmetric_eigen(context, n, covariance, n, values, vectors));
  for (int64_t i = 0; i < n; i++) {
    double root = pow(fmax(values[i], 0) + epsilon, -0.25); /* a covariance has none below 0 but by rounding */
    for (int64_t j = 0; j < n; j++) {
      vectors[i * n + j] *= root;
    }
  }
  double *product = covariance;
  lac_dgemm(true, false, n, n, n, 1, vectors, n, vectors, n, 0, product, n);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = i; j < n; j++) {
      whitening[i * n + j] = whitening[j * n + i] = (float)product[i * n + j];
    }
  }
  return LAC_OK;
}

static lac_status fit_whitening(lac_context *context, zca *self, double epsilon, float *whitening) {
  int64_t n = self->pixels;
  double *values = NULL, *vectors = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &values), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n * n, &vectors), done);
  status = whitening_of(context, n, self->covariance, epsilon, values, vectors, whitening);

done:
  lac_free(vectors);
  lac_free(values);
  return status;
}

static lac_status check_whitening(lac_context *context, const lac_images *images, const float *whitening, int64_t n) {
  for (int64_t i = 0; i < n * n; i++) {
    if (!isfinite(whitening[i])) {
      return lac_fail(context, LAC_E_NUMERICAL, "%s: the whitening of its pixels left the range of float32",
                      images->source);
    }
  }
  return LAC_OK;
}

lac_status lac_zca_fit(lac_context *context, const lac_images *images, double epsilon, lac_prepare *prepare) {
  zca self = {.pixels = prepare->pixels};
  int64_t n = self.pixels;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &self.mean), done);
  LAC_TRY_GOTO(status, fit_mean(context, images, &self, prepare->mean), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, BLOCK_PICTURES * n, &self.block), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n * n, &self.product), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n * n, &self.covariance), done);
  LAC_TRY_GOTO(status, fit_covariance(context, images, &self), done);
  lac_free(self.product);
  self.product = NULL;
  LAC_TRY_GOTO(status, fit_whitening(context, &self, epsilon, prepare->whitening), done);
  status = check_whitening(context, images, prepare->whitening, n);

done:
  lac_free(self.covariance);
  lac_free(self.product);
  lac_free(self.block);
  lac_free(self.mean);
  return status;
}
