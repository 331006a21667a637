/* Mixing times of running jobs: of hand-made records against the hand, and of simulated jobs whose workers wake
 * independently against what sampling of the same process says. */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/workers.h"
#include "laconic/replica.h"
#include "replica/asynchronous.h"
#include "replica/observe.h"
#include "replica/replay.h"

enum { MOST_WORKERS = 16 };

typedef struct job {
  int protocol, topology, steps, slices; /* steps: of each worker, about */
  int64_t period;
  double slack;
  int method, advances; /* zeros: sgd, one */
} job;

static lac_mixing_time observed[MOST_WORKERS];
static int64_t control[2]; /* what all sent for the last call: messages and bytes */
static int64_t kept;       /* events in all histories */

typedef struct task {
  const job *job;
  lac_world *world;
  lac_replica *replica;
  double until;
} task;

/* Computes for an exponential time, so that who steps next does not depend on who has stepped, and looks at its
 * messages in between. */
static lac_status gradient(void *user, lac_context *context, int64_t step, const float *x, float *out,
                           lac_batch_result *result) {
  task *t = user;
  (void)x;
  lac_random stream = lac_random_stream(5, LAC_RANDOM_TEST, (uint64_t)lac_world_rank(t->world), (uint64_t)step);
  double seconds = -log1p(-lac_random_uniform(&stream));
  bool asked = t->job->protocol == LAC_PROTOCOL_ADPSGD || lac_world_rank(t->world) == 0;
  int slices = asked ? t->job->slices : 1;
  for (int s = 0; s < slices; s++) {
    lac_world_spend(t->world, seconds / slices);
    LAC_TRY(lac_replica_serve(context, t->replica));
  }
  out[0] = 0;
  *result = (lac_batch_result){.loss = 1, .points = 1};
  return LAC_OK;
}

static lac_replica_options settings(const job *j) {
  return (lac_replica_options){
      .method = j->method,
      .epochs = 1000,
      .inner_steps = 1,
      .average = 0.5,
      .gamma = 100,
      .rho = 1,
      .scoping = 1,
      .optimizer = {.kind = LAC_OPTIMIZER_SGD},
      .seed = 7,
      .exchange = {.protocol = j->protocol, .topology = {.kind = j->topology}, .period = j->period, .slack = j->slack}};
}

/* All end an advance at one time, not after so many steps each: then the slow ones would step alone at its end. */
static bool is_over(void *user) {
  const task *t = user;
  return lac_world_now(t->world) > t->until;
}

static lac_status sum_up(lac_world *world, const task *t, const lac_counts *before) {
  lac_counts after = lac_world_counts(world);
  int64_t sums[3] = {after.messages[LAC_TRAFFIC_CONTROL] - before->messages[LAC_TRAFFIC_CONTROL],
                     after.bytes[LAC_TRAFFIC_CONTROL] - before->bytes[LAC_TRAFFIC_CONTROL],
                     lac_replica_history_of(t->replica).count};
  LAC_TRY(lac_world_sum_i64(world, sums, 3));
  if (lac_world_rank(world) == 0) {
    memcpy(control, sums, sizeof control);
    kept = sums[2];
  }
  return LAC_OK;
}

static lac_status body(lac_world *world, void *argument) {
  static const float start[1] = {0};
  const job *j = argument;
  lac_context *context = lac_world_context(world);
  task t = {.job = j, .world = world};
  lac_replica_options options = settings(j);
  lac_objective objective = {.parameters = 1, .batches_per_pass = 10, .gradient = gradient, .user = &t};
  int advances = j->advances ? j->advances : 1;
  bool simulated = strcmp(lac_world_backend(world), "sim") == 0 && lac_protocol_asynchronous(j->protocol);
  lac_status status = lac_replica_create(context, world, &objective, &options, start, &t.replica);
  lac_counts before = {0};
  for (int a = 0; !status && a < advances; a++) {
    lac_replica_ask(t.replica, simulated ? is_over : NULL, &t);
    t.until = (double)j->steps * (a + 1) / advances;
    status = lac_replica_advance(context, t.replica, simulated ? INT32_MAX : j->steps / advances);
    before = lac_world_counts(world);
    if (!status) {
      status = lac_replica_observe(context, t.replica, &observed[lac_world_rank(world)]);
    }
  }
  if (!status) {
    status = sum_up(world, &t, &before);
  }
  lac_replica_destroy(&t.replica);
  return status;
}

