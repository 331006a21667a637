#include "cli/plan_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/plot.h"

/* ---- a line for programs ---- */

static json_t *json_links(const lac_link *links, int64_t workers) {
  json_t *list = json_array();
  for (int64_t i = 0; list && i < workers; i++) {
    json_array_append_new(list, json_pack("{s:o, s:o}", "messages", lac_json_real(links[i].messages), "bytes",
                                          lac_json_real(links[i].bytes)));
  }
  return list;
}

void lac_plan_print_json(lac_session *session, const lac_plan_row *row, json_t *extra) {
  const lac_plan *plan = &row->plan;
  const lac_plan_seconds *s = &plan->seconds;
  json_t *seconds = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "w", lac_json_real(s->w), "z", lac_json_real(s->z),
                              "serial", lac_json_real(s->serial), "communication", lac_json_real(s->communication),
                              "waiting", lac_json_real(s->waiting), "total", lac_json_real(s->total));
  json_t *line = json_pack(
      "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "workers", (json_int_t)plan->workers, "speedup",
      lac_json_real(plan->speedup), "efficiency", lac_json_real(plan->efficiency), "seconds", seconds, "messages",
      lac_json_real(plan->messages), "bytes", lac_json_real(plan->bytes), "link_bytes", lac_json_real(plan->link_bytes),
      "memory_per_worker", plan->memory > 0 ? lac_json_real(plan->memory) : json_null(), "source", row->source);
  if (line && row->label) {
    json_object_set_new(line, "label", lac_json_text(row->label));
  }
  if (line && row->links) {
    json_object_set_new(line, "links", json_links(row->links, plan->workers));
  }
  if (line && extra) {
    json_object_update(line, extra);
  }
  json_decref(extra);
  lac_print_json(session, line);
}

/* ---- for people ---- */

static bool same_curve(const lac_plan_row *a, const lac_plan_row *b) {
  return strcmp(a->source, b->source) == 0 && strcmp(a->label ? a->label : "", b->label ? b->label : "") == 0;
}

/* Whether no row before it is of the same curve. */
static bool opens_curve(const lac_plan_row *rows, int at) {
  for (int i = 0; i < at; i++) {
    if (same_curve(&rows[i], &rows[at])) {
      return false;
    }
  }
  return true;
}

/* The highest speedup, with the fewest workers that reach it within rounding; of the curve of `like`, or of all of
 * source formula when that is NULL. NULL for none. */
static const lac_plan_row *best_of(const lac_plan_row *rows, int count, const lac_plan_row *like) {
  const lac_plan_row *best = NULL;
  for (int i = 0; i < count; i++) {
    const lac_plan *plan = &rows[i].plan;
    bool counts = like ? same_curve(&rows[i], like) : strcmp(rows[i].source, "formula") == 0;
    if (!counts || !isfinite(plan->speedup)) {
      continue;
    }
    double gain = best ? plan->speedup / best->plan.speedup - 1 : 1;
    if (!best || gain > 1e-9 || (gain > -1e-9 && plan->workers < best->plan.workers)) {
      best = &rows[i];
    }
  }
  return best;
}

static const lac_plan_row *next_of(const lac_plan_row *rows, int count, const lac_plan_row *from) {
  const lac_plan_row *next = NULL;
  for (int i = 0; i < count; i++) {
    if (same_curve(&rows[i], from) && rows[i].plan.workers > from->plan.workers &&
        (!next || rows[i].plan.workers < next->plan.workers)) {
      next = &rows[i];
    }
  }
  return next;
}

static const char *time_text(double value, bool unitless, char text[32]) {
  if (unitless) {
    snprintf(text, 32, "%.5g", value);
  } else if (fabs(value) < 1e-9) { /* what differences of seconds leave */
    snprintf(text, 32, "0 s");
  } else if (value > 0 && value < 1) {
    snprintf(text, 32, value >= 1e-3 ? "%.3g ms" : "%.3g us", value * (value >= 1e-3 ? 1e3 : 1e6));
  } else if (value < 1e4) {
    snprintf(text, 32, "%.4g s", value);
  } else {
    snprintf(text, 32, "%.4g h", value / 3600);
  }
  return text;
}

