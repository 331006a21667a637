/* The asynchronous ring: a worker trains what has come to it and passes it on, and waits only when there is nothing to
 * train. What stands at a worker is in one of two places, so never more than M submodels: the queue of those that are
 * to be trained here, and the final copies. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/tags.h"
#include "mac/engine.h"

/* A submodel here: the message it came in, or would have come in. */
typedef struct lac_parcel {
  int64_t id, visit;
  char *data; /* the envelope, then the state */
} lac_parcel;

typedef struct lac_ring {
  lac_context *context;
  lac_world *world;
  const lac_mac_problem *problem;
  void *shard;
  const lac_path *path;
  int rank, tag;
  int64_t passes, batch, points;
  const lac_mac_costs *costs; /* NULL: the clock runs by itself */
  lac_ring_rules rules;
  lac_parcel *queue; /* (M), the least advanced first, equally advanced ones as they came */
  int64_t waiting;
  lac_parcel *final; /* (M), by id; data NULL while it has not come */
  int64_t finals;
  lac_parcel *batched;   /* (batch), being trained or passed on; data NULL when gone */
  int64_t *seen;         /* (M): the last visit here, -1 before the first */
  int32_t *following;    /* (P): how many more of its burst each worker has on their way here */
  int64_t expected;      /* the sum of these */
  int64_t *ids, *visits; /* (batch) */
  void **states;         /* (batch) */
  int64_t messages, bytes;
} lac_ring;

static void ring_close(lac_ring *ring) {
  for (int64_t i = 0; i < ring->waiting; i++) {
    free(ring->queue[i].data);
  }
  for (int64_t m = 0; ring->final && m < ring->problem->submodels; m++) {
    free(ring->final[m].data);
  }
  for (int64_t i = 0; ring->batched && i < ring->batch; i++) {
    free(ring->batched[i].data);
  }
  lac_free(ring->queue);
  lac_free(ring->batched);
  lac_free(ring->final);
  lac_free(ring->seen);
  lac_free(ring->following);
  lac_free(ring->ids);
  lac_free(ring->visits);
  lac_free(ring->states);
}

static lac_status ring_open(lac_ring *ring, const lac_mac_options *options) {
  int64_t count = ring->problem->submodels;
  ring->rank = lac_world_rank(ring->world);
  ring->passes = options->local_epochs ? options->epochs : 1;
  ring->batch = lac_mac_batch(options, count, ring->path->workers);
  ring->points = ring->costs ? ring->problem->points(ring->shard) : 0;
  LAC_TRY(LAC_NEW(ring->context, count, &ring->queue));
  LAC_TRY(LAC_NEW(ring->context, count, &ring->final));
  LAC_TRY(LAC_NEW(ring->context, count, &ring->seen));
  LAC_TRY(LAC_NEW(ring->context, ring->path->workers, &ring->following));
  LAC_TRY(LAC_NEW(ring->context, ring->batch, &ring->batched));
  LAC_TRY(LAC_NEW(ring->context, ring->batch, &ring->ids));
  LAC_TRY(LAC_NEW(ring->context, ring->batch, &ring->visits));
  LAC_TRY(LAC_NEW(ring->context, ring->batch, &ring->states));
  for (int64_t m = 0; m < count; m++) {
    ring->seen[m] = -1;
  }
  return LAC_OK;
}

static size_t parcel_bytes(const lac_ring *ring, int64_t m) {
  return LAC_MAC_ENVELOPE + ring->problem->submodel_bytes(ring->shard, m);
}

/* What travels before a state. */
typedef struct lac_envelope {
  int32_t id, following; /* this submodel; how many more of its batch its sender has for the same worker */
  int64_t visit;
} lac_envelope;
_Static_assert(sizeof(lac_envelope) == LAC_MAC_ENVELOPE, "the bytes that are counted");

static lac_status send_parcel(lac_ring *ring, const lac_parcel *parcel, int to, int64_t visit, int32_t following) {
  lac_envelope envelope = {(int32_t)parcel->id, following, visit};
  size_t bytes = parcel_bytes(ring, parcel->id);
  double start = lac_seconds();
  memcpy(parcel->data, &envelope, sizeof envelope);
  LAC_TRY(lac_world_send_tagged(ring->world, to, ring->tag, parcel->data, bytes, LAC_TRAFFIC_MODEL));
  lac_profile_add(ring->context, "ring send", lac_seconds() - start, 1, (int64_t)bytes, 0);
  ring->messages++;
  ring->bytes += (int64_t)bytes;
  return LAC_OK;
}

