/* The simulated cluster: timelines worked out by hand, the same run from the same seed, and that nothing takes real
 * time. Numbers are sums of powers of two, so that times are compared exactly. What all back ends promise is in
 * contract_test.c. */
#include <math.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "base/profile.h"
#include "base/random.h"
#include "comm/backend.h"
#include "comm/workers.h"

static lac_world_options on(const lac_cluster *cluster, int count) {
  return (lac_world_options){.backend = "sim", .workers = count, .cluster = cluster};
}

/* Waits for a message and expects the time at which it is there. */
static lac_status expect_at(lac_world *world, int from, int tag, double time) {
  lac_message message;
  LAC_TRY(lac_world_receive(world, from, tag, &message));
  free(message.data);
  double now = lac_world_now(world);
  return now == time ? LAC_OK
                     : lac_fail(lac_world_context(world), LAC_E_INTERNAL, "tag %d from %d: at %.17g, expected %.17g",
                                tag, message.from, now, time);
}

static lac_status send(lac_world *world, int to, int tag, size_t bytes) {
  static const char data[4096];
  return lac_world_send(world, to, tag, data, bytes, LAC_TRAFFIC_MODEL);
}

/* ---- timelines ---- */

/* Latency 1/4 s, 1,024 bytes a second. Worker 0 works to 1 and sends 512 bytes (leave 1 to 1.5) and 256 (1.5 to 1.75);
 * its clock stands. The empty answer to the first needs the latency alone. At 3 the link has long been free. */
static lac_status link_body(lac_world *world, void *argument) {
  (void)argument;
  lac_context *context = lac_world_context(world);
  CHECK(context, lac_world_now(world) == 0);
  if (lac_world_rank(world) == 0) {
    lac_world_spend(world, 1);
    CHECK(context, lac_world_now(world) == 1);
    LAC_TRY(send(world, 1, 1, 512));
    LAC_TRY(send(world, 1, 2, 256));
    CHECK(context, lac_world_now(world) == 1);
    LAC_TRY(expect_at(world, 1, 3, 2));
    lac_world_spend(world, 1);
    return send(world, 1, 4, 1024);
  }
  LAC_TRY(expect_at(world, 0, 1, 1.75));
  LAC_TRY(send(world, 0, 3, 0));
  LAC_TRY(expect_at(world, 0, 2, 2));
  LAC_TRY(expect_at(world, 0, 4, 4.25));
  /* What has arrived before it is asked for does not move the clock, nor does a message to itself. */
  LAC_TRY(send(world, 1, 5, 4096));
  return expect_at(world, 1, 5, 4.25);
}

static void test_link(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0.25, .bandwidth = 1024};
  run(on(&cluster, 2), link_body, NULL, LAC_OK, NULL);
}

/* One link for all receivers: the message to worker 2 leaves after that to worker 1. Other workers' links are their
 * own, and of messages from several workers the first to arrive is the first received, not the first sent. */
static lac_status share_body(lac_world *world, void *argument) {
  (void)argument;
  switch (lac_world_rank(world)) {
    case 0:
      LAC_TRY(send(world, 1, 1, 1024));
      LAC_TRY(send(world, 2, 1, 1024));
      return LAC_OK;
    case 1:
      LAC_TRY(expect_at(world, 0, 1, 1.5));
      return send(world, 3, 2, 2048); /* 1.5 to 3.5, there at 4 */
    case 2:
      LAC_TRY(expect_at(world, 0, 1, 2.5));
      return send(world, 3, 2, 512); /* 2.5 to 3, there at 3.5 */
    default:
      for (int i = 0; i < 2; i++) {
        lac_message message;
        LAC_TRY(lac_world_receive(world, LAC_ANY_WORKER, 2, &message));
        free(message.data);
        CHECK(lac_world_context(world), message.from == 2 - i && lac_world_now(world) == 3.5 + 0.5 * i);
      }
      return LAC_OK;
  }
}

static void test_shared_link(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0.5, .bandwidth = 1024};
  run(on(&cluster, 4), share_body, NULL, LAC_OK, NULL);
}

/* Of simultaneous arrivals the one sent by the lower rank comes first, whatever is received meanwhile. */
static lac_status tie_body(lac_world *world, void *argument) {
  (void)argument;
  int size = lac_world_size(world), rank = lac_world_rank(world);
  if (rank > 0) {
    return send(world, 0, 1, 0);
  }
  for (int from = 1; from < size; from++) {
    lac_message message;
    LAC_TRY(lac_world_receive(world, LAC_ANY_WORKER, 1, &message));
    free(message.data);
    CHECK(lac_world_context(world), message.from == from && lac_world_now(world) == 0.125);
  }
  return LAC_OK;
}

