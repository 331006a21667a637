/* The contract of the exchange protocols, the same for each of them on every back end: impulses spread as the process's
 * matrices say (for protocols without rounds as the recorded order of their mixings says), the mean is kept where it
 * must be, all agree in the end, what travels is what was predicted, and a slow worker stops only those who wait for
 * rounds. */
#include <math.h>

#include "base/memory.h"
#include "comm/workers.h"
#include "laconic/replica.h"

enum { MOST_WORKERS = 16, MOST_STEPS = 60, MOST_EVENTS = 3 * MOST_STEPS * MOST_WORKERS };

/* A protocol as it is tested. */
typedef struct exchange {
  int protocol, topology;
  int64_t period;
  double slack;
} exchange;

static const exchange exchanges[] = {
    {LAC_PROTOCOL_ALLREDUCE, LAC_TOPOLOGY_RING, 1, 0.25},    {LAC_PROTOCOL_PERIODIC, LAC_TOPOLOGY_RING, 3, 1},
    {LAC_PROTOCOL_SERVER, LAC_TOPOLOGY_RING, 1, 1},          {LAC_PROTOCOL_SERVER, LAC_TOPOLOGY_RING, 2, 0.5},
    {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING, 1, 1},           {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_STAR, 2, 0.5},
    {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_EXPONENTIAL, 1, 0.75}, {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_ONE_PEER, 1, 1},
    {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_COMPLETE, 1, 1},       {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING, 1, 1},
    {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_STAR, 2, 0.5},    {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING, 1, 1},
    {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE, 2, 0.5},    {LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING, 1, 1},
    {LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING, 3, 1},
};
enum { EXCHANGES = sizeof exchanges / sizeof *exchanges };

typedef struct job {
  exchange exchange;
  int method, steps, slices;
  int advances;                  /* besides, of 0, 1 and 2 steps in turn */
  bool late;                     /* worker 1 begins when the others have made some steps, and serves them before */
  int64_t from;                  /* step at which it is taken up */
  double learning_rate, seconds; /* of a gradient, on the clock of a simulation */
  bool pulled;                   /* the gradient is x - the worker's number, not 0 */
  bool pushed;                   /* the gradient is -1 in the worker's own parameter */
} job;

/* What all workers know at the end. */
typedef struct outcome {
  float x[MOST_WORKERS][MOST_WORKERS];
  int64_t messages, bytes;
  int64_t averaged, refused;                           /* of all histories together */
  lac_replica_event events[MOST_WORKERS][MOST_EVENTS]; /* (workers, counts) */
  int64_t counts[MOST_WORKERS];
  double last[MOST_WORKERS]; /* when each computed its last gradient */
  double spread;
  double lost;                      /* the most of any worker */
  int64_t stale[LAC_STALE_BUCKETS]; /* of all histories together */
} outcome;

static outcome found, again;

typedef struct task {
  const job *job;
  lac_world *world;
  lac_replica *replica;
  double last;
} task;

static bool asynchronous(int protocol) {
  return protocol == LAC_PROTOCOL_ADPSGD || protocol == LAC_PROTOCOL_ASYNC_RING ||
         protocol == LAC_PROTOCOL_ASYNC_SERVER;
}

static lac_status gradient(void *user, lac_context *context, int64_t step, const float *x, float *out,
                           lac_batch_result *result) {
  (void)step;
  task *t = user;
  int rank = lac_world_rank(t->world);
  for (int s = 0; s < t->job->slices; s++) {
    double seconds = t->job->seconds / t->job->slices;
    lac_world_spend(t->world, seconds);
    if (asynchronous(t->job->exchange.protocol) && strcmp(lac_world_backend(t->world), "sim") != 0) {
      struct timespec pause = {.tv_nsec = (long)(1e9 * seconds)}; /* or one would be done before the next begins */
      nanosleep(&pause, NULL);
    }
    LAC_TRY(lac_replica_serve(context, t->replica));
  }
  for (int i = 0; i < workers; i++) {
    out[i] = t->job->pulled ? x[i] - (float)(rank + i) : 0;
  }
  out[rank] -= t->job->pushed;
  t->last = lac_world_now(t->world);
  *result = (lac_batch_result){.loss = 1, .points = 1};
  return LAC_OK;
}

