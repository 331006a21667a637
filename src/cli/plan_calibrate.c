#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/progress.h"

enum { LIST = 32, COLUMNS_LIMIT = 10000, CASE_SECONDS = 3600, NAME_BYTES = 128 };

typedef struct calibrate_options {
  lac_common_options common;
  char *output, *dims, *types, *bits, *models, *base;
  int64_t batch;
  int encoder, precision;
  bool add;
} calibrate_options;

static const char *const encoder_names[] = {"linear", "rbf", NULL};
static const char *const precision_names[] = {"f32", "bf16", NULL};
static const char default_bits[] = "16,32,64";

static const lac_option calibrate_option_table[] = {
    {.key = "output",
     .letter = 'o',
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(calibrate_options, output),
     .unit = "FILE",
     .help = "where the calibration goes, a JSON file"},
    {.key = "add",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(calibrate_options, add),
     .help = "keep what the file has already, of this machine and version; a case that is measured again is replaced"},
    {.key = "dims",
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(calibrate_options, dims),
     .fallback = "128",
     .unit = "LIST",
     .help = "columns of the vectors, or several with commas between them; none for no hash codes"},
    {.key = "type",
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(calibrate_options, types),
     .fallback = "u8",
     .unit = "LIST",
     .help = "types of the vectors' elements: some of u8, i8, i16, i32, i64, f16, f32, f64"},
    LAC_TEXT_OPTION(calibrate_options, base, "base", "FILE",
                    "vectors to measure hash codes with, in place of --dims and --type and of drawn points: what a Z "
                    "step takes depends on them"),
    LAC_TEXT_OPTION(calibrate_options, bits, "bits", "LIST",
                    "lengths of codes; when not given those of 16, 32 and 64 that the columns have room for"),
    {.key = "encoder",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(calibrate_options, encoder),
     .names = encoder_names,
     .fallback = "linear",
     .help = "encoder of the codes"},
    {.key = "models",
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(calibrate_options, models),
     .fallback = "lenet,resnet20",
     .unit = "LIST",
     .help = "built-in networks whose gradients are measured, on pictures as they usually see; none for none"},
    LAC_BATCH_OPTION(calibrate_options, batch),
    {.key = "precision",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(calibrate_options, precision),
     .names = precision_names,
     .fallback = "f32",
     .help = "numbers that networks compute with"},
    LAC_OPTIONS_END,
};

static const lac_option_group calibrate_groups[] = {{.title = "Options", .own = calibrate_option_table}, {0}};

/* What is measured: a kind of codes or a network. */
typedef struct calibrate_case {
  lac_hash_options hash;
  lac_hash_case which;
  lac_net *net; /* NULL: hash codes */
  char model[NAME_BYTES];
} calibrate_case;

typedef struct calibrate_run {
  lac_session *session;
  const calibrate_options *options;
  calibrate_case *cases;
  int64_t count;
  lac_dataset *base;            /* NULL: drawn points */
  lac_calibration *calibration; /* on worker 0 only */
} calibrate_run;

/* ---- what is asked for ------------------------------------------------------------------------------------------ */

static bool is_none(const char *list) {
  return strcmp(list, "none") == 0;
}

/* The next name of a list with commas; false at its end. */
static bool next_name(const char **list, char name[NAME_BYTES]) {
  if (!*list) {
    return false;
  }
  size_t length = strcspn(*list, ",");
  snprintf(name, NAME_BYTES, "%.*s", (int)(length < NAME_BYTES ? length : NAME_BYTES), *list);
  *list = (*list)[length] ? *list + length + 1 : NULL;
  return true;
}

static lac_status parse_types(const calibrate_run *run, lac_type types[LIST], int *count) {
  char name[NAME_BYTES];
  *count = 0;
  for (const char *list = run->options->types; next_name(&list, name);) {
    int type = LAC_U8;
    while (type <= LAC_I16 && strcmp(lac_type_name((lac_type)type), name) != 0) {
      type++;
    }
    if (type > LAC_I16 || *count == LIST) {
      return lac_fail(run->session->context, LAC_E_USAGE,
                      "--type: found '%.60s', expected some of u8, i8, i16, i32, i64, f16, f32, f64", name);
    }
    types[(*count)++] = (lac_type)type;
  }
  return LAC_OK;
}

