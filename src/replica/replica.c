/* The trainer: computes, exchanges, updates. What is computed and how x moves is in scheme.inc, how the mean is found
 * behind the table of exchange.h.
 *
 * Bounds: the gradients. Beside them an inner step streams its vectors through memory, 44 bytes a parameter. */
#include "laconic/replica.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/tags.h"
#include "replica/asynchronous.h"
#include "replica/exchange.h"
#include "replica/observe.h"

#define LAC_REAL float
#define LAC_REAL_SQRT sqrtf
#include "optim/rules.inc"
#include "replica/scheme.inc"

struct lac_replica {
  lac_scheme scheme;
  lac_world *world;
  lac_objective objective;
  int rank, size;
  const lac_exchange_protocol *protocol;
  void *exchange, *answer; /* states of the protocol; NULL for one replica */
  bool mixes;              /* sgd that mixes models */
  int64_t period;          /* of the exchange, in outer steps */
  float slack;
  const lac_async_protocol *async; /* in place of protocol, for exchanges without rounds */
  lac_async_log log;
  bool timed; /* mixing is known */
  lac_mixing_time mixing;
  float *read; /* (n): async and sgd: the model at which the gradient is taken */
  lac_replica_ask_fn ask;
  void *ask_user;
  int64_t advances; /* begun */
  uint64_t halts;   /* bit k: somebody wants the k-th advance from this one on to end */
  float *offer;     /* (n): what was given to the last exchange */
  float *away;      /* (n): what it gave, as lac_scheme_compare leaves it */
  bool travelling;  /* an exchange has been begun and not finished */
  bool pending;     /* away is not yet used */
  double loss;      /* sums since the means were restarted */
  int64_t batches, errors, points;
};

static lac_status create_vectors(lac_context *context, lac_replica *replica) {
  lac_scheme *scheme = &replica->scheme;
  bool nested = lac_scheme_nested(scheme->options);
  LAC_TRY(LAC_NEW(context, scheme->n, &scheme->x));
  LAC_TRY(LAC_NEW(context, scheme->n, &scheme->d));
  LAC_TRY(LAC_NEW(context, scheme->n, &replica->offer));
  LAC_TRY(LAC_NEW(context, scheme->n, &replica->away));
  if (nested) {
    LAC_TRY(LAC_NEW(context, scheme->n, &scheme->y));
    LAC_TRY(LAC_NEW(context, scheme->n, &scheme->z));
  }
  for (int v = 0; nested && v < lac_optimizer_vectors(&scheme->inner); v++) {
    LAC_TRY(LAC_NEW(context, scheme->n, &scheme->inner_state[v]));
  }
  for (int v = 0; v < lac_optimizer_vectors(&scheme->outer); v++) {
    LAC_TRY(LAC_NEW(context, scheme->n, &scheme->outer_state[v]));
  }
  return LAC_OK;
}

