/* Whole Z steps against the objective in double precision: up to 16 bits all 2^L codes are looked at, above that the
 * result is compared with plain flips from h(x) and from the previous code. */
#include "hash/enumerate.h"
#include "shard.h"

/* E_Q of a point without |x - a|^2: z'Gz - 2 c'z + mu Hamming(z, h), G = A'A and c = A'(x - a). */
typedef struct oracle {
  int64_t bits, rows, words;
  double mu;
  double *gram;   /* (L, L) */
  double *c;      /* (rows, L) */
  double *square; /* (rows): |x - a|^2 */
  uint64_t *h;    /* (rows, words), and whether each of them is beyond doubt */
  bool *sure;     /* (rows) */
} oracle;

static oracle make_oracle(lac_context *context, const shard *from, double mu) {
  const lac_trainer *trainer = &from->trainer;
  const int64_t bits = trainer->common->bits, rows = trainer->x.count, columns = trainer->x.columns,
                padded = trainer->x.padded, words = trainer->common->words;
  const float *decoder = trainer->model.decoder;
  oracle made = {.bits = bits, .rows = rows, .words = words, .mu = mu};
  double *x;
  assert_ok(context, LAC_NEW(context, bits * bits, &made.gram));
  assert_ok(context, LAC_NEW(context, rows * bits, &made.c));
  assert_ok(context, LAC_NEW(context, rows, &made.square));
  assert_ok(context, LAC_NEW(context, rows * words, &made.h));
  assert_ok(context, LAC_NEW(context, rows, &made.sure));
  assert_ok(context, LAC_NEW(context, columns, &x));
  for (int64_t i = 0; i < bits * bits; i++) {
    for (int64_t c = 0; c < columns; c++) {
      made.gram[i] += (double)decoder[i / bits * padded + c] * (double)decoder[i % bits * padded + c];
    }
  }
  for (int64_t i = 0; i < rows; i++) {
    made.sure[i] = true;
    for (int64_t c = 0; c < columns; c++) {
      x[c] = value_at(from, i, c) - (double)decoder[bits * padded + c];
      made.square[i] += x[c] * x[c];
    }
    for (int64_t l = 0; l < bits; l++) {
      for (int64_t c = 0; c < columns; c++) {
        made.c[i * bits + l] += (double)decoder[l * padded + c] * x[c];
      }
      double margin = margin_of(from, i, l);
      set_bit(made.h, words, i, l, margin >= 0);
      made.sure[i] = made.sure[i] && fabs(margin) > 1e-4;
    }
  }
  lac_free(x);
  return made;
}

static void drop_oracle(oracle *made) {
  lac_free(made->gram);
  lac_free(made->c);
  lac_free(made->square);
  lac_free(made->h);
  lac_free(made->sure);
}

static int64_t distance(const uint64_t *a, const uint64_t *b, int64_t words) {
  int64_t differ = 0;
  for (int64_t word = 0; word < words; word++) {
    differ += __builtin_popcountll(a[word] ^ b[word]);
  }
  return differ;
}

/* |x - A z - a|^2 + mu Hamming(z, h) */
static double value_of(const oracle *from, int64_t row, const uint64_t *z) {
  double value = from->square[row] + from->mu * (double)distance(z, from->h + row * from->words, from->words);
  for (int64_t l = 0; l < from->bits; l++) {
    if (bit_of(z, from->words, 0, l)) {
      value -= 2 * from->c[row * from->bits + l];
      for (int64_t k = 0; k < from->bits; k++) {
        value += bit_of(z, from->words, 0, k) ? from->gram[l * from->bits + k] : 0;
      }
    }
  }
  return value;
}

