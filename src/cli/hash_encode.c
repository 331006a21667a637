#include <inttypes.h>
#include <stdlib.h>

#include "cli/codes.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/progress.h"

typedef struct encode_options {
  lac_common_options common;
  char *output, *format;
  int64_t threads;
} encode_options;

static const lac_option encode_option_table[] = {
    {.key = "output",
     .letter = 'o',
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(encode_options, output),
     .unit = "FILE",
     .help = "where the codes go: .npy or .bvecs"},
    LAC_FORMAT_OPTION(encode_options, format, "format", "BASE"),
    LAC_THREADS_OPTION(encode_options, threads),
    LAC_OPTIONS_END,
};

enum { BLOCK_ROWS = 1 << 16 };

typedef struct encoding {
  lac_session *session;
  const lac_hash *model;
  const lac_dataset *base;
  int64_t threads;
  lac_array_writer *writer;
} encoding;

/* Block after block to the file, so that memory does not grow with BASE. */
static lac_status encode_blocks(const encoding *work, uint8_t *block) {
  lac_context *context = work->session->context;
  int64_t rows = lac_dataset_rows(work->base);
  lac_progress_meter meter = lac_progress_meter_begin(work->session, "encoding");
  for (int64_t first = 0; first < rows; first += BLOCK_ROWS) {
    int64_t count = rows - first < BLOCK_ROWS ? rows - first : BLOCK_ROWS;
    CLI_TRY(lac_hash_encode(context, work->model, work->base, first, count, work->threads, block));
    CLI_TRY(lac_array_append(context, work->writer, block, count));
    lac_progress_meter_update(&meter, (double)(first + count) / (double)rows);
  }
  return LAC_OK;
}

static lac_status encode(encoding *work, const char *output) {
  lac_session *session = work->session;
  int64_t rows = lac_dataset_rows(work->base), bits = lac_hash_bits(work->model), width = lac_code_bytes(bits);
  void *block;
  CLI_TRY(lac_session_allocate(session, BLOCK_ROWS, (size_t)width, &block));
  double begin = lac_clock_seconds();
  lac_status status = lac_array_create(session->context, output, LAC_U8, rows, width, &work->writer);
  if (!status) {
    status = encode_blocks(work, block);
  }
  if (!status) {
    status = lac_array_finish(session->context, &work->writer);
  }
  lac_array_discard(&work->writer);
  free(block);
  if (status) {
    return status;
  }
  double seconds = lac_clock_seconds() - begin;
  lac_print_note(session, "%s: %" PRId64 " codes of %" PRId64 " bits, %.3g s, %.3g rows/s\n", output, rows, bits,
                 seconds, (double)rows / seconds);
  lac_print_json(session, json_pack("{s:s, s:o, s:I, s:I, s:o}", "event", "done", "output", lac_json_text(output),
                                    "rows", rows, "bits", bits, "seconds", lac_json_real(seconds)));
  return LAC_OK;
}

static lac_status run_encode(lac_session *session, const void *argument, char *const *operands, int count) {
  const encode_options *options = argument;
  (void)count;
  CLI_TRY(lac_require_output(session, "hash encode", options->output));
  CLI_TRY(lac_array_check(session->context, options->output, LAC_U8));
  const lac_file_use files[] = {
      {"-o", options->output, true}, {"MODEL", operands[0], false}, {"BASE", operands[1], false}};
  CLI_TRY(lac_check_apart(session, files, 3));
  lac_hash *model = NULL;
  lac_dataset *base = NULL;
  lac_status status;
  CLI_TRY_GOTO(status, lac_hash_load(session->context, operands[0], &model), done);
  CLI_TRY_GOTO(status, lac_dataset_open(session->context, operands[1], options->format, &base), done);
  CLI_TRY_GOTO(status, lac_check_columns(session, operands[0], model, base), done);
  encoding work = {session, model, base, lac_threads_of(options->threads), NULL};
  status = encode(&work, options->output);
done:
  lac_dataset_destroy(&base);
  lac_hash_destroy(&model);
  return status;
}

static const lac_option_group encode_groups[] = {{.title = "Options", .own = encode_option_table}, {0}};

const lac_command lac_command_hash_encode = {
    .name = "hash encode",
    .operands = "MODEL BASE -o CODES",
    .least = 2,
    .most = 2,
    .summary = "turn vectors into codes",
    .description =
        "Writes the code of every row of BASE: an array of unsigned bytes with a row per vector and bits / 8 "
        "columns, rounded up. Bit l of a code is bit l mod 8 of byte l / 8; the bits beyond the last are "
        "zero.",
    .example = "laconic hash encode model.safetensors base.bvecs -o codes.npy",
    .groups = encode_groups,
    .options_size = sizeof(encode_options),
    .run = run_encode,
};
