/* The mixing time of a run that has been recorded: its mixings in one order, replayed from the identity. */
#ifndef LACONIC_REPLICA_REPLAY_H
#define LACONIC_REPLICA_REPLAY_H

#include "laconic/mixing.h"
#include "laconic/replica.h"

/* The newest part of the histories of all workers. */
typedef struct lac_record {
  int64_t workers;
  int64_t *start;           /* (workers + 1): worker i has events start[i] to start[i + 1] - 1 */
  bool *whole;              /* (workers): nothing came before the first of them */
  lac_replica_event *event; /* seconds on one clock; a replay overwrites with and version */
  bool sends_first;         /* async-ring: a worker sends before it mixes, not after */
} lac_record;

enum { LAC_WINDOWS_LEAST = 4, LAC_WINDOWS_MOST = 64, LAC_REPLAY_WORKERS = 1024 };

/* With a process of one of the protocols without rounds. Errors: MEMORY, INTERRUPTED. Local. */
LAC_MUST_USE lac_status lac_replay(lac_context *context, const lac_process *process, lac_record *record,
                                   lac_mixing_time *time);

#endif
