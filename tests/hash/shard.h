/* A shard of made-up data with a trainer over it, for the tests of the trainer's steps. */
#ifndef LACONIC_TESTS_SHARD_H
#define LACONIC_TESTS_SHARD_H

#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "hash/trainer.h"
#include "support.h"

typedef struct shard {
  lac_trainer trainer;
  lac_dataset *data;
  void *values;
  float *shift;
} shard;

/* What the shards of a test share. */
static inline lac_training make_training(const lac_hash_options *options, int64_t columns, int total) {
  return (lac_training){.options = options,
                        .team = {.total = total, .count = total},
                        .bits = options->bits,
                        .words = (options->bits + 63) / 64,
                        .columns = columns,
                        .features = columns,
                        .variance = 1,
                        .precondition = {.floor = 1, .trace = 1}};
}

static inline lac_hash_options some_options(int64_t bits, int64_t threads) {
  return (lac_hash_options){.bits = bits, .method = LAC_HASH_BA, .threads = threads, .seed = 5, .penalty = 1e-4};
}

/* Rows around a few centres, as bytes or as floats; the mean is about zero in training units. */
static inline void make_shard(lac_context *context, const lac_training *common, int64_t number, int64_t rows,
                              bool bytes, shard *made) {
  const int64_t columns = common->columns, padded = lac_padded(columns);
  const size_t stride = bytes ? (size_t)columns + 3 : (size_t)columns * sizeof(float); /* bytes with gaps */
  *made = (shard){0};
  lac_random stream = lac_random_stream(21, LAC_RANDOM_TEST, (uint64_t)columns, (uint64_t)number);
  lac_random centres = lac_random_stream(22, LAC_RANDOM_TEST, (uint64_t)columns, 0);
  assert_ok(context, lac_allocate(context, rows, stride, &made->values));
  assert_ok(context, LAC_NEW(context, padded, &made->shift));
  double *centre;
  assert_ok(context, LAC_NEW(context, 5 * columns, &centre));
  for (int64_t i = 0; i < 5 * columns; i++) {
    centre[i] = 60 + 130 * lac_random_uniform(&centres);
  }
  for (int64_t i = 0; i < rows; i++) {
    const double *around = centre + lac_random_below(&stream, 5) * columns;
    for (int64_t c = 0; c < columns; c++) {
      double value = around[c] + 20 * lac_random_normal(&stream);
      value = value < 0 ? 0 : value > 255 ? 255 : value;
      if (bytes) {
        ((uint8_t *)made->values)[(size_t)i * stride + (size_t)c] = (uint8_t)value;
      } else {
        ((float *)made->values)[i * columns + c] = (float)value;
      }
    }
  }
  for (int64_t c = 0; c < columns; c++) {
    for (int j = 0; j < 5; j++) {
      made->shift[c] -= (float)(centre[j * columns + c] / 5 / 255);
    }
  }
  lac_free(centre);
  assert_ok(context,
            lac_dataset_borrow(context, made->values, bytes ? LAC_U8 : LAC_F32, rows, columns, stride, &made->data));
  lac_rows view = {.data = made->data,
                   .count = rows,
                   .columns = columns,
                   .padded = padded,
                   .scale = 1.0F / 255,
                   .shift = made->shift,
                   .kernels = lac_linear(lac_cpu_isa())};
  view.bytes = lac_dataset_bytes(made->data, &view.stride);
  assert_true(bytes == (view.bytes != NULL));
  made->trainer.x = made->trainer.input = view;
  assert_ok(context, lac_trainer_create(context, common, number, &made->trainer));
}

static inline void drop_shard(shard *made) {
  lac_trainer_clear(&made->trainer);
  lac_dataset_destroy(&made->data);
  lac_free(made->values);
  lac_free(made->shift);
}

/* x' of a row and column, in double precision. */
static inline double value_at(const shard *from, int64_t row, int64_t column) {
  const lac_rows *x = &from->trainer.x;
  double value = x->bytes ? x->bytes[(size_t)row * x->stride + (size_t)column]
                          : (double)((const float *)from->values)[row * x->columns + column];
  return (double)x->scale * value + (double)x->shift[column];
}

static inline int bit_of(const uint64_t *codes, int64_t words, int64_t row, int64_t bit) {
  return (int)(codes[row * words + bit / 64] >> (bit % 64) & 1);
}

static inline void set_bit(uint64_t *codes, int64_t words, int64_t row, int64_t bit, int value) {
  uint64_t mark = UINT64_C(1) << (bit % 64), *word = &codes[row * words + bit / 64];
  *word = value ? *word | mark : *word & ~mark;
}

static inline void random_codes(const lac_training *common, int64_t rows, lac_random *stream, uint64_t *codes) {
  for (int64_t i = 0; i < rows * common->bits; i++) {
    set_bit(codes, common->words, i / common->bits, i % common->bits, (int)(lac_random_bits(stream) >> 7 & 1));
  }
}

/* Weights of normal numbers, the padding zero. */
static inline void random_encoder(lac_trainer *trainer, lac_random *stream) {
  for (int64_t l = 0; l < trainer->common->bits; l++) {
    for (int64_t c = 0; c < trainer->input.columns; c++) {
      trainer->model.weight[l * trainer->input.padded + c] = (float)lac_random_normal(stream);
    }
    trainer->model.bias[l] = (float)(0.2 * lac_random_normal(stream));
  }
}

/* A decoder and an offset of the size that data of this kind have. */
static inline void random_decoder(lac_trainer *trainer, double size, lac_random *stream) {
  for (int64_t l = 0; l <= trainer->common->bits; l++) {
    for (int64_t c = 0; c < trainer->x.columns; c++) {
      trainer->model.decoder[l * trainer->x.padded + c] = (float)(size * lac_random_normal(stream));
    }
  }
}

/* w_l x + b_l of a row of a linear encoder, in double precision. */
static inline double margin_of(const shard *from, int64_t row, int64_t bit) {
  const lac_trainer *trainer = &from->trainer;
  double sum = (double)trainer->model.bias[bit];
  for (int64_t c = 0; c < trainer->x.columns; c++) {
    sum += (double)trainer->model.weight[bit * trainer->x.padded + c] * value_at(from, row, c);
  }
  return sum;
}

#endif
