/* The trainer itself, with gradients that are 0 and take their time on a simulated clock.
 *
 * Bounds: memory. A gradient streams the trainer's vectors, some 44 bytes a parameter, and an exchange the vectors that
 * it sends; on the back end sim one core does that for all workers. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "plan/exchange.h"

typedef struct rehearsal {
  const lac_replica_plan *plan;
  const float *start;     /* (n) zeros */
  int64_t warm_up, steps; /* outer steps that are made first, and that are measured */
  int slices;             /* of a gradient */
  lac_plan result;        /* worker 0's */
} rehearsal;

typedef struct actor {
  rehearsal *of;
  lac_world *world;
  lac_replica *replica;
  double last;  /* when the newest outer step was made, without rounds */
  double until; /* when it is to end, whoever has made his steps */
} actor;

static lac_status gradient(void *user, lac_context *context, int64_t step, const float *x, float *out,
                           lac_batch_result *result) {
  (void)step;
  (void)x;
  actor *a = user;
  const lac_replica_job *job = a->of->plan->job;
  for (int slice = 0; slice < a->of->slices; slice++) {
    lac_world_spend(a->world, job->gradient / a->of->slices);
    LAC_TRY(lac_replica_serve(context, a->replica));
  }
  if (job->update > 0) {
    lac_world_spend(a->world, job->update);
  }
  memset(out, 0, (size_t)job->parameters * sizeof *out);
  *result = (lac_batch_result){.points = 1};
  return LAC_OK;
}

/* Called before every step without rounds. The first to have made its steps ends it for all, so that all are at work
 * all the time. */
static bool ask(void *user) {
  actor *a = user;
  a->last = lac_world_now(a->world);
  return lac_replica_progress_of(a->replica).step >= a->of->steps || a->last >= a->until;
}

/* What a worker did while it was measured; then of all together. */
typedef struct tally {
  double rate;      /* outer steps a second of its clock */
  double computing; /* share of its time */
  double steps, messages, bytes;
  double most_bytes;
  double begin, end;
} tally;

static lac_status measure(lac_context *context, actor *a, tally *t) {
  const rehearsal *of = a->of;
  bool alone = of->plan->asynchronous;
  lac_counts before = lac_world_counts(a->world);
  int64_t first = lac_replica_progress_of(a->replica).step;
  t->begin = lac_world_now(a->world);
  a->until = t->begin + (double)of->steps * of->plan->inner * of->plan->fastest;
  if (of->plan->protocol != LAC_PROTOCOL_ASYNC_RING) { /* there a word would come late, behind what is being sent */
    a->until = HUGE_VAL;
  }
  LAC_TRY(lac_replica_advance(context, a->replica, of->steps + alone)); /* ended by ask */
  t->end = lac_world_now(a->world);
  lac_counts after = lac_world_counts(a->world);
  double end = alone ? a->last : t->end;
  if (of->plan->protocol == LAC_PROTOCOL_ASYNC_RING) { /* nobody waits: it is over when the last model has come */
    end = t->end;
    LAC_TRY(lac_world_max_f64(a->world, &end, 1));
  }
  t->steps = (double)(lac_replica_progress_of(a->replica).step - first);
  t->rate = t->steps / (end - t->begin);
  t->computing = t->rate * of->plan->inner * of->plan->gradient[lac_world_rank(a->world)];
  t->messages = (double)(after.messages[LAC_TRAFFIC_MODEL] - before.messages[LAC_TRAFFIC_MODEL]);
  t->bytes = t->most_bytes = (double)(after.bytes[LAC_TRAFFIC_MODEL] - before.bytes[LAC_TRAFFIC_MODEL]);
  return LAC_OK;
}

static lac_status add_up(lac_world *world, tally *t) {
  double sums[5] = {t->rate, t->computing, t->steps, t->messages, t->bytes};
  double most[3] = {t->most_bytes, t->begin, t->end};
  LAC_TRY(lac_world_sum_f64(world, sums, 5));
  LAC_TRY(lac_world_max_f64(world, most, 3));
  *t = (tally){sums[0], sums[1], sums[2], sums[3], sums[4], most[0], most[1], most[2]};
  return LAC_OK;
}

