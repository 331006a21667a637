#include "laconic/topology.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "mixing/graph_file.h"
#include "mixing/regular.h"

struct lac_topology {
  int kind;
  int64_t workers;
  int64_t rows; /* of a torus or grid */
  int phases;
  lac_weights *phase; /* (phases) */
};

static const char *const kind_names[] = {
    [LAC_TOPOLOGY_COMPLETE] = "complete",
    [LAC_TOPOLOGY_RING] = "ring",
    [LAC_TOPOLOGY_TORUS] = "torus",
    [LAC_TOPOLOGY_GRID] = "grid",
    [LAC_TOPOLOGY_STAR] = "star",
    [LAC_TOPOLOGY_HYPERCUBE] = "hypercube",
    [LAC_TOPOLOGY_EXPONENTIAL] = "exponential",
    [LAC_TOPOLOGY_ONE_PEER] = "one-peer",
    [LAC_TOPOLOGY_RANDOM_REGULAR] = "random-regular",
    NULL,
};

static const char *const weights_names[] = {
    [LAC_WEIGHTS_METROPOLIS] = "metropolis",
    [LAC_WEIGHTS_UNIFORM] = "uniform",
    [LAC_WEIGHTS_FILE] = "file",
    NULL,
};

static const lac_option table[] = {
    {.key = "topology",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_topology_options, kind),
     .names = kind_names,
     .fallback = "ring",
     .help = "which workers mix their models with each other"},
    {.key = "graph",
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(lac_topology_options, graph),
     .unit = "FILE",
     .help =
         "a topology from a file: an edge list, i j or i j weight a line, or Matrix Market; in place of --topology"},
    {.key = "weights",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_topology_options, weights),
     .names = weights_names,
     .fallback = "metropolis",
     .help = "of neighbours' models: Metropolis-Hastings, which keep the mean; equal ones in each worker's average; or "
             "those in the file of --graph"},
    {.key = "degree",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_topology_options, degree),
     .low = 1,
     .high = INT32_MAX - 1,
     .fallback = "4",
     .unit = "neighbours",
     .help = "that each worker has in a random-regular topology"},
    LAC_OPTIONS_END,
};

const lac_option *lac_topology_option_table(void) {
  return table;
}

const char *lac_topology_kind_name(int kind) {
  return kind >= 0 && kind < LAC_TOPOLOGY_FILE ? kind_names[kind] : "file";
}

/* ---- sizes ---- */

/* Least k with 2^k >= n. */
static int log2_up(int64_t n) {
  int k = 0;
  while (k < 62 && (int64_t)1 << k < n) {
    k++;
  }
  return k;
}

/* Rows of a torus or grid of n workers: the largest divisor in least..sqrt(n), 0 when there is none. */
static int64_t rows_of(int64_t n, int64_t least) {
  int64_t rows = 0;
  for (int64_t r = least; r * r <= n; r++) {
    rows = n % r == 0 ? r : rows;
  }
  return rows;
}

static bool exists(const lac_topology_options *options, int64_t n) {
  switch (options->kind) {
    case LAC_TOPOLOGY_COMPLETE:
      return n >= 1;
    case LAC_TOPOLOGY_TORUS:
      return rows_of(n, 3) > 0;
    case LAC_TOPOLOGY_GRID:
      return rows_of(n, 2) > 0;
    case LAC_TOPOLOGY_HYPERCUBE:
      return n >= 2 && (n & (n - 1)) == 0;
    case LAC_TOPOLOGY_RANDOM_REGULAR:
      return lac_regular_exists(n, options->degree);
    default:
      return n >= 2;
  }
}

/* Entries of all phases together, diagonals too; of a grid at most. */
static int64_t entries_of(const lac_topology_options *options, int64_t n) {
  switch (options->kind) {
    case LAC_TOPOLOGY_COMPLETE:
      return n * n;
    case LAC_TOPOLOGY_RING:
    case LAC_TOPOLOGY_STAR:
      return 3 * n;
    case LAC_TOPOLOGY_TORUS:
    case LAC_TOPOLOGY_GRID:
      return 5 * n;
    case LAC_TOPOLOGY_ONE_PEER:
      return 2 * n * log2_up(n);
    case LAC_TOPOLOGY_RANDOM_REGULAR:
      return n * (options->degree + 1);
    default:
      return n * (1 + log2_up(n));
  }
}

static bool is_possible(const lac_topology_options *options, int64_t n) {
  return exists(options, n) && entries_of(options, n) <= LAC_TOPOLOGY_ENTRIES;
}

