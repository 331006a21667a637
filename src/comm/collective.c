/* Collectives on messages alone, in one fixed order, so that every back end gives the same bits. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/backend.h"

enum { LAC_PIECE_BYTES = 65536 };

/* total = total op mine, element by element. */
typedef void (*lac_combine_fn)(void *total, const void *mine, size_t bytes);

static void add_f64(void *total, const void *mine, size_t bytes) {
  double *sum = total;
  const double *x = mine;
  for (size_t i = 0; i < bytes / sizeof *x; i++) {
    sum[i] += x[i];
  }
}

static void add_i64(void *total, const void *mine, size_t bytes) {
  uint64_t *sum = total; /* wraps around rather than being undefined */
  const uint64_t *x = mine;
  for (size_t i = 0; i < bytes / sizeof *x; i++) {
    sum[i] += x[i];
  }
}

/* A value that is not a number wins, whoever has it. */
static void least_f64(void *total, const void *mine, size_t bytes) {
  double *least = total;
  const double *x = mine;
  for (size_t i = 0; i < bytes / sizeof *x; i++) {
    if (x[i] < least[i] || x[i] != x[i]) {
      least[i] = x[i];
    }
  }
}

static void most_f64(void *total, const void *mine, size_t bytes) {
  double *most = total;
  const double *x = mine;
  for (size_t i = 0; i < bytes / sizeof *x; i++) {
    if (x[i] > most[i] || x[i] != x[i]) {
      most[i] = x[i];
    }
  }
}

static lac_status send_piece(lac_world *world, int to, int tag, const void *data, size_t bytes) {
  return lac_world_send_tagged(world, to, tag, data, bytes, LAC_TRAFFIC_CONTROL);
}

/* Receives a piece of known size; free(*data) is the caller's. */
static lac_status receive_piece(lac_world *world, int from, int tag, size_t bytes, void **data) {
  lac_message message;
  *data = NULL;
  LAC_TRY(lac_world_receive_tagged(world, from, tag, from, &message));
  if (message.bytes != bytes) {
    free(message.data);
    return lac_fail(world->context, LAC_E_PEER,
                    "worker %d sent %zu bytes to a collective call of worker %d, expected %zu: the calls differ", from,
                    message.bytes, world->rank, bytes);
  }
  *data = message.data;
  return LAC_OK;
}

static size_t piece_at(size_t bytes, size_t at) {
  return bytes - at < LAC_PIECE_BYTES ? bytes - at : LAC_PIECE_BYTES;
}

/* ---- trees, for what is small: 2 ceil(log2 P) messages one after the other in place of 2 (P - 1) ---- */

static lac_status receive_into(lac_world *world, int from, int tag, void *data, size_t bytes) {
  void *got;
  LAC_TRY(receive_piece(world, from, tag, bytes, &got));
  memcpy(data, got, bytes);
  free(got);
  return LAC_OK;
}

/* The blocks (P * bytes) of all workers at worker 0, in rank order: a worker hands over those of itself and of the
 * following ones whose blocks it has. */
static lac_status tree_gather(lac_world *world, int tag, char *blocks, size_t bytes) {
  for (int step = 1; step < world->size; step *= 2) {
    if (world->rank & step) {
      int end = world->rank + step < world->size ? world->rank + step : world->size;
      return send_piece(world, world->rank - step, tag, blocks + (size_t)world->rank * bytes,
                        (size_t)(end - world->rank) * bytes);
    }
    int from = world->rank + step;
    if (from < world->size) {
      int end = from + step < world->size ? from + step : world->size;
      LAC_TRY(receive_into(world, from, tag, blocks + (size_t)from * bytes, (size_t)(end - from) * bytes));
    }
  }
  return LAC_OK;
}

/* What the root has, at every worker. */
static lac_status tree_spread(lac_world *world, int root, int tag, void *data, size_t bytes) {
  int size = world->size, mine = (world->rank - root + size) % size, step = 1; /* ranks counted from the root */
  while (step < size && !(mine & step)) {
    step *= 2;
  }
  if (mine != 0) {
    LAC_TRY(receive_into(world, (world->rank - step + size) % size, tag, data, bytes));
  }
  for (step /= 2; step >= 1; step /= 2) {
    if (mine + step < size) {
      LAC_TRY(send_piece(world, (world->rank + step) % size, tag, data, bytes));
    }
  }
  return LAC_OK;
}

