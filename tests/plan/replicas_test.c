/* Predictions of replicas beside closed forms that are worked out here, and beside the trainer itself on a simulated
 * cluster: where rounds are synchronous, times agree within a hundredth and counts exactly. */
#include <math.h>

#include "laconic/plan.h"
#include "support.h"

enum { PARAMETERS = 840, BYTES = 4 * PARAMETERS }; /* divides among 2, 3 and 8 workers */

/* ---- what is asked for ---- */

typedef struct setting {
  int method, protocol, topology;
  int64_t inner, period;
  bool overlap;
  int workers;
  double vector, latency, jitter; /* seconds */
  const double *speeds;
  double gradients;
} setting;

static const double compute = 0.02;

static lac_replica_options options_of(const setting *s) {
  return (lac_replica_options){.method = s->method,
                               .epochs = 1000,
                               .inner_steps = s->inner ? s->inner : 5,
                               .average = 0.5,
                               .gamma = 100,
                               .rho = 1,
                               .scoping = 1,
                               .overlap = s->overlap,
                               .optimizer = {.kind = LAC_OPTIMIZER_SGD},
                               .learning_rate = 0.1,
                               .seed = 7,
                               .exchange = {.protocol = s->protocol,
                                            .topology = {.kind = s->topology, .degree = 4},
                                            .period = s->period ? s->period : 1,
                                            .slack = 1}};
}

static lac_cluster cluster_of(const setting *s) {
  return (lac_cluster){.seed = 3,
                       .latency = s->latency,
                       .bandwidth = s->vector > 0 ? BYTES / s->vector : 0,
                       .jitter = s->jitter,
                       .speeds = s->speeds};
}

/* What leaves each worker, in the newest of both. */
static lac_link planned_links[8], rehearsed_links[8];

static lac_plan planned(lac_context *context, const setting *s) {
  lac_replica_options options = options_of(s);
  lac_cluster cluster = cluster_of(s);
  lac_replica_job job = {&options, compute, 0, PARAMETERS, s->gradients > 0 ? s->gradients : 1000};
  lac_plan plan;
  assert_ok(context, lac_plan_replicas(context, &job, &cluster, s->workers, &plan, planned_links));
  return plan;
}

static lac_plan rehearsed(lac_context *context, const setting *s, int64_t gradients) {
  lac_replica_options options = options_of(s);
  lac_cluster cluster = cluster_of(s);
  lac_replica_job job = {&options, compute, 0, PARAMETERS, s->gradients > 0 ? s->gradients : 1000};
  lac_plan plan;
  assert_ok(context,
            lac_plan_rehearse_replicas(context, &job, &cluster, NULL, s->workers, gradients, &plan, rehearsed_links));
  return plan;
}

static void assert_near(double found, double expected, double part, const setting *s) {
  if (!(fabs(found - expected) <= part * fabs(expected))) {
    fail_msg(
        "method %d, protocol %d, topology %d, inner %d, period %d, overlap %d, %d workers, vector %g: %.9g, "
        "expected %.9g",
        s->method, s->protocol, s->topology, (int)s->inner, (int)s->period, s->overlap, s->workers, s->vector, found,
        expected);
  }
}

static void assert_total(lac_context *context, setting s, double of_a_gradient) {
  assert_near(planned(context, &s).seconds.total, 1000 * of_a_gradient, 1e-9, &s);
}

/* ---- closed forms ---- */

static double round_of(lac_context *context, int protocol, int topology, int64_t period, int workers) {
  lac_process_options options = {
      .protocol = protocol, .topology = {.kind = topology, .degree = 4}, .period = period, .slack = 1};
  lac_cluster cluster = {.latency = 0.125, .bandwidth = 8};
  lac_process *process;
  assert_ok(context, lac_process_create(context, &options, workers, 1, &process));
  double seconds = lac_plan_round(process, 2, 32, &cluster); /* a vector leaves in 4 seconds */
  lac_process_destroy(&process);
  return seconds;
}

