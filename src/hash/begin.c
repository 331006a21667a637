/* How a run begins: what is validated, the first model, its codes and decoder. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "hash/run.h"

/* Defaults that depend on the data. */
enum {
  LAC_PRECONDITIONED = 16,     /* directions of largest variance whose variance is levelled */
  LAC_START_ROWS = 10,         /* rows per column that the autoencoder's start is found from … */
  LAC_START_LEAST = 10000,     /* … at least, over all shards */
  LAC_START_ATTEMPTS = 8,      /* of ITQ for the autoencoder's start, at most; as many … */
  LAC_START_BITS = 128,        /* … as this over the bits: short codes depend most on where they start */
  LAC_SAMPLE_DEFAULT = 100000, /* for PCA and ITQ as methods of their own */
  LAC_VALIDATION_QUERIES = 200,
  LAC_SUBSAMPLE_ROWS = 15,     /* rows per input that a subsample keeps … */
  LAC_SUBSAMPLE_LEAST = 15000, /* … at least, over all shards … */
  LAC_SUBSAMPLE_MOST = 8,      /* … and no less than one in this many: what is left of the cost is little by then */
};

lac_status lac_run_fit_decoder(lac_run *run, double *explained) {
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
  LAC_TRY(lac_start_duplicates(run->context, run->team, sample, &duplicates));
  if (duplicates > 0 && run->team->first == 0) {
    lac_context_log(run->context, LAC_LOG_WARNING, "%s: %" PRId64 " of %" PRId64 " sampled points equal another one",
                    lac_dataset_path(run->data[0]), duplicates, sample->total);
  }
  return LAC_OK;
}

int64_t lac_validation_queries(const lac_hash_options *options, int64_t points) {
  if (options->validation >= 0) {
    return options->validation;
  }
  return points / 20 < LAC_VALIDATION_QUERIES ? points / 20 : LAC_VALIDATION_QUERIES;
}

int64_t lac_subsample(const lac_hash_options *options, int64_t points, int64_t columns) {
  int64_t inputs = options->encoder == LAC_ENCODER_RBF ? options->centres : columns;
  int64_t least = inputs * LAC_SUBSAMPLE_ROWS > LAC_SUBSAMPLE_LEAST ? inputs * LAC_SUBSAMPLE_ROWS : LAC_SUBSAMPLE_LEAST;
  int64_t chosen = points / least < LAC_SUBSAMPLE_MOST ? points / least : LAC_SUBSAMPLE_MOST;
  if (options->method != LAC_HASH_BA || options->mac.full_iterations >= options->mac.iterations) {
    return 1;
  }
  return options->subsample > 0 ? options->subsample : chosen > 1 ? chosen : 1;
}

static lac_status start_validation(lac_run *run) {
  const lac_hash_options *options = run->options;
  int64_t points = run->statistics.points, total = run->team->total;
  int64_t queries = lac_validation_queries(options, points);
  for (int shard = 0; shard < run->team->count; shard++) {
    lac_trainer *trainer = &run->trainers[shard];
    int64_t number = trainer->number, mine = (number + 1) * queries / total - number * queries / total;
    int64_t base = options->validation_base / total;
    int64_t taking_part = lac_subsample_rows(trainer->x.count, trainer->subsample);
    mine = mine < taking_part / 2 ? mine : taking_part / 2; /* of few rows that take part half at most are queries */
    base = base > 1000 ? base : 1000;
    base = base < taking_part - mine ? base : taking_part - mine;
    int64_t k = options->validation_k < base / 4 ? options->validation_k : base / 4;
    if (mine > 0 && k > 0) {
      LAC_TRY(lac_validation_create(run->context, trainer, mine, base, k));
    }
  }
  return LAC_OK;
}

/* Which of `attempts` linear encoders without bias, weights (attempts, L, padded D), has the best validation precision
 * over all shards; the first where nothing is validated. */
