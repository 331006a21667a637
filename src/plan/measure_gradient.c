#include <string.h>

#include "base/memory.h"
#include "plan/calibration.h"
#include "plan/fit.h"

/* Timed at least so often and so long, at most so often; the first of all, which fills caches, does not count. */
enum { LEAST = 5, MOST = 200 };
static const double long_enough = 1;

typedef struct gradient_run {
  lac_net *net;
  float *parameters, *statistics, *gradient;
  lac_drawn_batch batch;
} gradient_run;

static lac_status prepare(lac_context *context, lac_net *net, gradient_run *run) {
  *run = (gradient_run){.net = net};
  LAC_TRY(LAC_NEW(context, lac_net_parameters(net), &run->parameters));
  LAC_TRY(LAC_NEW(context, lac_net_statistics(net), &run->statistics));
  LAC_TRY(LAC_NEW(context, lac_net_parameters(net), &run->gradient));
  lac_net_initialise(net, 0, run->parameters, run->statistics);
  return lac_draw_batch(context, net, &run->batch);
}

static void clear(gradient_run *run) {
  lac_free(run->parameters);
  lac_free(run->statistics);
  lac_free(run->gradient);
  lac_drawn_batch_clear(&run->batch);
}

/* In seconds of this thread, which computes a gradient alone. */
static lac_status time_gradients(lac_context *context, gradient_run *run, double *seconds) {
  double times[MOST], sum = 0, loss;
  int64_t count = 0, errors;
  for (int64_t i = 0; i <= MOST && (i <= LEAST || sum < long_enough); i++) {
    double start = lac_thread_seconds();
    lac_net_key key = {.step = i};
    LAC_TRY(lac_net_gradient(context, run->net, run->parameters, run->batch.pictures, run->batch.labels, key,
                             run->gradient, &loss, &errors));
    double took = lac_thread_seconds() - start;
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted while timing a gradient");
    }
    if (i > 0) {
      times[count++] = took;
      sum += took;
    }
  }
  *seconds = lac_fit_median(times, count);
  return LAC_OK;
}

lac_status lac_calibration_measure_gradient(lac_context *context, lac_calibration *calibration, const char *model,
                                            lac_net *net) {
  lac_gradient_entry entry = {.batch = lac_net_batch(net),
                              .precision = lac_net_options_of(net).precision,
                              .parameters = lac_net_parameters(net),
                              .flops = lac_net_flops(net)};
  gradient_run run;
  if (!*model || strlen(model) >= LAC_CALIBRATION_TEXT) {
    return lac_fail(context, LAC_E_USAGE, "calibration: found a model's name of %zu bytes, expected 1 to %d",
                    strlen(model), LAC_CALIBRATION_TEXT - 1);
  }
  lac_calibration_text(entry.model, model);
  lac_calibration_text(entry.backend, lac_net_backend_name(net));
  lac_status status = prepare(context, net, &run);
  if (!status) {
    status = time_gradients(context, &run, &entry.seconds);
  }
  clear(&run);
  LAC_TRY(status);
  entry.seconds = lac_measured(entry.seconds > 1e-9 ? entry.seconds : 1e-9); /* no finer than the clock */
  return lac_calibration_put_gradient(context, calibration, &entry, NULL);
}