static lac_replica_options settings(const job *j) {
  return (lac_replica_options){.method = j->method,
                               .epochs = 1000,
                               .inner_steps = 2,
                               .average = 0.5,
                               .gamma = 100,
                               .rho = 1,
                               .scoping = 1,
                               .optimizer = {.kind = LAC_OPTIMIZER_SGD},
                               .learning_rate = j->learning_rate,
                               .seed = 7,
                               .exchange = {.protocol = j->exchange.protocol,
                                            .topology = {.kind = j->exchange.topology, .degree = 4},
                                            .period = j->exchange.period,
                                            .slack = j->exchange.slack}};
}

/* Worker i begins with a one in its own parameter, i. */
static lac_status begin_at_impulse(lac_context *context, int rank, int64_t step, lac_replica *replica) {
  lac_replica_state state;
  LAC_TRY(lac_replica_state_of(context, replica, &state));
  memset(state.vectors[0], 0, (size_t)workers * sizeof(float));
  state.vectors[0][rank] = 1;
  state.step = step;
  lac_replica_restore(replica, &state);
  return LAC_OK;
}

static lac_status share(lac_world *world, const task *t) {
  static const size_t row = MOST_EVENTS * sizeof(lac_replica_event);
  lac_context *context = lac_world_context(world);
  lac_replica_history history = lac_replica_history_of(t->replica);
  lac_counts counts = lac_world_counts(world);
  int64_t sums[4] = {counts.messages[LAC_TRAFFIC_MODEL], counts.bytes[LAC_TRAFFIC_MODEL], history.count,
                     history.refused};
  float padded[MOST_WORKERS] = {0}, gathered[MOST_WORKERS][MOST_WORKERS];
  CHECK(context, history.count <= MOST_EVENTS);
  lac_replica_event *mine = calloc(1, row), *all = calloc((size_t)workers, row);
  CHECK(context, mine && all);
  if (history.count > 0) {
    memcpy(mine, history.event, (size_t)history.count * sizeof *mine);
  }
  memcpy(padded, lac_replica_own(t->replica), (size_t)workers * sizeof *padded);
  double last[MOST_WORKERS];
  int64_t lengths[MOST_WORKERS];
  double lost = lac_replica_progress_of(t->replica).lost;
  LAC_TRY(lac_world_max_f64(world, &lost, 1));
  LAC_TRY(lac_world_sum_i64(world, sums, 4));
  LAC_TRY(lac_world_sum_i64(world, history.stale, LAC_STALE_BUCKETS));
  LAC_TRY(lac_world_gather(world, mine, row, all));
  LAC_TRY(lac_world_gather(world, &history.count, sizeof history.count, lengths));
  LAC_TRY(lac_world_gather(world, padded, sizeof padded, gathered));
  LAC_TRY(lac_world_gather(world, &t->last, sizeof t->last, last));
  if (lac_world_rank(world) == 0 || strcmp(lac_world_backend(world), "mpi") == 0) {
    memset(&found, 0, sizeof found);
    memcpy(found.x, gathered, sizeof gathered[0] * (size_t)workers);
    memcpy(found.events, all, row * (size_t)workers);
    memcpy(found.counts, lengths, sizeof *lengths * (size_t)workers);
    memcpy(found.last, last, sizeof *last * (size_t)workers);
    found.messages = sums[0];
    found.bytes = sums[1];
    found.averaged = sums[2];
    found.refused = sums[3];
    found.lost = lost;
    memcpy(found.stale, history.stale, sizeof found.stale);
  }
  free(mine);
  free(all);
  return LAC_OK;
}

static lac_status body(lac_world *world, void *argument) {
  static const float start[MOST_WORKERS] = {0};
  lac_context *context = lac_world_context(world);
  task t = {.job = argument, .world = world};
  lac_replica_options options = settings(t.job);
  lac_objective objective = {.parameters = workers, .batches_per_pass = 10, .gradient = gradient, .user = &t};
  float mean[MOST_WORKERS];
  double spread = 0;
  LAC_TRY(lac_replica_create(context, world, &objective, &options, start, &t.replica));
  lac_status status = begin_at_impulse(context, lac_world_rank(world), t.job->from, t.replica);
  if (!status && t.job->late && lac_world_rank(world) == 1) {
    lac_world_spend(world, 10 * t.job->seconds);
    status = lac_replica_serve(context, t.replica);
  }
  for (int part = 0; !status && part < 2; part++) { /* in two advances: the second begins where all have settled */
    status = lac_replica_advance(context, t.replica, part == 0 ? t.job->steps / 3 : t.job->steps - t.job->steps / 3);
  }
  for (int part = 0; !status && part < t.job->advances; part++) {
    status = lac_replica_advance(context, t.replica, part % 3);
  }
  if (!status) {
    status = share(world, &t);
  }
  if (!status) {
    status = lac_replica_answer(context, t.replica, mean);
  }
  if (!status) {
    status = lac_replica_spread(context, t.replica, mean, &spread);
  }
  if (lac_world_rank(world) == 0 || strcmp(lac_world_backend(world), "mpi") == 0) {
    found.spread = spread;
  }
  lac_replica_destroy(&t.replica);
  return status;
}

