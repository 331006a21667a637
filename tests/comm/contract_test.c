/* What every back end promises: the same suite for all of them. */
#include "comm/workers.h"

#include <math.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/backend.h"

/* Numbers of very different size, so that the order of a sum shows in its bits. */
static double number_of(int what, int rank, int64_t i) {
  uint64_t bits = ((uint64_t)what << 56 ^ (uint64_t)rank << 40 ^ (uint64_t)i) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u;
  bits ^= bits >> 32;
  return ((double)(bits >> 11) * 0x1p-53 - 0.5) * (double)(1u << (bits & 31));
}

/* ---- messages ---- */

enum { ORDER_COUNT = 40 };

static lac_status expect_number(lac_world *world, int from, int tag, int32_t expected) {
  lac_message message;
  int32_t got;
  LAC_TRY(lac_world_receive(world, from, tag, &message));
  CHECK(lac_world_context(world), message.bytes == sizeof got && message.from == from && message.tag == tag);
  memcpy(&got, message.data, sizeof got);
  free(message.data);
  CHECK(lac_world_context(world), got == expected);
  return LAC_OK;
}

/* Everybody sends numbered messages under two tags to everybody, itself included, and receives the second tag first. */
static lac_status order_body(lac_world *world, void *argument) {
  (void)argument;
  int size = lac_world_size(world), rank = lac_world_rank(world);
  for (int32_t i = 0; i < ORDER_COUNT; i++) {
    for (int to = 0; to < size; to++) {
      int32_t value = rank * 1000 + i;
      LAC_TRY(lac_world_send(world, to, i % 2, &value, sizeof value, LAC_TRAFFIC_CONTROL));
    }
  }
  for (int tag = 1; tag >= 0; tag--) {
    for (int from = 0; from < size; from++) {
      for (int32_t i = tag; i < ORDER_COUNT; i += 2) {
        LAC_TRY(expect_number(world, from, tag, from * 1000 + i));
      }
    }
  }
  return LAC_OK;
}

static void test_order(void **state) {
  (void)state;
  run(plain(), order_body, NULL, LAC_OK, NULL);
}

static void test_order_under_delays(void **state) {
  (void)state;
  lac_world_options options = plain();
  options.delay_limit_us = 3000;
  for (options.delay_seed = 1; options.delay_seed <= 3; options.delay_seed++) {
    run(options, order_body, NULL, LAC_OK, NULL);
  }
}

/* Worker 0 takes from anybody and finds each pair's order kept. */
static lac_status any_body(lac_world *world, void *argument) {
  (void)argument;
  int size = lac_world_size(world);
  int32_t *next;
  if (lac_world_rank(world) != 0) {
    for (int32_t i = 0; i < ORDER_COUNT; i++) {
      LAC_TRY(lac_world_send(world, 0, 7, &i, sizeof i, LAC_TRAFFIC_CONTROL));
    }
    return LAC_OK;
  }
  LAC_TRY(LAC_NEW(lac_world_context(world), size, &next));
  lac_status status = LAC_OK;
  for (int i = 0; i < ORDER_COUNT * (size - 1) && !status; i++) {
    lac_message message;
    status = lac_world_receive(world, LAC_ANY_WORKER, 7, &message);
    if (!status && memcmp(message.data, &next[message.from], sizeof *next) != 0) {
      status = lac_fail(lac_world_context(world), LAC_E_INTERNAL, "order of worker %d broken", message.from);
    }
    next[message.from]++;
    free(message.data);
  }
  lac_free(next);
  return status;
}

static void test_any_source(void **state) {
  (void)state;
  lac_world_options options = plain();
  run(options, any_body, NULL, LAC_OK, NULL);
  options.delay_seed = 5;
  options.delay_limit_us = 2000;
  run(options, any_body, NULL, LAC_OK, NULL);
}

/* Poll never waits and finds what is there. */
static lac_status poll_body(lac_world *world, void *argument) {
  (void)argument;
  lac_context *context = lac_world_context(world);
  lac_message message;
  bool found;
  LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, 3, &message, &found));
  CHECK(context, !found && !message.data);
  LAC_TRY(lac_world_send(world, lac_world_rank(world), 3, "self", 5, LAC_TRAFFIC_CONTROL));
  LAC_TRY(lac_world_send(world, lac_world_rank(world), 3, NULL, 0, LAC_TRAFFIC_CONTROL));
  LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, 4, &message, &found));
  CHECK(context, !found);
  LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, 3, &message, &found));
  CHECK(context, found && message.bytes == 5 && strcmp(message.data, "self") == 0);
  free(message.data);
  LAC_TRY(lac_world_poll(world, lac_world_rank(world), 3, &message, &found));
  CHECK(context, found && message.bytes == 0);
  free(message.data);
  return lac_world_barrier(world);
}

