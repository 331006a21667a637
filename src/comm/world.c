#include "laconic/world.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/backend.h"

bool lac_world_launched(void) {
  if (lac_world_smpi()) {
    return true; /* there is no other way to start such a program */
  }
  return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || (getenv("PMI_RANK") && getenv("PMI_SIZE"));
}

static lac_status check_options(lac_context *context, const lac_world_options *options, bool *mpi) {
  const char *name = options->backend;
  *mpi = false;
  if (name && strcmp(name, "local") != 0 && strcmp(name, "mpi") != 0 && strcmp(name, "sim") != 0) {
    return lac_fail(context, LAC_E_USAGE, "backend: found \"%s\", expected local, mpi or sim", name);
  }
  if (options->workers < 0 || options->timeout_ms < 0 || options->delay_limit_us < 0) {
    return lac_fail(context, LAC_E_USAGE, "%s: found %lld, expected 0 or more",
                    options->workers < 0      ? "workers"
                    : options->timeout_ms < 0 ? "timeout"
                                              : "delay limit",
                    (long long)(options->workers < 0      ? options->workers
                                : options->timeout_ms < 0 ? options->timeout_ms
                                                          : options->delay_limit_us));
  }
  *mpi = name ? strcmp(name, "mpi") == 0 : lac_world_launched();
#ifndef LACONIC_HAVE_MPI
  if (*mpi) {
    return lac_fail(context, LAC_E_UNSUPPORTED, "backend: mpi is not part of this build%s",
                    name ? "" : ", but an MPI launcher started this process");
  }
#endif
  if (!*mpi && options->workers > LAC_WORKERS_LIMIT) {
    return lac_fail(context, LAC_E_USAGE, "workers: found %lld, expected at most %d threads of one process",
                    (long long)options->workers, LAC_WORKERS_LIMIT);
  }
  return LAC_OK;
}

lac_status lac_world_size_of(lac_context *context, const lac_world_options *options, int *size) {
  bool mpi;
  LAC_TRY(check_options(context, options, &mpi));
#ifdef LACONIC_HAVE_MPI
  if (mpi) {
    LAC_TRY(lac_mpi_size(context, size));
    if (options->workers != 0 && options->workers != *size) {
      return lac_fail(context, LAC_E_USAGE, "workers: found %lld, expected the %d ranks that MPI started",
                      (long long)options->workers, *size);
    }
    return LAC_OK;
  }
#endif
  *size = options->workers == 0 ? 1 : (int)options->workers;
  return LAC_OK;
}

lac_status lac_world_run(lac_context *context, const lac_world_options *options, lac_world_fn body, void *argument) {
  bool mpi;
  LAC_TRY(check_options(context, options, &mpi));
#ifdef LACONIC_HAVE_MPI
  if (mpi) {
    return lac_mpi_run(context, options, body, argument);
  }
#endif
  bool sim = options->backend && strcmp(options->backend, "sim") == 0;
  return (sim ? lac_sim_run : lac_local_run)(context, options, body, argument);
}

int64_t lac_world_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
  }
  long cores = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
  return cores > 0 ? cores : 1;
}

bool lac_world_alone(void) {
#ifdef LACONIC_HAVE_MPI
  return lac_mpi_alone();
#else
  return false;
#endif
}

void lac_world_finish(void) {
#ifdef LACONIC_HAVE_MPI
  lac_mpi_finish();
#endif
}

lac_status lac_world_open(lac_context *context, const lac_world_options *options, const lac_backend *backend,
                          void *link, int rank, int size, lac_world *world) {
  double timeout = options->timeout_ms ? 1e-3 * (double)options->timeout_ms : LAC_TIMEOUT_DEFAULT;
  *world = (lac_world){.backend = backend,
                       .link = link,
                       .context = context,
                       .rank = rank,
                       .size = size,
                       .timeout = backend->endless ? HUGE_VAL : timeout,
                       .delay_seed = options->delay_seed,
                       .delay_limit = 1e-6 * (double)options->delay_limit_us,
                       .packet_limit = backend->packet_limit,
                       .failed = -1,
                       .waits_for = LAC_NOT_WAITING,
                       .awaited = -1};
  LAC_TRY(LAC_NEW(context, size, &world->senders));
  lac_status status = LAC_NEW(context, size, &world->sent);
  if (status) {
    lac_free(world->senders);
  }
  return status;
}