static void rounds(void **state) {
  static const double none = 1e-12;
  assert_equal_within(round_of(*state, LAC_PROTOCOL_ALLREDUCE, 0, 1, 4), 2 + 6 * (1 + 0.125), none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_PERIODIC, 0, 6, 4), 2 + (1 + 0.125), none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_SERVER, 0, 1, 4), 2 + 16 + 0.25, none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING, 1, 6), 2 + 8 + 0.125, none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_COMPLETE, 2, 6), 2 + (20 + 0.125) / 2, none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING, 1, 6), 2 + 8.25, none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_ASYNC_SERVER, 0, 1, 3), 2 + 8.25, none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_ASYNC_SERVER, 0, 1, 6), 20, none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING, 1, 6), 8, none);
  assert_equal_within(round_of(*state, LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING, 8, 6), 2, none);
}

static void in_step(void **state) {
  const double v = 0.03, l = 0.001, hop = v / 8 + l;
  const setting s = {.workers = 8, .vector = v, .latency = l, .topology = LAC_TOPOLOGY_RING};
  setting t = s;
  assert_total(*state, t, compute + 14 * hop);
  t = s, t.method = LAC_METHOD_ELASTIC;
  assert_total(*state, t, compute + 14 * hop);
  t = s, t.method = LAC_METHOD_PARLE, t.inner = 25;
  assert_total(*state, t, (25 * compute + 14 * hop) / 25);
  t.overlap = true; /* 14 hops are through before 25 gradients are made */
  assert_total(*state, t, compute);
  t = s, t.overlap = true; /* a worker looks 16 times a gradient: a hop takes four looks, 4 hops are made, 10 left */
  assert_total(*state, t, compute + 10 * hop);
  t.workers = 2; /* a hop is seen with the 13th look, the other comes after the gradient */
  assert_total(*state, t, 13 * compute / 16 + v / 2 + l);
  t = s, t.method = LAC_METHOD_ELASTIC, t.protocol = LAC_PROTOCOL_DPSGD;
  assert_total(*state, t, compute + 2 * v + l);
  t.overlap = true;
  assert_total(*state, t, fmax(compute, 2 * v + l));
  t = s, t.protocol = LAC_PROTOCOL_DPSGD, t.vector = 0.004; /* models travel while it computes in any case */
  assert_total(*state, t, compute);
  t.vector = v, t.period = 4;
  assert_total(*state, t, (3 * compute + 2 * v + l) / 4);
  t = s, t.method = LAC_METHOD_ELASTIC, t.protocol = LAC_PROTOCOL_SERVER;
  assert_total(*state, t, compute + 8 * v + 2 * l);
  t = s, t.method = LAC_METHOD_ELASTIC, t.protocol = LAC_PROTOCOL_DPSGD, t.topology = LAC_TOPOLOGY_STAR;
  assert_total(*state, t, 7 * v); /* all that leaves the hub */
  t.vector = 0.004;               /* the hub's seven vectors, and one back, in two rounds */
  assert_total(*state, t, compute + 4 * 0.004 + l);
}

static void alone(void **state) {
  setting s = {.workers = 1, .vector = 0.03, .latency = 0.001, .method = LAC_METHOD_ENTROPY};
  lac_plan plan = planned(*state, &s);
  assert_equal_within(plan.seconds.total, 1000 * compute, 1e-9);
  assert_equal_within(plan.speedup, 1, 1e-12);
  assert_equal_within(plan.messages + plan.bytes + plan.link_bytes, 0, 0);
  assert_near(rehearsed(*state, &s, 10).seconds.total, 1000 * compute, 1e-9, &s);
}

/* Twice as long where all wait for the slow one; its own part only where nobody does. */
static void slow_worker(void **state) {
  static const double speeds[] = {1, 0.5, 1, 1};
  setting s = {.workers = 4, .speeds = speeds, .method = LAC_METHOD_PARLE, .topology = LAC_TOPOLOGY_RING};
  assert_total(*state, s, 2 * compute);
  lac_plan plan = planned(*state, &s);
  assert_equal_within(plan.speedup, 2, 1e-9);
  assert_equal_within(plan.efficiency, 2 / 3.5, 1e-9);
  assert_equal_within(plan.seconds.w, 1000 * compute * 5 / 4, 1e-9);
  assert_equal_within(plan.seconds.waiting, 1000 * compute * 3 / 4, 1e-9);
  s.protocol = LAC_PROTOCOL_ASYNC_RING;
  assert_total(*state, s, compute * 4 / 3.5);
  assert_equal_within(planned(*state, &s).efficiency, 1, 1e-9);
}