/* What takes most of the time beside the steps themselves. */
static const char *greatest_loss(const lac_plan_seconds *s, double *share) {
  double most = s->communication;
  const char *name = "communication";
  if (s->waiting > most) {
    most = s->waiting, name = "waiting";
  }
  if (s->serial > most) {
    most = s->serial, name = "the start, the end and what iterations need beside their steps";
  }
  *share = s->total > 0 ? most / s->total : 0;
  return name;
}

/* The most workers of a curve that keep at least half of the ideal; 0: none. */
static int64_t most_at_half(const lac_plan_row *rows, int count, const lac_plan_row *like) {
  int64_t most = 0;
  for (int i = 0; i < count; i++) {
    const lac_plan *plan = &rows[i].plan;
    most = same_curve(&rows[i], like) && plan->efficiency >= 0.5 && plan->workers > most ? plan->workers : most;
  }
  return most;
}

static void say_half(lac_session *session, const lac_plan_row *rows, int count, const lac_plan_row *best) {
  int64_t half = most_at_half(rows, count, best);
  if (best->plan.efficiency < 0.5 && half > 0) {
    lac_print(session, "; up to %" PRId64 " at least half of the ideal is kept", half);
  }
  lac_print(session, "\n");
}

static void say_what_pays(lac_session *session, const lac_plan_row *rows, int count, const lac_plan_row *first) {
  const lac_plan_row *best = best_of(rows, count, first);
  if (!best) {
    return;
  }
  if (best->plan.speedup < 1 && best->plan.workers > 1) {
    lac_print(session, "%s%sone worker alone is quicker than any of these (speedup %.4g at best, with %" PRId64 ")\n",
              first->label ? first->label : "", first->label ? ": " : "", best->plan.speedup, best->plan.workers);
    return;
  }
  double share;
  const lac_plan_row *next = next_of(rows, count, best);
  const lac_plan_row *shown = next ? next : best;
  const char *loss = greatest_loss(&shown->plan.seconds, &share);
  const char *label = first->label ? first->label : "", *colon = first->label ? ": " : "";
  if (shown->plan.workers == 1) {
    return; /* nothing to compare */
  }
  if (next) {
    lac_print(session,
              "%s%s%" PRId64 " %s the best of these (speedup %.4g); at %" PRId64
              " %s takes %.3g %% of the "
              "time, and more do not pay",
              label, colon, best->plan.workers, best->plan.workers == 1 ? "worker is" : "workers are",
              best->plan.speedup, next->plan.workers, loss, 100 * share);
  } else if (share > 0) {
    lac_print(session,
              "%s%sthe most, %" PRId64
              " workers, are the best of these (speedup %.4g); what grows beyond is %s, now "
              "%.3g %% of the time",
              label, colon, best->plan.workers, best->plan.speedup, loss, 100 * share);
  } else {
    lac_print(session, "%s%sthe most, %" PRId64 " workers, are the best of these (speedup %.4g)", label, colon,
              best->plan.workers, best->plan.speedup);
  }
  say_half(session, rows, count, best);
}

static int widest_label(const lac_plan_row *rows, int count) {
  int width = 0;
  for (int i = 0; i < count; i++) {
    int length = rows[i].label ? (int)strlen(rows[i].label) : 0;
    width = length > width ? length : width;
  }
  return width > 0 ? width + 2 : 0;
}

/* Columns that are 0 everywhere are left out. */
typedef struct columns {
  int label; /* width */
  bool z, serial, waiting;
} columns;

static columns columns_of(const lac_plan_row *rows, int count) {
  columns shown = {.label = widest_label(rows, count)};
  for (int i = 0; i < count; i++) {
    const lac_plan_seconds *s = &rows[i].plan.seconds;
    shown.z = shown.z || s->z > 0;
    shown.serial = shown.serial || s->serial > 0;
    shown.waiting = shown.waiting || s->waiting > 0;
  }
  return shown;
}

static void print_head(lac_session *session, columns shown) {
  lac_print(session, "%-*s%7s %8s %8s %11s %11s%s%s %11s%s %11s %11s  %s\n", shown.label, "", "workers", "speedup",
            "of ideal", "total", "w", shown.z ? "           z" : "", shown.serial ? "      serial" : "", "network",
            shown.waiting ? "     waiting" : "", "sent", "memory", "source");
}

