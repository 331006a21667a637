/* The workers are threads of this process. A message is copied once, by its sender; its receiver gets that copy. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/backend.h"

enum { LAC_STACK_BYTES = 8 << 20 };

typedef struct lac_mailbox {
  pthread_mutex_t lock;
  pthread_cond_t arrival;
  lac_packet *first, **last; /* in order of arrival */
} lac_mailbox;

typedef struct lac_gate {
  pthread_mutex_t lock;
  pthread_cond_t moved;
  enum { LAC_GATE_SHUT, LAC_GATE_OPEN, LAC_GATE_CANCELLED } state;
} lac_gate;

typedef struct lac_local_worker {
  struct lac_local_worker *all;
  int rank;
  lac_mailbox mailbox;
  lac_context *context;
  lac_world world;
  lac_outcome *outcome;
  lac_gate *gate;
  lac_world_fn body;
  void *argument;
  pthread_t thread;
} lac_local_worker;

/* ---- mailboxes ---- */

static bool mailbox_open(lac_mailbox *mailbox) {
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) {
    return false;
  }
  bool ready = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
               pthread_cond_init(&mailbox->arrival, &attributes) == 0;
  pthread_condattr_destroy(&attributes);
  if (!ready) {
    return false;
  }
  if (pthread_mutex_init(&mailbox->lock, NULL) != 0) {
    pthread_cond_destroy(&mailbox->arrival);
    return false;
  }
  mailbox->first = NULL;
  mailbox->last = &mailbox->first;
  return true;
}

static void mailbox_close(lac_mailbox *mailbox) {
  while (mailbox->first) {
    lac_packet *packet = mailbox->first;
    mailbox->first = packet->next;
    free(packet->message.data);
    free(packet);
  }
  pthread_mutex_destroy(&mailbox->lock);
  pthread_cond_destroy(&mailbox->arrival);
}

static lac_status local_send(void *link, lac_context *context, int to, int tag, const void *data, size_t bytes) {
  lac_local_worker *self = link;
  lac_packet *packet = calloc(1, sizeof *packet);
  void *copy = bytes ? malloc(bytes) : NULL;
  if (!packet || (bytes && !copy)) {
    free(packet);
    free(copy);
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a message of %zu bytes", bytes);
  }
  if (bytes) {
    memcpy(copy, data, bytes);
  }
  packet->message = (lac_message){.from = self->rank, .tag = tag, .bytes = bytes, .data = copy};
  lac_mailbox *mailbox = &self->all[to].mailbox;
  pthread_mutex_lock(&mailbox->lock);
  *mailbox->last = packet;
  mailbox->last = &packet->next;
  pthread_cond_signal(&mailbox->arrival);
  pthread_mutex_unlock(&mailbox->lock);
  return LAC_OK;
}

static lac_status local_fetch(void *link, lac_context *context, lac_packet **arrived) {
  lac_mailbox *mailbox = &((lac_local_worker *)link)->mailbox;
  (void)context;
  pthread_mutex_lock(&mailbox->lock);
  *arrived = mailbox->first;
  mailbox->first = NULL;
  mailbox->last = &mailbox->first;
  pthread_mutex_unlock(&mailbox->lock);
  return LAC_OK;
}

static void local_wait(void *link, double seconds) {
  lac_mailbox *mailbox = &((lac_local_worker *)link)->mailbox;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  double whole = floor(seconds);
  until.tv_sec += (time_t)whole;
  until.tv_nsec += (long)((seconds - whole) * 1e9);
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  pthread_mutex_lock(&mailbox->lock);
  if (!mailbox->first) {
    pthread_cond_timedwait(&mailbox->arrival, &mailbox->lock, &until);
  }
  pthread_mutex_unlock(&mailbox->lock);
}

static double local_now(void *link) {
  (void)link;
  return lac_seconds();
}

static const lac_backend local_backend = {.name = "local",
                                          .packet_limit = SIZE_MAX,
                                          .send = local_send,
                                          .fetch = local_fetch,
                                          .wait = local_wait,
                                          .now = local_now};

/* ---- workers ---- */