static double vectors(lac_context *context, setting s) {
  return planned(context, &s).memory / BYTES;
}

static void memory(void **state) {
  setting s = {.workers = 1, .topology = LAC_TOPOLOGY_RING};
  assert_equal_within(vectors(*state, s), 4, 0); /* x, direction, offer, difference */
  s.workers = 8;                                 /* the ring's and the answer's */
  assert_equal_within(vectors(*state, s), 6, 0);
  s.protocol = LAC_PROTOCOL_SERVER; /* eight in place of one */
  assert_equal_within(vectors(*state, s), 13, 0);
  s.protocol = LAC_PROTOCOL_DPSGD;
  assert_equal_within(vectors(*state, s), 4 + 1 + 3, 0);
  s.method = LAC_METHOD_PARLE; /* y, z and an outer momentum besides */
  assert_equal_within(vectors(*state, s), 4 + 3 + 1 + 3, 0);
}

/* ---- beside the trainer ---- */

static bool is_allowed(const setting *s) {
  bool mean = s->protocol == LAC_PROTOCOL_ALLREDUCE && s->period == 1;
  return !(s->overlap && (lac_protocol_asynchronous(s->protocol) || (s->method == LAC_METHOD_SGD && !mean)));
}

/* That what leaves the workers is all, and the busiest's is what the plan says. */
static void check_links(const lac_plan *plan, const lac_link *links, const setting *s) {
  lac_link sum = {0};
  double most = 0;
  for (int i = 0; i < plan->workers; i++) {
    sum.messages += links[i].messages;
    sum.bytes += links[i].bytes;
    most = fmax(most, links[i].bytes);
  }
  assert_near(sum.messages, plan->messages, 1e-12, s);
  assert_near(sum.bytes, plan->bytes, 1e-12, s);
  assert_near(most, plan->link_bytes, 1e-12, s);
}

static void compare_rounds(lac_context *context, const setting *s) {
  lac_plan plan = planned(context, s), sim = rehearsed(context, s, 40);
  /* which of two looks a message comes between is then a matter of the microsecond that a look takes */
  bool under_way = s->overlap || (s->method == LAC_METHOD_SGD && s->period > 1);
  bool around = under_way && s->protocol != LAC_PROTOCOL_SERVER && s->protocol != LAC_PROTOCOL_DPSGD;
  bool short_hop = s->vector / s->workers + s->latency < 2 * compute / 16;
  assert_near(plan.seconds.total, sim.seconds.total, around && short_hop ? 0.15 : around && s->speeds ? 0.03 : 0.01, s);
  assert_near(plan.messages, sim.messages, 1e-12, s);
  assert_near(plan.bytes, sim.bytes, 1e-12, s);
  check_links(&plan, planned_links, s);
  check_links(&sim, rehearsed_links, s);
  for (int i = 0; i < s->workers; i++) {
    assert_near(planned_links[i].messages, rehearsed_links[i].messages, 1e-12, s);
    assert_near(planned_links[i].bytes, rehearsed_links[i].bytes, 1e-12, s);
  }
  assert_near(plan.speedup * plan.seconds.total, sim.speedup * sim.seconds.total, 1e-9, s);
  assert_near(sim.seconds.w + sim.seconds.waiting + sim.seconds.communication, sim.seconds.total, 1e-9, s);
  assert_near(plan.seconds.w + plan.seconds.waiting + plan.seconds.communication, plan.seconds.total, 1e-9, s);
}

static const int methods[] = {LAC_METHOD_SGD, LAC_METHOD_ELASTIC, LAC_METHOD_PARLE};
static const int counts[] = {2, 3, 8};
static const double travel[] = {0.004, 0.03}; /* less and more than a gradient */

