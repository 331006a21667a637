#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "hash/nearest.h"
#include "laconic/retrieval.h"
#include "math/blas.h"

/* Exact neighbours by blocked products.
 *
 * Rows are moved by a common shift c and, unless their values are integers, scaled by a power of two: x' = s (x - c).
 * The key of a pair is the squared distance, |x'|^2 + |q'|^2 - 2 x' q'. The norms are float64; the product comes from
 * sgemm, whose order of summation is its own, so that only the bound for any order holds:
 *
 *   |fl(x' q') - x' q'| <= g |x'| |q'|,  g = D u / (1 - D u),  u = 2^-24
 *
 * With the rounding of x' itself the key is within (g + 5 u) (|x'|^2 + |q'|^2), by 2 |x'| |q'| <= |x'|^2 + |q'|^2. Keys
 * closer than that are settled in float64 from the rows as they are.
 *
 * Integers need no settling: every partial sum of x' q', in any order, is an integer of at most |x'| |q'|, exact in
 * float32 up to 2^24. Bytes moved by 128 are always there up to D = 1024; what lies further out takes the general way.
 */

enum {
  BLOCK = 1024,                   /* base rows of a product, and most queries of a group */
  BLOCK_BYTES = 32 * 1024 * 1024, /* of rows as float32 */
  LIST_BYTES = 128 * 1024 * 1024, /* of a thread's candidates */
  SMALL_BLOCKS = 8,               /* of a base at least */
  BURST = 256,                    /* columns between two looks at a list's room */
  STEP = 16,                      /* columns that are compared at once */
  SURVEY_CHUNKS = 64,
  LARGEST_EXPONENT = 40, /* of a scaled value: squares far from float32's end, and small values far from its other */
  BYTE_SHIFT = 128,
  BYTE_COLUMNS = 1024
};

static const double UNIT = 0x1p-24;       /* rounding of float32 */
static const double SMALLEST = 0x1p-140;  /* many roundings of numbers too small for it, each at most 2^-150 */
static const double WHOLE_VALUE = 0x1p22; /* integers up to here stay exact when moved */
static const double WHOLE_NORM = 0x1p48;  /* |x'|^2 |q'|^2 up to here: exact products */

typedef struct lac_frame {
  double *shift; /* (D) */
  double scale;
  bool whole; /* all values are integers, as is the shift, and the scale is 1 */
} lac_frame;

typedef struct lac_neighbors_thread {
  float *base_rows, *query_rows; /* (block, D), (group, D): shifted and scaled */
  float *products;               /* (group, block) */
  double *base_norms, *query_norms;
  float *halves;               /* (block): see scan_products */
  float *base_row, *query_row; /* (D), as the datasets have them, for settling */
  lac_nearest *nearest;        /* (group) */
  lac_candidate *candidates;   /* (group, capacity) */
  lac_nearest_tools tools;
  const struct lac_neighbors *neighbors;
  int64_t group_start, current, loaded; /* queries: the group's first, the one whose list is at work, and whose row is
                                         * in query_row */
} lac_neighbors_thread;

typedef struct lac_neighbors {
  const lac_dataset *base, *query;
  int64_t rows, queries, columns, k, block, group, blocks, chunks, capacity;
  lac_frame frame;
  lac_progress_fn progress;
  void *user;
  int32_t *ids;
  atomic_llong done; /* products */
  lac_neighbors_thread *threads;
} lac_neighbors;

/* ---- Sums in float64: four at a time hide the additions' latency; converting is what they cost ---- */

static double square_norm(const float *x, int64_t n) {
  double a = 0, b = 0, c = 0, d = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    a += (double)x[i] * (double)x[i];
    b += (double)x[i + 1] * (double)x[i + 1];
    c += (double)x[i + 2] * (double)x[i + 2];
    d += (double)x[i + 3] * (double)x[i + 3];
  }
  for (; i < n; i++) {
    a += (double)x[i] * (double)x[i];
  }
  return (a + b) + (c + d);
}

