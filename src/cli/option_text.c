#include "cli/option_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double UNBOUNDED = 1e15; /* a limit from here on is there for the type's sake, not the user's */

bool lac_option_default_on(const lac_option *option) {
  return option->type == LAC_OPTION_FLAG && option->fallback && strcmp(option->fallback, "true") == 0;
}

const char *lac_option_placeholder(const lac_option *option) {
  switch (option->type) {
    case LAC_OPTION_FLAG:
      return "";
    case LAC_OPTION_INT:
      return "N";
    case LAC_OPTION_REAL:
      return "X";
    case LAC_OPTION_NAME:
      return "NAME";
    case LAC_OPTION_TEXT:
      break;
  }
  return option->unit ? option->unit : "TEXT";
}

void lac_option_label(const lac_option *option, char *label, size_t bytes) {
  const char *placeholder = lac_option_placeholder(option);
  snprintf(label, bytes, "--%s%s%s%s", lac_option_default_on(option) ? "no-" : "", option->key, *placeholder ? " " : "",
           placeholder);
}

typedef struct text_space {
  char *next;
  size_t left;
} text_space;

static void add(text_space *space, const char *format, ...) LAC_PRINTF(2, 3);

static void add(text_space *space, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int written = vsnprintf(space->next, space->left, format, arguments);
  va_end(arguments);
  size_t used = written < 0 ? 0 : (size_t)written < space->left ? (size_t)written : space->left - 1;
  space->next += used;
  space->left -= used;
}

static void add_names(text_space *space, const char *const *names) {
  for (int i = 0; names[i]; i++) {
    add(space, "%s%s", i == 0 ? "" : names[i + 1] ? ", " : " or ", names[i]);
  }
}

static void add_range(text_space *space, const lac_option *option) {
  if (option->high < UNBOUNDED) {
    add(space, "%.10g to %.10g", option->low, option->high);
  } else {
    add(space, "at least %.10g", option->low);
  }
  if (option->unit) {
    add(space, " %s", option->unit);
  }
}

void lac_option_help(const lac_option *option, char *help, size_t bytes) {
  text_space space = {help, bytes};
  add(&space, "%s", option->help);
  if (option->type == LAC_OPTION_FLAG) {
    return;
  }
  if (option->type == LAC_OPTION_TEXT) {
    if (option->fallback) {
      add(&space, " (default %s)", option->fallback);
    }
    return;
  }
  add(&space, " (");
  if (option->type == LAC_OPTION_NAME) {
    add_names(&space, option->names);
  } else {
    add_range(&space, option);
  }
  if (option->fallback) {
    add(&space, "; default %s", option->fallback);
  }
  add(&space, ")");
}
