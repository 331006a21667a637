/* Learns hash codes for clustered vectors on two workers, encodes them, searches them and says how good the answers
 * are. Uses nothing but Laconic's public headers. Prints a line for the model and one for the search; exits 0 when it
 * worked. */
#include <laconic/laconic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 20000, QUERIES = 200, COLUMNS = 64, CLUSTERS = 400, BITS = 32, K = 50, WORKERS = 2 };

/* Points around CLUSTERS centres: x (rows, COLUMNS). A small generator of its own keeps the example self-contained. */
static double uniform(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) / 16777216.0;
}

static void make_points(float *x, int rows, unsigned seed) {
  static float centres[CLUSTERS][COLUMNS];
  unsigned state = 1;
  for (int c = 0; c < CLUSTERS; c++) {
    for (int j = 0; j < COLUMNS; j++) {
      centres[c][j] = (float)uniform(&state);
    }
  }
  state = seed;
  for (int i = 0; i < rows; i++) {
    const float *centre = centres[(int)(CLUSTERS * uniform(&state))];
    for (int j = 0; j < COLUMNS; j++) {
      x[i * COLUMNS + j] = centre[j] + 0.4f * (float)(uniform(&state) + uniform(&state) - 1);
    }
  }
}

/* What the workers share. Each has its own slice of the data; they exchange nothing but parts of the model. */
typedef struct job {
  const lac_dataset *base;
  lac_hash_options options;
  lac_hash *model; /* worker 0's copy; the others' are equal bit for bit */
  lac_hash_result result;
} job;

static lac_status train(lac_world *world, void *argument) {
  job *job = argument;
  lac_context *context = lac_world_context(world);
  int rank = lac_world_rank(world), workers = lac_world_size(world);
  int64_t first = (int64_t)ROWS * rank / workers, end = (int64_t)ROWS * (rank + 1) / workers;
  lac_dataset *shard;
  lac_status status = lac_dataset_slice(context, job->base, first, end - first, &shard);
  if (status) {
    return status;
  }
  lac_team team = {.world = world, .total = workers, .first = rank, .count = 1};
  const lac_dataset *shards[] = {shard};
  lac_hash *model = NULL;
  lac_hash_result result;
  status = lac_hash_train(context, &team, shards, &job->options, NULL, NULL, &model, &result);
  if (!status && rank == 0) {
    job->model = model;
    job->result = result;
  } else {
    lac_hash_destroy(&model);
  }
  lac_dataset_destroy(&shard);
  return status;
}

/* Encodes both sets, searches and measures. */
static lac_status search(lac_context *context, const lac_hash *model, const lac_dataset *base,
                         const lac_dataset *query) {
  static uint8_t base_codes[ROWS * BITS / 8], query_codes[QUERIES * BITS / 8];
  static int32_t found[QUERIES * K], distances[QUERIES * K], truth[QUERIES * K];
  const int64_t k = K, r = 100;
  double precision, recall;
  lac_status status = lac_hash_encode(context, model, base, 0, ROWS, 1, base_codes);
  if (!status) {
    status = lac_hash_encode(context, model, query, 0, QUERIES, 1, query_codes);
  }
  if (!status) {
    status = lac_hamming_search(context, base_codes, ROWS, query_codes, QUERIES, BITS, K, 1, found, distances);
  }
  if (!status) {
    status = lac_exact_neighbors(context, base, query, K, 1, NULL, NULL, truth);
  }
  if (!status) {
    status = lac_retrieval_measure(context, base_codes, ROWS, query_codes, QUERIES, BITS, truth, K, &k, 1, &r, 1, 1,
                                   &precision, &recall);
  }
  if (!status) {
    printf("query 0: nearest code is row %d at %d of %d bits; its true nearest neighbour is row %d\n", (int)found[0],
           (int)distances[0], BITS, (int)truth[0]);
    printf("precision of the first %d: %.3f; recall at 100: %.3f\n", K, precision, recall);
  }
  return status;
}

int main(void) {
  static float base_points[ROWS * COLUMNS], query_points[QUERIES * COLUMNS];
  make_points(base_points, ROWS, 2);
  make_points(query_points, QUERIES, 3);

  lac_context *context;
  if (lac_context_create(&context)) {
    fprintf(stderr, "no memory\n");
    return 1;
  }
  job job = {0};
  lac_dataset *base = NULL, *query = NULL;
  const size_t stride = COLUMNS * sizeof(float);
  lac_world_options world = {.backend = "local", .workers = WORKERS};
  lac_status status = lac_dataset_borrow(context, base_points, LAC_F32, ROWS, COLUMNS, stride, &base);
  if (!status) {
    status = lac_dataset_borrow(context, query_points, LAC_F32, QUERIES, COLUMNS, stride, &query);
  }
  if (!status) {
    status = lac_options_default(context, lac_hash_option_table(), &job.options);
  }
  if (!status) {
    job.base = base;
    job.options.bits = BITS;
    status = lac_world_run(context, &world, train, &job);
  }
  if (!status) {
    printf("%d bits learnt by %d workers: reconstruction error %.3f of the variance, %lld messages of submodels\n",
           BITS, WORKERS, job.result.e_ba, (long long)job.result.messages);
    status = search(context, job.model, base, query);
  }
  if (status) {
    fprintf(stderr, "%s\n", lac_context_message(context));
  }
  lac_hash_destroy(&job.model);
  lac_options_clear(lac_hash_option_table(), &job.options);
  lac_dataset_destroy(&query);
  lac_dataset_destroy(&base);
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
