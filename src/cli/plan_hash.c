#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/plan_report.h"
#include "cli/plan_simulate.h"
#include "cli/plot.h"
#include "cli/quantity.h"

enum { SOURCES = 5 }; /* of rows: formula, sim, smpi, real, plain */
enum { SHARES_SPEEDS, SHARES_EQUAL };
static const char *const shares_names[] = {"speeds", "equal", NULL};
static const char *const type_names[] = {"u8", "i32", "f16", "f32", "f64", "i64", "i8", "i16", NULL}; /* lac_type */

typedef struct plan_options {
  lac_common_options common;
  lac_hash_options hash;
  lac_plan_cluster_options where;
  double points;
  int64_t dims, rehearsed;
  int type, shares;
  char *workers, *calibration, *costs, *plot;
  bool rehearse, simulate;
} plan_options;

static const lac_option plan_option_table[] = {
    {.key = "points",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(plan_options, points),
     .low = 1,
     .high = 1e15,
     .fallback = "1e6",
     .help = "N, over all workers"},
    {.key = "dims",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_options, dims),
     .low = 1,
     .high = 1e6,
     .fallback = "128",
     .help = "D, of a point"},
    {.key = "type",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(plan_options, type),
     .names = type_names,
     .fallback = "u8",
     .help = "of their elements"},
    LAC_TEXT_OPTION(plan_options, workers, "workers", "LIST",
                    "their number, or several: 4,8,16, or 1:1024:x2; when not given 1:128:x2"),
    LAC_PLAN_CLUSTER_OPTIONS(plan_options, where),
    {.key = "shares",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(plan_options, shares),
     .names = shares_names,
     .fallback = "speeds",
     .help = "of the points: as the speeds of the workers are, or equal"},
    LAC_TEXT_OPTION(plan_options, calibration, "calibration", "FILE",
                    "what plan calibrate measured; when not given, costs of a common processor are assumed"),
    LAC_TEXT_OPTION(
        plan_options, costs, "costs", "COSTS",
        "W,Z,C in place of a calibration and a network: t_W and t_Z, of a submodel and point, and t_C, of a "
        "submodel and hop, in any one unit, for the plain formula of ParMAC"),
    {.key = "rehearse",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(plan_options, rehearse),
     .help = "beside the formula, run the engine at each size with nothing to compute, on a simulated clock"},
    {.key = "simulate",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(plan_options, simulate),
     .help = "beside the formula, run the program at each size under SimGrid's SMPI, and really where this machine has "
             "the cores; needs SimGrid"},
    {.key = "rehearse-iterations",
     .type = LAC_OPTION_INT,
     .offset = offsetof(plan_options, rehearsed),
     .low = 1,
     .high = 1e6,
     .fallback = "1",
     .help = "that are run and timed for these, after a first one; more where a platform file lets speeds change"},
    LAC_TEXT_OPTION(plan_options, plot, "plot", "FILE",
                    "draw speedup and time against the number of workers: .svg or .png; needs gnuplot"),
    LAC_OPTIONS_END,
};

typedef struct plan_run {
  lac_session *session;
  const plan_options *options;
  int64_t sizes[LAC_SIZES];
  int size_count;
  lac_plan_cluster where;
  lac_hash_costs costs;
  lac_ring_plain plain;
  lac_ring_job job;
  int64_t *shares; /* (most workers) */
  double alone;    /* seconds of a real run of one worker; NaN: none */
  lac_plan_row *rows;
  int count;
} plan_run;

/* ---- what is known ---------------------------------------------------------------------------------------------- */

/* "1,40,1e4". */
static lac_status read_costs(plan_run *run, const char *text) {
  double value[3];
  const char *at = text;
  for (int i = 0; i < 3; i++) {
    char *end = (char *)at;
    value[i] = *at >= '0' && *at <= '9' ? strtod(at, &end) : 0;
    if (end == at || !(value[i] >= 1e-30) || !(value[i] <= 1e30) || *end != (i < 2 ? ',' : 0) ||
        strcspn(at, "xX") < (size_t)(end - at)) {
      return lac_fail(run->session->context, LAC_E_USAGE,
                      "--costs: found '%.60s', expected three numbers above 0 with commas between them, as 1,40,1e4",
                      text);
    }
    at = end + 1;
  }
  run->plain.w = value[0];
  run->plain.z = value[1];
  run->plain.hop = value[2];
  double m = (double)run->job.submodels;
  run->job.costs = (lac_mac_costs){.kinds = 2, .submodel = {value[0], value[0]}, .z = m * value[1]};
  run->where.cluster = (lac_cluster){.latency = value[2]};
  run->costs.basis = LAC_BASIS_GIVEN;
  return LAC_OK;
}

