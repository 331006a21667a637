/* First all mixings are put in one order, in which each worker's own is kept and nothing is read before it was there;
 * among those that may come next, the one that came first by its time. Then the matrix goes through it window by
 * window: what was sent before a window counts as what its sender has at the beginning.
 *
 * Bounds: memory traffic within the caches, as in sampling (mixing/realised.c). */
#include "replica/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "mixing/curve.h"

enum { NOBODY = -1 };

/* A mixing in its place. */
typedef struct lac_step {
  int32_t worker, other; /* other: whom a pair has besides */
  int64_t event;         /* the first of it in the record */
  int64_t clock;         /* updates of all workers up to it */
} lac_step;

typedef struct lac_rerun {
  const lac_process *process;
  lac_record *record;
  int64_t n, columns;
  int protocol;
  /* the order */
  int64_t *next;    /* (n): the event of each that is to come */
  double *due;      /* (n): its time; infinite at the end */
  int64_t *update;  /* (n): of each, the newest that has been counted */
  int64_t *base;    /* (n): async-ring: what each had sent before the record */
  int64_t *sent;    /* (n): and since then */
  int64_t *step_of; /* (events): async-ring: from start[i] on, the steps after which worker i sent */
  int64_t clock, steps;
  lac_step *step; /* (steps) */
  /* a window */
  double *x, *mean, *spare; /* (n, columns), (columns), (columns) */
  int64_t first, past;      /* its steps so far: first … past - 1 */
  int64_t room;
  double *made; /* (room, columns): async-ring: what each step of the window has left */
} lac_rerun;

static void close_replay(lac_rerun *replay) {
  lac_free(replay->next);
  lac_free(replay->due);
  lac_free(replay->update);
  lac_free(replay->base);
  lac_free(replay->sent);
  lac_free(replay->step_of);
  lac_free(replay->step);
  lac_free(replay->x);
  lac_free(replay->mean);
  lac_free(replay->spare);
  lac_free(replay->made);
}

static lac_status open_replay(lac_context *context, const lac_process *process, lac_record *record, lac_rerun *replay) {
  int64_t n = record->workers, events = record->start[n];
  *replay = (lac_rerun){.process = process,
                        .record = record,
                        .n = n,
                        .protocol = lac_process_protocol(process),
                        .columns = lac_process_slots(process)};
  LAC_TRY(LAC_NEW(context, n, &replay->next));
  LAC_TRY(LAC_NEW(context, n, &replay->due));
  LAC_TRY(LAC_NEW(context, n, &replay->update));
  LAC_TRY(LAC_NEW(context, n, &replay->base));
  LAC_TRY(LAC_NEW(context, n, &replay->sent));
  LAC_TRY(LAC_NEW(context, events, &replay->step_of));
  LAC_TRY(LAC_NEW(context, events, &replay->step));
  LAC_TRY(LAC_NEW(context, n * replay->columns, &replay->x));
  LAC_TRY(LAC_NEW(context, replay->columns, &replay->mean));
  return LAC_NEW(context, replay->columns, &replay->spare);
}

/* ---- where the record begins ---- */

static bool in_pairs(const lac_rerun *replay) {
  return replay->protocol != LAC_PROTOCOL_ASYNC_RING;
}

/* When all of those that are not whole have begun. */
static double beginning(const lac_record *record) {
  double begins = -HUGE_VAL;
  for (int64_t i = 0; i < record->workers; i++) {
    if (!record->whole[i] && record->start[i] < record->start[i + 1]) {
      begins = fmax(begins, record->event[record->start[i]].seconds);
    }
  }
  return begins;
}

/* Worker i's first event that is not before the beginning; with async-ring, of a mixing that is complete. */
static int64_t first_event(const lac_rerun *replay, int64_t i, double begins) {
  const lac_record *record = replay->record;
  int64_t e = record->start[i], end = record->start[i + 1];
  while (e < end && record->event[e].seconds < begins) {
    e++;
  }
  if (in_pairs(replay) || (e == record->start[i] && record->whole[i])) {
    return e;
  }
  while (e < end && (e == record->start[i] || record->event[e - 1].with != i)) {
    e++;
  }
  return e;
}

