#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/quantity.h"

typedef struct mix_options {
  lac_common_options common;
  char *compare, *workers, *model_bytes, *compute, *network, *plot;
  int64_t seed;
  lac_process_options process;
  lac_mixing_options mixing;
} mix_options;

static const lac_option mix_option_table[] = {
    LAC_TEXT_OPTION(mix_options, compare, "compare", "LIST",
                    "several protocols side by side in place of one: all, or names with commas between them"),
    LAC_TEXT_OPTION(mix_options, workers, "workers", "LIST",
                    "their number, or several: 4,8,16, or 8:128:x2; when not given 16, or as many as the graph has"),
    LAC_TEXT_OPTION(mix_options, model_bytes, "model-bytes", "SIZE",
                    "of a model, as 1.1M; when not given 4M, a million parameters of four bytes"),
    LAC_TEXT_OPTION(mix_options, compute, "compute", "TIME",
                    "that a worker takes for an update, as 20ms; with --network: for seconds until mixed"),
    LAC_TEXT_OPTION(mix_options, network, "network", "NETWORK",
                    "bandwidth of a worker's link and latency of a message, as 1Gbit,50us"),
    LAC_TEXT_OPTION(mix_options, plot, "plot", "FILE",
                    "draw mixing times against the number of workers: .svg or .png; needs gnuplot"),
    {.key = "seed",
     .type = LAC_OPTION_INT,
     .offset = offsetof(mix_options, seed),
     .low = 0,
     .high = 9e18,
     .fallback = "0",
     .help = "keys random graphs and sampled paths"},
    LAC_OPTIONS_END,
};

static const lac_option_group mix_groups[] = {
    {.title = "Options of the protocol", .table = lac_protocol_option_table, .offset = offsetof(mix_options, process)},
    {.title = "Options", .own = mix_option_table},
    {.title = "Options of the topology",
     .table = lac_topology_option_table,
     .offset = offsetof(mix_options, process.topology)},
    {.title = "Options of the process", .table = lac_process_option_table, .offset = offsetof(mix_options, process)},
    {.title = "Options of the mixing time", .table = lac_mixing_option_table, .offset = offsetof(mix_options, mixing)},
    {0}};

/* What is found of one protocol at one size. */
typedef struct mix_result {
  int protocol;
  const char *topology; /* NULL for protocols without */
  int64_t workers, slots;
  lac_mixing_time time;
  double messages, bytes; /* a round */
  double round_seconds;   /* NaN without --compute and --network */
} mix_result;

typedef struct mix_run {
  lac_session *session;
  const mix_options *options;
  double model_bytes, compute; /* compute NaN: not given */
  lac_network network;
  int64_t sizes[LAC_SIZES];
  int size_count;
  int protocols[LAC_PROTOCOLS], protocol_count;
  mix_result *results; /* (protocols, sizes) */
} mix_run;

/* ---- what a round takes ---- */

static double round_seconds(const mix_run *run, const lac_process *process) {
  lac_cluster cluster = {.latency = run->network.latency, .bandwidth = run->network.bandwidth};
  return isnan(run->compute) ? (double)NAN : lac_plan_round(process, run->compute, run->model_bytes, &cluster);
}

static lac_status create(const mix_run *run, int protocol, int64_t workers, lac_process **process) {
  lac_process_options options = run->options->process;
  options.protocol = protocol;
  if (run->protocol_count > 1 && protocol != LAC_PROTOCOL_ASYNC_RING) { /* side by side it is for those that have one */
    options.delay = 0;
  }
  return lac_process_create(run->session->context, &options, workers, run->options->seed, process);
}

static lac_status find(const mix_run *run, int protocol, int64_t workers, mix_result *result) {
  lac_context *context = run->session->context;
  lac_process *process;
  CLI_TRY(create(run, protocol, workers, &process));
  const lac_topology *topology = lac_process_topology(process);
  lac_process_cost cost = lac_process_cost_of(process);
  *result = (mix_result){.protocol = protocol,
                         .topology = topology ? lac_topology_kind_name(lac_topology_kind_of(topology)) : NULL,
                         .workers = lac_process_workers(process),
                         .slots = lac_process_slots(process),
                         .messages = cost.messages,
                         .bytes = cost.vectors * run->model_bytes,
                         .round_seconds = round_seconds(run, process)};
  lac_status status = lac_mixing_time_of(context, process, &run->options->mixing, &result->time);
  lac_process_destroy(&process);
  return status;
}

