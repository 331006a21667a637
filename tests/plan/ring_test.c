/* Predictions of rings beside the plain model's published values, beside closed forms that are worked out here, and
 * beside the engine itself, which runs on a simulated cluster with nothing to compute. */
#include <math.h>

#include "laconic/plan.h"
#include "support.h"

enum { MOST = 256 };

/* ---- the plain model ---- */

static lac_ring_plain paper(double points, int64_t submodels, int64_t epochs) {
  return (lac_ring_plain){.w = 1, .z = 40, .hop = 1e4, .points = points, .submodels = submodels, .epochs = epochs};
}

/* Values of the published formula, which were computed apart from this code. */
static void plain_speedups_are_those_of_the_paper(void **state) {
  (void)state;
  lac_ring_plain sift = paper(1e6, 32, 1), billion = paper(1e8, 128, 2);
  static const int64_t workers[] = {16, 32, 64, 96, 128};
  static const double expected[] = {15.9, 31.5, 58.9, 80.7, 96.8};
  for (int i = 0; i < 5; i++) {
    assert_equal_within(lac_plan_plain_speedup(&sift, workers[i]), expected[i], 0.05);
  }
  assert_equal_within(lac_plan_plain_speedup(&billion, 128), 127.9, 0.05);
}

/* T(1) / (T_W + T_Z) of the times, and the two forms of the formula, agree at every number of workers. */
static void plain_times_and_speedups_agree(void **state) {
  (void)state;
  for (int local = 0; local < 2; local++) {
    lac_ring_plain model = paper(1e6, 32, 3);
    model.local_epochs = local;
    double laps = local ? 2 : 4, rho_1 = 40 / (laps * 1e4), rho_2 = 3 / (laps * 1e4);
    for (int64_t p = 1; p <= MOST; p++) {
      double w, communication, z, k = 32 / ceil(32.0 / (double)p), alone = 32 * 1e6 * (40 + 3);
      lac_plan_plain_times(&model, p, &w, &communication, &z);
      double speedup = (rho_1 + rho_2) * k / ((double)p / 1e6 + rho_1 * k / (double)p + rho_2);
      assert_equal_within(alone / (w + communication + z) / speedup, 1, 1e-12);
      assert_equal_within(lac_plan_plain_speedup(&model, p) / speedup, 1, 1e-12);
    }
  }
}

/* P* is where no other number of workers does better, and S* what it reaches; where Z is too cheap for it, M is. */
static void plain_best_is_the_best(void **state) {
  (void)state;
  double z = 1e-5;
  for (int power = -4; power < 3; power++) {
    z *= 10;
    lac_ring_plain model = paper(1e6, 32, 1);
    double best, speedup, found = 0;
    model.z = z;
    lac_plan_plain_best(&model, &best, &speedup);
    for (int64_t p = 1; p < 5000; p++) {
      found = fmax(found, lac_plan_plain_speedup(&model, p));
    }
    assert_true(best >= 32);
    assert_true(found <= speedup * (1 + 1e-12));
    assert_equal_within(found / speedup, 1, 1e-3); /* P* need not be a whole number */
  }
}

/* ---- the extended model ---- */

typedef struct setting {
  double points;
  int64_t columns, bits, epochs, batch;
  bool local;
  int kinds;
  double visit;
} setting;

static const setting settings[] = {{5e4, 320, 16, 1, 0, false, 2, 50e-9}, {1e6, 128, 16, 1, 0, false, 2, 30e-9},
                                   {1e8, 128, 64, 2, 0, false, 2, 30e-9}, {5e4, 320, 16, 1, 0, false, 1, 0},
                                   {5e4, 320, 16, 2, 0, true, 2, 50e-9},  {1e6, 128, 16, 2, 1, false, 2, 30e-9}};
static const lac_cluster networks[] = {{.latency = 50e-6, .bandwidth = 1.25e8},
                                       {.latency = 25e-6, .bandwidth = 1.25e9}};

