/* Search in binary codes, exact neighbours, and how well the one predicts the other. */
#ifndef LACONIC_RETRIEVAL_H
#define LACONIC_RETRIEVAL_H

#include "laconic/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Told how much of a long call is done, from 0 to 1, on the calling thread. */
typedef void (*lac_progress_fn)(void *user, double done);

/* The k nearest codes of every query by Hamming distance, nearest first, equal distances by lower index. base (rows, B)
 * and query (queries, B) are packed codes of `bits` bits, B = ceil(bits / 8); ids and distances (queries, k), distances
 * may be NULL. Padding bits are ignored. Uses AVX-512, AVX2 or plain C, whichever the processor has; memory is of the
 * order of k for each of at most 64 queries a thread. Errors: USAGE when k is not in 1..rows, bits not in 1..16384 or
 * rows beyond int32, INTERRUPTED, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_hamming_search(lac_context *context, const uint8_t *base, int64_t rows,
                                                   const uint8_t *query, int64_t queries, int64_t bits, int64_t k,
                                                   int64_t threads, int32_t *ids, int32_t *distances);

/* The k nearest rows of every query by Euclidean distance, exactly, nearest first, equal distances by lower index: ids
 * (queries, k). Values are taken as float32. Distances are found by blocked products and settled in double precision
 * where float32 cannot tell. Costs 2 rows queries columns operations; memory is some 200 MB a thread at most. Errors:
 * INPUT when the columns differ or a value is not finite (its row is named), USAGE when k is not in 1..rows or rows
 * beyond int32, IO, INTERRUPTED, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_exact_neighbors(lac_context *context, const lac_dataset *base,
                                                    const lac_dataset *query, int64_t k, int64_t threads,
                                                    lac_progress_fn progress, void *user, int32_t *ids);

/* Precision: of the k nearest by Hamming distance, the fraction among the k true neighbours. Recall at R: how often the
 * true nearest neighbour is among the first R. Ties in Hamming distance are averaged over their orders. truth (queries,
 * depth) are true neighbours, nearest first. precision[i] is for ks[i], recall[i] for Rs[i], averaged over queries; NaN
 * where ks[i] exceeds rows or depth, or Rs[i] exceeds rows. Does not depend on the number of threads. Errors:
 * INPUT for a truth outside 0..rows-1, USAGE for ks or Rs below 1, INTERRUPTED, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_retrieval_measure(lac_context *context, const uint8_t *base, int64_t rows,
                                                      const uint8_t *query, int64_t queries, int64_t bits,
                                                      const int32_t *truth, int64_t depth, const int64_t *ks, int nk,
                                                      const int64_t *Rs, int nR, int64_t threads, double *precision,
                                                      double *recall);

#ifdef __cplusplus
}
#endif
#endif
