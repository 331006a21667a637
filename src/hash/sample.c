#include "hash/sample.h"

#include "base/memory.h"
#include "base/random.h"

void lac_sample_rows(int64_t seed, lac_sample purpose, int64_t shard, int64_t of, int64_t count, int64_t *rows) {
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_SAMPLE, (uint64_t)purpose, (uint64_t)shard);
  int64_t width = count ? of / count : 0, longer = count ? of % count : 0, first = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t stratum = width + (i < longer);
    rows[i] = first + lac_random_below(&stream, stratum);
    first += stratum;
  }
}

lac_status lac_rows_gather(lac_context *context, const lac_rows *source, const int64_t *rows, int64_t count,
                           float *out) {
  for (int64_t i = 0; i < count; i++) {
    LAC_TRY(lac_rows_read(context, source, rows[i], 1, out + i * source->padded));
  }
  return LAC_OK;
}
