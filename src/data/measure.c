/* Passes over all values: range, fingerprint, variance. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "data/fingerprint.h"
#include "data/format.h"

/* ---- Range ---- */

typedef struct range {
  double low, high;
  int64_t bad_row, bad_column;
} range;

static void range_bytes(range *self, const uint8_t *values, int64_t n) {
  uint8_t low = 255, high = 0;
  for (int64_t i = 0; i < n; i++) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  self->low = fmin(self->low, low);
  self->high = fmax(self->high, high);
}

/* The first value that is not finite, if it is the file's first. */
static void note_bad(range *self, const double *values, int64_t first, int64_t columns, int64_t n) {
  for (int64_t i = 0; i < n && self->bad_row < 0; i++) {
    if (!isfinite(values[i])) {
      self->bad_row = first + i / columns;
      self->bad_column = i % columns;
    }
  }
}

static void range_doubles(range *self, const double *values, int64_t first, int64_t columns, int64_t n) {
  double low = INFINITY, high = -INFINITY;
  int64_t bad = 0;
  for (int64_t i = 0; i < n; i++) {
    double value = values[i];
    bool finite = fabs(value) <= 0x1.fffffffffffffp1023;
    bad += !finite;
    low = finite && value < low ? value : low;
    high = finite && value > high ? value : high;
  }
  self->low = fmin(self->low, low);
  self->high = fmax(self->high, high);
  if (bad > 0) {
    note_bad(self, values, first, columns, n);
  }
}

static lac_status interrupted(lac_context *context, const lac_dataset *dataset) {
  return lac_context_interrupted(context)
             ? lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted during a pass over it", dataset->storage->path)
             : LAC_OK;
}

static lac_status range_block(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                              double *values, range *found) {
  LAC_TRY(interrupted(context, dataset));
  size_t stride;
  const uint8_t *bytes = lac_dataset_bytes(dataset, &stride);
  if (!bytes) {
    LAC_TRY(lac_dataset_read_f64(context, dataset, first, count, values));
    range_doubles(found, values, first, dataset->columns, count * dataset->columns);
    return LAC_OK;
  }
  LAC_TRY(lac_dataset_check_rows(context, dataset, first, count));
  for (int64_t i = first; i < first + count; i++) {
    range_bytes(found, bytes + (size_t)i * stride, dataset->columns);
  }
  return LAC_OK;
}

lac_status lac_dataset_range(lac_context *context, const lac_dataset *dataset, double *low, double *high,
                             int64_t *bad_row, int64_t *bad_column) {
  range found = {.low = INFINITY, .high = -INFINITY, .bad_row = -1, .bad_column = -1};
  int64_t block = lac_dataset_block(dataset);
  double *values;
  LAC_TRY(lac_allocate(context, block * dataset->columns, sizeof *values, (void **)&values));
  lac_status status = LAC_OK;
  for (int64_t first = 0; first < dataset->rows && !status; first += block) {
    int64_t count = dataset->rows - first < block ? dataset->rows - first : block;
    status = range_block(context, dataset, first, count, values, &found);
  }
  lac_free(values);
  bool some = found.low <= found.high;
  *low = some ? found.low : NAN;
  *high = some ? found.high : NAN;
  *bad_row = found.bad_row;
  *bad_column = found.bad_column;
  return status;
}

lac_status lac_dataset_check(lac_context *context, const lac_dataset *dataset, double *low, double *high) {
  double least, most;
  int64_t row, column;
  LAC_TRY(lac_dataset_range(context, dataset, &least, &most, &row, &column));
  if (row >= 0) {
    double *values;
    LAC_TRY(lac_allocate(context, dataset->columns, sizeof *values, (void **)&values));
    lac_status status = lac_dataset_read_f64(context, dataset, row, 1, values);
    if (!status) {
      status =
          lac_fail(context, LAC_E_INPUT, "%s: row %" PRId64 ", column %" PRId64 ": found %f, expected a finite value",
                   dataset->storage->path, dataset->first_row + row, column, values[column]);
    }
    lac_free(values);
    return status;
  }
  if (low) {
    *low = least;
  }
  if (high) {
    *high = most;
  }
  return LAC_OK;
}

/* ---- Fingerprint ---- */

/* Rows [first, first + count) in native byte order, *stride bytes apart: where they are, if they are bytes in memory,
 * else in `values` (count, row_bytes). */
