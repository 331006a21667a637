/* A walk: one random sequence of events. What is drawn for an event is drawn in order from the path's own stream. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "mixing/process.h"

struct lac_walk {
  const lac_process *process;
  lac_random stream;
  int64_t time;
  int64_t *own;   /* (workers): updates of each so far; of synchronous protocols the first alone counts rounds */
  int64_t *due;   /* (links): when the copy arrives that travels, 0: none does */
  int32_t leaves; /* whose model leaves after the last event, or -1 */
  lac_process_event event;
  lac_process_row *row; /* the rows, what they point to in: */
  int32_t *column;
  double *weight;
};

static int64_t most_entries(const lac_weights *weights, bool of_a_row) {
  int64_t most = 0;
  for (int64_t i = 0; of_a_row && i < weights->n; i++) {
    int64_t count = weights->start[i + 1] - weights->start[i];
    most = count > most ? count : most;
  }
  return of_a_row ? most : weights->start[weights->n];
}

/* How many rows, and entries in them, an event can have. */
static void measure(const lac_process *process, int64_t *rows, int64_t *entries) {
  const lac_topology *topology = process->topology;
  bool rounds = !lac_protocol_asynchronous(process->protocol);
  *rows = rounds ? process->workers : 2 + 2 * process->links.count;
  *entries = 2 * process->workers; /* of a mean: 1/n, so often that each row finds its diagonal in the middle */
  for (int phase = 0; topology && phase < lac_topology_phases(topology); phase++) {
    int64_t count = most_entries(lac_topology_weights(topology, phase), !rounds);
    *entries = count > *entries ? count : *entries;
  }
  *entries += process->workers + 4 + 2 * process->links.count; /* a diagonal that the file does not have */
}

static lac_status create_in(lac_context *context, lac_walk *walk) {
  int64_t rows, entries;
  measure(walk->process, &rows, &entries);
  LAC_TRY(LAC_NEW(context, walk->process->workers, &walk->own));
  LAC_TRY(LAC_NEW(context, walk->process->links.count, &walk->due));
  LAC_TRY(LAC_NEW(context, rows, &walk->row));
  LAC_TRY(LAC_NEW(context, entries, &walk->column));
  return LAC_NEW(context, entries, &walk->weight);
}

lac_status lac_walk_create(lac_context *context, const lac_process *process, int64_t path, lac_walk **walk) {
  lac_walk *made;
  *walk = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_walk){.process = process,
                     .stream = lac_random_stream(process->seed, LAC_RANDOM_PROCESS, (uint64_t)path, 0),
                     .leaves = -1};
  lac_status status = create_in(context, made);
  if (status) {
    lac_walk_destroy(&made);
    return status;
  }
  made->event.row = made->row;
  *walk = made;
  return LAC_OK;
}

void lac_walk_destroy(lac_walk **walk) {
  lac_walk *old = *walk;
  if (old) {
    lac_free(old->own);
    lac_free(old->due);
    lac_free(old->row);
    lac_free(old->column);
    lac_free(old->weight);
    lac_free(old);
    *walk = NULL;
  }
}

/* ---- rows ---- */

/* Where the entries of the next row go. */
static int64_t used_entries(const lac_walk *walk) {
  int32_t rows = walk->event.rows;
  return rows == 0 ? 0 : (walk->row[rows - 1].column - walk->column) + walk->row[rows - 1].count;
}

static void add_row(lac_walk *walk, int32_t slot, int64_t begin, int32_t count) {
  walk->row[walk->event.rows++] = (lac_process_row){slot, count, walk->column + begin, walk->weight + begin};
}

/* slot <- (1 - part) slot + part other */
static void add_step(lac_walk *walk, int32_t slot, int32_t other, double part) {
  int64_t e = used_entries(walk);
  int32_t count = 0;
  if (part < 1) {
    walk->column[e] = slot;
    walk->weight[e + count++] = 1 - part;
  }
  walk->column[e + count] = other;
  walk->weight[e + count++] = part;
  add_row(walk, slot, e, count);
}

/* Worker i's row of a topology, loosened; with a delay from the copies that it has. */
static void add_mixed(lac_walk *walk, const lac_weights *weights, int32_t i) {
  const lac_process *process = walk->process;
  double slack = process->slack;
  int64_t begin = used_entries(walk), e = begin, link = process->links.count > 0 ? process->links.incoming[i] : 0;
  bool kept = false;
  for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++, e++) {
    bool mine = weights->column[k] == i;
    kept = kept || mine;
    walk->weight[e] = slack * weights->weight[k] + (mine ? 1 - slack : 0);
    walk->column[e] = mine || process->links.count == 0 ? weights->column[k] : (int32_t)(process->workers + 2 * link++);
  }
  if (!kept && slack < 1) {
    walk->column[e] = i;
    walk->weight[e++] = 1 - slack;
  }
  add_row(walk, i, begin, (int32_t)(e - begin));
}

