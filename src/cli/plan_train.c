#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "cli/plan_simulate.h"
#include "cli/plot.h"
#include "cli/quantity.h"

typedef struct plan_train_options {
  lac_common_options common;
  lac_replica_options replica;
  lac_net_options net;
  lac_plan_cluster_options where;
  char *model, *shape, *workers, *compute, *update, *calibration, *compare, *plot;
  int64_t classes, parameters, images, batch, gradients, rehearsed, vector, seed;
  double width;
  bool rehearse, simulate;
} plan_train_options;

static const lac_option plan_train_option_table[] = {
    LAC_TEXT_OPTION(plan_train_options, model, "model", "NETWORK",
                    "the network: lenet, allcnn, resnet20, wrn-D-K as wrn-16-4, mlp:IN-HIDDEN-OUT as mlp:784-500-10, "
                    "or a file that describes its layers"),
    {.key = "width",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(plan_train_options, width),
     .low = 1e-6,
     .high = 1000,
     .fallback = "1",
     .help = "multiplies the channels and units of a built-in network"},
    LAC_TEXT_OPTION(plan_train_options, shape, "shape", "SHAPE",
                    "of a picture: channels, height and width as 3x32x32; a built-in network brings that of its paper"),
    {.key = "classes",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_train_options, classes),
     .low = 0,
     .high = 1e6,
     .fallback = "0",
     .help = "of the pictures; 0: 10, or the last number of an mlp"},
    {.key = "parameters",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_train_options, parameters),
     .low = 0,
     .high = 1e12,
     .fallback = "0",
     .help = "in place of --model: of any model, as 1.1M; then --compute has to be given"},
    {.key = "images",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_train_options, images),
     .low = 1,
     .high = 1e15,
     .fallback = "50000",
     .help = "training pictures; sgd divides them among the workers, for the others each replica sees all"},
    LAC_BATCH_OPTION(plan_train_options, batch),
    {.key = "gradients",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_train_options, gradients),
     .low = 0,
     .high = 1e15,
     .fallback = "0",
     .help = "of each replica in the whole job; 0: as many as --epochs are"},
    LAC_TEXT_OPTION(plan_train_options, workers, "workers", "LIST",
                    "their number, or several: 4,8,16, or 8:128:x2; when not given 1,2,4,8,16"),
    LAC_PLAN_CLUSTER_OPTIONS(plan_train_options, where),
    LAC_TEXT_OPTION(plan_train_options, compute, "compute", "TIME",
                    "that a gradient takes on a machine of speed 1, as 20ms; when not given that of the calibration, "
                    "else an assumed one"),
    LAC_TEXT_OPTION(plan_train_options, update, "update", "TIME",
                    "that everything else takes which a step needs; when not given none"),
    LAC_TEXT_OPTION(plan_train_options, calibration, "calibration", "FILE",
                    "what was measured on a machine; see laconic plan calibrate"),
    LAC_TEXT_OPTION(plan_train_options, compare, "compare", "LIST",
                    "several side by side in place of --method and --exchange: all, or METHOD, METHOD/EXCHANGE or "
                    "METHOD/EXCHANGE/TOPOLOGY, each with @PERIOD or without, with commas between them, as "
                    "sgd,parle,sgd/dpsgd/exponential,sgd@4"),
    {.key = "rehearse",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(plan_train_options, rehearse),
     .help = "also let the trainer itself run on the simulated network, with nothing to compute"},
    {.key = "simulate",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(plan_train_options, simulate),
     .help = "also run the program with nothing to compute under SimGrid's SMPI, rank by rank, and really where this "
             "machine has the cores, unless --compute speaks of another; needs SimGrid"},
    {.key = "rehearse-gradients",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_train_options, rehearsed),
     .low = 1,
     .high = 1e6,
     .fallback = "50",
     .help = "of each replica that are made for these and for a real run, at least a period of the exchange"},
    {.key = "rehearse-vector",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_train_options, vector),
     .low = 0,
     .high = 1e9,
     .fallback = "0",
     .unit = "parameters",
     .help = "that are really moved in it, in place of all, on links as much slower; 0: chosen"},
    LAC_TEXT_OPTION(plan_train_options, plot, "plot", "FILE",
                    "draw speedup and the seconds of 1,000 gradients against the number of workers: .svg or .png; "
                    "needs gnuplot"),
    {.key = "seed",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_train_options, seed),
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
     .offset = offsetof(plan_train_options, replica)},
    {.title = "Options of the exchange: its topology",
     .table = lac_topology_option_table,
     .offset = offsetof(plan_train_options, replica.exchange.topology)},
    {.title = "Options of the exchange",
     .table = lac_process_option_table,
     .offset = offsetof(plan_train_options, replica.exchange)},
    {.title = "Options of the network", .table = lac_net_option_table, .offset = offsetof(plan_train_options, net)},
    {0},
};