/* All methods, periods, sizes and networks of a protocol. */
static void for_each(lac_context *context, setting s, void (*compare)(lac_context *, const setting *)) {
  for (int kind = 0; kind < 3 * 2 * 2 * 3 * 2; kind++) {
    s.method = methods[kind % 3];
    s.overlap = kind / 3 % 2;
    s.period = kind / 6 % 2 + 1;
    s.workers = counts[kind / 12 % 3];
    s.vector = travel[kind / 36];
    s.latency = 0.001;
    bool fits = s.protocol != LAC_PROTOCOL_PERIODIC || s.period > 1; /* 1 is 25 there */
    if (fits && is_allowed(&s)) {
      compare(context, &s);
    }
  }
}

static void rounds_of_the_trainer(void **state) {
  static const int protocols[] = {LAC_PROTOCOL_ALLREDUCE, LAC_PROTOCOL_PERIODIC, LAC_PROTOCOL_SERVER};
  static const int graphs[] = {LAC_TOPOLOGY_RING, LAC_TOPOLOGY_STAR, LAC_TOPOLOGY_COMPLETE, LAC_TOPOLOGY_EXPONENTIAL,
                               LAC_TOPOLOGY_ONE_PEER};
  for (int p = 0; p < 3; p++) {
    for_each(*state, (setting){.protocol = protocols[p]}, compare_rounds);
  }
  for (int g = 0; g < 5; g++) {
    for_each(*state, (setting){.protocol = LAC_PROTOCOL_DPSGD, .topology = graphs[g]}, compare_rounds);
  }
}

static void slow_rounds_of_the_trainer(void **state) {
  static const int protocols[] = {LAC_PROTOCOL_ALLREDUCE, LAC_PROTOCOL_PERIODIC, LAC_PROTOCOL_SERVER,
                                  LAC_PROTOCOL_DPSGD};
  static const double one[] = {1, 0.5, 1, 1, 1, 1, 1, 1}, many[] = {1, 0.9, 0.5, 1, 0.7, 2, 0.5, 1};
  for (int p = 0; p < 4; p++) {
    for_each(*state, (setting){.protocol = protocols[p], .topology = LAC_TOPOLOGY_RING, .speeds = one}, compare_rounds);
    for_each(*state, (setting){.protocol = protocols[p], .topology = LAC_TOPOLOGY_RING, .speeds = many},
             compare_rounds);
  }
}

/* Who meets whom is random, and the last steps are not all at once: 4 % where messages are fast, a tenth where they
 * take longer than gradients. Two workers of adpsgd fall into step, which no formula of random meetings has. */
static void compare_alone(lac_context *context, const setting *s) {
  bool step = s->protocol == LAC_PROTOCOL_ADPSGD && s->workers == 2;
  lac_plan plan = planned(context, s), sim = rehearsed(context, s, 200);
  if (!step) {
    assert_near(plan.seconds.total, sim.seconds.total, s->vector < compute ? 0.04 : 0.1, s);
  }
  if (s->protocol != LAC_PROTOCOL_ADPSGD || s->method != LAC_METHOD_SGD) {
    assert_near(plan.messages, sim.messages, s->vector < compute ? 0.05 : 0.1, s);
  }
  check_links(&plan, planned_links, s);
  check_links(&sim, rehearsed_links, s);
  assert_near(sim.bytes, sim.messages * BYTES, 1e-9, s);
  assert_near(plan.bytes, plan.messages * BYTES, 1e-9, s);
}

static void without_rounds(void **state) {
  static const double speeds[] = {1, 0.5, 1, 1, 1, 1, 1, 1};
  for (int protocol = 0; protocol < LAC_PROTOCOLS; protocol++) {
    if (lac_protocol_asynchronous(protocol)) {
      setting s = {.protocol = protocol, .topology = LAC_TOPOLOGY_RING, .jitter = 0.5};
      for_each(*state, s, compare_alone);
      s.speeds = speeds, s.workers = 8, s.vector = travel[0], s.latency = 0.001;
      for (int m = 0; m < 3; m++) {
        s.method = methods[m];
        compare_alone(*state, &s);
      }
    }
  }
}

