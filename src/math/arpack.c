#include "math/arpack.h"

#include <arpack/arpack.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "math/blas.h"

/* A dense matrix is ARPACK's from this size on, where at most one eigenvalue in so many is wanted. */
enum { DENSE_LEAST = 256, DENSE_FEW = 10 };

/* Reverse communication keeps its place in saved variables of ARPACK's Fortran routines, and its counters in common
 * blocks: a computation from the first product to the last is one critical section. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct run {
  lac_context *context;
  const lac_arpack *asked;
  const char *which;
  bool symmetric;
  a_int n, count, kept, work_length, info;
  double *start;        /* (n) */
  double *vectors;      /* (kept, n) */
  double *pair;         /* (3, n): what is multiplied and what comes of it */
  double *work;         /* (work_length) */
  double *part;         /* (3 kept): work of Arnoldi's end */
  double *values;       /* (count) */
  a_int *select;        /* (kept) */
  a_int parameters[11]; /* iparam */
  a_int place[14];      /* ipntr */
} run;

void lac_arpack_start(int64_t n, double *vector) {
  lac_random stream = lac_random_stream(0, LAC_RANDOM_SAMPLE, 0, 0);
  for (int64_t i = 0; i < n; i++) {
    vector[i] = lac_random_uniform(&stream) - 0.5;
  }
}

static void advance(run *r, a_int *ido) {
  double tolerance = r->asked->tolerance;
  /* OpenBLAS's number of threads may be set by whoever else runs in the process. */
  lac_blas_one_thread();
  if (r->symmetric) {
    dsaupd_c(ido, "I", r->n, r->which, r->count, tolerance, r->start, r->kept, r->vectors, r->n, r->parameters,
             r->place, r->pair, r->work, r->work_length, &r->info);
  } else {
    dnaupd_c(ido, "I", r->n, r->which, r->count, tolerance, r->start, r->kept, r->vectors, r->n, r->parameters,
             r->place, r->pair, r->work, r->work_length, &r->info);
  }
}

/* Runs to the end; not converged when `products` have been made before. */
static lac_status iterate(run *r, bool *converged) {
  const lac_linear_map *map = r->asked->map;
  a_int ido = 0;
  int64_t made = 0;
  for (advance(r, &ido); ido == 1 || ido == -1; advance(r, &ido)) {
    if (lac_context_interrupted(r->context)) {
      return lac_fail(r->context, LAC_E_INTERRUPTED, "the eigenvalues were interrupted");
    }
    if (made++ == r->asked->products || (made > 1 && ido == -1 && r->asked->repeatable)) { /* -1: a new vector */
      *converged = false;
      return LAC_OK;
    }
    map->apply(map->self, r->pair + r->place[0] - 1, r->pair + r->place[1] - 1);
  }
  if (r->info < 0) {
    return lac_fail(r->context, LAC_E_NUMERICAL, "the eigenvalues of a map of %d dimensions were not found (ARPACK %d)",
                    (int)r->n, (int)r->info);
  }
  *converged = r->info == 0;
  return LAC_OK;
}

/* Vectors of a symmetric map take the place of what was kept; of others none are asked for. */
static lac_status collect(run *r, double *real, double *imaginary) {
  double tolerance = r->asked->tolerance;
  a_int info = 0;
  if (r->symmetric) {
    dseupd_c(1, "A", r->select, real, r->vectors, r->n, 0, "I", r->n, r->which, r->count, tolerance, r->start, r->kept,
             r->vectors, r->n, r->parameters, r->place, r->pair, r->work, r->work_length, &info);
  } else {
    dneupd_c(0, "A", r->select, real, imaginary, r->vectors, r->n, 0, 0, r->part, "I", r->n, r->which, r->count,
             tolerance, r->start, r->kept, r->vectors, r->n, r->parameters, r->place, r->pair, r->work, r->work_length,
             &info);
  }
  return info == 0 ? LAC_OK
                   : lac_fail(r->context, LAC_E_NUMERICAL,
                              "the eigenvalues of a map of %d dimensions were not collected (ARPACK %d)", (int)r->n,
                              (int)info);
}