static void test_poll_and_self(void **state) {
  (void)state;
  run(plain(), poll_body, NULL, LAC_OK, NULL);
}

/* Who only looks, again and again, is interrupted as one who waits is. */
static lac_status interrupted_poll_body(lac_world *world, void *argument) {
  (void)argument;
  lac_context *context = lac_world_context(world);
  lac_message message;
  bool found = false;
  if (lac_world_rank(world) == 0) {
    lac_context_interrupt(context);
  }
  lac_status status = LAC_OK;
  while (!status && !found) {
    status = lac_world_poll(world, LAC_ANY_WORKER, 3, &message, &found);
  }
  return status;
}

static void test_interrupted_poll(void **state) {
  (void)state;
  run(plain(), interrupted_poll_body, NULL, LAC_E_INTERRUPTED, NULL);
}

static void fill(unsigned char *bytes, size_t count, int key) {
  for (size_t i = 0; i < count; i++) {
    bytes[i] = (unsigned char)(i * 31 + i / 251 + (size_t)key * 7);
  }
}

static lac_status expect_pattern(lac_world *world, int from, size_t bytes, int key) {
  lac_message message;
  LAC_TRY(lac_world_receive(world, from, 9, &message));
  unsigned char *expected = malloc(bytes + 1);
  bool same = expected && message.bytes == bytes;
  if (same) {
    fill(expected, bytes, key);
    same = bytes == 0 || memcmp(expected, message.data, bytes) == 0;
  }
  free(expected);
  free(message.data);
  CHECK(lac_world_context(world), same);
  return LAC_OK;
}

/* Long and short messages to the next worker keep their order and their bytes. */
static lac_status long_body(lac_world *world, void *argument) {
  static const size_t sizes[] = {0, 1, 999, 1000, 1001, 70000, 3, 3 << 20, 2000};
  const size_t *packet_limit = argument;
  int size = lac_world_size(world), rank = lac_world_rank(world);
  unsigned char *bytes = malloc(3 << 20);
  CHECK(lac_world_context(world), bytes);
  world->packet_limit = *packet_limit ? *packet_limit : world->packet_limit;
  lac_status status = LAC_OK;
  for (int i = 0; i < 9 && !status; i++) {
    fill(bytes, sizes[i], rank + i);
    status = lac_world_send(world, (rank + 1) % size, 9, bytes, sizes[i], LAC_TRAFFIC_MODEL);
    memset(bytes, 0, sizes[i]); /* what was sent is a copy */
  }
  free(bytes);
  int from = (rank + size - 1) % size;
  for (int i = 0; i < 9 && !status; i++) {
    status = expect_pattern(world, from, sizes[i], from + i);
  }
  LAC_TRY(status);
  CHECK(lac_world_context(world), lac_world_counts(world).messages[LAC_TRAFFIC_MODEL] == 9);
  CHECK(lac_world_context(world), lac_world_counts(world).bytes[LAC_TRAFFIC_MODEL] == 75004 + (3 << 20));
  return LAC_OK;
}

static void test_long_messages(void **state) {
  (void)state;
  size_t whole = 0, parts = lac_world_smpi() ? 30000 : 1000; /* thousands under way at once take SMPI half a minute */
  run(plain(), long_body, &whole, LAC_OK, NULL);
  run(plain(), long_body, &parts, LAC_OK, NULL);
  lac_world_options options = plain();
  options.delay_seed = 8;
  options.delay_limit_us = 1000;
  run(options, long_body, &parts, LAC_OK, NULL);
}

/* What nobody receives is dropped with its world, large or small, and is not seen by the next. */
static lac_status unreceived_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  int size = lac_world_size(world);
  lac_message message;
  bool found;
  (void)argument;
  char *bytes = calloc(1, 300000);
  CHECK(context, bytes);
  lac_status status = LAC_OK;
  for (int i = 0; i < 5 && !status; i++) {
    status =
        lac_world_send(world, (lac_world_rank(world) + i) % size, 11, bytes, i % 2 ? 300000 : 3, LAC_TRAFFIC_CONTROL);
  }
  free(bytes);
  LAC_TRY(status);
  LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, 12, &message, &found));
  CHECK(context, !found);
  return LAC_OK;
}

static lac_status clean_body(lac_world *world, void *argument) {
  lac_message message;
  bool found;
  (void)argument;
  LAC_TRY(lac_world_barrier(world));
  LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, 11, &message, &found));
  CHECK(lac_world_context(world), !found);
  return LAC_OK;
}