/* "-" where nothing is known to compare with. */
static const char *ratio_text(double value, const char *unit, char text[32]) {
  snprintf(text, 32, isfinite(value) ? (*unit ? "%.1f%s" : "%.4g%s") : "-", value, unit);
  return text;
}

static void print_row(lac_session *session, const lac_plan_row *row, columns shown) {
  char text[10][32];
  const lac_plan *plan = &row->plan;
  const lac_plan_seconds *s = &plan->seconds;
  bool bare = row->unitless;
  lac_print(session, "%-*s%7" PRId64 " %8s %8s %11s %11s%s%*s%s%*s %11s%s%*s %11s %11s  %s\n", shown.label,
            row->label ? row->label : "", plan->workers, ratio_text(plan->speedup, "", text[8]),
            ratio_text(100 * plan->efficiency, "%", text[9]), time_text(s->total, bare, text[0]),
            time_text(s->w, bare, text[1]), shown.z ? " " : "", shown.z ? 11 : 0,
            shown.z ? time_text(s->z, bare, text[2]) : "", shown.serial ? " " : "", shown.serial ? 11 : 0,
            shown.serial ? time_text(s->serial, bare, text[3]) : "", time_text(s->communication, bare, text[4]),
            shown.waiting ? " " : "", shown.waiting ? 11 : 0, shown.waiting ? time_text(s->waiting, bare, text[5]) : "",
            lac_bytes_text(plan->bytes, text[6]), plan->memory > 0 ? lac_bytes_text(plan->memory, text[7]) : "-",
            row->source);
}

void lac_plan_print_table(lac_session *session, const lac_plan_row *rows, int count) {
  columns shown = columns_of(rows, count);
  print_head(session, shown);
  for (int i = 0; i < count; i++) {
    print_row(session, &rows[i], shown);
  }
  for (int i = 0; i < count; i++) {
    if (strcmp(rows[i].source, "formula") == 0 && opens_curve(rows, i)) {
      say_what_pays(session, rows, count, &rows[i]);
    }
  }
}

/* Workers from `first` on that send as much as it does, to the digits that are shown. */
static int64_t same_links(const lac_plan_row *row, int64_t first) {
  int64_t end = first + 1;
  const lac_link *links = row->links;
  while (end < row->plan.workers && fabs(links[end].bytes - links[first].bytes) <= 1e-4 * links[first].bytes &&
         fabs(links[end].messages - links[first].messages) <= 1e-4 * links[first].messages) {
    end++;
  }
  return end - first;
}

static void print_links(lac_session *session, const lac_plan_row *row, int label) {
  char bytes[32], who[48];
  for (int64_t first = 0, count; first < row->plan.workers; first += count) {
    count = same_links(row, first);
    snprintf(who, sizeof who, count > 1 ? "%" PRId64 "-%" PRId64 : "%" PRId64, first, first + count - 1);
    lac_print(session, "%-*s%7" PRId64 "%16s%16.6g%14s  %s\n", label, row->label ? row->label : "", row->plan.workers,
              who, row->links[first].messages, lac_bytes_text(row->links[first].bytes, bytes), row->source);
  }
}

void lac_plan_print_links(lac_session *session, const lac_plan_row *rows, int count) {
  int label = widest_label(rows, count);
  bool headed = false;
  for (int i = 0; i < count; i++) {
    if (rows[i].links && !headed) {
      lac_print(session, "%-*s%7s%16s%16s%14s  %s\n", label, "", "workers", "of worker", "messages sent", "sent",
                "source");
      headed = true;
    }
    if (rows[i].links) {
      print_links(session, &rows[i], label);
    }
  }
}

void lac_plan_print_done(lac_session *session, const lac_plan_row *rows, int count) {
  const lac_plan_row *best = best_of(rows, count, NULL);
  json_t *line = json_pack("{s:s, s:o, s:o}", "event", "done", "best_workers",
                           best ? json_integer((json_int_t)best->plan.workers) : json_null(), "best_speedup",
                           best ? lac_json_real(best->plan.speedup) : json_null());
  if (line && best && best->label) {
    json_object_set_new(line, "label", lac_json_text(best->label));
  }
  lac_print_json(session, line);
}

/* ---- speeds ---- */

