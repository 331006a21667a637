#include "data/convert.h"

#include <string.h>

/* Loads of n-byte integers from any address. */
static inline uint16_t load16(const uint8_t *at) {
  uint16_t bits;
  memcpy(&bits, at, sizeof bits);
  return bits;
}
static inline uint32_t load32(const uint8_t *at) {
  uint32_t bits;
  memcpy(&bits, at, sizeof bits);
  return bits;
}
static inline uint64_t load64(const uint8_t *at) {
  uint64_t bits;
  memcpy(&bits, at, sizeof bits);
  return bits;
}

static inline float single_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* IEEE half to single, exactly: the exponent's bias is corrected by a product, which also makes subnormals right;
 * infinities and NaN keep an exponent of ones. */
static inline float half_of(uint16_t bits) {
  uint32_t magnitude = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
  float value = single_of(magnitude) * 0x1p112f;
  memcpy(&magnitude, &value, sizeof magnitude);
  return single_of(magnitude | special | sign);
}

#define CONVERT_LOOP(OUT, value)    \
  for (int64_t i = 0; i < n; i++) { \
    ((OUT *)out)[i] = (OUT)(value); \
  }

/* Native and swapped loops apart, so that each is vectorised. */
#define CONVERT_BOTH(OUT, size, to_value, swap)                          \
  if (swapped) {                                                         \
    CONVERT_LOOP(OUT, to_value(swap(load##size(in + i * ((size) / 8))))) \
  } else {                                                               \
    CONVERT_LOOP(OUT, to_value(load##size(in + i * ((size) / 8))))       \
  }

#define CONVERT_TYPES(OUT)                                \
  switch (type) {                                         \
    case LAC_U8:                                          \
      CONVERT_LOOP(OUT, in[i])                            \
      break;                                              \
    case LAC_I8:                                          \
      CONVERT_LOOP(OUT, (int8_t)in[i])                    \
      break;                                              \
    case LAC_I16:                                         \
      CONVERT_BOTH(OUT, 16, (int16_t), __builtin_bswap16) \
      break;                                              \
    case LAC_I32:                                         \
      CONVERT_BOTH(OUT, 32, (int32_t), __builtin_bswap32) \
      break;                                              \
    case LAC_I64:                                         \
      CONVERT_BOTH(OUT, 64, (int64_t), __builtin_bswap64) \
      break;                                              \
    case LAC_F16:                                         \
      CONVERT_BOTH(OUT, 16, half_of, __builtin_bswap16)   \
      break;                                              \
    case LAC_F32:                                         \
      CONVERT_BOTH(OUT, 32, single_of, __builtin_bswap32) \
      break;                                              \
    case LAC_F64:                                         \
      CONVERT_BOTH(OUT, 64, double_of, __builtin_bswap64) \
      break;                                              \
  }

void lac_convert_f32(lac_type type, bool swapped, const uint8_t *in, int64_t n, void *out) {
  if (type == LAC_F32 && !swapped) {
    memcpy(out, in, (size_t)n * sizeof(float));
    return;
  }
  CONVERT_TYPES(float)
}

void lac_convert_f64(lac_type type, bool swapped, const uint8_t *in, int64_t n, void *out) {
  CONVERT_TYPES(double)
}

void lac_convert_native(lac_type type, bool swapped, const uint8_t *in, int64_t n, void *out) {
  size_t size = lac_type_size(type);
  if (!swapped || size == 1) {
    memcpy(out, in, (size_t)n * size);
  } else if (size == 2) {
    CONVERT_LOOP(uint16_t, __builtin_bswap16(load16(in + 2 * i)))
  } else if (size == 4) {
    CONVERT_LOOP(uint32_t, __builtin_bswap32(load32(in + 4 * i)))
  } else {
    CONVERT_LOOP(uint64_t, __builtin_bswap64(load64(in + 8 * i)))
  }
}
