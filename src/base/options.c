#include "laconic/options.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static const char suffixes[] = "kMG"; /* 1e3, 1e6, 1e9 */

const lac_option *lac_options_find(const lac_option *table, const char *key) {
  for (; table->key; table++) {
    if (strcmp(table->key, key) == 0) {
      return table;
    }
  }
  return NULL;
}

static void *destination(const lac_option *option, void *options) {
  return (char *)options + option->offset;
}

static const void *source(const lac_option *option, const void *options) {
  return (const char *)options + option->offset;
}

/* Near enough that the user may have meant it: about a third of the characters differ. */
static bool is_near(const char *text, int distance) {
  return 3 * distance <= (int)strlen(text) + 2;
}

static lac_status unknown_key(lac_context *context, const lac_option *table, const char *key) {
  const char *nearest = NULL;
  int least = 0;
  for (; table->key; table++) {
    int distance = lac_text_distance(key, table->key);
    if (!nearest || distance < least) {
      nearest = table->key;
      least = distance;
    }
  }
  if (nearest && is_near(key, least)) {
    return lac_fail(context, LAC_E_USAGE, "--%s: unknown option, did you mean --%s?", key, nearest);
  }
  return lac_fail(context, LAC_E_USAGE, "--%s: unknown option", key);
}

/* " points" or "". */
static const char *unit_text(const lac_option *option, char *text, size_t bytes) {
  snprintf(text, bytes, "%s%s", option->unit ? " " : "", option->unit ? option->unit : "");
  return text;
}

static lac_status bad_int(lac_context *context, const lac_option *option, const char *value) {
  char unit[64];
  return lac_fail(context, LAC_E_USAGE, "--%s: found '%s', expected a whole number from %.0f to %.0f%s", option->key,
                  value, option->low, option->high, unit_text(option, unit, sizeof unit));
}

static lac_status set_int(lac_context *context, const lac_option *option, void *options, const char *value) {
  const char *at = value + (*value == '-' || *value == '+');
  char *end = NULL;
  errno = 0;
  long long number = strtoll(value, &end, 10);
  if (*at < '0' || *at > '9' || errno) { /* strtoll alone would take leading blanks */
    return bad_int(context, option, value);
  }
  for (size_t i = 0; *end && i < sizeof suffixes - 1; i++) {
    if (*end == suffixes[i]) {
      const long long factors[] = {1000, 1000000, 1000000000};
      if (__builtin_mul_overflow(number, factors[i], &number)) {
        return bad_int(context, option, value);
      }
      end++;
      break;
    }
  }
  /* A bound may be 2^63 as a double, which no int64_t exceeds: compare in the wider type. */
  if (*end || (long double)number < option->low || (long double)number > option->high) {
    return bad_int(context, option, value);
  }
  *(int64_t *)destination(option, options) = number;
  return LAC_OK;
}

static lac_status bad_real(lac_context *context, const lac_option *option, const char *value) {
  char unit[64];
  return lac_fail(context, LAC_E_USAGE, "--%s: found '%s', expected a number from %.10g to %.10g%s", option->key, value,
                  option->low, option->high, unit_text(option, unit, sizeof unit));
}

static lac_status set_real(lac_context *context, const lac_option *option, void *options, const char *value) {
  double number;
  lac_status status = lac_real_read(context, value, &number);
  if (status == LAC_E_MEMORY) {
    return status;
  }
  if (status || !isfinite(number) || number < option->low || number > option->high) {
    return bad_real(context, option, value);
  }
  *(double *)destination(option, options) = number;
  return LAC_OK;
}

/* "a, b, c" */
static void list_names(const lac_option *option, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = 0;
  for (const char *const *name = option->names; *name && used < bytes; name++) {
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", name == option->names ? "" : ", ", *name);
  }
}