static void enqueue(lac_ring *ring, lac_parcel parcel) {
  int64_t at = ring->waiting++;
  for (; !ring->rules.by_arrival && at > 0 && ring->queue[at - 1].visit > parcel.visit; at--) {
    ring->queue[at] = ring->queue[at - 1];
  }
  ring->queue[at] = parcel;
}

/* A trained or final parcel leaves its visit; takes it over, also on failure. */
static lac_status pass_on(lac_ring *ring, lac_parcel parcel, int32_t following) {
  int next = lac_path_next(ring->path, ring->rank, parcel.visit);
  bool final = parcel.visit + 1 >= ring->path->training;
  lac_status status = LAC_OK;
  if (next >= 0 && next != ring->rank) {
    status = send_parcel(ring, &parcel, next, parcel.visit + 1, following);
  }
  if (final && !status) {
    ring->final[parcel.id] = parcel;
    ring->finals++;
  } else if (next == ring->rank && !status) { /* a ring of one */
    parcel.visit++;
    enqueue(ring, parcel);
  } else {
    free(parcel.data);
  }
  return status;
}

static lac_status check_parcel(const lac_ring *ring, const lac_message *message, lac_parcel *parcel,
                               int32_t *following) {
  const lac_path *path = ring->path;
  lac_envelope envelope = {.id = -1};
  if (message->bytes >= sizeof envelope) {
    memcpy(&envelope, message->data, sizeof envelope);
  }
  int64_t id = envelope.id, visit = envelope.visit;
  bool known = id >= 0 && id < path->submodels && visit > 0 && visit < path->visits && envelope.following >= 0 &&
               envelope.following < path->submodels;
  if (!known || message->bytes != parcel_bytes(ring, id) || visit <= ring->seen[id] ||
      lac_path_next(path, message->from, visit - 1) != ring->rank) {
    return lac_fail(ring->context, LAC_E_PEER,
                    "worker %d broke the protocol: it sent %zu bytes as visit %lld of submodel %lld to worker %d",
                    message->from, message->bytes, (long long)visit, (long long)id, ring->rank);
  }
  *parcel = (lac_parcel){.id = id, .visit = visit, .data = message->data};
  *following = envelope.following;
  return LAC_OK;
}

/* Takes over the message's data. A final copy goes on at once, before any training. */
static lac_status accept_message(lac_ring *ring, const lac_message *message) {
  lac_parcel parcel = {0};
  int32_t following = 0;
  lac_status status = check_parcel(ring, message, &parcel, &following);
  if (status) {
    free(message->data);
    return status;
  }
  ring->expected += following - ring->following[message->from];
  ring->following[message->from] = following;
  ring->seen[parcel.id] = parcel.visit;
  if (parcel.visit < ring->path->training) {
    enqueue(ring, parcel);
    return LAC_OK;
  }
  return pass_on(ring, parcel, 0);
}

static lac_status accept_all(lac_ring *ring) {
  for (;;) {
    lac_message message;
    bool found;
    LAC_TRY(lac_world_poll_tagged(ring->world, LAC_ANY_WORKER, ring->tag, &message, &found));
    if (!found) {
      return LAC_OK;
    }
    LAC_TRY(accept_message(ring, &message));
  }
}

/* Who is to hand over the first submodel that has still to come here: the one to blame for a wait that ends. */
static int supplier(const lac_ring *ring) {
  for (int64_t m = 0; m < ring->path->submodels; m++) {
    if (ring->final[m].data) {
      continue;
    }
    int host = ring->seen[m] < 0 ? lac_path_start(ring->path, m) : ring->rank;
    for (int64_t visit = ring->seen[m] < 0 ? 0 : ring->seen[m]; host >= 0; visit++) {
      int next = lac_path_next(ring->path, host, visit);
      if (next == ring->rank) {
        return host;
      }
      host = next;
    }
  }
  return LAC_ANY_WORKER;
}

static lac_status wait_for_one(lac_ring *ring) {
  lac_message message;
  double start = lac_seconds();
  LAC_TRY(lac_world_receive_tagged(ring->world, LAC_ANY_WORKER, ring->tag, supplier(ring), &message));
  lac_profile_add(ring->context, "ring wait", lac_seconds() - start, 0, 0, 0);
  return accept_message(ring, &message);
}

/* How many behind number i of the batch leave for the same worker. */
static int32_t following(const lac_ring *ring, int64_t count, int64_t i) {
  int to = lac_path_next(ring->path, ring->rank, ring->visits[i]);
  int32_t others = 0;
  for (int64_t j = i + 1; j < count; j++) {
    others += lac_path_next(ring->path, ring->rank, ring->visits[j]) == to;
  }
  return others;
}

