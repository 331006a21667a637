/* The ring and the loop over mu, by a problem whose submodels keep a diary: the state of a submodel is the list of its
 * visits, so that what comes out shows where it has been, and a digest that any change of order would change. */
#include <math.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/tags.h"
#include "comm/workers.h"
#include "laconic/mac.h"

enum { SHARDS = 32, VISITS = 160 };

typedef struct diary {
  uint64_t digest;
  int64_t count;
  int16_t shard[VISITS];
} diary;

/* What a test asks of the problem, and which operation is to fail where. */
typedef enum diary_operation {
  NONE,
  W_BEGIN,
  PACK,
  TRAIN,
  UNPACK,
  W_END,
  Z_STEP,
  VALIDATE,
  SAVE,
  RESTORE,
  OPERATIONS
} diary_operation;

typedef struct diary_plan {
  int64_t submodels;
  lac_mac_options options;
  diary_operation failing, interrupting;
  int failing_shard;
  int64_t failing_iteration;
  const double *scores; /* by iteration, from the start; NULL: no validation */
  int64_t agrees_at;    /* iteration at which Z = h(X), 0: never */
  bool subsampled;      /* half the points join when the engine says so */
  int jitter_us;
} diary_plan;

typedef struct diary_shard {
  const diary_plan *plan;
  int number;
  int64_t iteration, most_together, packed, trained, unpacked, saves, restores;
  diary *model, *kept; /* (M) */
  int64_t model_iteration, kept_iteration;
  double z, kept_z; /* stands for the coordinates */
  int64_t widened;  /* times */
  int64_t widened_after;
  double widened_mu;
} diary_shard;

static uint64_t mix(uint64_t digest, uint64_t value) {
  digest = (digest ^ value) * 0x9e3779b97f4a7c15u;
  return digest ^ digest >> 31;
}

static lac_status act(diary_shard *self, lac_context *context, diary_operation operation) {
  const diary_plan *plan = self->plan;
  bool here = self->number == plan->failing_shard && self->iteration == plan->failing_iteration;
  if (here && plan->interrupting == operation) {
    lac_context_interrupt(context);
  }
  if (here && plan->failing == operation) {
    return lac_fail(context, LAC_E_NUMERICAL, "shard %d: operation %d failed", self->number, operation);
  }
  return LAC_OK;
}

/* States differ in size, so that bytes are counted submodel by submodel. */
static size_t diary_bytes(const void *argument, int64_t m) {
  (void)argument;
  return sizeof(diary) + (size_t)(m % 3) * 8;
}

static lac_status w_begin(void *argument, lac_context *context, int64_t iteration) {
  diary_shard *self = argument;
  self->iteration = iteration;
  self->packed = self->trained = self->unpacked = 0;
  return act(self, context, W_BEGIN);
}

static lac_status pack(void *argument, lac_context *context, int64_t m, void *state) {
  diary_shard *self = argument;
  diary fresh = {.digest = mix(self->model[m].digest, (uint64_t)m)};
  memcpy(state, &fresh, sizeof fresh);
  memset((char *)state + sizeof fresh, (int)m, diary_bytes(self, m) - sizeof fresh);
  self->packed++;
  CHECK(context, self->trained == 0);
  return act(self, context, PACK);
}

static void jitter(const diary_shard *self, int64_t key) {
  lac_random stream = lac_random_stream(self->number, LAC_RANDOM_TEST, (uint64_t)self->iteration, (uint64_t)key);
  struct timespec pause = {.tv_nsec = (long)lac_random_below(&stream, 1000 * self->plan->jitter_us + 1)};
  nanosleep(&pause, NULL);
}

static lac_status train(void *argument, lac_context *context, int64_t count, const int64_t *ids, const int64_t *visits,
                        int64_t passes, void *const *states) {
  diary_shard *self = argument;
  const lac_mac_options *options = &self->plan->options;
  CHECK(context, self->unpacked == 0 && count > 0);
  CHECK(context, passes == (options->local_epochs ? options->epochs : 1));
  self->most_together = count > self->most_together ? count : self->most_together;
  jitter(self, self->trained);
  for (int64_t i = 0; i < count; i++) {
    diary *entry = states[i];
    CHECK(context, (uintptr_t)states[i] % 16 == 0);
    CHECK(context, entry->count == visits[i] && entry->count < VISITS);
    CHECK(context, i == 0 || visits[i] >= visits[i - 1]);
    entry->shard[entry->count++] = (int16_t)self->number;
    /* depends on the model the shard has, which must therefore not change meanwhile */
    entry->digest = mix(entry->digest, self->model[ids[i]].digest + (uint64_t)self->number + (uint64_t)passes);
    self->trained++;
  }
  return act(self, context, TRAIN);
}

