/* Communication processes: their events beside matrices, counts and symbols that are worked out here. */
#include "laconic/process.h"

#include <math.h>

#include "support.h"

enum { MOST = 40, SLOTS = 1200 };

static lac_process_options options_of(int protocol, int kind) {
  return (lac_process_options){
      .protocol = protocol, .topology = {.kind = kind, .degree = 3}, .period = 1, .slack = 1, .delay = 0};
}

static lac_process *make(lac_context *context, const lac_process_options *options, int64_t n, int64_t seed) {
  lac_process *process;
  assert_ok(context, lac_process_create(context, options, n, seed, &process));
  return process;
}

static lac_walk *walk_of(lac_context *context, const lac_process *process, int64_t path) {
  lac_walk *walk;
  assert_ok(context, lac_walk_create(context, process, path, &walk));
  return walk;
}

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static double weight_at(const lac_weights *weights, int64_t i, int64_t j) {
  for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
    if (weights->column[k] == j) {
      return weights->weight[k];
    }
  }
  return 0;
}

/* slack W + (1 - slack) I, entry by entry */
static double loose_at(const lac_weights *weights, double slack, int64_t i, int64_t j) {
  return slack * weight_at(weights, i, j) + (i == j ? 1 - slack : 0);
}

static double entry_of(const lac_process_row *row, int64_t column) {
  double sum = 0;
  for (int32_t k = 0; k < row->count; k++) {
    sum += row->column[k] == column ? row->weight[k] : 0;
  }
  return sum;
}

static const lac_process_row *row_of(const lac_process_event *event, int64_t slot) {
  for (int32_t r = 0; r < event->rows; r++) {
    if (event->row[r].slot == slot) {
      return &event->row[r];
    }
  }
  return NULL;
}

static void assert_near(double found, double expected) {
  if (!(fabs(found - expected) <= 1e-14 * fmax(1, fabs(expected)))) {
    fail_msg("found %.17g, expected %.17g", found, expected);
  }
}

/* ---- what every event promises ---- */

static void check_row(const lac_process_row *row, int64_t slots) {
  double sum = 0;
  assert_true(row->count > 0);
  for (int32_t k = 0; k < row->count; k++) {
    assert_in_range(row->column[k], 0, slots - 1);
    assert_true(row->weight[k] >= 0);
    sum += row->weight[k];
  }
  if (!(fabs(sum - 1) <= 1e-12)) {
    fail_msg("the row of slot %d sums to %.17g", (int)row->slot, sum);
  }
}

static void check_event(const lac_process *process, const lac_process_event *event) {
  int64_t n = lac_process_workers(process), slots = lac_process_slots(process);
  bool seen[SLOTS] = {false};
  for (int32_t r = 0; r < event->rows; r++) {
    assert_in_range(event->row[r].slot, 0, slots - 1);
    assert_false(seen[event->row[r].slot]);
    seen[event->row[r].slot] = true;
    check_row(&event->row[r], slots);
  }
  if (lac_protocol_asynchronous(lac_process_protocol(process))) {
    assert_int_equal(event->updates, 1);
    assert_in_range(event->worker, 0, n - 1);
    assert_int_equal(event->read, event->worker);
    assert_in_range(event->write, 0, slots - 1);
  } else {
    assert_int_equal(event->updates, n);
    assert_true(event->worker == -1 && event->read == -1 && event->write == -1);
  }
}

static void check_walk(lac_context *context, const lac_process_options *options, int64_t n, int events) {
  lac_process *process = make(context, options, n, 5);
  assert_true(lac_process_slots(process) <= SLOTS);
  lac_walk *walk = walk_of(context, process, 3);
  for (int t = 0; t < events; t++) {
    check_event(process, lac_walk_next(walk));
  }
  lac_walk_destroy(&walk);
  assert_null(walk);
  lac_walk_destroy(&walk);
  lac_process_destroy(&process);
  assert_null(process);
  lac_process_destroy(&process);
}

