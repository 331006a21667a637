/* The second largest modulus of a row-stochastic matrix W: by a formula, or numerically.
 *
 * Chains that are reversible, symmetric weights among them, have a measure pi with pi_i w_ij = pi_j w_ji. Then
 * A = D^1/2 W D^-1/2, D = diag(pi), is symmetric, a_ij = sqrt(w_ij w_ji), has W's eigenvalues and sqrt(pi) for the
 * eigenvalue 1, which A - sqrt(pi) sqrt(pi)' replaces by 0. What is sought is at either end of what remains.
 *
 * - All eigenvalues of small matrices.
 * - Lanczos, plain: a number of products near ln(1/tolerance) / sqrt(gap), for graphs that mix fast, whose factors
 * would be full (expanders). What it has when it does not converge is a lower bound.
 * - Shift-invert: a few products of (1 + shift - A)^-1 in ARPACK. Graphs that mix slowly have small cuts (Cheeger), and
 *   with them sparse factors. At the other end every eigenvalue is at least 2 min w_ii - 1 (Gershgorin), which mostly
 *   settles it; else the same is done with 1 + shift + A.
 *
 * ARPACK of A itself, restarted Lanczos, comes to the same, but takes ten times as long as plain Lanczos does, for it
 * orthogonalises; it is there to be asked for. Lanczos comes first, and stops early where the gap is seen to be small.
 *
 * Of a normal matrix that is not symmetric the square of the modulus is an eigenvalue of W'W; of any other it takes
 * Arnoldi's iteration, on W - 11'/n, which has 0 in place of 1 and W's other eigenvalues (Brauer 1952). */
#include "mixing/spectrum.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "math/blas.h"
#include "mixing/eigen.h"

enum { DENSE = 512, LANCZOS = 2000, PRODUCTS = 2000, INVERSE_PRODUCTS = 500, LAZY_STEPS = 2000 };

static const double two_pi = 6.28318530717958647693;
static const double tolerance = 1e-9;  /* of an eigenvalue, relative */
static const double of_gap = 1e-4;     /* of the distance to 1: most residual; errors are about its square */
static const double of_inverse = 1e-7; /* of an eigenvalue of an inverse, and so of the gap, relative */
static const double shift = 1e-10;     /* as small as rounding in a factorisation allows */
static const double fill = 1e8;        /* most entries of a factor */
static const double flops = 2e10;      /* most to make it, some 20 seconds */
static const double slow = 0.004;      /* a gap at which Lanczos takes some hundred products */

/* ---- Formulas ---- */

/* (constant + 2 cos(2 pi k / n)) / parts */
static double cosine_value(double constant, double k, double n, double parts) {
  return (constant + 2 * cos(two_pi * k / n)) / parts;
}

static double ring(int64_t n) {
  if (n == 2) {
    return 0; /* one neighbour: both take the mean */
  }
  double count = (double)n;
  return fmax(fabs(cosine_value(1, 1, count, 3)), fabs(cosine_value(1, floor(count / 2), count, 3)));
}

static double torus(int64_t r, int64_t c) {
  double rows = (double)r, columns = (double)c;
  double largest = cosine_value(3, 1, fmax(rows, columns), 5);
  double least = cosine_value(1 + 2 * cos(two_pi * floor(rows / 2) / rows), floor(columns / 2), columns, 5);
  return fmax(fabs(largest), fabs(least));
}

static double hypercube(int64_t n) {
  double dimension = log2((double)n);
  return (dimension - 1) / (dimension + 1); /* 1 - 2k/(d + 1) at k = 1, and its opposite at k = d */
}

/* Differences of leaves have a leaf's own weight for eigenvalue. The one value that remains is the trace less these and
 * less 1: 0 with Metropolis's weights, 1/n - 1/2 with uniform ones, never larger. */
