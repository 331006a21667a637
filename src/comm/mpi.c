/* One worker per MPI rank. The only file that includes mpi.h.
 *
 * Only calls that every implementation and simulator has are used: non-blocking sends, Iprobe and Recv. No call waits
 * inside MPI, so that every wait keeps its deadline, and idle ranks sleep, so that many of them can share a core. */
#ifdef LACONIC_HAVE_MPI

#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/backend.h"

/* MPI_COMM_SELF bears this name when MPI was started here and is to be ended here … */
#define LAC_MPI_OURS "laconic"
/* … and one of these when ranks have been lost sight of, so that a collective MPI_Finalize would hang: the second on a
 * rank that noticed by itself, not from another. */
#define LAC_MPI_LOST "laconic: lost"
#define LAC_MPI_ALONE "laconic: alone"

/* Seconds by which a rank that only heard of a failure leaves after the one that met it. */
static const double LAC_WITNESS_LEAD = 5;

/* A send that MPI has not finished with; owns its copy of the data. */
typedef struct lac_mpi_send {
  struct lac_mpi_send *next;
  MPI_Request request;
  char data[];
} lac_mpi_send;

typedef struct lac_mpi_link {
  MPI_Comm comm;
  lac_mpi_send *sends;
} lac_mpi_link;

/* ---- packets ---- */

static lac_status check(lac_context *context, int code, const char *what) {
  if (code == MPI_SUCCESS) {
    return LAC_OK;
  }
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length;
  MPI_Error_string(code, text, &length);
  return lac_fail(context, LAC_E_PEER, "MPI: %s: %s", what, text);
}

static lac_status progress(lac_mpi_link *self, lac_context *context) {
  lac_mpi_send **at = &self->sends;
  while (*at) {
    lac_mpi_send *send = *at;
    int done;
    LAC_TRY(check(context, MPI_Test(&send->request, &done, MPI_STATUS_IGNORE), "sending"));
    if (done) {
      *at = send->next;
      free(send);
    } else {
      at = &send->next;
    }
  }
  return LAC_OK;
}

static lac_status mpi_send(void *link, lac_context *context, int to, int tag, const void *data, size_t bytes) {
  lac_mpi_link *self = link;
  lac_mpi_send *send = malloc(sizeof *send + bytes);
  if (!send) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a message of %zu bytes", bytes);
  }
  if (bytes) {
    memcpy(send->data, data, bytes);
  }
  /* bytes <= packet_limit, which fits MPI's int */
  lac_status status =
      check(context, MPI_Isend(send->data, (int)bytes, MPI_BYTE, to, tag, self->comm, &send->request), "sending");
  if (status) {
    free(send);
    return status;
  }
  send->next = self->sends;
  self->sends = send;
  return progress(self, context);
}

static lac_status receive_packet(lac_mpi_link *self, lac_context *context, const MPI_Status *probed,
                                 lac_packet **packet) {
  int bytes, from = probed->MPI_SOURCE, tag = probed->MPI_TAG;
  LAC_TRY(check(context, MPI_Get_count(probed, MPI_BYTE, &bytes), "receiving"));
  lac_packet *made = calloc(1, sizeof *made);
  void *data = bytes ? malloc((size_t)bytes) : NULL;
  if (!made || (bytes && !data)) {
    free(made);
    free(data);
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a message of %d bytes", bytes);
  }
  lac_status status =
      check(context, MPI_Recv(data, bytes, MPI_BYTE, from, tag, self->comm, MPI_STATUS_IGNORE), "receiving");
  if (status) {
    free(made);
    free(data);
    return status;
  }
  made->message = (lac_message){.from = from, .tag = tag, .bytes = (size_t)bytes, .data = data};
  *packet = made;
  return LAC_OK;
}

static lac_status mpi_fetch(void *link, lac_context *context, lac_packet **arrived) {
  lac_mpi_link *self = link;
  *arrived = NULL;
  LAC_TRY(progress(self, context));
  for (;;) {
    int found;
    MPI_Status probed;
    LAC_TRY(check(context, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &found, &probed), "receiving"));
    if (!found) {
      return LAC_OK;
    }
    LAC_TRY(receive_packet(self, context, &probed, arrived));
    arrived = &(*arrived)->next;
  }
}

static void nap(double seconds) {
  struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&pause, NULL);
}

/* Looks often at first and then ever less often, up to once in a millisecond. */
static void mpi_wait(void *link, double seconds) {
  const int eager = 64;
  lac_mpi_link *self = link;
  double end = lac_seconds() + seconds, pause = 20e-6;
  for (int i = 0;; i++) {
    int found = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &found, MPI_STATUS_IGNORE) != MPI_SUCCESS || found) {
      return; /* the next fetch meets the same error and reports it */
    }
    double left = end - lac_seconds();
    if (left <= 0) {
      return;
    }
    if (i < eager) {
      sched_yield();
    } else {
      nap(left < pause ? left : pause);
      pause = pause < 0.5e-3 ? 2 * pause : 1e-3;
    }
  }
}

