/* Reads a description of layers, a line each, into a graph. docs/layers.md has the grammar. */
#include "nn/graph.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { WORDS = 6, SHOWN = 40, NAME = 32 };

const char *const lac_node_names[LAC_NODE_KINDS] = {"input",   "conv",    "dense",   "batchnorm", "relu",
                                                    "maxpool", "avgpool", "dropout", "add"};

/* A word of the text, not terminated. */
typedef struct word {
  const char *at;
  int length;
} word;

/* A name given to an activation. */
typedef struct mark {
  word name;
  int node;
} mark;

typedef struct parser {
  lac_context *context;
  const char *source;
  int line; /* of the text, from 1 */
  lac_graph *graph;
  int current; /* the activation that the next layer reads */
  mark *marks;
  int mark_count;
  double activations; /* of a batch, in all */
} parser;

/* The values that a line gives, or their defaults; -1 for a stride that is to be the window. */
typedef struct settings {
  int64_t kernel, stride, pad;
  bool bias;
} settings;

enum { KEY_KERNEL = 1, KEY_STRIDE = 2, KEY_PAD = 4, KEY_BIAS = 8 };

/* A kind of line: its first word, the keys that it takes, whether it takes an argument, and what reads it. */
typedef struct statement {
  const char *name;
  const char *argument; /* as a message names it; NULL: none */
  int keys;
  lac_node_kind kind;
  lac_status (*read)(parser *self, lac_node node, word argument, const settings *given);
} statement;

#define FAIL(self, format, ...) \
  lac_fail((self)->context, LAC_E_INPUT, "%s: line %d: " format, (self)->source, (self)->line, __VA_ARGS__)

static bool is(word text, const char *name) {
  return (size_t)text.length == strlen(name) && memcmp(text.at, name, (size_t)text.length) == 0;
}

/* For messages: no more of a word than a line has room for. */
static int shown(word text) {
  return text.length < SHOWN ? text.length : SHOWN;
}

/* ---- values ---- */

static lac_status read_count(parser *self, const char *what, word text, int64_t least, int64_t *value) {
  int64_t number = 0;
  bool good = text.length > 0 && text.length <= 10;
  for (int i = 0; good && i < text.length; i++) {
    good = text.at[i] >= '0' && text.at[i] <= '9';
    number = 10 * number + (text.at[i] - '0');
  }
  if (!good || number < least || number > INT32_MAX) {
    return FAIL(self, "%s: found '%.*s', expected a whole number from %" PRId64 " to %d", what, shown(text), text.at,
                least, INT32_MAX);
  }
  *value = number;
  return LAC_OK;
}

static lac_status read_rate(parser *self, word text, double *rate) {
  char copy[SHOWN];
  if (text.length < SHOWN) {
    memcpy(copy, text.at, (size_t)text.length);
    copy[text.length] = 0;
    lac_status status = lac_real_read(self->context, copy, rate);
    if (status == LAC_E_MEMORY || (!status && *rate >= 0 && *rate < 1)) {
      return status;
    }
  }
  return FAIL(self, "dropout: found '%.*s', expected a rate from 0 to below 1", shown(text), text.at);
}

static lac_status read_yes(parser *self, const char *what, word text, bool *value) {
  *value = is(text, "yes");
  return *value || is(text, "no") ? LAC_OK
                                  : FAIL(self, "%s: found '%.*s', expected yes or no", what, shown(text), text.at);
}

/* One key=value of a line. */
static lac_status read_key(parser *self, const statement *of, word text, settings *given) {
  const char *equals = memchr(text.at, '=', (size_t)text.length);
  word key = {text.at, equals ? (int)(equals - text.at) : text.length};
  word value = {text.at + key.length + 1, text.length - key.length - 1};
  if (equals && is(key, "kernel") && (of->keys & KEY_KERNEL)) {
    return read_count(self, "kernel", value, 1, &given->kernel);
  }
  if (equals && is(key, "stride") && (of->keys & KEY_STRIDE)) {
    return read_count(self, "stride", value, 1, &given->stride);
  }
  if (equals && is(key, "pad") && (of->keys & KEY_PAD)) {
    return read_count(self, "pad", value, 0, &given->pad);
  }
  if (equals && is(key, "bias") && (of->keys & KEY_BIAS)) {
    return read_yes(self, "bias", value, &given->bias);
  }
  return FAIL(self, "%s: found '%.*s', expected %s%s%s%s%s", of->name, shown(text), text.at,
              of->keys & KEY_KERNEL ? "kernel= " : "", of->keys & KEY_STRIDE ? "stride= " : "",
              of->keys & KEY_PAD ? "pad= " : "", of->keys & KEY_BIAS ? "bias= " : "",
              of->keys ? "or the end of the line" : "the end of the line");
}

