/* A shard that works on a subsample does what one does that has no other rows; and then it has all of them. */
#include "shard.h"

enum { BLOCK = LAC_BLOCK };

typedef struct scene {
  lac_hash_options options;
  lac_training common;
  shard shard;
} scene;

typedef struct setting {
  int64_t bits, columns, rows, subsample;
  bool bytes;
} setting;

static const setting settings[] = {{5, 12, 7 * BLOCK + 50, 3, true},   {16, 41, 9 * BLOCK, 2, false},
                                   {13, 30, 6 * BLOCK + 1, 4, true},   {24, 33, 8 * BLOCK + 127, 7, true},
                                   {40, 20, 5 * BLOCK + 64, 2, false}, {7, 9, BLOCK / 2, 5, true}};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void make_scene(lac_context *context, const setting *set, int64_t rows, scene *made) {
  lac_random stream = lac_random_stream(61, LAC_RANDOM_TEST, (uint64_t)set->bits, 0);
  made->options = some_options(set->bits, 2);
  made->common = make_training(&made->options, set->columns, 1);
  make_shard(context, &made->common, 0, rows, set->bytes, &made->shard);
  random_encoder(&made->shard.trainer, &stream);
  random_decoder(&made->shard.trainer, 1 / sqrt((double)set->bits) / 4, &stream);
  random_codes(&made->common, rows, &stream, made->shard.trainer.codes);
}

static bool takes_part(const scene *at, int64_t row, int64_t subsample) {
  return lac_subsample_takes(&at->shard.trainer, subsample, row / BLOCK);
}

static int64_t count_rows(const scene *at, int64_t subsample) {
  int64_t count = 0;
  for (int64_t row = 0; row < at->shard.trainer.x.count; row++) {
    count += takes_part(at, row, subsample);
  }
  return count;
}

/* `small` holds the rows of `large` that take part, with their codes. */
static void make_small(lac_context *context, const setting *set, const scene *large, scene *small) {
  int64_t words = large->common.words, kept = 0;
  make_scene(context, set, count_rows(large, set->subsample), small);
  lac_trainer *to = &small->shard.trainer;
  const lac_trainer *from = &large->shard.trainer;
  size_t stride = set->bytes ? from->x.stride : (size_t)set->columns * sizeof(float);
  for (int64_t row = 0; row < set->rows; row++) {
    if (takes_part(large, row, set->subsample)) {
      memcpy((char *)small->shard.values + (size_t)kept * stride,
             (const char *)large->shard.values + (size_t)row * stride, stride);
      memcpy(to->codes + kept * words, from->codes + row * words, (size_t)words * sizeof *to->codes);
      kept++;
    }
  }
  assert_int_equal(kept, to->x.count);
}

/* The codes of `large` that take part against all of `small`. */
static void assert_same_codes(const scene *large, int64_t subsample, const scene *small) {
  int64_t words = large->common.words, kept = 0;
  for (int64_t row = 0; row < large->shard.trainer.x.count; row++) {
    if (takes_part(large, row, subsample)) {
      assert_memory_equal(large->shard.trainer.codes + row * words, small->shard.trainer.codes + kept++ * words,
                          (size_t)words * sizeof(uint64_t));
    }
  }
}

static void assert_same_sums(const scene *a, const scene *b) {
  int64_t head = a->common.bits + 1;
  assert_memory_equal(a->shard.trainer.local, b->shard.trainer.local,
                      (size_t)(head * (head + a->common.columns)) * sizeof(double));
  assert_memory_equal(&a->shard.trainer.square, &b->shard.trainer.square, sizeof(double));
}

static void assert_same_steps(const lac_mac_sums *a, const lac_mac_sums *b) {
  assert_true(a->penalised == b->penalised && a->nested == b->nested);
  assert_true(a->disagreements == b->disagreements && a->points == b->points);
}

/* All submodels through a W step, into the shard's model. */
static void w_step(lac_context *context, scene *at, int64_t iteration) {
  enum { MOST = 2 * 40 };
  lac_trainer *trainer = &at->shard.trainer;
  int64_t ids[MOST], visits[MOST] = {0}, submodels = 2 * at->common.bits;
  void *states[MOST];
  assert_ok(context, lac_w_begin(trainer, context, iteration));
  for (int64_t m = 0; m < submodels; m++) {
    ids[m] = m;
    states[m] = malloc(lac_w_bytes(trainer, m));
    assert_non_null(states[m]);
    assert_ok(context, lac_w_pack(trainer, context, m, states[m]));
  }
  assert_ok(context, lac_w_train(trainer, context, submodels, ids, visits, 2, states));
  for (int64_t m = 0; m < submodels; m++) {
    assert_ok(context, lac_w_unpack(trainer, context, m, states[m]));
    free(states[m]);
  }
  assert_ok(context, lac_w_end(trainer, context));
}

