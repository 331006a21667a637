#include "plan/ring.h"

#include <math.h>

#include "base/memory.h"

static lac_status check_counts(lac_context *context, const lac_ring_job *job, int workers) {
  if (workers < 1 || workers > LAC_WORKERS_LIMIT) {
    return lac_fail(context, LAC_E_USAGE, "plan: found %d workers, expected 1 to %d", workers, LAC_WORKERS_LIMIT);
  }
  if (!(job->points >= workers) || job->points > 1e15) {
    return lac_fail(context, LAC_E_USAGE, "plan: found %g points for %d workers, expected at least one for each",
                    job->points, workers);
  }
  if (job->submodels < 1 || job->epochs < 1 || job->iterations < 0 || job->batch < 0 || job->costs.kinds < 1 ||
      job->costs.kinds > LAC_MAC_KINDS || job->subsampled < 0 || job->subsampled > job->iterations) {
    return lac_fail(
        context, LAC_E_USAGE,
        "plan: found %lld submodels of %d kinds, %lld epochs, %lld iterations, %lld of them on a subsample, "
        "batches of %lld",
        (long long)job->submodels, job->costs.kinds, (long long)job->epochs, (long long)job->iterations,
        (long long)job->subsampled, (long long)job->batch);
  }
  if (job->subsampled > 0 && !(job->subsample > 0 && job->subsample <= 1)) {
    return lac_fail(context, LAC_E_USAGE, "plan: found a subsample of %g of the points, expected more than 0 to 1",
                    job->subsample);
  }
  return LAC_OK;
}

static lac_status check_number(lac_context *context, const char *name, double value) {
  return value >= 0 && isfinite(value)
             ? LAC_OK
             : lac_fail(context, LAC_E_USAGE, "plan: %s: found %g, expected a finite number of at least 0", name,
                        value);
}

static lac_status check_numbers(lac_context *context, const lac_ring_job *job, const lac_cluster *cluster) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"latency", cluster->latency},
                 {"bandwidth", cluster->bandwidth},
                 {"costs before a W step", job->costs.begin},
                 {"costs of a visit", job->costs.visit},
                 {"costs of handling", job->costs.handling},
                 {"costs of a Z step", job->costs.z},
                 {"costs of early iterations", job->costs.early_begin + job->costs.early_z},
                 {"costs of the start", job->start_point + job->start_fixed},
                 {"costs of an iteration", job->iteration_point + job->iteration_fixed},
                 {"costs of the end", job->finish_point + job->finish_fixed}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    LAC_TRY(check_number(context, numbers[i].name, numbers[i].value));
  }
  for (int k = 0; k < job->costs.kinds; k++) {
    LAC_TRY(check_number(context, "costs of a submodel", job->costs.submodel[k]));
    LAC_TRY(check_number(context, "bytes of a submodel", job->bytes[k]));
  }
  return LAC_OK;
}

lac_status lac_ring_check(lac_context *context, const lac_ring_job *job, const lac_cluster *cluster, int workers,
                          const int64_t *shares) {
  double sum = 0;
  LAC_TRY(check_counts(context, job, workers));
  if (!cluster) {
    return lac_fail(context, LAC_E_USAGE, "plan: found no cluster");
  }
  LAC_TRY(check_numbers(context, job, cluster));
  for (int p = 0; p < workers; p++) {
    double speed = lac_ring_speed(cluster, p);
    if (!(speed > 0) || !isfinite(speed) || (shares && shares[p] < 1)) {
      return lac_fail(context, LAC_E_USAGE, "plan: worker %d: found speed %g and %lld points, expected more than 0", p,
                      speed, shares ? (long long)shares[p] : 1LL);
    }
    sum += shares ? (double)shares[p] : 0;
  }
  if (shares && fabs(sum - job->points) > 1e-9 * job->points) {
    return lac_fail(context, LAC_E_USAGE, "plan: found shares of together %.15g points, expected the %.15g of the job",
                    sum, job->points);
  }
  return LAC_OK;
}

