#include "hash/hamming.h"

#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"

enum {
  BLOCK_BYTES = 16384, /* laid out tiles that all queries of a group pass over: half of a small first cache */
  GROUP = 64,          /* queries that share the work of laying out */
  GROUP_BYTES = 64 * 1024 * 1024, /* most memory of a thread for what its queries have found */
  SLACK = 512                     /* least room for candidates beyond k: how often they are thinned out */
};

const lac_hamming_kernels *lac_hamming_kernels_here(void) {
  return lac_hamming_kernels_of(lac_cpu_isa());
}

lac_status lac_codes_check(lac_context *context, const lac_codes *codes) {
  if (codes->bits < 1 || codes->bits > LAC_HAMMING_BITS) {
    return lac_fail(context, LAC_E_USAGE, "codes of %lld bits, expected 1 to %d", (long long)codes->bits,
                    LAC_HAMMING_BITS);
  }
  if (codes->rows < 1 || codes->rows > INT32_MAX) {
    return lac_fail(context, LAC_E_USAGE, "a base of %lld codes, expected 1 to %d", (long long)codes->rows, INT32_MAX);
  }
  if (codes->queries < 0) {
    return lac_fail(context, LAC_E_USAGE, "%lld queries, expected 0 or more", (long long)codes->queries);
  }
  return LAC_OK;
}

static int64_t block_tiles(int64_t bits) {
  int64_t tiles = BLOCK_BYTES / (int64_t)lac_hamming_tile_bytes(bits);
  return tiles < 1 ? 1 : tiles;
}

size_t lac_codes_scratch_bytes(int64_t bits, int64_t group) {
  size_t tiles = (size_t)block_tiles(bits) * lac_hamming_tile_bytes(bits);
  return tiles + (size_t)(group * lac_hamming_pad_bytes(bits) + 63) / 64 * 64;
}

static void scan_tile(const lac_codes *codes, const uint8_t *tile, const uint8_t *padded, int64_t query, int64_t first,
                      lac_scan_fn scan, void *argument) {
  int64_t count = codes->rows - first < LAC_TILE ? codes->rows - first : LAC_TILE;
  if (codes->bits <= LAC_NARROW_BITS) {
    _Alignas(64) uint8_t narrow[LAC_TILE];
    codes->kernels->narrow(tile, padded, codes->bits, narrow);
    scan(argument, query, first, count, narrow, NULL);
  } else {
    _Alignas(64) uint16_t wide[LAC_TILE];
    codes->kernels->wide(tile, padded, codes->bits, wide);
    scan(argument, query, first, count, NULL, wide);
  }
}

lac_status lac_codes_scan(lac_context *context, const lac_codes *codes, int64_t first, int64_t group, uint8_t *scratch,
                          lac_scan_fn scan, void *argument) {
  int64_t bytes = (codes->bits + 7) / 8, pad = lac_hamming_pad_bytes(codes->bits);
  int64_t tile_bytes = (int64_t)lac_hamming_tile_bytes(codes->bits), block = block_tiles(codes->bits) * LAC_TILE;
  uint8_t *padded = scratch + block / LAC_TILE * tile_bytes;
  for (int64_t q = 0; q < group; q++) {
    lac_hamming_pad(codes->query + (first + q) * bytes, codes->bits, padded + q * pad);
  }
  for (int64_t start = 0; start < codes->rows; start += block) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    int64_t end = start + block < codes->rows ? start + block : codes->rows;
    for (int64_t i = start; i < end; i += LAC_TILE) {
      int64_t count = end - i < LAC_TILE ? end - i : LAC_TILE;
      codes->kernels->lay(codes->base + i * bytes, count, codes->bits, scratch + (i - start) / LAC_TILE * tile_bytes);
    }
    for (int64_t q = 0; q < group; q++) {
      for (int64_t i = start; i < end; i += LAC_TILE) {
        scan_tile(codes, scratch + (i - start) / LAC_TILE * tile_bytes, padded + q * pad, q, i, scan, argument);
      }
    }
  }
  return LAC_OK;
}

/* What one query has found: candidates in rising order of id, all that could still be among the k nearest and some
 * more. histogram counts the candidates of each distance, `inside` those nearer than `limit`. The limit is the distance
 * of the k-th nearest so far: a later code must be nearer than that, an equal one comes after those that are there. */