static lac_status create_exchanges(lac_context *context, lac_replica *replica) {
  if (replica->size == 1) {
    return LAC_OK;
  }
  static const lac_exchange_protocol *const protocols[LAC_PROTOCOLS] = {
      [LAC_PROTOCOL_ALLREDUCE] = &lac_exchange_allreduce,
      [LAC_PROTOCOL_PERIODIC] = &lac_exchange_allreduce,
      [LAC_PROTOCOL_SERVER] = &lac_exchange_server,
      [LAC_PROTOCOL_DPSGD] = &lac_exchange_dpsgd,
  };
  static const lac_async_protocol *const asynchronous[LAC_PROTOCOLS] = {
      [LAC_PROTOCOL_ASYNC_SERVER] = &lac_exchange_async_server,
      [LAC_PROTOCOL_ADPSGD] = &lac_exchange_adpsgd,
      [LAC_PROTOCOL_ASYNC_RING] = &lac_exchange_async_ring,
  };
  static const lac_async_protocol *const of_offers[LAC_PROTOCOLS] = {
      [LAC_PROTOCOL_ASYNC_SERVER] = &lac_exchange_offers_at_server,
      [LAC_PROTOCOL_ADPSGD] = &lac_exchange_offers_in_pairs,
      [LAC_PROTOCOL_ASYNC_RING] = &lac_exchange_async_ring,
  };
  int64_t n = replica->scheme.n;
  lac_process *process;
  LAC_TRY(lac_replica_process(context, replica->scheme.options, replica->size, &process));
  replica->protocol = protocols[lac_process_protocol(process)];
  replica->mixes = lac_replica_mixes_models(replica->scheme.options);
  replica->async = (replica->mixes ? asynchronous : of_offers)[lac_process_protocol(process)];
  replica->period = lac_process_period(process);
  replica->slack = (float)lac_process_slack(process);
  lac_status status;
  if (replica->async) {
    LAC_TRY_GOTO(status, lac_async_log_open(context, replica->world, &replica->log), end);
    status = replica->async->create(context, replica->world, n, process, &replica->log, &replica->exchange);
  } else {
    status = replica->protocol->create(context, replica->world, n, LAC_TRAFFIC_MODEL, process, &replica->exchange);
  }
end:
  lac_process_destroy(&process);
  LAC_TRY(status);
  if (replica->async && replica->mixes) {
    LAC_TRY(LAC_NEW(context, n, &replica->read));
  }
  return lac_exchange_allreduce.create(context, replica->world, n, LAC_TRAFFIC_CONTROL, NULL, &replica->answer);
}

/* The scheme's clock runs by the shortest pass, so that it is the same everywhere. */
static lac_status least_batches(lac_context *context, lac_world *world, const lac_objective *objective,
                                int64_t *batches) {
  double least[2] = {(double)objective->batches_per_pass, (double)objective->parameters};
  double most = least[1];
  if (world) {
    LAC_TRY(lac_world_min_f64(world, least, 2));
    LAC_TRY(lac_world_max_f64(world, &most, 1));
  }
  if (least[0] < 1 || least[1] < 1 || least[1] != most) {
    return lac_fail(
        context, LAC_E_USAGE,
        "found replicas of %.0f to %.0f parameters and at least %.0f batches a pass, expected equal numbers "
        "of parameters and at least 1 batch",
        least[1], most, least[0]);
  }
  *batches = (int64_t)least[0];
  return LAC_OK;
}

static lac_status create_in(lac_context *context, lac_replica *replica, const lac_replica_options *options,
                            const float *start) {
  int64_t batches = 0;
  if (replica->world && lac_world_left(replica->world)) {
    return lac_fail(context, LAC_E_USAGE,
                    "replica: found a world in which an earlier one was destroyed with an exchange under way, whose "
                    "messages are still there; expected another world");
  }
  LAC_TRY(least_batches(context, replica->world, &replica->objective, &batches));
  LAC_TRY(lac_replica_check(context, options, replica->size));
  LAC_TRY(lac_scheme_init(context, options, replica->objective.parameters, batches, &replica->scheme));
  LAC_TRY(create_vectors(context, replica));
  LAC_TRY(create_exchanges(context, replica));
  /* the first step of overlapped sgd has no mean to go along: its updates are one less than its steps */
  replica->scheme.late = options->method == LAC_METHOD_SGD && options->overlap && replica->size > 1;
  memcpy(replica->scheme.x, start, (size_t)replica->scheme.n * sizeof *start);
  return LAC_OK;
}

lac_status lac_replica_create(lac_context *context, lac_world *world, const lac_objective *objective,
                              const lac_replica_options *options, const float *start, lac_replica **replica) {
  lac_replica *made;
  *replica = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_replica){.world = world,
                        .objective = *objective,
                        .rank = world ? lac_world_rank(world) : 0,
                        .size = world ? lac_world_size(world) : 1};
  lac_status status = create_in(context, made, options, start);
  if (status) {
    lac_replica_destroy(&made);
    return status;
  }
  *replica = made;
  return LAC_OK;
}