/* A shard that is known by its number of rows alone. */
static lac_trainer bare_shard(const lac_training *common, int64_t number, int64_t rows) {
  lac_trainer trainer = {.common = common, .number = number};
  trainer.x.count = rows;
  return trainer;
}

static void rows_are_counted(void **state) {
  (void)state;
  lac_hash_options options = some_options(8, 2);
  lac_training common = make_training(&options, 4, 1);
  for (int64_t rows = 0; rows < 6 * BLOCK; rows += rows % BLOCK < 2 || rows % BLOCK > BLOCK - 3 ? 1 : 25) {
    for (int64_t subsample = 1; subsample < 9; subsample++) {
      lac_trainer trainer = bare_shard(&common, 3, rows);
      int64_t i = 0;
      trainer.subsample = subsample;
      for (int64_t row = 0; row < rows; row++) {
        if (lac_subsample_takes(&trainer, subsample, row / BLOCK)) {
          assert_int_equal(lac_subsample_at(&trainer, i++, BLOCK), row);
        }
      }
      assert_int_equal(lac_subsample_rows(rows, subsample), i);
    }
  }
}

/* One of each group, each place in a group as often as the others: 2,000 groups, so that a place has 2,000 / s with a
 * standard deviation below the root of that. Of the last group it is the first, whole or not. */
static void blocks_are_drawn(void **state) {
  (void)state;
  enum { GROUPS = 2001, MOST = 8 };
  lac_hash_options options = some_options(8, 2), other = options;
  other.seed++;
  lac_training common = make_training(&options, 4, 1), another = make_training(&other, 4, 1);
  for (int64_t subsample = 2; subsample <= MOST; subsample++) {
    for (int64_t left = 1; left <= subsample; left += subsample - 1) {
      int64_t blocks = (GROUPS - 1) * subsample + left, places[MOST] = {0}, same[2] = {0};
      lac_trainer trainer = bare_shard(&common, 3, blocks * BLOCK), neighbour = bare_shard(&common, 4, blocks * BLOCK),
                  seeded = bare_shard(&another, 3, blocks * BLOCK);
      for (int64_t group = 0; group < GROUPS; group++) {
        int64_t taken = lac_subsample_block(&trainer, subsample, group);
        assert_true(taken >= group * subsample && taken < (group + 1) * subsample);
        places[taken - group * subsample] += group + 1 < GROUPS;
        same[0] += taken == lac_subsample_block(&neighbour, subsample, group);
        same[1] += taken == lac_subsample_block(&seeded, subsample, group);
      }
      assert_int_equal(lac_subsample_block(&trainer, subsample, GROUPS - 1), (GROUPS - 1) * subsample);
      double expected = (double)(GROUPS - 1) / (double)subsample;
      for (int64_t place = 0; place < subsample; place++) {
        assert_true(fabs((double)places[place] - expected) < 5 * sqrt(expected));
      }
      for (int i = 0; i < 2; i++) {
        assert_true(fabs((double)same[i] - expected) < 5 * sqrt(expected));
      }
    }
  }
}

