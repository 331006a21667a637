#include "laconic/mac.h"

#include <math.h>

#include "base/memory.h"
#include "base/profile.h"
#include "mac/engine.h"

typedef struct lac_mac {
  lac_context *context;
  const lac_team *team;
  const lac_mac_problem *problem;
  void *const *shards;
  const lac_mac_options *options;
  double start;
  lac_mac_result *result;
  lac_counts counts;
  lac_mac_sums *sums;    /* (count) */
  double *values;        /* (count, 2) */
  int64_t *whole_values; /* (count, 2) */
  int64_t undone;        /* steps in a row */
  double best;           /* validation measure of an accepted state, the largest so far; NaN without one */
} lac_mac;

int64_t lac_mac_messages(int64_t submodels, int64_t workers, int64_t epochs, bool local_epochs) {
  return workers == 1 ? 0 : submodels * (((local_epochs ? 1 : epochs) + 1) * workers - 2);
}

double lac_mac_visit_seconds(const lac_mac_costs *costs, int64_t points, int64_t count, const int64_t *ids,
                             int64_t passes) {
  double submodels = 0;
  for (int64_t i = 0; i < count; i++) {
    submodels += costs->submodel[ids[i] % costs->kinds];
  }
  double point = submodels > 0 ? costs->visit + submodels : 0;
  return (double)points * (double)passes * point + (double)count * costs->handling;
}

lac_mac_costs lac_mac_costs_at(const lac_mac_costs *costs, int64_t iteration) {
  lac_mac_costs at = *costs;
  if (iteration <= costs->early) {
    at.begin = costs->early_begin;
    at.z = costs->early_z;
  }
  at.early = 0;
  return at;
}

int64_t lac_mac_batch(const lac_mac_options *options, int64_t submodels, int workers) {
  int64_t batch = options->batch ? options->batch : (submodels + workers - 1) / workers;
  return batch < submodels ? batch : submodels;
}

static lac_status check_w_step(lac_context *context, const lac_team *team, const lac_mac_problem *problem,
                               const lac_mac_options *options) {
  LAC_TRY(lac_team_check(context, team));
  if (problem->submodels < 1) {
    return lac_fail(context, LAC_E_USAGE, "%s: found %lld submodels, expected 1 or more", problem->name,
                    (long long)problem->submodels);
  }
  if (options->epochs < 1 || options->batch < 0) {
    return lac_fail(context, LAC_E_USAGE, "%s: found %lld epochs and batch %lld, expected at least 1 and 0",
                    problem->name, (long long)options->epochs, (long long)options->batch);
  }
  if (team->costs && (!problem->points || team->costs->kinds < 1 || team->costs->kinds > LAC_MAC_KINDS)) {
    return lac_fail(context, LAC_E_USAGE, "%s: found costs of %d kinds%s, expected 1 to %d kinds and points",
                    problem->name, team->costs->kinds, problem->points ? "" : " without points", LAC_MAC_KINDS);
  }
  return LAC_OK;
}

double lac_mac_mu_factor(const lac_mac_options *options) {
  if (options->mu_factor != 0 || options->iterations < 2) {
    return options->mu_factor != 0 ? options->mu_factor : 1.8;
  }
  return fmin(pow(1.8, 12 / (double)(options->iterations - 1)), 2.7);
}

static lac_status check_run(lac_context *context, const lac_team *team, const lac_mac_problem *problem,
                            const lac_mac_options *options) {
  LAC_TRY(check_w_step(context, team, problem, options));
  if (problem->widen && options->full_iterations < 1) {
    return lac_fail(context, LAC_E_USAGE, "%s: found %lld full iterations, expected at least 1", problem->name,
                    (long long)options->full_iterations);
  }
  if (options->iterations < 0 || options->undo_limit < 1) {
    return lac_fail(context, LAC_E_USAGE, "%s: found %lld iterations and undo limit %lld, expected at least 0 and 1",
                    problem->name, (long long)options->iterations, (long long)options->undo_limit);
  }
  if (!(options->mu > 0) || !(options->mu_factor > 1 || options->mu_factor == 0)) {
    return lac_fail(context, LAC_E_USAGE, "%s: found mu %g and mu factor %g, expected more than 0 and 1", problem->name,
                    options->mu, options->mu_factor);
  }
  return LAC_OK;
}

lac_status lac_mac_w_step(lac_context *context, const lac_team *team, const lac_mac_problem *problem,
                          void *const *shards, const lac_mac_options *options, int64_t iteration, int64_t *messages,
                          int64_t *bytes) {
  lac_path path;
  double start = lac_seconds();
  LAC_TRY(check_w_step(context, team, problem, options));
  lac_status status = lac_path_create(context, options, problem->submodels, team->total, iteration, &path);
  if (!status) {
    status = team->world
                 ? lac_ring_step(context, team, problem, shards[0], options, iteration, &path, NULL, messages, bytes)
                 : lac_serial_step(context, problem, shards, options, iteration, &path);
  }
  lac_path_destroy(&path);
  lac_profile_add(context, "w step", lac_seconds() - start, 0, 0, 0);
  return status;
}

