/* Counter-based random numbers (Philox4x64-10 of Random123), keyed by what they are for: the n-th number of a stream
 * depends on (seed, purpose, a, b, n) alone, never on timing, thread count or what was drawn before. Source: Salmon,
 * Moraes, Dror and Shaw 2011. */
#ifndef LACONIC_BASE_RANDOM_H
#define LACONIC_BASE_RANDOM_H

#include <stdint.h>

/* Every use has its own purpose, so that no two streams meet. Add at the end only: the numbers are part of what a seed
 * means. */
typedef enum lac_purpose {
  LAC_RANDOM_RING = 1,   /* a: iteration, b: epoch */
  LAC_RANDOM_DATA_ORDER, /* a: iteration, b: shard */
  LAC_RANDOM_INIT,       /* a: what */
  LAC_RANDOM_SAMPLE,     /* a: what, b: shard */
  LAC_RANDOM_DELAY,      /* a: rank, b: message */
  LAC_RANDOM_TEST,       /* tests and generators */
  LAC_RANDOM_WEIGHTS,    /* a: layer */
  LAC_RANDOM_DROPOUT,    /* a: replica and layer, b: step */
  LAC_RANDOM_BATCH,      /* a: replica, b: pass */
  LAC_RANDOM_AUGMENT,    /* a: replica, b: step */
  LAC_RANDOM_HELD_OUT,   /* pictures that are not trained on */
  LAC_RANDOM_TOPOLOGY,   /* random graphs */
  LAC_RANDOM_PROCESS,    /* a: path */
  LAC_RANDOM_PEER,       /* who is asked, a: worker, b: update */
  LAC_RANDOM_SIMULATION, /* jitter of a simulated cluster, a: worker or link */
  LAC_RANDOM_CALIBRATE,  /* points and pictures to measure with, a: what, b: columns */
  LAC_RANDOM_SUBSAMPLE,  /* blocks of early iterations, a: shard, b: group of blocks */
} lac_purpose;

typedef struct lac_random {
  uint64_t key[2], counter[3];
  uint64_t block[4];
  int used;
} lac_random;

lac_random lac_random_stream(int64_t seed, lac_purpose purpose, uint64_t a, uint64_t b);
uint64_t lac_random_bits(lac_random *stream);
/* The next 4 x `blocks` numbers of the stream at once; what is left of a block that was begun is passed over. */
void lac_random_blocks(lac_random *stream, int64_t blocks, uint64_t *bits);
double lac_random_uniform(lac_random *stream);                                  /* in [0, 1), 53 bits */
double lac_random_normal(lac_random *stream);                                   /* mean 0, variance 1 (Box-Muller) */
int64_t lac_random_below(lac_random *stream, int64_t limit);                    /* in 0..limit-1, without bias */
void lac_random_permutation(lac_random *stream, int64_t count, int64_t *order); /* of 0..count-1 */

#endif