static void check_modified(lac_context *context, lac_process_options options, int64_t n) {
  static const double slacks[] = {1, 0.3};
  bool ring = options.protocol == LAC_PROTOCOL_ASYNC_RING && options.topology.kind != LAC_TOPOLOGY_ONE_PEER;
  for (options.period = 1; options.period <= 3; options.period += 2) {
    for (int s = 0; s < 2; s++) {
      options.slack = slacks[s];
      for (options.delay = 0; options.delay < (ring ? 2 : 0.5); options.delay += 0.75) {
        check_walk(context, &options, n, 150);
      }
      options.delay = 0;
    }
  }
}

static void every_row_is_stochastic(void **state) {
  char graph[] = "swap.edges"; /* nobody keeps a part of its own model: rows without a diagonal */
  write_file(graph, "0 1 0.5\n1 2 0.5\n2 3 0.5\n3 0 0.5\n");
  for (int protocol = 0; protocol < LAC_PROTOCOLS; protocol++) {
    for (int kind = 0; kind < LAC_TOPOLOGY_FILE; kind++) {
      if (kind == 0 || lac_protocol_on_topology(protocol)) {
        check_modified(*state, options_of(protocol, kind), 16);
      }
    }
    check_modified(*state, options_of(protocol, LAC_TOPOLOGY_COMPLETE), 1);
    if (lac_protocol_on_topology(protocol)) {
      lac_process_options options = options_of(protocol, LAC_TOPOLOGY_RING);
      options.topology.graph = graph;
      options.topology.weights = LAC_WEIGHTS_FILE;
      check_modified(*state, options, 0);
    }
  }
}

/* ---- synchronous rounds ---- */

static void check_mean(const lac_process_event *event, int64_t n, double slack) {
  assert_int_equal(event->rows, n);
  for (int64_t i = 0; i < n; i++) {
    const lac_process_row *row = row_of(event, i);
    assert_non_null(row);
    for (int64_t j = 0; j < n; j++) {
      assert_near(entry_of(row, j), slack / (double)n + (i == j ? 1 - slack : 0));
    }
  }
}

static void means_of_all(void **state) {
  static const int protocols[] = {LAC_PROTOCOL_ALLREDUCE, LAC_PROTOCOL_SERVER, LAC_PROTOCOL_PERIODIC};
  static const int64_t periods[] = {1, 2, 7};
  for (int c = 0; c < 27; c++) {
    lac_process_options options = options_of(protocols[c % 3], LAC_TOPOLOGY_RING);
    options.period = periods[c / 3 % 3];
    options.slack = c / 9 == 0 ? 1 : c / 9 == 1 ? 0.25 : 1e-3;
    int64_t n = 1 + c / 3, period = options.period;
    if (options.protocol == LAC_PROTOCOL_PERIODIC && period == 1) {
      period = 25; /* documented in docs and help */
    }
    lac_process *process = make(*state, &options, n, 0);
    assert_int_equal(lac_process_period(process), period);
    assert_int_equal(lac_process_slots(process), n);
    assert_null(lac_process_topology(process));
    lac_walk *walk = walk_of(*state, process, 0);
    for (int64_t round = 1; round <= 60; round++) {
      const lac_process_event *event = lac_walk_next(walk);
      if (round % period) {
        assert_int_equal(event->rows, 0);
      } else {
        check_mean(event, n, options.slack);
      }
    }
    lac_walk_destroy(&walk);
    lac_process_destroy(&process);
  }
}

/* The k-th mixing, from 0: its phase's matrix, loosened. */
static void check_round(const lac_process *process, const lac_process_event *event, int64_t k) {
  const lac_topology *topology = lac_process_topology(process);
  const lac_weights *weights = lac_topology_weights(topology, (int)(k % lac_topology_phases(topology)));
  assert_int_equal(event->rows, lac_process_workers(process));
  for (int64_t i = 0; i < weights->n; i++) {
    const lac_process_row *row = row_of(event, i);
    assert_non_null(row);
    for (int64_t j = 0; j < weights->n; j++) {
      assert_near(entry_of(row, j), loose_at(weights, lac_process_slack(process), i, j));
    }
  }
}