/* The least value over all codes, one bit changing from code to code (Gray's order). */
static double least_value(const oracle *from, int64_t row) {
  double v[LAC_EXACT_BITS], value = value_of(from, row, &(uint64_t){0}), least = value;
  uint64_t z = 0, h = from->h[row];
  for (int64_t l = 0; l < from->bits; l++) {
    v[l] = -from->c[row * from->bits + l];
  }
  for (uint32_t i = 1; i < UINT32_C(1) << from->bits; i++) {
    int l = __builtin_ctz(i);
    double s = z >> l & 1 ? -1 : 1;
    value += from->gram[l * from->bits + l] + 2 * s * v[l] + from->mu * ((z ^ h) >> l & 1 ? -1 : 1);
    for (int64_t k = 0; k < from->bits; k++) {
      v[k] += s * from->gram[l * from->bits + k];
    }
    z ^= UINT64_C(1) << l;
    least = value < least ? value : least;
  }
  return least;
}

/* Flips from z in double precision until L bits in a row stand. */
static double flipped_value(const oracle *from, int64_t row, const uint64_t *start) {
  enum { MOST = 192 };
  const int64_t bits = from->bits;
  const uint64_t *h = from->h + row * from->words;
  double v[MOST], value = value_of(from, row, start);
  int z[MOST];
  assert_true(bits <= MOST);
  for (int64_t l = 0; l < bits; l++) {
    z[l] = bit_of(start, from->words, 0, l);
    v[l] = -from->c[row * bits + l];
    for (int64_t k = 0; k < bits; k++) {
      v[l] += bit_of(start, from->words, 0, k) ? from->gram[l * bits + k] : 0;
    }
  }
  for (int64_t l = 0, standing = 0; standing < bits; l = (l + 1) % bits, standing++) {
    double s = z[l] ? -1 : 1;
    double change =
        from->gram[l * bits + l] + 2 * s * v[l] + from->mu * (z[l] == bit_of(h, from->words, 0, l) ? 1 : -1);
    if (change < -1e-9) {
      value += change;
      z[l] = !z[l];
      for (int64_t k = 0; k < bits; k++) {
        v[k] += s * from->gram[l * bits + k];
      }
      standing = 0;
    }
  }
  return value;
}

/* What a Z step says of itself, computed from the codes that it left. Rows whose h is in doubt weigh by their doubt. */
static void check_sums(const oracle *from, const uint64_t *codes, const lac_mac_sums *sums) {
  double penalised = 0, nested = 0, square = 0;
  int64_t disagreements = 0;
  for (int64_t i = 0; i < from->rows; i++) {
    assert_true(from->sure[i]);
    penalised += value_of(from, i, codes + i * from->words);
    nested += value_of(from, i, from->h + i * from->words);
    disagreements += distance(codes + i * from->words, from->h + i * from->words, from->words);
    square += from->square[i];
  }
  assert_int_equal(sums->points, from->rows);
  assert_int_equal(sums->disagreements, disagreements);
  assert_true(fabs(sums->penalised - penalised) < 2e-6 * (square + penalised));
  assert_true(fabs(sums->nested - nested) < 2e-6 * (square + nested));
}

/* No row of a test may have an encoder output so near zero that rounding decides its bit: the bias moves. */
static void clear_of_doubt(shard *made) {
  for (int64_t l = 0; l < made->trainer.common->bits; l++) {
    for (int64_t i = 0, moves = 0; i < made->trainer.x.count; i++) {
      if (fabs(margin_of(made, i, l)) <= 1e-4) {
        made->trainer.model.bias[l] += 1e-3F;
        i = -1;
        assert_true(++moves < 500);
      }
    }
  }
}

typedef struct setting {
  int64_t bits, columns, rows, threads;
  bool bytes;
} setting;

typedef struct scene {
  lac_hash_options options;
  lac_training common;
  shard shard;
} scene;

static void make_scene(lac_context *context, const setting *set, uint64_t key, scene *made) {
  lac_random stream = lac_random_stream(31, LAC_RANDOM_TEST, (uint64_t)set->bits, key);
  made->options = some_options(set->bits, set->threads);
  made->common = make_training(&made->options, set->columns, 1);
  make_shard(context, &made->common, 0, set->rows, set->bytes, &made->shard);
  random_encoder(&made->shard.trainer, &stream);
  random_decoder(&made->shard.trainer, 1 / sqrt((double)set->bits) / 4, &stream);
  random_codes(&made->common, set->rows, &stream, made->shard.trainer.codes);
  clear_of_doubt(&made->shard);
  assert_ok(context, lac_sums_update(context, &made->shard.trainer));
}