typedef struct lac_found {
  int64_t count, inside;
  int limit;
  int32_t *ids;
  uint16_t *distances;
  int32_t *histogram; /* (bits + 1) */
} lac_found;

typedef struct lac_search {
  const lac_codes *codes;
  int64_t k, threads, group, capacity;
  int32_t *ids, *distances; /* (queries, k) */
  lac_found *found;         /* (threads, group) */
  uint8_t *scratch;         /* (threads, scratch_bytes) */
  size_t scratch_bytes;
  int32_t *ids_memory, *histogram_memory;
  uint16_t *distances_memory;
} lac_search;

typedef struct lac_search_thread {
  const lac_search *search;
  lac_found *found; /* (group) */
} lac_search_thread;

/* Keeps the k nearest, those at the limit by lower index. Without branches on the distances, which are random. */
static void thin_out(lac_found *found, int64_t k) {
  int64_t at_limit = k - found->inside, kept = 0, count = found->count;
  int limit = found->limit;
  int32_t *ids = found->ids;
  uint16_t *distances = found->distances;
  for (int64_t i = 0; i < count; i++) {
    int distance = distances[i];
    ids[kept] = ids[i];
    distances[kept] = (uint16_t)distance;
    kept += (distance < limit) | ((distance == limit) & (at_limit > 0));
    at_limit -= distance == limit;
  }
  found->count = kept;
}

/* Takes one tile's candidates. The state is in registers meanwhile. */
static inline void push(lac_found *found, int64_t k, int64_t first, const uint8_t *positions, int below, int64_t count,
                        const uint8_t *narrow, const uint16_t *wide) {
  int limit = found->limit;
  int64_t next = found->count, inside = found->inside;
  int32_t *ids = found->ids, *histogram = found->histogram;
  uint16_t *distances = found->distances;
  for (int i = 0; i < below && positions[i] < count; i++) {
    int distance = narrow ? narrow[positions[i]] : wide[positions[i]];
    if (distance < limit) {
      ids[next] = (int32_t)(first + positions[i]);
      distances[next++] = (uint16_t)distance;
      histogram[distance]++;
      for (inside++; inside >= k;) {
        inside -= histogram[--limit];
      }
    }
  }
  found->limit = limit;
  found->count = next;
  found->inside = inside;
}

static void search_tile(void *argument, int64_t query, int64_t first, int64_t count, const uint8_t *narrow,
                        const uint16_t *wide) {
  const lac_search_thread *thread = argument;
  const lac_search *search = thread->search;
  lac_found *found = &thread->found[query];
  if (found->limit == 0) {
    return; /* k copies of the query: nothing is nearer */
  }
  uint8_t positions[LAC_TILE];
  const lac_hamming_kernels *kernels = search->codes->kernels;
  int below = narrow ? kernels->narrow_below(narrow, found->limit, positions)
                     : kernels->wide_below(wide, found->limit, positions);
  if (below == 0) {
    return;
  }
  if (found->count + LAC_TILE > search->capacity) {
    thin_out(found, search->k);
  }
  if (narrow) {
    push(found, search->k, first, positions, below, count, narrow, NULL);
  } else {
    push(found, search->k, first, positions, below, count, NULL, wide);
  }
}

/* Counting sort by distance; the candidates come in order of their ids and keep it. */
static void write_found(const lac_search *search, lac_found *found, int64_t query) {
  thin_out(found, search->k);
  int64_t bits = search->codes->bits, next = 0;
  memset(found->histogram, 0, (size_t)(bits + 1) * sizeof *found->histogram);
  for (int64_t i = 0; i < found->count; i++) {
    found->histogram[found->distances[i]]++;
  }
  for (int64_t d = 0; d <= bits; d++) {
    int32_t here = found->histogram[d];
    found->histogram[d] = (int32_t)next;
    next += here;
  }
  for (int64_t i = 0; i < found->count; i++) {
    int64_t to = query * search->k + found->histogram[found->distances[i]]++;
    search->ids[to] = found->ids[i];
    if (search->distances) {
      search->distances[to] = found->distances[i];
    }
  }
}