static void test_unreceived(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    run(plain(), unreceived_body, NULL, LAC_OK, NULL);
    run(plain(), clean_body, NULL, LAC_OK, NULL);
  }
}

/* ---- collectives ---- */

static bool same_bits(const double *a, const double *b, int64_t count) {
  return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

typedef lac_status (*reduction_fn)(lac_world *world, double *values, int64_t count);

static double serial(int what, int size, int64_t i) {
  double result = number_of(what, 0, i);
  for (int rank = 1; rank < size; rank++) {
    double x = number_of(what, rank, i);
    result = what == 0 ? result + x : what == 1 ? fmin(result, x) : fmax(result, x);
  }
  return result;
}

/* What a reduction sends, summed over workers: along a chain and back, or, when small, up a binomial tree, whose worker
 * r hands over the values of r and of those behind it up to r with its lowest bit added, and the result down again. */
static void reduction_traffic(int size, int64_t count, int64_t sum[2]) {
  int64_t pieces = (8 * count + 65535) / 65536;
  sum[0] = 2 * (size - 1) * pieces;
  sum[1] = 2 * (size - 1) * 8 * count;
  if (8 * count * size <= 65536) {
    sum[1] = (size - 1) * 8 * count;
    for (int rank = 1; rank < size; rank++) {
      int reach = rank & -rank;
      sum[1] += 8 * count * (reach < size - rank ? reach : size - rank);
    }
  }
}

static lac_status check_reduction(lac_world *world, int what, int64_t count) {
  static const reduction_fn reductions[] = {lac_world_sum_f64, lac_world_min_f64, lac_world_max_f64};
  lac_context *context = lac_world_context(world);
  int size = lac_world_size(world), rank = lac_world_rank(world);
  double *values, *expected;
  LAC_TRY(LAC_NEW(context, count, &values));
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, count, &expected), cleanup);
  for (int64_t i = 0; i < count; i++) {
    values[i] = number_of(what, rank, i);
    expected[i] = serial(what, size, i);
  }
  lac_counts before = lac_world_counts(world);
  LAC_TRY_GOTO(status, reductions[what](world, values, count), cleanup);
  lac_counts after = lac_world_counts(world);
  int64_t sent[2] = {after.messages[LAC_TRAFFIC_CONTROL] - before.messages[LAC_TRAFFIC_CONTROL],
                     after.bytes[LAC_TRAFFIC_CONTROL] - before.bytes[LAC_TRAFFIC_CONTROL]};
  int64_t predicted[2];
  reduction_traffic(size, count, predicted);
  LAC_TRY_GOTO(status, lac_world_sum_i64(world, sent, 2), cleanup);
  if (!same_bits(values, expected, count)) {
    status = lac_fail(context, LAC_E_INTERNAL, "reduction %d of %lld values differs", what, (long long)count);
  } else if (sent[0] != predicted[0] || sent[1] != predicted[1]) {
    status = lac_fail(context, LAC_E_INTERNAL, "reduction %d: messages or bytes differ", what);
  }
cleanup:
  lac_free(values);
  lac_free(expected);
  return status;
}

/* The same for the last worker alone, in half the messages. */
static lac_status check_sum_at_last(lac_world *world, int64_t count) {
  lac_context *context = lac_world_context(world);
  int size = lac_world_size(world), rank = lac_world_rank(world);
  double *values;
  LAC_TRY(LAC_NEW(context, count, &values));
  for (int64_t i = 0; i < count; i++) {
    values[i] = number_of(0, rank, i);
  }
  int64_t sent = lac_world_counts(world).messages[LAC_TRAFFIC_CONTROL];
  lac_status status = lac_world_sum_at_last_f64(world, values, count);
  sent = lac_world_counts(world).messages[LAC_TRAFFIC_CONTROL] - sent;
  for (int64_t i = 0; !status && rank == size - 1 && i < count; i++) {
    double expected = serial(0, size, i);
    if (!same_bits(&values[i], &expected, 1)) {
      status = lac_fail(context, LAC_E_INTERNAL, "the sum of value %lld differs", (long long)i);
    }
  }
  lac_free(values);
  LAC_TRY(status);
  CHECK(context, sent == (rank < size - 1 ? (8 * count + 65535) / 65536 : 0));
  return LAC_OK;
}

