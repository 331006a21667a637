#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/random.h"
#include "laconic/images.h"

static int by_number(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

static lac_status select_sorted(lac_context *context, const lac_images *images, int64_t *rows, int64_t count,
                                lac_images **selected) {
  qsort(rows, (size_t)count, sizeof *rows, by_number);
  return count > 0 ? lac_images_select(context, images, count, rows, selected) : LAC_OK;
}

lac_status lac_images_split(lac_context *context, const lac_images *images, int64_t seed, int64_t held,
                            lac_images **rest, lac_images **held_out) {
  int64_t count = lac_images_count(images), *order;
  *rest = *held_out = NULL;
  if (held < 0 || held > count) {
    return lac_fail(context, LAC_E_USAGE, "%s: %" PRId64 " pictures held out, expected 0 to %" PRId64,
                    lac_images_source(images), held, count);
  }
  LAC_TRY(LAC_NEW(context, count, &order));
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_HELD_OUT, 0, 0);
  lac_random_permutation(&stream, count, order);
  lac_status status = select_sorted(context, images, order, held, held_out);
  if (!status) {
    status = select_sorted(context, images, order + held, count - held, rest);
  }
  if (status) {
    lac_images_destroy(held_out);
  }
  lac_free(order);
  return status;
}
