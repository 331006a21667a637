/* The workers are threads of this process of which one runs at a time, on a virtual clock.
 *
 * A baton goes to the worker with the earliest time, ties by rank; whoever holds it runs alone. One that has spent time
 * keeps it until it sends, looks at its messages, waits or ends: nothing that it does before is seen by the others. So
 * all of what is below needs no lock, and nothing depends on how the operating system schedules threads: a run is a
 * function of the options, the cluster and the program, to the bit. As the one that sends or looks is always the
 * earliest, whatever can arrive by its time has been sent before.
 *
 * A message occupies its sender's link for bytes / bandwidth, after what was sent before it, and arrives a latency
 * later. Handing the baton from thread to thread takes some 3 to 10 microseconds of real time; it stays where it is
 * when the same worker is the next. */
#include <math.h>
#include <semaphore.h>

#include "base/memory.h"
#include "base/random.h"
#include "comm/threads.h"

/* Seconds that a poll takes which finds nothing: without them a loop of polls would hold up time for ever. */
static const double LAC_POLL_SECONDS = 1e-6;

struct lac_sim;

typedef struct lac_sim_worker {
  struct lac_sim *sim;
  int rank;
  double time;              /* now, of the worker that runs; of the others, when they go on; HUGE_VAL after the end */
  double link_free;         /* when all that it has sent has left */
  double speed;             /* relative */
  uint64_t spends;          /* calls of lac_world_spend so far */
  bool waits;               /* what arrives wakes it */
  bool ahead;               /* it has spent time, and others may be behind it */
  lac_packet *first, *last; /* on their way here, by time of arrival (due), equals in the order sent */
  sem_t baton;
} lac_sim_worker;

typedef struct lac_sim {
  const lac_context *context;
  lac_cluster cluster;
  double spread;    /* standard deviation of the logarithm of a jittered time */
  bool interrupted; /* those who wait have been woken for it */
  int size;
  lac_sim_worker *workers; /* (size) */
} lac_sim;

/* ---- the baton ---- */

/* An interrupt ends all waits now, not at their deadlines. */
static void notice_interrupt(lac_sim *sim, double now) {
  if (sim->interrupted || !lac_context_interrupted(sim->context)) {
    return;
  }
  sim->interrupted = true;
  for (int i = 0; i < sim->size; i++) {
    lac_sim_worker *worker = &sim->workers[i];
    if (worker->waits && worker->time > now) {
      worker->time = now;
    }
  }
}

static lac_sim_worker *earliest(lac_sim *sim) {
  lac_sim_worker *found = &sim->workers[0];
  for (int i = 1; i < sim->size; i++) {
    if (sim->workers[i].time < found->time) {
      found = &sim->workers[i];
    }
  }
  return found;
}

static void sim_enter(void *link) {
  lac_sim_worker *self = link;
  while (sem_wait(&self->baton) != 0) { /* a signal */
  }
}

/* The clock goes on; the baton stays. */
static void advance(lac_sim_worker *self, double time) {
  double now = self->time;
  self->time = time;
  self->ahead = true;
  notice_interrupt(self->sim, now);
}

/* Returns when it is this worker's turn: at its time, or earlier when something wakes it. */
static void take_turn(lac_sim_worker *self) {
  if (!self->ahead) {
    return;
  }
  self->ahead = false;
  lac_sim_worker *next = earliest(self->sim);
  if (next != self) {
    sem_post(&next->baton);
    sim_enter(self);
  }
}

static void sim_leave(void *link) {
  lac_sim_worker *self = link;
  double now = self->time;
  self->time = HUGE_VAL;
  notice_interrupt(self->sim, now);
  lac_sim_worker *next = earliest(self->sim);
  if (next->time < HUGE_VAL) {
    sem_post(&next->baton);
  }
}

/* ---- the clock ---- */

static double sim_now(void *link) {
  return ((const lac_sim_worker *)link)->time;
}

static void sim_spend(void *link, double seconds) {
  lac_sim_worker *self = link;
  const lac_sim *sim = self->sim;
  uint64_t number = self->spends++;
  double span = isfinite(seconds) && seconds > 0 ? seconds / self->speed : 0;
  if (sim->spread > 0) {
    lac_random stream = lac_random_stream(sim->cluster.seed, LAC_RANDOM_SIMULATION, (uint64_t)self->rank, number);
    span *= exp(sim->spread * lac_random_normal(&stream) - 0.5 * sim->spread * sim->spread);
  }
  double until = self->time + span;
  advance(self, isfinite(until) ? until : self->time); /* infinite is the time of those that have ended */
}

static void sim_miss(void *link) {
  lac_sim_worker *self = link;
  advance(self, self->time + LAC_POLL_SECONDS);
}