static lac_status reduction_body(lac_world *world, void *argument) {
  static const int64_t counts[] = {0, 1, 8191, 8192, 8193, 20000};
  (void)argument;
  for (int i = 0; i < 6; i++) {
    for (int what = 0; what < 3; what++) {
      LAC_TRY(check_reduction(world, what, counts[i]));
    }
    LAC_TRY(check_sum_at_last(world, counts[i]));
  }
  return LAC_OK;
}

static void test_reductions(void **state) {
  (void)state;
  run(plain(), reduction_body, NULL, LAC_OK, NULL);
}

static lac_status special_body(lac_world *world, void *argument) {
  (void)argument;
  lac_context *context = lac_world_context(world);
  int64_t size = lac_world_size(world), rank = lac_world_rank(world);
  int64_t whole[3] = {rank, INT64_MAX / size, -1};
  LAC_TRY(lac_world_sum_i64(world, whole, 3));
  CHECK(context, whole[0] == size * (size - 1) / 2);
  CHECK(context, whole[1] == INT64_MAX / size * size && whole[2] == -size);
  double values[3] = {rank == size / 2 ? NAN : 1, (double)-rank, (double)rank};
  LAC_TRY(lac_world_min_f64(world, values, 2));
  CHECK(context, isnan(values[0]) && values[1] == (double)(1 - size));
  values[0] = rank == 0 ? NAN : 1;
  LAC_TRY(lac_world_max_f64(world, values, 3));
  CHECK(context, isnan(values[0]) && values[2] == (double)(size - 1));
  return LAC_OK;
}

static void test_special_values(void **state) {
  (void)state;
  run(plain(), special_body, NULL, LAC_OK, NULL);
}

static lac_status check_broadcast(lac_world *world, int root, size_t bytes) {
  int rank = lac_world_rank(world), size = lac_world_size(world);
  int64_t pieces = (int64_t)(bytes + 65535) / 65536;
  unsigned char *data = calloc(2, bytes + 1);
  CHECK(lac_world_context(world), data);
  unsigned char *expected = data + bytes + 1;
  fill(expected, bytes, root);
  if (rank == root) {
    memcpy(data, expected, bytes);
  }
  lac_counts before = lac_world_counts(world);
  lac_status status = lac_world_broadcast(world, root, data, bytes);
  int64_t sent = lac_world_counts(world).messages[LAC_TRAFFIC_CONTROL] - before.messages[LAC_TRAFFIC_CONTROL];
  bool same = memcmp(data, expected, bytes) == 0;
  free(data);
  LAC_TRY(status);
  CHECK(lac_world_context(world), same);
  LAC_TRY(lac_world_sum_i64(world, &sent, 1));
  CHECK(lac_world_context(world), sent == (size - 1) * pieces);
  return LAC_OK;
}

static lac_status broadcast_body(lac_world *world, void *argument) {
  static const size_t sizes[] = {0, 1, 65536, 200001};
  (void)argument;
  for (int root = 0; root < lac_world_size(world); root++) {
    for (int i = 0; i < 4; i++) {
      LAC_TRY(check_broadcast(world, root, sizes[i]));
    }
  }
  return LAC_OK;
}

static void test_broadcast(void **state) {
  (void)state;
  run(plain(), broadcast_body, NULL, LAC_OK, NULL);
}

static lac_status check_gather(lac_world *world, int64_t count) {
  lac_context *context = lac_world_context(world);
  int size = lac_world_size(world), rank = lac_world_rank(world);
  int64_t all_bytes = 8 * count * size, before = lac_world_counts(world).messages[LAC_TRAFFIC_CONTROL];
  double *mine, *theirs = NULL, *all = NULL;
  lac_status status = LAC_NEW(context, count, &mine);
  status = status ? status : LAC_NEW(context, count, &theirs);
  status = status ? status : LAC_NEW(context, count * size, &all);
  for (int64_t i = 0; !status && i < count; i++) {
    mine[i] = number_of(4, rank, (int)i);
  }
  if (!status) {
    status = lac_world_gather(world, mine, (size_t)count * sizeof *mine, all);
  }
  bool same = true;
  for (int from = 0; from < size && !status; from++) {
    for (int64_t i = 0; i < count; i++) {
      theirs[i] = number_of(4, from, (int)i);
    }
    same = same && same_bits(theirs, all + count * from, (int)count);
  }
  lac_free(mine);
  lac_free(theirs);
  lac_free(all);
  LAC_TRY(status);
  CHECK(context, same);
  int64_t sent = lac_world_counts(world).messages[LAC_TRAFFIC_CONTROL] - before;
  LAC_TRY(lac_world_sum_i64(world, &sent, 1));
  CHECK(context, sent == (all_bytes <= 65536 ? 2 : size) * (size - 1));
  CHECK(context, lac_world_counts(world).messages[LAC_TRAFFIC_MODEL] == 0);
  return LAC_OK;
}

