#include "math/blas.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Before every call: whatever the caller's program did with OpenBLAS in between, a product is computed by one thread.
 */
static void one_thread(void) {
  if (openblas_get_num_threads() != 1) {
    openblas_set_num_threads(1);
  }
}

void lac_blas_one_thread(void) {
  one_thread();
}

static CBLAS_TRANSPOSE flag(bool transpose) {
  return transpose ? CblasTrans : CblasNoTrans;
}

void lac_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
               int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  one_thread();
  cblas_sgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), (blasint)m, (blasint)n, (blasint)k, alpha, a,
              (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

void lac_dgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
               int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
  one_thread();
  cblas_dgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), (blasint)m, (blasint)n, (blasint)k, alpha, a,
              (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}

void lac_dsymv(int64_t n, const double *a, const double *x, double *y) {
  one_thread();
  cblas_dsymv(CblasRowMajor, CblasUpper, (blasint)n, 1, a, (blasint)n, x, 1, 0, y, 1);
}

void lac_ssyrk(int64_t n, int64_t k, const float *a, int64_t lda, float *c) {
  one_thread();
  cblas_ssyrk(CblasRowMajor, CblasUpper, CblasTrans, (blasint)n, (blasint)k, 1, a, (blasint)lda, 0, c, (blasint)n);
}

void lac_fix_sign(int64_t n, double *vector) {
  int64_t largest = 0;
  for (int64_t i = 1; i < n; i++) {
    if (fabs(vector[i]) > fabs(vector[largest])) {
      largest = i;
    }
  }
  if (vector[largest] < 0) {
    for (int64_t i = 0; i < n; i++) {
      vector[i] = -vector[i];
    }
  }
}

/* Values rise and vectors come one after another, column-major: a symmetric matrix is the same in either order. */
typedef struct eigen {
  double *values, *vectors; /* (n), (at least count, n) */
  int64_t first;            /* of those that were asked for, in both */
} eigen;

/* Divide and conquer, all of them. */
static lapack_int all_eigen(int64_t n, int64_t count, double *a, eigen *found) {
  *found = (eigen){found->values, a, n - count};
  return LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', (lapack_int)n, a, (lapack_int)n, found->values);
}

lac_status lac_symmetric_eigen(lac_context *context, int64_t n, double *a, int64_t count, double *values,
                               double *vectors) {
  one_thread();
  double *all = NULL, *rows = NULL, *copy = NULL;
  lapack_int *support = NULL, number = 0;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &all), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, count * n, &rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n * n, &copy), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, 2 * count + 2, &support), done);
  memcpy(copy, a, (size_t)(n * n) * sizeof *copy);
  eigen found = {all, rows, 0};
  lapack_int info =
      LAPACKE_dsyevr(LAPACK_COL_MAJOR, 'V', 'I', 'U', (lapack_int)n, a, (lapack_int)n, 0, 0,
                     (lapack_int)(n - count + 1), (lapack_int)n, 0, &number, all, rows, (lapack_int)n, support);
  if (info != 0 || number != count) { /* of values that are many times the same it may miss some and say nothing */
    info = all_eigen(n, count, copy, &found);
  }
  if (info != 0) {
    status = lac_fail(context, LAC_E_NUMERICAL, "the eigenvalues of a %lld x %lld matrix were not found (LAPACK %d)",
                      (long long)n, (long long)n, (int)info);
    goto done;
  }
  for (int64_t i = 0; i < count; i++) {
    int64_t from = found.first + count - 1 - i;
    values[i] = found.values[from];
    memcpy(vectors + i * n, found.vectors + from * n, (size_t)n * sizeof *vectors);
    lac_fix_sign(n, vectors + i * n);
  }
done:
  lac_free(support);
  lac_free(copy);
  lac_free(rows);
  lac_free(all);
  return status;
}

