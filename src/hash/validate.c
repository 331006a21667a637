/* Validation inside a shard: some of its points are looked up in a sample of the others, so that neither data nor codes
 * travel; only the precision's sum does. */
#include "base/memory.h"
#include "base/profile.h"
#include "hash/codes.h"
#include "hash/sample.h"
#include "laconic/retrieval.h"

typedef struct lac_validation {
  int64_t queries, base, k;
  float *query_rows, *base_rows;     /* encoder inputs (queries, padded), (base, padded) */
  uint8_t *query_codes, *base_codes; /* packed bytes */
  float *margin;                     /* (LAC_BLOCK, L rounded up for a product) */
  int32_t *truth;                    /* (queries, k) */
} lac_validation;

void lac_validation_destroy(lac_validation *validation) {
  if (validation) {
    lac_free(validation->query_rows);
    lac_free(validation->base_rows);
    lac_free(validation->query_codes);
    lac_free(validation->base_codes);
    lac_free(validation->margin);
    lac_free(validation->truth);
    lac_free(validation);
  }
}

static lac_status find_truth(lac_context *context, const lac_trainer *trainer, const int64_t *query,
                             const int64_t *base, lac_validation *validation) {
  int64_t padded = trainer->x.padded, columns = trainer->x.columns;
  float *query_rows = NULL, *base_rows = NULL;
  lac_dataset *query_data = NULL, *base_data = NULL;
  lac_status status = LAC_OK;
  size_t stride = (size_t)padded * sizeof(float);
  LAC_TRY_GOTO(status, LAC_NEW(context, validation->queries * padded, &query_rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, validation->base * padded, &base_rows), done);
  LAC_TRY_GOTO(status, lac_rows_gather(context, &trainer->x, query, validation->queries, query_rows), done);
  LAC_TRY_GOTO(status, lac_rows_gather(context, &trainer->x, base, validation->base, base_rows), done);
  LAC_TRY_GOTO(status,
               lac_dataset_borrow(context, query_rows, LAC_F32, validation->queries, columns, stride, &query_data),
               done);
  LAC_TRY_GOTO(status, lac_dataset_borrow(context, base_rows, LAC_F32, validation->base, columns, stride, &base_data),
               done);
  status = lac_exact_neighbors(context, base_data, query_data, validation->k, trainer->common->options->threads, NULL,
                               NULL, validation->truth);
done:
  lac_dataset_destroy(&query_data);
  lac_dataset_destroy(&base_data);
  lac_free(query_rows);
  lac_free(base_rows);
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
  LAC_TRY_GOTO(status, LAC_NEW(context, queries * trainer->input.padded, &made->query_rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, base * trainer->input.padded, &made->base_rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, queries * bytes, &made->query_codes), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, base * bytes, &made->base_codes), done);
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
  LAC_TRY_GOTO(status, find_truth(context, trainer, query, rows, made), done);
  LAC_TRY_GOTO(status, lac_rows_gather(context, &trainer->input, query, queries, made->query_rows), done);
  LAC_TRY_GOTO(status, lac_rows_gather(context, &trainer->input, rows, base, made->base_rows), done);
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

static void encode_rows(const lac_encoding *encoding, const float *rows, int64_t count, int64_t padded, float *margin,
                        uint8_t *codes) {
  for (int64_t first = 0; first < count; first += LAC_BLOCK) {
    int64_t n = count - first < LAC_BLOCK ? count - first : LAC_BLOCK;
    lac_encoding_run(encoding, rows + first * padded, n, margin, codes + first * encoding->bytes);
  }
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
  encode_rows(&encoding, validation->query_rows, validation->queries, trainer->input.padded, validation->margin,
              validation->query_codes);
  encode_rows(&encoding, validation->base_rows, validation->base, trainer->input.padded, validation->margin,
              validation->base_codes);
  lac_encoding_clear(&encoding);
  LAC_TRY(lac_retrieval_measure(context, validation->base_codes, validation->base, validation->query_codes,
                                validation->queries, trainer->common->bits, validation->truth, validation->k,
                                &validation->k, 1, NULL, 0, 1, &precision, &unused));
  *sum = precision * (double)validation->queries;
  *weight = (double)validation->queries;
  lac_profile_add(context, "validate", lac_seconds() - start, 0, 0, 0);
  return LAC_OK;
}
