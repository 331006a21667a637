#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/progress.h"

typedef struct predict_options {
  lac_common_options common;
  lac_net_options net;
  char *output, *labels;
  int64_t batch;
} predict_options;

static const lac_option predict_option_table[] = {
    {.key = "output",
     .letter = 'o',
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(predict_options, output),
     .unit = "FILE",
     .help = "where the probabilities go, a row per picture and a column per class: .npy or .fvecs"},
    LAC_TEXT_OPTION(predict_options, labels, "labels", "FILE",
                    "where the most probable class of each picture goes: .npy or .ivecs"),
    LAC_BATCH_OPTION(predict_options, batch),
    LAC_OPTIONS_END,
};

typedef struct prediction {
  lac_session *session;
  lac_classifier *model;
  const lac_images *images;
  int64_t rows, classes, batch;
  float *probabilities; /* (batch, classes) */
  int32_t *labels;      /* (batch) */
  lac_array_writer *to_probabilities, *to_labels;
} prediction;

static lac_status check_options(lac_session *session, const predict_options *options, char *const *operands) {
  CLI_TRY(lac_require_output(session, "predict", options->output));
  CLI_TRY(lac_array_check(session->context, options->output, LAC_F32));
  if (options->labels) {
    CLI_TRY(lac_array_check(session->context, options->labels, LAC_I32));
  }
  const lac_file_use files[] = {{"-o", options->output, true},
                                {"--labels", options->labels, true},
                                {"MODEL", operands[0], false},
                                {"IMAGES", operands[1], false}};
  return lac_check_apart(session, files, 4);
}

/* The pictures, of the shape that the model takes; a message that says they do not fit names the model, too. */
static lac_status open_images(lac_session *session, const char *path, const lac_classifier *model,
                              lac_images **images) {
  lac_context *context = session->context;
  lac_status status = lac_images_open_unlabelled(context, path, lac_net_input(lac_classifier_net(model)), images);
  char *message = status == LAC_E_INPUT ? strdup(lac_context_message(context)) : NULL;
  if (message) {
    status = lac_fail(context, status, "%s (for the model %s)", message, lac_classifier_path(model));
    free(message);
  }
  return status;
}

/* The first of the most probable ones. */
static int32_t best_class(const float *probabilities, int64_t classes) {
  int32_t best = 0;
  for (int32_t i = 1; i < classes; i++) {
    best = probabilities[i] > probabilities[best] ? i : best;
  }
  return best;
}

static lac_status predict_block(prediction *work, int64_t first, int64_t count) {
  lac_context *context = work->session->context;
  CLI_TRY(lac_classifier_predict(context, work->model, work->images, first, count, work->probabilities));
  CLI_TRY(lac_array_append(context, work->to_probabilities, work->probabilities, count));
  if (!work->to_labels) {
    return LAC_OK;
  }
  for (int64_t i = 0; i < count; i++) {
    work->labels[i] = best_class(work->probabilities + i * work->classes, work->classes);
  }
  return lac_array_append(context, work->to_labels, work->labels, count);
}

static lac_status predict_all(prediction *work) {
  lac_context *context = work->session->context;
  lac_progress_meter meter = lac_progress_meter_begin(work->session, "predicting");
  for (int64_t first = 0; first < work->rows; first += work->batch) {
    int64_t count = work->rows - first < work->batch ? work->rows - first : work->batch;
    CLI_TRY(predict_block(work, first, count));
    lac_progress_meter_update(&meter, (double)(first + count) / (double)work->rows);
  }
  lac_progress_clear(work->session);
  CLI_TRY(lac_array_finish(context, &work->to_probabilities));
  return work->to_labels ? lac_array_finish(context, &work->to_labels) : LAC_OK;
}

static lac_status open_outputs(prediction *work, const predict_options *options) {
  lac_context *context = work->session->context;
  void *memory;
  CLI_TRY(lac_session_allocate(work->session, work->batch * work->classes, sizeof(float), &memory));
  work->probabilities = memory;
  CLI_TRY(lac_session_allocate(work->session, work->batch, sizeof(int32_t), &memory));
  work->labels = memory;
  CLI_TRY(lac_array_create(context, options->output, LAC_F32, work->rows, work->classes, &work->to_probabilities));
  return options->labels ? lac_array_create(context, options->labels, LAC_I32, work->rows, 1, &work->to_labels)
                         : LAC_OK;
}

static lac_status predict(prediction *work, const predict_options *options) {
  double begin = lac_clock_seconds();
  lac_status status = open_outputs(work, options);
  if (!status) {
    status = predict_all(work);
  }
  lac_array_discard(&work->to_probabilities);
  lac_array_discard(&work->to_labels);
  free(work->probabilities);
  free(work->labels);
  if (status) {
    return status;
  }
  double seconds = lac_clock_seconds() - begin;
  lac_print_note(work->session, "%s: probabilities of %" PRId64 " classes for %" PRId64 " pictures, %.3g s, %.3g/s\n",
                 options->output, work->classes, work->rows, seconds, (double)work->rows / seconds);
  lac_print_json(work->session,
                 json_pack("{s:s, s:o, s:o, s:I, s:I, s:o}", "event", "done", "output", lac_json_text(options->output),
                           "labels", options->labels ? lac_json_text(options->labels) : json_null(), "images",
                           work->rows, "classes", work->classes, "seconds", lac_json_real(seconds)));
  return LAC_OK;
}

static lac_status run_predict(lac_session *session, const void *argument, char *const *operands, int count) {
  const predict_options *options = argument;
  (void)count;
  CLI_TRY(check_options(session, options, operands));
  lac_classifier *model = NULL;
  lac_images *images = NULL;
  lac_status status;
  CLI_TRY_GOTO(status, lac_classifier_load(session->context, operands[0], options->batch, &options->net, &model), done);
  CLI_TRY_GOTO(status, open_images(session, operands[1], model, &images), done);
  prediction work = {.session = session,
                     .model = model,
                     .images = images,
                     .rows = lac_images_count(images),
                     .classes = lac_net_classes(lac_classifier_net(model)),
                     .batch = options->batch};
  status = predict(&work, options);
done:
  lac_images_destroy(&images);
  lac_classifier_destroy(&model);
  return status;
}

static const lac_option_group predict_groups[] = {
    {.title = "Options", .own = predict_option_table},
    {.title = "Network", .table = lac_net_option_table, .offset = offsetof(predict_options, net)},
    {0},
};

const lac_command lac_command_predict = {
    .name = "predict",
    .operands = "MODEL IMAGES -o PROBABILITIES",
    .least = 2,
    .most = 2,
    .summary = "classify pictures",
    .description =
        "Writes the probability of every class for every picture of IMAGES, a file of any format with the pixels as "
        "they "
        "are: rows of channels x height x width values, or an array (N, C, H, W), (N, H, W, C) or (N, H, W). They are "
        "prepared as the model says.",
    .example = "laconic predict lenet.safetensors t10k-images-idx3-ubyte.gz -o probabilities.npy --labels labels.npy",
    .groups = predict_groups,
    .options_size = sizeof(predict_options),
    .run = run_predict,
};
