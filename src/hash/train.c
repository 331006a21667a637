/* Training a hash model: from shards of data to a model in units of the data. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/profile.h"
#include "hash/start.h"
#include "hash/trainer.h"
#include "math/blas.h"

/* Defaults that depend on the data. */
enum {
  LAC_PRECONDITIONED = 16,     /* directions of largest variance whose variance is levelled */
  LAC_START_ROWS = 10,         /* rows per column that the autoencoder's start is found from … */
  LAC_START_LEAST = 10000,     /* … at least, over all shards */
  LAC_SAMPLE_DEFAULT = 100000, /* for PCA and ITQ as methods of their own */
  LAC_VALIDATION_QUERIES = 200,
};

/* A run of lac_hash_train. */
typedef struct lac_run {
  lac_context *context;
  const lac_hash_options *options;
  const lac_team *team;
  const lac_dataset *const *data;
  lac_training common;
  lac_statistics statistics;
  float scale, *shift;      /* x' = scale x + shift; (padded D) */
  lac_trainer *trainers;    /* (shards here) */
  float *vectors, *factors; /* of the preconditioner */
  float *centres;           /* (m, D) in units of the data */
  float *feature_shift;     /* (padded m) */
  double width;             /* s of the RBF */
  uint8_t **features;       /* by shard here: (rows, m) */
  lac_dataset **feature_data;
  lac_hash_progress_fn progress;
  void *user;
  double start;
} lac_run;

/* mu is given in units of the data's variance per bit: the same values then serve all data sets and lengths of codes.
 */
static double mu_unit(const lac_training *common) {
  return common->variance / (double)common->bits;
}

static void tell(const lac_run *run, const char *phase, const lac_mac_report *report) {
  if (!run->progress || run->team->first != 0) {
    return;
  }
  lac_hash_progress progress = {.phase = phase};
  if (report) {
    double total = (double)report->points * run->common.variance;
    progress.mac = *report;
    progress.mac.mu /= mu_unit(&run->common);
    progress.e_q = report->penalised / total;
    progress.e_ba = report->nested / total;
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

/* Whether the start needs principal components: as many as bits. */
static bool needs_components(const lac_hash_options *options) {
  return options->method == LAC_HASH_PCA || options->method == LAC_HASH_ITQ ||
         (options->method == LAC_HASH_BA && options->init != LAC_INIT_RANDOM);
}

lac_status lac_hash_options_check(lac_context *context, const lac_hash_options *options, int64_t columns) {
  LAC_TRY(lac_options_check(context, lac_hash_option_table(), options));
  if (needs_components(options) && options->bits > columns) {
    return lac_fail(context, LAC_E_INPUT,
                    "--bits: found %" PRId64 " bits for %" PRId64
                    " columns; a start or method with principal components takes at most as many bits as columns",
                    options->bits, columns);
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

static lac_rows rows_of(const lac_dataset *data, float scale, const float *shift) {
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

/* ---- the RBF encoder's inputs ---- */

/* Centres are points of the data, drawn from all shards: with the model they are the only points that travel. */
static lac_status draw_centres(lac_run *run) {
  int64_t m = run->options->centres, columns = run->common.columns;
  const lac_team *team = run->team;
  const lac_rows **views = NULL;
  double *mine = NULL, *all = NULL;
  int64_t *mark = NULL, *before = NULL;
  lac_start_sample sample = {0};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count, &views), done);
  for (int shard = 0; shard < team->count; shard++) {
    views[shard] = &run->trainers[shard].x;
  }
  /* Rounded up shares give m rows or a few more, in shard order; the first m are taken. */
  LAC_TRY_GOTO(status, lac_start_sample_create(run->context, team, views, run->options->seed, m, &sample), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count * team->total, &mark), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->total, &before), done);
  for (int shard = 0; shard < team->count; shard++) {
    mark[shard * team->total + team->first + shard] = sample.counts[shard];
  }
  LAC_TRY_GOTO(status, lac_team_sum_i64(run->context, team, mark, team->total, before), done);
  if (sample.total < m) {
    status = lac_fail(run->context, LAC_E_INPUT,
                      "--centres: found %" PRId64 " for %" PRId64 " points, expected at most as many", m, sample.total);
    goto done;
  }
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count * m * columns, &mine), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, m * columns, &all), done);
  for (int shard = 0; shard < team->count; shard++) {
    int64_t place = 0;
    for (int other = 0; other < team->first + shard; other++) {
      place += before[other];
    }
    for (int64_t i = 0; i < sample.counts[shard] && place + i < m; i++) {
      for (int64_t c = 0; c < columns; c++) {
        double value = (double)sample.rows[shard][i * lac_padded(columns) + c];
        mine[(shard * m + place + i) * columns + c] = (value - (double)run->shift[c]) / (double)run->scale;
      }
    }
  }
  LAC_TRY_GOTO(status, lac_team_sum_f64(run->context, team, mine, m * columns, all), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, m * columns, &run->centres), done);
  for (int64_t i = 0; i < m * columns; i++) {
    run->centres[i] = (float)all[i];
  }
  run->width = run->options->width > 0 ? run->options->width : sqrt(run->statistics.variance);
