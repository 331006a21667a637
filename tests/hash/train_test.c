/* Training from end to end on a few hundred points: the ring against the serial run, what the result says against what
 * the model does, and every bad input. */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "laconic/hash.h"
#include "support.h"

enum { MOST_SHARDS = 3, COLUMNS = 24, POINTS = 420 };

static const int64_t unequal[MOST_SHARDS + 1][MOST_SHARDS] = {{0}, {420}, {137, 283}, {150, 201, 69}};

typedef struct points {
  float values[POINTS * COLUMNS];
  lac_dataset *whole, *part[MOST_SHARDS];
  int shards;
} points;

/* Eight clusters of points, whole numbers in no byte's range, so that the scaling shows. */
static void make_points(lac_context *context, int shards, points *made) {
  lac_random stream = lac_random_stream(71, LAC_RANDOM_TEST, 0, 0);
  double centre[8 * COLUMNS];
  for (int i = 0; i < 8 * COLUMNS; i++) {
    centre[i] = 400 * lac_random_uniform(&stream) - 100;
  }
  for (int i = 0; i < POINTS; i++) {
    const double *around = centre + lac_random_below(&stream, 8) * COLUMNS;
    for (int c = 0; c < COLUMNS; c++) {
      made->values[i * COLUMNS + c] = (float)floor(around[c] + 40 * lac_random_normal(&stream));
    }
  }
  made->shards = shards;
  assert_ok(context,
            lac_dataset_borrow(context, made->values, LAC_F32, POINTS, COLUMNS, sizeof(float) * COLUMNS, &made->whole));
  for (int64_t s = 0, first = 0; s < shards; s++) {
    assert_ok(context, lac_dataset_slice(context, made->whole, first, unequal[shards][s], &made->part[s]));
    first += unequal[shards][s];
  }
}

static void drop_points(points *made) {
  for (int s = 0; s < made->shards; s++) {
    lac_dataset_destroy(&made->part[s]);
  }
  lac_dataset_destroy(&made->whole);
}

static lac_hash_options some_options(lac_context *context, int64_t bits) {
  lac_hash_options options;
  assert_ok(context, lac_options_default(context, lac_hash_option_table(), &options));
  options.bits = bits;
  options.mac.iterations = 3;
  options.validation_k = 10;
  options.centres = 40;
  return options;
}

static void set(lac_context *context, lac_hash_options *options, const char *key, const char *value) {
  assert_ok(context, lac_options_set(context, lac_hash_option_table(), options, key, value));
}

static lac_status train_serially(lac_context *context, const points *data, const lac_hash_options *options,
                                 lac_hash_progress_fn progress, void *user, lac_hash **model, lac_hash_result *result) {
  lac_team team = {.total = data->shards, .count = data->shards};
  return lac_hash_train(context, &team, (const lac_dataset *const *)data->part, options, progress, user, model, result);
}

/* ---- the ring ---- */

typedef struct ring {
  const points *data;
  const lac_hash_options *options;
  lac_hash_progress_fn progress;
  void *user;
  lac_hash *model[MOST_SHARDS];
  lac_hash_result result[MOST_SHARDS];
} ring;

static lac_status ring_body(lac_world *world, void *argument) {
  ring *run = argument;
  int rank = lac_world_rank(world);
  lac_team team = {.world = world, .total = lac_world_size(world), .first = rank, .count = 1};
  const lac_dataset *mine = run->data->part[rank];
  return lac_hash_train(lac_world_context(world), &team, &mine, run->options, run->progress, run->user,
                        &run->model[rank], &run->result[rank]);
}

static lac_status train_on_ring(lac_context *context, ring *run, int64_t delay_seed) {
  lac_world_options options = {.backend = "local",
                               .workers = run->data->shards,
                               .timeout_ms = 60000,
                               .delay_seed = delay_seed,
                               .delay_limit_us = delay_seed ? 300 : 0};
  return lac_world_run(context, &options, ring_body, run);
}

static void drop_ring(ring *run) {
  for (int s = 0; s < MOST_SHARDS; s++) {
    lac_hash_destroy(&run->model[s]);
  }
}

/* ---- comparison ---- */

