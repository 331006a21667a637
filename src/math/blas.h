/* The only calls of BLAS and LAPACK. Matrices are row-major; shapes stand beside each argument.
 *
 * Every call sets OpenBLAS to one thread for the whole process: workers are the unit of parallelism here, and a product
 * split over BLAS threads would change its bits with their number. */
#ifndef LACONIC_MATH_BLAS_H
#define LACONIC_MATH_BLAS_H

#include <stdint.h>

#include "laconic/context.h"

/* For libraries that call BLAS by themselves: sets OpenBLAS to one thread as every call here does. */
void lac_blas_one_thread(void);

/* C (m, n) = alpha op(A) op(B) + beta C; op transposes when the flag is set; ld* are row strides in elements. */
void lac_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
               int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void lac_dgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
               int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc);

/* y (n) = A x for the symmetric A whose upper triangle is that of a (n, n). */
void lac_dsymv(int64_t n, const double *a, const double *x, double *y);

/* Upper triangle of c (n, n) = a' a for a (k, n) with rows lda apart. */
void lac_ssyrk(int64_t n, int64_t k, const float *a, int64_t lda, float *c);

/* Eigenvalues in falling order and eigenvectors of the `count` largest of a symmetric matrix a (n, n), destroyed.
 * vectors (count, n), a vector a row, its largest entry by magnitude made positive. Errors: NUMERICAL, MEMORY. */
LAC_MUST_USE lac_status lac_symmetric_eigen(lac_context *context, int64_t n, double *a, int64_t count, double *values,
                                            double *vectors);

/* Turns a vector so that its largest entry by magnitude is positive, the first of those where several are. */
void lac_fix_sign(int64_t n, double *vector);

/* Of the symmetric tridiagonal matrix diagonal (n), beside (n - 1) the eigenvalue with `below` smaller ones, and its
 * unit vector (n). Errors: NUMERICAL, MEMORY. */
LAC_MUST_USE lac_status lac_tridiagonal_eigen(lac_context *context, int64_t n, const double *diagonal,
                                              const double *beside, int64_t below, double *value, double *vector);

/* Moduli of the eigenvalues of a general matrix a (n, n), destroyed, in no order. Errors: NUMERICAL, MEMORY. */
LAC_MUST_USE lac_status lac_general_moduli(lac_context *context, int64_t n, double *a, double *moduli);

/* Full singular value decomposition a (n, n) = u diag(s) vt; a is destroyed. Errors: NUMERICAL. */
LAC_MUST_USE lac_status lac_svd(lac_context *context, int64_t n, double *a, double *s, double *u, double *vt);

/* Thin QR of a (m, n), m >= n: a becomes Q (m, n), r (n, n) upper triangular. Errors: NUMERICAL, MEMORY. */
LAC_MUST_USE lac_status lac_qr(lac_context *context, int64_t m, int64_t n, double *a, double *r);

/* Solves a x = b for symmetric positive definite a (n, n), destroyed, and b (n, columns), overwritten by x. Errors:
 * NUMERICAL. */
LAC_MUST_USE lac_status lac_solve_definite(lac_context *context, int64_t n, double *a, int64_t columns, double *b);

/* The inverse of a symmetric positive definite a (n, n), in place, both triangles. Errors: NUMERICAL. */
LAC_MUST_USE lac_status lac_invert_definite(lac_context *context, int64_t n, double *a);

#endif
