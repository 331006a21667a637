/* The protocols as processes: their slots, costs and options. The walk through one is in walk.c. */
#include "mixing/process.h"

#include <stddef.h>

#include "base/memory.h"

const char *const lac_protocol_name_list[] = {"allreduce", "server",     "async-server", "dpsgd",
                                              "adpsgd",    "async-ring", "periodic",     NULL};

const char *const *lac_protocol_names(void) {
  return lac_protocol_name_list;
}

bool lac_protocol_asynchronous(int protocol) {
  return protocol == LAC_PROTOCOL_ASYNC_SERVER || protocol == LAC_PROTOCOL_ADPSGD ||
         protocol == LAC_PROTOCOL_ASYNC_RING;
}

bool lac_protocol_on_topology(int protocol) {
  return protocol == LAC_PROTOCOL_DPSGD || protocol == LAC_PROTOCOL_ADPSGD || protocol == LAC_PROTOCOL_ASYNC_RING;
}

static const lac_option protocol_table[] = {
    {.key = "protocol",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_process_options, protocol),
     .names = lac_protocol_name_list,
     .fallback = "dpsgd",
     .help = "how the workers' models are mixed"},
    LAC_OPTIONS_END,
};

const lac_option *lac_protocol_option_table(void) {
  return protocol_table;
}

static const lac_option table[] = {
    {.key = "period",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_process_options, period),
     .low = 1,
     .high = 1e9,
     .fallback = "1",
     .unit = "rounds",
     .help = "mix only in every so many-th round, or of a worker's updates where it does not wait for rounds; 1 is 25 "
             "for periodic"},
    {.key = "slack",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_process_options, slack),
     .low = 1e-12,
     .high = 1,
     .fallback = "1",
     .help = "go only this part of the way to the mean: G W + (1 - G) I in place of W"},
    {.key = "delay",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_process_options, delay),
     .low = 0,
     .high = 1e6,
     .fallback = "0",
     .unit = "rounds",
     .help = "of async-ring: mean time that a model travels to a neighbour, geometrically distributed"},
    LAC_OPTIONS_END,
};

const lac_option *lac_process_option_table(void) {
  return table;
}

static int64_t count_links(const lac_weights *weights) {
  int64_t links = 0;
  for (int64_t i = 0; i < weights->n; i++) {
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      links += weights->column[e] != i;
    }
  }
  return links;
}

static void number_links(const lac_weights *weights, lac_links *links) {
  int64_t link = 0;
  for (int64_t i = 0; i < weights->n; i++) {
    links->incoming[i] = link;
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      if (weights->column[e] != i) {
        links->from[link++] = weights->column[e];
        links->outgoing[weights->column[e] + 1]++;
      }
    }
  }
  links->incoming[weights->n] = link;
  for (int64_t i = 0; i < weights->n; i++) {
    links->outgoing[i + 1] += links->outgoing[i];
  }
  for (int64_t l = link; l-- > 0;) { /* each worker's from its end: outgoing[i + 1] sinks to where i's begin */
    links->outgoing_link[--links->outgoing[links->from[l] + 1]] = l;
  }
  for (int64_t i = 0; i < weights->n; i++) {
    links->outgoing[i] = links->outgoing[i + 1];
  }
  links->outgoing[weights->n] = link;
}

static lac_status lay_out_links(lac_context *context, lac_process *process) {
  if (lac_topology_phases(process->topology) > 1) {
    return lac_fail(context, LAC_E_USAGE, "--delay: found %g rounds with the topology %s, expected one without phases",
                    process->delay, lac_topology_kind_name(lac_topology_kind_of(process->topology)));
  }
  const lac_weights *weights = lac_topology_weights(process->topology, 0);
  int64_t count = count_links(weights), most = (INT32_MAX - process->workers) / 2;
  if (count > most) {
    return lac_fail(context, LAC_E_USAGE, "--delay: found %lld links, expected at most %lld", (long long)count,
                    (long long)most);
  }
  process->links.count = count;
  process->slots = process->workers + 2 * count;
  LAC_TRY(LAC_NEW(context, count, &process->links.from));
  LAC_TRY(LAC_NEW(context, count, &process->links.outgoing_link));
  LAC_TRY(LAC_NEW(context, process->workers + 1, &process->links.incoming));
  LAC_TRY(LAC_NEW(context, process->workers + 1, &process->links.outgoing));
  number_links(weights, &process->links);
  return LAC_OK;
}

static const double longest_delay = 1e6;

