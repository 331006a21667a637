/* Hamming distances of one packed code with a tile of 256 others.
 *
 * A scan lays a tile of codes out once, in the order that its kernels like best, and then meets it with many queries.
 * What is laid out, and what a query may look like, is between the functions of one table; distances are the same in
 * all of them. Codes are packed as in laconic/hash.h; padding bits are ignored. */
#ifndef LACONIC_MATH_POPCOUNT_H
#define LACONIC_MATH_POPCOUNT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "math/cpu.h"

enum {
  LAC_TILE = 256,            /* codes in a tile: a position in it is a byte */
  LAC_NARROW_BITS = 255,     /* up to here distances are bytes */
  LAC_HAMMING_BITS = 1 << 14 /* most bits of a code: distances and limits stay positive 16-bit numbers */
};

typedef struct lac_hamming_kernels {
  /* Lays out codes (rows, ceil(bits / 8)), rows <= LAC_TILE, the rest of the tile as zeros. tile holds
   * lac_hamming_tile_bytes(bits), aligned to 64. */
  void (*lay)(const uint8_t *codes, int64_t rows, int64_t bits, uint8_t *tile);
  /* out[i] = distance of the query with the tile's code i. The query comes from lac_hamming_pad, aligned to 8; narrow
   * is for up to LAC_NARROW_BITS bits. out is aligned to 64. */
  void (*narrow)(const uint8_t *tile, const uint8_t *query, int64_t bits, uint8_t out[LAC_TILE]);
  void (*wide)(const uint8_t *tile, const uint8_t *query, int64_t bits, uint16_t out[LAC_TILE]);
  /* Positions of the distances below limit >= 1, in rising order; returns how many. */
  int (*narrow_below)(const uint8_t distances[LAC_TILE], int limit, uint8_t positions[LAC_TILE]);
  int (*wide_below)(const uint16_t distances[LAC_TILE], int limit, uint8_t positions[LAC_TILE]);
  /* out[i] = distance of the padded query with code ids[i] of codes (any, ceil(bits / 8)), not laid out. */
  void (*listed)(const uint8_t *codes, const uint8_t *query, int64_t bits, const int32_t *ids, int64_t count,
                 uint16_t *out);
} lac_hamming_kernels;

/* The table of a set; NULL when this build has none for it. Whether the processor can run it is for lac_cpu_isa. */
const lac_hamming_kernels *lac_hamming_kernels_of(lac_isa isa);
extern const lac_hamming_kernels lac_hamming_avx2, lac_hamming_avx512;

/* Bytes of a laid out tile and of a padded code: whole 64-bit words. */
size_t lac_hamming_tile_bytes(int64_t bits);
int64_t lac_hamming_pad_bytes(int64_t bits);

/* Copies a code into whole words; what is beyond its bits becomes zero. */
void lac_hamming_pad(const uint8_t *code, int64_t bits, uint8_t *padded);

/* Shared by the variants. Words [w][LAC_TILE]: word w of code i at words[w * LAC_TILE + i]. */
void lac_hamming_lay_words(const uint8_t *codes, int64_t rows, int64_t bits, uint8_t *tile);

/* Word w of a code, with zeros beyond its bits. */
static inline uint64_t lac_hamming_word(const uint8_t *code, int64_t bits, int64_t w) {
  enum { WORD_BITS = 64, WORD_BYTES = 8 };
  int64_t left = bits - w * WORD_BITS;
  uint64_t word = 0;
  if (left >= WORD_BITS) {
    memcpy(&word, code + w * WORD_BYTES, WORD_BYTES);
    return word;
  }
  uint8_t bytes[WORD_BYTES] = {0};
  int64_t count = (left + 7) / 8;
  memcpy(bytes, code + w * WORD_BYTES, (size_t)count);
  if (left % 8) {
    bytes[count - 1] &= (uint8_t)((1 << left % 8) - 1);
  }
  memcpy(&word, bytes, WORD_BYTES);
  return word;
}

#endif
