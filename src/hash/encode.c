#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "hash/model.h"
#include "hash/sign.h"
#include "math/product.h"

/* Rows of one product, and products of one chunk of the parallel loop. 120 rows of 784 columns stay in a second-level
 * cache of 512 KiB while they are converted, multiplied and packed, and are whole tiles of every kernel. */
enum { ROWS = 120, PRODUCTS = 8 };

/* What a thread works in. */
typedef struct lac_encode_room {
  float *x;         /* (ROWS, D) */
  float *y;         /* (ROWS, width of the factor) */
  float *features;  /* (ROWS, m), RBF only, as the two below */
  uint8_t *rounded; /* (ROWS, m) */
  float *rbf;       /* scratch */
} lac_encode_room;

typedef struct lac_encode {
  const lac_hash *model;
  const lac_dataset *dataset;
  int64_t first, count, bytes; /* bytes of a code */
  lac_factor *factor;          /* the encoder's weight */
  float *bias;                 /* (8 bytes), padding -1 */
  lac_rbf *rbf;                /* NULL when linear */
  uint8_t *codes;
  lac_sign_kernel sign;
  lac_encode_room *rooms; /* one a thread */
} lac_encode;

static lac_status make_room(lac_context *context, const lac_encode *work, lac_encode_room *room) {
  const lac_hash *model = work->model;
  LAC_TRY(LAC_NEW(context, ROWS * model->columns, &room->x));
  LAC_TRY(LAC_NEW(context, ROWS * lac_factor_width(work->factor), &room->y));
  if (work->rbf) {
    LAC_TRY(LAC_NEW(context, ROWS * model->features, &room->features));
    LAC_TRY(LAC_NEW(context, ROWS * model->features, &room->rounded));
    LAC_TRY(LAC_NEW(context, lac_rbf_scratch(work->rbf), &room->rbf));
  }
  return LAC_OK;
}

static void drop_room(lac_encode_room *room) {
  lac_free(room->x);
  lac_free(room->y);
  lac_free(room->features);
  lac_free(room->rounded);
  lac_free(room->rbf);
}

lac_status lac_check_finite(lac_context *context, const lac_dataset *dataset, int64_t first, const float *x,
                            int64_t count) {
  int64_t columns = lac_dataset_columns(dataset);
  for (int64_t i = 0; i < count * columns; i++) {
    if (!isfinite(x[i])) {
      bool converted = isinf(x[i]) && lac_dataset_type(dataset) == LAC_F64; /* from a finite number, maybe */
      return lac_fail(context, LAC_E_INPUT,
                      "%s: row %" PRId64 ", column %" PRId64 ": found %g%s, expected a finite number%s",
                      lac_dataset_path(dataset), lac_dataset_first_row(dataset) + first + i / columns, i % columns,
                      (double)x[i], converted ? " in float32" : "", converted ? ", at most 3.4e38" : "");
    }
  }
  return LAC_OK;
}

/* Signs in double precision, for rows whose float32 products overflow. */
static void sign_wide(const lac_encode *work, const float *inputs, uint8_t *code) {
  const lac_hash *model = work->model;
  memset(code, 0, (size_t)work->bytes);
  for (int64_t l = 0; l < model->bits; l++) {
    double sum = work->bias[l];
    for (int64_t j = 0; j < model->features; j++) {
      sum += (double)model->weight[l * model->features + j] * inputs[j];
    }
    code[l / 8] |= (uint8_t)((sum >= 0) << (l % 8));
  }
}

/* The encoder's inputs (count, F) for the rows in room->x. */
static lac_status inputs_of(const lac_encode *work, lac_context *context, lac_encode_room *room, int64_t row,
                            int64_t count, const float **inputs) {
  if (!work->rbf) {
    *inputs = room->x;
    return LAC_OK;
  }
  LAC_TRY(lac_check_finite(context, work->dataset, row, room->x, count)); /* a feature would hide it */
  lac_rbf_features(work->rbf, room->x, count, room->rbf, room->rounded);
  for (int64_t i = 0; i < count * work->model->features; i++) {
    room->features[i] = room->rounded[i];
  }
  *inputs = room->features;
  return LAC_OK;
}