/* The plain formula's one cost of a submodel: what it is on one worker, which trains all of them together. */
static void simplify(plan_run *run) {
  const lac_mac_costs *costs = &run->job.costs;
  double m = (double)run->job.submodels, sum = 0, bytes = 0;
  for (int k = 0; k < costs->kinds; k++) {
    sum += costs->submodel[k] / costs->kinds;
    bytes += run->job.bytes[k] / costs->kinds;
  }
  const lac_cluster *cluster = &run->where.cluster;
  run->plain.w = sum + costs->visit / m;
  run->plain.z = costs->z / m;
  run->plain.hop = cluster->latency + (cluster->bandwidth > 0 ? bytes / cluster->bandwidth : 0);
}

static lac_status read_calibration(plan_run *run) {
  const plan_options *options = run->options;
  lac_session *session = run->session;
  lac_calibration *calibration = NULL;
  char reason[256];
  if (options->calibration) {
    CLI_TRY(lac_calibration_load(session->context, options->calibration, &calibration));
    if (!lac_calibration_is_here(calibration, reason, sizeof reason) && !session->quiet && !session->silent) {
      lac_say(session, "warning: %s: %s", options->calibration, reason);
    }
  }
  const lac_hash_case which = {options->dims, (lac_type)options->type, options->hash.bits, options->hash.encoder};
  lac_calibration_hash(calibration, &which, &run->costs);
  lac_calibration_destroy(&calibration);
  return lac_plan_hash_job(session->context, &options->hash, options->points, options->dims, &run->costs, &run->job);
}

static lac_status check_options(const plan_run *run) {
  const plan_options *options = run->options;
  lac_session *session = run->session;
  if (options->hash.method != LAC_HASH_BA) {
    return lac_fail(session->context, LAC_E_USAGE, "--method: found a method without submodels, expected ba");
  }
  const char *also = options->where.network   ? "network"
                     : options->where.cluster ? "cluster"
                     : options->where.speeds  ? "speeds"
                     : options->calibration   ? "calibration"
                                              : NULL;
  if (options->costs && also) {
    return lac_fail(session->context, LAC_E_USAGE, "--costs: found with --%s, expected one of both", also);
  }
  const lac_file_use files[] = {{"--plot", options->plot, true},
                                {"--calibration", options->calibration, false},
                                {"--cluster", options->where.cluster, false}};
  CLI_TRY(lac_check_apart(session, files, 3));
  return options->plot && !session->silent ? lac_plot_check(session, options->plot) : LAC_OK;
}

static lac_status read_options(plan_run *run) {
  const plan_options *options = run->options;
  lac_session *session = run->session;
  CLI_TRY(check_options(run));
  CLI_TRY(lac_parse_sizes(session, "workers", options->workers ? options->workers : "1:128:x2", run->sizes,
                          &run->size_count));
  while (!options->workers && run->size_count > 1 && (double)run->sizes[run->size_count - 1] > options->points) {
    run->size_count--; /* of the default, what there are points for */
  }
  int64_t most = run->sizes[run->size_count - 1];
  if (most > LAC_WORKERS_LIMIT) {
    return lac_fail(session->context, LAC_E_USAGE, "--workers: found %" PRId64 ", expected at most %d", most,
                    LAC_WORKERS_LIMIT);
  }
  if (options->points != floor(options->points)) {
    return lac_fail(session->context, LAC_E_USAGE, "--points: found %.10g, expected a whole number", options->points);
  }
  if ((double)most > options->points) {
    return lac_fail(session->context, LAC_E_USAGE, "--workers: found %" PRId64 ", expected at most the %.0f points",
                    most, options->points);
  }
  if (options->costs) {
    CLI_TRY(lac_plan_hash_job(session->context, &options->hash, options->points, options->dims, NULL, &run->job));
    CLI_TRY(read_costs(run, options->costs));
    run->job.subsampled = 0; /* the published model knows of none */
  } else {
    CLI_TRY(lac_plan_cluster_open(session, &options->where, run->sizes, run->size_count, &run->where));
    CLI_TRY(read_calibration(run));
    simplify(run);
  }
  run->plain.points = run->job.points;
  run->plain.submodels = run->job.submodels;
  run->plain.epochs = run->job.epochs;
  run->plain.local_epochs = run->job.local_epochs;
  void *memory;
  CLI_TRY(lac_session_allocate(session, most, sizeof *run->shares, &memory));
  run->shares = memory;
  return LAC_OK;
}

