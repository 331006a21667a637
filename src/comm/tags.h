/* Messages under the library's own tags, for the rooms above. Callers' tags are 0..LAC_TAG_LIMIT - 1; MPI promises
 * 32,767. */
#ifndef LACONIC_COMM_TAGS_H
#define LACONIC_COMM_TAGS_H

#include "laconic/world.h"

typedef enum lac_tag {
  /* Collectives. */
  LAC_TAG_BARRIER = LAC_TAG_LIMIT,
  LAC_TAG_SUM,
  LAC_TAG_MIN,
  LAC_TAG_MAX,
  LAC_TAG_BROADCAST,
  LAC_TAG_GATHER,
  LAC_TAG_AGREE,
  /* Submodels of W steps of even and of odd number. */
  LAC_TAG_RING,
  LAC_TAG_RING_ODD,
  /* Means of replicas: in training, and of the answer. */
  LAC_TAG_EXCHANGE,
  LAC_TAG_ANSWER_MEAN,
  LAC_TAG_HALT,    /* the advance of an exchange without rounds is to end */
  LAC_TAG_STATE,   /* of a replica, for a checkpoint */
  LAC_TAG_HISTORY, /* of a replica's mixings */
  /* The engine room's: never seen by a receive. */
  LAC_TAG_FAILURE,  /* a worker's body has failed */
  LAC_TAG_LONG,     /* a long message follows in parts */
  LAC_TAG_PART,     /* one of them */
  LAC_TAG_QUESTION, /* whom do you wait for? */
  LAC_TAG_ANSWER,
  LAC_TAG_CLOSE, /* how the bodies ended, exchanged when all have */
} lac_tag;

/* How many times this was called on this world before: by all workers alike, for what has to tell one round of messages
 * from the next. Local. */
int64_t lac_world_step(lac_world *world);

/* Notes that messages which nobody will receive are left in this world; whether that was noted. Local. */
void lac_world_leave(lac_world *world);
bool lac_world_left(const lac_world *world);

/* lac_world_send and lac_world_receive without the limit on tags. `suspect` is whom to blame when a wait for any worker
 * ends with TIMEOUT, or LAC_ANY_WORKER. */
LAC_MUST_USE lac_status lac_world_send_tagged(lac_world *world, int to, int tag, const void *data, size_t bytes,
                                              lac_traffic traffic);
LAC_MUST_USE lac_status lac_world_receive_tagged(lac_world *world, int from, int tag, int suspect,
                                                 lac_message *message);
LAC_MUST_USE lac_status lac_world_poll_tagged(lac_world *world, int from, int tag, lac_message *message, bool *found);

#endif