double lac_ring_speed(const lac_cluster *cluster, int worker) {
  return cluster->speeds ? cluster->speeds[worker] : 1;
}

double lac_ring_load(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                     int worker) {
  double points = shares ? (double)shares[worker] : job->points / workers;
  return points / lac_ring_speed(cluster, worker);
}

/* Of a worker's points those that take part in an iteration on a subsample. */
static double part_of(const lac_ring_job *job, int workers) {
  double share = job->points / workers, granule = (double)job->granule;
  return granule > 0 ? fmin(1, ceil(ceil(share / granule) * job->subsample) * granule / share) : job->subsample;
}

int64_t lac_ring_kind(const lac_ring_job *job, int workers, int kind, lac_mac_costs *costs) {
  int64_t early = job->costs.early < job->iterations ? job->costs.early : job->iterations, part = job->subsampled;
  int64_t ends[] = {0, part < early ? part : early, part < early ? early : part, job->iterations};
  int64_t first = ends[kind], count = ends[kind + 1] - first;
  double taken = part_of(job, workers);
  *costs = lac_mac_costs_at(&job->costs, first + 1);
  if (first < part) {
    costs->begin *= taken;
    costs->visit *= taken;
    costs->z *= taken;
    for (int k = 0; k < costs->kinds; k++) {
      costs->submodel[k] *= taken;
    }
  }
  return count;
}

double lac_ring_joining(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares) {
  double slowest = 0, point = lac_mac_costs_at(&job->costs, job->subsampled).z; /* of the last mu before */
  for (int p = 0; p < workers && job->subsampled > 0; p++) {
    slowest = fmax(slowest, lac_ring_load(job, cluster, workers, shares, p) * point * (1 - part_of(job, workers)));
  }
  return slowest;
}

/* ---- the formula: docs/planning.md derives it ---- */

/* Seconds per point of a visit of `count` submodels with successive numbers, the dearest such. */
static double visit_cost(const lac_mac_costs *costs, int64_t count) {
  double whole = 0, dearest = 0;
  for (int k = 0; k < costs->kinds; k++) {
    whole += costs->submodel[k];
  }
  for (int first = 0; first < costs->kinds; first++) {
    double rest = 0;
    for (int64_t i = 0; i < count % costs->kinds; i++) {
      rest += costs->submodel[(first + i) % costs->kinds];
    }
    dearest = fmax(dearest, rest);
  }
  int64_t wholes = count / costs->kinds;
  double all = (double)wholes * whole + dearest;
  return all > 0 ? costs->visit + all : 0;
}

/* Of all M, the part that costs nothing to train. */
static double idle_part(const lac_mac_costs *costs) {
  double idle = 0;
  for (int k = 0; k < costs->kinds; k++) {
    idle += costs->submodel[k] > 0 ? 0 : 1;
  }
  return idle / costs->kinds;
}

/* Of all M submodels, each by itself; of their bytes the mean. */
static double all_submodels(const lac_ring_job *job, double *bytes) {
  double seconds = 0;
  *bytes = 0;
  for (int k = 0; k < job->costs.kinds; k++) {
    int64_t count = (job->submodels + job->costs.kinds - 1 - k) / job->costs.kinds;
    seconds += (double)count * job->costs.submodel[k];
    *bytes += (double)count * job->bytes[k] / (double)job->submodels;
  }
  return seconds;
}

typedef struct lac_block_size {
  int64_t workers; /* that begin with submodels: min(P, M) */
  int64_t most;    /* submodels of the largest block */
  int64_t batch;   /* most that train together */
  double batches;  /* visits to a worker in an epoch that cost anything */
} lac_block_size;

