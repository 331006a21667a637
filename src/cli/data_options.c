#include "cli/data_options.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const lac_part_names[] = {"train", "test", NULL};

lac_status lac_require_data(lac_session *session, const char *command, const char *data) {
  if (!data) {
    return lac_fail(session->context, LAC_E_USAGE, "%s: option --data is missing", command);
  }
  return LAC_OK;
}

int64_t lac_threads_of(int64_t option) {
  return option > 0 ? option : lac_world_cores();
}

FILE *lac_open_regular(const char *path) {
  struct stat about;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  FILE *file =
      descriptor >= 0 && fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) ? fdopen(descriptor, "rb") : NULL;
  if (!file && descriptor >= 0) {
    close(descriptor);
  }
  return file;
}

lac_status lac_require_output(lac_session *session, const char *command, const char *path) {
  if (!path) {
    return lac_fail(session->context, LAC_E_USAGE, "%s: option -o is missing, expected the name of the output",
                    command);
  }
  return LAC_OK;
}

/* What a path leads to; FILE.h5:NAME to FILE.h5. */
static bool find_file(const char *path, struct stat *about) {
  char file[PATH_MAX];
  const char *colon = strrchr(path, ':');
  if (stat(path, about) == 0) {
    return true;
  }
  return colon && snprintf(file, sizeof file, "%.*s", (int)(colon - path), path) < PATH_MAX && stat(file, about) == 0;
}

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A path's folder and the name in it. */
static const char *split_path(const char *path, char folder[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  return slash ? slash + 1 : path;
}

static bool lead_to_one(const char *a, const char *b) {
  struct stat about_a, about_b;
  bool found_a = find_file(a, &about_a), found_b = find_file(b, &about_b);
  if (found_a && found_b) {
    return S_ISREG(about_a.st_mode) && same_file(&about_a, &about_b); /* nothing is lost in a device or a pipe */
  }
  char folder_a[PATH_MAX], folder_b[PATH_MAX];
  return !found_a && !found_b && strcmp(split_path(a, folder_a), split_path(b, folder_b)) == 0 &&
         stat(folder_a, &about_a) == 0 && stat(folder_b, &about_b) == 0 && same_file(&about_a, &about_b);
}

lac_status lac_check_apart(lac_session *session, const lac_file_use *files, int count) {
  for (int i = 0; i < count; i++) {
    for (int j = 0; j < count && files[i].path && files[i].written; j++) {
      bool once = !files[j].written || j < i; /* each pair once */
      if (j != i && once && files[j].path && lead_to_one(files[i].path, files[j].path)) {
        return lac_fail(session->context, LAC_E_USAGE, "%s: found '%s', which is also %s, expected another file",
                        files[i].name, files[i].path, files[j].name);
      }
    }
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
