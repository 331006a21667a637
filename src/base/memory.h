/* Checked allocation. */
#ifndef LACONIC_BASE_MEMORY_H
#define LACONIC_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "laconic/context.h"

/* Allocates `count` zeroed elements of `size` bytes, aligned to 64 bytes and rounded up to whole cache lines, from
 * 1 MiB on to 2 MiB where there is room. Free with lac_free. `count` 0 gives a valid pointer. Errors: MEMORY, also when
 * count * size overflows. */
LAC_MUST_USE lac_status lac_allocate(lac_context *context, int64_t count, size_t size, void **memory);

/* LAC_NEW(ctx, n, &array): the same with the size taken from the pointer. */
#define LAC_NEW(context, count, pointer) lac_allocate((context), (count), sizeof(**(pointer)), (void **)(pointer))

void lac_free(void *memory);

/* A copy of a text; NULL gives NULL. Free with free(). */
LAC_MUST_USE lac_status lac_copy_text(lac_context *context, const char *text, char **copy);

/* printf into a new text. Free with free(). */
LAC_MUST_USE lac_status lac_format_text(lac_context *context, char **text, const char *format, ...) LAC_PRINTF(3, 4);

/* Leaves the function with the status of a call that failed. */
#define LAC_TRY(call)                   \
  do {                                  \
    lac_status lac_try_status = (call); \
    if (lac_try_status) {               \
      return lac_try_status;            \
    }                                   \
  } while (0)

/* The same for functions that clean up: sets `status` and jumps to `label`. */
#define LAC_TRY_GOTO(status, call, label) \
  do {                                    \
    (status) = (call);                    \
    if (status) {                         \
      goto label;                         \
    }                                     \
  } while (0)

#endif
