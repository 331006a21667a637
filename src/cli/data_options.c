#include "cli/data_options.h"

#include <inttypes.h>
#include <sched.h>
#include <unistd.h>

const char *const lac_part_names[] = {"train", "test", NULL};

lac_status lac_require_data(lac_session *session, const char *command, const char *data) {
  if (!data) {
    return lac_fail(session->context, LAC_E_USAGE, "%s: option --data is missing", command);
  }
  return LAC_OK;
}

int64_t lac_online_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
  }
  long cores = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
  return cores > 0 ? cores : 1;
}

int64_t lac_threads_of(int64_t option) {
  return option > 0 ? option : lac_online_cores();
}

lac_status lac_require_output(lac_session *session, const char *command, const char *path) {
  if (!path) {
    return lac_fail(session->context, LAC_E_USAGE, "%s: option -o is missing, expected the name of the output",
                    command);
  }
  return LAC_OK;
}

lac_status lac_check_columns(lac_session *session, const char *model_path, const lac_hash *model,
                             const lac_dataset *dataset) {
  if (lac_dataset_columns(dataset) != lac_hash_columns(model)) {
    return lac_fail(session->context, LAC_E_INPUT,
                    "%s: found %" PRId64 " columns, expected %" PRId64 " as in the model %s", lac_dataset_path(dataset),
                    lac_dataset_columns(dataset), lac_hash_columns(model), model_path);
  }
  return LAC_OK;
}

lac_status lac_open_rows(lac_session *session, const char *path, const char *format, int64_t limit,
                         lac_dataset **dataset) {
  lac_dataset *whole;
  *dataset = NULL;
  CLI_TRY(lac_dataset_open(session->context, path, format, &whole));
  if (limit == 0 || limit >= lac_dataset_rows(whole)) {
    *dataset = whole;
    return LAC_OK;
  }
  lac_status status = lac_dataset_slice(session->context, whole, 0, limit, dataset);
  lac_dataset_destroy(&whole);
  return status;
}
