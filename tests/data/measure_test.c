/* Values: conversion of every half, narrowing to integers, range, variance and fingerprint against values worked out
 * another way. */
#include "support.h"

#include <math.h>

#include "data/convert.h"
#include "data/format.h"

static lac_dataset *borrow(lac_context *context, const void *memory, lac_type type, int64_t rows, int64_t columns) {
  lac_dataset *dataset = NULL;
  assert_ok(context,
            lac_dataset_borrow(context, memory, type, rows, columns, (size_t)columns * lac_type_size(type), &dataset));
  return dataset;
}

/* Every half: sign * 2^(exponent - 15) * 1.mantissa, or without the 1 at exponent 0, as IEEE 754 says. */
static void all_halves(void **state) {
  (void)state;
  for (int bits = 0; bits < 1 << 16; bits++) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double expected = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    expected = bits >> 15 ? -expected : expected;
    float single;
    double twice;
    uint16_t half = (uint16_t)bits, swapped = __builtin_bswap16(half);
    lac_convert_f32(LAC_F16, false, (const uint8_t *)&half, 1, &single);
    lac_convert_f64(LAC_F16, true, (const uint8_t *)&swapped, 1, &twice);
    if (exponent == 31) {
      assert_true(mantissa ? isnan(single) && isnan(twice) : isinf(single) && isinf(twice));
      assert_int_equal(signbit(single) != 0, bits >> 15);
    } else {
      assert_true((double)single == expected && twice == expected);
      assert_int_equal(signbit(single) != 0, bits >> 15);
    }
  }
}

/* Any number of values, at any address. */
static void lengths_and_addresses(void **state) {
  (void)state;
  static const lac_type types[] = {LAC_U8, LAC_I8, LAC_I16, LAC_I32, LAC_I64, LAC_F16, LAC_F32, LAC_F64};
  uint8_t bytes[8 * 70 + 8], native[8 * 70];
  for (size_t i = 0; i < sizeof bytes; i++) {
    bytes[i] = (uint8_t)(i * 37 % 120); /* no NaN in any type */
  }
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    for (int n = 0; n < 70; n++) {
      for (int swapped = 0; swapped < 2; swapped++) {
        float many[71], one;
        many[n] = 12345;
        const uint8_t *in = bytes + n % 8;
        size_t size = lac_type_size(types[t]);
        lac_convert_f32(types[t], swapped, in, n, many);
        assert_true(many[n] == 12345);
        lac_convert_native(types[t], swapped, in, n, native);
        for (int i = 0; i < n; i++) {
          lac_convert_f32(types[t], swapped, in + (size_t)i * size, 1, &one);
          assert_true(many[i] == one);
          lac_convert_f32(types[t], false, native + (size_t)i * size, 1, &one);
          assert_true(many[i] == one);
        }
      }
    }
  }
}

static void beyond_single_is_infinite(void **state) {
  lac_context *context = *state;
  static const double values[] = {1e39, -1e39, 1e-50, 16777217};
  lac_dataset *dataset = borrow(context, values, LAC_F64, 1, 4);
  float out[4];
  assert_ok(context, lac_dataset_read_f32(context, dataset, 0, 1, out));
  assert_true(isinf(out[0]) && out[0] > 0 && isinf(out[1]) && out[1] < 0 && out[2] == 0 && out[3] == 16777216);
  lac_dataset_destroy(&dataset);
}

static void integers_only(void **state) {
  lac_context *context = *state;
  static const double good[] = {-2147483648.0, 2147483647, 0, -7};
  static const double bad[] = {2147483648.0, -2147483649.0, 0.5, 1e300, INFINITY, -INFINITY, NAN};
  int32_t out[6];
  lac_dataset *dataset = borrow(context, good, LAC_F64, 2, 2);
  assert_ok(context, lac_dataset_read_i32(context, dataset, 0, 2, out));
  assert_true(out[0] == INT32_MIN && out[1] == INT32_MAX && out[2] == 0 && out[3] == -7);
  lac_dataset_destroy(&dataset);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    double values[6] = {1, 2, 3, 4, bad[i], 6};
    dataset = borrow(context, values, LAC_F64, 3, 2);
    assert_failure(context, lac_dataset_read_i32(context, dataset, 0, 3, out), LAC_E_INPUT, "row 2, column 0: found ");
    lac_dataset_destroy(&dataset);
  }
  static const int64_t wide[] = {INT64_MAX, (int64_t)INT32_MAX + 1};
  for (int i = 0; i < 2; i++) {
    dataset = borrow(context, &wide[i], LAC_I64, 1, 1);
    assert_failure(context, lac_dataset_read_i32(context, dataset, 0, 1, out), LAC_E_INPUT, "row 0, column 0");
    lac_dataset_destroy(&dataset);
  }
}

