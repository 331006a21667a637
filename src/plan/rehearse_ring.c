/* The engine of MAC over a problem that computes nothing: its messages are of the right sizes and go the right ways,
 * and its costs are spent on the world's clock. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "plan/ring.h"
#include "plan/within.h"

enum { MOST_ITERATIONS = 1000000 };

typedef struct lac_rehearsal {
  const lac_ring_job *job;
  const lac_cluster *cluster;
  const int64_t *shares;
  int64_t iterations;
  lac_plan plan;   /* worker 0's */
  lac_link *links; /* (workers): worker 0's */
} lac_rehearsal;

/* A worker's part. */
typedef struct lac_rehearsed {
  const lac_ring_job *job;
  int64_t points;
  double w;           /* seconds spent in W steps on a machine of speed 1 */
  double first, last; /* elapsed at the end of the first iteration and of the newest */
} lac_rehearsed;

static int64_t points(const void *shard) {
  return ((const lac_rehearsed *)shard)->points;
}

static size_t submodel_bytes(const void *shard, int64_t m) {
  const lac_ring_job *job = ((const lac_rehearsed *)shard)->job;
  double bytes = job->bytes[m % job->costs.kinds] - LAC_MAC_ENVELOPE;
  return bytes > 0 ? (size_t)bytes : 0;
}

static lac_status w_begin(void *shard, lac_context *context, int64_t iteration) {
  lac_rehearsed *self = shard;
  (void)context;
  (void)iteration;
  self->w += self->job->costs.begin * (double)self->points;
  return LAC_OK;
}

static lac_status pack(void *shard, lac_context *context, int64_t m, void *state) {
  (void)shard;
  (void)context;
  (void)m;
  (void)state; /* zeros */
  return LAC_OK;
}

static lac_status train(void *shard, lac_context *context, int64_t count, const int64_t *ids, const int64_t *visits,
                        int64_t passes, void *const *states) {
  lac_rehearsed *self = shard;
  (void)context;
  (void)visits;
  (void)states;
  self->w += lac_mac_visit_seconds(&self->job->costs, self->points, count, ids, passes);
  return LAC_OK;
}

static lac_status unpack(void *shard, lac_context *context, int64_t m, const void *state) {
  (void)shard;
  (void)context;
  (void)m;
  (void)state;
  return LAC_OK;
}

static lac_status z_step(void *shard, lac_context *context, double mu, lac_mac_sums *sums) {
  lac_rehearsed *self = shard;
  (void)context;
  (void)mu;
  *sums = (lac_mac_sums){.disagreements = 1, .points = self->points}; /* so that no iteration is the last */
  return LAC_OK;
}

static lac_status validate(void *shard, lac_context *context, double *sum, double *weight) {
  (void)shard;
  (void)context;
  *sum = *weight = 1;
  return LAC_OK;
}

static lac_status nothing(void *shard, lac_context *context) {
  (void)shard;
  (void)context;
  return LAC_OK;
}

static void report(void *user, const lac_mac_report *iteration) {
  lac_rehearsed *self = user;
  self->last = iteration->total_seconds;
  self->first = iteration->iteration == 1 ? self->last : self->first;
}

static const lac_mac_problem problem = {.name = "rehearsal",
                                        .points = points,
                                        .submodel_bytes = submodel_bytes,
                                        .w_begin = w_begin,
                                        .pack = pack,
                                        .train = train,
                                        .unpack = unpack,
                                        .z_step = z_step,
                                        .validate = validate,
                                        .save = nothing,
                                        .restore = nothing};

/* Iterations of one kind, of which the job has `times`: adds to plan, which is the same on all, and to this worker's
 * link. */