static void test_ties(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0.125};
  run(on(&cluster, 9), tie_body, NULL, LAC_OK, NULL);
}

/* All 0 or nothing at all: messages take no time. Spending nothing, less or nonsense takes none either. */
static lac_status ideal_body(lac_world *world, void *argument) {
  (void)argument;
  lac_world_spend(world, lac_world_rank(world));
  LAC_TRY(lac_world_barrier(world));
  CHECK(lac_world_context(world), lac_world_now(world) == lac_world_size(world) - 1);
  const double nothing[] = {0, -1, NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 5; i++) {
    lac_world_spend(world, nothing[i]);
  }
  CHECK(lac_world_context(world), lac_world_now(world) == lac_world_size(world) - 1);
  return LAC_OK;
}

static void test_ideal_network(void **state) {
  (void)state;
  lac_cluster cluster = {.seed = 9};
  run(on(NULL, 5), ideal_body, NULL, LAC_OK, NULL);
  run(on(&cluster, 5), ideal_body, NULL, LAC_OK, NULL);
}

/* ---- speeds and jitter ---- */

static lac_status speed_body(lac_world *world, void *argument) {
  const double *speeds = argument;
  for (int i = 1; i <= 8; i++) {
    lac_world_spend(world, 0.25);
    CHECK(lac_world_context(world), lac_world_now(world) == 0.25 * i / speeds[lac_world_rank(world)]);
  }
  return LAC_OK;
}

static void test_speeds(void **state) {
  (void)state;
  double speeds[] = {1, 0.5, 2, 0.125};
  lac_cluster cluster = {.speeds = speeds};
  run(on(&cluster, 4), speed_body, speeds, LAC_OK, NULL);
}

/* A time that no number can hold is nonsense, too. */
static lac_status endless_body(lac_world *world, void *argument) {
  (void)argument;
  lac_world_spend(world, 1e300);
  CHECK(lac_world_context(world), lac_world_now(world) == 0);
  return lac_world_barrier(world);
}

static void test_endless_computing(void **state) {
  (void)state;
  double speeds[] = {1e-300, 1e-290, 1e-280};
  lac_cluster cluster = {.speeds = speeds, .latency = 1};
  run((lac_world_options){.backend = "sim", .workers = 3, .cluster = &cluster}, endless_body, NULL, LAC_OK, NULL);
}

enum { SPENDS = 20000 };

/* The factors have mean 1 and standard deviation `jitter`. At 0.3 the mean of 20,000 strays by .3 / sqrt(20000) = .002,
 * the variance, .09, by some .0012 (the kurtosis of this lognormal is 4.7): four times that is allowed. */
static lac_status jitter_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  double *first = argument, sum = 0, squares = 0;
  for (int i = 0; i < SPENDS; i++) {
    double before = lac_world_now(world);
    lac_world_spend(world, 2);
    double factor = (lac_world_now(world) - before) / 2;
    CHECK(context, factor > 0);
    first[lac_world_rank(world)] = i == 0 ? factor : first[lac_world_rank(world)];
    sum += factor - 1;
    squares += (factor - 1) * (factor - 1);
  }
  CHECK(context, fabs(sum / SPENDS) < 0.0085);
  CHECK(context, fabs(squares / SPENDS - 0.09) < 0.005);
  return LAC_OK;
}

static void test_jitter(void **state) {
  (void)state;
  lac_cluster cluster = {.seed = 3, .jitter = 0.3};
  double first[2][2];
  run(on(&cluster, 2), jitter_body, first[0], LAC_OK, NULL);
  cluster.seed = 4;
  run(on(&cluster, 2), jitter_body, first[1], LAC_OK, NULL);
  assert_true(first[0][0] != first[0][1] && first[0][0] != first[1][0] && first[0][1] != first[1][1]);
}

/* ---- the same run from the same seed ---- */

enum { TRAFFIC_WORKERS = 16, TRAFFIC_STEPS = 60, TRAFFIC_TAGS = 3, TRACE_LIMIT = TRAFFIC_WORKERS * TRAFFIC_STEPS };

typedef struct event {
  double time;
  int32_t from, to, tag, bytes;
} event;

typedef struct trace {
  bool disturbed; /* threads also sleep in real time */
  atomic_int inside;
  int count; /* as one worker runs at a time, no lock guards this */
  event events[TRACE_LIMIT];
} trace;

