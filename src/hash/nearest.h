/* The k nearest of a stream of candidates whose keys are known up to an error.
 *
 * A candidate's true key lies in [key - error, key + error]; error 0 says that the key is exact. Candidates come in
 * rising order of id. Whatever could still be among the k nearest is kept, and only keys whose intervals meet are
 * settled: asked for exactly, at a cost. Equal keys rank by lower id. */
#ifndef LACONIC_HASH_NEAREST_H
#define LACONIC_HASH_NEAREST_H

#include "laconic/context.h"

typedef struct lac_candidate {
  double key;
  float error;
  int32_t id;
} lac_candidate;

typedef struct lac_nearest {
  int64_t k, capacity, count;
  double limit; /* the k-th key is not above it; infinite until k candidates have been thinned out */
  lac_candidate *list;
} lac_nearest;

/* The exact key of a candidate. */
typedef lac_status (*lac_settle_fn)(void *argument, lac_context *context, int32_t id, double *key);

/* What the lists of one thread share: memory for sorting, and where exact keys come from. */
typedef struct lac_nearest_tools {
  double *uppers;              /* (capacity) */
  uint64_t *keys, *other_keys; /* (capacity) */
  lac_candidate *other;        /* (capacity) */
  lac_settle_fn settle;
  void *argument;
} lac_nearest_tools;

/* Room for candidates that keeps thinning out rare; `burst` is how many may be pushed between two calls of
 * lac_nearest_thin. */
int64_t lac_nearest_capacity(int64_t k, int64_t burst);

LAC_MUST_USE lac_status lac_nearest_tools_create(lac_context *context, int64_t capacity, lac_settle_fn settle,
                                                 void *argument, lac_nearest_tools *tools);
void lac_nearest_tools_free(lac_nearest_tools *tools);

/* Takes a candidate if it may be among the k nearest. */
static inline void lac_nearest_push(lac_nearest *nearest, double key, float error, int64_t id) {
  if (error > 0 ? key - (double)error <= nearest->limit : key < nearest->limit) {
    nearest->list[nearest->count++] = (lac_candidate){key, error, (int32_t)id};
  }
}

/* Makes room for `burst` candidates. Errors: those of settling. */
LAC_MUST_USE lac_status lac_nearest_thin(lac_context *context, lac_nearest *nearest, int64_t burst,
                                         const lac_nearest_tools *tools);

/* When all candidates have been pushed: puts those that may be among the k nearest, k or more, in order of their lower
 * ends, with error 0 where that is their place and error > 0 where their keys have to be settled first. Returns how
 * many those are; the caller may put exact keys in and leave the errors as they are. */
int64_t lac_nearest_close(lac_nearest *nearest, const lac_nearest_tools *tools);

/* The ids of the k nearest, nearest first, of a closed list whose open keys have been settled. */
void lac_nearest_write(lac_nearest *nearest, int32_t *ids);

#endif