/* Rows [row, row + count), count <= ROWS. */
static lac_status encode_rows(const lac_encode *work, lac_context *context, lac_encode_room *room, int64_t row,
                              int64_t count) {
  const lac_hash *model = work->model;
  const float *inputs;
  LAC_TRY(lac_dataset_read_f32(context, work->dataset, row, count, room->x));
  LAC_TRY(inputs_of(work, context, room, row, count, &inputs));
  lac_factor_product(work->factor, inputs, count, room->y);
  for (int64_t i = 0; i < count; i++) {
    uint8_t *code = work->codes + (row - work->first + i) * work->bytes;
    if (!work->sign(room->y + i * lac_factor_width(work->factor), work->bias, work->bytes, code)) {
      LAC_TRY(lac_check_finite(context, work->dataset, row + i, room->x + i * model->columns, 1));
      sign_wide(work, inputs + i * model->features, code);
    }
  }
  return LAC_OK;
}

static lac_status encode_chunk(void *argument, lac_context *context, int64_t chunk, int thread) {
  const lac_encode *work = argument;
  int64_t begin = chunk * ROWS * PRODUCTS, end = begin + ROWS * PRODUCTS;
  end = end < work->count ? end : work->count;
  for (int64_t row = begin; row < end; row += ROWS) {
    int64_t count = end - row < ROWS ? end - row : ROWS;
    LAC_TRY(encode_rows(work, context, &work->rooms[thread], work->first + row, count));
  }
  return lac_context_interrupted(context) ? lac_fail(context, LAC_E_INTERRUPTED, "encoding was interrupted") : LAC_OK;
}

/* Signs do not change with a positive factor: features stay in 0..255 and the bias is multiplied instead. */
static lac_status make_encoder(lac_context *context, lac_encode *work) {
  const lac_hash *model = work->model;
  float scale = model->encoder == LAC_ENCODER_RBF ? 255 : 1;
  LAC_TRY(LAC_NEW(context, 8 * work->bytes, &work->bias));
  for (int64_t l = 0; l < 8 * work->bytes; l++) {
    work->bias[l] = l < model->bits ? model->bias[l] * scale : -1;
  }
  LAC_TRY(lac_factor_create(context, lac_cpu_isa(), model->weight, model->bits, model->features, &work->factor));
  if (model->encoder == LAC_ENCODER_RBF) {
    LAC_TRY(lac_rbf_create(context, model->centres, model->features, model->columns, model->width, &work->rbf));
  }
  return LAC_OK;
}

static lac_status encode_all(lac_context *context, lac_encode *work, int64_t threads, int64_t chunks) {
  LAC_TRY(make_encoder(context, work));
  LAC_TRY(LAC_NEW(context, threads, &work->rooms));
  for (int64_t i = 0; i < threads; i++) {
    LAC_TRY(make_room(context, work, &work->rooms[i]));
  }
  return lac_parallel(context, threads, chunks, encode_chunk, work);
}

lac_status lac_hash_check_columns(lac_context *context, const lac_hash *model, const lac_dataset *dataset) {
  return lac_dataset_columns(dataset) == model->columns
             ? LAC_OK
             : lac_fail(context, LAC_E_INPUT, "%s: found %" PRId64 " columns, expected %" PRId64 " as the model has",
                        lac_dataset_path(dataset), lac_dataset_columns(dataset), model->columns);
}

lac_status lac_hash_encode(lac_context *context, const lac_hash *model, const lac_dataset *dataset, int64_t first,
                           int64_t count, int64_t threads, uint8_t *codes) {
  LAC_TRY(lac_hash_check_columns(context, model, dataset));
  if (first < 0 || count < 0 || first > lac_dataset_rows(dataset) - count) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: found a request for %" PRId64 " rows from %" PRId64 ", expected them within 0 to %" PRId64,
                    lac_dataset_path(dataset), count, first, lac_dataset_rows(dataset) - 1);
  }
  double start = lac_seconds();
  int64_t chunks = (count + ROWS * PRODUCTS - 1) / (ROWS * PRODUCTS);
  threads = threads < 1 ? 1 : threads > chunks && chunks ? chunks : threads;
  lac_encode work = {.model = model,
                     .dataset = dataset,
                     .first = first,
                     .count = count,
                     .bytes = (model->bits + 7) / 8,
                     .codes = codes,
                     .sign = lac_sign_kernel_of(lac_cpu_isa())};
  lac_status status = encode_all(context, &work, threads, chunks);
  for (int64_t i = 0; i < threads && work.rooms; i++) {
    drop_room(&work.rooms[i]);
  }
  lac_free(work.rooms);
  lac_rbf_destroy(&work.rbf);
  lac_factor_destroy(&work.factor);
  lac_free(work.bias);
  lac_profile_add(context, "encode", lac_seconds() - start, 0, count * work.bytes,
                  2.0 * (double)count * (double)model->bits * (double)model->features);
  return status;
}