static void simulate(const job *j) {
  job copy = *j;
  lac_cluster cluster = {.seed = 1};
  run((lac_world_options){.backend = "sim", .workers = workers, .timeout_ms = 600000, .cluster = &cluster}, body, &copy,
      LAC_OK, NULL);
  for (int i = 1; i < workers; i++) {
    assert_memory_equal(&observed[i], &observed[0], sizeof observed[0]);
  }
}

static lac_process *process_of(lac_context *context, const job *j, int n) {
  lac_process *process;
  lac_replica_options options = settings(j);
  assert_ok(context, lac_replica_process(context, &options, n, &process));
  return process;
}

static lac_mixing_time predicted(const job *j) {
  lac_context *context;
  lac_mixing_options options;
  lac_mixing_time time;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_ok(context, lac_options_default(context, lac_mixing_option_table(), &options));
  lac_process *process = process_of(context, j, workers);
  assert_ok(context, lac_mixing_time_of(context, process, &options, &time));
  lac_process_destroy(&process);
  lac_context_destroy(&context);
  return time;
}

/* ---- jobs ---- */

static void within(double found, double wanted, double part) {
  if (!(fabs(found - wanted) <= part * wanted)) {
    fail_msg("found %g, expected %g within %g of it", found, wanted, part);
  }
}

static void workers_that_wake_independently_mix_as_predicted(void **state) {
  (void)state;
  static const job jobs[] = {
      {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE, 160, 6, 1, 1},
      {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING, 500, 6, 1, 1},
      {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE, 200, 6, 1, 0.4},
      {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING, 700, 1, 1, 1},
      {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_COMPLETE, 400, 1, 1, 0.5},
      {LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING, 500, 12, 1, 1},
      {LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING, 700, 12, 1, 0.5},
  };
  for (size_t which = 0; which < sizeof jobs / sizeof *jobs; which++) {
    simulate(&jobs[which]);
    assert_int_equal(observed[0].kind, LAC_MIXING_REALISED);
    assert_true(observed[0].samples >= 16 && observed[0].reason[0] == 0);
    assert_true(fabs(observed[0].updates - workers * observed[0].rounds) < 1e-9 * observed[0].updates);
    assert_true(observed[0].standard_error < 0.1 * observed[0].rounds);
    within(observed[0].rounds, predicted(&jobs[which]).rounds, 0.25);
  }
}

/* A window begins anywhere in the workers' periods of 3, the prediction where all have just mixed: on the average a
 * round later. A mean needs three times as long; where it is enough that all have mixed once, it is less, since then
 * three waits have less spread than one. */
static void a_period_takes_longer(void **state) {
  (void)state;
  static const int protocols[] = {LAC_PROTOCOL_ADPSGD, LAC_PROTOCOL_ASYNC_RING, LAC_PROTOCOL_ASYNC_SERVER};
  for (int p = 0; p < 3 && workers == 8; p++) {
    job j = {protocols[p], LAC_TOPOLOGY_COMPLETE, 240, 4, 1, 1};
    simulate(&j);
    double once = observed[0].rounds;
    j.period = 3;
    j.steps *= 3;
    simulate(&j);
    within(observed[0].rounds, predicted(&j).rounds - 1, 0.2);
    if (protocols[p] == LAC_PROTOCOL_ADPSGD) {
      within(observed[0].rounds, 3 * once, 0.25);
    }
  }
}

/* Elastic's workers send before they mix, so that a neighbour reads what was there before the last mixing: against
 * plain sampling of that. */