lac_status lac_parse_speeds(lac_session *session, const char *key, const char *text, int workers, double *speeds) {
  int given = 0;
  const char *at = text;
  for (bool more = true; more; given++) {
    char *end = (char *)at;
    double speed = *at >= '0' && *at <= '9' ? strtod(at, &end) : 0;
    bool plain = end > at && strcspn(at, "xX") >= (size_t)(end - at) && (*end == ',' || *end == 0);
    if (!plain || !(speed >= 1e-9) || speed > 1e9) {
      return lac_fail(
          session->context, LAC_E_USAGE,
          "--%s: found '%.60s', expected relative speeds from 1e-9 to 1e9 with commas between them, as 1,1,0.5", key,
          text);
    }
    if (given < workers) {
      speeds[given] = speed;
    }
    more = *end == ',';
    at = end + more;
  }
  for (int i = given; i < workers; i++) {
    speeds[i] = speeds[i - given];
  }
  return LAC_OK;
}

/* ---- a picture ---- */

typedef struct picture {
  lac_curve *speedup, *seconds; /* (curves) and the ideal one after those of speedup */
  char (*name)[96];
  double *x, *y, *z; /* (rows) each, curve after curve; the ideal ones at their end */
  int curves, used;
} picture;

static void add_curve(picture *p, const lac_plan_row *rows, int count, const lac_plan_row *first) {
  int begin = p->used, c = p->curves++;
  for (int i = 0; i < count; i++) {
    if (same_curve(&rows[i], first)) {
      p->x[p->used] = (double)rows[i].plan.workers;
      p->y[p->used] = rows[i].plan.speedup;
      p->z[p->used++] = rows[i].plan.seconds.total;
    }
  }
  snprintf(p->name[c], sizeof *p->name, "%.70s%s%.20s", first->label ? first->label : "", first->label ? ", " : "",
           first->source);
  p->speedup[c] = (lac_curve){p->name[c], p->x + begin, p->y + begin, p->used - begin};
  p->seconds[c] = (lac_curve){p->name[c], p->x + begin, p->z + begin, p->used - begin};
}

/* The sum of the speeds, at the sizes of the first curve. */
static void add_ideal(picture *p, const lac_plan_row *rows, int count) {
  int begin = p->used;
  for (int i = 0; i < count; i++) {
    const lac_plan *plan = &rows[i].plan;
    if (same_curve(&rows[i], &rows[0]) && plan->efficiency > 0) {
      p->x[p->used] = (double)plan->workers;
      p->y[p->used++] = plan->speedup / plan->efficiency;
    }
  }
  p->speedup[p->curves] = (lac_curve){"ideal", p->x + begin, p->y + begin, p->used - begin};
}

static lac_status draw(lac_session *session, const char *path, const char *time, picture *p, const lac_plan_row *rows,
                       int count) {
  for (int i = 0; i < count; i++) {
    if (opens_curve(rows, i)) {
      add_curve(p, rows, count, &rows[i]);
    }
  }
  add_ideal(p, rows, count);
  const lac_panel panels[] = {
      {"Speedup", "workers", "times one worker", true, false, p->speedup, p->curves + 1, true},
      {"Time", "workers", time, true, false, p->seconds, p->curves, true},
  };
  return lac_plot_write(session, path, panels, 2);
}

lac_status lac_plan_draw(lac_session *session, const char *path, const char *time, const lac_plan_row *rows,
                         int count) {
  if (count < 1) {
    return LAC_OK;
  }
  void *numbers = NULL, *curves = NULL, *names = NULL;
  lac_status status;
  CLI_TRY_GOTO(status, lac_session_allocate(session, 6 * (int64_t)count, sizeof(double), &numbers), end);
  CLI_TRY_GOTO(status, lac_session_allocate(session, 2 * (int64_t)count + 1, sizeof(lac_curve), &curves), end);
  CLI_TRY_GOTO(status, lac_session_allocate(session, count, 96, &names), end);
  picture p = {.speedup = curves, .name = names, .x = numbers};
  p.seconds = p.speedup + count + 1;
  p.y = p.x + 2 * (ptrdiff_t)count;
  p.z = p.y + 2 * (ptrdiff_t)count;
  status = draw(session, path, time, &p, rows, count);
end:
  free(names);
  free(curves);
  free(numbers);
  return status;
}
