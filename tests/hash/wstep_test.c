/* The W step's submodels: a state's bits depend on its shard and its visits alone; what travels is whole; encoders
 * learn what can be learnt; the decoder's groups add up. */
#include "shard.h"

typedef struct bench {
  lac_hash_options options;
  lac_training common;
  float *vectors, *factors;
  shard shard[3];
  int shards;
} bench;

/* A preconditioner of `rank` unit vectors, orthogonal to each other (columns of a reflection). */
static void make_preconditioner(lac_context *context, bench *made, int64_t rank) {
  const int64_t columns = made->common.columns, padded = lac_padded(columns);
  double length = 0;
  double *u;
  lac_random stream = lac_random_stream(51, LAC_RANDOM_TEST, 0, 0);
  assert_ok(context, LAC_NEW(context, columns, &u));
  assert_ok(context, LAC_NEW(context, rank * padded, &made->vectors));
  assert_ok(context, LAC_NEW(context, rank, &made->factors));
  for (int64_t c = 0; c < columns; c++) {
    u[c] = lac_random_normal(&stream);
    length += u[c] * u[c];
  }
  for (int64_t k = 0; k < rank; k++) {
    for (int64_t c = 0; c < columns; c++) {
      made->vectors[k * padded + c] = (float)((k == c) - 2 * u[k] * u[c] / length);
    }
    made->factors[k] = 0.9F / (float)(k + 1);
  }
  made->common.precondition = (lac_preconditioner){rank, made->vectors, made->factors, 0.05, 0.05 * (double)columns};
  lac_free(u);
}

static void make_bench(lac_context *context, int64_t bits, int64_t columns, int64_t rows, int shards, bool bytes,
                       int64_t rank, int64_t threads, bench *made) {
  *made = (bench){.options = some_options(bits, threads), .shards = shards};
  made->common = make_training(&made->options, columns, shards);
  make_preconditioner(context, made, rank);
  lac_random stream = lac_random_stream(52, LAC_RANDOM_TEST, (uint64_t)bits, (uint64_t)columns);
  for (int s = 0; s < shards; s++) {
    lac_random encoder = lac_random_stream(53, LAC_RANDOM_TEST, (uint64_t)bits, (uint64_t)columns);
    make_shard(context, &made->common, s, rows + 5 * s, bytes, &made->shard[s]);
    random_encoder(&made->shard[s].trainer, &encoder);
    random_codes(&made->common, rows + 5 * s, &stream, made->shard[s].trainer.codes);
  }
}

static void drop_bench(bench *made) {
  for (int s = 0; s < made->shards; s++) {
    drop_shard(&made->shard[s]);
  }
  lac_free(made->vectors);
  lac_free(made->factors);
}

/* States of all submodels as they start, each in memory of exactly its size. */
static void **make_states(lac_context *context, lac_trainer *trainer) {
  const int64_t submodels = 2 * trainer->common->bits;
  void **states = calloc((size_t)submodels, sizeof *states);
  assert_non_null(states);
  for (int64_t m = 0; m < submodels; m++) {
    states[m] = malloc(lac_w_bytes(trainer, m));
    assert_non_null(states[m]);
    assert_ok(context, lac_w_pack(trainer, context, m, states[m]));
  }
  return states;
}

static void drop_states(const lac_trainer *trainer, void **states) {
  for (int64_t m = 0; m < 2 * trainer->common->bits; m++) {
    free(states[m]);
  }
  free(states);
}

static void assert_same_states(const lac_trainer *trainer, void *const *a, void *const *b) {
  for (int64_t m = 0; m < 2 * trainer->common->bits; m++) {
    assert_memory_equal(a[m], b[m], lac_w_bytes(trainer, m));
  }
}

/* One training visit of all submodels to shard s, in the order and the groups that `stream` draws; one by one without.
 */
static void visit_all(lac_context *context, bench *at, int s, int64_t visit, int64_t passes, void **states,
                      lac_random *stream) {
  enum { MOST = 256 };
  const int64_t submodels = 2 * at->common.bits;
  int64_t order[MOST], visits[MOST];
  void *in_order[MOST];
  assert_true(submodels <= MOST);
  for (int64_t i = 0; i < submodels; i++) {
    order[i] = i;
    visits[i] = visit;
  }
  if (stream) {
    lac_random_permutation(stream, submodels, order);
  }
  for (int64_t i = 0; i < submodels; i++) {
    in_order[i] = states[order[i]];
  }
  for (int64_t first = 0; first < submodels;) {
    int64_t count = stream ? 1 + lac_random_below(stream, submodels) : 1;
    count = count < submodels - first ? count : submodels - first;
    assert_ok(context, lac_w_train(&at->shard[s].trainer, context, count, order + first, visits + first, passes,
                                   in_order + first));
    first += count;
  }
}

