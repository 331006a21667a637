/* Which mixing time can be had of a process, and how. */
#include "laconic/mixing.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "mixing/process.h"
#include "mixing/realised.h"
#include "mixing/spectrum.h"

static const char *const kinds[] = {"auto", "exact", "averaged", "realised", "bound", NULL};

static const lac_option table[] = {
    {.key = "kind",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_mixing_options, kind),
     .names = kinds,
     .fallback = "auto",
     .help = "which mixing time: exact where nothing is random, of the mean matrix, of the matrices that are drawn, or "
             "bounds by the spectral gap; auto: realised where something is random, else exact up to --dense-limit and "
             "bounds beyond it"},
    {.key = "precision",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_mixing_options, precision),
     .low = 1e-4,
     .high = 1,
     .fallback = "0.01",
     .help = "relative standard error at which sampling stops"},
    {.key = "samples",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_mixing_options, samples),
     .low = 32,
     .high = 1e9,
     .fallback = "4096",
     .unit = "paths",
     .help = "most paths that are sampled"},
    {.key = "dense-limit",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_mixing_options, dense),
     .low = 1,
     .high = 32768,
     .fallback = "4096",
     .unit = "slots",
     .help = "most slots of which dense matrices are multiplied"},
    LAC_OPTIONS_END,
};

const lac_option *lac_mixing_option_table(void) {
  return table;
}

const char *lac_mixing_kind_name(int kind) {
  return kinds[kind];
}

/* ---- a process as a matrix, or a cycle of them ---- */

typedef struct lac_matrix {
  int64_t m;
  double *entry; /* (m, m) */
} lac_matrix;

static lac_status open_matrix(lac_context *context, int64_t m, lac_matrix *matrix) {
  *matrix = (lac_matrix){.m = m};
  return LAC_NEW(context, m * m, &matrix->entry);
}

static void set_identity(lac_matrix *matrix) {
  memset(matrix->entry, 0, (size_t)(matrix->m * matrix->m) * sizeof *matrix->entry);
  for (int64_t i = 0; i < matrix->m; i++) {
    matrix->entry[i * matrix->m + i] = 1;
  }
}

/* x = W: as apply on the identity, which would cost m times as much. */
static void set_event(const lac_process_event *event, lac_matrix *x) {
  set_identity(x);
  for (int32_t r = 0; r < event->rows; r++) {
    const lac_process_row *row = &event->row[r];
    double *to = x->entry + row->slot * x->m;
    to[row->slot] = 0;
    for (int32_t k = 0; k < row->count; k++) {
      to[row->column[k]] += row->weight[k];
    }
  }
}

/* out = W x for the rows of an event, the others as they are. */
static void apply(const lac_process_event *event, const lac_matrix *x, lac_matrix *out) {
  int64_t m = x->m;
  memcpy(out->entry, x->entry, (size_t)(m * m) * sizeof *x->entry);
  for (int32_t r = 0; r < event->rows; r++) {
    const lac_process_row *row = &event->row[r];
    double *to = out->entry + row->slot * m;
    memset(to, 0, (size_t)m * sizeof *to);
    for (int32_t k = 0; k < row->count; k++) {
      const double *from = x->entry + row->column[k] * m;
      for (int64_t c = 0; c < m; c++) {
        to[c] += row->weight[k] * from[c];
      }
    }
  }
}

static void swap(lac_matrix *a, lac_matrix *b) {
  lac_matrix kept = *a;
  *a = *b;
  *b = kept;
}

/* How many rounds until the mixing repeats itself. */
static int64_t cycle_of(const lac_process *process) {
  return process->topology ? lac_topology_phases(process->topology) : 1;
}

/* x <- the product of the next `rounds` rounds, times x. */
static lac_status mix_on(lac_context *context, lac_walk *walk, int64_t rounds, lac_matrix *x, lac_matrix *spare) {
  for (; rounds > 0; rounds--) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "the mixing time was interrupted");
    }
    apply(lac_walk_next(walk), x, spare);
    swap(x, spare);
  }
  return LAC_OK;
}

/* ---- exact ---- */

static const double mixed = 0.25 + 1e-12; /* as in lac_mixing_exact: exactly 1/4 is not lost to rounding */

/* max over the rows of the distance from the mean of the rows, for doubly stochastic phases: their pi is uniform. */
static double from_uniform(const lac_matrix *x) {
  double most = 0;
  for (int64_t i = 0; i < x->m; i++) {
    double away = 0;
    for (int64_t c = 0; c < x->m; c++) {
      away += fabs(x->entry[i * x->m + c] - 1 / (double)x->m);
    }
    most = fmax(most, away / 2);
  }
  return most;
}

