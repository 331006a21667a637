/* Validation inside a shard: some of its points are looked up in a sample of the others, so that neither data nor codes
 * travel; only the precision's sum does. */
#include "base/memory.h"
#include "base/profile.h"
#include "hash/codes.h"
#include "hash/sample.h"
#include "laconic/retrieval.h"

typedef struct lac_validation {
  int64_t queries, base, k;
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

lac_status lac_validation_create(lac_context *context, lac_trainer *trainer, int64_t queries, int64_t base, int64_t k) {
  const lac_training *common = trainer->common;
  int64_t sample = queries + base, bytes = (common->bits + 7) / 8, *rows = NULL, *query = NULL;
  lac_validation *made = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, 1, &made), done);
  *made = (lac_validation){.queries = queries, .base = base, .k = k};
  LAC_TRY_GOTO(status, LAC_NEW(context, sample, &rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, queries, &query), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, queries * bytes, &made->query_codes), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, base * bytes, &made->base_codes), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * trainer->input.padded, &made->block), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_BLOCK * (common->bits + 15), &made->margin), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, queries * k, &made->truth), done);
  lac_sample_rows(common->options->seed, LAC_SAMPLE_VALIDATION, trainer->number, trainer->x.count, sample, rows);
  /* Queries are spread evenly over the sample; what is left is the base. */
  int64_t taken = 0, kept = 0;
  for (int64_t i = 0; i < sample; i++) {
    if (taken < queries && i * queries / sample >= taken) {
      query[taken++] = rows[i];
    } else {
      rows[kept++] = rows[i];
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

static lac_status encode_rows(lac_context *context, const lac_encoding *encoding, const lac_rows *rows,
                              lac_validation *validation, uint8_t *codes) {
  for (int64_t first = 0; first < rows->count; first += LAC_BLOCK) {
    int64_t n = rows->count - first < LAC_BLOCK ? rows->count - first : LAC_BLOCK;
    LAC_TRY(lac_rows_read(context, rows, first, n, validation->block));
    lac_encoding_run(encoding, validation->block, n, validation->margin, codes + first * encoding->bytes);
  }
  return LAC_OK;
}

lac_status lac_validate(void *shard, lac_context *context, double *sum, double *weight) {
  lac_trainer *trainer = shard;
  lac_validation *validation = trainer->validation;
  double start = lac_seconds(), precision, unused;
  *sum = *weight = 0;
  if (!validation || validation->queries == 0) {
    return LAC_OK;
  }
  lac_encoding encoding;
  LAC_TRY(lac_encoding_create(context, trainer->model.weight, trainer->model.bias, trainer->common->bits,
                              trainer->input.padded, &encoding));
  lac_status status =
      encode_rows(context, &encoding, &validation->query_inputs.rows, validation, validation->query_codes);
  if (!status) {
    status = encode_rows(context, &encoding, &validation->base_inputs.rows, validation, validation->base_codes);
  }
  lac_encoding_clear(&encoding);
  LAC_TRY(status);
  LAC_TRY(lac_retrieval_measure(context, validation->base_codes, validation->base, validation->query_codes,
                                validation->queries, trainer->common->bits, validation->truth, validation->k,
                                &validation->k, 1, NULL, 0, 1, &precision, &unused));
  *sum = precision * (double)validation->queries;
  *weight = (double)validation->queries;
  lac_profile_add(context, "validate", lac_seconds() - start, 0, 0, 0);
  return LAC_OK;
}
