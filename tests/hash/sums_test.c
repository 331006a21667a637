/* The decoder's sums against sums written out, and the decoder against what defines a least-squares fit. */
#include "shard.h"

static int64_t head_of(const lac_training *common) {
  return common->bits + 1;
}

/* [Z 1]^T [Z 1 X] (L + 1, L + 1 + D), a row after another. */
static double *naive_sums(const shard *from) {
  const lac_training *common = from->trainer.common;
  const int64_t head = head_of(common), stride = head + common->columns;
  double *sums = calloc((size_t)(head * stride), sizeof *sums), *row = malloc((size_t)stride * sizeof *row);
  assert_true(sums && row);
  for (int64_t i = 0; i < from->trainer.x.count; i++) {
    for (int64_t l = 0; l < stride; l++) {
      row[l] = l < common->bits ? bit_of(from->trainer.codes, common->words, i, l)
                                : (l == common->bits ? 1 : value_at(from, i, l - head));
    }
    for (int64_t l = 0; l < head; l++) {
      for (int64_t k = 0; row[l] != 0 && k < stride; k++) {
        sums[l * stride + k] += row[k];
      }
    }
  }
  free(row);
  return sums;
}

static void check_sums(const shard *from) {
  const lac_training *common = from->trainer.common;
  const int64_t head = head_of(common), stride = head + common->columns;
  double *expected = naive_sums(from), rounding = 1e-6 * (1 + sqrt((double)from->trainer.x.count));
  for (int64_t i = 0; i < head * stride; i++) {
    double sum = from->trainer.local[i];
    if (i % stride < head) {
      assert_true(sum == expected[i]); /* counts of points: exact */
    } else {
      assert_true(fabs(sum - expected[i]) < rounding + 1e-6 * fabs(expected[i]));
    }
  }
  free(expected);
}

typedef struct setting {
  int64_t bits, columns, rows;
  bool bytes;
} setting;

static const setting settings[] = {{1, 1, 1, true},    {1, 3, 127, false},   {5, 8, 128, true},
                                   {8, 13, 129, true}, {16, 30, 400, false}, {63, 70, 300, true},
                                   {64, 5, 260, true}, {65, 17, 500, false}, {130, 9, 200, true}};

static void follow_the_codes(void **state) {
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    const int64_t rows = settings[s].rows;
    lac_hash_options options = some_options(settings[s].bits, 1);
    lac_training common = make_training(&options, settings[s].columns, 1);
    lac_random stream = lac_random_stream(41, LAC_RANDOM_TEST, s, 0);
    shard at;
    make_shard(*state, &common, 0, rows, settings[s].bytes, &at);
    random_codes(&common, rows, &stream, at.trainer.codes);
    for (int step = 0; step < 8; step++) {
      assert_ok(*state, lac_sums_update(*state, &at.trainer));
      check_sums(&at);
      if (step == 5) {
        random_codes(&common, rows, &stream, at.trainer.codes); /* all of them */
      }
      for (int64_t i = 0; i < rows && step != 2 && step != 5; i++) { /* none in step 2; else a few bits of some rows */
        for (int64_t flips = lac_random_below(&stream, 4); flips > 1; flips--) {
          int64_t l = lac_random_below(&stream, common.bits);
          set_bit(at.trainer.codes, common.words, i, l, !bit_of(at.trainer.codes, common.words, i, l));
        }
      }
    }
    drop_shard(&at);
  }
}

