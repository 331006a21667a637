#include "replica/asynchronous.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/tags.h"

/* ---- the log ---- */

lac_status lac_async_log_open(lac_context *context, const lac_world *world, lac_async_log *log) {
  *log = (lac_async_log){.world = world};
  return LAC_NEW(context, lac_world_size(world), &log->met);
}

static lac_status grow(lac_context *context, lac_async_log *log) {
  int64_t room = log->room ? 2 * log->room : 1024;
  lac_replica_event *more;
  LAC_TRY(LAC_NEW(context, room, &more));
  if (log->count > 0) {
    memcpy(more, log->event, (size_t)log->count * sizeof *more);
  }
  lac_free(log->event);
  log->event = more;
  log->room = room;
  return LAC_OK;
}

static void drop_older_half(lac_async_log *log) {
  int64_t half = log->count / 2;
  memmove(log->event, log->event + half, (size_t)(log->count - half) * sizeof *log->event);
  log->count -= half;
  log->dropped += half;
}

lac_status lac_async_note(lac_context *context, lac_async_log *log, int with, int64_t version) {
  if (log->count == log->room && log->room < LAC_LOG_LIMIT) {
    LAC_TRY(grow(context, log));
  } else if (log->count == log->room) {
    drop_older_half(log);
  }
  lac_replica_event *event = &log->event[log->count++];
  event->with = with;
  event->version = version;
  event->update = log->updates;
  event->seconds = lac_world_now(log->world);
  return LAC_OK;
}

lac_status lac_async_note_pair(lac_context *context, lac_async_log *log, int with) {
  return lac_async_note(context, log, with, ++log->met[with]);
}

int64_t lac_async_noted(const lac_async_log *log) {
  return log->dropped + log->count;
}

void lac_async_stale(lac_async_log *log, int64_t age) {
  int bucket = 0;
  for (; age > 0 && bucket + 1 < LAC_STALE_BUCKETS; age /= 2) {
    bucket++;
  }
  log->stale[bucket]++;
}

void lac_async_log_close(lac_async_log *log) {
  lac_free(log->event);
  lac_free(log->met);
  *log = (lac_async_log){0};
}

/* ---- a worker's end ---- */

static bool in_row(const lac_weights *weights, int64_t row, int32_t column) {
  for (int64_t e = weights->start[row]; e < weights->start[row + 1]; e++) {
    if (weights->column[e] == column) {
      return true;
    }
  }
  return false;
}

static bool reads(const lac_topology *topology, int64_t reader, int32_t worker) {
  for (int phase = 0; phase < lac_topology_phases(topology); phase++) {
    if (in_row(lac_topology_weights(topology, phase), reader, worker)) {
      return true;
    }
  }
  return false;
}

lac_status lac_async_open(lac_context *context, lac_world *world, int64_t n, const lac_topology *topology,
                          lac_async_end *end) {
  *end = (lac_async_end){.world = world, .n = n, .rank = lac_world_rank(world), .size = lac_world_size(world)};
  LAC_TRY(LAC_NEW(context, end->size, &end->from));
  LAC_TRY(LAC_NEW(context, end->size, &end->to));
  LAC_TRY(LAC_NEW(context, end->size, &end->ended));
  for (int32_t other = 0; topology && other < end->size; other++) {
    if (other != end->rank && reads(topology, end->rank, other)) {
      end->from[end->froms++] = other;
    }
    if (other != end->rank && reads(topology, other, end->rank)) {
      end->to[end->tos++] = other;
    }
  }
  return LAC_OK;
}

void lac_async_close(lac_async_end *end) {
  lac_free(end->from);
  lac_free(end->to);
  lac_free(end->ended);
}

lac_status lac_async_send(lac_async_end *end, int to, const float *vector, lac_traffic traffic) {
  return lac_world_send_tagged(end->world, to, LAC_TAG_EXCHANGE, vector, (size_t)end->n * sizeof *vector, traffic);
}

lac_status lac_async_receive(lac_context *context, lac_async_end *end, int from, lac_message *message) {
  bool over;
  LAC_TRY(lac_world_receive_tagged(end->world, from, LAC_TAG_EXCHANGE, from, message));
  LAC_TRY(lac_async_is_end(context, end, message, &over));
  return over || message->bytes == 0
             ? lac_fail(context, LAC_E_PEER, "worker %d sent no model to worker %d, expected one", from, end->rank)
             : LAC_OK;
}

lac_status lac_async_say_end(lac_async_end *end, int count, const int32_t *to) {
  static const unsigned char word = 0;
  for (int k = 0; k < count; k++) {
    LAC_TRY(lac_world_send_tagged(end->world, to[k], LAC_TAG_EXCHANGE, &word, 1, LAC_TRAFFIC_CONTROL));
  }
  return LAC_OK;
}

lac_status lac_async_is_end(lac_context *context, lac_async_end *end, lac_message *message, bool *is) {
  *is = message->bytes == 1;
  if (*is) {
    end->ended[message->from]++;
    free(message->data);
  } else if (message->bytes > 0 && message->bytes != (size_t)end->n * sizeof(float)) {
    free(message->data);
    return lac_fail(context, LAC_E_PEER, "worker %d sent %zu bytes to worker %d, expected %zu: their models differ",
                    message->from, message->bytes, end->rank, (size_t)end->n * sizeof(float));
  }
  return LAC_OK;
}

int lac_async_missing(lac_async_end *end, int count, const int32_t *from) {
  for (int k = 0; k < count; k++) {
    if (end->ended[from[k]] <= end->advances) {
      return from[k];
    }
  }
  end->advances++;
  return -1;
}

/* ---- peers ---- */

lac_status lac_async_peers_open(lac_context *context, const lac_topology *topology, int rank, lac_async_peers *peers) {
  int64_t count = 0, most = 0;
  *peers = (lac_async_peers){.phases = lac_topology_phases(topology)};
  for (int phase = 0; phase < peers->phases; phase++) {
    const lac_weights *weights = lac_topology_weights(topology, phase);
    most += weights->start[rank + 1] - weights->start[rank];
  }
  LAC_TRY(LAC_NEW(context, most, &peers->peer));
  LAC_TRY(LAC_NEW(context, peers->phases + 1, &peers->first));
  for (int phase = 0; phase < peers->phases; phase++) {
    const lac_weights *weights = lac_topology_weights(topology, phase);
    for (int64_t e = weights->start[rank]; e < weights->start[rank + 1]; e++) {
      if (weights->column[e] != rank) {
        peers->peer[count++] = weights->column[e];
      }
    }
    peers->first[phase + 1] = count;
  }
  return LAC_OK;
}

void lac_async_peers_close(lac_async_peers *peers) {
  lac_free(peers->peer);
  lac_free(peers->first);
}

int lac_async_peers_draw(const lac_async_peers *peers, int64_t mixing, lac_random *stream) {
  int64_t phase = mixing % peers->phases, count = peers->first[phase + 1] - peers->first[phase];
  return count > 0 ? peers->peer[peers->first[phase] + lac_random_below(stream, count)] : -1;
}
