/* Validation inside a shard: some of its points are looked up in a sample of the others, so that neither data nor codes
 * travel; only the precision's sum does. Their codes are mostly those that a Z step has found on its way. */
#include <string.h>

#include "base/memory.h"
#include "base/profile.h"
#include "hash/codes.h"
#include "hash/sample.h"
#include "laconic/retrieval.h"

typedef struct lac_validation {
  int64_t queries, base, k, bytes;        /* bytes of a code */
  int64_t *rows;                          /* (queries + base), ascending: row numbers … */
  uint8_t **places;                       /* … and where the code of each goes */
  bool taken;                             /* all codes are those of the current encoder */
  lac_row_copy query_inputs, base_inputs; /* of the encoder */
  uint8_t *query_codes, *base_codes;      /* packed bytes */
  float *block;                           /* (LAC_BLOCK, padded) */
  float *margin;                          /* (LAC_BLOCK, L rounded up for a product) */
  int32_t *truth;                         /* (queries, k) */
} lac_validation;

void lac_validation_destroy(lac_validation *validation) {
  if (validation) {
    lac_row_copy_clear(&validation->query_inputs);
    lac_row_copy_clear(&validation->base_inputs);
    lac_free(validation->rows);
    lac_free(validation->places);
    lac_free(validation->query_codes);
    lac_free(validation->base_codes);
    lac_free(validation->block);
    lac_free(validation->margin);
    lac_free(validation->truth);
    lac_free(validation);
  }
}

/* Neighbours among the rows themselves, which are the encoder's inputs unless those are features. */
static lac_status find_truth(lac_context *context, const lac_trainer *trainer, const int64_t *query,
                             const int64_t *base, lac_validation *validation) {
  bool same = trainer->x.data == trainer->input.data;
  lac_row_copy queries = {.data = NULL}, bases = {.data = NULL};
  lac_status status = LAC_OK;
  if (!same) {
    LAC_TRY_GOTO(status, lac_rows_copy(context, &trainer->x, query, validation->queries, &queries), done);
    LAC_TRY_GOTO(status, lac_rows_copy(context, &trainer->x, base, validation->base, &bases), done);
  }
  status = lac_exact_neighbors(context, same ? validation->base_inputs.data : bases.data,
                               same ? validation->query_inputs.data : queries.data, validation->k,
                               trainer->common->options->threads, NULL, NULL, validation->truth);
done:
  lac_row_copy_clear(&queries);
  lac_row_copy_clear(&bases);
  return status;
}

void lac_validation_take(lac_validation *validation, int64_t first, int64_t n, const uint8_t *codes) {
  if (!validation) {
    return;
  }
  int64_t count = validation->queries + validation->base, low = 0, high = count;
  while (low < high) { /* the first of its rows that is not before these */
    int64_t middle = low + (high - low) / 2;
    if (validation->rows[middle] < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < count && validation->rows[low] < first + n; low++) {
    memcpy(validation->places[low], codes + (validation->rows[low] - first) * validation->bytes,
           (size_t)validation->bytes);
  }
}

void lac_validation_set_taken(lac_validation *validation, bool taken) {
  if (validation) {
    validation->taken = taken;
  }
}

lac_status lac_validation_create(lac_context *context, lac_trainer *trainer, int64_t queries, int64_t base, int64_t k) {
  const lac_training *common = trainer->common;
  int64_t sample = queries + base, bytes = (common->bits + 7) / 8, *rows = NULL, *query = NULL;
  int64_t points = lac_subsample_rows(trainer->x.count, trainer->subsample);
  lac_validation *made = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, 1, &made), done);
  *made = (lac_validation){.queries = queries, .base = base, .k = k, .bytes = bytes};
  LAC_TRY_GOTO(status, LAC_NEW(context, sample, &rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, queries, &query), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, sample, &made->rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, sample, &made->places), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, queries * bytes, &made->query_codes), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, base * bytes, &made->base_codes), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * trainer->input.padded, &made->block), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * (common->bits + 15), &made->margin), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, queries * k, &made->truth), done);
  lac_sample_rows(common->options->seed, LAC_SAMPLE_VALIDATION, trainer->number, points, sample, rows);
  /* Queries are spread evenly over the sample; what is left is the base. */
  int64_t taken = 0, kept = 0;
  for (int64_t i = 0; i < sample; i++) {
    int64_t row = made->rows[i] = lac_subsample_at(trainer, rows[i], LAC_BLOCK);
    if (taken < queries && i * queries / sample >= taken) {
      made->places[i] = made->query_codes + taken * bytes;
      query[taken++] = row;
    } else {
      made->places[i] = made->base_codes + kept * bytes;
      rows[kept++] = row;
    }
  }
  LAC_TRY_GOTO(status, lac_rows_copy(context, &trainer->input, query, queries, &made->query_inputs), done);
  LAC_TRY_GOTO(status, lac_rows_copy(context, &trainer->input, rows, base, &made->base_inputs), done);
  LAC_TRY_GOTO(status, find_truth(context, trainer, query, rows, made), done);
done:
  lac_free(rows);
  lac_free(query);
  if (status) {
    lac_validation_destroy(made);
    made = NULL;
  }
  trainer->validation = made;
  return status;
}

