/* A context carries what would otherwise be global: the log, the last error message, the interrupt flag and the
 * profile.
 *
 * The library never prints, exits or aborts. A fallible call returns a status and leaves one line in its context that
 * names the file and offset, the option or the worker. A context is used by one thread at a time; the workers of a
 * world each get a child of their own (lac_world_context), and children share the log, the interrupt flag and the
 * profile of their parent. */
#ifndef LACONIC_CONTEXT_H
#define LACONIC_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_context lac_context;

typedef enum lac_log_level { LAC_LOG_ERROR, LAC_LOG_WARNING, LAC_LOG_INFO, LAC_LOG_DEBUG } lac_log_level;

/* Receives one line without a newline. Calls are serialised over all children of a context. */
typedef void (*lac_log_fn)(void *user, lac_log_level level, const char *line);

/* Makes a context without a log. Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_context_create(lac_context **context);

/* Makes a child that shares its parent's log, interrupt flag and profile but has its own message. The parent must
 * outlive it. Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_context_child(lac_context *parent, lac_context **child);

/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_context_destroy(lac_context **context);

/* Lines up to `level` go to `log`; NULL switches the log off. Shared with the children. Local. */
LAC_API void lac_context_set_log(lac_context *context, lac_log_level level, lac_log_fn log, void *user);

/* Writes one line to the log. Local, callable from any worker. */
LAC_API void lac_context_log(lac_context *context, lac_log_level level, const char *format, ...) LAC_PRINTF(3, 4);

/* The line left by the last call that failed; "" if none did. Borrowed, valid until the next failure. Local. */
LAC_API const char *lac_context_message(const lac_context *context);

/* Stores the message and returns `status`, so that a failure is one statement: return lac_fail(ctx, LAC_E_INPUT, …). A
 * call that gets a failure from another returns it as it came: the first message says most. Local. */
LAC_API LAC_MUST_USE lac_status lac_fail(lac_context *context, lac_status status, const char *format, ...)
    LAC_PRINTF(3, 4);
#ifdef __clang_analyzer__
/* Tells the analyser that the status comes back as it was given: never LAC_OK, so that callers leave. */
#define lac_fail(context, status, ...) ((void)lac_fail((context), (status), __VA_ARGS__), (status))
#endif

/* Asks the work under this context, its parent and all children to stop at the next safe point. Async-signal-safe. */
LAC_API void lac_context_interrupt(lac_context *context);
LAC_API bool lac_context_interrupted(const lac_context *context);

#ifdef __cplusplus
}
#endif
#endif