static lac_status unpack(void *argument, lac_context *context, int64_t m, const void *state) {
  diary_shard *self = argument;
  const unsigned char *tail = (const unsigned char *)state + sizeof(diary);
  for (size_t i = 0; i < diary_bytes(self, m) - sizeof(diary); i++) {
    CHECK(context, tail[i] == (unsigned char)m);
  }
  CHECK(context, m == self->unpacked);
  memcpy(&self->model[m], state, sizeof(diary));
  self->unpacked++;
  return act(self, context, UNPACK);
}

static lac_status w_end(void *argument, lac_context *context) {
  diary_shard *self = argument;
  const lac_mac_options *options = &self->plan->options;
  CHECK(context, self->unpacked == self->plan->submodels);
  CHECK(context, self->trained == self->plan->submodels * (options->local_epochs ? 1 : options->epochs));
  self->model_iteration = self->iteration;
  return act(self, context, W_END);
}

static lac_status z_step(void *argument, lac_context *context, double mu, lac_mac_sums *sums) {
  diary_shard *self = argument;
  for (int64_t m = 0; m < self->plan->submodels; m++) {
    self->z = 0.7 * self->z + 1e-19 * (double)(self->model[m].digest >> self->number) + mu;
  }
  *sums = (lac_mac_sums){.penalised = self->z,
                         .nested = sqrt(self->z),
                         .disagreements = self->iteration == self->plan->agrees_at ? 0 : self->number == 0,
                         .points = (self->plan->subsampled && !self->widened ? 5 : 10) + self->number};
  return act(self, context, Z_STEP);
}

static lac_status widen(void *argument, lac_context *context, double mu) {
  (void)context;
  diary_shard *self = argument;
  self->widened++;
  self->widened_after = self->iteration;
  self->widened_mu = mu;
  self->z += mu; /* a new coordinate */
  return LAC_OK;
}

/* The fraction is the plan's; its parts differ from shard to shard. */
static lac_status validate(void *argument, lac_context *context, double *sum, double *weight) {
  diary_shard *self = argument;
  *weight = 1 << self->number % 8;
  *sum = *weight * self->plan->scores[self->iteration];
  return act(self, context, VALIDATE);
}

static lac_status save(void *argument, lac_context *context) {
  diary_shard *self = argument;
  memcpy(self->kept, self->model, (size_t)self->plan->submodels * sizeof(diary));
  self->kept_iteration = self->model_iteration;
  self->kept_z = self->z;
  self->saves++;
  return act(self, context, SAVE);
}

static lac_status restore(void *argument, lac_context *context) {
  diary_shard *self = argument;
  memcpy(self->model, self->kept, (size_t)self->plan->submodels * sizeof(diary));
  self->model_iteration = self->kept_iteration;
  self->z = self->kept_z;
  self->restores++;
  return act(self, context, RESTORE);
}

static lac_mac_problem problem_of(const diary_plan *plan) {
  return (lac_mac_problem){.name = "diary",
                           .submodels = plan->submodels,
                           .submodel_bytes = diary_bytes,
                           .w_begin = w_begin,
                           .pack = pack,
                           .train = train,
                           .unpack = unpack,
                           .w_end = w_end,
                           .z_step = z_step,
                           .validate = plan->scores ? validate : NULL,
                           .widen = plan->subsampled ? widen : NULL,
                           .save = save,
                           .restore = restore};
}

/* ---- runs ---- */

enum { REPORTS = 32 };

/* One engine's run: its shards here and all that it reported. */
typedef struct diary_run {
  lac_team team;
  int opened;
  diary_shard shards[SHARDS];
  void *addresses[SHARDS];
  lac_mac_report reports[REPORTS];
  int64_t reported;
  lac_mac_result result;
  lac_status status;
} diary_run;

static void close_outcome(diary_run **outcome) {
  for (int s = 0; *outcome && s < (*outcome)->opened; s++) {
    lac_free((*outcome)->shards[s].model);
    lac_free((*outcome)->shards[s].kept);
  }
  lac_free(*outcome);
  *outcome = NULL;
}

static lac_status open_outcome(lac_context *context, const diary_plan *plan, lac_team team, diary_run **made) {
  LAC_TRY(LAC_NEW(context, 1, made));
  diary_run *outcome = *made;
  outcome->team = team;
  for (int s = 0; s < team.count; s++) {
    diary_shard *shard = &outcome->shards[s];
    shard->plan = plan;
    shard->number = team.first + s;
    LAC_TRY(LAC_NEW(context, plan->submodels, &shard->model));
    outcome->opened++;
    LAC_TRY(LAC_NEW(context, plan->submodels, &shard->kept));
    outcome->addresses[s] = shard;
  }
  return LAC_OK;
}

static void note_report(void *user, const lac_mac_report *report) {
  diary_run *outcome = user;
  if (outcome->reported < REPORTS) {
    outcome->reports[outcome->reported++] = *report;
  }
}