static lac_ring_job job_of(const setting *s) {
  double columns = (double)s->columns, bits = (double)s->bits;
  return (lac_ring_job){.points = s->points,
                        .submodels = 2 * s->bits,
                        .epochs = s->epochs,
                        .batch = s->batch,
                        .iterations = 1,
                        .local_epochs = s->local,
                        .bytes = {4 * columns + 40, (bits + 1) * 8 * (columns + bits + 1) / bits + 16},
                        .costs = {.kinds = s->kinds,
                                  .begin = 3e-9 * bits,
                                  .visit = s->visit,
                                  .submodel = {0.1e-9 * columns, 0},
                                  .handling = 2e-6,
                                  .z = 50e-9 * bits}};
}

static double seconds_of(lac_context *context, const lac_ring_job *job, const lac_cluster *cluster, int workers,
                         const int64_t *shares, bool rehearsed, lac_plan *plan) {
  lac_link links[MOST], sum = {0};
  double most = 0;
  assert_ok(context, rehearsed ? lac_plan_rehearse_ring(context, job, cluster, NULL, workers, shares, 1, plan, links)
                               : lac_plan_ring(context, job, cluster, workers, shares, plan, links));
  for (int p = 0; p < workers; p++) {
    sum.messages += links[p].messages;
    sum.bytes += links[p].bytes;
    most = fmax(most, links[p].bytes);
  }
  assert_true(fabs(sum.messages - plan->messages) <= 1e-9 * plan->messages);
  assert_true(fabs(sum.bytes - plan->bytes) <= 1e-9 * plan->bytes && most == plan->link_bytes);
  return plan->seconds.total;
}

/* Within 5 % up to P = M, within 10 % beyond it, and the same messages and bytes; more workers are in docs/scaling.md.
 */
static void the_formula_is_near_the_engine(void **state) {
  static const int workers[] = {1, 2, 3, 7, 16, 32, 48};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    for (int n = 0; n < 2; n++) {
      lac_ring_job job = job_of(&settings[s]);
      for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        lac_plan formula, engine;
        double a = seconds_of(*state, &job, &networks[n], workers[i], NULL, false, &formula);
        double b = seconds_of(*state, &job, &networks[n], workers[i], NULL, true, &engine);
        if (fabs(a / b - 1) > (workers[i] <= job.submodels ? 0.05 : 0.1)) {
          fail_msg("setting %zu, network %d, %d workers: formula %g s, engine %g s", s, n, workers[i], a, b);
        }
        assert_equal_within(engine.messages, lac_mac_messages(job.submodels, workers[i], job.epochs, job.local_epochs),
                            1e-6);
        assert_equal_within(formula.messages, engine.messages, 1e-6);
        assert_true(fabs(formula.bytes - engine.bytes) <= 0.02 * engine.bytes);
        assert_equal_within(formula.speedup * formula.seconds.total, engine.speedup * engine.seconds.total, 1e-6);
      }
    }
  }
}

static void assert_close(double found, double expected, double part, const char *what) {
  if (!(fabs(found - expected) <= part * fabs(expected))) {
    fail_msg("%s: found %.12g, expected %.12g within %g of it", what, found, expected, part);
  }
}

