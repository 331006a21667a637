#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/progress.h"

typedef struct eval_options {
  lac_common_options common;
  lac_net_options net;
  char *data;
  int part;
  int64_t batch;
} eval_options;

static const lac_option eval_option_table[] = {
    LAC_DATA_OPTION(eval_options, data),
    LAC_PART_OPTION(eval_options, part, "test"),
    LAC_BATCH_OPTION(eval_options, batch),
    LAC_OPTIONS_END,
};

typedef struct evaluation {
  lac_session *session;
  const eval_options *options;
  const lac_images *images;
  int64_t rows;
  int name_width;
} evaluation;

/* All models are looked at before the first is measured; one at a time, so that memory holds the activations of one. */
static lac_status check_model(const evaluation *work, const char *path) {
  lac_context *context = work->session->context;
  lac_classifier *model;
  double loss;
  int64_t errors;
  CLI_TRY(lac_classifier_load(context, path, 1, &work->options->net, &model));
  lac_status status = lac_classifier_evaluate(context, model, work->images, 0, 0, &loss, &errors);
  lac_classifier_destroy(&model);
  return status;
}

static lac_status measure(const evaluation *work, lac_classifier *model, const char *path, double *loss,
                          double *errors) {
  int64_t batch = work->options->batch;
  lac_progress_meter meter = lac_progress_meter_begin(work->session, path);
  *loss = 0;
  *errors = 0;
  for (int64_t first = 0; first < work->rows; first += batch) {
    int64_t count = work->rows - first < batch ? work->rows - first : batch, wrong;
    double sum;
    CLI_TRY(lac_classifier_evaluate(work->session->context, model, work->images, first, count, &sum, &wrong));
    *loss += sum;
    *errors += (double)wrong;
    lac_progress_meter_update(&meter, (double)(first + count) / (double)work->rows);
  }
  lac_progress_clear(work->session);
  *loss /= (double)work->rows;
  *errors /= (double)work->rows;
  return LAC_OK;
}

static void print_result(const evaluation *work, const char *path, int64_t classes, double loss, double error) {
  lac_print(work->session, "%-*s %8" PRId64 " %8.4f %10.4g\n", work->name_width, path, classes, error, loss);
  lac_print_json(work->session,
                 json_pack("{s:o, s:o, s:s, s:I, s:I, s:o, s:o}", "model", lac_json_text(path), "data",
                           lac_json_text(work->options->data), "part", lac_part_names[work->options->part], "images",
                           work->rows, "classes", classes, "error", lac_json_real(error), "loss", lac_json_real(loss)));
}

static lac_status evaluate_model(const evaluation *work, const char *path) {
  lac_classifier *model;
  double loss, error;
  int64_t batch = work->options->batch < work->rows ? work->options->batch : work->rows;
  CLI_TRY(lac_classifier_load(work->session->context, path, batch, &work->options->net, &model));
  lac_status status = measure(work, model, path, &loss, &error);
  if (!status) {
    print_result(work, path, lac_net_classes(lac_classifier_net(model)), loss, error);
  }
  lac_classifier_destroy(&model);
  return status;
}

static lac_status evaluate(evaluation *work, char *const *paths, int count) {
  work->name_width = (int)strlen("model");
  for (int i = 0; i < count; i++) {
    int length = (int)strlen(paths[i]);
    work->name_width = length > work->name_width ? length : work->name_width;
    CLI_TRY(check_model(work, paths[i]));
  }
  lac_print(work->session, "%" PRId64 " pictures of %s, %s part; error as a fraction, loss as mean cross-entropy\n",
            work->rows, work->options->data, lac_part_names[work->options->part]);
  lac_print(work->session, "%-*s %8s %8s %10s\n", work->name_width, "model", "classes", "error", "loss");
  for (int i = 0; i < count; i++) {
    CLI_TRY(evaluate_model(work, paths[i]));
  }
  return LAC_OK;
}

static lac_status run_eval(lac_session *session, const void *argument, char *const *operands, int count) {
  const eval_options *options = argument;
  lac_images *images;
  CLI_TRY(lac_require_data(session, "eval", options->data));
  CLI_TRY(lac_images_open(session->context, options->data, (lac_images_part)options->part, &images));
  evaluation work = {.session = session, .options = options, .images = images, .rows = lac_images_count(images)};
  lac_status status = evaluate(&work, operands, count);
  lac_images_destroy(&images);
  return status;
}

static const lac_option_group eval_groups[] = {
    {.title = "Options", .own = eval_option_table},
    {.title = "Network", .table = lac_net_option_table, .offset = offsetof(eval_options, net)},
    {0},
};

const lac_command lac_command_eval = {
    .name = "eval",
    .operands = "MODEL... --data DATA",
    .least = 1,
    .most = -1,
    .summary = "measure how often one or more classifiers are wrong",
    .description =
        "Classifies the pictures of a labelled set with each model: the error is the part of the pictures for which "
        "another class got a larger score than theirs, the loss the mean cross-entropy. Pixels are prepared as the "
        "model says.\n\n"
        "With --json, a line per model: model, data, part, images, classes, error and loss; null for a loss that is no "
        "number.",
    .example = "laconic eval lenet.safetensors --data mnist:mnist",
    .groups = eval_groups,
    .options_size = sizeof(eval_options),
    .run = run_eval,
};