static lac_status run_engine(lac_context *context, const diary_plan *plan, lac_team team, diary_run **made) {
  lac_mac_problem problem = problem_of(plan);
  LAC_TRY(open_outcome(context, plan, team, made));
  (*made)->status =
      lac_mac_run(context, &team, &problem, (*made)->addresses, &plan->options, note_report, *made, &(*made)->result);
  return LAC_OK;
}

static bool same_number(double a, double b) {
  return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* A worker's shard and reports against the serial run's. */
static lac_status compare(lac_context *context, const diary_plan *plan, const diary_run *ring,
                          const diary_run *serial) {
  const diary_shard *a = &ring->shards[0], *b = &serial->shards[a->number];
  CHECK(context, memcmp(a->model, b->model, (size_t)plan->submodels * sizeof(diary)) == 0);
  CHECK(context, memcmp(a->kept, b->kept, (size_t)plan->submodels * sizeof(diary)) == 0);
  CHECK(context, same_number(a->z, b->z) && a->saves == b->saves && a->restores == b->restores);
  CHECK(context, ring->reported == serial->reported && ring->reported == ring->result.iterations);
  for (int64_t i = 0; i < ring->reported; i++) {
    const lac_mac_report *x = &ring->reports[i], *y = &serial->reports[i];
    CHECK(context, x->iteration == y->iteration && same_number(x->mu, y->mu) && x->accepted == y->accepted);
    CHECK(context, same_number(x->penalised, y->penalised) && same_number(x->nested, y->nested));
    CHECK(context, x->disagreements == y->disagreements && x->points == y->points && same_number(x->score, y->score));
  }
  CHECK(context, same_number(ring->result.score, serial->result.score));
  CHECK(context, ring->result.converged == serial->result.converged);
  CHECK(context, ring->result.w_steps == serial->result.w_steps);
  return LAC_OK;
}

/* Each diary is a sequence of laps over all shards, and all workers hold the same ones. */
static lac_status check_diaries(lac_context *context, const diary_plan *plan, const diary_run *outcome) {
  int total = outcome->team.total;
  int64_t laps = plan->options.local_epochs ? 1 : plan->options.epochs;
  for (int64_t m = 0; m < plan->submodels; m++) {
    const diary *entry = &outcome->shards[0].model[m];
    CHECK(context, entry->count == laps * total);
    CHECK(context, entry->shard[0] == ((m + 1) * total - 1) / plan->submodels);
    for (int64_t lap = 0; lap < laps; lap++) {
      uint64_t met = 0;
      for (int64_t v = lap * total; v < (lap + 1) * total; v++) {
        met |= (uint64_t)1 << entry->shard[v];
        CHECK(context, v == 0 || total == 1 || entry->shard[v] != entry->shard[v - 1]);
      }
      CHECK(context, met == ((uint64_t)1 << total) - 1);
    }
  }
  return LAC_OK;
}

static lac_status check_traffic(lac_world *world, const diary_plan *plan, const diary_run *ring) {
  lac_context *context = lac_world_context(world);
  const lac_mac_options *options = &plan->options;
  int64_t total = ring->team.total, laps = options->local_epochs ? 1 : options->epochs;
  int64_t hops = total == 1 ? 0 : (laps + 1) * total - 2, bytes = 0;
  for (int64_t m = 0; m < plan->submodels; m++) {
    bytes += hops * (int64_t)(diary_bytes(NULL, m) + LAC_MAC_ENVELOPE);
  }
  CHECK(context, ring->result.messages == ring->result.w_steps * hops * plan->submodels);
  CHECK(context, ring->result.bytes == ring->result.w_steps * bytes);
  /* What the world counted says the same. */
  lac_counts counts = lac_world_counts(world);
  LAC_TRY(lac_world_sum_i64(world, &counts.messages[LAC_TRAFFIC_MODEL], 1));
  LAC_TRY(lac_world_sum_i64(world, &counts.bytes[LAC_TRAFFIC_MODEL], 1));
  CHECK(context, counts.messages[LAC_TRAFFIC_MODEL] == ring->result.messages);
  CHECK(context, counts.bytes[LAC_TRAFFIC_MODEL] == ring->result.bytes);
  return LAC_OK;
}

static lac_status check_batches(lac_context *context, const diary_plan *plan, const diary_run *outcome) {
  int64_t total = outcome->team.total, limit = plan->options.batch;
  limit = limit ? limit : (plan->submodels + total - 1) / total;
  for (int s = 0; s < outcome->team.count; s++) {
    CHECK(context, outcome->shards[s].most_together <= limit);
  }
  return LAC_OK;
}

static lac_team ring_team(const lac_world *world) {
  return (lac_team){(lac_world *)world, lac_world_size(world), lac_world_rank(world), 1};
}

/* The ring here and the whole serial run, on every worker. */
static lac_status both_body(lac_world *world, void *argument) {
  const diary_plan *plan = argument;
  lac_context *context = lac_world_context(world);
  diary_run *ring = NULL, *serial = NULL;
  lac_status status;
  int total = lac_world_size(world);
  LAC_TRY_GOTO(status, run_engine(context, plan, ring_team(world), &ring), cleanup);
  LAC_TRY_GOTO(status, ring->status, cleanup);
  diary_plan calm = *plan;
  calm.jitter_us = 0;
  LAC_TRY_GOTO(status, run_engine(context, &calm, (lac_team){NULL, total, 0, total}, &serial), cleanup);
  LAC_TRY_GOTO(status, serial->status, cleanup);
  LAC_TRY_GOTO(status, compare(context, plan, ring, serial), cleanup);
  LAC_TRY_GOTO(status, check_diaries(context, plan, ring), cleanup);
  LAC_TRY_GOTO(status, check_traffic(world, plan, ring), cleanup);
  LAC_TRY_GOTO(status, check_batches(context, plan, ring), cleanup);
  LAC_TRY_GOTO(status, check_batches(context, plan, serial), cleanup);
  if (serial->result.messages != 0 || serial->result.bytes != 0) {
    status = lac_fail(context, LAC_E_INTERNAL, "a serial run sent messages");
  }
cleanup:
  close_outcome(&ring);
  close_outcome(&serial);
  return status;
}

static diary_plan basic(void) {
  return (diary_plan){
      .submodels = 13,
      .options = {.iterations = 3, .mu = 0.05, .mu_factor = 2, .epochs = 2, .undo_limit = 3, .seed = 11},
      .failing_shard = -1};
}

/* ---- tests ---- */

static void test_ring_equals_serial(void **state) {
  (void)state;
  static const int64_t submodels[] = {1, 2, 7, 13, 32};
  for (int m = 0; m < 5; m++) {
    for (int64_t epochs = 1; epochs <= 3; epochs++) {
      diary_plan plan = basic();
      plan.submodels = submodels[m];
      plan.options.epochs = epochs;
      run(plain(), both_body, &plan, LAC_OK, NULL);
      plan.options.local_epochs = true;
      run(plain(), both_body, &plan, LAC_OK, NULL);
    }
  }
}

static void test_any_timing(void **state) {
  (void)state;
  for (int64_t seed = 1; seed <= 6; seed++) {
    diary_plan plan = basic();
    lac_world_options options = plain();
    plan.jitter_us = seed % 2 ? 300 : 0;
    plan.options.seed = seed;
    plan.options.batch = seed % 3;
    options.delay_seed = seed;
    options.delay_limit_us = 1500;
    run(options, both_body, &plan, LAC_OK, NULL);
  }
}

static void test_batch_limits(void **state) {
  (void)state;
  static const int64_t batches[] = {0, 1, 3, 1000000};
  for (int b = 0; b < 4; b++) {
    diary_plan plan = basic();
    plan.options.batch = batches[b];
    run(plain(), both_body, &plan, LAC_OK, NULL);
  }
}

/* Undo and skip: the measures are given, what must follow was worked out by hand. */
static lac_status undo_body(lac_world *world, void *argument) {
  static const bool accepted[] = {true, false, true, true, false, false};
  const diary_plan *plan = argument;
  lac_context *context = lac_world_context(world);
  diary_run *ring = NULL;
  lac_status status = run_engine(context, plan, ring_team(world), &ring);
  status = status ? status : ring->status;
  bool good = !status && ring->reported == 6 && ring->result.w_steps == 6 && !ring->result.converged &&
              ring->result.score == 0.75 && ring->shards[0].saves == 4 && ring->shards[0].restores == 3 &&
              ring->shards[0].model_iteration == 4;
  for (int i = 0; good && i < 6; i++) {
    good = ring->reports[i].accepted == accepted[i] && ring->reports[i].mu == 0.05 * (1 << i) &&
           ring->reports[i].score == plan->scores[i + 1];
  }
  close_outcome(&ring);
  LAC_TRY(status);
  CHECK(context, good);
  return LAC_OK;
}

static void test_undo_and_skip(void **state) {
  (void)state;
  /* start, then iterations 1 to 6; an equal measure is no fall; two undone in a row end the run */
  static const double scores[] = {0.5, 0.625, 0.5, 0.75, 0.75, 0.625, 0.5, 0.875};
  diary_plan plan = basic();
  plan.scores = scores;
  plan.options.iterations = 7;
  plan.options.undo_limit = 2;
  run(plain(), both_body, &plan, LAC_OK, NULL);
  run(plain(), undo_body, &plan, LAC_OK, NULL);
}

static lac_status stop_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  diary_run *ring = NULL;
  lac_status status = run_engine(context, argument, ring_team(world), &ring);
  status = status ? status : ring->status;
  bool good = !status && ring->result.converged && ring->result.iterations == 3 && isnan(ring->result.score) &&
              ring->reports[2].disagreements == 0 && ring->reports[1].disagreements == 1 &&
              ring->reports[0].points == 10 * (int64_t)ring->team.total + ring->team.total * (ring->team.total - 1) / 2;
  close_outcome(&ring);
  LAC_TRY(status);
  CHECK(context, good);
  return LAC_OK;
}

