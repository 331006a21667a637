#include "cli/train_worker.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/network.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/train_measure.h"

const char *lac_train_method(const lac_train_run *run) {
  return lac_options_find(lac_replica_option_table(), "method")->names[run->replica.method];
}

/* A worker's own part. */
typedef struct worker {
  lac_train_run *run;
  lac_context *context;
  lac_world *world;
  int rank;
  lac_net *net;
  lac_batches *batches, *plain;
  lac_replica *replica;
  int64_t parameters;
  float *answer, *statistics, *own_statistics;
  double checkpointed, shown; /* seconds on the clock */
  double trained;             /* seconds of training in this process, virtual in a simulation */
  bool alone;                 /* the exchange has no rounds: this worker goes its own way through an epoch */
  int64_t first;              /* outer step at which the epoch began */
  double begun;               /* and when, on the clock, less what was spent beside training */
} worker;

/* ---- a worker --------------------------------------------------------------------------------------------------- */

static lac_status gradient(void *user, lac_context *context, int64_t step, const float *x, float *out,
                           lac_batch_result *result) {
  worker *w = user;
  const float *pictures;
  const int32_t *labels;
  lac_net_key key = {.seed = w->run->options->seed, .replica = w->rank, .step = step};
  enum { SLICES = 16 };
  CLI_TRY(lac_batches_get(context, w->batches, step, &pictures, &labels));
  for (int slice = 0; w->run->compute > 0 && slice < SLICES; slice++) { /* in virtual time */
    lac_world_spend(w->world, w->run->compute / SLICES);
    CLI_TRY(lac_replica_serve(context, w->replica));
  }
  result->points = w->run->options->batch;
  return lac_net_gradient(context, w->net, x, pictures, labels, key, out, &result->loss, &result->errors);
}

lac_batches_options lac_train_batches(const lac_train_run *run, int rank) {
  const lac_train_options *options = run->options;
  return (lac_batches_options){.batch = options->batch,
                               .seed = options->seed,
                               .replica = rank,
                               .replicas = run->workers,
                               .fraction = run->split,
                               .replacement = options->replacement,
                               .flip = options->flip,
                               .crop = options->crop,
                               .ahead = options->ahead};
}

static lac_status open_batches(worker *w) {
  const lac_train_run *run = w->run;
  const lac_train_options *options = run->options;
  lac_batches_options drawn = lac_train_batches(run, w->rank);
  /* For batch-norm statistics: the whole set, as it is. */
  lac_batches_options plain = {.batch = options->batch, .seed = options->seed, .replicas = 1, .fraction = 1};
  CLI_TRY(lac_batches_create(w->context, run->set.train.images, run->set.train.pixels, &drawn, &w->batches));
  return lac_batches_create(w->context, run->set.train.images, run->set.train.pixels, &plain, &w->plain);
}

static float *new_vector(int64_t count) {
  size_t bytes = ((size_t)count * sizeof(float) + 64) / 64 * 64;
  float *vector = aligned_alloc(64, bytes);
  if (vector) {
    memset(vector, 0, bytes);
  }
  return vector;
}

static lac_status open_worker(worker *w) {
  lac_train_run *run = w->run;
  const lac_train_options *options = run->options;
  const lac_images *train = run->set.train.images;
  CLI_TRY(lac_net_create(w->context, run->layers, run->source, lac_images_shape(train), lac_images_classes(train),
                         options->batch, &options->net, &w->net));
  CLI_TRY(open_batches(w));
  w->parameters = lac_net_parameters(w->net);
  w->answer = new_vector(w->parameters);
  w->statistics = new_vector(lac_net_statistics(w->net));
  w->own_statistics = new_vector(lac_net_statistics(w->net));
  if (!w->answer || !w->statistics || !w->own_statistics) {
    return lac_fail(w->context, LAC_E_MEMORY, "cannot allocate %" PRId64 " parameters", w->parameters);
  }
  lac_net_initialise(w->net, options->seed, w->answer, w->statistics);
  return LAC_OK;
}

/* ---- while it trains ---- */