static void up_to_16_bits_it_is_exact(void **state) {
  static const setting settings[] = {{1, 3, 40, 1, true},
                                     {5, 12, 300, 2, true},
                                     {5, 2, 140, 1, false},
                                     {10, 30, 200, 1, true},
                                     {16, 41, 24, 1, false}};
  static const double mus[] = {1e-9, 0.003, 0.05, 0.4};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    for (size_t m = 0; m < sizeof mus / sizeof *mus; m++) {
      if (settings[s].bits == 16 && m % 2) {
        continue; /* 65,536 codes a point: two are enough */
      }
      scene at;
      lac_mac_sums sums;
      make_scene(*state, &settings[s], m, &at);
      oracle truth = make_oracle(*state, &at.shard, mus[m]);
      assert_ok(*state, lac_z_step(&at.shard.trainer, *state, mus[m], &sums));
      for (int64_t i = 0; i < truth.rows; i++) {
        const uint64_t *z = at.shard.trainer.codes + i;
        assert_true(*z < UINT64_C(1) << truth.bits);
        assert_true(value_of(&truth, i, z) <= least_value(&truth, i) + 2e-5 * (1 + truth.square[i]));
      }
      check_sums(&truth, at.shard.trainer.codes, &sums);
      drop_oracle(&truth);
      drop_shard(&at.shard);
    }
  }
}

/* Bits that add the same, a bit that adds nothing, more bits than columns: R has no inverse. */
static void it_is_exact_where_the_decoder_is_singular(void **state) {
  static const setting settings[] = {{8, 20, 150, 1, true}, {12, 4, 60, 1, false}};
  for (size_t s = 0; s < 2; s++) {
    for (int kind = 0; kind < 4; kind++) {
      scene at;
      lac_mac_sums sums;
      make_scene(*state, &settings[s], 10 + (uint64_t)kind, &at);
      lac_trainer *trainer = &at.shard.trainer;
      const int64_t padded = trainer->x.padded;
      float *decoder = trainer->model.decoder;
      for (int64_t c = 0; c < trainer->x.columns; c++) {
        decoder[3 * padded + c] = kind == 0 ? decoder[5 * padded + c] : decoder[3 * padded + c];
        decoder[4 * padded + c] = kind == 1 ? 0 : decoder[4 * padded + c];
        if (kind == 2) { /* equal but for rounding */
          decoder[2 * padded + c] = decoder[1 * padded + c] * (1 + 1e-6F * (float)(c % 3));
        }
        if (kind == 3) { /* nearly the sum of two others, and a very short column */
          decoder[6 * padded + c] = decoder[1 * padded + c] + decoder[2 * padded + c] + 1e-5F * (float)(c % 5);
          decoder[7 * padded + c] *= 1e-4F;
        }
      }
      oracle truth = make_oracle(*state, &at.shard, 0.02);
      assert_ok(*state, lac_z_step(trainer, *state, 0.02, &sums));
      for (int64_t i = 0; i < truth.rows; i++) {
        assert_true(value_of(&truth, i, trainer->codes + i) <= least_value(&truth, i) + 2e-5 * (1 + truth.square[i]));
      }
      check_sums(&truth, trainer->codes, &sums);
      drop_oracle(&truth);
      drop_shard(&at.shard);
    }
  }
}