/* One worker mixes with nobody, and the ring is the least topology. */
static job work(int which, int steps) {
  return (job){.exchange = exchanges[which], .steps = steps, .slices = 1, .seconds = 1e-3};
}

static lac_topology *topology_of(const exchange *e) {
  lac_context *context;
  lac_topology_options options = {.kind = e->topology, .degree = 4};
  lac_topology *topology;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_ok(context, lac_topology_create(context, &options, workers, 7, &topology));
  lac_context_destroy(&context);
  return topology;
}

static double entry(const lac_topology *topology, int phase, int i, int j) {
  const lac_weights *weights = lac_topology_weights(topology, phase);
  for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
    if (weights->column[e] == j) {
      return weights->weight[e];
    }
  }
  return 0;
}

typedef double rows[MOST_WORKERS][MOST_WORKERS];

static void set_identity(rows x) {
  memset(x, 0, sizeof(rows));
  for (int i = 0; i < MOST_WORKERS; i++) {
    x[i][i] = 1;
  }
}

/* W_T … W_1 by plain loops. */
static void multiply_rounds(const job *j, rows x) {
  lac_topology *topology = topology_of(&j->exchange);
  bool means = j->exchange.protocol != LAC_PROTOCOL_DPSGD;
  set_identity(x);
  for (int64_t t = 0, mixings = 0; t < j->steps; t++) {
    if ((t + 1) % j->exchange.period != 0) {
      continue;
    }
    rows next = {{0}};
    int phase = (int)(mixings++ % lac_topology_phases(topology));
    for (int i = 0; i < workers; i++) {
      for (int k = 0; k < workers; k++) {
        double w = j->exchange.slack * (means ? 1.0 / workers : entry(topology, phase, i, k)) +
                   (i == k ? 1 - j->exchange.slack : 0);
        for (int c = 0; c < workers; c++) {
          next[i][c] += w * x[k][c];
        }
      }
    }
    memcpy(x, next, sizeof next);
  }
  lac_topology_destroy(&topology);
}

/* Pairs in an order in which each worker's own is kept. */
static void replay_pairs(const job *j, rows x) {
  int64_t at[MOST_WORKERS] = {0};
  double half = j->exchange.slack / 2;
  set_identity(x);
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < workers; i++) {
      int k = at[i] < found.counts[i] ? found.events[i][at[i]].with : i;
      if (k == i || at[k] >= found.counts[k] || found.events[k][at[k]].with != i) {
        continue;
      }
      for (int c = 0; c < workers; c++) {
        double a = x[i][c], b = x[k][c];
        x[i][c] = (1 - half) * a + half * b;
        x[k][c] = (1 - half) * b + half * a;
      }
      at[i]++;
      at[k]++;
      moved = true;
    }
  }
  for (int i = 0; i < workers; i++) {
    assert_int_equal(at[i], found.counts[i]); /* every mean has two sides */
  }
}

/* Mixings of copies, each as soon as the copies that it took had been sent. */
static void replay_copies(const job *j, rows x) {
  static double sent[MOST_STEPS + 1][MOST_WORKERS][MOST_WORKERS];
  int64_t at[MOST_WORKERS] = {0}, versions[MOST_WORKERS] = {0};
  lac_topology *topology = topology_of(&j->exchange);
  set_identity(x);
  memcpy(sent[0], x, sizeof(rows));
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < workers; i++) {
      int64_t end = at[i];
      bool ready = end < found.counts[i];
      for (; ready && found.events[i][end].with != i; end++) {
        ready = found.events[i][end].version <= versions[found.events[i][end].with];
      }
      if (!ready) {
        continue;
      }
      assert_int_equal(found.events[i][end].version, versions[i]);
      double row[MOST_WORKERS];
      double keep = j->exchange.slack * entry(topology, 0, i, i) + 1 - j->exchange.slack;
      for (int c = 0; c < workers; c++) {
        row[c] = keep * x[i][c];
        for (int64_t e = at[i]; e < end; e++) {
          int k = found.events[i][e].with;
          row[c] += j->exchange.slack * entry(topology, 0, i, k) * sent[found.events[i][e].version][k][c];
        }
      }
      memcpy(x[i], row, sizeof row);
      memcpy(sent[++versions[i]][i], row, sizeof row);
      at[i] = end + 1;
      moved = true;
    }
  }
  for (int i = 0; i < workers; i++) {
    assert_int_equal(at[i], found.counts[i]);
    assert_int_equal(versions[i], j->steps / j->exchange.period);
  }
  lac_topology_destroy(&topology);
}