/* A method with its exchange. */
typedef struct candidate {
  int method, protocol;
  int topology;   /* -1: that of --topology or --graph */
  int64_t period; /* 0: that of --period */
  char label[72];
} candidate;

enum { MOST_CANDIDATES = 32 };

typedef struct plan_run {
  lac_session *session;
  const plan_train_options *options;
  candidate candidates[MOST_CANDIDATES];
  int candidate_count;
  int64_t sizes[LAC_SIZES];
  int size_count;
  lac_plan_cluster where;
  double gradient, update; /* seconds */
  lac_basis basis;         /* of gradient */
  int64_t parameters;
  lac_image_shape shape;
  char *layers;       /* of --model; NULL */
  double activations; /* bytes of those of a batch, at most */
  lac_plan_row *rows; /* (count) */
  double *thousand;   /* (count): seconds of 1,000 gradients of each */
  double *mixing;     /* (count): rounds, NaN where they are not known */
  double *gradients;  /* (count): of each replica in the job */
  int *of;            /* (count): candidate */
  int count;
  double alone; /* seconds of a gradient in a real run of one worker of this candidate; NaN: none */
} plan_run;

enum { SOURCES = 4 }; /* of rows: formula, sim, smpi, real */

/* ---- the network ---- */

static lac_status fail_shape(const plan_run *run) {
  return lac_fail(run->session->context, LAC_E_USAGE,
                  "--shape: found '%.40s', expected channels, height and width as 3x32x32", run->options->shape);
}

