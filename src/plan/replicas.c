/* How long replicas take: closed forms for each protocol, derived in docs/planning.md. */
#include <math.h>

#include "base/memory.h"
#include "plan/exchange.h"
#include "plan/within.h"

/* ---- a round of a process ---- */

static int64_t most_neighbours(const lac_topology *topology) {
  int64_t most = 0;
  for (int phase = 0; phase < lac_topology_phases(topology); phase++) {
    const lac_weights *weights = lac_topology_weights(topology, phase);
    for (int64_t i = 0; i < weights->n; i++) {
      int64_t count = 0;
      for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
        count += weights->column[e] != i; /* a file's row may be without its diagonal */
      }
      most = count > most ? count : most;
    }
  }
  return most;
}

static double leaving(const lac_cluster *cluster, double bytes) {
  return cluster->bandwidth > 0 ? bytes / cluster->bandwidth : 0;
}

double lac_plan_round(const lac_process *process, double compute, double bytes, const lac_cluster *cluster) {
  double n = (double)lac_process_workers(process), latency = cluster->latency;
  double vector = leaving(cluster, bytes), period = (double)lac_process_period(process);
  switch ((lac_protocol)lac_process_protocol(process)) {
    case LAC_PROTOCOL_ALLREDUCE:
    case LAC_PROTOCOL_PERIODIC:
      return compute + 2 * (n - 1) * (vector / n + latency) / period;
    case LAC_PROTOCOL_SERVER: /* who is answered last sends last */
      return compute + (n * vector + 2 * latency) / period;
    case LAC_PROTOCOL_DPSGD:
      return compute + ((double)most_neighbours(lac_process_topology(process)) * vector + latency) / period;
    case LAC_PROTOCOL_ASYNC_SERVER: /* a worker waits for the answer; the server's link passes all */
      return fmax(compute + 2 * (vector + latency) / period, (n - 1) * vector / period);
    case LAC_PROTOCOL_ADPSGD: /* who asks waits for the answer, too */
      return compute + 2 * (vector + latency) / period;
    case LAC_PROTOCOL_ASYNC_RING:
      return fmax(compute, (double)most_neighbours(lac_process_topology(process)) * vector / period);
    case LAC_PROTOCOLS:
    default:
      return (double)NAN;
  }
}

/* ---- a job ---- */

static lac_status check_numbers(lac_context *context, const lac_replica_job *job, const lac_cluster *cluster) {
  const struct {
    const char *name;
    double value, least;
  } numbers[] = {{"seconds of a gradient", job->gradient, 0},
                 {"seconds of an update", job->update, 0},
                 {"parameters", (double)job->parameters, 1},
                 {"gradients", job->gradients, 1e-9},
                 {"latency", cluster->latency, 0},
                 {"bandwidth", cluster->bandwidth, 0},
                 {"gradient and update together", job->gradient + job->update, 1e-12}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (!isfinite(numbers[i].value) || numbers[i].value < numbers[i].least) {
      return lac_fail(context, LAC_E_USAGE, "%s: found %g, expected a finite number of at least %g", numbers[i].name,
                      numbers[i].value, numbers[i].least);
    }
  }
  return LAC_OK;
}

static lac_status fill_speeds(lac_context *context, lac_replica_plan *plan) {
  const double *speeds = plan->cluster->speeds;
  double seconds = plan->job->gradient + plan->job->update, sum = 0;
  LAC_TRY(LAC_NEW(context, plan->workers, &plan->gradient));
  for (int i = 0; i < plan->workers; i++) {
    double speed = speeds ? speeds[i] : 1;
    if (!isfinite(speed) || speed <= 0) {
      return lac_fail(context, LAC_E_USAGE, "speed of worker %d: found %g, expected a finite number above 0", i, speed);
    }
    plan->gradient[i] = seconds / speed;
    plan->slowest = fmax(plan->slowest, plan->gradient[i]);
    plan->fastest = i == 0 ? plan->gradient[i] : fmin(plan->fastest, plan->gradient[i]);
    sum += plan->gradient[i];
    plan->speeds += speed;
  }
  plan->mean = plan->fastest < plan->slowest ? sum / plan->workers : plan->slowest; /* to the digit */
  return LAC_OK;
}

