#include "mixing/regular.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

/* Switches tried for one edge, and graphs drawn, before giving up. */
enum { SWITCHES = 4096, DRAWS = 256 };

typedef struct edge {
  int32_t a, b;
} edge;

typedef struct graph {
  int64_t n, degree;
  int64_t edges;   /* in place, at most n * degree / 2 */
  edge *edge;      /* (n * degree / 2) */
  edge *bad;       /* (n * degree / 2): pairs that would be loops or double edges */
  int64_t *point;  /* (n * degree): each vertex `degree` times, in random order */
  uint64_t mask;   /* size of the table - 1 */
  uint64_t *table; /* keys of the edges in place, 0 where free; open addressing, at most half full */
  int64_t *filled; /* (n): neighbours written */
  int32_t *queue;  /* (n) */
  lac_random random;
} graph;

bool lac_regular_exists(int64_t n, int64_t degree) {
  bool parity = n % 2 == 0 || degree % 2 == 0;
  return degree >= 1 && n > degree && parity && (degree > 1 || n == 2);
}

/* ---- the set of edges ---- */

static uint64_t key_of(int32_t a, int32_t b) {
  return a < b ? (uint64_t)a << 32 | (uint64_t)b : (uint64_t)b << 32 | (uint64_t)a; /* not 0: the higher is above 0 */
}

static uint64_t place_of(const graph *self, uint64_t key) {
  return (key * 0x9E3779B97F4A7C15u >> 20) & self->mask; /* Fibonacci hashing, Knuth 6.4 */
}

/* Where the key is, or where it would go. */
static uint64_t find(const graph *self, uint64_t key) {
  uint64_t at = place_of(self, key);
  while (self->table[at] && self->table[at] != key) {
    at = (at + 1) & self->mask;
  }
  return at;
}

static bool has(const graph *self, int32_t a, int32_t b) {
  return self->table[find(self, key_of(a, b))] != 0;
}

static void insert(graph *self, int32_t a, int32_t b) {
  uint64_t key = key_of(a, b);
  self->table[find(self, key)] = key;
}

/* Knuth's algorithm 6.4R: what was pushed beyond the gap moves back into it. */
static void erase(graph *self, int32_t a, int32_t b) {
  uint64_t gap = find(self, key_of(a, b));
  for (uint64_t at = (gap + 1) & self->mask; self->table[at]; at = (at + 1) & self->mask) {
    uint64_t home = place_of(self, self->table[at]);
    if (((at - home) & self->mask) >= ((at - gap) & self->mask)) {
      self->table[gap] = self->table[at];
      gap = at;
    }
  }
  self->table[gap] = 0;
}

/* ---- drawing ---- */

/* Pairs the points at random. The pairs that cannot be edges go to `bad`; their number. */
static int64_t pair_points(graph *self) {
  int64_t points = self->n * self->degree, bad = 0;
  lac_random_permutation(&self->random, points, self->point);
  self->edges = 0;
  memset(self->table, 0, (self->mask + 1) * sizeof *self->table);
  for (int64_t i = 0; i < points; i += 2) {
    edge pair = {(int32_t)(self->point[i] / self->degree), (int32_t)(self->point[i + 1] / self->degree)};
    if (pair.a == pair.b || has(self, pair.a, pair.b)) {
      self->bad[bad++] = pair;
    } else {
      insert(self, pair.a, pair.b);
      self->edge[self->edges++] = pair;
    }
  }
  return bad;
}

/* Replaces a pair (a, b) that cannot be, and an edge (c, d) drawn at random, by the edges (a, c) and (b, d). */
static bool switch_pair(graph *self, edge pair) {
  for (int i = 0; i < SWITCHES && self->edges > 0; i++) {
    edge *other = &self->edge[lac_random_below(&self->random, self->edges)];
    bool turned = lac_random_below(&self->random, 2) == 1;
    edge old = turned ? (edge){other->b, other->a} : *other;
    if (pair.a != old.a && pair.b != old.b && !has(self, pair.a, old.a) && !has(self, pair.b, old.b)) {
      erase(self, old.a, old.b);
      *other = (edge){pair.a, old.a};
      self->edge[self->edges++] = (edge){pair.b, old.b};
      insert(self, pair.a, old.a);
      insert(self, pair.b, old.b);
      return true;
    }
  }
  return false;
}

static void write_neighbours(graph *self, int32_t *neighbour) {
  memset(self->filled, 0, (size_t)self->n * sizeof *self->filled);
  for (const edge *at = self->edge; at < self->edge + self->edges; at++) {
    neighbour[at->a * self->degree + self->filled[at->a]++] = at->b;
    neighbour[at->b * self->degree + self->filled[at->b]++] = at->a;
  }
}

