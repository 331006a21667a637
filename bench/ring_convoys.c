/* How many submodels should a worker of the ring train together? `ring_convoys [P M e JITTER]` (default 16 64 4 0.3).
 *
 * Submodels that are trained together stream the data once, but they also leave together: batches merge and never part,
 * and behind such a convoy workers idle. A call that trains b submodels takes (s + (1 - s) b) t times a random factor
 * of mean 1 and standard deviation JITTER; s is the share of a single training that b submodels have in common (reading
 * the data), so s = 0 has nothing to gain from company. For several limits on b the table shows
 *
 *   efficiency  M e t / time, where M e t is what a worker needs for its share one by one without ever waiting (above
 * 1: what is shared outweighs the waiting) together    mean number of submodels in a call
 *
 * from a simulation of the queues, and beside it the efficiency of the library's own ring, run on threads whose
 * training is a sleep of that length. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/profile.h"
#include "base/random.h"
#include "mac/engine.h"

enum { DRAWS = 20 };

typedef struct convoy_study {
  int workers;
  int64_t submodels;
  lac_mac_options options;
  double jitter, shared, seconds; /* seconds: t */
} convoy_study;

/* The random factor of a worker's n-th call. */
static double factor(const convoy_study *study, int worker, int64_t call) {
  lac_random stream = lac_random_stream(study->options.seed, LAC_RANDOM_TEST, (uint64_t)worker, (uint64_t)call);
  double drawn = 1 + study->jitter * lac_random_normal(&stream);
  return drawn > 0.05 ? drawn : 0.05;
}

static double duration(const convoy_study *study, int worker, int64_t call, int64_t together) {
  return study->seconds * (study->shared + (1 - study->shared) * (double)together) * factor(study, worker, call);
}

/* ---- simulation ---- */

typedef struct arrival {
  int64_t visit;
  double time;
} arrival;

typedef struct worker_queue {
  double free;
  int64_t calls, count;
  arrival *arrivals; /* (M), the least advanced first */
} worker_queue;

static void arrive(worker_queue *stand, int64_t visit, double time) {
  int64_t at = stand->count++;
  for (; at > 0 && stand->arrivals[at - 1].visit > visit; at--) {
    stand->arrivals[at] = stand->arrivals[at - 1];
  }
  stand->arrivals[at] = (arrival){visit, time};
}

/* When the worker can begin its next call; INFINITY when nothing is there. */
static double next_start(const worker_queue *stand) {
  double earliest = INFINITY;
  for (int64_t i = 0; i < stand->count; i++) {
    earliest = stand->arrivals[i].time < earliest ? stand->arrivals[i].time : earliest;
  }
  return earliest > stand->free ? earliest : stand->free;
}

/* One call of the worker that can begin first: nothing that happens later can still change its queue. */
static bool step(const convoy_study *study, const lac_path *path, worker_queue *stands, double *end) {
  int64_t limit = lac_mac_batch(&study->options, study->submodels, study->workers), taken = 0, kept = 0;
  double start = INFINITY;
  int worker = -1;
  for (int w = 0; w < study->workers; w++) {
    double candidate = stands[w].count ? next_start(&stands[w]) : INFINITY;
    if (candidate < start) {
      start = candidate;
      worker = w;
    }
  }
  if (worker < 0) {
    return false;
  }
  worker_queue *here = &stands[worker];
  int64_t visits[1024];
  for (int64_t i = 0; i < here->count; i++) {
    if (taken < limit && here->arrivals[i].time <= start) {
      visits[taken++] = here->arrivals[i].visit;
    } else {
      here->arrivals[kept++] = here->arrivals[i];
    }
  }
  here->count = kept;
  here->free = start + duration(study, worker, here->calls++, taken);
  *end = here->free > *end ? here->free : *end;
  for (int64_t i = 0; i < taken; i++) {
    if (visits[i] + 1 < path->training) {
      arrive(&stands[lac_path_next(path, worker, visits[i])], visits[i] + 1, here->free);
    }
  }
  return true;
}

static lac_status simulate(lac_context *context, const convoy_study *study, double *time, double *calls) {
  lac_path path;
  worker_queue *stands;
  double end = 0;
  lac_status status = LAC_OK;
  LAC_TRY(LAC_NEW(context, study->workers, &stands));
  LAC_TRY(lac_path_create(context, &study->options, study->submodels, study->workers, 1, &path));
  for (int w = 0; w < study->workers && !status; w++) {
    status = LAC_NEW(context, study->submodels, &stands[w].arrivals);
  }
  for (int64_t m = 0; m < study->submodels && !status; m++) {
    arrive(&stands[lac_path_start(&path, m)], 0, 0);
  }
  while (!status && step(study, &path, stands, &end)) {
  }
  for (int w = 0; w < study->workers; w++) {
    *calls += (double)stands[w].calls;
    lac_free(stands[w].arrivals);
  }
  *time += end;
  lac_free(stands);
  lac_path_destroy(&path);
  return status;
}

/* ---- the library's ring, with a sleep for training ---- */

typedef struct sleeper {
  const convoy_study *study;
  int worker;
  int64_t calls;
} sleeper;