/* Iterations on a subsample take what iterations over so many points take, and points that join are one Z step. */
static void a_subsample_is_fewer_points(void **state) {
  static const int workers[] = {1, 3, 20};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
      lac_ring_job job = job_of(&settings[s]), some = job, all = job;
      job.iterations = 5, job.subsampled = 3, job.subsample = 0.25;
      some.points /= 4;
      for (int rehearsed = 0; rehearsed < 2; rehearsed++) {
        lac_plan whole, few, one;
        double total = seconds_of(*state, &job, &networks[0], workers[i], NULL, rehearsed, &whole);
        double expected = 3 * seconds_of(*state, &some, &networks[0], workers[i], NULL, rehearsed, &few) +
                          2 * seconds_of(*state, &all, &networks[0], workers[i], NULL, rehearsed, &one) +
                          0.75 * job.points / workers[i] * job.costs.z;
        assert_close(total, expected, rehearsed ? 0.01 : 1e-9, "subsampled iterations");
        assert_equal_within(whole.messages, 5 * one.messages, 1e-6);
      }
    }
  }
  /* Whole blocks: of 234 points in two blocks of 128 a worker takes 128, however small the part that is asked for. */
  lac_ring_job small = job_of(&settings[0]), blocks = small;
  small.points = 234 * 16, blocks.points = 128 * 16;
  small.subsampled = 1, small.subsample = 0.125, small.granule = 128;
  lac_plan whole, few;
  assert_close(seconds_of(*state, &small, &networks[0], 16, NULL, false, &whole),
               seconds_of(*state, &blocks, &networks[0], 16, NULL, false, &few) + (234 - 128) * small.costs.z, 1e-9,
               "blocks");
  /* Early costs hold for the first iterations, whichever of them are over a subsample. */
  for (int64_t subsampled = 0; subsampled <= 6; subsampled++) {
    const int64_t first = 4, iterations = 6, fewer = subsampled < first ? subsampled : first;
    lac_ring_job job = job_of(&settings[0]), early = job, late = job;
    job.costs.early = first, job.costs.early_begin = 9e-8, job.costs.early_z = 3e-6;
    early.costs.begin = 9e-8, early.costs.z = 3e-6;
    job.iterations = iterations, job.subsampled = subsampled, job.subsample = 0.5;
    lac_ring_job few_early = early, few_late = late;
    few_early.points /= 2, few_late.points /= 2;
    for (int rehearsed = 0; rehearsed < 2; rehearsed++) {
      lac_plan of;
      const lac_cluster *network = &networks[0];
      double total = seconds_of(*state, &job, network, 3, NULL, rehearsed, &of);
      double expected = (double)fewer * seconds_of(*state, &few_early, network, 3, NULL, rehearsed, &of) +
                        (double)(first - fewer) * seconds_of(*state, &early, network, 3, NULL, rehearsed, &of) +
                        (double)(subsampled - fewer) * seconds_of(*state, &few_late, network, 3, NULL, rehearsed, &of) +
                        (double)(iterations - first - subsampled + fewer) *
                            seconds_of(*state, &late, network, 3, NULL, rehearsed, &of) +
                        (subsampled > 0 ? 0.5 * job.points / 3 * (subsampled <= first ? 3e-6 : job.costs.z) : 0);
      assert_close(total, expected, rehearsed ? 0.01 : 1e-9, "early iterations");
    }
  }
  lac_plan plan;
  lac_ring_job job = job_of(&settings[0]);
  job.subsampled = 2;
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 2, NULL, &plan, NULL), LAC_E_USAGE,
                 "1 iterations, 2 of them on a subsample");
  job.subsampled = 1, job.subsample = 1.5;
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 2, NULL, &plan, NULL), LAC_E_USAGE,
                 "subsample of 1.5");
}

/* Handling is paid once a visit, whatever the passes; single submodels travel with their own bytes. */
static void small_shards_and_slow_networks(void **state) {
  static const int workers[] = {32, 64, 128};
  const lac_cluster quick = {.latency = 5e-6, .bandwidth = 1e12}, slow = {.latency = 50e-6, .bandwidth = 1.25e6};
  lac_plan formula, engine;
  lac_ring_job job = job_of(&(setting){2000, 128, 16, 10, 0, true, 2, 1e-7});
  job.costs.submodel[0] = 1e-8, job.costs.z = 1e-7;
  for (int i = 0; i < 3; i++) {
    double a = seconds_of(*state, &job, &quick, workers[i], NULL, false, &formula);
    assert_close(a, seconds_of(*state, &job, &quick, workers[i], NULL, true, &engine), 0.1, "local epochs");
  }
  job = job_of(&(setting){1e5, 128, 16, 2, 0, false, 2, 1e-7});
  for (int i = 0; i < 3; i++) {
    double a = seconds_of(*state, &job, &slow, workers[i], NULL, false, &formula);
    assert_close(a, seconds_of(*state, &job, &slow, workers[i], NULL, true, &engine), 0.05, "a slow network");
  }
}