static lac_status gather_body(lac_world *world, void *argument) {
  (void)argument;
  static const int64_t counts[] = {1, 3, 511, 512, 513, 4096, 8192, 9000};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    LAC_TRY(check_gather(world, counts[i]));
  }
  return lac_world_gather(world, NULL, 0, NULL);
}

static void test_gather(void **state) {
  (void)state;
  run(plain(), gather_body, NULL, LAC_OK, NULL);
}

/* Nobody leaves a barrier before the last has come to it. The clock is one for all workers. */
static lac_status barrier_body(lac_world *world, void *argument) {
  (void)argument;
  for (int late = 0; late < 3; late++) {
    if (lac_world_rank(world) == late % lac_world_size(world)) {
      work_ms(world, 20);
    }
    double entry = lac_world_now(world);
    LAC_TRY(lac_world_barrier(world));
    double left = lac_world_now(world);
    LAC_TRY(lac_world_max_f64(world, &entry, 1));
    LAC_TRY(lac_world_min_f64(world, &left, 1));
    CHECK(lac_world_context(world), entry <= left);
  }
  return LAC_OK;
}

static void test_barrier(void **state) {
  (void)state;
  run(plain(), barrier_body, NULL, LAC_OK, NULL);
}

static lac_status delayed_body(lac_world *world, void *argument) {
  double start = lac_world_now(world);
  LAC_TRY(reduction_body(world, argument));
  /* 30 and more deliveries in a row, 1 ms each on average */
  CHECK(lac_world_context(world), workers == 1 || lac_world_now(world) - start > 5e-3);
  return LAC_OK;
}

/* Collectives under delays give the same bits, and the delays are real. */
static void test_collectives_under_delays(void **state) {
  (void)state;
  lac_world_options options = plain();
  options.delay_seed = 3;
  options.delay_limit_us = 2000;
  run(options, delayed_body, NULL, LAC_OK, NULL);
  run(options, broadcast_body, NULL, LAC_OK, NULL);
  run(options, gather_body, NULL, LAC_OK, NULL);
}

static lac_status unequal_body(lac_world *world, void *argument) {
  double values[8] = {0};
  (void)argument;
  return lac_world_sum_f64(world, values, lac_world_rank(world) == 0 ? 4 : 8);
}

static void test_calls_that_differ(void **state) {
  (void)state;
  if (workers > 1) {
    run(plain(), unequal_body, NULL, LAC_E_PEER, "the calls differ");
  }
}

/* ---- agreement ---- */

/* Workers in `failing` (a bit each) bring a failure; all must get the lowest one's. */
static lac_status agree_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  int rank = lac_world_rank(world), size = lac_world_size(world);
  for (unsigned failing = 0; failing < 8; failing++) {
    int lowest = -1;
    for (int i = size - 1; i >= 0; i--) {
      lowest = i < 3 && (failing >> i & 1) ? i : lowest;
    }
    lac_status mine = LAC_OK;
    if (rank < 3 && (failing >> rank & 1)) {
      mine = lac_fail(context, rank == 1 ? LAC_E_INPUT : LAC_E_IO, "file-%d: damaged", rank);
    }
    lac_status status = lac_world_agree(world, mine);
    CHECK(context, status == (lowest < 0 ? LAC_OK : lowest == 1 ? LAC_E_INPUT : LAC_E_IO));
    char expected[64] = "";
    if (lowest >= 0) {
      snprintf(expected, sizeof expected, rank == lowest ? "file-%d: damaged" : "worker %d: file-%d: damaged", lowest,
               lowest);
      CHECK(context, strcmp(lac_context_message(context), expected) == 0);
    }
  }
  const int *last = argument;
  /* The world still works, and ends with the failing worker's own line. */
  return lac_world_agree(world, rank == *last ? lac_fail(context, LAC_E_OUTPUT, "the last word") : LAC_OK);
}

static lac_status own_line_body(lac_world *world, void *argument) {
  lac_status status = agree_body(world, argument);
  CHECK(lac_world_context(world), status == LAC_E_OUTPUT);
  return status;
}

static void test_agree(void **state) {
  (void)state;
  int nobody = -1;
  run(plain(), agree_body, &nobody, LAC_OK, NULL);
  for (int last = 0; last < workers; last++) {
    lac_context *context;
    lac_world_options options = plain();
    assert_int_equal(lac_context_create(&context), LAC_OK);
    assert_int_equal(lac_world_run(context, &options, own_line_body, &last), LAC_E_OUTPUT);
    assert_string_equal(lac_context_message(context), "the last word");
    lac_context_destroy(&context);
  }
}