static void a_state_does_not_see_its_neighbours(void **state) {
  static const struct {
    int64_t bits, columns, rows, rank;
    bool bytes;
  } cases[] = {{1, 5, 40, 0, true}, {13, 37, 777, 4, true}, {20, 90, 300, 7, false}, {33, 16, 129, 1, true}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    bench alone;
    make_bench(*state, cases[k].bits, cases[k].columns, cases[k].rows, 2, cases[k].bytes, cases[k].rank, 1, &alone);
    lac_trainer *trainer = &alone.shard[0].trainer;
    void **expected = make_states(*state, trainer), **start = make_states(*state, trainer);
    for (int s = 0; s < 2; s++) {
      assert_ok(*state, lac_w_begin(&alone.shard[s].trainer, *state, 3));
    }
    for (int64_t visit = 0; visit < 3; visit++) {
      visit_all(*state, &alone, (int)visit % 2, visit, 1 + visit, expected, NULL);
    }
    for (int64_t m = 0; m < 2 * cases[k].bits; m += 2) { /* encoders */
      assert_memory_not_equal(expected[m], start[m], lac_w_bytes(trainer, m));
    }
    lac_random stream = lac_random_stream(54, LAC_RANDOM_TEST, k, 0);
    for (int64_t threads = 1; threads <= 7; threads += threads < 3 ? 1 : 4) {
      for (int trial = 0; trial < 3; trial++) {
        bench beside;
        make_bench(*state, cases[k].bits, cases[k].columns, cases[k].rows, 2, cases[k].bytes, cases[k].rank, threads,
                   &beside);
        void **states = make_states(*state, &beside.shard[0].trainer);
        for (int s = 0; s < 2; s++) {
          if (trial == 1) { /* another iteration before does not show */
            assert_ok(*state, lac_w_begin(&beside.shard[s].trainer, *state, 2));
          }
          assert_ok(*state, lac_w_begin(&beside.shard[s].trainer, *state, 3));
        }
        for (int64_t visit = 0; visit < 3; visit++) {
          visit_all(*state, &beside, (int)visit % 2, visit, 1 + visit, states, &stream);
        }
        assert_same_states(trainer, states, expected);
        drop_states(&beside.shard[0].trainer, states);
        drop_bench(&beside);
      }
    }
    drop_states(trainer, start);
    drop_states(trainer, expected);
    drop_bench(&alone);
  }
}

/* Two passes in one visit are a visit of one pass twice; and the rows come in another order in another iteration. */
static void passes_and_iterations(void **state) {
  bench at;
  make_bench(*state, 6, 20, 500, 1, true, 2, 1, &at);
  lac_trainer *trainer = &at.shard[0].trainer;
  void **together = make_states(*state, trainer), **apart = make_states(*state, trainer),
       **other = make_states(*state, trainer);
  assert_ok(*state, lac_w_begin(trainer, *state, 1));
  visit_all(*state, &at, 0, 1, 2, together, NULL);
  visit_all(*state, &at, 0, 1, 1, apart, NULL);
  visit_all(*state, &at, 0, 2, 1, apart, NULL);
  assert_same_states(trainer, together, apart);
  assert_ok(*state, lac_w_begin(trainer, *state, 2));
  visit_all(*state, &at, 0, 1, 2, other, NULL);
  for (int64_t m = 0; m < 12; m += 2) { /* encoders */
    assert_memory_not_equal(together[m], other[m], lac_w_bytes(trainer, m));
  }
  drop_states(trainer, together);
  drop_states(trainer, apart);
  drop_states(trainer, other);
  drop_bench(&at);
}