/* ---- one size --------------------------------------------------------------------------------------------------- */

static lac_status share(const plan_run *run, int workers) {
  const double *speeds = run->options->shares == SHARES_SPEEDS ? run->where.cluster.speeds : NULL;
  return lac_hash_shares(run->session->context, llround(run->options->points), workers, speeds, run->shares);
}

/* Of the worker with most points: its share of the data, as mapped, and what training takes beside it. */
static lac_status memory_of(const plan_run *run, int workers, double *bytes) {
  const plan_options *options = run->options;
  lac_hash_estimate estimate;
  int64_t most = 0;
  for (int i = 0; i < workers; i++) {
    most = run->shares[i] > most ? run->shares[i] : most;
  }
  lac_type type = (lac_type)options->type;
  CLI_TRY(
      lac_hash_train_estimate(run->session->context, &options->hash, most, options->dims, type, workers, &estimate));
  *bytes = (double)estimate.memory + (double)most * (double)options->dims * (double)lac_type_size(type);
  return LAC_OK;
}

static json_t *extra_of(const plan_run *run, int workers) {
  double times = (double)run->job.iterations;
  const lac_plan *plan = &run->rows[run->count].plan;
  return json_pack("{s:o, s:o, s:s}", "seconds_per_iteration",
                   lac_json_real(times > 0 ? (plan->seconds.total - plan->seconds.serial) / times : 0), "plain_speedup",
                   lac_json_real(lac_plan_plain_speedup(&run->plain, workers)), "basis",
                   lac_basis_name(run->costs.basis));
}

/* Room for the links of the next row, where they are asked for; it is the row's from then on. */
static lac_status open_links(plan_run *run, int workers, lac_link **links) {
  void *memory = NULL;
  *links = NULL;
  if (run->options->where.links) {
    CLI_TRY(lac_session_allocate(run->session, workers, sizeof **links, &memory));
    *links = run->rows[run->count].links = memory;
  }
  return LAC_OK;
}

static void add_row(plan_run *run, const lac_plan *plan, const char *source) {
  lac_link *links = run->rows[run->count].links;
  run->rows[run->count] =
      (lac_plan_row){.plan = *plan, .source = source, .links = links, .unitless = run->options->costs != NULL};
  lac_plan_print_json(run->session, &run->rows[run->count], extra_of(run, (int)plan->workers));
  run->count++;
}

/* The published formula as it stands: W, communication, Z, and nothing else. */
static void plan_plainly(plan_run *run, int workers, lac_plan *plan) {
  double times = (double)run->job.iterations, w, communication, z;
  lac_plan_plain_times(&run->plain, workers, &w, &communication, &z);
  plan->seconds = (lac_plan_seconds){.w = w * times, .z = z * times, .communication = communication * times};
  plan->seconds.total = (w + z + communication) * times;
  plan->speedup = lac_plan_plain_speedup(&run->plain, workers);
  plan->efficiency = plan->speedup / workers;
}

static lac_status add_formula(plan_run *run, int workers) {
  lac_plan plan;
  lac_link *links;
  CLI_TRY(open_links(run, workers, &links));
  CLI_TRY(lac_plan_ring(run->session->context, &run->job, &run->where.cluster, workers, run->shares, &plan, links));
  if (run->options->costs) {
    plan_plainly(run, workers, &plan);
  }
  CLI_TRY(memory_of(run, workers, &plan.memory));
  add_row(run, &plan, "formula");
  return LAC_OK;
}

