/* How replicas get a mean of their vectors: a table of operations for each protocol. An exchange is begun, may be
 * polled any number of times so that it gets on while something else is computed, and is finished. */
#ifndef LACONIC_REPLICA_EXCHANGE_H
#define LACONIC_REPLICA_EXCHANGE_H

#include "laconic/world.h"

typedef struct lac_exchange_protocol {
  const char *name;
  /* An exchange of vectors (n), one at a time; traffic is how its messages count. Collective. Errors: MEMORY. */
  lac_status (*create)(lac_context *context, lac_world *world, int64_t n, lac_traffic traffic, void **state);
  void (*destroy)(void *state);
  /* Begins with this worker's vector (n), which is copied. Errors: MEMORY, PEER. */
  lac_status (*begin)(lac_context *context, void *state, const float *vector);
  /* Passes on what has come, without waiting. */
  lac_status (*poll)(lac_context *context, void *state);
  /* Waits for the mean (n). Errors: TIMEOUT, PEER, INTERRUPTED. */
  lac_status (*finish)(lac_context *context, void *state, float *mean);
} lac_exchange_protocol;

/* The exact mean, the same bits on all workers, by a ring: each worker sends 2 (P - 1) messages of together
 * 2 (P - 1) / P vectors (Patarasuk and Yuan 2009). Piece c of P is added in the order of the ring from worker c on. */
extern const lac_exchange_protocol lac_exchange_allreduce;

#endif
