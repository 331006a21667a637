#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"

typedef struct lac_loop {
  atomic_llong next;
  atomic_bool failed;
  int64_t chunks;
  lac_chunk_fn chunk;
  void *argument;
} lac_loop;

typedef struct lac_loop_thread {
  lac_loop *loop;
  lac_context *context;
  int number;
  bool started;
  pthread_t thread;
  lac_status status;
  int64_t failed_chunk;
} lac_loop_thread;

static void *run_chunks(void *argument) {
  lac_loop_thread *self = argument;
  lac_loop *loop = self->loop;
  while (!atomic_load_explicit(&loop->failed, memory_order_relaxed)) {
    int64_t chunk = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);
    if (chunk >= loop->chunks) {
      break;
    }
    self->status = loop->chunk(loop->argument, self->context, chunk, self->number);
    if (self->status) {
      self->failed_chunk = chunk;
      atomic_store_explicit(&loop->failed, true, memory_order_relaxed);
    }
  }
  return NULL;
}

lac_status lac_parallel(lac_context *context, int64_t threads, int64_t chunks, lac_chunk_fn chunk, void *argument) {
  lac_loop loop = {.chunks = chunks, .chunk = chunk, .argument = argument};
  atomic_init(&loop.next, 0);
  atomic_init(&loop.failed, false);
  threads = threads > chunks ? chunks : threads;
  if (threads <= 1) {
    lac_loop_thread self = {.loop = &loop, .context = context};
    run_chunks(&self);
    return self.status;
  }
  lac_loop_thread *team;
  LAC_TRY(LAC_NEW(context, threads, &team));
  for (int i = 0; i < threads; i++) {
    team[i] = (lac_loop_thread){.loop = &loop, .context = context, .number = i};
    /* A thread that cannot be started is no failure: the others take its chunks. */
    if (i > 0 && lac_context_child(context, &team[i].context) == LAC_OK) {
      team[i].started = pthread_create(&team[i].thread, NULL, run_chunks, &team[i]) == 0;
    }
  }
  run_chunks(&team[0]);
  lac_loop_thread *first = NULL;
  for (int i = 0; i < threads; i++) {
    if (team[i].started) {
      pthread_join(team[i].thread, NULL);
    }
    if (team[i].status && (!first || team[i].failed_chunk < first->failed_chunk)) {
      first = &team[i];
    }
  }
  lac_status status = LAC_OK;
  if (first) {
    status = first->context == context ? first->status
                                       : lac_fail(context, first->status, "%s", lac_context_message(first->context));
  }
  for (int i = 1; i < threads; i++) {
    lac_context_destroy(&team[i].context);
  }
  lac_free(team);
  return status;
}
