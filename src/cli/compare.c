#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/train_folder.h"

typedef struct compare_options {
  lac_common_options common;
  char *plot;
} compare_options;

static const lac_option compare_option_table[] = {
    LAC_TEXT_OPTION(compare_options, plot, "plot", "FILE",
                    "draw errors against gradients, seconds and bytes, losses, and how far replicas are apart: .svg or "
                    ".png; needs gnuplot"),
    LAC_OPTIONS_END,
};

/* What a line of metrics.jsonl says; the columns of the table and of the curves. */
typedef enum column {
  EPOCH,
  PASSES,
  GRADIENTS,
  SECONDS,
  MESSAGES,
  BYTES,
  LOSS,
  HELD_OUT,
  TEST,
  SPREAD,
  COLUMNS
} column;

static const char *const column_keys[COLUMNS] = {"epoch", "passes",     "gradients",      "seconds",    "messages",
                                                 "bytes", "train_loss", "held_out_error", "test_error", "spread"};

typedef struct compared {
  const char *path;
  lac_train_options options;
  int workers, count; /* lines */
  double *columns[COLUMNS];
  int best; /* the line whose model the run kept */
  double *megabytes, *percent;
} compared;

static void close_run(compared *run) {
  for (int c = 0; c < COLUMNS; c++) {
    free(run->columns[c]);
  }
  free(run->megabytes);
  free(run->percent);
  for (const lac_option_group *group = lac_command_train.groups; group->title; group++) {
    lac_options_clear(lac_group_options(group), (char *)&run->options + group->offset);
  }
}

static lac_status recall_options(lac_session *session, compared *run) {
  for (const lac_option_group *group = lac_command_train.groups; group->title; group++) {
    CLI_TRY(lac_options_default(session->context, lac_group_options(group), (char *)&run->options + group->offset));
  }
  return lac_train_folder_recall(session, run->path, &run->options);
}

static lac_status add_line(lac_session *session, const char *file, const char *text, compared *run) {
  json_t *line = json_loads(text, 0, NULL);
  if (!json_is_object(line)) {
    json_decref(line);
    return lac_fail(session->context, LAC_E_INPUT, "%s: line %d: found no JSON object, expected one", file,
                    run->count + 1);
  }
  lac_status status = LAC_OK;
  for (int c = 0; !status && c < COLUMNS; c++) {
    const json_t *value = json_object_get(line, column_keys[c]);
    double *more = realloc(run->columns[c], (size_t)(run->count + 1) * sizeof *more);
    if (!more) {
      status = lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the metrics of %s", run->path);
    } else {
      run->columns[c] = more;
      more[run->count] = json_is_number(value) ? json_number_value(value) : (double)NAN;
      if (c < LOSS && !json_is_number(value)) {
        status = lac_fail(session->context, LAC_E_INPUT, "%s: line %d: found no number %s, expected one", file,
                          run->count + 1, column_keys[c]);
      }
    }
  }
  const json_t *workers = json_object_get(line, "workers");
  run->workers = json_is_integer(workers) ? (int)json_integer_value(workers) : run->workers;
  run->count += !status;
  json_decref(line);
  return status;
}

/* The line of the model that the run kept: the least error on the pictures held out, the first of equal ones; the last
 * line where none were held out or the last was wanted. */
static int kept_line(const compared *run) {
  int best = run->count - 1;
  const double *held = run->columns[HELD_OUT];
  if (run->options.keep == LAC_KEEP_BEST && best >= 0 && isfinite(held[best])) {
    for (int i = run->count - 1; i >= 0; i--) {
      best = held[i] <= held[best] ? i : best;
    }
  }
  return best;
}

static lac_status read_metrics(lac_session *session, compared *run) {
  char file[PATH_MAX], *text = NULL;
  size_t room = 0;
  CLI_TRY(lac_train_folder_file(session, run->path, "metrics.jsonl", file, sizeof file));
  FILE *stream = fopen(file, "r");
  lac_status status = LAC_OK;
  while (stream && !status && getline(&text, &room, stream) > 0) {
    status = add_line(session, file, text, run);
  }
  free(text);
  if (stream) {
    fclose(stream);
  }
  if (!status && run->count == 0) {
    status = lac_fail(session->context, LAC_E_INPUT, "%s: found no finished epoch, expected at least one", file);
  }
  return status;
}

static lac_status scale_columns(lac_session *session, compared *run) {
  run->megabytes = calloc((size_t)run->count, sizeof(double));
  run->percent = calloc((size_t)run->count, sizeof(double));
  if (!run->megabytes || !run->percent) {
    return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the metrics of %s", run->path);
  }
  for (int i = 0; i < run->count; i++) {
    double test = run->columns[TEST][i];
    run->megabytes[i] = 1e-6 * run->columns[BYTES][i];
    run->percent[i] = 100 * (isfinite(test) ? test : run->columns[HELD_OUT][i]);
  }
  return LAC_OK;
}

static lac_status open_run(lac_session *session, const char *path, compared *run) {
  run->path = path;
  CLI_TRY(recall_options(session, run));
  run->workers = (int)run->options.workers;
  CLI_TRY(read_metrics(session, run));
  run->best = kept_line(run);
  return scale_columns(session, run);
}

static const char *method_of(const compared *run) {
  return lac_options_find(lac_replica_option_table(), "method")->names[run->options.replica.method];
}

static double value_of(const compared *run, column c) {
  return run->columns[c][c == LOSS || c == HELD_OUT || c == TEST ? run->best : run->count - 1];
}

