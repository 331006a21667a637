/* Packets in a program of SimGrid's SMPI, where the ranks share one process and a simulated clock.
 *
 * Polling, as on MPI proper, would be wrong here: a probe costs simulated time and sees a message as soon as it was
 * sent, and the receive that follows then waits for all of the transfer. Instead a window of receives from any rank is
 * always posted. A test of them takes no time and shows exactly those whose transfer has ended; a wait for any of them
 * lets the clock run to the next such end. Nothing is waited for with a deadline: when all ranks wait in vain, SimGrid
 * sees it and ends the run.
 *
 * With the options of tests/house/smpirun.sh every send is detached and eager: the sender goes on at once, the transfer
 * begins when it is sent, whether or not a receive is posted, and shares its links with all others that are under way.
 * Several to one rank overtake each other, as long ones share the links with short ones, so packets carry their number
 * and are handed on in the order sent.
 *
 * A computation of s seconds is s times smpi/host-speed operations on the simulated host: that option says how fast the
 * machine is for which the seconds hold, the platform file how fast the host is. */
#if defined(LACONIC_HAVE_MPI) && defined(LACONIC_SMPI)

#include <math.h>
#include <simgrid/actor.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/mpi_link.h"

/* A packet's number stands above its tag: MPI's tag = number * LAC_SMPI_TAGS + tag. */
enum { LAC_SMPI_TAGS = 1 << 15, LAC_SMPI_NUMBERS = 1 << 16 };
_Static_assert((int)LAC_TAG_CLOSE < (int)LAC_SMPI_TAGS, "tags that do not fit");

/* The window begins with so many receives and doubles when it proves too small, each with room for the largest packet.
 * That is address space only: what a large packet touched is given back. */
enum { LAC_SMPI_WINDOW = 16, LAC_SMPI_WINDOW_LIMIT = 512, LAC_SMPI_KEPT = 1 << 14 };
static const size_t LAC_SMPI_PACKET = (size_t)1 << 26;

/* Seconds that a poll takes which finds nothing, as on the back end sim. */
static const double LAC_POLL_SECONDS = 1e-6;

/* A packet that came before one that was sent earlier. */
typedef struct lac_smpi_early {
  struct lac_smpi_early *next;
  unsigned number;
  lac_packet *packet;
} lac_smpi_early;

typedef struct lac_smpi_peer {
  unsigned sent, received; /* numbers of the next packets */
  lac_smpi_early *early;
} lac_smpi_peer;

struct lac_mpi_link {
  MPI_Comm comm;
  int size;
  lac_smpi_peer *peers; /* (size) */
  int window;
  MPI_Request
      requests[LAC_SMPI_WINDOW_LIMIT];  /* (window) in the order posted, so that what was sent first is seen first */
  void *buffers[LAC_SMPI_WINDOW_LIMIT]; /* (window) theirs */
  int ready;                            /* the receive that ended a wait, -1: none … */
  MPI_Status status;
};

/* ---- receiving ---- */

/* Begins a receive into a buffer, as the last of the window. */
static lac_status post(lac_mpi_link *self, lac_context *context, void *buffer) {
  int last = self->window;
  LAC_TRY(lac_mpi_check(
      context,
      MPI_Irecv(buffer, (int)LAC_SMPI_PACKET, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &self->requests[last]),
      "receiving"));
  self->buffers[last] = buffer;
  self->window++;
  return LAC_OK;
}