/* The least advanced of the queue together. */
static lac_status train_batch(lac_ring *ring) {
  int64_t count = ring->waiting < ring->batch ? ring->waiting : ring->batch;
  double start = lac_seconds();
  for (int64_t i = 0; i < count; i++) {
    ring->batched[i] = ring->queue[i];
    ring->ids[i] = ring->queue[i].id;
    ring->visits[i] = ring->queue[i].visit;
    ring->states[i] = ring->queue[i].data + LAC_MAC_ENVELOPE;
  }
  ring->waiting -= count;
  memmove(ring->queue, ring->queue + count, (size_t)ring->waiting * sizeof *ring->queue);
  LAC_TRY(ring->problem->train(ring->shard, ring->context, count, ring->ids, ring->visits, ring->passes, ring->states));
  if (ring->costs) {
    lac_world_spend(ring->world, lac_mac_visit_seconds(ring->costs, ring->points, count, ring->ids, ring->passes));
  }
  lac_profile_add(ring->context, "ring train", lac_seconds() - start, 0, 0, 0);
  for (int64_t i = 0; i < count; i++) {
    lac_parcel parcel = ring->batched[i];
    ring->batched[i].data = NULL;
    LAC_TRY(pass_on(ring, parcel, following(ring, count, i)));
  }
  return LAC_OK;
}

static lac_status pack_own(lac_ring *ring) {
  int64_t end = lac_path_first(ring->path, ring->rank + 1);
  for (int64_t m = lac_path_first(ring->path, ring->rank); m < end; m++) {
    size_t bytes = parcel_bytes(ring, m);
    char *data = calloc(1, bytes);
    if (!data) {
      return lac_fail(ring->context, LAC_E_MEMORY, "cannot allocate a submodel of %zu bytes", bytes);
    }
    enqueue(ring, (lac_parcel){.id = m, .data = data});
    ring->seen[m] = 0;
    LAC_TRY(ring->problem->pack(ring->shard, ring->context, m, data + LAC_MAC_ENVELOPE));
  }
  return LAC_OK;
}

static lac_status run_ring(lac_ring *ring) {
  LAC_TRY(pack_own(ring));
  while (ring->finals < ring->path->submodels) {
    if (lac_context_interrupted(ring->context)) {
      return lac_fail(ring->context, LAC_E_INTERRUPTED, "interrupted");
    }
    LAC_TRY(accept_all(ring));
    /* A batch that was trained together is waited for: it is on its way, and what a visit costs however many train
     * together would be paid twice if it were split. */
    bool complete = ring->expected == 0 || ring->waiting >= ring->batch || ring->rules.split;
    if (ring->waiting > 0 && complete) {
      LAC_TRY(train_batch(ring));
    } else if (ring->finals < ring->path->submodels) {
      LAC_TRY(wait_for_one(ring));
    }
  }
  /* Only now, so that what a problem trains on cannot change while it trains. */
  for (int64_t m = 0; m < ring->path->submodels; m++) {
    LAC_TRY(ring->problem->unpack(ring->shard, ring->context, m, ring->final[m].data + LAC_MAC_ENVELOPE));
  }
  return ring->problem->w_end ? ring->problem->w_end(ring->shard, ring->context) : LAC_OK;
}

lac_status lac_ring_step(lac_context *context, const lac_team *team, const lac_mac_problem *problem, void *shard,
                         const lac_mac_options *options, int64_t iteration, const lac_path *path,
                         const lac_ring_rules *rules, int64_t *messages, int64_t *bytes) {
  lac_ring ring = {.context = context,
                   .world = team->world,
                   .costs = team->costs,
                   .problem = problem,
                   .shard = shard,
                   .path = path,
                   /* A fast worker may be one W step ahead, never two: it needs everybody's last training first. */
                   .tag = lac_world_step(team->world) % 2 ? LAC_TAG_RING_ODD : LAC_TAG_RING};
  if (rules) {
    ring.rules = *rules;
  }
  LAC_TRY(problem->w_begin(shard, context, iteration));
  if (team->costs) {
    double point = lac_mac_costs_at(team->costs, iteration).begin;
    lac_world_spend(team->world, point * (double)problem->points(shard));
  }
  lac_status status = ring_open(&ring, options);
  if (!status) {
    status = run_ring(&ring);
  }
  *messages += ring.messages;
  *bytes += ring.bytes;
  ring_close(&ring);
  return status;
}