/* ---- the loop over mu ---- */

typedef lac_status (*lac_shard_fn)(void *shard, lac_context *context);

/* Seconds on the clock that the run lives by: the world's, which in a simulation is not that of the machine. */
static double now(const lac_team *team) {
  return team->world ? lac_world_now(team->world) : lac_seconds();
}

static lac_status each_shard(lac_mac *mac, lac_shard_fn operation) {
  for (int s = 0; s < mac->team->count; s++) {
    LAC_TRY(operation(mac->shards[s], mac->context));
  }
  return LAC_OK;
}

static lac_status w_step(lac_mac *mac, lac_mac_report *report) {
  double start = now(mac->team);
  lac_status status =
      lac_mac_w_step(mac->context, mac->team, mac->problem, mac->shards, mac->options, report->iteration,
                     &mac->counts.messages[LAC_TRAFFIC_MODEL], &mac->counts.bytes[LAC_TRAFFIC_MODEL]);
  report->w_seconds = now(mac->team) - start;
  mac->result->w_seconds += report->w_seconds;
  mac->result->w_steps += !status;
  return status;
}

static lac_status sum_up(lac_mac *mac, lac_mac_report *report) {
  double sum[2];
  int64_t whole_sum[2];
  for (int s = 0; s < mac->team->count; s++) {
    mac->values[2 * s] = mac->sums[s].penalised;
    mac->values[2 * s + 1] = mac->sums[s].nested;
    mac->whole_values[2 * s] = mac->sums[s].disagreements;
    mac->whole_values[2 * s + 1] = mac->sums[s].points;
  }
  LAC_TRY(lac_team_sum_f64(mac->context, mac->team, mac->values, 2, sum));
  LAC_TRY(lac_team_sum_i64(mac->context, mac->team, mac->whole_values, 2, whole_sum));
  report->penalised = sum[0];
  report->nested = sum[1];
  report->disagreements = whole_sum[0];
  report->points = whole_sum[1];
  if (!isfinite(sum[0]) || !isfinite(sum[1])) { /* the same on all workers */
    return lac_fail(mac->context, LAC_E_NUMERICAL, "%s: iteration %lld, mu %g: the objective is %g, no finite number",
                    mac->problem->name, (long long)report->iteration, report->mu, sum[0]);
  }
  return LAC_OK;
}

static lac_status z_step(lac_mac *mac, lac_mac_report *report) {
  double start = now(mac->team);
  for (int s = 0; s < mac->team->count; s++) {
    mac->sums[s] = (lac_mac_sums){0};
    if (lac_context_interrupted(mac->context)) {
      return lac_fail(mac->context, LAC_E_INTERRUPTED, "interrupted");
    }
    LAC_TRY(mac->problem->z_step(mac->shards[s], mac->context, report->mu, &mac->sums[s]));
    if (mac->team->costs && mac->team->world) {
      double point = lac_mac_costs_at(mac->team->costs, report->iteration).z;
      lac_world_spend(mac->team->world, point * (double)mac->sums[s].points);
    }
  }
  report->z_seconds = now(mac->team) - start;
  mac->result->z_seconds += report->z_seconds;
  lac_profile_add(mac->context, "z step", report->z_seconds, 0, 0, 0);
  return sum_up(mac, report);
}

/* The validation measure over all shards, NaN without one. */
static lac_status validate(lac_mac *mac, double *score) {
  double start = lac_seconds(), sum[2];
  *score = NAN;
  if (!mac->problem->validate) {
    return LAC_OK;
  }
  for (int s = 0; s < mac->team->count; s++) {
    LAC_TRY(mac->problem->validate(mac->shards[s], mac->context, &mac->values[2 * s], &mac->values[2 * s + 1]));
  }
  LAC_TRY(lac_team_sum_f64(mac->context, mac->team, mac->values, 2, sum));
  *score = sum[0] / sum[1];
  lac_profile_add(mac->context, "validation", lac_seconds() - start, 0, 0, 0);
  return LAC_OK;
}

/* Keeps the step unless its measure fell. */
static lac_status judge(lac_mac *mac, lac_mac_report *report) {
  LAC_TRY(validate(mac, &report->score));
  report->accepted = !(report->score < mac->best * (1 - mac->options->undo_tolerance));
  if (!report->accepted) {
    mac->undone++;
    return each_shard(mac, mac->problem->restore);
  }
  LAC_TRY(each_shard(mac, mac->problem->save));
  mac->undone = 0;
  mac->result->score = report->score;
  mac->best = report->score > mac->best ? report->score : mac->best;
  mac->result->converged = report->disagreements == 0;
  return LAC_OK;
}

