/* Exact neighbours against the published ones of siftsmall: 10,000 base vectors, 100 queries, the 100 nearest of each,
 * from the folder that LACONIC_DATA names. Exits with status 2 when it is not set. */
#include "laconic/retrieval.h"
#include "support.h"

typedef struct {
  lac_dataset *base, *query, *truth;
  float *base_rows, *query_rows;
  int32_t *truth_ids;
} siftsmall;

static lac_dataset *open_part(lac_context *context, const char *name) {
  char path[4096];
  lac_dataset *made;
  snprintf(path, sizeof path, "%s/sift/siftsmall_%s", getenv("LACONIC_DATA"), name);
  assert_ok(context, lac_dataset_open(context, path, NULL, &made));
  return made;
}

static float *rows_of(lac_context *context, const lac_dataset *set) {
  float *rows = malloc((size_t)(lac_dataset_rows(set) * lac_dataset_columns(set)) * sizeof *rows);
  assert_non_null(rows);
  assert_ok(context, lac_dataset_read_f32(context, set, 0, lac_dataset_rows(set), rows));
  return rows;
}

static siftsmall open_all(lac_context *context) {
  siftsmall s = {open_part(context, "base.fvecs"), open_part(context, "query.fvecs"),
                 open_part(context, "groundtruth.ivecs")};
  assert_int_equal(lac_dataset_rows(s.base), 10000);
  assert_int_equal(lac_dataset_columns(s.base), 128);
  assert_int_equal(lac_dataset_rows(s.query), 100);
  assert_int_equal(lac_dataset_rows(s.truth), 100);
  assert_int_equal(lac_dataset_columns(s.truth), 100);
  s.base_rows = rows_of(context, s.base);
  s.query_rows = rows_of(context, s.query);
  s.truth_ids = malloc(100 * 100 * sizeof *s.truth_ids);
  assert_non_null(s.truth_ids);
  assert_ok(context, lac_dataset_read_i32(context, s.truth, 0, 100, s.truth_ids));
  return s;
}

static void close_all(siftsmall *s) {
  lac_dataset_destroy(&s->base);
  lac_dataset_destroy(&s->query);
  lac_dataset_destroy(&s->truth);
  free(s->base_rows);
  free(s->query_rows);
  free(s->truth_ids);
}

/* SIFT components are integers: the sum is exact. */
static double distance_of(const siftsmall *s, int64_t query, int32_t id) {
  double sum = 0;
  for (int64_t j = 0; j < 128; j++) {
    double difference = (double)s->base_rows[(int64_t)id * 128 + j] - (double)s->query_rows[query * 128 + j];
    sum += difference * difference;
  }
  return sum;
}

/* The published order of equal distances is not ours; everything else is. */
static void check_ids(const siftsmall *s, const int32_t *ids) {
  for (int64_t i = 0; i < 100 * 100; i++) {
    double found = distance_of(s, i / 100, ids[i]);
    assert_true(found == distance_of(s, i / 100, s->truth_ids[i]));
    if (i % 100 > 0) {
      double before = distance_of(s, i / 100, ids[i - 1]);
      assert_true(before < found || (before == found && ids[i - 1] < ids[i]));
    }
  }
}

/* A dataset of the same rows over 512: no integers any more, so that products are settled, and in the same order. */
static lac_dataset *fractions_of(lac_context *context, float *rows, int64_t count) {
  lac_dataset *made;
  for (int64_t i = 0; i < count * 128; i++) {
    rows[i] /= 512;
  }
  assert_ok(context, lac_dataset_borrow(context, rows, LAC_F32, count, 128, 128 * sizeof *rows, &made));
  return made;
}

static void published_neighbors_are_found(void **state) {
  siftsmall s = open_all(*state);
  int32_t *ids = malloc(100 * 100 * sizeof *ids);
  float *base_rows = rows_of(*state, s.base), *query_rows = rows_of(*state, s.query);
  lac_dataset *base = fractions_of(*state, base_rows, 10000), *query = fractions_of(*state, query_rows, 100);
  assert_non_null(ids);
  for (int64_t threads = 1; threads <= 2; threads++) {
    assert_ok(*state, lac_exact_neighbors(*state, s.base, s.query, 100, threads, NULL, NULL, ids));
    check_ids(&s, ids);
    assert_ok(*state, lac_exact_neighbors(*state, base, query, 100, threads, NULL, NULL, ids));
    check_ids(&s, ids);
  }
  lac_dataset_destroy(&base);
  lac_dataset_destroy(&query);
  free(base_rows);
  free(query_rows);
  free(ids);
  close_all(&s);
}

int main(void) {
  if (!getenv("LACONIC_DATA")) {
    fputs(
        "LACONIC_DATA is not set, expected the folder with sift/siftsmall_{base,query}.fvecs and "
        "siftsmall_groundtruth.ivecs\n",
        stderr);
    return 2;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(published_neighbors_are_found),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
