#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "math/blas.h"
#include "plan/calibration.h"

/* Chosen so that codes of the drawn points have as many bits to change in a Z step as those of Fashion-MNIST and of
 * bench/generate_vectors have, or between the two: bits that change are what its time depends on. */
enum { DIRECTIONS = 128, CLUSTERS = 200, BLOCK = 256 };
static const double decay = 0.9, within = 0.2, spread = 40;

typedef struct drawing {
  int64_t columns, directions;
  float *map;     /* (directions, columns) */
  float *centres; /* (CLUSTERS, directions) */
  float *latent;  /* (BLOCK, directions) */
  float *values;  /* (BLOCK, columns) */
} drawing;

static lac_status drawing_create(lac_context *context, int64_t columns, drawing *made) {
  int64_t directions = columns < DIRECTIONS ? columns : DIRECTIONS;
  *made = (drawing){.columns = columns, .directions = directions};
  LAC_TRY(LAC_NEW(context, directions * columns, &made->map));
  LAC_TRY(LAC_NEW(context, CLUSTERS * directions, &made->centres));
  LAC_TRY(LAC_NEW(context, BLOCK * directions, &made->latent));
  LAC_TRY(LAC_NEW(context, BLOCK * columns, &made->values));
  lac_random stream = lac_random_stream(0, LAC_RANDOM_CALIBRATE, 0, (uint64_t)columns);
  double total = 0, between = spread * sqrt(fmin(1, DIRECTIONS / (double)columns)); /* noise adds up over columns */
  for (int64_t k = 0; k < directions; k++) {
    total += pow(1 + (double)k, -decay);
  }
  for (int64_t k = 0; k < directions; k++) {
    double deviation = between * sqrt(pow(1 + (double)k, -decay) / total);
    for (int64_t c = 0; c < columns; c++) {
      made->map[k * columns + c] = (float)(deviation * lac_random_normal(&stream));
    }
  }
  for (int64_t i = 0; i < CLUSTERS * directions; i++) {
    made->centres[i] = (float)lac_random_normal(&stream);
  }
  return LAC_OK;
}

static void drawing_clear(drawing *made) {
  lac_free(made->map);
  lac_free(made->centres);
  lac_free(made->latent);
  lac_free(made->values);
}

/* Bits of a half-precision number that is a whole one from 0 to 255. */
static uint16_t half_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return value < 1 ? 0 : (uint16_t)((((bits >> 23) - 127 + 15) << 10) | (bits >> 13 & 0x3ff));
}

static void store(lac_type type, float value, char *out) {
  int64_t whole = (int64_t)value;
  double real = (double)value;
  uint16_t half = half_of(value);
  switch (type) { /* little-endian hosts only, as the readers are */
    case LAC_I8:
      whole -= 128;
      memcpy(out, &whole, sizeof(int8_t));
      break;
    case LAC_F16:
      memcpy(out, &half, sizeof half);
      break;
    case LAC_F32:
      memcpy(out, &value, sizeof value);
      break;
    case LAC_F64:
      memcpy(out, &real, sizeof real);
      break;
    case LAC_U8:
    case LAC_I32:
    case LAC_I64:
    case LAC_I16:
    default:
      memcpy(out, &whole, lac_type_size(type));
  }
}

/* Values of BLOCK rows from row `first` on. */
static void draw_block(drawing *made, int64_t first) {
  lac_random stream = lac_random_stream(0, LAC_RANDOM_CALIBRATE, 1 + (uint64_t)first, (uint64_t)made->columns);
  int64_t directions = made->directions, columns = made->columns;
  for (int64_t i = 0; i < BLOCK; i++) {
    const float *centre = made->centres + lac_random_below(&stream, CLUSTERS) * directions;
    for (int64_t k = 0; k < directions; k++) {
      made->latent[i * directions + k] = centre[k] + (float)(within * lac_random_normal(&stream));
    }
  }
  lac_sgemm(false, false, BLOCK, columns, directions, 1, made->latent, directions, made->map, columns, 0, made->values,
            columns);
  for (int64_t i = 0; i < BLOCK * columns; i += 4) {
    uint64_t bits = lac_random_bits(&stream);
    for (int64_t k = i; k < i + 4 && k < BLOCK * columns; k++, bits >>= 16) {
      float noise = ((float)(bits & 0xffff) / 65536 - 0.5F) * 60; /* deviation 17 */
      float value = rintf(128 + made->values[k] + noise);
      made->values[k] = value < 0 ? 0 : value > 255 ? 255 : value;
    }
  }
}

lac_status lac_draw_points(lac_context *context, lac_type type, int64_t rows, int64_t columns, void **points) {
  size_t size = lac_type_size(type);
  drawing made;
  lac_status status;
  *points = NULL;
  LAC_TRY_GOTO(status, drawing_create(context, columns, &made), done);
  LAC_TRY_GOTO(status, lac_allocate(context, rows * columns, size, points), done);
  for (int64_t first = 0; first < rows; first += BLOCK) {
    if (lac_context_interrupted(context)) {
      status = lac_fail(context, LAC_E_INTERRUPTED, "interrupted while points are drawn");
      lac_free(*points);
      *points = NULL;
      break;
    }
    int64_t count = rows - first < BLOCK ? rows - first : BLOCK;
    char *out = (char *)*points + (size_t)(first * columns) * size;
    draw_block(&made, first);
    for (int64_t i = 0; i < count * columns; i++) {
      store(type, made.values[i], out + (size_t)i * size);
    }
  }
done:
  drawing_clear(&made);
  return status;
}

lac_status lac_draw_batch(lac_context *context, const lac_net *net, lac_drawn_batch *batch) {
  lac_image_shape shape = lac_net_input(net);
  int64_t count = lac_net_batch(net), pixels = count * shape.channels * shape.height * shape.width;
  *batch = (lac_drawn_batch){0};
  LAC_TRY(LAC_NEW(context, pixels, &batch->pictures));
  LAC_TRY(LAC_NEW(context, count, &batch->labels));
  lac_random stream = lac_random_stream(0, LAC_RANDOM_CALIBRATE, 0, 0);
  for (int64_t i = 0; i < pixels; i++) {
    batch->pictures[i] = (float)lac_random_normal(&stream);
  }
  for (int64_t i = 0; i < count; i++) {
    batch->labels[i] = (int32_t)lac_random_below(&stream, lac_net_classes(net));
  }
  return LAC_OK;
}

void lac_drawn_batch_clear(lac_drawn_batch *batch) {
  lac_free(batch->pictures);
  lac_free(batch->labels);
  *batch = (lac_drawn_batch){0};
}