/* With phases: so many whole cycles as lac_mixing_exact says, less the last, and on by single phases. The walk is at
 * the beginning of a cycle. */
static lac_status exact_by_phases(lac_context *context, lac_walk *walk, int64_t before, lac_matrix *x,
                                  lac_matrix *spare, int64_t *rounds) {
  set_identity(x);
  LAC_TRY(mix_on(context, walk, before, x, spare));
  for (*rounds = before; from_uniform(x) > mixed; ++*rounds) {
    LAC_TRY(mix_on(context, walk, 1, x, spare));
  }
  return LAC_OK;
}

/* Of the mean of all, in closed form: after t rounds each is (1 - 1/n) (1 - slack)^t away. */
static double rounds_of_means(const lac_process *process) {
  double away = 1 - 1 / (double)process->workers;
  if (away <= mixed || process->slack >= 1) {
    return away > mixed;
  }
  return ceil(log(mixed / away) / log1p(-process->slack));
}

/* The number of rounds that mix, -1 when it never does. */
static lac_status exact_rounds(lac_context *context, const lac_process *process, int64_t *rounds) {
  lac_process every = *process;
  every.period = 1; /* rounds between leave all as it is */
  lac_matrix x = {0}, spare = {0};
  lac_walk *walk = NULL;
  int64_t length = cycle_of(process), cycles = 0;
  lac_status status;
  LAC_TRY_GOTO(status, open_matrix(context, process->slots, &x), end);
  LAC_TRY_GOTO(status, open_matrix(context, process->slots, &spare), end);
  LAC_TRY_GOTO(status, lac_walk_create(context, &every, 0, &walk), end);
  set_event(lac_walk_next(walk), &x);
  LAC_TRY_GOTO(status, mix_on(context, walk, length - 1, &x, &spare), end);
  LAC_TRY_GOTO(status, lac_mixing_exact(context, x.m, process->workers, x.entry, &cycles), end);
  *rounds = cycles;
  if (length > 1 && cycles > 0) {
    LAC_TRY_GOTO(status, exact_by_phases(context, walk, (cycles - 1) * length, &x, &spare, rounds), end);
  }
end:
  lac_walk_destroy(&walk);
  lac_free(x.entry);
  lac_free(spare.entry);
  return status;
}

/* ---- the mean matrix ---- */

/* The mean begins as the identity; what moves from the diagonal is added entry by entry. */
static void add_chance(lac_matrix *mean, int32_t slot, int32_t column, double weight) {
  mean->entry[slot * mean->m + column] += weight;
}

/* E[W] of a step of one worker drawn evenly. */
static void fill_mean(const lac_process *process, lac_matrix *mean) {
  double chance = 1 / (double)process->workers, part = process->slack * chance;
  set_identity(mean);
  for (int32_t i = 0; i < process->workers; i++) {
    if (process->protocol == LAC_PROTOCOL_ASYNC_SERVER) {
      add_chance(mean, i, i, -part);
      add_chance(mean, i, (int32_t)process->workers, part);
      continue;
    }
    const lac_weights *weights = lac_topology_weights(process->topology, 0);
    int64_t begin = weights->start[i], end = weights->start[i + 1], neighbours = 0;
    for (int64_t e = begin; e < end; e++) {
      neighbours += weights->column[e] != i;
    }
    for (int64_t e = begin; e < end; e++) {
      int32_t j = weights->column[e];
      if (process->protocol == LAC_PROTOCOL_ASYNC_RING) {
        add_chance(mean, i, j, part * weights->weight[e]);
        add_chance(mean, i, i, -part * weights->weight[e]);
      } else if (j != i) { /* the pair i, j */
        double half = part / 2 / (double)neighbours;
        add_chance(mean, i, j, half);
        add_chance(mean, i, i, -half);
        add_chance(mean, j, i, half);
        add_chance(mean, j, j, -half);
      }
    }
  }
}

static lac_status averaged_updates(lac_context *context, const lac_process *process, int64_t *updates) {
  lac_matrix mean = {0};
  lac_status status = open_matrix(context, process->slots, &mean);
  if (!status) {
    fill_mean(process, &mean);
    status = lac_mixing_exact(context, mean.m, process->workers, mean.entry, updates);
  }
  lac_free(mean.entry);
  return status;
}