/* The update that had been counted before: of the first event of a run, at most a period less. */
static int64_t counted_before(const lac_rerun *replay, int64_t i) {
  const lac_record *record = replay->record;
  int64_t e = replay->next[i], period = lac_process_period(replay->process);
  if (e == record->start[i + 1]) {
    return 0;
  }
  if (e > record->start[i]) {
    return record->event[e - 1].update;
  }
  int64_t update = record->event[e].update;
  return update - (update < period ? update : period);
}

/* What worker i had sent when its first mixing came. */
static int64_t sent_before(const lac_rerun *replay, int64_t i) {
  const lac_record *record = replay->record;
  for (int64_t e = replay->next[i]; e < record->start[i + 1]; e++) {
    if (record->event[e].with == i) {
      return record->event[e].version;
    }
  }
  return INT64_MAX;
}

static void begin_record(lac_rerun *replay) {
  double begins = beginning(replay->record);
  for (int64_t i = 0; i < replay->n; i++) {
    replay->next[i] = first_event(replay, i, begins);
    replay->update[i] = counted_before(replay, i);
    replay->base[i] = sent_before(replay, i);
  }
}

/* ---- pairs ---- */

/* Those whose other side is not in the record become mixings with nobody. The version of each side runs without gaps,
 * so that a first and a last one tell. */
static lac_status drop_halves(lac_context *context, lac_rerun *replay) {
  typedef struct span {
    int64_t first, last;
  } span;
  lac_record *record = replay->record;
  int64_t n = replay->n;
  span *seen;
  LAC_TRY(LAC_NEW(context, n * n, &seen)); /* zeros: versions count from 1 */
  for (int64_t i = 0; i < n; i++) {
    for (int64_t e = replay->next[i]; e < record->start[i + 1]; e++) {
      span *of = &seen[i * n + record->event[e].with];
      of->first = of->first ? of->first : record->event[e].version;
      of->last = record->event[e].version;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t e = replay->next[i]; e < record->start[i + 1]; e++) {
      lac_replica_event *event = &record->event[e];
      const span *of = &seen[event->with * n + i];
      if (event->with != i && (event->version < of->first || event->version > of->last)) {
        event->with = NOBODY;
      }
    }
  }
  lac_free(seen);
  return LAC_OK;
}

/* ---- the order ---- */

static const lac_replica_event *next_event(const lac_rerun *replay, int64_t i) {
  return replay->next[i] < replay->record->start[i + 1] ? &replay->record->event[replay->next[i]] : NULL;
}

/* Whom worker i's next mixing must wait for, or NOBODY. */
static int64_t waits_for(const lac_rerun *replay, int64_t i) {
  const lac_record *record = replay->record;
  if (in_pairs(replay)) {
    int32_t with = next_event(replay, i)->with;
    const lac_replica_event *other = with == NOBODY || with == i ? NULL : next_event(replay, with);
    return other && other->with != i ? with : NOBODY;
  }
  for (int64_t e = replay->next[i]; e < record->start[i + 1] && record->event[e].with != i; e++) {
    int32_t from = record->event[e].with;
    if (record->event[e].version - replay->base[from] > replay->sent[from] && next_event(replay, from)) {
      return from;
    }
  }
  return NOBODY;
}

/* The worker whose next event has the earliest time, or NOBODY at the end. */
static int64_t earliest(const lac_rerun *replay) {
  int64_t found = 0;
  for (int64_t i = 1; i < replay->n; i++) {
    found = replay->due[i] < replay->due[found] ? i : found;
  }
  return replay->due[found] < HUGE_VAL ? found : NOBODY;
}

static void go_on(lac_rerun *replay, int64_t i, int64_t next) {
  replay->next[i] = next;
  const lac_replica_event *event = next_event(replay, i);
  replay->due[i] = event ? event->seconds : HUGE_VAL;
}

static void count_updates(lac_rerun *replay, int64_t i, int64_t update) {
  if (update > replay->update[i]) {
    replay->clock += update - replay->update[i];
    replay->update[i] = update;
  }
}

