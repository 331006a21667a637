/* Output files that are either complete or not there: written beside the target and renamed. */
#ifndef LACONIC_OUTPUT_H
#define LACONIC_OUTPUT_H

#include <stddef.h>
#include <stdio.h>

#include "laconic/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_output {
  FILE *file;      /* write here; errors are found at the latest by lac_output_commit */
  char *path;      /* as the caller gave it, for messages */
  char *target;    /* the file to replace: path, or where its symbolic link leads */
  char *temporary; /* what is written until the commit; NULL when the target is a device or pipe */
} lac_output;

/* Whether `path` could be written: its folder exists and takes files, and the target is no folder. Changes nothing.
 * Errors: OUTPUT. Local. */
LAC_API LAC_MUST_USE lac_status lac_output_check(lac_context *context, const char *path);

/* Opens a temporary file beside `path`. On failure *output is empty. Errors: OUTPUT, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_output_open(lac_context *context, const char *path, lac_output *output);

/* fwrite with a status. Errors: IO (disk full, say); the output stays open for lac_output_discard. Local. */
LAC_API LAC_MUST_USE lac_status lac_output_write(lac_context *context, lac_output *output, const void *data,
                                                 size_t bytes);

/* Flushes to the disk, renames, closes and empties. On failure the temporary file is removed and what was at the target
 * before is untouched. Errors: IO. Local. */
LAC_API LAC_MUST_USE lac_status lac_output_commit(lac_context *context, lac_output *output);

/* Closes and removes the temporary file; does nothing to an empty output. Local. */
LAC_API void lac_output_discard(lac_output *output);

#ifdef __cplusplus
}
#endif
#endif
