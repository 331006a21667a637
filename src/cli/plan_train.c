#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/plan_train.h"
#include "cli/plot.h"

static const lac_option plan_train_option_table[] = {
    LAC_TEXT_OPTION(lac_plan_train_options, model, "model", "NETWORK",
                    "the network: lenet, allcnn, resnet20, wrn-D-K as wrn-16-4, mlp:IN-HIDDEN-OUT as mlp:784-500-10, "
                    "or a file that describes its layers"),
    {.key = "width",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_plan_train_options, width),
     .low = 1e-6,
     .high = 1000,
     .fallback = "1",
     .help = "multiplies the channels and units of a built-in network"},
    LAC_TEXT_OPTION(lac_plan_train_options, shape, "shape", "SHAPE",
                    "of a picture: channels, height and width as 3x32x32; a built-in network brings that of its paper"),
    {.key = "classes",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_plan_train_options, classes),
     .low = 0,
     .high = 1e6,
     .fallback = "0",
     .help = "of the pictures; 0: 10, or the last number of an mlp"},
    {.key = "parameters",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_plan_train_options, parameters),
     .low = 0,
     .high = 1e12,
     .fallback = "0",
     .help = "in place of --model: of any model, as 1.1M; then --compute has to be given"},
    {.key = "images",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_plan_train_options, images),
     .low = 1,
     .high = 1e15,
     .fallback = "50000",
     .help = "training pictures; sgd divides them among the workers, for the others each replica sees all"},
    LAC_BATCH_OPTION(lac_plan_train_options, batch),
    {.key = "gradients",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_plan_train_options, gradients),
     .low = 0,
     .high = 1e15,
     .fallback = "0",
     .help = "of each replica in the whole job; 0: as many as --epochs are"},
    LAC_TEXT_OPTION(lac_plan_train_options, workers, "workers", "LIST",
                    "their number, or several: 4,8,16, or 8:128:x2; when not given 1,2,4,8,16"),
    LAC_PLAN_CLUSTER_OPTIONS(lac_plan_train_options, where),
    LAC_TEXT_OPTION(lac_plan_train_options, compute, "compute", "TIME",
                    "that a gradient takes on a machine of speed 1, as 20ms; when not given that of the calibration, "
                    "else an assumed one"),
    LAC_TEXT_OPTION(lac_plan_train_options, update, "update", "TIME",
                    "that everything else takes which a step needs; when not given none"),
    LAC_TEXT_OPTION(lac_plan_train_options, calibration, "calibration", "FILE",
                    "what was measured on a machine; see laconic plan calibrate"),
    LAC_TEXT_OPTION(lac_plan_train_options, compare, "compare", "LIST",
                    "several side by side in place of --method and --exchange: all, or METHOD, METHOD/EXCHANGE or "
                    "METHOD/EXCHANGE/TOPOLOGY, each with @PERIOD or without, with commas between them, as "
                    "sgd,parle,sgd/dpsgd/exponential,sgd@4"),
    {.key = "rehearse",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_plan_train_options, rehearse),
     .help = "also let the trainer itself run on the simulated network, with nothing to compute"},
    {.key = "simulate",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_plan_train_options, simulate),
     .help = "also run the program with nothing to compute under SimGrid's SMPI, rank by rank, and really where this "
             "machine has the cores, unless --compute speaks of another; needs SimGrid"},
    {.key = "rehearse-gradients",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_plan_train_options, rehearsed),
     .low = 1,
     .high = 1e6,
     .fallback = "50",
     .help = "of each replica that are made for these and for a real run, at least a period of the exchange"},
    {.key = "rehearse-vector",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_plan_train_options, vector),
     .low = 0,
     .high = 1e9,
     .fallback = "0",
     .unit = "parameters",
     .help = "that are really moved in it, in place of all, on links as much slower; 0: chosen"},
    LAC_TEXT_OPTION(lac_plan_train_options, plot, "plot", "FILE",
                    "draw speedup and the seconds of 1,000 gradients against the number of workers: .svg or .png; "
                    "needs gnuplot"),
    {.key = "seed",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_plan_train_options, seed),
     .low = 0,
     .high = 9e15,
     .fallback = "0",
     .help = "keys random graphs and who meets whom"},
    LAC_OPTIONS_END,
};