static void rounds_of_a_topology(void **state) {
  for (int c = 0; c < 3 * LAC_TOPOLOGY_FILE; c++) {
    lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, c % LAC_TOPOLOGY_FILE);
    options.period = 1 + 2 * (c / LAC_TOPOLOGY_FILE);
    options.slack = c / LAC_TOPOLOGY_FILE == 1 ? 0.4 : 1;
    lac_process *process = make(*state, &options, 16, 9);
    lac_walk *walk = walk_of(*state, process, 0);
    for (int64_t round = 1; round <= 30; round++) {
      const lac_process_event *event = lac_walk_next(walk);
      if (round % options.period) {
        assert_int_equal(event->rows, 0);
      } else {
        check_round(process, event, round / options.period - 1);
      }
    }
    lac_walk_destroy(&walk);
    lac_process_destroy(&process);
  }
}

/* Without lac_topology: half of itself, half of i + 2^k modulo n, k going around. */
static void one_peer_by_hand(void **state) {
  static const int64_t sizes[] = {2, 3, 6, 8, 13};
  for (int s = 0; s < 5; s++) {
    int64_t n = sizes[s], phases = 0;
    while ((1 << phases) < n) {
      phases++;
    }
    lac_process_options options = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_ONE_PEER);
    options.period = 2;
    lac_process *process = make(*state, &options, n, 0);
    lac_walk *walk = walk_of(*state, process, 0);
    for (int64_t k = 0; k < 3 * phases; k++) {
      assert_int_equal(lac_walk_next(walk)->rows, 0);
      const lac_process_event *event = lac_walk_next(walk);
      for (int64_t i = 0; i < n; i++) {
        const lac_process_row *row = row_of(event, i);
        assert_near(entry_of(row, i), 0.5);
        assert_near(entry_of(row, (i + (1 << k % phases)) % n), 0.5);
      }
    }
    lac_walk_destroy(&walk);
    lac_process_destroy(&process);
  }
}

/* ---- what is drawn ---- */

static bool same_event(const lac_process_event *a, const lac_process_event *b) {
  bool same = a->worker == b->worker && a->updates == b->updates && a->read == b->read && a->write == b->write &&
              a->first == b->first && a->rows == b->rows;
  for (int32_t r = 0; same && r < a->rows; r++) {
    const lac_process_row *x = &a->row[r], *y = &b->row[r];
    same = x->slot == y->slot && x->count == y->count &&
           memcmp(x->column, y->column, (size_t)x->count * sizeof *x->column) == 0 &&
           memcmp(x->weight, y->weight, (size_t)x->count * sizeof *x->weight) == 0;
  }
  return same;
}

/* How many of 300 events agree, another walk going on between. */
static int agreement(lac_context *context, const lac_process *a, int64_t path_a, const lac_process *b, int64_t path_b) {
  lac_walk *one = walk_of(context, a, path_a), *two = walk_of(context, b, path_b), *other = walk_of(context, a, 77);
  int same = 0;
  for (int t = 0; t < 300; t++) {
    same += same_event(lac_walk_next(one), lac_walk_next(two));
    if (t % 3 == 0) {
      lac_walk_next(other);
    }
  }
  lac_walk_destroy(&one);
  lac_walk_destroy(&two);
  lac_walk_destroy(&other);
  return same;
}

static void walks_are_functions_of_seed_and_path(void **state) {
  static const int protocols[] = {LAC_PROTOCOL_ASYNC_SERVER, LAC_PROTOCOL_ADPSGD, LAC_PROTOCOL_ASYNC_RING};
  for (int c = 0; c < 6; c++) {
    lac_process_options options = options_of(protocols[c % 3], LAC_TOPOLOGY_RING);
    options.delay = c == 5 ? 1.5 : 0;
    lac_process *one = make(*state, &options, 8, 4), *again = make(*state, &options, 8, 4);
    lac_process *other = make(*state, &options, 8, 5);
    assert_int_equal(agreement(*state, one, 2, again, 2), 300);
    assert_true(agreement(*state, one, 2, again, 3) < 100); /* an eighth by chance */
    assert_true(agreement(*state, one, 2, other, 2) < 100);
    lac_process_destroy(&one);
    lac_process_destroy(&again);
    lac_process_destroy(&other);
  }
}

/* Pearson's statistic of counts that should be equal. */
static double chi_square(const int64_t *count, int cells) {
  double total = 0, sum = 0;
  for (int c = 0; c < cells; c++) {
    total += (double)count[c];
  }
  for (int c = 0; c < cells; c++) {
    double away = (double)count[c] - total / cells;
    sum += away * away * cells / total;
  }
  return sum;
}

