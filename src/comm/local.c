/* The workers are threads of this process. A message is copied once, by its sender; its receiver gets that copy. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/memory.h"
#include "base/profile.h"
#include "comm/threads.h"

/* A worker looks for what is about to come before it sleeps: to be put to sleep and woken takes two switches between
 * threads, tens of microseconds, and the collectives of a start by ITQ come by the hundred. */
#ifdef LACONIC_SMPI
static const double patience = 0; /* on a clock that stands still while a worker computes */
#else
static const double patience = 200e-6; /* seconds */
#endif

typedef struct lac_mailbox {
  struct lac_mailbox *all; /* (size) */
  int rank;
  double patience;  /* of a wait; 0 where workers have no cores of their own */
  atomic_bool mail; /* whether there is any */
  pthread_mutex_t lock;
  pthread_cond_t arrival;
  lac_packet *first, **last; /* in order of arrival */
} lac_mailbox;

/* Leaves what the core has to another thread of it. */
static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

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
  atomic_init(&mailbox->mail, false);
  return true;
}

static void mailbox_close(lac_mailbox *mailbox) {
  lac_packets_drop(mailbox->first);
  pthread_mutex_destroy(&mailbox->lock);
  pthread_cond_destroy(&mailbox->arrival);
}

static lac_status local_send(void *link, lac_context *context, int to, int tag, const void *data, size_t bytes) {
  const lac_mailbox *self = link;
  lac_packet *packet;
  LAC_TRY(lac_packet_copy(context, self->rank, tag, data, bytes, &packet));
  lac_mailbox *mailbox = &self->all[to];
  pthread_mutex_lock(&mailbox->lock);
  *mailbox->last = packet;
  mailbox->last = &packet->next;
  atomic_store_explicit(&mailbox->mail, true, memory_order_relaxed);
  pthread_cond_signal(&mailbox->arrival);
  pthread_mutex_unlock(&mailbox->lock);
  return LAC_OK;
}

static lac_status local_fetch(void *link, lac_context *context, lac_packet **arrived) {
  lac_mailbox *mailbox = link;
  (void)context;
  pthread_mutex_lock(&mailbox->lock);
  *arrived = mailbox->first;
  mailbox->first = NULL;
  mailbox->last = &mailbox->first;
  atomic_store_explicit(&mailbox->mail, false, memory_order_relaxed);
  pthread_mutex_unlock(&mailbox->lock);
  return LAC_OK;
}

static bool mail_comes(lac_mailbox *mailbox, double seconds) {
  double end = lac_seconds() + seconds;
  do {
    for (int i = 0; i < 16; i++) {
      if (atomic_load_explicit(&mailbox->mail, memory_order_relaxed)) {
        return true;
      }
      pause_briefly();
    }
  } while (lac_seconds() < end);
  return false;
}

static void local_wait(void *link, double seconds) {
  lac_mailbox *mailbox = link;
  if (mailbox->patience > 0 && mail_comes(mailbox, fmin(mailbox->patience, seconds))) {
    return;
  }
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
                                          .slice = LAC_WAIT_SLICE,
                                          .send = local_send,
                                          .fetch = local_fetch,
                                          .wait = local_wait,
                                          .now = local_now};

lac_status lac_local_run(lac_context *context, const lac_world_options *options, lac_world_fn body, void *argument) {
  int size, opened = 0;
  lac_mailbox *mailboxes = NULL;
  lac_status status = LAC_OK;
  LAC_TRY(lac_world_size_of(context, options, &size));
  LAC_TRY(LAC_NEW(context, size, &mailboxes));
  for (; opened < size; opened++) {
    mailboxes[opened].all = mailboxes;
    mailboxes[opened].rank = opened;
    mailboxes[opened].patience = size <= lac_world_cores() ? patience : 0;
    if (!mailbox_open(&mailboxes[opened])) {
      status = lac_fail(context, LAC_E_MEMORY, "cannot make the mailbox of worker %d", opened);
      break;
    }
  }
  if (!status) {
    status = lac_threads_run(context, options, &local_backend, mailboxes, sizeof *mailboxes, body, argument);
  }
  for (int i = 0; i < opened; i++) {
    mailbox_close(&mailboxes[i]);
  }
  lac_free(mailboxes);
  return status;
}