void lac_replica_destroy(lac_replica **replica) {
  lac_replica *old = *replica;
  if (!old) {
    return;
  }
  if (old->travelling) {
    lac_world_leave(old->world);
  }
  lac_exchange_allreduce.destroy(old->answer);
  if (old->protocol) {
    old->protocol->destroy(old->exchange);
  }
  if (old->async) {
    old->async->destroy(old->exchange);
  }
  lac_async_log_close(&old->log);
  lac_free(old->read);
  for (int v = 0; v < LAC_OPTIMIZER_VECTORS; v++) {
    lac_free(old->scheme.inner_state[v]);
    lac_free(old->scheme.outer_state[v]);
  }
  lac_free(old->scheme.x);
  lac_free(old->scheme.y);
  lac_free(old->scheme.z);
  lac_free(old->scheme.d);
  lac_free(old->offer);
  lac_free(old->away);
  lac_free(old);
  *replica = NULL;
}

/* ---- an outer step ---- */

static lac_status one_gradient(lac_context *context, lac_replica *replica, const float *x) {
  lac_scheme *scheme = &replica->scheme;
  lac_batch_result result = {0};
  double start = lac_seconds();
  LAC_TRY(replica->objective.gradient(replica->objective.user, context, scheme->gradients, x, scheme->d, &result));
  lac_profile_add(context, "gradient", lac_seconds() - start, 0, 0, 0);
  if (!isfinite(result.loss)) {
    return lac_fail(context, LAC_E_NUMERICAL,
                    "worker %d: the loss of gradient %lld, in outer step %lld, is %g; a smaller learning rate may help",
                    replica->rank, (long long)scheme->gradients + 1, (long long)scheme->step + 1, result.loss);
  }
  replica->loss += result.loss;
  replica->batches++;
  replica->errors += result.errors;
  replica->points += result.points;
  return LAC_OK;
}

static lac_status compute(lac_context *context, lac_replica *replica) {
  do {
    LAC_TRY(one_gradient(context, replica, lac_scheme_point(&replica->scheme)));
    LAC_TRY(lac_replica_serve(context, replica));
  } while (!lac_scheme_take(&replica->scheme));
  return LAC_OK;
}

static lac_status finish_exchange(lac_context *context, lac_replica *replica) {
  if (replica->travelling) {
    double start = lac_seconds();
    LAC_TRY(replica->protocol->finish(context, replica->exchange, replica->away));
    lac_scheme_compare(&replica->scheme, replica->offer, replica->away);
    for (int64_t i = 0; replica->slack < 1 && !replica->mixes && i < replica->scheme.n; i++) {
      replica->away[i] *= replica->slack; /* offer - (slack mean + (1 - slack) offer) */
    }
    lac_profile_add(context, "exchange wait", lac_seconds() - start, 0, 0, 0);
    replica->travelling = false;
    replica->pending = true;
  }
  return LAC_OK;
}

/* The mixing of outer step `step`. */
static lac_status begin_exchange(lac_context *context, lac_replica *replica, int64_t step) {
  int64_t round = (step + 1) / replica->period - 1;
  LAC_TRY(replica->protocol->begin(context, replica->exchange, round, replica->offer));
  replica->travelling = true;
  return LAC_OK;
}

/* Whether replicas mix in this outer step. */
static bool mixing_step(const lac_replica *replica) {
  return replica->size > 1 && (replica->scheme.step + 1) % replica->period == 0;
}

static void go_to_what_it_gave(lac_replica *replica) {
  float *x = replica->scheme.x;
  if (replica->slack >= 1) {
    memcpy(x, replica->away, (size_t)replica->scheme.n * sizeof *x);
  } else {
    lac_slack_step(replica->scheme.n, replica->slack, replica->away, x, &replica->log.tally);
  }
}