static void workers_are_drawn_evenly(void **state) {
  static const int protocols[] = {LAC_PROTOCOL_ASYNC_SERVER, LAC_PROTOCOL_ADPSGD, LAC_PROTOCOL_ASYNC_RING};
  for (int c = 0; c < 4; c++) {
    int64_t single[10] = {0}, pair[100] = {0};
    lac_process_options options = options_of(protocols[c % 3], LAC_TOPOLOGY_RING);
    options.delay = c == 2 ? 0.5 : 0;
    lac_process *process = make(*state, &options, 10, 1);
    lac_walk *walk = walk_of(*state, process, c);
    int before = lac_walk_next(walk)->worker;
    for (int t = 0; t < 40000; t++) {
      int worker = lac_walk_next(walk)->worker;
      single[worker]++;
      pair[10 * before + worker]++;
      before = worker;
    }
    double one = chi_square(single, 10), two = chi_square(pair, 100);
    if (one < 0.7 || one > 33.7 || two < 52 || two > 162) { /* 1 and 9,999 in 10,000 of 9 and 99 degrees of freedom */
      fail_msg("%s: chi-square of workers %g, of pairs in sequence %g", lac_protocol_names()[protocols[c % 3]], one,
               two);
    }
    lac_walk_destroy(&walk);
    lac_process_destroy(&process);
  }
}

/* ---- adpsgd ---- */

/* Both get their mean, loosened, and nobody else anything; returns the partner. */
static int64_t check_pair(const lac_process_event *event, double slack) {
  int64_t i = event->worker;
  assert_int_equal(event->rows, 2);
  assert_int_equal(event->write, i);
  assert_false(event->first);
  int64_t j = event->row[0].slot == i ? event->row[1].slot : event->row[0].slot;
  assert_int_not_equal(i, j);
  const lac_process_row *mine = row_of(event, i), *other = row_of(event, j);
  assert_true(mine && other);
  assert_near(entry_of(mine, j), slack / 2);
  assert_near(entry_of(mine, i), 1 - slack / 2);
  assert_near(entry_of(other, i), slack / 2);
  assert_near(entry_of(other, j), 1 - slack / 2);
  return j;
}

static void count_partners(lac_context *context, const lac_process *process, int64_t count[MOST][MOST]) {
  lac_walk *walk = walk_of(context, process, 0);
  for (int t = 0; t < 60000; t++) {
    const lac_process_event *event = lac_walk_next(walk);
    count[event->worker][check_pair(event, lac_process_slack(process))]++;
  }
  lac_walk_destroy(&walk);
}

static void check_partners(lac_context *context, const lac_process_options *options, int64_t n) {
  static int64_t count[MOST][MOST];
  memset(count, 0, sizeof count);
  lac_process *process = make(context, options, n, 2);
  n = lac_process_workers(process);
  const lac_weights *weights = lac_topology_weights(lac_process_topology(process), 0);
  count_partners(context, process, count);
  double statistic = 0, freedom = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t found[MOST];
    int neighbours = 0;
    for (int64_t j = 0; j < n; j++) {
      if (j != i && weight_at(weights, i, j) > 0) {
        found[neighbours++] = count[i][j];
      } else {
        assert_int_equal(count[i][j], 0);
      }
    }
    statistic += chi_square(found, neighbours);
    freedom += neighbours - 1;
  }
  double deviation = sqrt(2 * freedom);
  if (statistic > freedom + 5 * deviation + 5) {
    fail_msg("kind %d: chi-square of partners %g with %g degrees of freedom", options->topology.kind, statistic,
             freedom);
  }
  lac_process_destroy(&process);
}

