/* Encoding against a naive loop in double precision, whatever the types, shapes, threads and pieces. */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "hash/model.h"
#include "hash/sign.h"
#include "support.h"

static lac_hash *random_model(lac_context *context, int64_t bits, int64_t columns, int64_t centres, double shift) {
  lac_hash *model;
  assert_ok(context, lac_hash_create(context, bits, columns, LAC_HASH_BA, centres, &model));
  lac_random stream = lac_random_stream(5, LAC_RANDOM_TEST, (uint64_t)bits, (uint64_t)columns);
  for (int64_t i = 0; i < bits * model->features; i++) {
    model->weight[i] = (float)lac_random_normal(&stream);
  }
  for (int64_t i = 0; i < bits; i++) {
    model->bias[i] = (float)lac_random_normal(&stream);
  }
  for (int64_t i = 0; i < bits * columns; i++) {
    model->decoder[i] = (float)lac_random_normal(&stream);
  }
  for (int64_t i = 0; i < columns; i++) {
    model->offset[i] = (float)lac_random_normal(&stream);
  }
  for (int64_t i = 0; i < centres * columns; i++) {
    model->centres[i] = (float)(lac_random_normal(&stream) + shift);
  }
  return model;
}

/* y_l and the scale that its rounding is relative to. */
static double output_of(const lac_hash *model, const float *features, int64_t l, double *scale) {
  double sum = model->bias[l];
  *scale = fabs(sum);
  for (int64_t j = 0; j < model->features; j++) {
    double term = (double)model->weight[l * model->features + j] * features[j];
    sum += term;
    *scale += fabs(term);
  }
  return sum;
}

/* Compares bits that rounding cannot decide; gives how many those were. */
static int64_t check_code(const lac_hash *model, const float *features, const uint8_t *code) {
  int64_t compared = 0, bytes = (model->bits + 7) / 8;
  for (int64_t l = 0; l < 8 * bytes; l++) {
    int bit = code[l / 8] >> (l % 8) & 1;
    if (l >= model->bits) {
      assert_int_equal(bit, 0); /* padding */
      continue;
    }
    double scale, y = output_of(model, features, l, &scale);
    if (fabs(y) > 1e-5 * scale) {
      assert_int_equal(bit, y >= 0);
      compared++;
    }
  }
  return compared;
}

static void linear_codes_are_the_signs(void **state) {
  static const int64_t shapes[][3] = {{1, 1, 1},   {7, 5, 95},     {8, 8, 96},    {9, 13, 97},   {100, 16, 193},
                                      {31, 33, 5}, {128, 64, 300}, {784, 64, 50}, {20, 1024, 10}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t D = shapes[s][0], L = shapes[s][1], N = shapes[s][2], B = (L + 7) / 8;
    lac_hash *model = random_model(*state, L, D, 0, 0);
    float *x = calloc((size_t)(N * D), sizeof *x);
    uint8_t *bytes = calloc((size_t)(N * (D + 3)), 1), *codes = malloc((size_t)(N * B));
    lac_random stream = lac_random_stream(6, LAC_RANDOM_TEST, s, 0);
    for (int type = 0; type < 2; type++) {
      for (int64_t i = 0; i < N * D; i++) {
        uint8_t byte = (uint8_t)lac_random_below(&stream, 256);
        bytes[i / D * (D + 3) + i % D] = byte;
        x[i] = type ? (float)lac_random_normal(&stream) : (float)byte;
      }
      lac_dataset *dataset;
      if (type) {
        assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, N, D, (size_t)D * sizeof *x, &dataset));
      } else {
        assert_ok(*state, lac_dataset_borrow(*state, bytes, LAC_U8, N, D, (size_t)D + 3, &dataset));
      }
      memset(codes, 0xA5, (size_t)(N * B));
      assert_ok(*state, lac_hash_encode(*state, model, dataset, 0, N, 2, codes));
      int64_t compared = 0;
      for (int64_t i = 0; i < N; i++) {
        compared += check_code(model, x + i * D, codes + i * B);
      }
      assert_true(compared >= N * L * 99 / 100);
      lac_dataset_destroy(&dataset);
    }
    free(x);
    free(bytes);
    free(codes);
    lac_hash_destroy(&model);
  }
}