static lac_world_options simulated(const lac_cluster *cluster) {
  return (lac_world_options){.backend = "sim", .workers = workers, .timeout_ms = 60000, .cluster = cluster};
}

static void impulses_spread_as_the_matrices_say(void **state) {
  (void)state;
  for (int which = 0; which < EXCHANGES; which++) {
    job j = work(which, 12);
    rows x;
    run(plain(), body, &j, LAC_OK, NULL);
    switch (j.exchange.protocol) {
      case LAC_PROTOCOL_ADPSGD:
        replay_pairs(&j, x);
        break;
      case LAC_PROTOCOL_ASYNC_RING:
        replay_copies(&j, x);
        break;
      case LAC_PROTOCOL_ASYNC_SERVER: /* with nothing to add to it the server stays worker 0's first model */
        memset(x, 0, sizeof x);
        for (int i = 0; i < workers; i++) {
          x[i][0] = 1;
        }
        break;
      default:
        multiply_rounds(&j, x);
    }
    for (int i = 0; i < workers; i++) {
      for (int c = 0; c < workers; c++) {
        assert_true(fabs((double)found.x[i][c] - x[i][c]) <= 2e-6);
      }
    }
  }
}

static void copies_that_come_before_the_first_advance_count(void **state) {
  (void)state;
  job j = work(0, 12);
  rows x;
  j.exchange = (exchange){LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_EXPONENTIAL, 1, 1};
  j.late = true;
  run(simulated(NULL), body, &j, LAC_OK, NULL);
  replay_copies(&j, x);
  for (int i = 0; i < workers; i++) {
    for (int c = 0; c < workers; c++) {
      assert_true(fabs((double)found.x[i][c] - x[i][c]) <= 2e-6);
    }
  }
}

static void the_mean_is_kept(void **state) {
  (void)state;
  for (int which = 0; which < EXCHANGES; which++) {
    job j = work(which, 30);
    /* A model that is replaced by a mean of copies, or by the server's, takes its part of the mean with it. */
    bool kept = j.exchange.protocol != LAC_PROTOCOL_ASYNC_RING && j.exchange.protocol != LAC_PROTOCOL_ASYNC_SERVER;
    run(plain(), body, &j, LAC_OK, NULL);
    for (int c = 0; kept && c < workers; c++) {
      double sum = 0;
      for (int i = 0; i < workers; i++) {
        sum += (double)found.x[i][c];
      }
      assert_true(fabs(sum - 1) <= 1e-5);
    }
    for (int i = 0; i < workers; i++) { /* row-stochastic in any case */
      double sum = 0;
      for (int c = 0; c < workers; c++) {
        assert_true((double)found.x[i][c] >= 0);
        sum += (double)found.x[i][c];
      }
      assert_true(fabs(sum - 1) <= 1e-5);
    }
  }
}

static void all_agree_in_the_end(void **state) {
  (void)state;
  for (int which = 0; which < EXCHANGES; which++) {
    job short_run = work(which, 3), long_run = work(which, MOST_STEPS);
    run(plain(), body, &short_run, LAC_OK, NULL);
    double before = found.spread;
    run(plain(), body, &long_run, LAC_OK, NULL);
    assert_true(found.spread <= 0.5 * before + 1e-5);
    assert_true(workers > 3 || found.spread < 0.05);
  }
}

/* Updates that only add up: none is lost, none counts twice. */
static void the_server_loses_no_update(void **state) {
  (void)state;
  for (int64_t period = 1; period <= 4; period++) {
    job j = work(EXCHANGES - 1, 10);
    j.exchange.period = period;
    j.pushed = true;
    j.learning_rate = 1;
    run(plain(), body, &j, LAC_OK, NULL);
    for (int i = 0; i < workers; i++) {
      for (int c = 0; c < workers; c++) { /* the server begins as worker 0's impulse */
        assert_true(found.x[i][c] == (float)(10 + (c == 0)));
      }
    }
  }
}

