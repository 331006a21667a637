/* One worker per MPI rank: the life of MPI, and how a run begins and closes. */
#ifdef LACONIC_HAVE_MPI

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/mpi_link.h"

/* MPI_COMM_SELF bears this name when MPI was started here and is to be ended here … */
#define LAC_MPI_OURS "laconic"
/* … and one of these when ranks have been lost sight of, so that a collective MPI_Finalize would hang: the second on a
 * rank that noticed by itself, not from another. */
#define LAC_MPI_LOST "laconic: lost"
#define LAC_MPI_ALONE "laconic: alone"

/* Seconds by which a rank that only heard of a failure leaves after the one that met it. */
static const double LAC_WITNESS_LEAD = 5;

/* ---- the life of MPI ---- */

lac_status lac_mpi_check(lac_context *context, int code, const char *what) {
  if (code == MPI_SUCCESS) {
    return LAC_OK;
  }
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length;
  MPI_Error_string(code, text, &length);
  return lac_fail(context, LAC_E_PEER, "MPI: %s: %s", what, text);
}

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
  LAC_TRY(lac_mpi_check(context, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "starting"));
  return lac_mpi_check(context, MPI_Comm_set_name(MPI_COMM_SELF, LAC_MPI_OURS), "starting");
}

lac_status lac_mpi_size(lac_context *context, int *size) {
  LAC_TRY(start_mpi(context));
  return lac_mpi_check(context, MPI_Comm_size(MPI_COMM_WORLD, size), "counting the ranks");
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

static lac_status join(lac_context *context, const lac_world_options *options, MPI_Comm *comm) {
  double timeout = options->timeout_ms ? 1e-3 * (double)options->timeout_ms : LAC_TIMEOUT_DEFAULT;
  lac_status status = lac_mpi_join(context, timeout, comm);
  if (status == LAC_E_INTERRUPTED || status == LAC_E_TIMEOUT) {
    lose(status == LAC_E_TIMEOUT);
  }
  return status ? status
                : lac_mpi_check(context, MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "joining the ranks");
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
    LAC_TRY(lac_world_await(world, from, LAC_TAG_CLOSE, world->timeout, &message));
    memcpy((char *)all + (size_t)from * bytes, message.data, message.bytes < bytes ? message.bytes : bytes);
    free(message.data);
  }
  return LAC_OK;
}

/* Rank 0 tells every rank its `bytes` bytes of all (P * bytes). It has waited itself for the one that is silent: it is
 * given the time to say for which. */
static lac_status hear(lac_world *world, const void *all, size_t bytes, void *mine) {
  if (world->rank == 0) {
    for (int to = 1; to < world->size; to++) {
      LAC_TRY(lac_world_packet(world, to, LAC_TAG_CLOSE, (const char *)all + (size_t)to * bytes, bytes));
    }
    memcpy(mine, all, bytes);
    return LAC_OK;
  }
  lac_message message;
  LAC_TRY(lac_world_await(world, 0, LAC_TAG_CLOSE, 2 * world->timeout, &message));
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
  double deadline = world->backend->now(world->link) + world->timeout;
  for (;;) {
    LAC_TRY_GOTO(status, lac_world_drain(world), cleanup);
    received = 0;
    for (int from = 0; from < world->size; from++) {
      received += world->senders[from].packets;
    }
    if (received == expected && lac_mpi_link_idle(world->link)) {
      break;
    }
    if (world->backend->now(world->link) > deadline) {
      status =
          lac_fail(world->context, LAC_E_TIMEOUT, "worker %d waited %.2f s for the last messages: %lld of %lld came",
                   world->rank, world->timeout, (long long)received, (long long)expected);
      goto cleanup;
    }
    world->backend->wait(world->link, world->backend->endless ? HUGE_VAL : 1e-3);
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
      lac_mpi_nap(
          LAC_WITNESS_LEAD); /* the launcher ends all when the first leaves, and that should be one that speaks */
    }
    /* How the bodies failed, as far as it is known here, says more than how the closing did. */
    const lac_outcome *known = own.echo && world->failed >= 0 ? &world->failure : &own;
    return known->status ? lac_fail(context, (lac_status)known->status, "%s", known->line)
                         : lac_fail(context, status, "%s", lac_context_message(world->context));
  }
  return ending.rank < 0 ? LAC_OK : lac_fail(context, (lac_status)ending.outcome.status, "%s", ending.outcome.line);
}

/* Opens this rank's world over a communicator; the link is to be closed also after a failure. */
static lac_status open_world(lac_context *child, const lac_world_options *options, MPI_Comm comm, lac_mpi_link **link,
                             lac_world *world) {
  int rank, size;
  LAC_TRY(lac_mpi_check(child, MPI_Comm_rank(comm, &rank), "counting the ranks"));
  LAC_TRY(lac_mpi_check(child, MPI_Comm_size(comm, &size), "counting the ranks"));
  LAC_TRY(lac_mpi_link_open(child, comm, size, link));
  return lac_world_open(child, options, &lac_mpi_backend, *link, rank, size, world);
}

lac_status lac_mpi_run(lac_context *context, const lac_world_options *options, lac_world_fn body, void *argument) {
  MPI_Comm comm = MPI_COMM_NULL;
  lac_mpi_link *link = NULL;
  lac_world world;
  lac_context *child = NULL;
  int size;
  LAC_TRY(lac_world_size_of(context, options, &size));
  LAC_TRY(join(context, options, &comm));
  LAC_TRY(lac_context_child(context, &child));
  lac_status status = open_world(child, options, comm, &link, &world);
  if (status) {
    lose(false);
    status = lac_fail(context, status, "%s", lac_context_message(child));
    lac_mpi_link_close(link);
    lac_context_destroy(&child);
    return status;
  }
  status = run_body(context, &world, body, argument);
  bool clean = lac_mpi_link_idle(link);
  lac_mpi_link_close(link);
  lac_world_close(&world);
  lac_context_destroy(&child);
  if (clean) {
    MPI_Comm_free(&comm);
  }
  return status;
}

#endif