/* Rows on which every output is zero but for rounding: any change in the order of its additions shows as other bits.
 * The codes must be the same however the rows are cut into pieces and shared among threads. */
static void pieces_and_threads_do_not_show(void **state) {
  static const int64_t shapes[][2] = {{784, 64}, {128, 16}, {30, 24}, {6, 5}, {1000, 3}};
  enum { N = 1700 };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t D = shapes[s][0], L = shapes[s][1], B = (L + 7) / 8;
    lac_hash *model = random_model(*state, L, D, 0, 0);
    memset(model->bias, 0, (size_t)L * sizeof(float));
    float *x = malloc((size_t)(N * D) * sizeof *x);
    uint8_t *whole = malloc((size_t)(N * B)), *pieces = malloc((size_t)(N * B));
    lac_random stream = lac_random_stream(7, LAC_RANDOM_TEST, s, 0);
    for (int64_t i = 0; i < L * D / 2; i++) { /* w = (u, -u), x = (v, v): w.x = 0 */
      int64_t l = i / (D / 2), j = i % (D / 2);
      model->weight[l * D + D / 2 + j] = -model->weight[l * D + j];
    }
    for (int64_t i = 0; i < N * D / 2; i++) {
      int64_t n = i / (D / 2), j = i % (D / 2);
      x[n * D + j] = x[n * D + D / 2 + j] = (float)lac_random_normal(&stream);
    }
    lac_dataset *dataset;
    assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, N, D, (size_t)D * sizeof *x, &dataset));
    assert_ok(*state, lac_hash_encode(*state, model, dataset, 0, N, 1, whole));
    int64_t ones = 0;
    for (int64_t i = 0; i < N * B; i++) {
      ones += __builtin_popcount(whole[i]);
    }
    assert_true(ones > 0 && ones < N * L); /* rounding did decide some */
    for (int64_t threads = 2; threads <= 5; threads++) {
      memset(pieces, 0, (size_t)(N * B));
      assert_ok(*state, lac_hash_encode(*state, model, dataset, 0, N, threads, pieces));
      assert_memory_equal(pieces, whole, (size_t)(N * B));
    }
    memset(pieces, 0, (size_t)(N * B));
    for (int64_t first = 0, count = 1; first < N; first += count, count = count % 130 + 9) {
      count = first + count > N ? N - first : count;
      assert_ok(*state, lac_hash_encode(*state, model, dataset, first, count, 1, pieces + first * B));
    }
    assert_memory_equal(pieces, whole, (size_t)(N * B));
    lac_dataset_destroy(&dataset);
    lac_hash_destroy(&model);
    free(x);
    free(whole);
    free(pieces);
  }
}

static void zero_counts_as_positive(void **state) {
  static const float x[2] = {0, 0};
  lac_hash *model;
  lac_dataset *dataset;
  uint8_t code[2];
  assert_ok(*state, lac_hash_create(*state, 9, 2, LAC_HASH_PCA, 0, &model));
  model->bias[1] = -0.0F;
  model->bias[2] = -1e-38F;
  assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, 1, 2, sizeof x, &dataset));
  assert_ok(*state, lac_hash_encode(*state, model, dataset, 0, 1, 1, code));
  assert_int_equal(code[0], 0xFB);
  assert_int_equal(code[1], 0x01);
  lac_dataset_destroy(&dataset);
  lac_hash_destroy(&model);
}

