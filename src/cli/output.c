#include "cli/output.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/progress.h"

enum { SAY_BYTES = 8192 }; /* of a line on stderr */
enum { JSON_DIGITS = 12, STDOUT_BYTES = 1 << 16 };

double lac_clock_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

lac_status lac_session_allocate(lac_session *session, int64_t count, size_t size, void **memory) {
  *memory = count < 0 ? NULL : calloc(count ? (size_t)count : 1, size);
  if (!*memory) {
    return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate %lld elements of %zu bytes", (long long)count,
                    size);
  }
  return LAC_OK;
}

static void log_line(void *user, lac_log_level level, const char *line) {
  lac_session *session = user;
  lac_say(session, "%s%s", level == LAC_LOG_WARNING ? "warning: " : "", line);
}

lac_status lac_session_open(lac_session *session) {
  *session = (lac_session){.ranks = 1};
  lac_status status = lac_context_create(&session->context);
  if (status) {
    return status;
  }
  pthread_mutex_init(&session->lock, NULL);
  session->terminal = isatty(STDERR_FILENO) == 1;
  if (isatty(STDOUT_FILENO) != 1) {
    /* Help and the manual page go out in one piece, at the end, where the reason of a failure is known. */
    setvbuf(stdout, NULL, _IOFBF, STDOUT_BYTES);
  }
  lac_session_set_modes(session, false, false, false);
  return LAC_OK;
}

void lac_session_close(lac_session *session) {
  lac_progress_clear(session);
  lac_context_destroy(&session->context);
  pthread_mutex_destroy(&session->lock);
}

void lac_session_set_modes(lac_session *session, bool json, bool quiet, bool verbose) {
  session->json = json;
  session->quiet = quiet;
  session->verbose = verbose;
  session->terminal = session->terminal && !quiet;
  lac_log_level level = quiet ? LAC_LOG_ERROR : verbose ? LAC_LOG_DEBUG : LAC_LOG_WARNING;
  lac_context_set_log(session->context, level, session->silent ? NULL : log_line, session);
}

void lac_say(lac_session *session, const char *format, ...) {
  if (session->silent) {
    return;
  }
  static const char prefix[] = "laconic: ";
  char line[SAY_BYTES];
  size_t room = sizeof line - sizeof prefix; /* what is left beside the prefix and the line's end */
  va_list arguments;
  memcpy(line, prefix, sizeof prefix);
  va_start(arguments, format);
  vsnprintf(line + sizeof prefix - 1, room, format, arguments);
  va_end(arguments);
  size_t length = strlen(line);
  line[length++] = '\n';
  pthread_mutex_lock(&session->lock);
  lac_progress_erase(session);
  fwrite(line, 1, length, stderr); /* in one piece, so that the lines of several ranks do not mix */
  pthread_mutex_unlock(&session->lock);
}

/* What an interrupt kept from being written stays in the buffer and is no failure. */
static void keep_error(lac_session *session, bool failed) {
  if (failed && errno == EINTR && (session->stop || lac_context_interrupted(session->context))) {
    clearerr(stdout);
    return;
  }
  if (failed && session->print_error == 0) {
    session->print_error = errno ? errno : EIO;
  }
}

/* Names and texts from files are part of what is printed: no control character but the line's end comes through. */
static void keep_printable(char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if ((c < ' ' || c == 0x7F) && (c != '\n' || text[1])) {
      *text = '?';
    }
  }
}

static void print_text(lac_session *session, const char *format, va_list arguments) {
  char *text;
  lac_progress_clear(session);
  errno = 0;
  if (vasprintf(&text, format, arguments) < 0) {
    keep_error(session, true);
    return;
  }
  keep_printable(text);
  keep_error(session, fputs(text, stdout) < 0);
  free(text);
}

void lac_print(lac_session *session, const char *format, ...) {
  if (!session->silent && !session->json) {
    va_list arguments;
    va_start(arguments, format);
    print_text(session, format, arguments);
    va_end(arguments);
  }
}

void lac_print_note(lac_session *session, const char *format, ...) {
  if (!session->silent && !session->json && !session->quiet) {
    va_list arguments;
    va_start(arguments, format);
    print_text(session, format, arguments);
    va_end(arguments);
  }
}

void lac_print_json(lac_session *session, json_t *object) {
  errno = ENOMEM;
  keep_error(session, !object);
  if (object && !session->silent && session->json) {
    lac_progress_clear(session);
    errno = 0;
    /* flushed, so that whoever follows a long run sees each line when it is due */
    bool failed = json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(JSON_DIGITS)) != 0;
    failed = fputc('\n', stdout) == EOF || failed;
    failed = fflush(stdout) != 0 || failed;
    keep_error(session, failed);
  }
  json_decref(object);
}

json_t *lac_json_real(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

json_t *lac_json_text(const char *text) {
  json_t *value = json_string(text);
  if (value) {
    return value;
  }
  char *plain = strdup(text);
  if (!plain) {
    return NULL;
  }
  for (char *c = plain; *c; c++) {
    *c = (unsigned char)*c < 0x80 ? *c : '?';
  }
  value = json_string(plain);
  free(plain);
  return value;
}

json_t *lac_json_nested(const char *text) {
  json_t *value = *text == '{' || *text == '[' ? json_loads(text, 0, NULL) : NULL;
  return value ? value : lac_json_text(text);
}

lac_status lac_print_finish(lac_session *session) {
  errno = 0;
  keep_error(session, fflush(stdout) != 0 || ferror(stdout));
  if (session->print_error) {
    return lac_fail(session->context, LAC_E_IO, "standard output: writing failed: %s", strerror(session->print_error));
  }
  return LAC_OK;
}

const char *lac_bytes_text(double bytes, char text[32]) {
  static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
  int unit = 0;
  while (bytes >= 999.5 && unit < 5) {
    bytes /= 1000;
    unit++;
  }
  snprintf(text, 32, unit && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

const char *lac_percent_text(double fraction, char text[32]) {
  snprintf(text, 32, isfinite(fraction) ? "%.2f %%" : "-", 100 * fraction);
  return text;
}
