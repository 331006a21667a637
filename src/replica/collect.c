#include "replica/collect.h"

#include <stdlib.h>

#include "base/memory.h"
#include "comm/tags.h"

lac_status lac_collect_open(lac_context *context, lac_world *world, int tag, size_t bytes, int limit,
                            lac_collect *collect) {
  *collect = (lac_collect){.world = world, .tag = tag, .bytes = bytes};
  return LAC_NEW(context, limit, &collect->data);
}

static void drop(lac_collect *collect) {
  for (int k = 0; k < collect->count; k++) {
    free(collect->data[k]);
    collect->data[k] = NULL;
  }
  collect->count = collect->missing = 0;
}

void lac_collect_close(lac_collect *collect) {
  if (collect->data) {
    drop(collect);
    lac_free(collect->data);
    collect->data = NULL;
  }
}

void lac_collect_begin(lac_collect *collect, int count, const int32_t *from) {
  drop(collect);
  collect->count = collect->missing = count;
  collect->from = from;
}

static lac_status keep(lac_context *context, lac_collect *collect, int k, const lac_message *message) {
  if (message->bytes != collect->bytes) {
    free(message->data);
    return lac_fail(context, LAC_E_PEER, "worker %d sent %zu bytes to worker %d, expected %zu: their models differ",
                    message->from, message->bytes, lac_world_rank(collect->world), collect->bytes);
  }
  collect->data[k] = message->data;
  collect->missing--;
  return LAC_OK;
}

lac_status lac_collect_poll(lac_context *context, lac_collect *collect) {
  for (int k = 0; k < collect->count; k++) {
    lac_message message;
    bool found = false;
    if (!collect->data[k]) {
      LAC_TRY(lac_world_poll_tagged(collect->world, collect->from[k], collect->tag, &message, &found));
    }
    if (found) {
      LAC_TRY(keep(context, collect, k, &message));
    }
  }
  return LAC_OK;
}

lac_status lac_collect_finish(lac_context *context, lac_collect *collect) {
  for (int k = 0; k < collect->count; k++) {
    if (!collect->data[k]) {
      lac_message message;
      LAC_TRY(lac_world_receive_tagged(collect->world, collect->from[k], collect->tag, collect->from[k], &message));
      LAC_TRY(keep(context, collect, k, &message));
    }
  }
  return LAC_OK;
}
