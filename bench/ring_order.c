/* Which submodel should a worker of the ring serve first, and should it wait for the rest of a batch that is on its
 * way? `ring_order` runs the library's ring on the back end sim, with costs as plan calibrate measures them, and prints
 * the seconds of a W step by the four rules, as a multiple of the rule in force (least advanced first, batches waited
 * for).
 */
#include <stdio.h>
#include <string.h>

#include "mac/engine.h"

typedef struct order_study {
  const char *name;
  int workers;
  int64_t submodels, epochs, batch, points; /* points: of a worker */
  double visit, submodel, latency, bandwidth, jitter;
} order_study;

enum { STATE_BYTES = 520, SEEDS = 3 };

static const order_study studies[] = {
    {"10^6 x 128, 16 bits, 1 Gbit/s", 8, 32, 1, 0, 125000, 32e-9, 6e-9, 50e-6, 1.25e8, 0},
    {"the same, 30 % jitter", 8, 32, 1, 0, 125000, 32e-9, 6e-9, 50e-6, 1.25e8, 0.3},
    {"5 10^4 x 320, 16 bits, 1 Gbit/s", 8, 32, 1, 0, 6250, 65e-9, 9e-9, 50e-6, 1.25e8, 0},
    {"10^8 x 128, 64 bits, 2 epochs", 64, 128, 2, 0, 1562500, 32e-9, 6e-9, 25e-6, 1.25e9, 0},
    {"the same, 30 % jitter", 64, 128, 2, 0, 1562500, 32e-9, 6e-9, 25e-6, 1.25e9, 0.3},
    {"24 workers, 32 submodels", 24, 32, 2, 0, 41667, 32e-9, 6e-9, 50e-6, 1.25e8, 0},
    {"slow network: 100 Mbit/s, 1 ms", 16, 64, 4, 0, 3000, 32e-9, 6e-9, 1e-3, 1.25e7, 0},
    {"one by one, 30 % jitter", 16, 64, 4, 1, 10000, 0, 38e-9, 50e-6, 1.25e8, 0.3},
    {"one by one, slow network", 16, 64, 4, 1, 3000, 0, 38e-9, 1e-3, 1.25e7, 0.3},
};

static int64_t points_of(const void *shard) {
  return ((const order_study *)shard)->points;
}

static size_t bytes_of(const void *shard, int64_t m) {
  (void)shard;
  (void)m;
  return STATE_BYTES;
}

static lac_status begin(void *shard, lac_context *context, int64_t iteration) {
  (void)shard;
  (void)context;
  (void)iteration;
  return LAC_OK;
}

static lac_status pack(void *shard, lac_context *context, int64_t m, void *state) {
  (void)m;
  memset(state, 0, STATE_BYTES);
  return begin(shard, context, 0);
}

static lac_status train(void *shard, lac_context *context, int64_t count, const int64_t *ids, const int64_t *visits,
                        int64_t passes, void *const *states) {
  (void)count;
  (void)ids;
  (void)visits;
  (void)states;
  return begin(shard, context, passes);
}

static lac_status unpack(void *shard, lac_context *context, int64_t m, const void *state) {
  (void)state;
  return begin(shard, context, m);
}

typedef struct order_run {
  const order_study *study;
  lac_ring_rules rules;
  int64_t seed;
  double seconds;
} order_run;

static lac_status body(lac_world *world, void *argument) {
  order_run *run = argument;
  const order_study *study = run->study;
  const lac_mac_problem problem = {.name = "order",
                                   .submodels = study->submodels,
                                   .points = points_of,
                                   .submodel_bytes = bytes_of,
                                   .w_begin = begin,
                                   .pack = pack,
                                   .train = train,
                                   .unpack = unpack};
  const lac_mac_costs costs = {.kinds = 1, .visit = study->visit, .submodel = {study->submodel}, .handling = 2e-6};
  const lac_mac_options options = {.epochs = study->epochs, .batch = study->batch, .seed = run->seed};
  lac_team team = {
      .world = world, .total = study->workers, .first = lac_world_rank(world), .count = 1, .costs = &costs};
  lac_path path;
  int64_t messages = 0, bytes = 0;
  order_study shard = *study;
  lac_status status = lac_path_create(lac_world_context(world), &options, study->submodels, study->workers, 1, &path);
  if (!status) {
    status = lac_ring_step(lac_world_context(world), &team, &problem, &shard, &options, 1, &path, &run->rules,
                           &messages, &bytes);
  }
  lac_path_destroy(&path);
  double now = lac_world_now(world);
  if (!status) {
    status = lac_world_max_f64(world, &now, 1);
  }
  if (lac_world_rank(world) == 0) {
    run->seconds = now;
  }
  return status;
}

/* Mean over the seeds. */
static lac_status measure(lac_context *context, const order_study *study, lac_ring_rules rules, double *seconds) {
  *seconds = 0;
  for (int64_t seed = 1; seed <= SEEDS; seed++) {
    order_run run = {.study = study, .rules = rules, .seed = seed};
    lac_cluster cluster = {
        .seed = seed, .latency = study->latency, .bandwidth = study->bandwidth, .jitter = study->jitter};
    lac_world_options options = {
        .backend = "sim", .workers = study->workers, .timeout_ms = INT64_C(1000000000), .cluster = &cluster};
    lac_status status = lac_world_run(context, &options, body, &run);
    if (status) {
      return status;
    }
    *seconds += run.seconds / SEEDS;
  }
  return LAC_OK;
}

int main(void) {
  lac_context *context;
  if (lac_context_create(&context)) {
    return 1;
  }
  printf("| W step of | seconds | split batches | by arrival | both |\n|---|---|---|---|---|\n");
  for (size_t i = 0; i < sizeof studies / sizeof *studies; i++) {
    double in_force = 1, other[3];
    lac_status status = measure(context, &studies[i], (lac_ring_rules){0}, &in_force);
    for (int rule = 1; rule < 4 && !status; rule++) {
      status =
          measure(context, &studies[i], (lac_ring_rules){.split = rule & 1, .by_arrival = rule & 2}, &other[rule - 1]);
    }
    if (status) {
      fprintf(stderr, "ring_order: %s\n", lac_context_message(context));
      lac_context_destroy(&context);
      return 1;
    }
    printf("| %s, P=%d | %.4g | %.2f | %.2f | %.2f |\n", studies[i].name, studies[i].workers, in_force,
           other[0] / in_force, other[1] / in_force, other[2] / in_force);
  }
  lac_context_destroy(&context);
  return 0;
}
