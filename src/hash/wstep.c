/* The W step's submodels: encoders by stochastic gradient descent, the decoder by sums.
 *
 * An encoder is a linear classifier of bit l of Z with the modified Huber loss of the slack s = 1 - y (w x + b): s^2
 * for s in [0, 1], 2 s - 1 above, 0 below. The loss is smooth, so that a block of rows gives one well-defined step, no
 * row pulls more than one on the plane, and the curvature is bounded by the covariance of the inputs, which sets the
 * step size without a search: eta_0 = step block / (2 trace), eta_t = eta_0 / (1 + t / t_0) with t counting samples
 * (Bottou's rule). The gradient is preconditioned in the few directions of largest variance.
 *
 * The decoder is the exact least-squares fit from [Z 1]^T [Z 1 X], which travels in L groups of columns and is complete
 * after one lap: a stochastic fit of the same size needs several laps and is never exact. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "base/random.h"
#include "hash/hinge.h"
#include "hash/trainer.h"
#include "math/blas.h"

/* Chosen by measurement on Fashion-MNIST at 16, 32 and 64 bits; see docs/benchmarks.md. */
static const double step_size = 0.1;
static const double step_samples = 12000; /* t_0 */
static const float bias_step = 0.5F;

enum { LAC_STATE_HEAD = sizeof(double) }; /* samples seen in this W step, then weights and bias */

static size_t encoder_bytes(int64_t features) {
  return LAC_STATE_HEAD + ((size_t)features + 1) / 2 * 2 * sizeof(float) + 2 * sizeof(float);
}

void lac_decoder_group(int64_t bits, int64_t columns, int64_t g, int64_t *first, int64_t *last) {
  int64_t all = bits + 1 + columns;
  *first = g * all / bits;
  *last = (g + 1) * all / bits;
}

size_t lac_submodel_bytes(int64_t bits, int64_t columns, int64_t features, int64_t m) {
  if (lac_is_encoder(m)) {
    return encoder_bytes(features);
  }
  int64_t first, last;
  lac_decoder_group(bits, columns, m / 2, &first, &last);
  return (size_t)(last - first) * (size_t)(bits + 1) * sizeof(double);
}

size_t lac_w_bytes(const void *shard, int64_t m) {
  const lac_training *common = ((const lac_trainer *)shard)->common;
  return lac_submodel_bytes(common->bits, common->columns, common->features, m);
}

lac_status lac_w_begin(void *shard, lac_context *context, int64_t iteration) {
  lac_trainer *trainer = shard;
  lac_random stream = lac_random_stream(trainer->common->options->seed, LAC_RANDOM_DATA_ORDER, (uint64_t)iteration,
                                        (uint64_t)trainer->number);
  const int64_t unit = LAC_BLOCK / LAC_CHUNK;
  int64_t rows = lac_subsample_rows(trainer->x.count, trainer->subsample);
  trainer->chunks = (rows + LAC_CHUNK - 1) / LAC_CHUNK;
  lac_random_permutation(&stream, trainer->chunks, trainer->order);
  for (int64_t c = 0; c < trainer->chunks; c++) {
    trainer->order[c] = lac_subsample_at(trainer, trainer->order[c], unit);
  }
  lac_validation_set_taken(trainer->validation, false); /* the encoder will change */
  return lac_sums_update(context, trainer);
}

lac_status lac_w_pack(void *shard, lac_context *context, int64_t m, void *state) {
  (void)context;
  const lac_trainer *trainer = shard;
  memset(state, 0, lac_w_bytes(shard, m));
  if (lac_is_encoder(m)) {
    float *weight = (float *)((char *)state + LAC_STATE_HEAD);
    int64_t features = trainer->input.columns, bit = m / 2;
    memcpy(weight, trainer->model.weight + bit * trainer->input.padded, (size_t)features * sizeof *weight);
    weight[features] = trainer->model.bias[bit];
  }
  return LAC_OK;
}