static void test_stops_when_coordinates_agree(void **state) {
  (void)state;
  diary_plan plan = basic();
  plan.options.iterations = 9;
  plan.agrees_at = 3;
  run(plain(), stop_body, &plan, LAC_OK, NULL);
  run(plain(), both_body, &plan, LAC_OK, NULL);
}

/* An agreement that the measure rejects is no end; one undone step is the limit here. */
static void test_rejected_agreement(void **state) {
  (void)state;
  static const double scores[] = {0.5, 0.625, 0.25, 0.5};
  diary_plan plan = basic();
  plan.scores = scores;
  plan.agrees_at = 2;
  plan.options.undo_limit = 1;
  run(plain(), both_body, &plan, LAC_OK, NULL);
}

/* ---- from a subsample to all points ---- */

typedef struct widening {
  diary_plan plan;
  int64_t iterations, after; /* that must be made; those of them on the subsample */
  double mu;                 /* of the last before */
  bool converged;
} widening;

static lac_status widen_body(lac_world *world, void *argument) {
  const widening *expected = argument;
  lac_context *context = lac_world_context(world);
  diary_run *ring = NULL;
  lac_status status = run_engine(context, &expected->plan, ring_team(world), &ring);
  const diary_shard *shard = &ring->shards[0];
  status = status ? status : ring->status;
  int64_t before = ring->team.total * (ring->team.total - 1) / 2, total = ring->team.total;
  bool good = !status && shard->widened == (expected->after > 0) && ring->result.iterations == expected->iterations &&
              ring->result.converged == expected->converged;
  if (good && expected->after > 0) {
    good = shard->widened_after == expected->after && shard->widened_mu == expected->mu;
    for (int64_t i = 0; i < ring->reported; i++) {
      good = good && ring->reports[i].points == before + (i < expected->after ? 5 : 10) * total;
    }
  }
  /* What had joined is kept at once: one save at the start, one then, one after every accepted iteration. */
  int64_t accepted = 0;
  for (int64_t i = 0; i < ring->reported; i++) {
    accepted += ring->reports[i].accepted;
  }
  good = good && shard->saves == 1 + shard->widened + accepted;
  close_outcome(&ring);
  LAC_TRY(status);
  CHECK(context, good);
  return LAC_OK;
}

