/* The trainer on a world of workers: what travels, that all back ends give the same bits, that a run can be taken up
 * again anywhere, and what its answer is. The objective is a quadratic with batches that differ. */
#include <math.h>

#include "base/memory.h"
#include "comm/workers.h"
#include "laconic/replica.h"

enum { N = 1001, BATCHES = 6, LONG = 5, STEPS = 30 };

typedef struct quadratic {
  int worker;
  int64_t asked;    /* gradients */
  int64_t bad_from; /* batch from which on the loss is no number; 0: never */
} quadratic;

/* Curvature (i mod 5 + 1) / 4 around a point that differs by worker, number and batch. */
static lac_status slope(void *user, lac_context *context, int64_t step, const float *x, float *gradient,
                        lac_batch_result *result) {
  (void)context;
  quadratic *q = user;
  double loss = 0;
  q->asked++;
  for (int i = 0; i < N; i++) {
    float optimum = (float)(q->worker - 1 + i % 3) + 0.25F * (float)((step * 3 + i + q->worker) % 4);
    float curvature = (float)(i % 5 + 1) / 4, away = x[i] - optimum;
    gradient[i] = curvature * away;
    loss += 0.5 * (double)(curvature * away * away);
  }
  *result =
      (lac_batch_result){.loss = q->bad_from && step >= q->bad_from ? (double)NAN : loss, .errors = 1, .points = 4};
  return LAC_OK;
}

static lac_replica_options settings(int method) {
  static char drops[] = "3";
  return (lac_replica_options){.method = method,
                               .epochs = (double)STEPS / BATCHES,
                               .inner_steps = LONG,
                               .average = 0.25,
                               .gamma = 100,
                               .rho = 1,
                               .scoping = 1,
                               .optimizer = {.kind = LAC_OPTIMIZER_NESTEROV, .momentum = 0.9, .weight_decay = 1e-3},
                               .outer_momentum = 0.9,
                               .learning_rate = 0.05,
                               .drops = drops,
                               .drop_factor = 0.2};
}

/* What a worker ends with. */
typedef struct outcome {
  float own[N], answer[N];
  double spread;
  lac_counts counts; /* of the training alone */
  lac_replica_progress progress;
} outcome;

enum { MOST_WORKERS = 8 };

typedef struct job {
  lac_replica_options options;
  int64_t cut;      /* outer steps after which the replica is given up and taken up again; STEPS: never */
  int64_t bad_from; /* of worker bad_worker */
  int bad_worker;
  outcome *outcomes; /* (MOST_WORKERS) */
} job;

/* Carries the state over into a fresh replica by way of memory of its own. */
static lac_status take_up(lac_context *context, lac_world *world, const lac_objective *objective,
                          const lac_replica_options *options, const float *start, lac_replica **replica) {
  lac_replica_state state, fresh;
  LAC_TRY(lac_replica_state_of(context, *replica, &state));
  float *kept = calloc((size_t)state.count * N, sizeof *kept);
  CHECK(context, kept);
  for (int v = 0; v < state.count; v++) {
    memcpy(kept + (size_t)v * N, state.vectors[v], N * sizeof *kept);
  }
  lac_replica_destroy(replica);
  lac_status status = lac_replica_create(context, world, objective, options, start, replica);
  if (!status) {
    status = lac_replica_state_of(context, *replica, &fresh);
  }
  for (int v = 0; !status && v < fresh.count; v++) {
    status = strcmp(fresh.names[v], state.names[v]) == 0 ? LAC_OK : lac_fail(context, LAC_E_INTERNAL, "other names");
    memcpy(fresh.vectors[v], kept + (size_t)v * N, N * sizeof *kept);
  }
  if (!status) {
    lac_replica_restore(*replica, &state);
  }
  free(kept);
  return status;
}

static lac_status train_body(lac_world *world, void *argument) {
  static const float start[N] = {0};
  const job *j = argument;
  lac_context *context = lac_world_context(world);
  int rank = lac_world_rank(world);
  outcome *out = &j->outcomes[rank];
  quadratic q = {.worker = rank, .bad_from = rank == j->bad_worker ? j->bad_from : 0};
  lac_objective objective = {.parameters = N, .batches_per_pass = BATCHES, .gradient = slope, .user = &q};
  lac_replica *replica;
  lac_status status = lac_replica_create(context, world, &objective, &j->options, start, &replica);
  lac_counts before = lac_world_counts(world);
  if (!status) {
    status = lac_replica_advance(context, replica, j->cut);
  }
  if (!status && j->cut < STEPS) {
    status = take_up(context, world, &objective, &j->options, start, &replica);
  }
  if (!status) {
    status = lac_replica_advance(context, replica, STEPS - j->cut);
  }
  if (!status) {
    out->counts = lac_world_counts(world);
    for (int kind = 0; kind < LAC_TRAFFIC_KINDS; kind++) {
      out->counts.messages[kind] -= before.messages[kind];
      out->counts.bytes[kind] -= before.bytes[kind];
    }
    out->progress = lac_replica_progress_of(replica);
    memcpy(out->own, lac_replica_own(replica), sizeof out->own);
    status = lac_replica_answer(context, replica, out->answer);
  }
  if (!status) {
    status = lac_replica_spread(context, replica, out->answer, &out->spread);
  }
  lac_replica_destroy(&replica);
  return status;
}