static void what_travels_is_what_was_predicted(void **state) {
  (void)state;
  for (int which = 0; which < EXCHANGES; which++) {
    job j = work(which, 12);
    lac_context *context;
    lac_process *process;
    lac_replica_options options = settings(&j);
    assert_int_equal(lac_context_create(&context), LAC_OK);
    run(plain(), body, &j, LAC_OK, NULL);
    assert_ok(context, lac_replica_process(context, &options, workers, &process));
    lac_process_cost cost = lac_process_cost_of(process);
    double messages = cost.messages * j.steps, bytes = cost.vectors * j.steps * 4 * workers;
    if (j.exchange.protocol == LAC_PROTOCOL_ADPSGD) { /* two that ask each other need no answers */
      messages = (double)(found.averaged + found.refused);
      bytes = messages * 4 * workers;
      assert_true(messages > 0 && found.averaged <= cost.messages * j.steps + 0.5);
    } else if (j.exchange.protocol == LAC_PROTOCOL_ASYNC_SERVER && j.steps % j.exchange.period != 0) {
      continue; /* what the period keeps back is sent at the end of an advance */
    }
    assert_true(fabs((double)found.messages - messages) < 1e-6 * (1 + messages));
    assert_true(fabs((double)found.bytes - bytes) < 1e-6 * (1 + bytes));
    lac_process_destroy(&process);
    lac_context_destroy(&context);
  }
}

/* With a slack of 1e-8 an impulse of 1 stays, while zeros move: that is half of the moves. */
static void what_float32_loses_is_said(void **state) {
  (void)state;
  for (int which = 0; which < EXCHANGES && workers > 1; which++) {
    job j = work(which, 3);
    j.exchange.period = 1;
    j.exchange.slack = 1e-8;
    if (j.exchange.protocol != LAC_PROTOCOL_PERIODIC) { /* whose period is never 1 */
      run(plain(), body, &j, LAC_OK, NULL);
      assert_true(found.lost > 0.1 && found.lost < 0.9);
    }
    j.exchange.slack = 0.25;
    run(plain(), body, &j, LAC_OK, NULL);
    assert_true(found.lost < 0.01);
  }
}

/* X <- W X + U with U from X as it was, in double. */
static void models_move_along_their_own_gradients(void **state) {
  (void)state;
  for (int which = 0; which < EXCHANGES; which++) {
    job j = work(which, 9);
    if (asynchronous(j.exchange.protocol) || workers == 1) {
      continue;
    }
    j.pulled = true;
    j.learning_rate = 0.1;
    rows x, next;
    set_identity(x);
    run(plain(), body, &j, LAC_OK, NULL);
    for (int t = 0; t < j.steps; t++) {
      lac_topology *topology = topology_of(&j.exchange);
      bool mixing = (t + 1) % j.exchange.period == 0;
      int phase = (int)((((t + 1) / j.exchange.period) - 1) % lac_topology_phases(topology));
      for (int i = 0; i < workers; i++) {
        for (int c = 0; c < workers; c++) {
          double sum = 0;
          for (int k = 0; k < workers; k++) {
            double w =
                j.exchange.protocol == LAC_PROTOCOL_DPSGD && mixing ? entry(topology, phase, i, k) : 1.0 / workers;
            w = mixing ? j.exchange.slack * w + (i == k ? 1 - j.exchange.slack : 0) : i == k;
            sum += w * x[k][c];
          }
          next[i][c] = sum - 0.1 * (x[i][c] - (i + c));
        }
      }
      lac_topology_destroy(&topology);
      memcpy(x, next, sizeof x);
    }
    for (int i = 0; i < workers; i++) {
      for (int c = 0; c < workers; c++) {
        assert_true(fabs((double)found.x[i][c] - x[i][c]) <= 1e-5 * (1 + fabs(x[i][c])));
      }
    }
  }
}

/* Parle and elastic: where everyone's row is the mean, any protocol gives what all-reduce gives; elsewhere they still
 * arrive at the mean of the workers' optima. */
