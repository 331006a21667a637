#include "cli/train.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/network.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/quantity.h"
#include "cli/train_worker.h"

/* ---- before the workers start ----------------------------------------------------------------------------------- */

static lac_status read_simulation(lac_train_run *run) {
  const lac_train_options *options = run->options;
  lac_network network;
  if (!options->simulate) {
    return options->compute ? lac_fail(run->session->context, LAC_E_USAGE,
                                       "--compute: found without --simulate, expected both or neither")
                            : LAC_OK;
  }
  CLI_TRY(lac_parse_network(run->session, "simulate", options->simulate, &network));
  run->compute = 0.01;
  if (options->compute) {
    CLI_TRY(lac_parse_duration(run->session, "compute", options->compute, &run->compute));
  }
  if (lac_world_launched()) {
    return lac_fail(
        run->session->context, LAC_E_USAGE,
        "--simulate: found under an MPI launcher, expected one process: the simulation runs all workers in it");
  }
  run->cluster = (lac_cluster){
      .seed = options->seed, .latency = network.latency, .bandwidth = network.bandwidth, .jitter = options->jitter};
  run->world.backend = "sim";
  run->world.cluster = &run->cluster;
  return LAC_OK;
}

static lac_status check_options(lac_train_run *run) {
  const lac_train_options *options = run->options;
  lac_context *context = run->session->context;
  const struct {
    const char *value, *key;
  } needed[] = {{options->model, "--model"}, {options->data, "--data"}, {options->output, "-o"}};
  for (int i = 0; i < 3; i++) {
    if (!needed[i].value) {
      return lac_fail(context, LAC_E_USAGE, "train: no %s given; see laconic train --help", needed[i].key);
    }
  }
  run->replica = options->replica;
  run->replica.seed = options->seed;
  run->workers = (int)options->workers;
  /* simulated waits cost nothing */
  run->world = (lac_world_options){.timeout_ms = options->simulate ? LAC_PATIENCE_MS : 1000 * options->timeout};
  if (lac_world_launched()) {
    CLI_TRY(lac_world_size_of(context, &run->world, &run->workers));
  } else {
    run->world.workers = run->workers;
  }
  CLI_TRY(read_simulation(run));
  run->split = options->split > 0 ? options->split : run->replica.method == LAC_METHOD_SGD ? 1.0 / run->workers : 1;
  CLI_TRY(lac_replica_check(context, &run->replica, run->workers));
  if (options->time_limit) {
    CLI_TRY(lac_parse_duration(run->session, "time-limit", options->time_limit, &run->time_limit));
  }
  return LAC_OK;
}

/* A network that is made and thrown away tells whether description, pictures and options fit, … */
static lac_status try_network(lac_train_run *run, int64_t *parameters) {
  lac_net *net;
  const lac_images *train = run->set.train.images;
  CLI_TRY(lac_net_create(run->session->context, run->layers, run->source, lac_images_shape(train),
                         lac_images_classes(train), run->options->batch, &run->options->net, &net));
  *parameters = lac_net_parameters(net);
  lac_net_destroy(&net);
  return LAC_OK;
}

/* … and so do the batches of a replica; all have as many pictures. */
static lac_status try_batches(lac_train_run *run) {
  lac_batches *batches;
  lac_batches_options drawn = lac_train_batches(run, 0);
  drawn.ahead = false;
  CLI_TRY(lac_batches_create(run->session->context, run->set.train.images, run->set.train.pixels, &drawn, &batches));
  lac_batches_destroy(&batches);
  return LAC_OK;
}

static void warn_of_unseen(const lac_train_run *run) {
  int64_t count = lac_images_count(run->set.train.images);
  int64_t unseen = lac_batches_unseen(count, run->workers, run->split);
  if (unseen > 0) {
    lac_context_log(run->session->context, LAC_LOG_WARNING,
                    "%d replicas of %g of the pictures each leave %" PRId64 " of %" PRId64 " to nobody", run->workers,
                    run->split, unseen, count);
  }
}