static lac_status choose_start(lac_run *run, int64_t attempts, const float *weights, int64_t *best) {
  int64_t shards = run->team->count;
  double(*mine)[2] = NULL, *all = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, shards * attempts, &mine), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, 2 * attempts, &all), done);
  for (int64_t shard = 0; !status && shard < shards; shard++) {
    status = lac_validate_starts(&run->trainers[shard], run->context, attempts, weights, mine + shard * attempts);
  }
  if (run->team->world) {
    status = lac_world_agree(run->team->world, status);
  }
  LAC_TRY_GOTO(status, status, done);
  LAC_TRY_GOTO(status, lac_team_sum_f64(run->context, run->team, (const double *)mine, 2 * attempts, all), done);
  *best = 0; /* the number of queries is the same for all */
  for (int64_t attempt = 1; attempt < attempts; attempt++) {
    *best = all[2 * attempt] > all[2 * *best] ? attempt : *best;
  }
done:
  lac_free(mine);
  lac_free(all);
  return status;
}

/* ITQ of the components weight (L, padded D), in place. It ends in one of many optima of nearly equal error, of which
 * some keep more of the neighbours: an autoencoder starts from the best of several by the validation's measure. */
static lac_status turn_components(lac_run *run, const lac_start_sample *sample, float *weight) {
  const lac_hash_options *options = run->options;
  int64_t bits = options->bits, padded = lac_padded(run->common.columns), size = bits * padded, best = 0;
  bool choose = options->method == LAC_HASH_BA && options->encoder == LAC_ENCODER_LINEAR &&
                lac_validation_queries(options, run->statistics.points) > 0;
  int64_t attempts = LAC_START_BITS / bits < LAC_START_ATTEMPTS ? LAC_START_BITS / bits : LAC_START_ATTEMPTS;
  float *weights;
  attempts = choose && attempts > 1 ? attempts : 1;
  LAC_TRY(LAC_NEW(run->context, attempts * size, &weights));
  memcpy(weights, weight, (size_t)size * sizeof *weight);
  lac_status status = lac_start_itq(run->context, run->team, sample, padded, bits, options->seed, attempts, weights);
  if (!status && attempts > 1) {
    status = choose_start(run, attempts, weights, &best);
  }
  memcpy(weight, weights + best * size, (size_t)size * sizeof *weight);
  lac_free(weights);
  return status;
}

/* Encoder weights (L, padded D) of the start, and the preconditioner of a linear encoder. */
static lac_status start_weights(lac_run *run, float *weight) {
  const lac_hash_options *options = run->options;
  int64_t columns = run->common.columns, padded = lac_padded(columns), bits = options->bits;
  bool precondition = options->method == LAC_HASH_BA && options->encoder == LAC_ENCODER_LINEAR;
  int64_t rank = precondition ? LAC_PRECONDITIONED + 1 : 0;
  int64_t count = lac_run_needs_components(options) && bits > rank ? bits : rank;
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
  if (lac_run_needs_components(options)) {
    memcpy(weight, vectors, (size_t)(bits * padded) * sizeof *weight);
  } else {
    lac_start_random(columns, bits, options->seed, weight);
  }
  if (options->method == LAC_HASH_ITQ || (options->method == LAC_HASH_BA && options->init == LAC_INIT_ITQ)) {
    LAC_TRY_GOTO(status, turn_components(run, &sample, weight), done);
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

lac_status lac_run_begin(lac_run *run) {
  const lac_hash_options *options = run->options;
  int64_t padded = lac_padded(run->common.columns);
  float *weight = NULL;
  double explained;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, options->bits * padded, &weight), done);
  if (options->method == LAC_HASH_BA) {
    LAC_TRY_GOTO(status, start_validation(run), done);
  }
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
  LAC_TRY_GOTO(status, lac_run_fit_decoder(run, &explained), done);
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
      LAC_TRY_GOTO(
          status,
          lac_z_step(&run->trainers[shard], run->context, options->mac.mu * lac_run_mu_unit(&run->common), &sums),
          done);
    }
  }
done:
  lac_free(weight);
  return status;
}
