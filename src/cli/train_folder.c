#include "cli/train_folder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static lac_status adopt(lac_session *session, const char *path, int64_t lines, lac_train_folder *folder) {
  *folder = (lac_train_folder){.path = strdup(path), .lines = lines};
  return folder->path ? LAC_OK : lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the name of a folder");
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
  *folder = (lac_train_folder){0};
  if (mkdir(path, 0777) != 0 && errno != EEXIST) {
    return lac_fail(session->context, LAC_E_OUTPUT, "%s: cannot make the folder of the run: %s", path, strerror(errno));
  }
  for (int i = 0; i < OWN_NAMES; i++) {
    CLI_TRY(lac_train_folder_file(session, path, own_names[i], file, sizeof file));
    if (unlink(file) != 0 && errno != ENOENT) {
      return lac_fail(session->context, LAC_E_OUTPUT, "%s: cannot be replaced: %s", file, strerror(errno));
    }
  }
  lac_train_options kept = *options;
  kept.overwrite = false; /* nobody wants that of a run that is taken up */
  CLI_TRY(write_options(session, &kept, path));
  return adopt(session, path, 0, folder);
}

/* The first `lines` lines of a file, as many as there are; *text is malloc'ed. */
static lac_status read_lines(lac_session *session, const char *file, int64_t lines, char **text) {
  FILE *stream = fopen(file, "r");
  size_t held = 0, room = 65536;
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
  if (stream) {
    fclose(stream);
  }
  return *text ? LAC_OK : lac_fail(session->context, LAC_E_MEMORY, "cannot allocate the lines of %s", file);
}

lac_status lac_train_folder_reopen(lac_session *session, const lac_train_options *options, const char *path,
                                   int64_t lines, lac_train_folder *folder) {
  lac_train_options kept = *options;
  kept.resume = NULL;
  kept.overwrite = false;
  char file[PATH_MAX], *text;
  *folder = (lac_train_folder){0};
  CLI_TRY(lac_train_folder_file(session, path, metrics_name, file, sizeof file));
  CLI_TRY(read_lines(session, file, lines, &text));
  lac_status status = write_text(session, file, text);
  free(text);
  if (!status) {
    status = write_options(session, &kept, path);
  }
  return status ? status : adopt(session, path, lines, folder);
}

void lac_train_folder_close(lac_train_folder *folder) {
  free(folder->path);
  *folder = (lac_train_folder){0};
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
