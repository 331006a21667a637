/* Training a hash model: from shards of data to a model in units of the data. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/profile.h"
#include "hash/run.h"

double lac_run_mu_unit(const lac_training *common) {
  return common->variance / (double)common->bits;
}

/* Of points that are met exactly rounding may be left, of either sign. */
static double not_negative(double error) {
  return error < 0 ? 0 : error;
}

static void tell(const lac_run *run, const char *phase, const lac_mac_report *report) {
  if (!run->progress || run->team->first != 0) {
    return;
  }
  lac_hash_progress progress = {.phase = phase, .points = run->statistics.points};
  if (report) {
    double total = (double)report->points * run->common.variance;
    progress.mac = *report;
    progress.mac.mu /= lac_run_mu_unit(&run->common);
    progress.e_q = report->penalised / total;
    progress.e_ba = not_negative(report->nested / total);
  }
  run->progress(run->user, &progress);
}

static void on_report(void *user, const lac_mac_report *report) {
  tell(user, "train", report);
}

/* ---- checks ---- */

static lac_status check_shards(lac_run *run) {
  const lac_team *team = run->team;
  int64_t columns = lac_dataset_columns(run->data[0]);
  lac_status status = LAC_OK;
  double range[2] = {(double)columns, (double)-columns};
  for (int shard = 0; !status && shard < team->count; shard++) {
    if (lac_dataset_rows(run->data[shard]) < 1) {
      status = lac_fail(run->context, LAC_E_INPUT, "%s: shard %d has no points, expected at least 1",
                        lac_dataset_path(run->data[shard]), team->first + shard);
    } else if (lac_dataset_columns(run->data[shard]) != columns) {
      status = lac_fail(run->context, LAC_E_INPUT, "%s: found %" PRId64 " columns, expected %" PRId64 " as in %s",
                        lac_dataset_path(run->data[shard]), lac_dataset_columns(run->data[shard]), columns,
                        lac_dataset_path(run->data[0]));
    }
  }
  if (team->world) {
    status = lac_world_agree(team->world, status);
    if (!status) {
      status = lac_world_max_f64(team->world, range, 2);
    }
    if (!status && range[0] != -range[1]) {
      status = lac_fail(run->context, LAC_E_INPUT, "%s: has %" PRId64 " columns, other shards have from %.0f to %.0f",
                        lac_dataset_path(run->data[0]), columns, -range[1], range[0]);
    }
  }
  return status;
}

bool lac_run_needs_components(const lac_hash_options *options) {
  return options->method == LAC_HASH_PCA || options->method == LAC_HASH_ITQ ||
         (options->method == LAC_HASH_BA && options->init != LAC_INIT_RANDOM);
}

lac_status lac_hash_options_check(lac_context *context, const lac_hash_options *options, int64_t columns) {
  LAC_TRY(lac_options_check(context, lac_hash_option_table(), options));
  if (lac_run_needs_components(options) && options->bits > columns) {
    return lac_fail(context, LAC_E_INPUT,
                    "--bits: found %" PRId64 " bits for %" PRId64
                    " columns; a start or method with principal components takes at most as many bits as columns",
                    options->bits, columns);
  }
  if (options->mac.mu_factor != 0 && !(options->mac.mu_factor > 1)) {
    return lac_fail(context, LAC_E_USAGE, "--mu-factor: found %g, expected more than 1, or 0", options->mac.mu_factor);
  }
  if (options->encoder == LAC_ENCODER_RBF && options->method != LAC_HASH_BA) {
    return lac_fail(context, LAC_E_USAGE, "--encoder rbf goes with --method ba, found --method %s",
                    lac_hash_method_names[options->method]);
  }
  return LAC_OK;
}

/* ---- units ---- */