static int64_t batches_per_pass(const lac_train_run *run) {
  int64_t count = lac_images_count(run->set.train.images);
  return (int64_t)ceil(run->split * (double)count - 1e-9) / run->options->batch;
}

static double outer_steps(const lac_train_run *run) {
  return ceil(run->replica.epochs * (double)batches_per_pass(run));
}

/* Options that leave the workers without each other, or do nothing, and are likely to be mistakes. */
static lac_status warn_of_exchange(const lac_train_run *run) {
  const lac_process_options *exchange = &run->replica.exchange;
  const char *protocol = lac_protocol_names()[exchange->protocol];
  lac_process *process;
  if (exchange->topology.graph && !lac_protocol_on_topology(exchange->protocol)) {
    lac_context_log(
        run->session->context, LAC_LOG_WARNING,
        "--graph: found %s with the exchange %s, which has no topology, expected dpsgd, adpsgd or async-ring",
        exchange->topology.graph, protocol);
  }
  if (run->workers == 1) {
    return LAC_OK;
  }
  CLI_TRY(lac_replica_process(run->session->context, &run->replica, run->workers, &process));
  int64_t period = lac_process_period(process);
  lac_process_destroy(&process);
  if ((double)period > outer_steps(run)) {
    lac_context_log(run->session->context, LAC_LOG_WARNING,
                    "--period: found %" PRId64
                    " with the exchange %s, expected at most the %.0f outer steps of the "
                    "training: the workers never mix",
                    period, protocol, outer_steps(run));
  }
  return LAC_OK;
}

json_t *lac_train_what(const lac_train_run *run) {
  char print[24];
  snprintf(print, sizeof print, "%016" PRIx64, run->set.fingerprint);
  const lac_option *optimizer = lac_options_find(lac_replica_option_table(), "optimizer");
  return json_pack("{s:s, s:s, s:s, s:I}", "pictures", print, "method", lac_train_method(run), "optimizer",
                   optimizer->names[run->replica.optimizer.kind], "batches a pass", (json_int_t)batches_per_pass(run));
}

/* A checkpoint goes on with what it was made with: vectors of another optimiser mean something else, the best of other
 * pictures is none, and with other batches a pass its steps would be at another epoch. */
static lac_status check_what(const lac_train_run *run, const json_t *stored) {
  json_t *own = lac_train_what(run);
  const char *key;
  json_t *value;
  lac_status status = LAC_OK;
  json_object_foreach(own, key, value) {
    const json_t *before = json_object_get(stored, key);
    if (!status && before && !json_equal(before, value)) {
      char *found = json_dumps(value, JSON_ENCODE_ANY), *expected = json_dumps(before, JSON_ENCODE_ANY);
      bool batches = json_is_integer(value);
      status = lac_fail(run->session->context, LAC_E_INPUT, "--resume: found %s %s, expected %s as in %s%s", key,
                        found ? found : "?", expected ? expected : "?", run->checkpoint_path,
                        batches ? "; --split and --batch make them" : "");
      free(found);
      free(expected);
    }
  }
  json_decref(own);
  return status;
}

static lac_status read_totals(lac_train_run *run) {
  json_t *stored = json_loads(lac_checkpoint_totals(run->checkpoint), 0, NULL), *best, *best_test;
  lac_train_totals *before = &run->before;
  json_int_t messages, bytes, control, lines;
  if (json_unpack(stored, "{s:I, s:I, s:I, s:F, s:o, s:F, s:o, s:I}", "messages", &messages, "bytes", &bytes,
                  "control_bytes", &control, "seconds", &before->seconds, "best_error", &best, "best_epoch",
                  &before->best_epoch, "best_test_error", &best_test, "lines", &lines) != 0) {
    json_decref(stored);
    return lac_fail(run->session->context, LAC_E_INPUT,
                    "%s: metadata laconic.totals: found something else than the JSON object of a run",
                    run->checkpoint_path);
  }
  before->messages = messages, before->bytes = bytes, before->control_bytes = control;
  before->best = json_is_number(best) ? json_number_value(best) : (double)NAN;
  before->best_test = json_is_number(best_test) ? json_number_value(best_test) : (double)NAN;
  run->lines = lines;
  lac_status status = check_what(run, json_object_get(stored, "what"));
  json_decref(stored);
  return status;
}