/* A worker ten times as slow as the others is in its warm-up when they have made their steps, and what it began then
 * is not everybody's time; a gradient may take longer than any worker would be waited for. */
static void very_slow_workers(void **state) {
  static const double one[] = {1, 0.1, 1, 1}, some[] = {1, 0.3, 1, 0.3}, half[] = {1, 0.4, 1, 0.4};
  const double *const all[] = {one, some, half};
  for (int i = 0; i < 3; i++) {
    setting s = {.protocol = LAC_PROTOCOL_ASYNC_RING,
                 .method = LAC_METHOD_PARLE,
                 .topology = LAC_TOPOLOGY_RING,
                 .workers = 4,
                 .inner = 25,
                 .vector = 0.004,
                 .latency = 0.001,
                 .speeds = all[i]};
    assert_near(planned(*state, &s).seconds.total, rehearsed(*state, &s, 50).seconds.total, 0.05, &s);
  }
  setting s = {.workers = 2, .speeds = one, .vector = 1000, .latency = 1};
  assert_near(planned(*state, &s).seconds.total, rehearsed(*state, &s, 4).seconds.total, 0.01, &s);
}

/* Hops that take longer than a gradient. */
static void long_hops(void **state) {
  for (int n = 2; n <= 8; n *= 2) {
    for (int m = 0; m < 3; m++) {
      setting s = {.method = methods[m], .overlap = true, .workers = n, .inner = 14, .latency = 0.001};
      s.vector = 0.12 * n;
      compare_rounds(*state, &s);
    }
  }
}

/* The server's link passes no more than it can, however many ask. */
static void no_link_passes_more_than_it_can(void **state) {
  for (int m = 0; m < 3; m++) {
    for (int n = 2; n <= 128; n *= 4) {
      setting s = {.method = methods[m], .protocol = LAC_PROTOCOL_ASYNC_SERVER, .inner = 5, .vector = 0.03};
      s.latency = 0.001, s.workers = n < 8 ? n : 8;
      lac_plan sim = rehearsed(*state, &s, 200);
      assert_true(sim.link_bytes * s.vector / BYTES <= 1.1 * sim.seconds.total);
      s.workers = n;
      lac_replica_options options = options_of(&s);
      lac_cluster cluster = cluster_of(&s);
      lac_replica_job job = {&options, compute, 0, PARAMETERS, 1000};
      lac_plan plan;
      assert_ok(*state, lac_plan_replicas(*state, &job, &cluster, n, &plan, NULL));
      assert_true(plan.link_bytes * s.vector / BYTES <= 1.001 * plan.seconds.total);
    }
  }
}

/* ---- a world that is there ---- */

static bool same_seconds(const lac_plan_seconds *a, const lac_plan_seconds *b) {
  return a->w == b->w && a->z == b->z && a->serial == b->serial && a->communication == b->communication &&
         a->waiting == b->waiting && a->total == b->total;
}

static bool same_plan(const lac_plan *a, const lac_plan *b) {
  return a->workers == b->workers && same_seconds(&a->seconds, &b->seconds) && a->speedup == b->speedup &&
         a->efficiency == b->efficiency && a->messages == b->messages && a->bytes == b->bytes &&
         a->link_bytes == b->link_bytes && a->memory == b->memory;
}

static lac_status rehearse_within(lac_world *world, void *argument) {
  lac_context *context = lac_world_context(world);
  const lac_plan *expected = argument;
  const setting s = {.workers = 3, .vector = 0.004, .latency = 0.001};
  lac_replica_options options = options_of(&s);
  lac_cluster cluster = cluster_of(&s);
  lac_replica_job job = {&options, compute, 0, PARAMETERS, 1000};
  lac_plan plan;
  lac_status status = lac_plan_rehearse_replicas(context, &job, &cluster, world, 3, 30, &plan, NULL);
  if (!status && !same_plan(&plan, expected)) {
    return lac_fail(context, LAC_E_INTERNAL, "worker %d: found %.17g seconds, expected %.17g", lac_world_rank(world),
                    plan.seconds.total, expected->seconds.total);
  }
  return status;
}