/* ---- the second largest modulus ---- */

static void close_weights(lac_weights *weights) {
  lac_free(weights->start);
  lac_free(weights->column);
  lac_free(weights->weight);
}

static lac_status open_weights(lac_context *context, int64_t n, int64_t entries, lac_weights *weights) {
  *weights = (lac_weights){.n = n};
  LAC_TRY(LAC_NEW(context, n + 1, &weights->start));
  LAC_TRY(LAC_NEW(context, entries, &weights->column));
  return LAC_NEW(context, entries, &weights->weight);
}

static void add_entry(lac_weights *weights, int64_t column, double weight) {
  weights->column[weights->start[weights->n]] = (int32_t)column;
  weights->weight[weights->start[weights->n]++] = weight;
}

/* slack W + (1 - slack) I */
static lac_status loosen(lac_context *context, const lac_weights *weights, double slack, lac_weights *loose) {
  LAC_TRY(open_weights(context, weights->n, weights->start[weights->n] + weights->n, loose));
  for (int64_t i = 0; i < weights->n; i++) {
    bool kept = false;
    loose->start[i] = loose->start[weights->n];
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      int32_t j = weights->column[e];
      if (!kept && j > i) {
        add_entry(loose, i, 1 - slack);
      }
      kept = kept || j >= i;
      add_entry(loose, j, slack * weights->weight[e] + (j == i ? 1 - slack : 0));
    }
    if (!kept) {
      add_entry(loose, i, 1 - slack);
    }
  }
  return LAC_OK;
}

static lac_status keep_entries(lac_context *context, const lac_matrix *matrix, lac_weights *weights) {
  int64_t m = matrix->m, entries = 0;
  for (int64_t e = 0; e < m * m; e++) {
    entries += matrix->entry[e] > 0;
  }
  LAC_TRY(open_weights(context, m, entries, weights));
  for (int64_t i = 0; i < m; i++) {
    weights->start[i] = weights->start[m];
    for (int64_t j = 0; j < m; j++) {
      if (matrix->entry[i * m + j] > 0) {
        add_entry(weights, j, matrix->entry[i * m + j]);
      }
    }
  }
  return LAC_OK;
}

/* Of the topology's matrix, loosened. */
static lac_status spectrum_of(lac_context *context, const lac_process *process, lac_spectrum *spectrum) {
  if (process->slack >= 1) {
    return lac_mixing_spectrum(context, process->topology, spectrum);
  }
  lac_weights loose;
  lac_status status = loosen(context, lac_topology_weights(process->topology, 0), process->slack, &loose);
  if (!status) {
    status = lac_spectrum_of_weights(context, &loose, LAC_SPECTRUM_ANY, spectrum);
  }
  close_weights(&loose);
  return status;
}

/* Of the mean matrix of one worker's step. */
static lac_status spectrum_of_mean(lac_context *context, const lac_process *process, lac_spectrum *spectrum) {
  lac_matrix mean = {0};
  lac_weights weights = {0};
  lac_status status = open_matrix(context, process->slots, &mean);
  if (!status) {
    fill_mean(process, &mean);
    status = keep_entries(context, &mean, &weights);
  }
  if (!status) {
    status = lac_spectrum_of_weights(context, &weights, LAC_SPECTRUM_ANY, spectrum);
  }
  close_weights(&weights);
  lac_free(mean.entry);
  return status;
}

/* ---- all of it ---- */

static void never(lac_mixing_time *time, const lac_connection *connection) {
  time->rounds = time->updates = time->lower = time->upper = (double)INFINITY;
  time->spectral_gap = 0;
  if (connection->closed > 1) {
    snprintf(time->reason, sizeof time->reason, "the topology falls into %lld parts that never hear of each other",
             (long long)connection->closed);
  } else if (connection->components > 1 || connection->period == 1) {
    snprintf(time->reason, sizeof time->reason, "not within 2^62 rounds, or it swings for ever");
  } else {
    snprintf(time->reason, sizeof time->reason,
             "the topology is %s and no worker keeps a part of its own model: what it knows swings with period %lld",
             connection->period == 2 ? "bipartite" : "periodic", (long long)connection->period);
  }
}

static void set_rounds(lac_mixing_time *time, double rounds, double workers) {
  time->rounds = time->lower = time->upper = rounds;
  time->updates = rounds * workers;
}