static double mpi_now(void *link) {
  (void)link;
  return lac_seconds();
}

static const lac_backend mpi_backend = {.name = "mpi",
                                        .packet_limit = (size_t)1 << 30,
                                        .slice = LAC_WAIT_SLICE,
                                        .send = mpi_send,
                                        .fetch = mpi_fetch,
                                        .wait = mpi_wait,
                                        .now = mpi_now};

/* ---- the life of MPI ---- */

static lac_status start_mpi(lac_context *context) {
  int started, ended, level;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (ended) {
    return lac_fail(context, LAC_E_UNSUPPORTED, "backend: MPI has already ended in this process");
  }
  if (started) {
    return LAC_OK;
  }
  LAC_TRY(check(context, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "starting"));
  return check(context, MPI_Comm_set_name(MPI_COMM_SELF, LAC_MPI_OURS), "starting");
}

lac_status lac_mpi_size(lac_context *context, int *size) {
  LAC_TRY(start_mpi(context));
  return check(context, MPI_Comm_size(MPI_COMM_WORLD, size), "counting the ranks");
}

/* Whether MPI was started here, and whether all ranks are still in step. */
static bool is_named(const char *name) {
  char found[MPI_MAX_OBJECT_NAME] = "";
  int length;
  return MPI_Comm_get_name(MPI_COMM_SELF, found, &length) == MPI_SUCCESS && strcmp(found, name) == 0;
}

static void lose(bool noticed) {
  if (is_named(LAC_MPI_OURS)) {
    MPI_Comm_set_name(MPI_COMM_SELF, noticed ? LAC_MPI_ALONE : LAC_MPI_LOST);
  }
}

static bool is_running(void) {
  int started, ended;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  return started && !ended;
}

bool lac_mpi_alone(void) {
  return is_running() && is_named(LAC_MPI_ALONE);
}

void lac_mpi_finish(void) {
  /* Ranks that have lost sight of each other leave without MPI_Finalize: the launcher then ends the job. */
  if (is_running() && is_named(LAC_MPI_OURS)) {
    MPI_Finalize();
  }
}

