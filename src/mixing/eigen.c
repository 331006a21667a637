#include "mixing/eigen.h"

#include <cholmod.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "math/blas.h"

/* Of ARPACK: vectors kept between restarts, eigenvalues looked for among Arnoldi's. Steps of Lanczos between looks, and
 * until it is seen that a map is slow. */
enum { VECTORS = 24, VALUES = 2, LOOK = 20, PROBE = 100 };

lac_status lac_eigen_symmetric(lac_context *context, const lac_linear_map *map, int64_t products, double tolerance,
                               double *value, bool *converged) {
  double found = 0;
  lac_arpack arpack = {.map = map, .count = 1, .kept = VECTORS, .products = products, .tolerance = tolerance};
  LAC_TRY(lac_arpack_symmetric(context, &arpack, &found, NULL, converged));
  if (*converged) {
    *value = found;
  }
  return LAC_OK;
}

lac_status lac_eigen_general(lac_context *context, const lac_linear_map *map, int64_t products, double tolerance,
                             double *modulus, bool *converged) {
  double real[VALUES + 1] = {0}, imaginary[VALUES + 1] = {0};
  lac_arpack arpack = {.map = map, .count = VALUES, .kept = VECTORS, .products = products, .tolerance = tolerance};
  LAC_TRY(lac_arpack_general(context, &arpack, real, imaginary, converged));
  if (*converged) {
    *modulus = 0;
    for (int i = 0; i <= VALUES; i++) { /* a pair may stand in the place beyond the last */
      *modulus = fmax(*modulus, hypot(real[i], imaginary[i]));
    }
  }
  return LAC_OK;
}

/* ---- Plain Lanczos ---- */

static double norm_of(int64_t n, const double *x) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += x[i] * x[i];
  }
  return sqrt(sum);
}

/* One step: next = A now - last * beta - now * alpha. */
static double lanczos_step(const lac_linear_map *map, const double *last, double beta, const double *now,
                           double *next) {
  map->apply(map->self, now, next);
  double alpha = 0;
  for (int64_t i = 0; i < map->n; i++) {
    next[i] -= beta * last[i];
    alpha += next[i] * now[i];
  }
  for (int64_t i = 0; i < map->n; i++) {
    next[i] -= alpha * now[i];
  }
  return alpha;
}

typedef struct lanczos {
  lac_context *context;
  const lac_linear_map *map;
  int64_t made;              /* steps */
  double *last, *now, *next; /* (n) each */
  double *diagonal, *beside; /* (steps) the tridiagonal matrix */
  double *vector;            /* (steps) an eigenvector of it */
} lanczos;

/* An end of the tridiagonal matrix's spectrum, and how far the map is from having it. */
static lac_status look(lanczos *l, int64_t below, double *value, double *residual) {
  LAC_TRY(lac_tridiagonal_eigen(l->context, l->made, l->diagonal, l->beside, below, value, l->vector));
  *residual = l->beside[l->made - 1] * fabs(l->vector[l->made - 1]);
  return LAC_OK;
}

/* The end of larger modulus has converged when its residual is small, and the other is no rival when it is farther from
 * it than its own residual. */
static lac_status judge(lanczos *l, double relative, double *modulus, bool *converged) {
  double value[2], residual[2];
  LAC_TRY(look(l, 0, &value[0], &residual[0]));
  LAC_TRY(look(l, l->made - 1, &value[1], &residual[1]));
  int more = fabs(value[1]) >= fabs(value[0]);
  *modulus = fabs(value[more]);
  double most = fmax(relative * (1 - *modulus), 1e-12);
  double rival = fmax(most, *modulus - fabs(value[1 - more]));
  *converged = residual[more] <= most && residual[1 - more] <= rival;
  return LAC_OK;
}

static lac_status iterate_lanczos(lanczos *l, int64_t steps, double relative, double slow, double *modulus,
                                  bool *converged) {
  int64_t n = l->map->n;
  lac_arpack_start(n, l->next);
  l->map->apply(l->map->self, l->next, l->now); /* out of the space that the map sends to 0 */
  double norm = norm_of(n, l->now), beta = 0;
  for (int64_t i = 0; i < n && norm > 0; i++) {
    l->now[i] /= norm;
  }
  *modulus = 0;
  *converged = norm == 0;
  while (l->made < steps && !*converged) {
    if (lac_context_interrupted(l->context)) {
      return lac_fail(l->context, LAC_E_INTERRUPTED, "the eigenvalues were interrupted");
    }
    l->diagonal[l->made] = lanczos_step(l->map, l->last, beta, l->now, l->next);
    beta = norm_of(n, l->next);
    l->beside[l->made++] = beta;
    bool exhausted = beta < 1e-14; /* the start's own space: these are eigenvalues */
    if (exhausted || l->made == steps || l->made % LOOK == 0) {
      LAC_TRY(judge(l, relative, modulus, converged));
    }
    *converged = *converged || exhausted;
    if (l->made == PROBE && 1 - *modulus < slow) {
      break;
    }
    for (int64_t i = 0; i < n && !exhausted; i++) {
      l->next[i] /= beta;
    }
    double *spare = l->last;
    l->last = l->now;
    l->now = l->next;
    l->next = spare;
  }
  return LAC_OK;
}

lac_status lac_eigen_lanczos(lac_context *context, const lac_linear_map *map, int64_t steps, double relative,
                             double slow, double *modulus, bool *converged) {
  lanczos l = {.context = context, .map = map};
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, map->n, &l.last), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, map->n, &l.now), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, map->n, &l.next), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, steps, &l.diagonal), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, steps, &l.beside), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, steps, &l.vector), done);
  status = iterate_lanczos(&l, steps, relative, slow, modulus, converged);
