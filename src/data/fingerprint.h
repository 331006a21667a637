/* The hash that fingerprints are made of. Its values are in files: it never changes. */
#ifndef LACONIC_DATA_FINGERPRINT_H
#define LACONIC_DATA_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t lac_rotate(uint64_t bits, int by) {
  return bits << by | bits >> (64 - by);
}

/* One word into a running hash: both products are by odd constants, so that it is a bijection of either argument. */
static inline uint64_t lac_fingerprint_absorb(uint64_t hash, uint64_t word) {
  hash ^= lac_rotate(word * 0x9e3779b97f4a7c15u, 29);
  return lac_rotate(hash, 31) * 0xd6e8feb86659fd93u;
}

static inline uint64_t lac_fingerprint_finish(uint64_t hash) {
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93u;
  hash ^= hash >> 29;
  hash *= 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

/* Hash of one row: four lanes, so that the products overlap, then the tail filled up with zeros. */
static inline uint64_t lac_fingerprint_row(const uint8_t *row, size_t bytes) {
  uint64_t lane[4] = {1, 2, 3, 4}, word[4];
  size_t at = 0;
  for (; at + sizeof word <= bytes; at += sizeof word) {
    memcpy(word, row + at, sizeof word);
    for (int i = 0; i < 4; i++) {
      lane[i] = lac_fingerprint_absorb(lane[i], word[i]);
    }
  }
  memset(word, 0, sizeof word);
  memcpy(word, row + at, bytes - at);
  uint64_t hash = bytes;
  for (int i = 0; i < 4; i++) {
    hash = lac_fingerprint_absorb(hash, lac_fingerprint_finish(lac_fingerprint_absorb(lane[i], word[i])));
  }
  return hash;
}

#endif