static void offers_are_read_a_mixing_late(void **state) {
  (void)state;
  enum { PATHS = 400, LONGEST = 2000 };
  static double sums[LONGEST];
  job j = {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING, 900, 1, 1, 1, LAC_METHOD_ELASTIC, 0};
  if (workers != 8) {
    return;
  }
  memset(sums, 0, sizeof sums);
  for (int path = 0; path < PATHS; path++) {
    lac_random stream = lac_random_stream(11, LAC_RANDOM_TEST, (uint64_t)path, 0);
    double x[8][8] = {{0}}, sent[8][8] = {{0}};
    for (int i = 0; i < 8; i++) {
      x[i][i] = sent[i][i] = 1;
    }
    for (int t = 0; t < LONGEST; t++) {
      double mean[8] = {0}, most = 0;
      for (int i = 0; i < 64; i++) {
        mean[i % 8] += x[i / 8][i % 8] / 8;
      }
      for (int i = 0; i < 8; i++) {
        double away = 0;
        for (int c = 0; c < 8; c++) {
          away += fabs(x[i][c] - mean[c]) / 2;
        }
        most = fmax(most, away);
      }
      sums[t] += most;
      int i = (int)lac_random_below(&stream, 8);
      memcpy(sent[i], x[i], sizeof sent[i]);
      for (int c = 0; c < 8; c++) {
        x[i][c] = (x[i][c] + sent[(i + 1) % 8][c] + sent[(i + 7) % 8][c]) / 3;
      }
    }
  }
  int t = 0;
  while (sums[t] / PATHS > 0.25) {
    t++;
  }
  simulate(&j);
  within(observed[0].updates, t, 0.2);
  assert_true(observed[0].rounds > 1.2 * predicted(&j).rounds);
}

static void a_call_sends_what_the_header_says(void **state) {
  (void)state;
  job j = {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE, 100, 4, 1, 1, .advances = 2};
  simulate(&j);
  int doublings = workers == 8 ? 3 : 4;
  assert_int_equal(control[0], workers * doublings + 4 * (workers - 1)); /* barrier, histories, agreement, broadcast */
  assert_true(kept >= workers * 100 && control[1] < kept * 32 + 2048 * workers);
  assert_false(isnan(observed[0].rounds));
}

/* Not random: the prediction itself, which is kept. */
static void rounds_of_all_are_computed_once(void **state) {
  (void)state;
  static const job jobs[] = {
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING, 2, 1, 2, 0.5, .advances = 2},
      {LAC_PROTOCOL_ALLREDUCE, LAC_TOPOLOGY_RING, 2, 1, 1, 1, .advances = 2},
  };
  for (size_t which = 0; which < sizeof jobs / sizeof *jobs; which++) {
    simulate(&jobs[which]);
    lac_mixing_time wanted = predicted(&jobs[which]);
    assert_int_equal(observed[0].kind, LAC_MIXING_EXACT);
    assert_true(observed[0].rounds == wanted.rounds && observed[0].updates == wanted.updates);
    assert_int_equal(control[0], 0); /* of the second call */
  }
  int all = workers;
  workers = 1;
  simulate(&jobs[0]);
  workers = all;
  assert_true(observed[0].rounds == 0 && control[0] == 0);
}

static void a_short_record_says_so(void **state) {
  (void)state;
  job j = {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING, 6, 4, 1, 1};
  for (j.steps = 0; j.steps <= 4; j.steps += 4) {
    simulate(&j);
    assert_true(isnan(observed[0].rounds) && isnan(observed[0].updates) && isnan(observed[0].standard_error));
    assert_int_equal(observed[0].samples, 0);
    assert_non_null(strstr(observed[0].reason, "too short"));
  }
}

