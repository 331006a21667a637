/* What the commands share: the context, who may speak, and where to. */
#ifndef LACONIC_CLI_SESSION_H
#define LACONIC_CLI_SESSION_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "laconic/laconic.h"

typedef struct lac_session {
  lac_context *context;
  bool json;                  /* JSON lines on stdout and nothing else there */
  bool quiet;                 /* errors only */
  bool verbose;               /* everything the library logs */
  bool silent;                /* under MPI every rank but 0: neither prints nor writes */
  int ranks;                  /* processes that run this command: 1 unless started by an MPI launcher */
  volatile sig_atomic_t stop; /* a signal has asked a command that stops softly to end */
  int print_error;            /* errno of the first failure on stdout, 0 for none */
  /* stderr: lines may come from any worker's thread, the progress line lives below them */
  pthread_mutex_t lock;
  bool terminal;       /* a progress line may be shown */
  bool progress_shown; /* there is one on the screen now */
} lac_session;

/* Leaves the function with the status of a call that failed. */
#define CLI_TRY(call)                   \
  do {                                  \
    lac_status cli_try_status = (call); \
    if (cli_try_status) {               \
      return cli_try_status;            \
    }                                   \
  } while (0)

/* The same for functions that clean up. */
#define CLI_TRY_GOTO(status, call, label) \
  do {                                    \
    (status) = (call);                    \
    if (status) {                         \
      goto label;                         \
    }                                     \
  } while (0)

/* Monotonic clock. */
double lac_clock_seconds(void);

/* calloc of count elements with a status. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_session_allocate(lac_session *session, int64_t count, size_t size, void **memory);

#endif