static void offers_mix_too(void **state) {
  (void)state;
  static const int methods[] = {LAC_METHOD_ELASTIC, LAC_METHOD_PARLE};
  for (int m = 0; m < 2 && workers > 1; m++) {
    job j = work(0, 40);
    j.method = methods[m];
    j.pulled = true;
    j.learning_rate = 0.1;
    j.exchange = (exchange){LAC_PROTOCOL_ALLREDUCE, LAC_TOPOLOGY_COMPLETE, 1, 1};
    run(plain(), body, &j, LAC_OK, NULL);
    again = found;
    static const int same[] = {LAC_PROTOCOL_SERVER, LAC_PROTOCOL_DPSGD};
    for (int s = 0; s < 2; s++) {
      j.exchange.protocol = same[s];
      run(plain(), body, &j, LAC_OK, NULL);
      for (int i = 0; i < workers; i++) {
        for (int c = 0; c < workers; c++) {
          assert_true(fabsf(found.x[i][c] - again.x[i][c]) <= 1e-4F);
        }
      }
    }
    static const int others[] = {LAC_PROTOCOL_DPSGD, LAC_PROTOCOL_ASYNC_RING, LAC_PROTOCOL_ADPSGD,
                                 LAC_PROTOCOL_ASYNC_SERVER};
    for (int s = 0; s < 4; s++) {
      j.exchange = (exchange){others[s], LAC_TOPOLOGY_RING, 1, 1};
      run(plain(), body, &j, LAC_OK, NULL);
      int64_t links = workers == 2 ? 2 : 2 * workers; /* of pairs only answers carry an offer */
      int64_t each[] = {links, links, workers, 2 * (workers - 1)};
      assert_int_equal(found.messages, j.steps * each[s]);
      assert_int_equal(found.bytes, found.messages * 4 * workers);
      for (int c = 0; c < workers; c++) {
        double mean = 0, wanted = 0;
        for (int i = 0; i < workers; i++) {
          mean += (double)found.x[i][c] / workers;
          wanted += (double)(i + c) / workers;
        }
        assert_true(fabs(mean - wanted) <= 0.35 * (1 + fabs(wanted)));
      }
    }
  }
}

static void rounds_give_the_same_bits_everywhere(void **state) {
  (void)state;
  for (int which = 0; which < EXCHANGES; which++) {
    job j = work(which, 10);
    if (asynchronous(j.exchange.protocol)) {
      continue;
    }
    j.pulled = true;
    j.learning_rate = 0.1;
    run(plain(), body, &j, LAC_OK, NULL);
    again = found;
    lac_world_options options = {
        .backend = "local", .workers = workers, .timeout_ms = 60000, .delay_seed = 3, .delay_limit_us = 200};
    run(options, body, &j, LAC_OK, NULL);
    assert_memory_equal(found.x, again.x, sizeof found.x);
    options = (lac_world_options){.backend = "sim", .workers = workers, .timeout_ms = 60000};
    run(options, body, &j, LAC_OK, NULL);
    assert_memory_equal(found.x, again.x, sizeof found.x);
  }
}

/* ---- on a simulated cluster, whatever the back end under test ---- */

static void a_simulation_repeats_itself(void **state) {
  (void)state;
  lac_cluster cluster = {.seed = 1, .latency = 2e-4, .bandwidth = 1e6, .jitter = 0.3};
  for (int which = 0; which < EXCHANGES; which++) {
    job j = work(which, 20);
    j.pulled = true;
    j.learning_rate = 0.1;
    run(simulated(&cluster), body, &j, LAC_OK, NULL);
    again = found;
    run(simulated(&cluster), body, &j, LAC_OK, NULL);
    assert_memory_equal(&found, &again, sizeof found);
    if (asynchronous(j.exchange.protocol) && workers > 2) { /* other timing, other mixing */
      lac_cluster other = cluster;
      other.seed = 2;
      run(simulated(&other), body, &j, LAC_OK, NULL);
      assert_memory_not_equal(found.last, again.last, sizeof found.last);
    }
  }
}

