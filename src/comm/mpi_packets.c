/* Packets by MPI proper. Only calls that every implementation has are used: non-blocking sends, Iprobe and Recv. No
 * call waits inside MPI, so that every wait keeps its deadline, and idle ranks sleep, so that many of them can share a
 * core.
 */
#if defined(LACONIC_HAVE_MPI) && !defined(LACONIC_SMPI)

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/mpi_link.h"

/* A send that MPI has not finished with; owns its copy of the data. */
typedef struct lac_mpi_send {
  struct lac_mpi_send *next;
  MPI_Request request;
  char data[];
} lac_mpi_send;

struct lac_mpi_link {
  MPI_Comm comm;
  lac_mpi_send *sends;
};

static lac_status progress(lac_mpi_link *self, lac_context *context) {
  lac_mpi_send **at = &self->sends;
  while (*at) {
    lac_mpi_send *send = *at;
    int done;
    LAC_TRY(lac_mpi_check(context, MPI_Test(&send->request, &done, MPI_STATUS_IGNORE), "sending"));
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
  lac_status status = lac_mpi_check(
      context, MPI_Isend(send->data, (int)bytes, MPI_BYTE, to, tag, self->comm, &send->request), "sending");
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
  LAC_TRY(lac_mpi_check(context, MPI_Get_count(probed, MPI_BYTE, &bytes), "receiving"));
  lac_packet *made = calloc(1, sizeof *made);
  void *data = bytes ? malloc((size_t)bytes) : NULL;
  if (!made || (bytes && !data)) {
    free(made);
    free(data);
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a message of %d bytes", bytes);
  }
  lac_status status =
      lac_mpi_check(context, MPI_Recv(data, bytes, MPI_BYTE, from, tag, self->comm, MPI_STATUS_IGNORE), "receiving");
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
    LAC_TRY(lac_mpi_check(context, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &found, &probed), "receiving"));
    if (!found) {
      return LAC_OK;
    }
    LAC_TRY(receive_packet(self, context, &probed, arrived));
    arrived = &(*arrived)->next;
  }
}

void lac_mpi_nap(double seconds) {
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
      lac_mpi_nap(left < pause ? left : pause);
      pause = pause < 0.5e-3 ? 2 * pause : 1e-3;
    }
  }
}

static double mpi_now(void *link) {
  (void)link;
  return lac_seconds();
}

const lac_backend lac_mpi_backend = {.name = "mpi",
                                     .packet_limit = (size_t)1 << 30,
                                     .slice = LAC_WAIT_SLICE,
                                     .send = mpi_send,
                                     .fetch = mpi_fetch,
                                     .wait = mpi_wait,
                                     .now = mpi_now};

/* ---- a link ---- */

/* With a deadline in case that not all ranks come to the run. */
lac_status lac_mpi_join(lac_context *context, double timeout, MPI_Comm *comm) {
  MPI_Request request;
  double start = lac_seconds(), pause = 20e-6;
  LAC_TRY(lac_mpi_check(context, MPI_Comm_idup(MPI_COMM_WORLD, comm, &request), "joining the ranks"));
  for (;;) {
    int done;
    LAC_TRY(lac_mpi_check(context, MPI_Test(&request, &done, MPI_STATUS_IGNORE), "joining the ranks"));
    if (done) {
      return LAC_OK;
    }
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    if (lac_seconds() - start > timeout) {
      return lac_fail(context, LAC_E_TIMEOUT, "waited %.2f s for all other ranks to start their work",
                      lac_seconds() - start);
    }
    lac_mpi_nap(pause);
    pause = pause < 0.5e-3 ? 2 * pause : 1e-3;
  }
}

lac_status lac_mpi_link_open(lac_context *context, MPI_Comm comm, int size, lac_mpi_link **link) {
  (void)size;
  lac_mpi_link *made = calloc(1, sizeof *made);
  if (!made) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a link of %zu bytes", sizeof *made);
  }
  made->comm = comm;
  *link = made;
  return LAC_OK;
}

bool lac_mpi_link_idle(const lac_mpi_link *link) {
  return !link->sends;
}

/* Sends to lost ranks may never end: their buffers are given up, not freed. */
void lac_mpi_link_close(lac_mpi_link *link) {
  while (link && link->sends) {
    lac_mpi_send *send = link->sends;
    link->sends = send->next;
    MPI_Request_free(&send->request);
  }
  free(link);
}

#endif
