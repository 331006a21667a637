#include "comm/threads.h"

#include <pthread.h>

#include "base/memory.h"

enum { LAC_STACK_BYTES = 8 << 20 };

typedef struct lac_gate {
  pthread_mutex_t lock;
  pthread_cond_t moved;
  enum { LAC_GATE_SHUT, LAC_GATE_OPEN, LAC_GATE_CANCELLED } state;
} lac_gate;

typedef struct lac_thread_worker {
  lac_context *context;
  lac_world world;
  lac_outcome *outcome;
  lac_gate *gate;
  lac_world_fn body;
  void *argument;
  pthread_t thread;
} lac_thread_worker;

static void *run_worker(void *argument) {
  lac_thread_worker *self = argument;
  lac_gate *gate = self->gate;
  pthread_mutex_lock(&gate->lock);
  while (gate->state == LAC_GATE_SHUT) {
    pthread_cond_wait(&gate->moved, &gate->lock);
  }
  bool go = gate->state == LAC_GATE_OPEN;
  pthread_mutex_unlock(&gate->lock);
  if (go) {
    const lac_backend *backend = self->world.backend;
    if (backend->enter) {
      backend->enter(self->world.link);
    }
    lac_world_body(&self->world, self->body, self->argument, self->outcome);
    if (backend->leave) {
      backend->leave(self->world.link);
    }
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
static lac_status run_threads(lac_context *context, lac_thread_worker *workers, int size) {
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

static lac_status open_worker(lac_context *context, const lac_world_options *options, const lac_backend *backend,
                              void *link, int rank, int size, lac_thread_worker *worker) {
  LAC_TRY(lac_context_child(context, &worker->context));
  lac_status status = lac_world_open(worker->context, options, backend, link, rank, size, &worker->world);
  if (status) {
    status = lac_fail(context, status, "%s", lac_context_message(worker->context));
    lac_context_destroy(&worker->context);
  }
  return status;
}

lac_status lac_threads_run(lac_context *context, const lac_world_options *options, const lac_backend *backend,
                           void *links, size_t link_bytes, lac_world_fn body, void *argument) {
  int size, opened = 0;
  lac_thread_worker *workers = NULL;
  lac_outcome *outcomes = NULL;
  lac_status status;
  LAC_TRY(lac_world_size_of(context, options, &size));
  LAC_TRY(LAC_NEW(context, size, &workers));
  LAC_TRY_GOTO(status, LAC_NEW(context, size, &outcomes), cleanup);
  for (; opened < size; opened++) {
    lac_thread_worker *worker = &workers[opened];
    *worker = (lac_thread_worker){.outcome = &outcomes[opened], .body = body, .argument = argument};
    void *link = (char *)links + (size_t)opened * link_bytes;
    LAC_TRY_GOTO(status, open_worker(context, options, backend, link, opened, size, worker), cleanup);
  }
  LAC_TRY_GOTO(status, run_threads(context, workers, size), cleanup);
  int first = lac_world_verdict(outcomes, size);
  if (first >= 0) {
    status = lac_fail(context, (lac_status)outcomes[first].status, "%s", outcomes[first].line);
  }
cleanup:
  for (int i = 0; i < opened; i++) {
    lac_world_close(&workers[i].world);
    lac_context_destroy(&workers[i].context);
  }
  lac_free(outcomes);
  lac_free(workers);
  return status;
}