static void star(const lac_weights *weights, lac_spectrum *spectrum) {
  int64_t n = weights->n, leaf = weights->start[n - 1];
  double own = weights->weight[leaf + 1], to_centre = weights->weight[leaf], from_centre = weights->weight[1];
  spectrum->second = n > 2 ? own : 0;
  double centre = to_centre / from_centre; /* pi of the centre over a leaf's */
  spectrum->least_pi = fmin(1, centre) / (centre + (double)(n - 1));
}

/* A circulant matrix: its eigenvalues are the discrete Fourier transform of its first row. */
static lac_status exponential(lac_context *context, int64_t n, double *second) {
  double *cosine = NULL, *sine = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &cosine), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &sine), done);
  for (int64_t i = 0; i < n; i++) {
    cosine[i] = cos(two_pi * (double)i / (double)n);
    sine[i] = sin(two_pi * (double)i / (double)n);
  }
  *second = 0;
  for (int64_t k = 1; k <= n / 2; k++) {
    double real = 1, imaginary = 0, entries = 1;
    int64_t place = k; /* k times the neighbour's distance, modulo n */
    for (int64_t step = 1; step < n; step *= 2) {
      real += cosine[place];
      imaginary += sine[place];
      entries += 1;
      place = 2 * place % n;
    }
    *second = fmax(*second, hypot(real, imaginary) / entries);
  }
done:
  lac_free(sine);
  lac_free(cosine);
  return status;
}

static lac_status closed_form(lac_context *context, const lac_topology *topology, lac_spectrum *spectrum, bool *found) {
  const lac_weights *weights = lac_topology_weights(topology, 0);
  int64_t n = weights->n, rows = lac_topology_rows(topology);
  *found = true;
  *spectrum =
      (lac_spectrum){.least_pi = 1 / (double)n, .converged = true, .normal = true, .method = LAC_SPECTRUM_CLOSED};
  switch (lac_topology_kind_of(topology)) {
    case LAC_TOPOLOGY_COMPLETE:
      return LAC_OK;
    case LAC_TOPOLOGY_RING:
      spectrum->second = ring(n);
      return LAC_OK;
    case LAC_TOPOLOGY_TORUS:
      spectrum->second = torus(rows, n / rows);
      return LAC_OK;
    case LAC_TOPOLOGY_HYPERCUBE:
      spectrum->second = hypercube(n);
      return LAC_OK;
    case LAC_TOPOLOGY_STAR:
      star(weights, spectrum);
      return LAC_OK;
    case LAC_TOPOLOGY_EXPONENTIAL:
      return exponential(context, n, &spectrum->second);
    default:
      *found = false;
      return LAC_OK;
  }
}

/* ---- Sparse products ---- */

/* y = W x */
static void multiply(const lac_weights *w, const double *x, double *y) {
  for (int64_t i = 0; i < w->n; i++) {
    double sum = 0;
    for (int64_t e = w->start[i]; e < w->start[i + 1]; e++) {
      sum += w->weight[e] * x[w->column[e]];
    }
    y[i] = sum;
  }
}

/* y = W' x */
static void multiply_transposed(const lac_weights *w, const double *x, double *y) {
  memset(y, 0, (size_t)w->n * sizeof *y);
  for (int64_t i = 0; i < w->n; i++) {
    for (int64_t e = w->start[i]; e < w->start[i + 1]; e++) {
      y[w->column[e]] += w->weight[e] * x[i];
    }
  }
}

static double inner(int64_t n, const double *x, const double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += x[i] * y[i];
  }
  return sum;
}

static void subtract(int64_t n, double factor, const double *x, double *y) {
  for (int64_t i = 0; i < n; i++) {
    y[i] -= factor * x[i];
  }
}

static void subtract_mean(int64_t n, double *y) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += y[i];
  }
  for (int64_t i = 0; i < n; i++) {
    y[i] -= sum / (double)n;
  }
}

/* w_ij, 0 where there is none. */
static double weight_at(const lac_weights *w, int64_t i, int64_t j) {
  int64_t low = w->start[i], high = w->start[i + 1];
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (w->column[middle] < j) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < w->start[i + 1] && w->column[low] == j ? w->weight[low] : 0;
}