lac_status lac_w_unpack(void *shard, lac_context *context, int64_t m, const void *state) {
  (void)context;
  lac_trainer *trainer = shard;
  const lac_training *common = trainer->common;
  if (lac_is_encoder(m)) {
    const float *weight = (const float *)((const char *)state + LAC_STATE_HEAD);
    int64_t bit = m / 2;
    memcpy(trainer->model.weight + bit * trainer->input.padded, weight, (size_t)common->features * sizeof *weight);
    trainer->model.bias[bit] = weight[common->features];
    return LAC_OK;
  }
  int64_t first, last;
  lac_decoder_group(common->bits, common->columns, m / 2, &first, &last);
  const double *sums = state;
  int64_t width = last - first, stride = common->bits + 1 + common->columns;
  for (int64_t l = 0; l <= common->bits; l++) {
    memcpy(trainer->sums + l * stride + first, sums + l * width, (size_t)width * sizeof *sums);
  }
  return LAC_OK;
}

lac_status lac_w_end(void *shard, lac_context *context) {
  lac_trainer *trainer = shard;
  double explained;
  return lac_decoder_solve(context, trainer->common, trainer->sums, trainer->model.decoder, &explained);
}

/* ---- a block of rows in the redrawn order ---- */

/* A block is worked through in parts, which stay in the second-level cache from their expansion to their last use. */
enum { LAC_PART = 2 * LAC_CHUNK };

typedef struct lac_block {
  int64_t rows[LAC_BLOCK]; /* row numbers */
  int64_t count;
} lac_block;

static void next_block(const lac_trainer *trainer, int64_t chunk, lac_block *block) {
  block->count = 0;
  for (int64_t c = chunk; c < chunk + LAC_BLOCK / LAC_CHUNK && c < trainer->chunks; c++) {
    int64_t first = trainer->order[c] * LAC_CHUNK;
    for (int64_t i = first; i < first + LAC_CHUNK && i < trainer->x.count; i++) {
      block->rows[block->count++] = i;
    }
  }
}

/* The part that begins with this chunk is on its way from memory while the one before it is worked on. */
static void fetch_part(const lac_trainer *trainer, int64_t chunk) {
  for (int64_t c = chunk; c < chunk + LAC_PART / LAC_CHUNK && c < trainer->chunks; c++) {
    int64_t first = trainer->order[c] * LAC_CHUNK, rest = trainer->x.count - first;
    lac_rows_ahead(&trainer->input, first, rest < LAC_CHUNK ? rest : LAC_CHUNK);
  }
}

/* ---- encoders ---- */

typedef struct lac_encoder_part {
  int64_t count;
  const int64_t *bits;
  void *const *states;
  lac_hinge_kernel kernel;
  float *weight, *gradient; /* (count, padded) */
  int32_t *half, *left;     /* (count): where the bit of each is in a code, see hash/hinge.h */
  float *bias;              /* (count) */
  float *eta, *total;       /* (count), of a block: step sizes and sums of -dloss/dmargin */
  float *factors;           /* (LAC_PART, count): margins, then the factors of the rows in the gradient */
  float *directions;        /* (count, rank), and its transpose (rank, count) behind it */
  double *samples;          /* (count) */
} lac_encoder_part;

/* Bottou's rule: what the step size is divided by. */
static double slower_by(const lac_encoder_part *part, int64_t j) {
  return 1 + part->samples[j] / step_samples;
}

/* Before a block of so many rows. */
static void begin_block(const lac_trainer *trainer, int64_t rows, lac_encoder_part *part) {
  const lac_preconditioner *precondition = &trainer->common->precondition;
  for (int64_t j = 0; j < part->count; j++) {
    double step = step_size * (double)LAC_BLOCK / (2 * precondition->trace);
    step = fmin(step, 0.5 / precondition->floor) / slower_by(part, j);
    part->eta[j] = (float)(2 * step / (double)rows);
    part->total[j] = 0;
  }
  memset(part->gradient, 0, (size_t)(part->count * trainer->input.padded) * sizeof *part->gradient);
}

/* Adds the gradient of n rows; input (n, padded) is scratch. */
static lac_status add_rows(lac_context *context, const lac_trainer *trainer, const int64_t *rows, int64_t n,
                           float *input, lac_encoder_part *part) {
  int64_t padded = trainer->input.padded, count = part->count;
  const lac_hinge hinge = {count, part->half, part->left, part->bias, part->eta, part->total};
  for (int64_t i = 0, run; i < n; i += run) {
    for (run = 1; i + run < n && rows[i + run] == rows[i] + run;) {
      run++;
    }
    LAC_TRY(lac_rows_products(context, &trainer->input, rows[i], run, count, part->weight, input + i * padded,
                              part->factors + i * count));
  }
  part->kernel(&hinge, trainer->codes, trainer->common->words, rows, n, part->factors);
  trainer->input.kernels->accumulate(n, count, padded, input, part->factors, count, part->gradient);
  return LAC_OK;
}