/* X <- W X + U: models travel while the gradient is computed, at the model as it was before. */
static lac_status step_of_models(lac_context *context, lac_replica *replica) {
  lac_scheme *scheme = &replica->scheme;
  bool mixing = mixing_step(replica);
  int64_t step = scheme->step;
  if (mixing) {
    memcpy(replica->offer, scheme->x, (size_t)scheme->n * sizeof *scheme->x);
    LAC_TRY(begin_exchange(context, replica, step));
  }
  LAC_TRY(compute(context, replica));
  if (mixing) {
    LAC_TRY(finish_exchange(context, replica));
    go_to_what_it_gave(replica);
  }
  lac_scheme_update_alone(scheme);
  replica->pending = false;
  return LAC_OK;
}

/* ---- without rounds ---- */

/* The gradient is taken at the model as it was; peers may mix the model meanwhile. */
static lac_status step_of_one(lac_context *context, lac_replica *replica) {
  lac_scheme *scheme = &replica->scheme;
  bool mixing = mixing_step(replica);
  int64_t updates = scheme->step + 1;
  replica->log.updates = updates - 1;
  replica->log.before_gradient = lac_async_noted(&replica->log);
  memcpy(replica->read, scheme->x, (size_t)scheme->n * sizeof *scheme->x);
  LAC_TRY(one_gradient(context, replica, replica->read));
  scheme->gradients++;
  LAC_TRY(replica->async->serve(context, replica->exchange, scheme->x));
  double start = lac_seconds();
  replica->log.updates = updates;
  if (mixing) {
    LAC_TRY(replica->async->before(context, replica->exchange, updates, scheme->x));
  }
  lac_scheme_update_alone(scheme);
  if (mixing) {
    LAC_TRY(replica->async->after(context, replica->exchange, updates, scheme->x));
  }
  lac_profile_add(context, "exchange", lac_seconds() - start, 0, 0, 0);
  return LAC_OK;
}

/* elastic and parle are drawn to what is made of their offers and the copies of their neighbours'. */
static lac_status step_of_offers(lac_context *context, lac_replica *replica) {
  lac_scheme *scheme = &replica->scheme;
  LAC_TRY(compute(context, replica));
  if (!mixing_step(replica)) {
    lac_scheme_update(scheme, NULL);
    return LAC_OK;
  }
  int64_t updates = scheme->step + 1;
  replica->log.updates = updates;
  float *offer = replica->offer, *away = replica->away;
  memcpy(offer, lac_scheme_offer(scheme), (size_t)scheme->n * sizeof *offer);
  memcpy(away, offer, (size_t)scheme->n * sizeof *offer);
  LAC_TRY(replica->async->after(context, replica->exchange, updates, offer));
  LAC_TRY(replica->async->before(context, replica->exchange, updates, away));
  lac_scheme_compare(scheme, offer, away);
  lac_scheme_update(scheme, away);
  return LAC_OK;
}

/* Of which advance the word is: of an earlier one it does not count; one of a later one, from a worker that is ahead,
 * is kept until then. */
static void note_halt(lac_replica *replica, const lac_message *message) {
  int64_t advance = 0;
  memcpy(&advance, message->data, message->bytes < sizeof advance ? message->bytes : sizeof advance);
  int64_t ahead = advance - replica->advances;
  if (ahead >= 0) {
    replica->halts |= UINT64_C(1) << (ahead < 63 ? ahead : 63);
  }
}

/* Whether this worker or another wants the advance to end. */
static lac_status halted(lac_context *context, lac_replica *replica, bool *halt) {
  (void)context;
  *halt = replica->ask && replica->ask(replica->ask_user);
  for (int other = 0; *halt && other < replica->size; other++) {
    if (other != replica->rank) {
      LAC_TRY(lac_world_send_tagged(replica->world, other, LAC_TAG_HALT, &replica->advances, sizeof replica->advances,
                                    LAC_TRAFFIC_CONTROL));
    }
  }
  for (bool found = true; found;) {
    lac_message message;
    LAC_TRY(lac_world_poll_tagged(replica->world, LAC_ANY_WORKER, LAC_TAG_HALT, &message, &found));
    if (found) {
      note_halt(replica, &message);
      free(message.data);
    }
  }
  *halt = *halt || (replica->halts & 1) != 0;
  return LAC_OK;
}