static void values_that_are_not_finite_are_named(void **state) {
  enum { N = 2000, D = 10 };
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  static float x[N * D];
  uint8_t codes[N];
  for (int64_t centres = 0; centres <= 4; centres += 4) {
    lac_hash *model = random_model(*state, 8, D, centres, 0);
    memset(model->weight, 0, 8 * (size_t)model->features * sizeof(float)); /* 0 * infinity is no number either */
    lac_dataset *dataset;
    assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, N, D, D * sizeof *x, &dataset));
    for (int i = 0; i < 9; i++) {
      int64_t row = (int64_t[]){0, 96, 1999}[i / 3], column = (int64_t[]){0, 9, 4}[i % 3];
      char words[96];
      memset(x, 0, sizeof x);
      x[row * D + column] = bad[i % 3];
      if (row == 96) {
        x[1900 * D + 2] = NAN; /* the first is named */
      }
      snprintf(words, sizeof words, "(memory): row %d, column %d: found %g, expected a finite number", (int)row,
               (int)column, (double)bad[i % 3]);
      assert_failure(*state, lac_hash_encode(*state, model, dataset, 0, N, 3, codes), LAC_E_INPUT, words);
      assert_failure(*state, lac_hash_encode(*state, model, dataset, row, N - row, 1, codes), LAC_E_INPUT, words);
    }
    lac_dataset_destroy(&dataset);
    lac_hash_destroy(&model);
  }
}

/* Finite rows whose products leave float32 have codes like any other. */
static void large_values_are_encoded(void **state) {
  enum { N = 50, D = 12, L = 16 };
  static float x[N * D];
  uint8_t codes[N * 2];
  lac_hash *model = random_model(*state, L, D, 0, 0);
  lac_random stream = lac_random_stream(8, LAC_RANDOM_TEST, 0, 0);
  for (int i = 0; i < N * D; i++) {
    x[i] = (float)lac_random_normal(&stream) * (i / D % 3 ? 1 : 3e37F);
  }
  for (int i = 0; i < L * D; i++) {
    model->weight[i] *= 1e20F;
  }
  lac_dataset *dataset;
  assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, N, D, D * sizeof *x, &dataset));
  assert_ok(*state, lac_hash_encode(*state, model, dataset, 0, N, 1, codes));
  for (int64_t i = 0; i < N; i++) {
    assert_true(check_code(model, x + i * D, codes + 2 * i) > 12);
  }
  lac_dataset_destroy(&dataset);
  lac_hash_destroy(&model);
}

static void refuses_what_does_not_fit(void **state) {
  static const float x[6] = {0};
  uint8_t codes[2];
  lac_dataset *dataset;
  lac_hash *model = random_model(*state, 8, 4, 0, 0);
  assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, 2, 3, 3 * sizeof *x, &dataset));
  assert_failure(*state, lac_hash_encode(*state, model, dataset, 0, 2, 1, codes), LAC_E_INPUT,
                 "(memory): found 3 columns, expected 4 as the model has");
  double error;
  assert_failure(*state, lac_hash_error(*state, model, dataset, codes, 1, &error), LAC_E_INPUT, "found 3 columns");
  lac_hash_destroy(&model);
  model = random_model(*state, 8, 3, 0, 0);
  static const int64_t ranges[][2] = {{-1, 1}, {0, 3}, {2, 1}, {0, -1}, {INT64_MAX, 2}, {1, INT64_MAX}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    assert_failure(*state, lac_hash_encode(*state, model, dataset, ranges[i][0], ranges[i][1], 1, codes), LAC_E_USAGE,
                   "expected them within 0 to 1");
  }
  assert_ok(*state, lac_hash_encode(*state, model, dataset, 2, 0, 1, codes)); /* none */
  lac_dataset_destroy(&dataset);
  lac_hash_destroy(&model);
}

static void stops_when_interrupted(void **state) {
  static const float x[3] = {0};
  uint8_t code;
  double error;
  lac_context *context;
  lac_dataset *dataset;
  (void)state;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  lac_hash *model = random_model(context, 8, 3, 0, 0);
  assert_ok(context, lac_dataset_borrow(context, x, LAC_F32, 1, 3, sizeof x, &dataset));
  lac_context_interrupt(context);
  assert_failure(context, lac_hash_encode(context, model, dataset, 0, 1, 1, &code), LAC_E_INTERRUPTED, "interrupted");
  assert_failure(context, lac_hash_error(context, model, dataset, &code, 1, &error), LAC_E_INTERRUPTED, "interrupted");
  lac_dataset_destroy(&dataset);
  lac_hash_destroy(&model);
  lac_context_destroy(&context);
}

