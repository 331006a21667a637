/* CSV: a row a line, numbers separated by commas, parsed into float64 (which holds any float32 and int32 exactly).
 * Blank lines are passed over, and a first line in which no field is a number is taken for the names of the columns.
 * Lines may end in LF or CR LF. Fields are not quoted. Source: RFC 4180. */
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/format.h"

enum { CSV_FIELD = 512, CSV_STEP = 1 << 12 };

typedef struct reader {
  const lac_storage *storage;
  locale_t locale; /* numbers have a point, whatever the user's language */
  lac_lines lines;
} reader;

static reader rewind_reader(const lac_storage *storage, locale_t locale) {
  return (reader){.storage = storage, .locale = locale, .lines = lac_lines_of(storage->bytes, storage->size)};
}

/* The first field of a line, which is cut off it; false when there is none left. line->at is NULL after the last. */
static bool next_field(lac_span *line, lac_span *field) {
  if (!line->at) {
    return false;
  }
  const char *comma = memchr(line->at, ',', (size_t)(line->end - line->at));
  *field = lac_span_trim((lac_span){line->at, comma ? comma : line->end});
  line->at = comma ? comma + 1 : NULL;
  return true;
}

static int64_t count_fields(lac_span line) {
  int64_t count = 0;
  for (lac_span field; next_field(&line, &field);) {
    count++;
  }
  return count;
}

/* A plain decimal of at most 15 digits: its digits and its power of ten are exact in float64, so that one operation
 * rounds correctly. False for anything else. */
static bool parse_plain(lac_span field, double *value) {
  static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  bool negative = field.at < field.end && *field.at == '-';
  int64_t digits = 0, number = 0, decimals = -1;
  for (const char *at = field.at + negative; at < field.end; at++) {
    if (*at == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    if (*at < '0' || *at > '9' || digits == 15) {
      return false;
    }
    number = 10 * number + (*at - '0');
    digits++;
    decimals += decimals >= 0;
  }
  *value = (double)number / powers[decimals > 0 ? decimals : 0];
  *value = negative ? -*value : *value;
  return digits > 0;
}

static bool parse_number(const reader *self, lac_span field, double *value) {
  char text[CSV_FIELD];
  size_t length = (size_t)(field.end - field.at);
  if (parse_plain(field, value)) {
    return true;
  }
  if (length == 0 || length >= sizeof text || memchr(field.at, 'x', length) || memchr(field.at, 'X', length)) {
    return false; /* hexadecimal is for programs */
  }
  memcpy(text, field.at, length);
  text[length] = 0;
  char *end;
  *value = strtod_l(text, &end, self->locale);
  return end == text + length;
}

static bool is_header(const reader *self, lac_span line) {
  double value;
  for (lac_span field; next_field(&line, &field);) {
    if (parse_number(self, field, &value)) {
      return false;
    }
  }
  return true;
}

/* Rows and columns, the ragged row found. *body is left at the first row. */
static lac_status measure(lac_context *context, reader self, reader *body, int64_t shape[2]) {
  lac_span line;
  *body = self;
  if (lac_lines_next(&self.lines, &line) && is_header(&self, line)) {
    *body = self;
  }
  self = *body;
  shape[0] = shape[1] = 0;
  while (lac_lines_next(&self.lines, &line)) {
    int64_t fields = count_fields(line);
    shape[1] = shape[0] == 0 ? fields : shape[1];
    if (fields != shape[1]) {
      return lac_fail(context, LAC_E_INPUT,
                      "%s: row %" PRId64 " (line %" PRId64 "): found %" PRId64 " fields, expected %" PRId64
                      " as in row 0",
                      self.storage->path, shape[0], self.lines.line, fields, shape[1]);
    }
    shape[0]++;
  }
  if (shape[0] == 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: line %" PRId64 ": found no rows of numbers, expected at least one",
                    self.storage->path, self.lines.line);
  }
  return LAC_OK;
}

static lac_status fail_field(lac_context *context, const reader *self, int64_t row, int64_t column, lac_span field) {
  char shown[LAC_SPAN_SHOWN + 1];
  lac_span_show(field, shown);
  return lac_fail(context, LAC_E_INPUT,
                  "%s: row %" PRId64 " (line %" PRId64 "), column %" PRId64 ": found '%s', expected a number",
                  self->storage->path, row, self->lines.line, column, shown);
}

static lac_status fail_changed(lac_context *context, const reader *self, int64_t row) {
  return lac_fail(context, LAC_E_IO, "%s: row %" PRId64 ": changed while it was read", self->storage->path, row);
}

/* The file is shared with whoever writes it: what was counted before may no longer be so. */
static lac_status parse_rows(lac_context *context, reader *self, const int64_t shape[2], double *values) {
  lac_span line, field;
  int64_t row = 0;
  for (; lac_lines_next(&self->lines, &line); row++) {
    int64_t column = 0;
    for (; next_field(&line, &field); column++) {
      if (row >= shape[0] || column >= shape[1]) {
        return fail_changed(context, self, row);
      }
      if (!parse_number(self, field, values++)) {
        return fail_field(context, self, row, column, field);
      }
    }
    if (column != shape[1]) {
      return fail_changed(context, self, row);
    }
    if (row % CSV_STEP == 0 && lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted while reading it", self->storage->path);
    }
  }
  return row == shape[0] ? LAC_OK : fail_changed(context, self, row);
}

static lac_status csv_parse(lac_context *context, lac_dataset *dataset, locale_t locale) {
  lac_storage *storage = dataset->storage;
  int64_t shape[2], bytes;
  reader body;
  LAC_TRY(measure(context, rewind_reader(storage, locale), &body, shape));
  dataset->type = LAC_F64;
  LAC_TRY(lac_layout_shape(context, dataset, 0, 2, shape, &bytes));
  LAC_TRY(LAC_NEW(context, shape[0] * shape[1], &storage->parsed)); /* at most as many as the file has bytes */
  LAC_TRY(parse_rows(context, &body, shape, storage->parsed));
  dataset->values = (const uint8_t *)storage->parsed;
  dataset->row_stride = dataset->columns * (int64_t)sizeof(double);
  return LAC_OK;
}

static lac_status csv_open(lac_context *context, lac_dataset *dataset) {
  locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (locale == (locale_t)0) {
    return lac_fail(context, LAC_E_MEMORY, "%s: cannot allocate a locale to read it", dataset->storage->path);
  }
  lac_status status = csv_parse(context, dataset, locale);
  freelocale(locale);
  if (!status) {
    lac_storage_close(dataset->storage);
  }
  return status;
}

static const char *const csv_suffixes[] = {".csv", NULL};

const lac_format lac_format_csv = {.name = "csv", .suffixes = csv_suffixes, .open = csv_open};
