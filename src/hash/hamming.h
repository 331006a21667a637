/* Scanning packed codes: what search and measurement share. */
#ifndef LACONIC_HASH_HAMMING_H
#define LACONIC_HASH_HAMMING_H

#include "laconic/retrieval.h"
#include "math/popcount.h"

typedef struct lac_codes {
  const lac_hamming_kernels *kernels;
  const uint8_t *base;  /* (rows, ceil(bits / 8)) */
  const uint8_t *query; /* (queries, ceil(bits / 8)) */
  int64_t rows, queries, bits;
} lac_codes;

/* The kernels of this processor. */
const lac_hamming_kernels *lac_hamming_kernels_here(void);

/* Errors: USAGE for sizes that no kernel takes. */
LAC_MUST_USE lac_status lac_codes_check(lac_context *context, const lac_codes *codes);

/* Distances of query `query` (counted from the group's first) to base codes [first, first + count), count <= LAC_TILE.
 * One of narrow and wide is NULL: wide holds the distances of codes of more than LAC_NARROW_BITS bits. */
typedef void (*lac_scan_fn)(void *argument, int64_t query, int64_t first, int64_t count, const uint8_t *narrow,
                            const uint16_t *wide);

/* Bytes of scratch memory, aligned to 64, for a scan with up to `group` queries. */
size_t lac_codes_scratch_bytes(int64_t bits, int64_t group);

/* Meets queries [first, first + group) with the whole base, a block of tiles at a time: the block stays in the first
 * cache while all queries pass over it. Each query sees the base in rising order. Errors: INTERRUPTED. */
LAC_MUST_USE lac_status lac_codes_scan(lac_context *context, const lac_codes *codes, int64_t first, int64_t group,
                                       uint8_t *scratch, lac_scan_fn scan, void *argument);

/* lac_hamming_search with kernels of choice. */
LAC_MUST_USE lac_status lac_hamming_search_with(lac_context *context, const lac_codes *codes, int64_t k,
                                                int64_t threads, int32_t *ids, int32_t *distances);

/* lac_retrieval_measure with kernels of choice. */
LAC_MUST_USE lac_status lac_retrieval_measure_with(lac_context *context, const lac_codes *codes, const int32_t *truth,
                                                   int64_t depth, const int64_t *ks, int nk, const int64_t *Rs, int nR,
                                                   int64_t threads, double *precision, double *recall);

#endif
