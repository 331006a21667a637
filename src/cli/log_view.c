#include "cli/log_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

enum { EVENT_LIMIT = 64, NAME_BYTES = 32 };

/* An event of one process, as it travels. */
typedef struct event_record {
  char name[NAME_BYTES];
  int64_t count, messages, bytes;
  double seconds, most, flops; /* sum, longest single call */
} event_record;

/* An event over all processes. */
typedef struct event_row {
  event_record sum;
  double least, longest; /* seconds of the process with the fewest and the most */
  int processes;
} event_row;

typedef struct log_view {
  lac_session *session;
  event_record mine[EVENT_LIMIT];
  event_row rows[EVENT_LIMIT];
  int count;
} log_view;

static void take_events(log_view *view) {
  lac_event events[EVENT_LIMIT];
  int count = lac_profile_events(view->session->context, events, EVENT_LIMIT);
  for (int i = 0; i < count && i < EVENT_LIMIT; i++) {
    event_record *record = &view->mine[i];
    snprintf(record->name, sizeof record->name, "%s", events[i].name);
    record->count = events[i].count;
    record->messages = events[i].messages;
    record->bytes = events[i].bytes;
    record->seconds = events[i].seconds;
    record->most = events[i].most;
    record->flops = events[i].flops;
  }
}

static event_row *row_of(log_view *view, const char *name) {
  for (int i = 0; i < view->count; i++) {
    if (strcmp(view->rows[i].sum.name, name) == 0) {
      return &view->rows[i];
    }
  }
  if (view->count == EVENT_LIMIT) {
    return NULL;
  }
  event_row *made = &view->rows[view->count++];
  snprintf(made->sum.name, sizeof made->sum.name, "%s", name);
  return made;
}

/* records (EVENT_LIMIT) are those of one process; an unused one has no count. */
static void add_process(log_view *view, const event_record *records) {
  for (int i = 0; i < EVENT_LIMIT && records[i].count > 0; i++) {
    event_row *row = row_of(view, records[i].name);
    if (row) {
      bool first = row->processes++ == 0;
      row->least = first || records[i].seconds < row->least ? records[i].seconds : row->least;
      row->longest = first || records[i].seconds > row->longest ? records[i].seconds : row->longest;
      row->sum.count += records[i].count;
      row->sum.messages += records[i].messages;
      row->sum.bytes += records[i].bytes;
      row->sum.seconds += records[i].seconds;
      row->sum.flops += records[i].flops;
      row->sum.most = records[i].most > row->sum.most ? records[i].most : row->sum.most;
    }
  }
}

static void print_table(const log_view *view, int processes) {
  fprintf(stderr, "%-18s %8s %10s %11s %11s %10s %10s %13s %8s\n", "event", "count", "least s", "mean s", "most s",
          "one call s", "messages", "bytes", "GFLOP/s");
  for (int i = 0; i < view->count; i++) {
    const event_row *row = &view->rows[i];
    double least = row->processes < processes ? 0 : row->least;
    fprintf(stderr, "%-18s %8" PRId64 " %10.4f %11.4f %11.4f %10.6f %10" PRId64 " %13" PRId64, row->sum.name,
            row->sum.count, least, row->sum.seconds / processes, row->longest, row->sum.most, row->sum.messages,
            row->sum.bytes);
    if (row->sum.flops > 0 && row->sum.seconds > 0) {
      fprintf(stderr, " %8.2f\n", 1e-9 * row->sum.flops / row->sum.seconds);
    } else {
      fprintf(stderr, " %8s\n", "-");
    }
  }
}

static lac_status gather_events(lac_world *world, void *argument) {
  log_view *view = argument;
  int size = lac_world_size(world);
  event_record *all = calloc((size_t)size * EVENT_LIMIT, sizeof *all);
  if (!all) {
    return lac_fail(lac_world_context(world), LAC_E_MEMORY, "cannot allocate the events of %d ranks", size);
  }
  lac_status status = lac_world_gather(world, view->mine, sizeof view->mine, all);
  for (int rank = 0; rank < size && !status; rank++) {
    add_process(view, all + (int64_t)rank * EVENT_LIMIT);
  }
  free(all);
  return status;
}

lac_status lac_log_view_print(lac_session *session) {
  void *memory;
  CLI_TRY(lac_session_allocate(session, 1, sizeof(log_view), &memory));
  log_view *view = memory;
  view->session = session;
  take_events(view);
  lac_status status = LAC_OK;
  if (session->ranks > 1) {
    lac_world_options options = {0};
    status = lac_world_run(session->context, &options, gather_events, view);
  } else {
    add_process(view, view->mine);
  }
  if (!status && !session->silent) {
    lac_progress_clear(session);
    fflush(stdout); /* the result first, where both go to one place; a failure shows again at the end */
    print_table(view, session->ranks);
  }
  free(view);
  return status;
}