static lac_status open_checkpoint(lac_train_run *run, int64_t parameters) {
  CLI_TRY(lac_train_folder_file(run->session, run->folder_path, "checkpoint.safetensors", run->checkpoint_path,
                                sizeof run->checkpoint_path));
  run->before = (lac_train_totals){.best = NAN, .best_test = NAN};
  if (!run->options->resume) {
    return LAC_OK;
  }
  if (access(run->checkpoint_path, F_OK) != 0) {
    return lac_fail(run->session->context, LAC_E_INPUT,
                    "%s: not found: that run ended before its first checkpoint; --overwrite starts it anew",
                    run->checkpoint_path);
  }
  CLI_TRY(lac_checkpoint_open(run->session->context, run->checkpoint_path, run->layers, parameters, &run->checkpoint));
  return read_totals(run);
}

/* That the model is to be neither of the two files of PICTURES+LABELS, wherever its + is. */
static lac_status check_set_apart(const lac_train_run *run, const char *name, const char *set) {
  char pictures[PATH_MAX];
  for (const char *plus = set ? strchr(set, '+') : NULL; plus; plus = strchr(plus + 1, '+')) {
    snprintf(pictures, sizeof pictures, "%.*s", (int)(plus - set), set);
    const lac_file_use files[] = {{"-o", run->options->output, true}, {name, pictures, false}, {name, plus + 1, false}};
    CLI_TRY(lac_check_apart(run->session, files, 3));
  }
  return LAC_OK;
}

static lac_status check_apart(const lac_train_run *run) {
  const char *model = run->options->model;
  const lac_file_use files[] = {{"-o", run->options->output, true}, {"--model", model, false}};
  if (strpbrk(model, "./")) { /* a file that describes layers */
    CLI_TRY(lac_check_apart(run->session, files, 2));
  }
  const lac_file_use graph[] = {files[0], {"--graph", run->replica.exchange.topology.graph, false}};
  CLI_TRY(lac_check_apart(run->session, graph, 2));
  const lac_file_use cache[] = {files[0], {"--zca-cache", run->options->zca_cache, false}};
  CLI_TRY(lac_check_apart(run->session, cache, 2));
  CLI_TRY(check_set_apart(run, "--data", run->options->data));
  return check_set_apart(run, "--test", run->options->test);
}

