#include "base/text.h"

#include <ctype.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Bytes of the character at the start of the text, 0 when it is not well-formed. */
static size_t utf8_length(const unsigned char *text, size_t bytes) {
  unsigned char first = text[0];
  size_t length = first < 0x80 ? 1 : first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : 4;
  if ((length == 4 && (first < 0xF0 || first > 0xF4)) || length > bytes) {
    return 0;
  }
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xC0) != 0x80) {
      return 0;
    }
  }
  bool bad = (first == 0xE0 && text[1] < 0xA0) || (first == 0xED && text[1] > 0x9F) || /* overlong, surrogate */
             (first == 0xF0 && text[1] < 0x90) || (first == 0xF4 && text[1] > 0x8F);   /* overlong, too large */
  return bad ? 0 : length;
}

bool lac_utf8_valid(const char *text, size_t bytes) {
  const unsigned char *at = (const unsigned char *)text;
  while (bytes) {
    size_t length = utf8_length(at, bytes);
    if (!length) {
      return false;
    }
    at += length;
    bytes -= length;
  }
  return true;
}

lac_status lac_utf8_repair(lac_context *context, const char *text, char **copy) {
  size_t bytes = strlen(text);
  *copy = malloc(3 * bytes + 1); /* U+FFFD has three bytes */
  if (!*copy) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate %zu bytes", 3 * bytes + 1);
  }
  char *out = *copy;
  while (bytes) {
    size_t length = utf8_length((const unsigned char *)text, bytes);
    memcpy(out, length ? text : "\xEF\xBF\xBD", length ? length : 3);
    out += length ? length : 3;
    text += length ? length : 1;
    bytes -= length ? length : 1;
  }
  *out = 0;
  return LAC_OK;
}

int lac_real_digits(double value) {
  for (int digits = 15; digits < 17; digits++) {
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, value); /* written and read in the same locale, whichever it is */
    if (strtod(text, NULL) == value) {
      return digits;
    }
  }
  return 17;
}

/* Numbers are written and read in the C locale of the calling thread, whatever the program has set. */
static lac_status plain_locale(lac_context *context, locale_t *plain) {
  *plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return *plain != (locale_t)0 ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate a locale");
}

lac_status lac_real_text(lac_context *context, double value, char **text) {
  *text = NULL;
  locale_t plain;
  LAC_TRY(plain_locale(context, &plain));
  locale_t before = uselocale(plain);
  lac_status status = lac_format_text(context, text, "%.*g", lac_real_digits(value), value);
  uselocale(before);
  freelocale(plain);
  return status;
}

lac_status lac_real_read(lac_context *context, const char *text, double *value) {
  char *end = NULL;
  if (*text && strspn(text, "0123456789.eE+-") == strlen(text)) { /* strtod alone takes blanks, nan, inf and 0x */
    locale_t plain;
    LAC_TRY(plain_locale(context, &plain));
    *value = strtod_l(text, &end, plain);
    freelocale(plain);
  }
  return end && end != text && !*end ? LAC_OK : lac_fail(context, LAC_E_INPUT, "found '%s', expected a number", text);
}

static int least(int a, int b) {
  return a < b ? a : b;
}

int lac_text_distance(const char *a, const char *b) {
  enum { LIMIT = 63 };
  int rows = (int)strnlen(a, LIMIT), columns = (int)strnlen(b, LIMIT);
  int table[LIMIT + 1][LIMIT + 1]; /* [i][j]: from the first i bytes of a to the first j of b */
  for (int i = 0; i <= rows; i++) {
    for (int j = 0; j <= columns; j++) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      table[i][j] = least(least(table[i - 1][j], table[i][j - 1]) + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        table[i][j] = least(table[i][j], table[i - 2][j - 2] + 1);
      }
    }
  }
  return table[rows][columns];
}

lac_span lac_span_trim(lac_span text) {
  while (text.at < text.end && isspace((unsigned char)*text.at)) {
    text.at++;
  }
  while (text.at < text.end && isspace((unsigned char)text.end[-1])) {
    text.end--;
  }
  return text;
}

void lac_span_show(lac_span text, char shown[LAC_SPAN_SHOWN + 1]) {
  size_t used = 0;
  for (const char *at = text.at; at < text.end && used < LAC_SPAN_SHOWN; at++) {
    shown[used++] = *at;
    if (!isprint((unsigned char)*at)) {
      shown[used - 1] = '?';
    }
  }
  shown[used] = 0;
}

lac_lines lac_lines_of(const void *text, size_t bytes) {
  lac_lines lines = {.at = text, .end = (const char *)text + bytes};
  if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    lines.at += 3;
  }
  return lines;
}

bool lac_lines_next(lac_lines *lines, lac_span *line) {
  while (lines->at < lines->end) {
    const char *newline = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    *line = lac_span_trim((lac_span){lines->at, newline ? newline : lines->end});
    lines->at = newline ? newline + 1 : lines->end;
    lines->line++;
    if (line->at < line->end) {
      return true;
    }
  }
  return false;
}