static lac_status fill_exchange(lac_context *context, lac_replica_plan *plan) {
  const lac_replica_options *options = plan->job->options;
  plan->nested = options->method == LAC_METHOD_ENTROPY || options->method == LAC_METHOD_PARLE;
  plan->inner = plan->nested ? (double)options->inner_steps : 1;
  plan->period = 1;
  plan->vector = leaving(plan->cluster, (double)sizeof(float) * (double)plan->job->parameters);
  plan->latency = plan->cluster->latency;
  if (plan->workers == 1) {
    return LAC_OK;
  }
  LAC_TRY(lac_replica_process(context, options, plan->workers, &plan->process));
  plan->protocol = lac_process_protocol(plan->process);
  plan->asynchronous = lac_protocol_asynchronous(plan->protocol);
  plan->period = (double)lac_process_period(plan->process);
  plan->mixes = options->method == LAC_METHOD_SGD && !(plan->protocol == LAC_PROTOCOL_ALLREDUCE && plan->period == 1 &&
                                                       lac_process_slack(plan->process) == 1);
  const lac_topology *topology = lac_process_topology(plan->process);
  return topology ? lac_degrees_open(context, topology, &plan->degrees) : LAC_OK;
}

lac_status lac_replica_plan_open(lac_context *context, const lac_replica_job *job, const lac_cluster *cluster,
                                 int workers, lac_replica_plan *plan) {
  *plan = (lac_replica_plan){.job = job, .cluster = cluster, .workers = workers, .protocol = -1};
  if (workers < 1) {
    return lac_fail(context, LAC_E_USAGE, "workers: found %d, expected at least 1", workers);
  }
  LAC_TRY(check_numbers(context, job, cluster));
  LAC_TRY(lac_replica_check(context, job->options, workers));
  LAC_TRY(fill_speeds(context, plan));
  return fill_exchange(context, plan);
}

void lac_replica_plan_close(lac_replica_plan *plan) {
  lac_process_destroy(&plan->process);
  lac_degrees_close(&plan->degrees);
  lac_free(plan->gradient);
  plan->gradient = NULL;
}

bool lac_replica_plan_only_reads(const lac_replica_plan *plan) {
  return plan->protocol == LAC_PROTOCOL_ADPSGD && !plan->mixes;
}

/* ---- rounds: seconds from a mixing to the next ---- */

/* Of a ring all-reduce in 2 (n - 1) hops, of which those count that are left when `gradients` have been computed: a hop
 * that has come is passed on when its worker next looks. */
static double left_of_allreduce(const lac_replica_plan *plan, double gradients) {
  double n = plan->workers, hops = 2 * (n - 1), hop = plan->vector / n + plan->latency;
  double look = plan->slowest / LAC_PLAN_LOOKS, looks = gradients * LAC_PLAN_LOOKS;
  double of_a_hop = fmax(ceil(hop / look * (1 - 1e-12)), 1), made = floor(looks / of_a_hop);
  return made >= hops ? 0 : (hops - made) * hop - (looks - made * of_a_hop) * look;
}

static lac_status allreduce_round(lac_context *context, const lac_replica_plan *plan, double *seconds) {
  double gradients = plan->inner * plan->period;
  double hidden = plan->mixes ? 1 : plan->job->options->overlap ? gradients : 0;
  if (plan->fastest >= plan->slowest) {
    *seconds = gradients * plan->slowest + left_of_allreduce(plan, hidden);
    return LAC_OK;
  }
  lac_ring_rounds rounds = {.workers = plan->workers,
                            .gradient = plan->gradient,
                            .gradients = gradients,
                            .hidden = hidden,
                            .piece = plan->vector / plan->workers,
                            .latency = plan->latency};
  return lac_ring_rounds_time(context, &rounds, seconds);
}

/* Worker k is answered k-th, and its next vector is not there before it has computed what lies between. */
static double server_round(const lac_replica_plan *plan) {
  double gradients = plan->inner * plan->period, most = 0;
  double between = plan->mixes ? gradients - 1 : plan->job->options->overlap ? 0 : gradients;
  for (int k = 0; k < plan->workers; k++) {
    double way = k == 0 ? 0 : (k + 1) * plan->vector + 2 * plan->latency;
    most = fmax(most, fmax(gradients * plan->gradient[k], between * plan->gradient[k] + way));
  }
  return most;
}