static const lac_option_group plan_train_groups[] = {
    {.title = "Options", .own = plan_train_option_table},
    {.title = "Options of the method",
     .table = lac_replica_option_table,
     .offset = offsetof(lac_plan_train_options, replica)},
    {.title = "Options of the exchange: its topology",
     .table = lac_topology_option_table,
     .offset = offsetof(lac_plan_train_options, replica.exchange.topology)},
    {.title = "Options of the exchange",
     .table = lac_process_option_table,
     .offset = offsetof(lac_plan_train_options, replica.exchange)},
    {.title = "Options of the network", .table = lac_net_option_table, .offset = offsetof(lac_plan_train_options, net)},
    {0},
};

/* ---- the network ---- */

static lac_status fail_shape(const lac_plan_train_run *run) {
  return lac_fail(run->session->context, LAC_E_USAGE,
                  "--shape: found '%.40s', expected channels, height and width as 3x32x32", run->options->shape);
}

static lac_status read_shape(const lac_plan_train_run *run, lac_image_shape *shape) {
  const char *text = run->options->shape, *model = run->options->model;
  enum { MOST = 1 << 20 };
  int64_t classes;
  lac_image_shape usual = lac_net_builtin_input(model, &classes);
  int64_t sides[3] = {usual.channels, usual.height, usual.width};
  if (!text && strpbrk(model, "./")) {
    return lac_fail(run->session->context, LAC_E_USAGE, "--model: found the file %s without --shape, expected both",
                    model);
  }
  for (int i = 0; text && i < 3; i++) {
    char *end;
    sides[i] = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0;
    if (sides[i] < 1 || sides[i] > MOST || *end != (i < 2 ? 'x' : 0)) {
      return fail_shape(run);
    }
    text = end + 1;
  }
  *shape = (lac_image_shape){sides[0], sides[1], sides[2]};
  return LAC_OK;
}

int64_t lac_plan_train_classes(const lac_plan_train_options *options) {
  int64_t classes;
  lac_net_builtin_input(options->model, &classes);
  return options->classes > 0 ? options->classes : classes;
}

/* What a picture takes is that of a batch of one: the memory of a network grows with its batch. */
static lac_status measure_network(lac_plan_train_run *run, double *flops) {
  const lac_plan_train_options *options = run->options;
  lac_net *net = NULL;
  CLI_TRY(read_shape(run, &run->shape));
  CLI_TRY(lac_network_read(run->session, options->model, options->width, &run->layers));
  lac_status status = lac_net_create(run->session->context, run->layers, options->model, run->shape,
                                     lac_plan_train_classes(options), 1, &options->net, &net);
  if (!status) {
    run->parameters = lac_net_parameters(net);
    *flops = lac_net_flops(net);
    run->activations = (double)options->batch * lac_net_activation_bytes(net);
  }
  lac_net_destroy(&net);
  return status;
}

static lac_status ask_calibration(lac_plan_train_run *run, double flops) {
  const lac_plan_train_options *options = run->options;
  lac_calibration *calibration = NULL;
  char reason[256];
  if (options->calibration) {
    CLI_TRY(lac_calibration_load(run->session->context, options->calibration, &calibration));
    if (!lac_calibration_is_here(calibration, reason, sizeof reason)) {
      lac_context_log(run->session->context, LAC_LOG_WARNING, "%s: %s", options->calibration, reason);
    }
  }
  run->gradient =
      lac_calibration_gradient(calibration, options->model, options->batch, options->net.precision, flops, &run->basis);
  lac_calibration_destroy(&calibration);
  return LAC_OK;
}