static void partners_are_even_among_neighbours(void **state) {
  static const int kinds[] = {LAC_TOPOLOGY_COMPLETE, LAC_TOPOLOGY_RING,        LAC_TOPOLOGY_TORUS,
                              LAC_TOPOLOGY_STAR,     LAC_TOPOLOGY_EXPONENTIAL, LAC_TOPOLOGY_GRID};
  for (int k = 0; k < 6; k++) {
    lac_process_options options = options_of(LAC_PROTOCOL_ADPSGD, kinds[k]);
    options.slack = k % 2 ? 0.6 : 1;
    check_partners(*state, &options, 12);
  }
  char graph[] = "heavy.edges"; /* weights of a file do not make one neighbour more likely */
  write_file(graph, "0 1 0.9\n0 2 0.1\n1 2 0.1\n2 3 0.8\n");
  lac_process_options options = options_of(LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING);
  options.topology.graph = graph;
  options.topology.weights = LAC_WEIGHTS_FILE;
  check_partners(*state, &options, 0);
}

/* ---- rows of single workers ---- */

static void server_slots(void **state) {
  lac_process_options options = options_of(LAC_PROTOCOL_ASYNC_SERVER, LAC_TOPOLOGY_RING);
  for (options.period = 1; options.period <= 4; options.period += 3) {
    options.slack = options.period == 1 ? 1 : 0.7;
    int64_t own[5] = {0};
    lac_process *process = make(*state, &options, 5, 3);
    assert_int_equal(lac_process_slots(process), 6);
    lac_walk *walk = walk_of(*state, process, 1);
    for (int t = 0; t < 400; t++) {
      const lac_process_event *event = lac_walk_next(walk);
      int64_t i = event->worker;
      bool mixes = ++own[i] % options.period == 0;
      assert_int_equal(event->first, mixes); /* the copy that is taken has the update in it */
      assert_int_equal(event->write, mixes ? 5 : i);
      assert_int_equal(event->rows, mixes);
      if (mixes) {
        assert_int_equal(event->row[0].slot, i); /* the server's own slot stays as it is */
        assert_near(entry_of(event->row, 5), options.slack);
        assert_near(entry_of(event->row, i), 1 - options.slack);
      }
    }
    lac_walk_destroy(&walk);
    lac_process_destroy(&process);
  }
}

static void check_own_rows(lac_context *context, const lac_process_options *options, int64_t n) {
  int64_t own[MOST] = {0};
  lac_process *process = make(context, options, n, 3);
  const lac_topology *topology = lac_process_topology(process);
  lac_walk *walk = walk_of(context, process, 1);
  for (int t = 0; t < 1500; t++) {
    const lac_process_event *event = lac_walk_next(walk);
    int64_t i = event->worker, update = ++own[i], k = update / options->period - 1;
    bool mixes = update % options->period == 0;
    assert_int_equal(event->write, i);
    assert_int_equal(event->rows, mixes);
    if (mixes) {
      const lac_weights *weights = lac_topology_weights(topology, (int)(k % lac_topology_phases(topology)));
      assert_int_equal(event->row[0].slot, i);
      for (int64_t j = 0; j < n; j++) {
        assert_near(entry_of(event->row, j), loose_at(weights, options->slack, i, j));
      }
    }
  }
  lac_walk_destroy(&walk);
  lac_process_destroy(&process);
}

static void a_worker_takes_its_row(void **state) {
  for (int kind = 0; kind < LAC_TOPOLOGY_FILE; kind++) {
    lac_process_options options = options_of(LAC_PROTOCOL_ASYNC_RING, kind);
    check_own_rows(*state, &options, 16);
    options.period = 3;
    options.slack = 0.2;
    check_own_rows(*state, &options, 16);
  }
}

/* ---- copies that travel, as symbols ---- */

/* What a slot holds: the model that `owner` had after event `made` (0: at first), an update of its own. */
typedef struct symbol {
  int64_t owner, made;
} symbol;

typedef struct journey {
  const lac_process *process;
  symbol slot[SLOTS];
  int64_t left[SLOTS];          /* of a link: when the model left that travels, 0: none does */
  int64_t links, n, time, last; /* last: who stepped before, -1 nobody */
  double travels, travel, travel_square, at_once, copies, age, reads, read_age;
} journey;

static void begin(journey *j, const lac_process *process) {
  *j = (journey){.process = process, .n = lac_process_workers(process), .last = -1};
  j->links = (lac_process_slots(process) - j->n) / 2;
  const lac_weights *weights = lac_topology_weights(lac_process_topology(process), 0);
  int64_t link = 0;
  for (int64_t i = 0; i < j->n; i++) {
    j->slot[i] = (symbol){i, 0};
    for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
      if (weights->column[k] != i) {
        j->slot[j->n + 2 * link] = j->slot[j->n + 2 * link + 1] = (symbol){weights->column[k], 0};
        link++;
      }
    }
  }
  assert_int_equal(link, j->links);
}

