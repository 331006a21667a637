#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/hash_train_data.h"
#include "cli/hash_train_report.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/progress.h"

typedef struct train_options {
  lac_common_options common;
  lac_hash_options hash;
  char *output, *shares, *plot, *format, *calibration;
  int64_t workers, base_rows, timeout;
  bool serial, dry_run;
} train_options;

static const lac_option train_option_table[] = {
    {.key = "output",
     .letter = 'o',
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(train_options, output),
     .unit = "FILE",
     .help = "where the model goes, a safetensors file"},
    {.key = "workers",
     .type = LAC_OPTION_INT,
     .offset = offsetof(train_options, workers),
     .low = 1,
     .high = 4096,
     .help = "workers on the ring, each with a share of the points; when not given one per core, or per file that %r "
             "stands for, and under mpiexec always one per rank"},
    LAC_TEXT_OPTION(train_options, shares, "shares", "LIST",
                    "speeds of the workers, as 1,1,0.5, that their shares are proportional to; or the word measured: "
                    "each worker times a short training first; equal when not given"),
    {.key = "serial",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(train_options, serial),
     .help = "work through the shares of all workers in one, for the same model bit for bit"},
    LAC_ROWS_OPTION(train_options, base_rows, "base-rows", "BASE"),
    LAC_FORMAT_OPTION(train_options, format, "format", "BASE"),
    LAC_TEXT_OPTION(train_options, plot, "plot", "FILE", "draw the learning curves: .svg or .png; needs gnuplot"),
    {.key = "timeout",
     .type = LAC_OPTION_INT,
     .offset = offsetof(train_options, timeout),
     .low = 1,
     .high = 1e6,
     .fallback = "600",
     .unit = "seconds",
     .help = "longest silence of another worker that is borne"},
    LAC_TEXT_OPTION(train_options, calibration, "calibration", "FILE",
                    "under a simulator of clusters only: what the steps take on its clock, as plan calibrate measured"),
    {.key = "dry-run",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(train_options, dry_run),
     .help = "print the resolved options and the sizes of data, messages and memory, and do nothing"},
    LAC_OPTIONS_END,
};

/* What worker 0 leaves behind. The others are given NULL in its place, so that none of them can write here. */
typedef struct train_outcome {
  lac_train_report report;
  lac_hash_result result;
  bool saved; /* after an interrupt: there was a model to save */
} train_outcome;

/* A run from the command line to the model. The workers of this process share it, and only read it. */
typedef struct training {
  lac_session *session;
  const train_options *options;
  const char *base_path;
  lac_world_options world;
  int workers; /* P */
  lac_train_base base;
  lac_status prepared; /* of what each process does before the workers start; the message is the session's */
  train_outcome outcome;
} training;

/* ---- before the workers start ----------------------------------------------------------------------------------- */

static lac_status check_options(const training *run) {
  const train_options *options = run->options;
  if (options->serial && run->session->ranks > 1) {
    return lac_fail(run->session->context, LAC_E_USAGE, "--serial: found %d ranks, expected one process",
                    run->session->ranks);
  }
  if (options->serial && options->shares && strcmp(options->shares, "measured") == 0) {
    return lac_fail(run->session->context, LAC_E_USAGE,
                    "--shares: found 'measured', expected numbers: --serial has no workers to time");
  }
  if (options->calibration && !lac_world_smpi()) {
    return lac_fail(run->session->context, LAC_E_USAGE,
                    "--calibration: found on a clock that runs by itself, expected a run under SMPI");
  }
  if (!options->dry_run) {
    CLI_TRY(lac_require_output(run->session, "hash train", options->output));
  }
  return LAC_OK;
}

/* Only the process that writes has to be able to. */
static lac_status check_outputs(const training *run) {
  const train_options *options = run->options;
  if (run->session->silent || options->dry_run) {
    return LAC_OK;
  }
  CLI_TRY(lac_output_check(run->session->context, options->output));
  if (options->plot) {
    CLI_TRY(lac_plot_check(run->session, options->plot));
  }
  return lac_base_check_apart(run->session, run->base_path, options->output, options->plot);
}

static lac_status open_base(training *run) {
  run->base.path = run->base_path;
  run->base.format = run->options->format;
  run->base.rows = run->options->base_rows;
  if (lac_base_has_rank(run->base_path)) {
    return LAC_OK;
  }
  return lac_open_rows(run->session, run->base_path, run->options->format, run->options->base_rows, &run->base.whole);
}

