/* The hot kernels of training: many rows against a few weight vectors.
 *
 * Every (row, vector) product is summed in one order that depends on the length alone, never on how many rows or
 * vectors stand beside it. A plain matrix product does not promise that: its bits change with its width, and with them
 * a submodel's result would depend on which other submodels happened to be at the same worker.
 *
 * Bounds: a block of rows is read once per visit for all vectors, so that with c vectors the arithmetic is 4 c flop per
 * element (product and update) against one load from the second-level cache; from c = 3 on the multiply-add units are
 * the limit. */
#ifndef LACONIC_MATH_LINEAR_H
#define LACONIC_MATH_LINEAR_H

#include <stddef.h>
#include <stdint.h>

#include "math/cpu.h"

/* Rows and vectors are padded with zeros to a multiple of this many floats and aligned to 32 bytes. */
enum { LAC_LANES = 8 };

static inline int64_t lac_padded(int64_t length) {
  return (length + LAC_LANES - 1) / LAC_LANES * LAC_LANES;
}

/* Rows of bytes, which stand for scale byte + shift. */
typedef struct lac_byte_rows {
  const uint8_t *bytes;
  size_t stride; /* bytes from a row to the next */
  int64_t columns;
  float scale;
  const float *shift; /* (columns) */
} lac_byte_rows;

typedef struct lac_linear_kernels {
  /* out (n, count) = x (n, length) w^T; w (count, length); rows of out are ldo apart. length is padded. */
  void (*products)(int64_t n, int64_t count, int64_t length, const float *x, const float *w, float *out, int64_t ldo);

  /* The same where x is made on the way from n rows of bytes, padded with zeros: what expand and products give, bit for
   * bit. With vectors of AVX-512, and with AVX2 from four on and whole registers of columns, the conversion of the
   * bytes and the stores go on beside the multiply-adds. count is positive. */
  void (*expand_products)(int64_t n, int64_t count, int64_t length, const lac_byte_rows *rows, float *x, const float *w,
                          float *out, int64_t ldo);

  /* w (count, length) += c^T x with c (n, count), rows of c are ldc apart: rows are added in order. */
  void (*accumulate)(int64_t n, int64_t count, int64_t length, const float *x, const float *c, int64_t ldc, float *w);

  /* out[i] = scale in[i] + shift[i]: bytes to centred, scaled floats. */
  void (*expand)(int64_t length, const uint8_t *in, float scale, const float *shift, float *out);

  /* sums += sign x in double precision, sign 1 or -1: every variant gives the same bits. */
  void (*add)(int64_t length, double sign, const float *x, double *sums);
} lac_linear_kernels;

/* The variant for an instruction set, which the processor must have. */
const lac_linear_kernels *lac_linear(lac_isa isa);

#if defined(__x86_64__)
extern const lac_linear_kernels lac_linear_avx512; /* in linear_avx512.c */
#endif

#endif
