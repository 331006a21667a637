/* Packets by MPI proper. Only calls that every implementation has are used: non-blocking sends and receives, and
 * Iprobe. No call waits inside MPI, so that every wait keeps its deadline, and idle ranks sleep, so that many of them
 * can share a core. A receive of what has been probed would wait too: of a long message only the beginning has come
 * then, and a sender that stops leaves it at that.
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

/* A message that is coming in. */
typedef struct lac_mpi_receive {
  struct lac_mpi_receive *next;
  MPI_Request request;
  bool done;
  lac_packet *packet;
} lac_mpi_receive;

struct lac_mpi_link {
  MPI_Comm comm;
  lac_mpi_send *sends;
  lac_mpi_receive *receives; /* in the order of their beginnings */
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

/* Begins to receive what has been probed, as the last of the receives. */
static lac_status begin_receive(lac_mpi_link *self, lac_context *context, const MPI_Status *probed) {
  int bytes, from = probed->MPI_SOURCE, tag = probed->MPI_TAG;
  LAC_TRY(lac_mpi_check(context, MPI_Get_count(probed, MPI_BYTE, &bytes), "receiving"));
  lac_mpi_receive **last = &self->receives, *made = calloc(1, sizeof *made);
  lac_packet *packet = calloc(1, sizeof *packet);
  void *data = bytes ? malloc((size_t)bytes) : NULL;
  lac_status status =
      made && packet && (data || !bytes)
          ? lac_mpi_check(context, MPI_Irecv(data, bytes, MPI_BYTE, from, tag, self->comm, &made->request), "receiving")
          : lac_fail(context, LAC_E_MEMORY, "cannot allocate a message of %d bytes", bytes);
  if (status) {
    free(made);
    free(packet);
    free(data);
    return status;
  }
  packet->message = (lac_message){.from = from, .tag = tag, .bytes = (size_t)bytes, .data = data};
  made->packet = packet;
  while (*last) {
    last = &(*last)->next;
  }
  *last = made;
  return LAC_OK;
}

/* Whether all of a message has come. An error stays with the request: the next look meets it again. */
static bool has_come(lac_mpi_receive *receive, lac_context *context, lac_status *status) {
  if (!receive->done) {
    int done = 0;
    *status = lac_mpi_check(context, MPI_Test(&receive->request, &done, MPI_STATUS_IGNORE), "receiving");
    receive->done = !*status && done;
  }
  return receive->done;
}

/* Whether an earlier message of the same sender is still coming in. */
static bool is_overtaking(const lac_mpi_link *self, const lac_mpi_receive *receive) {
  const lac_mpi_receive *other = self->receives;
  while (other != receive && other->packet->message.from != receive->packet->message.from) {
    other = other->next;
  }
  return other != receive;
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
      break;
    }
    LAC_TRY(begin_receive(self, context, &probed));
  }
  for (lac_mpi_receive **at = &self->receives; *at;) {
    lac_mpi_receive *receive = *at;
    lac_status status = LAC_OK;
    if (!has_come(receive, context, &status) || is_overtaking(self, receive)) {
      LAC_TRY(status);
      at = &receive->next;
      continue;
    }
    *arrived = receive->packet;
    arrived = &receive->packet->next;
    *at = receive->next;
    free(receive);
  }
  return LAC_OK;
}

/* Whether fetch would bring something, or an error. */
static bool has_arrived(lac_mpi_link *self) {
  int found = 0;
  if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &found, MPI_STATUS_IGNORE) != MPI_SUCCESS || found) {
    return true;
  }
  for (lac_mpi_receive *receive = self->receives; receive; receive = receive->next) {
    int done = receive->done;
    if (!done && MPI_Request_get_status(receive->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return true;
    }
    if (done && !is_overtaking(self, receive)) {
      return true;
    }
  }
  return false;
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
    if (has_arrived(self)) {
      return; /* an error too: the next fetch meets and reports it */
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
  return !link->sends && !link->receives;
}

/* What goes to lost ranks or comes from them may never end: those buffers are given up, not freed. */
void lac_mpi_link_close(lac_mpi_link *link) {
  while (link && link->sends) {
    lac_mpi_send *send = link->sends;
    link->sends = send->next;
    MPI_Request_free(&send->request);
  }
  while (link && link->receives) {
    lac_mpi_receive *receive = link->receives;
    link->receives = receive->next;
    if (receive->done) {
      lac_packets_drop(receive->packet);
    } else {
      MPI_Request_free(&receive->request);
    }
    free(receive);
  }
  free(link);
}

#endif
