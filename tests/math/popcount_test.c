/* Every variant of the Hamming kernels that the processor has, against distances counted bit by bit. */
#include "math/popcount.h"

#include "base/random.h"
#include "support.h"

static const int64_t widths[] = {1,   2,   3,   4,   5,   7,   8,   9,   12,  15,  16,   17,   24,   31,  32,  33,
                                 40,  48,  60,  63,  64,  65,  72,  96,  100, 127, 128,  129,  192,  248, 251, 252,
                                 253, 254, 255, 256, 257, 320, 500, 512, 513, 744, 1000, 1023, 1024, 4096};
enum { WIDTHS = sizeof widths / sizeof *widths };

typedef struct {
  int64_t bits, bytes;
  uint8_t *codes, *query, *padded, *tile;
} sample;

static int bit_of(const uint8_t *code, int64_t l) {
  return code[l / 8] >> l % 8 & 1;
}

static int distance_of(const uint8_t *a, const uint8_t *b, int64_t bits) {
  int distance = 0;
  for (int64_t l = 0; l < bits; l++) {
    distance += bit_of(a, l) != bit_of(b, l);
  }
  return distance;
}

/* Random bytes, padding included: kernels must not look at it. Code 0 equals the query, code 1 is its opposite. */
static sample make_sample(int64_t bits) {
  sample made = {.bits = bits, .bytes = (bits + 7) / 8};
  lac_random stream = lac_random_stream(1, LAC_RANDOM_TEST, (uint64_t)bits, 0);
  made.codes = malloc((size_t)(LAC_TILE * made.bytes));
  made.query = malloc((size_t)made.bytes);
  made.padded = aligned_alloc(8, (size_t)lac_hamming_pad_bytes(bits));
  made.tile = aligned_alloc(64, lac_hamming_tile_bytes(bits));
  assert_true(made.codes && made.query && made.padded && made.tile);
  for (int64_t i = 0; i < LAC_TILE * made.bytes; i++) {
    made.codes[i] = (uint8_t)lac_random_bits(&stream);
  }
  for (int64_t i = 0; i < made.bytes; i++) {
    made.query[i] = (uint8_t)lac_random_bits(&stream);
    made.codes[i] = made.query[i];
    made.codes[made.bytes + i] = (uint8_t)~made.query[i];
  }
  memset(made.tile, 0xa5, lac_hamming_tile_bytes(bits));
  lac_hamming_pad(made.query, bits, made.padded);
  return made;
}

static void free_sample(sample *made) {
  free(made->codes);
  free(made->query);
  free(made->padded);
  free(made->tile);
}

static void check_distances(const lac_hamming_kernels *kernels, const sample *s, int64_t rows) {
  _Alignas(64) uint8_t narrow[LAC_TILE];
  _Alignas(64) uint16_t wide[LAC_TILE];
  /* The codes end where a read beyond them would be noticed by a sanitised run. */
  uint8_t *exact = malloc((size_t)(rows * s->bytes));
  assert_non_null(exact);
  memcpy(exact, s->codes, (size_t)(rows * s->bytes));
  kernels->lay(exact, rows, s->bits, s->tile);
  free(exact);
  kernels->wide(s->tile, s->padded, s->bits, wide);
  for (int64_t i = 0; i < rows; i++) {
    assert_int_equal(wide[i], distance_of(s->codes + i * s->bytes, s->query, s->bits));
  }
  assert_int_equal(wide[0], 0);
  if (s->bits <= LAC_NARROW_BITS) {
    kernels->narrow(s->tile, s->padded, s->bits, narrow);
    for (int64_t i = 0; i < LAC_TILE; i++) {
      assert_int_equal(narrow[i], wide[i]);
    }
  }
}

static void check_listed(const lac_hamming_kernels *kernels, const sample *s) {
  enum { COUNT = 5 };
  const int32_t ids[COUNT] = {255, 0, 1, 0, 254};
  uint16_t out[COUNT];
  kernels->listed(s->codes, s->padded, s->bits, ids, COUNT, out);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(out[i], distance_of(s->codes + ids[i] * s->bytes, s->query, s->bits));
  }
  assert_int_equal(out[2], s->bits);
}

static void distances_are_counted_bits(void **state) {
  (void)state;
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    const lac_hamming_kernels *kernels = lac_hamming_kernels_of((lac_isa)isa);
    assert_non_null(kernels);
    for (int i = 0; i < WIDTHS; i++) {
      sample s = make_sample(widths[i]);
      check_distances(kernels, &s, LAC_TILE);
      check_distances(kernels, &s, LAC_TILE - 1);
      check_distances(kernels, &s, 2);
      check_distances(kernels, &s, 1);
      check_listed(kernels, &s);
      free_sample(&s);
    }
  }
}

/* Distances with many equal values, so that limits fall among them. */
static void positions_below_a_limit(void **state) {
  (void)state;
  _Alignas(64) uint8_t narrow[LAC_TILE];
  _Alignas(64) uint16_t wide[LAC_TILE];
  lac_random stream = lac_random_stream(2, LAC_RANDOM_TEST, 0, 0);
  const int most[] = {1, 3, 64, 255, 1024, LAC_HAMMING_BITS};
  for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
    const lac_hamming_kernels *kernels = lac_hamming_kernels_of((lac_isa)isa);
    for (int m = 0; m < 6; m++) {
      for (int i = 0; i < LAC_TILE; i++) {
        wide[i] = (uint16_t)lac_random_below(&stream, most[m] + 1);
        narrow[i] = (uint8_t)wide[i];
      }
      for (int step = 0; step <= 16; step++) {
        int limit = 1 + most[m] * step / 16;
        uint8_t found[LAC_TILE], found_narrow[LAC_TILE];
        int count = kernels->wide_below(wide, limit, found), next = 0;
        for (int i = 0; i < LAC_TILE; i++) {
          if (wide[i] < limit) {
            assert_true(next < count);
            assert_int_equal(found[next++], i);
          }
        }
        assert_int_equal(next, count);
        if (most[m] <= LAC_NARROW_BITS) {
          assert_int_equal(kernels->narrow_below(narrow, limit, found_narrow), count);
          assert_memory_equal(found, found_narrow, (size_t)count);
        }
      }
    }
  }
}

static void padding_is_cleared(void **state) {
  (void)state;
  const uint8_t code[2] = {0xff, 0xff};
  uint8_t padded[8];
  lac_hamming_pad(code, 11, padded);
  assert_memory_equal(padded, ((uint8_t[8]){0xff, 0x07}), 8);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(distances_are_counted_bits),
      cmocka_unit_test(positions_below_a_limit),
      cmocka_unit_test(padding_is_cleared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