/* Bit for bit; the encoder of an RBF model by the codes that it gives. */
static void assert_same_model(lac_context *context, const points *data, const lac_hash *a, const lac_hash *b) {
  const size_t bits = (size_t)lac_hash_bits(a), columns = (size_t)lac_hash_columns(a);
  assert_non_null(b);
  assert_int_equal(lac_hash_bits(a), lac_hash_bits(b));
  assert_memory_equal(lac_hash_decoder_weight(a), lac_hash_decoder_weight(b), bits * columns * sizeof(float));
  assert_memory_equal(lac_hash_decoder_bias(a), lac_hash_decoder_bias(b), columns * sizeof(float));
  if (lac_hash_encoder_kind(a) == LAC_ENCODER_LINEAR) {
    assert_memory_equal(lac_hash_encoder_weight(a), lac_hash_encoder_weight(b), bits * columns * sizeof(float));
    assert_memory_equal(lac_hash_encoder_bias(a), lac_hash_encoder_bias(b), bits * sizeof(float));
  }
  uint8_t codes[POINTS * 8], others[POINTS * 8];
  assert_true(bits <= 64);
  assert_ok(context, lac_hash_encode(context, a, data->whole, 0, POINTS, 1, codes));
  assert_ok(context, lac_hash_encode(context, b, data->whole, 0, POINTS, 1, others));
  assert_memory_equal(codes, others, POINTS * ((bits + 7) / 8));
}

/* e_ba is the error of the model itself, measured by other means, over the variance. */
static void check_error(lac_context *context, const points *data, const lac_hash *model,
                        const lac_hash_result *result) {
  uint8_t codes[POINTS * 8];
  double error, variance;
  assert_ok(context, lac_hash_encode(context, model, data->whole, 0, POINTS, 1, codes));
  assert_ok(context, lac_hash_error(context, model, data->whole, codes, 1, &error));
  assert_ok(context, lac_dataset_variance(context, data->whole, 1, &variance));
  assert_int_equal(result->points, POINTS);
  assert_true(fabs(result->e_ba - error / variance) < 1e-4);
  assert_true(result->e_ba > 0 && result->e_ba < 1);
}

/* What a run must print whatever its settings. */
static void check_result(lac_context *context, const points *data, const lac_hash_options *options, bool on_ring,
                         const lac_hash_result *result) {
  lac_hash_estimate estimate;
  const int64_t workers = data->shards, epochs = options->mac.local_epochs ? 1 : options->mac.epochs;
  const int64_t submodels = options->method == LAC_HASH_BA ? 2 * options->bits : 0;
  int64_t hops = workers == 1 || !on_ring ? 0 : (epochs + 1) * workers - 2;
  assert_int_equal(result->messages, result->iterations * submodels * hops);
  assert_ok(context, lac_hash_train_estimate(context, options, 283, COLUMNS, LAC_F32, data->shards, &estimate));
  assert_int_equal(estimate.submodels, submodels);
  assert_int_equal(result->messages, on_ring ? result->iterations * estimate.messages : 0);
  assert_int_equal(result->bytes, on_ring ? result->iterations * estimate.bytes : 0);
  if (hops == 0) {
    assert_int_equal(result->bytes, 0);
  } else if (submodels) {
    /* Weights and bias of each encoder; [Z 1]'[Z 1 X] in doubles; little more. */
    int64_t head = options->bits + 1;
    int64_t least = options->encoder == LAC_ENCODER_RBF ? options->centres : COLUMNS;
    least = options->bits * (least + 1) * 4 + head * (head + COLUMNS) * 8;
    assert_true(result->bytes >= result->iterations * hops * least);
    assert_true(result->bytes <= result->iterations * hops * (least + submodels * 40));
  }
  assert_true((result->control_messages > 0) == (on_ring && workers > 1));
  if (submodels && options->validation != 0) {
    assert_true(result->score >= 0 && result->score <= 1);
  } else {
    assert_true(isnan(result->score));
  }
  assert_true(result->iterations <= options->mac.iterations && (submodels || result->iterations == 0));
}

/* Serial, ring with delays, ring with two threads: one model. */
static void compare(lac_context *context, int shards, int rings, const lac_hash_options *options) {
  static points data;
  lac_hash *model;
  lac_hash_result result;
  make_points(context, shards, &data);
  assert_ok(context, train_serially(context, &data, options, NULL, NULL, &model, &result));
  check_error(context, &data, model, &result);
  check_result(context, &data, options, false, &result);
  for (int turn = 0; turn < rings; turn++) {
    lac_hash_options used = *options;
    used.threads = 1 + turn;
    ring run = {.data = &data, .options = &used};
    assert_ok(context, train_on_ring(context, &run, turn == 0));
    for (int s = 0; s < shards; s++) {
      assert_same_model(context, &data, model, run.model[s]);
      assert_true(run.result[s].e_ba == result.e_ba && run.result[s].iterations == result.iterations);
      assert_true(run.result[s].score == result.score || isnan(result.score));
      check_result(context, &data, options, true, &run.result[s]);
    }
    drop_ring(&run);
  }
  lac_hash_destroy(&model);
  drop_points(&data);
}