done:
  lac_free(views);
  lac_free(mine);
  lac_free(all);
  lac_free(mark);
  lac_free(before);
  lac_start_sample_clear(team, &sample);
  return status;
}

/* Features of one shard's rows, and their column sums (m). */
static lac_status make_features(lac_run *run, const lac_rbf *rbf, int shard, double *sums) {
  int64_t m = run->options->centres, columns = run->common.columns, rows = run->trainers[shard].x.count;
  float *block = NULL, *scratch = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, rows * m, &run->features[shard]), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, LAC_BLOCK * columns, &block), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, lac_rbf_scratch(rbf), &scratch), done);
  for (int64_t first = 0; first < rows; first += LAC_BLOCK) {
    int64_t n = rows - first < LAC_BLOCK ? rows - first : LAC_BLOCK;
    uint8_t *out = run->features[shard] + first * m;
    LAC_TRY_GOTO(status, lac_dataset_read_f32(run->context, run->data[shard], first, n, block), done);
    lac_rbf_features(rbf, block, n, scratch, out);
    for (int64_t i = 0; i < n * m; i++) {
      sums[i % m] += out[i];
    }
    if (lac_context_interrupted(run->context)) {
      status = lac_fail(run->context, LAC_E_INTERRUPTED, "interrupted while computing features");
      goto done;
    }
  }
  LAC_TRY_GOTO(
      status,
      lac_dataset_borrow(run->context, run->features[shard], LAC_U8, rows, m, (size_t)m, &run->feature_data[shard]),
      done);
done:
  lac_free(block);
  lac_free(scratch);
  return status;
}

/* A width far above the distances makes all features 1, one far below them 0 but at the centres themselves: then there
 * is nothing to learn. `total` (m) are sums of bytes over all points. */
static lac_status check_features(const lac_run *run, const double *total, int64_t m) {
  const double full = 255 * (double)run->statistics.points, hardly = 0.5 / 255;
  double most = 0;
  for (int64_t i = 0; i < m; i++) {
    most = fmax(most, fmin(total[i], full - total[i]) / full);
  }
  if (most >= hardly && most > 1 / (double)run->statistics.points) {
    return LAC_OK;
  }
  return lac_fail(run->context, LAC_E_INPUT,
                  "--width: found %g, with which all features of the RBF encoder are nearly %s everywhere; distances "
                  "between points are about %g",
                  run->width, total[0] > full / 2 ? "1" : "0", sqrt(2 * run->statistics.variance));
}

