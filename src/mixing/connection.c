#include <math.h>

#include "base/memory.h"
#include "laconic/topology.h"

static const double tolerance = 1e-9;

/* A vertex whose edges are being gone through, phase by phase. */
typedef struct visit {
  int32_t vertex;
  int phase;
  int64_t next;
} visit;

static visit visit_of(const lac_topology *topology, int32_t vertex) {
  return (visit){.vertex = vertex, .next = lac_topology_weights(topology, 0)->start[vertex]};
}

/* The next vertex to which there is an edge, false after the last. */
static bool next_edge(const lac_topology *topology, visit *at, int32_t *to) {
  const lac_weights *weights = lac_topology_weights(topology, at->phase);
  while (at->next == weights->start[at->vertex + 1]) {
    if (++at->phase == lac_topology_phases(topology)) {
      at->phase--;
      return false;
    }
    weights = lac_topology_weights(topology, at->phase);
    at->next = weights->start[at->vertex];
  }
  *to = weights->column[at->next++];
  return true;
}

/* ---- strongly connected components: Tarjan 1972, with a stack of its own ---- */

typedef struct components {
  const lac_topology *topology;
  int32_t *number; /* (n): in order of discovery, from 1 */
  int32_t *low;    /* (n): the least number known to be reached, within what is on the stack */
  int32_t *of;     /* (n): the component, from 1; 0 before it is known */
  int32_t *stack;  /* (n): vertices without a component yet */
  visit *path;     /* (n) */
  int32_t *level;  /* (n): steps from the first vertex, -1 unknown */
  int64_t found, on_stack, depth, count;
} components;

static void enter(components *self, int32_t vertex) {
  self->number[vertex] = self->low[vertex] = (int32_t)++self->found;
  self->stack[self->on_stack++] = vertex;
  self->path[self->depth++] = visit_of(self->topology, vertex);
}

static void leave(components *self) {
  int32_t vertex = self->path[--self->depth].vertex;
  if (self->low[vertex] == self->number[vertex]) {
    self->count++;
    int32_t member;
    do {
      member = self->stack[--self->on_stack];
      self->of[member] = (int32_t)self->count;
    } while (member != vertex);
  }
  if (self->depth > 0) {
    int32_t parent = self->path[self->depth - 1].vertex;
    self->low[parent] = self->low[vertex] < self->low[parent] ? self->low[vertex] : self->low[parent];
  }
}

static void search_from(components *self, int32_t root) {
  enter(self, root);
  while (self->depth > 0) {
    visit *at = &self->path[self->depth - 1];
    int32_t vertex = at->vertex, to;
    if (!next_edge(self->topology, at, &to)) {
      leave(self);
    } else if (!self->number[to]) {
      enter(self, to);
    } else if (!self->of[to] && self->number[to] < self->low[vertex]) {
      self->low[vertex] = self->number[to];
    }
  }
}

static int64_t divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The common divisor of level[i] + 1 - level[j] over the edges of worker 0's component, the levels by breadth-first
 * search. Source: Denardo 1977. */
static int64_t period(components *self) {
  int64_t reached = 1, common = 0;
  for (int64_t i = 0; i < lac_topology_workers(self->topology); i++) {
    self->level[i] = -1;
  }
  self->level[0] = 0;
  self->stack[0] = 0;
  for (int64_t next = 0; next < reached; next++) {
    visit at = visit_of(self->topology, self->stack[next]);
    for (int32_t to; next_edge(self->topology, &at, &to);) {
      if (self->of[to] != self->of[0]) {
        continue;
      }
      if (self->level[to] < 0) {
        self->level[to] = self->level[at.vertex] + 1;
        self->stack[reached++] = to;
      }
      int64_t difference = (int64_t)self->level[at.vertex] + 1 - self->level[to];
      common = divisor(common, difference < 0 ? -difference : difference);
    }
  }
  return common > 0 ? common : 1; /* a vertex that is left for ever has no cycle */
}