/* ---- The chain, made symmetric where it can be ---- */

typedef struct chain {
  lac_context *context;
  const lac_weights *weights;
  lac_weights symmetric; /* A; start and column are those of weights */
  double *root;          /* (n) sqrt(pi) */
  double *spare;         /* (n) */
  lac_cholesky *factor;  /* of the inverse that is being applied */
  lac_status status;     /* of the last solution */
} chain;

/* log pi, up to a constant, from worker 0 on, along the entries; then whether it balances every pair. */
static lac_status find_balance(lac_context *context, const lac_weights *w, double *log_pi, bool *reversible) {
  int64_t n = w->n, head = 0, tail = 0;
  int64_t *queue;
  LAC_TRY(LAC_NEW(context, n, &queue));
  for (int64_t i = 0; i < n; i++) {
    log_pi[i] = NAN;
  }
  log_pi[0] = 0;
  queue[tail++] = 0;
  *reversible = true;
  while (head < tail && *reversible) {
    int64_t i = queue[head++];
    for (int64_t e = w->start[i]; e < w->start[i + 1] && *reversible; e++) {
      int64_t j = w->column[e];
      double back = weight_at(w, j, i);
      double there = log_pi[i] + (back == w->weight[e] ? 0 : log(w->weight[e] / back));
      if (isnan(log_pi[j]) && back > 0) {
        log_pi[j] = there;
        queue[tail++] = j;
      }
      *reversible = back > 0 && fabs(log_pi[j] - there) < 1e-9;
    }
  }
  lac_free(queue);
  if (*reversible && tail < n) {
    return lac_fail(context, LAC_E_USAGE, "a spectrum: found weights that connect %lld of %lld workers, expected all",
                    (long long)tail, (long long)n);
  }
  return LAC_OK;
}

static lac_status make_symmetric(chain *c, const double *log_pi, double *least_pi) {
  const lac_weights *w = c->weights;
  int64_t n = w->n;
  double largest = log_pi[0], least = log_pi[0], sum = 0;
  for (int64_t i = 0; i < n; i++) {
    largest = fmax(largest, log_pi[i]);
    least = fmin(least, log_pi[i]);
  }
  for (int64_t i = 0; i < n; i++) {
    sum += exp(log_pi[i] - largest);
  }
  *least_pi = exp(least - largest) / sum;
  c->symmetric = (lac_weights){.n = n, .start = w->start, .column = w->column};
  LAC_TRY(LAC_NEW(c->context, w->start[n], &c->symmetric.weight));
  for (int64_t i = 0; i < n; i++) {
    c->root[i] = exp(0.5 * (log_pi[i] - largest)) / sqrt(sum);
    for (int64_t e = w->start[i]; e < w->start[i + 1]; e++) {
      double back = weight_at(w, w->column[e], i);
      c->symmetric.weight[e] = back == w->weight[e] ? back : sqrt(back * w->weight[e]);
    }
  }
  return LAC_OK;
}

/* y = (A - sqrt(pi) sqrt(pi)') x */
static void apply_symmetric(void *self, const double *x, double *y) {
  chain *c = self;
  multiply(&c->symmetric, x, y);
  subtract(c->symmetric.n, inner(c->symmetric.n, c->root, x), c->root, y);
}

/* The same of the inverse: what it makes of sqrt(pi) is 1 / shift, and its rounding errors are taken out with it. */
static void apply_inverse(void *self, const double *x, double *y) {
  chain *c = self;
  int64_t n = c->symmetric.n;
  memcpy(c->spare, x, (size_t)n * sizeof *x);
  subtract(n, inner(n, c->root, x), c->root, c->spare);
  if (!c->status) {
    c->status = lac_cholesky_solve(c->context, c->factor, c->spare, y);
  }
  subtract(n, inner(n, c->root, y), c->root, y);
}

