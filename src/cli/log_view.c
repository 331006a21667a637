#include "cli/log_view.h"

#include <stdio.h>

enum { EVENT_LIMIT = 64 };

void lac_log_view_print(lac_session *session) {
  if (session->silent) {
    return;
  }
  lac_event events[EVENT_LIMIT];
  int count = lac_profile_events(session->context, events, EVENT_LIMIT);
  count = count < EVENT_LIMIT ? count : EVENT_LIMIT;
  fprintf(stderr, "%-20s %9s %10s %10s %10s %10s %10s %14s %9s\n", "event", "count", "seconds", "least", "mean", "most",
          "messages", "bytes", "GFLOP/s");
  for (int i = 0; i < count; i++) {
    const lac_event *event = &events[i];
    fprintf(stderr, "%-20s %9lld %10.4f %10.6f %10.6f %10.6f %10lld %14lld", event->name, (long long)event->count,
            event->seconds, event->least, event->seconds / (double)event->count, event->most,
            (long long)event->messages, (long long)event->bytes);
    if (event->flops > 0 && event->seconds > 0) {
      fprintf(stderr, " %9.2f\n", 1e-9 * event->flops / event->seconds);
    } else {
      fprintf(stderr, " %9s\n", "-");
    }
  }
}