/* ---- what is said of it ---- */

/* The rounds by which results are compared: of bounds the upper one. */
static double rounds_of(const mix_result *result) {
  return result->time.kind == LAC_MIXING_BOUND ? result->time.upper : result->time.rounds;
}

static double seconds_of(const mix_result *result) {
  return rounds_of(result) * result->round_seconds;
}

static const char *number_text(double value, char text[32]) {
  if (isfinite(value)) {
    snprintf(text, 32, value < 1e6 && value == rint(value) ? "%.0f" : "%.4g", value);
  } else {
    snprintf(text, 32, isinf(value) ? "never" : "-");
  }
  return text;
}

static const char *seconds_text(double value, char text[32]) {
  if (!isfinite(value)) {
    return number_text(value, text);
  }
  if (value >= 1) {
    snprintf(text, 32, "%.3g s", value);
  } else {
    snprintf(text, 32, value >= 1e-3 ? "%.3g ms" : "%.3g us", value * (value >= 1e-3 ? 1e3 : 1e6));
  }
  return text;
}

static void print_json(lac_session *session, const mix_result *result) {
  const lac_mixing_time *time = &result->time;
  json_t *t_mix = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:I}", "kind", lac_mixing_kind_name(time->kind), "rounds",
                            lac_json_real(time->rounds), "updates", lac_json_real(time->updates), "lower",
                            lac_json_real(time->lower), "upper", lac_json_real(time->upper), "standard_error",
                            lac_json_real(time->standard_error), "samples", (json_int_t)time->samples);
  json_t *line = json_pack(
      "{s:s, s:s?, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "protocol",
      lac_protocol_names()[result->protocol], "topology", result->topology, "workers", (json_int_t)result->workers,
      "slots", (json_int_t)result->slots, "t_mix", t_mix, "spectral_gap", lac_json_real(time->spectral_gap),
      "messages_per_round", lac_json_real(result->messages), "bytes_per_round", lac_json_real(result->bytes),
      "messages_until_mixed", lac_json_real(rounds_of(result) * result->messages), "bytes_until_mixed",
      lac_json_real(rounds_of(result) * result->bytes), "round_seconds", lac_json_real(result->round_seconds),
      "seconds_until_mixed", lac_json_real(seconds_of(result)), "never",
      *time->reason ? json_string(time->reason) : json_null());
  lac_print_json(session, line);
}

static void describe_time(lac_session *session, const lac_mixing_time *time) {
  char rounds[32], updates[32], low[32], high[32];
  if (*time->reason) {
    lac_print(session, "mixing time    never: %s\n", time->reason);
  } else if (time->kind == LAC_MIXING_BOUND) {
    lac_print(session, "mixing time    %s to %s rounds (bounds by the spectral gap)\n", number_text(time->lower, low),
              isfinite(time->upper) ? number_text(time->upper, high) : "an unknown number of");
  } else if (time->samples > 0) {
    snprintf(low, sizeof low, "%.2g", time->standard_error);
    lac_print(session, "mixing time    %s rounds or %s updates (%s; standard error %s rounds, %" PRId64 " paths)\n",
              number_text(time->rounds, rounds), number_text(time->updates, updates), lac_mixing_kind_name(time->kind),
              low, time->samples);
  } else {
    lac_print(session, "mixing time    %s %s or %s updates (%s)\n", number_text(time->rounds, rounds),
              time->rounds == 1 ? "round" : "rounds", number_text(time->updates, updates),
              lac_mixing_kind_name(time->kind));
  }
  if (isfinite(time->spectral_gap)) {
    lac_print(session, "spectral gap   %.4g a round\n", time->spectral_gap);
  }
}