/* Without --workers and a launcher: a worker per file, or per core unless there are fewer points. */
static int64_t default_workers(const training *run) {
  int64_t cores = lac_world_cores();
  if (!run->base.whole) {
    int64_t files = lac_base_count_files(run->base_path);
    return files > 0 ? files : cores;
  }
  int64_t rows = lac_dataset_rows(run->base.whole);
  return cores < rows ? cores : rows;
}

static lac_status resolve_workers(training *run) {
  run->world = (lac_world_options){.workers = run->options->workers, .timeout_ms = 1000 * run->options->timeout};
  if (!run->options->workers && !lac_world_launched()) {
    run->world.workers = default_workers(run);
  }
  if (run->options->serial) {
    run->world.backend = "local";
    run->world.workers = run->world.workers ? run->world.workers : default_workers(run);
  }
  CLI_TRY(lac_world_size_of(run->session->context, &run->world, &run->workers));
  /* Here rather than among the workers, each of which would tell all others. */
  if (run->base.whole && run->session->ranks == 1 && run->workers > lac_dataset_rows(run->base.whole)) {
    return lac_fail(run->session->context, LAC_E_USAGE,
                    "--workers: found %d, expected at most the %" PRId64 " points of %s", run->workers,
                    lac_dataset_rows(run->base.whole), run->base_path);
  }
  return LAC_OK;
}

/* Threads take turns then, and those that wait for each other take most of the time. */
static void warn_of_many_workers(const training *run) {
  int64_t cores = lac_world_cores();
  if (!run->options->serial && !lac_world_launched() && run->workers > 16 * cores && !run->session->quiet) {
    lac_say(run->session, "warning: %d workers on %" PRId64 " core%s; --serial gives the same model sooner",
            run->workers, cores, cores == 1 ? "" : "s");
  }
}

static void warn_of_unused_file(const training *run) {
  int64_t files = lac_base_has_rank(run->base_path) ? lac_base_count_files(run->base_path) : 0;
  if (files > run->workers && !run->session->quiet) {
    lac_say(run->session, "warning: %s: found %" PRId64 " files, of which the %d workers use the first", run->base_path,
            files, run->workers);
  }
}

/* ---- what is said of it ----------------------------------------------------------------------------------------- */

static json_t *json_numbers(const int64_t *values, int count) {
  json_t *array = json_array();
  for (int i = 0; i < count; i++) {
    json_array_append_new(array, json_integer(values[i]));
  }
  return array;
}

static int64_t most_points(const lac_train_shards *shards, int workers) {
  int64_t most = 0;
  for (int i = 0; i < workers; i++) {
    most = shards->points[i] > most ? shards->points[i] : most;
  }
  return most;
}

static int64_t all_points(const lac_train_shards *shards, int workers) {
  int64_t sum = 0;
  for (int i = 0; i < workers; i++) {
    sum += shards->points[i];
  }
  return sum;
}

/* The method's options with nothing left open. It owns no texts: the table has none. */
static lac_hash_options resolved_options(const training *run, const lac_train_shards *shards) {
  lac_hash_options options = run->options->hash;
  lac_hash_options_resolve(&options, all_points(shards, run->workers), lac_dataset_columns(shards->shards[0]),
                           run->workers);
  return options;
}

static void print_options(lac_session *session, lac_context *context, const lac_hash_options *options) {
  for (const lac_option *option = lac_hash_option_table(); option->key; option++) {
    char *text;
    if (lac_options_get(context, option, options, &text) == LAC_OK) {
      lac_print(session, "  --%s %s\n", option->key, text ? text : "");
      free(text);
    }
  }
}

static void print_shares(lac_session *session, const lac_train_shards *shards, int workers) {
  lac_print(session, "shares      ");
  for (int i = 0; i < workers; i++) {
    lac_print(session, " %" PRId64, shards->points[i]);
  }
  lac_print(session, "\n");
}

static void print_plan(const training *run, lac_context *context, const lac_train_shards *shards,
                       const lac_hash_estimate *estimate) {
  lac_session *session = run->session;
  char each[32], step[32], memory[32];
  lac_hash_options resolved = resolved_options(run, shards);
  lac_print(session, "options\n");
  print_options(session, context, &resolved);
  lac_print(session, "data         %s: %" PRId64 " rows, %" PRId64 " columns, %s\n", run->base_path,
            all_points(shards, run->workers), lac_dataset_columns(shards->shards[0]),
            lac_type_name(lac_dataset_type(shards->shards[0])));
  lac_print(session, "workers      %d%s\n", run->workers, run->options->serial ? ", one after the other" : "");
  print_shares(session, shards, run->workers);
  lac_print(session, "submodels    %" PRId64 " of %s\n", estimate->submodels,
            lac_bytes_text((double)estimate->submodel_bytes, each));
  lac_print(session, "W step       %" PRId64 " messages, %s; at most %" PRId64 " of them\n", estimate->messages,
            lac_bytes_text((double)estimate->bytes, step), run->options->hash.mac.iterations);
  lac_print(session, "memory       about %s for each worker, beyond the mapped data\n",
            lac_bytes_text((double)estimate->memory, memory));
}