/* ---- nodes ---- */

static const lac_image_shape *current_shape(const parser *self) {
  return &self->graph->nodes[self->current].shape;
}

/* Makes room for another element of an array that grows by doubling. */
static lac_status grow(parser *self, int count, size_t size, void **array) {
  if (count > 0 && (count & (count - 1)) != 0) { /* between two powers of two there is room */
    return LAC_OK;
  }
  void *more;
  LAC_TRY(lac_allocate(self->context, count ? 2 * (int64_t)count : 1, size, &more));
  if (count) {
    memcpy(more, *array, (size_t)count * size);
  }
  lac_free(*array);
  *array = more;
  return LAC_OK;
}

/* Appends a node whose shape and weights are known, and goes on from it. */
static lac_status append(parser *self, lac_node node) {
  lac_graph *graph = self->graph;
  if (graph->count == LAC_GRAPH_NODES) {
    return FAIL(self, "found more than %d layers, expected fewer", LAC_GRAPH_NODES - 1);
  }
  double outputs =
      (double)graph->batch * (double)node.shape.channels * (double)node.shape.height * (double)node.shape.width;
  self->activations += outputs;
  if (outputs > LAC_GRAPH_PARAMETERS || self->activations > LAC_GRAPH_ACTIVATIONS) {
    return FAIL(self, "%s: found %g activations for a batch of %" PRId64 ", %g so far, expected at most %g, %g in all",
                lac_node_names[node.kind], outputs, graph->batch, self->activations, LAC_GRAPH_PARAMETERS,
                LAC_GRAPH_ACTIVATIONS);
  }
  LAC_TRY(grow(self, graph->count, sizeof *graph->nodes, (void **)&graph->nodes));
  node.line = self->line;
  if (node.input >= 0) {
    graph->nodes[node.input].uses++;
  }
  if (node.other >= 0) {
    graph->nodes[node.other].uses++;
  }
  graph->nodes[graph->count] = node;
  self->current = graph->count++;
  return LAC_OK;
}

/* Places in the parameters for `weights` and `offsets` numbers. */
static lac_status take_parameters(parser *self, lac_node *node, double weights, int64_t offsets) {
  lac_graph *graph = self->graph;
  if ((double)graph->parameters + weights + (double)offsets > LAC_GRAPH_PARAMETERS) {
    return FAIL(self, "%s: found %g parameters, expected at most %g", lac_node_names[node->kind],
                (double)graph->parameters + weights + (double)offsets, LAC_GRAPH_PARAMETERS);
  }
  node->weight = graph->parameters;
  node->weight_count = (int64_t)weights;
  node->offset = node->weight + node->weight_count;
  node->offset_count = offsets;
  graph->parameters = node->offset + offsets;
  return LAC_OK;
}

/* Height and width of what windows over the current activation give. */
static lac_status slide(parser *self, lac_node *node) {
  const lac_image_shape *from = current_shape(self);
  int64_t least = from->height < from->width ? from->height : from->width;
  if (node->pad >= node->kernel) {
    return FAIL(self, "%s: found pad %" PRId64 ", expected less than the window, %" PRId64, lac_node_names[node->kind],
                node->pad, node->kernel);
  }
  if (node->kernel > least + 2 * node->pad) {
    return FAIL(self,
                "%s: found a window of %" PRId64 ", expected at most %" PRId64 ", as the picture is %" PRId64
                " x %" PRId64 " here and the pad %" PRId64,
                lac_node_names[node->kind], node->kernel, least + 2 * node->pad, from->height, from->width, node->pad);
  }
  node->shape.height = (from->height + 2 * node->pad - node->kernel) / node->stride + 1;
  node->shape.width = (from->width + 2 * node->pad - node->kernel) / node->stride + 1;
  return LAC_OK;
}

static lac_status read_channels(parser *self, const lac_node *node, word text, int64_t *channels) {
  if (is(text, "classes")) {
    *channels = self->graph->classes;
    return LAC_OK;
  }
  return read_count(self, lac_node_names[node->kind], text, 1, channels);
}

/* ---- statements ---- */

