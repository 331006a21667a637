/* A parameter server that worker 0 keeps beside its own work: a worker sends what its updates since the last time have
 * added up to, the server adds that and answers with its copy. At the end of an advance all take the server's copy.
 *
 * Bounds: worker 0's link, a vector each way for each update of the others; or the wait until worker 0 looks at its
 * messages. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/tags.h"
#include "replica/asynchronous.h"

typedef struct lac_async_server {
  lac_async_end end;
  lac_async_log *log;
  float slack;
  float *base;    /* (n): where this worker stood when it had the server's copy last */
  float *change;  /* (n) */
  float *server;  /* (n), of worker 0 */
  int64_t *taken; /* (size), of worker 0: the server's updates when each had its copy last */
  int64_t updates;
} lac_async_server;

static void server_destroy(void *state) {
  lac_async_server *old = state;
  if (old) {
    lac_async_close(&old->end);
    lac_free(old->base);
    lac_free(old->change);
    lac_free(old->server);
    lac_free(old->taken);
    lac_free(old);
  }
}

static lac_status fill(lac_context *context, lac_world *world, int64_t n, lac_async_server *s) {
  LAC_TRY(lac_async_open(context, world, n, NULL, &s->end));
  for (int other = 1; s->end.rank == 0 && other < s->end.size; other++) {
    s->end.from[s->end.froms++] = other;
  }
  LAC_TRY(LAC_NEW(context, n, &s->base));
  LAC_TRY(LAC_NEW(context, n, &s->change));
  LAC_TRY(LAC_NEW(context, s->end.rank == 0 ? n : 0, &s->server));
  return LAC_NEW(context, s->end.size, &s->taken);
}

static lac_status server_create(lac_context *context, lac_world *world, int64_t n, const lac_process *process,
                                lac_async_log *log, void **state) {
  lac_async_server *made;
  *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_async_server){.log = log, .slack = (float)lac_process_slack(process)};
  lac_status status = fill(context, world, n, made);
  if (status) {
    server_destroy(made);
    return status;
  }
  *state = made;
  return LAC_OK;
}

/* Everyone begins where it stands; the server where worker 0 does. */
static lac_status server_start(lac_context *context, void *state, float *x) {
  (void)context;
  lac_async_server *s = state;
  size_t bytes = (size_t)s->end.n * sizeof *x;
  memcpy(s->base, x, bytes);
  if (s->end.rank == 0) {
    memcpy(s->server, x, bytes);
  }
  return LAC_OK;
}

/* An update of worker `from` comes in. */
static lac_status add(lac_context *context, lac_async_server *s, int from, const float *change) {
  for (int64_t i = 0; i < s->end.n; i++) {
    s->server[i] += change[i];
  }
  lac_async_stale(s->log, s->updates - s->taken[from]);
  s->taken[from] = ++s->updates;
  return lac_async_note_pair(context, s->log, from);
}

static lac_status take(lac_context *context, lac_async_server *s, lac_message *message) {
  bool end;
  LAC_TRY(lac_async_is_end(context, &s->end, message, &end));
  if (end) {
    return LAC_OK;
  }
  if (message->bytes == 0) {
    return lac_fail(context, LAC_E_PEER, "worker %d sent nothing to the server, expected an update", message->from);
  }
  lac_status status = add(context, s, message->from, message->data);
  free(message->data);
  return status ? status : lac_async_send(&s->end, message->from, s->server, LAC_TRAFFIC_MODEL);
}

static lac_status server_serve(lac_context *context, void *state, float *x) {
  (void)x;
  lac_async_server *s = state;
  for (bool found = s->end.rank == 0; found;) {
    lac_message message;
    LAC_TRY(lac_world_poll_tagged(s->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, &message, &found));
    if (found) {
      LAC_TRY(take(context, s, &message));
    }
  }
  return LAC_OK;
}

static lac_status server_before(lac_context *context, void *state, int64_t updates, float *x) {
  (void)context;
  (void)state;
  (void)updates;
  (void)x;
  return LAC_OK;
}

static void adopt(lac_async_server *s, const float *server, float slack, float *x) {
  if (slack < 1) {
    lac_slack_step(s->end.n, slack, server, x, &s->log->tally);
  } else {
    memcpy(x, server, (size_t)s->end.n * sizeof *x);
  }
  memcpy(s->base, x, (size_t)s->end.n * sizeof *x);
}

/* The server's copy, from worker 0. */
static lac_status receive_copy(lac_context *context, lac_async_server *s, float slack, float *x) {
  lac_message message;
  LAC_TRY(lac_async_receive(context, &s->end, 0, &message));
  adopt(s, message.data, slack, x);
  free(message.data);
  return LAC_OK;
}

static lac_status server_after(lac_context *context, void *state, int64_t updates, float *x) {
  (void)updates;
  lac_async_server *s = state;
  for (int64_t i = 0; i < s->end.n; i++) {
    s->change[i] = x[i] - s->base[i];
  }
  if (s->end.rank == 0) {
    LAC_TRY(add(context, s, 0, s->change));
    adopt(s, s->server, s->slack, x);
    return LAC_OK;
  }
  LAC_TRY(lac_async_send(&s->end, 0, s->change, LAC_TRAFFIC_MODEL));
  LAC_TRY(receive_copy(context, s, s->slack, x));
  return lac_async_note_pair(context, s->log, 0);
}

static lac_status server_settle(lac_context *context, void *state, float *x) {
  static const int32_t keeper = 0;
  lac_async_server *s = state;
  if (memcmp(x, s->base, (size_t)s->end.n * sizeof *x) != 0) { /* updates that the period has kept back */
    LAC_TRY(server_after(context, s, 0, x));
  }
  if (s->end.rank > 0) {
    LAC_TRY(lac_async_say_end(&s->end, 1, &keeper));
    return receive_copy(context, s, 1, x);
  }
  for (int missing; (missing = lac_async_missing(&s->end, s->end.froms, s->end.from)) >= 0;) {
    lac_message message;
    LAC_TRY(lac_world_receive_tagged(s->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, missing, &message));
    LAC_TRY(take(context, s, &message));
  }
  adopt(s, s->server, 1, x);
  for (int k = 0; k < s->end.froms; k++) {
    LAC_TRY(lac_async_send(&s->end, s->end.from[k], s->server, LAC_TRAFFIC_CONTROL));
  }
  return LAC_OK;
}

const lac_async_protocol lac_exchange_async_server = {
    "async-server", server_create, server_destroy, server_start,
    server_serve,   server_before, server_after,   server_settle,
};