/* Another case, all zero; NULL without memory. */
static calibrate_case *new_case(calibrate_run *run) {
  void *grown = realloc(run->cases, (size_t)(run->count + 1) * sizeof *run->cases);
  if (!grown) {
    return NULL;
  }
  run->cases = grown;
  return memset(&run->cases[run->count++], 0, sizeof *run->cases);
}

static lac_status fail_case(const calibrate_run *run) {
  return lac_fail(run->session->context, LAC_E_MEMORY, "cannot allocate a case");
}

static lac_status add_hash(calibrate_run *run, int64_t columns, lac_type type, int64_t bits) {
  lac_context *context = run->session->context;
  lac_hash_estimate estimate;
  calibrate_case *made = new_case(run);
  if (!made) {
    return fail_case(run);
  }
  CLI_TRY(lac_options_default(context, lac_hash_option_table(), &made->hash)); /* it owns no texts */
  made->hash.bits = bits;
  made->hash.encoder = run->options->encoder;
  made->which = (lac_hash_case){columns, type, bits, run->options->encoder};
  return lac_hash_train_estimate(context, &made->hash, 10000, columns, type, 1, &estimate);
}

static lac_status choose_hash(calibrate_run *run) {
  const calibrate_options *options = run->options;
  int64_t dims[LIST], bits[LIST];
  lac_type types[LIST];
  int dim_count, bit_count, type_count;
  if (options->base) {
    CLI_TRY(lac_open_rows(run->session, options->base, NULL, 0, &run->base));
    dims[0] = lac_dataset_columns(run->base);
    types[0] = lac_dataset_type(run->base);
    dim_count = type_count = 1;
  } else {
    CLI_TRY(lac_parse_list(run->session, "dims", options->dims, LIST, dims, &dim_count));
    CLI_TRY(parse_types(run, types, &type_count));
  }
  CLI_TRY(lac_parse_list(run->session, "bits", options->bits ? options->bits : default_bits, LIST, bits, &bit_count));
  for (int i = 0; i < dim_count; i++) {
    if (dims[i] > COLUMNS_LIMIT) {
      return lac_fail(run->session->context, LAC_E_USAGE, "--dims: found %" PRId64 ", expected 1 to %d", dims[i],
                      COLUMNS_LIMIT);
    }
    int64_t before = run->count;
    for (int64_t k = 0; k < (int64_t)type_count * bit_count; k++) {
      if (options->bits || bits[k % bit_count] <= dims[i]) {
        CLI_TRY(add_hash(run, dims[i], types[k / bit_count], bits[k % bit_count]));
      }
    }
    if (run->count == before) {
      return lac_fail(run->session->context, LAC_E_USAGE,
                      "--bits: found none of %s for %" PRId64 " columns, expected --bits of at most as many",
                      default_bits, dims[i]);
    }
  }
  return LAC_OK;
}

static lac_status add_model(calibrate_run *run, const char *name) {
  lac_context *context = run->session->context;
  lac_net_options options = {.precision = run->options->precision};
  calibrate_case *made = new_case(run);
  char *text;
  int64_t classes;
  if (!made) {
    return fail_case(run);
  }
  snprintf(made->model, sizeof made->model, "%s", name);
  CLI_TRY(lac_net_builtin(context, name, 1, &text));
  lac_image_shape shape = lac_net_builtin_input(name, &classes);
  lac_status status = lac_net_create(context, text, name, shape, classes, run->options->batch, &options, &made->net);
  free(text);
  return status;
}

static lac_status choose_cases(calibrate_run *run) {
  const calibrate_options *options = run->options;
  char name[NAME_BYTES];
  if (options->base || !is_none(options->dims)) {
    CLI_TRY(choose_hash(run));
  }
  for (const char *list = is_none(options->models) ? NULL : options->models; next_name(&list, name);) {
    CLI_TRY(add_model(run, name));
  }
  return LAC_OK;
}

