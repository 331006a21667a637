/* Any bytes as a graph: reading ends in one line, or in rows that rise, have positive weights and sum to 1. */
#include <math.h>

#include "mixing/graph_file.h"
#include "support.h"

static void require(bool held) {
  if (!held) {
    abort();
  }
}

static void check_row(const lac_weights *graph, int64_t i, bool weighted) {
  double sum = 0;
  bool diagonal = false;
  for (int64_t k = graph->start[i]; k < graph->start[i + 1]; k++) {
    require(graph->column[k] >= 0 && graph->column[k] < graph->n);
    require(k == graph->start[i] || graph->column[k - 1] < graph->column[k]);
    require(weighted ? graph->weight[k] > 0 : graph->weight[k] == 0);
    diagonal = diagonal || graph->column[k] == i;
    sum += graph->weight[k];
  }
  require(weighted ? fabs(sum - 1) < 1e-12 : diagonal && graph->start[i + 1] - graph->start[i] >= 1);
}

static void parse(lac_context *context, const lac_storage *storage, int64_t workers, int weights) {
  lac_weights graph;
  if (lac_graph_file_parse(context, storage, workers, weights, &graph) != LAC_OK) {
    require(*lac_context_message(context) && !strchr(lac_context_message(context), '\n') && !graph.start);
    return;
  }
  require(graph.n >= 2 && (workers == 0 || graph.n == workers) && graph.start[0] == 0);
  for (int64_t i = 0; i < graph.n; i++) {
    check_row(&graph, i, weights == LAC_WEIGHTS_FILE);
  }
  lac_weights_clear(&graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lac_context *context;
  lac_storage *storage;
  require(lac_context_create(&context) == LAC_OK);
  require(lac_storage_borrow(context, "input", data, size, &storage) == LAC_OK);
  for (int weights = LAC_WEIGHTS_METROPOLIS; weights <= LAC_WEIGHTS_FILE; weights++) {
    parse(context, storage, 0, weights);
    parse(context, storage, 4, weights);
  }
  lac_storage_release(storage);
  lac_context_destroy(&context);
  return 0;
}
