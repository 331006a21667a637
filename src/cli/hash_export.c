#include <inttypes.h>

#include "cli/codes.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"

typedef struct export_options {
  lac_common_options common;
  char *faiss, *codes, *faiss_binary, *format;
} export_options;

static const lac_option export_option_table[] = {
    LAC_TEXT_OPTION(export_options, faiss, "faiss", "FILE",
                    "write the encoder as an empty FAISS index: IndexPreTransform of a linear transform and IndexLSH"),
    LAC_TEXT_OPTION(export_options, faiss_binary, "faiss-binary", "FILE",
                    "write the codes of --codes as a FAISS IndexBinaryFlat; bits must be a multiple of 8"),
    LAC_TEXT_OPTION(export_options, codes, "codes", "CODES", "codes that hash encode wrote with this model"),
    LAC_FORMAT_OPTION(export_options, format, "format", "CODES"),
    LAC_OPTIONS_END,
};

static lac_status check_options(lac_session *session, const export_options *options, const char *model_path) {
  if (!options->faiss && !options->faiss_binary) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "hash export: nothing to write, expected --faiss FILE or --faiss-binary FILE");
  }
  if (!options->codes != !options->faiss_binary) {
    return lac_fail(session->context, LAC_E_USAGE, "hash export: --%s needs --%s",
                    options->codes ? "codes" : "faiss-binary", options->codes ? "faiss-binary" : "codes");
  }
  if (options->faiss) {
    CLI_TRY(lac_output_check(session->context, options->faiss));
  }
  if (options->faiss_binary) {
    CLI_TRY(lac_output_check(session->context, options->faiss_binary));
  }
  const lac_file_use files[] = {{"--faiss", options->faiss, true},
                                {"--faiss-binary", options->faiss_binary, true},
                                {"MODEL", model_path, false},
                                {"--codes", options->codes, false}};
  return lac_check_apart(session, files, 4);
}

static lac_status open_codes(lac_session *session, const export_options *options, const char *model_path,
                             const lac_hash *model, lac_codes *codes) {
  lac_dataset *file;
  int64_t bits = lac_hash_bits(model);
  CLI_TRY(lac_dataset_open(session->context, options->codes, options->format, &file));
  lac_status status;
  if (!lac_codes_fit(file, bits)) {
    status =
        lac_fail(session->context, LAC_E_INPUT,
                 "%s: found %" PRId64 " columns of type %s, expected codes of %" PRId64 " bytes as of the model %s",
                 options->codes, lac_dataset_columns(file), lac_type_name(lac_dataset_type(file)), lac_code_bytes(bits),
                 model_path);
  } else {
    status = lac_codes_take(session, &file, bits, codes);
  }
  lac_dataset_destroy(&file);
  return status;
}

/* What would fail is found before anything is written: both files or none. */
static lac_status check_model(lac_session *session, const export_options *options, const char *path,
                              const lac_hash *model) {
  if (options->faiss && lac_hash_encoder_kind(model) != LAC_ENCODER_LINEAR) {
    return lac_fail(session->context, LAC_E_UNSUPPORTED,
                    "%s: an RBF encoder is no FAISS transform, expected a linear one; export its codes with "
                    "--faiss-binary",
                    path);
  }
  if (options->faiss_binary && lac_hash_bits(model) % 8) {
    return lac_fail(session->context, LAC_E_UNSUPPORTED,
                    "%s: found %" PRId64 " bits, expected a multiple of 8 for --faiss-binary", path,
                    lac_hash_bits(model));
  }
  return LAC_OK;
}

static lac_status write_files(lac_session *session, const export_options *options, const lac_hash *model,
                              const lac_codes *codes) {
  if (options->faiss) {
    CLI_TRY(lac_faiss_write_encoder(session->context, model, options->faiss));
    lac_print_note(session, "%s: FAISS index of the encoder, %" PRId64 " columns to %" PRId64 " bits\n", options->faiss,
                   lac_hash_columns(model), lac_hash_bits(model));
  }
  if (options->faiss_binary) {
    CLI_TRY(lac_faiss_write_binary(session->context, codes->codes, codes->rows, lac_hash_bits(model),
                                   options->faiss_binary));
    lac_print_note(session, "%s: FAISS index of %" PRId64 " codes\n", options->faiss_binary, codes->rows);
  }
  lac_print_json(session, json_pack("{s:s, s:o, s:o, s:I, s:I}", "event", "done", "faiss",
                                    options->faiss ? lac_json_text(options->faiss) : json_null(), "faiss_binary",
                                    options->faiss_binary ? lac_json_text(options->faiss_binary) : json_null(), "bits",
                                    lac_hash_bits(model), "rows", codes->rows));
  return LAC_OK;
}

static lac_status run_export(lac_session *session, const void *argument, char *const *operands, int count) {
  const export_options *options = argument;
  (void)count;
  CLI_TRY(check_options(session, options, operands[0]));
  lac_hash *model;
  CLI_TRY(lac_hash_load(session->context, operands[0], &model));
  lac_codes codes = {0};
  lac_status status = check_model(session, options, operands[0], model);
  if (!status && options->codes) {
    status = open_codes(session, options, operands[0], model, &codes);
  }
  if (!status) {
    status = write_files(session, options, model, &codes);
  }
  lac_codes_clear(&codes);
  lac_hash_destroy(&model);
  return status;
}

static const lac_option_group export_groups[] = {{.title = "Options", .own = export_option_table}, {0}};

const lac_command lac_command_hash_export = {
    .name = "hash export",
    .operands = "MODEL",
    .least = 1,
    .most = 1,
    .summary = "write a model or its codes for FAISS",
    .description =
        "Writes files that FAISS reads with read_index and read_index_binary. The encoder becomes an index "
        "that FAISS can add vectors to; codes become a binary index that is ready to search. An RBF encoder "
        "is no FAISS transform: only its codes can be exported.",
    .example = "laconic hash export model.safetensors --faiss out.faiss --codes codes.npy --faiss-binary index.faiss",
    .groups = export_groups,
    .options_size = sizeof(export_options),
    .run = run_export,
};