static void what_is_packed_is_unpacked(void **state) {
  static const int64_t shapes[][2] = {{1, 1}, {3, 2}, {7, 7}, {8, 8}, {16, 33}, {70, 20}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    bench from, to;
    make_bench(*state, shapes[s][0], shapes[s][1], 30, 1, true, 0, 1, &from);
    make_bench(*state, shapes[s][0], shapes[s][1], 30, 1, true, 0, 1, &to);
    lac_trainer *source = &from.shard[0].trainer, *target = &to.shard[0].trainer;
    const int64_t bits = shapes[s][0], columns = shapes[s][1], padded = lac_padded(columns), head = bits + 1;
    for (int64_t i = 0; i < bits * padded; i++) {
      target->model.weight[i] = i % padded < columns ? NAN : 0;
    }
    for (int64_t l = 0; l < bits; l++) {
      target->model.bias[l] = NAN;
    }
    for (int64_t i = 0; i < head * (head + columns); i++) {
      target->sums[i] = NAN;
    }
    void **states = make_states(*state, source);
    size_t decoder_bytes = 0;
    for (int64_t m = 0; m < 2 * bits; m++) {
      if (lac_is_encoder(m)) {
        assert_true(lac_w_bytes(source, m) == lac_w_bytes(target, 0));
        assert_true(lac_w_bytes(source, m) >= (size_t)(columns + 1) * sizeof(float));
        assert_true(lac_w_bytes(source, m) <= (size_t)(columns + 1) * sizeof(float) + 24);
      } else {
        decoder_bytes += lac_w_bytes(source, m);
        const double *sums = states[m];
        for (size_t i = 0; i < lac_w_bytes(source, m) / sizeof *sums; i++) {
          assert_true(sums[i] == 0); /* a shard's part is added on its visit */
        }
      }
      assert_ok(*state, lac_w_unpack(target, *state, m, states[m]));
    }
    assert_true(decoder_bytes == (size_t)(head * (head + columns)) * sizeof(double));
    assert_memory_equal(target->model.weight, source->model.weight, (size_t)(bits * padded) * sizeof(float));
    assert_memory_equal(target->model.bias, source->model.bias, (size_t)bits * sizeof(float));
    for (int64_t i = 0; i < head * (head + columns); i++) {
      assert_true(target->sums[i] == 0);
    }
    drop_states(source, states);
    drop_bench(&from);
    drop_bench(&to);
  }
}

static void groups_part_the_columns(void **state) {
  (void)state;
  for (int64_t bits = 1; bits <= 130; bits += 1 + bits / 7) {
    for (int64_t columns = 1; columns <= 1000; columns += 1 + columns / 2) {
      lac_hash_options options = some_options(bits, 1);
      lac_training common = make_training(&options, columns, 1);
      int64_t next = 0, widest = 0, narrowest = INT64_MAX;
      for (int64_t g = 0; g < bits; g++) {
        int64_t first, last;
        lac_decoder_group(common.bits, common.columns, g, &first, &last);
        assert_int_equal(first, next);
        assert_true(last > first);
        widest = last - first > widest ? last - first : widest;
        narrowest = last - first < narrowest ? last - first : narrowest;
        next = last;
      }
      assert_int_equal(next, bits + 1 + columns);
      assert_true(widest - narrowest <= 1);
    }
  }
}

/* On the first lap a group takes each shard's part once, on later laps none; after it, every shard's decoder is the fit
 * to all shards. */
static void groups_add_up(void **state) {
  static const int64_t shapes[][2] = {{1, 4}, {5, 9}, {16, 40}, {66, 12}};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    bench at;
    make_bench(*state, shapes[k][0], shapes[k][1], 200, 3, k % 2 == 0, 0, 1, &at);
    const int64_t bits = shapes[k][0], head = bits + 1, stride = head + shapes[k][1], padded = lac_padded(shapes[k][1]);
    lac_random stream = lac_random_stream(55, LAC_RANDOM_TEST, k, 0);
    void **states = make_states(*state, &at.shard[0].trainer);
    for (int s = 0; s < 3; s++) {
      assert_ok(*state, lac_w_begin(&at.shard[s].trainer, *state, 1));
    }
    for (int64_t visit = 0; visit < 6; visit++) { /* two laps */
      visit_all(*state, &at, (int)visit % 3, visit, 1, states, &stream);
    }
    for (int s = 0; s < 3; s++) {
      for (int64_t m = 0; m < 2 * bits; m++) {
        assert_ok(*state, lac_w_unpack(&at.shard[s].trainer, *state, m, states[m]));
      }
      assert_ok(*state, lac_w_end(&at.shard[s].trainer, *state));
    }
    double rows = 0;
    for (int s = 0; s < 3; s++) {
      rows += (double)at.shard[s].trainer.x.count;
    }
    double *whole = calloc((size_t)(head * stride), sizeof *whole);
    assert_non_null(whole);
    for (int s = 0; s < 3; s++) {
      for (int64_t i = 0; i < at.shard[s].trainer.x.count; i++) {
        for (int64_t l = 0; l < head; l++) {
          if (l == bits || bit_of(at.shard[s].trainer.codes, at.common.words, i, l)) {
            for (int64_t c = 0; c < stride; c++) {
              whole[l * stride + c] += c >= head   ? value_at(&at.shard[s], i, c - head)
                                       : c == bits ? 1
                                                   : bit_of(at.shard[s].trainer.codes, at.common.words, i, c);
            }
          }
        }
      }
    }
    for (int s = 0; s < 3; s++) {
      const lac_trainer *trainer = &at.shard[s].trainer;
      for (int64_t i = 0; i < head * stride; i++) {
        assert_true(fabs(trainer->sums[i] - whole[i]) < 1e-5 * (1 + sqrt(rows)));
      }
      for (int64_t l = 0; l < head; l++) { /* Z'Z F = Z'X */
        for (int64_t c = 0; c < shapes[k][1]; c++) {
          double rest = whole[l * stride + head + c];
          for (int64_t j = 0; j < head; j++) {
            rest -= whole[l * stride + j] * (double)trainer->model.decoder[j * padded + c];
          }
          assert_true(fabs(rest) < 1e-4 * rows);
        }
      }
      assert_memory_equal(trainer->model.decoder, at.shard[0].trainer.model.decoder,
                          (size_t)(head * padded) * sizeof(float));
    }
    free(whole);
    drop_states(&at.shard[0].trainer, states);
    drop_bench(&at);
  }
}

