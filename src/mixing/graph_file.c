#include "mixing/graph_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/text.h"

/* Bytes of the longest number, entries between two looks at the interrupt flag. */
enum { NUMBER_BYTES = 64, READ_STEP = 1 << 12 };

static const double row_tolerance = 1e-6;
static const char banner[] = "%%MatrixMarket";

typedef struct entry {
  int32_t row, column;
  double weight;
  int64_t line; /* of the file; 0: a diagonal that the file does not have */
} entry;

typedef struct graph_file {
  lac_context *context;
  const char *path;
  int weights;       /* lac_weights_kind */
  bool market;       /* Matrix Market, else an edge list */
  bool mirrored;     /* entry (i, j) stands for (j, i) as well */
  int64_t base;      /* the first vertex's number */
  int64_t n;         /* vertices; of an edge list that may have any number, the most there can be, until it is read */
  int64_t n_line;    /* where that number comes from */
  int fields;        /* in each line of an entry; 0 before the first of an edge list */
  int64_t form_line; /* where the number of fields comes from */
  lac_lines lines;
  int64_t entries;
  entry *entry;   /* (entries), as they come in the file */
  int64_t *start; /* (n + 1) */
  entry *sorted;  /* (start[n]), row by row, rising, diagonals added where there are none */
} graph_file;

/* Leaves a line that begins with the file and the number of its line. */
#define FAIL_AT(self, at, format, ...) \
  lac_fail((self)->context, LAC_E_INPUT, "%s: line %" PRId64 ": " format, (self)->path, (at), __VA_ARGS__)

lac_status lac_weights_allocate(lac_context *context, int64_t n, int64_t entries, lac_weights *weights) {
  *weights = (lac_weights){.n = n};
  if (entries > LAC_TOPOLOGY_ENTRIES) {
    return lac_fail(context, LAC_E_USAGE,
                    "--workers: found %" PRId64 ", with %" PRId64 " weights in all, expected at most %" PRId64
                    " weights",
                    n, entries, LAC_TOPOLOGY_ENTRIES);
  }
  lac_status status = LAC_NEW(context, n + 1, &weights->start);
  status = status ? status : LAC_NEW(context, entries, &weights->column);
  status = status ? status : LAC_NEW(context, entries, &weights->weight);
  if (status) {
    lac_weights_clear(weights);
  }
  return status;
}

void lac_weights_clear(lac_weights *weights) {
  lac_free(weights->start);
  lac_free(weights->column);
  lac_free(weights->weight);
  *weights = (lac_weights){0};
}

/* ---- lines ---- */

/* The next line that is neither blank nor a comment. */
static bool next_data(lac_lines *lines, lac_span *line) {
  while (lac_lines_next(lines, line)) {
    if (*line->at != '#' && *line->at != '%') {
      return true;
    }
  }
  return false;
}

static int64_t count_data(lac_lines lines) {
  int64_t count = 0;
  for (lac_span line; next_data(&lines, &line);) {
    count++;
  }
  return count;
}

/* The next field, which is cut off the line; false when there is none left. */
static bool next_field(lac_span *line, lac_span *field) {
  *line = lac_span_trim(*line);
  field->at = line->at;
  while (line->at < line->end && !isspace((unsigned char)*line->at)) {
    line->at++;
  }
  field->end = line->at;
  return field->at < field->end;
}

static int count_fields(lac_span line) {
  int count = 0;
  for (lac_span field; count < NUMBER_BYTES && next_field(&line, &field);) {
    count++;
  }
  return count;
}

/* A whole number in low..high, of digits alone. */
static lac_status read_whole(const graph_file *self, lac_span field, const char *what, int64_t low, int64_t high,
                             int64_t *value) {
  bool fits = field.at < field.end;
  *value = 0;
  for (const char *at = field.at; at < field.end && fits; at++) {
    fits = *at >= '0' && *at <= '9' && (*value = 10 * *value + (*at - '0')) <= high;
  }
  if (!fits || *value < low) {
    char shown[LAC_SPAN_SHOWN + 1];
    lac_span_show(field, shown);
    return FAIL_AT(self, self->lines.line, "found %s '%s', expected a whole number from %" PRId64 " to %" PRId64, what,
                   shown, low, high);
  }
  return LAC_OK;
}