/* By hand from the rule: 15 rows an input and 15,000 in all remain, at most one in 8; not where it would never end. */
static void how_much_is_taken(void **state) {
  static const struct {
    int64_t points, columns, centres, given, iterations, full, expected;
  } cases[] = {{60000, 784, 0, 0, 13, 5, 4},   {60000, 2000, 0, 0, 13, 5, 2}, {59999, 784, 0, 0, 13, 5, 3},
               {1000000, 128, 0, 0, 13, 5, 8}, {29999, 10, 0, 0, 13, 5, 1},   {10, 10, 0, 0, 13, 5, 1},
               {60000, 784, 0, 3, 13, 5, 3},   {100, 784, 0, 50, 13, 5, 50},  {1000000, 128, 0, 1, 13, 5, 1},
               {1000000, 128, 0, 0, 5, 5, 1},  {1000000, 128, 0, 9, 3, 5, 1}, {1000000, 128, 0, 0, 6, 5, 8},
               {90000, 784, 3000, 0, 13, 5, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_hash_options options;
    assert_ok(*state, lac_options_default(*state, lac_hash_option_table(), &options));
    options.subsample = cases[i].given;
    options.mac.iterations = cases[i].iterations;
    options.mac.full_iterations = cases[i].full;
    if (cases[i].centres) {
      options.encoder = LAC_ENCODER_RBF;
      options.centres = cases[i].centres;
    }
    assert_int_equal(lac_subsample(&options, cases[i].points, cases[i].columns), cases[i].expected);
    lac_hash_options_resolve(&options, cases[i].points, cases[i].columns, 2);
    assert_int_equal(options.subsample, cases[i].given ? cases[i].given : cases[i].expected);
    options.method = LAC_HASH_ITQ;
    assert_int_equal(lac_subsample(&options, cases[i].points, cases[i].columns), 1);
  }
}

static void a_subsample_is_a_smaller_shard(void **state) {
  for (size_t s = 0; s < SETTINGS; s++) {
    scene large, small;
    lac_mac_sums some, all;
    make_scene(*state, &settings[s], settings[s].rows, &large);
    make_small(*state, &settings[s], &large, &small);
    large.shard.trainer.subsample = settings[s].subsample;
    int64_t rows = settings[s].rows, words = large.common.words;
    uint64_t *before;
    assert_ok(*state, LAC_NEW(*state, rows * words, &before));
    memcpy(before, large.shard.trainer.codes, (size_t)(rows * words) * sizeof *before);
    for (int64_t iteration = 1; iteration < 4; iteration++) {
      w_step(*state, &large, iteration);
      w_step(*state, &small, iteration);
      assert_same_sums(&large, &small);
      assert_memory_equal(large.shard.trainer.model.weight, small.shard.trainer.model.weight,
                          (size_t)(large.common.bits * large.shard.trainer.x.padded) * sizeof(float));
      assert_ok(*state, lac_z_step(&large.shard.trainer, *state, 0.02, &some));
      assert_ok(*state, lac_z_step(&small.shard.trainer, *state, 0.02, &all));
      assert_same_steps(&some, &all);
      assert_same_codes(&large, settings[s].subsample, &small);
    }
    assert_ok(*state, lac_trainer_encode(*state, &large.shard.trainer, large.shard.trainer.codes));
    assert_ok(*state, lac_trainer_encode(*state, &small.shard.trainer, small.shard.trainer.codes));
    assert_same_codes(&large, settings[s].subsample, &small);
    for (int64_t row = 0; row < rows; row++) { /* the others were let be */
      if (!takes_part(&large, row, settings[s].subsample)) {
        assert_memory_equal(large.shard.trainer.codes + row * words, before + row * words,
                            (size_t)words * sizeof *before);
      }
    }
    assert_int_equal(lac_hash_problem(8, false, true).points(&large.shard.trainer), small.shard.trainer.x.count);
    lac_free(before);
    drop_shard(&large.shard);
    drop_shard(&small.shard);
  }
}

/* Those that join get the codes that a Z step over all gives them, the others keep theirs; then all is as in a shard
 * that has always had all of them. */
static void the_others_join(void **state) {
  for (size_t s = 0; s < SETTINGS; s++) {
    scene at, whole;
    lac_mac_sums sums, expected;
    const int64_t subsample = settings[s].subsample, rows = settings[s].rows;
    make_scene(*state, &settings[s], rows, &at);
    make_scene(*state, &settings[s], rows, &whole);
    lac_trainer *trainer = &at.shard.trainer, *other = &whole.shard.trainer;
    int64_t words = at.common.words;
    trainer->subsample = subsample;
    w_step(*state, &at, 1);
    assert_ok(*state, lac_z_step(trainer, *state, 0.02, &sums));
    assert_ok(*state, lac_sums_update(*state, other));
    memcpy(other->model.weight, trainer->model.weight, (size_t)(at.common.bits * trainer->x.padded) * sizeof(float));
    memcpy(other->model.bias, trainer->model.bias, (size_t)at.common.bits * sizeof(float));
    memcpy(other->model.decoder, trainer->model.decoder,
           (size_t)((at.common.bits + 1) * trainer->x.padded) * sizeof(float));
    assert_ok(*state, lac_z_step(other, *state, 0.07, &expected));
    uint64_t *before;
    assert_ok(*state, LAC_NEW(*state, rows * words, &before));
    memcpy(before, trainer->codes, (size_t)(rows * words) * sizeof *before);
    assert_ok(*state, lac_z_widen(trainer, *state, 0.07));
    assert_int_equal(trainer->subsample, 1);
    for (int64_t row = 0; row < rows; row++) {
      const uint64_t *wanted = takes_part(&at, row, subsample) ? before : other->codes;
      assert_memory_equal(trainer->codes + row * words, wanted + row * words, (size_t)words * sizeof *before);
    }
    memcpy(other->codes, trainer->codes, (size_t)(rows * words) * sizeof *before);
    for (int64_t iteration = 2; iteration < 4; iteration++) {
      w_step(*state, &at, iteration);
      w_step(*state, &whole, iteration);
      for (int64_t i = 0; i < (at.common.bits + 1) * (at.common.bits + 1 + at.common.columns); i++) {
        double size = fabs(other->local[i]) + sqrt((double)rows);
        assert_true(fabs(trainer->local[i] - other->local[i]) < 1e-6 * size);
      }
      assert_true(fabs(trainer->square - other->square) < 1e-6 * other->square);
      assert_memory_equal(trainer->model.weight, other->model.weight,
                          (size_t)(at.common.bits * trainer->x.padded) * sizeof(float));
      assert_ok(*state, lac_z_step(trainer, *state, 0.1, &sums));
      assert_ok(*state, lac_z_step(other, *state, 0.1, &expected));
      assert_int_equal(sums.points, rows);
      assert_true(fabs(sums.penalised - expected.penalised) < 1e-5 * expected.penalised);
      memcpy(other->codes, trainer->codes, (size_t)(rows * words) * sizeof *before); /* decoders differ by rounding */
    }
    lac_free(before);
    drop_shard(&at.shard);
    drop_shard(&whole.shard);
  }
}

/* Validation draws on the rows that take part; the codes that a Z step hands over are those that it would find. */
static void validation_takes_codes(void **state) {
  for (size_t s = 0; s < SETTINGS; s++) {
    scene at;
    lac_mac_sums sums;
    double taken, found, weight;
    make_scene(*state, &settings[s], settings[s].rows, &at);
    lac_trainer *trainer = &at.shard.trainer;
    trainer->subsample = settings[s].subsample;
    int64_t points = lac_subsample_rows(settings[s].rows, settings[s].subsample);
    assert_ok(*state, lac_validation_create(*state, trainer, points / 4, points - points / 4, 10));
    for (int64_t iteration = 1; iteration < 3; iteration++) {
      w_step(*state, &at, iteration);
      assert_ok(*state, lac_validate(trainer, *state, &found, &weight)); /* by encoding: not yet handed over */
      assert_true(weight == (double)(points / 4));
      assert_ok(*state, lac_z_step(trainer, *state, 0.02, &sums));
      assert_ok(*state, lac_validate(trainer, *state, &taken, &weight));
      assert_true(taken == found && taken > 0);
      trainer->model.weight[0] += 3; /* what was handed over counts until the next W step, whatever the weights */
      assert_ok(*state, lac_validate(trainer, *state, &taken, &weight));
      assert_true(taken == found);
      trainer->model.weight[0] -= 3;
    }
    drop_shard(&at.shard);
  }
}

/* Several encoders beside each other are measured as each by itself is. */
static void starts_are_measured_alike(void **state) {
  enum { COUNT = 5 };
  for (size_t s = 0; s < SETTINGS; s++) {
    scene at;
    double results[COUNT][2], sum, weight;
    make_scene(*state, &settings[s], settings[s].rows, &at);
    lac_trainer *trainer = &at.shard.trainer;
    const int64_t size = at.common.bits * trainer->x.padded;
    lac_random stream = lac_random_stream(62, LAC_RANDOM_TEST, s, 0);
    float *weights;
    assert_ok(*state, LAC_NEW(*state, COUNT * size, &weights));
    assert_ok(*state, lac_validate_starts(trainer, *state, COUNT, weights, results)); /* nothing to measure by */
    assert_true(results[0][1] == 0 && results[COUNT - 1][0] == 0);
    assert_ok(*state, lac_validation_create(*state, trainer, settings[s].rows / 3, settings[s].rows / 2, 9));
    memset(trainer->model.bias, 0, (size_t)at.common.bits * sizeof(float));
    for (int i = 0; i < COUNT; i++) {
      random_encoder(trainer, &stream);
      memcpy(weights + i * size, trainer->model.weight, (size_t)size * sizeof *weights);
    }
    assert_ok(*state, lac_validate_starts(trainer, *state, COUNT, weights, results));
    memset(trainer->model.bias, 0, (size_t)at.common.bits * sizeof(float));
    for (int i = 0; i < COUNT; i++) {
      memcpy(trainer->model.weight, weights + i * size, (size_t)size * sizeof *weights);
      assert_ok(*state, lac_validate(trainer, *state, &sum, &weight));
      assert_true(results[i][0] == sum && results[i][1] == weight && sum > 0);
    }
    lac_free(weights);
    drop_shard(&at.shard);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_counted),          cmocka_unit_test(blocks_are_drawn),
      cmocka_unit_test(how_much_is_taken),         cmocka_unit_test(a_subsample_is_a_smaller_shard),
      cmocka_unit_test(the_others_join),           cmocka_unit_test(validation_takes_codes),
      cmocka_unit_test(starts_are_measured_alike),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