/* Codes that a linear encoder can give, with a margin: after some visits it gives them, whatever it started from. */
static void separable_bits_are_learnt(void **state) {
  for (int64_t rank = 0; rank <= 3; rank += 3) {
    bench at;
    make_bench(*state, 7, 12, 900, 1, false, rank, 1, &at);
    lac_trainer *trainer = &at.shard[0].trainer;
    lac_random stream = lac_random_stream(56, LAC_RANDOM_TEST, 0, 0);
    const int64_t rows = trainer->x.count;
    float *values = at.shard[0].values;
    double direction[7][12], threshold[7];
    for (int l = 0; l < 7; l++) {
      double length = 0;
      for (int c = 0; c < 12; c++) {
        direction[l][c] = lac_random_normal(&stream);
        length += direction[l][c] * direction[l][c];
      }
      for (int c = 0; c < 12; c++) {
        direction[l][c] /= sqrt(length);
      }
      threshold[l] = 0.1 * lac_random_normal(&stream);
    }
    /* Cubes of side 1 about 0, without the points that are near to one of the planes. */
    memset(at.shard[0].shift, 0, sizeof(float) * 12);
    trainer->x.scale = trainer->input.scale = 1;
    for (int64_t i = 0; i < rows; i++) {
      for (bool near = true; near;) {
        near = false;
        for (int c = 0; c < 12; c++) {
          values[i * 12 + c] = (float)(lac_random_uniform(&stream) - 0.5);
        }
        for (int l = 0; l < 7; l++) {
          double side = -threshold[l];
          for (int c = 0; c < 12; c++) {
            side += direction[l][c] * (double)values[i * 12 + c];
          }
          near = near || fabs(side) < 0.03;
          set_bit(trainer->codes, 1, i, l, side > 0);
        }
      }
    }
    /* Covariance I / 12. */
    at.common.precondition.rank = rank;
    at.common.precondition.floor = 1.0 / 12;
    at.common.precondition.trace = 1;
    int64_t wrong = 0;
    for (int64_t iteration = 1; iteration <= 8; iteration++) {
      assert_ok(*state, lac_w_begin(trainer, *state, iteration));
      void **states = make_states(*state, trainer);
      visit_all(*state, &at, 0, 0, 6, states, &stream);
      for (int64_t m = 0; m < 14; m++) {
        assert_ok(*state, lac_w_unpack(trainer, *state, m, states[m]));
      }
      drop_states(trainer, states);
      wrong = 0;
      for (int64_t i = 0; i < rows * 7; i++) {
        wrong += (margin_of(&at.shard[0], i / 7, i % 7) >= 0) != bit_of(trainer->codes, 1, i / 7, i % 7);
      }
    }
    assert_true(wrong * 200 < rows * 7); /* under half a percent of the bits */
    drop_bench(&at);
  }
}