/* Components that no edge leaves. */
static int64_t count_closed(components *self) {
  int32_t *open = self->low; /* no longer needed: of component c, open[c - 1] */
  int64_t n = lac_topology_workers(self->topology), closed = self->count;
  for (int64_t c = 0; c < self->count; c++) {
    open[c] = 0;
  }
  for (int64_t i = 0; i < n; i++) {
    visit at = visit_of(self->topology, (int32_t)i);
    int32_t component = self->of[i];
    for (int32_t to; next_edge(self->topology, &at, &to);) {
      if (self->of[to] != component && !open[component - 1]) {
        open[component - 1] = 1;
        closed--;
      }
    }
  }
  return closed;
}

/* ---- sums and mirrored entries ---- */

/* Rows rise, and are gone through in order: where a matrix is symmetric, the partners of column j come in the order of
 * row j. next (n) is room. */
static bool is_symmetric(const lac_weights *weights, int64_t *next) {
  for (int64_t i = 0; i < weights->n; i++) {
    next[i] = weights->start[i];
  }
  for (int64_t i = 0; i < weights->n; i++) {
    for (int64_t k = weights->start[i]; k < weights->start[i + 1]; k++) {
      int32_t j = weights->column[k];
      int64_t partner = next[j]++;
      if (partner == weights->start[j + 1] || weights->column[partner] != i ||
          fabs(weights->weight[partner] - weights->weight[k]) > tolerance) {
        return false;
      }
    }
  }
  return true;
}

/* sum (n) is room. */
static bool is_doubly(const lac_weights *weights, double *sum) {
  for (int64_t i = 0; i < weights->n; i++) {
    sum[i] = 0;
  }
  for (int64_t k = 0; k < weights->start[weights->n]; k++) {
    sum[weights->column[k]] += weights->weight[k];
  }
  for (int64_t i = 0; i < weights->n; i++) {
    if (fabs(sum[i] - 1) > tolerance) {
      return false;
    }
  }
  return true;
}

static lac_status find_symmetry(lac_context *context, const lac_topology *topology, lac_connection *connection) {
  int64_t n = lac_topology_workers(topology);
  int64_t *next;
  double *sum;
  LAC_TRY(LAC_NEW(context, n, &next));
  lac_status status = LAC_NEW(context, n, &sum);
  connection->symmetric = connection->doubly = true;
  for (int phase = 0; !status && phase < lac_topology_phases(topology); phase++) {
    const lac_weights *weights = lac_topology_weights(topology, phase);
    connection->symmetric = connection->symmetric && is_symmetric(weights, next);
    connection->doubly = connection->doubly && is_doubly(weights, sum);
  }
  lac_free(next);
  lac_free(sum);
  return status;
}

static lac_status find_components(lac_context *context, components *self, lac_connection *connection) {
  int64_t n = lac_topology_workers(self->topology);
  LAC_TRY(LAC_NEW(context, n, &self->number));
  LAC_TRY(LAC_NEW(context, n, &self->low));
  LAC_TRY(LAC_NEW(context, n, &self->of));
  LAC_TRY(LAC_NEW(context, n, &self->stack));
  LAC_TRY(LAC_NEW(context, n, &self->path));
  LAC_TRY(LAC_NEW(context, n, &self->level));
  for (int64_t i = 0; i < n; i++) {
    if (!self->number[i]) {
      search_from(self, (int32_t)i);
    }
  }
  connection->components = self->count;
  connection->period = period(self);
  connection->closed = count_closed(self);
  return LAC_OK;
}

lac_status lac_topology_connection(lac_context *context, const lac_topology *topology, lac_connection *connection) {
  *connection = (lac_connection){0};
  components self = {.topology = topology};
  lac_status status = find_components(context, &self, connection);
  lac_free(self.number);
  lac_free(self.low);
  lac_free(self.of);
  lac_free(self.stack);
  lac_free(self.path);
  lac_free(self.level);
  return status ? status : find_symmetry(context, topology, connection);
}
