/* Searches again and again: `search hamming BASE QUERY K BITS FOUND` looks up packed codes, `search exact BASE QUERY K`
 * finds exact neighbours, `search measure BASE QUERY K BITS` precision and recall against K arbitrary neighbours; for
 * every line on standard input all queries once, with one thread, and the CPU seconds that took are printed. FOUND.npy
 * receives the distances found last. bench/search_faiss.py drives it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "laconic/retrieval.h"

typedef struct work {
  lac_dataset *base, *query;
  const uint8_t *base_codes, *query_codes; /* NULL for vectors */
  int64_t rows, queries, k, bits;
  int32_t *ids, *distances; /* (queries, k) */
} work;

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static lac_status search_once(lac_context *context, const char *what, work *w) {
  const int64_t ks[] = {50, 100, 1000}, Rs[] = {1, 10, 100, 1000, 10000};
  double precision[3], recall[5];
  if (strcmp(what, "exact") == 0) {
    return lac_exact_neighbors(context, w->base, w->query, w->k, 1, NULL, NULL, w->ids);
  }
  if (!w->base_codes || !w->query_codes) {
    return lac_fail(context, LAC_E_INPUT, "packed codes are bytes");
  }
  if (strcmp(what, "measure") == 0) {
    return lac_retrieval_measure(context, w->base_codes, w->rows, w->query_codes, w->queries, w->bits, w->ids, w->k, ks,
                                 3, Rs, 5, 1, precision, recall);
  }
  return lac_hamming_search(context, w->base_codes, w->rows, w->query_codes, w->queries, w->bits, w->k, 1, w->ids,
                            w->distances);
}

static lac_status serve(lac_context *context, const char *what, work *w) {
  char line[16];
  while (fgets(line, sizeof line, stdin)) {
    double start = cpu_seconds();
    LAC_TRY(search_once(context, what, w));
    printf("%.6f\n", cpu_seconds() - start);
    fflush(stdout);
  }
  return LAC_OK;
}

static lac_status open_both(lac_context *context, char **arguments, int count, work *w) {
  size_t base_stride, query_stride;
  LAC_TRY(lac_dataset_open(context, arguments[1], NULL, &w->base));
  LAC_TRY(lac_dataset_open(context, arguments[2], NULL, &w->query));
  w->rows = lac_dataset_rows(w->base);
  w->queries = lac_dataset_rows(w->query);
  w->k = strtol(arguments[3], NULL, 10);
  w->bits = count > 4 ? strtol(arguments[4], NULL, 10) : 0;
  w->base_codes = lac_dataset_bytes(w->base, &base_stride);
  w->query_codes = lac_dataset_bytes(w->query, &query_stride);
  int64_t bytes = (w->bits + 7) / 8;
  if (w->bits > 0 && (lac_dataset_columns(w->base) != bytes || lac_dataset_columns(w->query) != bytes)) {
    return lac_fail(context, LAC_E_INPUT, "codes of other than %lld bytes", (long long)bytes);
  }
  if (w->k < 1 || w->k > w->rows) {
    return lac_fail(context, LAC_E_USAGE, "K is not in 1..%lld", (long long)w->rows);
  }
  LAC_TRY(LAC_NEW(context, w->queries * w->k, &w->ids));
  LAC_TRY(LAC_NEW(context, w->queries * w->k, &w->distances));
  for (int64_t i = 0; i < w->queries * w->k; i++) {
    w->ids[i] = (int32_t)(i * 7919 % w->rows); /* the truth of `measure`: any will do */
  }
  return LAC_OK;
}

static lac_status run(lac_context *context, char **arguments, int count) {
  work w = {0};
  lac_status status = open_both(context, arguments, count, &w);
  if (!status) {
    status = serve(context, arguments[0], &w);
  }
  if (!status && count > 5) {
    status = lac_array_write(context, arguments[5], LAC_I32, w.distances, w.queries, w.k);
  }
  lac_free(w.distances);
  lac_free(w.ids);
  lac_dataset_destroy(&w.query);
  lac_dataset_destroy(&w.base);
  return status;
}

int main(int argc, char **argv) {
  lac_context *context;
  bool exact = argc == 5 && strcmp(argv[1], "exact") == 0;
  bool codes = (argc == 6 || argc == 7) && (strcmp(argv[1], "hamming") == 0 || strcmp(argv[1], "measure") == 0);
  if (!exact && !codes) {
    fprintf(stderr,
            "usage: search hamming BASE QUERY K BITS [FOUND.npy]\n       search measure BASE QUERY K BITS\n"
            "       search exact BASE QUERY K\n");
    return 2;
  }
  if (lac_context_create(&context) != LAC_OK) {
    return 1;
  }
  lac_status status = run(context, argv + 1, argc - 1);
  if (status) {
    fprintf(stderr, "search: %s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
