/* Realised mixing times, by sampling: X starts as the identity and goes through the events of many paths; its rows are
 * those of W_t … W_1. How far they are from each other is averaged over the paths, as a curve over time (curve.h).
 *
 * Bounds: memory traffic within the caches, 8 bytes per entry of the rows that an event reads; nothing else counts. */
#include "mixing/realised.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "mixing/curve.h"

enum { PILOTS = 16, LEAST_PATHS = 32, EVERY = 16 };

typedef struct lac_state {
  const lac_process *process;
  int64_t columns;
  lac_walk *walk;
  double *x;   /* (slots, columns) */
  double *new; /* (rows of an event, columns) */
  int64_t room;
  double *mean; /* (columns) */
  int64_t time;
} lac_state;

static void destroy_state(lac_state *state) {
  lac_walk_destroy(&state->walk);
  lac_free(state->x);
  lac_free(state->new);
  lac_free(state->mean);
}

/* Every worker has a column; so has the server. Copies begin as the models that they are copies of. */
static void start(lac_state *state) {
  const lac_process *process = state->process;
  memset(state->x, 0, (size_t)(process->slots * state->columns) * sizeof *state->x);
  for (int64_t i = 0; i < state->columns; i++) {
    state->x[i * state->columns + i] = 1;
  }
  for (int64_t l = 0; l < process->links.count; l++) {
    for (int copy = 0; copy < 2; copy++) {
      state->x[(process->workers + 2 * l + copy) * state->columns + process->links.from[l]] = 1;
    }
  }
  state->time = 0;
}

static lac_status open_state(lac_context *context, const lac_process *process, lac_state *state) {
  *state = (lac_state){.process = process, .columns = process->slots - 2 * process->links.count};
  if (process->slots > INT64_MAX / state->columns / (int64_t)sizeof(double)) {
    return lac_fail(context, LAC_E_MEMORY, "no memory for %lld slots", (long long)process->slots);
  }
  LAC_TRY(LAC_NEW(context, process->slots * state->columns, &state->x));
  return LAC_NEW(context, state->columns, &state->mean);
}

/* A path from its beginning. */
static lac_status begin_path(lac_context *context, lac_state *state, int64_t path) {
  lac_walk_destroy(&state->walk);
  start(state);
  return lac_walk_create(context, state->process, path, &state->walk);
}

static void combine(const lac_state *state, const lac_process_row *row, double *out) {
  int64_t columns = state->columns;
  for (int32_t k = 0; k < row->count; k++) {
    const double *from = state->x + row->column[k] * columns;
    double weight = row->weight[k];
    for (int64_t c = 0; c < columns; c++) {
      out[c] = k == 0 ? weight * from[c] : out[c] + weight * from[c];
    }
  }
}

static lac_status step(lac_context *context, lac_state *state) {
  const lac_process_event *event = lac_walk_next(state->walk);
  int64_t columns = state->columns;
  if (event->rows > state->room) {
    lac_free(state->new);
    state->new = NULL;
    state->room = event->rows;
    LAC_TRY(LAC_NEW(context, state->room * columns, &state->new));
  }
  for (int32_t r = 0; r < event->rows; r++) {
    combine(state, &event->row[r], state->new + r *columns);
  }
  for (int32_t r = 0; r < event->rows; r++) {
    memcpy(state->x + event->row[r].slot * columns, state->new + r *columns, (size_t)columns * sizeof *state->x);
  }
  if (++state->time % 1024 == 0 && lac_context_interrupted(context)) {
    return lac_fail(context, LAC_E_INTERRUPTED, "the mixing time was interrupted");
  }
  return LAC_OK;
}

static double distance(const lac_state *state) {
  return lac_curve_distance(state->process->workers, state->columns, state->x, state->mean);
}

static lac_status advance(lac_context *context, lac_state *state, int64_t time) {
  while (state->time < time) {
    LAC_TRY(step(context, state));
  }
  return LAC_OK;
}

static lac_status add_path(lac_context *context, lac_state *state, lac_curve *curve) {
  LAC_TRY(begin_path(context, state, curve->paths));
  for (int64_t k = 0; k < curve->count; k++) {
    LAC_TRY(advance(context, state, curve->time[k]));
    lac_curve_add(curve, k, distance(state));
  }
  curve->paths++;
  return LAC_OK;
}

/* How far paths must go: where the slowest of a few has settled. */
static lac_status find_horizon(lac_context *context, lac_state *state, int64_t *horizon) {
  *horizon = 1;
  for (int64_t path = 0; path < PILOTS; path++) {
    LAC_TRY(begin_path(context, state, path));
    while (distance(state) > LAC_CURVE_SETTLED || state->time < *horizon) {
      LAC_TRY(advance(context, state, lac_curve_after(state->time)));
    }
    *horizon = state->time;
  }
  return LAC_OK;
}

static lac_status sample(lac_context *context, lac_state *state, const lac_mixing_options *options, int64_t horizon,
                         lac_realised *result) {
  lac_curve curve;
  bool crossed = false, enough = false;
  lac_status status = lac_curve_open(context, horizon, &curve);
  while (!status && !enough && curve.paths < options->samples) {
    status = add_path(context, state, &curve);
    if (!status && curve.paths >= LEAST_PATHS && curve.paths % EVERY == 0) {
      crossed = lac_curve_crossing(&curve, &result->updates, &result->error);
      enough = crossed && result->error <= options->precision * result->updates;
    }
  }
  if (!status) {
    crossed = lac_curve_crossing(&curve, &result->updates, &result->error);
    result->paths = crossed ? curve.paths : 0;
  }
  lac_curve_close(&curve);
  return status;
}

static lac_status sample_all(lac_context *context, lac_state *state, const lac_mixing_options *options,
                             lac_realised *result) {
  int64_t horizon;
  LAC_TRY(find_horizon(context, state, &horizon));
  result->paths = 0;
  while (result->paths == 0) { /* the average may pass 1/4 later than the pilots settled */
    LAC_TRY(sample(context, state, options, horizon, result));
    horizon *= 2;
  }
  return LAC_OK;
}

lac_status lac_mixing_realised(lac_context *context, const lac_process *process, const lac_mixing_options *options,
                               lac_realised *result) {
  lac_state state;
  lac_status status = open_state(context, process, &state);
  if (!status) {
    status = sample_all(context, &state, options, result);
  }
  destroy_state(&state);
  return status;
}
