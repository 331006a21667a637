#include "laconic/status.h"

#include "laconic/version.h"

static const struct {
  const char *name, *text;
  int exit_status;
} statuses[] = {
#define LAC_STATUS_ROW(symbol, exit_status, text) {#symbol, text, exit_status},
    LAC_STATUS_TABLE(LAC_STATUS_ROW)
#undef LAC_STATUS_ROW
};

static unsigned row_of(lac_status status) {
  unsigned row = (unsigned)status;
  return row < sizeof statuses / sizeof *statuses ? row : (unsigned)LAC_E_INTERNAL;
}

const char *lac_status_name(lac_status status) {
  return statuses[row_of(status)].name;
}
const char *lac_status_text(lac_status status) {
  return statuses[row_of(status)].text;
}
int lac_status_exit(lac_status status) {
  return statuses[row_of(status)].exit_status;
}

const char *lac_version(void) {
  return LAC_VERSION;
}