static void sign_kernels_agree(void **state) {
  (void)state;
  enum { BYTES = 5, TRIALS = 2000 };
  static const float special[] = {0.0F, -0.0F, NAN, INFINITY, -INFINITY, 1e-45F, -1e-45F, 3e38F, -3e38F};
  lac_random stream = lac_random_stream(9, LAC_RANDOM_TEST, 0, 0);
  for (int t = 0; t < TRIALS; t++) {
    float y[8 * BYTES], bias[8 * BYTES];
    uint8_t expected[BYTES] = {0}, found[BYTES];
    bool finite = true;
    for (int i = 0; i < 8 * BYTES; i++) {
      y[i] = lac_random_below(&stream, 50) || t % 2 ? (float)lac_random_normal(&stream)
                                                    : special[lac_random_below(&stream, 9)];
      bias[i] = i % 3 ? 0 : (float)lac_random_normal(&stream);
      float sum = y[i] + bias[i];
      expected[i / 8] |= (uint8_t)((sum >= 0) << (i % 8));
      finite = finite && isfinite(sum);
    }
    for (int isa = 0; isa <= (int)lac_cpu_isa(); isa++) {
      assert_int_equal(lac_sign_kernel_of((lac_isa)isa)(y, bias, BYTES, found), finite);
      assert_memory_equal(found, expected, BYTES);
    }
  }
}

/* Features against exp in double precision. Where the float32 product says too little, far from the origin, too. */
static void rbf_features_are_right(void **state) {
  enum { N = 100, M = 70, D = 20 };
  static const double shifts[] = {0, 300, 1e5}, widths[] = {0.5, 3, 40};
  float *x = malloc(sizeof *x * N * D);
  uint8_t out[N * M], single[M];
  for (int s = 0; s < 9; s++) {
    double shift = shifts[s / 3], width = widths[s % 3];
    lac_hash *model = random_model(*state, 4, D, M, shift);
    lac_random stream = lac_random_stream(10, LAC_RANDOM_TEST, (uint64_t)s, 0);
    for (int i = 0; i < N * D; i++) {
      x[i] = (float)(lac_random_normal(&stream) + shift);
    }
    memcpy(x, model->centres, sizeof *x * D); /* the first row is a centre */
    lac_rbf *rbf;
    assert_ok(*state, lac_rbf_create(*state, model->centres, M, D, width, &rbf));
    float *scratch = malloc(sizeof *scratch * (size_t)lac_rbf_scratch(rbf));
    lac_rbf_features(rbf, x, N, scratch, out);
    assert_int_equal(out[0], 255);
    for (int i = 0; i < N * M; i++) {
      double distance = 0;
      for (int j = 0; j < D; j++) {
        distance += pow((double)x[i / M * D + j] - model->centres[i % M * D + j], 2);
      }
      double value = 255 * exp(-distance / (2 * width * width));
      assert_true(fabs(out[i] - value) <= 0.51); /* the nearest, or one of two that are nearly as near */
    }
    for (int i = 0; i < N; i++) { /* a row alone has the same */
      lac_rbf_features(rbf, x + i * D, 1, scratch, single);
      assert_memory_equal(single, out + i * M, M);
    }
    lac_rbf_destroy(&rbf);
    free(scratch);
    lac_hash_destroy(&model);
  }
  free(x);
}