static lac_status set_features(lac_run *run) {
  int64_t m = run->options->centres;
  const lac_team *team = run->team;
  double *sums = NULL, *total = NULL;
  lac_rbf *rbf = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, draw_centres(run), done);
  LAC_TRY_GOTO(status, lac_rbf_create(run->context, run->centres, m, run->common.columns, run->width, &rbf), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count, &run->features), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count, &run->feature_data), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count * m, &sums), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, m, &total), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, lac_padded(m), &run->feature_shift), done);
  for (int shard = 0; shard < team->count; shard++) {
    LAC_TRY_GOTO(status, make_features(run, rbf, shard, sums + shard * m), done);
  }
  LAC_TRY_GOTO(status, lac_team_sum_f64(run->context, team, sums, m, total), done);
  LAC_TRY_GOTO(status, check_features(run, total, m), done);
  for (int64_t i = 0; i < m; i++) {
    run->feature_shift[i] = (float)(-total[i] / ((double)run->statistics.points * 255));
  }
  for (int shard = 0; shard < team->count; shard++) {
    run->trainers[shard].input = rows_of(run->feature_data[shard], 1.0F / 255, run->feature_shift);
  }
  run->common.features = m;
done:
  lac_rbf_destroy(&rbf);
  lac_free(sums);
  lac_free(total);
  return status;
}

/* ---- the start ---- */

/* Levels the `count` - 1 largest of `count` eigenvalues to the last one. */
static lac_status set_preconditioner(lac_run *run, int64_t count, const double *values, const float *vectors,
                                     double trace) {
  int64_t padded = lac_padded(run->common.features), rank = count - 1;
  LAC_TRY(LAC_NEW(run->context, count * padded, &run->vectors));
  LAC_TRY(LAC_NEW(run->context, count, &run->factors));
  double floor = fmax(values[count - 1], 1e-6 * values[0]);
  memcpy(run->vectors, vectors, (size_t)(rank * padded) * sizeof *vectors);
  for (int64_t i = 0; i < rank; i++) {
    run->factors[i] = (float)fmax(1 - floor / fmax(values[i], floor), 0);
    trace -= fmax(values[i] - floor, 0);
  }
  run->common.precondition = (lac_preconditioner){rank, run->vectors, run->factors, floor, fmax(trace, floor)};
  return LAC_OK;
}

static lac_status sample_of(lac_run *run, bool inputs, int64_t total, lac_start_sample *sample) {
  const lac_rows **views;
  LAC_TRY(LAC_NEW(run->context, run->team->count, &views));
  for (int shard = 0; shard < run->team->count; shard++) {
    views[shard] = inputs ? &run->trainers[shard].input : &run->trainers[shard].x;
  }
  lac_status status = lac_start_sample_create(run->context, run->team, views, run->options->seed, total, sample);
  lac_free(views);
  return status;
}

int64_t lac_start_rows(const lac_hash_options *options, int64_t columns) {
  if (options->sample > 0) {
    return options->sample;
  }
  if (options->method != LAC_HASH_BA) {
    return LAC_SAMPLE_DEFAULT;
  }
  return columns * LAC_START_ROWS > LAC_START_LEAST ? columns * LAC_START_ROWS : LAC_START_LEAST;
}

static lac_status warn_of_duplicates(lac_run *run, const lac_start_sample *sample) {
  int64_t duplicates;
  LAC_TRY(lac_start_duplicates(run->context, run->team, sample, lac_padded(run->common.columns), &duplicates));
  if (duplicates > 0 && run->team->first == 0) {
    lac_context_log(run->context, LAC_LOG_WARNING, "%s: %" PRId64 " of %" PRId64 " sampled points equal another one",
                    lac_dataset_path(run->data[0]), duplicates, sample->total);
  }
  return LAC_OK;
}

