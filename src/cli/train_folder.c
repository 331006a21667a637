#include "cli/train_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/data_options.h"

static const char options_name[] = "options.json", metrics_name[] = "metrics.jsonl";
static const char *const own_names[] = {options_name, metrics_name, "checkpoint.safetensors", "best.safetensors",
                                        "last.safetensors"};
enum { OWN_NAMES = sizeof own_names / sizeof *own_names };

lac_status lac_train_folder_name(lac_session *session, const lac_train_options *options, char **path) {
  static const char ending[] = ".safetensors", folder[] = ".run";
  const char *base = options->run ? options->run : options->output;
  size_t length = strlen(base), cut = sizeof ending - 1;
  bool ends = !options->run && length > cut && strcmp(base + length - cut, ending) == 0;
  char *name = malloc(length + sizeof folder);
  if (!name) {
    return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the name of a folder");
  }
  memcpy(name, base, length + 1);
  if (!options->run) {
    memcpy(name + (ends ? length - cut : length), folder, sizeof folder);
  }
  *path = name;
  return LAC_OK;
}

lac_status lac_train_folder_file(lac_session *session, const char *path, const char *name, char *full, size_t bytes) {
  int length = snprintf(full, bytes, "%s/%s", path, name);
  if (length < 0 || (size_t)length >= bytes) {
    return lac_fail(session->context, LAC_E_USAGE, "%.60s...: found a path of %d bytes, expected fewer than %zu", path,
                    length, bytes);
  }
  return LAC_OK;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

/* All groups but the common one, as one object. */
static lac_status options_object(lac_session *session, const lac_train_options *options, json_t **object) {
  *object = json_object();
  for (const lac_option_group *group = lac_command_train.groups; group->title; group++) {
    char *text;
    lac_status status =
        lac_options_json(session->context, lac_group_options(group), (const char *)options + group->offset, &text);
    json_t *part = status ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
    int merged = part ? json_object_update(*object, part) : -1;
    json_decref(part);
    if (!status) {
      free(text);
    }
    if (status || merged) {
      json_decref(*object);
      *object = NULL;
      return status ? status : lac_fail(session->context, LAC_E_MEMORY, "cannot build the options as JSON");
    }
  }
  return LAC_OK;
}

static lac_status write_text(lac_session *session, const char *path, const char *text) {
  lac_output output;
  CLI_TRY(lac_output_open(session->context, path, &output));
  lac_status status = lac_output_write(session->context, &output, text, strlen(text));
  if (!status) {
    status = lac_output_commit(session->context, &output);
  }
  lac_output_discard(&output);
  return status;
}

static lac_status write_options(lac_session *session, const lac_train_options *options, const char *path) {
  char file[PATH_MAX];
  json_t *object;
  CLI_TRY(lac_train_folder_file(session, path, options_name, file, sizeof file));
  CLI_TRY(options_object(session, options, &object));
  json_t *whole = json_pack("{s:s, s:s, s:o}", "command", "train", "version", lac_version(), "options", object);
  char *text = whole ? json_dumps(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
  lac_status status = text ? write_text(session, file, text)
                           : lac_fail(session->context, LAC_E_MEMORY, "cannot build the options as JSON");
  free(text);
  json_decref(whole);
  return status;
}

/* A JSON value as the text that lac_options_set takes; *text is malloc'ed, NULL for what stays unset. */
static char *text_of(const json_t *value) {
  if (json_is_string(value)) {
    return strdup(json_string_value(value));
  }
  if (json_is_boolean(value)) {
    return strdup(json_is_true(value) ? "true" : "false");
  }
  return json_is_number(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
}

static lac_status recall_group(lac_session *session, const lac_option_group *group, const char *file,
                               const json_t *stored, void *options) {
  for (const lac_option *option = lac_group_options(group); option->key; option++) {
    const json_t *value = json_object_get(stored, option->key);
    char *text = value ? text_of(value) : NULL;
    if (!text) {
      continue; /* unset, or an option that the version which wrote it did not have */
    }
    lac_status status =
        lac_options_set(session->context, lac_group_options(group), (char *)options + group->offset, option->key, text);
    free(text);
    if (status) {
      char line[512];
      snprintf(line, sizeof line, "%s", lac_context_message(session->context));
      return lac_fail(session->context, LAC_E_INPUT, "%s: %s", file, line);
    }
  }
  return LAC_OK;
}

lac_status lac_train_folder_recall(lac_session *session, const char *path, void *options) {
  char file[PATH_MAX];
  json_error_t error;
  CLI_TRY(lac_train_folder_file(session, path, options_name, file, sizeof file));
  if (access(file, R_OK) != 0) {
    return lac_fail(session->context, LAC_E_INPUT, "%s: %s; expected the folder of a run", file, strerror(errno));
  }
  json_t *whole = json_load_file(file, 0, &error);
  const json_t *stored = json_object_get(whole, "options"), *command = json_object_get(whole, "command");
  lac_status status = LAC_OK;
  if (!whole) {
    status = lac_fail(session->context, LAC_E_INPUT, "%s: line %d: %s", file, error.line, error.text);
  } else if (!json_is_object(stored) || !json_is_string(command) || strcmp(json_string_value(command), "train") != 0) {
    status = lac_fail(session->context, LAC_E_INPUT, "%s: found no options of the command train, expected them", file);
  }
  for (const lac_option_group *group = lac_command_train.groups; !status && group->title; group++) {
    status = recall_group(session, group, file, stored, options);
  }
  json_decref(whole);
  return status;
}

/* ---- the folder ------------------------------------------------------------------------------------------------- */

/* Holds the folder for this process, so that no two runs write into it. */
static lac_status hold(lac_session *session, const char *path, lac_train_folder *folder) {
  *folder = (lac_train_folder){.path = strdup(path), .lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder->path) {
    return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the name of a folder");
  }
  if (folder->lock >= 0 && flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return lac_fail(session->context, LAC_E_OUTPUT, "%s: found a run going on there, expected none", path);
  }
  return LAC_OK; /* where nothing can be locked, as on some network file systems, it goes on without */
}

/* Whether it is what a write of one of the own files has left, killed before its end: NAME.part-xxxxxxxx. */
static bool is_left_over(const char *name) {
  static const char part[] = ".part-";
  for (int i = 0; i < OWN_NAMES; i++) {
    size_t length = strlen(own_names[i]);
    const char *rest = name + length;
    if (strncmp(name, own_names[i], length) == 0 && strncmp(rest, part, sizeof part - 1) == 0 &&
        strlen(rest) == sizeof part - 1 + 8 && strspn(rest + sizeof part - 1, "0123456789abcdef") == 8) {
      return true;
    }
  }
  return false;
}

static void sweep(const char *path) {
  DIR *files = opendir(path);
  for (const struct dirent *file; files && (file = readdir(files));) {
    if (is_left_over(file->d_name)) {
      unlinkat(dirfd(files), file->d_name, 0);
    }
  }
  if (files) {
    closedir(files);
  }
}

lac_status lac_train_folder_apart(lac_session *session, const char *path, const char *output) {
  char file[PATH_MAX];
  for (int i = 0; i < OWN_NAMES; i++) {
    CLI_TRY(lac_train_folder_file(session, path, own_names[i], file, sizeof file));
    const lac_file_use files[] = {{"-o", output, true}, {"a file of the run's folder", file, false}};
    CLI_TRY(lac_check_apart(session, files, 2));
  }
  return LAC_OK;
}

static lac_status copy_stream(lac_session *session, FILE *from, const char *name, lac_output *to) {
  char block[65536];
  size_t got;
  while ((got = fread(block, 1, sizeof block, from)) > 0) {
    CLI_TRY(lac_output_write(session->context, to, block, got));
  }
  return ferror(from) ? lac_fail(session->context, LAC_E_IO, "%s: cannot be read: %s", name, strerror(errno)) : LAC_OK;
}

lac_status lac_train_folder_copy(lac_session *session, const char *path, const char *name, const char *output) {
  char file[PATH_MAX];
  lac_output to;
  CLI_TRY(lac_train_folder_file(session, path, name, file, sizeof file));
  FILE *from = fopen(file, "rb");
  if (!from) {
    return lac_fail(session->context, LAC_E_IO, "%s: cannot be read: %s", file, strerror(errno));
  }
  lac_status status = lac_output_open(session->context, output, &to);
  if (!status) {
    status = copy_stream(session, from, file, &to);
  }
  if (!status) {
    status = lac_output_commit(session->context, &to);
  }
  lac_output_discard(&to);
  fclose(from);
  return status;
}

lac_status lac_train_folder_check(lac_session *session, const lac_train_options *options, const char *path) {
  char file[PATH_MAX];
  struct stat about;
  if (stat(path, &about) != 0) {
    return lac_output_check(session->context, path); /* so that the folder can be made */
  }
  if (!S_ISDIR(about.st_mode)) {
    return lac_fail(session->context, LAC_E_OUTPUT, "%s: found a file, expected the folder of a run or nothing", path);
  }
  for (int i = 0; i < OWN_NAMES; i++) {
    CLI_TRY(lac_train_folder_file(session, path, own_names[i], file, sizeof file));
    CLI_TRY(lac_output_check(session->context, file));
    if (access(file, F_OK) == 0 && !options->overwrite) {
      return lac_fail(session->context, LAC_E_OUTPUT,
                      "%s: found a run there already, expected none: --resume goes on with it, --overwrite replaces it",
                      path);
    }
  }
  return LAC_OK;
}

lac_status lac_train_folder_create(lac_session *session, const lac_train_options *options, const char *path,
                                   lac_train_folder *folder) {
  char file[PATH_MAX];
  *folder = (lac_train_folder){.lock = -1};
  if (mkdir(path, 0777) != 0 && errno != EEXIST) {
    return lac_fail(session->context, LAC_E_OUTPUT, "%s: cannot make the folder of the run: %s", path, strerror(errno));
  }
  CLI_TRY(hold(session, path, folder));
  sweep(path);
  for (int i = 0; i < OWN_NAMES; i++) {
    CLI_TRY(lac_train_folder_file(session, path, own_names[i], file, sizeof file));
    if (unlink(file) != 0 && errno != ENOENT) {
      return lac_fail(session->context, LAC_E_OUTPUT, "%s: cannot be replaced: %s", file, strerror(errno));
    }
  }
  lac_train_options kept = *options;
  kept.overwrite = false; /* nobody wants that of a run that is taken up */
  return write_options(session, &kept, path);
}

/* The first *lines whole lines of a file, as many as there are, which *lines then says; *text is malloc'ed. */
static lac_status read_lines(lac_session *session, const char *file, int64_t *wanted, char **text) {
  FILE *stream = fopen(file, "r");
  size_t held = 0, room = 65536;
  int64_t lines = *wanted;
  *text = NULL;
  if (!stream && errno != ENOENT) {
    return lac_fail(session->context, LAC_E_IO, "%s: cannot be read: %s", file, strerror(errno));
  }
  *text = calloc(1, room);
  for (int c; stream && *text && lines > 0 && (c = fgetc(stream)) != EOF;) {
    if (held + 2 > room) {
      char *more = realloc(*text, room *= 2);
      if (!more) {
        free(*text);
      }
      *text = more;
      if (!more) {
        break;
      }
    }
    (*text)[held++] = (char)c;
    (*text)[held] = 0;
    lines -= c == '\n';
  }
  bool failed = stream && ferror(stream);
  if (stream) {
    fclose(stream);
  }
  if (failed) {
    free(*text);
    *text = NULL;
    return lac_fail(session->context, LAC_E_IO, "%s: cannot be read", file);
  }
  if (!*text) {
    return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the lines of %s", file);
  }
  char *end = strrchr(*text, '\n'); /* what was cut off in the middle goes */
  (*text)[end ? end + 1 - *text : 0] = 0;
  if (lines > 0) {
    lac_context_log(session->context, LAC_LOG_WARNING, "%s: found %" PRId64 " whole lines, expected %" PRId64, file,
                    *wanted - lines, *wanted);
  }
  *wanted -= lines;
  return LAC_OK;
}

lac_status lac_train_folder_reopen(lac_session *session, const lac_train_options *options, const char *path,
                                   int64_t lines, lac_train_folder *folder) {
  lac_train_options kept = *options;
  kept.resume = NULL;
  kept.overwrite = false;
  char file[PATH_MAX], *text;
  *folder = (lac_train_folder){.lock = -1};
  CLI_TRY(lac_train_folder_file(session, path, metrics_name, file, sizeof file));
  CLI_TRY(hold(session, path, folder));
  sweep(path);
  CLI_TRY(read_lines(session, file, &lines, &text));
  folder->lines = lines;
  lac_status status = write_text(session, file, text);
  free(text);
  if (!status) {
    status = write_options(session, &kept, path);
  }
  return status;
}

void lac_train_folder_close(lac_train_folder *folder) {
  if (folder->path && folder->lock >= 0) {
    close(folder->lock);
  }
  free(folder->path);
  *folder = (lac_train_folder){.lock = -1};
}

lac_status lac_train_folder_add(lac_context *context, lac_train_folder *folder, const json_t *line) {
  char file[PATH_MAX];
  snprintf(file, sizeof file, "%s/%s", folder->path, metrics_name);
  FILE *stream = fopen(file, "a");
  if (!stream) {
    return lac_fail(context, LAC_E_IO, "%s: cannot be written: %s", file, strerror(errno));
  }
  bool written = json_dumpf(line, stream, JSON_COMPACT | JSON_REAL_PRECISION(12)) == 0 && fputc('\n', stream) != EOF;
  written = fclose(stream) == 0 && written;
  if (!written) {
    return lac_fail(context, LAC_E_IO, "%s: cannot be written: %s", file, strerror(errno));
  }
  folder->lines++;
  return LAC_OK;
}