/* Everything that can be found wrong before the work. */
static lac_status prepare(lac_train_run *run, int64_t *parameters) {
  if (!run->session->silent) {
    CLI_TRY(lac_output_check(run->session->context, run->options->output));
    CLI_TRY(check_apart(run));
  }
  if (run->options->resume) {
    run->folder_path = strdup(run->options->resume);
  } else {
    CLI_TRY(lac_train_folder_name(run->session, run->options, &run->folder_path));
    if (!run->session->silent) {
      CLI_TRY(lac_train_folder_check(run->session, run->options, run->folder_path));
    }
  }
  if (!run->session->silent) {
    CLI_TRY(lac_train_folder_apart(run->session, run->folder_path, run->options->output));
  }
  snprintf(run->source, sizeof run->source, "%.63s", run->options->model);
  CLI_TRY(lac_network_read(run->session, run->options->model, run->options->width, &run->layers));
  CLI_TRY(lac_train_set_open(run->session, run->options, &run->set));
  CLI_TRY(try_network(run, parameters));
  CLI_TRY(try_batches(run));
  warn_of_unseen(run);
  CLI_TRY(warn_of_exchange(run));
  return run->options->dry_run ? LAC_OK : open_checkpoint(run, *parameters);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

/* What the exchange sends in so many outer steps: all that is left of a period at the end sends nothing. */
static lac_status cost_of(const lac_train_run *run, double steps, lac_process_cost *cost) {
  lac_process *process;
  *cost = (lac_process_cost){0};
  if (run->workers == 1) {
    return LAC_OK; /* no topology need fit it */
  }
  CLI_TRY(lac_replica_process(run->session->context, &run->replica, run->workers, &process));
  double period = (double)lac_process_period(process), rounds = period * floor(steps / period);
  *cost = lac_process_cost_of(process);
  if (run->replica.exchange.protocol == LAC_PROTOCOL_ADPSGD && run->replica.method != LAC_METHOD_SGD) {
    rounds /= 2; /* offers are asked for, not exchanged */
  }
  cost->messages = rint(rounds * cost->messages); /* a part of one is rounding, or of a random number's mean */
  cost->vectors = rint(rounds * cost->vectors);
  lac_process_destroy(&process);
  return LAC_OK;
}

static json_t *exchange_json(const lac_train_run *run) {
  const lac_mixing_time *time = &run->predicted;
  return run->workers == 1
             ? json_null()
             : json_pack("{s:s, s:s?, s:{s:s?, s:o, s:o, s:o}}", "protocol",
                         lac_protocol_names()[run->replica.exchange.protocol], "topology", lac_train_topology(run),
                         "t_mix", "kind", time->kind == LAC_MIXING_AUTO ? NULL : lac_mixing_kind_name(time->kind),
                         "predicted", lac_json_real(time->rounds), "lower", lac_json_real(time->lower), "upper",
                         lac_json_real(time->upper));
}

static void print_exchange(const lac_train_run *run) {
  const lac_mixing_time *time = &run->predicted;
  const char *protocol = lac_protocol_names()[run->replica.exchange.protocol], *topology = lac_train_topology(run);
  lac_print(run->session, "exchange %s%s%s: ", protocol, topology ? " on the topology " : "", topology ? topology : "");
  if (*time->reason) {
    lac_print(run->session, "never mixes: %s\n", time->reason);
  } else if (isfinite(time->rounds)) {
    lac_print(run->session, "mixing time %.4g rounds (%s)\n", time->rounds, lac_mixing_kind_name(time->kind));
  } else if (isfinite(time->lower)) {
    lac_print(run->session, "mixing time at least %.4g rounds (bound)\n", time->lower);
  } else {
    lac_print(run->session, "finding the mixing time takes long; laconic mix does\n");
  }
}

static lac_status print_sizes(lac_train_run *run, int64_t parameters) {
  int64_t count = lac_images_count(run->set.train.images);
  int64_t batches = batches_per_pass(run);
  bool nested = run->replica.method == LAC_METHOD_ENTROPY || run->replica.method == LAC_METHOD_PARLE;
  int64_t held = run->set.held_out.images ? lac_images_count(run->set.held_out.images) : 0;
  int64_t test = run->set.test.images ? lac_images_count(run->set.test.images) : 0;
  double steps = outer_steps(run), gradients = steps * (double)(nested ? run->replica.inner_steps : 1);
  lac_process_cost cost;
  CLI_TRY(lac_train_predict(run->session->context, run));
  CLI_TRY(cost_of(run, steps, &cost));
  double bytes = cost.vectors * (double)parameters * sizeof(float);
  char text[32];
  lac_print(run->session,
            "%" PRId64 " training pictures, %" PRId64 " held out, %" PRId64 " of test; %" PRId64
            " parameters; %d workers, %" PRId64 " batches a pass each\n",
            count, held, test, parameters, run->workers, batches);
  lac_print(run->session, "%.0f outer steps, %.0f gradients of each worker, %.0f messages, %s in all%s\n", steps,
            gradients, cost.messages, lac_bytes_text(bytes, text),
            run->replica.exchange.protocol == LAC_PROTOCOL_ADPSGD && run->replica.method == LAC_METHOD_SGD
                ? ", more or less: pairs meet at random"
                : "");
  if (run->workers > 1) {
    print_exchange(run);
  }
  lac_print_json(run->session,
                 json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:I, s:f, s:f, s:f, s:f, s:o}", "event", "sizes", "images",
                           (json_int_t)count, "held_out", (json_int_t)held, "test", (json_int_t)test, "parameters",
                           (json_int_t)parameters, "workers", run->workers, "batches_per_pass", (json_int_t)batches,
                           "steps", steps, "gradients", gradients, "messages", cost.messages, "bytes", bytes,
                           "exchange", exchange_json(run)));
  return LAC_OK;
}

