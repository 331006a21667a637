/* Samples of a shard's rows: one row from each of `count` strata of equal size, so that no row comes twice, the rows
 * come in order, and a sorted file is sampled evenly. */
#ifndef LACONIC_HASH_SAMPLE_H
#define LACONIC_HASH_SAMPLE_H

#include "hash/trainer.h"

typedef enum lac_sample { LAC_SAMPLE_START, LAC_SAMPLE_VALIDATION, LAC_SAMPLE_CENTRES } lac_sample;

/* rows (count) = row numbers of the sample, count <= of. Keyed by (seed, purpose, shard). */
void lac_sample_rows(int64_t seed, lac_sample purpose, int64_t shard, int64_t of, int64_t count, int64_t *rows);

/* A copy of rows, in the units of the data: as bytes where the source is bytes in memory, else as floats. */
typedef struct lac_row_copy {
  lac_rows rows; /* a view of the copy, as the source is one of the data */
  lac_dataset *data;
  void *memory;
} lac_row_copy;

LAC_MUST_USE lac_status lac_rows_copy(lac_context *context, const lac_rows *source, const int64_t *rows, int64_t count,
                                      lac_row_copy *copy);
void lac_row_copy_clear(lac_row_copy *copy);

#endif