/* Encoder weights (L, padded D) of the start, and the preconditioner of a linear encoder. */
static lac_status start_weights(lac_run *run, float *weight) {
  const lac_hash_options *options = run->options;
  int64_t columns = run->common.columns, padded = lac_padded(columns), bits = options->bits;
  bool precondition = options->method == LAC_HASH_BA && options->encoder == LAC_ENCODER_LINEAR;
  int64_t rank = precondition ? LAC_PRECONDITIONED + 1 : 0;
  int64_t count = needs_components(options) && bits > rank ? bits : rank;
  count = count < columns ? count : columns;
  lac_start_sample sample = {0};
  double *values = NULL, trace = 0;
  float *vectors = NULL;
  lac_status status = LAC_OK;
  if (options->method == LAC_HASH_LSH) {
    lac_start_random(columns, bits, options->seed, weight);
    return LAC_OK;
  }
  LAC_TRY_GOTO(status, LAC_NEW(run->context, count, &values), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, count * padded, &vectors), done);
  LAC_TRY_GOTO(status, sample_of(run, false, lac_start_rows(options, columns), &sample), done);
  LAC_TRY_GOTO(status, warn_of_duplicates(run, &sample), done);
  if (count > 0) {
    LAC_TRY_GOTO(status, lac_start_pca(run->context, run->team, &sample, columns, count, values, vectors, &trace),
                 done);
  }
  if (precondition) {
    LAC_TRY_GOTO(status, set_preconditioner(run, rank < count ? rank : count, values, vectors, trace), done);
  }
  if (needs_components(options)) {
    memcpy(weight, vectors, (size_t)(bits * padded) * sizeof *weight);
  } else {
    lac_start_random(columns, bits, options->seed, weight);
  }
  if (options->method == LAC_HASH_ITQ || (options->method == LAC_HASH_BA && options->init == LAC_INIT_ITQ)) {
    LAC_TRY_GOTO(status, lac_start_itq(run->context, run->team, &sample, padded, bits, options->seed, weight), done);
  }
  if (options->method == LAC_HASH_BA) {
    LAC_TRY_GOTO(status, lac_start_scale(run->context, run->team, &sample, padded, bits, weight), done);
  }
done:
  lac_free(values);
  lac_free(vectors);
  lac_start_sample_clear(run->team, &sample);
  return status;
}

static lac_status precondition_features(lac_run *run) {
  int64_t m = run->common.features, count = m < LAC_PRECONDITIONED + 1 ? m : LAC_PRECONDITIONED + 1;
  lac_start_sample sample = {0};
  double *values = NULL, trace;
  float *vectors = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, count, &values), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, count * lac_padded(m), &vectors), done);
  LAC_TRY_GOTO(status, sample_of(run, true, lac_start_rows(run->options, m), &sample), done);
  LAC_TRY_GOTO(status, lac_start_pca(run->context, run->team, &sample, m, count, values, vectors, &trace), done);
  status = set_preconditioner(run, count, values, vectors, trace);
done:
  lac_free(values);
  lac_free(vectors);
  lac_start_sample_clear(run->team, &sample);
  return status;
}

/* Sums over all shards for the current codes, and the decoder from them at every shard here. */
static lac_status fit_decoder(lac_run *run, double *explained) {
  const lac_training *common = &run->common;
  int64_t size = (common->bits + 1) * (common->bits + 1 + common->columns);
  double *mine = NULL, *all = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, run->team->count * size, &mine), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, size, &all), done);
  for (int shard = 0; shard < run->team->count; shard++) {
    LAC_TRY_GOTO(status, lac_sums_update(run->context, &run->trainers[shard]), done);
    memcpy(mine + shard * size, run->trainers[shard].local, (size_t)size * sizeof *mine);
  }
  LAC_TRY_GOTO(status, lac_team_sum_f64(run->context, run->team, mine, size, all), done);
  for (int shard = 0; shard < run->team->count; shard++) {
    LAC_TRY_GOTO(status, lac_decoder_solve(run->context, common, all, run->trainers[shard].model.decoder, explained),
                 done);
  }
done:
  lac_free(mine);
  lac_free(all);
  return status;
}

int64_t lac_validation_queries(const lac_hash_options *options, int64_t points) {
  if (options->validation >= 0) {
    return options->validation;
  }
  return points / 20 < LAC_VALIDATION_QUERIES ? points / 20 : LAC_VALIDATION_QUERIES;
}

