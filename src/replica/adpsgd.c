/* AD-PSGD (Lian et al. 2018): after a gradient a worker asks a random neighbour, and both take the mean of their
 * models. While it waits for the answer its model stays as it was sent, so that every mean is one of two models as they
 * stand. Who is asked meanwhile lets askers of higher rank wait and tells others that it is busy; in a circle of
 * workers that wait for each other one asker would have a lower rank than whom it asks, so that there is none. Two that
 * ask each other have what they need. A worker that was told so asks another neighbour, a few times, and then goes on
 * alone.
 *
 * Bounds: the network, two vectors an update; or the wait until the one that was asked looks at its messages. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/tags.h"
#include "replica/asynchronous.h"

enum { TRIES = 3, NOBODY = -1 };

typedef struct lac_adpsgd {
  lac_async_end end;
  lac_async_log *log;
  int64_t seed;
  float half; /* weight of the other's model: slack / 2 */
  int64_t period;
  lac_async_peers peers;
  int waiting;      /* for whose answer, or NOBODY */
  bool averaged;    /* the last wait ended with an answer, not with a refusal */
  int queued;       /* asks that wait until this worker has its answer */
  lac_message *ask; /* (size) */
} lac_adpsgd;

static void adpsgd_destroy(void *state) {
  lac_adpsgd *old = state;
  if (!old) {
    return;
  }
  for (int q = 0; q < old->queued; q++) {
    free(old->ask[q].data);
  }
  lac_async_close(&old->end);
  lac_free(old->ask);
  lac_async_peers_close(&old->peers);
  lac_free(old);
}

static lac_status adpsgd_create(lac_context *context, lac_world *world, int64_t n, const lac_process *process,
                                lac_async_log *log, void **state) {
  lac_adpsgd *made;
  *state = NULL;
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_adpsgd){.log = log,
                       .seed = process->seed,
                       .half = (float)(lac_process_slack(process) / 2),
                       .period = lac_process_period(process),
                       .waiting = NOBODY};
  lac_status status = lac_async_open(context, world, n, lac_process_topology(process), &made->end);
  if (!status) {
    status = lac_async_peers_open(context, lac_process_topology(process), made->end.rank, &made->peers);
  }
  if (!status) {
    status = LAC_NEW(context, made->end.size, &made->ask);
  }
  if (status) {
    adpsgd_destroy(made);
    return status;
  }
  *state = made;
  return LAC_OK;
}

/* Both sides of a pair compute this from the same two models. */
static lac_status average(lac_context *context, lac_adpsgd *a, int with, const float *other, float *x) {
  if (a->half < 0.5F) {
    lac_slack_step(a->end.n, a->half, other, x, &a->log->tally);
  }
  for (int64_t i = 0; a->half >= 0.5F && i < a->end.n; i++) { /* the same bits on both sides */
    x[i] = 0.5F * x[i] + 0.5F * other[i];
  }
  return lac_async_note_pair(context, a->log, with);
}

/* Gives the asker this worker's model and takes the mean. Frees the message's data. */
static lac_status answer(lac_context *context, lac_adpsgd *a, lac_message *ask, float *x) {
  lac_status status = lac_async_send(&a->end, ask->from, x, LAC_TRAFFIC_MODEL);
  if (!status) {
    status = average(context, a, ask->from, ask->data, x);
  }
  free(ask->data);
  ask->data = NULL;
  return status;
}

static lac_status take(lac_context *context, lac_adpsgd *a, lac_message *message, float *x) {
  bool end;
  lac_status status = LAC_OK;
  LAC_TRY(lac_async_is_end(context, &a->end, message, &end));
  if (end) {
    return LAC_OK;
  }
  if (message->from == a->waiting) { /* the answer, or its own ask, which is as good; nothing: it is busy */
    a->averaged = message->bytes > 0;
    a->waiting = NOBODY;
    status = a->averaged ? average(context, a, message->from, message->data, x) : LAC_OK;
  } else if (a->waiting == NOBODY) {
    return answer(context, a, message, x);
  } else if (message->from > a->end.rank) {
    a->ask[a->queued++] = *message;
    return LAC_OK;
  } else {
    status = lac_world_send_tagged(a->end.world, message->from, LAC_TAG_EXCHANGE, NULL, 0, LAC_TRAFFIC_CONTROL);
  }
  free(message->data);
  return status;
}

static lac_status adpsgd_start(lac_context *context, void *state, float *x) {
  (void)context;
  (void)state;
  (void)x;
  return LAC_OK;
}

static lac_status adpsgd_serve(lac_context *context, void *state, float *x) {
  lac_adpsgd *a = state;
  for (bool found = true; found;) {
    lac_message message;
    LAC_TRY(lac_world_poll_tagged(a->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, &message, &found));
    if (found) {
      LAC_TRY(take(context, a, &message, x));
    }
  }
  return LAC_OK;
}

static lac_status receive(lac_context *context, lac_adpsgd *a, int suspect, float *x) {
  lac_message message;
  LAC_TRY(lac_world_receive_tagged(a->end.world, LAC_ANY_WORKER, LAC_TAG_EXCHANGE, suspect, &message));
  return take(context, a, &message, x);
}

static lac_status ask(lac_context *context, lac_adpsgd *a, int whom, float *x) {
  LAC_TRY(lac_async_send(&a->end, whom, x, LAC_TRAFFIC_MODEL));
  a->waiting = whom;
  while (a->waiting != NOBODY) {
    LAC_TRY(receive(context, a, whom, x));
  }
  for (int q = 0; q < a->queued; q++) {
    LAC_TRY(answer(context, a, &a->ask[q], x));
  }
  a->queued = 0;
  return LAC_OK;
}

static lac_status adpsgd_before(lac_context *context, void *state, int64_t updates, float *x) {
  lac_adpsgd *a = state;
  lac_random stream = lac_random_stream(a->seed, LAC_RANDOM_PEER, (uint64_t)a->end.rank, (uint64_t)updates);
  lac_async_stale(a->log, lac_async_noted(a->log) - a->log->before_gradient);
  a->averaged = false;
  for (int turn = 0; turn < TRIES && !a->averaged; turn++) {
    int whom = lac_async_peers_draw(&a->peers, updates / a->period - 1, &stream);
    if (whom < 0) {
      break;
    }
    LAC_TRY(ask(context, a, whom, x));
    a->log->refused += !a->averaged;
  }
  return LAC_OK;
}

static lac_status adpsgd_after(lac_context *context, void *state, int64_t updates, float *x) {
  (void)context;
  (void)state;
  (void)updates;
  (void)x;
  return LAC_OK;
}

static lac_status adpsgd_settle(lac_context *context, void *state, float *x) {
  lac_adpsgd *a = state;
  LAC_TRY(lac_async_say_end(&a->end, a->end.froms, a->end.from));
  for (int missing; (missing = lac_async_missing(&a->end, a->end.tos, a->end.to)) >= 0;) {
    LAC_TRY(receive(context, a, missing, x));
  }
  return LAC_OK;
}

const lac_async_protocol lac_exchange_adpsgd = {
    "adpsgd", adpsgd_create, adpsgd_destroy, adpsgd_start, adpsgd_serve, adpsgd_before, adpsgd_after, adpsgd_settle,
};