static double square_distance(const float *x, const float *y, int64_t n) {
  double a = 0, b = 0, c = 0, d = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    double p = (double)x[i] - (double)y[i], q = (double)x[i + 1] - (double)y[i + 1];
    double r = (double)x[i + 2] - (double)y[i + 2], s = (double)x[i + 3] - (double)y[i + 3];
    a += p * p;
    b += q * q;
    c += r * r;
    d += s * s;
  }
  for (; i < n; i++) {
    a += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
  }
  return (a + b) + (c + d);
}

/* ---- The frame: one pass over both sets, none for short bytes ---- */

typedef struct lac_survey {
  const lac_dataset *set;
  int64_t columns, rows_per_chunk, block;
  float *rows;    /* (threads, block, D) */
  double *sums;   /* (chunks, D) */
  double *most;   /* (chunks): largest magnitude */
  bool *fraction; /* (chunks): some value is no small integer */
} lac_survey;

static lac_status refuse_value(lac_context *context, const lac_dataset *set, int64_t row, int64_t column) {
  LAC_TRY(lac_dataset_check(context, set, NULL, NULL));
  return lac_fail(context, LAC_E_INPUT, "%s: row %lld, column %lld: a value beyond the range of float32",
                  lac_dataset_path(set), (long long)row, (long long)column);
}

static lac_status survey_row(lac_context *context, const lac_survey *survey, int64_t chunk, int64_t row,
                             const float *x) {
  double *sums = survey->sums + chunk * survey->columns;
  double most = survey->most[chunk];
  bool fraction = false;
  for (int64_t j = 0; j < survey->columns; j++) {
    float magnitude = fabsf(x[j]);
    if (!(magnitude <= 0x1.fffffep127F)) {
      return refuse_value(context, survey->set, row, j);
    }
    most = magnitude > most ? magnitude : most;
    fraction |= magnitude > WHOLE_VALUE || x[j] != (float)(int32_t)x[j];
    sums[j] += x[j];
  }
  survey->most[chunk] = most;
  survey->fraction[chunk] |= fraction;
  return LAC_OK;
}

static lac_status survey_chunk(void *argument, lac_context *context, int64_t chunk, int thread) {
  const lac_survey *survey = argument;
  float *rows = survey->rows + thread * survey->block * survey->columns;
  int64_t first = chunk * survey->rows_per_chunk, end = first + survey->rows_per_chunk;
  end = end < lac_dataset_rows(survey->set) ? end : lac_dataset_rows(survey->set);
  for (int64_t i = first; i < end; i += survey->block) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    int64_t count = end - i < survey->block ? end - i : survey->block;
    LAC_TRY(lac_dataset_read_f32(context, survey->set, i, count, rows));
    for (int64_t r = 0; r < count; r++) {
      LAC_TRY(survey_row(context, survey, chunk, i + r, rows + r * survey->columns));
    }
  }
  return LAC_OK;
}

static int by_value(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* Middle of the means of the chunks, of each column: a few rows far out do not move it. */
static void middle_of_means(const lac_survey *survey, double *middle) {
  int64_t rows = lac_dataset_rows(survey->set);
  for (int64_t j = 0; j < survey->columns; j++) {
    double means[SURVEY_CHUNKS];
    int64_t count = 0;
    for (int64_t c = 0; c * survey->rows_per_chunk < rows; c++) {
      int64_t left = rows - c * survey->rows_per_chunk;
      int64_t here = left < survey->rows_per_chunk ? left : survey->rows_per_chunk;
      means[count++] = survey->sums[c * survey->columns + j] / (double)here;
    }
    qsort(means, (size_t)count, sizeof *means, by_value);
    middle[j] = means[count / 2];
  }
}

/* A middle of each column, unless NULL; largest magnitude, and whether all values are small integers. */
static lac_status survey_set(lac_context *context, const lac_dataset *set, int64_t block, int64_t threads,
                             double *middle, double *most, bool *whole) {
  lac_survey survey = {.set = set, .columns = lac_dataset_columns(set), .block = block};
  int64_t rows = lac_dataset_rows(set);
  lac_status status;
  survey.rows_per_chunk = (rows + SURVEY_CHUNKS - 1) / SURVEY_CHUNKS;
  LAC_TRY_GOTO(status, LAC_NEW(context, threads * block * survey.columns, &survey.rows), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, SURVEY_CHUNKS * survey.columns, &survey.sums), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, SURVEY_CHUNKS, &survey.most), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, SURVEY_CHUNKS, &survey.fraction), done);
  LAC_TRY_GOTO(status, lac_parallel(context, threads, SURVEY_CHUNKS, survey_chunk, &survey), done);
  for (int64_t c = 0; c < SURVEY_CHUNKS; c++) {
    *most = survey.most[c] > *most ? survey.most[c] : *most;
    *whole = *whole && !survey.fraction[c];
  }
  if (middle) {
    middle_of_means(&survey, middle);
  }
