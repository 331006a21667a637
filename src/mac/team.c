#include <string.h>

#include "base/memory.h"
#include "mac/engine.h"

lac_status lac_team_check(lac_context *context, const lac_team *team) {
  lac_world *world = team->world;
  bool fits = world ? team->total == lac_world_size(world) && team->first == lac_world_rank(world) && team->count == 1
                    : team->total >= 1 && team->first == 0 && team->count == team->total;
  if (!fits) {
    return lac_fail(context, LAC_E_USAGE, "team: found %d shards from number %d of %d, expected %s", team->count,
                    team->first, team->total,
                    world ? "one for each worker, numbered as the worker" : "all of them in a serial run");
  }
  return LAC_OK;
}

lac_status lac_team_sum_f64(lac_context *context, const lac_team *team, const double *values, int64_t n, double *sum) {
  LAC_TRY(lac_team_check(context, team));
  memcpy(sum, values, (size_t)n * sizeof *sum);
  if (team->world) {
    return lac_world_sum_f64(team->world, sum, n);
  }
  for (int shard = 1; shard < team->count; shard++) {
    for (int64_t i = 0; i < n; i++) {
      sum[i] += values[shard * n + i];
    }
  }
  return LAC_OK;
}

lac_status lac_team_sum_i64(lac_context *context, const lac_team *team, const int64_t *values, int64_t n,
                            int64_t *sum) {
  LAC_TRY(lac_team_check(context, team));
  memcpy(sum, values, (size_t)n * sizeof *sum);
  if (team->world) {
    return lac_world_sum_i64(team->world, sum, n);
  }
  for (int shard = 1; shard < team->count; shard++) {
    for (int64_t i = 0; i < n; i++) {
      sum[i] = (int64_t)((uint64_t)sum[i] + (uint64_t)values[shard * n + i]);
    }
  }
  return LAC_OK;
}
