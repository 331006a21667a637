/* How rounds follow each other when everybody waits for its neighbours only, in a graph or around a ring: where no
 * closed form is exact, rounds are followed until what is transient is over.
 *
 * Bounds: the edges, or 2 (n - 1) hops of n workers, once for each round that is followed. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "plan/exchange.h"

/* ---- degrees ---- */

void lac_degrees_close(lac_degrees *degrees) {
  lac_free(degrees->out);
  lac_free(degrees->in);
  lac_free(degrees->asked);
  lac_free(degrees->crowd);
  lac_free(degrees->readers);
  *degrees = (lac_degrees){0};
}

static void count_phase(const lac_weights *weights, double part, lac_degrees *degrees) {
  for (int64_t i = 0; i < weights->n; i++) {
    double count = 0;
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      if (weights->column[e] != i) { /* a file's row may be without its diagonal */
        count++;
        degrees->out[weights->column[e]] += part;
      }
    }
    degrees->in[i] += part * count;
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      if (weights->column[e] != i) {
        degrees->asked[weights->column[e]] += part / count;
      }
    }
  }
}

static void add_crowds(const lac_weights *weights, double part, lac_degrees *degrees) {
  for (int64_t i = 0; i < weights->n; i++) {
    double count = 0, sum = 0;
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      count += weights->column[e] != i;
      sum += weights->column[e] != i ? degrees->asked[weights->column[e]] : 0;
    }
    degrees->crowd[i] += count > 0 ? part * sum / count : 0;
  }
}

static bool in_row(const lac_weights *weights, int64_t row, int32_t column) {
  for (int64_t e = weights->start[row]; e < weights->start[row + 1]; e++) {
    if (weights->column[e] == column) {
      return true;
    }
  }
  return false;
}

/* Edges that no earlier phase has. */
static void add_readers(const lac_topology *topology, int phase, lac_degrees *degrees) {
  const lac_weights *weights = lac_topology_weights(topology, phase);
  for (int64_t i = 0; i < weights->n; i++) {
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      bool known = weights->column[e] == i;
      for (int earlier = 0; earlier < phase && !known; earlier++) {
        known = in_row(lac_topology_weights(topology, earlier), i, weights->column[e]);
      }
      degrees->readers[weights->column[e]] += !known;
    }
  }
}

lac_status lac_degrees_open(lac_context *context, const lac_topology *topology, lac_degrees *degrees) {
  int64_t n = lac_topology_workers(topology);
  int phases = lac_topology_phases(topology);
  *degrees = (lac_degrees){0};
  LAC_TRY(LAC_NEW(context, n, &degrees->out));
  LAC_TRY(LAC_NEW(context, n, &degrees->in));
  LAC_TRY(LAC_NEW(context, n, &degrees->asked));
  LAC_TRY(LAC_NEW(context, n, &degrees->crowd));
  LAC_TRY(LAC_NEW(context, n, &degrees->readers));
  for (int phase = 0; phase < phases; phase++) {
    count_phase(lac_topology_weights(topology, phase), 1.0 / phases, degrees);
  }
  for (int phase = 0; phase < phases; phase++) {
    add_crowds(lac_topology_weights(topology, phase), 1.0 / phases, degrees);
    add_readers(topology, phase, degrees);
  }
  return LAC_OK;
}

/* ---- along the edges of a graph ---- */

typedef struct lac_round_state {
  double *mixed, *next; /* (n): when each has mixed last, and mixes next */
  double *begin, *free; /* (n): when it begins to send, and when all that it has sent has left */
  int64_t *sent;        /* (n) */
} lac_round_state;

static lac_status open_state(lac_context *context, int64_t n, lac_round_state *state) {
  *state = (lac_round_state){0};
  LAC_TRY(LAC_NEW(context, n, &state->mixed));
  LAC_TRY(LAC_NEW(context, n, &state->next));
  LAC_TRY(LAC_NEW(context, n, &state->begin));
  LAC_TRY(LAC_NEW(context, n, &state->free));
  return LAC_NEW(context, n, &state->sent);
}

static void close_state(lac_round_state *state) {
  lac_free(state->mixed);
  lac_free(state->next);
  lac_free(state->begin);
  lac_free(state->free);
  lac_free(state->sent);
}

static void one_round(const lac_neighbour_rounds *rounds, const lac_weights *weights, lac_round_state *state) {
  int64_t n = weights->n;
  memset(state->sent, 0, (size_t)n * sizeof *state->sent);
  for (int64_t i = 0; i < n; i++) {
    state->begin[i] = fmax(state->mixed[i] + rounds->lead[i], state->free[i]);
  }
  for (int64_t i = 0; i < n; i++) { /* readers in the order of their numbers, as vectors are sent */
    double last = state->mixed[i] + rounds->own[i];
    for (int64_t e = weights->start[i]; e < weights->start[i + 1]; e++) {
      int32_t from = weights->column[e];
      if (from != i) {
        double place = (double)++state->sent[from];
        last = fmax(last, state->begin[from] + place * rounds->vector + rounds->latency);
      }
    }
    state->next[i] = last;
  }
  for (int64_t i = 0; i < n; i++) {
    state->free[i] = state->begin[i] + (double)state->sent[i] * rounds->vector;
  }
  double *old = state->mixed;
  state->mixed = state->next;
  state->next = old;
}

