#include <inttypes.h>
#include <math.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "hash/model.h"
#include "math/blas.h"

/* Rows of one product, and products of one chunk of the parallel loop. */
enum { ROWS = 96, PRODUCTS = 8 };

typedef struct lac_error_room {
  float *x;       /* (ROWS, D) */
  float *z;       /* (ROWS, L) */
  float *decoded; /* (ROWS, D) */
} lac_error_room;

typedef struct lac_error {
  const lac_hash *model;
  const lac_dataset *dataset;
  const uint8_t *codes;
  lac_error_room *rooms; /* one a thread */
  double *sums;          /* one a chunk */
} lac_error;

/* Codes of `count` rows as numbers 0 and 1. */
static void unpack(const uint8_t *codes, int64_t count, int64_t bits, float *z) {
  int64_t bytes = (bits + 7) / 8;
  for (int64_t i = 0; i < count; i++) {
    for (int64_t l = 0; l < bits; l++) {
      z[i * bits + l] = (float)(codes[i * bytes + l / 8] >> (l % 8) & 1);
    }
  }
}

/* |x - decoded - offset|^2 in four running sums, which the processor adds side by side. */
static double row_error(const float *x, const float *decoded, const float *offset, int64_t columns) {
  double sums[4] = {0};
  int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    for (int k = 0; k < 4; k++) {
      double difference = (double)x[j + k] - decoded[j + k] - offset[j + k];
      sums[k] += difference * difference;
    }
  }
  for (; j < columns; j++) {
    double difference = (double)x[j] - decoded[j] - offset[j];
    sums[0] += difference * difference;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static lac_status error_of_rows(const lac_error *work, lac_context *context, const lac_error_room *room, int64_t row,
                                int64_t count, double *sum) {
  const lac_hash *model = work->model;
  const int64_t L = model->bits, D = model->columns;
  LAC_TRY(lac_dataset_read_f32(context, work->dataset, row, count, room->x));
  unpack(work->codes + row * ((L + 7) / 8), count, L, room->z);
  lac_sgemm(false, true, count, D, L, 1, room->z, L, model->decoder, L, 0, room->decoded, D);
  for (int64_t i = 0; i < count; i++) {
    double error = row_error(room->x + i * D, room->decoded + i * D, model->offset, D);
    if (!isfinite(error)) {
      LAC_TRY(lac_check_finite(context, work->dataset, row + i, room->x + i * D, 1));
      return lac_fail(context, LAC_E_NUMERICAL, "%s: row %" PRId64 ": its reconstruction is too large for float32",
                      lac_dataset_path(work->dataset), lac_dataset_first_row(work->dataset) + row + i);
    }
    *sum += error;
  }
  return LAC_OK;
}

static lac_status error_of_chunk(void *argument, lac_context *context, int64_t chunk, int thread) {
  const lac_error *work = argument;
  int64_t row = chunk * ROWS * PRODUCTS, end = row + ROWS * PRODUCTS;
  end = end < lac_dataset_rows(work->dataset) ? end : lac_dataset_rows(work->dataset);
  for (; row < end; row += ROWS) {
    int64_t count = end - row < ROWS ? end - row : ROWS;
    LAC_TRY(error_of_rows(work, context, &work->rooms[thread], row, count, &work->sums[chunk]));
  }
  return lac_context_interrupted(context) ? lac_fail(context, LAC_E_INTERRUPTED, "the measurement was interrupted")
                                          : LAC_OK;
}

static lac_status sum_errors(lac_context *context, lac_error *work, int64_t threads, int64_t chunks, double *sum) {
  const lac_hash *model = work->model;
  LAC_TRY(LAC_NEW(context, chunks, &work->sums));
  LAC_TRY(LAC_NEW(context, threads, &work->rooms));
  for (int64_t i = 0; i < threads; i++) {
    LAC_TRY(LAC_NEW(context, ROWS * model->columns, &work->rooms[i].x));
    LAC_TRY(LAC_NEW(context, ROWS * model->bits, &work->rooms[i].z));
    LAC_TRY(LAC_NEW(context, ROWS * model->columns, &work->rooms[i].decoded));
  }
  LAC_TRY(lac_parallel(context, threads, chunks, error_of_chunk, work));
  for (int64_t i = 0; i < chunks; i++) {
    *sum += work->sums[i];
  }
  return LAC_OK;
}

lac_status lac_hash_error(lac_context *context, const lac_hash *model, const lac_dataset *dataset, const uint8_t *codes,
                          int64_t threads, double *error) {
  LAC_TRY(lac_hash_check_columns(context, model, dataset));
  lac_error work = {.model = model, .dataset = dataset, .codes = codes};
  int64_t rows = lac_dataset_rows(dataset), chunks = (rows + ROWS * PRODUCTS - 1) / (ROWS * PRODUCTS);
  threads = threads < 1 ? 1 : threads > chunks ? chunks : threads;
  double sum = 0;
  lac_status status = sum_errors(context, &work, threads, chunks, &sum);
  for (int64_t i = 0; i < threads && work.rooms; i++) {
    lac_free(work.rooms[i].x);
    lac_free(work.rooms[i].z);
    lac_free(work.rooms[i].decoded);
  }
  lac_free(work.rooms);
  lac_free(work.sums);
  *error = sum / (double)rows;
  return status;
}