static lac_status note(lac_world *world, trace *all, lac_message *message) {
  lac_context *context = lac_world_context(world);
  CHECK(context, atomic_fetch_add(&all->inside, 1) == 0);
  CHECK(context, all->count < TRACE_LIMIT);
  if (all->disturbed && all->count % 7 == 0) {
    pause_ms(1);
  }
  all->events[all->count++] = (event){.time = lac_world_now(world),
                                      .from = message->from,
                                      .to = lac_world_rank(world),
                                      .tag = message->tag,
                                      .bytes = (int32_t)message->bytes};
  free(message->data);
  CHECK(context, atomic_fetch_sub(&all->inside, 1) == 1);
  return LAC_OK;
}

static lac_status take_what_is_there(lac_world *world, trace *all, int64_t *left) {
  for (int tag = 0; tag < TRAFFIC_TAGS; tag++) {
    lac_message message;
    bool found = true;
    while (found) {
      LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, tag, &message, &found));
      if (found) {
        LAC_TRY(note(world, all, &message));
        left[tag]--;
      }
    }
  }
  return LAC_OK;
}

/* Everybody works for random times, sends messages of random sizes to random workers and takes what has come; then the
 * workers count what was sent to whom, and each waits for its rest. */
static lac_status traffic_body(lac_world *world, void *argument) {
  trace *all = argument;
  int rank = lac_world_rank(world);
  int64_t sent[TRAFFIC_WORKERS * TRAFFIC_TAGS] = {0}, left[TRAFFIC_TAGS] = {0};
  lac_random random = lac_random_stream(1, LAC_RANDOM_TEST, (uint64_t)rank, 0);
  for (int step = 0; step < TRAFFIC_STEPS; step++) {
    lac_world_spend(world, 0.01 * lac_random_uniform(&random));
    int to = (int)lac_random_below(&random, TRAFFIC_WORKERS), tag = (int)lac_random_below(&random, TRAFFIC_TAGS);
    LAC_TRY(send(world, to, tag, (size_t)lac_random_below(&random, 4096)));
    sent[to * TRAFFIC_TAGS + tag]++;
    LAC_TRY(take_what_is_there(world, all, left));
  }
  LAC_TRY(lac_world_sum_i64(world, sent, TRAFFIC_WORKERS * TRAFFIC_TAGS));
  for (int tag = 0; tag < TRAFFIC_TAGS; tag++) {
    for (left[tag] += sent[rank * TRAFFIC_TAGS + tag]; left[tag] > 0; left[tag]--) {
      lac_message message;
      LAC_TRY(lac_world_receive(world, LAC_ANY_WORKER, tag, &message));
      LAC_TRY(note(world, all, &message));
    }
  }
  return LAC_OK;
}

static trace *traffic(int64_t seed, bool disturbed) {
  static const double speeds[TRAFFIC_WORKERS] = {1, 1, .5, 1, 2, 1, 1, 1, 1, .25, 1, 1, 1, 3, 1, 1};
  lac_cluster cluster = {.seed = seed, .latency = 1e-3, .bandwidth = 1e6, .jitter = 0.2, .speeds = speeds};
  trace *all = calloc(1, sizeof *all);
  assert_non_null(all);
  all->disturbed = disturbed;
  run(on(&cluster, TRAFFIC_WORKERS), traffic_body, all, LAC_OK, NULL);
  assert_int_equal(all->count, TRACE_LIMIT);
  return all;
}

/* How many events come before the first that differs. */
static int alike(const trace *a, const trace *b) {
  int i = 0;
  while (i < TRACE_LIMIT && a->events[i].time == b->events[i].time && a->events[i].from == b->events[i].from &&
         a->events[i].to == b->events[i].to && a->events[i].tag == b->events[i].tag &&
         a->events[i].bytes == b->events[i].bytes) {
    i++;
  }
  return i;
}

static void test_same_seed_same_run(void **state) {
  (void)state;
  trace *first = traffic(1, false), *second = traffic(1, true), *other = traffic(2, false);
  assert_int_equal(alike(first, second), TRACE_LIMIT);
  assert_true(alike(first, other) < TRACE_LIMIT);
  /* Always the earliest worker runs, so the trace is in order of time; and nothing travels faster than it can. */
  for (int i = 0; i < first->count; i++) {
    const event *at = &first->events[i];
    assert_true(at->from == at->to || at->time >= 1e-3 + at->bytes / 1e6);
    assert_true(i == 0 || at->time >= at[-1].time);
  }
  free(first);
  free(second);
  free(other);
}

/* ---- waits that end badly ---- */

/* 0 waits for 1, 1 for 2, 2 for 0. All deadlines pass at 600; each asks whom its suspect waits for, and the answers
 * take two latencies each. The first to know all is worker 0. Real time does not pass. */