static lac_status find_costs(lac_plan_train_run *run) {
  const lac_plan_train_options *options = run->options;
  lac_context *context = run->session->context;
  double flops = 0;
  if (!options->model == !options->parameters) {
    return lac_fail(context, LAC_E_USAGE, "plan train: found %s, expected --model or --parameters",
                    options->model ? "--model and --parameters" : "neither --model nor --parameters");
  }
  run->parameters = options->parameters;
  if (options->model) {
    CLI_TRY(measure_network(run, &flops));
  } else if (!options->compute) {
    return lac_fail(context, LAC_E_USAGE, "--parameters: found without --compute, expected both");
  }
  if (options->compute && options->calibration) {
    return lac_fail(context, LAC_E_USAGE, "--compute: found with --calibration, expected one of them");
  }
  if (options->update) {
    CLI_TRY(lac_parse_duration(run->session, "update", options->update, &run->update));
  }
  run->basis = LAC_BASIS_GIVEN;
  return options->compute ? lac_parse_duration(run->session, "compute", options->compute, &run->gradient)
                          : ask_calibration(run, flops);
}

/* ---- what is compared ---- */

const char *lac_plan_train_method(int method) {
  return lac_options_find(lac_replica_option_table(), "method")->names[method];
}

static int find_name(const char *const *names, const char *text, size_t length) {
  for (int i = 0; names[i]; i++) {
    if (strlen(names[i]) == length && strncmp(names[i], text, length) == 0) {
      return i;
    }
  }
  return -1;
}

static void add_candidate(lac_plan_train_run *run, const lac_plan_candidate *from) {
  lac_plan_candidate *c = &run->candidates[run->candidate_count++];
  char period[24] = "";
  const char *topology = from->topology < 0 ? NULL : lac_topology_kind_name(from->topology);
  bool plain = from->protocol == LAC_PROTOCOL_ALLREDUCE && !topology;
  if (from->period) {
    snprintf(period, sizeof period, "@%" PRId64, from->period);
  }
  *c = *from;
  snprintf(c->label, sizeof c->label, "%s%s%s%s%s%s", lac_plan_train_method(c->method), plain ? "" : "/",
           plain ? "" : lac_protocol_names()[c->protocol], topology ? "/" : "", topology ? topology : "", period);
}

/* The part of [*at, end) before the next slash; false when there is none left. */
static bool next_part(const char **at, const char *end, const char **part, size_t *length) {
  if (*at > end) {
    return false;
  }
  const char *slash = memchr(*at, '/', (size_t)(end - *at));
  *part = *at;
  *length = (size_t)((slash ? slash : end) - *at);
  *at = (slash ? slash : end) + 1;
  return true;
}

/* METHOD, METHOD/EXCHANGE or METHOD/EXCHANGE/TOPOLOGY, and @PERIOD behind it. */
static bool read_candidate(const char *text, size_t length, lac_plan_candidate *c) {
  const char *end = text + length, *period = memchr(text, '@', length), *part;
  size_t part_length;
  *c = (lac_plan_candidate){.topology = -1};
  if (period) {
    char *stop;
    c->period = period[1] >= '1' && period[1] <= '9' ? strtoll(period + 1, &stop, 10) : 0;
    if (c->period < 1 || c->period > 1000000000 || stop != end) {
      return false;
    }
    end = period;
  }
  const lac_option *topologies = lac_options_find(lac_topology_option_table(), "topology");
  const char *const *names[] = {lac_options_find(lac_replica_option_table(), "method")->names, lac_protocol_names(),
                                topologies->names};
  int *into[] = {&c->method, &c->protocol, &c->topology}, count = 0;
  for (const char *at = text; next_part(&at, end, &part, &part_length); count++) {
    if (count == 3) {
      return false;
    }
    *into[count] = find_name(names[count], part, part_length);
    if (*into[count] < 0) {
      return false;
    }
  }
  return c->topology < 0 || lac_protocol_on_topology(c->protocol);
}