static void within_a_world(void **state) {
  const setting s = {.workers = 3, .vector = 0.004, .latency = 0.001};
  lac_plan expected = rehearsed(*state, &s, 30);
  lac_cluster cluster = cluster_of(&s);
  lac_world_options options = {.backend = "sim", .workers = 3, .cluster = &cluster};
  assert_ok(*state, lac_world_run(*state, &options, rehearse_within, &expected));
  options.backend = "local", options.cluster = NULL;
  assert_failure(*state, lac_world_run(*state, &options, rehearse_within, &expected), LAC_E_USAGE,
                 "back end: found local, expected one whose clock is simulated");
  options.workers = 2;
  assert_failure(*state, lac_world_run(*state, &options, rehearse_within, &expected), LAC_E_USAGE, "workers: found 3");
}

/* ---- really ---- */

static const char layers[] = "dense 13\nrelu\ndense classes\n";
enum { NETWORK = 9 * 13 + 13 + 13 * 4 + 4 };

static lac_status really(lac_context *context, const setting *s, int64_t parameters, lac_plan *plan, lac_plan *said) {
  const lac_net_options net = {0};
  const lac_plan_network network = {layers, "layers", {1, 3, 3}, 4, 16, &net};
  const lac_cluster cluster = {0};
  lac_replica_options options = options_of(s);
  lac_replica_job job = {&options, compute, 0, parameters, 300};
  assert_ok(context, lac_plan_replicas(context, &job, &cluster, s->workers, said, planned_links));
  return lac_plan_real_replicas(context, &job, &network, s->workers, 30, plan, rehearsed_links);
}

/* Gradients take what they take; messages are as many as are foretold where there are rounds, link by link. */
static void real_runs(void **state) {
  for (int protocol = 0; protocol < LAC_PROTOCOLS; protocol++) {
    for (int m = 0; m < 3; m++) {
      lac_plan plan, said;
      setting s = {.method = methods[m], .protocol = protocol, .topology = LAC_TOPOLOGY_RING, .workers = 3};
      assert_ok(*state, really(*state, &s, NETWORK, &plan, &said));
      assert_int_equal(plan.workers, 3);
      assert_true(plan.seconds.w > 0 && plan.seconds.w <= plan.seconds.total);
      assert_near(plan.seconds.w + plan.seconds.waiting, plan.seconds.total, 1e-12, &s);
      assert_true(plan.speedup == 0 && plan.efficiency == 0);
      check_links(&plan, rehearsed_links, &s);
      assert_near(plan.bytes, lac_protocol_asynchronous(protocol) ? 4 * NETWORK * plan.messages : said.bytes, 1e-12,
                  &s);
      for (int i = 0; i < 3 && !lac_protocol_asynchronous(protocol); i++) {
        assert_near(rehearsed_links[i].messages, planned_links[i].messages, 1e-12, &s);
        assert_near(rehearsed_links[i].bytes, planned_links[i].bytes, 1e-12, &s);
      }
    }
  }
  lac_plan plan, said;
  setting s = {.workers = 1};
  assert_ok(*state, really(*state, &s, NETWORK, &plan, &said));
  assert_true(plan.seconds.total > 0 && plan.messages + plan.bytes == 0);
  assert_failure(*state, really(*state, &s, 5, &plan, &said), LAC_E_USAGE, "parameters: found 5, expected the 186");
}