static lac_status print_plan_json(const training *run, lac_context *context, const char *event,
                                  const lac_train_shards *shards, const lac_hash_estimate *estimate) {
  lac_hash_options resolved = resolved_options(run, shards);
  char *options;
  CLI_TRY(lac_options_json(context, lac_hash_option_table(), &resolved, &options));
  lac_print_json(
      run->session,
      json_pack("{s:s, s:o, s:o, s:i, s:b, s:o, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I}", "event", event, "base",
                lac_json_text(run->base_path), "options", lac_json_nested(options), "workers", run->workers, "serial",
                run->options->serial, "shares", json_numbers(shards->points, run->workers), "rows",
                all_points(shards, run->workers), "columns", lac_dataset_columns(shards->shards[0]), "type",
                lac_type_name(lac_dataset_type(shards->shards[0])), "submodels", estimate->submodels, "submodel_bytes",
                estimate->submodel_bytes, "messages", estimate->messages, "bytes", estimate->bytes, "memory",
                estimate->memory));
  free(options);
  return LAC_OK;
}

/* On worker 0. The sizes of a run that is about to begin, or with --dry-run is not. */
static lac_status announce(const training *run, lac_context *context, const lac_train_shards *shards) {
  lac_hash_estimate estimate;
  const lac_dataset *shard = shards->shards[0];
  CLI_TRY(lac_hash_train_estimate(context, &run->options->hash, most_points(shards, run->workers),
                                  lac_dataset_columns(shard), lac_dataset_type(shard), run->workers, &estimate));
  if (run->options->dry_run) {
    print_plan(run, context, shards, &estimate);
  }
  return print_plan_json(run, context, run->options->dry_run ? "plan" : "start", shards, &estimate);
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

static lac_status set_meta_json(lac_context *context, lac_hash *model, const char *key, json_t *value) {
  char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  json_decref(value);
  lac_status status = text ? lac_hash_set_meta(context, model, key, text)
                           : lac_fail(context, LAC_E_MEMORY, "cannot allocate the metadata '%s'", key);
  free(text);
  return status;
}

static json_t *json_prints(const int64_t *prints, int count) {
  json_t *array = json_array();
  for (int i = 0; i < count; i++) {
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, (uint64_t)prints[i]);
    json_array_append_new(array, json_string(text));
  }
  return array;
}

/* What only the command line knows of where the model comes from. */
static lac_status describe_origin(const training *run, lac_context *context, const lac_train_shards *shards,
                                  const int64_t *prints, lac_hash *model) {
  lac_hash_options resolved = resolved_options(run, shards);
  char *options;
  CLI_TRY(lac_options_json(context, lac_hash_option_table(), &resolved, &options));
  lac_status status = lac_hash_set_meta(context, model, "options", options);
  free(options);
  if (status) {
    return status;
  }
  const char *slash = strrchr(run->base_path, '/');
  json_t *name = lac_json_text(slash ? slash + 1 : run->base_path);
  status = name ? lac_hash_set_meta(context, model, "data", json_string_value(name))
                : lac_fail(context, LAC_E_MEMORY, "cannot allocate the name of the data");
  json_decref(name);
  if (status) {
    return status;
  }
  CLI_TRY(set_meta_json(context, model, "shares", json_numbers(shards->points, run->workers)));
  return set_meta_json(context, model, "fingerprints", json_prints(prints, run->workers));
}

/* Worker 0, the one with an outcome, writes; the others learn whether it could. After an interrupt the best model so
 * far is kept, and nobody waits for anybody. */
static lac_status save_model(const training *run, lac_context *context, const lac_team *team, lac_status trained,
                             const lac_hash *model, train_outcome *outcome) {
  lac_status status = outcome && model ? lac_hash_save(context, model, run->options->output) : LAC_OK;
  if (outcome) {
    outcome->saved = model && !status;
  }
  if (trained == LAC_E_INTERRUPTED) {
    return status ? status : lac_fail(context, trained, "interrupted");
  }
  return lac_team_agree(team, status);
}