static void beyond_16_bits_it_is_no_worse_than_flips(void **state) {
  static const setting settings[] = {{17, 50, 150, 1, true}, {24, 33, 140, 2, false}, {40, 64, 70, 1, true},
                                     {64, 70, 40, 1, true},  {65, 80, 40, 1, false},  {130, 30, 20, 1, true}};
  static const double mus[] = {1e-9, 0.01, 0.2};
  int64_t better = 0;
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    for (size_t m = 0; m < sizeof mus / sizeof *mus; m++) {
      double without[150];
      for (int relaxed = 0; relaxed < 2; relaxed++) {
        scene at;
        lac_mac_sums sums;
        make_scene(*state, &settings[s], 20 + m, &at);
        lac_trainer *trainer = &at.shard.trainer;
        const int64_t words = at.common.words;
        trainer->relaxed_starts = relaxed;
        oracle truth = make_oracle(*state, &at.shard, mus[m]);
        uint64_t *before;
        assert_ok(*state, LAC_NEW(*state, truth.rows * words, &before));
        memcpy(before, trainer->codes, (size_t)(truth.rows * words) * sizeof *before);
        assert_ok(*state, lac_z_step(trainer, *state, mus[m], &sums));
        assert_int_equal(trainer->relaxed_starts, 0);
        for (int64_t i = 0; i < truth.rows; i++) {
          const uint64_t *z = trainer->codes + i * words;
          double value = value_of(&truth, i, z), rounding = 2e-5 * (1 + truth.square[i]);
          assert_true(value <= value_of(&truth, i, truth.h + i * words) + rounding);
          assert_true(value <= value_of(&truth, i, before + i * words) + rounding);
          assert_true(value <= flipped_value(&truth, i, z) + rounding); /* no flip gains */
          assert_true(value <= flipped_value(&truth, i, truth.h + i * words) + rounding);
          assert_true(value <= flipped_value(&truth, i, before + i * words) + rounding);
          if (relaxed) { /* one more start can only help */
            assert_true(value <= without[i] + rounding);
            better += value < without[i] - rounding;
          } else {
            without[i] = value;
          }
          for (int64_t l = truth.bits; l < 64 * words; l++) {
            assert_int_equal(bit_of(z, words, 0, l), 0);
          }
        }
        check_sums(&truth, trainer->codes, &sums);
        lac_free(before);
        drop_oracle(&truth);
        drop_shard(&at.shard);
      }
    }
  }
  assert_true(better > 150);
}

static void a_huge_mu_gives_the_encoders_codes(void **state) {
  static const setting settings[] = {
      {5, 9, 150, 1, true}, {16, 20, 150, 1, true}, {33, 40, 130, 1, false}, {65, 70, 140, 1, true}};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    for (int relaxed = 0; relaxed < 2; relaxed++) {
      scene at;
      lac_mac_sums sums;
      make_scene(*state, &settings[s], 40, &at);
      lac_trainer *trainer = &at.shard.trainer;
      trainer->relaxed_starts = relaxed;
      oracle truth = make_oracle(*state, &at.shard, 1e5);
      uint64_t *encoded;
      assert_ok(*state, LAC_NEW(*state, truth.rows * truth.words, &encoded));
      assert_ok(*state, lac_trainer_encode(*state, trainer, encoded));
      assert_memory_equal(encoded, truth.h, (size_t)(truth.rows * truth.words) * sizeof *encoded);
      assert_ok(*state, lac_z_step(trainer, *state, 1e5, &sums));
      assert_memory_equal(trainer->codes, truth.h, (size_t)(truth.rows * truth.words) * sizeof *encoded);
      assert_int_equal(sums.disagreements, 0);
      assert_true(fabs(sums.penalised - sums.nested) < 1e-6 * sums.nested);
      check_sums(&truth, trainer->codes, &sums);
      lac_free(encoded);
      drop_oracle(&truth);
      drop_shard(&at.shard);
    }
  }
}

/* Codes and sums, bit for bit; and a second step at the same mu leaves no worse codes than it found. */
static void threads_do_not_show(void **state) {
  static const setting settings[] = {{6, 4, 8200, 1, true}, {18, 7, 4300, 1, false}};
  for (size_t s = 0; s < 2; s++) {
    scene first = {0};
    lac_mac_sums sums, other_sums;
    make_scene(*state, &settings[s], 50, &first);
    first.shard.trainer.relaxed_starts = 1;
    assert_ok(*state, lac_z_step(&first.shard.trainer, *state, 0.02, &sums));
    for (int64_t threads = 2; threads <= 5; threads += 3) {
      scene other;
      setting with_threads = settings[s];
      with_threads.threads = threads;
      make_scene(*state, &with_threads, 50, &other);
      other.shard.trainer.relaxed_starts = 1;
      assert_ok(*state, lac_z_step(&other.shard.trainer, *state, 0.02, &other_sums));
      assert_memory_equal(first.shard.trainer.codes, other.shard.trainer.codes,
                          (size_t)(settings[s].rows * first.common.words) * sizeof(uint64_t));
      assert_memory_equal(&sums, &other_sums, sizeof sums);
      drop_shard(&other.shard);
    }
    assert_ok(*state, lac_z_step(&first.shard.trainer, *state, 0.02, &other_sums));
    assert_true(other_sums.penalised <= sums.penalised * (1 + 1e-6) && other_sums.nested == sums.nested);
    drop_shard(&first.shard);
  }
}

