#include <math.h>

#include "base/memory.h"
#include "hash/model.h"
#include "math/product.h"

enum { ROWS = 120 }; /* of one product: few enough for the cache, a multiple of what every kernel takes at a time */

/* Rounding of |x|^2 + |c|^2 - 2 x.c in float32, relative to |x|^2 + |c|^2, with a margin. */
static const double rounding = 1e-6;

struct lac_rbf {
  int64_t m, columns;
  double scale; /* 1 / (2 s^2) */
  const float *centres;
  float *norms; /* (m) squared */
  lac_factor *factor;
};

static double squared_norm(const float *x, int64_t columns) {
  double sum = 0;
  for (int64_t j = 0; j < columns; j++) {
    sum += (double)x[j] * x[j];
  }
  return sum;
}

static double squared_distance(const float *x, const float *c, int64_t columns) {
  double sum = 0;
  for (int64_t j = 0; j < columns; j++) {
    double difference = (double)x[j] - c[j];
    sum += difference * difference;
  }
  return sum;
}

lac_status lac_rbf_create(lac_context *context, const float *centres, int64_t m, int64_t columns, double width,
                          lac_rbf **rbf) {
  *rbf = NULL;
  lac_rbf *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_rbf){.m = m, .columns = columns, .scale = 1 / (2 * width * width), .centres = centres};
  lac_status status = LAC_NEW(context, m, &made->norms);
  if (!status) {
    status = lac_factor_create(context, lac_cpu_isa(), centres, m, columns, &made->factor);
  }
  if (status) {
    lac_rbf_destroy(&made);
    return status;
  }
  for (int64_t i = 0; i < m; i++) {
    made->norms[i] = (float)squared_norm(centres + i * columns, columns);
  }
  *rbf = made;
  return LAC_OK;
}

void lac_rbf_destroy(lac_rbf **rbf) {
  if (*rbf) {
    lac_factor_destroy(&(*rbf)->factor);
    lac_free((*rbf)->norms);
    lac_free(*rbf);
    *rbf = NULL;
  }
}

int64_t lac_rbf_scratch(const lac_rbf *rbf) {
  return ROWS * lac_factor_width(rbf->factor);
}

/* The features of one row; products (m) are x.c. */
static void row_features(const lac_rbf *rbf, const float *x, const float *products, uint8_t *out) {
  const double x_norm = squared_norm(x, rbf->columns);
  for (int64_t i = 0; i < rbf->m; i++) {
    double size = x_norm + rbf->norms[i];
    double exponent = (size - 2.0 * products[i]) * rbf->scale;
    double error = size * rounding * rbf->scale;
    /* Data far from the origin, of which the difference of large numbers would say little: subtract first. Not where
     * the feature is 0 for certain, exp(-7) being below a half of 1 / 255. */
    if (!(error < 2e-4) && !(exponent - error > 7)) {
      exponent = squared_distance(x, rbf->centres + i * rbf->columns, rbf->columns) * rbf->scale;
    }
    float value = expf((float)-(exponent > 0 ? exponent : 0));
    out[i] = (uint8_t)(255 * value + 0.5F);
  }
}

void lac_rbf_features(const lac_rbf *rbf, const float *x, int64_t n, float *scratch, uint8_t *out) {
  int64_t width = lac_factor_width(rbf->factor);
  for (int64_t first = 0; first < n; first += ROWS) {
    int64_t count = n - first < ROWS ? n - first : ROWS;
    lac_factor_product(rbf->factor, x + first * rbf->columns, count, scratch);
    for (int64_t i = 0; i < count; i++) {
      row_features(rbf, x + (first + i) * rbf->columns, scratch + i * width, out + (first + i) * rbf->m);
    }
  }
}