/* The worker of this process whose outcome is looked at. */
static int here(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  return strcmp(backend, "mpi") == 0 && rank ? atoi(rank) : 0;
}

static outcome outcomes[MOST_WORKERS], others[MOST_WORKERS];

static job work(int method) {
  return (job){.options = settings(method), .cut = STEPS, .bad_worker = -1, .outcomes = outcomes};
}

static const int methods[] = {LAC_METHOD_SGD, LAC_METHOD_ELASTIC, LAC_METHOD_PARLE};
enum { METHODS = sizeof methods / sizeof *methods };

static void traffic_is_one_all_reduce_an_outer_step(void **state) {
  (void)state;
  for (int m = 0; m < METHODS; m++) {
    job j = work(methods[m]);
    run(plain(), train_body, &j, LAC_OK, NULL);
    const outcome *out = &outcomes[here()];
    int64_t links = workers - 1, bytes = 0;
    /* A worker sends every piece but one twice over: as a sum all but that after its own, as a mean all but the one
     * after that. */
    for (int64_t piece = 0; piece < workers; piece++) {
      int64_t size = 4 * ((piece + 1) * N / workers - piece * N / workers);
      bytes += size * ((piece != (here() + 1) % workers) + (piece != (here() + 2) % workers));
    }
    assert_int_equal(out->counts.messages[LAC_TRAFFIC_MODEL], STEPS * 2 * links);
    assert_int_equal(out->counts.bytes[LAC_TRAFFIC_MODEL], workers > 1 ? STEPS * bytes : 0);
    assert_true(llabs(bytes - 2 * links * 4 * N / workers) <= 8 || workers == 1); /* 2 (n - 1) / n vectors */
    assert_int_equal(out->counts.messages[LAC_TRAFFIC_CONTROL], 0);
    int64_t gradients = methods[m] == LAC_METHOD_PARLE ? STEPS * LONG : STEPS;
    assert_int_equal(out->progress.gradients, gradients);
    assert_int_equal(out->progress.step, STEPS);
    assert_int_equal(out->progress.steps, STEPS);
    assert_int_equal(out->progress.errors, gradients);
    assert_int_equal(out->progress.points, 4 * gradients);
  }
}

/* Threads of this process give what the back end under test gave; delays change nothing. */
static void bits_do_not_depend_on_back_end_or_timing(void **state) {
  (void)state;
  for (int m = 0; m < METHODS; m++) {
    for (int overlap = 0; overlap < 2; overlap++) {
      job j = work(methods[m]), other = work(methods[m]);
      j.options.overlap = other.options.overlap = overlap;
      other.outcomes = others;
      run(plain(), train_body, &j, LAC_OK, NULL);
      lac_world_options local = {
          .backend = "local", .workers = workers, .timeout_ms = 60000, .delay_seed = 5, .delay_limit_us = 300};
      run(local, train_body, &other, LAC_OK, NULL);
      assert_memory_equal(outcomes[here()].own, others[here()].own, sizeof others->own);
      assert_memory_equal(outcomes[here()].answer, others[here()].answer, sizeof others->answer);
      assert_memory_equal(outcomes[here()].answer, others[(here() + 1) % workers].answer, sizeof others->answer);
    }
  }
}

static void resumed_anywhere_is_as_never_cut(void **state) {
  (void)state;
  static const int kinds[] = {LAC_OPTIMIZER_NESTEROV, LAC_OPTIMIZER_AMSGRAD};
  for (int m = 0; m < METHODS; m++) {
    for (int kind = 0; kind < 3; kind++) {
      bool overlap = kind > 0;
      job j = work(methods[m]);
      j.options.overlap = overlap;
      if (kind == 2 && methods[m] == LAC_METHOD_SGD) {
        continue; /* with a period it mixes models, which travel in any case */
      }
      j.options.exchange.period = kind == 2 ? 3 : 1; /* a mean may have come long before it is used */
      j.options.optimizer = (lac_optimizer_options){
          .kind = kinds[overlap], .momentum = 0.9, .second = 0.99, .epsilon = 1e-8, .weight_decay = 1e-3};
      j.options.learning_rate = overlap ? 0.01 : 0.05;
      run(plain(), train_body, &j, LAC_OK, NULL);
      memcpy(others, outcomes, sizeof others);
      for (j.cut = 0; j.cut < STEPS; j.cut += 7) {
        run(plain(), train_body, &j, LAC_OK, NULL);
        assert_memory_equal(outcomes[here()].own, others[here()].own, sizeof others->own);
        assert_memory_equal(outcomes[here()].answer, others[here()].answer, sizeof others->answer);
        assert_int_equal(outcomes[here()].progress.gradients, others[here()].progress.gradients);
      }
    }
  }
}

