#include <stdlib.h>

#include "base/memory.h"
#include "mac/engine.h"

/* The states of all submodels side by side. */
typedef struct lac_states {
  int64_t count;
  void **state; /* (M) */
  int64_t *ids, *visits;
} lac_states;

static void destroy_states(lac_states *states) {
  for (int64_t m = 0; states->state && m < states->count; m++) {
    lac_free(states->state[m]);
  }
  lac_free(states->state);
  lac_free(states->ids);
  lac_free(states->visits);
}

static lac_status create_states(lac_context *context, const lac_mac_problem *problem, const void *shard,
                                lac_states *states) {
  int64_t count = problem->submodels;
  *states = (lac_states){.count = count};
  LAC_TRY(LAC_NEW(context, count, &states->state));
  LAC_TRY(LAC_NEW(context, count, &states->ids));
  LAC_TRY(LAC_NEW(context, count, &states->visits));
  for (int64_t m = 0; m < count; m++) {
    states->ids[m] = m;
    LAC_TRY(lac_allocate(context, (int64_t)problem->submodel_bytes(shard, m), 1, &states->state[m]));
  }
  return LAC_OK;
}

/* Submodels [first, end), which start at the same worker, along their common path. */
static lac_status follow_block(lac_context *context, const lac_mac_problem *problem, void *const *shards,
                               const lac_mac_options *options, const lac_path *path, int worker, int64_t first,
                               int64_t end, lac_states *states) {
  int64_t passes = options->local_epochs ? options->epochs : 1;
  for (int64_t visit = 0; visit < path->training; visit++) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    for (int64_t m = first; m < end; m++) {
      states->visits[m] = visit;
    }
    LAC_TRY(problem->train(shards[worker], context, end - first, states->ids + first, states->visits + first, passes,
                           states->state + first));
    worker = lac_path_next(path, worker, visit);
  }
  return LAC_OK;
}

static lac_status train_all(lac_context *context, const lac_mac_problem *problem, void *const *shards,
                            const lac_mac_options *options, const lac_path *path, lac_states *states) {
  int64_t batch = lac_mac_batch(options, problem->submodels, path->workers);
  for (int64_t m = 0; m < problem->submodels; m++) {
    LAC_TRY(problem->pack(shards[lac_path_start(path, m)], context, m, states->state[m]));
  }
  for (int worker = 0; worker < path->workers; worker++) {
    int64_t end = lac_path_first(path, worker + 1);
    for (int64_t first = lac_path_first(path, worker); first < end; first += batch) {
      int64_t stop = first + batch < end ? first + batch : end;
      LAC_TRY(follow_block(context, problem, shards, options, path, worker, first, stop, states));
    }
  }
  return LAC_OK;
}

lac_status lac_serial_step(lac_context *context, const lac_mac_problem *problem, void *const *shards,
                           const lac_mac_options *options, int64_t iteration, const lac_path *path) {
  lac_states states = {0};
  lac_status status = LAC_OK;
  for (int s = 0; s < path->workers; s++) {
    LAC_TRY(problem->w_begin(shards[s], context, iteration));
  }
  LAC_TRY_GOTO(status, create_states(context, problem, shards[0], &states), cleanup);
  LAC_TRY_GOTO(status, train_all(context, problem, shards, options, path, &states), cleanup);
  for (int s = 0; s < path->workers; s++) {
    for (int64_t m = 0; m < problem->submodels; m++) {
      LAC_TRY_GOTO(status, problem->unpack(shards[s], context, m, states.state[m]), cleanup);
    }
    if (problem->w_end) {
      LAC_TRY_GOTO(status, problem->w_end(shards[s], context), cleanup);
    }
  }
cleanup:
  destroy_states(&states);
  return status;
}
