#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double LEAST_INTERVAL = 0.1; /* seconds between two lines */

enum { LINE_BYTES = 256 };

static int terminal_width(void) {
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) {
    return 80;
  }
  return size.ws_col;
}

void lac_progress_show(lac_session *session, const char *format, ...) {
  if (!session->terminal || session->silent) {
    return;
  }
  char line[LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  pthread_mutex_lock(&session->lock);
  /* the last column stays free: writing there would scroll some terminals */
  fprintf(stderr, "\r%.*s\033[K", terminal_width() - 1, line);
  fflush(stderr);
  session->progress_shown = true;
  pthread_mutex_unlock(&session->lock);
}

void lac_progress_erase(lac_session *session) {
  if (session->progress_shown) {
    fputs("\r\033[K", stderr);
    fflush(stderr);
    session->progress_shown = false;
  }
}

void lac_progress_clear(lac_session *session) {
  pthread_mutex_lock(&session->lock);
  lac_progress_erase(session);
  pthread_mutex_unlock(&session->lock);
}

lac_progress_meter lac_progress_meter_begin(lac_session *session, const char *what) {
  return (lac_progress_meter){session, what, lac_clock_seconds(), 0};
}

void lac_progress_meter_update(void *user, double done) {
  lac_progress_meter *meter = user;
  double now = lac_clock_seconds(), spent = now - meter->begin;
  if (now - meter->shown < LEAST_INTERVAL) {
    return;
  }
  meter->shown = now;
  if (done <= 0 || spent < 1) {
    lac_progress_show(meter->session, "%s %.0f %%", meter->what, 100 * done);
    return;
  }
  char left[32];
  lac_progress_show(meter->session, "%s %.0f %%, %s left", meter->what, 100 * done,
                    lac_seconds_text(spent * (1 - done) / done, left));
}

const char *lac_seconds_text(double seconds, char text[32]) {
  long long whole = seconds > 0 && seconds < 1e15 ? (long long)(seconds + 0.5) : 0;
  if (whole >= 3600) {
    snprintf(text, 32, "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  } else if (whole >= 60) {
    snprintf(text, 32, "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    snprintf(text, 32, "%lld s", whole);
  }
  return text;
}