static void show_progress(worker *w, const lac_replica_progress *progress, double done, double seconds) {
  double now = lac_clock_seconds();
  const lac_train_run *run = w->run;
  if (w->rank != 0 || now - w->shown < 0.2 || seconds <= 0) {
    return;
  }
  w->shown = now;
  char left[32], bytes[32];
  lac_counts counts = lac_world_counts(w->world);
  double rest = seconds / done * (double)(progress->steps - progress->step);
  double sent = (double)counts.bytes[LAC_TRAFFIC_MODEL] * run->workers + (double)run->before.bytes;
  double pictures = done * (double)(progress->gradients) / (double)progress->step * (double)run->options->batch;
  lac_progress_show(run->session, "epoch %.2f/%g loss %.4f held-out %.2f %%, %.0f images/s, %s sent, %s left",
                    progress->epochs, run->replica.epochs, progress->loss, 100 * run->now.best,
                    pictures * run->workers / seconds, lac_bytes_text(sent, bytes), lac_seconds_text(rest, left));
}

/* What a worker that goes its own way is asked before every step: whether all should meet. */
static bool ask_alone(void *user) {
  worker *w = user;
  const lac_train_run *run = w->run;
  lac_replica_progress progress = lac_replica_progress_of(w->replica);
  double now = lac_clock_seconds(), every = (double)run->options->checkpoint_every;
  if (progress.step > w->first) {
    show_progress(w, &progress, (double)(progress.step - w->first), lac_world_now(w->world) - w->begun);
  }
  return run->session->stop || (run->time_limit > 0 && now - run->begin > run->time_limit) ||
         (w->rank == 0 && every > 0 && now - w->checkpointed > every &&
          !run->options->simulate); /* a halt mixes: by this clock, a simulated run could not be repeated */
}

/* Between the layers of a gradient. */
static lac_status serve(void *user, lac_context *context) {
  worker *w = user;
  return w->replica ? lac_replica_serve(context, w->replica) : LAC_OK;
}

static lac_status open_replica(worker *w) {
  lac_train_run *run = w->run;
  lac_objective objective = {.parameters = w->parameters,
                             .batches_per_pass = lac_batches_per_pass(w->batches),
                             .gradient = gradient,
                             .user = w};
  CLI_TRY(lac_replica_create(w->context, w->world, &objective, &run->replica, w->answer, &w->replica));
  if (run->workers > 1) {
    lac_net_set_pause(w->net, serve, w);
  }
  if (w->alone) {
    lac_replica_ask(w->replica, ask_alone, w);
  }
  lac_status status = LAC_OK;
  if (run->checkpoint) {
    status = lac_checkpoint_restore(w->context, run->checkpoint, w->rank, run->workers, w->replica);
  }
  return lac_world_agree(w->world, status);
}

static lac_status open_files(lac_train_run *run) {
  if (run->checkpoint) {
    CLI_TRY(lac_train_folder_reopen(run->session, run->options, run->folder_path, run->lines, &run->folder));
  } else {
    CLI_TRY(lac_train_folder_create(run->session, run->options, run->folder_path, &run->folder));
  }
  return lac_checkpoint_writer_create(run->session->context, run->checkpoint_path, run->layers, &run->writer);
}

const char *lac_train_topology(const lac_train_run *run) {
  const lac_process_options *exchange = &run->replica.exchange;
  return !lac_protocol_on_topology(exchange->protocol) ? NULL
         : exchange->topology.graph                    ? "file"
                                                       : lac_topology_kind_name(exchange->topology.kind);
}

lac_status lac_train_predict(lac_context *context, lac_train_run *run) {
  return lac_mixing_foretell(context, &run->replica, run->workers, &run->predicted);
}