/* Of the batches in which `count` submodels travel those that cost anything; of single submodels the mean. */
static double paid_batches(const lac_mac_costs *costs, int64_t count, int64_t batch) {
  int64_t whole = count / batch, rest = count % batch;
  double single = 1 - idle_part(costs), paid = (double)whole * (batch == 1 ? single : 1);
  return paid + (rest == 1 ? single : rest > 1 ? 1 : 0);
}

static lac_block_size block_size(const lac_ring_job *job, int workers) {
  int64_t m = job->submodels;
  lac_block_size size = {.workers = workers < m ? workers : m, .most = (m + workers - 1) / workers};
  int64_t small = m / size.workers, larger = m % size.workers;
  size.batch = job->batch && job->batch < size.most ? job->batch : size.most;
  size.batches = (double)larger * paid_batches(&job->costs, small + 1, size.batch) +
                 (double)(size.workers - larger) * paid_batches(&job->costs, small, size.batch);
  return size;
}

/* Seconds of the way of a batch around the ring, from the worker that begins with it to the last that is told of it: e
 * visits to each worker, or one with all passes. `point` is what a visit takes of a point, `bytes` those of one
 * submodel. */
static double way_seconds(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                          const lac_block_size *size, double point, double bytes, double *hops) {
  double e = (double)job->epochs, laps = job->local_epochs ? 1 : e, q = (double)size->batch, visits = 0;
  double wire = cluster->bandwidth > 0 ? bytes / cluster->bandwidth : 0;
  for (int p = 0; p < workers; p++) {
    visits += e * lac_ring_load(job, cluster, workers, shares, p) * point +
              laps * q * job->costs.handling / lac_ring_speed(cluster, p);
  }
  *hops = (laps * workers - 1) * (cluster->latency + q * wire) + (workers - 1) * (cluster->latency + wire) +
          (double)(size->most - 1) * wire;
  return visits + *hops;
}

/* The longest way of all. Where submodels travel alone each kind goes its own; one with few bytes waits behind others
 * on its links as if it had the mean. */
static double longest_way(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                          const lac_block_size *size, double mean_bytes, double *hops) {
  if (size->batch > 1) {
    return way_seconds(job, cluster, workers, shares, size, visit_cost(&job->costs, size->batch), mean_bytes, hops);
  }
  double longest = 0;
  for (int k = 0; k < job->costs.kinds; k++) {
    double submodel = job->costs.submodel[k], own;
    double way = way_seconds(job, cluster, workers, shares, size, submodel > 0 ? job->costs.visit + submodel : 0,
                             fmax(job->bytes[k], mean_bytes), &own);
    *hops = way > longest ? own : *hops;
    longest = fmax(longest, way);
  }
  return longest;
}

/* Seconds of an iteration; serial parts apart. */
static void iteration_seconds(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                              lac_plan_seconds *seconds) {
  const lac_mac_costs *costs = &job->costs;
  lac_block_size size = block_size(job, workers);
  double e = (double)job->epochs, laps = job->local_epochs ? 1 : e, p = workers, bytes, busiest = 0, slowest = 0;
  double submodels = all_submodels(job, &bytes), begin = 0;
  for (int i = 0; i < workers; i++) {
    double load = lac_ring_load(job, cluster, workers, shares, i);
    double w = load * (costs->begin + e * (size.batches * costs->visit + submodels)) +
               laps * (double)job->submodels * costs->handling / lac_ring_speed(cluster, i);
    busiest = fmax(busiest, w);
    slowest = fmax(slowest, load * costs->z);
    begin = fmax(begin, load * costs->begin);
  }
  seconds->w = busiest;
  seconds->z = slowest;
  if (workers == 1) {
    return;
  }
  double wire = cluster->bandwidth > 0 ? bytes / cluster->bandwidth : 0, hops = 0;
  double last = (p - 1) * (cluster->latency + wire) + (double)(size.most - 1) * wire;
  double chain = begin + longest_way(job, cluster, workers, shares, &size, bytes, &hops);
  double small = cluster->latency + (cluster->bandwidth > 0 ? 16 / cluster->bandwidth : 0);
  double sums = 3 * 2 * ceil(log2(p)) * small;
  double w = fmax(chain, busiest + last);
  seconds->communication = fmin(hops, w - busiest) + sums;
  double waiting = w - busiest - (seconds->communication - sums);
  seconds->waiting = waiting > 1e-12 * w ? waiting : 0; /* less is rounding */
}

