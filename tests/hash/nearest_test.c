/* The k nearest of keys known up to an error, against sorting the true keys. */
#include "hash/nearest.h"

#include <math.h>

#include "base/random.h"
#include "support.h"

enum { MOST = 6000, BURST = 16 };

typedef struct {
  double truth[MOST];
  double order[MOST]; /* of ids by (truth, id) */
  int64_t settled;
} stream;

static stream *sorting;

static int by_truth(const void *left, const void *right) {
  int a = (int)*(const double *)left, b = (int)*(const double *)right;
  if (sorting->truth[a] != sorting->truth[b]) {
    return sorting->truth[a] < sorting->truth[b] ? -1 : 1;
  }
  return (a > b) - (a < b);
}

static lac_status settle(void *argument, lac_context *context, int32_t id, double *key) {
  (void)context;
  stream *from = argument;
  from->settled++;
  *key = from->truth[id];
  return LAC_OK;
}

/* Keys somewhere within their errors, ends included. */
static double blur(lac_random *random, double truth, float error) {
  int64_t where = lac_random_below(random, 4);
  double offset = where == 0 ? -1 : where == 1 ? 1 : 2 * lac_random_uniform(random) - 1;
  return truth + offset * (double)error;
}

static void check(lac_context *context, stream *from, lac_random *random, int64_t count, int64_t k, double error,
                  double exact_share) {
  int32_t *ids = malloc((size_t)k * sizeof *ids);
  lac_nearest nearest = {.k = k, .capacity = lac_nearest_capacity(k, BURST), .limit = INFINITY};
  lac_nearest_tools tools;
  nearest.list = malloc((size_t)nearest.capacity * sizeof *nearest.list);
  assert_true(ids && nearest.list);
  assert_ok(context, lac_nearest_tools_create(context, nearest.capacity, settle, from, &tools));
  from->settled = 0;
  for (int64_t i = 0; i < count; i++) {
    if (i % BURST == 0) {
      assert_ok(context, lac_nearest_thin(context, &nearest, BURST, &tools));
    }
    float mine = lac_random_uniform(random) < exact_share ? 0 : (float)error;
    lac_nearest_push(&nearest, blur(random, from->truth[i], mine), mine, i);
  }
  int64_t open = lac_nearest_close(&nearest, &tools), counted = 0;
  for (int64_t i = 0; i < nearest.count; i++) {
    counted += nearest.list[i].error > 0;
    nearest.list[i].key = nearest.list[i].error > 0 ? from->truth[nearest.list[i].id] : nearest.list[i].key;
  }
  assert_int_equal(open, counted);
  lac_nearest_write(&nearest, ids);
  for (int64_t i = 0; i < count; i++) {
    from->order[i] = (double)i;
  }
  sorting = from;
  qsort(from->order, (size_t)count, sizeof *from->order, by_truth);
  for (int64_t i = 0; i < k; i++) {
    assert_int_equal(ids[i], (int)from->order[i]);
  }
  if (error == 0) {
    assert_int_equal(open + from->settled, 0);
  }
  assert_true(from->settled <= count);
  lac_nearest_tools_free(&tools);
  free(nearest.list);
  free(ids);
}

/* Truths in any order; from a handful of values, so that there are ties; all equal; falling; negative zeros. */
static double make_truth(lac_random *random, int kind, int64_t i) {
  switch (kind) {
    case 0:
      return lac_random_normal(random);
    case 1:
      return (double)lac_random_below(random, 12) - 6;
    case 2:
      return -3;
    case 3:
      return -(double)i;
    case 4:
      return (double)i;
    default:
      return i % 2 ? 0.0 : -0.0;
  }
}

static void streams_give_the_nearest(void **state) {
  stream *from = malloc(sizeof *from);
  assert_non_null(from);
  lac_random random = lac_random_stream(1, LAC_RANDOM_TEST, 0, 0);
  const int64_t counts[] = {1, 2, 40, 700, MOST};
  const double errors[] = {0, 1e-3, 0.5, 1e9};
  for (int kind = 0; kind < 6; kind++) {
    for (int c = 0; c < 5; c++) {
      for (int64_t i = 0; i < counts[c]; i++) {
        from->truth[i] = make_truth(&random, kind, i);
      }
      for (int e = 0; e < 4; e++) {
        const int64_t ks[] = {1, (counts[c] + 9) / 10, (counts[c] + 1) / 2, counts[c]};
        for (int k = 0; k < 4; k++) {
          check(*state, from, &random, counts[c], ks[k], errors[e], 0);
          check(*state, from, &random, counts[c], ks[k], errors[e], 0.5);
        }
      }
    }
  }
  free(from);
}

/* Keys further apart than their errors are never settled. */
static void what_is_clear_is_not_settled(void **state) {
  stream *from = malloc(sizeof *from);
  assert_non_null(from);
  lac_random random = lac_random_stream(2, LAC_RANDOM_TEST, 0, 0);
  int64_t order[MOST];
  lac_random_permutation(&random, MOST, order);
  for (int64_t i = 0; i < MOST; i++) {
    from->truth[i] = (double)order[i];
  }
  check(*state, from, &random, MOST, 100, 0.4, 0);
  assert_int_equal(from->settled, 0);
  free(from);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_give_the_nearest),
      cmocka_unit_test(what_is_clear_is_not_settled),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