static lac_status widen(lac_mpi_link *self, lac_context *context, int count) {
  if (self->window + count > LAC_SMPI_WINDOW_LIMIT) {
    return LAC_OK;
  }
  char *buffers = mmap(NULL, (size_t)count * LAC_SMPI_PACKET, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (buffers == MAP_FAILED) {
    return lac_fail(context, LAC_E_MEMORY, "cannot reserve %zu bytes of address space to receive into",
                    (size_t)count * LAC_SMPI_PACKET);
  }
  for (int i = 0; i < count; i++) {
    LAC_TRY(post(self, context, buffers + (size_t)i * LAC_SMPI_PACKET));
  }
  return LAC_OK;
}

/* Hands on a packet when it is its turn, and those that waited for it. */
static lac_status put_in_order(lac_mpi_link *self, lac_context *context, unsigned number, lac_packet *packet,
                               lac_packet ***end) {
  lac_smpi_peer *peer = &self->peers[packet->message.from];
  if (number != peer->received) {
    lac_smpi_early *early;
    lac_status status = LAC_NEW(context, 1, &early);
    if (status) {
      lac_packets_drop(packet);
      return status;
    }
    *early = (lac_smpi_early){.next = peer->early, .number = number, .packet = packet};
    peer->early = early;
    return LAC_OK;
  }
  while (packet) {
    **end = packet;
    *end = &packet->next;
    packet = NULL;
    peer->received = (peer->received + 1) % LAC_SMPI_NUMBERS;
    for (lac_smpi_early **at = &peer->early; *at; at = &(*at)->next) {
      lac_smpi_early *early = *at;
      if (early->number == peer->received) {
        packet = early->packet;
        *at = early->next;
        lac_free(early);
        break;
      }
    }
  }
  return LAC_OK;
}

/* Takes what a receive of the window has brought, and posts it anew. */
static lac_status take(lac_mpi_link *self, lac_context *context, int index, const MPI_Status *brought,
                       lac_packet ***end) {
  void *buffer = self->buffers[index];
  int bytes, left = --self->window - index, tag = brought->MPI_TAG;
  memmove(&self->requests[index], &self->requests[index + 1], (size_t)left * sizeof *self->requests);
  memmove(&self->buffers[index], &self->buffers[index + 1], (size_t)left * sizeof *self->buffers);
  LAC_TRY(lac_mpi_check(context, MPI_Get_count(brought, MPI_BYTE, &bytes), "receiving"));
  lac_packet *packet;
  LAC_TRY(lac_packet_copy(context, brought->MPI_SOURCE, tag % LAC_SMPI_TAGS, buffer, (size_t)bytes, &packet));
  if (bytes > LAC_SMPI_KEPT) {
    madvise(buffer, (size_t)bytes, MADV_DONTNEED);
  }
  LAC_TRY(put_in_order(self, context, (unsigned)(tag / LAC_SMPI_TAGS), packet, end));
  return post(self, context, buffer);
}

static lac_status take_all(lac_mpi_link *self, lac_context *context, lac_packet ***end) {
  for (;;) {
    int index = self->ready, found = 1;
    if (index < 0) {
      LAC_TRY(lac_mpi_check(context, MPI_Testany(self->window, self->requests, &index, &found, &self->status),
                            "receiving"));
    }
    if (!found || index == MPI_UNDEFINED) {
      return LAC_OK;
    }
    self->ready = -1;
    LAC_TRY(take(self, context, index, &self->status, end));
  }
}

/* A probe that finds something has found a message which none of the receives took: they are all busy with others,
 * which may take longer than that one. */
static lac_status smpi_fetch(void *link, lac_context *context, lac_packet **arrived) {
  lac_mpi_link *self = link;
  int left = 1, window = 0;
  *arrived = NULL;
  while (left && window < self->window) {
    LAC_TRY(take_all(self, context, &arrived));
    LAC_TRY(lac_mpi_check(context, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->comm, &left, MPI_STATUS_IGNORE),
                          "receiving"));
    window = self->window;
    if (left) {
      LAC_TRY(widen(self, context, window));
    }
  }
  return LAC_OK;
}

/* Without an end only, or to the end: what arrives during a wait with a deadline is seen after it. Only the random
 * delays of the tests make such waits here. */