/* ---- failures ---- */

typedef enum lac_wait_kind { WAIT_ONE, WAIT_ANY, WAIT_SUM, WAIT_BARRIER, WAIT_POLL, WAIT_SEND, WAIT_KINDS } wait_kind;

typedef struct failure_plan {
  int failing;
  wait_kind kind;
} failure_plan;

static lac_status wait_in_vain(lac_world *world, int failing, wait_kind kind) {
  lac_message message = {0};
  double value = 1;
  bool found = false;
  switch (kind) {
    case WAIT_ONE:
      return lac_world_receive(world, failing, 5, &message);
    case WAIT_ANY:
      return lac_world_receive(world, LAC_ANY_WORKER, 5, &message);
    case WAIT_SUM:
      return lac_world_sum_f64(world, &value, 1);
    case WAIT_BARRIER:
      return lac_world_barrier(world);
    default:
      for (;;) {
        LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, 5, &message, &found));
        if (kind == WAIT_SEND) {
          LAC_TRY(lac_world_send(world, lac_world_rank(world), 6, NULL, 0, LAC_TRAFFIC_CONTROL));
        }
        work_ms(world, 1);
      }
  }
}

/* One fails; what it sent before is still received, then the others' waits end with its name and line. */
static lac_status failing_body(lac_world *world, void *argument) {
  const failure_plan *plan = argument;
  lac_context *context = lac_world_context(world);
  char expected[64];
  if (lac_world_rank(world) == plan->failing) {
    int32_t word = 77;
    for (int to = 0; to < lac_world_size(world); to++) {
      LAC_TRY(lac_world_send(world, to, 4, &word, sizeof word, LAC_TRAFFIC_CONTROL));
    }
    return lac_fail(context, LAC_E_INPUT, "part-%d.bvecs: truncated", plan->failing);
  }
  lac_status status = wait_in_vain(world, plan->failing, plan->kind);
  CHECK(context, status == LAC_E_PEER);
  snprintf(expected, sizeof expected, "worker %d failed: part-%d.bvecs: truncated", plan->failing, plan->failing);
  CHECK(context, strcmp(lac_context_message(context), expected) == 0);
  LAC_TRY(expect_number(world, plan->failing, 4, 77));
  return lac_fail(context, status, "%s", expected);
}

static void test_failing_worker(void **state) {
  (void)state;
  for (int failing = 0; failing<workers; failing += workers> 4 ? 5 : 1) {
    for (int kind = 0; kind < WAIT_KINDS; kind++) {
      failure_plan plan = {failing, (wait_kind)kind};
      char line[64];
      snprintf(line, sizeof line, "part-%d.bvecs: truncated", failing);
      run(plain(), failing_body, &plan, LAC_E_INPUT, line);
    }
  }
}

/* A status without a message still says something. */
static lac_status mute_body(lac_world *world, void *argument) {
  (void)argument;
  return lac_world_rank(world) == lac_world_size(world) - 1 ? LAC_E_NUMERICAL : LAC_OK;
}

static void test_failure_without_message(void **state) {
  (void)state;
  run(plain(), mute_body, NULL, LAC_E_NUMERICAL, lac_status_text(LAC_E_NUMERICAL));
}

/* The last worker keeps silent for longer than the deadline, while the others wait for it along a chain. */
static lac_status silent_body(lac_world *world, void *argument) {
  double value = 1;
  (void)argument;
  if (lac_world_rank(world) == lac_world_size(world) - 1) {
    work_ms(world, 2000);
  }
  return lac_world_sum_f64(world, &value, 1);
}

static void test_deadline_names_the_silent_worker(void **state) {
  (void)state;
  if (workers == 1 || workers > 8 || lac_world_smpi()) {
    return; /* two seconds a time: the shorter chains will do; under SMPI no wait has an end */
  }
  lac_world_options options = plain();
  options.timeout_ms = 1200;
  char culprit[64];
  snprintf(culprit, sizeof culprit, "worker %d, which does not answer", workers - 1);
  run(options, silent_body, NULL, LAC_E_TIMEOUT, culprit);
}

/* A sender goes away in the midst of a long message, of which some transports have only the beginning until it is back.
 * Whoever looks for messages meanwhile is not held up. */
