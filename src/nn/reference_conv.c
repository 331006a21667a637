/* Convolution by im2col: the windows of a block of rows of the output become columns of a matrix, (C k k, rows x
 * width), which is multiplied by the weights. A block has as many rows as stay in the cache. */
#include <string.h>

#include "math/blas.h"
#include "nn/reference.h"

enum { BLOCK = 1 << 15, COLUMNS = 512 }; /* numbers, and least columns: fewer make slow products */

/* Sizes of a convolution. Rows of the output are counted through all pictures: N x height. */
typedef struct sizes {
  const lac_node *node;
  lac_image_shape from;           /* what it reads */
  int64_t pictures, depth, block; /* N; C k k; most rows of a block */
} sizes;

static int64_t block_rows(const lac_node *node, int64_t depth, int64_t pictures) {
  int64_t columns = BLOCK / depth > COLUMNS ? BLOCK / depth : COLUMNS;
  int64_t rows = columns / node->shape.width, all = pictures * node->shape.height;
  return rows < 1 ? 1 : rows < all ? rows : all;
}

static sizes sizes_of(const lac_graph *graph, const lac_node *node, int64_t pictures) {
  sizes self = {.node = node, .from = graph->nodes[node->input].shape, .pictures = pictures};
  self.depth = self.from.channels * node->kernel * node->kernel;
  self.block = block_rows(node, self.depth, pictures);
  return self;
}

/* Windows of one pixel are the picture itself. */
static bool is_plain(const lac_node *node) {
  return node->kernel == 1 && node->stride == 1 && node->pad == 0;
}

static int64_t scratch(const lac_graph *graph, const lac_node *node) {
  sizes self = sizes_of(graph, node, graph->batch);
  return is_plain(node) ? 0 : self.depth * self.block * node->shape.width;
}

/* The first and the end of those places along an axis where tap `tap` of a window lies inside `length` numbers. */
static void inside(const lac_node *node, int64_t tap, int64_t length, int64_t places, int64_t *first, int64_t *end) {
  int64_t before = node->pad - tap, behind = length + node->pad - tap; /* place x stride in [before, behind) */
  *first = before > 0 ? (before + node->stride - 1) / node->stride : 0;
  *end = behind > 0 ? (behind + node->stride - 1) / node->stride : 0;
  *end = *end < places ? *end : places;
  *first = *first < *end ? *first : *end;
}

/* One tap of the window for `rows` rows from row `start`: a row of the matrix of columns. */
typedef struct tap {
  int64_t y, x, first, end, top, bottom;
} tap;

static tap tap_of(const sizes *self, int64_t y, int64_t x) {
  tap one = {.y = y - self->node->pad, .x = x - self->node->pad};
  inside(self->node, x, self->from.width, self->node->shape.width, &one.first, &one.end);
  inside(self->node, y, self->from.height, self->node->shape.height, &one.top, &one.bottom);
  return one;
}

static void gather_row(const lac_node *node, const tap *at, const float *restrict from, float *restrict to) {
  for (int64_t i = 0; i < at->first; i++) {
    to[i] = 0;
  }
  if (node->stride == 1) {
    memcpy(to + at->first, from + at->first, (size_t)(at->end - at->first) * sizeof *to);
  } else {
    for (int64_t i = at->first; i < at->end; i++) {
      to[i] = from[i * node->stride];
    }
  }
  for (int64_t i = at->end; i < node->shape.width; i++) {
    to[i] = 0;
  }
}

/* The way back: adds to the pixels that it came from. */
static void scatter_row(const lac_node *node, const tap *at, const float *restrict from, float *restrict to) {
  if (node->stride == 1) {
    for (int64_t i = at->first; i < at->end; i++) {
      to[i] += from[i];
    }
  } else {
    for (int64_t i = at->first; i < at->end; i++) {
      to[i * node->stride] += from[i];
    }
  }
}

/* One row of the matrix: one tap for all places of the block. */
static void gather(const sizes *self, const tap *at, int64_t start, int64_t rows, const float *channel, float *to) {
  const lac_node *node = self->node;
  int64_t width = node->shape.width, n = start / node->shape.height, row = start % node->shape.height;
  for (int64_t r = 0; r < rows; r++, to += width) {
    if (row < at->top || row >= at->bottom) {
      memset(to, 0, (size_t)width * sizeof *to);
    } else {
      gather_row(node, at, channel + (n * self->from.height + row * node->stride + at->y) * self->from.width + at->x,
                 to);
    }
    if (++row == node->shape.height) {
      row = 0;
      n++;
    }
  }
}

static void scatter(const sizes *self, const tap *at, int64_t start, int64_t rows, const float *from, float *channel) {
  const lac_node *node = self->node;
  int64_t width = node->shape.width, n = start / node->shape.height, row = start % node->shape.height;
  for (int64_t r = 0; r < rows; r++, from += width) {
    if (row >= at->top && row < at->bottom) {
      scatter_row(node, at, from,
                  channel + (n * self->from.height + row * node->stride + at->y) * self->from.width + at->x);
    }
    if (++row == node->shape.height) {
      row = 0;
      n++;
    }
  }
}

