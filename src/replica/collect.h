/* One message of each of several workers, in whatever order they come: of each the oldest one, so that a neighbour that
 * is a round ahead does not mix two rounds. */
#ifndef LACONIC_REPLICA_COLLECT_H
#define LACONIC_REPLICA_COLLECT_H

#include "laconic/world.h"

typedef struct lac_collect {
  lac_world *world;
  int tag;
  size_t bytes; /* of every message */
  int count;
  const int32_t *from; /* (count), borrowed until all have come */
  void **data;         /* (count): what has come, NULL before */
  int missing;
} lac_collect;

/* For at most `limit` senders. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_collect_open(lac_context *context, lac_world *world, int tag, size_t bytes, int limit,
                                         lac_collect *collect);
void lac_collect_close(lac_collect *collect);
/* Expects a message from each; what was collected before is dropped. */
void lac_collect_begin(lac_collect *collect, int count, const int32_t *from);
/* Takes what has come. Errors: PEER, naming the sender, for a message of another size; MEMORY. */
LAC_MUST_USE lac_status lac_collect_poll(lac_context *context, lac_collect *collect);
/* Waits for the rest. Errors: TIMEOUT, PEER, INTERRUPTED. */
LAC_MUST_USE lac_status lac_collect_finish(lac_context *context, lac_collect *collect);

#endif
