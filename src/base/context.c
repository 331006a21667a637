#include "laconic/context.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/profile.h"

enum { LAC_MESSAGE_BYTES = 1024 };

/* What a context and its children have in common; lives as long as the root. */
typedef struct lac_shared {
  pthread_mutex_t lock; /* guards log calls and the log's settings */
  lac_log_fn log;
  void *log_user;
  lac_log_level level;
  atomic_bool interrupted;
  lac_profile *profile;
} lac_shared;

struct lac_context {
  lac_shared *shared;
  bool root;
  char message[LAC_MESSAGE_BYTES];
};

lac_status lac_context_create(lac_context **context) {
  *context = NULL;
  lac_context *made = calloc(1, sizeof *made);
  lac_shared *shared = calloc(1, sizeof *shared);
  lac_profile *profile = lac_profile_create();
  if (!made || !shared || !profile || pthread_mutex_init(&shared->lock, NULL) != 0) {
    lac_profile_destroy(profile);
    free(shared);
    free(made);
    return LAC_E_MEMORY;
  }
  shared->profile = profile;
  atomic_init(&shared->interrupted, false);
  made->shared = shared;
  made->root = true;
  *context = made;
  return LAC_OK;
}

lac_status lac_context_child(lac_context *parent, lac_context **child) {
  *child = calloc(1, sizeof **child);
  if (!*child) {
    return lac_fail(parent, LAC_E_MEMORY, "cannot allocate a context");
  }
  (*child)->shared = parent->shared;
  return LAC_OK;
}

void lac_context_destroy(lac_context **context) {
  if (!*context) {
    return;
  }
  if ((*context)->root) {
    lac_profile_destroy((*context)->shared->profile);
    pthread_mutex_destroy(&(*context)->shared->lock);
    free((*context)->shared);
  }
  free(*context);
  *context = NULL;
}

void lac_context_set_log(lac_context *context, lac_log_level level, lac_log_fn log, void *user) {
  lac_shared *shared = context->shared;
  pthread_mutex_lock(&shared->lock);
  shared->log = log;
  shared->log_user = user;
  shared->level = level;
  pthread_mutex_unlock(&shared->lock);
}

/* One line without control characters: names and texts from files are part of messages. */
static void keep_printable(char *line) {
  for (; *line; line++) {
    if ((unsigned char)*line < ' ' || *line == 0x7F) {
      *line = '?';
    }
  }
}

void lac_context_log(lac_context *context, lac_log_level level, const char *format, ...) {
  lac_shared *shared = context->shared;
  pthread_mutex_lock(&shared->lock);
  if (shared->log && level <= shared->level) {
    char line[LAC_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    keep_printable(line);
    shared->log(shared->log_user, level, line);
  }
  pthread_mutex_unlock(&shared->lock);
}

const char *lac_context_message(const lac_context *context) {
  return context->message;
}

lac_status(lac_fail)(lac_context *context, lac_status status, const char *format, ...) {
  char message[LAC_MESSAGE_BYTES]; /* apart: the message so far may be one of the arguments */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  keep_printable(message);
  memcpy(context->message, message, sizeof message);
  return status;
}

void lac_context_interrupt(lac_context *context) {
  atomic_store(&context->shared->interrupted, true);
}

bool lac_context_interrupted(const lac_context *context) {
  return atomic_load(&context->shared->interrupted);
}

lac_profile *lac_context_profile(const lac_context *context) {
  return context->shared->profile;
}
