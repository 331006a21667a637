/* Few eigenvalues of large matrices: by ARPACK, by plain Lanczos, and the only calls of CHOLMOD. */
#ifndef LACONIC_MIXING_EIGEN_H
#define LACONIC_MIXING_EIGEN_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"
#include "laconic/topology.h"
#include "math/arpack.h"

/* The eigenvalue of largest modulus of a symmetric map by ARPACK's restarted Lanczos, to `tolerance` relative to it.
 * *converged is false, and *value not set, where `products` products of the map are not enough. n at least 50.
 * One call runs at a time in a process: see math/arpack.h. Errors: NUMERICAL, INTERRUPTED, MEMORY. */
LAC_MUST_USE lac_status lac_eigen_symmetric(lac_context *context, const lac_linear_map *map, int64_t products,
                                            double tolerance, double *value, bool *converged);

/* The largest modulus of the eigenvalues of any map, by restarted Arnoldi; otherwise the same. */
LAC_MUST_USE lac_status lac_eigen_general(lac_context *context, const lac_linear_map *map, int64_t products,
                                          double tolerance, double *modulus, bool *converged);

/* The largest modulus of the eigenvalues of a symmetric map as plain Lanczos sees it, never above the true one. It
 * ends after `steps` steps; when it has *converged: an eigenvalue is within `relative` times the distance to 1 of what
 * was found, and in fact much nearer, by about the square of that residual; or after a hundred steps when the distance
 * to 1 is then below `slow`. Keeps three vectors and does not orthogonalise: eigenvalues come out several times then,
 * but right (Paige 1976), and a step costs little beside the product. Errors: NUMERICAL, INTERRUPTED, MEMORY. */
LAC_MUST_USE lac_status lac_eigen_lanczos(lac_context *context, const lac_linear_map *map, int64_t steps,
                                          double relative, double slow, double *modulus, bool *converged);

/* A sparse Cholesky factorisation (CHOLMOD). A factor is used by one thread at a time; CHOLMOD has no state beyond it.
 */
typedef struct lac_cholesky lac_cholesky;

/* Factorises diagonal I + scale A of a symmetric A, positive definite. *factor stays NULL where the factor would have
 * more than `fill` entries or take more than `flops`, which the symbolic analysis tells: a second for a thousand
 * million flops or a little more. Errors: NUMERICAL where it is not positive definite, MEMORY, INTERRUPTED. */
LAC_MUST_USE lac_status lac_cholesky_create(lac_context *context, const lac_weights *a, double diagonal, double scale,
                                            double fill, double flops, lac_cholesky **factor);
/* x = (diagonal I + scale A)^-1 b. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_cholesky_solve(lac_context *context, lac_cholesky *factor, const double *b, double *x);
void lac_cholesky_destroy(lac_cholesky **factor);

#endif