/* y = (W'W - 11'/n) x, for doubly stochastic W */
static void apply_square(void *self, const double *x, double *y) {
  chain *c = self;
  multiply(c->weights, x, c->spare);
  subtract_mean(c->weights->n, c->spare);
  multiply_transposed(c->weights, c->spare, y);
  subtract_mean(c->weights->n, y);
}

/* y = (W - 11'/n) x */
static void apply_general(void *self, const double *x, double *y) {
  chain *c = self;
  int64_t n = c->weights->n;
  multiply(c->weights, x, y);
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += x[i];
  }
  for (int64_t i = 0; i < n; i++) {
    y[i] -= sum / (double)n;
  }
}

/* ---- Methods ---- */

/* W less left right': all eigenvalues. */
static lac_status solve_dense(const chain *c, bool symmetric, lac_spectrum *spectrum) {
  const lac_weights *w = symmetric ? &c->symmetric : c->weights;
  int64_t n = w->n;
  double *matrix = NULL, *values = NULL, *vectors = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(c->context, n * n, &matrix), done);
  LAC_TRY_GOTO(status, LAC_NEW(c->context, n, &values), done);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      matrix[i * n + j] = symmetric ? -c->root[i] * c->root[j] : -1 / (double)n;
    }
    for (int64_t e = w->start[i]; e < w->start[i + 1]; e++) {
      matrix[i * n + w->column[e]] += w->weight[e];
    }
  }
  if (symmetric) {
    LAC_TRY_GOTO(status, LAC_NEW(c->context, n * n, &vectors), done);
    LAC_TRY_GOTO(status, lac_symmetric_eigen(c->context, n, matrix, n, values, vectors), done);
  } else {
    LAC_TRY_GOTO(status, lac_general_moduli(c->context, n, matrix, values), done);
  }
  spectrum->second = 0;
  for (int64_t i = 0; i < n; i++) {
    spectrum->second = fmax(spectrum->second, fabs(values[i]));
  }
  spectrum->converged = true;
  spectrum->method = LAC_SPECTRUM_DENSE;
done:
  lac_free(vectors);
  lac_free(values);
  lac_free(matrix);
  return status;
}

/* The largest eigenvalue of (1 + shift + sign A)^-1, sqrt(pi) apart, tells the eigenvalue of -sign A nearest 1. */
static lac_status solve_inverse(chain *c, double sign, double *value, bool *done) {
  *done = false;
  lac_status status = lac_cholesky_create(c->context, &c->symmetric, 1 + shift, sign, fill, flops, &c->factor);
  if (!c->factor) {
    return status == LAC_E_NUMERICAL ? LAC_OK : status; /* a gap of the order of rounding: there is a bound at least */
  }
  lac_linear_map map = {c->weights->n, apply_inverse, c};
  double inverse = 0;
  c->status = LAC_OK;
  status = lac_eigen_symmetric(c->context, &map, INVERSE_PRODUCTS, of_inverse, &inverse, done);
  lac_cholesky_destroy(&c->factor);
  if (c->status) {
    return c->status;
  }
  if (!status && *done) {
    *value = 1 - (1 / inverse - shift);
  }
  return status;
}

static lac_status try_shift_invert(chain *c, lac_spectrum *spectrum) {
  const lac_weights *w = c->weights;
  bool done;
  double largest = 0, opposite = 0, own = 1;
  if ((double)w->start[w->n] > fill) {
    return LAC_OK;
  }
  LAC_TRY(solve_inverse(c, -1, &largest, &done));
  for (int64_t i = 0; i < w->n; i++) {
    own = fmin(own, weight_at(w, i, i));
  }
  if (done && 1 - 2 * own > largest) {
    LAC_TRY(solve_inverse(c, 1, &opposite, &done));
  }
  if (done) {
    spectrum->second = fmax(largest, opposite);
    spectrum->converged = true;
    spectrum->method = LAC_SPECTRUM_SHIFT_INVERT;
  }
  return LAC_OK;
}