/* The step of a block of so many rows. */
static void end_block(const lac_trainer *trainer, int64_t rows, lac_encoder_part *part) {
  const lac_preconditioner *precondition = &trainer->common->precondition;
  const lac_linear_kernels *kernels = trainer->input.kernels;
  int64_t padded = trainer->input.padded, count = part->count, rank = precondition->rank;
  for (int64_t j = 0; j < count; j++) {
    part->bias[j] += bias_step / (float)slower_by(part, j) * part->total[j] / (float)rows;
    part->samples[j] += (double)rows;
  }
  if (rank > 0) {
    float *along = part->directions, *back = along + count * rank;
    kernels->products(count, rank, padded, part->gradient, precondition->vectors, along, rank);
    for (int64_t j = 0; j < count; j++) {
      for (int64_t k = 0; k < rank; k++) {
        back[k * count + j] = -precondition->factors[k] * along[j * rank + k];
      }
    }
    kernels->accumulate(rank, count, padded, precondition->vectors, back, count, part->gradient);
  }
  float shrink = (float)(1 - fmin(trainer->common->options->penalty, 1) * 1e-3);
  for (int64_t i = 0; i < count * padded; i++) {
    part->weight[i] = part->weight[i] * shrink + part->gradient[i];
  }
}

static lac_status encoder_part_create(lac_context *context, const lac_trainer *trainer, lac_encoder_part *part) {
  int64_t padded = trainer->input.padded, count = part->count;
  LAC_TRY(LAC_NEW(context, count * padded, &part->weight));
  LAC_TRY(LAC_NEW(context, count * padded, &part->gradient));
  LAC_TRY(LAC_NEW(context, count, &part->bias));
  LAC_TRY(LAC_NEW(context, count, &part->half));
  LAC_TRY(LAC_NEW(context, count, &part->left));
  LAC_TRY(LAC_NEW(context, count, &part->eta));
  LAC_TRY(LAC_NEW(context, count, &part->total));
  LAC_TRY(LAC_NEW(context, count, &part->samples));
  LAC_TRY(LAC_NEW(context, count * LAC_PART, &part->factors));
  LAC_TRY(LAC_NEW(context, 2 * count * trainer->common->precondition.rank, &part->directions));
  part->kernel = lac_hinge_kernel_of(lac_cpu_isa());
  for (int64_t j = 0; j < count; j++) {
    const float *weight = (const float *)((const char *)part->states[j] + LAC_STATE_HEAD);
    part->half[j] = (int32_t)(part->bits[j] / 32);
    part->left[j] = (int32_t)(31 - part->bits[j] % 32);
    memcpy(part->weight + j * padded, weight, (size_t)trainer->input.columns * sizeof *weight);
    part->bias[j] = weight[trainer->input.columns];
    memcpy(&part->samples[j], part->states[j], sizeof part->samples[j]);
  }
  return LAC_OK;
}

static void encoder_part_store(const lac_trainer *trainer, const lac_encoder_part *part) {
  for (int64_t j = 0; j < part->count; j++) {
    float *weight = (float *)((char *)part->states[j] + LAC_STATE_HEAD);
    memcpy(weight, part->weight + j * trainer->input.padded, (size_t)trainer->input.columns * sizeof *weight);
    weight[trainer->input.columns] = part->bias[j];
    memcpy(part->states[j], &part->samples[j], sizeof part->samples[j]);
  }
}

static void encoder_part_clear(lac_encoder_part *part) {
  lac_free(part->weight);
  lac_free(part->gradient);
  lac_free(part->bias);
  lac_free(part->half);
  lac_free(part->left);
  lac_free(part->eta);
  lac_free(part->total);
  lac_free(part->samples);
  lac_free(part->factors);
  lac_free(part->directions);
}

/* ---- one visit ---- */