static void make_columns(const sizes *self, const float *x, int64_t start, int64_t rows, float *columns) {
  int64_t taps = self->node->kernel * self->node->kernel,
          pixels = self->pictures * self->from.height * self->from.width;
  for (int64_t k = 0; k < taps; k++) {
    tap at = tap_of(self, k / self->node->kernel, k % self->node->kernel);
    for (int64_t c = 0; c < self->from.channels; c++) {
      gather(self, &at, start, rows, x + c * pixels, columns + (c * taps + k) * rows * self->node->shape.width);
    }
  }
}

static void add_columns(const sizes *self, const float *columns, int64_t start, int64_t rows, float *x) {
  int64_t taps = self->node->kernel * self->node->kernel,
          pixels = self->pictures * self->from.height * self->from.width;
  for (int64_t k = 0; k < taps; k++) {
    tap at = tap_of(self, k / self->node->kernel, k % self->node->kernel);
    for (int64_t c = 0; c < self->from.channels; c++) {
      scatter(self, &at, start, rows, columns + (c * taps + k) * rows * self->node->shape.width, x + c * pixels);
    }
  }
}

/* A block of columns: where it lies, and its row stride. */
typedef struct block {
  int64_t first, count; /* columns of the output (C, N x height x width) */
  const float *columns;
  int64_t stride;
} block;

/* The block from row `*start`, which moves behind it; false behind the last. */
static bool next_block(lac_reference *self, const sizes *of, const float *x, int64_t *start, block *next) {
  int64_t width = of->node->shape.width, all = of->pictures * of->node->shape.height;
  if (*start == all) {
    return false;
  }
  if (is_plain(of->node)) {
    *next = (block){0, all * width, x, all * width};
    *start = all;
    return true;
  }
  int64_t rows = all - *start < of->block ? all - *start : of->block;
  make_columns(of, x, *start, rows, self->scratch);
  *next = (block){*start * width, rows * width, self->scratch, rows * width};
  *start += rows;
  return true;
}

static void forward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i];
  sizes of = sizes_of(self->graph, node, self->count);
  const float *weight = self->parameters + node->weight, *bias = self->parameters + node->offset;
  float *out = self->nodes[i].out;
  int64_t columns = self->count * lac_plane(node), start = 0;
  for (block at; next_block(self, &of, self->nodes[node->input].out, &start, &at);) {
    for (int64_t c = 0; node->bias && c < node->shape.channels; c++) {
      float *to = out + c * columns + at.first;
      for (int64_t j = 0; j < at.count; j++) {
        to[j] = bias[c];
      }
    }
    lac_sgemm(false, false, node->shape.channels, at.count, of.depth, 1, weight, of.depth, at.columns, at.stride,
              node->bias ? 1 : 0, out + at.first, columns);
  }
}

/* The gradient of the input, from that of a block. Columns that were gathered are no longer needed. */
static void block_backward(lac_reference *self, const sizes *of, const block *at, const float *dout, bool adds,
                           float *dx) {
  const lac_node *node = of->node;
  int64_t columns = self->count * lac_plane(node);
  bool plain = is_plain(node);
  lac_sgemm(true, false, of->depth, at->count, node->shape.channels, 1, self->parameters + node->weight, of->depth,
            dout + at->first, columns, plain && adds ? 1 : 0, plain ? dx : self->scratch, at->stride);
  if (!plain) {
    add_columns(of, self->scratch, at->first / node->shape.width, at->count / node->shape.width, dx);
  }
}

static void backward(lac_reference *self, int i) {
  const lac_node *node = &self->graph->nodes[i], *from = &self->graph->nodes[node->input];
  const float *dout = self->nodes[i].gradient;
  float *dx = self->nodes[node->input].gradient;
  sizes of = sizes_of(self->graph, node, self->count);
  int64_t columns = self->count * lac_plane(node), start = 0;
  bool adds = self->nodes[i].adds[0];
  if (dx && !adds && !is_plain(node)) {
    memset(dx, 0, (size_t)lac_reference_size(self, from) * sizeof *dx);
  }
  for (block at; next_block(self, &of, self->nodes[node->input].out, &start, &at);) {
    lac_sgemm(false, true, node->shape.channels, of.depth, at.count, 1, dout + at.first, columns, at.columns, at.stride,
              at.first > 0 ? 1 : 0, self->gradient + node->weight, of.depth);
    if (dx) {
      block_backward(self, &of, &at, dout, adds, dx);
    }
  }
  if (node->bias) {
    lac_reference_channel_sums(node->shape.channels, columns, dout, self->gradient + node->offset);
  }
}

const lac_reference_layer lac_reference_conv = {scratch, forward, backward};