static lac_status try_arpack(lac_context *context, const lac_linear_map *map, lac_spectrum *spectrum) {
  double value = 0;
  bool done;
  LAC_TRY(lac_eigen_symmetric(context, map, PRODUCTS, tolerance, &value, &done));
  if (done) {
    spectrum->second = fabs(value);
    spectrum->converged = true;
    spectrum->method = LAC_SPECTRUM_ARPACK;
  }
  return LAC_OK;
}

/* At least a lower bound. */
static lac_status try_lanczos(lac_context *context, const lac_linear_map *map, double least_gap,
                              lac_spectrum *spectrum) {
  spectrum->method = LAC_SPECTRUM_LANCZOS;
  return lac_eigen_lanczos(context, map, LANCZOS, of_gap, least_gap, &spectrum->second, &spectrum->converged);
}

static lac_status solve_symmetric(chain *c, int method, lac_spectrum *spectrum) {
  lac_linear_map map = {c->weights->n, apply_symmetric, c};
  if (method == LAC_SPECTRUM_ANY) {
    method = c->weights->n <= DENSE ? LAC_SPECTRUM_DENSE : LAC_SPECTRUM_ANY;
  }
  switch (method) {
    case LAC_SPECTRUM_DENSE:
      return solve_dense(c, true, spectrum);
    case LAC_SPECTRUM_ARPACK:
      return try_arpack(c->context, &map, spectrum);
    case LAC_SPECTRUM_SHIFT_INVERT:
      return try_shift_invert(c, spectrum);
    case LAC_SPECTRUM_LANCZOS:
      return try_lanczos(c->context, &map, 0, spectrum);
    default:
      break;
  }
  LAC_TRY(try_lanczos(c->context, &map, slow, spectrum));
  if (!spectrum->converged) {
    LAC_TRY(try_shift_invert(c, spectrum));
  }
  return spectrum->converged ? LAC_OK : try_lanczos(c->context, &map, 0, spectrum);
}

/* ---- Chains that are not reversible ---- */

/* Whether W'W x = WW' x for a random x: for a matrix that is not normal almost no x does. */
static lac_status find_normal(chain *c, bool *normal) {
  const lac_weights *w = c->weights;
  int64_t n = w->n;
  double *x = NULL, *left = NULL, *right = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(c->context, n, &x), done);
  LAC_TRY_GOTO(status, LAC_NEW(c->context, n, &left), done);
  LAC_TRY_GOTO(status, LAC_NEW(c->context, n, &right), done);
  lac_random stream = lac_random_stream(0, LAC_RANDOM_SAMPLE, 1, 0);
  for (int64_t i = 0; i < n; i++) {
    x[i] = lac_random_uniform(&stream) - 0.5;
  }
  multiply(w, x, c->spare);
  multiply_transposed(w, c->spare, left);
  multiply_transposed(w, x, c->spare);
  multiply(w, c->spare, right);
  *normal = true;
  for (int64_t i = 0; i < n && *normal; i++) {
    *normal = fabs(left[i] - right[i]) < 1e-9;
  }
done:
  lac_free(right);
  lac_free(left);
  lac_free(x);
  return status;
}

/* pi by steps of (I + W)/2, which has the same one and no period; only a report where the matrix is not normal. */
static lac_status find_least_pi(chain *c, double *least_pi) {
  int64_t n = c->weights->n;
  double *pi;
  LAC_TRY(LAC_NEW(c->context, n, &pi));
  for (int64_t i = 0; i < n; i++) {
    pi[i] = 1 / (double)n;
  }
  double moved = 1;
  for (int64_t step = 0; step < LAZY_STEPS && moved > 1e-13 && !lac_context_interrupted(c->context); step++) {
    multiply_transposed(c->weights, pi, c->spare);
    moved = 0;
    for (int64_t i = 0; i < n; i++) {
      double next = 0.5 * (pi[i] + c->spare[i]);
      moved += fabs(next - pi[i]);
      pi[i] = next;
    }
  }
  *least_pi = pi[0];
  for (int64_t i = 0; i < n; i++) {
    *least_pi = fmin(*least_pi, pi[i]);
  }
  lac_free(pi);
  return LAC_OK;
}

