/* A worker mixes its model with the newest copies that it has of its neighbours', and sends them its own after its
 * update. Nobody waits for anybody: on a ring the asynchronous decentralised ring of Lu, Nash and De Sa 2020.
 *
 * Bounds: the network, a vector through each link an update. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/tags.h"
#include "replica/asynchronous.h"

typedef struct lac_async_ring {
  lac_async_end end;
  lac_async_log *log;
  float slack;
  int phases;
  float *weight;   /* (phases, froms + 1): of those in from, last its own */
  float **copy;    /* (froms) of (n): malloc'ed, as they came */
  int64_t *copies; /* (froms): how many have come after the first */
  float *mixed;    /* (n) */
  bool started;    /* the copies are there */
  int64_t period, sent, mixings;
} lac_async_ring;

static void ring_destroy(void *state) {
  lac_async_ring *old = state;
  if (!old) {
    return;
  }
  for (int k = 0; old->copy && k < old->end.froms; k++) {
    free(old->copy[k]);
  }
  lac_async_close(&old->end);
  lac_free(old->weight);
  lac_free((void *)old->copy);
  lac_free(old->copies);
  lac_free(old->mixed);
  lac_free(old);
}

static void fill_weights(const lac_topology *topology, lac_async_ring *ring) {
  for (int phase = 0; phase < ring->phases; phase++) {
    const lac_weights *weights = lac_topology_weights(topology, phase);
    float *row = ring->weight + (ptrdiff_t)phase * (ring->end.froms + 1);
    for (int64_t e = weights->start[ring->end.rank]; e < weights->start[ring->end.rank + 1]; e++) {
      int k = 0;
      while (k < ring->end.froms && ring->end.from[k] != weights->column[e]) {
        k++;
      }
      row[k] = (float)weights->weight[e];
    }
  }
}

static lac_status fill(lac_context *context, const lac_process *process, lac_async_ring *ring) {
  const lac_topology *topology = lac_process_topology(process);
  LAC_TRY(lac_async_open(context, ring->end.world, ring->end.n, topology, &ring->end));
  LAC_TRY(LAC_NEW(context, (int64_t)ring->phases * (ring->end.froms + 1), &ring->weight));
  LAC_TRY(LAC_NEW(context, ring->end.froms, &ring->copy));
  LAC_TRY(LAC_NEW(context, ring->end.froms, &ring->copies));
  LAC_TRY(LAC_NEW(context, ring->end.n, &ring->mixed));
  for (int k = 0; k < ring->end.froms; k++) {
    ring->copies[k] = -1;
  }
  fill_weights(topology, ring);
  return LAC_OK;
}

static lac_status ring_create(lac_context *context, lac_world *world, int64_t n, const lac_process *process,
                              lac_async_log *log, void **state) {
  lac_async_ring *made;
  *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_async_ring){.end = {.world = world, .n = n},
                           .log = log,
                           .slack = (float)lac_process_slack(process),
                           .period = lac_process_period(process),
                           .phases = lac_topology_phases(lac_process_topology(process))};
  lac_status status = fill(context, process, made);
  if (status) {
    ring_destroy(made);
    return status;
  }
  *state = made;
  return LAC_OK;
}

static lac_status take(lac_context *context, lac_async_ring *ring, lac_message *message) {
  bool end;
  int k = 0;
  LAC_TRY(lac_async_is_end(context, &ring->end, message, &end));
  if (end) {
    return LAC_OK;
  }
  while (k < ring->end.froms && ring->end.from[k] != message->from) {
    k++;
  }
  if (k == ring->end.froms || message->bytes == 0) {
    free(message->data);
    return lac_fail(context, LAC_E_PEER, "worker %d sent a model to worker %d, which is not its neighbour",
                    message->from, ring->end.rank);
  }
  free(ring->copy[k]);
  ring->copy[k] = message->data;
  ring->copies[k]++;
  return LAC_OK;
}

static lac_status ring_serve(lac_context *context, void *state, float *x) {
  (void)x;
  lac_async_ring *ring = state;
  for (bool found = true; found;) {
    lac_message message;
    LAC_TRY(lac_world_poll_tagged(ring->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, &message, &found));
    if (found) {
      LAC_TRY(take(context, ring, &message));
    }
  }
  return LAC_OK;
}

static lac_status publish(lac_async_ring *ring, const float *x, lac_traffic traffic) {
  for (int k = 0; k < ring->end.tos; k++) {
    LAC_TRY(lac_async_send(&ring->end, ring->end.to[k], x, traffic));
  }
  return LAC_OK;
}

/* Everybody has a copy of everybody it reads. */
static lac_status ring_start(lac_context *context, void *state, float *x) {
  lac_async_ring *ring = state;
  if (ring->started) {
    return LAC_OK;
  }
  LAC_TRY(publish(ring, x, LAC_TRAFFIC_CONTROL));
  for (int k = 0; k < ring->end.froms; k++) {
    while (!ring->copy[k]) {
      lac_message message;
      int from = ring->end.from[k];
      LAC_TRY(lac_world_receive_tagged(ring->end.world, from, LAC_TAG_EXCHANGE, from, &message));
      LAC_TRY(take(context, ring, &message));
    }
  }
  ring->started = true;
  return LAC_OK;
}

static lac_status ring_before(lac_context *context, void *state, int64_t updates, float *x) {
  (void)updates;
  lac_async_ring *ring = state;
  int64_t n = ring->end.n;
  const float *row = ring->weight + (ring->mixings++ % ring->phases) * (ring->end.froms + 1);
  float *mixed = ring->mixed;
  for (int64_t i = 0; i < n; i++) {
    mixed[i] = row[ring->end.froms] * x[i];
  }
  for (int k = 0; k < ring->end.froms; k++) {
    if (row[k] > 0) {
      const float *copy = ring->copy[k];
      for (int64_t i = 0; i < n; i++) {
        mixed[i] += row[k] * copy[i];
      }
      int64_t age = (ring->mixings - ring->copies[k]) * ring->period - 1; /* as if all went at one pace */
      lac_async_stale(ring->log, age);
      LAC_TRY(lac_async_note(context, ring->log, ring->end.from[k], ring->copies[k]));
    }
  }
  if (ring->slack < 1) {
    lac_slack_step(n, ring->slack, mixed, x, &ring->log->tally);
  } else {
    memcpy(x, mixed, (size_t)n * sizeof *x);
  }
  return lac_async_note(context, ring->log, ring->end.rank, ring->sent);
}

static lac_status ring_after(lac_context *context, void *state, int64_t updates, float *x) {
  (void)context;
  (void)updates;
  lac_async_ring *ring = state;
  ring->sent++;
  return publish(ring, x, LAC_TRAFFIC_MODEL);
}

static lac_status ring_settle(lac_context *context, void *state, float *x) {
  (void)x;
  lac_async_ring *ring = state;
  LAC_TRY(lac_async_say_end(&ring->end, ring->end.tos, ring->end.to));
  for (int missing; (missing = lac_async_missing(&ring->end, ring->end.froms, ring->end.from)) >= 0;) {
    lac_message message;
    LAC_TRY(lac_world_receive_tagged(ring->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, missing, &message));
    LAC_TRY(take(context, ring, &message));
  }
  return LAC_OK;
}

const lac_async_protocol lac_exchange_async_ring = {
    "async-ring", ring_create, ring_destroy, ring_start, ring_serve, ring_before, ring_after, ring_settle,
};