static void rbf_codes_are_the_signs(void **state) {
  enum { N = 250, M = 50, D = 9, L = 12 };
  float *x = malloc(sizeof *x * N * D), features[M];
  uint8_t codes[N * 2], one[N * 2], rounded[M];
  lac_hash *model = random_model(*state, L, D, M, 0);
  lac_random stream = lac_random_stream(11, LAC_RANDOM_TEST, 0, 0);
  for (int i = 0; i < N * D; i++) {
    x[i] = (float)lac_random_normal(&stream);
  }
  model->width = 2.5;
  lac_rbf *rbf;
  assert_ok(*state, lac_rbf_create(*state, model->centres, M, D, 2.5, &rbf));
  float *scratch = malloc(sizeof *scratch * (size_t)lac_rbf_scratch(rbf));
  lac_dataset *dataset;
  assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, N, D, D * sizeof *x, &dataset));
  assert_ok(*state, lac_hash_encode(*state, model, dataset, 0, N, 3, codes));
  int64_t compared = 0;
  for (int i = 0; i < N; i++) {
    lac_rbf_features(rbf, x + i * D, 1, scratch, rounded);
    for (int j = 0; j < M; j++) {
      features[j] = (float)(rounded[j] / 255.0);
    }
    compared += check_code(model, features, codes + 2 * i);
    assert_ok(*state, lac_hash_encode(*state, model, dataset, i, 1, 1, one + 2 * i));
  }
  assert_true(compared > N * L * 99 / 100);
  assert_memory_equal(one, codes, sizeof codes);
  lac_dataset_destroy(&dataset);
  lac_hash_destroy(&model);
  lac_rbf_destroy(&rbf);
  free(x);
  free(scratch);
}

static void error_is_the_mean_squared_distance(void **state) {
  static const int64_t shapes[][3] = {{1, 1, 1}, {13, 9, 1000}, {6, 20, 97}, {100, 64, 200}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int64_t D = shapes[s][0], L = shapes[s][1], N = shapes[s][2], B = (L + 7) / 8;
    lac_hash *model = random_model(*state, L, D, 0, 0);
    float *x = malloc((size_t)(N * D) * sizeof *x);
    uint8_t *codes = malloc((size_t)(N * B));
    lac_random stream = lac_random_stream(12, LAC_RANDOM_TEST, s, 0);
    for (int64_t i = 0; i < N * D; i++) {
      x[i] = (float)lac_random_normal(&stream) + 100;
    }
    for (int64_t i = 0; i < N * B; i++) {
      codes[i] = (uint8_t)lac_random_bits(&stream); /* padding bits must not count */
    }
    double sum = 0, error, again;
    for (int64_t i = 0; i < N * D; i++) {
      double decoded = model->offset[i % D];
      for (int64_t l = 0; l < L; l++) {
        decoded += (codes[i / D * B + l / 8] >> (l % 8) & 1) * (double)model->decoder[i % D * L + l];
      }
      sum += (x[i] - decoded) * (x[i] - decoded);
    }
    lac_dataset *dataset;
    assert_ok(*state, lac_dataset_borrow(*state, x, LAC_F32, N, D, (size_t)D * sizeof *x, &dataset));
    assert_ok(*state, lac_hash_error(*state, model, dataset, codes, 1, &error));
    assert_true(fabs(error - sum / (double)N) < 1e-6 * error);
    assert_ok(*state, lac_hash_error(*state, model, dataset, codes, 3, &again));
    assert_true(again == error);
    x[(N - 1) * D] = INFINITY;
    char words[64];
    snprintf(words, sizeof words, "row %d, column 0: found inf", (int)(N - 1));
    assert_failure(*state, lac_hash_error(*state, model, dataset, codes, 2, &error), LAC_E_INPUT, words);
    lac_dataset_destroy(&dataset);
    lac_hash_destroy(&model);
    free(x);
    free(codes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(linear_codes_are_the_signs),
      cmocka_unit_test(pieces_and_threads_do_not_show),
      cmocka_unit_test(zero_counts_as_positive),
      cmocka_unit_test(values_that_are_not_finite_are_named),
      cmocka_unit_test(large_values_are_encoded),
      cmocka_unit_test(refuses_what_does_not_fit),
      cmocka_unit_test(stops_when_interrupted),
      cmocka_unit_test(sign_kernels_agree),
      cmocka_unit_test(rbf_features_are_right),
      cmocka_unit_test(rbf_codes_are_the_signs),
      cmocka_unit_test(error_is_the_mean_squared_distance),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