/* Of machines at half the speed everything takes twice as long, where the network takes nothing. */
static void half_the_speed_is_twice_the_time(void **state) {
  double speeds[8];
  for (int p = 0; p < 8; p++) {
    speeds[p] = 0.5;
  }
  const lac_cluster full = {0}, half = {.speeds = speeds};
  lac_ring_job job = job_of(&settings[1]);
  job.start_point = 1e-7, job.start_fixed = 0.3, job.iteration_point = 1e-8, job.iteration_fixed = 0.02;
  job.finish_point = 1e-8, job.finish_fixed = 0.1, job.iterations = 3;
  for (int p = 1; p <= 8; p *= 2) {
    lac_plan one, two;
    for (int rehearsed = 0; rehearsed < 2; rehearsed++) {
      double a = seconds_of(*state, &job, &full, p, NULL, rehearsed, &one);
      double b = seconds_of(*state, &job, &half, p, NULL, rehearsed, &two);
      assert_close(b, 2 * a, rehearsed ? 1e-3 : 1e-12, "total");
      assert_close(two.efficiency, one.efficiency, rehearsed ? 1e-3 : 1e-12, "efficiency");
    }
  }
}

static lac_status rehearse_within(lac_world *world, void *argument) {
  lac_ring_job job = job_of(&settings[1]);
  const lac_cluster cluster = {0};
  lac_plan plan;
  lac_status status =
      lac_plan_rehearse_ring(lac_world_context(world), &job, &cluster, world, *(int *)argument, NULL, 1, &plan, NULL);
  return !status && plan.workers != lac_world_size(world)
             ? lac_fail(lac_world_context(world), LAC_E_INTERNAL, "found a plan of %lld workers",
                        (long long)plan.workers)
             : status;
}

static void within_a_world(void **state) {
  int workers = 3;
  lac_world_options options = {.backend = "sim", .workers = 3};
  assert_ok(*state, lac_world_run(*state, &options, rehearse_within, &workers));
  options.workers = 64;
  assert_failure(*state, lac_world_run(*state, &options, rehearse_within, &workers), LAC_E_USAGE, "workers: found 3");
  options.workers = 3, options.backend = "local";
  assert_failure(*state, lac_world_run(*state, &options, rehearse_within, &workers), LAC_E_USAGE,
                 "back end: found local");
}

/* On a network that costs nothing a ring is in lock step, batches stay together, and all costs are spent once: the
 * engine's clock shows the sum. Begin, e P visits of q submodels, Z; all numbers divide. */
static void a_free_network_gives_the_sum_of_the_costs(void **state) {
  static const int workers[] = {1, 2, 4, 8, 16};
  const lac_cluster nothing = {0};
  lac_ring_job job = job_of(&(setting){1 << 20, 64, 8, 3, 0, false, 2, 30e-9});
  for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
    double p = workers[i], q = 16 / p, points = 1048576 / p;
    double visit = 30e-9 + ceil(q / 2) * 6.4e-9; /* of one submodel the dearer kind */
    double expected = points * (3e-9 * 8 + 50e-9 * 8) + 3 * p * (points * visit + q * 2e-6);
    lac_plan plan;
    seconds_of(*state, &job, &nothing, workers[i], NULL, true, &plan);
    assert_equal_within(plan.seconds.total / expected, 1, 1e-3); /* a look for messages takes a microsecond */
    seconds_of(*state, &job, &nothing, workers[i], NULL, false, &plan);
    assert_equal_within(plan.seconds.total / expected, 1, 1e-3); /* a look for messages takes a microsecond */
  }
}