lac_status lac_tridiagonal_eigen(lac_context *context, int64_t n, const double *diagonal, const double *beside,
                                 int64_t below, double *value, double *vector) {
  one_thread();
  double *copy; /* diagonal, beside, room for n values: LAPACK overwrites */
  LAC_TRY(LAC_NEW(context, 3 * n, &copy));
  memcpy(copy, diagonal, (size_t)n * sizeof *copy);
  memcpy(copy + n, beside, (size_t)(n - 1) * sizeof *copy);
  lapack_int found = 0, support[2], at = (lapack_int)below + 1;
  lapack_int info = LAPACKE_dstevr(LAPACK_COL_MAJOR, 'V', 'I', (lapack_int)n, copy, copy + n, 0, 0, at, at, 0, &found,
                                   copy + 2 * n, vector, (lapack_int)n, support);
  *value = copy[2 * n];
  lac_free(copy);
  return info == 0 && found == 1
             ? LAC_OK
             : lac_fail(context, LAC_E_NUMERICAL, "an eigenvalue of a tridiagonal matrix was not found (LAPACK %d)",
                        (int)info);
}

lac_status lac_general_moduli(lac_context *context, int64_t n, double *a, double *moduli) {
  one_thread();
  double *imaginary;
  LAC_TRY(LAC_NEW(context, n, &imaginary));
  /* A matrix and its transpose have the same eigenvalues, so that the order is of no account. */
  lapack_int info =
      LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', 'N', (lapack_int)n, a, (lapack_int)n, moduli, imaginary, NULL, 1, NULL, 1);
  for (int64_t i = 0; i < n && info == 0; i++) {
    moduli[i] = hypot(moduli[i], imaginary[i]);
  }
  lac_free(imaginary);
  return info == 0
             ? LAC_OK
             : lac_fail(context, LAC_E_NUMERICAL, "the eigenvalues of a %lld x %lld matrix were not found (LAPACK %d)",
                        (long long)n, (long long)n, (int)info);
}

lac_status lac_svd(lac_context *context, int64_t n, double *a, double *s, double *u, double *vt) {
  one_thread();
  lapack_int info = LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'A', (lapack_int)n, (lapack_int)n, a, (lapack_int)n, s, u,
                                   (lapack_int)n, vt, (lapack_int)n);
  return info == 0 ? LAC_OK
                   : lac_fail(context, LAC_E_NUMERICAL,
                              "the singular values of a %lld x %lld matrix were not found (LAPACK %d)", (long long)n,
                              (long long)n, (int)info);
}

lac_status lac_qr(lac_context *context, int64_t m, int64_t n, double *a, double *r) {
  one_thread();
  double *tau;
  LAC_TRY(LAC_NEW(context, n, &tau));
  lapack_int info = LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, (lapack_int)m, (lapack_int)n, a, (lapack_int)n, tau);
  if (info == 0) {
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < n; j++) {
        r[i * n + j] = j < i ? 0 : a[i * n + j];
      }
    }
    info = LAPACKE_dorgqr(LAPACK_ROW_MAJOR, (lapack_int)m, (lapack_int)n, (lapack_int)n, a, (lapack_int)n, tau);
  }
  lac_free(tau);
  return info == 0 ? LAC_OK
                   : lac_fail(context, LAC_E_NUMERICAL, "QR of a %lld x %lld matrix failed (LAPACK %d)", (long long)m,
                              (long long)n, (int)info);
}

lac_status lac_solve_definite(lac_context *context, int64_t n, double *a, int64_t columns, double *b) {
  one_thread();
  lapack_int info = LAPACKE_dposv(LAPACK_ROW_MAJOR, 'U', (lapack_int)n, (lapack_int)columns, a, (lapack_int)n, b,
                                  (lapack_int)columns);
  return info == 0 ? LAC_OK
                   : lac_fail(context, LAC_E_NUMERICAL, "a %lld x %lld system is not positive definite (LAPACK %d)",
                              (long long)n, (long long)n, (int)info);
}

lac_status lac_invert_definite(lac_context *context, int64_t n, double *a) {
  one_thread();
  lapack_int info = LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'U', (lapack_int)n, a, (lapack_int)n);
  if (info == 0) {
    info = LAPACKE_dpotri(LAPACK_ROW_MAJOR, 'U', (lapack_int)n, a, (lapack_int)n);
  }
  if (info != 0) {
    return lac_fail(context, LAC_E_NUMERICAL, "a %lld x %lld matrix is not positive definite (LAPACK %d)", (long long)n,
                    (long long)n, (int)info);
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < i; j++) {
      a[i * n + j] = a[j * n + i];
    }
  }
  return LAC_OK;
}