static lac_status add_named(lac_plan_train_run *run, const char *text, size_t length) {
  lac_plan_candidate c;
  bool good = read_candidate(text, length, &c);
  for (int i = 0; good && i < run->candidate_count; i++) {
    const lac_plan_candidate *other = &run->candidates[i];
    good = other->method != c.method || other->protocol != c.protocol || other->topology != c.topology ||
           other->period != c.period;
  }
  if (!good || run->candidate_count == LAC_PLAN_CANDIDATES) {
    return lac_fail(
        run->session->context, LAC_E_USAGE,
        "--compare: found '%.*s', expected all, or up to %d of sgd, elastic, entropy or parle, each alone or "
        "with /allreduce, /server, /async-server, /dpsgd, /adpsgd, /async-ring or /periodic, behind dpsgd, "
        "adpsgd and async-ring a /TOPOLOGY, and @PERIOD, as sgd/dpsgd/exponential@4, each once",
        (int)(length < 60 ? length : 60), text, LAC_PLAN_CANDIDATES);
  }
  add_candidate(run, &c);
  return LAC_OK;
}

static lac_status choose(lac_plan_train_run *run) {
  const char *list = run->options->compare;
  if (!list) {
    add_candidate(
        run, &(lac_plan_candidate){run->options->replica.method, run->options->replica.exchange.protocol, -1, 0, ""});
  } else if (strcmp(list, "all") == 0) {
    add_candidate(run, &(lac_plan_candidate){LAC_METHOD_ELASTIC, LAC_PROTOCOL_ALLREDUCE, -1, 0, ""});
    add_candidate(run, &(lac_plan_candidate){LAC_METHOD_PARLE, LAC_PROTOCOL_ALLREDUCE, -1, 0, ""});
    for (int protocol = 0; protocol < LAC_PROTOCOLS; protocol++) {
      add_candidate(run, &(lac_plan_candidate){LAC_METHOD_SGD, protocol, -1, 0, ""});
    }
  } else {
    for (const char *at = list; at;) {
      size_t length = strcspn(at, ",");
      CLI_TRY(add_named(run, at, length));
      at = at[length] ? at + length + 1 : NULL;
    }
  }
  return LAC_OK;
}

/* Side by side, overlap is for those that have it. */
lac_replica_options lac_plan_train_options_of(const lac_plan_train_run *run, const lac_plan_candidate *c) {
  lac_replica_options options = run->options->replica;
  options.method = c->method;
  options.exchange.protocol = c->protocol;
  options.exchange.period = c->period ? c->period : options.exchange.period;
  if (c->topology >= 0) {
    options.exchange.topology.kind = c->topology;
    options.exchange.topology.graph = NULL;
  }
  options.seed = run->options->seed;
  if (run->candidate_count > 1) {
    bool mixes = c->method == LAC_METHOD_SGD &&
                 (c->protocol != LAC_PROTOCOL_ALLREDUCE || options.exchange.period > 1 || options.exchange.slack < 1);
    options.overlap = options.overlap && !mixes && !lac_protocol_asynchronous(c->protocol);
  }
  return options;
}

/* ---- options ---- */

static lac_status read_cluster(lac_plan_train_run *run) {
  static const int64_t usual[] = {1, 2, 4, 8, 16};
  const lac_plan_train_options *options = run->options;
  if (options->workers) {
    CLI_TRY(lac_parse_sizes(run->session, "workers", options->workers, run->sizes, &run->size_count));
  } else {
    run->size_count = sizeof usual / sizeof *usual;
    memcpy(run->sizes, usual, sizeof usual);
  }
  int64_t most = run->sizes[run->size_count - 1];
  enum { MOST = 65536 };
  if (most > MOST) {
    return lac_fail(run->session->context, LAC_E_USAGE, "--workers: found %" PRId64 ", expected at most %d", most,
                    MOST);
  }
  return lac_plan_cluster_open(run->session, &options->where, run->sizes, run->size_count, &run->where);
}

static lac_status read_options(lac_plan_train_run *run) {
  const lac_plan_train_options *options = run->options;
  CLI_TRY(choose(run));
  CLI_TRY(read_cluster(run));
  CLI_TRY(find_costs(run));
  const lac_file_use files[] = {
      {"--plot", options->plot, true},
      {"--graph", options->replica.exchange.topology.graph, false},
      {"--calibration", options->calibration, false},
      {"--cluster", options->where.cluster, false},
      {"--model", options->model && strpbrk(options->model, "./") ? options->model : NULL, false}};
  CLI_TRY(lac_check_apart(run->session, files, 5));
  return options->plot && !run->session->silent ? lac_plot_check(run->session, options->plot) : LAC_OK;
}

