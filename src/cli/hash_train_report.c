#include "cli/hash_train_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/plot.h"
#include "cli/progress.h"

lac_status lac_train_report_open(lac_session *session, const lac_mac_options *options, lac_train_report *report) {
  *report = (lac_train_report){.session = session, .limit = options->iterations, .full = options->full_iterations};
  double **const columns[] = {&report->iteration, &report->e_q, &report->e_ba, &report->precision};
  for (int i = 0; i < 4; i++) {
    void *memory;
    lac_status status = lac_session_allocate(session, report->limit, sizeof(double), &memory);
    if (status) {
      lac_train_report_close(report);
      return status;
    }
    *columns[i] = memory;
  }
  return LAC_OK;
}

void lac_train_report_close(lac_train_report *report) {
  free(report->iteration);
  free(report->e_q);
  free(report->e_ba);
  free(report->precision);
  *report = (lac_train_report){0};
}

static void keep_point(lac_train_report *report, const lac_hash_progress *progress) {
  if (report->count < report->limit) {
    int i = report->count++;
    report->iteration[i] = (double)progress->mac.iteration;
    report->e_q[i] = progress->e_q;
    report->e_ba[i] = progress->e_ba;
    report->precision[i] = 100 * progress->mac.score;
  }
}

static void print_iteration_json(lac_session *session, const lac_hash_progress *progress) {
  const lac_mac_report *mac = &progress->mac;
  lac_print_json(
      session,
      json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:o, s:{s:o, s:o, s:o}}", "event", "iteration",
                "iteration", mac->iteration, "mu", lac_json_real(mac->mu), "e_q", lac_json_real(progress->e_q), "e_ba",
                lac_json_real(progress->e_ba), "precision", lac_json_real(mac->score), "accepted", mac->accepted,
                "disagreements", mac->disagreements, "points", mac->points, "worker_bytes",
                json_integer(mac->counts.bytes[LAC_TRAFFIC_MODEL]), "seconds", "w", lac_json_real(mac->w_seconds), "z",
                lac_json_real(mac->z_seconds), "total", lac_json_real(mac->total_seconds)));
}

/* Seconds of the iterations to come, by the points that they are over. */
static double seconds_left(const lac_train_report *report, const lac_hash_progress *progress) {
  const lac_mac_report *mac = &progress->mac;
  int64_t rest = report->limit - mac->iteration;
  if (report->wide > 0 && report->wide < mac->iteration && rest > report->full - report->wide) {
    rest = report->full - report->wide; /* a subsample was left early */
  }
  int64_t full = rest < report->full ? rest : report->full;
  double points = (double)full * (double)progress->points + (double)(rest - full) * (double)mac->points;
  return report->worked > 0 ? mac->total_seconds / report->worked * points : 0;
}

/* "3/12 mu 0.2 E_Q 0.3012 E_BA 0.2991 precision 19.2 %, 12 s left, 1.2 MB sent": fits 80 columns; the bytes are those
 * of one worker. */
static void show_iteration(const lac_train_report *report, const lac_hash_progress *progress) {
  const lac_mac_report *mac = &progress->mac;
  char line[160], precision[32] = "", left[32], bytes[32], points[64] = "";
  if (isfinite(mac->score)) {
    snprintf(precision, sizeof precision, " precision %.1f %%", 100 * mac->score);
  }
  snprintf(line, sizeof line, "%" PRId64 "/%" PRId64 " mu %.3g E_Q %.4f E_BA %.4f%s", mac->iteration, report->limit,
           mac->mu, progress->e_q, progress->e_ba, precision);
  lac_bytes_text((double)mac->counts.bytes[LAC_TRAFFIC_MODEL], bytes);
  if (mac->points < progress->points) {
    snprintf(points, sizeof points, ", over %" PRId64 " of %" PRId64 " points", mac->points, progress->points);
  }
  lac_context_log(report->session->context, LAC_LOG_INFO, "iteration %s%s%s", line, points,
                  mac->accepted ? "" : ", undone");
  lac_progress_show(report->session, "%s, %s left, %s sent", line,
                    lac_seconds_text(seconds_left(report, progress), left), bytes);
}

void lac_train_report_update(void *user, const lac_hash_progress *progress) {
  static const struct {
    const char *phase, *text;
  } phases[] = {{"scan", "reading the data"}, {"init", "finding the first codes"}, {"finish", "finishing the model"}};
  lac_train_report *report = user;
  if (lac_context_interrupted(report->session->context)) {
    return; /* saving the model comes first */
  }
  if (strcmp(progress->phase, "train") == 0) {
    report->worked += (double)progress->mac.points;
    report->wide += progress->mac.points == progress->points;
    keep_point(report, progress);
    print_iteration_json(report->session, progress);
    show_iteration(report, progress);
    return;
  }
  for (int i = 0; i < 3; i++) {
    if (strcmp(progress->phase, phases[i].phase) == 0) {
      lac_progress_show(report->session, "%s", phases[i].text);
    }
  }
}

lac_status lac_train_report_plot(const lac_train_report *report, const char *path) {
  lac_curve errors[] = {{"E_Q, with the penalty", report->iteration, report->e_q, report->count},
                        {"E_BA, of the autoencoder", report->iteration, report->e_ba, report->count}};
  lac_curve precision[] = {{"validation points", report->iteration, report->precision, report->count}};
  bool validated = report->count > 0 && isfinite(report->precision[0]);
  lac_panel panels[] = {
      {"Reconstruction error", "iteration", "error over variance", false, false, errors, 2},
      {"Precision", "iteration", "precision, percent", false, false, precision, 1},
  };
  return lac_plot_write(report->session, path, panels, validated ? 2 : 1);
}