static void describe(const mix_run *run, const mix_result *result) {
  lac_session *session = run->session;
  char a[32], b[32], c[32];
  lac_print(session, "protocol       %s, %" PRId64 " workers%s%s\n", lac_protocol_names()[result->protocol],
            result->workers, result->topology ? ", " : "", result->topology ? result->topology : "");
  if (result->slots > result->workers) {
    lac_print(session, "slots          %" PRId64 ", of them %" PRId64 " for buffers\n", result->slots,
              result->slots - result->workers);
  }
  describe_time(session, &result->time);
  lac_print(session, "messages       %s a round, %s until mixed\n", number_text(result->messages, a),
            number_text(rounds_of(result) * result->messages, b));
  lac_print(session, "bytes          %s a round, %s until mixed, with models of %s\n", lac_bytes_text(result->bytes, a),
            isfinite(rounds_of(result)) ? lac_bytes_text(rounds_of(result) * result->bytes, b) : "-",
            lac_bytes_text(run->model_bytes, c));
  if (isfinite(result->round_seconds)) {
    lac_print(session, "time           %s a round, %s until mixed\n", seconds_text(result->round_seconds, a),
              seconds_text(seconds_of(result), b));
  }
}

static void print_row(lac_session *session, const mix_result *result) {
  char text[6][32];
  const lac_mixing_time *time = &result->time;
  double updates = time->kind == LAC_MIXING_BOUND ? time->upper * (double)result->workers : time->updates;
  lac_print(session, "%-13s%-15s%8" PRId64 "  %-9s%10s%11s%12s%10s%11s%12s\n", lac_protocol_names()[result->protocol],
            result->topology ? result->topology : "-", result->workers, lac_mixing_kind_name(time->kind),
            number_text(rounds_of(result), text[0]), number_text(updates, text[1]),
            number_text(result->messages, text[2]), lac_bytes_text(result->bytes, text[3]),
            isfinite(rounds_of(result)) ? lac_bytes_text(rounds_of(result) * result->bytes, text[4]) : "-",
            seconds_text(seconds_of(result), text[5]));
}

/* Least-squares slope of log t against log n, over the sizes at which t is above 0. */
static double exponent(const mix_result *results, int count, bool per_update) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (int i = 0; i < count; i++) {
    double t = rounds_of(&results[i]) * (per_update ? (double)results[i].workers : 1);
    if (isfinite(t) && t > 0) {
      double u = log((double)results[i].workers), v = log(t);
      n++, x += u, y += v, xx += u * u, xy += u * v;
    }
  }
  double spread = n * xx - x * x;
  return n >= 2 && spread > 0 ? (n * xy - x * y) / spread : (double)NAN;
}

static void print_exponents(const mix_run *run) {
  for (int p = 0; p < run->protocol_count; p++) {
    const mix_result *results = run->results + (ptrdiff_t)p * run->size_count;
    double rounds = exponent(results, run->size_count, false), updates = exponent(results, run->size_count, true);
    if (isfinite(rounds)) {
      lac_print(run->session, "%s: the mixing time grows as n^%.2f in rounds, n^%.2f in updates\n",
                lac_protocol_names()[run->protocols[p]], rounds, updates);
    }
    lac_print_json(run->session, json_pack("{s:s, s:s, s:{s:o, s:o}}", "event", "growth", "protocol",
                                           lac_protocol_names()[run->protocols[p]], "exponent", "rounds",
                                           lac_json_real(rounds), "updates", lac_json_real(updates)));
  }
}

static int by_time(const void *left, const void *right) {
  const mix_result *a = left, *b = right;
  bool timed = isfinite(a->round_seconds) && isfinite(b->round_seconds);
  double x = timed ? seconds_of(a) : rounds_of(a), y = timed ? seconds_of(b) : rounds_of(b);
  x = isnan(x) ? (double)INFINITY : x;
  y = isnan(y) ? (double)INFINITY : y;
  if (x != y) {
    return x < y ? -1 : 1;
  }
  return a->protocol - b->protocol;
}

