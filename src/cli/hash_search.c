#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/codes.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/progress.h"

typedef enum base_kind { BASE_AUTO, BASE_VECTORS, BASE_CODES } base_kind;

static const char *const base_kind_names[] = {"auto", "vectors", "codes", NULL};

typedef struct search_options {
  lac_common_options common;
  char *base, *query, *output, *distances, *format, *query_format;
  int base_kind;
  int64_t k, threads;
} search_options;

static const lac_option search_option_table[] = {
    LAC_TEXT_OPTION(search_options, base, "base", "BASE", "what to search: vectors, or codes made by hash encode"),
    LAC_TEXT_OPTION(search_options, query, "query", "QUERY", "the vectors to search for"),
    {.key = "k",
     .letter = 'k',
     .type = LAC_OPTION_INT,
     .offset = offsetof(search_options, k),
     .low = 1,
     .high = INT32_MAX,
     .fallback = "100",
     .help = "how many neighbours of each query to find"},
    {.key = "output",
     .letter = 'o',
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(search_options, output),
     .unit = "FILE",
     .help = "where the row numbers of the neighbours go: .ivecs or .npy, a row per query"},
    LAC_TEXT_OPTION(search_options, distances, "distances", "FILE", "where their Hamming distances go: .ivecs or .npy"),
    {.key = "base-kind",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(search_options, base_kind),
     .names = base_kind_names,
     .fallback = "auto",
     .help = "what BASE holds; told from its type and columns unless it could be either"},
    LAC_FORMAT_OPTION(search_options, format, "format", "BASE"),
    LAC_FORMAT_OPTION(search_options, query_format, "query-format", "QUERY"),
    LAC_THREADS_OPTION(search_options, threads),
    LAC_OPTIONS_END,
};

/* What is searched, from the command line to the answer. */
typedef struct search {
  lac_session *session;
  const search_options *options;
  const char *model_path;
  lac_hash *model;
  lac_dataset *base_file, *query_file;
  lac_codes base, query;
  int32_t *ids, *distances; /* (queries, k) */
} search;

static lac_status fail_neither(const search *work) {
  char vectors[64] = "", codes[96] = "";
  int kind = work->options->base_kind;
  if (kind != BASE_CODES) {
    snprintf(vectors, sizeof vectors, "%" PRId64 " columns%s", lac_hash_columns(work->model),
             kind == BASE_AUTO ? " or " : "");
  }
  if (kind != BASE_VECTORS) {
    snprintf(codes, sizeof codes, "codes of %" PRId64 " bytes", lac_code_bytes(lac_hash_bits(work->model)));
  }
  return lac_fail(work->session->context, LAC_E_INPUT,
                  "%s: found %" PRId64 " columns of type %s, expected %s%s as of the model %s",
                  lac_dataset_path(work->base_file), lac_dataset_columns(work->base_file),
                  lac_type_name(lac_dataset_type(work->base_file)), vectors, codes, work->model_path);
}

/* Codes and vectors differ in their columns, or else the user has to say. */
static lac_status tell_base_kind(const search *work, bool *codes) {
  int kind = work->options->base_kind;
  bool may_be_codes = lac_codes_fit(work->base_file, lac_hash_bits(work->model));
  bool may_be_vectors = lac_dataset_columns(work->base_file) == lac_hash_columns(work->model);
  if (kind == BASE_AUTO && may_be_codes && may_be_vectors) {
    return lac_fail(work->session->context, LAC_E_USAGE,
                    "%s: could be vectors of %" PRId64 " columns or codes of %" PRId64
                    " bits, expected --base-kind to say which",
                    lac_dataset_path(work->base_file), lac_hash_columns(work->model), lac_hash_bits(work->model));
  }
  *codes = kind == BASE_CODES || (kind == BASE_AUTO && may_be_codes);
  return (*codes ? may_be_codes : may_be_vectors) ? LAC_OK : fail_neither(work);
}

static lac_status open_search(search *work) {
  lac_context *context = work->session->context;
  const search_options *options = work->options;
  CLI_TRY(lac_hash_load(context, work->model_path, &work->model));
  CLI_TRY(lac_dataset_open(context, options->base, options->format, &work->base_file));
  CLI_TRY(lac_dataset_open(context, options->query, options->query_format, &work->query_file));
  CLI_TRY(lac_check_columns(work->session, work->model_path, work->model, work->query_file));
  int64_t rows = lac_dataset_rows(work->base_file);
  if (options->k > rows) {
    return lac_fail(context, LAC_E_USAGE, "-k: found %" PRId64 ", expected at most the %" PRId64 " rows of %s",
                    options->k, rows, options->base);
  }
  if (rows > INT32_MAX) {
    return lac_fail(context, LAC_E_INPUT, "%s: found %" PRId64 " rows, expected at most %d", options->base, rows,
                    INT32_MAX);
  }
  return LAC_OK;
}