/* The last worker takes ten times as long. */
static void a_slow_worker_stops_only_rounds(void **state) {
  (void)state;
  double speeds[MOST_WORKERS];
  lac_cluster cluster = {.latency = 1e-6, .speeds = speeds};
  for (int which = 0; which < EXCHANGES && workers > 2; which++) {
    job j = work(which, 30);
    j.slices = 20;
    for (int i = 0; i < MOST_WORKERS; i++) {
      speeds[i] = i == workers - 1 ? 0.1 : 1;
    }
    lac_world_options options = simulated(&cluster);
    job whole = j;
    run(options, body, &whole, LAC_OK, NULL);
    double alone = (j.steps - j.steps / 3) * j.seconds; /* of the second advance, for which all begin together */
    double begun = 10 * (j.steps / 3) * j.seconds;      /* when the slow one has ended the first */
    for (int i = 0; i < workers - 1; i++) {
      if (asynchronous(j.exchange.protocol)) {
        assert_true(found.last[i] - begun < 3 * alone);
      } else if (j.exchange.protocol != LAC_PROTOCOL_DPSGD) {
        assert_true(found.last[i] - begun > 7 * alone);
      }
    }
  }
}

/* Where links are one-way a worker may be several advances ahead of one whose model it reads: only its readers hold it
 * up. Nothing of what they say of the ends of advances may be lost. */
static void advances_follow_each_other_on_one_way_links(void **state) {
  (void)state;
  static const int kinds[] = {LAC_TOPOLOGY_EXPONENTIAL, LAC_TOPOLOGY_ONE_PEER, LAC_TOPOLOGY_STAR};
  static const int protocols[] = {LAC_PROTOCOL_ADPSGD, LAC_PROTOCOL_ASYNC_RING};
  for (int k = 0; k < 6; k++) {
    for (int seed = 1; seed <= 8; seed++) {
      lac_cluster cluster = {.seed = seed, .latency = 1e-5, .jitter = 5};
      job j = work(0, 0);
      j.exchange = (exchange){protocols[k % 2], kinds[k / 2], 1, 1};
      j.advances = 18;
      run(simulated(&cluster), body, &j, LAC_OK, NULL);
      for (int i = 0; i < workers; i++) {
        double sum = 0;
        for (int c = 0; c < workers; c++) {
          sum += (double)found.x[i][c];
        }
        assert_true(fabs(sum - 1) <= 1e-5);
      }
    }
  }
}

/* One of the two sides of each mean asked for it, and asked whom the process of one-peer has in its row at that update.
 */
static void pairs_are_of_the_phase(void **state) {
  (void)state;
  for (int64_t period = 1; period <= 2; period++) {
    job j = work(0, 24);
    j.exchange = (exchange){LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_ONE_PEER, period, 1};
    lac_topology *topology = topology_of(&j.exchange);
    lac_cluster cluster = {.seed = 3, .latency = 1e-6, .jitter = 0.5};
    j.slices = 10;
    run(simulated(&cluster), body, &j, LAC_OK, NULL);
    assert_true(found.averaged > 0);
    for (int i = 0; i < workers; i++) {
      for (int64_t e = 0; e < found.counts[i]; e++) {
        const lac_replica_event *mine = &found.events[i][e], *other = found.events[mine->with];
        while (other->with != i || other->version != mine->version) {
          other++;
        }
        int my_phase = (int)((mine->update / period - 1) % lac_topology_phases(topology));
        int its_phase = (int)((other->update / period - 1) % lac_topology_phases(topology));
        bool asked = mine->update >= period && entry(topology, my_phase, i, mine->with) > 0;
        bool was_asked = other->update >= period && entry(topology, its_phase, mine->with, i) > 0;
        assert_true(asked || was_asked);
      }
    }
    lac_topology_destroy(&topology);
  }
}

/* Workers of one pace read what their neighbours sent an update ago at most, also in a run that is taken up again. */
static void ages_do_not_count_what_was_before_the_run(void **state) {
  (void)state;
  for (int64_t period = 1; period <= 3; period++) {
    job j = work(0, 30);
    j.exchange = (exchange){LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING, period, 1};
    j.from = 3000;
    run(simulated(NULL), body, &j, LAC_OK, NULL);
    int64_t read = found.stale[0] + found.stale[1] + found.stale[2];
    assert_int_equal(read, 30 / period * workers * (workers > 2 ? 2 : 1));
    for (int b = 3; b < LAC_STALE_BUCKETS; b++) {
      assert_int_equal(found.stale[b], 0);
    }
  }
}

/* Worker 1 is asked every three milliseconds, and needs ten for a gradient: three or four means fall into that. Those
 * of the gradients that are not followed by a mixing, and those after the end of an advance, do not count. */