/* ---- all rows ---- */

static lac_status find_one(lac_plan_train_run *run, int of, int workers) {
  int formula = run->count;
  lac_plan_cluster_size(&run->where, workers);
  if (!lac_world_smpi()) {
    CLI_TRY(lac_plan_train_formula(run, of, workers));
  }
  if (run->options->rehearse) {
    CLI_TRY(lac_plan_train_rehearse(run, of, workers));
  }
  if (run->options->simulate) {
    CLI_TRY(lac_plan_train_simulate(run, of, workers));
    CLI_TRY(lac_plan_train_add_real(run, of, workers, formula));
  }
  return LAC_OK;
}

static lac_status find_all(lac_plan_train_run *run) {
  CLI_TRY(lac_plan_train_check(run));
  CLI_TRY(lac_plan_train_open(run));
  for (int c = 0; c < run->candidate_count; c++) {
    run->alone = NAN;
    for (int s = 0; s < run->size_count; s++) {
      lac_status status = find_one(run, c, (int)run->sizes[s]);
      if (status) { /* with the rows before, which may have taken long */
        if (c + s > 0 && !run->session->silent) {
          lac_plan_print_table(run->session, run->rows, run->count);
        }
        return status;
      }
    }
  }
  return run->session->silent ? LAC_OK : lac_plan_train_report(run);
}

static lac_status run_plan_train(lac_session *session, const void *argument, char *const *operands, int count) {
  (void)operands;
  (void)count;
  lac_plan_train_run run = {.session = session, .options = argument};
  lac_status status = read_options(&run);
  if (!status) {
    bool alone = run.candidate_count == 1 && run.size_count == 1;
    status = lac_plan_check_ranks(session, "plan train", run.options->rehearse && !run.options->simulate && alone,
                                  (int)run.sizes[0]);
  }
  if (!status) {
    status = find_all(&run);
  }
  lac_plan_cluster_close(&run.where);
  for (int i = 0; run.rows && i < LAC_PLAN_SOURCES * run.candidate_count * run.size_count; i++) {
    free(run.rows[i].links);
  }
  free(run.rows);
  free(run.layers);
  free(run.thousand);
  free(run.of);
  return status;
}

const lac_command lac_command_plan_train = {
    .name = "plan train",
    .operands = "--model NAME",
    .least = 0,
    .most = 0,
    .summary = "how long training a network takes on a cluster, before it is paid for",
    .description =
        "Says how long replicas take on so many workers: computing, messages, waiting, speedup, messages and bytes, "
        "memory of a worker, how many workers pay and why more do not. Methods and exchanges are those of laconic "
        "train; --compare puts several side by side. A gradient's time is given, or taken from a calibration, or "
        "assumed, and each line says which. docs/planning.md has the formulas and their limits.\n\n"
        "--rehearse lets the trainer itself run on the simulated network at each size, with gradients that only take "
        "their time, and puts what its clock says beside the formula; --simulate runs the program so under SimGrid's "
        "SMPI, rank by rank, and trains really, on drawn pictures, as many workers as this machine has cores for.\n\n"
        "With --json, a line for each: workers, speedup, efficiency, seconds (w, z, serial, communication, waiting, "
        "total), messages, bytes, link_bytes (the busiest worker's), memory_per_worker, source (formula, sim, smpi or "
        "real), method, exchange, topology, seconds_per_1000_gradients, t_mix, basis, with --links also links "
        "([{messages, bytes}, …], what leaves each worker); then {event: done, best_workers, best_speedup}.",
    .example =
        "laconic plan train --model resnet20 --workers 1:128:x2 --network 1Gbit,50us --compute 0.2s --method parle\n"
        "laconic plan train --model allcnn --workers 8 --compute 1s --network 100Mbit,1ms --compare all\n"
        "laconic plan train --parameters 25M --compute 150ms --workers 8:128:x2 --compare sgd,parle --plot s.svg",
    .groups = plan_train_groups,
    .options_size = sizeof(lac_plan_train_options),
    .on_ranks = true,
    .run = run_plan_train,
};