static lac_status read_input(parser *self, lac_node node, word argument, const settings *given) {
  (void)node;
  (void)given;
  const lac_image_shape *shape = current_shape(self);
  int64_t expected = 0, found = shape->channels * shape->height * shape->width;
  if (self->graph->count > 1) {
    return FAIL(self, "found input after %d layers, expected it first", self->graph->count - 1);
  }
  LAC_TRY(read_count(self, "input", argument, 1, &expected));
  return found == expected
             ? LAC_OK
             : FAIL(self, "found pictures of %" PRId64 " x %" PRId64 " x %" PRId64 ", expected %" PRId64 " numbers",
                    shape->channels, shape->height, shape->width, expected);
}

static lac_status read_conv(parser *self, lac_node node, word argument, const settings *given) {
  LAC_TRY(read_channels(self, &node, argument, &node.shape.channels));
  if (given->kernel == 0) {
    return FAIL(self, "conv: found no kernel=, expected one (got %" PRId64 " channels)", node.shape.channels);
  }
  node.kernel = given->kernel;
  node.stride = given->stride > 0 ? given->stride : 1;
  node.pad = given->pad;
  node.bias = given->bias;
  LAC_TRY(slide(self, &node));
  double inputs = (double)current_shape(self)->channels * (double)node.kernel * (double)node.kernel;
  LAC_TRY(take_parameters(self, &node, (double)node.shape.channels * inputs, node.bias ? node.shape.channels : 0));
  return append(self, node);
}

static lac_status read_dense(parser *self, lac_node node, word argument, const settings *given) {
  const lac_image_shape *from = current_shape(self);
  int64_t units = 0;
  LAC_TRY(read_channels(self, &node, argument, &units));
  node.bias = given->bias;
  node.shape = (lac_image_shape){units, 1, 1};
  double inputs = (double)from->channels * (double)from->height * (double)from->width;
  LAC_TRY(take_parameters(self, &node, (double)units * inputs, node.bias ? units : 0));
  return append(self, node);
}

static lac_status read_batchnorm(parser *self, lac_node node, word argument, const settings *given) {
  (void)argument;
  (void)given;
  LAC_TRY(take_parameters(self, &node, (double)node.shape.channels, node.shape.channels));
  node.mean = self->graph->statistics;
  node.variance = node.mean + node.shape.channels;
  self->graph->statistics = node.variance + node.shape.channels;
  return append(self, node);
}

static lac_status read_relu(parser *self, lac_node node, word argument, const settings *given) {
  (void)argument;
  (void)given;
  return append(self, node);
}

static lac_status read_pool(parser *self, lac_node node, word argument, const settings *given) {
  if (is(argument, "all")) {
    if (node.shape.height != node.shape.width) {
      return FAIL(self, "%s all: found a picture of %" PRId64 " x %" PRId64 " here, expected a square",
                  lac_node_names[node.kind], node.shape.height, node.shape.width);
    }
    node.kernel = node.shape.height;
  } else {
    LAC_TRY(read_count(self, lac_node_names[node.kind], argument, 1, &node.kernel));
  }
  node.stride = given->stride > 0 ? given->stride : node.kernel;
  node.pad = given->pad;
  LAC_TRY(slide(self, &node));
  return append(self, node);
}

static lac_status read_dropout(parser *self, lac_node node, word argument, const settings *given) {
  (void)given;
  LAC_TRY(read_rate(self, argument, &node.rate));
  return append(self, node);
}

static const mark *find_mark(const parser *self, word name) {
  for (int i = 0; i < self->mark_count; i++) {
    const mark *one = &self->marks[i];
    if (one->name.length == name.length && memcmp(one->name.at, name.at, (size_t)name.length) == 0) {
      return one;
    }
  }
  return NULL;
}

static lac_status read_mark(parser *self, lac_node node, word argument, const settings *given) {
  (void)node;
  (void)given;
  for (int i = 0; i < argument.length; i++) {
    if (!isalnum((unsigned char)argument.at[i]) && !strchr("_.-", argument.at[i])) {
      return FAIL(self, "mark: found '%.*s', expected letters, digits, _ . and -", shown(argument), argument.at);
    }
  }
  if (argument.length >= NAME) {
    return FAIL(self, "mark: found a name of %d characters, expected at most %d", argument.length, NAME - 1);
  }
  const mark *before = find_mark(self, argument);
  if (before) {
    return FAIL(self, "mark: found %.*s a second time, expected another name", argument.length, argument.at);
  }
  LAC_TRY(grow(self, self->mark_count, sizeof *self->marks, (void **)&self->marks));
  self->marks[self->mark_count++] = (mark){argument, self->current};
  return LAC_OK;
}