static lac_status predict_mixing(worker *w) {
  lac_train_run *run = w->run;
  const lac_mixing_time *time = &run->predicted;
  const char *topology = lac_train_topology(run);
  CLI_TRY(lac_train_predict(w->context, run));
  if (*time->reason || isfinite(time->rounds)) {
    lac_context_log(w->context, *time->reason ? LAC_LOG_WARNING : LAC_LOG_INFO,
                    "exchange %s%s%s of %d workers: mixing time %.4g rounds (%s)%s%s",
                    lac_protocol_names()[run->replica.exchange.protocol], topology ? " on the topology " : "",
                    topology ? topology : "", run->workers, time->rounds, lac_mixing_kind_name(time->kind),
                    *time->reason ? ": " : "", time->reason);
  }
  return LAC_OK;
}

/* Only when everybody stands is anything changed on disk. The session's context is the main thread's, which waits. */
static lac_status open_folder(worker *w) {
  if (w->rank == 0) {
    CLI_TRY(predict_mixing(w));
  }
  lac_status status = w->rank == 0 ? open_files(w->run) : LAC_OK;
  return status ? lac_fail(w->context, status, "%s", lac_context_message(w->run->session->context)) : LAC_OK;
}

static void close_worker(worker *w) {
  lac_replica_destroy(&w->replica);
  lac_batches_destroy(&w->batches);
  lac_batches_destroy(&w->plain);
  lac_net_destroy(&w->net);
  free(w->answer);
  free(w->statistics);
  free(w->own_statistics);
}

/* Totals over workers and over what a checkpoint said; collective, since counts are each worker's own. */
static lac_status add_up(worker *w) {
  lac_counts counts = lac_world_counts(w->world);
  int64_t sums[3] = {counts.messages[LAC_TRAFFIC_MODEL], counts.bytes[LAC_TRAFFIC_MODEL],
                     counts.bytes[LAC_TRAFFIC_CONTROL]};
  CLI_TRY(lac_world_sum_i64(w->world, sums, 3));
  if (w->rank == 0) {
    lac_train_run *run = w->run;
    run->now.messages = run->before.messages + sums[0];
    run->now.bytes = run->before.bytes + sums[1];
    run->now.control_bytes = run->before.control_bytes + sums[2];
    run->now.seconds = run->before.seconds + w->trained;
  }
  return LAC_OK;
}

static lac_status checkpoint(worker *w) {
  lac_train_run *run = w->run;
  lac_checkpoint *state;
  CLI_TRY(lac_checkpoint_gather(w->context, w->world, w->replica, &state));
  lac_status added = add_up(w);
  w->checkpointed = lac_clock_seconds();
  if (added || w->rank > 0) {
    lac_checkpoint_destroy(&state);
    return added;
  }
  const lac_train_totals *now = &run->now;
  json_t *object =
      json_pack("{s:I, s:I, s:I, s:f, s:o, s:f, s:o, s:I, s:o}", "messages", (json_int_t)now->messages, "bytes",
                (json_int_t)now->bytes, "control_bytes", (json_int_t)now->control_bytes, "seconds", now->seconds,
                "best_error", lac_json_real(now->best), "best_epoch", now->best_epoch, "best_test_error",
                lac_json_real(now->best_test), "lines", (json_int_t)run->folder.lines, "what", lac_train_what(run));
  char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  lac_status status = text ? lac_checkpoint_writer_put(w->context, run->writer, &state, text)
                           : lac_fail(w->context, LAC_E_MEMORY, "cannot build a checkpoint's totals");
  lac_checkpoint_destroy(&state);
  free(text);
  json_decref(object);
  return status;
}

/* ---- the end of an epoch ---------------------------------------------------------------------------------------- */

typedef struct epoch_report {
  lac_replica_progress progress;
  double train_loss, train_error, spread, own_error, worst_own_error;
  lac_mixing_time observed;
  int64_t stale[LAC_STALE_BUCKETS], refused; /* of all workers, since this process began */
  lac_measured held_out, test;
} epoch_report;

/* Means of the batches that all workers computed in this epoch. */
static lac_status measure_training(worker *w, epoch_report *report) {
  double sums[3] = {report->progress.loss, (double)report->progress.errors, (double)report->progress.points};
  CLI_TRY(lac_world_sum_f64(w->world, sums, 3));
  report->train_loss = sums[0] / w->run->workers;
  report->train_error = sums[2] > 0 ? sums[1] / sums[2] : (double)NAN;
  return LAC_OK;
}

