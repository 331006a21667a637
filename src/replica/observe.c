/* Mixing times of running jobs: worker 0 gathers what the workers have recorded, replays it and tells all.
 *
 * Bounds: the network, 32 bytes an event. */
#include "replica/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/tags.h"
#include "replica/exchange.h"
#include "replica/replay.h"

/* What worker 0 has found, or its failure. */
static lac_status tell(lac_world *world, lac_status status, lac_mixing_time *time) {
  LAC_TRY(lac_world_agree(world, status));
  return lac_world_broadcast(world, 0, time, sizeof *time);
}

/* ---- rounds of all ---- */

static lac_status predict(lac_context *context, const lac_replica_options *options, int workers,
                          lac_mixing_time *time) {
  lac_mixing_options defaults;
  lac_process *process;
  LAC_TRY(lac_options_default(context, lac_mixing_option_table(), &defaults));
  LAC_TRY(lac_replica_process(context, options, workers, &process));
  lac_status status = lac_mixing_time_of(context, process, &defaults, time);
  lac_process_destroy(&process);
  return status;
}

lac_status lac_observe_process(lac_context *context, lac_world *world, const lac_replica_options *options,
                               lac_mixing_time *time) {
  lac_status status = LAC_OK;
  if (lac_world_rank(world) == 0) {
    status = predict(context, options, lac_world_size(world), time);
  }
  return tell(world, status, time);
}

/* ---- records ---- */

/* What a worker sends: whether it is whole, as an event, and the events. The clocks' common zero is `now`. */
static lac_status pack(lac_context *context, const lac_async_log *log, int workers, double now, int64_t *count,
                       lac_replica_event **packed) {
  int64_t share = LAC_OBSERVED_EVENTS / workers;
  *count = log->count < share ? log->count : share;
  LAC_TRY(LAC_NEW(context, *count + 1, packed));
  (*packed)[0].version = log->dropped == 0 && *count == log->count;
  for (int64_t e = 0; e < *count; e++) {
    (*packed)[e + 1] = log->event[log->count - *count + e];
    (*packed)[e + 1].seconds -= now;
  }
  return LAC_OK;
}

static void close_record(lac_record *record) {
  lac_free(record->start);
  lac_free(record->whole);
  lac_free(record->event);
}

static lac_status check_events(lac_context *context, const lac_record *record) {
  for (int64_t e = 0; e < record->start[record->workers]; e++) {
    int32_t with = record->event[e].with;
    if (with < 0 || with >= record->workers) {
      return lac_fail(context, LAC_E_PEER, "a history has a mixing with worker %d, expected 0 to %lld", with,
                      (long long)record->workers - 1);
    }
  }
  return LAC_OK;
}

/* Puts the packed events of all in one row. */
static lac_status join(lac_context *context, int workers, lac_message *part, lac_record *record) {
  LAC_TRY(LAC_NEW(context, workers + 1, &record->start));
  LAC_TRY(LAC_NEW(context, workers, &record->whole));
  for (int i = 0; i < workers; i++) {
    size_t events = part[i].bytes / sizeof(lac_replica_event);
    if (part[i].bytes % sizeof(lac_replica_event) != 0 || events < 1) {
      return lac_fail(context, LAC_E_PEER, "worker %d sent a history of %zu bytes, expected a multiple of %zu", i,
                      part[i].bytes, sizeof(lac_replica_event));
    }
    record->start[i + 1] = record->start[i] + (int64_t)events - 1;
  }
  record->workers = workers;
  LAC_TRY(LAC_NEW(context, record->start[workers], &record->event));
  for (int i = 0; i < workers; i++) {
    const lac_replica_event *from = part[i].data;
    record->whole[i] = from[0].version != 0;
    memcpy(record->event + record->start[i], from + 1, part[i].bytes - sizeof *from);
  }
  return check_events(context, record);
}

/* Worker 0's: takes `mine` over. */
static lac_status gather(lac_context *context, lac_world *world, lac_replica_event *mine, int64_t count,
                         lac_record *record) {
  int workers = lac_world_size(world);
  lac_message *part;
  lac_status status = LAC_NEW(context, workers, &part);
  if (status) {
    lac_free(mine);
    return status;
  }
  part[0] = (lac_message){.bytes = (size_t)(count + 1) * sizeof *mine, .data = mine};
  for (int i = 1; i < workers && !status; i++) {
    status = lac_world_receive_tagged(world, i, LAC_TAG_HISTORY, i, &part[i]);
  }
  if (!status) {
    status = join(context, workers, part, record);
  }
  lac_free(mine);
  for (int i = 1; i < workers; i++) {
    free(part[i].data);
  }
  lac_free(part);
  return status;
}

static lac_status replay(lac_context *context, lac_world *world, const lac_replica_options *options,
                         lac_replica_event *mine, int64_t count, lac_mixing_time *time) {
  lac_record record = {.sends_first = !lac_replica_mixes_models(options)};
  lac_process *process = NULL;
  lac_status status = gather(context, world, mine, count, &record);
  if (!status) {
    status = lac_replica_process(context, options, lac_world_size(world), &process);
  }
  if (!status) {
    status = lac_replay(context, process, &record, time);
  }
  lac_process_destroy(&process);
  close_record(&record);
  return status;
}

lac_status lac_observe_record(lac_context *context, lac_world *world, const lac_replica_options *options,
                              const lac_async_log *log, lac_mixing_time *time) {
  lac_replica_event *mine;
  int64_t count;
  LAC_TRY(lac_world_barrier(world)); /* all clocks are read at one moment, but for a message's time */
  LAC_TRY(pack(context, log, lac_world_size(world), lac_world_now(world), &count, &mine));
  if (lac_world_rank(world) == 0) {
    return tell(world, replay(context, world, options, mine, count, time), time);
  }
  lac_status status =
      lac_world_send_tagged(world, 0, LAC_TAG_HISTORY, mine, (size_t)(count + 1) * sizeof *mine, LAC_TRAFFIC_CONTROL);
  lac_free(mine);
  return tell(world, status, time);
}