/* ---- what is said ----------------------------------------------------------------------------------------------- */

static const char *time_text(double seconds, char text[32]) {
  static const char *const units[] = {"s", "ms", "us", "ns"};
  int unit = 0;
  while (unit < 3 && seconds < 1) {
    seconds *= 1e3;
    unit++;
  }
  snprintf(text, 32, "%.3g %s", seconds, units[unit]);
  return text;
}

static const char *case_text(const calibrate_case *each, char text[NAME_BYTES]) {
  const lac_hash_case *which = &each->which;
  if (each->net) {
    snprintf(text, NAME_BYTES, "%.80s, batch %" PRId64 ", %s", each->model, lac_net_batch(each->net),
             precision_names[lac_net_options_of(each->net).precision]);
  } else {
    snprintf(text, NAME_BYTES, "%" PRId64 " columns, %s, %" PRId64 " bits, %s", which->columns,
             lac_type_name(which->type), which->bits, encoder_names[which->encoder]);
  }
  return text;
}

static void print_hash_json(const calibrate_run *run, const lac_hash_case *which) {
  lac_hash_costs costs;
  lac_calibration_hash(run->calibration, which, &costs);
  json_t *submodels = json_array();
  for (int i = 0; i < costs.mac.kinds; i++) {
    json_array_append_new(submodels, lac_json_real(costs.mac.submodel[i]));
  }
  lac_print_json(
      run->session,
      json_pack("{s:s, s:I, s:s, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "event",
                "hash", "columns", (json_int_t)which->columns, "type", lac_type_name(which->type), "bits",
                (json_int_t)which->bits, "encoder", encoder_names[which->encoder], "begin",
                lac_json_real(costs.mac.begin), "visit", lac_json_real(costs.mac.visit), "submodels", submodels,
                "handling", lac_json_real(costs.mac.handling), "z", lac_json_real(costs.mac.z), "early_begin",
                lac_json_real(costs.mac.early_begin), "early_z", lac_json_real(costs.mac.early_z), "start_point",
                lac_json_real(costs.start_point), "start_fixed", lac_json_real(costs.start_fixed), "iteration_point",
                lac_json_real(costs.iteration_point), "iteration_fixed", lac_json_real(costs.iteration_fixed),
                "finish_point", lac_json_real(costs.finish_point), "finish_fixed", lac_json_real(costs.finish_fixed)));
}

static double gradient_seconds(const calibrate_run *run, const calibrate_case *each) {
  lac_basis basis;
  return lac_calibration_gradient(run->calibration, each->model, lac_net_batch(each->net),
                                  lac_net_options_of(each->net).precision, lac_net_flops(each->net), &basis);
}

static void print_gradient_json(const calibrate_run *run, const calibrate_case *each) {
  lac_print_json(
      run->session,
      json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:o, s:o}", "event", "gradient", "model", each->model, "batch",
                (json_int_t)lac_net_batch(each->net), "precision",
                precision_names[lac_net_options_of(each->net).precision], "backend", lac_net_backend_name(each->net),
                "parameters", (json_int_t)lac_net_parameters(each->net), "flops",
                lac_json_real(lac_net_flops(each->net)), "seconds", lac_json_real(gradient_seconds(run, each))));
}

static const char *link_name(const calibrate_run *run) {
  return run->session->ranks > 1 ? "mpi" : "local";
}

static void print_link_json(const calibrate_run *run) {
  double message, byte;
  if (lac_calibration_link(run->calibration, link_name(run), &message, &byte)) {
    lac_print_json(run->session, json_pack("{s:s, s:s, s:o, s:o}", "event", "link", "backend", link_name(run),
                                           "message", lac_json_real(message), "byte", lac_json_real(byte)));
  }
}