/* More rows than are gathered in one piece, and any number of threads: the same bits. */
static void pieces_and_threads_do_not_show(void **state) {
  enum { ROWS = 131072 + 77 };
  shard made[3];
  lac_hash_options options[3];
  lac_training common[3];
  for (int t = 0; t < 3; t++) {
    options[t] = some_options(3, 1 + 2 * t);
    common[t] = make_training(&options[t], 2, 1);
    lac_random stream = lac_random_stream(42, LAC_RANDOM_TEST, 0, 0);
    make_shard(*state, &common[t], 0, ROWS, true, &made[t]);
    for (int step = 0; step < 2; step++) {
      random_codes(&common[t], ROWS, &stream, made[t].trainer.codes);
      assert_ok(*state, lac_sums_update(*state, &made[t].trainer));
      if (t == 0) {
        check_sums(&made[t]);
      }
    }
  }
  for (int t = 0; t < 3; t++) {
    assert_memory_equal(made[t].trainer.local, made[0].trainer.local, 4 * 6 * sizeof(double));
  }
  for (int t = 0; t < 3; t++) {
    drop_shard(&made[t]);
  }
}

/* sum |x - A z - a|^2 and sum |x|^2 over the shard. */
static double error_of(const shard *from, const float *decoder, double *square) {
  const lac_training *common = from->trainer.common;
  const int64_t padded = lac_padded(common->columns);
  double error = 0;
  *square = 0;
  for (int64_t i = 0; i < from->trainer.x.count; i++) {
    for (int64_t c = 0; c < common->columns; c++) {
      double x = value_at(from, i, c), rest = x - (double)decoder[common->bits * padded + c];
      for (int64_t l = 0; l < common->bits; l++) {
        rest -= bit_of(from->trainer.codes, common->words, i, l) ? (double)decoder[l * padded + c] : 0;
      }
      error += rest * rest;
      *square += x * x;
    }
  }
  return error;
}

/* Codes with `kind` of dependence among the bits; bits 1, 3 and 4 are those that are made special. */
static void make_codes(shard *at, int kind, lac_random *stream) {
  const lac_training *common = at->trainer.common;
  uint64_t *codes = at->trainer.codes;
  /* Bits that say something of x: half a code of signs, half of it noise. */
  random_codes(common, at->trainer.x.count, stream, codes);
  for (int64_t i = 0; i < at->trainer.x.count; i++) {
    for (int64_t l = 0; l < common->bits; l += 2) {
      set_bit(codes, common->words, i, l, value_at(at, i, l % common->columns) > 0.02 * (double)(l % 5));
    }
    if (kind == 1) {
      set_bit(codes, common->words, i, 3, 0);
    } else if (kind == 2) {
      set_bit(codes, common->words, i, 3, 1);
    } else if (kind == 3) {
      set_bit(codes, common->words, i, 3, bit_of(codes, common->words, i, 1));
    } else if (kind == 4) {
      set_bit(codes, common->words, i, 3, !bit_of(codes, common->words, i, 1));
    } else if (kind == 5) { /* all of them */
      for (int64_t l = 0; l < common->bits; l++) {
        set_bit(codes, common->words, i, l, l % 2 != 0);
      }
    }
  }
}

