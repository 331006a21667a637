/* Products of rows with a fixed matrix, y = x W^T, in which an element's bits depend on its row of x and its row of W
 * alone. (A BLAS product's bits change with its shape and with the place of a row in it.) An element is one chain of
 * fused multiply-adds over the columns in order, so that AVX2 and AVX-512 give the same bits; plain C rounds the
 * products first. */
#ifndef LACONIC_MATH_PRODUCT_H
#define LACONIC_MATH_PRODUCT_H

#include "laconic/context.h"
#include "math/cpu.h"

typedef struct lac_factor lac_factor;

/* Takes a copy of w (rows, columns) in the order in which the kernel for `isa`, which the processor must have, reads
 * it. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_factor_create(lac_context *context, lac_isa isa, const float *w, int64_t rows,
                                          int64_t columns, lac_factor **factor);
void lac_factor_destroy(lac_factor **factor);

/* Floats of a row of y: the factor's rows rounded up to a multiple of 16. What is beyond the rows is zero, or not a
 * number where x is not finite. */
int64_t lac_factor_width(const lac_factor *factor);

/* y (n, width) = x (n, columns) W^T. Quick while x and y stay in cache: give it some hundred rows at a time. */
void lac_factor_product(const lac_factor *factor, const float *x, int64_t n, float *y);

#endif