static void take_pair(lac_rerun *replay, int64_t i, lac_step *step) {
  int32_t with = next_event(replay, i)->with;
  step->other = with;
  count_updates(replay, i, next_event(replay, i)->update);
  go_on(replay, i, replay->next[i] + 1);
  const lac_replica_event *other = with == NOBODY || with == i ? NULL : next_event(replay, with);
  if (other && other->with == i) {
    count_updates(replay, with, other->update);
    go_on(replay, with, replay->next[with] + 1);
  }
}

/* The version that a mixing read becomes the step after which it was sent, or -1 before the record. */
static void take_copies(lac_rerun *replay, int64_t i) {
  lac_record *record = replay->record;
  int64_t e = replay->next[i], end = record->start[i + 1];
  for (; e < end && record->event[e].with != i; e++) {
    int32_t from = record->event[e].with;
    int64_t which = record->event[e].version - replay->base[from];
    which = which < replay->sent[from] ? which : replay->sent[from];
    record->event[e].version = which > 0 ? replay->step_of[record->start[from] + which - 1] : -1;
  }
  if (e < end) {
    count_updates(replay, i, record->event[e++].update);
  }
  replay->step_of[record->start[i] + replay->sent[i]++] = replay->steps;
  go_on(replay, i, e);
}

static void put_in_order(lac_rerun *replay) {
  for (int64_t i = 0; i < replay->n; i++) {
    go_on(replay, i, replay->next[i]);
  }
  for (int64_t i = earliest(replay); i != NOBODY; i = earliest(replay)) {
    int64_t before = waits_for(replay, i);
    for (int64_t turn = 0; before != NOBODY && turn < replay->n; turn++) { /* ends: the run had an order */
      i = before;
      before = waits_for(replay, i);
    }
    lac_step *step = &replay->step[replay->steps];
    *step = (lac_step){.worker = (int32_t)i, .other = NOBODY, .event = replay->next[i]};
    if (in_pairs(replay)) {
      take_pair(replay, i, step);
    } else {
      take_copies(replay, i);
    }
    step->clock = replay->clock;
    replay->steps++;
  }
}

/* ---- a step ---- */

/* x[worker] <- (1 - part) x[worker] + part of other, a row. */
static void move(const lac_rerun *replay, int64_t worker, const double *other, double part) {
  double *row = replay->x + worker * replay->columns;
  for (int64_t c = 0; c < replay->columns; c++) {
    row[c] = (1 - part) * row[c] + part * other[c];
  }
}

static void mix_pair(const lac_rerun *replay, const lac_step *step) {
  int64_t columns = replay->columns;
  double slack = lac_process_slack(replay->process);
  if (replay->protocol == LAC_PROTOCOL_ASYNC_SERVER) { /* whose copy, where nothing is added to it, stays */
    memset(replay->spare, 0, (size_t)columns * sizeof *replay->spare);
    replay->spare[replay->n] = 1;
    if (step->other != NOBODY) {
      move(replay, step->worker > 0 ? step->worker : step->other, replay->spare, slack);
    }
  } else if (step->other != NOBODY) {
    memcpy(replay->spare, replay->x + step->worker * columns, (size_t)columns * sizeof *replay->spare);
    move(replay, step->worker, replay->x + step->other * columns, slack / 2);
    move(replay, step->other, replay->spare, slack / 2);
  }
}

/* row += weight times what `from` had sent after step `source`. */
static void add_copy(const lac_rerun *replay, int64_t from, int64_t source, double weight, double *row) {
  if (source < replay->first) {
    row[from] += weight;
    return;
  }
  const double *copy = replay->made + (source - replay->first) * replay->columns;
  for (int64_t c = 0; c < replay->columns; c++) {
    row[c] += weight * copy[c];
  }
}

static const lac_weights *weights_of(const lac_rerun *replay, int64_t version) {
  const lac_topology *topology = lac_process_topology(replay->process);
  int64_t mixing = version - replay->record->sends_first;
  return lac_topology_weights(topology, mixing > 0 ? (int)(mixing % lac_topology_phases(topology)) : 0);
}

