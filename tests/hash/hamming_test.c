/* Search in packed codes against sorting all codes by (distance, index). */
#include "hash/hamming.h"

#include "base/random.h"
#include "support.h"

typedef struct {
  int32_t distance, id;
} pair;

static int by_distance_and_id(const void *left, const void *right) {
  const pair *a = left, *b = right;
  if (a->distance != b->distance) {
    return a->distance < b->distance ? -1 : 1;
  }
  return (a->id > b->id) - (a->id < b->id);
}

static int distance_of(const uint8_t *a, const uint8_t *b, int64_t bits) {
  int distance = 0;
  for (int64_t l = 0; l < bits; l++) {
    distance += (a[l / 8] >> l % 8 & 1) != (b[l / 8] >> l % 8 & 1);
  }
  return distance;
}

static void *allocate(int64_t count, size_t size) {
  void *memory = calloc((size_t)(count ? count : 1), size);
  assert_non_null(memory);
  return memory;
}

/* All codes in order, for one query. */
static pair *sorted(const lac_codes *codes, int64_t query) {
  int64_t bytes = (codes->bits + 7) / 8;
  pair *pairs = allocate(codes->rows, sizeof *pairs);
  for (int64_t i = 0; i < codes->rows; i++) {
    pairs[i].id = (int32_t)i;
    pairs[i].distance = distance_of(codes->base + i * bytes, codes->query + query * bytes, codes->bits);
  }
  qsort(pairs, (size_t)codes->rows, sizeof *pairs, by_distance_and_id);
  return pairs;
}

static void check_search(lac_context *context, const lac_codes *codes, const int64_t *ks, int count) {
  for (int c = 0; c < count; c++) {
    int64_t k = ks[c];
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      lac_codes here = *codes;
      here.kernels = lac_hamming_kernels_of((lac_isa)isa);
      for (int64_t threads = 1; threads <= 3; threads += 2) {
        int32_t *ids = allocate(codes->queries * k, sizeof *ids);
        int32_t *distances = allocate(codes->queries * k, sizeof *distances);
        assert_int_equal(lac_hamming_search_with(context, &here, k, threads, ids, threads == 1 ? distances : NULL),
                         LAC_OK);
        for (int64_t q = 0; q < codes->queries; q++) {
          pair *truth = sorted(codes, q);
          for (int64_t i = 0; i < k; i++) {
            assert_int_equal(ids[q * k + i], truth[i].id);
            assert_int_equal(distances[q * k + i], threads == 1 ? truth[i].distance : 0);
          }
          free(truth);
        }
        free(ids);
        free(distances);
      }
    }
  }
}

static uint8_t *random_codes(int64_t rows, int64_t bits, uint64_t what, bool padding) {
  lac_random stream = lac_random_stream(3, LAC_RANDOM_TEST, what, (uint64_t)bits);
  int64_t bytes = (bits + 7) / 8;
  uint8_t *codes = allocate(rows * bytes, 1);
  for (int64_t i = 0; i < rows * bytes; i++) {
    codes[i] = (uint8_t)lac_random_bits(&stream);
    if (!padding && i % bytes == bytes - 1 && bits % 8) {
      codes[i] &= (uint8_t)((1 << bits % 8) - 1);
    }
  }
  return codes;
}

static void every_width(void **state) {
  const int64_t widths[] = {1, 7, 8, 9, 16, 32, 63, 64, 65, 100, 128, 255, 256, 1000, 1024};
  for (int w = 0; w < (int)(sizeof widths / sizeof *widths); w++) {
    lac_codes codes = {.rows = 1300, .queries = 3, .bits = widths[w]};
    uint8_t *base = random_codes(codes.rows, codes.bits, 0, w % 2);
    uint8_t *query = random_codes(codes.queries, codes.bits, 1, w % 2);
    codes.base = base;
    codes.query = query;
    check_search(*state, &codes, (const int64_t[]){1, 10, 1300}, 3);
    free(base);
    free(query);
  }
}

/* Sizes around a tile, a block of tiles and a group of queries. */
static void every_size(void **state) {
  const int64_t rows[] = {1, 2, 255, 256, 257, 1023, 1024, 1025, 2100}, queries[] = {1, 2, 63, 64, 65, 130, 1, 1, 5};
  for (int s = 0; s < 9; s++) {
    lac_codes codes = {.rows = rows[s], .queries = queries[s], .bits = 16};
    uint8_t *base = random_codes(codes.rows, codes.bits, 2, false);
    uint8_t *query = random_codes(codes.queries, codes.bits, 3, false);
    codes.base = base;
    codes.query = query;
    check_search(*state, &codes, (const int64_t[]){1, (rows[s] + 1) / 2, rows[s]}, 3);
    free(base);
    free(query);
  }
}

/* Whatever order the base comes in: falling distance makes every code a candidate, rising distance none after the
 * first, copies of one code are all at the limit, copies of the query stop the search. */
static void every_order(void **state) {
  enum { ROWS = 4000, BITS = 64 };
  uint8_t *base = allocate(ROWS, BITS / 8), query[2][BITS / 8] = {{0}, {0xff, 0x0f}};
  for (int order = 0; order < 5; order++) {
    for (int64_t i = 0; i < ROWS; i++) {
      int64_t ones[] = {BITS - i * BITS / ROWS, i * BITS / ROWS, 5, 0, i % 3 ? 40 : 2};
      memset(base + i * BITS / 8, 0, BITS / 8);
      for (int64_t l = 0; l < ones[order]; l++) {
        base[i * BITS / 8 + l / 8] |= (uint8_t)(1 << l % 8);
      }
    }
    lac_codes codes = {.base = base, .query = query[0], .rows = ROWS, .queries = 2, .bits = BITS};
    check_search(*state, &codes, (const int64_t[]){1, 100, 1500, ROWS}, 4);
  }
  free(base);
}

static void bad_sizes_are_refused(void **state) {
  lac_context *context = *state;
  uint8_t code = 0;
  int32_t id;
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, 1, 8, 0, 1, &id, NULL), LAC_E_USAGE);
  assert_string_equal(lac_context_message(context), "k is 0, expected 1 to 1, the number of codes in the base");
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, 1, 8, 2, 1, &id, NULL), LAC_E_USAGE);
  assert_int_equal(lac_hamming_search(context, &code, 0, &code, 1, 8, 1, 1, &id, NULL), LAC_E_USAGE);
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, -1, 8, 1, 1, &id, NULL), LAC_E_USAGE);
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, 1, 0, 1, 1, &id, NULL), LAC_E_USAGE);
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, 1, LAC_HAMMING_BITS + 1, 1, 1, &id, NULL), LAC_E_USAGE);
  assert_int_equal(lac_hamming_search(context, &code, (int64_t)INT32_MAX + 1, &code, 1, 8, 1, 1, &id, NULL),
                   LAC_E_USAGE);
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, 0, 8, 1, 1, &id, NULL), LAC_OK);
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, 1, 8, 1, 0, &id, NULL), LAC_OK);
}

static void an_interrupt_stops_the_search(void **state) {
  (void)state;
  lac_context *context;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  lac_context_interrupt(context);
  uint8_t code = 0;
  int32_t id;
  assert_int_equal(lac_hamming_search(context, &code, 1, &code, 1, 8, 1, 1, &id, NULL), LAC_E_INTERRUPTED);
  lac_context_destroy(&context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_width),
      cmocka_unit_test(every_size),
      cmocka_unit_test(every_order),
      cmocka_unit_test(bad_sizes_are_refused),
      cmocka_unit_test(an_interrupt_stops_the_search),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