static lac_status solve_normal(chain *c, int method, lac_spectrum *spectrum) {
  lac_linear_map map = {c->weights->n, apply_square, c};
  LAC_TRY(method == LAC_SPECTRUM_ARPACK ? try_arpack(c->context, &map, spectrum)
                                        : try_lanczos(c->context, &map, 0, spectrum));
  spectrum->second = sqrt(spectrum->second);
  return LAC_OK;
}

static lac_status solve_general(chain *c, int method, lac_spectrum *spectrum) {
  LAC_TRY(find_normal(c, &spectrum->normal));
  LAC_TRY(find_least_pi(c, &spectrum->least_pi));
  if (method == LAC_SPECTRUM_DENSE || (method == LAC_SPECTRUM_ANY && c->weights->n <= DENSE)) {
    return solve_dense(c, false, spectrum);
  }
  if (method == LAC_SPECTRUM_SHIFT_INVERT || (method == LAC_SPECTRUM_LANCZOS && !spectrum->normal)) {
    return lac_fail(c->context, LAC_E_USAGE, "a spectrum: found a chain that is not reversible, expected one that is");
  }
  if (spectrum->normal) {
    return solve_normal(c, method, spectrum);
  }
  lac_linear_map map = {c->weights->n, apply_general, c};
  LAC_TRY(lac_eigen_general(c->context, &map, PRODUCTS, tolerance, &spectrum->second, &spectrum->converged));
  if (!spectrum->converged) {
    return lac_fail(
        c->context, LAC_E_NUMERICAL,
        "the second eigenvalue of %lld workers' weights, which are not symmetric, was not found by %d products",
        (long long)c->weights->n, PRODUCTS);
  }
  spectrum->method = LAC_SPECTRUM_ARPACK;
  return LAC_OK;
}

lac_status lac_spectrum_of_weights(lac_context *context, const lac_weights *weights, int method,
                                   lac_spectrum *spectrum) {
  chain c = {.context = context, .weights = weights};
  int64_t n = weights->n;
  *spectrum = (lac_spectrum){.least_pi = 1, .normal = true};
  bool reversible;
  double *log_pi = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &log_pi), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &c.root), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n, &c.spare), done);
  LAC_TRY_GOTO(status, find_balance(context, weights, log_pi, &reversible), done);
  if (reversible) {
    LAC_TRY_GOTO(status, make_symmetric(&c, log_pi, &spectrum->least_pi), done);
    status = solve_symmetric(&c, method, spectrum);
  } else {
    status = solve_general(&c, method, spectrum);
  }
done:
  lac_free(c.symmetric.weight);
  lac_free(c.spare);
  lac_free(c.root);
  lac_free(log_pi);
  return status;
}

lac_status lac_mixing_spectrum(lac_context *context, const lac_topology *topology, lac_spectrum *spectrum) {
  int phases = lac_topology_phases(topology);
  if (phases != 1) {
    return lac_fail(context, LAC_E_USAGE, "a spectrum: found a topology of %d phases, expected one", phases);
  }
  bool found;
  LAC_TRY(closed_form(context, topology, spectrum, &found));
  return found ? LAC_OK
               : lac_spectrum_of_weights(context, lac_topology_weights(topology, 0), LAC_SPECTRUM_ANY, spectrum);
}

void lac_mixing_bounds(const lac_spectrum *spectrum, double *lower, double *upper) {
  /* Of 1 - s, which is exact, since s may be close to 1. */
  double decay = spectrum->second < 1 ? -log1p(-(1 - spectrum->second)) : 0;
  /* Two workers or more have not mixed before the first step: one of them has at most half of pi. */
  double least = spectrum->least_pi < 0.75 ? 1 : 0;
  *lower = fmax(least, log(2) / decay);
  *upper = fmax(least, ceil(log(2 / sqrt(spectrum->least_pi)) / decay));
  if (!spectrum->converged || !spectrum->normal) {
    *upper = NAN;
  }
}