/* The worker's new model: its own and a copy of each neighbour's, by the topology's row. */
static void check_reads(journey *j, const lac_process_event *event) {
  int64_t i = event->worker;
  const lac_weights *weights = lac_topology_weights(lac_process_topology(j->process), 0);
  const lac_process_row *row = row_of(event, i);
  bool read[MOST] = {false};
  assert_int_equal(row->count, weights->start[i + 1] - weights->start[i]);
  for (int32_t k = 0; k < row->count; k++) {
    int64_t column = row->column[k];
    symbol held = j->slot[column];
    assert_false(read[held.owner]);
    read[held.owner] = true;
    assert_near(row->weight[k], loose_at(weights, lac_process_slack(j->process), i, held.owner));
    assert_true(column == i || (column >= j->n && (column - j->n) % 2 == 0));
    if (column != i) {
      j->reads++;
      j->read_age += (double)(j->time - 1 - held.made);
    }
  }
}

static void check_link(journey *j, const lac_process_event *event, int64_t link) {
  const lac_process_row *arrives = row_of(event, j->n + 2 * link), *leaves = row_of(event, j->n + 2 * link + 1);
  symbol *copy = &j->slot[j->n + 2 * link], *under_way = copy + 1;
  j->copies++;
  j->age += (double)(j->time - 1 - copy->made);
  if (arrives) {
    assert_true(arrives->count == 1 && arrives->column[0] == j->n + 2 * link + 1);
    assert_true(j->left[link] > 0);
    assert_true(under_way->made >= copy->made); /* never back in time */
    double took = (double)(j->time - 1 - j->left[link]);
    j->travels++, j->travel += took, j->travel_square += took * took, j->at_once += took == 0;
    *copy = *under_way;
    j->left[link] = 0;
  }
  /* What stepped last leaves by every link that is free. */
  assert_int_equal(leaves != NULL, j->left[link] == 0 && copy->owner == j->last);
  if (leaves) {
    assert_true(leaves->count == 1 && leaves->column[0] == copy->owner);
    *under_way = j->slot[copy->owner];
    assert_int_equal(under_way->made, j->time - 1);
    j->left[link] = j->time;
  }
}

static void travel(journey *j, lac_walk *walk) {
  const lac_process_event *event = lac_walk_next(walk);
  int32_t moves = 0;
  j->time++;
  check_reads(j, event);
  for (int64_t l = 0; l < j->links; l++) {
    moves += (row_of(event, j->n + 2 * l) != NULL) + (row_of(event, j->n + 2 * l + 1) != NULL);
    check_link(j, event, l);
  }
  assert_int_equal(event->rows, 1 + moves);
  j->slot[event->worker].made = j->time;
  j->last = event->worker;
}

static void assert_about(const char *what, double found, double expected, double part) {
  if (!(fabs(found - expected) <= part * expected)) {
    fail_msg("%s: found %g, expected %g", what, found, expected);
  }
}

/* Travel times are 1 + G events, G geometric with mean m = delay n. A link waits K events for its owner, geometric with
 * mean n - 1, before a model leaves; so copies are renewed every C = K + 1 + G events, and on the average over time a
 * copy's age is E[1 + G] + E[C (C + 1)] / (2 E[C]). */
static void check_ages(const journey *j, double delay) {
  double n = (double)j->n, m = delay * n, cycle = n + m;
  double square = cycle * cycle + n * (n - 1) + m * (1 + m);
  double age = 1 + m + (square + cycle) / (2 * cycle);
  assert_about("mean travel", j->travel / j->travels, m, 0.03);
  assert_about("mean square of travel", j->travel_square / j->travels, m * (1 + 2 * m), 0.06);
  assert_about("arrivals at once", j->at_once / j->travels, 1 / (1 + m), 0.1);
  assert_about("mean age of copies", j->age / j->copies, age, 0.03);
  assert_about("mean age of what is read", j->read_age / j->reads, age, 0.05);
}