static lac_status dry_run(lac_train_run *run, int64_t parameters) {
  if (run->session->silent) {
    return LAC_OK;
  }
  for (const lac_option_group *group = lac_command_train.groups; group->title; group++) {
    const void *values = (const char *)run->options + group->offset;
    for (const lac_option *option = lac_group_options(group); option->key; option++) {
      char *text;
      CLI_TRY(lac_options_get(run->session->context, option, values, &text));
      if (text) {
        lac_print(run->session, "%-18s %s\n", option->key, text);
      }
      free(text);
    }
  }
  return print_sizes(run, parameters);
}

/* A run that was taken up and had nothing better to save still has a best model, in its folder. */
static lac_status save_best(const lac_train_run *run) {
  const char *name = run->options->keep == LAC_KEEP_BEST ? "best.safetensors" : "last.safetensors";
  return run->saved ? LAC_OK : lac_train_folder_copy(run->session, run->folder_path, name, run->options->output);
}

static lac_status print_end(const lac_train_run *run) {
  const lac_train_totals *now = &run->now;
  if (run->session->silent) {
    return LAC_OK;
  }
  char bytes[32], error[32];
  CLI_TRY(save_best(run));
  lac_print_note(run->session, "%s: %s, %s, %d workers, epoch %.4g, test error %s, %.3g s, %" PRId64 " messages, %s\n",
                 run->options->output, run->options->model, lac_train_method(run), run->workers, now->best_epoch,
                 lac_percent_text(now->best_test, error), now->seconds, now->messages,
                 lac_bytes_text((double)now->bytes, bytes));
  lac_print_json(run->session, json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "event", "done",
                                         "method", lac_train_method(run), "model", run->options->model, "workers",
                                         run->workers, "test_error", lac_json_real(now->best_test), "held_out_error",
                                         lac_json_real(now->best), "epoch", lac_json_real(now->best_epoch), "seconds",
                                         lac_json_real(now->seconds), "messages", (json_int_t)now->messages, "bytes",
                                         (json_int_t)now->bytes, "control_bytes", (json_int_t)now->control_bytes));
  return LAC_OK;
}

static lac_status report_stop(const lac_train_run *run, lac_status status) {
  char next[PATH_MAX + 64];
  bool kept = access(run->checkpoint_path, F_OK) == 0; /* a second signal does not wait for it */
  snprintf(next, sizeof next, kept ? "laconic train --resume %s goes on" : "%s has no checkpoint to go on from",
           run->folder_path);
  if (!run->session->silent) {
    lac_print_json(run->session, json_pack("{s:s, s:s, s:s}", "event", "stopped", "reason",
                                           status ? "interrupted" : "time-limit", "run", run->folder_path));
    lac_print_note(run->session, "stopped; %s\n", next);
  }
  return status ? lac_fail(run->session->context, status, "interrupted; %s", next) : LAC_OK;
}