done:
  lac_free(survey.fraction);
  lac_free(survey.most);
  lac_free(survey.sums);
  lac_free(survey.rows);
  return status;
}

static lac_status choose_frame(lac_context *context, lac_neighbors *n, int64_t threads) {
  lac_frame *frame = &n->frame;
  LAC_TRY(LAC_NEW(context, n->columns, &frame->shift));
  frame->scale = 1;
  frame->whole = true;
  bool bytes = lac_dataset_type(n->base) == LAC_U8 && lac_dataset_type(n->query) == LAC_U8;
  if (bytes && n->columns <= BYTE_COLUMNS) {
    for (int64_t j = 0; j < n->columns; j++) {
      frame->shift[j] = BYTE_SHIFT;
    }
    return LAC_OK;
  }
  double most = 0;
  LAC_TRY(survey_set(context, n->base, n->block, threads, frame->shift, &most, &frame->whole));
  LAC_TRY(survey_set(context, n->query, n->block, threads, NULL, &most, &frame->whole));
  for (int64_t j = 0; frame->whole && j < n->columns; j++) {
    frame->shift[j] = rint(frame->shift[j]);
  }
  if (!frame->whole && most > 0) {
    int exponent;
    frexp(most, &exponent);
    frame->scale = ldexp(1, LARGEST_EXPONENT - 1 - exponent); /* moved values may be of twice the magnitude */
  }
  return LAC_OK;
}

/* ---- Products ---- */

static void move_row(const lac_frame *frame, int64_t columns, float *x) {
  for (int64_t j = 0; j < columns; j++) {
    x[j] = (float)(((double)x[j] - frame->shift[j]) * frame->scale);
  }
}

/* Rows in the frame, and their squared norms. Returns the largest norm in *most. */
static lac_status load_rows(lac_context *context, const lac_neighbors *n, const lac_dataset *set, int64_t first,
                            int64_t count, float *rows, double *norms, double *most) {
  LAC_TRY(lac_dataset_read_f32(context, set, first, count, rows));
  *most = 0;
  for (int64_t i = 0; i < count; i++) {
    float *x = rows + i * n->columns;
    move_row(&n->frame, n->columns, x);
    norms[i] = square_norm(x, n->columns);
    *most = norms[i] > *most ? norms[i] : *most;
  }
  return LAC_OK;
}

/* Four floats, in whatever register the machine has for them. */
typedef float lac_four __attribute__((vector_size(16)));
typedef int64_t lac_mask __attribute__((vector_size(16)));

static inline lac_four load_four(const float *x) {
  lac_four four;
  memcpy(&four, x, sizeof four);
  return four;
}

static inline bool any_above(const float *products, const float *halves, float bound) {
  const lac_four least = {bound, bound, bound, bound};
  lac_mask above = {0};
  for (int j = 0; j < STEP; j += 4) {
    above |= (lac_mask)(load_four(products + j) - load_four(halves + j) >= least);
  }
  return (above[0] | above[1]) != 0;
}

static float round_down(double value) {
  float rounded = (float)value;
  return (double)rounded > value ? nextafterf(rounded, -INFINITY) : rounded;
}

static float round_up(double value) {
  return -round_down(-value);
}

/* What is between a key and the truth, for the pairs of a block and a group: slope (|x'|^2 + |q'|^2) + least. */
typedef struct lac_bound {
  double slope, least;
} lac_bound;

static lac_bound bound_of(const lac_neighbors *n, double base_most, double query_most) {
  if (n->frame.whole && base_most <= WHOLE_NORM && base_most * query_most <= WHOLE_NORM) {
    return (lac_bound){0, 0};
  }
  double terms = (double)(n->columns + 8) * UNIT;
  return (lac_bound){terms < 0.5 ? 1.01 * terms / (1 - terms) : 1e6, (double)n->columns * SMALLEST};
}

