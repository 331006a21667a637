/* Option tables. A module publishes one table for its options struct; parsing, --help, the man page, shell completion
 * and the resolved configuration that is stored with every run all come from it. */
#ifndef LACONIC_OPTIONS_H
#define LACONIC_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "laconic/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lac_option_type {
  LAC_OPTION_FLAG, /* bool; no value on the command line, --no-KEY switches it off */
  LAC_OPTION_INT,  /* int64_t in [low, high]; suffixes k, M, G multiply by 1e3, 1e6, 1e9 */
  LAC_OPTION_REAL, /* double in [low, high], finite */
  LAC_OPTION_NAME, /* int: index into names */
  LAC_OPTION_TEXT, /* char *, owned by the options struct, NULL when unset and without default */
} lac_option_type;

typedef struct lac_option {
  const char *key; /* as after the two dashes: "local-epochs" */
  lac_option_type type;
  char letter;              /* single-letter form ('o' for -o), 0 when there is none */
  size_t offset;            /* of the destination in the options struct */
  double low, high;         /* INT and REAL, both ends included */
  const char *const *names; /* NAME: ends with NULL */
  const char *fallback;     /* the default, written as a user would; NULL: flag off, text unset */
  const char *unit;         /* "points", "ms"; NULL when it has none */
  const char *help;         /* one sentence */
} lac_option;

/* A table ends with an option whose key is NULL. */
#define LAC_OPTIONS_END \
  { .key = NULL }

/* Fills `options` with the table's defaults. The struct's bytes need not be initialised. Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_options_default(lac_context *context, const lac_option *table, void *options);

/* Sets one option from text. Errors: USAGE for an unknown key (the message suggests the nearest), a value of the wrong
 * form or out of range; MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_options_set(lac_context *context, const lac_option *table, void *options,
                                                const char *key, const char *value);

/* That every number and name of the struct is one that its table allows: for those who fill it by themselves. Errors:
 * USAGE naming the key. Local. */
LAC_API LAC_MUST_USE lac_status lac_options_check(lac_context *context, const lac_option *table, const void *options);

/* The option with that key, or NULL. Local. */
LAC_API const lac_option *lac_options_find(const lac_option *table, const char *key);

/* The value as text, in a form that lac_options_set takes back; *text is malloc'ed and the caller's, NULL for an unset
 * text. Errors: MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_options_get(lac_context *context, const lac_option *option, const void *options,
                                                char **text);

/* The whole struct as one JSON object (numbers, booleans, strings, null), malloc'ed, the caller's. Errors: MEMORY.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_options_json(lac_context *context, const lac_option *table, const void *options,
                                                 char **json);

/* Edits (insertions, deletions, replacements, swaps of neighbours) that turn one text into the other. Texts longer than
 * 63 bytes are compared by their first 63. Local. */
LAC_API int lac_text_distance(const char *a, const char *b);

/* Frees the texts that `options` owns and sets them to NULL. Local. */
LAC_API void lac_options_clear(const lac_option *table, void *options);

#ifdef __cplusplus
}
#endif
#endif