/* What a random-regular topology asks for besides. */
static const char *kind_text(const lac_topology_options *options, char *text, size_t bytes) {
  snprintf(text, bytes, "%s", lac_topology_kind_name(options->kind));
  if (options->kind == LAC_TOPOLOGY_RANDOM_REGULAR) {
    snprintf(text, bytes, "random-regular of degree %" PRId64, options->degree);
  }
  return text;
}

/* Says which numbers of workers are near. */
static lac_status fail_size(lac_context *context, const lac_topology_options *options, int64_t n) {
  char kind[64];
  int64_t least = options->kind == LAC_TOPOLOGY_RANDOM_REGULAR ? options->degree + 1 : 1;
  int64_t below = n - 1, above = n < least ? least : n + 1, last = 2 * n + least + 8; /* a torus of 9 from 1 */
  while (below > 0 && !exists(options, below)) {
    below = below > least ? below - 1 : 0;
  }
  while (above < last && !is_possible(options, above)) {
    above++;
  }
  bool more = is_possible(options, above);
  kind_text(options, kind, sizeof kind);
  if (below > 0 && more) {
    return lac_fail(context, LAC_E_USAGE,
                    "--workers: found %" PRId64 ", which topology %s cannot have: say %" PRId64 " or %" PRId64, n, kind,
                    below, above);
  }
  if (below > 0 || more) {
    return lac_fail(context, LAC_E_USAGE, "--workers: found %" PRId64 ", which topology %s cannot have: say %" PRId64,
                    n, kind, more ? above : below);
  }
  return lac_fail(context, LAC_E_USAGE, "--workers: found %" PRId64 ", which topology %s cannot have, nor any near it",
                  n, kind);
}

/* Says how many there may be: by bisection, since the number of entries rises with theirs. */
static lac_status fail_entries(lac_context *context, const lac_topology_options *options, int64_t n) {
  char kind[64];
  int64_t low = 0, high = n;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (entries_of(options, middle) <= LAC_TOPOLOGY_ENTRIES) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return lac_fail(context, LAC_E_USAGE,
                  "--workers: found %" PRId64 ", for which topology %s has %" PRId64
                  " weights, expected at most %" PRId64 " weights: no more than %" PRId64 " workers",
                  n, kind_text(options, kind, sizeof kind), entries_of(options, n), LAC_TOPOLOGY_ENTRIES, low);
}

static lac_status check_options(lac_context *context, const lac_topology_options *options, int64_t workers) {
  if (workers < 0 || workers > INT32_MAX) {
    return lac_fail(context, LAC_E_USAGE, "--workers: found %" PRId64 ", expected a number from 1 to %d", workers,
                    INT32_MAX);
  }
  if (options->weights < LAC_WEIGHTS_METROPOLIS || options->weights > LAC_WEIGHTS_FILE) {
    return lac_fail(context, LAC_E_USAGE, "--weights: found number %d, expected one of lac_weights_kind",
                    options->weights);
  }
  if (options->graph) {
    return LAC_OK;
  }
  if (options->kind < 0 || options->kind >= LAC_TOPOLOGY_FILE) {
    return lac_fail(context, LAC_E_USAGE, "--topology: found number %d, expected one of lac_topology_kind, or --graph",
                    options->kind);
  }
  if (options->weights == LAC_WEIGHTS_FILE) {
    return lac_fail(context, LAC_E_USAGE,
                    "--weights: found file, expected a --graph that has them, or metropolis or "
                    "uniform");
  }
  bool regular = options->kind == LAC_TOPOLOGY_RANDOM_REGULAR;
  if (regular && (options->degree < 1 || options->degree >= INT32_MAX)) {
    return lac_fail(context, LAC_E_USAGE, "--degree: found %" PRId64 ", expected 1 to %d", options->degree,
                    INT32_MAX - 1);
  }
  if (regular && options->degree == 1 && workers != 2) {
    return lac_fail(context, LAC_E_USAGE,
                    "--degree: found 1, which connects no more than 2 workers, expected at least 2 for %" PRId64,
                    workers);
  }
  if (!(regular && workers <= options->degree) && entries_of(options, workers) > LAC_TOPOLOGY_ENTRIES) {
    return fail_entries(context, options, workers);
  }
  return exists(options, workers) ? LAC_OK : fail_size(context, options, workers);
}

/* ---- who is whose neighbour ---- */

/* Rows of a matrix as they are written, one after the other; with the diagonal. */
typedef struct rows {
  const lac_topology *topology;
  const int32_t *regular; /* (n, degree) of random-regular */
  int64_t degree;
  int phase;
  int32_t *at; /* where the next entry of the row goes */
} rows;