static void the_ring_gives_what_the_serial_run_gives(void **state) {
  for (int shards = 1; shards <= MOST_SHARDS; shards++) {
    lac_hash_options options = some_options(*state, 10);
    options.mac.iterations = 2;
    options.mac.epochs = 2;
    compare(*state, shards, 2, &options);
    options = some_options(*state, 20); /* beyond the exact Z step */
    options.mac.iterations = 1;
    options.validation = shards == 2 ? 0 : -1;
    compare(*state, shards, 1, &options);
  }
}

static void so_it_does_with_other_settings(void **state) {
  static const char *const settings[][6] = {{"epochs", "3", "local-epochs", "true"},
                                            {"init", "pca"},
                                            {"init", "random"},
                                            {"encoder", "rbf"},
                                            {"encoder", "rbf", "init", "random"},
                                            {"encoder", "rbf", "init", "pca", "centres", "7"},
                                            {"method", "itq"},
                                            {"method", "pca"},
                                            {"method", "lsh"},
                                            {"batch", "1"},
                                            {"batch", "1000"},
                                            {"sample", "50"},
                                            {"seed", "123456789"},
                                            {"iterations", "0"},
                                            {"bits", "1", "init", "itq"},
                                            {"bits", "24"},
                                            {"bits", "40", "method", "lsh"},
                                            {"bits", "40", "init", "random"},
                                            {"mu", "1000"},
                                            {"validation", "400"},
                                            {"validation-k", "1000"},
                                            {"sample", "100000"},
                                            {"subsample", "2", "full-iterations", "1"},
                                            {"subsample", "9", "full-iterations", "1", "validation-k", "3"}};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    lac_hash_options options = some_options(*state, 6);
    options.mac.iterations = 2;
    for (int j = 0; j < 6 && settings[i][j]; j += 2) {
      set(*state, &options, settings[i][j], settings[i][j + 1]);
    }
    compare(*state, i % 2 ? 2 : 3, 1, &options);
  }
}

/* A struct that was filled by hand: every field one beyond its range is refused, and does no harm. */
static void every_field_is_checked(void **state) {
  const lac_option *table = lac_hash_option_table();
  lac_hash_estimate estimate;
  for (const lac_option *option = table; option->key; option++) {
    lac_hash_options options = some_options(*state, 6);
    char *at = (char *)&options + option->offset;
    if (option->type == LAC_OPTION_INT && option->low > -1e18) {
      *(int64_t *)(void *)at = (int64_t)option->low - 1;
    } else if (option->type == LAC_OPTION_REAL) {
      *(double *)(void *)at = (double)NAN;
    } else if (option->type == LAC_OPTION_NAME) {
      *(int *)(void *)at = 1000;
    } else {
      continue;
    }
    assert_failure(*state, lac_hash_train_estimate(*state, &options, 100, 20, LAC_U8, 2, &estimate), LAC_E_USAGE,
                   option->key);
  }
}

/* ---- what is learnt ---- */

static void training_repeats_and_seeds_differ(void **state) {
  static points data;
  make_points(*state, 2, &data);
  lac_hash *model[3];
  lac_hash_result result;
  for (int i = 0; i < 3; i++) {
    lac_hash_options options = some_options(*state, 8);
    options.seed = i == 2;
    assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &model[i], &result));
  }
  assert_same_model(*state, &data, model[0], model[1]);
  assert_memory_not_equal(lac_hash_encoder_weight(model[0]), lac_hash_encoder_weight(model[2]),
                          sizeof(float) * 8 * COLUMNS);
  for (int i = 0; i < 3; i++) {
    lac_hash_destroy(&model[i]);
  }
  drop_points(&data);
}

/* Least squares for codes that fit the data ever better: the autoencoder beats ITQ and PCA, and all of them random
 * projections. Shards do not matter much. */
static void errors_fall_as_they_should(void **state) {
  static points data;
  double e_ba[4];
  for (int method = 0; method < 4; method++) {
    lac_hash *model;
    lac_hash_result result;
    lac_hash_options options = some_options(*state, 12);
    options.method = method;
    options.mac.iterations = 8;
    make_points(*state, 1, &data);
    assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &model, &result));
    assert_string_equal(lac_hash_method_name(model), method == LAC_HASH_BA    ? "ba"
                                                     : method == LAC_HASH_ITQ ? "itq"
                                                     : method == LAC_HASH_PCA ? "pca"
                                                                              : "lsh");
    e_ba[method] = result.e_ba;
    lac_hash_destroy(&model);
    drop_points(&data);
    make_points(*state, 3, &data);
    assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &model, &result));
    assert_true(fabs(result.e_ba - e_ba[method]) < 0.1 * e_ba[method]);
    lac_hash_destroy(&model);
    drop_points(&data);
  }
  assert_true(e_ba[LAC_HASH_BA] < e_ba[LAC_HASH_ITQ] && e_ba[LAC_HASH_BA] < e_ba[LAC_HASH_PCA]);
  assert_true(e_ba[LAC_HASH_ITQ] < e_ba[LAC_HASH_LSH] && e_ba[LAC_HASH_PCA] < e_ba[LAC_HASH_LSH]);
}

