#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "laconic/optimizer.h"

static const double pi = 3.14159265358979323846;

lac_status lac_schedule_parse_drops(lac_context *context, const char *text, lac_schedule *schedule) {
  schedule->drops = 0;
  const char *at = text ? text : "";
  while (*at) {
    char *end;
    errno = 0;
    double value = strtod(at, &end);
    double before = schedule->drops > 0 ? schedule->at[schedule->drops - 1] : 0;
    bool more = *end == ',';
    if (end == at || errno || !isfinite(value) || value <= before || (*end && !more) || (more && !end[1])) {
      return lac_fail(context, LAC_E_USAGE, "drops: found '%s', expected rising numbers above 0 as 2,4,6", text);
    }
    if (schedule->drops == LAC_SCHEDULE_DROPS) {
      return lac_fail(context, LAC_E_USAGE, "drops: found more than %d, the most there may be", LAC_SCHEDULE_DROPS);
    }
    schedule->at[schedule->drops++] = value;
    at = more ? end + 1 : end;
  }
  return LAC_OK;
}

double lac_schedule_at(const lac_schedule *schedule, double time) {
  double rate = schedule->learning_rate;
  if (time < schedule->warm_up) {
    return rate * time / schedule->warm_up;
  }
  if (schedule->kind == LAC_SCHEDULE_COSINE) {
    double whole = schedule->length - schedule->warm_up;
    double part = whole > 0 ? (time - schedule->warm_up) / whole : 1;
    return rate * 0.5 * (1 + cos(pi * fmin(part, 1)));
  }
  for (int i = 0; i < schedule->drops && time >= schedule->at[i]; i++) {
    rate *= schedule->factor;
  }
  return rate;
}
