/* The trainer itself, in two ways: rehearsed, with gradients that are 0 and take their time on a simulated clock, or
 * really, with those of a network on a drawn batch.
 *
 * Bounds: of a rehearsal memory. A gradient streams the trainer's vectors, some 44 bytes a parameter, and an exchange
 * the vectors that it sends; on the back end sim one core does that for all workers. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "plan/calibration.h"
#include "plan/exchange.h"
#include "plan/within.h"

enum { MOST_GRADIENTS = 1000000000, ENOUGH_MIXINGS = 20 };

typedef struct run {
  const lac_replica_plan *plan;
  const lac_plan_network *network; /* NULL: a rehearsal */
  float *start;                    /* (n) */
  int64_t warm_up, steps;          /* outer steps that are made first, and that are measured */
  int slices;                      /* of a rehearsed gradient */
  lac_plan result;                 /* worker 0's */
  lac_link *links;                 /* (workers): worker 0's */
} run;

/* What a worker had done when it began to be measured. */
typedef struct mark {
  int64_t step;
  double time, computed; /* of the world's clock, of the thread */
  lac_counts counts;
} mark;

typedef struct actor {
  run *of;
  lac_world *world;
  lac_replica *replica;
  mark start, begin; /* of all steps, and behind the warm-up */
  double last;       /* when the newest outer step was made, without rounds */
  double until;      /* when it is to end, whoever has made his steps */
  lac_net *net;      /* of a real run */
  lac_drawn_batch batch;
} actor;

/* ---- gradients ---- */