/* Half the machines at half speed: shares by speed bring the time to the ideal, equal ones to that of the slow. */
static void shares_by_speed_make_up_for_slow_workers(void **state) {
  enum { P = 16 };
  lac_ring_job job = job_of(&settings[1]);
  double speeds[P];
  int64_t shares[P], even[P];
  for (int p = 0; p < P; p++) {
    speeds[p] = p % 2 ? 0.5 : 1;
  }
  lac_cluster slow = networks[1], fast = networks[1];
  slow.speeds = speeds;
  assert_ok(*state, lac_hash_shares(*state, 1000000, P, speeds, shares));
  assert_ok(*state, lac_hash_shares(*state, 1000000, P, NULL, even));
  for (int rehearsed = 0; rehearsed < 2; rehearsed++) {
    lac_plan plan;
    double ideal = seconds_of(*state, &job, &fast, P, even, rehearsed, &plan) * P / (0.75 * P);
    double by_speed = seconds_of(*state, &job, &slow, P, shares, rehearsed, &plan);
    double equal = seconds_of(*state, &job, &slow, P, even, rehearsed, &plan);
    assert_true(by_speed < 1.05 * ideal);
    assert_true(equal > 1.4 * ideal);
  }
}

/* A worker that trains singly is charged for each visit, and for none of submodels that cost nothing. */
static void costs_are_of_what_is_trained(void **state) {
  (void)state;
  const lac_mac_costs costs = {.kinds = 2, .visit = 3, .submodel = {5, 0}, .handling = 7};
  const int64_t both[] = {4, 9}, encoder[] = {4}, decoder[] = {9};
  assert_equal_within(lac_mac_visit_seconds(&costs, 10, 2, both, 2), 10 * 2 * (3 + 5) + 2 * 7, 1e-12);
  assert_equal_within(lac_mac_visit_seconds(&costs, 10, 1, encoder, 1), 10 * (3 + 5) + 7, 1e-12);
  assert_equal_within(lac_mac_visit_seconds(&costs, 10, 1, decoder, 1), 7, 1e-12);
}

/* The sizes of a job are those of the trainer: its estimate is the sum over what travels. */
static void a_job_has_the_sizes_of_the_trainer(void **state) {
  lac_hash_options options;
  lac_hash_estimate estimate;
  lac_ring_job job;
  assert_ok(*state, lac_options_default(*state, lac_hash_option_table(), &options));
  options.bits = 24;
  options.mac.epochs = 2;
  options.subsample = 1;
  assert_ok(*state, lac_plan_hash_job(*state, &options, 1e5, 100, NULL, &job));
  assert_ok(*state, lac_hash_train_estimate(*state, &options, 25000, 100, LAC_U8, 4, &estimate));
  assert_int_equal(job.submodels, estimate.submodels);
  lac_plan plan;
  job.iterations = 1;
  assert_ok(*state, lac_plan_ring(*state, &job, &networks[0], 4, NULL, &plan, NULL));
  assert_equal_within(plan.messages, estimate.messages, 1e-9);
  assert_equal_within(plan.bytes / (double)estimate.bytes, 1, 1e-12);
}

/* ---- the real engine on drawn points ---- */

static void a_real_run_is_a_run(void **state) {
  lac_hash_options options;
  lac_plan plan;
  const int64_t shares[] = {700, 500};
  assert_ok(*state, lac_options_default(*state, lac_hash_option_table(), &options));
  options.bits = 8;
  options.mac.iterations = 3;
  lac_link links[2];
  assert_ok(*state, lac_plan_real_ring(*state, &options, 1200, 16, LAC_U8, 2, shares, &plan, links));
  assert_int_equal(plan.workers, 2);
  assert_true(plan.seconds.w > 0 && plan.seconds.z > 0 && plan.seconds.total >= plan.seconds.w + plan.seconds.z);
  assert_true(plan.messages > 0 && fmod(plan.messages, (double)lac_mac_messages(16, 2, 1, false)) == 0);
  assert_true(links[0].messages + links[1].messages == plan.messages);
  assert_true(links[0].bytes + links[1].bytes == plan.bytes);
  assert_ok(*state, lac_plan_real_ring(*state, &options, 1200, 16, LAC_U8, 2, NULL, &plan, NULL));
  const int64_t few[] = {100, 100};
  assert_failure(*state, lac_plan_real_ring(*state, &options, 1200, 16, LAC_U8, 2, few, &plan, NULL), LAC_E_USAGE,
                 "found shares of together 200 points");
  assert_failure(*state, lac_plan_real_ring(*state, &options, 1200, -5, LAC_U8, 2, NULL, &plan, NULL), LAC_E_USAGE,
                 "points of -5 columns");
  assert_failure(*state, lac_plan_real_ring(*state, &options, INT64_C(1) << 44, 1 << 20, LAC_U8, 2, NULL, &plan, NULL),
                 LAC_E_USAGE, "found 17592186044416 points");
}