done:
  lac_free(l.vector);
  lac_free(l.beside);
  lac_free(l.diagonal);
  lac_free(l.next);
  lac_free(l.now);
  lac_free(l.last);
  return status;
}

/* ---- CHOLMOD ---- */

struct lac_cholesky {
  cholmod_common common;
  cholmod_factor *factor;
  cholmod_dense *solution, *spare[2]; /* kept from one solution to the next */
};

/* The lower triangle of diagonal I + scale A by columns: of a symmetric A, the upper by rows. */
static lac_status shifted(lac_context *context, const lac_weights *a, double diagonal, double scale,
                          cholmod_common *common, cholmod_sparse **matrix) {
  int64_t entries = 0;
  for (int64_t i = 0; i < a->n; i++) {
    for (int64_t e = a->start[i]; e < a->start[i + 1]; e++) {
      entries += a->column[e] > i;
    }
  }
  cholmod_sparse *made = cholmod_l_allocate_sparse((size_t)a->n, (size_t)a->n, (size_t)(entries + a->n), true, true, -1,
                                                   CHOLMOD_REAL, common);
  if (!made) {
    return lac_fail(context, LAC_E_MEMORY, "no memory for a sparse matrix of %lld entries", (long long)entries);
  }
  SuiteSparse_long *start = made->p, *row = made->i;
  double *value = made->x;
  int64_t at = 0;
  for (int64_t i = 0; i < a->n; i++) {
    int64_t own = at++;
    start[i] = own;
    row[own] = i;
    value[own] = diagonal;
    for (int64_t e = a->start[i]; e < a->start[i + 1]; e++) {
      if (a->column[e] == i) {
        value[own] += scale * a->weight[e];
      } else if (a->column[e] > i) {
        row[at] = a->column[e];
        value[at++] = scale * a->weight[e];
      }
    }
  }
  start[a->n] = at;
  *matrix = made;
  return LAC_OK;
}

static lac_status factorise(lac_context *context, lac_cholesky *self, cholmod_sparse *matrix, double fill, double flops,
                            bool *fits) {
  self->factor = cholmod_l_analyze(matrix, &self->common);
  if (!self->factor) {
    return lac_fail(context, LAC_E_MEMORY, "no memory for the analysis of a sparse matrix (CHOLMOD %d)",
                    self->common.status);
  }
  *fits = self->common.lnz <= fill && self->common.fl <= flops;
  if (!*fits) {
    return LAC_OK;
  }
  if (lac_context_interrupted(context)) {
    return lac_fail(context, LAC_E_INTERRUPTED, "the eigenvalues were interrupted");
  }
  (void)cholmod_l_factorize(matrix, self->factor, &self->common);
  if (self->common.status < CHOLMOD_OK) {
    return lac_fail(context, LAC_E_MEMORY, "no memory for a sparse factor of %.3g entries (CHOLMOD %d)",
                    self->common.lnz, self->common.status);
  }
  if (self->common.status != CHOLMOD_OK) {
    return lac_fail(context, LAC_E_NUMERICAL, "a sparse matrix of %lld rows is not positive definite (CHOLMOD %d)",
                    (long long)matrix->nrow, self->common.status);
  }
  return LAC_OK;
}

lac_status lac_cholesky_create(lac_context *context, const lac_weights *a, double diagonal, double scale, double fill,
                               double flops, lac_cholesky **factor) {
  *factor = NULL;
  lac_cholesky *self;
  LAC_TRY(LAC_NEW(context, 1, &self));
  cholmod_l_start(&self->common);
  cholmod_common *common = &self->common;
  common->print = 0;
  /* Minimum degree alone, which is the same every time; and no supernodes, whose products would be BLAS's. */
  common->nmethods = 1;
  common->method[0].ordering = CHOLMOD_AMD;
  common->supernodal = CHOLMOD_SIMPLICIAL;
  common->final_ll = true; /* LDL' would pass over negative pivots */
  cholmod_sparse *matrix = NULL;
  bool fits = false;
  lac_status status = shifted(context, a, diagonal, scale, common, &matrix);
  if (!status) {
    status = factorise(context, self, matrix, fill, flops, &fits);
  }
  (void)cholmod_l_free_sparse(&matrix, common);
  if (status || !fits) {
    lac_cholesky_destroy(&self);
  }
  *factor = self;
  return status;
}

lac_status lac_cholesky_solve(lac_context *context, lac_cholesky *factor, const double *b, double *x) {
  size_t n = factor->factor->n;
  cholmod_dense right = {.nrow = n,
                         .ncol = 1,
                         .nzmax = n,
                         .d = n,
                         .x = (void *)b, /* read only */
                         .xtype = CHOLMOD_REAL,
                         .dtype = CHOLMOD_DOUBLE};
  if (!cholmod_l_solve2(CHOLMOD_A, factor->factor, &right, NULL, &factor->solution, NULL, &factor->spare[0],
                        &factor->spare[1], &factor->common)) {
    return lac_fail(context, LAC_E_MEMORY, "no memory for the solution of a sparse system (CHOLMOD %d)",
                    factor->common.status);
  }
  memcpy(x, factor->solution->x, n * sizeof *x);
  return LAC_OK;
}

void lac_cholesky_destroy(lac_cholesky **factor) {
  lac_cholesky *self = *factor;
  if (!self) {
    return;
  }
  for (int i = 0; i < 2; i++) {
    (void)cholmod_l_free_dense(&self->spare[i], &self->common);
  }
  (void)cholmod_l_free_dense(&self->solution, &self->common);
  (void)cholmod_l_free_factor(&self->factor, &self->common);
  (void)cholmod_l_finish(&self->common);
  lac_free(self);
  *factor = NULL;
}