static lac_status read_weight(const graph_file *self, lac_span field, double *value) {
  char text[NUMBER_BYTES + 1] = "";
  size_t bytes = (size_t)(field.end - field.at);
  lac_status status = LAC_E_INPUT;
  if (bytes < sizeof text) {
    memcpy(text, field.at, bytes);
    status = lac_real_read(self->context, text, value);
  }
  if (status == LAC_E_MEMORY) {
    return status;
  }
  if (status || !isfinite(*value) || *value < 0) {
    char shown[LAC_SPAN_SHOWN + 1];
    lac_span_show(field, shown);
    return FAIL_AT(self, self->lines.line, "found weight '%s', expected a finite number from 0", shown);
  }
  return LAC_OK;
}

/* ---- what a file says of itself ---- */

static lac_status fail_banner(const graph_file *self, lac_span field, const char *expected) {
  char shown[LAC_SPAN_SHOWN + 1];
  lac_span_show(field, shown);
  return FAIL_AT(self, self->lines.line, "found '%s', expected %s", shown, expected);
}

static bool says(lac_span field, const char *word) {
  size_t bytes = (size_t)(field.end - field.at);
  return bytes == strlen(word) && strncasecmp(field.at, word, bytes) == 0;
}

/* %%MatrixMarket matrix coordinate FIELD SYMMETRY */
static lac_status read_banner(graph_file *self, lac_span line) {
  lac_span object, format, type, symmetry, more;
  next_field(&line, &object);
  next_field(&line, &object);
  next_field(&line, &format);
  next_field(&line, &type);
  next_field(&line, &symmetry);
  if (!says(object, "matrix")) {
    return fail_banner(self, object, "matrix");
  }
  if (!says(format, "coordinate")) {
    return fail_banner(self, format, "coordinate");
  }
  bool pattern = says(type, "pattern");
  if (!pattern && !says(type, "real") && !says(type, "integer")) {
    return fail_banner(self, type, "pattern, real or integer");
  }
  self->mirrored = says(symmetry, "symmetric");
  if (!self->mirrored && !says(symmetry, "general")) {
    return fail_banner(self, symmetry, "general or symmetric");
  }
  if (next_field(&line, &more)) {
    return fail_banner(self, more, "no more words");
  }
  if (pattern && self->weights == LAC_WEIGHTS_FILE) {
    return FAIL_AT(self, self->lines.line, "found a %s matrix, which has no weights, expected real or integer",
                   "pattern");
  }
  self->fields = pattern ? 2 : 3;
  self->form_line = self->lines.line;
  return LAC_OK;
}

/* ROWS COLUMNS ENTRIES, held against the lines that follow before anything is allocated. */
static lac_status read_size(graph_file *self, int64_t workers) {
  lac_span line, field;
  int64_t size[3];
  if (!next_data(&self->lines, &line)) {
    return FAIL_AT(self, self->lines.line, "the file ends, expected a line of %s", "rows, columns and entries");
  }
  for (int i = 0; i < 3; i++) {
    static const char *const what[] = {"rows", "columns", "entries"};
    next_field(&line, &field);
    LAC_TRY(read_whole(self, field, what[i], 0, i < 2 ? INT32_MAX : LAC_TOPOLOGY_ENTRIES, &size[i]));
  }
  if (next_field(&line, &field)) {
    return fail_banner(self, field, "no more than rows, columns and entries");
  }
  self->n = size[0];
  self->n_line = self->lines.line;
  if (size[0] != size[1]) {
    return FAIL_AT(self, self->n_line, "found a matrix of %" PRId64 " x %" PRId64 ", expected a square one", size[0],
                   size[1]);
  }
  if (workers > 0 && size[0] != workers) {
    return FAIL_AT(self, self->n_line, "found %" PRId64 " vertices, expected %" PRId64 ", one a worker", size[0],
                   workers);
  }
  int64_t found = count_data(self->lines);
  if (found != size[2]) {
    return FAIL_AT(self, self->n_line, "found %" PRId64 " lines of entries, expected %" PRId64 " as this one says",
                   found, size[2]);
  }
  return LAC_OK;
}