static void means_count_while_a_gradient_is_computed(void **state) {
  (void)state;
  double speeds[MOST_WORKERS];
  lac_cluster cluster = {.latency = 1e-6, .speeds = speeds};
  for (int i = 0; i < MOST_WORKERS; i++) {
    speeds[i] = i == 1 ? 0.1 : 1;
  }
  job j = work(0, MOST_STEPS);
  j.slices = 40;
  j.exchange = (exchange){LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING, 3, 1};
  if (workers == 2) {
    run(simulated(&cluster), body, &j, LAC_OK, NULL);
    for (int b = 4; b < LAC_STALE_BUCKETS; b++) { /* 8 and more */
      assert_int_equal(found.stale[b], 0);
    }
    assert_true(found.stale[2] + found.stale[3] > 0);
  }
}

/* ---- ends that a worker asks for ---- */

typedef struct halting {
  task task;
  int rank, advance; /* of the worker and of the advance, from 0 */
} halting;

static bool asks(void *user) {
  const halting *h = user;
  return h->rank == 0 && h->advance == 1;
}

/* On a ring of eight worker 0 is in its second advance, and wants it to end, while worker 4, which computes a hundred
 * times as long, is in its first: worker 0 waits for its neighbours only. */
static lac_status halting_body(lac_world *world, void *argument) {
  static const float start[MOST_WORKERS] = {0};
  lac_context *context = lac_world_context(world);
  halting h = {.task = {.job = argument, .world = world}, .rank = lac_world_rank(world)};
  lac_replica_options options = settings(h.task.job);
  lac_objective objective = {.parameters = workers, .batches_per_pass = 10, .gradient = gradient, .user = &h.task};
  LAC_TRY(lac_replica_create(context, world, &objective, &options, start, &h.task.replica));
  lac_replica_ask(h.task.replica, asks, &h);
  lac_status status = LAC_OK;
  for (; !status && h.advance < 3; h.advance++) {
    int64_t before = lac_replica_progress_of(h.task.replica).step;
    status = lac_replica_advance(context, h.task.replica, h.advance == 1 ? 1000 : 2);
    int64_t made = lac_replica_progress_of(h.task.replica).step - before;
    if (!status && (h.advance == 1 ? made >= 1000 : made != 2)) {
      status = lac_fail(context, LAC_E_INTERNAL, "advance %d: worker %d made %d steps", h.advance, h.rank, (int)made);
    }
  }
  lac_replica_destroy(&h.task.replica);
  return status;
}

static void a_halt_reaches_those_who_are_behind(void **state) {
  (void)state;
  double speeds[MOST_WORKERS];
  lac_cluster cluster = {.latency = 1e-6, .speeds = speeds};
  for (int slow = 0; slow < workers; slow++) {
    for (int i = 0; i < MOST_WORKERS; i++) {
      speeds[i] = i == slow ? 0.01 : 1;
    }
    for (int protocol = LAC_PROTOCOL_ADPSGD; protocol <= LAC_PROTOCOL_ASYNC_RING; protocol++) {
      job j = work(0, 0);
      j.exchange = (exchange){protocol, LAC_TOPOLOGY_RING, 1, 1};
      run(simulated(&cluster), halting_body, &j, LAC_OK, NULL);
    }
  }
}

int main(int argc, char **argv) {
  static const int counts[] = {2, 3, 8};
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(impulses_spread_as_the_matrices_say),
      cmocka_unit_test(copies_that_come_before_the_first_advance_count),
      cmocka_unit_test(the_mean_is_kept),
      cmocka_unit_test(all_agree_in_the_end),
      cmocka_unit_test(the_server_loses_no_update),
      cmocka_unit_test(what_travels_is_what_was_predicted),
      cmocka_unit_test(what_float32_loses_is_said),
      cmocka_unit_test(models_move_along_their_own_gradients),
      cmocka_unit_test(offers_mix_too),
      cmocka_unit_test(rounds_give_the_same_bits_everywhere),
      cmocka_unit_test(a_simulation_repeats_itself),
      cmocka_unit_test(a_slow_worker_stops_only_rounds),
      cmocka_unit_test(advances_follow_each_other_on_one_way_links),
      cmocka_unit_test(pairs_are_of_the_phase),
      cmocka_unit_test(ages_do_not_count_what_was_before_the_run),
      cmocka_unit_test(means_count_while_a_gradient_is_computed),
      cmocka_unit_test(a_halt_reaches_those_who_are_behind),
  };
  int failed = 0;
  if (!lac_world_launched() && argc < 2) {
    run_on_threads("sim", argc, argv, tests, counts, failed);
  }
  run_on_workers(argc, argv, tests, counts, failed);
  return failed;
}