static lac_status make_codes(search *work) {
  bool codes = false;
  int64_t threads = lac_threads_of(work->options->threads);
  CLI_TRY(tell_base_kind(work, &codes));
  if (codes) {
    CLI_TRY(lac_codes_take(work->session, &work->base_file, lac_hash_bits(work->model), &work->base));
  } else {
    CLI_TRY(lac_codes_encode(work->session, work->model, work->base_file, threads, "encoding the base", &work->base));
  }
  return lac_codes_encode(work->session, work->model, work->query_file, threads, "encoding the queries", &work->query);
}

enum { BLOCK_QUERIES = 4096 };

static lac_status search_blocks(search *work) {
  int64_t bits = lac_hash_bits(work->model), width = lac_code_bytes(bits), k = work->options->k;
  int64_t queries = work->query.rows, threads = lac_threads_of(work->options->threads);
  lac_progress_meter meter = lac_progress_meter_begin(work->session, "searching");
  for (int64_t first = 0; first < queries; first += BLOCK_QUERIES) {
    int64_t count = queries - first < BLOCK_QUERIES ? queries - first : BLOCK_QUERIES;
    CLI_TRY(lac_hamming_search(work->session->context, work->base.codes, work->base.rows,
                               work->query.codes + first * width, count, bits, k, threads, work->ids + first * k,
                               work->distances + first * k));
    lac_progress_meter_update(&meter, (double)(first + count) / (double)queries);
  }
  return LAC_OK;
}

static lac_status write_answer(search *work, double seconds) {
  lac_session *session = work->session;
  const search_options *options = work->options;
  int64_t queries = work->query.rows;
  if (options->distances) {
    CLI_TRY(lac_array_write(session->context, options->distances, LAC_I32, work->distances, queries, options->k));
  }
  CLI_TRY(lac_array_write(session->context, options->output, LAC_I32, work->ids, queries, options->k));
  lac_print_note(session,
                 "%s: %" PRId64 " neighbours of %" PRId64 " queries among %" PRId64 " codes, %.3g s, %.3g queries/s\n",
                 options->output, options->k, queries, work->base.rows, seconds, (double)queries / seconds);
  lac_print_json(session, json_pack("{s:s, s:o, s:I, s:I, s:I, s:o}", "event", "done", "output",
                                    lac_json_text(options->output), "base", work->base.rows, "queries", queries, "k",
                                    options->k, "seconds", lac_json_real(seconds)));
  return LAC_OK;
}

static lac_status run_whole(search *work) {
  CLI_TRY(open_search(work));
  CLI_TRY(make_codes(work));
  void *ids, *distances;
  int64_t count = work->query.rows * work->options->k;
  CLI_TRY(lac_session_allocate(work->session, count, sizeof(int32_t), &ids));
  work->ids = ids;
  CLI_TRY(lac_session_allocate(work->session, count, sizeof(int32_t), &distances));
  work->distances = distances;
  double begin = lac_clock_seconds();
  CLI_TRY(search_blocks(work));
  return write_answer(work, lac_clock_seconds() - begin);
}

static lac_status run_search(lac_session *session, const void *argument, char *const *operands, int count) {
  const search_options *options = argument;
  (void)count;
  if (!options->base || !options->query) {
    return lac_fail(session->context, LAC_E_USAGE, "hash search: option --%s is missing",
                    options->base ? "query" : "base");
  }
  CLI_TRY(lac_require_output(session, "hash search", options->output));
  CLI_TRY(lac_array_check(session->context, options->output, LAC_I32));
  if (options->distances) {
    CLI_TRY(lac_array_check(session->context, options->distances, LAC_I32));
  }
  const lac_file_use files[] = {{"-o", options->output, true},
                                {"--distances", options->distances, true},
                                {"MODEL", operands[0], false},
                                {"--base", options->base, false},
                                {"--query", options->query, false}};
  CLI_TRY(lac_check_apart(session, files, 5));
  search work = {.session = session, .options = options, .model_path = operands[0]};
  lac_status status = run_whole(&work);
  free(work.ids);
  free(work.distances);
  lac_codes_clear(&work.base);
  lac_codes_clear(&work.query);
  lac_dataset_destroy(&work.base_file);
  lac_dataset_destroy(&work.query_file);
  lac_hash_destroy(&work.model);
  return status;
}

static const lac_option_group search_groups[] = {{.title = "Options", .own = search_option_table}, {0}};

const lac_command lac_command_hash_search = {
    .name = "hash search",
    .operands = "MODEL --base BASE --query QUERY -o FOUND",
    .least = 1,
    .most = 1,
    .summary = "find the nearest codes of queries",
    .description =
        "Finds for every row of QUERY the k rows of BASE with the nearest codes, nearest first; equal Hamming "
        "distances rank by lower row number. BASE is either vectors, which are encoded first, or the codes "
        "that hash encode wrote.",
    .example = "laconic hash search model.safetensors --base codes.npy --query query.fvecs -k 100 -o found.ivecs",
    .groups = search_groups,
    .options_size = sizeof(search_options),
    .run = run_search,
};