static int distance(const uint8_t *a, const uint8_t *b, int bytes) {
  int bits = 0;
  for (int i = 0; i < bytes; i++) {
    bits += __builtin_popcount((unsigned)(a[i] ^ b[i]));
  }
  return bits;
}

static int compare_doubles(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* Of the k nearest others by code the part that is among the k nearest, by all pairs; a tie at the k-th counts by
 * halves and less. Mean over all points. */
static double precision_by_hand(const points *data, const uint8_t *codes, int bytes, int k) {
  double total = 0;
  for (int i = 0; i < POINTS; i++) {
    double apart[POINTS], sorted[POINTS], wide[POINTS], wider[POINTS];
    for (int j = 0; j < POINTS; j++) {
      apart[j] = 0;
      for (int c = 0; c < COLUMNS; c++) {
        double step = (double)data->values[i * COLUMNS + c] - (double)data->values[j * COLUMNS + c];
        apart[j] += step * step;
      }
      wide[j] = distance(codes + i * bytes, codes + j * bytes, bytes);
    }
    apart[i] = wide[i] = HUGE_VAL;
    memcpy(sorted, apart, sizeof apart);
    memcpy(wider, wide, sizeof wide);
    qsort(sorted, POINTS, sizeof *sorted, compare_doubles);
    qsort(wider, POINTS, sizeof *wider, compare_doubles);
    double limit = wider[k - 1], inside = 0, tied = 0, near_inside = 0, near_tied = 0;
    for (int j = 0; j < POINTS; j++) {
      inside += wide[j] < limit, tied += wide[j] == limit;
      near_inside += wide[j] < limit && apart[j] <= sorted[k - 1];
      near_tied += wide[j] == limit && apart[j] <= sorted[k - 1];
    }
    total += (near_inside + near_tied * (k - inside) / tied) / k;
  }
  return total / POINTS;
}

/* With validation the start is the best of several, without it the first: on all points it finds more neighbours. */
static void the_start_that_finds_most_neighbours_is_taken(void **state) {
  static points data;
  enum { SEEDS = 12, K = 20 };
  double gain = 0;
  int changed = 0;
  make_points(*state, 1, &data);
  lac_random stream = lac_random_stream(72, LAC_RANDOM_TEST, 0, 0);
  for (int i = 0; i < POINTS * COLUMNS; i++) { /* no clusters: any rotation is as good a start as another for ITQ */
    data.values[i] = (float)(lac_random_normal(&stream) * (i % COLUMNS < 12 ? 12 - i % COLUMNS : 0.1));
  }
  for (int seed = 0; seed < SEEDS; seed++) {
    double precision[2];
    for (int validated = 0; validated < 2; validated++) {
      lac_hash *model;
      lac_hash_result result;
      lac_hash_options options = some_options(*state, 12);
      options.seed = seed;
      options.validation_k = K / 2; /* among half of the points */
      options.mac.iterations = 0;
      options.validation = validated ? 200 : 0;
      assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &model, &result));
      uint8_t codes[POINTS * 2];
      assert_ok(*state, lac_hash_encode(*state, model, data.whole, 0, POINTS, 1, codes));
      precision[validated] = precision_by_hand(&data, codes, 2, K);
      lac_hash_destroy(&model);
    }
    gain += (precision[1] - precision[0]) / SEEDS;
    changed += precision[1] < precision[0] || precision[1] > precision[0];
  }
  assert_true(changed >= SEEDS / 2); /* one in eight is the first */
  assert_true(gain > 0.003);
  drop_points(&data);
}

/* A method's weights by what defines them: the principal components' rows are orthonormal, ITQ's are the same plane
 * turned, and bits are signs about the mean. */