static lac_status rehearsed_gradient(void *user, lac_context *context, int64_t step, const float *x, float *out,
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

static lac_status serve(void *user, lac_context *context) {
  actor *a = user;
  return lac_replica_serve(context, a->replica);
}

static lac_status real_gradient(void *user, lac_context *context, int64_t step, const float *x, float *out,
                                lac_batch_result *result) {
  actor *a = user;
  *result = (lac_batch_result){.points = lac_net_batch(a->net)};
  return lac_net_gradient(context, a->net, x, a->batch.pictures, a->batch.labels, (lac_net_key){.step = step}, out,
                          &result->loss, &result->errors);
}

static lac_status make_network(lac_context *context, const lac_plan_network *network, lac_net **net) {
  return lac_net_create(context, network->layers, network->name, network->shape, network->classes, network->batch,
                        network->options, net);
}

/* ---- a worker's part ---- */

static mark mark_now(const actor *a) {
  return (mark){.step = lac_replica_progress_of(a->replica).step,
                .time = lac_world_now(a->world),
                .computed = lac_thread_seconds(),
                .counts = lac_world_counts(a->world)};
}

/* Called before every step without rounds, and so at the end of the one before. Steps are measured once a worker has
 * made its warm-up. The first to have made all its steps ends it for everybody, so that all are at work all the time.
 */
static bool ask(void *user) {
  actor *a = user;
  int64_t step = lac_replica_progress_of(a->replica).step;
  a->last = lac_world_now(a->world);
  if (step == a->of->warm_up) {
    a->begin = mark_now(a);
    if (a->of->plan->protocol == LAC_PROTOCOL_ASYNC_RING && !a->of->network) {
      /* there a word would come late, behind what is being sent */
      a->until = a->last + (double)a->of->steps * a->of->plan->inner * a->of->plan->fastest;
    }
  }
  return step >= a->of->warm_up + a->of->steps || a->last >= a->until;
}

/* What a worker did while it was measured; then of all together. */
typedef struct tally {
  double rate;      /* outer steps a second of its clock */
  double computing; /* share of its time */
  double steps, messages, bytes;
  double begin, end;
} tally;

static lac_status measure(lac_context *context, actor *a, tally *t) {
  const run *of = a->of;
  bool alone = of->plan->asynchronous;
  a->until = HUGE_VAL;
  a->start = a->begin = mark_now(a);
  if (alone) { /* ended by ask */
    LAC_TRY(lac_replica_advance(context, a->replica, of->warm_up + of->steps + 1));
  } else {
    LAC_TRY(lac_replica_advance(context, a->replica, of->warm_up));
    a->begin = mark_now(a);
    LAC_TRY(lac_replica_advance(context, a->replica, of->steps));
  }
  if (lac_replica_progress_of(a->replica).step == a->begin.step) { /* a slow one, ended by others in its warm-up */
    a->begin = a->start;
  }
  double computed = lac_thread_seconds() - a->begin.computed;
  t->begin = a->begin.time;
  t->end = lac_world_now(a->world);
  lac_link sent = lac_link_since(a->world, &a->begin.counts, 1);
  double own = (alone ? a->last : t->end) - t->begin;
  if (of->plan->protocol == LAC_PROTOCOL_ASYNC_RING) { /* nobody waits: it is over when the last model has come */
    double ends[3] = {-t->begin, a->last, t->end};
    LAC_TRY(lac_world_max_f64(a->world, ends, 3));
    own *= (ends[2] + ends[0]) / (ends[1] + ends[0]);
  }
  t->steps = (double)(lac_replica_progress_of(a->replica).step - a->begin.step);
  t->rate = t->steps / own;
  t->computing = of->network ? computed / (t->end - t->begin)
                             : t->rate * of->plan->inner * of->plan->gradient[lac_world_rank(a->world)];
  t->messages = sent.messages;
  t->bytes = sent.bytes;
  return LAC_OK;
}

static lac_status add_up(lac_world *world, tally *t) {
  double sums[5] = {t->rate, t->computing, t->steps, t->messages, t->bytes};
  double most[2] = {t->begin, t->end};
  LAC_TRY(lac_world_sum_f64(world, sums, 5));
  LAC_TRY(lac_world_max_f64(world, most, 2));
  *t = (tally){sums[0], sums[1], sums[2], sums[3], sums[4], most[0], most[1]};
  return LAC_OK;
}

/* From what was measured to the whole job; links (workers) are counts until then. */
static void scale(const run *of, const tally *t, lac_plan *result, lac_link *links) {
  const lac_replica_plan *plan = of->plan;
  double n = plan->workers, gradients = plan->job->gradients, steps = gradients / plan->inner;
  lac_plan_seconds *s = &result->seconds;
  s->total = plan->asynchronous ? n * steps / t->rate : steps * (t->end - t->begin) / (t->steps / n);
  if (plan->asynchronous || of->network) {
    s->w = s->total * fmin(t->computing / n, 1);
  } else {
    s->w = gradients * plan->mean;
    s->waiting = fmin(gradients * (plan->slowest - plan->mean), fmax(s->total - s->w, 0));
  }
  if (of->network) { /* for messages, for others, for a processor that others want */
    s->waiting = s->total - s->w;
  }
  s->communication = fmax(s->total - s->w - s->waiting, 0);
  double part = n * steps / t->steps;
  result->messages = part * t->messages;
  result->bytes = part * t->bytes;
  for (int i = 0; i < plan->workers; i++) {
    links[i] = (lac_link){part * links[i].messages, part * links[i].bytes};
  }
  result->memory = lac_replica_plan_memory(plan);
  if (of->network) {
    result->workers = plan->workers;
  } else {
    lac_replica_plan_rate(plan, result);
  }
}

static lac_status act(lac_context *context, actor *a, tally *t, lac_link *links) {
  const run *of = a->of;
  const lac_replica_job *job = of->plan->job;
  lac_objective objective = {.parameters = job->parameters,
                             .batches_per_pass = 1000,
                             .gradient = of->network ? real_gradient : rehearsed_gradient,
                             .user = a};
  if (of->network) {
    LAC_TRY(make_network(context, of->network, &a->net));
    LAC_TRY(lac_draw_batch(context, a->net, &a->batch));
  }
  LAC_TRY(lac_replica_create(context, a->world, &objective, job->options, of->start, &a->replica));
  if (a->net) {
    lac_net_set_pause(a->net, serve, a);
  }
  LAC_TRY(lac_world_barrier(a->world));
  if (of->plan->asynchronous) {
    lac_replica_ask(a->replica, ask, a);
  }
  LAC_TRY(measure(context, a, t));
  LAC_TRY(lac_links_gather(a->world, (lac_link){t->messages, t->bytes}, links));
  return add_up(a->world, t);
}

static lac_status body(lac_world *world, void *argument) {
  actor a = {.of = argument, .world = world};
  lac_context *context = lac_world_context(world);
  tally t = {0};
  lac_link *links;
  LAC_TRY(LAC_NEW(context, lac_world_size(world), &links));
  lac_status status = act(context, &a, &t, links);
  lac_replica_destroy(&a.replica);
  lac_net_destroy(&a.net);
  lac_drawn_batch_clear(&a.batch);
  if (!status && lac_world_rank(world) == 0) {
    scale(a.of, &t, &a.of->result, links);
    memcpy(a.of->links, links, (size_t)lac_world_size(world) * sizeof *links);
  }
  lac_free(links);
  return status;
}

/* ---- the whole ---- */

/* In a world that is there, worker 0's result goes to all. */
static lac_status run_here(lac_context *context, lac_world *world, run *of) {
  int workers = of->plan->workers;
  LAC_TRY(lac_check_within(context, world, workers));
  LAC_TRY(body(world, of));
  LAC_TRY(lac_world_broadcast(world, 0, &of->result, sizeof of->result));
  return lac_world_broadcast(world, 0, of->links, (size_t)workers * sizeof *of->links);
}

/* A real network begins where it is told to, a rehearsal at zeros. */
static lac_status initialise(lac_context *context, run *of) {
  int64_t parameters = of->plan->job->parameters;
  lac_net *net = NULL;
  float *statistics = NULL;
  lac_status status;
  LAC_TRY(LAC_NEW(context, parameters, &of->start));
  if (!of->network) {
    return LAC_OK;
  }
  LAC_TRY(make_network(context, of->network, &net));
  if (lac_net_parameters(net) != parameters) {
    status = lac_fail(context, LAC_E_USAGE, "parameters: found %lld, expected the %lld of %s", (long long)parameters,
                      (long long)lac_net_parameters(net), of->network->name);
  } else {
    status = LAC_NEW(context, lac_net_statistics(net), &statistics);
  }
  if (!status) {
    lac_net_initialise(net, 0, of->start, statistics);
  }
  lac_free(statistics);
  lac_net_destroy(&net);
  return status;
}

/* Outer steps that are made first, and that are measured. */
static void set_length(const lac_replica_plan *plan, int64_t gradients, int64_t *warm_up, int64_t *steps) {
  int64_t period = (int64_t)plan->period, inner = (int64_t)plan->inner;
  *warm_up = 2 * period; /* the first mean travels in the second */
  *steps = ((gradients + inner - 1) / inner + period - 1) / period * period;
  if (plan->asynchronous && *steps < ENOUGH_MIXINGS * period) { /* until those who meet by chance are mixed */
    *steps = ENOUGH_MIXINGS * period;
  }
}

lac_status lac_plan_trial_gradients(lac_context *context, const lac_replica_job *job, int workers, int64_t gradients,
                                    double *made) {
  static const lac_cluster any = {0};
  lac_replica_plan plan;
  *made = 0;
  lac_status status = lac_replica_plan_open(context, job, &any, workers, &plan);
  if (!status) {
    int64_t warm_up, steps;
    set_length(&plan, gradients, &warm_up, &steps);
    *made = (double)(warm_up + steps) * plan.inner;
  }
  lac_replica_plan_close(&plan);
  return status;
}

static lac_status run_plan(lac_context *context, lac_world *world, run *of, int64_t gradients) {
  const lac_replica_plan *plan = of->plan;
  set_length(plan, gradients, &of->warm_up, &of->steps);
  bool under_way = plan->workers > 1 && (plan->mixes || plan->job->options->overlap);
  /* who waits for rounds looks at nothing in between */
  of->slices = plan->asynchronous || under_way || plan->cluster->jitter > 0 ? LAC_PLAN_LOOKS : 1;
  lac_world_options options = {.backend = of->network ? "local" : "sim",
                               .workers = plan->workers,
                               .timeout_ms = LAC_PATIENCE_MS,
                               .cluster = plan->cluster};
  lac_status status = initialise(context, of);
  if (!status) {
    status = LAC_NEW(context, plan->workers, &of->links);
  }
  if (!status) {
    status = world ? run_here(context, world, of) : lac_world_run(context, &options, body, of);
  }
  return status;
}

static lac_status run_job(lac_context *context, const lac_replica_job *job, const lac_cluster *cluster,
                          const lac_plan_network *network, lac_world *world, int workers, int64_t gradients,
                          lac_plan *plan, lac_link *links) {
  lac_replica_plan all;
  *plan = (lac_plan){0};
  lac_status status = lac_replica_plan_open(context, job, cluster, workers, &all);
  if (!status && (gradients < 1 || gradients > MOST_GRADIENTS)) {
    status = lac_fail(context, LAC_E_USAGE, "gradients to make: found %lld, expected 1 to %d", (long long)gradients,
                      MOST_GRADIENTS);
  }
  if (!status) {
    run of = {.plan = &all, .network = network};
    status = run_plan(context, world, &of, gradients);
    if (!status) {
      *plan = of.result;
      lac_links_take(of.links, workers, plan, links);
    }
    lac_free(of.start);
    lac_free(of.links);
  }
  lac_replica_plan_close(&all);
  return status;
}

lac_status lac_plan_rehearse_replicas(lac_context *context, const lac_replica_job *job, const lac_cluster *cluster,
                                      lac_world *world, int workers, int64_t gradients, lac_plan *plan,
                                      lac_link *links) {
  return run_job(context, job, cluster, NULL, world, workers, gradients, plan, links);
}

/* As pictures and labels have nothing to do with each other, steps are so small that no loss can leave the numbers. */
lac_status lac_plan_real_replicas(lac_context *context, const lac_replica_job *job, const lac_plan_network *network,
                                  int workers, int64_t gradients, lac_plan *plan, lac_link *links) {
  static const lac_cluster here = {0};
  lac_replica_options options = *job->options;
  lac_replica_job mine = *job;
  options.learning_rate = 1e-6;
  mine.options = &options;
  return run_job(context, &mine, &here, network, NULL, workers, gradients, plan, links);
}