static void sim_wait(void *link, double seconds) {
  lac_sim_worker *self = link;
  double until = self->time + seconds;
  if (self->first && self->first->due < until) {
    until = self->first->due;
  }
  if (until > self->time) {
    self->waits = true;
    advance(self, until);
    take_turn(self);
    self->waits = false;
  }
}

/* ---- packets ---- */

static void put_on_its_way(lac_sim_worker *to, lac_packet *packet) {
  if (!to->first || to->last->due <= packet->due) {
    *(to->first ? &to->last->next : &to->first) = packet;
    to->last = packet;
    return;
  }
  lac_packet **at = &to->first;
  while ((*at)->due <= packet->due) {
    at = &(*at)->next;
  }
  packet->next = *at;
  *at = packet;
}

static lac_status sim_send(void *link, lac_context *context, int to, int tag, const void *data, size_t bytes) {
  lac_sim_worker *self = link, *receiver = &self->sim->workers[to];
  const lac_cluster *cluster = &self->sim->cluster;
  lac_packet *packet;
  take_turn(self);
  LAC_TRY(lac_packet_copy(context, self->rank, tag, data, bytes, &packet));
  self->link_free = fmax(self->time, self->link_free);
  if (cluster->bandwidth > 0) {
    self->link_free += (double)bytes / cluster->bandwidth;
  }
  packet->due = self->link_free + cluster->latency;
  put_on_its_way(receiver, packet);
  if (receiver->waits && packet->due < receiver->time) {
    receiver->time = packet->due;
  }
  return LAC_OK;
}

static lac_status sim_fetch(void *link, lac_context *context, lac_packet **arrived) {
  lac_sim_worker *self = link;
  (void)context;
  take_turn(self);
  *arrived = self->first;
  lac_packet **at = arrived;
  while (*at && (*at)->due <= self->time) {
    at = &(*at)->next;
  }
  self->first = *at;
  *at = NULL;
  return LAC_OK;
}

static const lac_backend sim_backend = {.name = "sim",
                                        .packet_limit = SIZE_MAX,
                                        .slice = HUGE_VAL,
                                        .send = sim_send,
                                        .fetch = sim_fetch,
                                        .wait = sim_wait,
                                        .now = sim_now,
                                        .enter = sim_enter,
                                        .leave = sim_leave,
                                        .spend = sim_spend,
                                        .miss = sim_miss};

/* ---- a run ---- */

static lac_status check_cluster(lac_context *context, const lac_cluster *cluster, int size) {
  const double values[] = {cluster->latency, cluster->bandwidth, cluster->jitter};
  static const char *const names[] = {"latency", "bandwidth", "jitter"};
  for (int i = 0; i < 3; i++) {
    if (!isfinite(values[i]) || values[i] < 0) {
      return lac_fail(context, LAC_E_USAGE, "%s: found %g, expected a finite number of 0 or more", names[i], values[i]);
    }
  }
  for (int i = 0; cluster->speeds && i < size; i++) {
    if (!isfinite(cluster->speeds[i]) || cluster->speeds[i] <= 0) {
      return lac_fail(context, LAC_E_USAGE, "speed of worker %d: found %g, expected a finite number above 0", i,
                      cluster->speeds[i]);
    }
  }
  return LAC_OK;
}

lac_status lac_sim_run(lac_context *context, const lac_world_options *options, lac_world_fn body, void *argument) {
  lac_sim sim = {.context = context};
  lac_status status = LAC_OK;
  int opened = 0;
  LAC_TRY(lac_world_size_of(context, options, &sim.size));
  if (options->cluster) {
    sim.cluster = *options->cluster;
  }
  LAC_TRY(check_cluster(context, &sim.cluster, sim.size));
  sim.spread = sqrt(log1p(sim.cluster.jitter * sim.cluster.jitter));
  LAC_TRY(LAC_NEW(context, sim.size, &sim.workers));
  for (; opened < sim.size; opened++) {
    lac_sim_worker *worker = &sim.workers[opened];
    worker->sim = &sim;
    worker->rank = opened;
    worker->speed = sim.cluster.speeds ? sim.cluster.speeds[opened] : 1;
    if (sem_init(&worker->baton, 0, opened == 0) != 0) { /* worker 0 is the first to run */
      status = lac_fail(context, LAC_E_MEMORY, "cannot make the baton of worker %d", opened);
      break;
    }
  }
  if (!status) {
    status = lac_threads_run(context, options, &sim_backend, sim.workers, sizeof *sim.workers, body, argument);
  }
  for (int i = 0; i < opened; i++) {
    lac_packets_drop(sim.workers[i].first);
    sem_destroy(&sim.workers[i].baton);
  }
  lac_free(sim.workers);
  return status;
}