/* codes (rows, bytes of a code of the encoding); margin (LAC_BLOCK, width of its factor). */
static lac_status encode_rows(lac_context *context, const lac_encoding *encoding, const lac_rows *rows, float *block,
                              float *margin, uint8_t *codes) {
  for (int64_t first = 0; first < rows->count; first += LAC_BLOCK) {
    int64_t n = rows->count - first < LAC_BLOCK ? rows->count - first : LAC_BLOCK;
    LAC_TRY(lac_rows_read(context, rows, first, n, block));
    lac_encoding_run(encoding, block, n, margin, codes + first * encoding->bytes);
  }
  return LAC_OK;
}

/* The codes of all its points under the current encoder. */
static lac_status encode(lac_context *context, const lac_trainer *trainer, lac_validation *validation) {
  lac_encoding encoding;
  float *block = validation->block, *margin = validation->margin;
  LAC_TRY(lac_encoding_create(context, trainer->model.weight, trainer->model.bias, trainer->common->bits,
                              trainer->input.padded, &encoding));
  lac_status status =
      encode_rows(context, &encoding, &validation->query_inputs.rows, block, margin, validation->query_codes);
  if (!status) {
    status = encode_rows(context, &encoding, &validation->base_inputs.rows, block, margin, validation->base_codes);
  }
  lac_encoding_clear(&encoding);
  return status;
}

/* Precision of the codes that are there, times the queries, and the queries. */
static lac_status measure(lac_context *context, const lac_trainer *trainer, double *sum, double *weight) {
  const lac_validation *validation = trainer->validation;
  double precision, unused;
  LAC_TRY(lac_retrieval_measure(context, validation->base_codes, validation->base, validation->query_codes,
                                validation->queries, trainer->common->bits, validation->truth, validation->k,
                                &validation->k, 1, NULL, 0, 1, &precision, &unused));
  *sum = precision * (double)validation->queries;
  *weight = (double)validation->queries;
  return LAC_OK;
}

lac_status lac_validate(void *shard, lac_context *context, double *sum, double *weight) {
  lac_trainer *trainer = shard;
  lac_validation *validation = trainer->validation;
  double start = lac_seconds();
  *sum = *weight = 0;
  if (!validation || validation->queries == 0) {
    return LAC_OK;
  }
  if (!validation->taken) {
    LAC_TRY(encode(context, trainer, validation));
  }
  LAC_TRY(measure(context, trainer, sum, weight));
  lac_profile_add(context, "validate", lac_seconds() - start, 0, 0, 0);
  return LAC_OK;
}

/* The codes of encoder number `which` of those that stand side by side in codes (rows, count, bytes). */
static void pick(const uint8_t *codes, int64_t rows, int64_t count, int64_t bytes, int64_t which, uint8_t *picked) {
  for (int64_t i = 0; i < rows; i++) {
    memcpy(picked + i * bytes, codes + (i * count + which) * bytes, (size_t)bytes);
  }
}

/* All encoders are one with whole bytes of bits for each, a bias of -1 where there is no bit. */
lac_status lac_validate_starts(lac_trainer *trainer, lac_context *context, int64_t count, const float *weights,
                               double (*results)[2]) {
  lac_validation *validation = trainer->validation;
  const int64_t bits = trainer->common->bits, padded = trainer->input.padded;
  double start = lac_seconds();
  memset(results, 0, (size_t)count * sizeof *results);
  if (!validation || validation->queries == 0) {
    return LAC_OK;
  }
  const int64_t bytes = validation->bytes, whole = 8 * bytes;
  const lac_rows *queries = &validation->query_inputs.rows, *base = &validation->base_inputs.rows;
  float *stacked = NULL, *bias = NULL, *margin = NULL;
  uint8_t *query_codes = NULL, *base_codes = NULL;
  lac_encoding encoding = {0};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, count * whole * padded, &stacked), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, count * whole, &bias), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * (count * whole + 15), &margin), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, validation->queries * count * bytes, &query_codes), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, validation->base * count * bytes, &base_codes), done);
  for (int64_t i = 0; i < count; i++) {
    memcpy(stacked + i * whole * padded, weights + i * bits * padded, (size_t)(bits * padded) * sizeof *weights);
    for (int64_t l = bits; l < whole; l++) {
      bias[i * whole + l] = -1;
    }
  }
  LAC_TRY_GOTO(status, lac_encoding_create(context, stacked, bias, count * whole, padded, &encoding), done);
  LAC_TRY_GOTO(status, encode_rows(context, &encoding, queries, validation->block, margin, query_codes), done);
  LAC_TRY_GOTO(status, encode_rows(context, &encoding, base, validation->block, margin, base_codes), done);
  validation->taken = false;
  for (int64_t i = 0; i < count; i++) {
    pick(query_codes, validation->queries, count, bytes, i, validation->query_codes);
    pick(base_codes, validation->base, count, bytes, i, validation->base_codes);
    LAC_TRY_GOTO(status, measure(context, trainer, &results[i][0], &results[i][1]), done);
  }
  lac_profile_add(context, "validate", lac_seconds() - start, 0, 0, 0);
done:
  lac_encoding_clear(&encoding);
  lac_free(stacked);
  lac_free(bias);
  lac_free(margin);
  lac_free(query_codes);
  lac_free(base_codes);
  return status;
}
