#include "math/popcount.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* VPOPCNTDQ counts eight words an instruction: the layout is that of plain C, word w of 256 codes side by side. */

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vpopcntdq")))

enum { LANES = 8 };

TARGET static inline __m512i distances_of(const uint8_t *tile, const uint8_t *query, int64_t bits, int64_t first) {
  const uint64_t *words = (const uint64_t *)tile, *q = (const uint64_t *)query;
  __m512i sum = _mm512_setzero_si512();
  for (int64_t w = 0; w * 64 < bits; w++) {
    __m512i codes = _mm512_load_si512(words + w * LAC_TILE + first);
    __m512i differing = _mm512_xor_si512(codes, _mm512_set1_epi64((long long)q[w]));
    sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(differing));
  }
  return sum;
}

TARGET static void narrow(const uint8_t *tile, const uint8_t *query, int64_t bits, uint8_t *out) {
  for (int64_t i = 0; i < LAC_TILE; i += LANES) {
    _mm_storel_epi64((__m128i *)(out + i), _mm512_cvtepi64_epi8(distances_of(tile, query, bits, i)));
  }
}

TARGET static void wide(const uint8_t *tile, const uint8_t *query, int64_t bits, uint16_t *out) {
  for (int64_t i = 0; i < LAC_TILE; i += LANES) {
    _mm_store_si128((__m128i *)(out + i), _mm512_cvtepi64_epi16(distances_of(tile, query, bits, i)));
  }
}

/* The set includes AVX2, whose comparisons and lists serve here. */
static int narrow_below(const uint8_t *distances, int limit, uint8_t *positions) {
  return lac_hamming_avx2.narrow_below(distances, limit, positions);
}

static int wide_below(const uint16_t *distances, int limit, uint8_t *positions) {
  return lac_hamming_avx2.wide_below(distances, limit, positions);
}

static void listed(const uint8_t *codes, const uint8_t *query, int64_t bits, const int32_t *ids, int64_t count,
                   uint16_t *out) {
  lac_hamming_avx2.listed(codes, query, bits, ids, count, out);
}

const lac_hamming_kernels lac_hamming_avx512 = {lac_hamming_lay_words, narrow, wide, narrow_below, wide_below, listed};
#endif
