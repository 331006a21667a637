#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/codes.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/progress.h"

typedef struct eval_options {
  lac_common_options common;
  char *base, *query, *truth, *save_truth, *ks, *recalls, *plot, *format, *query_format;
  int64_t base_rows, query_rows, threads;
} eval_options;

static const lac_option eval_option_table[] = {
    LAC_TEXT_OPTION(eval_options, base, "base", "BASE", "the vectors that are searched"),
    LAC_TEXT_OPTION(eval_options, query, "query", "QUERY", "the vectors that are searched for"),
    LAC_TEXT_OPTION(eval_options, truth, "truth", "FILE",
                    "the true neighbours of the queries, nearest first, as row numbers of BASE (ivecs, npy or "
                    "FILE.h5:neighbors); computed exactly when not given"),
    LAC_TEXT_OPTION(eval_options, save_truth, "save-truth", "FILE",
                    "where the computed neighbours go, for --truth next time: .ivecs or .npy"),
    {.key = "k",
     .letter = 'k',
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(eval_options, ks),
     .unit = "LIST",
     .fallback = "50,100,1000",
     .help = "numbers of neighbours to give the precision of"},
    {.key = "recall",
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(eval_options, recalls),
     .unit = "LIST",
     .fallback = "1,10,100,1000,10000",
     .help = "numbers of candidates to give the recall of the nearest neighbour of"},
    LAC_TEXT_OPTION(eval_options, plot, "plot", "FILE",
                    "draw precision and recall curves of all models: .svg or .png; needs gnuplot"),
    LAC_ROWS_OPTION(eval_options, base_rows, "base-rows", "BASE"),
    LAC_ROWS_OPTION(eval_options, query_rows, "query-rows", "QUERY"),
    LAC_FORMAT_OPTION(eval_options, format, "format", "BASE"),
    LAC_FORMAT_OPTION(eval_options, query_format, "query-format", "QUERY"),
    LAC_THREADS_OPTION(eval_options, threads),
    LAC_OPTIONS_END,
};

enum { LIST_LIMIT = 32, CURVE_LIMIT = 32, MEASURE_LIMIT = LIST_LIMIT + CURVE_LIMIT };

/* Sizes at which something is measured: those asked for first, then those of a curve. */
typedef struct size_list {
  int64_t sizes[MEASURE_LIMIT];
  int asked, all;
} size_list;

/* One model and what came out. */
typedef struct evaluated {
  const char *path;
  lac_hash *model;
  double precision[MEASURE_LIMIT], recall[MEASURE_LIMIT];
  double e_base, e_query; /* over the variance of the base */
} evaluated;

typedef struct evaluation {
  lac_session *session;
  const eval_options *options;
  int64_t threads;
  size_list ks, recalls;
  evaluated *models; /* (count) */
  int count;
  lac_dataset *base, *query;
  int32_t *truth; /* (queries, depth) */
  int64_t depth;
  double variance;
} evaluation;

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

/* That what is written is none of the files that are read. */
static lac_status check_apart(const evaluation *work, char *const *models) {
  const eval_options *options = work->options;
  for (int i = 0; i < work->count; i++) {
    const lac_file_use files[] = {{"--save-truth", options->save_truth, true},
                                  {"--plot", options->plot, true},
                                  {"MODEL", models[i], false},
                                  {"--base", options->base, false},
                                  {"--query", options->query, false},
                                  {"--truth", options->truth, false}};
    CLI_TRY(lac_check_apart(work->session, files, 6));
  }
  return LAC_OK;
}

static lac_status check_options(evaluation *work) {
  lac_session *session = work->session;
  const eval_options *options = work->options;
  if (!options->base || !options->query) {
    return lac_fail(session->context, LAC_E_USAGE, "hash eval: option --%s is missing",
                    options->base ? "query" : "base");
  }
  CLI_TRY(lac_parse_list(session, "k", options->ks, LIST_LIMIT, work->ks.sizes, &work->ks.asked));
  CLI_TRY(lac_parse_list(session, "recall", options->recalls, LIST_LIMIT, work->recalls.sizes, &work->recalls.asked));
  work->ks.all = work->ks.asked;
  work->recalls.all = work->recalls.asked;
  if (options->save_truth) {
    if (options->truth) {
      return lac_fail(session->context, LAC_E_USAGE, "hash eval: --truth and --save-truth exclude each other");
    }
    CLI_TRY(lac_array_check(session->context, options->save_truth, LAC_I32));
  }
  return options->plot ? lac_plot_check(session, options->plot) : LAC_OK;
}