static lac_status search_group(void *argument, lac_context *context, int64_t chunk, int thread) {
  const lac_search *search = argument;
  const lac_codes *codes = search->codes;
  int64_t first = chunk * search->group;
  int64_t group = codes->queries - first < search->group ? codes->queries - first : search->group;
  lac_search_thread mine = {search, search->found + thread * search->group};
  for (int64_t q = 0; q < group; q++) {
    lac_found *found = &mine.found[q];
    found->count = found->inside = 0;
    found->limit = (int)codes->bits + 1;
    memset(found->histogram, 0, (size_t)(codes->bits + 1) * sizeof *found->histogram);
  }
  LAC_TRY(lac_codes_scan(context, codes, first, group, search->scratch + (size_t)thread * search->scratch_bytes,
                         search_tile, &mine));
  for (int64_t q = 0; q < group; q++) {
    write_found(search, &mine.found[q], first + q);
  }
  return LAC_OK;
}

static lac_status allocate_search(lac_context *context, lac_search *search) {
  int64_t slots = search->threads * search->group, bins = search->codes->bits + 1;
  LAC_TRY(LAC_NEW(context, slots, &search->found));
  LAC_TRY(LAC_NEW(context, slots * search->capacity, &search->ids_memory));
  LAC_TRY(LAC_NEW(context, slots * search->capacity, &search->distances_memory));
  LAC_TRY(LAC_NEW(context, slots * bins, &search->histogram_memory));
  LAC_TRY(lac_allocate(context, search->threads, search->scratch_bytes, (void **)&search->scratch));
  for (int64_t i = 0; i < slots; i++) {
    search->found[i].ids = search->ids_memory + i * search->capacity;
    search->found[i].distances = search->distances_memory + i * search->capacity;
    search->found[i].histogram = search->histogram_memory + i * bins;
  }
  return LAC_OK;
}

/* Groups as large as memory allows, and as small as leaves every thread one. */
static int64_t group_of(const lac_search *search) {
  int64_t candidate = sizeof(int32_t) + sizeof(uint16_t);
  int64_t group = GROUP_BYTES / (search->capacity * candidate);
  int64_t share = (search->codes->queries + search->threads - 1) / search->threads;
  group = group > GROUP ? GROUP : group;
  group = group > share ? share : group;
  return group < 1 ? 1 : group;
}

lac_status lac_hamming_search_with(lac_context *context, const lac_codes *codes, int64_t k, int64_t threads,
                                   int32_t *ids, int32_t *distances) {
  LAC_TRY(lac_codes_check(context, codes));
  if (k < 1 || k > codes->rows) {
    return lac_fail(context, LAC_E_USAGE, "k is %lld, expected 1 to %lld, the number of codes in the base",
                    (long long)k, (long long)codes->rows);
  }
  if (codes->queries == 0) {
    return LAC_OK;
  }
  double start = lac_seconds();
  lac_search search = {.codes = codes, .k = k};
  search.ids = ids;
  search.distances = distances;
  search.threads = threads < 1 ? 1 : threads > codes->queries ? codes->queries : threads;
  search.capacity = k + (k > SLACK ? k : SLACK) + LAC_TILE;
  search.group = group_of(&search);
  search.scratch_bytes = lac_codes_scratch_bytes(codes->bits, search.group);
  lac_status status = allocate_search(context, &search);
  if (!status) {
    int64_t chunks = (codes->queries + search.group - 1) / search.group;
    status = lac_parallel(context, search.threads, chunks, search_group, &search);
  }
  lac_free(search.scratch);
  lac_free(search.histogram_memory);
  lac_free(search.distances_memory);
  lac_free(search.ids_memory);
  lac_free(search.found);
  lac_profile_add(context, "hamming search", lac_seconds() - start, 0, 0, 0);
  return status;
}

lac_status lac_hamming_search(lac_context *context, const uint8_t *base, int64_t rows, const uint8_t *query,
                              int64_t queries, int64_t bits, int64_t k, int64_t threads, int32_t *ids,
                              int32_t *distances) {
  lac_codes codes = {lac_hamming_kernels_here(), base, query, rows, queries, bits};
  return lac_hamming_search_with(context, &codes, k, threads, ids, distances);
}