static lac_status advance_alone(lac_context *context, lac_replica *replica, int64_t steps) {
  bool halt = false;
  replica->advances++;
  replica->halts >>= 1;
  LAC_TRY(replica->async->start(context, replica->exchange, replica->scheme.x));
  for (int64_t step = 0; step < steps && !halt; step++) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    LAC_TRY(halted(context, replica, &halt));
    if (!halt) {
      LAC_TRY(replica->mixes ? step_of_one(context, replica) : step_of_offers(context, replica));
    }
  }
  return replica->async->settle(context, replica->exchange, replica->scheme.x);
}

lac_status lac_replica_serve(lac_context *context, lac_replica *replica) {
  if (replica->async) {
    return replica->async->serve(context, replica->exchange, replica->scheme.x);
  }
  return replica->travelling ? replica->protocol->poll(context, replica->exchange) : LAC_OK;
}

void lac_replica_ask(lac_replica *replica, lac_replica_ask_fn ask, void *user) {
  replica->ask = ask;
  replica->ask_user = user;
}

lac_replica_history lac_replica_history_of(const lac_replica *replica) {
  lac_replica_history history = {.count = replica->log.count,
                                 .dropped = replica->log.dropped,
                                 .event = replica->log.event,
                                 .refused = replica->log.refused};
  memcpy(history.stale, replica->log.stale, sizeof history.stale);
  return history;
}

lac_status lac_replica_observe(lac_context *context, lac_replica *replica, lac_mixing_time *time) {
  if (replica->async) {
    return lac_observe_record(context, replica->world, replica->scheme.options, &replica->log, time);
  }
  if (!replica->timed && replica->size > 1) {
    LAC_TRY(lac_observe_process(context, replica->world, replica->scheme.options, &replica->mixing));
  } else if (!replica->timed) {
    replica->mixing = (lac_mixing_time){.kind = LAC_MIXING_EXACT, .spectral_gap = 1};
  }
  replica->timed = true;
  *time = replica->mixing;
  return LAC_OK;
}

/* ---- in rounds ---- */

static lac_status outer_step(lac_context *context, lac_replica *replica) {
  if (replica->mixes) {
    return step_of_models(context, replica);
  }
  LAC_TRY(compute(context, replica));
  lac_scheme *scheme = &replica->scheme;
  int64_t step = scheme->step;
  if (replica->size == 1) {
    memcpy(replica->away, lac_scheme_offer(scheme), (size_t)scheme->n * sizeof *replica->away);
    lac_scheme_compare(scheme, lac_scheme_offer(scheme), replica->away);
    lac_scheme_update(scheme, replica->away);
  } else if (!mixing_step(replica)) { /* W is the identity: nothing is away from what it is drawn to */
    lac_scheme_update(scheme, NULL);
    return LAC_OK; /* a mean that has come already is for the next mixing */
  } else if (scheme->options->overlap) {
    LAC_TRY(finish_exchange(context, replica)); /* that of the step before; what x moves along is offered first */
    memcpy(replica->offer, lac_scheme_offer(scheme), (size_t)scheme->n * sizeof *replica->offer);
    lac_scheme_update(scheme, replica->pending ? replica->away : NULL);
    LAC_TRY(begin_exchange(context, replica, step));
  } else {
    memcpy(replica->offer, lac_scheme_offer(scheme), (size_t)scheme->n * sizeof *replica->offer);
    LAC_TRY(begin_exchange(context, replica, step));
    LAC_TRY(finish_exchange(context, replica));
    lac_scheme_update(scheme, replica->away);
  }
  replica->pending = false;
  return LAC_OK;
}

lac_status lac_replica_advance(lac_context *context, lac_replica *replica, int64_t steps) {
  if (replica->async) {
    return advance_alone(context, replica, steps);
  }
  for (int64_t step = 0; step < steps; step++) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    LAC_TRY(outer_step(context, replica));
  }
  return LAC_OK;
}

/* ---- what is known of it ---- */