/* What the loss does where nothing can be told: a bit that is always set gets a positive output everywhere. */
static void a_constant_bit_is_learnt(void **state) {
  bench at;
  make_bench(*state, 2, 10, 600, 1, true, 0, 1, &at);
  lac_trainer *trainer = &at.shard[0].trainer;
  for (int64_t i = 0; i < trainer->x.count; i++) {
    trainer->codes[i] = 1;
  }
  for (int64_t i = 0; i < 2 * trainer->x.padded; i++) {
    trainer->model.weight[i] = 0;
  }
  trainer->model.bias[0] = -0.5F;
  trainer->model.bias[1] = 0.5F;
  assert_ok(*state, lac_w_begin(trainer, *state, 1));
  void **states = make_states(*state, trainer);
  visit_all(*state, &at, 0, 0, 10, states, NULL);
  for (int64_t m = 0; m < 4; m++) {
    assert_ok(*state, lac_w_unpack(trainer, *state, m, states[m]));
  }
  for (int64_t i = 0; i < trainer->x.count; i++) {
    assert_true(margin_of(&at.shard[0], i, 0) > 0.5 && margin_of(&at.shard[0], i, 1) < -0.5);
  }
  drop_states(trainer, states);
  drop_bench(&at);
}

/* One step from all rows: sum y p x, p the slack between 0 and 1, which a row on the wrong side does not exceed. Its
 * length is the step size's matter; the direction is computed here in double precision. */
static void a_row_pulls_as_its_slack_up_to_one(void **state) {
  enum { COLUMNS = 9, ROWS = 100 };
  bench at;
  make_bench(*state, 4, COLUMNS, ROWS, 1, false, 0, 1, &at);
  at.options.penalty = 0;
  lac_trainer *trainer = &at.shard[0].trainer;
  for (int64_t i = 0; i < 4 * trainer->x.padded; i++) {
    trainer->model.weight[i] *= 4; /* margins of all sizes */
  }
  assert_ok(*state, lac_w_begin(trainer, *state, 1));
  void **states = make_states(*state, trainer);
  visit_all(*state, &at, 0, 0, 1, states, NULL);
  for (int64_t l = 0; l < 4; l++) {
    double expected[COLUMNS] = {0}, total = 0, product = 0, found_length = 0, length = 0;
    int none = 0, some = 0, bounded = 0;
    for (int64_t i = 0; i < ROWS; i++) {
      double y = bit_of(trainer->codes, 1, i, l) ? 1 : -1, slack = 1 - y * margin_of(&at.shard[0], i, l);
      double pull = slack <= 0 ? 0 : fmin(slack, 1);
      none += slack <= 0;
      some += slack > 0 && slack < 1;
      bounded += slack > 1;
      total += y * pull;
      for (int64_t c = 0; c < COLUMNS; c++) {
        expected[c] += y * pull * value_at(&at.shard[0], i, c);
      }
    }
    assert_true(none > 0 && some > 0 && bounded > 0);
    const float *before = trainer->model.weight + l * trainer->x.padded;
    const float *after = (const float *)((const char *)states[2 * l] + sizeof(double));
    for (int64_t c = 0; c < COLUMNS; c++) {
      double moved = (double)after[c] - (double)before[c];
      product += moved * expected[c];
      found_length += moved * moved;
      length += expected[c] * expected[c];
    }
    assert_true(product > (1 - 1e-6) * sqrt(found_length * length) && found_length > 0);
    double moved = (double)after[COLUMNS] - (double)trainer->model.bias[l];
    assert_true(moved * total > 0 && fabs(moved) < fabs(total));
  }
  drop_states(trainer, states);
  drop_bench(&at);
}

static void an_interrupt_ends_it(void **state) {
  lac_context *context;
  bench at;
  assert_ok(*state, lac_context_create(&context));
  make_bench(context, 3, 10, 600, 1, true, 0, 1, &at);
  lac_trainer *trainer = &at.shard[0].trainer;
  void **states = make_states(context, trainer);
  const int64_t id = 0, visits = 0;
  assert_ok(context, lac_w_begin(trainer, context, 1));
  lac_context_interrupt(context);
  assert_failure(context, lac_w_train(trainer, context, 1, &id, &visits, 1, states), LAC_E_INTERRUPTED, "interrupted");
  drop_states(trainer, states);
  drop_bench(&at);
  lac_context_destroy(&context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_state_does_not_see_its_neighbours),
      cmocka_unit_test(passes_and_iterations),
      cmocka_unit_test(what_is_packed_is_unpacked),
      cmocka_unit_test(groups_part_the_columns),
      cmocka_unit_test(groups_add_up),
      cmocka_unit_test(separable_bits_are_learnt),
      cmocka_unit_test(a_constant_bit_is_learnt),
      cmocka_unit_test(a_row_pulls_as_its_slack_up_to_one),
      cmocka_unit_test(an_interrupt_ends_it),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