static bool is_connected(graph *self, const int32_t *neighbour) {
  int64_t reached = 1;
  int64_t *seen = self->filled; /* has served */
  memset(seen, 0, (size_t)self->n * sizeof *seen);
  self->queue[0] = 0;
  seen[0] = 1;
  for (int64_t next = 0; next < reached; next++) {
    const int32_t *row = neighbour + self->queue[next] * self->degree;
    for (int64_t k = 0; k < self->degree; k++) {
      if (!seen[row[k]]) {
        seen[row[k]] = 1;
        self->queue[reached++] = row[k];
      }
    }
  }
  return reached == self->n;
}

static lac_status allocate(lac_context *context, graph *self) {
  int64_t points = self->n * self->degree;
  uint64_t size = 2;
  while (size < (uint64_t)points) { /* two places an edge, and one is always free */
    size *= 2;
  }
  self->mask = 2 * size - 1;
  LAC_TRY(LAC_NEW(context, points / 2, &self->edge));
  LAC_TRY(LAC_NEW(context, points / 2, &self->bad));
  LAC_TRY(LAC_NEW(context, points, &self->point));
  LAC_TRY(LAC_NEW(context, (int64_t)self->mask + 1, &self->table));
  LAC_TRY(LAC_NEW(context, self->n, &self->filled));
  return LAC_NEW(context, self->n, &self->queue);
}

static lac_status draw(lac_context *context, graph *self, int64_t seed, bool connected, int32_t *neighbour) {
  LAC_TRY(allocate(context, self));
  for (uint64_t number = 0; number < DRAWS; number++) {
    self->random = lac_random_stream(seed, LAC_RANDOM_TOPOLOGY, number, 0);
    int64_t bad = pair_points(self);
    while (bad > 0 && switch_pair(self, self->bad[bad - 1])) {
      bad--;
    }
    if (bad == 0) {
      write_neighbours(self, neighbour);
      if (!connected || is_connected(self, neighbour)) {
        return LAC_OK;
      }
    }
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "topology: interrupted while drawing a graph");
    }
  }
  return lac_fail(context, LAC_E_NUMERICAL,
                  "topology: drew no regular graph of %" PRId64 " workers and degree %" PRId64 " in %d draws", self->n,
                  self->degree, (int)DRAWS);
}

static void clear(graph *self) {
  lac_free(self->edge);
  lac_free(self->bad);
  lac_free(self->point);
  lac_free(self->table);
  lac_free(self->filled);
  lac_free(self->queue);
}

/* Pairing draws a single cycle of n vertices rarely; an order of them is one. */
static lac_status draw_cycle(lac_context *context, int64_t n, int64_t seed, int32_t *neighbour) {
  int64_t *order;
  LAC_TRY(LAC_NEW(context, n, &order));
  lac_random random = lac_random_stream(seed, LAC_RANDOM_TOPOLOGY, 0, 0);
  lac_random_permutation(&random, n, order);
  for (int64_t i = 0; i < n; i++) {
    neighbour[2 * order[i]] = (int32_t)order[(i + n - 1) % n];
    neighbour[2 * order[i] + 1] = (int32_t)order[(i + 1) % n];
  }
  lac_free(order);
  return LAC_OK;
}

/* The pairs that are no edges of a graph `other` of degree n - 1 - degree. */
static lac_status complement(lac_context *context, int64_t n, int64_t degree, const int32_t *other,
                             int32_t *neighbour) {
  int64_t others = n - 1 - degree;
  bool *taken;
  LAC_TRY(LAC_NEW(context, n, &taken));
  for (int64_t i = 0; i < n; i++) {
    memset(taken, 0, (size_t)n * sizeof *taken);
    taken[i] = true;
    for (int64_t k = 0; k < others; k++) {
      taken[other[i * others + k]] = true;
    }
    for (int64_t j = 0; j < n; j++) {
      if (!taken[j]) {
        *neighbour++ = (int32_t)j;
      }
    }
  }
  lac_free(taken);
  return LAC_OK;
}

lac_status lac_regular_draw(lac_context *context, int64_t n, int64_t degree, int64_t seed, int32_t *neighbour) {
  if (degree == 2) {
    return draw_cycle(context, n, seed, neighbour);
  }
  /* In a dense graph there is no edge to switch with. There one draws what is missing instead: with degrees of at least
   * (n - 1) / 2, two vertices that are no neighbours have one in common, so that such a graph connects. */
  bool dense = 2 * degree >= n - 1;
  int64_t drawn = dense ? n - 1 - degree : degree;
  graph self = {.n = n, .degree = drawn};
  int32_t *missing = NULL;
  lac_status status = dense ? LAC_NEW(context, n * drawn, &missing) : LAC_OK;
  if (!status && drawn > 0) {
    status = draw(context, &self, seed, !dense, dense ? missing : neighbour);
  }
  if (!status && dense) {
    status = complement(context, n, degree, missing, neighbour);
  }
  clear(&self);
  lac_free(missing);
  return status;
}