static lac_status native_rows(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                              uint8_t *values, const uint8_t **rows, size_t *stride) {
  const uint8_t *bytes = lac_dataset_bytes(dataset, stride);
  if (bytes) {
    *rows = bytes + (size_t)first * *stride;
    return lac_dataset_check_rows(context, dataset, first, count);
  }
  *rows = values;
  *stride = (size_t)dataset->columns * lac_type_size(dataset->type);
  return lac_dataset_read_native(context, dataset, first, count, values);
}

lac_status lac_dataset_fingerprint(lac_context *context, const lac_dataset *dataset, uint64_t *fingerprint) {
  size_t size = lac_type_size(dataset->type), row_bytes = (size_t)dataset->columns * size, stride;
  int64_t block = lac_dataset_block(dataset);
  const uint8_t *rows = lac_dataset_bytes(dataset, &stride);
  uint8_t *values;
  LAC_TRY(lac_allocate(context, rows ? 0 : block * dataset->columns, size, (void **)&values));
  /* The type counts by its name: the numbers of an enumeration may change. */
  uint64_t name = 0, hash = lac_fingerprint_absorb((uint64_t)dataset->rows, (uint64_t)dataset->columns);
  memcpy(&name, lac_type_name(dataset->type), strlen(lac_type_name(dataset->type)));
  hash = lac_fingerprint_absorb(hash, name);
  lac_status status = LAC_OK;
  for (int64_t first = 0; first < dataset->rows && !status; first += block) {
    int64_t count = dataset->rows - first < block ? dataset->rows - first : block;
    LAC_TRY_GOTO(status, interrupted(context, dataset), failed);
    LAC_TRY_GOTO(status, native_rows(context, dataset, first, count, values, &rows, &stride), failed);
    for (int64_t i = 0; i < count; i++) {
      hash = lac_fingerprint_absorb(hash, lac_fingerprint_row(rows + (size_t)i * stride, row_bytes));
    }
  }
  *fingerprint = lac_fingerprint_finish(hash);

failed:
  lac_free(values);
  return status;
}

/* ---- Variance ---- */

enum { VARIANCE_CHUNKS = 256, VARIANCE_ROWS = 64, VARIANCE_SUMS = 1 << 20, VARIANCE_PIECE = 1 << 15 };

/* Work shared by the threads. Chunks depend on the dataset alone; what a chunk sums up is kept apart and added in the
 * order of chunks, so that the threads do not matter. */
typedef struct variance {
  const lac_dataset *dataset;
  int64_t chunks, chunk_rows;
  double *sums;    /* (chunks, D) */
  double *mean;    /* (D) */
  double *squares; /* (chunks) */
} variance;

static void chunk_rows(const variance *self, int64_t chunk, int64_t *first, int64_t *count) {
  *first = chunk * self->chunk_rows;
  int64_t left = self->dataset->rows - *first;
  *count = left < self->chunk_rows ? left : self->chunk_rows;
}

/* Calls `take` for each block of a chunk's rows, as float64. */
static lac_status each_block(variance *self, lac_context *context, int64_t chunk,
                             void (*take)(variance *self, int64_t chunk, const double *row)) {
  int64_t first, count, block = lac_dataset_block(self->dataset), columns = self->dataset->columns;
  chunk_rows(self, chunk, &first, &count);
  double *values;
  LAC_TRY(lac_allocate(context, (block < count ? block : count) * columns, sizeof *values, (void **)&values));
  lac_status status = LAC_OK;
  for (int64_t i = 0; i < count && !status; i += block) {
    int64_t rows = count - i < block ? count - i : block;
    LAC_TRY_GOTO(status, interrupted(context, self->dataset), failed);
    LAC_TRY_GOTO(status, lac_dataset_read_f64(context, self->dataset, first + i, rows, values), failed);
    for (int64_t row = 0; row < rows; row++) {
      take(self, chunk, values + row * columns);
    }
  }

failed:
  lac_free(values);
  return status;
}

static void take_sum(variance *self, int64_t chunk, const double *row) {
  double *sums = self->sums + chunk * self->dataset->columns;
  for (int64_t j = 0; j < self->dataset->columns; j++) {
    sums[j] += row[j];
  }
}

static void take_square(variance *self, int64_t chunk, const double *row) {
  double sum = 0;
  for (int64_t j = 0; j < self->dataset->columns; j++) {
    double from_mean = row[j] - self->mean[j];
    sum += from_mean * from_mean;
  }
  self->squares[chunk] += sum;
}

static lac_status sum_chunk(void *argument, lac_context *context, int64_t chunk, int thread) {
  (void)thread;
  return each_block(argument, context, chunk, take_sum);
}

static lac_status square_chunk(void *argument, lac_context *context, int64_t chunk, int thread) {
  (void)thread;
  return each_block(argument, context, chunk, take_square);
}