/* Numbers that are much larger than what they differ by: float32 has too few digits for both, and so has the model. */
static void warn_of_offset(const lac_run *run) {
  const lac_statistics *statistics = &run->statistics;
  double largest = fmax(fabs(statistics->low), fabs(statistics->high));
  double spread = sqrt(statistics->variance / (double)run->common.columns);
  if (run->team->first == 0 && largest * FLT_EPSILON > 0.01 * spread) {
    lac_context_log(run->context, LAC_LOG_WARNING,
                    "%s: values up to %.3g with a standard deviation of %.3g, too little for float32; subtract the "
                    "columns' means first",
                    lac_dataset_path(run->data[0]), largest, spread);
  }
}

static lac_status set_units(lac_run *run) {
  const lac_statistics *statistics = &run->statistics;
  if (statistics->constant == run->common.columns) {
    return lac_fail(run->context, LAC_E_INPUT, "%s: all points are equal, expected points that differ",
                    lac_dataset_path(run->data[0]));
  }
  if (statistics->constant > 0 && run->team->first == 0) {
    lac_context_log(run->context, LAC_LOG_WARNING, "%s: %" PRId64 " of %" PRId64 " columns are constant",
                    lac_dataset_path(run->data[0]), statistics->constant, run->common.columns);
  }
  double scale = 1 / (statistics->high - statistics->low);
  run->scale = (float)scale;
  LAC_TRY(LAC_NEW(run->context, lac_padded(run->common.columns), &run->shift));
  for (int64_t c = 0; c < run->common.columns; c++) {
    run->shift[c] = (float)(-scale * statistics->mean[c]);
  }
  run->common.variance = statistics->variance * scale * scale;
  if (!(isfinite(run->scale) && run->common.variance > 0)) {
    return lac_fail(run->context, LAC_E_INPUT,
                    "%s: values range from %g to %g with variance %g, too wide or narrow to scale",
                    lac_dataset_path(run->data[0]), statistics->low, statistics->high, statistics->variance);
  }
  warn_of_offset(run);
  return LAC_OK;
}

/* Where more is left out than would be by itself. */
static void warn_of_subsample(const lac_run *run) {
  const lac_hash_options *options = run->options;
  lac_hash_options chosen = *options;
  chosen.subsample = 0;
  int64_t points = run->statistics.points, columns = run->common.columns;
  int64_t subsample = lac_subsample(options, points, columns), usual = lac_subsample(&chosen, points, columns);
  if (run->team->first == 0 && subsample > usual) {
    lac_context_log(run->context, LAC_LOG_WARNING,
                    "--subsample %" PRId64 ": iterations before the last %" PRId64 " see about %" PRId64 " of %" PRId64
                    " points, which codes may fit better than the others; 0 would choose %" PRId64,
                    subsample, options->mac.full_iterations, points / subsample, points, usual);
  }
}

lac_rows lac_run_rows(const lac_dataset *data, float scale, const float *shift) {
  lac_rows rows = {.data = data,
                   .count = lac_dataset_rows(data),
                   .columns = lac_dataset_columns(data),
                   .padded = lac_padded(lac_dataset_columns(data)),
                   .scale = scale,
                   .shift = shift,
                   .kernels = lac_linear(lac_cpu_isa())};
  rows.bytes = lac_dataset_bytes(data, &rows.stride);
  return rows;
}

/* ---- the end ---- */

/* The model in units of the data: x = (x' - shift) / scale. */
static lac_status export_model(lac_run *run, lac_hash **model) {
  const lac_training *common = &run->common;
  const lac_parameters *from = &run->trainers[0].model;
  int64_t bits = common->bits, columns = common->columns, features = common->features;
  bool rbf = run->options->encoder == LAC_ENCODER_RBF;
  LAC_TRY(
      lac_hash_create(run->context, bits, columns, (lac_hash_method)run->options->method, rbf ? features : 0, model));
  lac_hash *made = *model;
  float scale = rbf ? 1 : run->scale;
  const float *shift = rbf ? run->feature_shift : run->shift;
  for (int64_t l = 0; l < bits; l++) {
    double bias = (double)from->bias[l];
    for (int64_t c = 0; c < features; c++) {
      float weight = from->weight[l * lac_padded(features) + c];
      made->weight[l * features + c] = weight * scale;
      bias += (double)weight * (double)shift[c];
    }
    made->bias[l] = (float)bias;
  }
  for (int64_t c = 0; c < columns; c++) {
    for (int64_t l = 0; l < bits; l++) {
      made->decoder[c * bits + l] = from->decoder[l * lac_padded(columns) + c] / run->scale;
    }
    made->offset[c] = (from->decoder[bits * lac_padded(columns) + c] - run->shift[c]) / run->scale;
  }
  if (rbf) {
    memcpy(made->centres, run->centres, (size_t)(features * columns) * sizeof *made->centres);
    made->width = run->width;
  }
  return LAC_OK;
}