static lac_status deadlock_body(lac_world *world, void *argument) {
  lac_message message;
  double *ended = argument;
  lac_status status = lac_world_receive(world, (lac_world_rank(world) + 1) % 3, 40, &message);
  ended[lac_world_rank(world)] = lac_world_now(world);
  return status;
}

static void test_deadlock_ends_at_once(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0.125};
  double ended[3], start = lac_seconds();
  run(on(&cluster, 3), deadlock_body, ended, LAC_E_TIMEOUT,
      "waited 600.50 s for tag 40 from worker 1, which waits for worker 2, which waits for worker 0");
  assert_true(lac_seconds() - start < 10);
  assert_true(ended[0] == 600.5);
}

/* Worker 1 works past the deadline of worker 0, which asks in vain for a quarter of the deadline. */
static lac_status busy_body(lac_world *world, void *argument) {
  (void)argument;
  lac_message message;
  if (lac_world_rank(world) == 1) {
    lac_world_spend(world, 100);
    return LAC_OK;
  }
  lac_status status = lac_world_receive(world, 1, 7, &message);
  CHECK(lac_world_context(world), lac_world_now(world) == 2.5);
  return status;
}

/* … or not past it. */
static lac_status just_body(lac_world *world, void *argument) {
  (void)argument;
  if (lac_world_rank(world) == 1) {
    lac_world_spend(world, 1.75);
    return send(world, 0, 7, 0);
  }
  return expect_at(world, 1, 7, 2);
}

static void test_deadlines_are_virtual(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0.25};
  lac_world_options options = on(&cluster, 2);
  options.timeout_ms = 2000;
  run(options, busy_body, NULL, LAC_E_TIMEOUT, "worker 0 waited 2.50 s for tag 7 from worker 1, which does not answer");
  run(options, just_body, NULL, LAC_OK, NULL);
}

/* The notice of a failure travels as any message: worker 1 fails at 1, at 1.5 the others know. Worker 2, at work till
 * 4, finds out then. */
static lac_status failing_body(lac_world *world, void *argument) {
  (void)argument;
  lac_message message;
  int rank = lac_world_rank(world);
  lac_world_spend(world, rank == 1 ? 1 : rank == 2 ? 4 : 0);
  if (rank == 1) {
    return lac_fail(lac_world_context(world), LAC_E_INPUT, "out of ink");
  }
  lac_status status = lac_world_receive(world, LAC_ANY_WORKER, 1, &message);
  CHECK(lac_world_context(world), status == LAC_E_PEER && lac_world_now(world) == (rank == 2 ? 4 : 1.5));
  return status;
}

static void test_notice_takes_the_latency(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0.5};
  run(on(&cluster, 4), failing_body, NULL, LAC_E_INPUT, "out of ink");
}

/* An interrupt while worker 3 works: the others' waits end when it next gives way, at virtual 1, not at their deadlines
 * nor when it ends. */
static lac_status interrupt_body(lac_world *world, void *argument) {
  (void)argument;
  lac_message message;
  if (lac_world_rank(world) == 3) {
    lac_world_spend(world, 1);
    lac_context_interrupt(lac_world_context(world));
    lac_world_spend(world, 1);
    CHECK(lac_world_context(world), lac_world_now(world) == 2);
    return LAC_OK;
  }
  lac_status status = lac_world_receive(world, 3, 1, &message);
  CHECK(lac_world_context(world), status == LAC_E_INTERRUPTED && lac_world_now(world) == 1);
  return status;
}

static void test_interrupt(void **state) {
  (void)state;
  run(on(NULL, 4), interrupt_body, NULL, LAC_E_INTERRUPTED, "interrupted");
}

/* ---- polls ---- */

/* A loop of polls gets on, and so do the workers that it waits for: 1 ms of microseconds. */
static lac_status poll_body(lac_world *world, void *argument) {
  (void)argument;
  if (lac_world_rank(world) == 1) {
    lac_world_spend(world, 0.5e-3);
    return send(world, 0, 1, 0);
  }
  lac_message message;
  int polls = 0;
  for (bool found = false; !found; polls++) {
    LAC_TRY(lac_world_poll(world, 1, 1, &message, &found));
  }
  CHECK(lac_world_context(world), polls >= 1000 && polls <= 1002);
  CHECK(lac_world_context(world), lac_world_now(world) >= 1e-3 && lac_world_now(world) < 1e-3 + 1.5e-6);
  return LAC_OK;
}

static void test_polls_take_time(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0.5e-3};
  run(on(&cluster, 2), poll_body, NULL, LAC_OK, NULL);
}

/* ---- who runs ---- */