static lac_status exact_kind(lac_context *context, const lac_process *process, lac_mixing_time *time,
                             const lac_connection *connection) {
  int64_t found = 0;
  if (process->workers > 1 && process->topology) {
    LAC_TRY(exact_rounds(context, process, &found));
  }
  if (found < 0) {
    never(time, connection);
    return LAC_OK;
  }
  double rounds = process->topology ? (double)found : rounds_of_means(process);
  set_rounds(time, rounds * (double)process->period, (double)process->workers);
  return LAC_OK;
}

static lac_status averaged_kind(lac_context *context, const lac_process *process, lac_mixing_time *time,
                                const lac_connection *connection) {
  int64_t updates = 0;
  if (process->workers > 1) {
    LAC_TRY(averaged_updates(context, process, &updates));
  }
  if (updates < 0) {
    never(time, connection);
  } else {
    set_rounds(time, (double)updates / (double)process->workers, (double)process->workers);
  }
  return LAC_OK;
}

static lac_status realised_kind(lac_context *context, const lac_process *process, const lac_mixing_options *options,
                                lac_mixing_time *time) {
  double workers = (double)process->workers;
  lac_realised found = {0};
  if (process->workers > 1) {
    LAC_TRY(lac_mixing_realised(context, process, options, &found));
  }
  set_rounds(time, found.updates / workers, workers);
  time->samples = found.paths;
  time->standard_error = found.error / workers;
  time->lower = fmax(0, time->rounds - time->standard_error);
  time->upper = time->rounds + time->standard_error;
  return LAC_OK;
}

static lac_status bound_kind(lac_context *context, const lac_process *process, lac_mixing_time *time) {
  lac_spectrum spectrum = {.second = 0, .least_pi = 1 / (double)process->workers, .converged = true, .normal = true};
  if (process->topology) {
    LAC_TRY(spectrum_of(context, process, &spectrum));
  } else {
    spectrum.second = 1 - process->slack;
  }
  lac_mixing_bounds(&spectrum, &time->lower, &time->upper);
  time->lower *= (double)process->period;
  time->upper *= (double)process->period;
  time->rounds = time->updates = (double)NAN;
  time->spectral_gap = 1 - pow(spectrum.second, 1 / (double)process->period);
  return LAC_OK;
}

enum { GAP_SLOTS = 1024 };

/* The gap of a round, where it costs little. */
static lac_status set_gap(lac_context *context, const lac_process *process, lac_mixing_time *time) {
  double second = (double)NAN, steps = 1 / (double)process->period;
  if (lac_protocol_asynchronous(process->protocol)) {
    steps *= (double)process->workers;
    if (process->protocol == LAC_PROTOCOL_ASYNC_SERVER) {
      second = 1 - process->slack / (double)process->workers;
    } else if (process->delay == 0 && cycle_of(process) == 1 && process->slots <= GAP_SLOTS) {
      lac_spectrum spectrum;
      LAC_TRY(spectrum_of_mean(context, process, &spectrum));
      second = spectrum.converged ? spectrum.second : (double)NAN;
    }
  } else if (!process->topology) {
    second = 1 - process->slack;
  } else if (lac_topology_phases(process->topology) == 1) {
    lac_spectrum spectrum;
    LAC_TRY(spectrum_of(context, process, &spectrum));
    second = spectrum.converged ? spectrum.second : (double)NAN;
  }
  time->spectral_gap = process->workers == 1 ? 1 : 1 - pow(second, steps);
  return LAC_OK;
}

static int choose(const lac_process *process, const lac_mixing_options *options) {
  if (options->kind != LAC_MIXING_AUTO) {
    return options->kind;
  }
  if (lac_protocol_asynchronous(process->protocol)) {
    return LAC_MIXING_REALISED;
  }
  return !process->topology || process->slots <= options->dense ? LAC_MIXING_EXACT : LAC_MIXING_BOUND;
}