/* All rows of the mean, which share their entries: 1/n everywhere and the diagonal's in the middle. */
static void add_means(lac_walk *walk) {
  int64_t n = walk->process->workers;
  double slack = walk->process->slack;
  for (int64_t k = 0; k < 2 * n - 1; k++) {
    walk->weight[k] = slack / (double)n + (k == n - 1 ? 1 - slack : 0);
    walk->column[k] = k < n ? (int32_t)k : 0;
  }
  for (int64_t i = 0; i < n; i++) {
    walk->row[i] = (lac_process_row){(int32_t)i, (int32_t)n, walk->column, walk->weight + (n - 1 - i)};
  }
  walk->event.rows = (int32_t)n;
}

/* ---- events ---- */

static void round_of_all(lac_walk *walk) {
  const lac_process *process = walk->process;
  int64_t round = walk->own[0]++;
  walk->event.worker = walk->event.read = walk->event.write = -1;
  walk->event.updates = (int32_t)process->workers;
  if ((round + 1) % process->period != 0) {
    return;
  }
  if (process->topology) {
    int phase = (int)(((round + 1) / process->period - 1) % lac_topology_phases(process->topology));
    const lac_weights *weights = lac_topology_weights(process->topology, phase);
    for (int32_t i = 0; i < process->workers; i++) {
      add_mixed(walk, weights, i);
    }
  } else {
    add_means(walk);
  }
}

static void average_a_pair(lac_walk *walk, const lac_weights *weights, int32_t i) {
  int64_t begin = weights->start[i], end = weights->start[i + 1], self = begin;
  while (self < end && weights->column[self] != i) {
    self++;
  }
  int64_t neighbours = end - begin - (self < end);
  if (neighbours > 0) {
    int64_t drawn = begin + lac_random_below(&walk->stream, neighbours);
    int32_t j = weights->column[drawn + (drawn >= self)];
    add_step(walk, i, j, walk->process->slack / 2);
    add_step(walk, j, i, walk->process->slack / 2);
  }
}

/* Copies that have arrived, and those that leave: of the model that the last event left. A travel takes an event and
 * geometrically many more, `delay` rounds of them on the average. */
static void move_copies(lac_walk *walk) {
  const lac_process *process = walk->process;
  const lac_links *links = &process->links;
  double chance = 1 / (1 + process->delay * (double)process->workers);
  for (int64_t l = 0; l < links->count; l++) {
    if (walk->due[l] > 0 && walk->due[l] <= walk->time) {
      int32_t copy = (int32_t)(process->workers + 2 * l);
      add_step(walk, copy, copy + 1, 1);
      walk->due[l] = 0;
    }
  }
  for (int64_t k = walk->leaves < 0 ? 0 : links->outgoing[walk->leaves];
       walk->leaves >= 0 && k < links->outgoing[walk->leaves + 1]; k++) {
    int64_t l = links->outgoing_link[k];
    double drawn = lac_random_uniform(&walk->stream);
    if (walk->due[l] == 0) { /* a link carries one model at a time */
      add_step(walk, (int32_t)(process->workers + 2 * l + 1), walk->leaves, 1);
      walk->due[l] = walk->time + 1 + (int64_t)(log1p(-drawn) / log1p(-chance));
    }
  }
}

static void step_of_one(lac_walk *walk) {
  const lac_process *process = walk->process;
  int32_t i = (int32_t)lac_random_below(&walk->stream, process->workers);
  int64_t update = ++walk->own[i];
  bool mixes = update % process->period == 0, server = process->protocol == LAC_PROTOCOL_ASYNC_SERVER;
  walk->event.worker = walk->event.read = walk->event.write = i;
  walk->event.updates = 1;
  if (server) {
    walk->event.first = mixes;
    walk->event.write = mixes ? (int32_t)process->workers : i;
    if (mixes) {
      add_step(walk, i, (int32_t)process->workers, process->slack);
    }
    return;
  }
  if (mixes) {
    int phase = (int)((update / process->period - 1) % lac_topology_phases(process->topology));
    const lac_weights *weights = lac_topology_weights(process->topology, phase);
    if (process->protocol == LAC_PROTOCOL_ADPSGD) {
      average_a_pair(walk, weights, i);
    } else {
      add_mixed(walk, weights, i);
    }
  }
  if (process->delay > 0) {
    move_copies(walk);
    walk->leaves = mixes ? i : -1;
  }
}

const lac_process_event *lac_walk_next(lac_walk *walk) {
  walk->event.rows = 0;
  walk->event.first = false;
  walk->time++;
  if (lac_protocol_asynchronous(walk->process->protocol)) {
    step_of_one(walk);
  } else {
    round_of_all(walk);
  }
  return &walk->event;
}