lac_status lac_packet_copy(lac_context *context, int from, int tag, const void *data, size_t bytes,
                           lac_packet **packet) {
  lac_packet *made = calloc(1, sizeof *made);
  void *copy = bytes ? malloc(bytes) : NULL;
  if (!made || (bytes && !copy)) {
    free(made);
    free(copy);
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a message of %zu bytes", bytes);
  }
  if (bytes) {
    memcpy(copy, data, bytes);
  }
  made->message = (lac_message){.from = from, .tag = tag, .bytes = bytes, .data = copy};
  *packet = made;
  return LAC_OK;
}

void lac_packets_drop(lac_packet *first) {
  while (first) {
    lac_packet *packet = first;
    first = packet->next;
    free(packet->message.data);
    free(packet);
  }
}

void lac_world_close(lac_world *world) {
  lac_packets_drop(world->inbox);
  for (int i = 0; i < world->size; i++) {
    lac_packets_drop(world->senders[i].partial);
  }
  lac_free(world->senders);
  lac_free(world->sent);
}

int lac_world_rank(const lac_world *world) {
  return world->rank;
}
int lac_world_size(const lac_world *world) {
  return world->size;
}
const char *lac_world_backend(const lac_world *world) {
  return world->backend->name;
}
lac_context *lac_world_context(lac_world *world) {
  return world->context;
}
int64_t lac_world_step(lac_world *world) {
  return world->steps++;
}

void lac_world_leave(lac_world *world) {
  world->left = true;
}

bool lac_world_left(const lac_world *world) {
  return world->left;
}

lac_counts lac_world_counts(const lac_world *world) {
  return world->counts;
}
double lac_world_now(const lac_world *world) {
  return world->backend->now(world->link);
}

bool lac_world_smpi(void) {
#ifdef LACONIC_SMPI
  return true;
#else
  return false;
#endif
}

void lac_world_spend(lac_world *world, double seconds) {
  if (world->backend->spend) {
    world->backend->spend(world->link, seconds);
  }
}

/* Tells every other worker why this one ends. A worker that cannot be told finds out by its own deadline. */
static void notify(lac_world *world, const lac_outcome *outcome) {
  for (int to = 0; to < world->size; to++) {
    if (to != world->rank) {
      lac_status status = lac_world_packet(world, to, LAC_TAG_FAILURE, outcome, sizeof *outcome);
      (void)status;
    }
  }
}

void lac_world_body(lac_world *world, lac_world_fn body, void *argument, lac_outcome *outcome) {
  lac_status status = body(world, argument);
  *outcome = (lac_outcome){.status = (int32_t)status, .awaited = -1};
  if (!status) {
    return;
  }
  const char *line = lac_context_message(world->context);
  memccpy(outcome->line, *line ? line : lac_status_text(status), 0, sizeof outcome->line - 1);
  /* A failure that another worker's notice or lac_world_agree brought here, or that came after one, is an echo. */
  lac_status drained = lac_world_drain(world);
  (void)drained;
  bool repeats = world->agreed == status && strcmp(world->agreed_line, outcome->line) == 0;
  outcome->echo = world->failed >= 0 || repeats;
  outcome->awaited = status == LAC_E_TIMEOUT ? world->awaited : -1;
  if (!outcome->echo) {
    notify(world, outcome);
  }
}

int lac_world_verdict(const lac_outcome *outcomes, int size) {
  int first = -1;
  for (int i = size - 1; i >= 0; i--) {
    if (outcomes[i].status && (first < 0 || !outcomes[i].echo || outcomes[first].echo)) {
      first = i;
    }
  }
  for (int i = 0; first >= 0 && i < size; i++) {
    int awaited = outcomes[first].awaited;
    if (awaited < 0 || !outcomes[awaited].status || outcomes[awaited].echo) {
      break;
    }
    first = awaited;
  }
  return first;
}
