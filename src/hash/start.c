#include "hash/start.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/profile.h"
#include "base/random.h"
#include "math/arpack.h"
#include "math/blas.h"

enum { LAC_ITQ_ROUNDS = 50 };

lac_status lac_team_share(const lac_team *team, void *data, size_t bytes) {
  return team->world ? lac_world_broadcast(team->world, 0, data, bytes) : LAC_OK;
}

enum { LAC_PANEL = 112 }; /* so many rows of a product of moments stay in a second-level cache */

typedef struct lac_moments {
  int64_t columns, padded;
  float *panel;    /* (LAC_PANEL, D): of one block of rows, so that single precision does not lose much */
  double *moments; /* (D (D + 1) / 2): the upper triangle, row by row */
} lac_moments;

/* moments += x' x, panel by panel of the rows of the result. */
static lac_status add_moments(void *self, lac_context *context, int64_t first, int64_t n, const float *x) {
  (void)context;
  (void)first;
  const lac_moments *sums = self;
  double *moment = sums->moments;
  for (int64_t top = 0, rows, width; top < sums->columns; top += rows) {
    width = sums->columns - top;
    rows = width < LAC_PANEL ? width : LAC_PANEL;
    lac_sgemm(true, false, rows, width, n, 1, x + top, sums->padded, x + top, sums->padded, 0, sums->panel, width);
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t j = i; j < width; j++) {
        *moment++ += (double)sums->panel[i * width + j];
      }
    }
  }
  return LAC_OK;
}

/* Second moments of the whole sample, (D (D + 1) / 2), in the process of the last shard; elsewhere partial ones. */
static lac_status sum_moments(lac_context *context, const lac_team *team, const lac_start_sample *sample,
                              int64_t columns, double *sum) {
  int64_t size = columns * (columns + 1) / 2;
  lac_moments own = {.columns = columns, .padded = lac_padded(columns)};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_PANEL * columns, &own.panel), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, team->count > 1 ? size : 0, &own.moments), done);
  for (int shard = 0; shard < team->count; shard++) { /* added in shard order, as a ring adds them */
    lac_moments to = {columns, own.padded, own.panel, shard == 0 ? sum : own.moments};
    memset(to.moments, 0, (size_t)size * sizeof *to.moments);
    LAC_TRY_GOTO(status, lac_start_blocks(context, sample, shard, add_moments, &to), done);
    for (int64_t i = 0; shard > 0 && i < size; i++) {
      sum[i] += own.moments[i];
    }
  }
  if (team->world) {
    status = lac_world_sum_at_last_f64(team->world, sum, size);
  }
done:
  lac_free(own.panel);
  lac_free(own.moments);
  return status;
}

/* What PCA finds, as it travels from the process that finds it to the others. */
typedef struct lac_components {
  int64_t columns, count;
  double *values;  /* (count) … */
  double *vectors; /* … (count, columns) … */
  double *trace;   /* … and one more, one after the other */
} lac_components;

static size_t components_bytes(const lac_components *found) {
  return (size_t)(found->count * (found->columns + 1) + 1) * sizeof(double);
}

/* Of the matrix with the upper triangle moments (D (D + 1) / 2) / total. */
static lac_status find_components(lac_context *context, const double *moments, double total, lac_components *found) {
  int64_t columns = found->columns;
  double *whole;
  LAC_TRY(LAC_NEW(context, columns * columns, &whole));
  *found->trace = 0;
  for (int64_t i = 0; i < columns; i++) {
    *found->trace += *moments / total;
    for (int64_t j = i; j < columns; j++) {
      whole[i * columns + j] = whole[j * columns + i] = *moments++ / total;
    }
  }
  lac_status status = lac_largest_eigen(context, columns, whole, found->count, found->values, found->vectors);
  lac_free(whole);
  return status;
}

