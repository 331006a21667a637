/* How replicas mix their vectors in rounds of all: a table of operations for each protocol. An exchange is begun, may
 * be polled any number of times so that it gets on while something else is computed, and is finished. What comes out is
 * a row of the protocol's matrix W times the vectors (laconic/process.h); slack and period are the caller's affair. */
#ifndef LACONIC_REPLICA_EXCHANGE_H
#define LACONIC_REPLICA_EXCHANGE_H

#include "laconic/process.h"
#include "laconic/replica.h"

typedef struct lac_exchange_protocol {
  const char *name;
  /* An exchange of vectors (n), one at a time; traffic is how its messages count; process is borrowed for the call and
   * NULL for those that ask for no topology. Collective. Errors: MEMORY. */
  lac_status (*create)(lac_context *context, lac_world *world, int64_t n, lac_traffic traffic,
                       const lac_process *process, void **state);
  void (*destroy)(void *state);
  /* Begins the round-th exchange, from 0, with this worker's vector (n), which is copied. Errors: MEMORY, PEER. */
  lac_status (*begin)(lac_context *context, void *state, int64_t round, const float *vector);
  /* Passes on what has come, without waiting. */
  lac_status (*poll)(lac_context *context, void *state);
  /* Waits for the mixed vector (n). Errors: TIMEOUT, PEER, INTERRUPTED. */
  lac_status (*finish)(lac_context *context, void *state, float *mean);
} lac_exchange_protocol;

/* The exact mean, the same bits on all workers, by a ring: each worker sends 2 (P - 1) messages of together
 * 2 (P - 1) / P vectors (Patarasuk and Yuan 2009). Piece c of P is added in the order of the ring from worker c on. */
extern const lac_exchange_protocol lac_exchange_allreduce;
/* The exact mean by way of worker 0: P - 1 messages of a vector there and as many back. */
extern const lac_exchange_protocol lac_exchange_server;
/* The weighted mean of a topology's row: a message of a vector through each link. */
extern const lac_exchange_protocol lac_exchange_dpsgd;

/* Whether replicas of sgd mix their models and not their gradients. */
bool lac_replica_mixes_models(const lac_replica_options *options);

#endif
