/* The job really done, on drawn points: what a prediction is held against. */
#include "base/memory.h"
#include "laconic/plan.h"
#include "plan/calibration.h"
#include "plan/ring.h"
#include "plan/within.h"

typedef struct lac_real {
  const lac_hash_options *options;
  const lac_dataset *points;
  const int64_t *shares;
  lac_hash_result result; /* worker 0's */
  lac_link *links;        /* (workers): each writes its own */
} lac_real;

static lac_status train_shard(lac_world *world, const lac_real *real, const lac_dataset *shard,
                              lac_hash_result *result) {
  lac_team team = {.world = world, .total = lac_world_size(world), .first = lac_world_rank(world), .count = 1};
  lac_hash *model = NULL;
  lac_counts before = lac_world_counts(world);
  lac_status status =
      lac_hash_train(lac_world_context(world), &team, &shard, real->options, NULL, NULL, &model, result);
  lac_hash_destroy(&model);
  real->links[lac_world_rank(world)] = lac_link_since(world, &before, 1);
  return status;
}

static lac_status body(lac_world *world, void *argument) {
  lac_real *real = argument;
  int rank = lac_world_rank(world);
  int64_t first = 0;
  lac_dataset *shard;
  lac_hash_result result;
  for (int p = 0; p < rank; p++) {
    first += real->shares[p];
  }
  LAC_TRY(lac_dataset_slice(lac_world_context(world), real->points, first, real->shares[rank], &shard));
  lac_status status = train_shard(world, real, shard, &result);
  lac_dataset_destroy(&shard);
  if (!status && rank == 0) {
    real->result = result;
  }
  return status;
}

/* Seconds of `iterations` iterations, of those that were made before the model stood still. */
static lac_plan_seconds seconds_of(const lac_hash_result *result, double iterations) {
  double times = result->iterations > 0 ? iterations / (double)result->iterations : 0;
  lac_plan_seconds seconds = {.w = result->w_seconds * times, .z = result->z_seconds * times};
  double rest = result->total_seconds - result->init_seconds - result->w_seconds - result->z_seconds;
  seconds.serial = result->init_seconds + (rest > 0 ? rest : 0) * times;
  seconds.total = seconds.w + seconds.z + seconds.serial;
  return seconds;
}

static const lac_cluster here = {0};

lac_status lac_plan_real_ring(lac_context *context, const lac_hash_options *options, int64_t points, int64_t columns,
                              lac_type type, int workers, const int64_t *shares, lac_plan *plan, lac_link *links) {
  void *memory = NULL;
  lac_dataset *data = NULL;
  lac_hash_options mine = *options;
  mine.mac.undo_limit = mine.mac.iterations > 0 ? mine.mac.iterations : 1; /* undone or not, it takes as long */
  lac_real real = {.options = &mine};
  lac_world_options world = {.backend = "local", .workers = workers};
  lac_status status;
  lac_ring_job job;
  int64_t *even = NULL;
  *plan = (lac_plan){0};
  if (points < 1 || columns < 1 || columns > INT32_MAX || points > INT64_MAX / (16 * columns)) {
    return lac_fail(context, LAC_E_USAGE, "plan: found %lld points of %lld columns", (long long)points,
                    (long long)columns);
  }
  LAC_TRY(lac_plan_hash_job(context, options, (double)points, columns, NULL, &job));
  LAC_TRY(lac_ring_check(context, &job, &here, workers, shares));
  LAC_TRY_GOTO(status, LAC_NEW(context, workers, &real.links), cleanup);
  LAC_TRY_GOTO(status, LAC_NEW(context, workers, &even), cleanup);
  LAC_TRY_GOTO(status, lac_hash_shares(context, points, workers, NULL, even), cleanup);
  real.shares = shares ? shares : even;
  LAC_TRY_GOTO(status, lac_draw_points(context, type, points, columns, &memory), cleanup);
  size_t stride = (size_t)columns * lac_type_size(type);
  LAC_TRY_GOTO(status, lac_dataset_borrow(context, memory, type, points, columns, stride, &data), cleanup);
  real.points = data;
  LAC_TRY_GOTO(status, lac_world_run(context, &world, body, &real), cleanup);
  plan->workers = workers;
  plan->seconds = seconds_of(&real.result, (double)options->mac.iterations);
  plan->messages = (double)real.result.messages;
  plan->bytes = (double)real.result.bytes;
  lac_links_take(real.links, workers, plan, links);
cleanup:
  lac_free(real.links);
  lac_free(even);
  lac_dataset_destroy(&data);
  lac_free(memory);
  return status;
}