static void widens(diary_plan plan, int64_t iterations, int64_t after, double mu, bool converged) {
  widening expected = {.plan = plan, .iterations = iterations, .after = after, .mu = mu, .converged = converged};
  run(plain(), widen_body, &expected, LAC_OK, NULL);
  run(plain(), both_body, &expected.plan, LAC_OK, NULL);
}

static void test_widening(void **state) {
  (void)state;
  static const double falls[] = {0.5, 0.625, 0.5, 0.25, 0.75, 0.75, 0.5, 0.875, 0.875, 0.875};
  static const double back[] = {0.5, 0.625, 0.75, 0.5, 0.5, 0.875, 0.875};
  diary_plan plan = basic();
  plan.subsampled = true;
  plan.options.iterations = 6;
  plan.options.full_iterations = 2;
  widens(plan, 6, 4, 0.05 * 8, false);
  plan.options.full_iterations = 5;
  widens(plan, 6, 1, 0.05, false);
  /* Agreement on the subsample is no end: two more iterations follow, and no more. */
  plan.options.full_iterations = 2;
  plan.agrees_at = 2;
  widens(plan, 4, 2, 0.05 * 2, false);
  plan.agrees_at = 5; /* among all points it is one */
  widens(plan, 5, 4, 0.05 * 8, true);
  /* So with steps undone in a row: the second, at iteration 3, is followed by two over all points. */
  plan.agrees_at = 0;
  plan.scores = falls;
  plan.options.undo_limit = 2;
  plan.options.iterations = 9;
  widens(plan, 5, 3, 0.05 * 4, false);
  /* What was agreed or undone on the subsample does not count among all points. */
  static const double later[] = {0.5, 0.625, 0.625, 0.5, 0.75, 0.75, 0.75};
  static const double between[] = {0.5, 0.625, 0.625, 0.5, 0.5, 0.75, 0.75};
  plan.scores = later;
  plan.agrees_at = 2; /* and the third step, among all points, is undone */
  plan.options.iterations = 6;
  widens(plan, 4, 2, 0.05 * 2, false);
  plan.agrees_at = 0;
  plan.scores = between; /* undone are the third step, the last on the subsample of this plan, and the fourth */
  plan.options.full_iterations = 3;
  widens(plan, 6, 3, 0.05 * 4, false);
  plan.options.full_iterations = 2;
  /* An undone step just before does not take back what has joined. */
  plan.scores = back;
  plan.options.undo_limit = 3;
  plan.options.iterations = 6;
  plan.options.full_iterations = 3;
  widens(plan, 6, 3, 0.05 * 4, false);
}