static lac_status neighbours_round(lac_context *context, const lac_replica_plan *plan, double *seconds) {
  double gradients = plan->inner * plan->period, *own, *lead = NULL;
  double between = plan->mixes ? gradients - 1 : plan->job->options->overlap ? 0 : gradients;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, plan->workers, &own), end);
  LAC_TRY_GOTO(status, LAC_NEW(context, plan->workers, &lead), end);
  for (int i = 0; i < plan->workers; i++) {
    own[i] = gradients * plan->gradient[i];
    lead[i] = between * plan->gradient[i];
  }
  lac_neighbour_rounds rounds = {.topology = lac_process_topology(plan->process),
                                 .own = own,
                                 .lead = lead,
                                 .vector = plan->vector,
                                 .latency = plan->latency};
  status = lac_neighbour_rounds_time(context, &rounds, seconds);
end:
  lac_free(lead);
  lac_free(own);
  return status;
}

static lac_status plan_rounds(lac_context *context, const lac_replica_plan *plan, lac_plan_seconds *seconds) {
  double gradients = plan->job->gradients, round = plan->slowest * plan->inner * plan->period;
  if (plan->protocol == LAC_PROTOCOL_SERVER) {
    round = server_round(plan);
  } else if (plan->protocol == LAC_PROTOCOL_DPSGD) {
    LAC_TRY(neighbours_round(context, plan, &round));
  } else if (plan->workers > 1) {
    LAC_TRY(allreduce_round(context, plan, &round));
  }
  seconds->w = gradients * plan->mean;
  seconds->waiting = gradients * (plan->slowest - plan->mean);
  seconds->total = gradients / (plan->inner * plan->period) * round;
  seconds->communication = fmax(seconds->total - seconds->w - seconds->waiting, 0);
  return LAC_OK;
}

/* ---- without rounds: each worker at its own rate ---- */

/* What an exchange takes of a worker's time. */
typedef struct lac_wait {
  double way;  /* vectors and words on their way */
  double rest; /* until who is asked looks at its messages, and behind what else leaves its link */
} lac_wait;

/* Until who is asked looks at its messages, on the average, while it computes. */
static double look(const lac_replica_plan *plan, double gradient) {
  double computing = plan->job->gradient / (plan->job->gradient + plan->job->update);
  return gradient * computing / (2 * LAC_PLAN_LOOKS);
}

/* Seconds that an answer waits for those before it on the link of worker 0, when n - 1 workers ask again and again
 * after `think` seconds: mean value analysis of a closed queue with equal services, of which that under way has half
 * left. */
static double queue_at_server(const lac_replica_plan *plan, double think) {
  double service = plan->vector, waiting = 0, busy = 0, there = 0;
  for (int k = 1; k < plan->workers && service > 0; k++) {
    waiting = fmax(there - busy, 0) * service + busy * service / 2;
    waiting = fmax(waiting, k * service - think - service); /* no more than one a service */
    double rate = k / (think + waiting + service);
    busy = fmin(rate * service, 1);
    there = rate * (waiting + service);
  }
  return waiting;
}

static lac_wait wait_for_server(const lac_replica_plan *plan) {
  double mixing = plan->inner * plan->period, rate = 0;
  lac_wait wait = {.way = 2 * (plan->vector + plan->latency), .rest = look(plan, plan->gradient[0])};
  for (int i = 1; i < plan->workers; i++) {
    rate += 1 / (mixing * plan->gradient[i] + wait.way + wait.rest) / (plan->workers - 1);
  }
  wait.rest += queue_at_server(plan, 1 / rate - plan->vector);
  return wait;
}

/* A worker's ask meets others' at the same neighbour, whose answers leave one after the other: with random arrivals and
 * A seconds of answers a round, (R - base) (R - A) = A v / 2. */
static lac_wait wait_for_pair(const lac_replica_plan *plan, int worker) {
  double own = plan->inner * plan->period * plan->gradient[worker],
         answers = plan->degrees.crowd[worker] * plan->vector;
  lac_wait wait = {.way = (lac_replica_plan_only_reads(plan) ? 1 : 2) * plan->vector + 2 * plan->latency,
                   .rest = look(plan, plan->mean)};
  double base = own + wait.way + wait.rest;
  double round = (base + answers + sqrt((base - answers) * (base - answers) + 2 * answers * plan->vector)) / 2;
  wait.rest += round - base;
  return wait;
}