static lac_status long_message_body(lac_world *world, void *argument) {
  enum { MESSAGE = 1 << 22, TAG = 12 };
  lac_context *context = lac_world_context(world);
  int last = lac_world_size(world) - 1;
  (void)argument;
  if (lac_world_rank(world) == last) {
    char *data = calloc(MESSAGE, 1);
    CHECK(context, data);
    data[MESSAGE - 1] = 7;
    lac_status status = lac_world_send(world, 0, TAG, data, MESSAGE, LAC_TRAFFIC_CONTROL);
    free(data);
    LAC_TRY(status);
    work_ms(world, 2000);
  } else if (lac_world_rank(world) == 0) {
    for (bool found = false; !found;) {
      lac_message message;
      double start = lac_world_now(world);
      LAC_TRY(lac_world_poll(world, last, TAG, &message, &found));
      CHECK(context, lac_world_now(world) - start < 1);
      if (found) {
        bool whole = message.bytes == MESSAGE && ((char *)message.data)[MESSAGE - 1] == 7;
        free(message.data);
        CHECK(context, whole);
      } else {
        work_ms(world, 1);
      }
    }
  }
  return lac_world_barrier(world);
}

static void test_half_a_message_holds_up_nobody(void **state) {
  (void)state;
  if (workers == 1 || workers > 4 || lac_world_smpi()) {
    return; /* two seconds a time; under SMPI nobody else runs while one works */
  }
  run(plain(), long_message_body, NULL, LAC_OK, NULL);
}

/* Nobody ever sends: the line says who waited for whom, for what and how long. */
static lac_status wait_200_ms(lac_world *world, int from) {
  lac_message message;
  double start = lac_world_now(world);
  lac_status status = lac_world_receive(world, from, 40, &message);
  CHECK(lac_world_context(world), status != LAC_E_TIMEOUT || lac_world_now(world) - start >= 0.2);
  return status;
}

static lac_status deadlock_body(lac_world *world, void *argument) {
  (void)argument;
  return wait_200_ms(world, (lac_world_rank(world) + 1) % lac_world_size(world));
}

static lac_status any_deadline_body(lac_world *world, void *argument) {
  (void)argument;
  return wait_200_ms(world, LAC_ANY_WORKER);
}

static void test_deadlock(void **state) {
  (void)state;
  if (lac_world_smpi()) {
    return;
  }
  lac_world_options options = plain();
  options.timeout_ms = 200;
  run(options, deadlock_body, NULL, LAC_E_TIMEOUT, "for tag 40 from worker ");
  run(options, any_deadline_body, NULL, LAC_E_TIMEOUT, "for tag 40 from any worker");
}

/* A message that comes before the deadline keeps the wait alive, message after message. */
static lac_status slow_body(lac_world *world, void *argument) {
  (void)argument;
  for (int32_t i = 0; i < 6; i++) {
    if (lac_world_rank(world) == 0) {
      work_ms(world, 100);
      for (int to = 1; to < lac_world_size(world); to++) {
        LAC_TRY(lac_world_send(world, to, 2, &i, sizeof i, LAC_TRAFFIC_CONTROL));
      }
    } else {
      LAC_TRY(expect_number(world, 0, 2, i));
    }
  }
  return LAC_OK;
}

static void test_slow_is_not_late(void **state) {
  (void)state;
  lac_world_options options = plain();
  options.timeout_ms = 500;
  run(options, slow_body, NULL, LAC_OK, NULL);
}

/* One worker is interrupted (under MPI its process alone has the flag): all end as interrupted. */
static lac_status interrupt_body(lac_world *world, void *argument) {
  lac_message message;
  (void)argument;
  if (lac_world_rank(world) == lac_world_size(world) - 1) {
    lac_context_interrupt(lac_world_context(world));
  }
  lac_status status = lac_world_receive(world, LAC_ANY_WORKER, 1, &message);
  CHECK(lac_world_context(world), status == LAC_E_INTERRUPTED);
  return status;
}

static void test_interrupt(void **state) {
  (void)state;
  double start = lac_seconds();
  run(plain(), interrupt_body, NULL, LAC_E_INTERRUPTED, "interrupted");
  assert_true(lac_seconds() - start < 10);
}

/* ---- usage ---- */