static lac_status variance_of_reals(lac_context *context, variance *self, int64_t threads, double *result) {
  int64_t columns = self->dataset->columns;
  LAC_TRY(lac_parallel(context, threads, self->chunks, sum_chunk, self));
  for (int64_t j = 0; j < columns; j++) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < self->chunks; chunk++) {
      sum += self->sums[chunk * columns + j];
    }
    self->mean[j] = sum / (double)self->dataset->rows;
  }
  LAC_TRY(lac_parallel(context, threads, self->chunks, square_chunk, self));
  double total = 0;
  for (int64_t chunk = 0; chunk < self->chunks; chunk++) {
    total += self->squares[chunk];
  }
  *result = total / (double)self->dataset->rows;
  return LAC_OK;
}

/* Sums of bytes and of their squares are exact integers: one pass, any order. */
typedef struct byte_sums {
  const variance *chunks;
  uint64_t *sums;    /* (threads, D) */
  uint64_t *squares; /* (threads) */
} byte_sums;

/* The sum of squares of up to 2^15 bytes fits 32 bits. */
static uint32_t square_piece(const uint8_t *values, int64_t n) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += (uint32_t)values[i] * values[i];
  }
  return sum;
}

static lac_status sum_bytes(void *argument, lac_context *context, int64_t chunk, int thread) {
  byte_sums *self = argument;
  const lac_dataset *dataset = self->chunks->dataset;
  int64_t first, count, columns = dataset->columns;
  size_t stride;
  const uint8_t *bytes = lac_dataset_bytes(dataset, &stride);
  uint64_t *sums = self->sums + thread * columns;
  chunk_rows(self->chunks, chunk, &first, &count);
  LAC_TRY(interrupted(context, dataset));
  LAC_TRY(lac_dataset_check_rows(context, dataset, first, count));
  for (int64_t i = first; i < first + count; i++) {
    const uint8_t *row = bytes + (size_t)i * stride;
    for (int64_t j = 0; j < columns; j++) {
      sums[j] += row[j];
    }
    for (int64_t j = 0; j < columns; j += VARIANCE_PIECE) {
      self->squares[thread] += square_piece(row + j, columns - j < VARIANCE_PIECE ? columns - j : VARIANCE_PIECE);
    }
  }
  return LAC_OK;
}

static lac_status variance_of_bytes(lac_context *context, const variance *chunks, int64_t threads, double *result) {
  int64_t columns = chunks->dataset->columns;
  __extension__ typedef unsigned __int128 wide;
  byte_sums self = {.chunks = chunks};
  threads = threads > chunks->chunks ? chunks->chunks : threads < 1 ? 1 : threads;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, threads * columns, &self.sums), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, threads, &self.squares), failed);
  LAC_TRY_GOTO(status, lac_parallel(context, threads, chunks->chunks, sum_bytes, &self), failed);
  wide squares = 0, products = 0, rows = (wide)chunks->dataset->rows;
  for (int64_t i = 0; i < threads; i++) {
    squares += self.squares[i];
  }
  for (int64_t j = 0; j < columns; j++) {
    wide sum = 0;
    for (int64_t i = 0; i < threads; i++) {
      sum += self.sums[i * columns + j];
    }
    products += sum * sum;
  }
  *result = (double)(rows * squares - products) / (double)rows / (double)rows;

failed:
  lac_free(self.squares);
  lac_free(self.sums);
  return status;
}

lac_status lac_dataset_variance(lac_context *context, const lac_dataset *dataset, int64_t threads, double *result) {
  size_t stride;
  variance self = {.dataset = dataset};
  int64_t most = VARIANCE_SUMS / dataset->columns, columns = dataset->columns;
  most = most < 1 ? 1 : most > VARIANCE_CHUNKS ? VARIANCE_CHUNKS : most;
  self.chunk_rows = (dataset->rows + most - 1) / most;
  self.chunk_rows = self.chunk_rows < VARIANCE_ROWS ? VARIANCE_ROWS : self.chunk_rows;
  self.chunks = (dataset->rows + self.chunk_rows - 1) / self.chunk_rows;
  if (lac_dataset_bytes(dataset, &stride)) {
    return variance_of_bytes(context, &self, threads, result);
  }
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, self.chunks * columns, &self.sums), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, columns, &self.mean), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, self.chunks, &self.squares), failed);
  status = variance_of_reals(context, &self, threads, result);

failed:
  lac_free(self.squares);
  lac_free(self.mean);
  lac_free(self.sums);
  return status;
}