static lac_wait wait_of(const lac_replica_plan *plan, lac_wait server, int worker) {
  double own = plan->inner * plan->period * plan->gradient[worker];
  if (plan->protocol == LAC_PROTOCOL_ASYNC_SERVER) {
    return worker > 0 ? server : (lac_wait){0};
  }
  if (plan->protocol == LAC_PROTOCOL_ADPSGD) {
    return plan->degrees.in[worker] > 0 ? wait_for_pair(plan, worker) : (lac_wait){0};
  }
  /* async-ring: nobody waits, but it is over when the last model has left the busiest link; it goes to whoever reads it
   * in any phase */
  double most = 1;
  for (int i = 0; i < plan->workers; i++) {
    most = fmax(most, plan->degrees.readers[i] * plan->vector / (plan->inner * plan->period * plan->gradient[i]));
  }
  return (lac_wait){.way = (most - 1) * own};
}

/* Vectors that leave worker i in a second, when all mix so often; `mean` is the average of `rate`. */
static double leaving_of(const lac_replica_plan *plan, int i, const double *rate, double mean) {
  const lac_degrees *degrees = &plan->degrees;
  if (plan->protocol == LAC_PROTOCOL_ASYNC_SERVER) {
    return i == 0 ? mean * plan->workers - rate[0] : rate[i];
  }
  if (plan->protocol == LAC_PROTOCOL_ADPSGD) {
    double asks = !lac_replica_plan_only_reads(plan) && degrees->in[i] > 0 ? rate[i] : 0;
    return asks + degrees->asked[i] * mean;
  }
  return degrees->readers[i] * rate[i];
}

/* Asks and answers are as many as those who ask. */
static void count_alone(const lac_replica_plan *plan, const double *rate, lac_plan *result, lac_link *links) {
  double mean = 0, seconds = result->seconds.total;
  double bytes = (double)sizeof(float) * (double)plan->job->parameters;
  for (int i = 0; i < plan->workers; i++) {
    mean += rate[i] / plan->workers;
  }
  for (int i = 0; i < plan->workers; i++) {
    double vectors = seconds * leaving_of(plan, i, rate, mean);
    links[i] = (lac_link){vectors, vectors * bytes};
    result->messages += links[i].messages;
    result->bytes += links[i].bytes;
  }
}

static lac_status plan_alone(lac_context *context, const lac_replica_plan *plan, lac_plan *result, lac_link *links) {
  double n = plan->workers, mixing = plan->inner * plan->period, sum = 0, computing = 0, sending = 0, *rate;
  lac_plan_seconds *seconds = &result->seconds;
  lac_wait server = plan->protocol == LAC_PROTOCOL_ASYNC_SERVER ? wait_for_server(plan) : (lac_wait){0};
  LAC_TRY(LAC_NEW(context, plan->workers, &rate)); /* mixings a second */
  for (int i = 0; i < plan->workers; i++) {
    double own = mixing * plan->gradient[i];
    lac_wait wait = wait_of(plan, server, i);
    rate[i] = 1 / (own + wait.way + wait.rest);
    sum += mixing * rate[i];
    computing += own * rate[i] / n;
    sending += wait.way * rate[i] / n;
  }
  seconds->total = plan->job->gradients * n / sum;
  seconds->w = seconds->total * computing;
  seconds->communication = seconds->total * sending;
  seconds->waiting = fmax(seconds->total - seconds->w - seconds->communication, 0);
  count_alone(plan, rate, result, links);
  lac_free(rate);
  return LAC_OK;
}

/* ---- the whole ---- */

void lac_replica_plan_rate(const lac_replica_plan *plan, lac_plan *result) {
  double alone = plan->job->gradients * (plan->job->gradient + plan->job->update);
  result->workers = plan->workers;
  result->speedup = plan->workers * alone / result->seconds.total;
  result->efficiency = result->speedup / plan->speeds;
}