/* Pushes the pairs of one query with a block. A key's lower end is at most the limit where
 *
 *   product - |x'|^2 (1 - slope) / 2 >= (|q'|^2 (1 - slope) - limit - least) / 2
 *
 * which is asked in float32, 16 pairs at once, with both constants rounded so that it never misses one: rounding keeps
 * order. */
static lac_status scan_products(lac_context *context, lac_neighbors_thread *mine, int64_t query, int64_t first,
                                int64_t count, lac_bound error) {
  lac_nearest *nearest = &mine->nearest[query];
  const float *products = mine->products + query * mine->neighbors->block;
  double query_norm = mine->query_norms[query];
  float bound = 0;
  mine->current = query;
  for (int64_t j = 0; j < count; j += STEP) {
    if (j % BURST == 0) {
      LAC_TRY(lac_nearest_thin(context, nearest, BURST, &mine->tools));
      bound = round_down(0.5 * (query_norm * (1 - error.slope) - nearest->limit - error.least));
    }
    if (!any_above(products + j, mine->halves + j, bound)) {
      continue;
    }
    for (int64_t i = j; i < j + STEP && i < count; i++) {
      if (products[i] - mine->halves[i] >= bound) {
        double norms = mine->base_norms[i] + query_norm;
        lac_nearest_push(nearest, norms - 2 * (double)products[i], round_up(error.slope * norms + error.least),
                         first + i);
      }
    }
  }
  return LAC_OK;
}

/* ---- Settling ---- */

/* The key in float64, from rows as the datasets have them. */
static double exact_key(const lac_neighbors *n, const float *base_row, const float *query_row) {
  return square_distance(base_row, query_row, n->columns) * n->frame.scale * n->frame.scale;
}

/* One key, while the products come. */
static lac_status settle(void *argument, lac_context *context, int32_t id, double *key) {
  lac_neighbors_thread *mine = argument;
  const lac_neighbors *n = mine->neighbors;
  if (mine->loaded != mine->group_start + mine->current) {
    mine->loaded = mine->group_start + mine->current;
    LAC_TRY(lac_dataset_read_f32(context, n->query, mine->loaded, 1, mine->query_row));
  }
  LAC_TRY(lac_dataset_read_f32(context, n->base, id, 1, mine->base_row));
  *key = exact_key(n, mine->base_row, mine->query_row);
  return LAC_OK;
}

/* A key to settle: of a query of the group, at a place in its list. */
typedef struct lac_open_key {
  int32_t query, place;
} lac_open_key;

/* Sorts the open keys of closed lists by block of the base: starts (blocks + 1). */
static void sort_open_keys(const lac_neighbors_thread *mine, int64_t group, lac_open_key *keys, int64_t *starts) {
  const lac_neighbors *n = mine->neighbors;
  for (int pass = 0; pass < 2; pass++) {
    for (int64_t q = 0; q < group; q++) {
      const lac_nearest *nearest = &mine->nearest[q];
      for (int64_t i = 0; i < nearest->count; i++) {
        int64_t block = nearest->list[i].id / n->block;
        if (nearest->list[i].error > 0 && pass == 0) {
          starts[block + 1]++;
        } else if (nearest->list[i].error > 0) {
          keys[starts[block]++] = (lac_open_key){(int32_t)q, (int32_t)i};
        }
      }
    }
    for (int64_t b = 0; b < n->blocks && pass == 0; b++) {
      starts[b + 1] += starts[b];
    }
  }
  memmove(starts + 1, starts, (size_t)n->blocks * sizeof *starts); /* they stand at the ends now */
  starts[0] = 0;
}