/* The replicas themselves, each by its own worker on the pictures held out. */
static lac_status measure_replicas(worker *w, int64_t batches, epoch_report *report) {
  enum { QUICK = 20 };
  lac_measured own = {NAN, NAN};
  int64_t count = batches < QUICK ? batches : QUICK;
  CLI_TRY(lac_replica_spread(w->context, w->replica, w->answer, &report->spread));
  if (!w->run->set.held_out.images || w->run->workers == 1) {
    report->own_error = report->worst_own_error = report->held_out.error;
    return LAC_OK;
  }
  const float *x = lac_replica_own(w->replica);
  CLI_TRY(lac_measure_statistics(w->context, NULL, w->net, w->plain, count, x, w->own_statistics));
  CLI_TRY(lac_measure_part(w->context, NULL, w->net, x, w->own_statistics, &w->run->set.held_out, &own));
  double best = own.error, worst = own.error;
  CLI_TRY(lac_world_min_f64(w->world, &best, 1));
  CLI_TRY(lac_world_max_f64(w->world, &worst, 1));
  report->own_error = best;
  report->worst_own_error = worst;
  return LAC_OK;
}

/* What the exchange has done; nothing with one worker. */
static lac_status measure_exchange(worker *w, epoch_report *report) {
  lac_replica_history history = lac_replica_history_of(w->replica);
  if (w->run->workers == 1) {
    return LAC_OK;
  }
  memcpy(report->stale, history.stale, sizeof report->stale);
  report->refused = history.refused;
  CLI_TRY(lac_world_sum_i64(w->world, report->stale, LAC_STALE_BUCKETS));
  CLI_TRY(lac_world_sum_i64(w->world, &report->refused, 1));
  return lac_replica_observe(w->context, w->replica, &report->observed);
}

/* The mean of replicas that run away may be beyond float32 before any loss is. */
static lac_status check_finite(worker *w, const epoch_report *report) {
  int64_t count = lac_net_statistics(w->net);
  bool finite = true;
  for (int64_t i = 0; i < w->parameters; i++) {
    finite = finite && isfinite(w->answer[i]);
  }
  for (int64_t i = 0; i < count; i++) {
    finite = finite && isfinite(w->statistics[i]);
  }
  return finite ? LAC_OK
                : lac_fail(w->context, LAC_E_NUMERICAL,
                           "after outer step %" PRId64
                           " the mean of the replicas is not finite; a smaller learning rate "
                           "may help",
                           report->progress.step);
}

static lac_status measure(worker *w, bool last, epoch_report *report) {
  const lac_train_run *run = w->run;
  int64_t all = lac_batches_per_pass(w->plain), limit = run->options->statistics;
  int64_t batches = last || limit == 0 || limit > all ? all : limit;
  lac_replica_state state; /* a mean that travels arrives first, so that what was sent is counted */
  CLI_TRY(lac_replica_state_of(w->context, w->replica, &state));
  *report = (epoch_report){.progress = lac_replica_progress_of(w->replica)};
  CLI_TRY(measure_training(w, report));
  CLI_TRY(lac_replica_answer(w->context, w->replica, w->answer));
  CLI_TRY(lac_measure_statistics(w->context, w->world, w->net, w->plain, batches, w->answer, w->statistics));
  CLI_TRY(check_finite(w, report));
  CLI_TRY(
      lac_measure_part(w->context, w->world, w->net, w->answer, w->statistics, &run->set.held_out, &report->held_out));
  CLI_TRY(lac_measure_part(w->context, w->world, w->net, w->answer, w->statistics, &run->set.test, &report->test));
  CLI_TRY(measure_replicas(w, batches, report));
  CLI_TRY(measure_exchange(w, report));
  return add_up(w);
}

