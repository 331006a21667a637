/* Exact neighbours against naive distances in float64, sorted by (distance, index). */
#include <float.h>
#include <math.h>

#include "base/random.h"
#include "laconic/retrieval.h"
#include "support.h"

typedef struct {
  double distance;
  int32_t id;
} pair;

static int by_distance_and_id(const void *left, const void *right) {
  const pair *a = left, *b = right;
  if (a->distance != b->distance) {
    return a->distance < b->distance ? -1 : 1;
  }
  return (a->id > b->id) - (a->id < b->id);
}

/* The same array as float32, and as it is given to the library. */
typedef struct {
  int64_t rows, columns;
  float *values;
  uint8_t *bytes; /* NULL: given as float32 */
} array;

static array make_array(int64_t rows, int64_t columns, bool bytes) {
  array made = {rows, columns, calloc((size_t)(rows * columns), sizeof(float)), NULL};
  if (bytes) {
    made.bytes = malloc((size_t)(rows * columns));
  }
  assert_true(made.values && (made.bytes || !bytes));
  return made;
}

static void free_array(array *a) {
  free(a->values);
  free(a->bytes);
}

static lac_dataset *dataset_of(lac_context *context, array *a) {
  lac_dataset *made;
  for (int64_t i = 0; a->bytes && i < a->rows * a->columns; i++) {
    a->bytes[i] = (uint8_t)a->values[i];
  }
  size_t size = a->bytes ? 1 : sizeof(float);
  assert_ok(context,
            lac_dataset_borrow(context, a->bytes ? (void *)a->bytes : (void *)a->values, a->bytes ? LAC_U8 : LAC_F32,
                               a->rows, a->columns, (size_t)a->columns * size, &made));
  return made;
}

/* All rows in order, for every query: (queries, rows). */
static pair *sorted(const array *base, const array *query) {
  pair *all = malloc((size_t)(query->rows * base->rows) * sizeof *all);
  assert_non_null(all);
  for (int64_t q = 0; q < query->rows; q++) {
    pair *pairs = all + q * base->rows;
    for (int64_t i = 0; i < base->rows; i++) {
      double sum = 0;
      for (int64_t j = 0; j < base->columns; j++) {
        double difference = (double)base->values[i * base->columns + j] - (double)query->values[q * base->columns + j];
        sum += difference * difference;
      }
      pairs[i] = (pair){sum, (int32_t)i};
    }
    qsort(pairs, (size_t)base->rows, sizeof *pairs, by_distance_and_id);
  }
  return all;
}

static void check_neighbors(lac_context *context, array *base, array *query, const int64_t *ks, int count) {
  lac_dataset *base_set = dataset_of(context, base), *query_set = dataset_of(context, query);
  pair *truth = sorted(base, query);
  for (int c = 0; c < count; c++) {
    for (int64_t threads = 1; threads <= (c == 0 ? 3 : 1); threads += 2) {
      int64_t k = ks[c];
      int32_t *ids = malloc((size_t)(query->rows * k) * sizeof *ids);
      assert_non_null(ids);
      assert_ok(context, lac_exact_neighbors(context, base_set, query_set, k, threads, NULL, NULL, ids));
      for (int64_t i = 0; i < query->rows * k; i++) {
        const pair *expected = &truth[i / k * base->rows + i % k];
        if (ids[i] != expected->id) {
          fail_msg("query %d, place %d: found %d, expected %d (%.17g)", (int)(i / k), (int)(i % k), ids[i],
                   expected->id, expected->distance);
        }
      }
      free(ids);
    }
  }
  free(truth);
  lac_dataset_destroy(&base_set);
  lac_dataset_destroy(&query_set);
}

typedef float (*value_fn)(lac_random *random, int64_t row, int64_t column);

static float any_byte(lac_random *random, int64_t row, int64_t column) {
  (void)row;
  (void)column;
  return (float)lac_random_below(random, 256);
}

static float extreme_byte(lac_random *random, int64_t row, int64_t column) {
  (void)row;
  (void)column;
  return lac_random_below(random, 2) ? 255 : 0;
}

static float few_bytes(lac_random *random, int64_t row, int64_t column) {
  (void)column;
  return row % 3 == 0 ? 7 : (float)lac_random_below(random, 2);
}

static float normal(lac_random *random, int64_t row, int64_t column) {
  (void)row;
  (void)column;
  return (float)lac_random_normal(random);
}

