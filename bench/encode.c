/* Encodes a file again and again: `encode FILE BITS` makes a random linear model of the file's columns and, for every
 * line on standard input, encodes all rows with one thread and prints the CPU seconds that took. With a third argument
 * it first writes the model there. bench/encode_faiss.py drives it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "base/random.h"
#include "hash/model.h"

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static lac_status random_model(lac_context *context, int64_t bits, int64_t columns, lac_hash **model) {
  LAC_TRY(lac_hash_create(context, bits, columns, LAC_HASH_LSH, 0, model));
  lac_random stream = lac_random_stream(0, LAC_RANDOM_TEST, 0, 0);
  for (int64_t i = 0; i < bits * columns; i++) {
    (*model)->weight[i] = (float)lac_random_normal(&stream);
  }
  return LAC_OK;
}

static lac_status serve(lac_context *context, const lac_dataset *dataset, const lac_hash *model) {
  char line[16];
  uint8_t *codes;
  int64_t rows = lac_dataset_rows(dataset);
  LAC_TRY(LAC_NEW(context, rows * ((lac_hash_bits(model) + 7) / 8), &codes));
  lac_status status = LAC_OK;
  while (!status && fgets(line, sizeof line, stdin)) {
    double start = cpu_seconds();
    status = lac_hash_encode(context, model, dataset, 0, rows, 1, codes);
    printf("%.6f\n", cpu_seconds() - start);
    fflush(stdout);
  }
  lac_free(codes);
  return status;
}

static lac_status run(lac_context *context, int count, char **arguments) {
  lac_dataset *dataset;
  lac_hash *model = NULL;
  LAC_TRY(lac_dataset_open(context, arguments[0], NULL, &dataset));
  lac_status status = random_model(context, strtol(arguments[1], NULL, 10), lac_dataset_columns(dataset), &model);
  if (!status && count > 2) {
    status = lac_hash_save(context, model, arguments[2]);
  }
  if (!status) {
    status = serve(context, dataset, model);
  }
  lac_hash_destroy(&model);
  lac_dataset_destroy(&dataset);
  return status;
}

int main(int argc, char **argv) {
  lac_context *context;
  if (argc < 3 || strtol(argv[2], NULL, 10) < 1) {
    fprintf(stderr, "usage: encode FILE BITS [MODEL]\n");
    return 2;
  }
  if (lac_context_create(&context) != LAC_OK) {
    return 1;
  }
  lac_status status = run(context, argc - 1, argv + 1);
  if (status) {
    fprintf(stderr, "encode: %s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