static void close_training(lac_train_run *run) {
  lac_checkpoint_writer_destroy(&run->writer);
  lac_checkpoint_close(&run->checkpoint);
  lac_train_folder_close(&run->folder);
  lac_train_set_close(&run->set);
  free(run->folder_path);
  free(run->layers);
}

static lac_status run_train(lac_session *session, const void *argument, char *const *operands, int count) {
  (void)operands;
  (void)count;
  lac_train_run run = {.session = session, .options = argument, .begin = lac_clock_seconds()};
  int64_t parameters = 0;
  CLI_TRY(check_options(&run));
  run.prepared = prepare(&run, &parameters);
  lac_status status = run.prepared;
  if (!status || session->ranks > 1) { /* ranks only meet among the workers: until then each keeps its failure */
    run.now = run.before;
    status = lac_world_run(session->context, &run.world, lac_train_worker, &run);
    lac_progress_clear(session);
    if (status == LAC_E_INTERRUPTED || (!status && run.stopped)) {
      status = report_stop(&run, status);
    } else if (!status) {
      status = run.options->dry_run ? dry_run(&run, parameters) : print_end(&run);
    }
  }
  close_training(&run);
  return status;
}

static lac_status recall(lac_session *session, void *options, bool *recalled) {
  char *path = ((lac_train_options *)options)->resume;
  *recalled = path != NULL;
  return path ? lac_train_folder_recall(session, path, options) : LAC_OK;
}

static const lac_option_group train_groups[] = {
    {.title = "Options", .own = lac_train_option_table},
    {.title = "Options of the method",
     .table = lac_replica_option_table,
     .offset = offsetof(lac_train_options, replica)},
    {.title = "Options of the exchange: its topology",
     .table = lac_topology_option_table,
     .offset = offsetof(lac_train_options, replica.exchange.topology)},
    {.title = "Options of the exchange",
     .table = lac_process_option_table,
     .offset = offsetof(lac_train_options, replica.exchange)},
    {.title = "Options of the network", .table = lac_net_option_table, .offset = offsetof(lac_train_options, net)},
    {0},
};

const lac_command lac_command_train = {
    .name = "train",
    .operands = "--model NAME --data SET -o FILE",
    .summary = "train a network on replicas that speak seldom",
    .description =
        "Trains a network to classify pictures on a number of workers, each with a replica of its own. Data-parallel "
        "SGD "
        "and elastic averaging speak once a gradient; Parle speaks once in 25 and ends in one better network; "
        "Entropy-SGD is Parle on one worker. The same options give the same bits on threads of this machine and on the "
        "ranks of mpiexec.\n\n"
        "A run has a folder with its options, a JSON line of metrics per epoch, a checkpoint, and the best and the "
        "last "
        "model. The best is chosen by pictures that are held out of the training set, never by the test set. An "
        "interrupt (control-C, SIGTERM or SIGHUP; a second one does not wait) and --time-limit write a checkpoint, and "
        "--resume "
        "goes on from the last one exactly; with another number of workers the replicas start again at their mean.\n\n"
        "With --json, a line per epoch: event, epoch, passes, train_loss, test_error, held_out_error, seconds, "
        "messages, "
        "bytes, images_per_second and more; and a last one: event, method, model, workers, test_error, seconds, "
        "messages, "
        "bytes. Errors are fractions; messages and bytes are those of the training, summed over the workers.",
    .example =
        "laconic train --model lenet --data mnist:/data/mnist -o lenet.safetensors --method parle --workers 3\n"
        "laconic train --model resnet20 --data cifar10:/data/cifar-10 -o r.safetensors --epochs 30 --flip --crop 4\n"
        "laconic train --resume lenet.run --time-limit 2h",
    .groups = train_groups,
    .options_size = sizeof(lac_train_options),
    .on_ranks = true,
    .stops_softly = true,
    .recall = recall,
    .run = run_train,
};
