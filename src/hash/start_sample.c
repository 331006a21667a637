/* The sample that a start is found from, and the equal points in it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "hash/start.h"

lac_status lac_start_sample_create(lac_context *context, const lac_team *team, const lac_rows *const *rows,
                                   int64_t seed, int64_t total, lac_start_sample *sample) {
  int64_t *counts = NULL, all = 0;
  lac_status status = LAC_OK;
  *sample = (lac_start_sample){0};
  LAC_TRY_GOTO(status, LAC_NEW(context, team->count, &counts), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, team->count, &sample->shards), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_SAMPLE_BLOCK * rows[0]->padded, &sample->block), done);
  for (int shard = 0; shard < team->count; shard++) {
    counts[shard] = rows[shard]->count;
  }
  LAC_TRY_GOTO(status, lac_team_sum_i64(context, team, counts, 1, &all), done);
  for (int shard = 0; shard < team->count; shard++) {
    int64_t size = rows[shard]->count;
    int64_t count = (int64_t)ceil((double)size * (double)total / (double)all);
    count = count < size ? count : size;
    counts[shard] = count;
    lac_start_shard *part = &sample->shards[shard];
    *part = (lac_start_shard){.count = count, .rows = *rows[shard]};
    LAC_TRY_GOTO(status, LAC_NEW(context, count, &part->numbers), done);
    lac_sample_rows(seed, LAC_SAMPLE_START, team->first + shard, size, count, part->numbers);
    if (!part->rows.bytes) {
      LAC_TRY_GOTO(status, lac_rows_copy(context, rows[shard], part->numbers, count, &part->copy), done);
      part->rows = part->copy.rows;
      lac_free(part->numbers);
      part->numbers = NULL;
    }
  }
  status = lac_team_sum_i64(context, team, counts, 1, &sample->total);
done:
  lac_free(counts);
  return status;
}

void lac_start_sample_clear(const lac_team *team, lac_start_sample *sample) {
  for (int shard = 0; sample->shards && shard < team->count; shard++) {
    lac_row_copy_clear(&sample->shards[shard].copy);
    lac_free(sample->shards[shard].numbers);
  }
  lac_free(sample->shards);
  lac_free(sample->block);
  *sample = (lac_start_sample){0};
}

static lac_status read_rows(lac_context *context, const lac_start_shard *part, int64_t first, int64_t n, float *x) {
  if (!part->numbers) {
    return lac_rows_read(context, &part->rows, first, n, x);
  }
  for (int64_t i = 0; i < n; i++) {
    LAC_TRY(lac_rows_read(context, &part->rows, part->numbers[first + i], 1, x + i * part->rows.padded));
  }
  return LAC_OK;
}

lac_status lac_start_blocks(lac_context *context, const lac_start_sample *sample, int shard, lac_sample_work work,
                            void *self) {
  const lac_start_shard *part = &sample->shards[shard];
  for (int64_t first = 0, n; first < part->count; first += n) {
    n = part->count - first < LAC_SAMPLE_BLOCK ? part->count - first : LAC_SAMPLE_BLOCK;
    LAC_TRY(read_rows(context, part, first, n, sample->block));
    LAC_TRY(work(self, context, first, n, sample->block));
  }
  return LAC_OK;
}

static int compare_keys(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

/* Equal rows have equal keys; different ones collide with probability 2^-64 a pair. */
static uint64_t row_key(const float *row, int64_t padded) {
  uint64_t key = 0;
  for (int64_t c = 0; c < padded; c += 2) {
    uint64_t bits;
    memcpy(&bits, row + c, sizeof bits);
    key = (key ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29;
  }
  return key;
}

typedef struct lac_row_keys {
  int64_t padded;
  uint64_t *keys;
} lac_row_keys;

static lac_status take_keys(void *self, lac_context *context, int64_t first, int64_t n, const float *x) {
  (void)context;
  const lac_row_keys *taken = self;
  for (int64_t i = 0; i < n; i++) {
    taken->keys[first + i] = row_key(x + i * taken->padded, taken->padded);
  }
  return LAC_OK;
}

static lac_status count_duplicates(lac_context *context, const lac_start_sample *sample, int shard, int64_t *count) {
  int64_t rows = sample->shards[shard].count;
  lac_row_keys taken = {.padded = sample->shards[shard].rows.padded};
  LAC_TRY(LAC_NEW(context, rows, &taken.keys));
  lac_status status = lac_start_blocks(context, sample, shard, take_keys, &taken);
  if (!status) {
    qsort(taken.keys, (size_t)rows, sizeof *taken.keys, compare_keys);
  }
  *count = 0;
  for (int64_t i = 1; !status && i < rows; i++) {
    *count += taken.keys[i] == taken.keys[i - 1];
  }
  lac_free(taken.keys);
  return status;
}

lac_status lac_start_duplicates(lac_context *context, const lac_team *team, const lac_start_sample *sample,
                                int64_t *duplicates) {
  int64_t *counts;
  LAC_TRY(LAC_NEW(context, team->count, &counts));
  lac_status status = LAC_OK;
  for (int shard = 0; !status && shard < team->count; shard++) {
    status = count_duplicates(context, sample, shard, &counts[shard]);
  }
  if (!status) {
    status = lac_team_sum_i64(context, team, counts, 1, duplicates);
  }
  lac_free(counts);
  return status;
}