static void test_no_iterations(void **state) {
  (void)state;
  static const double scores[] = {0.5};
  lac_context *context;
  diary_run *serial = NULL;
  diary_plan plan = basic();
  plan.scores = scores;
  plan.options.iterations = 0;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_ok(context, run_engine(context, &plan, (lac_team){NULL, 3, 0, 3}, &serial));
  assert_int_equal(serial->status, LAC_OK);
  assert_true(serial->result.iterations == 0 && serial->result.score == 0.5 && serial->shards[2].saves == 1);
  close_outcome(&serial);
  lac_context_destroy(&context);
}

/* A failing operation on one shard ends the run everywhere, with its line. */
static lac_status fail_body(lac_world *world, void *argument) {
  const diary_plan *plan = argument;
  diary_run *ring = NULL;
  lac_context *context = lac_world_context(world);
  lac_status status = run_engine(context, plan, ring_team(world), &ring);
  status = status ? status : ring->status;
  close_outcome(&ring);
  CHECK(context, status == (lac_world_rank(world) == plan->failing_shard ? LAC_E_NUMERICAL : LAC_E_PEER));
  return status;
}

static void test_failing_operation(void **state) {
  (void)state;
  static const double scores[] = {0.5, 0.625, 0.25, 0.5};
  for (int operation = W_BEGIN; operation < OPERATIONS; operation++) {
    char line[64];
    diary_plan plan = basic();
    plan.submodels = 32; /* some start at every worker */
    plan.scores = scores;
    plan.failing = (enum diary_operation)operation;
    plan.failing_shard = workers - 1;
    plan.failing_iteration = operation == SAVE ? 1 : 2;
    snprintf(line, sizeof line, "shard %d: operation %d failed", workers - 1, operation);
    run(plain(), fail_body, &plan, LAC_E_NUMERICAL, line);
    lac_context *context;
    diary_run *serial = NULL;
    assert_int_equal(lac_context_create(&context), LAC_OK);
    assert_ok(context, run_engine(context, &plan, (lac_team){NULL, workers, 0, workers}, &serial));
    assert_int_equal(serial->status, LAC_E_NUMERICAL);
    assert_string_equal(lac_context_message(context), line);
    close_outcome(&serial);
    lac_context_destroy(&context);
  }
}

/* An interrupt in iteration 3, at one worker (under MPI in one process): all end as interrupted, in the state of
 * iteration 2. */
static lac_status interrupt_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  diary_run *ring = NULL;
  lac_status status = run_engine(context, argument, ring_team(world), &ring);
  bool good = !status && ring->status == LAC_E_INTERRUPTED && ring->shards[0].model_iteration == 2 &&
              ring->shards[0].restores == 1 && ring->reported == 2;
  close_outcome(&ring);
  CHECK(context, good);
  return LAC_E_INTERRUPTED;
}

static void test_interrupt(void **state) {
  (void)state;
  diary_plan plan = basic();
  plan.options.iterations = 5;
  plan.submodels = 32;
  plan.interrupting = TRAIN;
  plan.failing_shard = workers / 2;
  plan.failing_iteration = 3;
  if (workers > 1 || strcmp(backend, "local") == 0) {
    run(plain(), interrupt_body, &plan, LAC_E_INTERRUPTED, NULL);
  }
  lac_context *context;
  diary_run *serial = NULL;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_ok(context, run_engine(context, &plan, (lac_team){NULL, workers, 0, workers}, &serial));
  assert_int_equal(serial->status, LAC_E_INTERRUPTED);
  for (int s = 0; s < workers; s++) {
    assert_int_equal(serial->shards[s].model_iteration, 2);
  }
  close_outcome(&serial);
  lac_context_destroy(&context);
}

/* One worker is stuck in its training for longer than the deadline: the line names it. */
static lac_status stuck_body(lac_world *world, void *argument) {
  diary_plan mine = *(const diary_plan *)argument;
  lac_context *context = lac_world_context(world);
  diary_run *ring = NULL;
  mine.jitter_us = 0;
  if (lac_world_rank(world) == lac_world_size(world) - 1) {
    work_ms(world, 2000);
  }
  lac_status status = run_engine(context, &mine, ring_team(world), &ring);
  status = status ? status : ring->status;
  close_outcome(&ring);
  return status;
}