/* Real threads and clocks: whatever they do, there is an answer, and it is the same for all. */
static void threads_are_observed_too(void **state) {
  (void)state;
  static const int protocols[] = {LAC_PROTOCOL_ADPSGD, LAC_PROTOCOL_ASYNC_RING, LAC_PROTOCOL_ASYNC_SERVER};
  for (int p = 0; p < 3; p++) {
    job j = {protocols[p], LAC_TOPOLOGY_COMPLETE, 300, 4, 1, 1, .advances = 3};
    run((lac_world_options){.backend = "local", .workers = 4, .timeout_ms = 60000}, body, &j, LAC_OK, NULL);
    for (int i = 0; i < 4; i++) {
      assert_memory_equal(&observed[i], &observed[0], sizeof observed[0]);
    }
    assert_true(observed[0].rounds > 0 || observed[0].reason[0] != 0);
  }
}

/* ---- records made by hand ---- */

enum { MOST_EVENTS = 512 };

typedef struct record {
  int64_t start[4], count[3];
  bool whole[3];
  lac_replica_event part[3][MOST_EVENTS]; /* of each worker */
  lac_replica_event event[3 * MOST_EVENTS];
} record;

static record made;

static void note(int worker, int with, int64_t version, int64_t update, double seconds) {
  made.part[worker][made.count[worker]++] =
      (lac_replica_event){.with = with, .version = version, .update = update, .seconds = seconds};
}

/* Without the first `lost` of worker 1. */
static lac_mixing_time replay(const job *j, int64_t n, int64_t lost) {
  lac_context *context;
  lac_mixing_time time;
  for (int64_t i = 0; i < n; i++) {
    int64_t from = i == 1 ? lost : 0;
    memcpy(made.event + made.start[i], made.part[i] + from, (size_t)(made.count[i] - from) * sizeof *made.event);
    made.start[i + 1] = made.start[i] + made.count[i] - from;
    made.whole[i] = from == 0;
  }
  lac_record whole = {.workers = n, .start = made.start, .whole = made.whole, .event = made.event};
  assert_int_equal(lac_context_create(&context), LAC_OK);
  lac_process *process = process_of(context, j, (int)n);
  assert_ok(context, lac_replay(context, process, &whole, &time));
  lac_process_destroy(&process);
  lac_context_destroy(&context);
  memset(&made, 0, sizeof made);
  return time;
}

static void equals(lac_mixing_time found, double updates, double n) {
  if (found.updates != updates) {
    fail_msg("found %g updates, expected %g: %s", found.updates, updates, found.reason);
  }
  assert_true(found.rounds == updates / n && found.standard_error == 0 && found.samples >= LAC_WINDOWS_LEAST);
}

/* Two workers: one mean and both have the same. Worker 0 makes two updates from mean to mean, the other one. */
static void updates_between_means_count(void **state) {
  (void)state;
  job j = {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE, 0, 0, 1, 1};
  for (int64_t lost = 0; lost <= 37; lost += 37) {
    for (int64_t k = 1; k <= 100; k++) {
      note(0, 1, k, 2 * k, (double)k);
      note(1, 0, k, k, (double)k + 0.25);
    }
    equals(replay(&j, 2, lost), 3, 2);
  }
}

/* A mean of two, then of two: after (0 1) (1 2) rows (1/2 1/2 0), (1/4 1/4 1/2) twice, so that row 0 is
 * (1/6 + 1/6 + 1/3) / 2 = 1/3 from their mean; after (0 1) again they are (3/8 3/8 1/4) twice and (1/4 1/4 1/2), 1/6.
 * The clocks of the workers say the wrong order; what they have noted of each other says the right one. */
static void each_workers_own_order_is_kept(void **state) {
  (void)state;
  job j = {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE, 0, 0, 1, 1};
  int64_t updates[3] = {0};
  for (int64_t k = 1; k <= 240; k++) {
    bool left = k % 2 == 1; /* (0 1), else (1 2) */
    int asker = left ? 0 : 2;
    updates[asker]++;
    note(asker, 1, (k + 1) / 2, updates[asker], asker == 2 ? (double)k - 300 : (double)k);
    note(1, asker, (k + 1) / 2, 0, (double)k);
  }
  equals(replay(&j, 3, 0), 3, 3);
}

