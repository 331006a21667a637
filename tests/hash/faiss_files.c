/* The C side of faiss_reader_test.py: faiss_files BITS COLUMNS makes a random linear model and writes it, vectors,
 * their codes and what a search among the codes finds, and the two FAISS files. */
#include "base/memory.h"
#include "base/random.h"
#include "hash/model.h"
#include "laconic/retrieval.h"
#include "support.h"

enum { BASE = 500, QUERIES = 40, NEIGHBOURS = 30 };

static void fill(lac_random *stream, float *values, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    values[i] = (float)lac_random_normal(stream);
  }
}

static lac_status encode(lac_context *context, const lac_hash *model, const float *x, uint8_t *codes) {
  const int64_t rows = BASE + QUERIES, D = lac_hash_columns(model);
  lac_dataset *dataset;
  LAC_TRY(lac_dataset_borrow(context, x, LAC_F32, rows, D, (size_t)D * sizeof *x, &dataset));
  lac_status status = lac_hash_encode(context, model, dataset, 0, rows, 1, codes);
  lac_dataset_destroy(&dataset);
  return status;
}

static lac_status write_all(lac_context *context, const lac_hash *model, const float *x, uint8_t *codes) {
  static int32_t ids[QUERIES * NEIGHBOURS], distances[QUERIES * NEIGHBOURS];
  const int64_t L = lac_hash_bits(model), D = lac_hash_columns(model), B = (L + 7) / 8;
  LAC_TRY(encode(context, model, x, codes));
  LAC_TRY(lac_hash_save(context, model, "model.safetensors"));
  LAC_TRY(lac_array_write(context, "x.npy", LAC_F32, x, BASE + QUERIES, D));
  LAC_TRY(lac_array_write(context, "codes.npy", LAC_U8, codes, BASE + QUERIES, B));
  LAC_TRY(lac_faiss_write_encoder(context, model, "encoder.faiss"));
  LAC_TRY(lac_hamming_search(context, codes, BASE, codes + BASE * B, QUERIES, L, NEIGHBOURS, 1, ids, distances));
  LAC_TRY(lac_array_write(context, "ids.npy", LAC_I32, ids, QUERIES, NEIGHBOURS));
  LAC_TRY(lac_array_write(context, "distances.npy", LAC_I32, distances, QUERIES, NEIGHBOURS));
  return L % 8 ? LAC_OK : lac_faiss_write_binary(context, codes, BASE, L, "binary.faiss");
}

int main(int argc, char **argv) {
  lac_context *context;
  lac_hash *model;
  if (argc != 3 || lac_context_create(&context) != LAC_OK) {
    return 64;
  }
  const int64_t L = strtol(argv[1], NULL, 10), D = strtol(argv[2], NULL, 10);
  float *x = calloc((size_t)((BASE + QUERIES) * D), sizeof *x);
  uint8_t *codes = calloc((size_t)((BASE + QUERIES) * L), 1);
  lac_random stream = lac_random_stream(L, LAC_RANDOM_TEST, (uint64_t)D, 0);
  lac_status status = lac_hash_create(context, L, D, LAC_HASH_LSH, 0, &model);
  if (!status) {
    fill(&stream, model->weight, L * D);
    fill(&stream, model->bias, L);
    fill(&stream, x, (BASE + QUERIES) * D);
    status = write_all(context, model, x, codes);
  }
  if (status) {
    fprintf(stderr, "%s\n", lac_context_message(context));
  }
  lac_hash_destroy(&model);
  lac_context_destroy(&context);
  free(x);
  free(codes);
  return lac_status_exit(status);
}