static void pca_and_itq_are_themselves(void **state) {
  static points data;
  lac_hash *pca, *itq;
  lac_hash_result result;
  lac_hash_options options = some_options(*state, 6);
  make_points(*state, 2, &data);
  options.method = LAC_HASH_PCA;
  assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &pca, &result));
  options.method = LAC_HASH_ITQ;
  assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &itq, &result));
  const float *a = lac_hash_encoder_weight(pca), *b = lac_hash_encoder_weight(itq);
  double length = 0, mean[COLUMNS] = {0}, cross[36];
  for (int c = 0; c < COLUMNS; c++) {
    length += (double)a[c] * (double)a[c];
    for (int i = 0; i < POINTS; i++) {
      mean[c] += (double)data.values[i * COLUMNS + c] / POINTS;
    }
  }
  for (int i = 0; i < 36; i++) {
    double pca_inner = 0, itq_inner = 0;
    cross[i] = 0;
    for (int c = 0; c < COLUMNS; c++) {
      pca_inner += (double)a[i / 6 * COLUMNS + c] * (double)a[i % 6 * COLUMNS + c] / length;
      itq_inner += (double)b[i / 6 * COLUMNS + c] * (double)b[i % 6 * COLUMNS + c] / length;
      cross[i] += (double)a[i / 6 * COLUMNS + c] * (double)b[i % 6 * COLUMNS + c] / length;
    }
    assert_true(fabs(pca_inner - (i / 6 == i % 6)) < 1e-5 && fabs(itq_inner - (i / 6 == i % 6)) < 1e-5);
  }
  for (int i = 0; i < 36; i++) { /* the map between them is a rotation: nothing of the plane is lost */
    double inner = 0;
    for (int k = 0; k < 6; k++) {
      inner += cross[i / 6 * 6 + k] * cross[i % 6 * 6 + k];
    }
    assert_true(fabs(inner - (i / 6 == i % 6)) < 1e-4);
  }
  for (int l = 0; l < 6; l++) {
    double at_mean[2] = {(double)lac_hash_encoder_bias(pca)[l], (double)lac_hash_encoder_bias(itq)[l]};
    for (int c = 0; c < COLUMNS; c++) {
      at_mean[0] += (double)a[l * COLUMNS + c] * mean[c];
      at_mean[1] += (double)b[l * COLUMNS + c] * mean[c];
    }
    assert_true(fabs(at_mean[0]) < 1e-4 && fabs(at_mean[1]) < 1e-4);
  }
  /* No direction has more variance than the first; it is beyond what any cluster's noise has. */
  double variance[7] = {0};
  for (int i = 0; i < POINTS; i++) {
    for (int l = 0; l < 7; l++) {
      double value = 0;
      for (int c = 0; c < COLUMNS; c++) {
        double weight = l < 6 ? (double)a[l * COLUMNS + c] / sqrt(length) : (c == 3);
        value += weight * ((double)data.values[i * COLUMNS + c] - mean[c]);
      }
      variance[l] += value * value / POINTS;
    }
  }
  for (int l = 1; l < 7; l++) {
    assert_true(variance[l] <= variance[l < 6 ? l - 1 : 0] * (1 + 1e-5));
  }
  lac_hash_destroy(&pca);
  lac_hash_destroy(&itq);
  drop_points(&data);
}

/* The unit and the place of the data do not matter: the same codes, e_ba the same. */
static void scale_and_place_do_not_matter(void **state) {
  static points data;
  lac_hash *model[2];
  lac_hash_result result[2];
  uint8_t codes[2][POINTS * 2];
  lac_hash_options options = some_options(*state, 10);
  for (int turn = 0; turn < 2; turn++) {
    make_points(*state, 2, &data);
    for (int i = 0; turn && i < POINTS * COLUMNS; i++) {
      data.values[i] = data.values[i] * 0.25F + 64; /* exact in float32 */
    }
    assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &model[turn], &result[turn]));
    assert_ok(*state, lac_hash_encode(*state, model[turn], data.whole, 0, POINTS, 1, codes[turn]));
    drop_points(&data);
  }
  int64_t differ = 0;
  for (int i = 0; i < POINTS * 2; i++) {
    differ += __builtin_popcount(codes[0][i] ^ codes[1][i]);
  }
  assert_true(differ < POINTS * 10 / 50);
  assert_true(fabs(result[0].e_ba - result[1].e_ba) < 0.01 * result[0].e_ba);
  lac_hash_destroy(&model[0]);
  lac_hash_destroy(&model[1]);
}

/* ---- progress and interrupts ---- */

typedef struct diary {
  lac_context *context;
  char phases[32];               /* first letters */
  int64_t reports, interrupt_at; /* interrupts at that report; 0: never; -1: in phase init; -2: in phase finish */
  double e_ba, e_q, mu;
  bool accepted;
} diary;

static void keep_diary(void *user, const lac_hash_progress *progress) {
  diary *kept = user;
  size_t length = strlen(kept->phases);
  assert_true(length + 1 < sizeof kept->phases);
  kept->phases[length] = progress->phase[0];
  bool stop = (kept->interrupt_at == -1 && progress->phase[0] == 'i') ||
              (kept->interrupt_at == -2 && progress->phase[0] == 'f');
  if (progress->phase[0] == 't') {
    kept->reports++;
    kept->accepted = progress->mac.accepted;
    kept->e_ba = progress->e_ba;
    kept->e_q = progress->e_q;
    kept->mu = progress->mac.mu;
    stop = stop || kept->reports == kept->interrupt_at;
  }
  if (stop) {
    lac_context_interrupt(kept->context);
  }
}

