#include "math/popcount.h"

#include <string.h>

enum { WORD_BITS = 64, WORD_BYTES = 8 };

static int64_t words_of(int64_t bits) {
  return (bits + WORD_BITS - 1) / WORD_BITS;
}

int64_t lac_hamming_pad_bytes(int64_t bits) {
  return words_of(bits) * WORD_BYTES;
}

/* The largest layout keeps every half byte in a byte of its own. */
size_t lac_hamming_tile_bytes(int64_t bits) {
  return (size_t)(words_of(bits) * WORD_BYTES * 2 * LAC_TILE);
}

void lac_hamming_pad(const uint8_t *code, int64_t bits, uint8_t *padded) {
  for (int64_t w = 0; w < words_of(bits); w++) {
    uint64_t word = lac_hamming_word(code, bits, w);
    memcpy(padded + w * WORD_BYTES, &word, WORD_BYTES);
  }
}

void lac_hamming_lay_words(const uint8_t *codes, int64_t rows, int64_t bits, uint8_t *tile) {
  int64_t bytes = (bits + 7) / 8;
  uint64_t *words = (uint64_t *)tile;
  for (int64_t w = 0; w < words_of(bits); w++) {
    for (int64_t i = 0; i < LAC_TILE; i++) {
      words[w * LAC_TILE + i] = i < rows ? lac_hamming_word(codes + i * bytes, bits, w) : 0;
    }
  }
}

static void plain_wide(const uint8_t *tile, const uint8_t *query, int64_t bits, uint16_t *out) {
  const uint64_t *words = (const uint64_t *)tile;
  memset(out, 0, LAC_TILE * sizeof *out);
  for (int64_t w = 0; w < words_of(bits); w++) {
    uint64_t q;
    memcpy(&q, query + w * WORD_BYTES, WORD_BYTES);
    for (int64_t i = 0; i < LAC_TILE; i++) {
      out[i] = (uint16_t)(out[i] + __builtin_popcountll(words[w * LAC_TILE + i] ^ q));
    }
  }
}

static void plain_narrow(const uint8_t *tile, const uint8_t *query, int64_t bits, uint8_t *out) {
  uint16_t distances[LAC_TILE];
  plain_wide(tile, query, bits, distances);
  for (int64_t i = 0; i < LAC_TILE; i++) {
    out[i] = (uint8_t)distances[i];
  }
}

static int plain_narrow_below(const uint8_t *distances, int limit, uint8_t *positions) {
  int count = 0;
  for (int i = 0; i < LAC_TILE; i++) {
    if (distances[i] < limit) {
      positions[count++] = (uint8_t)i;
    }
  }
  return count;
}

static int plain_wide_below(const uint16_t *distances, int limit, uint8_t *positions) {
  int count = 0;
  for (int i = 0; i < LAC_TILE; i++) {
    if (distances[i] < limit) {
      positions[count++] = (uint8_t)i;
    }
  }
  return count;
}

static void plain_listed(const uint8_t *codes, const uint8_t *query, int64_t bits, const int32_t *ids, int64_t count,
                         uint16_t *out) {
  int64_t bytes = (bits + 7) / 8;
  for (int64_t i = 0; i < count; i++) {
    int distance = 0;
    for (int64_t w = 0; w < words_of(bits); w++) {
      uint64_t q;
      memcpy(&q, query + w * WORD_BYTES, WORD_BYTES);
      distance += __builtin_popcountll(lac_hamming_word(codes + ids[i] * bytes, bits, w) ^ q);
    }
    out[i] = (uint16_t)distance;
  }
}

static const lac_hamming_kernels plain = {
    lac_hamming_lay_words, plain_narrow, plain_wide, plain_narrow_below, plain_wide_below, plain_listed,
};

const lac_hamming_kernels *lac_hamming_kernels_of(lac_isa isa) {
  switch (isa) {
    case LAC_ISA_PLAIN:
      return &plain;
#if defined(__x86_64__)
    case LAC_ISA_AVX2:
      return &lac_hamming_avx2;
    case LAC_ISA_AVX512:
      return &lac_hamming_avx512;
#endif
    default:
      return NULL;
  }
}