static lac_status read_shape(const plan_run *run, lac_image_shape *shape) {
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

static int64_t classes_of(const plan_train_options *options) {
  int64_t classes;
  lac_net_builtin_input(options->model, &classes);
  return options->classes > 0 ? options->classes : classes;
}

/* What a picture takes is that of a batch of one: the memory of a network grows with its batch. */
static lac_status measure_network(plan_run *run, double *flops) {
  const plan_train_options *options = run->options;
  lac_net *net = NULL;
  CLI_TRY(read_shape(run, &run->shape));
  CLI_TRY(lac_network_read(run->session, options->model, options->width, &run->layers));
  lac_status status = lac_net_create(run->session->context, run->layers, options->model, run->shape,
                                     classes_of(options), 1, &options->net, &net);
  if (!status) {
    run->parameters = lac_net_parameters(net);
    *flops = lac_net_flops(net);
    run->activations = (double)options->batch * lac_net_activation_bytes(net);
  }
  lac_net_destroy(&net);
  return status;
}

static lac_status ask_calibration(plan_run *run, double flops) {
  const plan_train_options *options = run->options;
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

static lac_status find_costs(plan_run *run) {
  const plan_train_options *options = run->options;
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

static const char *method_name(int method) {
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

static void add_candidate(plan_run *run, const candidate *from) {
  candidate *c = &run->candidates[run->candidate_count++];
  char period[24] = "";
  const char *topology = from->topology < 0 ? NULL : lac_topology_kind_name(from->topology);
  bool plain = from->protocol == LAC_PROTOCOL_ALLREDUCE && !topology;
  if (from->period) {
    snprintf(period, sizeof period, "@%" PRId64, from->period);
  }
  *c = *from;
  snprintf(c->label, sizeof c->label, "%s%s%s%s%s%s", method_name(c->method), plain ? "" : "/",
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
static bool read_candidate(const char *text, size_t length, candidate *c) {
  const char *end = text + length, *period = memchr(text, '@', length), *part;
  size_t part_length;
  *c = (candidate){.topology = -1};
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

static lac_status add_named(plan_run *run, const char *text, size_t length) {
  candidate c;
  bool good = read_candidate(text, length, &c);
  for (int i = 0; good && i < run->candidate_count; i++) {
    const candidate *other = &run->candidates[i];
    good = other->method != c.method || other->protocol != c.protocol || other->topology != c.topology ||
           other->period != c.period;
  }
  if (!good || run->candidate_count == MOST_CANDIDATES) {
    return lac_fail(
        run->session->context, LAC_E_USAGE,
        "--compare: found '%.*s', expected all, or up to %d of sgd, elastic, entropy or parle, each alone or "
        "with /allreduce, /server, /async-server, /dpsgd, /adpsgd, /async-ring or /periodic, behind dpsgd, "
        "adpsgd and async-ring a /TOPOLOGY, and @PERIOD, as sgd/dpsgd/exponential@4, each once",
        (int)(length < 60 ? length : 60), text, MOST_CANDIDATES);
  }
  add_candidate(run, &c);
  return LAC_OK;
}

static lac_status choose(plan_run *run) {
  const char *list = run->options->compare;
  if (!list) {
    add_candidate(run, &(candidate){run->options->replica.method, run->options->replica.exchange.protocol, -1, 0, ""});
  } else if (strcmp(list, "all") == 0) {
    add_candidate(run, &(candidate){LAC_METHOD_ELASTIC, LAC_PROTOCOL_ALLREDUCE, -1, 0, ""});
    add_candidate(run, &(candidate){LAC_METHOD_PARLE, LAC_PROTOCOL_ALLREDUCE, -1, 0, ""});
    for (int protocol = 0; protocol < LAC_PROTOCOLS; protocol++) {
      add_candidate(run, &(candidate){LAC_METHOD_SGD, protocol, -1, 0, ""});
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
static lac_replica_options options_of(const plan_run *run, const candidate *c) {
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

static lac_status read_cluster(plan_run *run) {
  static const int64_t usual[] = {1, 2, 4, 8, 16};
  const plan_train_options *options = run->options;
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

static lac_status read_options(plan_run *run) {
  const plan_train_options *options = run->options;
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

/* ---- a row ---- */

/* Gradients of an outer step. */
static double inner_of(const lac_replica_options *options) {
  bool nested = options->method == LAC_METHOD_ENTROPY || options->method == LAC_METHOD_PARLE;
  return nested ? (double)options->inner_steps : 1;
}

/* Gradients of each replica in the job: as train counts epochs. */
static lac_status gradients_of(const plan_run *run, const lac_replica_options *options, int workers,
                               double *gradients) {
  double share = options->method == LAC_METHOD_SGD ? 1.0 / workers : 1;
  double batches = floor(ceil(share * (double)run->options->images - 1e-9) / (double)run->options->batch);
  *gradients = (double)run->options->gradients;
  if (*gradients > 0) {
    return LAC_OK;
  }
  if (batches < 1) {
    return lac_fail(run->session->context, LAC_E_USAGE,
                    "--images: found %" PRId64 " for %d workers, expected at least a batch of %" PRId64
                    " for each; --gradients does without",
                    run->options->images, workers, run->options->batch);
  }
  *gradients = ceil(options->epochs * batches) * inner_of(options);
  return LAC_OK;
}

static lac_cluster cluster_of(const plan_run *run) {
  lac_cluster cluster = run->where.cluster;
  cluster.seed = run->options->seed;
  return cluster;
}

/* The next row, which is not counted yet, with room for its links where they are asked for. */
static lac_status next_row(const plan_run *run, int workers, lac_plan_row **row) {
  void *memory = NULL;
  *row = &run->rows[run->count];
  if (run->options->where.links) {
    CLI_TRY(lac_session_allocate(run->session, workers, sizeof(lac_link), &memory));
    (*row)->links = memory;
  }
  return LAC_OK;
}

static json_t *extra_of(const plan_run *run, int at) {
  const candidate *c = &run->candidates[run->of[at]];
  const lac_topology_options *topology = &run->options->replica.exchange.topology;
  int kind = c->topology >= 0 ? c->topology : topology->kind;
  const char *graph = !lac_protocol_on_topology(c->protocol) ? NULL
                      : topology->graph && c->topology < 0   ? "file"
                                                             : lac_topology_kind_name(kind);
  return json_pack("{s:s, s:s, s:s?, s:o, s:o, s:s}", "method", method_name(c->method), "exchange",
                   lac_protocol_names()[c->protocol], "topology", graph, "seconds_per_1000_gradients",
                   lac_json_real(run->thousand[at]), "t_mix", lac_json_real(run->mixing[at]), "basis",
                   lac_basis_name(run->basis));
}

/* Counts the next row, whose plan is known, of so many gradients of each replica. */
static void add_row(plan_run *run, int of, const char *source, double gradients, double mixing) {
  lac_plan_row *row = &run->rows[run->count];
  row->source = source;
  row->label = run->candidate_count > 1 ? run->candidates[of].label : NULL;
  run->thousand[run->count] = 1000 * row->plan.seconds.total / gradients;
  run->mixing[run->count] = mixing;
  run->gradients[run->count] = gradients;
  run->of[run->count] = of;
  lac_plan_print_json(run->session, row, extra_of(run, run->count));
  run->count++;
}

static lac_status plan_one(plan_run *run, int of, int workers) {
  lac_replica_options options = options_of(run, &run->candidates[of]);
  lac_cluster cluster = cluster_of(run);
  lac_replica_job job = {
      .options = &options, .gradient = run->gradient, .update = run->update, .parameters = run->parameters};
  lac_mixing_time time = {.rounds = NAN, .upper = NAN};
  lac_plan_row *row;
  CLI_TRY(gradients_of(run, &options, workers, &job.gradients));
  CLI_TRY(next_row(run, workers, &row));
  CLI_TRY(lac_plan_replicas(run->session->context, &job, &cluster, workers, &row->plan, row->links));
  row->plan.memory += run->activations;
  CLI_TRY(lac_mixing_foretell(run->session->context, &options, workers, &time));
  add_row(run, of, "formula", job.gradients, isfinite(time.rounds) ? time.rounds : time.upper);
  return LAC_OK;
}

/* The clock does not see whether a long vector travels fast or a short one slowly: a rehearsal moves short ones. Under
 * SMPI every message has an envelope, beside which its part of a vector must be long. */
static int64_t short_vector(const plan_run *run, bool enveloped, int workers) {
  enum { ENOUGH = 4096, LEAST = 8, LEAST_ENVELOPED = 1024 };
  int64_t least = enveloped ? LEAST_ENVELOPED : LEAST, each = ENOUGH / workers;
  int64_t count = run->options->vector ? run->options->vector : workers * (each > least ? each : least);
  return count < run->parameters ? count : run->parameters;
}

/* Under SMPI all ranks come here, each as its part of the rehearsal. */
typedef struct rehearsal {
  const lac_replica_job *job;
  const lac_cluster *cluster;
  int64_t gradients;
  lac_plan *plan;
  lac_link *links; /* NULL */
} rehearsal;

static lac_status rehearse_rank(lac_world *world, void *argument) {
  rehearsal *mine = argument; /* one for each rank: they are processes */
  return lac_plan_rehearse_replicas(lac_world_context(world), mine->job, mine->cluster, world, lac_world_size(world),
                                    mine->gradients, mine->plan, mine->links);
}

static lac_status rehearse_job(const plan_run *run, rehearsal *mine, int workers) {
  lac_context *context = run->session->context;
  if (!lac_world_smpi()) {
    return lac_plan_rehearse_replicas(context, mine->job, mine->cluster, NULL, workers, mine->gradients, mine->plan,
                                      mine->links);
  }
  lac_world_options options = {.backend = "mpi", .workers = workers, .timeout_ms = LAC_PATIENCE_MS};
  return lac_world_run(context, &options, rehearse_rank, mine);
}

static lac_status rehearse_one(plan_run *run, int of, int workers) {
  lac_replica_options options = options_of(run, &run->candidates[of]);
  lac_cluster cluster = cluster_of(run);
  int64_t count = short_vector(run, lac_world_smpi(), workers);
  double part = (double)run->parameters / (double)count;
  cluster.bandwidth /= part;
  lac_replica_job job = {.options = &options, .gradient = run->gradient, .update = run->update, .parameters = count};
  CLI_TRY(gradients_of(run, &options, workers, &job.gradients));
  lac_plan_row *row;
  CLI_TRY(next_row(run, workers, &row));
  rehearsal mine = {
      .job = &job, .cluster = &cluster, .gradients = run->options->rehearsed, .plan = &row->plan, .links = row->links};
  CLI_TRY(rehearse_job(run, &mine, workers));
  row->plan.bytes *= part;
  row->plan.link_bytes *= part;
  row->plan.memory = row->plan.memory * part + run->activations;
  for (int i = 0; row->links && i < workers; i++) {
    row->links[i].bytes *= part;
  }
  add_row(run, of, lac_world_smpi() ? "smpi" : "sim", job.gradients,
          run->count ? run->mixing[run->count - 1] : (double)NAN);
  return LAC_OK;
}

/* The simulated ranks move short vectors, too: the links that they are given are as much slower, but for those of a
 * platform file. */
static lac_status simulate_one(plan_run *run, int of, int workers) {
  static const char *const left_out[] = {"compare", "method", "exchange", "period", "rehearse-vector", NULL};
  static const char *const left_out_with_graph[] = {"compare",         "method",   "exchange", "period",
                                                    "rehearse-vector", "topology", "graph",    NULL};
  const candidate *c = &run->candidates[of];
  lac_replica_options options = options_of(run, c);
  lac_plan_cluster where = run->where;
  int64_t count = where.hosts ? run->parameters : short_vector(run, true, workers);
  double gradients;
  char vector[48], method[48], exchange[48], period[48], topology[48] = "--quiet";
  snprintf(vector, sizeof vector, "--rehearse-vector=%" PRId64, count);
  snprintf(method, sizeof method, "--method=%s", method_name(c->method));
  snprintf(exchange, sizeof exchange, "--exchange=%s", lac_protocol_names()[c->protocol]);
  snprintf(period, sizeof period, "--period=%" PRId64, options.exchange.period);
  if (c->topology >= 0) {
    snprintf(topology, sizeof topology, "--topology=%s", lac_topology_kind_name(c->topology));
  }
  const char *const *left = c->topology >= 0 ? left_out_with_graph : left_out;
  const char *const added[] = {
      vector, method, exchange, period, topology, options.overlap ? "--overlap" : "--no-overlap", NULL};
  where.cluster.bandwidth *= (double)count / (double)run->parameters;
  json_t *line;
  lac_plan_row *row;
  CLI_TRY(gradients_of(run, &options, workers, &gradients));
  CLI_TRY(next_row(run, workers, &row));
  CLI_TRY(lac_simulate(run->session, &lac_command_plan_train, run->options, left, added, &run->options->where, &where,
                       workers, &line));
  lac_plan_read_json(line, &row->plan, row->links);
  json_decref(line);
  add_row(run, of, "smpi", gradients, run->mixing[run->count - 1]);
  return LAC_OK;
}

/* Where this machine has the cores and the memory, and the prediction the patience. */
static lac_status add_real(plan_run *run, int of, int workers, int formula) {
  const plan_train_options *given = run->options;
  lac_replica_options options = options_of(run, &run->candidates[of]);
  lac_replica_job job = {
      .options = &options, .gradient = run->gradient, .update = run->update, .parameters = run->parameters};
  double each = run->thousand[formula] / 1000, made;
  CLI_TRY(gradients_of(run, &options, workers, &job.gradients));
  CLI_TRY(lac_plan_trial_gradients(run->session->context, &job, workers, given->rehearsed, &made));
  if (!run->layers || given->compute ||
      !lac_plan_fits_here(&given->where, workers, run->rows[formula].plan.memory, made * each)) {
    return LAC_OK;
  }
  lac_plan_network network = {.layers = run->layers,
                              .name = given->model,
                              .shape = run->shape,
                              .classes = classes_of(given),
                              .batch = given->batch,
                              .options = &given->net};
  lac_plan_row *row;
  CLI_TRY(next_row(run, workers, &row));
  CLI_TRY(
      lac_plan_real_replicas(run->session->context, &job, &network, workers, given->rehearsed, &row->plan, row->links));
  row->plan.memory += run->activations;
  double took = row->plan.seconds.total / job.gradients;
  run->alone = workers == 1 ? took : run->alone;
  row->plan.speedup = workers * run->alone / took;
  row->plan.efficiency = row->plan.speedup / workers;
  add_row(run, of, "real", job.gradients, run->mixing[formula]);
  return LAC_OK;
}

/* Everything that cannot be is found before the first row takes its time. */
static lac_status check_all(const plan_run *run) {
  for (int c = 0; c < run->candidate_count; c++) {
    for (int s = 0; s < run->size_count; s++) {
      lac_replica_options options = options_of(run, &run->candidates[c]);
      double gradients;
      CLI_TRY(lac_replica_check(run->session->context, &options, (int)run->sizes[s]));
      CLI_TRY(gradients_of(run, &options, (int)run->sizes[s], &gradients));
    }
  }
  const double vectors = 24 * sizeof(float); /* of a worker, and those on their way to it */
  int most = (int)run->sizes[run->size_count - 1];
  if (run->options->simulate) {
    CLI_TRY(lac_simulation_check(run->session, most, vectors * (double)short_vector(run, true, most)));
  }
  double bytes = vectors * (double)short_vector(run, lac_world_smpi(), most);
  return run->options->rehearse ? lac_rehearsal_check(run->session, most, bytes) : LAC_OK;
}

static lac_status open_rows(plan_run *run) {
  int64_t most = (int64_t)run->candidate_count * run->size_count * SOURCES;
  void *rows, *numbers, *of;
  CLI_TRY(lac_session_allocate(run->session, most, sizeof *run->rows, &rows));
  run->rows = rows;
  CLI_TRY(lac_session_allocate(run->session, 3 * most, sizeof(double), &numbers));
  run->thousand = numbers;
  run->mixing = run->thousand + most;
  run->gradients = run->mixing + most;
  CLI_TRY(lac_session_allocate(run->session, most, sizeof *run->of, &of));
  run->of = of;
  return LAC_OK;
}

/* ---- what is said ---- */

static const char *number_text(double value, char text[32]) {
  snprintf(text, 32, isfinite(value) ? "%.4g" : "-", value);
  return text;
}

/* Gradients until it has mixed: a round of entropy and parle has several. */
static double mixing_gradients(const plan_run *run, int at) {
  lac_replica_options options = options_of(run, &run->candidates[run->of[at]]);
  return run->mixing[at] * inner_of(&options);
}

/* Whether a row counts in the choice: at the largest size, simulated where all are, else by the formula. */
static bool is_choosable(const plan_run *run, int at) {
  return run->rows[at].plan.workers == run->sizes[run->size_count - 1] &&
         strcmp(run->rows[at].source, run->options->simulate ? "smpi" : "formula") == 0;
}

/* Of what is compared, at the largest size: whose gradients take the least, and of those that are hardly slower the one
 * that mixes soonest. */
static void print_choice(const plan_run *run) {
  const double hardly = 1.05;
  int fastest = -1, soonest = -1;
  for (int i = 0; i < run->count && run->candidate_count > 1; i++) {
    if (is_choosable(run, i) && (fastest < 0 || run->thousand[i] < run->thousand[fastest])) {
      fastest = i;
    }
  }
  if (fastest < 0) {
    return;
  }
  soonest = fastest;
  for (int i = 0; i < run->count; i++) {
    double mixing = mixing_gradients(run, i), least = mixing_gradients(run, soonest);
    if (is_choosable(run, i) && run->thousand[i] <= hardly * run->thousand[fastest] && isfinite(mixing) &&
        !(mixing >= least)) {
      soonest = i;
    }
  }
  lac_print(run->session, "at %" PRId64 " workers the quickest gradients are those of %s",
            run->sizes[run->size_count - 1], run->candidates[run->of[fastest]].label);
  if (soonest != fastest) {
    lac_print(run->session, "; hardly slower, and the soonest mixed, is %s (in %.4g gradients)",
              run->candidates[run->of[soonest]].label, mixing_gradients(run, soonest));
  }
  lac_print(run->session, "\n");
}

/* Totals of jobs of unlike length cannot be compared. */
static void print_lengths(const plan_run *run) {
  double least = HUGE_VAL, most = 0;
  for (int i = 0; i < run->count; i++) {
    least = fmin(least, run->gradients[i]);
    most = fmax(most, run->gradients[i]);
  }
  if (run->count && least < most) {
    lac_print(run->session,
              "totals are of jobs of %.6g to %.6g gradients of each replica, as --epochs makes them; --gradients makes "
              "them equal\n",
              least, most);
  }
}

static void print_thousands(const plan_run *run) {
  char thousand[32], mixing[32], bytes[32];
  lac_print(run->session, "%-28s%9s%22s%14s  %s\n", "method", "workers", "s / 1,000 gradients", "t_mix, rounds",
            "source");
  for (int i = 0; i < run->count; i++) {
    lac_print(run->session, "%-28s%9" PRId64 "%22s%14s  %s\n", run->candidates[run->of[i]].label,
              run->rows[i].plan.workers, number_text(run->thousand[i], thousand), number_text(run->mixing[i], mixing),
              run->rows[i].source);
  }
  print_choice(run);
  print_lengths(run);
  bool assumed = !run->options->where.network && !run->options->where.cluster;
  lac_print(run->session, "a gradient takes %.4g s (%s%s); a vector of %" PRId64 " parameters has %s; network %s\n",
            run->gradient, lac_basis_name(run->basis),
            run->basis == LAC_BASIS_ASSUMED ? ", give or take a factor of 2" : "", run->parameters,
            lac_bytes_text((double)sizeof(float) * (double)run->parameters, bytes),
            assumed ? "of 1 Gbit/s and 50 us assumed" : "given");
}

/* Seconds of 1,000 gradients in place of those of the job: jobs of several sizes are not the same. */
static lac_status draw(plan_run *run) {
  void *memory;
  CLI_TRY(lac_session_allocate(run->session, run->count, sizeof(lac_plan_row), &memory));
  lac_plan_row *rows = memory;
  memcpy(rows, run->rows, (size_t)run->count * sizeof *rows);
  for (int i = 0; i < run->count; i++) {
    rows[i].plan.seconds.total = run->thousand[i];
  }
  lac_status status = lac_plan_draw(run->session, run->options->plot, "seconds of 1,000 gradients", rows, run->count);
  free(rows);
  return status;
}

static lac_status report(plan_run *run) {
  if (run->options->plot) {
    CLI_TRY(draw(run));
  }
  lac_plan_print_table(run->session, run->rows, run->count);
  lac_plan_print_links(run->session, run->rows, run->count);
  print_thousands(run);
  lac_plan_print_done(run->session, run->rows, run->count);
  return LAC_OK;
}

static lac_status find_one(plan_run *run, int of, int workers) {
  int formula = run->count;
  lac_plan_cluster_size(&run->where, workers);
  if (!lac_world_smpi()) {
    CLI_TRY(plan_one(run, of, workers));
  }
  if (run->options->rehearse) {
    CLI_TRY(rehearse_one(run, of, workers));
  }
  if (run->options->simulate) {
    CLI_TRY(simulate_one(run, of, workers));
    CLI_TRY(add_real(run, of, workers, formula));
  }
  return LAC_OK;
}

static lac_status find_all(plan_run *run) {
  CLI_TRY(check_all(run));
  CLI_TRY(open_rows(run));
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
  return run->session->silent ? LAC_OK : report(run);
}

static lac_status run_plan_train(lac_session *session, const void *argument, char *const *operands, int count) {
  (void)operands;
  (void)count;
  plan_run run = {.session = session, .options = argument};
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
  for (int i = 0; run.rows && i < SOURCES * run.candidate_count * run.size_count; i++) {
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
    .options_size = sizeof(plan_train_options),
    .on_ranks = true,
    .run = run_plan_train,
};