typedef struct lac_visit {
  lac_trainer *trainer;
  int64_t count;       /* encoders */
  const int64_t *bits; /* (count), the bit of each */
  void *const *states;
  int64_t passes;
  int64_t parts; /* each thread takes a contiguous part of the encoders */
} lac_visit;

/* One block, which begins with this chunk. */
static lac_status run_block(lac_context *context, const lac_trainer *trainer, int64_t chunk, float *input,
                            lac_encoder_part *part) {
  lac_block block;
  next_block(trainer, chunk, &block);
  begin_block(trainer, block.count, part);
  for (int64_t from = 0; from < block.count; from += LAC_PART) {
    int64_t to = from + LAC_PART < block.count ? from + LAC_PART : block.count;
    fetch_part(trainer, chunk + to / LAC_CHUNK);
    LAC_TRY(add_rows(context, trainer, block.rows + from, to - from, input, part));
  }
  end_block(trainer, block.count, part);
  return LAC_OK;
}

static lac_status run_passes(lac_context *context, const lac_visit *visit, lac_encoder_part *part) {
  const lac_trainer *trainer = visit->trainer;
  float *input;
  LAC_TRY(LAC_NEW(context, LAC_PART * trainer->input.padded, &input));
  lac_status status = LAC_OK;
  for (int64_t pass = 0; !status && pass < visit->passes; pass++) {
    for (int64_t chunk = 0; !status && chunk < trainer->chunks; chunk += LAC_BLOCK / LAC_CHUNK) {
      status = run_block(context, trainer, chunk, input, part);
      if (!status && lac_context_interrupted(context)) {
        status = lac_fail(context, LAC_E_INTERRUPTED, "interrupted in a W step");
      }
    }
  }
  lac_free(input);
  return status;
}

static lac_status visit_part(void *argument, lac_context *context, int64_t number, int thread) {
  (void)thread;
  const lac_visit *visit = argument;
  int64_t from = number * visit->count / visit->parts, to = (number + 1) * visit->count / visit->parts;
  lac_encoder_part part = {.count = to - from, .bits = visit->bits + from, .states = visit->states + from};
  if (part.count == 0) {
    return LAC_OK;
  }
  lac_status status = encoder_part_create(context, visit->trainer, &part);
  if (!status) {
    status = run_passes(context, visit, &part);
  }
  if (!status) {
    encoder_part_store(visit->trainer, &part);
  }
  encoder_part_clear(&part);
  return status;
}

/* A group's sums take this shard's part once, on the first lap. */
static void add_sums(const lac_trainer *trainer, int64_t group, double *state) {
  const lac_training *common = trainer->common;
  int64_t first, last, stride = common->bits + 1 + common->columns;
  lac_decoder_group(common->bits, common->columns, group, &first, &last);
  for (int64_t l = 0; l <= common->bits; l++) {
    for (int64_t column = first; column < last; column++) {
      *state++ += trainer->local[l * stride + column];
    }
  }
}

lac_status lac_w_train(void *shard, lac_context *context, int64_t count, const int64_t *ids, const int64_t *visits,
                       int64_t passes, void *const *states) {
  lac_trainer *trainer = shard;
  const lac_training *common = trainer->common;
  double start = lac_seconds();
  int64_t *encoders = NULL;
  void **encoder_states = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, count, &encoders), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, count, &encoder_states), done);
  lac_visit visit = {.trainer = trainer, .bits = encoders, .states = encoder_states, .passes = passes};
  for (int64_t i = 0; i < count; i++) {
    if (lac_is_encoder(ids[i])) {
      encoders[visit.count] = ids[i] / 2;
      encoder_states[visit.count++] = states[i];
    } else if (visits[i] < common->team.total) {
      add_sums(trainer, ids[i] / 2, states[i]);
    }
  }
  visit.parts = common->options->threads;
  status = lac_parallel(context, visit.parts, visit.parts, visit_part, &visit);
  lac_profile_add(context, "w train", lac_seconds() - start, 0, 0,
                  4.0 * (double)(lac_subsample_rows(trainer->x.count, trainer->subsample) * visit.count * passes *
                                 common->features));
done:
  lac_free(encoders);
  lac_free(encoder_states);
  return status;
}