static lac_status draw(const mix_run *run) {
  int count = run->protocol_count * run->size_count;
  void *memory, *curves;
  CLI_TRY(lac_session_allocate(run->session, 3 * (int64_t)count, sizeof(double), &memory));
  lac_status status = lac_session_allocate(run->session, 2 * LAC_PROTOCOLS, sizeof(lac_curve), &curves);
  if (status) {
    free(memory);
    return status;
  }
  double *x = memory, *rounds = x + count, *updates = rounds + count;
  lac_curve *curve = curves;
  for (int i = 0; i < count; i++) {
    double t = rounds_of(&run->results[i]);
    x[i] = (double)run->results[i].workers;
    rounds[i] = t > 0 ? t : (double)NAN; /* nothing to show on a logarithmic scale */
    updates[i] = rounds[i] * x[i];
  }
  for (int p = 0; p < run->protocol_count; p++) {
    ptrdiff_t at = (ptrdiff_t)p * run->size_count;
    const char *name = lac_protocol_names()[run->protocols[p]];
    curve[p] = (lac_curve){name, x + at, rounds + at, run->size_count};
    curve[run->protocol_count + p] = (lac_curve){name, x + at, updates + at, run->size_count};
  }
  const lac_panel panels[] = {
      {"Mixing time", "workers", "rounds", true, false, curve, run->protocol_count, true},
      {"Mixing time", "workers", "updates", true, false, curve + run->protocol_count, run->protocol_count, true},
  };
  status = lac_plot_write(run->session, run->options->plot, panels, 2);
  free(curves);
  free(memory);
  return status;
}

static void report(const mix_run *run) {
  int count = run->protocol_count * run->size_count;
  bool sorted = run->size_count == 1;
  for (int i = 0; i < count; i++) {
    if (*run->results[i].time.reason && count > 1) {
      lac_print_note(run->session, "%s, %" PRId64 " workers: never mixes: %s\n",
                     lac_protocol_names()[run->results[i].protocol], run->results[i].workers,
                     run->results[i].time.reason);
    }
  }
  if (count == 1 && !run->session->json) {
    describe(run, run->results);
    return;
  }
  if (sorted) {
    qsort(run->results, (size_t)count, sizeof *run->results, by_time);
  }
  lac_print(run->session, "%-13s%-15s%8s  %-9s%10s%11s%12s%10s%11s%12s\n", "protocol", "topology", "workers", "t_mix",
            "rounds", "updates", "messages", "bytes", "to mix", "seconds");
  lac_print(run->session, "%58s%22s\n", "", "a round     a round");
  for (int i = 0; i < count; i++) {
    print_row(run->session, &run->results[i]);
    print_json(run->session, &run->results[i]);
  }
  if (run->size_count > 1) {
    print_exponents(run);
  }
}

/* ---- options ---- */

static lac_status choose_protocols(mix_run *run) {
  const char *list = run->options->compare;
  if (!list) {
    run->protocols[run->protocol_count++] = run->options->process.protocol;
    return LAC_OK;
  }
  bool all = strcmp(list, "all") == 0;
  bool wanted[LAC_PROTOCOLS] = {false};
  while (!all && list) {
    size_t length = strcspn(list, ",");
    int found = 0;
    while (lac_protocol_names()[found] && !(strlen(lac_protocol_names()[found]) == length &&
                                            strncmp(lac_protocol_names()[found], list, length) == 0)) {
      found++;
    }
    if (!lac_protocol_names()[found] || wanted[found]) {
      return lac_fail(
          run->session->context, LAC_E_USAGE,
          "--compare: found '%.*s', expected all, or some of allreduce, server, async-server, dpsgd, adpsgd, "
          "async-ring, periodic, each once",
          (int)(length < 64 ? length : 64), list);
    }
    wanted[found] = true;
    list = list[length] ? list + length + 1 : NULL;
  }
  for (int p = 0; p < LAC_PROTOCOLS; p++) {
    if (all || wanted[p]) {
      run->protocols[run->protocol_count++] = p;
    }
  }
  return LAC_OK;
}

/* The number of vertices of --graph, to which protocols without a topology are compared. */
static lac_status vertices(mix_run *run, int64_t *workers) {
  lac_topology *topology;
  CLI_TRY(
      lac_topology_create(run->session->context, &run->options->process.topology, 0, run->options->seed, &topology));
  *workers = lac_topology_workers(topology);
  lac_topology_destroy(&topology);
  return LAC_OK;
}