/* Differences far below what float32 can tell in a product. */
static float far_from_zero(lac_random *random, int64_t row, int64_t column) {
  (void)row;
  return 1e4F * (float)(column + 1) + 0.25F * (float)lac_random_normal(random);
}

static float copies(lac_random *random, int64_t row, int64_t column) {
  (void)random;
  return sinf((float)(row % 5 * 100 + column));
}

static float one_point(lac_random *random, int64_t row, int64_t column) {
  (void)random;
  (void)row;
  return 1 / (float)(column + 3);
}

static float huge(lac_random *random, int64_t row, int64_t column) {
  (void)row;
  (void)column;
  return 1e37F * (float)lac_random_normal(random);
}

static float tiny(lac_random *random, int64_t row, int64_t column) {
  (void)row;
  (void)column;
  return 1e-39F * (float)lac_random_normal(random);
}

static float with_an_outlier(lac_random *random, int64_t row, int64_t column) {
  (void)column;
  return row == 11 ? 1e20F : (float)lac_random_normal(random);
}

static float large_integers(lac_random *random, int64_t row, int64_t column) {
  (void)row;
  (void)column;
  return (float)(lac_random_below(random, 2000001) - 1000000);
}

static float small_integers(lac_random *random, int64_t row, int64_t column) {
  (void)column;
  return (float)lac_random_below(random, 180) + (row % 50 == 49 ? 3000000 : 0);
}

static float zero(lac_random *random, int64_t row, int64_t column) {
  (void)random;
  (void)row;
  (void)column;
  return 0;
}

static void fill(array *a, value_fn value, uint64_t what) {
  lac_random random = lac_random_stream(4, LAC_RANDOM_TEST, what, 0);
  for (int64_t i = 0; i < a->rows * a->columns; i++) {
    a->values[i] = value(&random, i / a->columns, i % a->columns);
  }
}

static void every_kind_of_value(void **state) {
  const struct {
    value_fn value;
    bool bytes;
  } kinds[] = {
      {any_byte, true},         {extreme_byte, true},    {few_bytes, true},       {any_byte, false}, {normal, false},
      {far_from_zero, false},   {copies, false},         {one_point, false},      {huge, false},     {tiny, false},
      {with_an_outlier, false}, {large_integers, false}, {small_integers, false}, {zero, false},
  };
  for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++) {
    const int64_t columns[] = {1, 5, 70};
    for (int c = 0; c < 3; c++) {
      array base = make_array(1100, columns[c], kinds[kind].bytes);
      array query = make_array(4, columns[c], kinds[kind].bytes);
      fill(&base, kinds[kind].value, 0);
      fill(&query, kinds[kind].value, 1);
      check_neighbors(*state, &base, &query, (const int64_t[]){10, 1, 1100}, 3);
      free_array(&base);
      free_array(&query);
    }
  }
}

/* Where 2^24 ends the exact products of bytes: 1024 columns at the ends of the range, and beyond. */
static void wide_bytes(void **state) {
  const int64_t columns[] = {1024, 1025, 3072};
  for (int c = 0; c < 3; c++) {
    for (int extreme = 0; extreme < 2; extreme++) {
      array base = make_array(400, columns[c], true), query = make_array(3, columns[c], extreme);
      fill(&base, extreme ? extreme_byte : any_byte, 2);
      fill(&query, extreme ? extreme_byte : any_byte, 3);
      check_neighbors(*state, &base, &query, (const int64_t[]){1, 100}, 2);
      free_array(&base);
      free_array(&query);
    }
  }
}

/* Sizes around a step, a burst, a block and a group. */
static void every_size(void **state) {
  const int64_t rows[] = {1, 2, 15, 16, 17, 127, 128, 129, 255, 256, 257, 2500, 8191, 8192, 8193, 9300};
  const int64_t queries[] = {1, 2, 3, 1, 1, 2, 3, 4, 64, 65, 1025, 3, 3, 3, 3, 2};
  for (int s = 0; s < 16; s++) {
    for (int bytes = 0; bytes < 2; bytes++) {
      array base = make_array(rows[s], 3, bytes), query = make_array(queries[s], 3, bytes);
      fill(&base, bytes ? any_byte : normal, 5);
      fill(&query, bytes ? any_byte : normal, 6);
      check_neighbors(*state, &base, &query, (const int64_t[]){1, (rows[s] + 3) / 4}, 2);
      free_array(&base);
      free_array(&query);
    }
  }
}