static lac_status read_head(graph_file *self, int64_t workers) {
  lac_lines first = self->lines;
  lac_span line = {NULL, NULL};
  bool any = lac_lines_next(&first, &line);
  size_t length = sizeof banner - 1;
  if (any && (size_t)(line.end - line.at) >= length && strncasecmp(line.at, banner, length) == 0) {
    self->lines = first;
    self->market = true;
    self->base = 1;
    LAC_TRY(read_banner(self, line));
    return read_size(self, workers);
  }
  const char *dot = strrchr(self->path, '.');
  if (dot && strcmp(dot, ".mtx") == 0) { /* else its line of sizes would pass for an edge */
    self->lines = first;
    return fail_banner(self, line, "%%MatrixMarket in the first line, as the file's name says");
  }
  self->mirrored = true;
  self->n = workers > 0 ? workers : INT32_MAX;
  return LAC_OK;
}

/* ---- entries ---- */

static lac_status check_fields(graph_file *self, lac_span line) {
  int found = count_fields(line);
  if (!self->fields && (found == 2 || found == 3)) {
    self->fields = found;
    self->form_line = self->lines.line;
  }
  if (!self->fields) {
    return FAIL_AT(self, self->lines.line, "found %d numbers, expected two vertices, or these and a weight", found);
  }
  if (found != self->fields) {
    return FAIL_AT(self, self->lines.line, "found %d numbers, expected %d as line %" PRId64 " has it", found,
                   self->fields, self->form_line);
  }
  if (found == 2 && self->weights == LAC_WEIGHTS_FILE) {
    return FAIL_AT(self, self->lines.line, "found %d numbers, expected 3: weights are to come from the file", found);
  }
  return LAC_OK;
}

static lac_status read_vertex(const graph_file *self, lac_span field, int32_t *vertex) {
  int64_t value;
  LAC_TRY(read_whole(self, field, "vertex", self->base, self->n - 1 + self->base, &value));
  *vertex = (int32_t)(value - self->base);
  return LAC_OK;
}

/* A weight of 0 is no edge, but on the diagonal of a matrix of weights it is an entry. */
static lac_status read_entry(graph_file *self, lac_span line) {
  lac_span field;
  entry read = {.weight = 1, .line = self->lines.line};
  LAC_TRY(check_fields(self, line));
  next_field(&line, &field);
  LAC_TRY(read_vertex(self, field, &read.row));
  next_field(&line, &field);
  LAC_TRY(read_vertex(self, field, &read.column));
  if (next_field(&line, &field)) {
    LAC_TRY(read_weight(self, field, &read.weight));
  }
  bool loop = read.row == read.column, keep = self->weights == LAC_WEIGHTS_FILE;
  if (loop && !keep && read.weight > 0) {
    return FAIL_AT(self, read.line, "vertex %" PRId64 " has an edge to itself, expected one to another vertex",
                   read.row + self->base);
  }
  if (self->market && self->mirrored && read.row < read.column) {
    return FAIL_AT(self, read.line,
                   "found row %" PRId64 " and column %" PRId64 ", expected the lower triangle of a symmetric matrix",
                   read.row + self->base, read.column + self->base);
  }
  if (read.weight > 0 || (loop && keep)) {
    self->entry[self->entries++] = read;
  }
  return LAC_OK;
}

static lac_status read_entries(graph_file *self) {
  lac_span line;
  LAC_TRY(LAC_NEW(self->context, count_data(self->lines), &self->entry));
  while (next_data(&self->lines, &line)) {
    LAC_TRY(read_entry(self, line));
    if (self->entries % READ_STEP == 0 && lac_context_interrupted(self->context)) {
      return lac_fail(self->context, LAC_E_INTERRUPTED, "%s: interrupted while reading it", self->path);
    }
  }
  if (self->entries == 0) {
    return FAIL_AT(self, self->lines.line, "the file ends without an edge, expected %s", "at least one");
  }
  return LAC_OK;
}

/* An edge list without a number of workers has as many vertices as its highest says. */
static void find_size(graph_file *self, int64_t workers) {
  if (self->market) {
    return;
  }
  self->n_line = self->lines.line;
  if (workers == 0) {
    self->n = 0;
    for (const entry *at = self->entry; at < self->entry + self->entries; at++) {
      int32_t higher = at->row > at->column ? at->row : at->column;
      if (higher >= self->n) {
        self->n = (int64_t)higher + 1;
        self->n_line = at->line;
      }
    }
  }
}

/* E edges touch 2 E vertices at most: one of the first 2 E + 1 has none, if there are so many. So this needs no memory
 * by the number of vertices, which a file may claim at will. */