static lac_status rehearse_kind(lac_world *world, const lac_rehearsal *rehearsal, const lac_ring_job *job, double times,
                                lac_plan *plan, lac_link *own) {
  lac_context *context = lac_world_context(world);
  lac_team team = {
      .world = world, .total = lac_world_size(world), .first = lac_world_rank(world), .count = 1, .costs = &job->costs};
  lac_rehearsed self = {.job = job, .points = rehearsal->shares[team.first]};
  lac_mac_problem mine = problem;
  mine.submodels = job->submodels;
  lac_mac_options options = {.iterations = rehearsal->iterations + 1, /* the first has a start of its own */
                             .mu = 1,
                             .mu_factor = 1.0001,
                             .epochs = job->epochs,
                             .local_epochs = job->local_epochs,
                             .batch = job->batch,
                             .undo_limit = 1,
                             .seed = job->seed};
  void *shard = &self;
  lac_mac_result result;
  lac_counts before = lac_world_counts(world);
  LAC_TRY(lac_mac_run(context, &team, &mine, &shard, &options, report, &self, &result));
  double speed = lac_ring_speed(rehearsal->cluster, team.first);
  double each = 1 / (double)(rehearsal->iterations + 1), w = self.w / speed * each;
  double z = job->costs.z * (double)self.points / speed;
  double most[3] = {(self.last - self.first) / (double)rehearsal->iterations, w, z};
  LAC_TRY(lac_world_max_f64(world, most, 3));
  lac_link link = lac_link_since(world, &before, each * times);
  plan->seconds.w += most[1] * times;
  plan->seconds.z += most[2] * times;
  plan->seconds.communication += fmax(most[0] - most[1] - most[2], 0) * times;
  plan->messages += (double)result.messages * each * times;
  plan->bytes += (double)result.bytes * each * times;
  own->messages += link.messages;
  own->bytes += link.bytes;
  return LAC_OK;
}

/* On every worker; plan and links are the same on all. */
static lac_status rehearse(lac_world *world, const lac_rehearsal *rehearsal, lac_plan *plan, lac_link *links) {
  const lac_ring_job *job = rehearsal->job;
  lac_ring_job of = *job;
  lac_link own = {0};
  for (int kind = 0; kind < LAC_RING_KINDS; kind++) {
    int64_t count = lac_ring_kind(job, lac_world_size(world), kind, &of.costs);
    if (count > 0) {
      LAC_TRY(rehearse_kind(world, rehearsal, &of, (double)count, plan, &own));
    }
  }
  plan->seconds.z += lac_ring_joining(job, rehearsal->cluster, lac_world_size(world), rehearsal->shares);
  return lac_links_gather(world, own, links);
}

static lac_status body(lac_world *world, void *argument) {
  lac_rehearsal *rehearsal = argument;
  lac_plan plan = {0};
  lac_link *links;
  LAC_TRY(LAC_NEW(lac_world_context(world), lac_world_size(world), &links));
  lac_status status = rehearse(world, rehearsal, &plan, links);
  if (!status && lac_world_rank(world) == 0) {
    rehearsal->plan = plan;
    memcpy(rehearsal->links, links, (size_t)lac_world_size(world) * sizeof *links);
  }
  lac_free(links);
  return status;
}

lac_status lac_plan_rehearse_ring(lac_context *context, const lac_ring_job *job, const lac_cluster *cluster,
                                  lac_world *world, int workers, const int64_t *shares, int64_t iterations,
                                  lac_plan *plan, lac_link *links) {
  lac_rehearsal rehearsal = {.job = job, .cluster = cluster, .iterations = iterations};
  int64_t *even = NULL;
  lac_status status;
  *plan = (lac_plan){0};
  LAC_TRY(lac_ring_check(context, job, cluster, workers, shares));
  if (iterations < 1 || iterations > MOST_ITERATIONS) {
    return lac_fail(context, LAC_E_USAGE, "rehearsal: found %lld iterations, expected 1 to %d", (long long)iterations,
                    MOST_ITERATIONS);
  }
  if (world) {
    LAC_TRY(lac_check_within(context, world, workers));
  }
  LAC_TRY_GOTO(status, LAC_NEW(context, workers, &even), cleanup);
  LAC_TRY_GOTO(status, LAC_NEW(context, workers, &rehearsal.links), cleanup);
  LAC_TRY_GOTO(status, lac_hash_shares(context, llround(job->points), workers, NULL, even), cleanup);
  rehearsal.shares = shares ? shares : even;
  if (world) {
    status = rehearse(world, &rehearsal, &rehearsal.plan, rehearsal.links);
  } else {
    lac_world_options options = {
        .backend = "sim", .workers = workers, .timeout_ms = LAC_PATIENCE_MS, .cluster = cluster};
    status = lac_world_run(context, &options, body, &rehearsal);
  }
  if (!status) {
    *plan = rehearsal.plan;
    lac_links_take(rehearsal.links, workers, plan, links);
    lac_ring_complete(job, cluster, workers, rehearsal.shares, plan);
  }
cleanup:
  lac_free(rehearsal.links);
  lac_free(even);
  return status;
}