static void copies_are_models_of_their_owners(void **state) {
  static const double delays[] = {0.25, 1, 3};
  static journey j;
  for (int c = 0; c < 3; c++) {
    lac_process_options options = options_of(LAC_PROTOCOL_ASYNC_RING, c == 1 ? LAC_TOPOLOGY_STAR : LAC_TOPOLOGY_RING);
    options.delay = delays[c];
    options.slack = c == 0 ? 0.5 : 1;
    lac_process *process = make(*state, &options, 9, 6);
    lac_walk *walk = walk_of(*state, process, 0);
    begin(&j, process);
    for (int t = 0; t < 60000; t++) {
      travel(&j, walk);
    }
    check_ages(&j, options.delay);
    lac_walk_destroy(&walk);
    lac_process_destroy(&process);
  }
}

/* ---- costs ---- */

static void assert_cost(lac_context *context, lac_process_options options, int64_t n, double messages, double vectors) {
  for (int64_t period = 1; period <= 4; period += 3) {
    options.period = period;
    lac_process *process = make(context, &options, n, 1);
    lac_process_cost cost = lac_process_cost_of(process);
    double rounds = (double)lac_process_period(process);
    assert_near(cost.messages * rounds, messages);
    assert_near(cost.vectors * rounds, vectors);
    lac_process_destroy(&process);
  }
}

static void costs_by_hand(void **state) {
  const struct {
    int protocol, kind;
    int64_t n;
    double messages, vectors;
  } cases[] = {
      {LAC_PROTOCOL_ALLREDUCE, 0, 8, 8 * 14, 14}, /* 2 (n - 1) steps, each worker an eighth in each */
      {LAC_PROTOCOL_ALLREDUCE, 0, 2, 4, 2},
      {LAC_PROTOCOL_PERIODIC, 0, 8, 8 * 14, 14},
      {LAC_PROTOCOL_SERVER, 0, 8, 14, 14},
      {LAC_PROTOCOL_ASYNC_SERVER, 0, 8, 14, 14},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING, 16, 32, 32},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING, 2, 2, 2},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_STAR, 6, 10, 10},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_COMPLETE, 6, 30, 30},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_TORUS, 12, 48, 48},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_GRID, 6, 14, 14}, /* 2 x 3: seven edges */
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_HYPERCUBE, 8, 24, 24},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_EXPONENTIAL, 8, 24, 24},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_ONE_PEER, 8, 8, 8},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_ONE_PEER, 6, 6, 6},
      {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_ONE_PEER, 8, 24, 24},
      {LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RANDOM_REGULAR, 8, 24, 24},
      {LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING, 8, 16, 16},
      {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_RING, 8, 16, 16}, /* to and fro, at each of eight updates */
      {LAC_PROTOCOL_ADPSGD, LAC_TOPOLOGY_COMPLETE, 8, 16, 16},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    assert_cost(*state, options_of(cases[c].protocol, cases[c].kind), cases[c].n, cases[c].messages, cases[c].vectors);
  }
  for (int protocol = 0; protocol < LAC_PROTOCOLS; protocol++) {
    assert_cost(*state, options_of(protocol, LAC_TOPOLOGY_COMPLETE), 1, 0, 0);
  }
  lac_process_options options = options_of(LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING);
  options.delay = 2; /* a link that is busy lets models go: what is counted is one a round and link */
  assert_cost(*state, options, 8, 16, 16);
}

/* ---- names and bad input ---- */

static void names(void **state) {
  (void)state;
  static const char *const expected[] = {"allreduce", "server",     "async-server", "dpsgd",
                                         "adpsgd",    "async-ring", "periodic"};
  const char *const *found = lac_protocol_names();
  for (int p = 0; p < LAC_PROTOCOLS; p++) {
    assert_string_equal(found[p], expected[p]);
    bool alone = p == LAC_PROTOCOL_ASYNC_SERVER || p == LAC_PROTOCOL_ADPSGD || p == LAC_PROTOCOL_ASYNC_RING;
    bool graph = p == LAC_PROTOCOL_DPSGD || p == LAC_PROTOCOL_ADPSGD || p == LAC_PROTOCOL_ASYNC_RING;
    assert_int_equal(lac_protocol_asynchronous(p), alone);
    assert_int_equal(lac_protocol_on_topology(p), graph);
  }
  assert_null(found[LAC_PROTOCOLS]);
}