static lac_status note(lac_run *run, lac_hash *model, const char *key, const char *format, double value) {
  char text[64];
  snprintf(text, sizeof text, format, value);
  return lac_hash_set_meta(run->context, model, key, text);
}

static lac_status note_run(lac_run *run, lac_hash *model, const lac_hash_result *result) {
  LAC_TRY(note(run, model, "points", "%.0f", (double)run->statistics.points));
  LAC_TRY(note(run, model, "workers", "%.0f", (double)run->team->total));
  LAC_TRY(note(run, model, "iterations", "%.0f", (double)result->iterations));
  LAC_TRY(note(run, model, "e_ba", "%.9g", result->e_ba));
  LAC_TRY(note(run, model, "data.low", "%.17g", run->statistics.low));
  LAC_TRY(note(run, model, "data.high", "%.17g", run->statistics.high));
  return note(run, model, "data.variance", "%.17g", run->statistics.variance);
}

/* Of a model that is not finished: how far it came. */
static lac_status note_interrupt(lac_run *run, lac_hash *model, const lac_hash_result *result) {
  LAC_TRY(note(run, model, "points", "%.0f", (double)run->statistics.points));
  LAC_TRY(note(run, model, "workers", "%.0f", (double)run->team->total));
  LAC_TRY(note(run, model, "iterations", "%.0f", (double)result->iterations));
  return lac_hash_set_meta(run->context, model, "interrupted", "true");
}

static lac_status count_control(lac_run *run, lac_hash_result *result) {
  if (!run->team->world) {
    return LAC_OK;
  }
  lac_counts counts = lac_world_counts(run->team->world);
  int64_t control[2] = {counts.messages[LAC_TRAFFIC_CONTROL], counts.bytes[LAC_TRAFFIC_CONTROL]};
  LAC_TRY(lac_world_sum_i64(run->team->world, control, 2));
  result->control_messages = control[0];
  result->control_bytes = control[1];
  return LAC_OK;
}

/* Decoder refitted to the final codes, and the error that it leaves. */
static lac_status finish(lac_run *run, lac_hash_result *result) {
  double square = run->common.variance * (double)run->statistics.points, explained = 0;
  for (int shard = 0; shard < run->team->count; shard++) {
    run->trainers[shard].subsample = 1; /* also when mu left the numbers while it was more */
    LAC_TRY(lac_trainer_encode(run->context, &run->trainers[shard], run->trainers[shard].codes));
  }
  LAC_TRY(lac_run_fit_decoder(run, &explained));
  result->e_ba = not_negative((square - explained) / square);
  return LAC_OK;
}

static lac_status learn(lac_run *run, lac_hash_result *result) {
  void **shards;
  lac_mac_result mac;
  lac_mac_options options = run->options->mac;
  bool validate = run->options->validation != 0;
  options.seed = run->options->seed;
  options.mu *= lac_run_mu_unit(&run->common);
  LAC_TRY(LAC_NEW(run->context, run->team->count, &shards));
  for (int shard = 0; shard < run->team->count; shard++) {
    shards[shard] = &run->trainers[shard];
  }
  lac_mac_problem problem = lac_hash_problem(run->common.bits, validate, run->trainers[0].subsample > 1);
  lac_status status = lac_mac_run(run->context, run->team, &problem, shards, &options, on_report, run, &mac);
  lac_free(shards);
  result->iterations = mac.iterations;
  result->w_seconds = mac.w_seconds;
  result->z_seconds = mac.z_seconds;
  result->messages = mac.messages;
  result->bytes = mac.bytes;
  result->score = mac.score;
  return status;
}