static lac_status train_and_save(const training *run, lac_context *context, const lac_team *team,
                                 const lac_train_shards *shards, const int64_t *prints, train_outcome *outcome) {
  lac_hash *model;
  lac_hash_result result;
  lac_status trained =
      lac_hash_train(context, team, (const lac_dataset *const *)shards->shards, &run->options->hash,
                     outcome ? lac_train_report_update : NULL, outcome ? &outcome->report : NULL, &model, &result);
  lac_status status = trained == LAC_E_INTERRUPTED ? LAC_OK : trained;
  if (!status && outcome && model) {
    status = describe_origin(run, context, shards, prints, model);
  }
  if (!status) {
    status = save_model(run, context, team, trained, model, outcome);
  }
  if (outcome) {
    outcome->result = result;
  }
  lac_hash_destroy(&model);
  return status;
}

static lac_status work_on_shards(const training *run, lac_context *context, const lac_team *team,
                                 const lac_train_shards *shards, train_outcome *outcome) {
  lac_status status = outcome ? announce(run, context, shards) : LAC_OK;
  status = lac_team_agree(team, status);
  if (status || run->options->dry_run) {
    return status;
  }
  int64_t *prints = calloc((size_t)team->total, sizeof *prints);
  status = lac_team_agree(team, prints ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate the fingerprints"));
  if (!status) {
    status = lac_train_shards_fingerprint(context, team, shards, prints);
  }
  if (!status) {
    status = train_and_save(run, context, team, shards, prints, outcome);
  }
  free(prints);
  return status;
}

/* Under a simulator: what the steps take on its clock. */
static lac_status find_costs(const training *run, lac_context *context, const lac_dataset *shard,
                             lac_hash_costs *costs) {
  const lac_hash_options *hash = &run->options->hash;
  lac_calibration *calibration;
  CLI_TRY(lac_calibration_load(context, run->options->calibration, &calibration));
  lac_hash_case which = {lac_dataset_columns(shard), lac_dataset_type(shard), hash->bits, hash->encoder};
  lac_calibration_hash(calibration, &which, costs);
  lac_calibration_destroy(&calibration);
  return LAC_OK;
}

/* Each process has prepared on its own; a failure of one is everyone's. */
static lac_status work(const training *run, lac_context *context, const lac_team *team, train_outcome *outcome) {
  lac_status status = run->prepared;
  if (status) {
    char line[1024];
    snprintf(line, sizeof line, "%s", lac_context_message(run->session->context));
    status = lac_fail(context, status, "%s", line);
  }
  status = lac_team_agree(team, status);
  if (status) {
    return status;
  }
  lac_train_shards shards;
  lac_hash_costs costs;
  lac_team priced = *team;
  status = lac_train_shards_open(context, team, &run->base, &run->options->hash, &shards);
  if (status) {
    return status;
  }
  if (run->options->calibration) {
    status = find_costs(run, context, shards.shards[0], &costs);
    priced.costs = &costs.mac;
  }
  status = lac_team_agree(team, status);
  if (!status) {
    status = work_on_shards(run, context, &priced, &shards, outcome);
  }
  lac_train_shards_close(&shards);
  return status;
}

static lac_status worker_body(lac_world *world, void *argument) {
  lac_team team = {.world = world, .total = lac_world_size(world), .first = lac_world_rank(world), .count = 1};
  training *run = argument;
  return work(run, lac_world_context(world), &team, team.first == 0 ? &run->outcome : NULL);
}

static lac_status run_workers(training *run) {
  if (!run->options->serial) {
    return lac_world_run(run->session->context, &run->world, worker_body, run);
  }
  lac_team team = {.total = run->workers, .count = run->workers};
  return work(run, run->session->context, &team, &run->outcome);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static const char *method_name(const training *run) {
  return lac_options_find(lac_hash_option_table(), "method")->names[run->options->hash.method];
}

static void print_done(const training *run) {
  const lac_hash_result *result = &run->outcome.result;
  char bytes[32];
  lac_print_note(
      run->session,
      "%s: %s, %" PRId64 " bits, %d worker%s, %" PRId64
      " iteration%s, E_BA %.4f of the variance, %.3g s (start %.3g, W %.3g, Z %.3g), %" PRId64 " messages, %s\n",
      run->options->output, method_name(run), run->options->hash.bits, run->workers, run->workers == 1 ? "" : "s",
      result->iterations, result->iterations == 1 ? "" : "s", result->e_ba, result->total_seconds, result->init_seconds,
      result->w_seconds, result->z_seconds, result->messages, lac_bytes_text((double)result->bytes, bytes));
  lac_print_json(run->session,
                 json_pack("{s:s, s:s, s:I, s:i, s:I, s:o, s:{s:o, s:o, s:o, s:o}, s:I, s:I, s:I}", "event", "done",
                           "method", method_name(run), "bits", run->options->hash.bits, "workers", run->workers,
                           "iterations", result->iterations, "e_ba", lac_json_real(result->e_ba), "seconds", "init",
                           lac_json_real(result->init_seconds), "w", lac_json_real(result->w_seconds), "z",
                           lac_json_real(result->z_seconds), "total", lac_json_real(result->total_seconds), "messages",
                           result->messages, "bytes", result->bytes, "control_bytes", result->control_bytes));
}

static lac_status finish(training *run) {
  if (run->options->dry_run || run->session->silent) {
    return LAC_OK;
  }
  if (run->options->plot) {
    CLI_TRY(lac_train_report_plot(&run->outcome.report, run->options->plot));
  }
  print_done(run);
  return LAC_OK;
}

/* Whichever worker noticed first: what matters is whether there is a model. */
static lac_status report_interrupt(const training *run) {
  lac_print_json(run->session, json_pack("{s:s, s:b}", "event", "interrupted", "saved", run->outcome.saved));
  return lac_fail(run->session->context, LAC_E_INTERRUPTED, "interrupted%s%s",
                  run->outcome.saved ? "; the best model so far is in " : " before there was a model",
                  run->outcome.saved ? run->options->output : "");
}

/* Under a launcher the processes only meet among the workers: until then each keeps its failure to itself. */
static lac_status prepare(training *run) {
  run->prepared = check_outputs(run);
  if (!run->prepared) {
    run->prepared = open_base(run);
  }
  if (run->prepared && run->session->ranks == 1) {
    return run->prepared;
  }
  char line[1024];
  snprintf(line, sizeof line, "%s", lac_context_message(run->session->context));
  CLI_TRY(resolve_workers(run));
  CLI_TRY(lac_train_base_set_shares(run->session, &run->base, run->options->shares, run->workers));
  if (run->prepared) {
    run->prepared = lac_fail(run->session->context, run->prepared, "%s", line);
  }
  return LAC_OK;
}

static lac_status run_train(lac_session *session, const void *argument, char *const *operands, int count) {
  (void)count;
  training run = {.session = session, .options = argument, .base_path = operands[0]};
  CLI_TRY(check_options(&run));
  lac_status status = prepare(&run);
  if (!status) {
    warn_of_unused_file(&run);
    warn_of_many_workers(&run);
    status = lac_train_report_open(session, &run.options->hash.mac, &run.outcome.report);
  }
  if (!status) {
    status = run_workers(&run);
    lac_progress_clear(session);
  }
  if (status == LAC_E_INTERRUPTED) {
    status = report_interrupt(&run);
  } else if (!status) {
    status = finish(&run);
  }
  lac_train_report_close(&run.outcome.report);
  lac_train_base_close(&run.base);
  return status;
}

static const lac_option_group train_groups[] = {
    {.title = "Options", .own = train_option_table},
    {.title = "Options of the method", .table = lac_hash_option_table, .offset = offsetof(train_options, hash)},
    {0},
};

const lac_command lac_command_hash_train = {
    .name = "hash train",
    .operands = "BASE -o MODEL",
    .least = 1,
    .most = 1,
    .summary = "learn binary codes from vectors",
    .description =
        "Learns an encoder from vectors to binary codes, and a decoder back, on a ring of workers. The data of a "
        "worker "
        "stay where they are; only submodels travel. The same seed, workers and shares give the same model bit for "
        "bit, "
        "on threads of this machine, on the ranks of mpiexec and with --serial.\n\n"
        "BASE is one file, which is split into contiguous shares, or a name with %r in it that stands for the worker's "
        "number, from 0: then each worker opens only its own file.\n\n"
        "An interrupt (control-C, SIGTERM or SIGHUP) saves the best model so far.\n\n"
        "With --json, a line per event: start (with --dry-run: plan), the resolved options and the sizes; iteration, "
        "one after each; and done: method, bits, workers, iterations, e_ba (error over variance), seconds, messages "
        "and bytes of the submodels, control_bytes. Or interrupted: saved, whether there is a model.",
    .example =
        "laconic hash train base.bvecs -o model.safetensors --bits 64\n"
        "laconic hash train base.bvecs -o itq.safetensors --method itq --bits 32\n"
        "mpiexec -n 16 laconic hash train /data/part-%r.bvecs -o model.safetensors --bits 64",
    .groups = train_groups,
    .options_size = sizeof(train_options),
    .on_ranks = true,
    .run = run_train,
};