static lac_status need_mark(parser *self, const char *what, word name, int *node) {
  const mark *found = find_mark(self, name);
  if (!found) {
    return FAIL(self, "%s: found '%.*s', expected a mark of an earlier line", what, shown(name), name.at);
  }
  *node = found->node;
  return LAC_OK;
}

static lac_status read_from(parser *self, lac_node node, word argument, const settings *given) {
  (void)node;
  (void)given;
  return need_mark(self, "from", argument, &self->current);
}

static lac_status read_add(parser *self, lac_node node, word argument, const settings *given) {
  (void)given;
  LAC_TRY(need_mark(self, "add", argument, &node.other));
  const lac_image_shape *a = &self->graph->nodes[node.other].shape, *b = &node.shape;
  if (node.other == node.input) {
    return FAIL(self, "add: found %.*s to be this activation itself, expected another", shown(argument), argument.at);
  }
  if (a->channels != b->channels || a->height != b->height || a->width != b->width) {
    return FAIL(self,
                "add: found %.*s of shape %" PRId64 " x %" PRId64 " x %" PRId64 ", expected %" PRId64 " x %" PRId64
                " x %" PRId64,
                shown(argument), argument.at, a->channels, a->height, a->width, b->channels, b->height, b->width);
  }
  return append(self, node);
}