static lac_status run_create(lac_context *context, const lac_arpack *asked, bool symmetric, run *r) {
  int64_t n = asked->map->n, kept = asked->kept;
  *r = (run){.context = context,
             .asked = asked,
             .which = asked->algebraic ? "LA" : "LM",
             .symmetric = symmetric,
             .n = (a_int)n,
             .count = (a_int)asked->count,
             .kept = (a_int)kept,
             .info = 1, /* `start` is given */
             .parameters = {[0] = 1, [2] = 1000000, [3] = 1, [6] = 1}};
  r->work_length = symmetric ? r->kept * (r->kept + 8) : 3 * r->kept * r->kept + 6 * r->kept;
  LAC_TRY(LAC_NEW(context, n, &r->start));
  LAC_TRY(LAC_NEW(context, n * kept, &r->vectors));
  LAC_TRY(LAC_NEW(context, n * 3, &r->pair));
  LAC_TRY(LAC_NEW(context, r->work_length, &r->work));
  LAC_TRY(LAC_NEW(context, 3 * kept, &r->part));
  LAC_TRY(LAC_NEW(context, asked->count, &r->values));
  LAC_TRY(LAC_NEW(context, kept, &r->select));
  lac_arpack_start(n, r->start);
  return LAC_OK;
}

static void run_clear(run *r) {
  lac_free(r->select);
  lac_free(r->values);
  lac_free(r->part);
  lac_free(r->work);
  lac_free(r->pair);
  lac_free(r->vectors);
  lac_free(r->start);
}

static lac_status run_through(run *r, double *real, double *imaginary, bool *converged) {
  pthread_mutex_lock(&lock);
  lac_status status = iterate(r, converged);
  if (!status && *converged) {
    status = collect(r, real, imaginary);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

lac_status lac_arpack_symmetric(lac_context *context, const lac_arpack *arpack, double *values, double *vectors,
                                bool *converged) {
  run r;
  int64_t count = arpack->count, n = arpack->map->n;
  *converged = false;
  lac_status status = run_create(context, arpack, true, &r);
  if (!status) {
    status = run_through(&r, r.values, NULL, converged);
  }
  for (int64_t i = 0; !status && *converged && i < count; i++) {
    int64_t from = count - 1 - i; /* they come in rising order */
    values[i] = r.values[from];
    if (vectors) {
      memcpy(vectors + i * n, r.vectors + from * n, (size_t)n * sizeof *vectors);
    }
  }
  run_clear(&r);
  return status;
}

lac_status lac_arpack_general(lac_context *context, const lac_arpack *arpack, double *real, double *imaginary,
                              bool *converged) {
  run r;
  *converged = false;
  lac_status status = run_create(context, arpack, false, &r);
  if (!status) {
    status = run_through(&r, real, imaginary, converged);
  }
  run_clear(&r);
  return status;
}

/* ---- dense matrices ---- */

typedef struct dense {
  int64_t n;
  const double *a;
} dense;

static void dense_product(void *self, const double *x, double *y) {
  const dense *matrix = self;
  lac_dsymv(matrix->n, matrix->a, x, y);
}

lac_arpack lac_arpack_largest(const lac_linear_map *map, int64_t count) {
  return (lac_arpack){.map = map,
                      .algebraic = true,
                      .count = count,
                      .kept = 2 * count + 20,
                      .products = map->n, /* then LAPACK would have been done */
                      .repeatable = true,
                      .tolerance = 1e-12};
}

lac_status lac_largest_eigen(lac_context *context, int64_t n, double *a, int64_t count, double *values,
                             double *vectors) {
  bool converged = false;
  if (n >= DENSE_LEAST && count <= n / DENSE_FEW) {
    dense matrix = {n, a};
    lac_linear_map map = {n, dense_product, &matrix};
    lac_arpack arpack = lac_arpack_largest(&map, count);
    lac_status status = lac_arpack_symmetric(context, &arpack, values, vectors, &converged);
    LAC_TRY(status == LAC_E_NUMERICAL ? LAC_OK : status);
    converged = converged && !status;
  }
  if (!converged) {
    return lac_symmetric_eigen(context, n, a, count, values, vectors);
  }
  for (int64_t i = 0; i < count; i++) {
    lac_fix_sign(n, vectors + i * n);
  }
  return LAC_OK;
}