/* All keys that the group's closed lists leave open, block by block, so that base rows are read in order. */
static lac_status settle_group(lac_context *context, lac_neighbors_thread *mine, int64_t group, int64_t open) {
  const lac_neighbors *n = mine->neighbors;
  lac_open_key *keys = NULL;
  int64_t *starts = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, open, &keys), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, n->blocks + 1, &starts), done);
  sort_open_keys(mine, group, keys, starts);
  LAC_TRY_GOTO(status, lac_dataset_read_f32(context, n->query, mine->group_start, group, mine->query_rows), done);
  for (int64_t b = 0; b < n->blocks; b++) {
    if (starts[b] == starts[b + 1]) {
      continue;
    }
    int64_t first = b * n->block, count = n->rows - first < n->block ? n->rows - first : n->block;
    LAC_TRY_GOTO(status, lac_dataset_read_f32(context, n->base, first, count, mine->base_rows), done);
    for (int64_t i = starts[b]; i < starts[b + 1]; i++) {
      lac_candidate *candidate = &mine->nearest[keys[i].query].list[keys[i].place];
      candidate->key = exact_key(n, mine->base_rows + (candidate->id - first) * n->columns,
                                 mine->query_rows + keys[i].query * n->columns);
    }
  }
done:
  lac_free(starts);
  lac_free(keys);
  return status;
}

static lac_status write_group(lac_context *context, lac_neighbors_thread *mine, int64_t group) {
  const lac_neighbors *n = mine->neighbors;
  int64_t open = 0;
  for (int64_t q = 0; q < group; q++) {
    open += lac_nearest_close(&mine->nearest[q], &mine->tools);
  }
  if (open > 0) {
    LAC_TRY(settle_group(context, mine, group, open));
  }
  for (int64_t q = 0; q < group; q++) {
    lac_nearest_write(&mine->nearest[q], n->ids + (mine->group_start + q) * n->k);
  }
  return LAC_OK;
}

/* ---- Groups and blocks ---- */

/* One block of the base with a whole group. */
static lac_status meet_block(lac_context *context, lac_neighbors_thread *mine, int64_t first, int64_t group,
                             double query_most) {
  const lac_neighbors *n = mine->neighbors;
  int64_t count = n->rows - first < n->block ? n->rows - first : n->block;
  double base_most;
  LAC_TRY(load_rows(context, n, n->base, first, count, mine->base_rows, mine->base_norms, &base_most));
  lac_bound error = bound_of(n, base_most, query_most);
  for (int64_t i = 0; i < count; i++) {
    mine->halves[i] = round_down(0.5 * mine->base_norms[i] * (1 - error.slope));
  }
  lac_sgemm(false, true, group, count, n->columns, 1, mine->query_rows, n->columns, mine->base_rows, n->columns, 0,
            mine->products, n->block);
  for (int64_t q = 0; q < group; q++) {
    LAC_TRY(scan_products(context, mine, q, first, count, error));
  }
  return LAC_OK;
}

static lac_status meet_group(void *argument, lac_context *context, int64_t chunk, int thread) {
  lac_neighbors *n = argument;
  lac_neighbors_thread *mine = &n->threads[thread];
  int64_t first = chunk * n->group, group = n->queries - first < n->group ? n->queries - first : n->group;
  double query_most;
  mine->group_start = first;
  LAC_TRY(load_rows(context, n, n->query, first, group, mine->query_rows, mine->query_norms, &query_most));
  for (int64_t q = 0; q < group; q++) {
    mine->nearest[q] = (lac_nearest){n->k, n->capacity, 0, INFINITY, mine->candidates + q * n->capacity};
  }
  for (int64_t b = 0; b < n->blocks; b++) {
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "interrupted");
    }
    LAC_TRY(meet_block(context, mine, b * n->block, group, query_most));
    int64_t done = atomic_fetch_add(&n->done, 1) + 1;
    if (n->progress && thread == 0) { /* thread 0 is the caller's */
      n->progress(n->user, (double)done / (double)(n->chunks * n->blocks));
    }
  }
  return write_group(context, mine, group);
}

/* ---- Memory and sizes ---- */

