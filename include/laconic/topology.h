/* Topologies: which workers' models a worker mixes with its own, and by what weights.
 *
 * A topology is one or more row-stochastic matrices, one a phase: row i says what becomes of worker i's model,
 * x_i <- sum over j of w_ij x_j. All kinds but one-peer have one phase. */
#ifndef LACONIC_TOPOLOGY_H
#define LACONIC_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"
#include "laconic/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* With n workers:
 *
 *     complete        everyone with everyone; n from 1
 *     ring            the one before and the one after; n from 2
 *     torus           four neighbours in an R x C grid whose edges meet; R the largest divisor of n with 3 <= R <= C
 *     grid            the same without the edges' meeting; R >= 2
 *     star            everyone with worker 0; n from 2
 *     hypercube       those whose number differs in one bit; n a power of two from 2
 *     exponential     directed: worker i takes from i + 1, i + 2, i + 4, … modulo n, all that are below n; n from 2
 *     one-peer        directed, ceil(log2 n) phases: in phase k half of itself, half of i + 2^k modulo n; n from 2
 *     random-regular  a random connected graph of a given degree, drawn by the seed; n > degree, n times degree even;
 *                     degree 1 for n = 2 only
 *     file            a graph read from a file
 *
 * Worker i of a torus or grid is in row i / C, column i % C.
 *
 * Sources: Ying et al. 2021 (exponential, one-peer); Assran et al. 2019 (one-peer). */
typedef enum lac_topology_kind {
  LAC_TOPOLOGY_COMPLETE,
  LAC_TOPOLOGY_RING,
  LAC_TOPOLOGY_TORUS,
  LAC_TOPOLOGY_GRID,
  LAC_TOPOLOGY_STAR,
  LAC_TOPOLOGY_HYPERCUBE,
  LAC_TOPOLOGY_EXPONENTIAL,
  LAC_TOPOLOGY_ONE_PEER,
  LAC_TOPOLOGY_RANDOM_REGULAR,
  LAC_TOPOLOGY_FILE, /* not in the option table: `graph` names it */
  LAC_TOPOLOGY_KINDS
} lac_topology_kind;

/* How a graph's weights come about, d_i being the neighbours of i:
 *
 *     metropolis  w_ij = 1 / (1 + max(d_i, d_j)), the rest on the diagonal: symmetric, so that the mean is kept
 *                 (Metropolis-Hastings; Xiao, Boyd and Kim 2007); of directed kinds, all of whose degrees are equal,
 *                 1 / (1 + d)
 *     uniform     w_ij = w_ii = 1 / (1 + d_i)
 *     file        those in the file, the diagonal too; a row that has no diagonal entry gets what is missing to 1
 *
 * Every row but one of a file's weights has its diagonal, which is positive. */
typedef enum lac_weights_kind { LAC_WEIGHTS_METROPOLIS, LAC_WEIGHTS_UNIFORM, LAC_WEIGHTS_FILE } lac_weights_kind;

typedef struct lac_topology_options {
  int kind;       /* lac_topology_kind; --topology, default ring */
  char *graph;    /* path, --graph: kind and degree do not count then */
  int weights;    /* lac_weights_kind; --weights */
  int64_t degree; /* of random-regular, --degree, default 4 */
} lac_topology_options;

/* Keys topology, graph, weights, degree. Borrowed. Local. */
LAC_API const lac_option *lac_topology_option_table(void);

/* The kind as the option table spells it; "file" for a file. Local. */
LAC_API const char *lac_topology_kind_name(int kind);

/* A sparse row-stochastic matrix (n, n), row by row. */
typedef struct lac_weights {
  int64_t n;
  int64_t *start;  /* (n + 1): row i is entries start[i] to start[i + 1] - 1 */
  int32_t *column; /* (start[n]), rising within a row */
  double *weight;  /* (start[n]), positive; the diagonal is there where it is positive */
} lac_weights;

typedef struct lac_topology lac_topology;

/* Most entries of the matrices, diagonals too: a complete graph of 16,384 workers, a ring of 89 million. */
#define LAC_TOPOLOGY_ENTRIES ((int64_t)1 << 28)

/* Builds a topology, or reads it. A file is an edge list ("i j" or "i j weight" a line, vertices from 0, undirected,
 * blank lines and those that begin with # or % are passed over) or Matrix Market's (coordinate; pattern, real or
 * integer; general or symmetric; told by its first line; vertices from 1). In a file of weights entry (i, j) is w_ij;
 * an edge list's counts both ways. An entry of weight 0 is no edge; other weights of a file do not count unless they
 * are asked for. workers 0 is as many as the file has vertices; seed draws random-regular. A topology of a file need
 * not connect all workers: lac_topology_connection tells.
 *
 * Errors: USAGE for a number of workers that the kind cannot have (the line says which are near: 8 or 16 for a
 * hypercube of 12) or weights "file" without a file; INPUT, naming file and line, for a file that is malformed, has
 * self-loops (weights apart), an edge twice, a vertex without edges or one that is no worker, is not square, is not
 * symmetric where metropolis asks for it, or whose weights are negative, not finite or do not sum to 1 within 1e-6 in a
 * row (they are then divided by their sum); NUMERICAL when no random-regular graph is found; INTERRUPTED; MEMORY.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_topology_create(lac_context *context, const lac_topology_options *options,
                                                    int64_t workers, int64_t seed, lac_topology **topology);
/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_topology_destroy(lac_topology **topology);

/* Local. */
LAC_API int lac_topology_kind_of(const lac_topology *topology);
LAC_API int64_t lac_topology_workers(const lac_topology *topology);
LAC_API int lac_topology_phases(const lac_topology *topology);
/* Of a torus or grid: rows, of others 0. Local. */
LAC_API int64_t lac_topology_rows(const lac_topology *topology);
/* The matrix of a phase, borrowed. Local. */
LAC_API const lac_weights *lac_topology_weights(const lac_topology *topology, int phase);

/* What can be said of a matrix, or of all phases together, before any computing with numbers. */
typedef struct lac_connection {
  int64_t components; /* strongly connected ones */
  int64_t closed;     /* of them those that no edge leaves; models of several never mix, of one they can */
  int64_t period;     /* of the chain within worker 0's component, 1 when it is aperiodic */
  bool symmetric;     /* every matrix */
  bool doubly;        /* every matrix is doubly stochastic, within 1e-9: the mean over the workers is kept */
} lac_connection;

/* Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_topology_connection(lac_context *context, const lac_topology *topology,
                                                        lac_connection *connection);

#ifdef __cplusplus
}
#endif
#endif