static lac_status start_validation(lac_run *run) {
  const lac_hash_options *options = run->options;
  int64_t points = run->statistics.points, total = run->team->total;
  int64_t queries = lac_validation_queries(options, points);
  for (int shard = 0; shard < run->team->count; shard++) {
    lac_trainer *trainer = &run->trainers[shard];
    int64_t number = trainer->number, mine = (number + 1) * queries / total - number * queries / total;
    int64_t base = options->validation_base / total;
    base = base > 1000 ? base : 1000;
    base = base < trainer->x.count - mine ? base : trainer->x.count - mine;
    int64_t k = options->validation_k < base / 4 ? options->validation_k : base / 4;
    if (mine > 0 && k > 0) {
      LAC_TRY(lac_validation_create(run->context, trainer, mine, base, k));
    }
  }
  return LAC_OK;
}

static lac_status make_start(lac_run *run) {
  const lac_hash_options *options = run->options;
  int64_t padded = lac_padded(run->common.columns);
  float *weight = NULL;
  double explained;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, options->bits * padded, &weight), done);
  LAC_TRY_GOTO(status, start_weights(run, weight), done);
  for (int shard = 0; shard < run->team->count; shard++) {
    lac_trainer *trainer = &run->trainers[shard];
    /* The start's codes come from x also where the encoder will see features. */
    lac_trainer linear = *trainer;
    linear.input = trainer->x;
    linear.model.weight = weight; /* the bias is zero */
    LAC_TRY_GOTO(status, lac_trainer_encode(run->context, &linear, trainer->codes), done);
    if (options->encoder == LAC_ENCODER_LINEAR) {
      memcpy(trainer->model.weight, weight, (size_t)(options->bits * padded) * sizeof *weight);
    }
  }
  LAC_TRY_GOTO(status, fit_decoder(run, &explained), done);
  if (options->method != LAC_HASH_BA) {
    goto done;
  }
  if (options->encoder == LAC_ENCODER_RBF) {
    LAC_TRY_GOTO(status, precondition_features(run), done);
  }
  for (int shard = 0; shard < run->team->count; shard++) {
    run->trainers[shard].relaxed_starts = options->relaxed_starts;
    lac_mac_sums sums;
    /* A linear start separates its own codes already: the first W step is to learn better ones. */
    if (options->encoder == LAC_ENCODER_LINEAR) {
      LAC_TRY_GOTO(status,
                   lac_z_step(&run->trainers[shard], run->context, options->mac.mu * mu_unit(&run->common), &sums),
                   done);
    }
  }
  status = start_validation(run);
done:
  lac_free(weight);
  return status;
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
    LAC_TRY(lac_trainer_encode(run->context, &run->trainers[shard], run->trainers[shard].codes));
  }
  LAC_TRY(fit_decoder(run, &explained));
  result->e_ba = (square - explained) / square;
  return LAC_OK;
}

static lac_status learn(lac_run *run, lac_hash_result *result) {
  void **shards;
  lac_mac_result mac;
  lac_mac_options options = run->options->mac;
  bool validate = run->options->validation != 0;
  options.seed = run->options->seed;
  options.mu *= mu_unit(&run->common);
  LAC_TRY(LAC_NEW(run->context, run->team->count, &shards));
  for (int shard = 0; shard < run->team->count; shard++) {
    shards[shard] = &run->trainers[shard];
  }
  lac_mac_problem problem = lac_hash_problem(run->common.bits, validate);
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
    run->trainers[shard].x = run->trainers[shard].input = rows_of(run->data[shard], run->scale, run->shift);
  }
  if (options->encoder == LAC_ENCODER_RBF) {
    LAC_TRY(set_features(run));
  }
  for (int shard = 0; shard < run->team->count; shard++) {
    LAC_TRY(lac_trainer_create(run->context, &run->common, run->team->first + shard, &run->trainers[shard]));
  }
  LAC_TRY(make_start(run));
  result->init_seconds = lac_seconds() - run->start;
  lac_status status = learn_and_finish(run, result);
  if (status == LAC_E_INTERRUPTED) {
    LAC_TRY(export_model(run, model)); /* the shards hold their last accepted state */
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