/* From what was measured to the whole job. */
static void scale(const lac_replica_plan *plan, const tally *t, lac_plan *result) {
  double n = plan->workers, gradients = plan->job->gradients, steps = gradients / plan->inner;
  lac_plan_seconds *s = &result->seconds;
  if (plan->asynchronous) {
    s->total = n * steps / t->rate;
    s->w = s->total * t->computing / n;
  } else {
    s->total = steps * (t->end - t->begin) / (t->steps / n);
    s->w = gradients * plan->mean;
    s->waiting = fmin(gradients * (plan->slowest - plan->mean), fmax(s->total - s->w, 0));
  }
  s->communication = fmax(s->total - s->w - s->waiting, 0);
  double part = n * steps / t->steps;
  result->messages = part * t->messages;
  result->bytes = part * t->bytes;
  result->link_bytes = part * t->most_bytes;
  result->memory = lac_replica_plan_memory(plan);
  lac_replica_plan_rate(plan, result);
}

static lac_status act(lac_context *context, actor *a, tally *t) {
  const rehearsal *of = a->of;
  const lac_replica_job *job = of->plan->job;
  lac_objective objective = {.parameters = job->parameters, .batches_per_pass = 1000, .gradient = gradient, .user = a};
  LAC_TRY(lac_replica_create(context, a->world, &objective, job->options, of->start, &a->replica));
  LAC_TRY(lac_world_barrier(a->world));
  if (of->plan->asynchronous) {
    lac_replica_ask(a->replica, ask, a);
  } else {
    LAC_TRY(lac_replica_advance(context, a->replica, of->warm_up));
  }
  LAC_TRY(measure(context, a, t));
  return add_up(a->world, t);
}

static lac_status body(lac_world *world, void *argument) {
  actor a = {.of = argument, .world = world};
  tally t = {0};
  lac_status status = act(lac_world_context(world), &a, &t);
  lac_replica_destroy(&a.replica);
  if (!status && lac_world_rank(world) == 0) {
    scale(a.of->plan, &t, &a.of->result);
  }
  return status;
}

/* In a world that is there, worker 0's result goes to all. */
static lac_status rehearse_here(lac_context *context, lac_world *world, rehearsal *of) {
  if (lac_world_size(world) != of->plan->workers) {
    return lac_fail(context, LAC_E_USAGE, "workers: found %d, expected the %d of this world", of->plan->workers,
                    lac_world_size(world));
  }
  if (strcmp(lac_world_backend(world), "sim") != 0 && !lac_world_smpi()) {
    return lac_fail(context, LAC_E_USAGE, "back end: found %s, expected one whose clock is simulated",
                    lac_world_backend(world));
  }
  LAC_TRY(body(world, of));
  return lac_world_broadcast(world, 0, &of->result, sizeof of->result);
}

static lac_status rehearse(lac_context *context, lac_world *world, rehearsal *of, int64_t gradients) {
  const lac_replica_plan *plan = of->plan;
  int64_t period = (int64_t)plan->period, inner = (int64_t)plan->inner;
  int64_t steps = (gradients + inner - 1) / inner;
  float *start;
  of->warm_up = 2 * period; /* the first mean travels in the second */
  of->steps = (steps + period - 1) / period * period;
  /* who waits for rounds looks at nothing in between */
  of->slices = plan->asynchronous || plan->cluster->jitter > 0 ? LAC_PLAN_LOOKS : 1;
  LAC_TRY(LAC_NEW(context, plan->job->parameters, &start));
  of->start = start;
  lac_world_options options = {.backend = "sim", .workers = plan->workers, .cluster = plan->cluster};
  lac_status status = world ? rehearse_here(context, world, of) : lac_world_run(context, &options, body, of);
  lac_free(start);
  return status;
}

lac_status lac_plan_rehearse_replicas(lac_context *context, const lac_replica_job *job, const lac_cluster *cluster,
                                      lac_world *world, int workers, int64_t gradients, lac_plan *plan) {
  lac_replica_plan all;
  *plan = (lac_plan){0};
  lac_status status = lac_replica_plan_open(context, job, cluster, workers, &all);
  if (!status && gradients < 1) {
    status =
        lac_fail(context, LAC_E_USAGE, "gradients to rehearse: found %lld, expected at least 1", (long long)gradients);
  }
  if (!status) {
    rehearsal of = {.plan = &all};
    status = rehearse(context, world, &of, gradients);
    *plan = of.result;
  }
  lac_replica_plan_close(&all);
  return status;
}
