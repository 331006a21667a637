#include <math.h>

#include "base/random.h"
#include "nn/backend.h"

enum { BLOCKS = 16, UNITS = 16 * BLOCKS }; /* a block of Philox has 256 bits, 16 a unit */

void lac_dropout_mask(lac_net_key key, int node, double rate, int64_t count, float *mask) {
  lac_random stream =
      lac_random_stream(key.seed, LAC_RANDOM_DROPOUT, (uint64_t)key.replica << 32 | (uint32_t)node, (uint64_t)key.step);
  uint32_t limit = (uint32_t)ceil(rate * 65536);
  float kept = (float)(1 / (1 - rate));
  for (int64_t first = 0; first < count; first += UNITS) {
    int64_t left = count - first < UNITS ? count - first : UNITS;
    uint64_t bits[UNITS / 4];
    lac_random_blocks(&stream, (left + 15) / 16, bits);
    for (int64_t i = 0; i < left; i++) {
      uint32_t unit = (uint32_t)(bits[i / 4] >> 16 * (i % 4)) & 0xFFFF;
      mask[first + i] = unit < limit ? 0 : kept;
    }
  }
}