static void add(rows *self, int64_t column) {
  *self->at++ = (int32_t)column;
}

static void add_range(rows *self, int64_t count) {
  for (int64_t j = 0; j < count; j++) {
    add(self, j);
  }
}

static void add_ring(rows *self, int64_t n, int64_t i) {
  add(self, i);
  add(self, (i + 1) % n);
  if (n > 2) {
    add(self, (i + n - 1) % n);
  }
}

static void add_torus(rows *self, int64_t n, int64_t i) {
  int64_t height = self->topology->rows, width = n / height;
  int64_t r = i / width, c = i % width;
  add(self, i);
  add(self, (r + height - 1) % height * width + c);
  add(self, (r + 1) % height * width + c);
  add(self, r * width + (c + width - 1) % width);
  add(self, r * width + (c + 1) % width);
}

static void add_grid(rows *self, int64_t n, int64_t i) {
  int64_t height = self->topology->rows, width = n / height;
  int64_t r = i / width, c = i % width;
  add(self, i);
  if (r > 0) {
    add(self, i - width);
  }
  if (r < height - 1) {
    add(self, i + width);
  }
  if (c > 0) {
    add(self, i - 1);
  }
  if (c < width - 1) {
    add(self, i + 1);
  }
}

static void add_star(rows *self, int64_t n, int64_t i) {
  if (i == 0) {
    add_range(self, n);
  } else {
    add(self, 0);
    add(self, i);
  }
}

static void add_hypercube(rows *self, int64_t n, int64_t i) {
  add(self, i);
  for (int64_t bit = 1; bit < n; bit *= 2) {
    add(self, i ^ bit);
  }
}

static void add_exponential(rows *self, int64_t n, int64_t i) {
  add(self, i);
  for (int64_t step = 1; step < n; step *= 2) {
    add(self, (i + step) % n);
  }
}

static void add_one_peer(rows *self, int64_t n, int64_t i) {
  add(self, i);
  add(self, (i + ((int64_t)1 << self->phase)) % n);
}

static void add_regular(rows *self, int64_t i) {
  add(self, i);
  for (int64_t k = 0; k < self->degree; k++) {
    add(self, self->regular[i * self->degree + k]);
  }
}

static void add_row(rows *self, int64_t n, int64_t i) {
  switch (self->topology->kind) {
    case LAC_TOPOLOGY_COMPLETE:
      add_range(self, n);
      break;
    case LAC_TOPOLOGY_RING:
      add_ring(self, n, i);
      break;
    case LAC_TOPOLOGY_TORUS:
      add_torus(self, n, i);
      break;
    case LAC_TOPOLOGY_GRID:
      add_grid(self, n, i);
      break;
    case LAC_TOPOLOGY_STAR:
      add_star(self, n, i);
      break;
    case LAC_TOPOLOGY_HYPERCUBE:
      add_hypercube(self, n, i);
      break;
    case LAC_TOPOLOGY_EXPONENTIAL:
      add_exponential(self, n, i);
      break;
    case LAC_TOPOLOGY_ONE_PEER:
      add_one_peer(self, n, i);
      break;
    default:
      add_regular(self, i);
      break;
  }
}

static int rising(const void *a, const void *b) {
  int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
  return (left > right) - (left < right);
}

/* Most rows are short, and those of a star and of a complete graph are in order. */
static void sort_row(int32_t *row, int64_t count) {
  enum { SHORT = 64 };
  int64_t sorted = count > 0;
  while (sorted < count && row[sorted - 1] < row[sorted]) {
    sorted++;
  }
  if (sorted < count && count > SHORT) {
    qsort(row, (size_t)count, sizeof *row, rising);
    return;
  }
  for (; sorted < count; sorted++) {
    int32_t moved = row[sorted];
    int64_t at = sorted;
    for (; at > 0 && row[at - 1] > moved; at--) {
      row[at] = row[at - 1];
    }
    row[at] = moved;
  }
}

static void fill_pattern(rows *self, lac_weights *weights) {
  self->at = weights->column;
  for (int64_t i = 0; i < weights->n; i++) {
    int32_t *row = self->at;
    add_row(self, weights->n, i);
    sort_row(row, self->at - row);
    weights->start[i + 1] = self->at - weights->column;
  }
}

/* ---- weights ---- */

/* w_ii by Metropolis-Hastings is 1/(1 + d_i) and what its neighbours of higher degree do not take: so no number is near
 * the rounding of another, and equal degrees give equal weights. */
