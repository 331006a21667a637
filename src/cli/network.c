#include "cli/network.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lac_status read_file(lac_session *session, const char *path, FILE *file, char **layers) {
  enum { MOST = 1 << 20 };
  char *text = calloc(1, MOST + 2);
  size_t bytes = text ? fread(text, 1, MOST + 1, file) : 0;
  bool failed = ferror(file);
  if (!text || failed || bytes > MOST || memchr(text, 0, bytes)) {
    free(text);
    return !text    ? lac_fail(session->context, LAC_E_MEMORY, "cannot allocate a description")
           : failed ? lac_fail(session->context, LAC_E_INPUT, "%s: cannot be read; expected a description", path)
                    : lac_fail(session->context, LAC_E_INPUT,
                               "%s: found %s, expected text of at most %d bytes that describes layers", path,
                               bytes > MOST ? "a larger file" : "a zero byte", MOST);
  }
  *layers = text;
  return LAC_OK;
}

lac_status lac_network_read(lac_session *session, const char *model, double width, char **layers) {
  *layers = NULL;
  if (!strpbrk(model, "./")) {
    return lac_net_builtin(session->context, model, width, layers);
  }
  FILE *file;
  do { /* a pipe is waited for */
    file = fopen(model, "r");
  } while (!file && errno == EINTR && !lac_context_interrupted(session->context));
  if (!file && errno == EINTR) {
    return lac_fail(session->context, LAC_E_INTERRUPTED, "interrupted");
  }
  if (!file) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: %s; expected a description of layers", model, strerror(errno));
  }
  lac_status status = read_file(session, model, file, layers);
  fclose(file);
  return status;
}

/* ---- mixing ---- */

/* Whether sampling ends within seconds: mixing takes period / slack times as long as without, and more on a ring or
 * path of more workers. */
static bool samples_soon(const lac_process *process) {
  enum { MOST = 64 };
  double n = (double)lac_process_workers(process);
  return n * n * n * (double)lac_process_period(process) <= (double)MOST * MOST * MOST * lac_process_slack(process);
}

static bool is_foretold(const lac_process *process, const lac_mixing_options *options) {
  const lac_topology *topology = lac_process_topology(process);
  if (lac_protocol_asynchronous(lac_process_protocol(process))) {
    return samples_soon(process);
  }
  return !topology || lac_topology_phases(topology) == 1 || lac_process_workers(process) <= options->dense;
}

lac_status lac_mixing_foretell(lac_context *context, const lac_replica_options *replica, int workers,
                               lac_mixing_time *time) {
  const lac_mixing_options options = {.precision = 0.02, .samples = 1024, .dense = 1024};
  lac_status status = LAC_OK;
  lac_process *process;
  *time = (lac_mixing_time){.kind = LAC_MIXING_AUTO, .rounds = NAN, .lower = NAN, .upper = NAN};
  if (workers == 1) {
    return LAC_OK;
  }
  CLI_TRY(lac_replica_process(context, replica, workers, &process));
  if (is_foretold(process, &options)) {
    status = lac_mixing_time_of(context, process, &options, time);
  } else if (lac_protocol_asynchronous(lac_process_protocol(process))) {
    time->kind = LAC_MIXING_REALISED;
  }
  lac_process_destroy(&process);
  return status;
}
