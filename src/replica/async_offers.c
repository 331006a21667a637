/* What adpsgd and async-server are for elastic and parle, which are drawn to a mean and keep their models to
 * themselves: nothing of a worker's is mixed by others, only its offers are read.
 *
 * Pairs: a worker asks a random neighbour for its newest offer and gets the mean of both. The one that is asked answers
 * at once, whatever it waits for itself.
 * Server: worker 0 keeps the mean of the newest offers of all, as the centre of asynchronous elastic averaging (Zhang,
 * Choromanska and LeCun 2015): a worker sends by how much its offer has changed, over their number, and gets that mean.
 *
 * Bounds: the network, a vector an update (pairs), or one each way through worker 0's link. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/tags.h"
#include "replica/asynchronous.h"

typedef struct lac_offers {
  lac_async_end end;
  lac_async_log *log;
  lac_async_peers peers; /* of pairs */
  int64_t seed, period;
  float slack;
  float *offer;  /* (n): this worker's newest */
  float *answer; /* (n): what was asked for; of the server on worker 0: the mean */
  float *change; /* (n), of the server */
  bool started, answered;
} lac_offers;

static void offers_destroy(void *state) {
  lac_offers *old = state;
  if (old) {
    lac_async_close(&old->end);
    lac_async_peers_close(&old->peers);
    lac_free(old->offer);
    lac_free(old->answer);
    lac_free(old->change);
    lac_free(old);
  }
}

static lac_status fill(lac_context *context, lac_world *world, int64_t n, const lac_process *process, lac_offers *o) {
  const lac_topology *topology = lac_process_topology(process);
  LAC_TRY(lac_async_open(context, world, n, topology, &o->end));
  LAC_TRY(LAC_NEW(context, n, &o->offer));
  LAC_TRY(LAC_NEW(context, n, &o->answer));
  LAC_TRY(LAC_NEW(context, n, &o->change));
  if (topology) {
    return lac_async_peers_open(context, topology, o->end.rank, &o->peers);
  }
  for (int other = 1; o->end.rank == 0 && other < o->end.size; other++) {
    o->end.from[o->end.froms++] = other;
  }
  return LAC_OK;
}

static lac_status offers_create(lac_context *context, lac_world *world, int64_t n, const lac_process *process,
                                lac_async_log *log, void **state) {
  lac_offers *made;
  *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_offers){.log = log,
                       .seed = process->seed,
                       .period = lac_process_period(process),
                       .slack = (float)lac_process_slack(process)};
  lac_status status = fill(context, world, n, process, made);
  if (status) {
    offers_destroy(made);
    return status;
  }
  *state = made;
  return LAC_OK;
}

static size_t vector_bytes(const lac_offers *o) {
  return (size_t)o->end.n * sizeof(float);
}

/* ---- pairs ---- */

/* An ask is an empty message. */
static lac_status take(lac_context *context, lac_offers *o, lac_message *message) {
  bool end;
  LAC_TRY(lac_async_is_end(context, &o->end, message, &end));
  if (end) {
    return LAC_OK;
  }
  int from = message->from;
  bool ask = message->bytes == 0;
  if (!ask) {
    memcpy(o->answer, message->data, vector_bytes(o));
    o->answered = true;
  }
  free(message->data);
  return ask ? lac_async_send(&o->end, from, o->offer, LAC_TRAFFIC_MODEL) : LAC_OK;
}

static lac_status pairs_start(lac_context *context, void *state, float *x) {
  (void)context;
  lac_offers *o = state;
  if (!o->started) { /* until there is an offer, where this worker begins */
    memcpy(o->offer, x, vector_bytes(o));
    o->started = true;
  }
  return LAC_OK;
}

static lac_status pairs_serve(lac_context *context, void *state, float *x) {
  (void)x;
  lac_offers *o = state;
  for (bool found = o->started; found;) {
    lac_message message;
    LAC_TRY(lac_world_poll_tagged(o->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, &message, &found));
    if (found) {
      LAC_TRY(take(context, o, &message));
    }
  }
  return LAC_OK;
}

static lac_status receive(lac_context *context, lac_offers *o, int suspect) {
  lac_message message;
  LAC_TRY(lac_world_receive_tagged(o->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, suspect, &message));
  return take(context, o, &message);
}

/* x, the offer, becomes the mean of it and a neighbour's. */
static lac_status pairs_before(lac_context *context, void *state, int64_t updates, float *x) {
  lac_offers *o = state;
  lac_random stream = lac_random_stream(o->seed, LAC_RANDOM_PEER, (uint64_t)o->end.rank, (uint64_t)updates);
  int whom = lac_async_peers_draw(&o->peers, updates / o->period - 1, &stream);
  if (whom < 0) {
    return LAC_OK;
  }
  LAC_TRY(lac_world_send_tagged(o->end.world, whom, LAC_TAG_EXCHANGE, NULL, 0, LAC_TRAFFIC_CONTROL));
  for (o->answered = false; !o->answered;) {
    LAC_TRY(receive(context, o, whom));
  }
  lac_slack_step(o->end.n, o->slack / 2, o->answer, x, &o->log->tally);
  return LAC_OK;
}