static bool is_small(const lac_world *world, size_t bytes) {
  return bytes <= LAC_PIECE_BYTES / (size_t)world->size;
}

/* Every worker's values come to worker 0, which combines them in rank order, as the chain does. */
static lac_status reduce_small(lac_world *world, char *values, size_t bytes, lac_combine_fn combine, int tag) {
  char *blocks;
  LAC_TRY(LAC_NEW(world->context, world->size * (int64_t)bytes, &blocks));
  memcpy(blocks + (size_t)world->rank * bytes, values, bytes);
  lac_status status = tree_gather(world, tag, blocks, bytes);
  for (int rank = 1; !status && world->rank == 0 && rank < world->size; rank++) {
    combine(blocks, blocks + (size_t)rank * bytes, bytes);
  }
  if (!status) {
    status = tree_spread(world, 0, tag, blocks, bytes);
  }
  if (!status) {
    memcpy(values, blocks, bytes);
  }
  lac_free(blocks);
  return status;
}

/* Along the chain of ranks and, when all are to have it, back, piece by piece: while one piece comes back, the next is
 * on its way. */
static lac_status reduce_along(lac_world *world, char *values, size_t bytes, lac_combine_fn combine, int tag,
                               bool for_all) {
  int before = world->rank - 1, after = world->rank + 1;
  bool last = after == world->size;
  for (size_t at = 0; at < bytes; at += LAC_PIECE_BYTES) {
    size_t piece = piece_at(bytes, at);
    if (before >= 0) {
      void *total;
      LAC_TRY(receive_piece(world, before, tag, piece, &total));
      combine(total, values + at, piece);
      memcpy(values + at, total, piece);
      free(total);
    }
    if (!last || (before >= 0 && for_all)) {
      LAC_TRY(send_piece(world, last ? before : after, tag, values + at, piece));
    }
  }
  for (size_t at = 0; !last && for_all && at < bytes; at += LAC_PIECE_BYTES) {
    size_t piece = piece_at(bytes, at);
    void *total;
    LAC_TRY(receive_piece(world, after, tag, piece, &total));
    memcpy(values + at, total, piece);
    free(total);
    if (before >= 0) {
      LAC_TRY(send_piece(world, before, tag, values + at, piece));
    }
  }
  return LAC_OK;
}

static lac_status check_count(lac_world *world, int64_t count) {
  if (count < 0 || count > INT64_MAX / 8) {
    return lac_fail(world->context, LAC_E_USAGE, "reduction: found %lld values, expected 0 or more", (long long)count);
  }
  return LAC_OK;
}

static lac_status reduce_numbers(lac_world *world, void *values, int64_t count, lac_combine_fn combine, int tag) {
  LAC_TRY(check_count(world, count));
  size_t bytes = (size_t)count * 8;
  return bytes > 0 && is_small(world, bytes) ? reduce_small(world, values, bytes, combine, tag)
                                             : reduce_along(world, values, bytes, combine, tag, true);
}

lac_status lac_world_sum_f64(lac_world *world, double *values, int64_t count) {
  return reduce_numbers(world, values, count, add_f64, LAC_TAG_SUM);
}

lac_status lac_world_sum_at_last_f64(lac_world *world, double *values, int64_t count) {
  LAC_TRY(check_count(world, count));
  return reduce_along(world, (char *)values, (size_t)count * 8, add_f64, LAC_TAG_SUM, false);
}

lac_status lac_world_sum_i64(lac_world *world, int64_t *values, int64_t count) {
  return reduce_numbers(world, values, count, add_i64, LAC_TAG_SUM);
}

lac_status lac_world_min_f64(lac_world *world, double *values, int64_t count) {
  return reduce_numbers(world, values, count, least_f64, LAC_TAG_MIN);
}

lac_status lac_world_max_f64(lac_world *world, double *values, int64_t count) {
  return reduce_numbers(world, values, count, most_f64, LAC_TAG_MAX);
}

/* Dissemination: in round r a worker tells the one 2^r after it, and hears from the one 2^r before it. */
lac_status lac_world_barrier(lac_world *world) {
  for (int step = 1; step < world->size; step *= 2) {
    int to = (world->rank + step) % world->size;
    int from = (world->rank - step + world->size) % world->size;
    void *nothing;
    LAC_TRY(send_piece(world, to, LAC_TAG_BARRIER, NULL, 0));
    LAC_TRY(receive_piece(world, from, LAC_TAG_BARRIER, 0, &nothing));
    free(nothing);
  }
  return LAC_OK;
}