static lac_status set_name(lac_context *context, const lac_option *option, void *options, const char *value) {
  const char *nearest = NULL;
  int least = 0;
  for (int i = 0; option->names[i]; i++) {
    int distance = lac_text_distance(value, option->names[i]);
    if (strcmp(value, option->names[i]) == 0) {
      *(int *)destination(option, options) = i;
      return LAC_OK;
    }
    if (!nearest || distance < least) {
      nearest = option->names[i];
      least = distance;
    }
  }
  char names[512];
  list_names(option, names, sizeof names);
  if (nearest && is_near(value, least)) {
    return lac_fail(context, LAC_E_USAGE, "--%s: found '%s', expected one of %s; did you mean %s?", option->key, value,
                    names, nearest);
  }
  return lac_fail(context, LAC_E_USAGE, "--%s: found '%s', expected one of %s", option->key, value, names);
}

static lac_status set_flag(lac_context *context, const lac_option *option, void *options, const char *value) {
  bool on = !value || strcmp(value, "true") == 0;
  if (!on && strcmp(value, "false") != 0) {
    return lac_fail(context, LAC_E_USAGE, "--%s: found '%s', expected no value, true or false", option->key, value);
  }
  *(bool *)destination(option, options) = on;
  return LAC_OK;
}

static lac_status set_text(lac_context *context, const lac_option *option, void *options, const char *value) {
  char *copy, **text = destination(option, options);
  LAC_TRY(lac_copy_text(context, value, &copy));
  free(*text);
  *text = copy;
  return LAC_OK;
}

static lac_status set_option(lac_context *context, const lac_option *option, void *options, const char *value) {
  if (!value && option->type != LAC_OPTION_FLAG) {
    return lac_fail(context, LAC_E_USAGE, "--%s: found no value, expected one", option->key);
  }
  switch (option->type) {
    case LAC_OPTION_FLAG:
      return set_flag(context, option, options, value);
    case LAC_OPTION_INT:
      return set_int(context, option, options, value);
    case LAC_OPTION_REAL:
      return set_real(context, option, options, value);
    case LAC_OPTION_NAME:
      return set_name(context, option, options, value);
    case LAC_OPTION_TEXT:
      return set_text(context, option, options, value);
  }
  return lac_fail(context, LAC_E_INTERNAL, "--%s: has no known type", option->key);
}

lac_status lac_options_set(lac_context *context, const lac_option *table, void *options, const char *key,
                           const char *value) {
  const lac_option *option = lac_options_find(table, key);
  if (option) {
    return set_option(context, option, options, value);
  }
  if (strncmp(key, "no-", 3) == 0) {
    option = lac_options_find(table, key + 3);
    if (option && option->type == LAC_OPTION_FLAG) {
      return value ? lac_fail(context, LAC_E_USAGE, "--%s: found '%s', expected no value", key, value)
                   : set_option(context, option, options, "false");
    }
  }
  return unknown_key(context, table, key);
}

lac_status lac_options_default(lac_context *context, const lac_option *table, void *options) {
  for (const lac_option *option = table; option->key; option++) {
    if (option->type == LAC_OPTION_TEXT) {
      *(char **)destination(option, options) = NULL; /* first, so that a failure below leaves nothing undefined */
    }
  }
  for (const lac_option *option = table; option->key; option++) {
    lac_status status = LAC_OK;
    if (option->fallback) {
      status = set_option(context, option, options, option->fallback);
    } else if (option->type == LAC_OPTION_FLAG) {
      *(bool *)destination(option, options) = false;
    } else if (option->type == LAC_OPTION_INT) {
      *(int64_t *)destination(option, options) = 0;
    } else if (option->type == LAC_OPTION_REAL) {
      *(double *)destination(option, options) = 0;
    } else if (option->type == LAC_OPTION_NAME) {
      *(int *)destination(option, options) = 0;
    }
    if (status) {
      lac_options_clear(table, options);
      return status;
    }
  }
  return LAC_OK;
}