static size_t no_bytes(const void *shard, int64_t m) {
  (void)shard;
  (void)m;
  return 8;
}

static lac_status begin_nothing(void *shard, lac_context *context, int64_t iteration) {
  (void)shard;
  (void)context;
  (void)iteration;
  return LAC_OK;
}

static lac_status pack_nothing(void *shard, lac_context *context, int64_t m, void *state) {
  (void)shard;
  (void)context;
  (void)m;
  memset(state, 0, 8);
  return LAC_OK;
}

static lac_status unpack_nothing(void *shard, lac_context *context, int64_t m, const void *state) {
  (void)shard;
  (void)context;
  (void)m;
  (void)state;
  return LAC_OK;
}

static lac_status sleep_for_training(void *shard, lac_context *context, int64_t count, const int64_t *ids,
                                     const int64_t *visits, int64_t passes, void *const *states) {
  sleeper *self = shard;
  (void)context;
  (void)ids;
  (void)visits;
  (void)passes;
  (void)states;
  double seconds = duration(self->study, self->worker, self->calls++, count);
  struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - floor(seconds)))};
  nanosleep(&pause, NULL);
  return LAC_OK;
}

typedef struct live_run {
  const convoy_study *study;
  double seconds;
} live_run;

static lac_status live_body(lac_world *world, void *argument) {
  live_run *run = argument;
  lac_mac_problem problem = {.name = "sleep",
                             .submodels = run->study->submodels,
                             .submodel_bytes = no_bytes,
                             .w_begin = begin_nothing,
                             .pack = pack_nothing,
                             .train = sleep_for_training,
                             .unpack = unpack_nothing};
  lac_team team = {world, lac_world_size(world), lac_world_rank(world), 1};
  sleeper shard = {run->study, team.first, 0};
  void *shards[1] = {&shard};
  int64_t messages = 0, bytes = 0;
  LAC_TRY(lac_world_barrier(world));
  double start = lac_seconds();
  LAC_TRY(
      lac_mac_w_step(lac_world_context(world), &team, &problem, shards, &run->study->options, 1, &messages, &bytes));
  LAC_TRY(lac_world_barrier(world));
  if (team.first == 0) {
    run->seconds += lac_seconds() - start;
  }
  return LAC_OK;
}

static lac_status live(lac_context *context, convoy_study study, double *efficiency) {
  live_run run = {&study, 0};
  lac_world_options options = {.backend = "local", .workers = study.workers};
  const int draws = 3;
  for (study.options.seed = 1; study.options.seed <= draws; study.options.seed++) {
    LAC_TRY(lac_world_run(context, &options, live_body, &run));
  }
  *efficiency = draws * (double)(study.submodels * study.options.epochs) * study.seconds / run.seconds;
  return LAC_OK;
}

/* ---- the table ---- */

static lac_status row(lac_context *context, convoy_study study, int64_t limit) {
  double time = 0, calls = 0, living;
  double ideal = (double)(study.submodels * study.options.epochs) * study.seconds;
  study.options.batch = limit;
  for (study.options.seed = 1; study.options.seed <= DRAWS; study.options.seed++) {
    LAC_TRY(simulate(context, &study, &time, &calls));
  }
  LAC_TRY(live(context, study, &living));
  printf("%8.2f %8lld %12.3f %10.2f %12.3f\n", study.shared, (long long)limit, DRAWS * ideal / time,
         (double)(DRAWS * study.workers * study.submodels * study.options.epochs) / calls, living);
  return LAC_OK;
}

static lac_status table(lac_context *context, convoy_study study) {
  static const double shares[] = {0, 0.5, 0.8};
  int64_t even = (study.submodels + study.workers - 1) / study.workers;
  int64_t limits[] = {1, (even + 1) / 2, even, 2 * even, study.submodels};
  printf("%d workers, %lld submodels, %lld epochs, jitter %.0f %%\n%8s %8s %12s %10s %12s\n", study.workers,
         (long long)study.submodels, (long long)study.options.epochs, 100 * study.jitter, "shared", "limit",
         "efficiency", "together", "live");
  for (int s = 0; s < 3; s++) {
    for (int l = 0; l < 5; l++) {
      if (l == 0 || limits[l] > limits[l - 1]) {
        study.shared = shares[s];
        LAC_TRY(row(context, study, limits[l]));
      }
    }
  }
  return LAC_OK;
}

int main(int argc, char **argv) {
  convoy_study study = {.workers = argc > 1 ? atoi(argv[1]) : 16,
                        .submodels = argc > 2 ? atoi(argv[2]) : 64,
                        .options = {.epochs = argc > 3 ? atoi(argv[3]) : 4},
                        .jitter = argc > 4 ? atof(argv[4]) : 0.3,
                        .seconds = 2e-3};
  lac_context *context;
  if (study.workers < 1 || study.submodels < 1 || study.submodels > 1024 || study.options.epochs < 1 ||
      !(study.jitter >= 0)) {
    fprintf(stderr, "usage: %s [P M e JITTER], M at most 1024\n", argv[0]);
    return 2;
  }
  if (lac_context_create(&context) != LAC_OK) {
    return 1;
  }
  lac_status status = table(context, study);
  if (status) {
    fprintf(stderr, "%s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
