/* What tests of workers share: the same program runs on threads, some also on a simulated cluster, and, under mpiexec,
 * on MPI ranks. Nothing but messages is shared between ranks, so every rank must see the same outcome. Workers report
 * by their status, since cmocka's assertions belong to the main thread. */
#ifndef LACONIC_TESTS_WORKERS_H
#define LACONIC_TESTS_WORKERS_H

#include <time.h>

#include "laconic/world.h"
#include "support.h"

#define CHECK(context, condition)                                                                \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      return lac_fail((context), LAC_E_INTERNAL, "%s:%d: %s", __FILE__, __LINE__, (#condition)); \
    }                                                                                            \
  } while (0)

/* The back end under test and its number of workers. */
static const char *backend;
static int workers;

static inline lac_world_options plain(void) {
  return (lac_world_options){.backend = backend, .workers = workers, .timeout_ms = 60000};
}

/* Runs a body on a fresh context and expects this status and this text in the message. */
static inline void run(lac_world_options options, lac_world_fn body, void *argument, lac_status expected,
                       const char *text) {
  lac_context *context;
  assert_int_equal(lac_context_create(&context), LAC_OK);
  if (expected) {
    assert_failure(context, lac_world_run(context, &options, body, argument), expected, text ? text : "");
  } else {
    assert_ok(context, lac_world_run(context, &options, body, argument));
  }
  lac_context_destroy(&context);
}

static inline void pause_ms(int ms) {
  struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
  nanosleep(&pause, NULL);
}

/* Works for so long, on the clock of the back end. */
static inline void work_ms(lac_world *world, int ms) {
  lac_world_spend(world, 1e-3 * ms);
  if (strcmp(lac_world_backend(world), "sim") != 0 && !lac_world_smpi()) {
    pause_ms(ms);
  }
}

static inline int count_ranks(void) {
  lac_context *context;
  lac_world_options options = {0};
  int size = 0;
  if (lac_context_create(&context) == LAC_OK) {
    lac_status status = lac_world_size_of(context, &options, &size);
    size = status ? 0 : size;
    lac_context_destroy(&context);
  }
  return size;
}

/* Runs the group once for the ranks of an MPI launcher, else on `threads`, a back end of this process, for each of
 * these numbers of workers, or for the one that the command line names. */
#define run_on_threads(threads, argc, argv, tests, counts, failed)                                         \
  do {                                                                                                     \
    bool ranks = lac_world_launched();                                                                     \
    backend = ranks ? "mpi" : (threads);                                                                   \
    for (size_t round = 0; round < (ranks || argc > 1 ? 1 : sizeof(counts) / sizeof *(counts)); round++) { \
      char name[32];                                                                                       \
      workers = ranks ? count_ranks() : argc > 1 ? atoi(argv[1]) : (counts)[round];                        \
      snprintf(name, sizeof name, "%s, %d workers", backend, workers);                                     \
      failed += workers > 0 ? cmocka_run_group_tests_name(name, tests, NULL, NULL) : 1;                    \
    }                                                                                                      \
  } while (0)

/* The same on "local", or on the back end that the command line names after the number of workers. */
#define run_on_workers(argc, argv, tests, counts, failed)                                \
  do {                                                                                   \
    run_on_threads((argc) > 2 ? (argv)[2] : "local", argc, argv, tests, counts, failed); \
    lac_world_finish();                                                                  \
  } while (0)

#endif