/* The same numbers as bytes and as floats lead to the same codes. */
static void bytes_and_floats_agree(void **state) {
  static const setting settings[] = {{9, 21, 300, 1, true}, {30, 40, 300, 1, true}};
  for (size_t s = 0; s < 2; s++) {
    scene as_bytes, as_floats;
    lac_mac_sums byte_sums, float_sums;
    setting floats = settings[s];
    floats.bytes = false;
    make_scene(*state, &settings[s], 60, &as_bytes);
    make_scene(*state, &floats, 60, &as_floats);
    const int64_t columns = settings[s].columns, padded = lac_padded(columns);
    const lac_rows *x = &as_bytes.shard.trainer.x;
    for (int64_t i = 0; i < settings[s].rows * columns; i++) {
      ((float *)as_floats.shard.values)[i] = x->bytes[(size_t)(i / columns) * x->stride + (size_t)(i % columns)];
    }
    memcpy(as_floats.shard.trainer.model.bias, as_bytes.shard.trainer.model.bias,
           (size_t)settings[s].bits * sizeof(float));
    as_floats.shard.trainer.summed_subsample = 0;
    memset(as_floats.shard.trainer.local, 0,
           (size_t)((settings[s].bits + 1) * (settings[s].bits + 1 + columns)) * sizeof(double));
    as_floats.shard.trainer.square = 0;
    assert_ok(*state, lac_sums_update(*state, &as_floats.shard.trainer));
    float rows[3 * 40], again[3 * 40];
    assert_ok(*state, lac_rows_read(*state, x, 7, 3, rows));
    assert_ok(*state, lac_rows_read(*state, &as_floats.shard.trainer.x, 7, 3, again));
    for (int64_t i = 0; i < 3 * padded; i++) {
      assert_true(fabs((double)rows[i] - (double)again[i]) < 2e-7);
      assert_true(i % padded < columns || (rows[i] == 0 && again[i] == 0));
    }
    assert_ok(*state, lac_z_step(&as_bytes.shard.trainer, *state, 0.01, &byte_sums));
    assert_ok(*state, lac_z_step(&as_floats.shard.trainer, *state, 0.01, &float_sums));
    assert_int_equal(byte_sums.points, float_sums.points);
    assert_true(fabs(byte_sums.penalised - float_sums.penalised) < 1e-5 * byte_sums.penalised);
    assert_true(fabs(byte_sums.nested - float_sums.nested) < 1e-5 * byte_sums.nested);
    drop_shard(&as_bytes.shard);
    drop_shard(&as_floats.shard);
  }
}

static void an_interrupt_ends_it(void **state) {
  lac_context *context;
  scene at;
  lac_mac_sums sums;
  assert_ok(*state, lac_context_create(&context));
  make_scene(context, &(setting){10, 6, 600, 1, true}, 70, &at);
  lac_context_interrupt(context);
  assert_failure(context, lac_z_step(&at.shard.trainer, context, 0.1, &sums), LAC_E_INTERRUPTED, "interrupted");
  drop_shard(&at.shard);
  lac_context_destroy(&context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(up_to_16_bits_it_is_exact),
      cmocka_unit_test(it_is_exact_where_the_decoder_is_singular),
      cmocka_unit_test(beyond_16_bits_it_is_no_worse_than_flips),
      cmocka_unit_test(a_huge_mu_gives_the_encoders_codes),
      cmocka_unit_test(threads_do_not_show),
      cmocka_unit_test(bytes_and_floats_agree),
      cmocka_unit_test(an_interrupt_ends_it),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