static lac_status offers_after(lac_context *context, void *state, int64_t updates, float *x) {
  (void)context;
  (void)updates;
  lac_offers *o = state;
  memcpy(o->offer, x, vector_bytes(o));
  return LAC_OK;
}

static lac_status pairs_settle(lac_context *context, void *state, float *x) {
  (void)x;
  lac_offers *o = state;
  LAC_TRY(lac_async_say_end(&o->end, o->end.froms, o->end.from));
  for (int missing; (missing = lac_async_missing(&o->end, o->end.tos, o->end.to)) >= 0;) {
    LAC_TRY(receive(context, o, missing));
  }
  return LAC_OK;
}

/* ---- server ---- */

static void add_part(lac_offers *o, const float *change) {
  float part = 1 / (float)o->end.size;
  for (int64_t i = 0; i < o->end.n; i++) {
    o->answer[i] += part * change[i];
  }
}

/* A change of somebody's offer; the answer is the mean. */
static lac_status take_change(lac_context *context, lac_offers *o, lac_message *message) {
  bool end;
  LAC_TRY(lac_async_is_end(context, &o->end, message, &end));
  if (end) {
    return LAC_OK;
  }
  if (message->bytes == 0) {
    return lac_fail(context, LAC_E_PEER, "worker %d sent nothing to the server, expected an offer", message->from);
  }
  add_part(o, message->data);
  free(message->data);
  return lac_async_send(&o->end, message->from, o->answer, LAC_TRAFFIC_MODEL);
}

/* What all begin with is their first offer, from a server and offers at 0. Nobody's second comes before its answer, so
 * that the mean is that of all before it is asked for. */
static lac_status server_start(lac_context *context, void *state, float *x) {
  lac_offers *o = state;
  if (o->started) {
    return LAC_OK;
  }
  o->started = true;
  memcpy(o->offer, x, vector_bytes(o));
  if (o->end.rank > 0) {
    return lac_async_send(&o->end, 0, x, LAC_TRAFFIC_CONTROL);
  }
  add_part(o, x);
  for (int other = 1; other < o->end.size; other++) {
    lac_message message;
    LAC_TRY(lac_async_receive(context, &o->end, other, &message));
    add_part(o, message.data);
    free(message.data);
  }
  return LAC_OK;
}

static lac_status server_serve(lac_context *context, void *state, float *x) {
  (void)x;
  lac_offers *o = state;
  for (bool found = o->started && o->end.rank == 0; found;) {
    lac_message message;
    LAC_TRY(lac_world_poll_tagged(o->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, &message, &found));
    if (found) {
      LAC_TRY(take_change(context, o, &message));
    }
  }
  return LAC_OK;
}

static lac_status server_after(lac_context *context, void *state, int64_t updates, float *x) {
  (void)updates;
  lac_offers *o = state;
  for (int64_t i = 0; i < o->end.n; i++) {
    o->change[i] = x[i] - o->offer[i];
  }
  memcpy(o->offer, x, vector_bytes(o));
  if (o->end.rank == 0) {
    add_part(o, o->change);
    return LAC_OK;
  }
  lac_message message;
  LAC_TRY(lac_async_send(&o->end, 0, o->change, LAC_TRAFFIC_MODEL));
  LAC_TRY(lac_async_receive(context, &o->end, 0, &message));
  memcpy(o->answer, message.data, vector_bytes(o));
  free(message.data);
  return LAC_OK;
}

static lac_status server_before(lac_context *context, void *state, int64_t updates, float *x) {
  (void)context;
  (void)updates;
  lac_offers *o = state;
  lac_slack_step(o->end.n, o->slack, o->answer, x, &o->log->tally);
  return LAC_OK;
}

static lac_status server_settle(lac_context *context, void *state, float *x) {
  static const int32_t keeper = 0;
  (void)x;
  lac_offers *o = state;
  if (o->end.rank > 0) {
    return lac_async_say_end(&o->end, 1, &keeper);
  }
  for (int missing; (missing = lac_async_missing(&o->end, o->end.froms, o->end.from)) >= 0;) {
    lac_message message;
    LAC_TRY(lac_world_receive_tagged(o->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, missing, &message));
    LAC_TRY(take_change(context, o, &message));
  }
  return LAC_OK;
}

const lac_async_protocol lac_exchange_offers_in_pairs = {
    "adpsgd", offers_create, offers_destroy, pairs_start, pairs_serve, pairs_before, offers_after, pairs_settle,
};
const lac_async_protocol lac_exchange_offers_at_server = {
    "async-server", offers_create, offers_destroy, server_start,
    server_serve,   server_before, server_after,   server_settle,
};