static void bad_texts(void **state) {
  const lac_option *table = lac_process_option_table();
  static const char *const bad[][2] = {{"period", "0"},  {"period", "-1"},  {"period", "1.5"}, {"period", "2e9"},
                                       {"slack", "0"},   {"slack", "-0.1"}, {"slack", "1.5"},  {"slack", "nan"},
                                       {"slack", "inf"}, {"delay", "-1"},   {"delay", "nan"},  {"delay", "1e7"}};
  lac_process_options options;
  assert_ok(*state, lac_options_default(*state, table, &options));
  assert_true(options.period == 1 && options.slack == 1 && options.delay == 0);
  for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
    assert_failure(*state, lac_options_set(*state, table, &options, bad[b][0], bad[b][1]), LAC_E_USAGE, bad[b][0]);
  }
}

static void assert_refused(lac_context *context, lac_process_options options, int64_t n, const char *words) {
  lac_process *process = (lac_process *)&options;
  assert_failure(context, lac_process_create(context, &options, n, 0, &process), LAC_E_USAGE, words);
  assert_null(process);
}

static void bad_options(void **state) {
  lac_process_options good = options_of(LAC_PROTOCOL_DPSGD, LAC_TOPOLOGY_RING), bad = good;
  assert_refused(*state, good, 0, "workers: found 0");
  assert_refused(*state, good, -3, "workers: found -3");
  assert_refused(*state, good, INT32_MAX, "workers: found 2147483647");
  static const double slacks[] = {0, -0.5, 1.5, NAN, INFINITY};
  for (int s = 0; s < 5; s++) {
    bad.slack = slacks[s];
    assert_refused(*state, bad, 8, "slack: found");
  }
  bad = good, bad.period = 0;
  assert_refused(*state, bad, 8, "period: found 0");
  bad = good, bad.delay = 1;
  assert_refused(*state, bad, 8, "delay: found 1 rounds with dpsgd");
  bad = options_of(LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_ONE_PEER), bad.delay = 1;
  assert_refused(*state, bad, 8, "one-peer");
  static const double delays[] = {-1, NAN, INFINITY, 1e300};
  for (int d = 0; d < 4; d++) {
    bad = options_of(LAC_PROTOCOL_ASYNC_RING, LAC_TOPOLOGY_RING), bad.delay = delays[d];
    assert_refused(*state, bad, 8, "delay: found");
  }
  bad = good, bad.topology.kind = LAC_TOPOLOGY_HYPERCUBE;
  assert_refused(*state, bad, 12, "8 or 16");
  bad = good, bad.protocol = LAC_PROTOCOLS;
  assert_refused(*state, bad, 8, "protocol: found number 7");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_row_is_stochastic, make_context, drop_context),
      cmocka_unit_test_setup_teardown(means_of_all, make_context, drop_context),
      cmocka_unit_test_setup_teardown(rounds_of_a_topology, make_context, drop_context),
      cmocka_unit_test_setup_teardown(one_peer_by_hand, make_context, drop_context),
      cmocka_unit_test_setup_teardown(walks_are_functions_of_seed_and_path, make_context, drop_context),
      cmocka_unit_test_setup_teardown(workers_are_drawn_evenly, make_context, drop_context),
      cmocka_unit_test_setup_teardown(partners_are_even_among_neighbours, make_context, drop_context),
      cmocka_unit_test_setup_teardown(server_slots, make_context, drop_context),
      cmocka_unit_test_setup_teardown(a_worker_takes_its_row, make_context, drop_context),
      cmocka_unit_test_setup_teardown(copies_are_models_of_their_owners, make_context, drop_context),
      cmocka_unit_test_setup_teardown(costs_by_hand, make_context, drop_context),
      cmocka_unit_test(names),
      cmocka_unit_test_setup_teardown(bad_texts, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bad_options, make_context, drop_context),
  };
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests_name("mixing/process", tests, NULL, NULL);
  leave_folder(folder);
  return failed;
}