static void the_decoder_is_the_least_squares_fit(void **state) {
  static const setting shapes[] = {{5, 7, 300, true}, {16, 40, 500, false}, {70, 12, 900, true}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    for (int kind = 0; kind < 6; kind++) {
      lac_hash_options options = some_options(shapes[s].bits, 1);
      lac_training common = make_training(&options, shapes[s].columns, 1);
      lac_random stream = lac_random_stream(43, LAC_RANDOM_TEST, s, (uint64_t)kind);
      const int64_t bits = common.bits, padded = lac_padded(common.columns), rows = shapes[s].rows;
      double explained, square;
      shard at;
      make_shard(*state, &common, 0, rows, shapes[s].bytes, &at);
      make_codes(&at, kind, &stream);
      assert_ok(*state, lac_sums_update(*state, &at.trainer));
      float *decoder = at.trainer.model.decoder;
      assert_ok(*state, lac_decoder_solve(*state, &common, at.trainer.local, decoder, &explained));
      double error = error_of(&at, decoder, &square);
      assert_true(fabs(square - explained - error) < 1e-5 * square);
      /* Residuals are orthogonal to every bit and to the constant, relative to the largest that they could be. */
      for (int64_t c = 0; c < common.columns; c++) {
        double along[131] = {0}, size = 0;
        for (int64_t i = 0; i < rows; i++) {
          double rest = value_at(&at, i, c) - (double)decoder[bits * padded + c];
          for (int64_t l = 0; l < bits; l++) {
            rest -= bit_of(at.trainer.codes, common.words, i, l) ? (double)decoder[l * padded + c] : 0;
          }
          for (int64_t l = 0; l <= bits; l++) {
            along[l] += l == bits || bit_of(at.trainer.codes, common.words, i, l) ? rest : 0;
          }
          size += fabs(value_at(&at, i, c));
        }
        for (int64_t l = 0; l <= bits; l++) {
          assert_true(fabs(along[l]) < 1e-4 * size);
        }
        for (int64_t c_pad = common.columns; c_pad < padded; c_pad++) {
          assert_true(decoder[bits * padded + c_pad] == 0);
        }
        /* Of all fits, about that with the smallest weights: what the sums of single precision leave unsettled does
         * not grow to weights of a size beyond the data's. */
        double third = (double)decoder[3 * padded + c], first = (double)decoder[1 * padded + c],
               offset = (double)decoder[bits * padded + c];
        assert_true(kind != 1 || third == 0);
        assert_true(kind != 2 || fabs(third - offset) < 0.1);
        assert_true(kind != 3 || fabs(third - first) < 0.1);
      }
      /* Moving any weight makes it worse. */
      for (int trial = 0; trial < 10 && kind == 0; trial++) {
        int64_t l = lac_random_below(&stream, bits + 1), c = lac_random_below(&stream, common.columns);
        float before = decoder[l * padded + c];
        decoder[l * padded + c] += trial % 2 ? 0.02F : -0.02F;
        assert_true(error_of(&at, decoder, &square) > error);
        decoder[l * padded + c] = before;
      }
      drop_shard(&at);
    }
  }
}

/* One bit and one column by hand: x = 1, 3 where the bit is set and 0, 0, 2 where it is not. The fit is the mean of
 * each group: offset 2/3 and weight 4/3; it leaves 2 + 8/3 of 14. */
static void one_bit_by_hand(void **state) {
  static const float x[] = {1, 0, 3, 0, 2};
  static const int z[] = {1, 0, 1, 0, 0};
  lac_hash_options options = some_options(1, 1);
  lac_training common = make_training(&options, 1, 1);
  shard at;
  double explained;
  make_shard(*state, &common, 0, 5, false, &at);
  memcpy(at.values, x, sizeof x);
  at.shift[0] = 0;
  at.trainer.x.scale = 1;
  for (int i = 0; i < 5; i++) {
    at.trainer.codes[i] = (uint64_t)z[i];
  }
  assert_ok(*state, lac_sums_update(*state, &at.trainer));
  static const double expected[] = {2, 2, 4, 2, 5, 6}; /* [z'z z'1 z'x; 1'z 1'1 1'x] */
  for (int i = 0; i < 6; i++) {
    assert_true(at.trainer.local[i] == expected[i]);
  }
  assert_ok(*state, lac_decoder_solve(*state, &common, at.trainer.local, at.trainer.model.decoder, &explained));
  assert_true(fabs((double)at.trainer.model.decoder[0] - 4.0 / 3) < 1e-5);
  assert_true(fabs((double)at.trainer.model.decoder[8] - 2.0 / 3) < 1e-5);
  assert_true(fabs(explained - (14 - 2 - 8.0 / 3)) < 1e-5);
  drop_shard(&at);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(follow_the_codes),
      cmocka_unit_test(pieces_and_threads_do_not_show),
      cmocka_unit_test(the_decoder_is_the_least_squares_fit),
      cmocka_unit_test(one_bit_by_hand),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