/* How long a trial is, by hand: 2 mixings before, 30 gradients rounded up; without rounds at least 20 mixings. */
static void length_of_a_trial(void **state) {
  static const struct {
    int method, protocol;
    int64_t inner, period;
    double made;
  } lengths[] = {{LAC_METHOD_SGD, LAC_PROTOCOL_ALLREDUCE, 0, 1, 32},
                 {LAC_METHOD_PARLE, LAC_PROTOCOL_ALLREDUCE, 25, 1, 100},
                 {LAC_METHOD_SGD, LAC_PROTOCOL_DPSGD, 0, 4, 40},
                 {LAC_METHOD_SGD, LAC_PROTOCOL_ADPSGD, 0, 1, 32},
                 {LAC_METHOD_PARLE, LAC_PROTOCOL_ADPSGD, 25, 1, 550}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    setting s = {.method = lengths[i].method, .protocol = lengths[i].protocol, .topology = LAC_TOPOLOGY_RING};
    s.inner = lengths[i].inner, s.period = lengths[i].period;
    lac_replica_options options = options_of(&s);
    lac_replica_job job = {&options, compute, 0, NETWORK, 300};
    double made;
    assert_ok(*state, lac_plan_trial_gradients(*state, &job, 3, 30, &made));
    assert_equal_within(made, lengths[i].made, 0);
  }
}

/* ---- what cannot be ---- */

static void bad_input(void **state) {
  setting s = {.workers = 3, .vector = 0.004, .latency = 0.001};
  lac_replica_options options = options_of(&s);
  const lac_cluster good = cluster_of(&s);
  const lac_replica_job right = {&options, compute, 0, PARAMETERS, 1000};
  static const double speeds[] = {1, 0, 1};
  lac_plan plan;
  lac_replica_job job = right;
  lac_cluster cluster = good;
  assert_failure(*state, lac_plan_replicas(*state, &job, &cluster, 0, &plan, NULL), LAC_E_USAGE, "workers: found 0");
  job.gradient = -1;
  assert_failure(*state, lac_plan_replicas(*state, &job, &cluster, 3, &plan, NULL), LAC_E_USAGE, "gradient: found -1");
  job = right, job.parameters = 0;
  assert_failure(*state, lac_plan_replicas(*state, &job, &cluster, 3, &plan, NULL), LAC_E_USAGE, "parameters: found 0");
  job = right, job.gradients = (double)NAN;
  assert_failure(*state, lac_plan_replicas(*state, &job, &cluster, 3, &plan, NULL), LAC_E_USAGE,
                 "gradients: found nan");
  job = right, cluster.speeds = speeds;
  assert_failure(*state, lac_plan_replicas(*state, &job, &cluster, 3, &plan, NULL), LAC_E_USAGE,
                 "speed of worker 1: found 0");
  cluster = good, cluster.bandwidth = -1;
  assert_failure(*state, lac_plan_replicas(*state, &job, &cluster, 3, &plan, NULL), LAC_E_USAGE, "bandwidth: found -1");
  cluster = good;
  assert_failure(*state, lac_plan_rehearse_replicas(*state, &job, &cluster, NULL, 3, 0, &plan, NULL), LAC_E_USAGE,
                 "gradients to make: found 0");
  options.method = LAC_METHOD_ENTROPY;
  assert_failure(*state, lac_plan_replicas(*state, &job, &cluster, 3, &plan, NULL), LAC_E_USAGE,
                 "found entropy with 3 workers");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(rounds, make_context, drop_context),
      cmocka_unit_test_setup_teardown(in_step, make_context, drop_context),
      cmocka_unit_test_setup_teardown(alone, make_context, drop_context),
      cmocka_unit_test_setup_teardown(slow_worker, make_context, drop_context),
      cmocka_unit_test_setup_teardown(memory, make_context, drop_context),
      cmocka_unit_test_setup_teardown(rounds_of_the_trainer, make_context, drop_context),
      cmocka_unit_test_setup_teardown(slow_rounds_of_the_trainer, make_context, drop_context),
      cmocka_unit_test_setup_teardown(without_rounds, make_context, drop_context),
      cmocka_unit_test_setup_teardown(very_slow_workers, make_context, drop_context),
      cmocka_unit_test_setup_teardown(long_hops, make_context, drop_context),
      cmocka_unit_test_setup_teardown(no_link_passes_more_than_it_can, make_context, drop_context),
      cmocka_unit_test_setup_teardown(within_a_world, make_context, drop_context),
      cmocka_unit_test_setup_teardown(real_runs, make_context, drop_context),
      cmocka_unit_test_setup_teardown(length_of_a_trial, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bad_input, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