static void test_stuck_worker(void **state) {
  (void)state;
  char culprit[64];
  diary_plan plan = basic();
  lac_world_options options = plain();
  options.timeout_ms = 1200;
  if (workers < 3 || workers == 5 || lac_world_smpi()) {
    return; /* two seconds a time: 3, 4 and 8 will do; under SMPI no wait has an end */
  }
  snprintf(culprit, sizeof culprit, "worker %d, which does not answer", workers - 1);
  run(options, stuck_body, &plan, LAC_E_TIMEOUT, culprit);
}

/* W steps straight after each other, without the reductions between them: a fast worker may be one ahead. */
static lac_status steps_body(lac_world *world, void *argument) {
  const diary_plan *plan = argument;
  lac_context *context = lac_world_context(world);
  lac_team team = ring_team(world);
  lac_mac_problem problem = problem_of(plan);
  diary_run *ring = NULL;
  int64_t messages = 0, bytes = 0;
  lac_status status = open_outcome(context, plan, team, &ring);
  for (int64_t i = 1; i <= 8 && !status; i++) { /* its number only keys the order: any will do, again and again */
    int64_t number = i <= 2 ? i : i <= 5 ? 4 : 2 * i;
    status = lac_mac_w_step(context, &team, &problem, ring->addresses, &plan->options, number, &messages, &bytes);
  }
  int64_t expected = 8 * lac_mac_messages(plan->submodels, team.total, plan->options.epochs, false);
  uint64_t digest = 0;
  for (int64_t m = 0; m < plan->submodels && !status; m++) {
    digest = mix(digest, ring->shards[0].model[m].digest);
  }
  close_outcome(&ring);
  LAC_TRY(status);
  int64_t same[2] = {(int64_t)digest, messages};
  LAC_TRY(lac_world_broadcast(world, 0, &same[0], sizeof same[0]));
  LAC_TRY(lac_world_sum_i64(world, &same[1], 1));
  CHECK(context, same[0] == (int64_t)digest && same[1] == expected);
  return LAC_OK;
}

static void test_consecutive_steps(void **state) {
  (void)state;
  diary_plan plan = basic();
  lac_world_options options = plain();
  plan.jitter_us = 200;
  options.delay_seed = 4;
  options.delay_limit_us = 1000;
  run(options, steps_body, &plan, LAC_OK, NULL);
}

/* What worker 1 sends to worker 0 instead of a submodel. */
typedef struct bad_parcel {
  int64_t id, visit;
  int64_t extra; /* bytes beyond a submodel's */
  int times;
} bad_parcel;

typedef struct bad_plan {
  diary_plan plan;
  bad_parcel parcel;
} bad_plan;

static lac_status send_bad(lac_world *world, const bad_parcel *bad) {
  char bytes[4096] = {0};
  size_t size = LAC_MAC_ENVELOPE + diary_bytes(NULL, bad->id) + (size_t)bad->extra;
  lac_message message;
  memcpy(bytes, bad, 2 * sizeof bad->id);
  /* A diary that worker 0 may train before the next copy comes. */
  memcpy(bytes + LAC_MAC_ENVELOPE, &(diary){.count = bad->visit}, sizeof(diary));
  for (int i = 0; i < bad->times; i++) {
    LAC_TRY(lac_world_send_tagged(world, 0, LAC_TAG_RING, bytes, bad->id == -2 ? 5 : size, LAC_TRAFFIC_MODEL));
  }
  return lac_world_receive(world, 0, 1, &message);
}

static lac_status bad_body(lac_world *world, void *argument) {
  const bad_plan *bad = argument;
  diary_run *ring = NULL;
  if (lac_world_rank(world) == 1) {
    return send_bad(world, &bad->parcel);
  }
  lac_status status = run_engine(lac_world_context(world), &bad->plan, ring_team(world), &ring);
  status = status ? status : ring->status;
  close_outcome(&ring);
  return status;
}

static void test_broken_protocol(void **state) {
  static const bad_parcel cases[] = {
      {.id = -2, .times = 1},                         /* shorter than an envelope */
      {.id = -1, .visit = 1, .times = 1},             /* no such submodel */
      {.id = 32, .visit = 1, .times = 1},             /* nor that */
      {.id = 31, .visit = 0, .times = 1},             /* a visit that nobody sends */
      {.id = 31, .visit = 1000, .times = 1},          /* after the last */
      {.id = 0, .visit = 1, .times = 3},              /* the same visit again, when it is one at all */
      {.id = 30, .visit = 1, .extra = 8, .times = 1}, /* too long */
  };
  (void)state;
  if (workers == 1) {
    return;
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bad_plan bad = {basic(), cases[i]};
    bad.plan.submodels = 32;
    run(plain(), bad_body, &bad, LAC_E_PEER, "worker 1 broke the protocol: it sent");
  }
}

static lac_status not_finite(void *argument, lac_context *context, double mu, lac_mac_sums *sums) {
  LAC_TRY(z_step(argument, context, mu, sums));
  sums->penalised = ((diary_shard *)argument)->number == 0 ? NAN : 1;
  return LAC_OK;
}

