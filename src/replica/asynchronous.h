/* Exchanges without rounds: a worker mixes when it has an update, and answers its peers whenever it looks at what has
 * come: between gradients, and inside long ones where the objective asks for it. MPI is called by the worker's own
 * thread alone.
 *
 * All messages of a protocol go under one tag: a vector, nothing (busy), or one byte, by which a worker says that it
 * will ask no more in this advance. An advance ends for a worker when all who may ask it have said so; then nothing is
 * under way. */
#ifndef LACONIC_REPLICA_ASYNCHRONOUS_H
#define LACONIC_REPLICA_ASYNCHRONOUS_H

#include "base/random.h"
#include "laconic/replica.h"
#include "mixing/process.h"
#include "replica/slack.h"

/* What a worker has mixed, in its own order: the order of the whole run can be put together from it. */
typedef struct lac_async_log {
  const lac_world *world;
  int64_t count, room, dropped;
  lac_replica_event *event; /* (count) */
  int64_t *met;             /* (workers): mixings in pairs with each so far */
  int64_t updates;          /* this worker's own, which the next entries carry: whoever makes them keeps it */
  int64_t before_gradient;  /* how many entries there were when the model of the last gradient was read; likewise */
  int64_t stale[LAC_STALE_BUCKETS];
  int64_t refused;       /* adpsgd: asked in vain */
  lac_slack_tally tally; /* of exchanges with rounds, too */
} lac_async_log;

enum { LAC_LOG_LIMIT = 1 << 18 }; /* events that are kept at most; when there are so many, the older half goes */

lac_status lac_async_log_open(lac_context *context, const lac_world *world, lac_async_log *log);
void lac_async_log_close(lac_async_log *log);
lac_status lac_async_note(lac_context *context, lac_async_log *log, int with, int64_t version);
/* Of a mixing that both note: its version is how many there were. */
lac_status lac_async_note_pair(lac_context *context, lac_async_log *log, int with);
/* How many entries there were so far. */
int64_t lac_async_noted(const lac_async_log *log);
/* Counts a model that was `age` updates old. */
void lac_async_stale(lac_async_log *log, int64_t age);

typedef struct lac_async_protocol {
  const char *name;
  /* Of vectors (n); process, whose seed keys what is random, is borrowed for the call. Collective. Errors: MEMORY. */
  lac_status (*create)(lac_context *context, lac_world *world, int64_t n, const lac_process *process,
                       lac_async_log *log, void **state);
  void (*destroy)(void *state);
  /* Begins an advance from x (n), which may be changed to what all begin with. Collective. */
  lac_status (*start)(lac_context *context, void *state, float *x);
  /* Answers what has come, without waiting. May mix x. */
  lac_status (*serve)(lac_context *context, void *state, float *x);
  /* Mixes x, before the worker's own update and after it; `updates` (from 1) is that update's number. May wait for an
   * answer. Errors: TIMEOUT, PEER, INTERRUPTED. */
  lac_status (*before)(lac_context *context, void *state, int64_t updates, float *x);
  lac_status (*after)(lac_context *context, void *state, int64_t updates, float *x);
  /* Ends the advance; serves until nobody asks any more. */
  lac_status (*settle)(lac_context *context, void *state, float *x);
} lac_async_protocol;

extern const lac_async_protocol lac_exchange_adpsgd;
extern const lac_async_protocol lac_exchange_async_ring;
extern const lac_async_protocol lac_exchange_async_server;
/* adpsgd and async-server for elastic and parle: `before` turns an offer into the mean that it is drawn to, `after`
 * comes first and takes the offer. */
extern const lac_async_protocol lac_exchange_offers_in_pairs;
extern const lac_async_protocol lac_exchange_offers_at_server;

/* ---- what the protocols share ---- */

/* A worker's end of the exchange. */
typedef struct lac_async_end {
  lac_world *world;
  int64_t n;
  int rank, size;
  int32_t *from, *to; /* (froms), (tos): whose messages are to be expected, and who expects mine */
  int froms, tos;
  int64_t advances; /* ended so far */
  int64_t *ended;   /* (size): how many times each has said that it will ask no more: where links are one-way, one may
                       have said so for several advances to come */
} lac_async_end;

/* With the topology's rows of all phases: from are those in this worker's rows, to those in whose rows it stands. */
lac_status lac_async_open(lac_context *context, lac_world *world, int64_t n, const lac_topology *topology,
                          lac_async_end *end);
void lac_async_close(lac_async_end *end);
lac_status lac_async_send(lac_async_end *end, int to, const float *vector, lac_traffic traffic);
/* Waits for a vector of worker `from`, the next message; its data is the caller's. Errors: PEER, naming both, for
 * anything else; TIMEOUT, INTERRUPTED. */
lac_status lac_async_receive(lac_context *context, lac_async_end *end, int from, lac_message *message);
/* Says to each of `to` that nothing more comes in this advance. */
lac_status lac_async_say_end(lac_async_end *end, int count, const int32_t *to);
/* True for such a word, which is noted. Fails for a message of a size that cannot be; frees its data in both cases. */
lac_status lac_async_is_end(lac_context *context, lac_async_end *end, lac_message *message, bool *is);
/* The first of `count` workers that has not said so of this advance: whom to wait for. -1 when all have: the advance is
 * over. */
int lac_async_missing(lac_async_end *end, int count, const int32_t *from);

/* Whom a worker may ask: in phase p from peer[first[p]] to peer[first[p + 1] - 1]. */
typedef struct lac_async_peers {
  int phases;
  int32_t *peer;
  int64_t *first; /* (phases + 1) */
} lac_async_peers;

lac_status lac_async_peers_open(lac_context *context, const lac_topology *topology, int rank, lac_async_peers *peers);
void lac_async_peers_close(lac_async_peers *peers);
/* One of those of the phase of the worker's mixing-th mixing, from 0, drawn evenly; -1 for none. */
int lac_async_peers_draw(const lac_async_peers *peers, int64_t mixing, lac_random *stream);

#endif
