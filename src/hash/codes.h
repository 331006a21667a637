/* Codes of blocks of rows under a linear encoder in training units: what a trainer's codes, validation and the Z step
 * share. Bound: the product, see math/product.h. */
#ifndef LACONIC_HASH_CODES_H
#define LACONIC_HASH_CODES_H

#include "hash/sign.h"
#include "laconic/context.h"
#include "math/product.h"

typedef struct lac_encoding {
  int64_t bits, bytes; /* of a code */
  lac_factor *factor;
  float *bias; /* (8 bytes), padding -1 */
  lac_sign_kernel sign;
} lac_encoding;

/* weight (bits, padded), bias (bits). Errors: MEMORY, which leaves nothing to clear. */
LAC_MUST_USE lac_status lac_encoding_create(lac_context *context, const float *weight, const float *bias, int64_t bits,
                                            int64_t padded, lac_encoding *encoding);
void lac_encoding_clear(lac_encoding *encoding);

/* bias (8 * bytes of a code) = those of the bits, -1 in the padding, which leaves it 0. */
void lac_pad_bias(const float *bias, int64_t bits, float *padded);

/* codes (n, bytes) of x (n, padded); scratch (n, width of the factor). */
void lac_encoding_run(const lac_encoding *encoding, const float *x, int64_t n, float *scratch, uint8_t *codes);

/* The words of a code of `bytes` bytes, bit l in word l / 64. */
static inline void lac_words_of(const uint8_t *code, int64_t bytes, uint64_t *words) {
  for (int64_t i = 0; i < bytes; i++) {
    words[i / 8] = (i % 8 ? words[i / 8] : 0) | (uint64_t)code[i] << (i % 8 * 8);
  }
}

#endif