static lac_status check_isolated(const graph_file *self) {
  int64_t limit = 2 * self->entries + 1;
  limit = self->n < limit ? self->n : limit;
  bool *touched;
  LAC_TRY(LAC_NEW(self->context, limit, &touched));
  for (const entry *at = self->entry; at < self->entry + self->entries; at++) {
    if (at->row != at->column && at->row < limit) {
      touched[at->row] = true;
    }
    if (at->row != at->column && at->column < limit) {
      touched[at->column] = true;
    }
  }
  int64_t vertex = 0;
  while (vertex < limit && touched[vertex]) {
    vertex++;
  }
  lac_free(touched);
  if (vertex < limit) {
    return FAIL_AT(self, self->n_line,
                   "found no edge of vertex %" PRId64 ", expected one for each of %" PRId64 " vertices",
                   vertex + self->base, self->n);
  }
  return LAC_OK;
}

/* ---- rows ---- */

static int by_column(const void *a, const void *b) {
  const entry *left = a, *right = b;
  if (left->column != right->column) {
    return left->column < right->column ? -1 : 1;
  }
  return (left->line > right->line) - (left->line < right->line);
}

/* Counts the rows' entries and turns the counts into starts; a row without a diagonal gets room for one. */
static lac_status count_rows(graph_file *self, bool *diagonal) {
  int64_t *start = self->start;
  for (const entry *at = self->entry; at < self->entry + self->entries; at++) {
    start[at->row + 1]++;
    if (at->row == at->column) {
      diagonal[at->row] = true;
    } else if (self->mirrored) {
      start[at->column + 1]++;
    }
  }
  for (int64_t i = 0; i < self->n; i++) {
    start[i + 1] += start[i] + !diagonal[i];
  }
  if (start[self->n] > LAC_TOPOLOGY_ENTRIES) {
    return FAIL_AT(self, self->n_line, "found %" PRId64 " entries with diagonals, expected at most %" PRId64,
                   start[self->n], LAC_TOPOLOGY_ENTRIES);
  }
  return LAC_OK;
}

static void fill_rows(graph_file *self, const bool *diagonal, int64_t *next) {
  memcpy(next, self->start, (size_t)self->n * sizeof *next);
  for (const entry *at = self->entry; at < self->entry + self->entries; at++) {
    self->sorted[next[at->row]++] = *at;
    if (self->mirrored && at->row != at->column) {
      self->sorted[next[at->column]++] =
          (entry){.row = at->column, .column = at->row, .weight = at->weight, .line = at->line};
    }
  }
  for (int64_t i = 0; i < self->n; i++) {
    if (!diagonal[i]) {
      self->sorted[next[i]] = (entry){.row = (int32_t)i, .column = (int32_t)i};
    }
    qsort(self->sorted + self->start[i], (size_t)(self->start[i + 1] - self->start[i]), sizeof(entry), by_column);
  }
}

static lac_status sort_rows(graph_file *self) {
  bool *diagonal = NULL;
  int64_t *next = NULL;
  lac_status status;
  LAC_TRY(LAC_NEW(self->context, self->n + 1, &self->start));
  LAC_TRY_GOTO(status, LAC_NEW(self->context, self->n, &diagonal), done);
  LAC_TRY_GOTO(status, count_rows(self, diagonal), done);
  LAC_TRY_GOTO(status, LAC_NEW(self->context, self->start[self->n], &self->sorted), done);
  LAC_TRY_GOTO(status, LAC_NEW(self->context, self->n, &next), done);
  fill_rows(self, diagonal, next);
done:
  lac_free(diagonal);
  lac_free(next);
  return status;
}

static lac_status check_twice(const graph_file *self) {
  for (const entry *at = self->sorted + 1; at < self->sorted + self->start[self->n]; at++) {
    if (at[0].row == at[-1].row && at[0].column == at[-1].column) {
      return FAIL_AT(self, at->line,
                     "found %s %" PRId64 " %" PRId64 " a second time, expected it once: it is in line %" PRId64,
                     self->market ? "entry" : "edge", at->row + self->base, at->column + self->base, at[-1].line);
    }
  }
  return LAC_OK;
}