lac_status lac_world_broadcast(lac_world *world, int root, void *data, size_t bytes) {
  int size = world->size;
  if (root < 0 || root >= size) {
    return lac_fail(world->context, LAC_E_USAGE, "broadcast: found root %d, expected 0 to %d", root, size - 1);
  }
  if (bytes > 0 && bytes <= LAC_PIECE_BYTES) {
    return tree_spread(world, root, LAC_TAG_BROADCAST, data, bytes);
  }
  int before = (world->rank - 1 + size) % size, after = (world->rank + 1) % size;
  for (size_t at = 0; at < bytes; at += LAC_PIECE_BYTES) {
    size_t piece = piece_at(bytes, at);
    if (world->rank != root) {
      void *got;
      LAC_TRY(receive_piece(world, before, LAC_TAG_BROADCAST, piece, &got));
      memcpy((char *)data + at, got, piece);
      free(got);
    }
    if (after != root) {
      LAC_TRY(send_piece(world, after, LAC_TAG_BROADCAST, (char *)data + at, piece));
    }
  }
  return LAC_OK;
}

/* Small blocks by way of worker 0, large ones around the ring: at step s a worker passes on the block of the worker s
 * before it. */
lac_status lac_world_gather(lac_world *world, const void *mine, size_t bytes, void *all) {
  int size = world->size, before = (world->rank - 1 + size) % size, after = (world->rank + 1) % size;
  char *blocks = all;
  if (bytes == 0) {
    return LAC_OK;
  }
  memcpy(blocks + (size_t)world->rank * bytes, mine, bytes);
  if (is_small(world, bytes)) {
    LAC_TRY(tree_gather(world, LAC_TAG_GATHER, blocks, bytes));
    return tree_spread(world, 0, LAC_TAG_GATHER, blocks, (size_t)size * bytes);
  }
  for (int step = 0; step < size - 1; step++) {
    int passed = (world->rank - step + size) % size, next = (world->rank - step - 1 + size) % size;
    void *got;
    LAC_TRY(send_piece(world, after, LAC_TAG_GATHER, blocks + (size_t)passed * bytes, bytes));
    LAC_TRY(receive_piece(world, before, LAC_TAG_GATHER, bytes, &got));
    memcpy(blocks + (size_t)next * bytes, got, bytes);
    free(got);
  }
  return LAC_OK;
}

/* What travels in an agreement. */
typedef struct lac_vote {
  int32_t status, rank;
  char line[LAC_LINE_BYTES];
} lac_vote;

static void cast_vote(const lac_world *world, lac_status mine, lac_vote *vote) {
  const char *line = lac_context_message(world->context);
  *vote = (lac_vote){.status = (int32_t)mine, .rank = world->rank};
  if (mine) {
    memccpy(vote->line, *line ? line : lac_status_text(mine), 0, sizeof vote->line - 1);
  }
}

/* Up the tree and down again: of two failures the one of lower rank goes on. */
lac_status lac_world_agree(lac_world *world, lac_status mine) {
  lac_vote own, vote;
  cast_vote(world, mine, &own);
  vote = own;
  for (int step = 1; step < world->size; step *= 2) {
    if (world->rank & step) {
      LAC_TRY(send_piece(world, world->rank - step, LAC_TAG_AGREE, &vote, sizeof vote));
      break;
    }
    if (world->rank + step < world->size) {
      lac_vote other;
      LAC_TRY(receive_into(world, world->rank + step, LAC_TAG_AGREE, &other, sizeof other));
      vote = vote.status ? vote : other; /* the other's ranks are all higher */
    }
  }
  LAC_TRY(tree_spread(world, 0, LAC_TAG_AGREE, &vote, sizeof vote));
  vote.line[LAC_LINE_BYTES - 1] = 0;
  if (!vote.status) {
    return LAC_OK;
  }
  lac_status status = (lac_status)vote.status;
  if (vote.rank == world->rank) {
    return lac_fail(world->context, status, "%s", own.line);
  }
  snprintf(world->agreed_line, sizeof world->agreed_line, "worker %d: %.1000s", (int)vote.rank, vote.line);
  world->agreed = status;
  return lac_fail(world->context, status, "%s", world->agreed_line);
}
