/* What plan train says of its rows. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan_train.h"
#include "cli/plot.h"

static const char *number_text(double value, char text[32]) {
  snprintf(text, 32, isfinite(value) ? "%.4g" : "-", value);
  return text;
}

/* Gradients until it has mixed: a round of entropy and parle has several. */
static double mixing_gradients(const lac_plan_train_run *run, int at) {
  lac_replica_options options = lac_plan_train_options_of(run, &run->candidates[run->of[at]]);
  return run->mixing[at] * lac_plan_train_inner(&options);
}

/* Whether a row counts in the choice: at the largest size, simulated where all are, else by the formula. */
static bool is_choosable(const lac_plan_train_run *run, int at) {
  return run->rows[at].plan.workers == run->sizes[run->size_count - 1] &&
         strcmp(run->rows[at].source, run->options->simulate ? "smpi" : "formula") == 0;
}

/* Of what is compared, at the largest size: whose gradients take the least, and of those that are hardly slower the one
 * that mixes soonest. */
static void print_choice(const lac_plan_train_run *run) {
  const double hardly = 1.05;
  int fastest = -1, soonest = -1;
  for (int i = 0; i < run->count && run->candidate_count > 1; i++) {
    if (is_choosable(run, i) && (fastest < 0 || run->thousand[i] < run->thousand[fastest])) {
      fastest = i;
    }
  }
  if (fastest < 0) {
    return;
  }
  soonest = fastest;
  for (int i = 0; i < run->count; i++) {
    double mixing = mixing_gradients(run, i), least = mixing_gradients(run, soonest);
    if (is_choosable(run, i) && run->thousand[i] <= hardly * run->thousand[fastest] && isfinite(mixing) &&
        !(mixing >= least)) {
      soonest = i;
    }
  }
  lac_print(run->session, "at %" PRId64 " workers the quickest gradients are those of %s",
            run->sizes[run->size_count - 1], run->candidates[run->of[fastest]].label);
  if (soonest != fastest) {
    lac_print(run->session, "; hardly slower, and the soonest mixed, is %s (in %.4g gradients)",
              run->candidates[run->of[soonest]].label, mixing_gradients(run, soonest));
  }
  lac_print(run->session, "\n");
}

/* Totals of jobs of unlike length cannot be compared. */
static void print_lengths(const lac_plan_train_run *run) {
  double least = HUGE_VAL, most = 0;
  for (int i = 0; i < run->count; i++) {
    least = fmin(least, run->gradients[i]);
    most = fmax(most, run->gradients[i]);
  }
  if (run->count && least < most) {
    lac_print(run->session,
              "totals are of jobs of %.6g to %.6g gradients of each replica, as --epochs makes them; --gradients makes "
              "them equal\n",
              least, most);
  }
}

static void print_thousands(const lac_plan_train_run *run) {
  char thousand[32], mixing[32], bytes[32];
  lac_print(run->session, "%-28s%9s%22s%14s  %s\n", "method", "workers", "s / 1,000 gradients", "t_mix, rounds",
            "source");
  for (int i = 0; i < run->count; i++) {
    lac_print(run->session, "%-28s%9" PRId64 "%22s%14s  %s\n", run->candidates[run->of[i]].label,
              run->rows[i].plan.workers, number_text(run->thousand[i], thousand), number_text(run->mixing[i], mixing),
              run->rows[i].source);
  }
  print_choice(run);
  print_lengths(run);
  bool assumed = !run->options->where.network && !run->options->where.cluster;
  lac_print(run->session, "a gradient takes %.4g s (%s%s); a vector of %" PRId64 " parameters has %s; network %s\n",
            run->gradient, lac_basis_name(run->basis),
            run->basis == LAC_BASIS_ASSUMED ? ", give or take a factor of 2" : "", run->parameters,
            lac_bytes_text((double)sizeof(float) * (double)run->parameters, bytes),
            assumed ? "of 1 Gbit/s and 50 us assumed" : "given");
}

/* Seconds of 1,000 gradients in place of those of the job: jobs of several sizes are not the same. */
static lac_status draw(lac_plan_train_run *run) {
  void *memory;
  CLI_TRY(lac_session_allocate(run->session, run->count, sizeof(lac_plan_row), &memory));
  lac_plan_row *rows = memory;
  memcpy(rows, run->rows, (size_t)run->count * sizeof *rows);
  for (int i = 0; i < run->count; i++) {
    rows[i].plan.seconds.total = run->thousand[i];
  }
  lac_status status = lac_plan_draw(run->session, run->options->plot, "seconds of 1,000 gradients", rows, run->count);
  free(rows);
  return status;
}

lac_status lac_plan_train_report(lac_plan_train_run *run) {
  if (run->options->plot) {
    CLI_TRY(draw(run));
  }
  lac_plan_print_table(run->session, run->rows, run->count);
  lac_plan_print_links(run->session, run->rows, run->count);
  print_thousands(run);
  lac_plan_print_done(run->session, run->rows, run->count);
  return LAC_OK;
}