static bool has_entry(const graph_file *self, int32_t row, int32_t column) {
  int64_t low = self->start[row], high = self->start[row + 1];
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (self->sorted[middle].column < column) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < self->start[row + 1] && self->sorted[low].column == column;
}

static lac_status check_symmetric(const graph_file *self) {
  for (const entry *at = self->sorted; at < self->sorted + self->start[self->n]; at++) {
    if (!has_entry(self, at->column, at->row)) {
      return FAIL_AT(self, at->line,
                     "found entry %" PRId64 " %" PRId64 " without %" PRId64 " %" PRId64
                     ", expected a symmetric matrix for metropolis weights, or weights uniform",
                     at->row + self->base, at->column + self->base, at->column + self->base, at->row + self->base);
    }
  }
  return LAC_OK;
}

/* Makes a row's sum 1: by its diagonal where the file has none, else by dividing what is 1 but for rounding. */
static lac_status complete_row(const graph_file *self, entry *row, int64_t count) {
  double sum = 0;
  entry *absent = NULL;
  int64_t last = 0;
  for (entry *at = row; at < row + count; at++) {
    sum += at->weight;
    last = at->line > last ? at->line : last;
    absent = at->line == 0 ? at : absent;
  }
  if (absent && sum < 1 - row_tolerance) {
    absent->weight = 1 - sum;
    return LAC_OK;
  }
  if (!(fabs(sum - 1) <= row_tolerance)) {
    return FAIL_AT(self, last, "with this, the weights of vertex %" PRId64 " sum to %.9g, expected 1 within %g",
                   row->row + self->base, sum, row_tolerance);
  }
  for (entry *at = row; at < row + count; at++) {
    at->weight /= sum;
  }
  return LAC_OK;
}

static lac_status complete_rows(graph_file *self) {
  for (int64_t i = 0; i < self->n; i++) {
    LAC_TRY(complete_row(self, self->sorted + self->start[i], self->start[i + 1] - self->start[i]));
  }
  return LAC_OK;
}

/* The entries that the matrix has: of weights the positive ones, of a pattern all. */
static lac_status copy_rows(const graph_file *self, lac_weights *graph) {
  bool weighted = self->weights == LAC_WEIGHTS_FILE;
  int64_t used = 0;
  LAC_TRY(lac_weights_allocate(self->context, self->n, self->start[self->n], graph));
  for (int64_t i = 0; i < self->n; i++) {
    for (int64_t k = self->start[i]; k < self->start[i + 1]; k++) {
      if (!weighted || self->sorted[k].weight > 0) {
        graph->column[used] = self->sorted[k].column;
        graph->weight[used++] = weighted ? self->sorted[k].weight : 0;
      }
    }
    graph->start[i + 1] = used;
  }
  return LAC_OK;
}

static lac_status read_graph(graph_file *self, int64_t workers, lac_weights *graph) {
  LAC_TRY(read_head(self, workers));
  LAC_TRY(read_entries(self));
  find_size(self, workers);
  LAC_TRY(check_isolated(self));
  LAC_TRY(sort_rows(self));
  LAC_TRY(check_twice(self));
  if (self->weights == LAC_WEIGHTS_METROPOLIS && !self->mirrored) {
    LAC_TRY(check_symmetric(self));
  }
  if (self->weights == LAC_WEIGHTS_FILE) {
    LAC_TRY(complete_rows(self));
  }
  return copy_rows(self, graph);
}

lac_status lac_graph_file_parse(lac_context *context, const lac_storage *storage, int64_t workers, int weights,
                                lac_weights *graph) {
  *graph = (lac_weights){0};
  graph_file self = {.context = context,
                     .path = storage->path,
                     .weights = weights,
                     .lines = lac_lines_of(storage->bytes, storage->size)};
  lac_status status = read_graph(&self, workers, graph);
  lac_free(self.entry);
  lac_free(self.start);
  lac_free(self.sorted);
  return status;
}

lac_status lac_graph_file_read(lac_context *context, const char *path, int64_t workers, int weights,
                               lac_weights *graph) {
  lac_storage *storage;
  *graph = (lac_weights){0};
  LAC_TRY(lac_storage_map(context, path, &storage));
  lac_status status = storage->part ? lac_fail(context, LAC_E_INPUT, "%s: no such file", path)
                                    : lac_graph_file_parse(context, storage, workers, weights, graph);
  lac_storage_release(storage);
  return status;
}
