/* Mixing times: how long the workers of a communication process take to agree.
 *
 *     averaged  min t : max_i TV(e_i' E[W_t … W_1], pi) <= 1/4         TV: half the L1 distance; i over the workers;
 *                                                                      pi: the stationary distribution
 *     realised  min t : E[ max_i TV(e_i' W_t … W_1, pi_t) ] <= 1/4     pi_t: mean of the workers' rows of that product
 *
 * For a fixed W both are the mixing time of the Markov chain, which is then called exact. They differ for random
 * processes, so that a figure always says which it is. Source: docs/mixing.md; Levin, Peres and Wilmer 2009 (bounds).
 */
#ifndef LACONIC_MIXING_H
#define LACONIC_MIXING_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/process.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lac_mixing_kind {
  LAC_MIXING_AUTO, /* exact where the process is not random and dense matrices of it are affordable, bound beyond that;
                      realised for random ones */
  LAC_MIXING_EXACT,
  LAC_MIXING_AVERAGED,
  LAC_MIXING_REALISED,
  LAC_MIXING_BOUND,
  LAC_MIXING_KINDS
} lac_mixing_kind;

typedef struct lac_mixing_options {
  int kind;         /* --kind */
  double precision; /* --precision: relative standard error at which sampling stops; default .01 */
  int64_t samples;  /* --samples: most paths; default 4,096 */
  int64_t dense;    /* --dense-limit: most slots for which dense matrices are squared; default 4,096 */
} lac_mixing_options;

/* Borrowed. Local. */
LAC_API const lac_option *lac_mixing_option_table(void);
LAC_API const char *lac_mixing_kind_name(int kind);

/* How the second largest modulus was found. */
typedef enum lac_spectrum_method {
  LAC_SPECTRUM_CLOSED,       /* a formula */
  LAC_SPECTRUM_DENSE,        /* all eigenvalues (LAPACK) */
  LAC_SPECTRUM_ARPACK,       /* Lanczos or Arnoldi with restarts, the stationary vector deflated */
  LAC_SPECTRUM_SHIFT_INVERT, /* the same of (1 + shift - W)^-1, by a sparse Cholesky factorisation */
  LAC_SPECTRUM_LANCZOS       /* plain Lanczos; where it has not converged, a lower bound of the modulus */
} lac_spectrum_method;

typedef struct lac_spectrum {
  double second;   /* second largest modulus of the eigenvalues, of all but one eigenvalue 1 */
  double least_pi; /* smallest entry of the stationary distribution */
  bool converged;  /* false: `second` is a lower bound, and there is no upper bound of the mixing time */
  bool normal;     /* symmetric with respect to pi, or a normal matrix: the upper bound holds */
  int method;      /* lac_spectrum_method */
} lac_spectrum;

typedef struct lac_mixing_time {
  int kind;       /* lac_mixing_kind, not AUTO */
  double rounds;  /* t_mix; a round is n updates; of a bound NaN; infinity when it never mixes */
  double updates; /* the same in updates */
  double lower,
      upper; /* rounds: a bound's two ends (upper NaN when there is none); of others one standard error either way */
  double standard_error; /* rounds; 0 unless sampled */
  int64_t samples;       /* paths */
  double spectral_gap; /* 1 - second largest modulus of the mean matrix of a round (to the 1/period); NaN: not known */
  char reason[192];    /* why it never mixes; "" when it does */
} lac_mixing_time;

/* That these options have a mixing time to say of this process, which takes no time. Errors: USAGE. Local. */
LAC_API LAC_MUST_USE lac_status lac_mixing_check(lac_context *context, const lac_process *process,
                                                 const lac_mixing_options *options);
/* Errors: USAGE for exact where the process is random or too large; NUMERICAL; INTERRUPTED; MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_mixing_time_of(lac_context *context, const lac_process *process,
                                                   const lac_mixing_options *options, lac_mixing_time *time);

/* ---- parts of it, for callers with matrices of their own ---- */

/* The mixing time of a dense row-stochastic matrix, exactly: least t with max over the first `watched` rows i of
 * TV(e_i' W^t, pi) <= 1/4, by repeated squaring and bisection; pi by squaring on until the rows agree. matrix (m, m),
 * row-major, is overwritten. *steps is -1 when it is above 2^62 or the chain does not mix: several closed classes, or
 * one with a period. A distance within 1e-12 of 1/4 has mixed. The cost is log2(t) squarings and a product for each
 * further bit of t, of 2 m^3 flops, or little more than half that where the matrix is symmetric, and memory for
 * log2(t) + 2 matrices. Errors: MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_mixing_exact(lac_context *context, int64_t m, int64_t watched, double *matrix,
                                                 int64_t *steps);

/* The second largest modulus of a topology of one phase that connects all workers: a formula where there is one
 * (complete, ring, torus, star, hypercube, exponential), else by eigenvalues. Errors: USAGE for several phases, MEMORY,
 * NUMERICAL, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_mixing_spectrum(lac_context *context, const lac_topology *topology,
                                                    lac_spectrum *spectrum);

/* Bounds of t_mix by the second largest modulus s, for `normal` spectra:
 *     lower  ln 2 / ln(1/s), at least 1      since s^t <= 2 max_i TV
 *     upper  ln(2 / sqrt(least pi)) / ln(1/s), rounded up     since max_i TV <= s^t / (2 sqrt(least pi))
 * Of one worker the lower may be 0. Both are infinite at s = 1; upper is NaN where there is none. Local. */
LAC_API void lac_mixing_bounds(const lac_spectrum *spectrum, double *lower, double *upper);

#ifdef __cplusplus
}
#endif
#endif
