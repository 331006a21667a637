#include <math.h>
#include <stddef.h>

#include "base/memory.h"
#include "laconic/replica.h"
#include "mixing/process.h"
#include "replica/exchange.h"

static const char *const methods[] = {"sgd", "elastic", "entropy", "parle", NULL};
static const char *const optimizers[] = {"sgd", "momentum", "nesterov", "rmsprop", "adam", "amsgrad", NULL};
static const char *const schedules[] = {"step", "cosine", NULL};

static const lac_option table[] = {
    {.key = "method",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_replica_options, method),
     .names = methods,
     .fallback = "sgd",
     .help = "data-parallel SGD, elastic averaging, Entropy-SGD (one worker) or Parle"},
    {.key = "epochs",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, epochs),
     .low = 1e-9,
     .high = 1e9,
     .fallback = "5",
     .help = "length of the training; an epoch is a pass over the data for sgd and elastic, and as many outer steps, "
             "each of --inner-steps gradients, for entropy and parle"},
    {.key = "inner-steps",
     .type = LAC_OPTION_INT,
     .offset = offsetof(lac_replica_options, inner_steps),
     .low = 1,
     .high = 1e6,
     .fallback = "25",
     .unit = "gradients",
     .help = "gradients from one averaging of entropy and parle to the next"},
    {.key = "average",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, average),
     .low = 0,
     .high = 1,
     .fallback = "0.25",
     .help = "weight of the newest iterate in the running mean of entropy and parle"},
    {.key = "gamma",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, gamma),
     .low = 1e-9,
     .high = 1e12,
     .fallback = "100",
     .help = "first scope of entropy and parle: how far inner iterates may go from their replica"},
    {.key = "rho",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, rho),
     .low = 1e-9,
     .high = 1e12,
     .fallback = "1",
     .help = "first scope of elastic and parle: how far replicas may go from their mean"},
    {.key = "scoping",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, scoping),
     .low = 1e-9,
     .high = 1e6,
     .fallback = "1",
     .help = "how many times as fast as in the paper gamma and rho tighten: 4 where the schedule has a quarter of its "
             "length"},
    {.key = "exchange",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_replica_options, exchange.protocol),
     .names = lac_protocol_name_list,
     .fallback = "allreduce",
     .help =
         "how replicas mix: see laconic mix. Parle and elastic are drawn to what it gives in place of the mean; sgd "
         "mixes models, but gradients with allreduce of period and slack 1"},
    {.key = "overlap",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_replica_options, overlap),
     .help = "let the mean of an outer step travel while the next one computes; it is used one outer step late"},
    {.key = "optimizer",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_replica_options, optimizer.kind),
     .names = optimizers,
     .fallback = "nesterov",
     .help = "how gradients become steps"},
    {.key = "momentum",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, optimizer.momentum),
     .low = 0,
     .high = 0.999999,
     .fallback = "0.9",
     .help = "weight of the past in momentum, nesterov, adam and amsgrad"},
    {.key = "second-momentum",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, optimizer.second),
     .low = 0,
     .high = 0.999999999,
     .fallback = "0.999",
     .help = "weight of the past in the squares of rmsprop, adam and amsgrad"},
    {.key = "epsilon",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, optimizer.epsilon),
     .low = 1e-30,
     .high = 1,
     .fallback = "1e-8",
     .help = "added to the roots of rmsprop, adam and amsgrad"},
    {.key = "weight-decay",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, optimizer.weight_decay),
     .low = 0,
     .high = 1e6,
     .fallback = "0",
     .help = "pull of the parameters towards 0, added to the gradient"},
    {.key = "decoupled",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_replica_options, optimizer.decoupled),
     .help = "shrink the parameters by learning rate times weight decay beside the step instead"},
    {.key = "outer-momentum",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, outer_momentum),
     .low = 0,
     .high = 0.999999,
     .fallback = "0.9",
     .help = "Nesterov momentum of the replicas in entropy and parle"},
    {.key = "learning-rate",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, learning_rate),
     .low = 0,
     .high = 1e6,
     .fallback = "0.1",
     .help = "first learning rate; inner iterates keep it"},
    {.key = "schedule",
     .type = LAC_OPTION_NAME,
     .offset = offsetof(lac_replica_options, schedule),
     .names = schedules,
     .fallback = "step",
     .help = "how the learning rate falls: by --drop-factor at each of --drops, or along a cosine to 0"},
    {.key = "drops",
     .type = LAC_OPTION_TEXT,
     .offset = offsetof(lac_replica_options, drops),
     .unit = "LIST",
     .help = "epochs at which the learning rate drops, as 2,4,6"},
    {.key = "drop-factor",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, drop_factor),
     .low = 0,
     .high = 1,
     .fallback = "0.2",
     .help = "what a drop multiplies the learning rate by"},
    {.key = "warm-up",
     .type = LAC_OPTION_REAL,
     .offset = offsetof(lac_replica_options, warm_up),
     .low = 0,
     .high = 1e9,
     .fallback = "0",
     .unit = "epochs",
     .help = "let the learning rate rise from 0 over so long"},
    LAC_OPTIONS_END,
};