static void mix_copies(const lac_rerun *replay, const lac_step *step) {
  const lac_record *record = replay->record;
  int32_t i = step->worker;
  int64_t e = step->event, own = e, last = record->start[i + 1] - 1;
  double slack = lac_process_slack(replay->process), keep = 1 - slack, *row = replay->spare;
  while (own < last && record->event[own].with != i) {
    own++;
  }
  const lac_weights *weights = weights_of(replay, record->event[own].version);
  memset(row, 0, (size_t)replay->columns * sizeof *row);
  for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
    if (weights->column[k] == i) {
      keep += slack * weights->weight[k];
    } else if (e < own && record->event[e].with == weights->column[k]) {
      add_copy(replay, weights->column[k], record->event[e++].version, slack * weights->weight[k], row);
    }
  }
  double *x = replay->x + i * replay->columns;
  for (int64_t c = 0; c < replay->columns; c++) {
    x[c] = keep * x[c] + row[c];
  }
  memcpy(replay->made + (replay->past - replay->first) * replay->columns, x, (size_t)replay->columns * sizeof *x);
}

static lac_status make_room(lac_context *context, lac_rerun *replay) {
  int64_t used = replay->past - replay->first;
  if (in_pairs(replay) || used < replay->room) {
    return LAC_OK;
  }
  int64_t room = replay->room ? 2 * replay->room : 256;
  double *more;
  LAC_TRY(LAC_NEW(context, room * replay->columns, &more));
  if (used > 0) {
    memcpy(more, replay->made, (size_t)(used * replay->columns) * sizeof *more);
  }
  lac_free(replay->made);
  replay->made = more;
  replay->room = room;
  return LAC_OK;
}

static lac_status apply(lac_context *context, lac_rerun *replay) {
  const lac_step *step = &replay->step[replay->past];
  LAC_TRY(make_room(context, replay));
  if (in_pairs(replay)) {
    mix_pair(replay, step);
  } else {
    mix_copies(replay, step);
  }
  if (++replay->past % 1024 == 0 && lac_context_interrupted(context)) {
    return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
  }
  return LAC_OK;
}

/* ---- windows ---- */

static int64_t clock_before(const lac_rerun *replay, int64_t step) {
  return step > 0 ? replay->step[step - 1].clock : 0;
}

static void begin_window(lac_rerun *replay) {
  int64_t columns = replay->columns;
  memset(replay->x, 0, (size_t)(replay->n * columns) * sizeof *replay->x);
  for (int64_t i = 0; i < replay->n; i++) {
    replay->x[i * columns + i] = 1;
  }
  replay->first = replay->past;
}

static lac_status replay_window(lac_context *context, lac_rerun *replay, lac_curve *curve) {
  begin_window(replay);
  int64_t begun = clock_before(replay, replay->first);
  for (int64_t k = 0; k < curve->count; k++) {
    while (replay->past < replay->steps && replay->step[replay->past].clock - begun <= curve->time[k]) {
      LAC_TRY(apply(context, replay));
    }
    lac_curve_add(curve, k, lac_curve_distance(replay->n, replay->columns, replay->x, replay->mean));
  }
  curve->paths++;
  return LAC_OK;
}

/* So many windows that their distances do not take long: of some 2^30 numbers. */
static int64_t affordable(const lac_rerun *replay, const lac_curve *curve) {
  int64_t windows = (INT64_C(1) << 30) / (curve->count * replay->n * replay->columns);
  windows = windows < LAC_WINDOWS_MOST ? windows : LAC_WINDOWS_MOST;
  return windows > LAC_WINDOWS_LEAST ? windows : LAC_WINDOWS_LEAST;
}

/* The newest windows of this length, `most` at most and 4 at least; paths 0 when there are not so many. */
static lac_status replay_windows(lac_context *context, lac_rerun *replay, int64_t most, lac_curve *curve) {
  int64_t length = curve->time[curve->count - 1], fits = replay->clock / length;
  int64_t windows = fits < most ? fits : most;
  if (fits < LAC_WINDOWS_LEAST) {
    return LAC_OK;
  }
  replay->past = 0;
  while (clock_before(replay, replay->past) < replay->clock - windows * length) {
    replay->past++;
  }
  /* An event of several updates may shorten what is left for the last window. */
  while (curve->paths < windows && replay->clock - clock_before(replay, replay->past) >= length) {
    LAC_TRY(replay_window(context, replay, curve));
  }
  curve->paths = curve->paths < LAC_WINDOWS_LEAST ? 0 : curve->paths;
  return LAC_OK;
}