static void print_hash_row(const calibrate_run *run, const calibrate_case *each) {
  char name[NAME_BYTES], text[4][32];
  lac_hash_costs costs;
  lac_calibration_hash(run->calibration, &each->which, &costs);
  lac_print(run->session, "%-40s%12s%12s%12s%12s\n", case_text(each, name), time_text(costs.mac.submodel[0], text[0]),
            time_text(costs.mac.visit, text[1]), time_text(costs.mac.begin, text[2]), time_text(costs.mac.z, text[3]));
}

static void print_table(const calibrate_run *run) {
  char name[NAME_BYTES], text[2][32];
  double message, byte;
  if (run->count > 0 && !run->cases[0].net) {
    lac_print(run->session, "%-40s%12s%12s%12s%12s\n", "hash codes, seconds a point", "encoder", "visit", "before W",
              "Z");
  }
  for (int64_t i = 0; i < run->count; i++) {
    const calibrate_case *each = &run->cases[i];
    if (!each->net) {
      print_hash_row(run, each);
    }
  }
  for (int64_t i = 0; i < run->count; i++) {
    const calibrate_case *each = &run->cases[i];
    if (each->net) {
      double seconds = gradient_seconds(run, each);
      lac_print(run->session, "%-40s%12s a gradient, %.3g GFLOP/s\n", case_text(each, name),
                time_text(seconds, text[0]),
                3e-9 * (double)lac_net_batch(each->net) * lac_net_flops(each->net) / seconds);
    }
  }
  if (lac_calibration_link(run->calibration, link_name(run), &message, &byte)) {
    snprintf(name, sizeof name, "messages, %s", link_name(run));
    lac_print(run->session, "%-40s%12s each, %s a byte", name, time_text(message, text[0]), time_text(byte, text[1]));
    if (byte > 0) { /* plans are told of the network by that option alone */
      lac_print(run->session, "; as --network %.5gMB,%.4gus", 1e-6 / byte, 1e6 * message);
    }
    lac_print(run->session, "\n");
  }
}

/* ---- the work --------------------------------------------------------------------------------------------------- */

/* On worker 0: whether it can be written, and what there is already. */
static lac_status open_calibration(calibrate_run *run, lac_context *context) {
  const char *path = run->options->output;
  char reason[512];
  CLI_TRY(lac_output_check(context, path));
  if (!run->options->add || access(path, F_OK) != 0) {
    return lac_calibration_create(context, &run->calibration);
  }
  CLI_TRY(lac_calibration_load(context, path, &run->calibration));
  if (!lac_calibration_is_here(run->calibration, reason, sizeof reason)) {
    return lac_fail(context, LAC_E_INPUT, "%s: %s; expected a calibration of this machine: start another file", path,
                    reason);
  }
  return LAC_OK;
}

static lac_status measure_case(calibrate_run *run, lac_context *context, int64_t number) {
  calibrate_case *each = &run->cases[number];
  char text[NAME_BYTES];
  lac_progress_show(run->session, "case %" PRId64 " of %" PRId64 ": %s", number + 1, run->count, case_text(each, text));
  if (each->net) {
    CLI_TRY(lac_calibration_measure_gradient(context, run->calibration, each->model, each->net));
    print_gradient_json(run, each);
    return LAC_OK;
  }
  if (run->base) {
    CLI_TRY(lac_calibration_measure_base(context, run->calibration, run->base, &each->hash));
  } else {
    CLI_TRY(
        lac_calibration_measure_hash(context, run->calibration, each->which.columns, each->which.type, &each->hash));
  }
  print_hash_json(run, &each->which);
  return LAC_OK;
}

static lac_status measure_link(lac_world *world, void *argument) {
  const calibrate_run *run = argument;
  bool first = lac_world_rank(world) == 0;
  if (first) {
    lac_progress_show(run->session, "messages between two workers");
  }
  CLI_TRY(lac_calibration_measure_link(lac_world_context(world), world, first ? run->calibration : NULL));
  if (first) {
    print_link_json(run);
  }
  return LAC_OK;
}