static lac_status usage_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  int size = lac_world_size(world);
  lac_message message;
  bool found;
  char byte = 0;
  (void)argument;
  CHECK(context, strcmp(lac_world_backend(world), backend) == 0);
  CHECK(context, size == workers && lac_world_rank(world) >= 0 && lac_world_rank(world) < size);
  CHECK(context, lac_world_send(world, size, 1, &byte, 1, LAC_TRAFFIC_CONTROL) == LAC_E_USAGE);
  CHECK(context, lac_world_send(world, -1, 1, &byte, 1, LAC_TRAFFIC_CONTROL) == LAC_E_USAGE);
  CHECK(context, lac_world_send(world, 0, LAC_TAG_LIMIT, &byte, 1, LAC_TRAFFIC_CONTROL) == LAC_E_USAGE);
  CHECK(context, lac_world_receive(world, size, 1, &message) == LAC_E_USAGE);
  CHECK(context, lac_world_receive(world, 0, -1, &message) == LAC_E_USAGE);
  CHECK(context, lac_world_poll(world, -2, 1, &message, &found) == LAC_E_USAGE);
  CHECK(context, lac_world_poll(world, 0, LAC_TAG_LIMIT, &message, &found) == LAC_E_USAGE);
  CHECK(context, lac_world_broadcast(world, size, &byte, 1) == LAC_E_USAGE);
  CHECK(context, lac_world_sum_f64(world, NULL, -1) == LAC_E_USAGE);
  CHECK(context, lac_world_sum_at_last_f64(world, NULL, -1) == LAC_E_USAGE);
  CHECK(context, strstr(lac_context_message(context), "found -1"));
  return LAC_OK;
}

static void test_usage(void **state) {
  (void)state;
  run(plain(), usage_body, NULL, LAC_OK, NULL);
  lac_world_options options = plain();
  options.backend = "carrier-pigeon";
  run(options, usage_body, NULL, LAC_E_USAGE, "carrier-pigeon");
  options = plain();
  options.workers = -1;
  run(options, usage_body, NULL, LAC_E_USAGE, "workers: found -1");
  options = plain();
  options.timeout_ms = -5;
  run(options, usage_body, NULL, LAC_E_USAGE, "timeout: found -5");
  options = plain();
  options.workers = strcmp(backend, "mpi") == 0 ? workers + 1 : LAC_WORKERS_LIMIT + 1;
  run(options, usage_body, NULL, LAC_E_USAGE, "workers: found");
}

static void test_size_of(void **state) {
  (void)state;
  lac_context *context;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  lac_world_options options = plain();
  int size = -1;
  assert_int_equal(lac_world_size_of(context, &options, &size), LAC_OK);
  assert_int_equal(size, workers);
  options.workers = 0;
  assert_int_equal(lac_world_size_of(context, &options, &size), LAC_OK);
  assert_int_equal(size, strcmp(backend, "mpi") == 0 ? workers : 1);
  lac_context_destroy(&context);
}

/* A worker's stack holds a few megabytes, and its context keeps a message of its own. */
static lac_status stack_body(lac_world *world, void *argument) {
  volatile char room[4 << 20];
  char expected[32];
  (void)argument;
  for (size_t i = 0; i < sizeof room; i += 4096) {
    room[i] = (char)i;
  }
  snprintf(expected, sizeof expected, "worker %d's own", lac_world_rank(world));
  lac_status ignored = lac_fail(lac_world_context(world), LAC_E_IO, "%s", expected);
  (void)ignored;
  LAC_TRY(lac_world_barrier(world));
  CHECK(lac_world_context(world), strcmp(lac_context_message(lac_world_context(world)), expected) == 0);
  return room[0] ? LAC_E_INTERNAL : LAC_OK;
}

static void test_stack_and_context(void **state) {
  (void)state;
  run(plain(), stack_body, NULL, LAC_OK, NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_order_under_delays),
      cmocka_unit_test(test_any_source),
      cmocka_unit_test(test_poll_and_self),
      cmocka_unit_test(test_interrupted_poll),
      cmocka_unit_test(test_long_messages),
      cmocka_unit_test(test_unreceived),
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_broadcast),
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_barrier),
      cmocka_unit_test(test_collectives_under_delays),
      cmocka_unit_test(test_calls_that_differ),
      cmocka_unit_test(test_agree),
      cmocka_unit_test(test_failing_worker),
      cmocka_unit_test(test_failure_without_message),
      cmocka_unit_test(test_deadline_names_the_silent_worker),
      cmocka_unit_test(test_half_a_message_holds_up_nobody),
      cmocka_unit_test(test_deadlock),
      cmocka_unit_test(test_slow_is_not_late),
      cmocka_unit_test(test_interrupt),
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_size_of),
      cmocka_unit_test(test_stack_and_context),
  };
  static const int counts[] = {1, 2, 3, 7, 16};
  int failed = 0;
  if (argc < 3 && !lac_world_launched()) {
    run_on_threads("sim", argc, argv, tests, counts, failed);
  }
  run_on_workers(argc, argv, tests, counts, failed);
  return failed;
}