lac_replica_progress lac_replica_progress_of(const lac_replica *replica) {
  lac_slack_tally tally = replica->log.tally;
  const lac_scheme *scheme = &replica->scheme;
  double batches = (double)scheme->batches_per_pass;
  return (lac_replica_progress){.step = scheme->step,
                                .steps = (int64_t)ceil(scheme->options->epochs * batches - 1e-9),
                                .gradients = scheme->gradients,
                                .epochs = (double)scheme->step / batches,
                                .passes = (double)scheme->gradients / batches,
                                .learning_rate = lac_scheme_rate(scheme),
                                .g = lac_scheme_g(scheme),
                                .r = lac_scheme_r(scheme),
                                .loss = replica->batches > 0 ? replica->loss / (double)replica->batches : (double)NAN,
                                .errors = replica->errors,
                                .points = replica->points,
                                .lost = tally.moves > 0 ? (double)tally.lost / (double)tally.moves : 0};
}

void lac_replica_restart_means(lac_replica *replica) {
  replica->loss = 0;
  replica->batches = replica->errors = replica->points = 0;
  replica->log.tally = (lac_slack_tally){0};
}

int64_t lac_replica_batches_per_pass(const lac_replica *replica) {
  return replica->scheme.batches_per_pass;
}

const float *lac_replica_own(const lac_replica *replica) {
  return replica->scheme.x;
}

lac_status lac_replica_answer(lac_context *context, lac_replica *replica, float *mean) {
  if (replica->size == 1) {
    memcpy(mean, replica->scheme.x, (size_t)replica->scheme.n * sizeof *mean);
    return LAC_OK;
  }
  LAC_TRY(lac_exchange_allreduce.begin(context, replica->answer, 0, replica->scheme.x));
  return lac_exchange_allreduce.finish(context, replica->answer, mean);
}

lac_status lac_replica_spread(lac_context *context, lac_replica *replica, const float *mean, double *spread) {
  (void)context;
  double away = 0, norm = 0;
  for (int64_t i = 0; i < replica->scheme.n; i++) {
    double own = (double)mean[i], difference = (double)replica->scheme.x[i] - own;
    away += difference * difference;
    norm += own * own;
  }
  if (replica->world) {
    LAC_TRY(lac_world_sum_f64(replica->world, &away, 1));
  }
  *spread = norm > 0 ? sqrt(away / (double)replica->size / norm) : 0;
  return LAC_OK;
}

/* ---- the state ---- */

static void add_vector(lac_replica_state *state, const char *name, float *vector) {
  if (vector) {
    state->names[state->count] = name;
    state->vectors[state->count++] = vector;
  }
}

lac_status lac_replica_state_of(lac_context *context, lac_replica *replica, lac_replica_state *state) {
  static const char *const inner[LAC_OPTIMIZER_VECTORS] = {"inner.0", "inner.1", "inner.2"};
  static const char *const outer[LAC_OPTIMIZER_VECTORS] = {"outer.0", "outer.1", "outer.2"};
  LAC_TRY(finish_exchange(context, replica));
  lac_scheme *scheme = &replica->scheme;
  *state = (lac_replica_state){.parameters = scheme->n,
                               .step = scheme->step,
                               .gradients = scheme->gradients,
                               .pending = replica->pending,
                               .loss = replica->loss,
                               .batches = replica->batches,
                               .errors = replica->errors,
                               .points = replica->points};
  add_vector(state, "x", scheme->x);
  for (int v = 0; v < LAC_OPTIMIZER_VECTORS; v++) {
    add_vector(state, inner[v], scheme->inner_state[v]);
  }
  for (int v = 0; v < LAC_OPTIMIZER_VECTORS; v++) {
    add_vector(state, outer[v], scheme->outer_state[v]);
  }
  add_vector(state, "pending", replica->away);
  return LAC_OK;
}

void lac_replica_restore(lac_replica *replica, const lac_replica_state *state) {
  replica->scheme.step = state->step;
  replica->scheme.gradients = state->gradients;
  replica->pending = state->pending;
  replica->loss = state->loss;
  replica->batches = state->batches;
  replica->errors = state->errors;
  replica->points = state->points;
}