static lac_status learn_and_finish(lac_run *run, lac_hash_result *result) {
  if (run->options->method == LAC_HASH_BA) {
    LAC_TRY(learn(run, result));
  }
  tell(run, "finish", NULL);
  LAC_TRY(finish(run, result));
  return count_control(run, result);
}

static lac_status run_training(lac_run *run, lac_hash **model, lac_hash_result *result) {
  const lac_hash_options *options = run->options;
  tell(run, "scan", NULL);
  LAC_TRY(check_shards(run));
  LAC_TRY(lac_hash_options_check(run->context, options, run->common.columns));
  LAC_TRY(lac_statistics_create(run->context, run->team, run->data, options->threads, &run->statistics));
  result->points = run->statistics.points;
  LAC_TRY(set_units(run));
  LAC_TRY(LAC_NEW(run->context, run->team->count, &run->trainers));
  tell(run, "init", NULL);
  for (int shard = 0; shard < run->team->count; shard++) {
    run->trainers[shard].x = run->trainers[shard].input = lac_run_rows(run->data[shard], run->scale, run->shift);
  }
  if (options->encoder == LAC_ENCODER_RBF) {
    LAC_TRY(lac_run_set_features(run));
  }
  warn_of_subsample(run);
  for (int shard = 0; shard < run->team->count; shard++) {
    LAC_TRY(lac_trainer_create(run->context, &run->common, run->team->first + shard, &run->trainers[shard]));
    run->trainers[shard].subsample = lac_subsample(options, run->statistics.points, run->common.columns);
  }
  LAC_TRY(lac_run_begin(run));
  result->init_seconds = lac_seconds() - run->start;
  lac_status status = learn_and_finish(run, result);
  if (status == LAC_E_INTERRUPTED) {
    LAC_TRY(export_model(run, model)); /* the shards hold their last accepted state */
    LAC_TRY(note_interrupt(run, *model, result));
  }
  LAC_TRY(status);
  LAC_TRY(export_model(run, model));
  result->total_seconds = lac_seconds() - run->start;
  return note_run(run, *model, result);
}

static void clear_run(lac_run *run) {
  for (int shard = 0; run->trainers && shard < run->team->count; shard++) {
    lac_trainer_clear(&run->trainers[shard]);
  }
  for (int shard = 0; run->features && shard < run->team->count; shard++) {
    if (run->feature_data) {
      lac_dataset_destroy(&run->feature_data[shard]);
    }
    lac_free(run->features[shard]);
  }
  lac_free(run->features);
  lac_free(run->feature_data);
  lac_free(run->trainers);
  lac_free(run->statistics.mean);
  lac_free(run->shift);
  lac_free(run->vectors);
  lac_free(run->factors);
  lac_free(run->centres);
  lac_free(run->feature_shift);
}

lac_status lac_hash_train(lac_context *context, const lac_team *team, const lac_dataset *const *shards,
                          const lac_hash_options *options, lac_hash_progress_fn progress, void *user, lac_hash **model,
                          lac_hash_result *result) {
  lac_run run = {.context = context,
                 .options = options,
                 .team = team,
                 .data = shards,
                 .progress = progress,
                 .user = user,
                 .start = lac_seconds()};
  *model = NULL;
  *result = (lac_hash_result){.score = NAN};
  run.common = (lac_training){.options = options,
                              .team = *team,
                              .bits = options->bits,
                              .words = (options->bits + 63) / 64,
                              .columns = lac_dataset_columns(shards[0]),
                              .features = lac_dataset_columns(shards[0])};
  lac_status status = run_training(&run, model, result);
  if (status && status != LAC_E_INTERRUPTED) {
    lac_hash_destroy(model);
  }
  clear_run(&run);
  return status;
}