/* Spending alone hands nothing over: the others, whose time is 0, begin when this worker next looks at its messages. */
static lac_status keep_body(lac_world *world, void *argument) {
  int *started = argument, found = 0;
  lac_context *context = lac_world_context(world);
  lac_message message;
  bool any;
  CHECK(context, *started == lac_world_rank(world));
  found = ++*started;
  for (int i = 0; i < 8; i++) {
    lac_world_spend(world, 0.25);
    CHECK(context, *started == found);
  }
  LAC_TRY(lac_world_poll(world, LAC_ANY_WORKER, 1, &message, &any));
  CHECK(context, !any && *started == lac_world_size(world));
  return LAC_OK;
}

static void test_spending_keeps_the_turn(void **state) {
  (void)state;
  int started = 0;
  run(on(NULL, 5), keep_body, &started, LAC_OK, NULL);
}

/* ---- many workers ---- */

enum { MANY = 128, ROUNDS = 20 };

/* A token goes round, and a sum goes up a binomial tree and down again. Worker 127 passes the token on a latency before
 * worker 0 gets it, and what it adds is 7 hops from worker 0; from there worker r is as many hops as r has bits. */
static lac_status many_body(lac_world *world, void *argument) {
  (void)argument;
  const double latency = 0x1p-10;
  int rank = lac_world_rank(world);
  for (int i = 0; i < ROUNDS; i++) {
    if (rank > 0 || i > 0) {
      LAC_TRY(expect_at(world, (rank + MANY - 1) % MANY, 1, latency * (i * MANY + rank)));
    }
    LAC_TRY(send(world, (rank + 1) % MANY, 1, 8));
  }
  if (rank == 0) {
    LAC_TRY(expect_at(world, MANY - 1, 1, latency * ROUNDS * MANY));
  }
  int64_t sum = rank;
  LAC_TRY(lac_world_sum_i64(world, &sum, 1));
  int bits = 0;
  for (int r = rank; r > 0; r /= 2) {
    bits += r % 2;
  }
  CHECK(lac_world_context(world), sum == MANY * (MANY - 1) / 2);
  CHECK(lac_world_context(world), lac_world_now(world) == latency * (ROUNDS * MANY - 1 + 7 + bits));
  return LAC_OK;
}

static void test_many_workers(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 0x1p-10};
  run(on(&cluster, MANY), many_body, NULL, LAC_OK, NULL);
}

/* ---- what cannot be ---- */

static void test_usage(void **state) {
  (void)state;
  double speeds[] = {1, 0};
  const struct {
    lac_cluster cluster;
    const char *words;
  } cases[] = {
      {{.latency = -1}, "latency: found -1, expected a finite number of 0 or more"},
      {{.latency = NAN}, "latency: found nan"},
      {{.bandwidth = -8}, "bandwidth: found -8"},
      {{.bandwidth = INFINITY}, "bandwidth: found inf"},
      {{.jitter = -0.5}, "jitter: found -0.5"},
      {{.speeds = speeds}, "speed of worker 1: found 0, expected a finite number above 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    run(on(&cases[i].cluster, 2), ideal_body, NULL, LAC_E_USAGE, cases[i].words);
  }
  run((lac_world_options){.backend = "simulator"}, ideal_body, NULL, LAC_E_USAGE, "expected local, mpi or sim");
}

/* Elsewhere the clock is the machine's and spending does nothing. */
static lac_status real_body(lac_world *world, void *argument) {
  (void)argument;
  double before = lac_seconds(), now = lac_world_now(world);
  lac_world_spend(world, 1000);
  CHECK(lac_world_context(world), now >= before && lac_world_now(world) <= lac_seconds());
  return LAC_OK;
}

static void test_real_clock(void **state) {
  (void)state;
  lac_cluster cluster = {.latency = 1000};
  run((lac_world_options){.backend = "local", .workers = 2, .cluster = &cluster}, real_body, NULL, LAC_OK, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_link),
      cmocka_unit_test(test_shared_link),
      cmocka_unit_test(test_ties),
      cmocka_unit_test(test_ideal_network),
      cmocka_unit_test(test_speeds),
      cmocka_unit_test(test_endless_computing),
      cmocka_unit_test(test_jitter),
      cmocka_unit_test(test_same_seed_same_run),
      cmocka_unit_test(test_deadlock_ends_at_once),
      cmocka_unit_test(test_deadlines_are_virtual),
      cmocka_unit_test(test_notice_takes_the_latency),
      cmocka_unit_test(test_interrupt),
      cmocka_unit_test(test_polls_take_time),
      cmocka_unit_test(test_spending_keeps_the_turn),
      cmocka_unit_test(test_many_workers),
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_real_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