/* A query's own row comes first, whatever its neighbourhood. */
static void a_row_is_its_own_nearest(void **state) {
  enum { ROWS = 300, COLUMNS = 40 };
  array base = make_array(ROWS, COLUMNS, false);
  fill(&base, far_from_zero, 7);
  lac_dataset *set = dataset_of(*state, &base);
  int32_t ids[ROWS];
  assert_ok(*state, lac_exact_neighbors(*state, set, set, 1, 2, NULL, NULL, ids));
  for (int i = 0; i < ROWS; i++) {
    assert_int_equal(ids[i], i);
  }
  lac_dataset_destroy(&set);
  free_array(&base);
}

static void bad_input_is_refused(void **state) {
  lac_context *context = *state;
  array base = make_array(4, 3, false), query = make_array(2, 3, false), narrow = make_array(2, 2, false);
  lac_dataset *base_set = dataset_of(context, &base), *query_set = dataset_of(context, &query);
  lac_dataset *narrow_set = dataset_of(context, &narrow);
  int32_t ids[8];
  assert_failure(context, lac_exact_neighbors(context, base_set, narrow_set, 1, 1, NULL, NULL, ids), LAC_E_INPUT,
                 "2 columns");
  assert_failure(context, lac_exact_neighbors(context, base_set, query_set, 0, 1, NULL, NULL, ids), LAC_E_USAGE,
                 "k is 0, expected 1 to 4");
  assert_failure(context, lac_exact_neighbors(context, base_set, query_set, 5, 1, NULL, NULL, ids), LAC_E_USAGE,
                 "k is 5");
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    base.values[7] = bad[i];
    assert_failure(context, lac_exact_neighbors(context, base_set, query_set, 1, 1, NULL, NULL, ids), LAC_E_INPUT,
                   "row 2, column 1");
    base.values[7] = 0;
    query.values[3] = bad[i];
    assert_failure(context, lac_exact_neighbors(context, base_set, query_set, 1, 2, NULL, NULL, ids), LAC_E_INPUT,
                   "row 1, column 0");
    query.values[3] = 0;
  }
  double beyond[3] = {0, 1e300, 0};
  lac_dataset *beyond_set;
  assert_ok(context, lac_dataset_borrow(context, beyond, LAC_F64, 1, 3, sizeof beyond, &beyond_set));
  assert_failure(context, lac_exact_neighbors(context, base_set, beyond_set, 1, 1, NULL, NULL, ids), LAC_E_INPUT,
                 "row 0, column 1: a value beyond the range of float32");
  lac_dataset_destroy(&beyond_set);
  lac_dataset_destroy(&base_set);
  lac_dataset_destroy(&query_set);
  lac_dataset_destroy(&narrow_set);
  free_array(&base);
  free_array(&query);
  free_array(&narrow);
}

typedef struct {
  lac_context *stop; /* interrupted by the first report */
  double last;
  int calls;
} reports;

static void report(void *user, double done) {
  reports *seen = user;
  assert_true(done > 0 && done <= 1 && done >= seen->last);
  seen->last = done;
  seen->calls++;
  if (seen->stop) {
    lac_context_interrupt(seen->stop);
  }
}

static void progress_rises_to_one(void **state) {
  array base = make_array(5000, 2, true), query = make_array(1, 2, true);
  fill(&base, any_byte, 8);
  fill(&query, any_byte, 9);
  lac_dataset *base_set = dataset_of(*state, &base), *query_set = dataset_of(*state, &query);
  int32_t ids[3];
  reports seen = {0};
  assert_ok(*state, lac_exact_neighbors(*state, base_set, query_set, 3, 1, report, &seen, ids));
  assert_true(seen.last == 1 && seen.calls == 9); /* 8 blocks of 624 rows and the rest */

  lac_context *context;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  seen = (reports){.stop = context};
  assert_int_equal(lac_exact_neighbors(context, base_set, query_set, 3, 1, report, &seen, ids), LAC_E_INTERRUPTED);
  assert_int_equal(seen.calls, 1);
  lac_context_destroy(&context);
  lac_dataset_destroy(&base_set);
  lac_dataset_destroy(&query_set);
  free_array(&base);
  free_array(&query);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_value),  cmocka_unit_test(wide_bytes),
      cmocka_unit_test(every_size),           cmocka_unit_test(a_row_is_its_own_nearest),
      cmocka_unit_test(bad_input_is_refused), cmocka_unit_test(progress_rises_to_one),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