static lac_status open_inputs(evaluation *work, char *const *paths) {
  lac_session *session = work->session;
  const eval_options *options = work->options;
  for (int i = 0; i < work->count; i++) {
    work->models[i].path = paths[i];
    CLI_TRY(lac_hash_load(session->context, paths[i], &work->models[i].model));
  }
  CLI_TRY(lac_open_rows(session, options->base, options->format, options->base_rows, &work->base));
  CLI_TRY(lac_open_rows(session, options->query, options->query_format, options->query_rows, &work->query));
  for (int i = 0; i < work->count; i++) {
    CLI_TRY(lac_check_columns(session, paths[i], work->models[i].model, work->base));
    CLI_TRY(lac_check_columns(session, paths[i], work->models[i].model, work->query));
  }
  if (lac_dataset_rows(work->base) > INT32_MAX) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: found %" PRId64 " rows, expected at most %d", options->base,
                    lac_dataset_rows(work->base), INT32_MAX);
  }
  return LAC_OK;
}

/* ---- truth ------------------------------------------------------------------------------------------------------ */

static lac_status allocate_truth(evaluation *work) {
  void *truth;
  int64_t count;
  if (__builtin_mul_overflow(lac_dataset_rows(work->query), work->depth, &count)) {
    count = -1;
  }
  CLI_TRY(lac_session_allocate(work->session, count, sizeof(int32_t), &truth));
  work->truth = truth;
  return LAC_OK;
}

static lac_status check_truth(const evaluation *work) {
  int64_t rows = lac_dataset_rows(work->base), count = lac_dataset_rows(work->query) * work->depth;
  for (int64_t i = 0; i < count; i++) {
    if (work->truth[i] < 0 || work->truth[i] >= rows) {
      return lac_fail(work->session->context, LAC_E_INPUT,
                      "%s: row %" PRId64 ", column %" PRId64 ": found %d, expected a row of %s, 0 to %" PRId64,
                      work->options->truth, i / work->depth, i % work->depth, work->truth[i], work->options->base,
                      rows - 1);
    }
  }
  return LAC_OK;
}

static lac_status read_truth(evaluation *work) {
  lac_context *context = work->session->context;
  lac_dataset *file;
  CLI_TRY(lac_open_rows(work->session, work->options->truth, NULL, work->options->query_rows, &file));
  work->depth = lac_dataset_columns(file);
  int64_t rows = lac_dataset_rows(file), queries = lac_dataset_rows(work->query);
  lac_status status;
  if (rows != queries) {
    status =
        lac_fail(context, LAC_E_INPUT, "%s: found %" PRId64 " rows, expected %" PRId64 " as there are queries in %s",
                 work->options->truth, rows, queries, work->options->query);
  } else {
    status = allocate_truth(work);
  }
  if (!status) {
    status = lac_dataset_read_i32(context, file, 0, rows, work->truth);
  }
  if (!status) {
    status = check_truth(work);
  }
  lac_dataset_destroy(&file);
  return status;
}

static lac_status compute_truth(evaluation *work) {
  lac_context *context = work->session->context;
  int64_t rows = lac_dataset_rows(work->base);
  work->depth = 1;
  for (int i = 0; i < work->ks.asked; i++) {
    int64_t k = work->ks.sizes[i];
    work->depth = k <= rows && k > work->depth ? k : work->depth;
  }
  CLI_TRY(allocate_truth(work));
  lac_progress_meter meter = lac_progress_meter_begin(work->session, "finding the true neighbours");
  CLI_TRY(lac_exact_neighbors(context, work->base, work->query, work->depth, work->threads, lac_progress_meter_update,
                              &meter, work->truth));
  lac_progress_clear(work->session);
  if (!work->options->save_truth) {
    return LAC_OK;
  }
  return lac_array_write(context, work->options->save_truth, LAC_I32, work->truth, lac_dataset_rows(work->query),
                         work->depth);
}

/* A precision that cannot be had is null; say why when it is not the base that is too small. */
static void warn_of_depth(const evaluation *work) {
  for (int i = 0; i < work->ks.asked; i++) {
    int64_t k = work->ks.sizes[i];
    if (k > work->depth && k <= lac_dataset_rows(work->base) && !work->session->quiet) {
      lac_say(work->session,
              "warning: %s: has %" PRId64 " neighbours of each query, too few for the precision at %" PRId64,
              work->options->truth, work->depth, k);
    }
  }
}

/* ---- measures --------------------------------------------------------------------------------------------------- */

/* Sizes for a curve from 1 to `most`, evenly spaced on a logarithmic axis. */
static void add_curve(size_list *list, int64_t most) {
  int64_t last = 0;
  for (int i = 0; i < CURVE_LIMIT; i++) {
    int64_t size = llround(exp(log((double)most) * i / (CURVE_LIMIT - 1)));
    if (size > last) {
      list->sizes[list->all++] = size;
      last = size;
    }
  }
}

