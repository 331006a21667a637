/* The two engines of a W step. They share the path of a submodel and nothing else. */
#ifndef LACONIC_MAC_ENGINE_H
#define LACONIC_MAC_ENGINE_H

#include "mac/path.h"

/* What the ring would do otherwise: for bench/ring_order, which measures it. */
typedef struct lac_ring_rules {
  bool by_arrival; /* submodels are trained as they come, not the least advanced first */
  bool split;      /* a batch whose first submodel has come is not waited for */
} lac_ring_rules;

/* On a ring: this worker's part, asynchronously, by messages. Adds what it sent to *messages and *bytes. rules may be
 * NULL. */
LAC_MUST_USE lac_status lac_ring_step(lac_context *context, const lac_team *team, const lac_mac_problem *problem,
                                      void *shard, const lac_mac_options *options, int64_t iteration,
                                      const lac_path *path, const lac_ring_rules *rules, int64_t *messages,
                                      int64_t *bytes);

/* In one thread, over all shards (P): a block of submodels after the other along its path. */
LAC_MUST_USE lac_status lac_serial_step(lac_context *context, const lac_mac_problem *problem, void *const *shards,
                                        const lac_mac_options *options, int64_t iteration, const lac_path *path);

/* Most submodels that are trained together. */
int64_t lac_mac_batch(const lac_mac_options *options, int64_t submodels, int workers);

/* Errors: USAGE when the team does not describe its world. */
LAC_MUST_USE lac_status lac_team_check(lac_context *context, const lac_team *team);

#endif