static lac_status check(lac_context *context, const lac_process_options *options, int64_t workers) {
  if (options->protocol < 0 || options->protocol >= LAC_PROTOCOLS) {
    return lac_fail(context, LAC_E_USAGE, "--protocol: found number %d, expected one of lac_protocol",
                    options->protocol);
  }
  bool from_file = workers == 0 && lac_protocol_on_topology(options->protocol) && options->topology.graph;
  if ((workers < 1 && !from_file) || workers >= INT32_MAX) {
    return lac_fail(context, LAC_E_USAGE, "--workers: found %lld, expected 1 to %d", (long long)workers, INT32_MAX - 1);
  }
  if (options->period < 1) {
    return lac_fail(context, LAC_E_USAGE, "--period: found %lld, expected at least 1", (long long)options->period);
  }
  if (!(options->slack > 0 && options->slack <= 1)) {
    return lac_fail(context, LAC_E_USAGE, "--slack: found %g, expected above 0 and at most 1", options->slack);
  }
  if (!(options->delay >= 0 && options->delay <= longest_delay)) {
    return lac_fail(context, LAC_E_USAGE, "--delay: found %g rounds, expected 0 to %g", options->delay, longest_delay);
  }
  if (options->delay > 0 && options->protocol != LAC_PROTOCOL_ASYNC_RING) {
    return lac_fail(context, LAC_E_USAGE, "--delay: found %g rounds with %s, expected it with async-ring only",
                    options->delay, lac_protocol_name_list[options->protocol]);
  }
  return LAC_OK;
}

static lac_status create_in(lac_context *context, const lac_process_options *options, lac_process *process) {
  if (lac_protocol_on_topology(process->protocol)) {
    LAC_TRY(lac_topology_create(context, &options->topology, process->workers, process->seed, &process->topology));
    process->workers = lac_topology_workers(process->topology);
  }
  process->slots = process->workers + (process->protocol == LAC_PROTOCOL_ASYNC_SERVER);
  return process->delay > 0 ? lay_out_links(context, process) : LAC_OK;
}

lac_status lac_process_create(lac_context *context, const lac_process_options *options, int64_t workers, int64_t seed,
                              lac_process **process) {
  lac_process *made;
  *process = NULL;
  LAC_TRY(check(context, options, workers));
  LAC_TRY(LAC_NEW(context, 1, &made));
  bool chosen = options->protocol == LAC_PROTOCOL_PERIODIC && options->period == 1;
  *made = (lac_process){.protocol = options->protocol,
                        .workers = workers,
                        .seed = seed,
                        .period = chosen ? LAC_PERIOD_LOCAL : options->period,
                        .slack = options->slack,
                        .delay = options->delay};
  lac_status status = create_in(context, options, made);
  if (status) {
    lac_process_destroy(&made);
    return status;
  }
  *process = made;
  return LAC_OK;
}

void lac_process_destroy(lac_process **process) {
  lac_process *old = *process;
  if (old) {
    lac_topology_destroy(&old->topology);
    lac_free(old->links.from);
    lac_free(old->links.incoming);
    lac_free(old->links.outgoing);
    lac_free(old->links.outgoing_link);
    lac_free(old);
    *process = NULL;
  }
}

int lac_process_protocol(const lac_process *process) {
  return process->protocol;
}

int64_t lac_process_workers(const lac_process *process) {
  return process->workers;
}

int64_t lac_process_slots(const lac_process *process) {
  return process->slots;
}

int64_t lac_process_period(const lac_process *process) {
  return process->period;
}

double lac_process_slack(const lac_process *process) {
  return process->slack;
}

const lac_topology *lac_process_topology(const lac_process *process) {
  return process->topology;
}

static double mean_links(const lac_topology *topology) {
  int phases = lac_topology_phases(topology);
  int64_t links = 0;
  for (int phase = 0; phase < phases; phase++) {
    links += count_links(lac_topology_weights(topology, phase));
  }
  return (double)links / phases;
}

/* Workers that have neighbours in their rows. */
static double mean_askers(const lac_topology *topology) {
  int phases = lac_topology_phases(topology);
  int64_t askers = 0;
  for (int phase = 0; phase < phases; phase++) {
    const lac_weights *weights = lac_topology_weights(topology, phase);
    for (int64_t i = 0; i < weights->n; i++) {
      int64_t begin = weights->start[i], count = weights->start[i + 1] - begin;
      askers += count > 1 || (count == 1 && weights->column[begin] != i);
    }
  }
  return (double)askers / phases;
}

lac_process_cost lac_process_cost_of(const lac_process *process) {
  double n = (double)process->workers, messages = 0, vectors = 0;
  switch ((lac_protocol)process->protocol) {
    case LAC_PROTOCOL_ALLREDUCE: /* around the ring in pieces of 1/n, twice */
    case LAC_PROTOCOL_PERIODIC:
      messages = 2 * n * (n - 1);
      vectors = 2 * (n - 1);
      break;
    case LAC_PROTOCOL_SERVER: /* to worker 0, which keeps the server, and back */
    case LAC_PROTOCOL_ASYNC_SERVER:
      messages = vectors = 2 * (n - 1);
      break;
    case LAC_PROTOCOL_ADPSGD: /* there and back, at every update */
      messages = vectors = 2 * mean_askers(process->topology);
      break;
    case LAC_PROTOCOL_DPSGD:
      messages = vectors = mean_links(process->topology);
      break;
    case LAC_PROTOCOL_ASYNC_RING: /* to all that may ever read it: a reader's phase is its own affair */
      messages = vectors = mean_links(process->topology) * lac_topology_phases(process->topology);
      break;
    case LAC_PROTOCOLS:
    default:
      break;
  }
  double period = (double)process->period;
  return (lac_process_cost){messages / period, vectors / period};
}