/* In one process: a link between two threads, then the cases. */
static lac_status work_alone(calibrate_run *run) {
  lac_context *context = run->session->context;
  lac_world_options local = {.backend = "local", .workers = 2};
  CLI_TRY(open_calibration(run, context));
  CLI_TRY(lac_world_run(context, &local, measure_link, run));
  for (int64_t i = 0; i < run->count; i++) {
    CLI_TRY(measure_case(run, context, i));
  }
  return lac_calibration_save(context, run->calibration, run->options->output);
}

/* As a rank among several: first the link, then worker 0 measures the cases while the others wait for each. */
static lac_status work_on_rank(lac_world *world, void *argument) {
  calibrate_run *run = argument;
  lac_context *context = lac_world_context(world);
  bool first = lac_world_rank(world) == 0;
  CLI_TRY(lac_world_agree(world, first ? open_calibration(run, context) : LAC_OK));
  CLI_TRY(measure_link(world, run));
  for (int64_t i = 0; i < run->count; i++) {
    CLI_TRY(lac_world_agree(world, first ? measure_case(run, context, i) : LAC_OK));
  }
  return lac_world_agree(world, first ? lac_calibration_save(context, run->calibration, run->options->output) : LAC_OK);
}

static lac_status work(calibrate_run *run) {
  lac_world_options ranks = {.timeout_ms = (int64_t)1000 * CASE_SECONDS};
  CLI_TRY(choose_cases(run));
  CLI_TRY(run->session->ranks > 1 ? lac_world_run(run->session->context, &ranks, work_on_rank, run) : work_alone(run));
  if (!run->session->silent) {
    lac_progress_clear(run->session);
    print_table(run);
    lac_print_json(run->session, json_pack("{s:s, s:o, s:I}", "event", "done", "output",
                                           lac_json_text(run->options->output), "cases", (json_int_t)run->count));
  }
  return LAC_OK;
}

static lac_status run_calibrate(lac_session *session, const void *argument, char *const *operands, int count) {
  (void)operands;
  (void)count;
  calibrate_run run = {.session = session, .options = argument};
  CLI_TRY(lac_require_output(session, "plan calibrate", run.options->output));
  const lac_file_use files[] = {{"-o", run.options->output, true}, {"--base", run.options->base, false}};
  CLI_TRY(lac_check_apart(session, files, 2));
  lac_status status = work(&run);
  for (int64_t i = 0; i < run.count; i++) {
    lac_net_destroy(&run.cases[i].net);
  }
  free(run.cases);
  lac_dataset_destroy(&run.base);
  lac_calibration_destroy(&run.calibration);
  return status;
}

const lac_command lac_command_plan_calibrate = {
    .name = "plan calibrate",
    .operands = "-o FILE",
    .least = 0,
    .most = 0,
    .summary = "measure what work takes on this machine, for predictions",
    .description =
        "Measures on one core what training takes, and writes it into a file that the other commands of plan read: for "
        "hash codes the time of a submodel and a point in the W step and of a point in the Z step, for networks the "
        "time of a gradient, and what a message and a byte take between two workers. A case of 128 columns and 64 bits "
        "takes some ten seconds; the points and pictures are drawn, no data are needed, but with --base the points are "
        "yours, as what a Z step takes depends on them. Cases that are not in the file "
        "are later scaled from the nearest one, so that measuring what you will run pays.\n\n"
        "Messages are those between two threads; started by mpiexec as two ranks or more, on one machine or several, "
        "those between ranks 0 and 1 over MPI. Processor time is counted and not elapsed time, but a machine that does "
        "nothing else gives better figures.\n\n"
        "The file is replaced, or with --add filled up, when everything has been measured. With --json, a line for "
        "each case: event (hash, gradient or link) with what identifies the case and its seconds, then event done.",
    .example =
        "laconic plan calibrate -o here.json\n"
        "laconic plan calibrate -o here.json --base base.bvecs --bits 64\n"
        "laconic plan calibrate -o here.json --add --dims 784,960 --bits 64 --models none\n"
        "mpiexec -n 2 laconic plan calibrate -o here.json --add --dims none --models none",
    .groups = calibrate_groups,
    .options_size = sizeof(calibrate_options),
    .on_ranks = true,
    .run = run_calibrate,
};