lac_status lac_start_pca(lac_context *context, const lac_team *team, const lac_start_sample *sample, int64_t columns,
                         int64_t count, double *values, float *vectors, double *trace) {
  int64_t padded = lac_padded(columns);
  double start = lac_seconds(), *moments = NULL;
  lac_components found = {.columns = columns, .count = count};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, columns * (columns + 1) / 2, &moments), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, count * (columns + 1) + 1, &found.values), done);
  found.vectors = found.values + count;
  found.trace = found.vectors + count * columns;
  LAC_TRY_GOTO(status, sum_moments(context, team, sample, columns, moments), done);
  if (team->first + team->count == team->total) {
    status = find_components(context, moments, (double)sample->total, &found);
  }
  if (team->world) {
    status = lac_world_agree(team->world, status);
    status =
        status ? status : lac_world_broadcast(team->world, team->total - 1, found.values, components_bytes(&found));
  }
  LAC_TRY_GOTO(status, status, done);
  memcpy(values, found.values, (size_t)count * sizeof *values);
  *trace = *found.trace;
  for (int64_t i = 0; i < count; i++) {
    for (int64_t c = 0; c < columns; c++) {
      vectors[i * padded + c] = (float)found.vectors[i * columns + c];
    }
  }
  lac_profile_add(context, "pca", lac_seconds() - start, 0, 0, 0);
done:
  lac_free(moments);
  lac_free(found.values);
  return status;
}

/* A random rotation: Q of a matrix of normal numbers. */
static lac_status random_rotation(lac_context *context, int64_t bits, int64_t seed, int64_t attempt, double *rotation) {
  double *r;
  LAC_TRY(LAC_NEW(context, bits * bits, &r));
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_INIT, 0, (uint64_t)attempt);
  for (int64_t i = 0; i < bits * bits; i++) {
    rotation[i] = lac_random_normal(&stream);
  }
  lac_status status = lac_qr(context, bits, bits, rotation, r);
  lac_free(r);
  return status;
}

/* A number of attempts that go on together: what travels, travels for all of them at once. */
typedef struct lac_itq {
  int64_t attempts, bits;
  double *rotation;                /* (attempts, L, L) */
  double *products, *sum;          /* (shards here, attempts, L, L), (attempts, L, L) */
  double *singular, *left, *right; /* (L), (L, L), (L, L) */
  float *beside;                   /* (L, attempts, L): the rotations side by side */
  float *turned;                   /* (rows of a block, attempts, L) */
  float *block;                    /* (attempts, L, L) */
  float **v;                       /* (shards here)(rows, L) */
} lac_itq;

static lac_status itq_create(lac_context *context, const lac_team *team, int64_t bits, int64_t attempts, lac_itq *itq) {
  int64_t square = bits * bits;
  itq->attempts = attempts;
  itq->bits = bits;
  LAC_TRY(LAC_NEW(context, attempts * square, &itq->rotation));
  LAC_TRY(LAC_NEW(context, team->count * attempts * square, &itq->products));
  LAC_TRY(LAC_NEW(context, attempts * square, &itq->sum));
  LAC_TRY(LAC_NEW(context, square, &itq->left));
  LAC_TRY(LAC_NEW(context, square, &itq->right));
  LAC_TRY(LAC_NEW(context, bits, &itq->singular));
  LAC_TRY(LAC_NEW(context, attempts * square, &itq->beside));
  LAC_TRY(LAC_NEW(context, LAC_SAMPLE_BLOCK * attempts * bits, &itq->turned));
  LAC_TRY(LAC_NEW(context, attempts * square, &itq->block));
  return LAC_NEW(context, team->count, &itq->v);
}

static void itq_clear(const lac_team *team, lac_itq *itq) {
  lac_free(itq->rotation);
  lac_free(itq->products);
  lac_free(itq->sum);
  lac_free(itq->left);
  lac_free(itq->right);
  lac_free(itq->singular);
  lac_free(itq->beside);
  lac_free(itq->turned);
  lac_free(itq->block);
  for (int shard = 0; itq->v && shard < team->count; shard++) {
    lac_free(itq->v[shard]);
  }
  lac_free(itq->v);
}

/* The rotations side by side in single precision. */
static void set_beside(lac_itq *itq) {
  int64_t bits = itq->bits, width = itq->attempts * bits;
  for (int64_t attempt = 0; attempt < itq->attempts; attempt++) {
    const double *rotation = itq->rotation + attempt * bits * bits;
    for (int64_t i = 0; i < bits * bits; i++) {
      itq->beside[i / bits * width + attempt * bits + i % bits] = (float)rotation[i];
    }
  }
}