const lac_option *lac_replica_option_table(void) {
  return table;
}

/* ---- the exchange ---- */

static lac_process_options exchange_of(const lac_replica_options *options) {
  lac_process_options exchange = options->exchange;
  exchange.period = exchange.period == 0 ? 1 : exchange.period;
  exchange.slack = exchange.slack == 0 ? 1 : exchange.slack;
  return exchange;
}

bool lac_replica_mixes_models(const lac_replica_options *options) {
  lac_process_options exchange = exchange_of(options);
  return options->method == LAC_METHOD_SGD &&
         !(exchange.protocol == LAC_PROTOCOL_ALLREDUCE && exchange.period == 1 && exchange.slack == 1);
}

lac_status lac_replica_process(lac_context *context, const lac_replica_options *options, int workers,
                               lac_process **process) {
  lac_process_options exchange = exchange_of(options);
  return lac_process_create(context, &exchange, workers, options->seed, process);
}

/* What an exchange can be combined with. */
static lac_status check_exchange(lac_context *context, const lac_replica_options *options, int workers) {
  lac_process *process;
  if (options->overlap && lac_replica_mixes_models(options)) {
    return lac_fail(context, LAC_E_USAGE,
                    "overlap: found it with sgd and the exchange %s, expected it without: models travel while the "
                    "gradient is computed in any case",
                    lac_protocol_name_list[options->exchange.protocol]);
  }
  int protocol = options->exchange.protocol;
  if (options->overlap && lac_protocol_asynchronous(protocol)) {
    return lac_fail(context, LAC_E_USAGE, "overlap: found it with %s, expected it without: nobody waits there",
                    lac_protocol_name_list[protocol]);
  }
  if (options->exchange.delay > 0) {
    return lac_fail(context, LAC_E_USAGE,
                    "delay: found %g rounds, expected none: it is for laconic mix, here messages take "
                    "the time that they take",
                    options->exchange.delay);
  }
  LAC_TRY(lac_replica_process(context, options, workers, &process));
  lac_process_destroy(&process);
  return LAC_OK;
}

/* What no training can be done with, whoever has filled the struct; what a method does not use is not looked at. */
static lac_status check_fields(lac_context *context, const lac_replica_options *options) {
  bool nested = options->method == LAC_METHOD_ENTROPY || options->method == LAC_METHOD_PARLE;
  bool pulled = options->method == LAC_METHOD_ELASTIC || options->method == LAC_METHOD_PARLE;
  const struct {
    const char *name;
    double value, low, high;
  } fields[] = {{"method", options->method, 0, LAC_METHOD_PARLE},
                {"schedule", options->schedule, 0, LAC_SCHEDULE_COSINE},
                {"optimizer", options->optimizer.kind, 0, LAC_OPTIMIZER_AMSGRAD},
                {"epochs", options->epochs, 0, 1e15},
                {"learning rate", options->learning_rate, 0, 1e15},
                {"inner steps", nested ? (double)options->inner_steps : 1, 1, 1e15},
                {"average", nested ? options->average : 0, 0, 1},
                {"gamma", nested ? options->gamma : 1, 1e-300, HUGE_VAL},
                {"rho", pulled ? options->rho : 1, 1e-300, HUGE_VAL},
                {"scoping", nested || pulled ? options->scoping : 1, 0, 1e15}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (!(fields[i].value >= fields[i].low && fields[i].value <= fields[i].high)) {
      return lac_fail(context, LAC_E_USAGE, "%s: found %g, expected %g to %g", fields[i].name, fields[i].value,
                      fields[i].low, fields[i].high);
    }
  }
  return LAC_OK;
}

lac_status lac_replica_check(lac_context *context, const lac_replica_options *options, int workers) {
  lac_schedule schedule;
  LAC_TRY(check_fields(context, options));
  LAC_TRY(lac_schedule_parse_drops(context, options->drops, &schedule));
  if (options->method == LAC_METHOD_ENTROPY && workers > 1) {
    return lac_fail(context, LAC_E_USAGE,
                    "method: found entropy with %d workers, expected one; with more it is called parle", workers);
  }
  if (options->schedule == LAC_SCHEDULE_COSINE && schedule.drops > 0) {
    return lac_fail(context, LAC_E_USAGE, "drops: found '%s' with the cosine schedule, expected none", options->drops);
  }
  if (options->warm_up > options->epochs) {
    return lac_fail(context, LAC_E_USAGE, "warm-up: found %g epochs, expected at most the %g of the training",
                    options->warm_up, options->epochs);
  }
  return workers > 1 ? check_exchange(context, options, workers) : LAC_OK;
}
