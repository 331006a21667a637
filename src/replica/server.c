/* The exact mean by way of worker 0, which adds up in the order of the workers and sends the mean to all.
 *
 * Bounds: worker 0's link, P - 1 vectors each way. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/tags.h"
#include "replica/collect.h"
#include "replica/exchange.h"

typedef struct lac_server {
  lac_world *world;
  lac_traffic traffic;
  int64_t n;
  int32_t *others; /* (P - 1) of worker 0: all others; of those: worker 0 */
  int size;
  float *own; /* (n) */
  lac_collect inbox;
} lac_server;

static void server_destroy(void *state) {
  lac_server *old = state;
  if (old) {
    lac_collect_close(&old->inbox);
    lac_free(old->others);
    lac_free(old->own);
    lac_free(old);
  }
}

static lac_status fill(lac_context *context, lac_server *made) {
  LAC_TRY(LAC_NEW(context, made->size, &made->others));
  LAC_TRY(LAC_NEW(context, made->n, &made->own));
  for (int i = 0; lac_world_rank(made->world) == 0 && i + 1 < made->size; i++) {
    made->others[i] = i + 1;
  }
  return lac_collect_open(context, made->world, LAC_TAG_EXCHANGE, (size_t)made->n * sizeof(float), made->size,
                          &made->inbox);
}

static lac_status server_create(lac_context *context, lac_world *world, int64_t n, lac_traffic traffic,
                                const lac_process *process, void **state) {
  (void)process;
  lac_server *made;
  *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_server){.world = world, .traffic = traffic, .n = n, .size = lac_world_size(world)};
  lac_status status = fill(context, made);
  if (status) {
    server_destroy(made);
    return status;
  }
  *state = made;
  return LAC_OK;
}

static lac_status server_begin(lac_context *context, void *state, int64_t round, const float *vector) {
  (void)context;
  (void)round;
  lac_server *s = state;
  if (lac_world_rank(s->world) == 0) {
    memcpy(s->own, vector, (size_t)s->n * sizeof *vector);
    lac_collect_begin(&s->inbox, s->size - 1, s->others);
    return LAC_OK;
  }
  lac_collect_begin(&s->inbox, 1, s->others);
  return lac_world_send_tagged(s->world, 0, LAC_TAG_EXCHANGE, vector, s->inbox.bytes, s->traffic);
}

static lac_status server_poll(lac_context *context, void *state) {
  lac_server *s = state;
  return lac_collect_poll(context, &s->inbox);
}

static lac_status give_mean(lac_server *s, float *mean) {
  memcpy(mean, s->own, (size_t)s->n * sizeof *mean);
  for (int k = 0; k + 1 < s->size; k++) {
    const float *vector = s->inbox.data[k];
    for (int64_t i = 0; i < s->n; i++) {
      mean[i] += vector[i];
    }
  }
  for (int64_t i = 0; i < s->n; i++) {
    mean[i] /= (float)s->size;
  }
  for (int k = 0; k + 1 < s->size; k++) {
    LAC_TRY(lac_world_send_tagged(s->world, k + 1, LAC_TAG_EXCHANGE, mean, s->inbox.bytes, s->traffic));
  }
  return LAC_OK;
}

static lac_status server_finish(lac_context *context, void *state, float *mean) {
  lac_server *s = state;
  LAC_TRY(lac_collect_finish(context, &s->inbox));
  if (lac_world_rank(s->world) == 0) {
    return give_mean(s, mean);
  }
  memcpy(mean, s->inbox.data[0], s->inbox.bytes);
  return LAC_OK;
}

const lac_exchange_protocol lac_exchange_server = {
    "server", server_create, server_destroy, server_begin, server_poll, server_finish,
};