static void percent_text(double fraction, char text[16]) {
  if (isfinite(fraction)) {
    snprintf(text, 16, "%.2f", 100 * fraction);
  } else {
    snprintf(text, 16, "-");
  }
}

static void print_run(lac_session *session, const compared *run) {
  char bytes[32], held[16], test[16];
  percent_text(value_of(run, HELD_OUT), held);
  percent_text(value_of(run, TEST), test);
  lac_print(session, "%-28.28s %-8s %-12.12s %7d %7.4g %9.0f %8.4f %9s %7s %9.1f %9.0f %10s\n", run->path,
            method_of(run), run->options.model, run->workers, value_of(run, PASSES), value_of(run, GRADIENTS),
            value_of(run, LOSS), held, test, value_of(run, SECONDS), value_of(run, MESSAGES),
            lac_bytes_text(value_of(run, BYTES), bytes));
  lac_print_json(
      session,
      json_pack(
          "{s:o, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "run", lac_json_text(run->path),
          "method", method_of(run), "model", run->options.model ? run->options.model : "", "workers", run->workers,
          "epoch", lac_json_real(value_of(run, EPOCH)), "passes", lac_json_real(value_of(run, PASSES)), "gradients",
          lac_json_real(value_of(run, GRADIENTS)), "train_loss", lac_json_real(value_of(run, LOSS)), "held_out_error",
          lac_json_real(value_of(run, HELD_OUT)), "test_error", lac_json_real(value_of(run, TEST)), "seconds",
          lac_json_real(value_of(run, SECONDS)), "spread", lac_json_real(value_of(run, SPREAD)), "messages",
          lac_json_real(value_of(run, MESSAGES)), "bytes", lac_json_real(value_of(run, BYTES))));
}

static lac_status draw(lac_session *session, const char *path, const compared *runs, int count) {
  enum { PANELS = 5 };
  void *memory;
  CLI_TRY(lac_session_allocate(session, PANELS * (int64_t)count, sizeof(lac_curve), &memory));
  lac_curve *curves = memory;
  for (int i = 0; i < count; i++) {
    const compared *run = &runs[i];
    curves[i] = (lac_curve){run->path, run->columns[GRADIENTS], run->percent, run->count};
    curves[count + i] = (lac_curve){run->path, run->columns[SECONDS], run->percent, run->count};
    curves[2 * count + i] = (lac_curve){run->path, run->megabytes, run->percent, run->count};
    curves[3 * count + i] = (lac_curve){run->path, run->columns[GRADIENTS], run->columns[LOSS], run->count};
    for (int k = 0; k < run->count; k++) { /* nothing to show of one replica on a logarithmic scale */
      run->columns[SPREAD][k] = run->columns[SPREAD][k] > 0 ? run->columns[SPREAD][k] : (double)NAN;
    }
    curves[4 * count + i] = (lac_curve){run->path, run->columns[GRADIENTS], run->columns[SPREAD], run->count};
  }
  const lac_panel panels[PANELS] = {
      {"Error", "gradients of each worker", "test error, percent", false, false, curves, count},
      {"Error", "seconds of training", "test error, percent", false, false, curves + count, count},
      {"Error", "MB sent by all workers", "test error, percent", false, false, curves + 2 * count, count},
      {"Loss", "gradients of each worker", "training loss", false, false, curves + 3 * count, count},
      {"Consensus distance", "gradients of each worker", "rms distance from the mean, over its norm", false, false,
       curves + 4 * count, count, true},
  };
  lac_status status = lac_plot_write(session, path, panels, PANELS);
  free(curves);
  return status;
}

static lac_status run_compare(lac_session *session, const void *argument, char *const *operands, int count) {
  const compare_options *options = argument;
  void *memory;
  if (options->plot) {
    CLI_TRY(lac_plot_check(session, options->plot));
  }
  CLI_TRY(lac_session_allocate(session, count, sizeof(compared), &memory));
  compared *runs = memory;
  lac_status status = LAC_OK;
  for (int i = 0; !status && i < count; i++) {
    status = open_run(session, operands[i], &runs[i]);
  }
  if (!status) {
    lac_print(session, "%-28s %-8s %-12s %7s %7s %9s %8s %9s %7s %9s %9s %10s\n", "run", "method", "model", "workers",
              "passes", "gradients", "loss", "held-out%", "test%", "seconds", "messages", "bytes");
  }
  for (int i = 0; !status && i < count; i++) {
    print_run(session, &runs[i]);
  }
  if (!status && options->plot) {
    status = draw(session, options->plot, runs, count);
  }
  for (int i = 0; i < count; i++) {
    close_run(&runs[i]);
  }
  free(runs);
  return status;
}

static const lac_option_group compare_groups[] = {{.title = "Options", .own = compare_option_table}, {0}};

const lac_command lac_command_compare = {
    .name = "compare",
    .operands = "RUN...",
    .least = 1,
    .most = -1,
    .summary = "errors, loss, traffic and time of several runs of train",
    .description =
        "Prints a line for each folder of a run: how far it came, the loss and errors of the model that it kept, what "
        "it "
        "took and what it sent. Gradients are those of one worker; seconds are those of training, without evaluation; "
        "messages and bytes are summed over the workers.",
    .example = "laconic compare sgd.run elastic.run parle.run --plot curves.svg",
    .groups = compare_groups,
    .options_size = sizeof(compare_options),
    .run = run_compare,
};