/* Under SMPI all ranks come here, each as its part of the rehearsal. */
typedef struct rehearsal {
  const plan_run *run;
  lac_plan plan;
  lac_link *links;
} rehearsal;

static lac_status rehearse_rank(lac_world *world, void *argument) {
  rehearsal *mine = argument; /* one for each rank: they are processes */
  const plan_run *run = mine->run;
  return lac_plan_rehearse_ring(lac_world_context(world), &run->job, &run->where.cluster, world, lac_world_size(world),
                                run->shares, run->options->rehearsed, &mine->plan, mine->links);
}

static lac_status add_rehearsal(plan_run *run, int workers) {
  rehearsal own = {.run = run};
  lac_context *context = run->session->context;
  CLI_TRY(open_links(run, workers, &own.links));
  if (lac_world_smpi()) {
    lac_world_options options = {.backend = "mpi", .workers = workers, .timeout_ms = LAC_PATIENCE_MS};
    CLI_TRY(lac_world_run(context, &options, rehearse_rank, &own));
  } else {
    CLI_TRY(lac_plan_rehearse_ring(context, &run->job, &run->where.cluster, NULL, workers, run->shares,
                                   run->options->rehearsed, &own.plan, own.links));
  }
  add_row(run, &own.plan, lac_world_smpi() ? "smpi" : "sim");
  return LAC_OK;
}

static lac_status add_simulation(plan_run *run, int workers) {
  json_t *line;
  lac_plan plan;
  lac_link *links;
  run->where.in_turn = true; /* on a ring all goes to the successor */
  CLI_TRY(open_links(run, workers, &links));
  CLI_TRY(lac_simulate(run->session, &lac_command_plan_hash, run->options, NULL, NULL, &run->options->where,
                       &run->where, workers, &line));
  lac_plan_read_json(line, &plan, links);
  json_decref(line);
  add_row(run, &plan, "smpi");
  return LAC_OK;
}

/* Where this machine has the cores and the memory, and the prediction the patience. */
static lac_status add_real(plan_run *run, int workers, const lac_plan *predicted) {
  const plan_options *options = run->options;
  double bytes = options->points * (double)options->dims * (double)lac_type_size((lac_type)options->type);
  lac_plan plan;
  lac_link *links;
  if (options->costs || run->where.cluster.speeds || /* shares for other machines */
      !lac_plan_fits_here(&options->where, workers, bytes / workers + predicted->memory, predicted->seconds.total)) {
    return LAC_OK;
  }
  CLI_TRY(open_links(run, workers, &links));
  lac_hash_options hash = options->hash;
  hash.threads = 1;
  CLI_TRY(lac_plan_real_ring(run->session->context, &hash, llround(options->points), options->dims,
                             (lac_type)options->type, workers, run->shares, &plan, links));
  run->alone = workers == 1 ? plan.seconds.total : run->alone;
  plan.speedup = run->alone / plan.seconds.total;
  plan.efficiency = plan.speedup / workers;
  add_row(run, &plan, "real");
  return LAC_OK;
}

static lac_status plan_size(plan_run *run, int workers) {
  const plan_options *options = run->options;
  lac_plan_cluster_size(&run->where, workers);
  CLI_TRY(share(run, workers));
  if (!lac_world_smpi()) {
    CLI_TRY(add_formula(run, workers));
  }
  if (options->rehearse) {
    CLI_TRY(add_rehearsal(run, workers));
  }
  if (options->simulate) {
    lac_plan predicted = run->rows[run->count - 1 - options->rehearse].plan;
    CLI_TRY(add_simulation(run, workers));
    return add_real(run, workers, &predicted);
  }
  return LAC_OK;
}

/* ---- what is said of it ----------------------------------------------------------------------------------------- */

static void print_basis(const plan_run *run) {
  const plan_options *options = run->options;
  char early[80] = "";
  if (run->job.subsampled > 0) {
    snprintf(early, sizeof early, ", %" PRId64 " of them over 1 point in %.0f", run->job.subsampled,
             1 / run->job.subsample);
  }
  lac_print_note(run->session,
                 "%.10g points of %" PRId64 " %s, %" PRId64 " submodels, %" PRId64 " %s, %" PRId64
                 " iterations%s; costs of the processor %s%s%s, network %s\n",
                 run->job.points, options->dims, type_names[options->type], run->job.submodels, run->job.epochs,
                 run->job.epochs == 1    ? "epoch"
                 : run->job.local_epochs ? "local epochs"
                                         : "epochs",
                 run->job.iterations, early, lac_basis_name(run->costs.basis), options->calibration ? " in " : "",
                 options->calibration ? options->calibration : "",
                 options->where.cluster                     ? options->where.cluster
                 : options->where.network || options->costs ? "given"
                                                            : "of 1 Gbit/s and 50 us assumed");
}