static lac_status iterate(lac_mac *mac, lac_mac_report *report) {
  LAC_TRY(w_step(mac, report));
  LAC_TRY(z_step(mac, report));
  LAC_TRY(judge(mac, report));
  mac->result->iterations = report->iteration;
  report->total_seconds = now(mac->team) - mac->start;
  report->counts = mac->counts;
  return LAC_OK;
}

/* From a subsample to all points, with coordinates as after the Z step of an iteration at mu. */
static lac_status widen(lac_mac *mac, int64_t iteration, double mu) {
  double start = now(mac->team);
  for (int s = 0; s < mac->team->count; s++) {
    const lac_mac_costs *costs = mac->team->world ? mac->team->costs : NULL;
    int64_t before = costs ? mac->problem->points(mac->shards[s]) : 0;
    LAC_TRY(mac->problem->widen(mac->shards[s], mac->context, mu));
    if (costs) {
      double point = lac_mac_costs_at(costs, iteration).z;
      lac_world_spend(mac->team->world, point * (double)(mac->problem->points(mac->shards[s]) - before));
    }
  }
  mac->result->z_seconds += now(mac->team) - start;
  mac->result->converged = false; /* what was found on the subsample is no end of the others */
  mac->undone = 0;
  return each_shard(mac, mac->problem->save);
}

static lac_status loop(lac_mac *mac, lac_mac_report_fn report_fn, void *user) {
  const lac_mac_options *options = mac->options;
  double mu = options->mu, before = mu, factor = lac_mac_mu_factor(options);
  int64_t last = options->iterations;
  bool narrow = mac->problem->widen != NULL;
  if (mac->team->world && options->mu_factor == 0) { /* the last digit of pow() may differ between unlike machines */
    LAC_TRY(lac_world_broadcast(mac->team->world, 0, &factor, sizeof factor));
  }
  LAC_TRY(validate(mac, &mac->result->score));
  mac->best = mac->result->score;
  for (int64_t i = 1; i <= last && isfinite(mu); i++) {
    lac_mac_report report = {.iteration = i, .mu = mu};
    if (narrow && i > last - options->full_iterations) {
      LAC_TRY(widen(mac, i - 1, before));
      narrow = false;
    }
    LAC_TRY(iterate(mac, &report));
    if (report_fn) {
      report_fn(user, &report);
    }
    if (mac->result->converged || mac->undone == options->undo_limit) {
      if (!narrow) {
        break;
      }
      last = i + options->full_iterations; /* at most what it was: the subsample is left before its last ones */
    }
    before = mu;
    mu *= factor;
  }
  return LAC_OK;
}

/* The run proper, with the starting state saved. */
static lac_status run(lac_mac *mac, lac_mac_report_fn report_fn, void *user) {
  LAC_TRY(each_shard(mac, mac->problem->save));
  lac_status status = loop(mac, report_fn, user);
  if (status == LAC_E_INTERRUPTED) {
    LAC_TRY(each_shard(mac, mac->problem->restore));
  }
  return status;
}

static lac_status total_traffic(lac_mac *mac) {
  int64_t sum[2];
  for (int s = 0; s < mac->team->count; s++) {
    mac->whole_values[2 * s] = mac->counts.messages[LAC_TRAFFIC_MODEL];
    mac->whole_values[2 * s + 1] = mac->counts.bytes[LAC_TRAFFIC_MODEL];
  }
  LAC_TRY(lac_team_sum_i64(mac->context, mac->team, mac->whole_values, 2, sum));
  mac->result->messages = sum[0];
  mac->result->bytes = sum[1];
  return LAC_OK;
}

lac_status lac_mac_run(lac_context *context, const lac_team *team, const lac_mac_problem *problem, void *const *shards,
                       const lac_mac_options *options, lac_mac_report_fn report, void *user, lac_mac_result *result) {
  lac_mac mac = {.context = context,
                 .team = team,
                 .problem = problem,
                 .shards = shards,
                 .options = options,
                 .start = now(team),
                 .result = result};
  lac_status status;
  *result = (lac_mac_result){.score = NAN};
  LAC_TRY(check_run(context, team, problem, options));
  LAC_TRY_GOTO(status, LAC_NEW(context, team->count, &mac.sums), cleanup);
  LAC_TRY_GOTO(status, LAC_NEW(context, 2 * team->count, &mac.values), cleanup);
  LAC_TRY_GOTO(status, LAC_NEW(context, 2 * team->count, &mac.whole_values), cleanup);
  status = run(&mac, report, user);
  if (status) {
    result->messages = mac.counts.messages[LAC_TRAFFIC_MODEL];
    result->bytes = mac.counts.bytes[LAC_TRAFFIC_MODEL];
  } else {
    status = total_traffic(&mac);
  }
cleanup:
  lac_free(mac.sums);
  lac_free(mac.values);
  lac_free(mac.whole_values);
  return status;
}