static void smpi_wait(void *link, double seconds) {
  lac_mpi_link *self = link;
  if (isfinite(seconds)) {
    sg_actor_sleep_for(seconds);
  } else if (self->ready < 0) {
    int code = MPI_Waitany(self->window, self->requests, &self->ready, &self->status);
    if (code != MPI_SUCCESS || self->ready == MPI_UNDEFINED) {
      self->ready = -1; /* the next fetch meets the same error and reports it */
    }
  }
}

/* ---- sending, and the clock ---- */

static lac_status smpi_send(void *link, lac_context *context, int to, int tag, const void *data, size_t bytes) {
  lac_mpi_link *self = link;
  lac_smpi_peer *peer = &self->peers[to];
  MPI_Request request;
  int sent = 0;
  /* bytes <= packet_limit, which fits MPI's int */
  LAC_TRY(lac_mpi_check(context,
                        MPI_Isend(bytes ? data : &sent, (int)bytes, MPI_BYTE, to, (int)peer->sent * LAC_SMPI_TAGS + tag,
                                  self->comm, &request),
                        "sending"));
  peer->sent = (peer->sent + 1) % LAC_SMPI_NUMBERS;
  LAC_TRY(lac_mpi_check(context, MPI_Test(&request, &sent, MPI_STATUS_IGNORE), "sending"));
  return sent ? LAC_OK
              : lac_fail(context, LAC_E_USAGE,
                         "SMPI holds back a message of %zu bytes; expected it to run with "
                         "--cfg=smpi/send-is-detached-thresh:2147483647",
                         bytes);
}

static double smpi_now(void *link) {
  (void)link;
  return lac_seconds();
}

static void smpi_spend(void *link, double seconds) {
  (void)link;
  if (isfinite(seconds) && seconds > 0) {
    smpi_execute(seconds);
  }
}

static void smpi_miss(void *link) {
  (void)link;
  sg_actor_sleep_for(LAC_POLL_SECONDS);
}

void lac_mpi_nap(double seconds) {
  sg_actor_sleep_for(seconds);
}

const lac_backend lac_mpi_backend = {.name = "mpi",
                                     .packet_limit = LAC_SMPI_PACKET,
                                     .slice = HUGE_VAL,
                                     .endless = true,
                                     .send = smpi_send,
                                     .fetch = smpi_fetch,
                                     .wait = smpi_wait,
                                     .now = smpi_now,
                                     .spend = smpi_spend,
                                     .miss = smpi_miss};

/* ---- a link ---- */

lac_status lac_mpi_join(lac_context *context, double timeout, MPI_Comm *comm) {
  (void)timeout;
  return lac_mpi_check(context, MPI_Comm_dup(MPI_COMM_WORLD, comm), "joining the ranks");
}

lac_status lac_mpi_link_open(lac_context *context, MPI_Comm comm, int size, lac_mpi_link **link) {
  lac_mpi_link *self;
  LAC_TRY(LAC_NEW(context, 1, &self));
  *self = (lac_mpi_link){.comm = comm, .size = size, .ready = -1};
  *link = self;
  LAC_TRY(LAC_NEW(context, size, &self->peers));
  return widen(self, context, LAC_SMPI_WINDOW);
}

bool lac_mpi_link_idle(const lac_mpi_link *link) {
  (void)link;
  return true;
}

static void drop_early(lac_mpi_link *self) {
  for (int i = 0; self->peers && i < self->size; i++) {
    while (self->peers[i].early) {
      lac_smpi_early *early = self->peers[i].early;
      self->peers[i].early = early->next;
      lac_packets_drop(early->packet);
      lac_free(early);
    }
  }
}

void lac_mpi_link_close(lac_mpi_link *link) {
  if (!link) {
    return;
  }
  for (int i = 0; i < link->window; i++) {
    if (i != link->ready) {
      MPI_Cancel(&link->requests[i]);
      MPI_Request_free(&link->requests[i]);
    }
    munmap(link->buffers[i], LAC_SMPI_PACKET);
  }
  drop_early(link);
  lac_free(link->peers);
  lac_free(link);
}

#endif