static void weigh_row(lac_weights *weights, int64_t i, int kind) {
  const int64_t *start = weights->start;
  double own = 1 / (double)(start[i + 1] - start[i]), rest = own;
  int64_t diagonal = start[i];
  for (int64_t k = start[i]; k < start[i + 1]; k++) {
    int32_t j = weights->column[k];
    double other = 1 / (double)(start[j + 1] - start[j]);
    weights->weight[k] = kind == LAC_WEIGHTS_METROPOLIS && other < own ? other : own;
    rest += own - weights->weight[k];
    diagonal = j == i ? k : diagonal;
  }
  weights->weight[diagonal] = rest;
}

static void weigh(lac_weights *weights, int kind) {
  for (int64_t i = 0; i < weights->n; i++) {
    weigh_row(weights, i, kind);
  }
}

/* ---- building ---- */

static lac_status allocate_phases(lac_context *context, lac_topology *topology, int phases) {
  LAC_TRY(LAC_NEW(context, phases, &topology->phase));
  topology->phases = phases;
  return LAC_OK;
}

static lac_status read_file(lac_context *context, const lac_topology_options *options, int64_t workers,
                            lac_topology *topology) {
  topology->kind = LAC_TOPOLOGY_FILE;
  LAC_TRY(allocate_phases(context, topology, 1));
  LAC_TRY(lac_graph_file_read(context, options->graph, workers, options->weights, topology->phase));
  topology->workers = topology->phase->n;
  if (options->weights != LAC_WEIGHTS_FILE) {
    weigh(topology->phase, options->weights);
  }
  return LAC_OK;
}

static lac_status fill_phases(lac_context *context, const lac_topology_options *options, const int32_t *regular,
                              lac_topology *topology) {
  int64_t entries = entries_of(options, topology->workers) / topology->phases;
  for (int phase = 0; phase < topology->phases; phase++) {
    rows self = {.topology = topology, .regular = regular, .degree = options->degree, .phase = phase};
    LAC_TRY(lac_weights_allocate(context, topology->workers, entries, &topology->phase[phase]));
    fill_pattern(&self, &topology->phase[phase]);
    weigh(&topology->phase[phase], options->weights);
  }
  return LAC_OK;
}

static lac_status build(lac_context *context, const lac_topology_options *options, int64_t workers, int64_t seed,
                        lac_topology *topology) {
  topology->kind = options->kind;
  topology->workers = workers;
  if (options->kind == LAC_TOPOLOGY_TORUS || options->kind == LAC_TOPOLOGY_GRID) {
    topology->rows = rows_of(workers, options->kind == LAC_TOPOLOGY_TORUS ? 3 : 2);
  }
  LAC_TRY(allocate_phases(context, topology, options->kind == LAC_TOPOLOGY_ONE_PEER ? log2_up(workers) : 1));
  int32_t *regular = NULL;
  lac_status status = LAC_OK;
  if (options->kind == LAC_TOPOLOGY_RANDOM_REGULAR) {
    status = LAC_NEW(context, workers * options->degree, &regular);
    status = status ? status : lac_regular_draw(context, workers, options->degree, seed, regular);
  }
  status = status ? status : fill_phases(context, options, regular, topology);
  lac_free(regular);
  return status;
}

lac_status lac_topology_create(lac_context *context, const lac_topology_options *options, int64_t workers, int64_t seed,
                               lac_topology **topology) {
  *topology = NULL;
  LAC_TRY(check_options(context, options, workers));
  lac_topology *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  lac_status status =
      options->graph ? read_file(context, options, workers, made) : build(context, options, workers, seed, made);
  if (status) {
    lac_topology_destroy(&made);
  }
  *topology = made;
  return status;
}

void lac_topology_destroy(lac_topology **topology) {
  if (*topology) {
    for (int i = 0; i < (*topology)->phases; i++) {
      lac_weights_clear(&(*topology)->phase[i]);
    }
    lac_free((*topology)->phase);
    lac_free(*topology);
    *topology = NULL;
  }
}

int lac_topology_kind_of(const lac_topology *topology) {
  return topology->kind;
}

int64_t lac_topology_workers(const lac_topology *topology) {
  return topology->workers;
}

int lac_topology_phases(const lac_topology *topology) {
  return topology->phases;
}

int64_t lac_topology_rows(const lac_topology *topology) {
  return topology->rows;
}

const lac_weights *lac_topology_weights(const lac_topology *topology, int phase) {
  return &topology->phase[phase];
}