/* A communicator of this run's own, with a deadline in case that not all ranks come to the run. */
static lac_status join(lac_context *context, const lac_world_options *options, MPI_Comm *comm) {
  MPI_Request request;
  double timeout = options->timeout_ms ? 1e-3 * (double)options->timeout_ms : LAC_TIMEOUT_DEFAULT;
  double start = lac_seconds(), pause = 20e-6;
  LAC_TRY(check(context, MPI_Comm_idup(MPI_COMM_WORLD, comm, &request), "joining the ranks"));
  for (;;) {
    int done;
    LAC_TRY(check(context, MPI_Test(&request, &done, MPI_STATUS_IGNORE), "joining the ranks"));
    if (done) {
      return check(context, MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "joining the ranks");
    }
    if (lac_context_interrupted(context)) {
      lose(false);
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    if (lac_seconds() - start > timeout) {
      lose(true);
      return lac_fail(context, LAC_E_TIMEOUT, "waited %.2f s for all other ranks to start their work",
                      lac_seconds() - start);
    }
    nap(pause);
    pause = pause < 0.5e-3 ? 2 * pause : 1e-3;
  }
}

/* ---- closing ---- */

typedef struct lac_ending {
  lac_outcome outcome;
  int32_t rank; /* of the first failure, -1: none */
} lac_ending;

/* Every rank tells rank 0 `bytes` bytes, all (P * bytes) there. */
static lac_status tell(lac_world *world, const void *mine, size_t bytes, void *all) {
  if (world->rank != 0) {
    return lac_world_packet(world, 0, LAC_TAG_CLOSE, mine, bytes);
  }
  memcpy(all, mine, bytes);
  for (int from = 1; from < world->size; from++) {
    lac_message message;
    LAC_TRY(lac_world_await(world, from, LAC_TAG_CLOSE, &message));
    memcpy((char *)all + (size_t)from * bytes, message.data, message.bytes < bytes ? message.bytes : bytes);
    free(message.data);
  }
  return LAC_OK;
}

/* Rank 0 tells every rank its `bytes` bytes of all (P * bytes). */
static lac_status hear(lac_world *world, const void *all, size_t bytes, void *mine) {
  if (world->rank == 0) {
    for (int to = 1; to < world->size; to++) {
      LAC_TRY(lac_world_packet(world, to, LAC_TAG_CLOSE, (const char *)all + (size_t)to * bytes, bytes));
    }
    memcpy(mine, all, bytes);
    return LAC_OK;
  }
  lac_message message;
  LAC_TRY(lac_world_await(world, 0, LAC_TAG_CLOSE, &message));
  memcpy(mine, message.data, message.bytes < bytes ? message.bytes : bytes);
  free(message.data);
  return LAC_OK;
}

/* Waits for all bodies to end and finds the first that failed, the same on all ranks. */
static lac_status exchange_endings(lac_world *world, lac_ending *ending) {
  int size = world->rank == 0 ? world->size : 0;
  lac_outcome *outcomes = NULL;
  lac_ending *verdicts = NULL;
  lac_status status;
  LAC_TRY(LAC_NEW(world->context, size, &outcomes));
  LAC_TRY_GOTO(status, LAC_NEW(world->context, size, &verdicts), cleanup);
  LAC_TRY_GOTO(status, tell(world, &ending->outcome, sizeof ending->outcome, outcomes), cleanup);
  int first = lac_world_verdict(outcomes, size);
  for (int i = 0; i < size; i++) {
    verdicts[i] = (lac_ending){.rank = first};
    if (first >= 0) {
      verdicts[i].outcome = outcomes[first];
    }
  }
  status = hear(world, verdicts, sizeof *verdicts, ending);
cleanup:
  lac_free(verdicts);
  lac_free(outcomes);
  return status;
}

/* Receives whatever is still on its way to this rank, so that nothing is left in MPI: every rank tells how many packets
 * it sent to each other one, and hears how many were sent to itself. */
static lac_status drain_rest(lac_world *world) {
  int size = world->rank == 0 ? world->size : 0;
  int64_t *sent = NULL, *total = NULL, expected = 0, received;
  lac_status status;
  world->closing = true; /* from here on questions are no longer answered: the counts stand */
  LAC_TRY(LAC_NEW(world->context, (int64_t)size * size, &sent));
  LAC_TRY_GOTO(status, LAC_NEW(world->context, size, &total), cleanup);
  LAC_TRY_GOTO(status, tell(world, world->sent, (size_t)world->size * sizeof *sent, sent), cleanup);
  for (int from = 0; from < size; from++) {
    for (int to = 0; to < size; to++) {
      total[to] += sent[from * size + to];
    }
  }
  LAC_TRY_GOTO(status, hear(world, total, sizeof *total, &expected), cleanup);
  double deadline = lac_seconds() + world->timeout;
  for (;;) {
    LAC_TRY_GOTO(status, lac_world_drain(world), cleanup);
    received = 0;
    for (int from = 0; from < world->size; from++) {
      received += world->senders[from].packets;
    }
    if (received == expected && !((lac_mpi_link *)world->link)->sends) {
      break;
    }
    if (lac_seconds() > deadline) {
      status =
          lac_fail(world->context, LAC_E_TIMEOUT, "worker %d waited %.2f s for the last messages: %lld of %lld came",
                   world->rank, world->timeout, (long long)received, (long long)expected);
      goto cleanup;
    }
    mpi_wait(world->link, 1e-3);
  }
cleanup:
  lac_free(total);
  lac_free(sent);
  return status;
}

static lac_status run_body(lac_context *context, lac_world *world, lac_world_fn body, void *argument) {
  lac_ending ending = {.rank = -1};
  lac_world_body(world, body, argument, &ending.outcome);
  lac_outcome own = ending.outcome;
  lac_status status = exchange_endings(world, &ending);
  if (!status) {
    status = drain_rest(world);
  }
  if (status) {
    lose(!own.echo);
    if (own.echo && world->rank > 0) {
      nap(LAC_WITNESS_LEAD); /* the launcher ends all when the first leaves, and that should be one that speaks */
    }
    /* How the bodies failed, as far as it is known here, says more than how the closing did. */
    const lac_outcome *known = own.echo && world->failed >= 0 ? &world->failure : &own;
    return known->status ? lac_fail(context, (lac_status)known->status, "%s", known->line)
                         : lac_fail(context, status, "%s", lac_context_message(world->context));
  }
  return ending.rank < 0 ? LAC_OK : lac_fail(context, (lac_status)ending.outcome.status, "%s", ending.outcome.line);
}

/* Sends to lost ranks may never end: their buffers are given up, not freed. */
static void leave(lac_mpi_link *link) {
  while (link->sends) {
    lac_mpi_send *send = link->sends;
    link->sends = send->next;
    MPI_Request_free(&send->request);
  }
}

lac_status lac_mpi_run(lac_context *context, const lac_world_options *options, lac_world_fn body, void *argument) {
  lac_mpi_link link = {.comm = MPI_COMM_NULL};
  lac_world world;
  lac_context *child = NULL;
  int rank, size;
  lac_status status;
  LAC_TRY(lac_world_size_of(context, options, &size));
  LAC_TRY(join(context, options, &link.comm));
  LAC_TRY(check(context, MPI_Comm_rank(link.comm, &rank), "counting the ranks"));
  LAC_TRY(lac_context_child(context, &child));
  status = lac_world_open(child, options, &mpi_backend, &link, rank, size, &world);
  if (status) {
    lose(false);
    status = lac_fail(context, status, "%s", lac_context_message(child));
    lac_context_destroy(&child);
    return status;
  }
  status = run_body(context, &world, body, argument);
  bool clean = !link.sends;
  leave(&link);
  lac_world_close(&world);
  lac_context_destroy(&child);
  if (clean) {
    MPI_Comm_free(&link.comm);
  }
  return status;
}

#endif