static lac_status measure_error(evaluation *work, const lac_hash *model, const lac_dataset *dataset,
                                const lac_codes *codes, double *relative) {
  CLI_TRY(lac_hash_error(work->session->context, model, dataset, codes->codes, work->threads, relative));
  *relative /= work->variance; /* not finite when all points are equal: shown as null */
  return LAC_OK;
}

static lac_status measure_codes(evaluation *work, evaluated *result, const lac_codes *base, const lac_codes *query) {
  lac_progress_show(work->session, "measuring %s", result->path);
  CLI_TRY(lac_retrieval_measure(work->session->context, base->codes, base->rows, query->codes, query->rows,
                                lac_hash_bits(result->model), work->truth, work->depth, work->ks.sizes, work->ks.all,
                                work->recalls.sizes, work->recalls.all, work->threads, result->precision,
                                result->recall));
  CLI_TRY(measure_error(work, result->model, work->base, base, &result->e_base));
  return measure_error(work, result->model, work->query, query, &result->e_query);
}

static lac_status measure_model(evaluation *work, evaluated *result) {
  lac_codes base, query = {0};
  CLI_TRY(lac_codes_encode(work->session, result->model, work->base, work->threads, "encoding the base", &base));
  lac_status status =
      lac_codes_encode(work->session, result->model, work->query, work->threads, "encoding the queries", &query);
  if (!status) {
    status = measure_codes(work, result, &base, &query);
  }
  lac_codes_clear(&query);
  lac_codes_clear(&base);
  lac_progress_clear(work->session);
  return status;
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

static json_t *json_measures(const size_list *list, const double *values) {
  json_t *object = json_object();
  for (int i = 0; i < list->asked; i++) {
    char size[32];
    snprintf(size, sizeof size, "%" PRId64, list->sizes[i]);
    json_object_set_new(object, size, lac_json_real(values[i]));
  }
  return object;
}

static void print_model_json(const evaluation *work, const evaluated *result) {
  lac_print_json(work->session,
                 json_pack("{s:o, s:I, s:I, s:I, s:o, s:o, s:{s:o, s:o}}", "model", lac_json_text(result->path), "bits",
                           lac_hash_bits(result->model), "base", lac_dataset_rows(work->base), "queries",
                           lac_dataset_rows(work->query), "precision", json_measures(&work->ks, result->precision),
                           "recall", json_measures(&work->recalls, result->recall), "e_ba", "base",
                           lac_json_real(result->e_base), "query", lac_json_real(result->e_query)));
}

enum { CELL_WIDTH = 9 };

static int name_width(const evaluation *work) {
  int width = 5;
  for (int i = 0; i < work->count; i++) {
    int length = (int)strlen(work->models[i].path);
    width = length > width ? length : width;
  }
  return width;
}

static void print_heads(const evaluation *work) {
  lac_print(work->session,
            "%" PRId64 " base vectors, %" PRId64
            " queries; precision and recall in percent, E_BA over the variance of the base\n",
            lac_dataset_rows(work->base), lac_dataset_rows(work->query));
  lac_print(work->session, "%-*s %5s", name_width(work), "model", "bits");
  char head[32];
  for (int i = 0; i < work->ks.asked; i++) {
    snprintf(head, sizeof head, "p@%" PRId64, work->ks.sizes[i]);
    lac_print(work->session, " %*s", CELL_WIDTH, head);
  }
  for (int i = 0; i < work->recalls.asked; i++) {
    snprintf(head, sizeof head, "r@%" PRId64, work->recalls.sizes[i]);
    lac_print(work->session, " %*s", CELL_WIDTH, head);
  }
  lac_print(work->session, " %*s %*s\n", CELL_WIDTH, "E base", CELL_WIDTH, "E query");
}

static void print_cell(lac_session *session, double value, double factor, int digits) {
  if (isfinite(value)) {
    lac_print(session, " %*.*f", CELL_WIDTH, digits, factor * value);
  } else {
    lac_print(session, " %*s", CELL_WIDTH, "-");
  }
}

static void print_model(const evaluation *work, const evaluated *result) {
  lac_print(work->session, "%-*s %5" PRId64, name_width(work), result->path, lac_hash_bits(result->model));
  for (int i = 0; i < work->ks.asked; i++) {
    print_cell(work->session, result->precision[i], 100, 2);
  }
  for (int i = 0; i < work->recalls.asked; i++) {
    print_cell(work->session, result->recall[i], 100, 2);
  }
  print_cell(work->session, result->e_base, 1, 4);
  print_cell(work->session, result->e_query, 1, 4);
  lac_print(work->session, "\n");
}

/* Values of a curve in percent and their sizes as reals: both (count). */
static void fill_curve(const size_list *list, const double *values, double *x, double *y) {
  for (int i = list->asked; i < list->all; i++) {
    x[i - list->asked] = (double)list->sizes[i];
    y[i - list->asked] = 100 * values[i];
  }
}

typedef struct curve_memory {
  lac_curve precision, recall;
  double x[2][CURVE_LIMIT], y[2][CURVE_LIMIT];
} curve_memory;

static lac_status draw(evaluation *work) {
  void *memory, *curves;
  CLI_TRY(lac_session_allocate(work->session, work->count, sizeof(curve_memory), &memory));
  lac_status status = lac_session_allocate(work->session, 2 * (int64_t)work->count, sizeof(lac_curve), &curves);
  if (status) {
    free(memory);
    return status;
  }
  curve_memory *data = memory;
  lac_curve *precision = curves, *recall = precision + work->count;
  for (int i = 0; i < work->count; i++) {
    const evaluated *result = &work->models[i];
    fill_curve(&work->ks, result->precision, data[i].x[0], data[i].y[0]);
    fill_curve(&work->recalls, result->recall, data[i].x[1], data[i].y[1]);
    precision[i] = (lac_curve){result->path, data[i].x[0], data[i].y[0], work->ks.all - work->ks.asked};
    recall[i] = (lac_curve){result->path, data[i].x[1], data[i].y[1], work->recalls.all - work->recalls.asked};
  }
  lac_panel panels[] = {
      {"Precision", "neighbours k", "precision at k, percent", true, true, precision, work->count},
      {"Recall", "candidates R", "recall at R, percent", true, true, recall, work->count},
  };
  status = lac_plot_write(work->session, work->options->plot, panels, 2);
  free(curves);
  free(memory);
  return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static lac_status evaluate(evaluation *work, char *const *paths) {
  CLI_TRY(check_options(work));
  CLI_TRY(check_apart(work, paths));
  CLI_TRY(open_inputs(work, paths));
  CLI_TRY(lac_dataset_variance(work->session->context, work->base, work->threads, &work->variance));
  CLI_TRY(work->options->truth ? read_truth(work) : compute_truth(work));
  warn_of_depth(work);
  if (work->options->plot) {
    add_curve(&work->ks, work->depth < lac_dataset_rows(work->base) ? work->depth : lac_dataset_rows(work->base));
    add_curve(&work->recalls, lac_dataset_rows(work->base));
  }
  print_heads(work);
  for (int i = 0; i < work->count; i++) {
    CLI_TRY(measure_model(work, &work->models[i]));
    print_model(work, &work->models[i]);
    print_model_json(work, &work->models[i]);
  }
  return work->options->plot ? draw(work) : LAC_OK;
}

static lac_status run_eval(lac_session *session, const void *argument, char *const *operands, int count) {
  const eval_options *options = argument;
  evaluation work = {
      .session = session, .options = options, .threads = lac_threads_of(options->threads), .count = count};
  void *models;
  CLI_TRY(lac_session_allocate(session, count, sizeof(evaluated), &models));
  work.models = models;
  lac_status status = evaluate(&work, operands);
  for (int i = 0; i < count; i++) {
    lac_hash_destroy(&work.models[i].model);
  }
  free(work.models);
  free(work.truth);
  lac_dataset_destroy(&work.base);
  lac_dataset_destroy(&work.query);
  return status;
}

static const lac_option_group eval_groups[] = {{.title = "Options", .own = eval_option_table}, {0}};

const lac_command lac_command_hash_eval = {
    .name = "hash eval",
    .operands = "MODEL... --base BASE --query QUERY",
    .least = 1,
    .most = -1,
    .summary = "measure how good the codes of one or more models are",
    .description =
        "Measures how well the Hamming distances of a model's codes predict the Euclidean neighbours. Precision at k: "
        "the "
        "part of the k nearest by code that is among the k true neighbours. Recall at R: how often the true nearest "
        "neighbour is among the R nearest by code. Equal Hamming distances are averaged over their orders. E_BA: the "
        "mean squared error of the vector that the decoder makes of a code, over the total variance of BASE.\n\n"
        "With --json, a line per model: model, bits, base, queries, precision, recall and e_ba; null where k or R "
        "exceeds what there is.",
    .example = "laconic hash eval ba.safetensors itq.safetensors --base base.fvecs --query query.fvecs --plot eval.svg",
    .groups = eval_groups,
    .options_size = sizeof(eval_options),
    .run = run_eval,
};