lac_status lac_options_get(lac_context *context, const lac_option *option, const void *options, char **text) {
  const void *at = source(option, options);
  switch (option->type) {
    case LAC_OPTION_FLAG:
      return lac_copy_text(context, *(const bool *)at ? "true" : "false", text);
    case LAC_OPTION_INT:
      return lac_format_text(context, text, "%" PRId64, *(const int64_t *)at);
    case LAC_OPTION_REAL:
      return lac_real_text(context, *(const double *)at, text);
    case LAC_OPTION_NAME:
      return lac_copy_text(context, option->names[*(const int *)at], text);
    case LAC_OPTION_TEXT:
      return lac_copy_text(context, *(char *const *)at, text);
  }
  *text = NULL;
  return lac_fail(context, LAC_E_INTERNAL, "--%s: has no known type", option->key);
}

static lac_status json_of_text(lac_context *context, const char *text, json_t **value) {
  *value = NULL;
  char *repaired;
  LAC_TRY(lac_utf8_repair(context, text, &repaired));
  *value = json_string(repaired);
  free(repaired);
  return LAC_OK;
}

static lac_status json_of_option(lac_context *context, const lac_option *option, const void *options, json_t **value) {
  const void *at = source(option, options);
  const char *text;
  switch (option->type) {
    case LAC_OPTION_FLAG:
      *value = json_boolean(*(const bool *)at);
      return LAC_OK;
    case LAC_OPTION_INT:
      *value = json_integer(*(const int64_t *)at);
      return LAC_OK;
    case LAC_OPTION_REAL:
      *value = json_real(*(const double *)at);
      return LAC_OK;
    case LAC_OPTION_NAME:
      *value = json_string(option->names[*(const int *)at]);
      return LAC_OK;
    case LAC_OPTION_TEXT:
      text = *(char *const *)at;
      if (text) {
        return json_of_text(context, text, value);
      }
      *value = json_null();
      return LAC_OK;
  }
  *value = NULL;
  return lac_fail(context, LAC_E_INTERNAL, "--%s: has no known type", option->key);
}

lac_status lac_options_json(lac_context *context, const lac_option *table, const void *options, char **json) {
  *json = NULL;
  json_t *object = json_object();
  lac_status status = object ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate a JSON object");
  int digits = 15;
  for (const lac_option *option = table; option->key && !status; option++) {
    json_t *value = NULL;
    status = json_of_option(context, option, options, &value);
    if (!status && json_object_set_new(object, option->key, value) != 0) { /* also when value is NULL */
      status = lac_fail(context, LAC_E_MEMORY, "cannot allocate a JSON value");
    }
    if (option->type == LAC_OPTION_REAL) {
      int needed = lac_real_digits(*(const double *)source(option, options));
      digits = needed > digits ? needed : digits; /* one precision for the whole object, as few digits as do */
    }
  }
  if (!status) {
    *json = json_dumps(object, JSON_REAL_PRECISION(digits));
    status = *json ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate a JSON text");
  }
  json_decref(object);
  return status;
}

void lac_options_clear(const lac_option *table, void *options) {
  for (; table->key; table++) {
    if (table->type == LAC_OPTION_TEXT) {
      char **text = destination(table, options);
      free(*text);
      *text = NULL;
    }
  }
}

static int64_t count_names(const char *const *names) {
  int64_t count = 0;
  while (names[count]) {
    count++;
  }
  return count;
}

lac_status lac_options_check(lac_context *context, const lac_option *table, const void *options) {
  for (const lac_option *option = table; option->key; option++) {
    const char *at = (const char *)options + option->offset;
    double value = option->low, low = option->low, high = option->high;
    if (option->type == LAC_OPTION_INT) {
      value = (double)*(const int64_t *)(const void *)at;
    } else if (option->type == LAC_OPTION_REAL) {
      value = *(const double *)(const void *)at;
    } else if (option->type == LAC_OPTION_NAME) {
      value = (double)*(const int *)(const void *)at;
      low = 0;
      high = (double)count_names(option->names) - 1;
    }
    if (!(value >= low && value <= high)) {
      return lac_fail(context, LAC_E_USAGE, "--%s: found %g, expected %g to %g", option->key, value, low, high);
    }
  }
  return LAC_OK;
}