/* The mean of the replicas' own vectors, added here in double; their distance from it. */
static void answer_is_the_mean_and_spread_the_distance(void **state) {
  (void)state;
  if (strcmp(backend, "local") != 0) {
    return; /* the vectors of the other ranks are not here; the bits are those of the local back end */
  }
  for (int m = 0; m < METHODS; m++) {
    job j = work(methods[m]);
    run(plain(), train_body, &j, LAC_OK, NULL);
    double away = 0, norm = 0;
    for (int i = 0; i < N; i++) {
      double mean = 0;
      for (int a = 0; a < workers; a++) {
        mean += (double)outcomes[a].own[i] / workers;
      }
      assert_true(fabs(mean - (double)outcomes[0].answer[i]) <= 1e-5);
      norm += mean * mean;
      for (int a = 0; a < workers; a++) {
        away += ((double)outcomes[a].own[i] - mean) * ((double)outcomes[a].own[i] - mean) / workers;
      }
    }
    assert_true(fabs(outcomes[0].spread - sqrt(away / norm)) <= 1e-5 + 1e-4 * outcomes[0].spread);
    if (methods[m] == LAC_METHOD_SGD) {
      assert_true(outcomes[0].spread < 1e-6); /* one x everywhere, but for the rounding of the mean */
    } else {
      assert_true(workers == 1 || outcomes[0].spread > 1e-4);
    }
  }
}

/* One step late is another sequence, but leads to the same place: at a small constant rate both settle at the optimum.
 */
static void overlap_is_late_and_arrives(void **state) {
  (void)state;
  for (int m = 0; m < METHODS; m++) {
    job j = work(methods[m]);
    run(plain(), train_body, &j, LAC_OK, NULL);
    memcpy(others, outcomes, sizeof others);
    j.options.overlap = true;
    run(plain(), train_body, &j, LAC_OK, NULL);
    double far = 0;
    for (int i = 0; i < N; i++) {
      far = fmax(far, fabs((double)outcomes[here()].answer[i] - (double)others[here()].answer[i]));
    }
    assert_true(workers == 1 ? far == 0 : far > 0 && far < 2);
  }
}

static void a_loss_that_is_no_number_stops_the_run(void **state) {
  (void)state;
  job j = work(LAC_METHOD_PARLE);
  j.bad_worker = workers - 1;
  j.bad_from = 12; /* the 13th gradient, in the third outer step of 5 */
  char words[96];
  snprintf(words, sizeof words, "worker %d: the loss of gradient 13, in outer step 3, is", workers - 1);
  run(plain(), train_body, &j, LAC_E_NUMERICAL, words);
}

static void replicas_must_be_alike(void **state) {
  lac_replica_options options = settings(LAC_METHOD_SGD);
  static const float start[N] = {0};
  quadratic q = {0};
  lac_objective objective = {.parameters = N, .batches_per_pass = 0, .gradient = slope, .user = &q};
  lac_replica *replica;
  assert_failure(*state, lac_replica_create(*state, NULL, &objective, &options, start, &replica), LAC_E_USAGE, "batch");
  assert_null(replica);
  options.method = LAC_METHOD_ENTROPY;
  assert_failure(*state, lac_replica_check(*state, &options, 2), LAC_E_USAGE, "parle");
  assert_ok(*state, lac_replica_check(*state, &options, 1));
  options.schedule = LAC_SCHEDULE_COSINE;
  assert_failure(*state, lac_replica_check(*state, &options, 1), LAC_E_USAGE, "cosine");
  options.drops = NULL;
  options.warm_up = options.epochs + 1;
  assert_failure(*state, lac_replica_check(*state, &options, 1), LAC_E_USAGE, "warm-up");
}

/* The table's defaults are the rule of the paper's experiments. */
static void defaults_are_the_papers(void **state) {
  lac_replica_options options;
  assert_ok(*state, lac_options_default(*state, lac_replica_option_table(), &options));
  assert_int_equal(options.inner_steps, 25);
  assert_true(options.average == 0.25 && options.gamma == 100 && options.rho == 1 && options.scoping == 1);
  assert_true(options.outer_momentum == 0.9);
  assert_true(options.optimizer.kind == LAC_OPTIMIZER_NESTEROV && options.optimizer.momentum == 0.9);
  assert_true(options.learning_rate == 0.1);
  lac_options_clear(lac_replica_option_table(), &options);
}

int main(int argc, char **argv) {
  static const int counts[] = {1, 2, 3, 5};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(traffic_is_one_all_reduce_an_outer_step),
      cmocka_unit_test(bits_do_not_depend_on_back_end_or_timing),
      cmocka_unit_test(resumed_anywhere_is_as_never_cut),
      cmocka_unit_test(answer_is_the_mean_and_spread_the_distance),
      cmocka_unit_test(overlap_is_late_and_arrives),
      cmocka_unit_test(a_loss_that_is_no_number_stops_the_run),
      cmocka_unit_test_setup_teardown(replicas_must_be_alike, make_context, drop_context),
      cmocka_unit_test_setup_teardown(defaults_are_the_papers, make_context, drop_context),
  };
  int failed = 0;
  run_on_workers(argc, argv, tests, counts, failed);
  return failed;
}
