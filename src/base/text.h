/* Texts: what JSON can hold, and numbers that read the same under every locale. */
#ifndef LACONIC_BASE_TEXT_H
#define LACONIC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "laconic/options.h"

/* Whether `bytes` bytes are well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). */
bool lac_utf8_valid(const char *text, size_t bytes);

/* A copy in which each byte that is not part of well-formed UTF-8 has become U+FFFD: file names may hold any byte.
 * Free with free(). Errors: MEMORY. */
LAC_MUST_USE lac_status lac_utf8_repair(lac_context *context, const char *text, char **copy);

/* Digits, from 15 to 17, that a decimal text of this finite number needs to be read back as the same number. */
int lac_real_digits(double value);

/* The shortest decimal text that is read back as the same finite number, with a decimal point in every locale. Free
 * with free(). Errors: MEMORY. */
LAC_MUST_USE lac_status lac_real_text(lac_context *context, double value, char **text);

/* Reads a whole text as a decimal number with a decimal point; no blanks, no hexadecimals. What is too large becomes
 * infinite. Errors: INPUT when the text is no number, MEMORY. */
LAC_MUST_USE lac_status lac_real_read(lac_context *context, const char *text, double *value);

/* A piece of a text; no zero byte ends it. */
typedef struct lac_span {
  const char *at, *end;
} lac_span;

/* Without the blanks at both ends. */
lac_span lac_span_trim(lac_span text);

enum { LAC_SPAN_SHOWN = 24 };
/* The beginning of it for a message, which is one line of text: what cannot be printed has become '?'. */
void lac_span_show(lac_span text, char shown[LAC_SPAN_SHOWN + 1]);

/* The lines of a text that are not blank, trimmed, one after the other. They may end in LF or CR LF. */
typedef struct lac_lines {
  const char *at, *end;
  int64_t line; /* of the text, from 1: that of the last that was read */
} lac_lines;

/* Before the first line; a byte order mark is passed over. */
lac_lines lac_lines_of(const void *text, size_t bytes);

/* False after the last. */
bool lac_lines_next(lac_lines *lines, lac_span *line);

#endif
