#include "base/random.h"

#include <Random123/philox.h>
#include <math.h>

lac_random lac_random_stream(int64_t seed, lac_purpose purpose, uint64_t a, uint64_t b) {
  return (lac_random){.key = {(uint64_t)seed, (uint64_t)purpose}, .counter = {0, a, b}, .used = 4};
}

static inline void next_block(lac_random *stream, uint64_t bits[4]) {
  philox4x64_ctr_t counter = {{stream->counter[0], stream->counter[1], stream->counter[2], 0}};
  philox4x64_key_t key = {{stream->key[0], stream->key[1]}};
  philox4x64_ctr_t block = philox4x64(counter, key);
  for (int i = 0; i < 4; i++) {
    bits[i] = block.v[i];
  }
  stream->counter[0]++;
}

uint64_t lac_random_bits(lac_random *stream) {
  if (stream->used == 4) {
    next_block(stream, stream->block);
    stream->used = 0;
  }
  return stream->block[stream->used++];
}

void lac_random_blocks(lac_random *stream, int64_t blocks, uint64_t *bits) {
  stream->used = 4;
  for (int64_t i = 0; i < blocks; i++) {
    next_block(stream, bits + 4 * i);
  }
}

double lac_random_uniform(lac_random *stream) {
  return (double)(lac_random_bits(stream) >> 11) * 0x1p-53;
}

double lac_random_normal(lac_random *stream) {
  double radius = sqrt(-2 * log(1 - lac_random_uniform(stream)));
  return radius * cos(6.283185307179586476925 * lac_random_uniform(stream));
}

int64_t lac_random_below(lac_random *stream, int64_t limit) {
  uint64_t n = (uint64_t)limit;
  uint64_t excess = (0 - n) % n; /* 2^64 mod n: values below it would come once too often */
  uint64_t bits;
  do {
    bits = lac_random_bits(stream);
  } while (bits < excess);
  return (int64_t)(bits % n);
}

void lac_random_permutation(lac_random *stream, int64_t count, int64_t *order) {
  for (int64_t i = 0; i < count; i++) {
    int64_t j = lac_random_below(stream, i + 1);
    order[i] = order[j];
    order[j] = i;
  }
}