/* What is said of the exchange; null with one worker. */
static json_t *exchange_json(const lac_train_run *run, const epoch_report *report) {
  if (run->workers == 1) {
    return json_null();
  }
  const lac_process_options *exchange = &run->replica.exchange;
  json_t *stale = json_array();
  for (int b = 0; b < LAC_STALE_BUCKETS; b++) {
    json_array_append_new(stale, json_integer(report->stale[b]));
  }
  return json_pack("{s:s, s:s?, s:{s:s?, s:o, s:o, s:o}, s:o, s:I, s:o}", "protocol",
                   lac_protocol_names()[exchange->protocol], "topology", lac_train_topology(run), "t_mix", "kind",
                   run->predicted.kind == LAC_MIXING_AUTO ? NULL : lac_mixing_kind_name(run->predicted.kind),
                   "predicted", lac_json_real(run->predicted.rounds), "observed",
                   lac_json_real(report->observed.rounds), "standard_error",
                   lac_json_real(report->observed.standard_error), "staleness", stale, "refused",
                   (json_int_t)report->refused, "lost", lac_json_real(report->progress.lost));
}

static json_t *epoch_json(const lac_train_run *run, const epoch_report *report, double images_per_second) {
  const lac_replica_progress *progress = &report->progress;
  const lac_train_totals *now = &run->now;
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o}",
                   "event", "epoch", "epoch", lac_json_real(progress->epochs), "passes",
                   lac_json_real(progress->passes), "train_loss", lac_json_real(report->train_loss), "train_error",
                   lac_json_real(report->train_error), "test_error", lac_json_real(report->test.error), "test_loss",
                   lac_json_real(report->test.loss), "held_out_error", lac_json_real(report->held_out.error), "seconds",
                   lac_json_real(now->seconds), "messages", (json_int_t)now->messages, "bytes", (json_int_t)now->bytes,
                   "control_bytes", (json_int_t)now->control_bytes, "images_per_second",
                   lac_json_real(images_per_second), "replica_errors",
                   json_pack("[o, o]", lac_json_real(report->own_error), lac_json_real(report->worst_own_error)),
                   "spread", lac_json_real(report->spread), "learning_rate", lac_json_real(progress->learning_rate),
                   "gradients", (json_int_t)progress->gradients, "exchange", exchange_json(run, report));
}

static lac_status save_model(worker *w, const char *path, const epoch_report *report) {
  const lac_train_run *run = w->run;
  char epoch[32], held_out[32], test[32], print[32], seed[32];
  snprintf(epoch, sizeof epoch, "%.6g", report->progress.epochs);
  snprintf(held_out, sizeof held_out, "%.6g", report->held_out.error);
  snprintf(test, sizeof test, "%.6g", report->test.error);
  snprintf(print, sizeof print, "%016" PRIx64, run->set.fingerprint);
  snprintf(seed, sizeof seed, "%" PRId64, run->options->seed);
  const lac_text_pair pairs[] = {{"model", run->options->model},
                                 {"data", run->options->data},
                                 {"data_fingerprint", print},
                                 {"method", lac_train_method(run)},
                                 {"seed", seed},
                                 {"epoch", epoch},
                                 {"held_out_error", held_out},
                                 {"test_error", test}};
  return lac_classifier_save(w->context, path, w->net, w->answer, w->statistics, run->set.prepare, pairs,
                             sizeof pairs / sizeof *pairs);
}

static lac_status save_in_folder(worker *w, const char *name, const epoch_report *report) {
  char file[PATH_MAX];
  CLI_TRY(lac_train_folder_file(w->run->session, w->run->folder_path, name, file, sizeof file));
  return save_model(w, file, report);
}

/* Replicas that move apart, and a slack too small for float32, are said and not left to be found. */
static void warn(worker *w, const epoch_report *report) {
  lac_train_run *run = w->run;
  double before = run->most_spread;
  if (before > 0 && report->spread > 0.01 && report->spread > 2 * before) {
    lac_context_log(
        w->context, LAC_LOG_WARNING,
        "epoch %.4g: the replicas move apart: they are %.3g of the mean's norm from it, at most %.3g before",
        report->progress.epochs, report->spread, before);
  }
  run->most_spread = report->spread > before ? report->spread : before;
  if (report->progress.lost > 0.1 && report->spread > 0.01) { /* where all but agree, there is little to lose */
    lac_context_log(w->context, LAC_LOG_WARNING,
                    "epoch %.4g: %.0f %% of the moves towards the mean are smaller than what float32 can add to a "
                    "parameter, and are lost: a slack of %g is too small for these replicas",
                    report->progress.epochs, 100 * report->progress.lost, run->replica.exchange.slack);
  }
}

