#include "cli/quantity.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A number that begins with a digit, and where it ends. */
static bool read_number(const char *text, char **end, double *value) {
  if (*text < '0' || *text > '9') {
    *end = (char *)text;
    return false;
  }
  *value = strtod(text, end);
  return isfinite(*value) && strcspn(text, "xX") >= (size_t)(*end - text); /* nobody means hexadecimal ones */
}

typedef struct unit {
  const char *name;
  double factor;
} unit;

/* The longest unit that the text begins with, NULL for none; ends with a NULL name. */
static const unit *read_unit(const char *text, const unit *units) {
  const unit *found = NULL;
  for (const unit *each = units; each->name; each++) {
    if (strncmp(text, each->name, strlen(each->name)) == 0 && (!found || strlen(each->name) > strlen(found->name))) {
      found = each;
    }
  }
  return found;
}

/* Sums like 1h30m up to `stop`; a bare number counts as it is where the table has a "" unit. */
static bool read_sum(const char *text, const char *stop, const unit *units, double *sum) {
  *sum = 0;
  if (text == stop) {
    return false;
  }
  while (text < stop) {
    char *end;
    double value;
    if (!read_number(text, &end, &value)) {
      return false;
    }
    const unit *found = read_unit(end, units);
    if (!found || end + strlen(found->name) > stop || (!*found->name && end < stop)) {
      return false;
    }
    *sum += value * found->factor;
    text = end + strlen(found->name);
  }
  return true;
}

static const unit times[] = {{"", 1},      {"d", 86400}, {"h", 3600},  {"m", 60}, {"s", 1},
                             {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {0}};

lac_status lac_parse_duration(lac_session *session, const char *key, const char *text, double *seconds) {
  if (!read_sum(text, text + strlen(text), times, seconds) || !(*seconds > 0) || *seconds > 1e9) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--%s: found '%s', expected a time as 2h, 90m, 1h30m, 45s, 20ms or 50us", key, text);
  }
  return LAC_OK;
}

lac_status lac_parse_bytes(lac_session *session, const char *key, const char *text, double *bytes) {
  static const unit sizes[] = {{"", 1},     {"k", 1e3},  {"M", 1e6},  {"G", 1e9},   {"T", 1e12}, {"B", 1},
                               {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {0}};
  if (!read_sum(text, text + strlen(text), sizes, bytes) || *bytes < 1 || *bytes > 1e18) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--%s: found '%s', expected a size in bytes as 4096, 64k, 1.1M or 2GB", key, text);
  }
  return LAC_OK;
}

lac_status lac_parse_network(lac_session *session, const char *key, const char *text, lac_network *network) {
  static const unit speeds[] = {{"bit", 0.125}, {"kbit", 125}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"Tbit", 125e9},
                                {"B", 1},       {"kB", 1e3},   {"MB", 1e6},     {"GB", 1e9},     {0}};
  const char *comma = strchr(text, ',');
  if (!comma || !read_sum(text, comma, speeds, &network->bandwidth) || !(network->bandwidth >= 1e-3) ||
      network->bandwidth > 1e18 || !read_sum(comma + 1, text + strlen(text), times, &network->latency) ||
      network->latency > 1e9) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--%s: found '%s', expected a bandwidth and a latency as 1Gbit,50us, 100Mbit,1ms or 12.5MB,0s", key,
                    text);
  }
  return LAC_OK;
}

/* ---- lists ---- */

static bool read_size(const char *text, char **end, int64_t *value) {
  *end = (char *)text;
  if (*text < '0' || *text > '9') {
    return false;
  }
  errno = 0;
  *value = strtoll(text, end, 10);
  return errno == 0 && *value >= 1 && *value < INT32_MAX;
}

static bool read_list(const char *text, int64_t sizes[LAC_SIZES], int *count) {
  char *end;
  for (*count = 0; *count < LAC_SIZES; text = end + 1) {
    int64_t value;
    if (!read_size(text, &end, &value) || (*count > 0 && value <= sizes[*count - 1])) {
      return false;
    }
    sizes[(*count)++] = value;
    if (!*end) {
      return true;
    }
    if (*end != ',') {
      return false;
    }
  }
  return false;
}

static bool read_range(const char *text, int64_t sizes[LAC_SIZES], int *count) {
  int64_t first, last, step;
  char *end;
  if (!read_size(text, &end, &first) || *end != ':' || !read_size(end + 1, &end, &last) || *end != ':' ||
      last < first) {
    return false;
  }
  bool multiplies = end[1] == 'x';
  if (!read_size(end + 1 + multiplies, &end, &step) || *end || (multiplies && step < 2)) {
    return false;
  }
  *count = 0;
  for (int64_t value = first; value <= last; value = multiplies ? value * step : value + step) {
    if (*count == LAC_SIZES) {
      return false;
    }
    sizes[(*count)++] = value;
  }
  return true;
}

lac_status lac_parse_sizes(lac_session *session, const char *key, const char *text, int64_t sizes[LAC_SIZES],
                           int *count) {
  if (!(strchr(text, ':') ? read_range(text, sizes, count) : read_list(text, sizes, count))) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--%s: found '%s', expected a number or at most %d rising ones as 4,8,16, 8:128:x2 or 8:64:8", key,
                    text, LAC_SIZES);
  }
  return LAC_OK;
}