/* Two workers in turn with W = (3/4 1/4): 3/8, then with fresh copies 9/32 and 27/128, with old ones 1/4. */
static void copies_are_read_as_they_were_sent(void **state) {
  (void)state;
  job j = {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_COMPLETE, 0, 0, 1, 0.5};
  for (int64_t age = 0; age < 2; age++) {
    for (int64_t lost = 0; lost <= 41; lost += 41) { /* in the middle of a mixing */
      for (int64_t s = 0; s < 200; s++) {
        int i = (int)(s % 2);
        int64_t own = s / 2, others = own + i - age;
        note(i, 1 - i, others > 0 ? others : 0, own + 1, (double)s);
        note(i, i, own, own + 1, (double)s);
      }
      equals(replay(&j, 2, lost), age ? 2 : 3, 2);
    }
  }
}

/* The first worker to step leaves the others' rows where they are, 1 - 1/3 from the mean at most; then 2/3, 0. */
static void the_server_has_seen_all_when_all_have_stepped(void **state) {
  (void)state;
  job j = {LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING, 0, 0, 1, 1};
  for (int64_t period = 1; period <= 2; period++) {
    for (int64_t k = 1; k <= 100; k++) {
      for (int i = 0; i < 3; i++) {
        double seconds = (double)(3 * k + i);
        note(0, i, k, period * k, seconds);
        if (i > 0) {
          note(i, 0, k, period * k, seconds + 1);
        }
      }
    }
    j.period = period;
    equals(replay(&j, 3, period == 1 ? 0 : 13), 3 * (double)period, 3);
  }
}

/* ---- the log ---- */

static lac_status fill_log(lac_world *world, void *argument) {
  (void)argument;
  enum { EVENTS = 3 * LAC_LOG_LIMIT / 2 + 5 };
  lac_context *context = lac_world_context(world);
  lac_async_log log;
  LAC_TRY(lac_async_log_open(context, world, &log));
  for (int64_t k = 0; k < EVENTS; k++) {
    log.updates = 2 * k;
    LAC_TRY(lac_async_note_pair(context, &log, 0));
  }
  CHECK(context, log.count + log.dropped == EVENTS);
  CHECK(context, log.count >= LAC_LOG_LIMIT / 2 && log.count <= LAC_LOG_LIMIT);
  for (int64_t e = 0; e < log.count; e++) {
    CHECK(context, log.event[e].version == log.dropped + e + 1 && log.event[e].update == 2 * (log.dropped + e));
  }
  lac_async_log_close(&log);
  return LAC_OK;
}

static void the_newest_are_kept(void **state) {
  (void)state;
  run((lac_world_options){.backend = "sim", .workers = 1}, fill_log, NULL, LAC_OK, NULL);
}

int main(int argc, char **argv) {
  static const int counts[] = {8, 16};
  static const struct CMUnitTest by_hand[] = {
      cmocka_unit_test(updates_between_means_count),
      cmocka_unit_test(each_workers_own_order_is_kept),
      cmocka_unit_test(copies_are_read_as_they_were_sent),
      cmocka_unit_test(the_server_has_seen_all_when_all_have_stepped),
      cmocka_unit_test(the_newest_are_kept),
      cmocka_unit_test(threads_are_observed_too),
  };
  static const struct CMUnitTest of_jobs[] = {
      cmocka_unit_test(workers_that_wake_independently_mix_as_predicted),
      cmocka_unit_test(a_period_takes_longer),
      cmocka_unit_test(offers_are_read_a_mixing_late),
      cmocka_unit_test(a_call_sends_what_the_header_says),
      cmocka_unit_test(rounds_of_all_are_computed_once),
      cmocka_unit_test(a_short_record_says_so),
  };
  int failed = cmocka_run_group_tests(by_hand, NULL, NULL);
  run_on_threads("sim", argc, argv, of_jobs, counts, failed);
  return failed;
}