/* Worker 0's: metrics, models. */
static lac_status record_epoch(worker *w, const epoch_report *report, double images_per_second) {
  lac_train_run *run = w->run;
  lac_train_totals *now = &run->now;
  bool choose = run->options->keep == LAC_KEEP_BEST && isfinite(report->held_out.error);
  bool better = !choose || !isfinite(now->best) || report->held_out.error < now->best;
  if (better) {
    now->best = report->held_out.error;
    now->best_test = report->test.error;
    now->best_epoch = report->progress.epochs;
    CLI_TRY(save_in_folder(w, "best.safetensors", report));
    CLI_TRY(save_model(w, run->options->output, report));
    run->saved = true;
  }
  CLI_TRY(save_in_folder(w, "last.safetensors", report));
  json_t *line = epoch_json(run, report, images_per_second);
  lac_status status = line ? lac_train_folder_add(w->context, &run->folder, line)
                           : lac_fail(w->context, LAC_E_MEMORY, "cannot build a line of metrics");
  lac_print_json(run->session, line);
  char bytes[32], held_out[32], test[32], mixing[64] = "";
  if (report->observed.samples > 0) {
    snprintf(mixing, sizeof mixing, ", t_mix %.3g rounds (predicted %.3g)", report->observed.rounds,
             run->predicted.rounds);
  }
  lac_progress_clear(run->session);
  warn(w, report);
  lac_print_note(run->session, "epoch %.4g: loss %.4f, held-out error %s, test error %s, %.3g s, %s sent%s\n",
                 report->progress.epochs, report->train_loss, lac_percent_text(report->held_out.error, held_out),
                 lac_percent_text(report->test.error, test), now->seconds, lac_bytes_text((double)now->bytes, bytes),
                 mixing);
  return status;
}