/* ---- what cannot be ---- */

static void what_cannot_be_is_refused(void **state) {
  lac_ring_job job = job_of(&settings[1]);
  lac_plan plan;
  const double speeds[] = {1, 0};
  const int64_t shares[] = {1000000, 0};
  lac_cluster cluster = {.speeds = speeds};
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 0, NULL, &plan, NULL), LAC_E_USAGE,
                 "found 0 workers");
  assert_failure(*state, lac_plan_ring(*state, &job, &cluster, 2, NULL, &plan, NULL), LAC_E_USAGE,
                 "worker 1: found speed 0");
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 2, shares, &plan, NULL), LAC_E_USAGE, "0 points");
  assert_failure(*state, lac_plan_rehearse_ring(*state, &job, &networks[0], NULL, 2, NULL, 0, &plan, NULL), LAC_E_USAGE,
                 "found 0 iterations");
  job.points = 3;
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 4, NULL, &plan, NULL), LAC_E_USAGE,
                 "found 3 points");
  job = job_of(&settings[1]);
  cluster = (lac_cluster){.latency = (double)NAN};
  assert_failure(*state, lac_plan_ring(*state, &job, &cluster, 4, NULL, &plan, NULL), LAC_E_USAGE,
                 "latency: found nan");
  cluster.latency = -1;
  assert_failure(*state, lac_plan_ring(*state, &job, &cluster, 4, NULL, &plan, NULL), LAC_E_USAGE, "latency: found -1");
  const int64_t ones[] = {1, 1, 1, 1};
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 4, ones, &plan, NULL), LAC_E_USAGE,
                 "shares of together 4 points");
  job.costs.visit = (double)NAN;
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 4, NULL, &plan, NULL), LAC_E_USAGE,
                 "costs of a visit: found nan");
  job = job_of(&settings[1]);
  job.batch = -1;
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 4, NULL, &plan, NULL), LAC_E_USAGE, "batches of -1");
  job = job_of(&settings[1]);
  assert_failure(*state, lac_plan_rehearse_ring(*state, &job, &networks[0], NULL, 2, NULL, INT64_MAX, &plan, NULL),
                 LAC_E_USAGE, "found 9223372036854775807 iterations");
  job.costs.kinds = 0;
  assert_failure(*state, lac_plan_ring(*state, &job, &networks[0], 4, NULL, &plan, NULL), LAC_E_USAGE, "of 0 kinds");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_speedups_are_those_of_the_paper),
      cmocka_unit_test(plain_times_and_speedups_agree),
      cmocka_unit_test(plain_best_is_the_best),
      cmocka_unit_test(the_formula_is_near_the_engine),
      cmocka_unit_test(small_shards_and_slow_networks),
      cmocka_unit_test(half_the_speed_is_twice_the_time),
      cmocka_unit_test(within_a_world),
      cmocka_unit_test(a_free_network_gives_the_sum_of_the_costs),
      cmocka_unit_test(shares_by_speed_make_up_for_slow_workers),
      cmocka_unit_test(costs_are_of_what_is_trained),
      cmocka_unit_test(a_subsample_is_fewer_points),
      cmocka_unit_test(a_job_has_the_sizes_of_the_trainer),
      cmocka_unit_test(a_real_run_is_a_run),
      cmocka_unit_test(what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
