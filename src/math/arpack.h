/* Few eigenvalues of large matrices, which are known by their products alone: the only calls of ARPACK.
 *
 * ARPACK keeps its state in variables of its own from one product to the next, so that one call runs at a time in a
 * process: others wait. The start is always the same vector, so that results can be repeated, but for one case: where
 * the space of its powers is exhausted ARPACK goes on from a random vector, with a state that every run before it in
 * the process has moved on (`repeatable`). */
#ifndef LACONIC_MATH_ARPACK_H
#define LACONIC_MATH_ARPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"

/* y = A x, x and y (n), which do not overlap. */
typedef struct lac_linear_map {
  int64_t n;
  void (*apply)(void *self, const double *x, double *y);
  void *self;
} lac_linear_map;

typedef struct lac_arpack {
  const lac_linear_map *map;
  bool algebraic;   /* of a symmetric map: the largest eigenvalues, not those of largest modulus */
  int64_t count;    /* eigenvalues that are wanted */
  int64_t kept;     /* vectors kept between restarts: more than count (+ 1 for general maps), at most n */
  int64_t products; /* most products of the map */
  bool repeatable;  /* ends, not converged, rather than go on from a vector of ARPACK's own */
  double tolerance; /* of an eigenvalue, relative to it; 0 is machine precision */
} lac_arpack;

/* A start for Lanczos's method, of length n. */
void lac_arpack_start(int64_t n, double *vector);

/* Of a symmetric map by restarted Lanczos: values (count) in falling order, and unit vectors (count, n) where vectors
 * is not NULL. *converged is false, and neither is set, where `products` are not enough. An eigenvalue that is there
 * several times is found so often but for rounding: Lanczos's method sees its copies by that alone. Errors: NUMERICAL,
 * INTERRUPTED, MEMORY. */
LAC_MUST_USE lac_status lac_arpack_symmetric(lac_context *context, const lac_arpack *arpack, double *values,
                                             double *vectors, bool *converged);

/* Of any map by restarted Arnoldi, those of largest modulus in no order: real and imaginary parts (count + 1) each, as
 * the second of a pair may stand in the place beyond the last. Otherwise the same. */
LAC_MUST_USE lac_status lac_arpack_general(lac_context *context, const lac_arpack *arpack, double *real,
                                           double *imaginary, bool *converged);

/* How lac_largest_eigen() below asks for `count` eigenvalues of a matrix of `map`'s size. To a tolerance of 1e-12 and
 * no closer: at machine precision nothing may be left of the vector to go on from, which ends a repeatable run. */
lac_arpack lac_arpack_largest(const lac_linear_map *map, int64_t count);

/* As lac_symmetric_eigen() of math/blas.h, by ARPACK where few of many are wanted, which spares the tridiagonal form
 * of all. Bound by memory: a product reads a, 8 n^2 bytes. */
LAC_MUST_USE lac_status lac_largest_eigen(lac_context *context, int64_t n, double *a, int64_t count, double *values,
                                          double *vectors);

#endif