static lac_status end_epoch(worker *w, double seconds, int64_t gradients) {
  epoch_report report;
  lac_replica_progress progress = lac_replica_progress_of(w->replica);
  bool last = progress.step >= progress.steps;
  CLI_TRY(measure(w, last, &report)); /* a failure here is told to the others at once: they are in its sums */
  lac_status status = LAC_OK;
  double pictures = (double)(gradients * w->run->options->batch * w->run->workers);
  if (w->rank == 0) {
    status = record_epoch(w, &report, seconds > 0 ? pictures / seconds : 0);
  }
  CLI_TRY(lac_world_agree(w->world, status));
  lac_replica_restart_means(w->replica);
  return checkpoint(w);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

/* Whether anybody was asked to stop, or the time is over; the same answer everywhere. */
static lac_status ask_stop(worker *w, double *why) {
  lac_train_run *run = w->run;
  double mine = run->session->stop                                                          ? 2
                : run->time_limit > 0 && lac_clock_seconds() - run->begin > run->time_limit ? 1
                                                                                            : 0;
  CLI_TRY(lac_world_max_f64(w->world, &mine, 1));
  *why = mine;
  return LAC_OK;
}

/* Whether it is time for a checkpoint; worker 0's clock decides. */
static lac_status ask_checkpoint(worker *w, bool *due) {
  double every = (double)w->run->options->checkpoint_every, mine = 0;
  *due = false;
  if (every > 0) {
    mine = w->rank == 0 && lac_clock_seconds() - w->checkpointed > every;
    CLI_TRY(lac_world_max_f64(w->world, &mine, 1));
  }
  *due = mine > 0;
  return LAC_OK;
}

/* So many gradients lie at most between two looks at the clock and the signals. */
enum { LOOK = 25 };

/* Outer steps until the workers meet to look around; those that go their own way look by themselves. */
static int64_t steps_until_meeting(const worker *w, int64_t left) {
  const lac_replica_options *options = &w->run->replica;
  bool nested = options->method == LAC_METHOD_ENTROPY || options->method == LAC_METHOD_PARLE;
  int64_t chunk = nested ? (LOOK + options->inner_steps - 1) / options->inner_steps : LOOK;
  return w->alone || left < chunk ? left : chunk;
}

/* How far all have come: workers that go their own way may end an advance at different steps. */
static lac_status least_step(const worker *w, int64_t *step) {
  double least = (double)*step;
  if (w->alone) {
    CLI_TRY(lac_world_min_f64(w->world, &least, 1));
  }
  *step = (int64_t)least;
  return LAC_OK;
}

static lac_status run_epoch(worker *w, double *why) {
  lac_replica_progress progress = lac_replica_progress_of(w->replica);
  int64_t pass = lac_replica_batches_per_pass(w->replica), least = progress.step;
  CLI_TRY(least_step(w, &least));
  int64_t end = (least / pass + 1) * pass, start_gradients = progress.gradients;
  double seconds = 0;
  w->first = progress.step;
  end = end < progress.steps ? end : progress.steps;
  while (least < end) {
    double start = lac_world_now(w->world);
    bool due;
    int64_t left = end > progress.step ? end - progress.step : 0;
    w->begun = start - seconds;
    CLI_TRY(lac_replica_advance(w->context, w->replica, steps_until_meeting(w, left)));
    seconds += lac_world_now(w->world) - start;
    w->trained += lac_world_now(w->world) - start;
    progress = lac_replica_progress_of(w->replica);
    least = progress.step;
    CLI_TRY(least_step(w, &least));
    show_progress(w, &progress, (double)(progress.step - w->first), seconds);
    CLI_TRY(ask_stop(w, why));
    if (*why > 0 && least < end) {
      return checkpoint(w);
    }
    CLI_TRY(ask_checkpoint(w, &due));
    if (due && least < end) {
      CLI_TRY(checkpoint(w));
    }
  }
  return end_epoch(w, seconds, progress.gradients - start_gradients);
}

static lac_status train_worker(worker *w) {
  double why = 0;
  lac_replica_progress progress = lac_replica_progress_of(w->replica);
  CLI_TRY(least_step(w, &progress.step));
  while (!(why > 0) && progress.step < progress.steps) {
    CLI_TRY(run_epoch(w, &why));
    progress = lac_replica_progress_of(w->replica);
    CLI_TRY(least_step(w, &progress.step));
  }
  if (w->rank > 0) {
    return LAC_OK;
  }
  w->run->stopped = progress.step < progress.steps;
  CLI_TRY(lac_checkpoint_writer_wait(w->context, w->run->writer));
  return why > 1 && w->run->stopped ? LAC_E_INTERRUPTED : LAC_OK;
}

/* Each process has prepared on its own; a failure of one is everyone's. */
static lac_status meet(const worker *w) {
  lac_status status = w->run->prepared;
  if (status) {
    status = lac_fail(w->context, status, "%s", lac_context_message(w->run->session->context));
  }
  return lac_world_agree(w->world, status);
}

lac_status lac_train_worker(lac_world *world, void *argument) {
  lac_train_run *run = argument;
  worker w = {.run = run, .context = lac_world_context(world), .world = world, .rank = lac_world_rank(world)};
  w.checkpointed = lac_clock_seconds();
  w.alone = run->workers > 1 && lac_protocol_asynchronous(run->replica.exchange.protocol);
  CLI_TRY(meet(&w));
  if (run->options->dry_run) {
    return LAC_OK;
  }
  lac_status status = lac_world_agree(world, open_worker(&w));
  if (!status) {
    status = open_replica(&w);
  }
  if (!status) {
    status = lac_world_agree(world, open_folder(&w));
  }
  if (!status) {
    status = train_worker(&w);
  }
  close_worker(&w);
  return status;
}