static lac_status not_finite_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  lac_team team = ring_team(world);
  lac_mac_problem problem = problem_of(argument);
  diary_run *ring = NULL;
  problem.z_step = not_finite;
  LAC_TRY(open_outcome(context, argument, team, &ring));
  lac_status status = lac_mac_run(context, &team, &problem, ring->addresses, &((diary_plan *)argument)->options, NULL,
                                  NULL, &ring->result);
  close_outcome(&ring);
  CHECK(context, status == LAC_E_NUMERICAL); /* on all workers */
  return status;
}

static void test_objective_not_finite(void **state) {
  (void)state;
  diary_plan plan = basic();
  run(plain(), not_finite_body, &plan, LAC_E_NUMERICAL, "iteration 1, mu 0.05: the objective is");
}

static void expect_usage(diary_plan plan, lac_team team, const char *words) {
  lac_context *context;
  lac_mac_result result;
  lac_mac_problem problem = problem_of(&plan);
  void *shards[1] = {NULL};
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_failure(context, lac_mac_run(context, &team, &problem, shards, &plan.options, NULL, NULL, &result),
                 LAC_E_USAGE, words);
  lac_context_destroy(&context);
}

static void test_usage(void **state) {
  (void)state;
  lac_team good = {NULL, 1, 0, 1};
  diary_plan plan = basic();
  expect_usage(plan, (lac_team){NULL, 3, 0, 1}, "found 1 shards from number 0 of 3");
  expect_usage(plan, (lac_team){NULL, 0, 0, 0}, "found 0 shards");
  plan.submodels = 0;
  expect_usage(plan, good, "found 0 submodels");
  plan = basic();
  plan.options.epochs = 0;
  expect_usage(plan, good, "found 0 epochs");
  plan = basic();
  plan.options.mu_factor = 1;
  expect_usage(plan, good, "mu factor 1,");
  plan = basic();
  plan.options.mu = NAN;
  expect_usage(plan, good, "found mu nan");
  plan = basic();
  plan.options.undo_limit = 0;
  expect_usage(plan, good, "undo limit 0");
  plan = basic();
  plan.subsampled = true;
  expect_usage(plan, good, "found 0 full iterations");
}

/* Sums over a team add in shard order, whichever team it is. */
static lac_status team_body(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  lac_team ring = ring_team(world), serial = {NULL, ring.total, 0, ring.total};
  double values[SHARDS][3], a[3], b[3], expected[3];
  int64_t whole[SHARDS][2], c[2], d[2];
  (void)argument;
  for (int s = 0; s < ring.total; s++) {
    lac_random stream = lac_random_stream(5, LAC_RANDOM_TEST, (uint64_t)s, 0);
    for (int i = 0; i < 3; i++) {
      values[s][i] = lac_random_normal(&stream) * exp(10 * lac_random_normal(&stream));
      expected[i] = s == 0 ? values[s][i] : expected[i] + values[s][i];
    }
    whole[s][0] = s;
    whole[s][1] = -7;
  }
  LAC_TRY(lac_team_sum_f64(context, &ring, values[ring.first], 3, a));
  LAC_TRY(lac_team_sum_f64(context, &serial, values[0], 3, b));
  CHECK(context, memcmp(a, expected, sizeof a) == 0 && memcmp(b, expected, sizeof b) == 0);
  LAC_TRY(lac_team_sum_i64(context, &ring, whole[ring.first], 2, c));
  LAC_TRY(lac_team_sum_i64(context, &serial, whole[0], 2, d));
  CHECK(context, c[0] == ring.total * (ring.total - 1) / 2 && c[1] == -7 * ring.total);
  CHECK(context, d[0] == c[0] && d[1] == c[1]);
  serial.count++;
  CHECK(context, lac_team_sum_f64(context, &serial, values[0], 3, b) == LAC_E_USAGE);
  return LAC_OK;
}

static void test_team_sums(void **state) {
  (void)state;
  run(plain(), team_body, NULL, LAC_OK, NULL);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ring_equals_serial),
      cmocka_unit_test(test_any_timing),
      cmocka_unit_test(test_batch_limits),
      cmocka_unit_test(test_undo_and_skip),
      cmocka_unit_test(test_stops_when_coordinates_agree),
      cmocka_unit_test(test_rejected_agreement),
      cmocka_unit_test(test_widening),
      cmocka_unit_test(test_no_iterations),
      cmocka_unit_test(test_failing_operation),
      cmocka_unit_test(test_interrupt),
      cmocka_unit_test(test_stuck_worker),
      cmocka_unit_test(test_consecutive_steps),
      cmocka_unit_test(test_broken_protocol),
      cmocka_unit_test(test_objective_not_finite),
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_team_sums),
  };
  static const int counts[] = {1, 2, 3, 5, 8};
  int failed = 0;
  run_on_workers(argc, argv, tests, counts, failed);
  return failed;
}