static void progress_tells_what_happens(void **state) {
  static points data;
  diary kept = {.context = *state};
  lac_hash *model;
  lac_hash_result result;
  lac_hash_options options = some_options(*state, 9);
  options.validation = 0; /* every step is accepted */
  make_points(*state, 2, &data);
  assert_ok(*state, train_serially(*state, &data, &options, keep_diary, &kept, &model, &result));
  assert_string_equal(kept.phases, "sitttf");
  assert_int_equal(result.iterations, 3);
  assert_true(fabs(kept.mu / (options.mac.mu * pow(lac_mac_mu_factor(&options.mac), 2)) - 1) < 1e-12);
  /* The last report's decoder was fitted to Z, the final one to h(X): the better fit to what is measured. */
  assert_true(result.e_ba <= kept.e_ba + 1e-5 && kept.e_ba < 1.5 * result.e_ba);
  assert_true(kept.e_q > 0 && kept.e_q <= kept.e_ba * (1 + 1e-5)); /* Z = h(X) would give as much */
  lac_hash_destroy(&model);
  drop_points(&data);
}

static bool same_encoder(const lac_hash *a, const lac_hash *b) {
  return memcmp(lac_hash_encoder_weight(a), lac_hash_encoder_weight(b), sizeof(float) * 9 * COLUMNS) == 0 &&
         memcmp(lac_hash_encoder_bias(a), lac_hash_encoder_bias(b), sizeof(float) * 9) == 0;
}

/* Interrupted after the second step: the model of two steps on worker 0, whose model is the one that is written. That
 * all have made it may not yet be known to the others: theirs is of one step or of two. */
static void an_interrupt_leaves_the_best_model(void **state) {
  static points data;
  lac_hash *one, *two;
  lac_hash_result result;
  lac_hash_options options = some_options(*state, 9);
  options.mac.mu = 1e-3; /* far from Z = h(X) all the time */
  options.mac.iterations = 1;
  options.validation = 0;
  make_points(*state, 3, &data);
  assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &one, &result));
  options.mac.iterations = 2;
  assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &two, &result));
  assert_false(same_encoder(one, two));
  options.mac.iterations = 5;
  for (int turn = 0; turn < 2; turn++) {
    lac_context *context;
    assert_ok(*state, lac_context_create(&context));
    diary kept = {.context = context, .interrupt_at = 2};
    ring run = {.data = &data, .options = &options, .progress = keep_diary, .user = &kept};
    assert_failure(context,
                   turn ? train_on_ring(context, &run, 5)
                        : train_serially(context, &data, &options, keep_diary, &kept, &run.model[0], &run.result[0]),
                   LAC_E_INTERRUPTED, "interrupted");
    assert_int_equal(kept.reports, 2);
    for (int s = 0; s < (turn ? 3 : 1); s++) {
      assert_non_null(run.model[s]);
      assert_true(same_encoder(run.model[s], two) || (s > 0 && same_encoder(run.model[s], one)));
    }
    drop_ring(&run);
    lac_context_destroy(&context);
  }
  lac_hash_destroy(&one);
  lac_hash_destroy(&two);
  drop_points(&data);
}

/* At other places: before there is a model none is given, after the last step it is. */
static void an_interrupt_at_the_ends(void **state) {
  static points data;
  lac_hash_options options = some_options(*state, 9);
  make_points(*state, 2, &data);
  for (int turn = 0; turn < 4; turn++) {
    lac_context *context;
    assert_ok(*state, lac_context_create(&context));
    diary kept = {.context = context, .interrupt_at = turn % 2 ? -2 : -1};
    ring run = {.data = &data, .options = &options, .progress = keep_diary, .user = &kept};
    lac_status status =
        turn / 2 ? train_on_ring(context, &run, 0)
                 : train_serially(context, &data, &options, keep_diary, &kept, &run.model[0], &run.result[0]);
    if (turn % 2) {
      assert_true(status == LAC_OK || status == LAC_E_INTERRUPTED);
      for (int s = 0; s < (turn / 2 ? 2 : 1); s++) {
        assert_non_null(run.model[s]);
      }
    } else {
      assert_int_equal(status, LAC_E_INTERRUPTED);
    }
    drop_ring(&run);
    lac_context_destroy(&context);
  }
  drop_points(&data);
}

/* ---- bad input ---- */

static void expect(lac_context *context, const points *data, const lac_hash_options *options, lac_status status,
                   const char *words) {
  lac_hash *model;
  lac_hash_result result;
  assert_failure(context, train_serially(context, data, options, NULL, NULL, &model, &result), status, words);
  assert_null(model);
  ring run = {.data = data, .options = options};
  assert_failure(context, train_on_ring(context, &run, 0), status, words);
  for (int s = 0; s < data->shards; s++) {
    assert_null(run.model[s]);
  }
}