static const statement statements[] = {
    {"input", "a number", 0, LAC_NODE_INPUT, read_input},
    {"conv", "channels, or classes", KEY_KERNEL | KEY_STRIDE | KEY_PAD | KEY_BIAS, LAC_NODE_CONV, read_conv},
    {"dense", "units, or classes", KEY_BIAS, LAC_NODE_DENSE, read_dense},
    {"batchnorm", NULL, 0, LAC_NODE_BATCHNORM, read_batchnorm},
    {"relu", NULL, 0, LAC_NODE_RELU, read_relu},
    {"maxpool", "a window, or all", KEY_STRIDE | KEY_PAD, LAC_NODE_MAXPOOL, read_pool},
    {"avgpool", "a window, or all", KEY_STRIDE | KEY_PAD, LAC_NODE_AVGPOOL, read_pool},
    {"dropout", "a rate", 0, LAC_NODE_DROPOUT, read_dropout},
    {"mark", "a name", 0, LAC_NODE_KINDS, read_mark},
    {"from", "a mark", 0, LAC_NODE_KINDS, read_from},
    {"add", "a mark", 0, LAC_NODE_ADD, read_add},
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

/* ---- lines ---- */

static lac_status find_statement(parser *self, word name, const statement **found) {
  char copy[SHOWN + 1];
  const char *nearest = NULL;
  int least = 3; /* further away it is another word rather than a slip */
  memcpy(copy, name.at, (size_t)shown(name));
  copy[shown(name)] = 0;
  for (int i = 0; i < STATEMENTS; i++) {
    if (is(name, statements[i].name)) {
      *found = &statements[i];
      return LAC_OK;
    }
    int distance = lac_text_distance(copy, statements[i].name);
    if (distance < least) {
      least = distance;
      nearest = statements[i].name;
    }
  }
  return nearest ? FAIL(self, "found '%s', expected a layer; did you mean %s?", copy, nearest)
                 : FAIL(self,
                        "found '%s', expected a layer: conv, dense, batchnorm, relu, maxpool, avgpool, dropout, "
                        "mark, from, add or input",
                        copy);
}

static lac_status read_words(parser *self, const word *words, int count) {
  const statement *of = NULL;
  LAC_TRY(find_statement(self, words[0], &of));
  word argument = {"", 0};
  int next = 1;
  if (of->argument) {
    if (count < 2 || memchr(words[1].at, '=', (size_t)words[1].length)) {
      return FAIL(self, "%s: found %s, expected %s", of->name, count < 2 ? "the end of the line" : "a key",
                  of->argument);
    }
    argument = words[next++];
  }
  settings given = {.bias = true};
  for (; next < count; next++) {
    for (int before = of->argument ? 2 : 1; before < next; before++) {
      const char *equals = memchr(words[next].at, '=', (size_t)words[next].length);
      size_t length = equals ? (size_t)(equals - words[next].at) + 1 : 0;
      if (length && (size_t)words[before].length >= length && memcmp(words[before].at, words[next].at, length) == 0) {
        return FAIL(self, "%s: found %.*s twice, expected it once", of->name, (int)length, words[next].at);
      }
    }
    LAC_TRY(read_key(self, of, words[next], &given));
  }
  lac_node node = {.kind = of->kind, .input = self->current, .other = -1, .shape = *current_shape(self)};
  return of->read(self, node, argument, &given);
}

/* One line without its newline: words up to a comment. */
static lac_status read_line(parser *self, const char *at, const char *end) {
  word words[WORDS];
  int count = 0;
  const char *comment = memchr(at, '#', (size_t)(end - at));
  end = comment ? comment : end;
  while (true) {
    while (at < end && isspace((unsigned char)*at)) {
      at++;
    }
    if (at == end) {
      break;
    }
    const char *start = at;
    while (at < end && !isspace((unsigned char)*at)) {
      at++;
    }
    word found = {start, at - start < INT32_MAX ? (int)(at - start) : INT32_MAX};
    if (count == WORDS) {
      return FAIL(self, "found '%.*s', expected the end of the line", shown(found), start);
    }
    words[count++] = found;
  }
  return count ? read_words(self, words, count) : LAC_OK;
}

static lac_status read_text(parser *self, const char *text) {
  while (*text) {
    const char *end = strchr(text, '\n');
    if (self->line == INT32_MAX) {
      return FAIL(self, "found more lines, expected at most %d", INT32_MAX);
    }
    self->line++;
    LAC_TRY(read_line(self, text, end ? end : text + strlen(text)));
    text = end ? end + 1 : text + strlen(text);
  }
  return LAC_OK;
}

/* What holds of a network as a whole. */
static lac_status check_end(parser *self) {
  lac_graph *graph = self->graph;
  if (graph->count == 1 || graph->parameters == 0) {
    return lac_fail(self->context, LAC_E_INPUT, "%s: found %d layers without parameters, expected something to train",
                    self->source, graph->count - 1);
  }
  const lac_node *last = &graph->nodes[self->current];
  graph->nodes[self->current].uses++;
  for (int i = 0; i < graph->count; i++) {
    if (graph->nodes[i].uses == 0) {
      self->line = graph->nodes[i].line;
      return FAIL(self, "%s: found nothing that reads its output, expected a later layer to",
                  lac_node_names[graph->nodes[i].kind]);
    }
  }
  self->line = last->line;
  if (last->shape.channels != graph->classes || last->shape.height != 1 || last->shape.width != 1) {
    return FAIL(self,
                "%s: found %" PRId64 " x %" PRId64 " x %" PRId64 " at the end, expected one number for each of %" PRId64
                " classes",
                lac_node_names[last->kind], last->shape.channels, last->shape.height, last->shape.width,
                graph->classes);
  }
  return LAC_OK;
}

static lac_status check_sizes(const parser *self) {
  const lac_graph *graph = self->graph;
  const lac_image_shape *shape = &graph->input;
  if (shape->channels < 1 || shape->height < 1 || shape->width < 1 || shape->channels > INT32_MAX ||
      shape->height > INT32_MAX || shape->width > INT32_MAX) {
    return lac_fail(self->context, LAC_E_USAGE,
                    "%s: found pictures of %" PRId64 " x %" PRId64 " x %" PRId64 ", expected numbers from 1 to %d",
                    self->source, shape->channels, shape->height, shape->width, INT32_MAX);
  }
  if (graph->classes < 2 || graph->classes > INT32_MAX || graph->batch < 1 || graph->batch > INT32_MAX) {
    return lac_fail(self->context, LAC_E_USAGE,
                    "%s: found %" PRId64 " classes and batches of %" PRId64 ", expected at least 2 and 1, at most %d",
                    self->source, graph->classes, graph->batch, INT32_MAX);
  }
  return LAC_OK;
}

lac_status lac_graph_parse(lac_context *context, const char *text, const char *source, lac_image_shape input,
                           int64_t classes, int64_t batch, lac_graph *graph) {
  *graph = (lac_graph){.classes = classes, .batch = batch, .input = input};
  parser self = {.context = context, .source = source, .graph = graph};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, check_sizes(&self), done);
  LAC_TRY_GOTO(status, append(&self, (lac_node){.kind = LAC_NODE_INPUT, .input = -1, .other = -1, .shape = input}),
               done);
  LAC_TRY_GOTO(status, read_text(&self, text), done);
  status = check_end(&self);
done:
  lac_free(self.marks);
  if (status) {
    lac_graph_clear(graph);
  }
  return status;
}

void lac_graph_clear(lac_graph *graph) {
  lac_free(graph->nodes);
  *graph = (lac_graph){.nodes = NULL};
}