static void *run_worker(void *argument) {
  lac_local_worker *self = argument;
  lac_gate *gate = self->gate;
  pthread_mutex_lock(&gate->lock);
  while (gate->state == LAC_GATE_SHUT) {
    pthread_cond_wait(&gate->moved, &gate->lock);
  }
  bool go = gate->state == LAC_GATE_OPEN;
  pthread_mutex_unlock(&gate->lock);
  if (go) {
    lac_world_body(&self->world, self->body, self->argument, self->outcome);
  }
  return NULL;
}

static void move_gate(lac_gate *gate, int state) {
  pthread_mutex_lock(&gate->lock);
  gate->state = state;
  pthread_cond_broadcast(&gate->moved);
  pthread_mutex_unlock(&gate->lock);
}

/* Starts workers 1..size-1; they stand at the gate until all are there, so that none works in vain. Worker 0 is the
 * caller. */
static lac_status run_threads(lac_context *context, lac_local_worker *workers, int size) {
  lac_gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, LAC_GATE_SHUT};
  lac_status status = LAC_OK;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, LAC_STACK_BYTES) != 0) {
    return lac_fail(context, LAC_E_MEMORY, "cannot prepare the threads of the workers");
  }
  int started = 0;
  for (int i = 0; i < size && !status; i++) {
    workers[i].gate = &gate;
    if (i > 0 && pthread_create(&workers[i].thread, &attributes, run_worker, &workers[i]) != 0) {
      status = lac_fail(context, LAC_E_MEMORY, "cannot start a thread for worker %d of %d", i, size);
    } else {
      started = i + 1;
    }
  }
  pthread_attr_destroy(&attributes);
  move_gate(&gate, status ? LAC_GATE_CANCELLED : LAC_GATE_OPEN);
  if (!status) {
    run_worker(&workers[0]);
  }
  for (int i = 1; i < started; i++) {
    pthread_join(workers[i].thread, NULL);
  }
  pthread_mutex_destroy(&gate.lock);
  pthread_cond_destroy(&gate.moved);
  return status;
}

static void close_worker(lac_local_worker *worker) {
  lac_world_close(&worker->world);
  lac_context_destroy(&worker->context);
  mailbox_close(&worker->mailbox);
}

static lac_status open_worker(lac_context *context, const lac_world_options *options, lac_local_worker *worker,
                              int size) {
  if (!mailbox_open(&worker->mailbox)) {
    return lac_fail(context, LAC_E_MEMORY, "cannot make the mailbox of worker %d", worker->rank);
  }
  lac_status status = lac_context_child(context, &worker->context);
  if (!status) {
    status = lac_world_open(worker->context, options, &local_backend, worker, worker->rank, size, &worker->world);
    if (status) {
      status = lac_fail(context, status, "%s", lac_context_message(worker->context));
    }
  }
  if (status) {
    lac_context_destroy(&worker->context);
    mailbox_close(&worker->mailbox);
  }
  return status;
}

lac_status lac_local_run(lac_context *context, const lac_world_options *options, lac_world_fn body, void *argument) {
  int size = options->workers == 0 ? 1 : (int)options->workers;
  lac_local_worker *workers = NULL;
  lac_outcome *outcomes = NULL;
  int opened = 0;
  lac_status status;
  LAC_TRY(LAC_NEW(context, size, &workers));
  LAC_TRY_GOTO(status, LAC_NEW(context, size, &outcomes), cleanup);
  for (; opened < size; opened++) {
    lac_local_worker *worker = &workers[opened];
    *worker = (lac_local_worker){
        .all = workers, .rank = opened, .outcome = &outcomes[opened], .body = body, .argument = argument};
    LAC_TRY_GOTO(status, open_worker(context, options, worker, size), cleanup);
  }
  LAC_TRY_GOTO(status, run_threads(context, workers, size), cleanup);
  int first = lac_world_verdict(outcomes, size);
  if (first >= 0) {
    status = lac_fail(context, (lac_status)outcomes[first].status, "%s", outcomes[first].line);
  }
cleanup:
  for (int i = 0; i < opened; i++) {
    close_worker(&workers[i]);
  }
  lac_free(outcomes);
  lac_free(workers);
  return status;
}