static void bad_values_are_named(void **state) {
  static points data;
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  lac_hash_options options = some_options(*state, 8);
  for (int kind = 0; kind < 3; kind++) {
    make_points(*state, 3, &data);
    data.values[400 * COLUMNS + 5] = bad[kind]; /* row 49 of the last shard, a slice */
    options.threads = 1 + kind;
    expect(*state, &data, &options, LAC_E_INPUT, "row 400");
    assert_non_null(strstr(lac_context_message(*state), "column 5"));
    drop_points(&data);
  }
}

static void equal_points_are_refused(void **state) {
  static points data;
  lac_hash_options options = some_options(*state, 8);
  make_points(*state, 2, &data);
  for (int i = COLUMNS; i < POINTS * COLUMNS; i++) {
    data.values[i] = data.values[i % COLUMNS];
  }
  expect(*state, &data, &options, LAC_E_INPUT, "equal");
  drop_points(&data);
}

static void ranges_without_a_scale_are_refused(void **state) {
  static points data;
  lac_hash_options options = some_options(*state, 8);
  make_points(*state, 2, &data);
  data.values[7] = -3e38F;
  data.values[8] = 3e38F;
  lac_hash *model;
  lac_hash_result result;
  lac_status status = train_serially(*state, &data, &options, NULL, NULL, &model, &result);
  if (status == LAC_OK) { /* so be it, if the model is one */
    for (int i = 0; i < 8 * COLUMNS; i++) {
      assert_true(isfinite(lac_hash_encoder_weight(model)[i]) && isfinite(lac_hash_decoder_weight(model)[i]));
    }
  } else {
    assert_true(status == LAC_E_NUMERICAL || status == LAC_E_INPUT);
  }
  lac_hash_destroy(&model);
  drop_points(&data);
}

static void more_bits_than_columns_are_refused(void **state) {
  static points data;
  static const char *const refused[][4] = {
      {"method", "ba"}, {"method", "itq"}, {"method", "pca"}, {"init", "pca"}, {"encoder", "rbf"}};
  make_points(*state, 2, &data);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    lac_hash_options options = some_options(*state, COLUMNS + 1);
    set(*state, &options, refused[i][0], refused[i][1]);
    expect(*state, &data, &options, LAC_E_INPUT, "25 bits");
    lac_hash_estimate estimate;
    assert_failure(*state, lac_hash_train_estimate(*state, &options, 283, COLUMNS, LAC_F32, 2, &estimate), LAC_E_INPUT,
                   "25 bits");
  }
  lac_hash_options options = some_options(*state, 8);
  options.encoder = LAC_ENCODER_RBF;
  options.method = LAC_HASH_ITQ;
  expect(*state, &data, &options, LAC_E_USAGE, "rbf");
  options.method = LAC_HASH_BA;
  options.centres = POINTS + 1;
  expect(*state, &data, &options, LAC_E_INPUT, "421");
  options.bits = 0;
  expect(*state, &data, &options, LAC_E_USAGE, "bits");
  drop_points(&data);
}

static void shards_that_do_not_fit_are_refused(void **state) {
  static points data;
  lac_hash_options options = some_options(*state, 8);
  int64_t counts[5];
  make_points(*state, 3, &data);
  lac_dataset *right = data.part[1];
  assert_ok(*state,
            lac_dataset_borrow(*state, data.values, LAC_F32, 100, COLUMNS - 2, sizeof(float) * COLUMNS, &data.part[1]));
  expect(*state, &data, &options, LAC_E_INPUT, "columns");
  assert_non_null(strstr(lac_context_message(*state), "22"));
  assert_non_null(strstr(lac_context_message(*state), "24"));
  lac_dataset_destroy(&data.part[1]);
  if (lac_dataset_slice(*state, data.whole, 7, 0, &data.part[1]) == LAC_OK) {
    expect(*state, &data, &options, LAC_E_INPUT, "no points");
    lac_dataset_destroy(&data.part[1]);
  }
  data.part[1] = right;
  assert_failure(*state, lac_hash_shares(*state, 4, 5, NULL, counts), LAC_E_USAGE, "4");
  drop_points(&data);
}