/* What is not in the steps. */
static double serial_seconds(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares) {
  double times = (double)job->iterations, load = 0, slowest = lac_ring_speed(cluster, 0);
  for (int p = 0; p < workers; p++) {
    load = fmax(load, lac_ring_load(job, cluster, workers, shares, p));
    slowest = fmin(slowest, lac_ring_speed(cluster, p));
  }
  return (job->start_fixed + job->finish_fixed + times * job->iteration_fixed) / slowest +
         load * (job->start_point + job->finish_point + times * job->iteration_point);
}

static void scale(lac_plan_seconds *seconds, double times) {
  seconds->w *= times;
  seconds->z *= times;
  seconds->communication *= times;
  seconds->waiting *= times;
}

/* Seconds of all iterations; serial parts apart. */
static void all_iterations(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                           lac_plan_seconds *seconds) {
  lac_ring_job of = *job;
  *seconds = (lac_plan_seconds){.z = lac_ring_joining(job, cluster, workers, shares)};
  for (int kind = 0; kind < LAC_RING_KINDS; kind++) {
    lac_plan_seconds some = {0};
    int64_t count = lac_ring_kind(job, workers, kind, &of.costs);
    if (count > 0) {
      iteration_seconds(&of, cluster, workers, shares, &some);
      scale(&some, (double)count);
      seconds->w += some.w;
      seconds->z += some.z;
      seconds->communication += some.communication;
      seconds->waiting += some.waiting;
    }
  }
}

static double total(const lac_plan_seconds *seconds) {
  return seconds->w + seconds->z + seconds->serial + seconds->communication + seconds->waiting;
}

/* The whole job on one worker of speed 1. */
static double alone(const lac_ring_job *job) {
  const lac_cluster one = {0};
  lac_plan_seconds seconds = {0};
  all_iterations(job, &one, 1, NULL, &seconds);
  seconds.serial = serial_seconds(job, &one, 1, NULL);
  return total(&seconds);
}

void lac_ring_complete(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                       lac_plan *plan) {
  double speeds = 0;
  for (int p = 0; p < workers; p++) {
    speeds += lac_ring_speed(cluster, p);
  }
  plan->workers = workers;
  plan->seconds.serial = serial_seconds(job, cluster, workers, shares);
  plan->seconds.total = total(&plan->seconds);
  plan->speedup = alone(job) / plan->seconds.total;
  plan->efficiency = plan->speedup / speeds;
}

lac_status lac_plan_ring(lac_context *context, const lac_ring_job *job, const lac_cluster *cluster, int workers,
                         const int64_t *shares, lac_plan *plan, lac_link *links) {
  double bytes;
  *plan = (lac_plan){0};
  LAC_TRY(lac_ring_check(context, job, cluster, workers, shares));
  all_iterations(job, cluster, workers, shares, &plan->seconds);
  all_submodels(job, &bytes);
  plan->messages =
      (double)job->iterations * (double)lac_mac_messages(job->submodels, workers, job->epochs, job->local_epochs);
  plan->bytes = plan->messages * bytes;
  plan->link_bytes = plan->bytes / workers; /* each passes on every submodel as often as the others, but for the ends */
  for (int p = 0; links && p < workers; p++) {
    links[p] = (lac_link){plan->messages / workers, plan->bytes / workers};
  }
  lac_ring_complete(job, cluster, workers, shares, plan);
  return LAC_OK;
}