static lac_status check(lac_context *context, const lac_process *process, const lac_mixing_options *options, int kind) {
  bool random = lac_protocol_asynchronous(process->protocol);
  const char *name = lac_protocol_names()[process->protocol];
  if (random && (kind == LAC_MIXING_EXACT || kind == LAC_MIXING_BOUND)) {
    return lac_fail(context, LAC_E_USAGE,
                    "--kind: found %s for %s, whose steps are random, expected averaged or realised", kinds[kind],
                    name);
  }
  if (!random && (kind == LAC_MIXING_AVERAGED || kind == LAC_MIXING_REALISED)) {
    return lac_fail(context, LAC_E_USAGE,
                    "--kind: found %s for %s, in which nothing is random, expected exact or bound", kinds[kind], name);
  }
  if (kind == LAC_MIXING_AVERAGED && process->workers > 1 &&
      (process->delay > 0 || process->period > 1 || cycle_of(process) > 1)) {
    return lac_fail(
        context, LAC_E_USAGE,
        "--kind: found averaged for a process whose steps depend on those before (delay, period or phases), "
        "expected realised");
  }
  if (kind == LAC_MIXING_BOUND && cycle_of(process) > 1) {
    return lac_fail(context, LAC_E_USAGE,
                    "--kind: found bound for a topology with phases, expected exact, with at most %lld slots",
                    (long long)options->dense);
  }
  bool dense = kind != LAC_MIXING_BOUND && (random || process->topology);
  int64_t rows = process->slots - 2 * process->links.count; /* copies that travel have no column of their own */
  if (dense && rows > options->dense) {
    return lac_fail(context, LAC_E_USAGE,
                    "--dense-limit: found %lld slots, expected at most %lld for a mixing time that "
                    "is %s",
                    (long long)rows, (long long)options->dense, kinds[kind]);
  }
  if (kind == LAC_MIXING_REALISED && options->samples < 1) {
    return lac_fail(context, LAC_E_USAGE, "--samples: found %lld, expected at least 1", (long long)options->samples);
  }
  return LAC_OK;
}

static int32_t part_of(int32_t *parent, int32_t i) {
  while (parent[i] != i) {
    parent[i] = parent[parent[i]];
    i = parent[i];
  }
  return i;
}

/* A pair mixes both ways, whichever of the two has the other in its row: parts are what no link connects, as if links
 * had no direction. By union and find, with halved paths. */
static lac_status connect_pairs(lac_context *context, const lac_topology *topology, lac_connection *connection) {
  int64_t n = lac_topology_workers(topology), parts = n;
  int32_t *parent;
  LAC_TRY(LAC_NEW(context, n, &parent));
  for (int32_t i = 0; i < n; i++) {
    parent[i] = i;
  }
  for (int phase = 0; phase < lac_topology_phases(topology); phase++) {
    const lac_weights *weights = lac_topology_weights(topology, phase);
    for (int32_t i = 0; i < n; i++) {
      for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
        int32_t a = part_of(parent, i), b = part_of(parent, weights->column[e]);
        parent[a] = b;
        parts -= a != b;
      }
    }
  }
  lac_free(parent);
  connection->components = connection->closed = parts;
  return LAC_OK;
}

lac_status lac_mixing_check(lac_context *context, const lac_process *process, const lac_mixing_options *options) {
  return check(context, process, options, choose(process, options));
}

/* Drawn pairs, and rows of single workers, break what swings. */
static bool never_mixes(const lac_process *process, const lac_connection *connection) {
  bool swings = connection->components == 1 && connection->period > 1 && process->slack >= 1 &&
                !lac_protocol_asynchronous(process->protocol);
  return process->workers > 1 && (connection->closed > 1 || swings);
}

lac_status lac_mixing_time_of(lac_context *context, const lac_process *process, const lac_mixing_options *options,
                              lac_mixing_time *time) {
  int kind = choose(process, options);
  lac_connection connection = {.components = 1, .closed = 1, .period = 1, .symmetric = true, .doubly = true};
  *time = (lac_mixing_time){.kind = kind};
  LAC_TRY(check(context, process, options, kind));
  if (process->topology) {
    LAC_TRY(lac_topology_connection(context, process->topology, &connection));
  }
  if (process->protocol == LAC_PROTOCOL_ADPSGD) {
    LAC_TRY(connect_pairs(context, process->topology, &connection));
  }
  if (never_mixes(process, &connection)) {
    never(time, &connection);
    return LAC_OK;
  }
  switch (kind) {
    case LAC_MIXING_EXACT:
      LAC_TRY(exact_kind(context, process, time, &connection));
      break;
    case LAC_MIXING_AVERAGED:
      LAC_TRY(averaged_kind(context, process, time, &connection));
      break;
    case LAC_MIXING_REALISED:
      LAC_TRY(realised_kind(context, process, options, time));
      break;
    default:
      return bound_kind(context, process, time);
  }
  if (connection.components > 1) { /* its spectrum is not asked for */
    time->spectral_gap = isinf(time->rounds) ? 0 : (double)NAN;
    return LAC_OK;
  }
  return isinf(time->rounds) ? LAC_OK : set_gap(context, process, time);
}