/* The fewest points: one a worker, two in all. */
static void a_handful_of_points(void **state) {
  static points data;
  for (int64_t rows = 1; rows <= 7; rows += rows) {
    for (int encoder = 0; encoder < 2; encoder++) {
      make_points(*state, 3, &data);
      for (int s = 0; s < 3; s++) {
        lac_dataset_destroy(&data.part[s]);
        assert_ok(*state, lac_dataset_slice(*state, data.whole, s * rows, s == 2 ? 1 : rows, &data.part[s]));
      }
      lac_hash *model;
      lac_hash_result result;
      lac_hash_options options = some_options(*state, 4);
      options.encoder = encoder;
      options.centres = 3;
      assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &model, &result));
      assert_true(isfinite(result.e_ba) && result.e_ba < 1.0001);
      assert_int_equal(result.points, 2 * rows + 1);
      ring run = {.data = &data, .options = &options};
      assert_ok(*state, train_on_ring(*state, &run, 3));
      for (int s = 0; s < 3; s++) {
        assert_same_model(*state, &data, model, run.model[s]);
      }
      drop_ring(&run);
      lac_hash_destroy(&model);
      drop_points(&data);
    }
  }
}

static void count_warnings(void *user, lac_log_level level, const char *line) {
  int64_t *counts = user;
  counts[0] += level == LAC_LOG_WARNING && strstr(line, "3 of 24 columns are constant");
  counts[1] += level == LAC_LOG_WARNING && strstr(line, "140 of 420 sampled points equal another one");
}

static void constant_columns_and_duplicates_are_warned_of(void **state) {
  static points data;
  lac_context *context;
  lac_hash *model;
  lac_hash_result result;
  int64_t warnings[2] = {0};
  assert_ok(*state, lac_context_create(&context));
  lac_context_set_log(context, LAC_LOG_WARNING, count_warnings, warnings);
  lac_hash_options options = some_options(context, 24);
  make_points(context, 2, &data);
  for (int i = 0; i < POINTS; i++) {
    for (int c = 5; c < 8; c++) {
      data.values[i * COLUMNS + c] = 17;
    }
    if (i % 3 == 1) {
      memcpy(data.values + (size_t)i * COLUMNS, data.values + (size_t)(i - 1) * COLUMNS, sizeof(float) * COLUMNS);
    }
  }
  assert_ok(context, train_serially(context, &data, &options, NULL, NULL, &model, &result));
  check_error(context, &data, model, &result);
  assert_true(warnings[0] == 1 && warnings[1] == 1);
  lac_hash_destroy(&model);
  drop_points(&data);
  lac_context_destroy(&context);
}

/* What the metadata say can be read back as numbers. */
static void the_model_says_where_it_comes_from(void **state) {
  static points data;
  lac_hash *model;
  lac_hash_result result;
  double low, high, variance;
  lac_hash_options options = some_options(*state, 8);
  make_points(*state, 3, &data);
  assert_ok(*state, train_serially(*state, &data, &options, NULL, NULL, &model, &result));
  assert_ok(*state, lac_dataset_check(*state, data.whole, &low, &high));
  assert_ok(*state, lac_dataset_variance(*state, data.whole, 1, &variance));
  assert_int_equal(atoi(lac_hash_meta(model, "points")), POINTS);
  assert_int_equal(atoi(lac_hash_meta(model, "workers")), 3);
  assert_int_equal(atoi(lac_hash_meta(model, "iterations")), result.iterations);
  assert_true(fabs(atof(lac_hash_meta(model, "e_ba")) - result.e_ba) < 1e-8);
  assert_true(atof(lac_hash_meta(model, "data.low")) == low && atof(lac_hash_meta(model, "data.high")) == high);
  assert_true(fabs(atof(lac_hash_meta(model, "data.variance")) - variance) < 1e-9 * variance);
  lac_hash_destroy(&model);
  drop_points(&data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_ring_gives_what_the_serial_run_gives),
      cmocka_unit_test(so_it_does_with_other_settings),
      cmocka_unit_test(every_field_is_checked),
      cmocka_unit_test(training_repeats_and_seeds_differ),
      cmocka_unit_test(errors_fall_as_they_should),
      cmocka_unit_test(the_start_that_finds_most_neighbours_is_taken),
      cmocka_unit_test(pca_and_itq_are_themselves),
      cmocka_unit_test(scale_and_place_do_not_matter),
      cmocka_unit_test(progress_tells_what_happens),
      cmocka_unit_test(an_interrupt_leaves_the_best_model),
      cmocka_unit_test(an_interrupt_at_the_ends),
      cmocka_unit_test(bad_values_are_named),
      cmocka_unit_test(equal_points_are_refused),
      cmocka_unit_test(ranges_without_a_scale_are_refused),
      cmocka_unit_test(more_bits_than_columns_are_refused),
      cmocka_unit_test(shards_that_do_not_fit_are_refused),
      cmocka_unit_test(a_handful_of_points),
      cmocka_unit_test(constant_columns_and_duplicates_are_warned_of),
      cmocka_unit_test(the_model_says_where_it_comes_from),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
