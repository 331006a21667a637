/* Graphs read from files: edge lists and Matrix Market's coordinate format. Source of the latter: Boisvert, Pozo and
 * Remington, The Matrix Market Exchange Formats, NISTIR 5935, 1996. */
#ifndef LACONIC_MIXING_GRAPH_FILE_H
#define LACONIC_MIXING_GRAPH_FILE_H

#include "data/storage.h"
#include "laconic/topology.h"

/* Room for n rows of `entries` entries together, all zero. Errors: USAGE for more than LAC_TOPOLOGY_ENTRIES, MEMORY. */
LAC_MUST_USE lac_status lac_weights_allocate(lac_context *context, int64_t n, int64_t entries, lac_weights *weights);

/* Frees the arrays and sets them to NULL. */
void lac_weights_clear(lac_weights *weights);

/* Reads a graph of `workers` vertices, of as many as it has when that is 0. By LAC_WEIGHTS_FILE, graph is the matrix,
 * checked and divided by its sums; by others it is the pattern, each row with its diagonal, and the weights are left
 * zero. Errors as lac_topology_create. */
LAC_MUST_USE lac_status lac_graph_file_read(lac_context *context, const char *path, int64_t workers, int weights,
                                            lac_weights *graph);

/* The same of bytes that are at hand. */
LAC_MUST_USE lac_status lac_graph_file_parse(lac_context *context, const lac_storage *storage, int64_t workers,
                                             int weights, lac_weights *graph);

#endif