/* products (attempts, L, L) += B' V with B = sign(V R) over the rows of one shard; v (count, L). One product for all
 * attempts: of codes of 16 bits one alone would be too narrow for a matrix product's kernel. */
static void add_signs(const lac_itq *itq, const float *v, int64_t count, double *products) {
  int64_t bits = itq->bits, width = itq->attempts * bits;
  for (int64_t first = 0; first < count; first += LAC_SAMPLE_BLOCK) {
    int64_t n = count - first < LAC_SAMPLE_BLOCK ? count - first : LAC_SAMPLE_BLOCK;
    const float *rows = v + first * bits;
    float *turned = itq->turned;
    lac_sgemm(false, false, n, width, bits, 1, rows, bits, itq->beside, width, 0, turned, width);
    for (int64_t i = 0; i < n * width; i++) {
      turned[i] = turned[i] >= 0 ? 1 : -1;
    }
    lac_sgemm(true, false, width, bits, n, 1, turned, width, rows, bits, 0, itq->block, bits);
    for (int64_t i = 0; i < width * bits; i++) {
      products[i] += (double)itq->block[i];
    }
  }
}

/* B'V = S W T' of each attempt: the rotation that turns V towards B is R = T S'. Workers take turns at the attempts;
 * of those of others they leave zeros. */
static lac_status itq_turn(lac_context *context, const lac_team *team, lac_itq *itq) {
  int64_t bits = itq->bits, square = bits * bits;
  for (int64_t attempt = 0; attempt < itq->attempts; attempt++) {
    double *rotation = itq->rotation + attempt * square;
    if (team->world && attempt % team->total != team->first) {
      memset(rotation, 0, (size_t)square * sizeof *rotation);
      continue;
    }
    LAC_TRY(lac_svd(context, bits, itq->sum + attempt * square, itq->singular, itq->left, itq->right));
    lac_dgemm(true, true, bits, bits, bits, 1, itq->right, bits, itq->left, bits, 0, rotation, bits);
    for (int64_t i = 0; i < square; i++) {
      rotation[i] += 0; /* no zero is negative: as after the addition of others' zeros */
    }
  }
  return LAC_OK;
}

/* Whether all have their parts: a worker that fails leaves something that is not a number, so that no agreement is
 * needed in rounds in which none does. */
static bool complete(const double *rotation, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    sum += rotation[i];
  }
  return isfinite(sum);
}

static lac_status itq_round(lac_context *context, const lac_team *team, const lac_start_sample *sample, lac_itq *itq) {
  int64_t all = itq->attempts * itq->bits * itq->bits;
  memset(itq->products, 0, (size_t)(team->count * all) * sizeof *itq->products);
  set_beside(itq);
  for (int shard = 0; shard < team->count; shard++) {
    add_signs(itq, itq->v[shard], sample->shards[shard].count, itq->products + shard * all);
  }
  LAC_TRY(lac_team_sum_f64(context, team, itq->products, all, itq->sum));
  lac_status status = itq_turn(context, team, itq);
  if (!team->world) {
    return status;
  }
  if (status) {
    itq->rotation[0] = NAN;
  }
  LAC_TRY(itq->attempts > 1 ? lac_world_sum_f64(team->world, itq->rotation, all)
                            : lac_team_share(team, itq->rotation, (size_t)all * sizeof *itq->rotation));
  return complete(itq->rotation, all) ? LAC_OK : lac_world_agree(team->world, status);
}

typedef struct lac_projection {
  int64_t padded, bits;
  const float *components; /* (L, padded) */
  float *v;                /* (rows, L) */
} lac_projection;

static lac_status project(void *self, lac_context *context, int64_t first, int64_t n, const float *x) {
  (void)context;
  const lac_projection *onto = self;
  lac_sgemm(false, true, n, onto->bits, onto->padded, 1, x, onto->padded, onto->components, onto->padded, 0,
            onto->v + first * onto->bits, onto->bits);
  return LAC_OK;
}

