#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "laconic/hash.h"

typedef struct lac_remainder {
  long double part; /* of a point that rounding down took away */
  int worker;
} lac_remainder;

static int larger_first(const void *a, const void *b) {
  const lac_remainder *x = a, *y = b;
  if (x->part != y->part) {
    return x->part > y->part ? -1 : 1;
  }
  return x->worker < y->worker ? -1 : 1;
}

static int largest_share(int workers, const int64_t *counts) {
  int largest = 0;
  for (int i = 1; i < workers; i++) {
    largest = counts[i] > counts[largest] ? i : largest;
  }
  return largest;
}

static lac_status check_speeds(lac_context *context, int workers, const double *speeds, long double *sum) {
  *sum = 0;
  for (int i = 0; i < workers; i++) {
    double speed = speeds ? speeds[i] : 1;
    if (!isfinite(speed) || speed <= 0) {
      return lac_fail(context, LAC_E_USAGE, "speed of worker %d: found %g, expected a number above 0", i, speed);
    }
    *sum += speed;
  }
  return LAC_OK;
}

lac_status lac_hash_shares(lac_context *context, int64_t rows, int workers, const double *speeds, int64_t *counts) {
  if (workers < 1 || workers > rows) {
    return lac_fail(context, LAC_E_USAGE, "workers: found %d, expected 1 to %" PRId64 ", a point for each", workers,
                    rows);
  }
  long double sum;
  LAC_TRY(check_speeds(context, workers, speeds, &sum));
  lac_remainder *order;
  LAC_TRY(LAC_NEW(context, workers, &order));
  int64_t left = rows;
  for (int i = 0; i < workers; i++) {
    long double quota = (long double)rows * (speeds ? speeds[i] : 1) / sum;
    counts[i] = (int64_t)quota;
    order[i] = (lac_remainder){quota - (long double)counts[i], i};
    left -= counts[i];
  }
  qsort(order, (size_t)workers, sizeof *order, larger_first);
  for (int i = 0; i < left; i++) {
    counts[order[i % workers].worker]++;
  }
  for (; left < 0; left++) { /* quotas rounded up */
    counts[largest_share(workers, counts)]--;
  }
  lac_free(order);
  for (int i = 0; i < workers; i++) {
    if (counts[i] == 0) {
      counts[largest_share(workers, counts)]--;
      counts[i] = 1;
    }
  }
  return LAC_OK;
}