/* Options of the method that change what a run takes, but not the costs of a case. */
static lac_status say_what_is_not_counted(const plan_run *run) {
  static const char *const keys[] = {"init", "sample", "validation", "relaxed-starts", "threads"};
  char list[160] = "";
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const lac_option *option = lac_options_find(lac_hash_option_table(), keys[i]);
    char *text;
    CLI_TRY(lac_options_get(run->session->context, option, &run->options->hash, &text));
    if (text && strcmp(text, option->fallback ? option->fallback : "") != 0) {
      size_t used = strlen(list);
      snprintf(list + used, sizeof list - used, "%s--%s", used ? ", " : "", keys[i]);
    }
    free(text);
  }
  if (*list) {
    lac_print_note(run->session, "not counted, as costs are those of the defaults: %s\n", list);
  }
  return LAC_OK;
}

/* What other choices would bring at the best size: epochs in one visit, and submodels trained singly. */
static lac_status print_advice(plan_run *run) {
  const lac_plan_row *best = NULL;
  for (int i = 0; i < run->count; i++) {
    if (strcmp(run->rows[i].source, "formula") == 0 && (!best || run->rows[i].plan.speedup > best->plan.speedup)) {
      best = &run->rows[i];
    }
  }
  if (!best || run->options->costs || run->session->json || best->plan.workers == 1) {
    return LAC_OK;
  }
  int workers = (int)best->plan.workers;
  lac_ring_job local = run->job, single = run->job;
  lac_plan other;
  lac_plan_cluster_size(&run->where, workers);
  CLI_TRY(share(run, workers));
  if (run->job.epochs > 1) {
    local.local_epochs = !local.local_epochs;
    CLI_TRY(lac_plan_ring(run->session->context, &local, &run->where.cluster, workers, run->shares, &other, NULL));
    lac_print(run->session, "%s at %d workers: %.4g s in place of %.4g s\n",
              local.local_epochs ? "with --local-epochs" : "without --local-epochs", workers, other.seconds.total,
              best->plan.seconds.total);
  }
  single.batch = 1;
  CLI_TRY(lac_plan_ring(run->session->context, &single, &run->where.cluster, workers, run->shares, &other, NULL));
  if (other.seconds.total < 0.995 * best->plan.seconds.total) {
    lac_print(run->session, "with --batch 1 at %d workers: %.4g s in place of %.4g s\n", workers, other.seconds.total,
              best->plan.seconds.total);
  }
  return LAC_OK;
}

static void print_plain_best(const plan_run *run) {
  double workers, speedup;
  if (!run->options->costs) { /* it does not know what the others do, and promises too much */
    return;
  }
  lac_plan_plain_best(&run->plain, &workers, &speedup);
  lac_print(run->session, "by the plain formula the best is P* = %.5g workers with a speedup of %.5g\n", workers,
            speedup);
  lac_print_json(run->session, json_pack("{s:s, s:o, s:o}", "event", "plain", "workers", lac_json_real(workers),
                                         "speedup", lac_json_real(speedup)));
}

/* The curve of the plain formula beside the others. */
static lac_status draw(plan_run *run) {
  int count = run->count;
  if (!run->options->costs) {
    for (int i = 0; i < run->size_count; i++) {
      lac_plan plan = {.workers = run->sizes[i]};
      plan_plainly(run, (int)run->sizes[i], &plan);
      run->rows[count++] = (lac_plan_row){.plan = plan, .source = "plain"};
    }
  }
  return lac_plan_draw(run->session, run->options->plot, run->options->costs ? "in the unit of --costs" : "seconds",
                       run->rows, count);
}