static lac_status read_options(mix_run *run) {
  const mix_options *options = run->options;
  lac_session *session = run->session;
  run->model_bytes = 4e6;
  run->compute = (double)NAN;
  run->network = (lac_network){.bandwidth = (double)INFINITY, .latency = 0};
  CLI_TRY(choose_protocols(run));
  if (options->workers) {
    CLI_TRY(lac_parse_sizes(session, "workers", options->workers, run->sizes, &run->size_count));
  } else {
    run->sizes[0] = 16;
    run->size_count = 1;
    if (options->process.topology.graph) {
      CLI_TRY(vertices(run, &run->sizes[0]));
    }
  }
  if (options->model_bytes) {
    CLI_TRY(lac_parse_bytes(session, "model-bytes", options->model_bytes, &run->model_bytes));
  }
  if (!options->compute != !options->network) {
    return lac_fail(session->context, LAC_E_USAGE, "--%s: found without --%s, expected both or neither",
                    options->compute ? "compute" : "network", options->compute ? "network" : "compute");
  }
  if (options->compute) {
    CLI_TRY(lac_parse_duration(session, "compute", options->compute, &run->compute));
    CLI_TRY(lac_parse_network(session, "network", options->network, &run->network));
  }
  const lac_file_use files[] = {{"--plot", options->plot, true}, {"--graph", options->process.topology.graph, false}};
  CLI_TRY(lac_check_apart(session, files, 2));
  return options->plot ? lac_plot_check(session, options->plot) : LAC_OK;
}

/* That each has a mixing time to be found, before hours have gone into those that come first. */
static lac_status check_all(const mix_run *run) {
  lac_status status = LAC_OK;
  for (int p = 0; p < run->protocol_count && !status; p++) {
    for (int s = 0; s < run->size_count && !status; s++) {
      lac_process *process;
      CLI_TRY(create(run, run->protocols[p], run->sizes[s], &process));
      status = lac_mixing_check(run->session->context, process, &run->options->mixing);
      lac_process_destroy(&process);
    }
  }
  return status;
}

static lac_status find_all(mix_run *run) {
  void *memory;
  CLI_TRY(
      lac_session_allocate(run->session, (int64_t)run->protocol_count * run->size_count, sizeof(mix_result), &memory));
  run->results = memory;
  for (int p = 0; p < run->protocol_count; p++) {
    for (int s = 0; s < run->size_count; s++) {
      CLI_TRY(find(run, run->protocols[p], run->sizes[s], &run->results[p * run->size_count + s]));
    }
  }
  if (run->options->plot) {
    CLI_TRY(draw(run));
  }
  report(run);
  return LAC_OK;
}

static lac_status run_mix(lac_session *session, const void *argument, char *const *operands, int count) {
  (void)operands;
  (void)count;
  mix_run run = {.session = session, .options = argument};
  lac_status status = read_options(&run);
  if (!status && run.protocol_count * run.size_count > 1) {
    status = check_all(&run);
  }
  if (!status) {
    status = find_all(&run);
  }
  free(run.results);
  return status;
}

const lac_command lac_command_mix = {
    .name = "mix",
    .operands = "",
    .least = 0,
    .most = 0,
    .summary = "how long workers take to agree under a protocol, and what it sends",
    .description =
        "Says of a communication protocol and a topology, before anything is paid for, how many rounds the workers' "
        "models take to mix (t_mix: until every worker's model is, within a quarter, the same blend of all), what that "
        "sends, and with --compute and --network how long it takes. In a round every worker makes an update, on the "
        "average; protocols are compared per round and per update. The same names are taken by train --exchange.\n\n"
        "Where steps are random, the mixing time is realised (of the matrices that are drawn, sampled with a standard "
        "error) or averaged (of their mean); a figure always says which. Several --workers give a table with the "
        "exponent by which the mixing time grows; --compare puts protocols side by side, the fastest first.\n\n"
        "With --json, a line for each: protocol, topology, workers, slots, t_mix (kind, rounds, updates, lower, upper, "
        "standard_error, samples), spectral_gap, messages_per_round, bytes_per_round and more; of several sizes, a "
        "line "
        "of event growth for each protocol. null stands for what is not known or infinite.",
    .example =
        "laconic mix --protocol dpsgd --topology ring --workers 16\n"
        "laconic mix --protocol adpsgd --topology complete --workers 8:128:x2 --plot tmix.svg\n"
        "laconic mix --compare all --workers 32 --model-bytes 1.1M --compute 20ms --network 1Gbit,50us",
    .groups = mix_groups,
    .options_size = sizeof(mix_options),
    .run = run_mix,
};
