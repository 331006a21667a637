/* Hash models on every back end: whatever carries the messages, and however late they come, the ring gives the serial
 * run's model bit for bit, and as many messages as the formula says. */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/workers.h"
#include "laconic/hash.h"

enum { MOST = 8, COLUMNS = 20 };

typedef struct scene {
  lac_dataset *whole, *part[MOST];
  float *values;
  int shards;
} scene;

/* Clustered points, worker p's share about p + 2 parts. */
static lac_status make_scene(lac_context *context, int shards, scene *made) {
  lac_random stream = lac_random_stream(81, LAC_RANDOM_TEST, 0, 0);
  int64_t rows = 0, first = 0;
  *made = (scene){.shards = shards};
  CHECK(context, shards <= MOST);
  for (int s = 0; s < shards; s++) {
    rows += 31 * (s + 2);
  }
  LAC_TRY(LAC_NEW(context, rows * COLUMNS, &made->values));
  for (int64_t i = 0; i < rows; i++) {
    int64_t cluster = lac_random_below(&stream, 6);
    for (int64_t c = 0; c < COLUMNS; c++) {
      double centre = (double)((cluster + 3) * (c + 5) * 7919 % 100);
      made->values[i * COLUMNS + c] = (float)(centre + 15 * lac_random_normal(&stream));
    }
  }
  LAC_TRY(lac_dataset_borrow(context, made->values, LAC_F32, rows, COLUMNS, sizeof(float) * COLUMNS, &made->whole));
  for (int s = 0; s < shards; first += 31 * (s + 2), s++) {
    LAC_TRY(lac_dataset_slice(context, made->whole, first, 31 * (s + 2), &made->part[s]));
  }
  return LAC_OK;
}

static void drop_scene(scene *made) {
  for (int s = 0; s < made->shards; s++) {
    lac_dataset_destroy(&made->part[s]);
  }
  lac_dataset_destroy(&made->whole);
  lac_free(made->values);
}

static bool same(const float *a, const float *b, int64_t count) {
  return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static lac_status compare(lac_context *context, lac_hash *const *model) {
  const int64_t bits = lac_hash_bits(model[1]);
  CHECK(context, same(lac_hash_encoder_weight(model[0]), lac_hash_encoder_weight(model[1]), bits * COLUMNS));
  CHECK(context, same(lac_hash_encoder_bias(model[0]), lac_hash_encoder_bias(model[1]), bits));
  CHECK(context, same(lac_hash_decoder_weight(model[0]), lac_hash_decoder_weight(model[1]), bits * COLUMNS));
  CHECK(context, same(lac_hash_decoder_bias(model[0]), lac_hash_decoder_bias(model[1]), COLUMNS));
  return LAC_OK;
}

static lac_status train_and_compare(lac_world *world, const lac_hash_options *options, const scene *data,
                                    lac_hash **model) {
  lac_context *context = lac_world_context(world);
  const int64_t shards = lac_world_size(world), submodels = 2 * options->bits;
  const int64_t laps = options->mac.local_epochs ? 2 : options->mac.epochs + 1;
  lac_team ring = {.world = world, .total = data->shards, .first = lac_world_rank(world), .count = 1};
  lac_team serial = {.total = data->shards, .count = data->shards};
  const lac_dataset *mine = data->part[ring.first];
  lac_hash_result result[2];
  LAC_TRY(lac_hash_train(context, &ring, &mine, options, NULL, NULL, &model[0], &result[0]));
  lac_hash_options one_thread = *options;
  one_thread.threads = 1;
  LAC_TRY(lac_hash_train(context, &serial, (const lac_dataset *const *)data->part, &one_thread, NULL, NULL, &model[1],
                         &result[1]));
  CHECK(context, result[0].e_ba == result[1].e_ba && result[0].iterations == result[1].iterations);
  CHECK(context, result[0].score == result[1].score && result[0].points == result[1].points);
  CHECK(context, result[0].iterations > 0);
  CHECK(context, result[0].messages == (shards > 1 ? result[0].iterations * submodels * (laps * shards - 2) : 0));
  CHECK(context, result[1].messages == 0 && result[1].bytes == 0);
  return compare(context, model);
}

static lac_status body(lac_world *world, void *argument) {
  const lac_hash_options *options = argument;
  scene data;
  lac_hash *model[2] = {NULL};
  lac_status status = make_scene(lac_world_context(world), lac_world_size(world), &data);
  if (!status) {
    status = train_and_compare(world, options, &data, model);
  }
  lac_hash_destroy(&model[0]);
  lac_hash_destroy(&model[1]);
  drop_scene(&data);
  return status;
}

static lac_hash_options make_options(int64_t bits) {
  lac_context *context;
  lac_hash_options made = {0};
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_ok(context, lac_options_default(context, lac_hash_option_table(), &made));
  lac_context_destroy(&context);
  made.bits = bits;
  made.mac.iterations = 2;
  made.validation_k = 5;
  return made;
}

static void test_epochs(void **state) {
  (void)state;
  lac_hash_options work = make_options(9);
  for (work.mac.epochs = 1; work.mac.epochs <= 2; work.mac.epochs++) {
    run(plain(), body, &work, LAC_OK, NULL);
  }
}

static void test_local_epochs(void **state) {
  (void)state;
  lac_hash_options work = make_options(7);
  work.mac.epochs = 2;
  work.mac.local_epochs = true;
  run(plain(), body, &work, LAC_OK, NULL);
}

static void test_threads_and_delays(void **state) {
  (void)state;
  lac_hash_options work = make_options(17);
  lac_world_options delayed = plain();
  delayed.delay_limit_us = 200;
  work.threads = 2;
  delayed.delay_seed = 1;
  run(delayed, body, &work, LAC_OK, NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_epochs),
      cmocka_unit_test(test_local_epochs),
      cmocka_unit_test(test_threads_and_delays),
  };
  static const int counts[] = {2, 5};
  int failed = 0;
  run_on_workers(argc, argv, tests, counts, failed);
  return failed;
}