static double latest(const lac_round_state *state, int64_t n) {
  double last = 0;
  for (int64_t i = 0; i < n; i++) {
    last = fmax(last, state->mixed[i]);
  }
  return last;
}

/* So many that what is transient at first does not count, and cycles are closed: an even number of periods of the
 * phases, more for small graphs than for large ones. */
static int64_t rounds_to_follow(const lac_topology *topology) {
  enum { MOST = 512, LEAST = 16 };
  const double edges_affordable = 2e7;
  int64_t n = lac_topology_workers(topology), edges = lac_topology_weights(topology, 0)->start[n] + n;
  int64_t count = (int64_t)(edges_affordable / (double)edges), unit = 2 * (int64_t)lac_topology_phases(topology);
  count = count < LEAST ? LEAST : count > MOST ? MOST : count;
  return (count + unit - 1) / unit * unit;
}

lac_status lac_neighbour_rounds_time(lac_context *context, const lac_neighbour_rounds *rounds, double *seconds) {
  const lac_topology *topology = rounds->topology;
  int64_t n = lac_topology_workers(topology), count = rounds_to_follow(topology);
  int phases = lac_topology_phases(topology);
  lac_round_state state;
  lac_status status = open_state(context, n, &state);
  double half = 0;
  for (int64_t round = 0; !status && round < 2 * count; round++) {
    if (lac_context_interrupted(context)) {
      status = lac_fail(context, LAC_E_INTERRUPTED, "interrupted while rounds are followed");
      break;
    }
    half = round == count ? latest(&state, n) : half;
    one_round(rounds, lac_topology_weights(topology, (int)(round % phases)), &state);
  }
  if (!status) {
    *seconds = (latest(&state, n) - half) / (double)count;
  }
  close_state(&state);
  return status;
}

/* ---- around a ring ---- */

typedef struct lac_ring_state {
  double *begin, *took; /* (n): when each began its exchange, and took its newest message */
  double *free, *came;  /* (n): when all that it has sent has left, and when the next message is there */
} lac_ring_state;

static lac_status open_ring(lac_context *context, int64_t n, lac_ring_state *state) {
  *state = (lac_ring_state){0};
  LAC_TRY(LAC_NEW(context, n, &state->begin));
  LAC_TRY(LAC_NEW(context, n, &state->took));
  LAC_TRY(LAC_NEW(context, n, &state->free));
  return LAC_NEW(context, n, &state->came);
}

static void close_ring(lac_ring_state *state) {
  lac_free(state->begin);
  lac_free(state->took);
  lac_free(state->free);
  lac_free(state->came);
}

/* When a message is taken that is there at `time`: with the next look while gradients last, then at once. */
static double taken(const lac_ring_rounds *rounds, int i, double begin, double time) {
  double look = rounds->gradient[i] / LAC_PLAN_LOOKS;
  double number = fmax(ceil((time - begin) / look * (1 - 1e-12)), 1);
  return number <= rounds->hidden * LAC_PLAN_LOOKS ? begin + number * look : time;
}

static lac_status one_exchange(lac_context *context, const lac_ring_rounds *rounds, lac_ring_state *s) {
  int n = rounds->workers;
  memcpy(s->took, s->begin, (size_t)n * sizeof *s->took);
  for (int hop = 0; hop < 2 * (n - 1); hop++) {
    if (hop % 256 == 0 && lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted while rounds are followed");
    }
    for (int i = 0; i < n; i++) {
      s->free[i] = fmax(s->took[i], s->free[i]) + rounds->piece;
      s->came[(i + 1) % n] = s->free[i] + rounds->latency;
    }
    for (int i = 0; i < n; i++) {
      s->took[i] = taken(rounds, i, s->begin[i], fmax(s->came[i], s->took[i]));
    }
  }
  for (int i = 0; i < n; i++) {
    double end = fmax(s->took[i], s->begin[i] + rounds->hidden * rounds->gradient[i]);
    s->begin[i] = end + (rounds->gradients - rounds->hidden) * rounds->gradient[i];
  }
  return LAC_OK;
}

static double last_begin(const lac_ring_state *s, int n) {
  double last = 0;
  for (int i = 0; i < n; i++) {
    last = fmax(last, s->begin[i]);
  }
  return last;
}

lac_status lac_ring_rounds_time(lac_context *context, const lac_ring_rounds *rounds, double *seconds) {
  enum { MOST = 60, LEAST = 1 };
  const double hops_affordable = 1e7;
  int count = (int)(hops_affordable / (2.0 * rounds->workers * rounds->workers));
  count = count < LEAST ? LEAST : count > MOST ? MOST : count;
  lac_ring_state state;
  lac_status status = open_ring(context, rounds->workers, &state);
  double half = 0;
  for (int i = 0; !status && i < rounds->workers; i++) {
    state.begin[i] = rounds->gradients * rounds->gradient[i];
  }
  for (int round = 0; !status && round < 2 * count; round++) {
    half = round == count ? last_begin(&state, rounds->workers) : half;
    status = one_exchange(context, rounds, &state);
  }
  if (!status) {
    *seconds = (last_begin(&state, rounds->workers) - half) / count;
  }
  close_ring(&state);
  return status;
}