static lac_status report(plan_run *run) {
  if (run->options->plot) {
    CLI_TRY(draw(run));
  }
  print_basis(run);
  CLI_TRY(say_what_is_not_counted(run));
  lac_plan_print_table(run->session, run->rows, run->count);
  lac_plan_print_links(run->session, run->rows, run->count);
  print_plain_best(run);
  CLI_TRY(print_advice(run));
  lac_plan_print_done(run->session, run->rows, run->count);
  return LAC_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

/* Each worker of a rehearsal has a copy of all submodels; kinds alternate. */
static lac_status check_memory(const plan_run *run) {
  int workers = (int)run->sizes[run->size_count - 1];
  double bytes = (double)run->job.submodels * (run->job.bytes[0] + run->job.bytes[1]) / 2;
  if (run->options->rehearse && !lac_world_smpi()) {
    CLI_TRY(lac_rehearsal_check(run->session, workers, bytes));
  }
  return run->options->simulate ? lac_simulation_check(run->session, workers, bytes) : LAC_OK;
}

static lac_status plan_all(plan_run *run) {
  lac_session *session = run->session;
  void *rows;
  const int most = SOURCES * run->size_count;
  CLI_TRY(lac_session_allocate(session, most, sizeof *run->rows, &rows));
  run->rows = rows;
  CLI_TRY(check_memory(run));
  for (int i = 0; i < run->size_count; i++) {
    lac_status status = plan_size(run, (int)run->sizes[i]);
    if (status) { /* with the sizes before, which may have taken long */
      if (i > 0 && !session->silent) {
        lac_plan_print_table(session, run->rows, run->count);
      }
      return status;
    }
  }
  return session->silent ? LAC_OK : report(run);
}

static lac_status run_plan_hash(lac_session *session, const void *argument, char *const *operands, int count) {
  (void)operands;
  (void)count;
  plan_run run = {.session = session, .options = argument, .alone = NAN};
  lac_status status = read_options(&run);
  if (!status) {
    status =
        lac_plan_check_ranks(session, "plan hash",
                             run.options->rehearse && !run.options->simulate && run.size_count == 1, (int)run.sizes[0]);
  }
  if (!status) {
    status = plan_all(&run);
  }
  for (int i = 0; run.rows && i < SOURCES * run.size_count; i++) {
    free(run.rows[i].links);
  }
  free(run.rows);
  free(run.shares);
  lac_plan_cluster_close(&run.where);
  return status;
}

static const lac_option_group plan_groups[] = {
    {.title = "Options", .own = plan_option_table},
    {.title = "Options of the method", .table = lac_hash_option_table, .offset = offsetof(plan_options, hash)},
    {0},
};

const lac_command lac_command_plan_hash = {
    .name = "plan hash",
    .operands = "",
    .least = 0,
    .most = 0,
    .summary = "how long hash train takes on a cluster, and how many workers pay",
    .description =
        "Foretells hash train on a cluster that is described by --network or a platform file: for each number of "
        "workers speedup, seconds (W and Z steps, what is serial, communication, waiting), messages, bytes and memory, "
        "by the formulas of docs/planning.md; and up to which number more workers pay.\n\n"
        "--rehearse runs the engine itself with nothing to compute, on this program's simulated clock; --simulate runs "
        "the program under SimGrid's SMPI, rank by rank. What the processor takes comes from plan calibrate.\n\n"
        "With --json, a line for each size and source: workers, speedup, efficiency, seconds (w, z, serial, "
        "communication, waiting, total), messages, bytes, link_bytes (the busiest worker's), memory_per_worker, source "
        "(formula, sim, smpi, real), seconds_per_iteration, plain_speedup, basis, with --links also links ([{messages, "
        "bytes}, …], what leaves each worker); and done: best_workers, best_speedup.",
    .example =
        "laconic plan hash --points 1e8 --dims 128 --bits 64 --epochs 2 --workers 1:1024:x2 --network 10Gbit,25us\n"
        "laconic plan hash --points 1e6 --network 1Gbit,50us --calibration here.json --simulate --plot speedup.svg\n"
        "laconic plan hash --costs 1,40,1e4 --points 1e6 --bits 16 --workers 1:128:x2",
    .groups = plan_groups,
    .options_size = sizeof(plan_options),
    .on_ranks = true,
    .run = run_plan_hash,
};