static void borrowed_with_a_stride(void **state) {
  lac_context *context = *state;
  static const uint8_t memory[] = {1, 2, 99, 3, 4, 99, 5, 6};
  lac_dataset *dataset;
  assert_ok(context, lac_dataset_borrow(context, memory, LAC_U8, 3, 2, 3, &dataset));
  float out[6];
  assert_ok(context, lac_dataset_read_f32(context, dataset, 0, 3, out));
  for (int i = 0; i < 6; i++) {
    assert_true(out[i] == (float)(i + 1));
  }
  double low, high, variance;
  assert_ok(context, lac_dataset_check(context, dataset, &low, &high));
  assert_true(low == 1 && high == 6);
  assert_ok(context, lac_dataset_variance(context, dataset, 1, &variance));
  assert_true(variance == 16.0 / 3); /* 2 columns of 1, 3, 5: (4 + 0 + 4) / 3 each */
  assert_string_equal(lac_dataset_path(dataset), "(memory)");
  lac_dataset_destroy(&dataset);
  assert_failure(context, lac_dataset_borrow(context, memory, LAC_U8, 3, 2, 1, &dataset), LAC_E_USAGE, "stride");
  assert_failure(context, lac_dataset_borrow(context, memory, LAC_U8, 0, 2, 2, &dataset), LAC_E_USAGE, "0 rows");
  assert_failure(context, lac_dataset_borrow(context, memory, LAC_U8, 1, 0, 2, &dataset), LAC_E_USAGE, "0 columns");
  assert_failure(context, lac_dataset_borrow(context, NULL, LAC_U8, 1, 1, 2, &dataset), LAC_E_USAGE, "expected");
  assert_failure(context, lac_dataset_borrow(context, memory, LAC_F64, 1, INT64_MAX, SIZE_MAX, &dataset), LAC_E_USAGE,
                 "stride");
  assert_null(dataset);
}

/* Not finite: the message names the file's row and column, also through a slice. */
static void check_names_row_and_column(void **state) {
  lac_context *context = *state;
  static float values[100][7];
  values[42][3] = NAN;
  values[43][0] = INFINITY;
  lac_dataset *dataset = borrow(context, values, LAC_F32, 100, 7), *slice;
  assert_failure(context, lac_dataset_check(context, dataset, NULL, NULL), LAC_E_INPUT,
                 "row 42, column 3: found nan, expected a finite value");
  assert_ok(context, lac_dataset_slice(context, dataset, 43, 20, &slice));
  assert_failure(context, lac_dataset_check(context, slice, NULL, NULL), LAC_E_INPUT, "row 43, column 0: found inf");
  lac_dataset_destroy(&slice);
  assert_ok(context, lac_dataset_slice(context, dataset, 44, 20, &slice));
  double low = 1, high = 1;
  assert_ok(context, lac_dataset_check(context, slice, &low, &high));
  assert_true(low == 0 && high == 0);
  lac_dataset_destroy(&slice);
  lac_dataset_destroy(&dataset);
}

/* The variance of bytes far from zero, where a formula with a difference of large sums would lose everything; in
 * float64 the same by two passes. (n^2 - 1) / 12 is the variance of 0..n-1. */
static void variance_is_exact(void **state) {
  lac_context *context = *state;
  enum { ROWS = 100000, COLUMNS = 8 };
  uint8_t *bytes = malloc(ROWS * COLUMNS);
  float *floats = malloc(ROWS * COLUMNS * sizeof *floats);
  assert_true(bytes && floats);
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    int row = i / COLUMNS;
    bytes[i] = (uint8_t)(252 + row % 4); /* variance 15 / 12 */
    floats[i] = 1e6f + (float)(row % 4);
  }
  lac_dataset *dataset = borrow(context, bytes, LAC_U8, ROWS, COLUMNS);
  double variance;
  for (int threads = 0; threads < 5; threads++) {
    assert_ok(context, lac_dataset_variance(context, dataset, threads, &variance));
    assert_true(variance == 10); /* exactly */
  }
  lac_dataset_destroy(&dataset);
  dataset = borrow(context, floats, LAC_F32, ROWS, COLUMNS);
  double first = 0;
  for (int threads = 1; threads < 5; threads++) {
    assert_ok(context, lac_dataset_variance(context, dataset, threads, &variance));
    assert_true(fabs(variance - 10) < 1e-8);
    first = threads == 1 ? variance : first;
    assert_memory_equal(&variance, &first, sizeof first);
  }
  lac_dataset_destroy(&dataset);
  free(bytes);
  free(floats);
  /* Rows so wide that their squares need more than 32 bits. */
  enum { WIDE = 200000 };
  uint8_t *wide = malloc(2 * WIDE);
  assert_non_null(wide);
  memset(wide, 255, WIDE);
  memset(wide + WIDE, 0, WIDE);
  dataset = borrow(context, wide, LAC_U8, 2, WIDE);
  assert_ok(context, lac_dataset_variance(context, dataset, 3, &variance));
  assert_true(variance == WIDE * 127.5 * 127.5);
  lac_dataset_destroy(&dataset);
  free(wide);
}

/* Fingerprints are stored in model files, so they must never change. These were worked out from the definition in
 * another language. */
static void fingerprints_stay(void **state) {
  lac_context *context = *state;
  static uint8_t values[1000];
  for (int i = 0; i < 1000; i++) {
    values[i] = (uint8_t)(i * i % 251);
  }
  static const struct {
    int64_t rows, columns;
    uint64_t fingerprint;
  } cases[] = {{1, 1, 0x928fc4bca1ab49d3u},
               {10, 31, 0xd12e0acd0f2b3d89u},
               {10, 32, 0x95317cea45e80592u},
               {7, 33, 0x891c61b6c7e27dc1u},
               {1, 1000, 0xf5eca1dcc5649268u}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lac_dataset *dataset = borrow(context, values, LAC_U8, cases[i].rows, cases[i].columns);
    uint64_t fingerprint;
    assert_ok(context, lac_dataset_fingerprint(context, dataset, &fingerprint));
    assert_int_equal(fingerprint, cases[i].fingerprint);
    lac_dataset_destroy(&dataset);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_halves),
      cmocka_unit_test(lengths_and_addresses),
      cmocka_unit_test(beyond_single_is_infinite),
      cmocka_unit_test(integers_only),
      cmocka_unit_test(borrowed_with_a_stride),
      cmocka_unit_test(check_names_row_and_column),
      cmocka_unit_test(variance_is_exact),
      cmocka_unit_test(fingerprints_stay),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