static void too_short(const lac_rerun *replay, lac_mixing_time *time) {
  snprintf(time->reason, sizeof time->reason,
           "the record of %lld updates is too short: they do not mix in a %d-th of it", (long long)replay->clock,
           LAC_WINDOWS_LEAST);
}

static void set_time(const lac_rerun *replay, double updates, double error, int64_t windows, lac_mixing_time *time) {
  double n = (double)replay->n;
  time->updates = updates;
  time->rounds = updates / n;
  time->standard_error = error / n;
  time->lower = fmax(0, time->rounds - time->standard_error);
  time->upper = time->rounds + time->standard_error;
  time->samples = windows;
}

/* With windows of one length: few show whether it may do, then come as many as there can be. `enough`: 4 fit. */
static lac_status try_length(lac_context *context, lac_rerun *replay, int64_t length, bool *enough,
                             lac_mixing_time *time) {
  int64_t windows = LAC_WINDOWS_LEAST, most = 0;
  bool crossed = true;
  *enough = true;
  while (crossed && windows != most) {
    lac_curve curve;
    double updates = 0, error = 0;
    lac_status status = lac_curve_open(context, length, &curve);
    if (!status) {
      windows = most > 0 ? most : windows;
      most = affordable(replay, &curve);
      status = replay_windows(context, replay, windows, &curve);
    }
    *enough = !status && curve.paths > 0;
    crossed = *enough && lac_curve_crossing(&curve, &updates, &error);
    if (crossed && windows == most) {
      set_time(replay, updates, error, curve.paths, time);
    }
    lac_curve_close(&curve);
    LAC_TRY(status);
  }
  return LAC_OK;
}

/* Somewhat less than what one path needs from the middle of the record on; the longest, if it does not get there. */
static lac_status first_length(lac_context *context, lac_rerun *replay, int64_t *length) {
  int64_t longest = replay->clock / LAC_WINDOWS_LEAST;
  *length = longest;
  replay->past = replay->steps / 2;
  begin_window(replay);
  int64_t begun = clock_before(replay, replay->first), time = 0;
  while (replay->past < replay->steps) {
    if (lac_curve_distance(replay->n, replay->columns, replay->x, replay->mean) <= 0.25) {
      *length = time - time / 4 < longest ? time - time / 4 : longest;
      break;
    }
    time = lac_curve_after(time);
    while (replay->past < replay->steps && replay->step[replay->past].clock - begun <= time) {
      LAC_TRY(apply(context, replay));
    }
  }
  *length = *length < replay->n ? replay->n : *length;
  return LAC_OK;
}

/* Windows as long as the average needs to pass 1/4, and not much longer, so that there are many. */
static lac_status find_time(lac_context *context, lac_rerun *replay, lac_mixing_time *time) {
  bool enough = true;
  int64_t length;
  LAC_TRY(first_length(context, replay, &length));
  for (; enough && time->samples == 0; length += length / 2 + 1) {
    LAC_TRY(try_length(context, replay, length, &enough, time));
  }
  if (time->samples == 0) {
    too_short(replay, time);
  }
  return LAC_OK;
}

lac_status lac_replay(lac_context *context, const lac_process *process, lac_record *record, lac_mixing_time *time) {
  double unknown = (double)NAN;
  *time = (lac_mixing_time){.kind = LAC_MIXING_REALISED,
                            .rounds = unknown,
                            .updates = unknown,
                            .lower = unknown,
                            .upper = unknown,
                            .standard_error = unknown,
                            .spectral_gap = unknown};
  if (record->workers > LAC_REPLAY_WORKERS) {
    snprintf(time->reason, sizeof time->reason, "%lld workers are more than the %d whose record is replayed",
             (long long)record->workers, LAC_REPLAY_WORKERS);
    return LAC_OK;
  }
  lac_rerun replay;
  lac_status status = open_replay(context, process, record, &replay);
  if (!status) {
    begin_record(&replay);
    status = in_pairs(&replay) ? drop_halves(context, &replay) : LAC_OK;
  }
  if (!status) {
    put_in_order(&replay);
    status = find_time(context, &replay, time);
  }
  close_replay(&replay);
  return status;
}
