/* Ring all-reduce as a state machine: the k-th message from the predecessor alone says what is to be done, so that it
 * can be polled. In the first P - 1 messages sums travel, in the last P - 1 means.
 *
 * Bounds: the network, 2 (P - 1) / P vectors through each link in 2 (P - 1) steps of latency. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/tags.h"
#include "replica/exchange.h"

typedef struct lac_allreduce {
  lac_world *world;
  lac_traffic traffic;
  int tag, rank, size;
  int64_t n;
  float *values; /* (n): the vector, then sums, then means */
  int received;  /* messages of this exchange; 2 (P - 1) when it is done */
} lac_allreduce;

static void allreduce_destroy(void *state) {
  lac_allreduce *ring = state;
  if (ring) {
    lac_free(ring->values);
    lac_free(ring);
  }
}

static lac_status allreduce_create(lac_context *context, lac_world *world, int64_t n, lac_traffic traffic,
                                   const lac_process *process, void **state) {
  (void)process;
  lac_allreduce *ring;
  *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &ring));
  *ring = (lac_allreduce){.world = world,
                          .traffic = traffic,
                          .tag = traffic == LAC_TRAFFIC_MODEL ? LAC_TAG_EXCHANGE : LAC_TAG_ANSWER_MEAN,
                          .rank = lac_world_rank(world),
                          .size = lac_world_size(world),
                          .n = n};
  ring->received = 2 * (ring->size - 1);
  lac_status status = LAC_NEW(context, n, &ring->values);
  if (status) {
    allreduce_destroy(ring);
    return status;
  }
  *state = ring;
  return LAC_OK;
}

static int64_t piece_begin(const lac_allreduce *ring, int piece) {
  return ring->n * piece / ring->size;
}

static size_t piece_bytes(const lac_allreduce *ring, int piece) {
  return (size_t)(piece_begin(ring, piece + 1) - piece_begin(ring, piece)) * sizeof *ring->values;
}

static lac_status send_piece(const lac_allreduce *ring, int piece) {
  return lac_world_send_tagged(ring->world, (ring->rank + 1) % ring->size, ring->tag,
                               ring->values + piece_begin(ring, piece), piece_bytes(ring, piece), ring->traffic);
}

static lac_status allreduce_begin(lac_context *context, void *state, int64_t round, const float *vector) {
  (void)context;
  (void)round;
  lac_allreduce *ring = state;
  memcpy(ring->values, vector, (size_t)ring->n * sizeof *vector);
  if (ring->size == 1) {
    return LAC_OK;
  }
  ring->received = 0;
  return send_piece(ring, ring->rank);
}

/* Takes over the message's data. */
static lac_status take_message(lac_context *context, lac_allreduce *ring, const lac_message *message) {
  int sums = ring->size - 1, k = ring->received++, before = ring->rank + 2 * ring->size;
  int piece = (k < sums ? before - k - 1 : before - (k - sums)) % ring->size;
  float *values = ring->values + piece_begin(ring, piece);
  const float *came = message->data;
  if (message->bytes != piece_bytes(ring, piece)) {
    free(message->data);
    return lac_fail(context, LAC_E_PEER,
                    "worker %d sent %zu bytes of a mean to worker %d, expected %zu: their models differ", message->from,
                    message->bytes, ring->rank, piece_bytes(ring, piece));
  }
  int64_t count = (int64_t)(message->bytes / sizeof *came);
  for (int64_t i = 0; i < count; i++) {
    values[i] = k < sums ? came[i] + values[i] : came[i];
  }
  if (k == sums - 1) {
    for (int64_t i = 0; i < count; i++) {
      values[i] /= (float)ring->size;
    }
  }
  free(message->data);
  return k + 1 < 2 * sums ? send_piece(ring, piece) : LAC_OK;
}

static lac_status allreduce_poll(lac_context *context, void *state) {
  lac_allreduce *ring = state;
  bool found = true;
  while (found && ring->received < 2 * (ring->size - 1)) {
    lac_message message;
    int before = (ring->rank + ring->size - 1) % ring->size;
    LAC_TRY(lac_world_poll_tagged(ring->world, before, ring->tag, &message, &found));
    if (found) {
      LAC_TRY(take_message(context, ring, &message));
    }
  }
  return LAC_OK;
}

static lac_status allreduce_finish(lac_context *context, void *state, float *mean) {
  lac_allreduce *ring = state;
  while (ring->received < 2 * (ring->size - 1)) {
    lac_message message;
    int before = (ring->rank + ring->size - 1) % ring->size;
    LAC_TRY(lac_world_receive_tagged(ring->world, before, ring->tag, before, &message));
    LAC_TRY(take_message(context, ring, &message));
  }
  memcpy(mean, ring->values, (size_t)ring->n * sizeof *mean);
  return LAC_OK;
}

const lac_exchange_protocol lac_exchange_allreduce = {
    "allreduce", allreduce_create, allreduce_destroy, allreduce_begin, allreduce_poll, allreduce_finish,
};