static lac_status create_thread(lac_context *context, lac_neighbors *n, lac_neighbors_thread *mine) {
  mine->neighbors = n;
  mine->loaded = -1;
  LAC_TRY(LAC_NEW(context, n->block * n->columns, &mine->base_rows));
  LAC_TRY(LAC_NEW(context, n->group * n->columns, &mine->query_rows));
  LAC_TRY(LAC_NEW(context, n->group * n->block, &mine->products));
  LAC_TRY(LAC_NEW(context, n->block, &mine->base_norms));
  LAC_TRY(LAC_NEW(context, n->group, &mine->query_norms));
  LAC_TRY(LAC_NEW(context, n->block, &mine->halves));
  LAC_TRY(LAC_NEW(context, n->columns, &mine->base_row));
  LAC_TRY(LAC_NEW(context, n->columns, &mine->query_row));
  LAC_TRY(LAC_NEW(context, n->group, &mine->nearest));
  LAC_TRY(LAC_NEW(context, n->group * n->capacity, &mine->candidates));
  return lac_nearest_tools_create(context, n->capacity, settle, mine, &mine->tools);
}

static void free_thread(lac_neighbors_thread *mine) {
  lac_nearest_tools_free(&mine->tools);
  lac_free(mine->candidates);
  lac_free(mine->nearest);
  lac_free(mine->query_row);
  lac_free(mine->base_row);
  lac_free(mine->halves);
  lac_free(mine->query_norms);
  lac_free(mine->base_norms);
  lac_free(mine->products);
  lac_free(mine->query_rows);
  lac_free(mine->base_rows);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static void choose_sizes(lac_neighbors *n, int64_t threads) {
  int64_t rows = clamp(BLOCK_BYTES / (n->columns * (int64_t)sizeof(float)), STEP, BLOCK);
  /* A small base is not one block: what a block lies in costs as much to get as all of its products. */
  n->block = clamp(divide_up(n->rows, SMALL_BLOCKS), STEP, rows) / STEP * STEP;
  n->capacity = lac_nearest_capacity(n->k, BURST);
  n->group = clamp(LIST_BYTES / (n->capacity * (int64_t)sizeof(lac_candidate)), 1, rows);
  n->group = clamp(divide_up(n->queries, threads), 1, n->group);
  n->blocks = divide_up(n->rows, n->block);
  n->chunks = divide_up(n->queries, n->group);
}

static lac_status run_neighbors(lac_context *context, lac_neighbors *n, int64_t threads) {
  LAC_TRY(choose_frame(context, n, threads));
  LAC_TRY(LAC_NEW(context, threads, &n->threads));
  lac_status status = LAC_OK;
  for (int64_t t = 0; !status && t < threads; t++) {
    status = create_thread(context, n, &n->threads[t]);
  }
  if (!status) {
    status = lac_parallel(context, threads, n->chunks, meet_group, n);
  }
  for (int64_t t = 0; t < threads; t++) {
    free_thread(&n->threads[t]);
  }
  lac_free(n->threads);
  return status;
}

lac_status lac_exact_neighbors(lac_context *context, const lac_dataset *base, const lac_dataset *query, int64_t k,
                               int64_t threads, lac_progress_fn progress, void *user, int32_t *ids) {
  lac_neighbors n = {.base = base, .query = query, .k = k, .progress = progress, .user = user};
  n.ids = ids;
  n.rows = lac_dataset_rows(base);
  n.queries = lac_dataset_rows(query);
  n.columns = lac_dataset_columns(base);
  if (lac_dataset_columns(query) != n.columns) {
    return lac_fail(context, LAC_E_INPUT, "%s has %lld columns, %s has %lld", lac_dataset_path(query),
                    (long long)lac_dataset_columns(query), lac_dataset_path(base), (long long)n.columns);
  }
  if (n.rows > INT32_MAX) {
    return lac_fail(context, LAC_E_USAGE, "a base of %lld rows, expected at most %d", (long long)n.rows, INT32_MAX);
  }
  if (k < 1 || k > n.rows) {
    return lac_fail(context, LAC_E_USAGE, "k is %lld, expected 1 to %lld, the number of rows in the base", (long long)k,
                    (long long)n.rows);
  }
  if (n.queries == 0) {
    return LAC_OK;
  }
  double start = lac_seconds();
  atomic_init(&n.done, 0);
  threads = clamp(threads, 1, n.queries);
  choose_sizes(&n, threads);
  lac_status status = run_neighbors(context, &n, clamp(threads, 1, n.chunks));
  lac_free(n.frame.shift);
  lac_profile_add(context, "exact neighbors", lac_seconds() - start, 0, 0,
                  2.0 * (double)n.rows * (double)n.queries * (double)n.columns);
  return status;
}