static int optimizer_vectors(const lac_replica_plan *plan) {
  const lac_replica_options *options = plan->job->options;
  lac_optimizer_options outer = {.kind = LAC_OPTIMIZER_NESTEROV, .momentum = options->outer_momentum};
  return lac_optimizer_vectors(&options->optimizer) + (plan->nested ? lac_optimizer_vectors(&outer) : 0);
}

static double most_of(const double *values, int count) {
  double most = 0;
  for (int i = 0; i < count; i++) {
    most = fmax(most, values[i]);
  }
  return most;
}

/* Vectors of the exchange at the worker that has most. */
static double exchange_vectors(const lac_replica_plan *plan) {
  double read = plan->asynchronous && plan->mixes;
  switch ((lac_protocol)plan->protocol) {
    case LAC_PROTOCOL_ALLREDUCE:
    case LAC_PROTOCOL_PERIODIC:
      return 1;
    case LAC_PROTOCOL_SERVER: /* its own and those that come in */
      return plan->workers;
    case LAC_PROTOCOL_DPSGD:
      return 1 + most_of(plan->degrees.in, plan->workers);
    case LAC_PROTOCOL_ASYNC_RING: /* what is mixed, and the newest of each whom it reads in any phase */
      return read + 1 +
             most_of(plan->degrees.in, plan->workers) * lac_topology_phases(lac_process_topology(plan->process));
    case LAC_PROTOCOL_ADPSGD:
      return plan->mixes ? read : 3;
    case LAC_PROTOCOL_ASYNC_SERVER:
      return read + 3;
    case LAC_PROTOCOLS:
    default:
      return 0;
  }
}

double lac_replica_plan_memory(const lac_replica_plan *plan) {
  double vectors = 4 + (plan->nested ? 2 : 0) + optimizer_vectors(plan);
  if (plan->workers > 1) {
    vectors += 1 + exchange_vectors(plan); /* one for the answer */
  }
  return vectors * (double)sizeof(float) * (double)plan->job->parameters;
}

/* Vectors that leave worker i in a mixing. */
static double leaving_in_round(const lac_replica_plan *plan, int i) {
  if (plan->protocol == LAC_PROTOCOL_SERVER) {
    return i == 0 ? plan->workers - 1 : 1;
  }
  return plan->protocol == LAC_PROTOCOL_DPSGD ? plan->degrees.out[i] : 2 * (plan->workers - 1) / (double)plan->workers;
}

/* All-reduce sends its vectors in pieces, the same number everywhere. */
static void count_rounds(const lac_replica_plan *plan, lac_plan *result, lac_link *links) {
  double bytes = (double)sizeof(float) * (double)plan->job->parameters, steps = plan->job->gradients / plan->inner;
  lac_process_cost cost = lac_process_cost_of(plan->process);
  double pieces = cost.vectors > 0 ? cost.messages / cost.vectors : 0;
  result->messages = steps * cost.messages;
  result->bytes = steps * cost.vectors * bytes;
  for (int i = 0; i < plan->workers; i++) {
    double vectors = steps / plan->period * leaving_in_round(plan, i);
    links[i] = (lac_link){vectors * pieces, vectors * bytes};
  }
}

static lac_status plan_all(lac_context *context, const lac_replica_plan *all, lac_plan *plan, lac_link *to) {
  lac_link *links;
  LAC_TRY(LAC_NEW(context, all->workers, &links));
  lac_status status =
      all->asynchronous ? plan_alone(context, all, plan, links) : plan_rounds(context, all, &plan->seconds);
  if (!status && !all->asynchronous && all->workers > 1) {
    count_rounds(all, plan, links);
  }
  if (!status) {
    lac_replica_plan_rate(all, plan);
    plan->memory = lac_replica_plan_memory(all);
    lac_links_take(links, all->workers, plan, to);
  }
  lac_free(links);
  return status;
}

lac_status lac_plan_replicas(lac_context *context, const lac_replica_job *job, const lac_cluster *cluster, int workers,
                             lac_plan *plan, lac_link *links) {
  lac_replica_plan all;
  *plan = (lac_plan){0};
  lac_status status = lac_replica_plan_open(context, job, cluster, workers, &all);
  if (!status) {
    status = plan_all(context, &all, plan, links);
  }
  lac_replica_plan_close(&all);
  return status;
}