static lac_status itq_start(lac_context *context, const lac_team *team, const lac_start_sample *sample, int64_t padded,
                            int64_t seed, const float *components, lac_itq *itq) {
  int64_t bits = itq->bits, square = bits * bits;
  for (int shard = 0; shard < team->count; shard++) {
    LAC_TRY(LAC_NEW(context, sample->shards[shard].count * bits, &itq->v[shard]));
    lac_projection onto = {padded, bits, components, itq->v[shard]};
    LAC_TRY(lac_start_blocks(context, sample, shard, project, &onto));
  }
  for (int64_t attempt = 0; attempt < itq->attempts; attempt++) {
    LAC_TRY(random_rotation(context, bits, seed, attempt, itq->rotation + attempt * square));
  }
  return lac_team_share(team, itq->rotation, (size_t)(itq->attempts * square) * sizeof *itq->rotation);
}

lac_status lac_start_itq(lac_context *context, const lac_team *team, const lac_start_sample *sample, int64_t padded,
                         int64_t bits, int64_t seed, int64_t attempts, float *weight) {
  double start = lac_seconds();
  lac_itq itq = {0};
  float *components = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, itq_create(context, team, bits, attempts, &itq), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits * padded, &components), done);
  memcpy(components, weight, (size_t)(bits * padded) * sizeof *weight);
  LAC_TRY_GOTO(status, itq_start(context, team, sample, padded, seed, components, &itq), done);
  for (int round = 0; round < LAC_ITQ_ROUNDS; round++) {
    LAC_TRY_GOTO(status, itq_round(context, team, sample, &itq), done);
  }
  set_beside(&itq);
  lac_sgemm(true, false, attempts * bits, padded, bits, 1, itq.beside, attempts * bits, components, padded, 0, weight,
            padded);
  lac_profile_add(context, "itq", lac_seconds() - start, 0, 0, 0);
done:
  lac_free(components);
  itq_clear(team, &itq);
  return status;
}

void lac_start_random(int64_t columns, int64_t bits, int64_t seed, float *weight) {
  int64_t padded = lac_padded(columns);
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_INIT, 1, 0);
  for (int64_t l = 0; l < bits; l++) {
    for (int64_t c = 0; c < columns; c++) {
      weight[l * padded + c] = (float)lac_random_normal(&stream);
    }
  }
}

typedef struct lac_margins {
  int64_t padded, bits;
  const float *weight; /* (L, padded) */
  float *margin;       /* (LAC_SAMPLE_BLOCK, L) */
  double *sums;        /* (L): of |w x| */
} lac_margins;

static lac_status add_margins(void *self, lac_context *context, int64_t first, int64_t n, const float *x) {
  (void)context;
  (void)first;
  const lac_margins *to = self;
  lac_sgemm(false, true, n, to->bits, to->padded, 1, x, to->padded, to->weight, to->padded, 0, to->margin, to->bits);
  for (int64_t i = 0; i < n * to->bits; i++) {
    to->sums[i % to->bits] += fabs((double)to->margin[i]);
  }
  return LAC_OK;
}

lac_status lac_start_scale(lac_context *context, const lac_team *team, const lac_start_sample *sample, int64_t padded,
                           int64_t bits, float *weight) {
  double *sums = NULL, *total = NULL;
  float *margin = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, team->count * bits, &sums), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, bits, &total), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, LAC_SAMPLE_BLOCK * bits, &margin), done);
  for (int shard = 0; shard < team->count; shard++) {
    lac_margins to = {padded, bits, weight, margin, sums + shard * bits};
    LAC_TRY_GOTO(status, lac_start_blocks(context, sample, shard, add_margins, &to), done);
  }
  LAC_TRY_GOTO(status, lac_team_sum_f64(context, team, sums, bits, total), done);
  for (int64_t l = 0; l < bits; l++) {
    float factor = total[l] > 0 ? (float)((double)sample->total / total[l]) : 1;
    for (int64_t c = 0; c < padded; c++) {
      weight[l * padded + c] *= factor;
    }
  }
done:
  lac_free(sums);
  lac_free(total);
  lac_free(margin);
  return status;
}
