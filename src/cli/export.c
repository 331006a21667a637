#include <inttypes.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"

typedef struct export_options {
  lac_common_options common;
  char *onnx;
} export_options;

static const lac_option export_option_table[] = {
    LAC_TEXT_OPTION(export_options, onnx, "onnx", "FILE", "write the classifier as an ONNX model (opset 13)"),
    LAC_OPTIONS_END,
};

static lac_status run_export(lac_session *session, const void *argument, char *const *operands, int count) {
  const export_options *options = argument;
  (void)count;
  if (!options->onnx) {
    return lac_fail(session->context, LAC_E_USAGE, "export: nothing to write, expected --onnx FILE");
  }
  CLI_TRY(lac_output_check(session->context, options->onnx));
  const lac_file_use files[] = {{"--onnx", options->onnx, true}, {"MODEL", operands[0], false}};
  CLI_TRY(lac_check_apart(session, files, 2));
  lac_classifier *model;
  CLI_TRY(lac_classifier_load(session->context, operands[0], 1, NULL, &model));
  const lac_net *net = lac_classifier_net(model);
  lac_image_shape shape = lac_net_input(net);
  lac_status status = lac_classifier_export_onnx(session->context, model, options->onnx);
  if (!status) {
    lac_print_note(session,
                   "%s: ONNX model, pixels (N, %" PRId64 ", %" PRId64 ", %" PRId64 ") to probabilities (N, %" PRId64
                   ")\n",
                   options->onnx, shape.channels, shape.height, shape.width, lac_net_classes(net));
    lac_print_json(session, json_pack("{s:s, s:o, s:[I, I, I], s:I, s:I}", "event", "done", "onnx",
                                      lac_json_text(options->onnx), "input", shape.channels, shape.height, shape.width,
                                      "classes", lac_net_classes(net), "parameters", lac_net_parameters(net)));
  }
  lac_classifier_destroy(&model);
  return status;
}

static const lac_option_group export_groups[] = {{.title = "Options", .own = export_option_table}, {0}};

const lac_command lac_command_export = {
    .name = "export",
    .operands = "MODEL --onnx FILE",
    .least = 1,
    .most = 1,
    .summary = "write a classifier for other programs",
    .description =
        "Writes a classifier as an ONNX model. Its input `pixels` takes pictures as they are in a data file, float32 "
        "(N, C, H, W) for any N: the preparation is part of the model. Its output `probabilities` is (N, classes).",
    .example = "laconic export lenet.safetensors --onnx lenet.onnx",
    .groups = export_groups,
    .options_size = sizeof(export_options),
    .run = run_export,
};
