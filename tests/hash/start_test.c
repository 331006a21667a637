/* The first model: statistics against two passes written out, principal components of a covariance whose eigenvectors
 * are known, ITQ against what defines its optimum, samples. */
#include "hash/start.h"

#include "hash/sample.h"
#include "shard.h"

/* ---- statistics ---- */

enum { SHARDS = 3 };

typedef struct pool {
  int64_t columns, rows[SHARDS];
  double *values; /* all shards' rows, one after another */
  void *memory[SHARDS];
  lac_dataset *data[SHARDS];
} pool;

static const lac_team all_here = {.total = SHARDS, .count = SHARDS};

static void fill_pool(lac_context *context, lac_type type, pool *made) {
  const double *value = made->values;
  for (int s = 0; s < SHARDS; s++) {
    size_t stride = type == LAC_U8 ? (size_t)made->columns + 5 : (size_t)made->columns * lac_type_size(type);
    made->memory[s] = malloc((size_t)made->rows[s] * stride);
    assert_non_null(made->memory[s]);
    memset(made->memory[s], 0xEE, (size_t)made->rows[s] * stride); /* gaps hold what must not be seen */
    for (int64_t i = 0; i < made->rows[s] * made->columns; i++, value++) {
      char *at = (char *)made->memory[s] + (size_t)(i / made->columns) * stride;
      if (type == LAC_U8) {
        ((uint8_t *)at)[i % made->columns] = (uint8_t)*value;
      } else if (type == LAC_F32) {
        ((float *)at)[i % made->columns] = (float)*value;
      } else {
        ((double *)at)[i % made->columns] = *value;
      }
    }
    assert_ok(context,
              lac_dataset_borrow(context, made->memory[s], type, made->rows[s], made->columns, stride, &made->data[s]));
  }
}

static void empty_pool(pool *made) {
  for (int s = 0; s < SHARDS; s++) {
    lac_dataset_destroy(&made->data[s]);
    free(made->memory[s]);
  }
}

static int64_t points_of(const pool *from) {
  return from->rows[0] + from->rows[1] + from->rows[2];
}

/* Bytes, the columns of very different mean and spread; every fifth column constant, the first in two shards only. */
static void make_values(pool *made) {
  lac_random stream = lac_random_stream(61, LAC_RANDOM_TEST, 0, 0);
  made->values = malloc((size_t)(points_of(made) * made->columns) * sizeof(double));
  assert_non_null(made->values);
  for (int64_t i = 0; i < points_of(made) * made->columns; i++) {
    int64_t c = i % made->columns;
    double value = 3 + floor(lac_random_uniform(&stream) * (double)(10 + c * 20 % 240));
    value = c % 5 == 4 ? 77 : value;
    value = c == 0 && i / made->columns < made->rows[0] + made->rows[1] ? 9 : value;
    made->values[i] = value;
  }
}

static void check_statistics(const pool *from, const lac_statistics *statistics, double tolerance) {
  double low = INFINITY, high = -INFINITY, variance = 0;
  int64_t constant = 0, points = points_of(from);
  for (int64_t c = 0; c < from->columns; c++) {
    double mean = 0, least = INFINITY, most = -INFINITY, spread = 0;
    for (int64_t i = 0; i < points; i++) {
      double value = from->values[i * from->columns + c];
      mean += value / (double)points;
      least = fmin(least, value);
      most = fmax(most, value);
    }
    for (int64_t i = 0; i < points; i++) {
      double rest = from->values[i * from->columns + c] - mean;
      spread += rest * rest / (double)points;
    }
    assert_true(fabs(statistics->mean[c] - mean) <= 1e-12 * (1 + fabs(mean)));
    variance += spread;
    low = fmin(low, least);
    high = fmax(high, most);
    constant += least == most;
  }
  assert_int_equal(statistics->points, points);
  assert_int_equal(statistics->constant, constant);
  assert_true(statistics->low == low && statistics->high == high);
  assert_true(fabs(statistics->variance - variance) <= tolerance * variance + 1e-12 * (low * low + high * high));
}

static void statistics_of_bytes_and_floats(void **state) {
  static const lac_type types[] = {LAC_U8, LAC_F32, LAC_F64};
  pool at = {.columns = 13, .rows = {9000, 1, 450}};
  make_values(&at);
  for (int t = 0; t < 3; t++) {
    fill_pool(*state, types[t], &at);
    lac_statistics first;
    assert_ok(*state, lac_statistics_create(*state, &all_here, (const lac_dataset *const *)at.data, 1, &first));
    check_statistics(&at, &first, 1e-11);
    for (int64_t threads = 2; threads <= 3; threads++) {
      lac_statistics other;
      assert_ok(*state, lac_statistics_create(*state, &all_here, (const lac_dataset *const *)at.data, threads, &other));
      assert_memory_equal(first.mean, other.mean, sizeof(double) * 13);
      assert_true(first.variance == other.variance && first.low == other.low && first.high == other.high);
      lac_free(other.mean);
    }
    lac_free(first.mean);
    empty_pool(&at);
  }
  free(at.values);
}

static void statistics_of_extremes(void **state) {
  static const uint8_t ends[] = {0, 255};
  for (int kind = 0; kind < 4; kind++) { /* all 0, all 255, both, one value of a lonely point */
    pool at = {.columns = 2, .rows = {kind == 3 ? 1 : 8193, 1, 1}};
    at.values = malloc((size_t)(points_of(&at) * 2) * sizeof(double));
    assert_non_null(at.values);
    for (int64_t i = 0; i < points_of(&at) * 2; i++) {
      at.values[i] = kind == 2 ? ends[i / 2 % 2] : ends[kind % 2];
    }
    at.values[0] = kind == 3 ? 4 : at.values[0];
    fill_pool(*state, LAC_U8, &at);
    lac_statistics statistics;
    assert_ok(*state, lac_statistics_create(*state, &all_here, (const lac_dataset *const *)at.data, 1, &statistics));
    check_statistics(&at, &statistics, 1e-9);
    lac_free(statistics.mean);
    empty_pool(&at);
    free(at.values);
  }
}

/* Values far from 0 beside their spread: the variance is what is left when the mean is taken off. */
static void statistics_far_from_zero(void **state) {
  pool at = {.columns = 4, .rows = {3000, 500, 7}};
  at.values = malloc((size_t)(points_of(&at) * 4) * sizeof(double));
  assert_non_null(at.values);
  lac_random stream = lac_random_stream(62, LAC_RANDOM_TEST, 0, 0);
  for (int64_t i = 0; i < points_of(&at) * 4; i++) {
    at.values[i] = 1e5 + (double)(i % 4) + floor(10 * lac_random_normal(&stream)); /* whole: exact in float32 */
  }
  fill_pool(*state, LAC_F32, &at);
  lac_statistics statistics;
  assert_ok(*state, lac_statistics_create(*state, &all_here, (const lac_dataset *const *)at.data, 1, &statistics));
  check_statistics(&at, &statistics, 1e-6);
  lac_free(statistics.mean);
  empty_pool(&at);
  free(at.values);
}

static void values_that_are_not_finite_are_named(void **state) {
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int kind = 0; kind < 3; kind++) {
    pool at = {.columns = 5, .rows = {100, 9000, 3}};
    make_values(&at);
    fill_pool(*state, LAC_F32, &at);
    ((float *)at.memory[1])[8777 * 5 + 2] = bad[kind];
    lac_statistics statistics;
    assert_failure(*state,
                   lac_statistics_create(*state, &all_here, (const lac_dataset *const *)at.data, 1 + kind, &statistics),
                   LAC_E_INPUT, "row 8777");
    assert_non_null(strstr(lac_context_message(*state), "column 2"));
    lac_free(statistics.mean);
    empty_pool(&at);
    free(at.values);
  }
}

/* ---- principal components ---- */

/* Column k of the reflection I - 2 u u' / u'u: orthonormal, and in closed form. */
static double reflection(const double *u, int64_t n, int64_t row, int64_t column) {
  double square = 0;
  for (int64_t i = 0; i < n; i++) {
    square += u[i] * u[i];
  }
  return (row == column) - 2 * u[row] * u[column] / square;
}

static void random_vector(lac_random *stream, int64_t n, double *u) {
  for (int64_t i = 0; i < n; i++) {
    u[i] = lac_random_normal(stream);
  }
}

/* A sample of these rows (counts, padded) of each shard. */
static void make_sample(lac_context *context, int64_t total, int64_t columns, const int64_t *counts, float *const *rows,
                        lac_start_sample *sample) {
  static const float shift[64];
  int64_t padded = lac_padded(columns);
  assert_true(padded <= 64);
  sample->total = total;
  assert_ok(context, LAC_NEW(context, SHARDS, &sample->shards));
  assert_ok(context, LAC_NEW(context, LAC_SAMPLE_BLOCK * padded, &sample->block));
  for (int s = 0; s < SHARDS; s++) {
    lac_start_shard *part = &sample->shards[s];
    part->count = counts[s];
    assert_ok(context, lac_dataset_borrow(context, rows[s], LAC_F32, counts[s], columns, (size_t)padded * sizeof **rows,
                                          &part->copy.data));
    part->rows = (lac_rows){.data = part->copy.data,
                            .count = counts[s],
                            .columns = columns,
                            .padded = padded,
                            .scale = 1,
                            .shift = shift,
                            .kernels = lac_linear(lac_cpu_isa())};
  }
}

/* Rows +-sqrt(D lambda_k) q_k, k < D, dealt out to the shards: their second moments are sum lambda_k q_k q_k'. */
static void principal_components_that_are_known(void **state) {
  enum { D = 21, PADDED = 24, COUNT = 6, ROWS = 2 * D * 50 };
  double u[D], values[COUNT], trace, sum = 0;
  float vectors[COUNT * PADDED] = {0}, *rows[SHARDS];
  int64_t counts[SHARDS] = {0};
  lac_random stream = lac_random_stream(63, LAC_RANDOM_TEST, 0, 0);
  random_vector(&stream, D, u);
  for (int s = 0; s < SHARDS; s++) {
    assert_ok(*state, LAC_NEW(*state, ROWS * PADDED, &rows[s]));
  }
  for (int64_t i = 0; i < ROWS; i++) {
    int64_t k = i % D, s = i % 7 < 4 ? 0 : i % 7 < 6 ? 1 : 2;
    double lambda = 3.0 / (double)(1 + k), size = sqrt(D * lambda) * (i / D % 2 ? -1 : 1);
    for (int64_t c = 0; c < D; c++) {
      rows[s][counts[s] * PADDED + c] = (float)(size * reflection(u, D, c, k));
    }
    counts[s]++;
    sum += lambda * D / ROWS;
  }
  lac_start_sample sample;
  make_sample(*state, ROWS, D, counts, rows, &sample);
  assert_ok(*state, lac_start_pca(*state, &all_here, &sample, D, COUNT, values, vectors, &trace));
  assert_true(fabs(trace - sum) < 1e-5 * sum);
  for (int64_t k = 0; k < COUNT; k++) {
    double cosine = 0, largest = 0;
    assert_true(fabs(values[k] - 3.0 / (double)(1 + k)) < 1e-5);
    for (int64_t c = 0; c < D; c++) {
      double v = (double)vectors[k * PADDED + c];
      cosine += v * reflection(u, D, c, k);
      largest = fabs(v) > fabs(largest) ? v : largest;
    }
    assert_true(fabs(fabs(cosine) - 1) < 1e-5);
    assert_true(largest > 0);
    for (int64_t c = D; c < PADDED; c++) {
      assert_true(vectors[k * PADDED + c] == 0);
    }
  }
  lac_start_sample_clear(&all_here, &sample);
  for (int s = 0; s < SHARDS; s++) {
    lac_free(rows[s]);
  }
}

/* ---- ITQ ---- */

enum { POINTS = 1400 }; /* of which one shard has more than two blocks */

typedef struct itq_scene {
  int64_t bits, padded;
  int64_t counts[SHARDS];
  float *rows[SHARDS];
  float *weight; /* (L, padded): orthonormal rows, the start */
  lac_start_sample sample;
} itq_scene;

/* Points near the corners of a cube that is turned in L of D dimensions; wide > 0 stretches its edges apart. */
static void make_itq(lac_context *context, int64_t bits, int64_t columns, double noise, uint64_t key, itq_scene *made) {
  lac_random stream = lac_random_stream(64, LAC_RANDOM_TEST, (uint64_t)bits, key);
  *made = (itq_scene){.bits = bits, .padded = lac_padded(columns), .counts = {1050, 280, 70}};
  double turn[64], plane[64];
  assert_true(columns <= 64);
  random_vector(&stream, bits, turn);
  random_vector(&stream, columns, plane);
  assert_ok(context, LAC_NEW(context, bits * made->padded, &made->weight));
  for (int64_t i = 0; i < bits * columns; i++) {
    made->weight[i / columns * made->padded + i % columns] =
        (float)reflection(plane, columns, i % columns, i / columns);
  }
  for (int s = 0; s < SHARDS; s++) {
    assert_ok(context, LAC_NEW(context, made->counts[s] * made->padded, &made->rows[s]));
    for (int64_t i = 0; i < made->counts[s]; i++) {
      double corner[64], turned[64];
      for (int64_t l = 0; l < bits; l++) {
        corner[l] = (lac_random_bits(&stream) & 1 ? 1 : -1) + noise * lac_random_normal(&stream);
      }
      for (int64_t l = 0; l < bits; l++) {
        turned[l] = 0;
        for (int64_t k = 0; k < bits; k++) {
          turned[l] += reflection(turn, bits, l, k) * corner[k];
        }
      }
      for (int64_t c = 0; c < columns; c++) {
        double value = 0;
        for (int64_t l = 0; l < bits; l++) {
          value += turned[l] * reflection(plane, columns, c, l);
        }
        made->rows[s][i * made->padded + c] = (float)value;
      }
    }
  }
  make_sample(context, POINTS, columns, made->counts, made->rows, &made->sample);
}

static void drop_itq(itq_scene *made) {
  lac_start_sample_clear(&all_here, &made->sample);
  for (int s = 0; s < SHARDS; s++) {
    lac_free(made->rows[s]);
  }
  lac_free(made->weight);
}

/* v (POINTS, L): projections of all points on the rows of weight. */
static void project(const itq_scene *from, const float *weight, double *v) {
  for (int s = 0; s < SHARDS; s++) {
    for (int64_t i = 0; i < from->counts[s]; i++, v += from->bits) {
      for (int64_t l = 0; l < from->bits; l++) {
        v[l] = 0;
        for (int64_t c = 0; c < from->padded; c++) {
          v[l] += (double)from->rows[s][i * from->padded + c] * (double)weight[l * from->padded + c];
        }
      }
    }
  }
}

/* |B - V|^2, B = sign(V) */
static double quantisation_error(const double *v, int64_t count) {
  double error = 0;
  for (int64_t i = 0; i < count; i++) {
    double rest = (v[i] >= 0 ? 1 : -1) - v[i];
    error += rest * rest;
  }
  return error;
}

/* The keyed random rotation that ITQ starts from, up to the signs of its columns, which change no error: Gram and
 * Schmidt on the same normal numbers. turned (POINTS, L) = v R. */
static void turn_by_start(const double *v, int64_t bits, int64_t seed, double *turned) {
  double *r = malloc((size_t)(bits * bits) * sizeof *r);
  assert_non_null(r);
  lac_random stream = lac_random_stream(seed, LAC_RANDOM_INIT, 0, 0);
  random_vector(&stream, bits * bits, r);
  for (int64_t k = 0; k < bits; k++) {
    for (int64_t j = 0; j <= k; j++) {
      double inner = 0;
      for (int64_t i = 0; i < bits; i++) {
        inner += r[i * bits + j] * r[i * bits + k];
      }
      for (int64_t i = 0; i < bits; i++) {
        r[i * bits + k] = j < k ? r[i * bits + k] - inner * r[i * bits + j] : r[i * bits + k] / sqrt(inner);
      }
    }
  }
  for (int64_t i = 0; i < POINTS * bits; i++) {
    turned[i] = 0;
    for (int64_t k = 0; k < bits; k++) {
      turned[i] += v[i / bits * bits + k] * r[k * bits + i % bits];
    }
  }
  free(r);
}

/* What must hold of any answer: the rows were turned and nothing else; the error is no larger than at the start; and no
 * rotation is better for the signs found, because B'V R is symmetric with no eigenvalue below 0. The last is what a
 * rotation made from V instead of V' of the singular value decomposition fails. */
static void itq_is_at_its_optimum(void **state) {
  static const struct {
    int64_t bits, columns;
    double noise;
  } cases[] = {{1, 3, 0.5}, {2, 5, 0.6}, {3, 3, 0.3}, {4, 9, 0.5}, {8, 20, 0.2}, {16, 40, 0.15}, {32, 50, 0.4}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    for (int64_t seed = 0; seed < 4; seed++) {
      itq_scene at;
      const int64_t bits = cases[k].bits, count = POINTS * bits;
      make_itq(*state, bits, cases[k].columns, cases[k].noise, k, &at);
      double *before = malloc((size_t)count * sizeof *before), *start = malloc((size_t)count * sizeof *start),
             *after = malloc((size_t)count * sizeof *after);
      assert_true(before && start && after);
      project(&at, at.weight, before);
      turn_by_start(before, bits, seed, start);
      assert_ok(*state, lac_start_itq(*state, &all_here, &at.sample, at.padded, bits, seed, 1, at.weight));
      project(&at, at.weight, after);
      assert_true(quantisation_error(after, count) <= quantisation_error(start, count) * (1 + 1e-5));
      for (int64_t l = 0; l < bits; l++) { /* rows of unit length at right angles, in the same plane */
        for (int64_t j = 0; j < bits; j++) {
          double inner = 0;
          for (int64_t c = 0; c < at.padded; c++) {
            inner += (double)at.weight[l * at.padded + c] * (double)at.weight[j * at.padded + c];
          }
          assert_true(fabs(inner - (l == j)) < 1e-5);
        }
        for (int64_t c = cases[k].columns; c < at.padded; c++) {
          assert_true(at.weight[l * at.padded + c] == 0);
        }
      }
      double size_before = 0, size_after = 0;
      for (int64_t i = 0; i < count; i++) {
        size_before += before[i] * before[i];
        size_after += after[i] * after[i];
      }
      assert_true(fabs(size_after - size_before) < 1e-4 * size_before);
      double skew = 0, size = 0, traced = 0;
      for (int64_t l = 0; l < bits; l++) {
        for (int64_t j = 0; j < bits; j++) {
          double one = 0, other = 0;
          for (int64_t i = 0; i < POINTS; i++) {
            one += (after[i * bits + l] >= 0 ? 1 : -1) * after[i * bits + j];
            other += (after[i * bits + j] >= 0 ? 1 : -1) * after[i * bits + l];
          }
          skew += (one - other) * (one - other);
          size += one * one;
          traced += l == j ? one : 0;
        }
      }
      assert_true(skew < (bits <= 16 ? 1e-5 : 1e-2) * size);
      assert_true(traced > 0);
      free(before);
      free(start);
      free(after);
      drop_itq(&at);
    }
  }
}

/* Little noise around the corners of a turned cube in few dimensions: ITQ finds the cube, from most starts. */
static void itq_finds_a_turned_cube(void **state) {
  int found = 0;
  for (int64_t seed = 0; seed < 8; seed++) {
    itq_scene at;
    make_itq(*state, 4, 11, 0.1, 99, &at);
    double v[POINTS * 4];
    assert_ok(*state, lac_start_itq(*state, &all_here, &at.sample, at.padded, 4, seed, 1, at.weight));
    project(&at, at.weight, v);
    found += quantisation_error(v, 800) < 800 * 0.02; /* the noise's variance is .01 */
    drop_itq(&at);
  }
  assert_true(found >= 5);
}

/* ---- other starts ---- */

static void random_weights_are_normal_and_keyed(void **state) {
  (void)state;
  enum { D = 203, PADDED = 208, L = 64 };
  static float weight[L * PADDED], again[L * PADDED], other[L * PADDED];
  double sum = 0, square = 0, fourth = 0;
  lac_start_random(D, L, 5, weight);
  lac_start_random(D, L, 5, again);
  lac_start_random(D, L, 6, other);
  assert_memory_equal(weight, again, sizeof weight);
  int64_t same = 0;
  for (int64_t i = 0; i < L * PADDED; i++) {
    double value = (double)weight[i];
    if (i % PADDED >= D) {
      assert_true(weight[i] == 0 && other[i] == 0);
      continue;
    }
    same += weight[i] == other[i];
    sum += value;
    square += value * value;
    fourth += value * value * value * value;
  }
  double n = L * D; /* deviations below five standard errors */
  assert_true(fabs(sum / n) < 5 / sqrt(n));
  assert_true(fabs(square / n - 1) < 5 * sqrt(2 / n));
  assert_true(fabs(fourth / n - 3) < 5 * sqrt(96 / n));
  assert_true(same < 10);
}

static void scaled_margins_are_one_on_average(void **state) {
  itq_scene at;
  make_itq(*state, 8, 20, 0.4, 7, &at);
  for (int64_t c = 0; c < at.padded; c++) {
    at.weight[3 * at.padded + c] *= 1000;
    at.weight[5 * at.padded + c] = 0; /* nothing to scale */
  }
  double v[POINTS * 8];
  assert_ok(*state, lac_start_scale(*state, &all_here, &at.sample, at.padded, 8, at.weight));
  project(&at, at.weight, v);
  for (int64_t l = 0; l < 8; l++) {
    double mean = 0;
    for (int64_t i = 0; i < POINTS; i++) {
      mean += fabs(v[i * 8 + l]) / POINTS;
    }
    assert_true(l == 5 ? mean == 0 : fabs(mean - 1) < 1e-5);
  }
  drop_itq(&at);
}

/* ---- samples ---- */

static void samples_are_one_row_of_each_stratum(void **state) {
  (void)state;
  enum { MOST = 1000 };
  int64_t rows[MOST], other[MOST], again[MOST], hits[12] = {0};
  for (int64_t of = 1; of <= MOST; of += 1 + of / 6) {
    for (int64_t count = 0; count <= of; count += 1 + count / 3) {
      lac_sample_rows(3, LAC_SAMPLE_START, 1, of, count, rows);
      lac_sample_rows(3, LAC_SAMPLE_START, 1, of, count, again);
      assert_memory_equal(rows, again, (size_t)count * sizeof *rows);
      int64_t most = count ? (of + count - 1) / count : 0;
      for (int64_t i = 0; i < count; i++) {
        assert_true(rows[i] >= 0 && rows[i] < of);
        assert_true(i == 0 || rows[i] > rows[i - 1]); /* in order, and no row twice */
        assert_true(i == 0 || rows[i] - rows[i - 1] < 2 * most);
        /* Stratum i of `count` is [i of / count, (i + 1) of / count) up to a row for each of those before it that is
         * longer. */
        assert_true(rows[i] >= i * (of / count) && rows[i] < (i + 1) * most);
      }
    }
  }
  lac_sample_rows(3, LAC_SAMPLE_START, 1, 1000, 100, rows);
  lac_sample_rows(4, LAC_SAMPLE_START, 1, 1000, 100, other);
  assert_memory_not_equal(rows, other, sizeof *rows * 100);
  lac_sample_rows(3, LAC_SAMPLE_START, 2, 1000, 100, other);
  assert_memory_not_equal(rows, other, sizeof *rows * 100);
  lac_sample_rows(3, LAC_SAMPLE_VALIDATION, 1, 1000, 100, other);
  assert_memory_not_equal(rows, other, sizeof *rows * 100);
  for (int64_t seed = 0; seed < 6000; seed++) { /* every row of a stratum may come, as often */
    lac_sample_rows(seed, LAC_SAMPLE_CENTRES, 0, 12, 4, rows);
    for (int i = 0; i < 4; i++) {
      assert_int_equal(rows[i] / 3, i);
      hits[rows[i]]++;
    }
  }
  for (int i = 0; i < 12; i++) {
    assert_true(llabs(hits[i] - 2000) < 5 * 37);
  }
}

typedef struct taken {
  int64_t count; /* so far */
  float rows[1300 * 16];
} taken;

static lac_status take(void *self, lac_context *context, int64_t first, int64_t n, const float *x) {
  taken *into = self;
  (void)context;
  assert_int_equal(first, into->count);
  assert_true(n > 0 && n <= LAC_SAMPLE_BLOCK);
  memcpy(into->rows + 16 * first, x, (size_t)(16 * n) * sizeof *x);
  into->count += n;
  return LAC_OK;
}

/* Rows that are equal to an earlier one of their shard, as found by comparing all of them. */
static void equal_rows_are_counted(void **state) {
  enum { D = 5, PADDED = 8 };
  int64_t counts[SHARDS] = {1300, 7, 600}, expected = 0, found;
  float *rows[SHARDS];
  lac_start_sample sample;
  lac_random stream = lac_random_stream(66, LAC_RANDOM_TEST, 0, 0);
  for (int s = 0; s < SHARDS; s++) {
    assert_ok(*state, LAC_NEW(*state, counts[s] * PADDED, &rows[s]));
    for (int64_t i = 0; i < counts[s]; i++) {
      bool earlier = false;
      for (int64_t c = 0; c < D; c++) {
        rows[s][i * PADDED + c] = (float)lac_random_below(&stream, 4);
      }
      for (int64_t j = 0; j < i; j++) {
        earlier = earlier || memcmp(rows[s] + i * PADDED, rows[s] + j * PADDED, D * sizeof **rows) == 0;
      }
      expected += earlier;
    }
  }
  make_sample(*state, 1907, D, counts, rows, &sample);
  assert_ok(*state, lac_start_duplicates(*state, &all_here, &sample, &found));
  assert_true(expected > 100);
  assert_int_equal(found, expected);
  lac_start_sample_clear(&all_here, &sample);
  for (int s = 0; s < SHARDS; s++) {
    lac_free(rows[s]);
  }
}

static void start_samples_are_rows_of_the_shards(void **state) {
  lac_hash_options options = some_options(4, 1);
  lac_training common = make_training(&options, 9, SHARDS);
  static const int64_t sizes[SHARDS] = {1300, 30, 1100}; /* more than two blocks */
  static const int64_t totals[] = {1, 2, 50, 2429, 2430, 9000};
  shard made[SHARDS];
  const lac_rows *views[SHARDS];
  for (int s = 0; s < SHARDS; s++) {
    make_shard(*state, &common, s, sizes[s], s <= 1, &made[s]);
    views[s] = &made[s].trainer.x;
  }
  for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
    lac_start_sample sample;
    int64_t sum = 0;
    assert_ok(*state, lac_start_sample_create(*state, &all_here, views, 11, totals[t], &sample));
    for (int s = 0; s < SHARDS; s++) {
      double share = (double)totals[t] * (double)sizes[s] / 2430;
      taken rows = {0};
      assert_ok(*state, lac_start_blocks(*state, &sample, s, take, &rows));
      share = fmin(share, (double)sizes[s]);
      assert_true((double)rows.count >= share - 1e-9 && (double)rows.count < share + 1);
      sum += rows.count;
      int64_t row = -1;
      for (int64_t i = 0; i < rows.count; i++) { /* each is a row further on in its shard */
        bool same = false;
        while (!same && ++row < sizes[s]) {
          same = true;
          for (int64_t c = 0; c < 16; c++) {
            double value = c < 9 ? value_at(&made[s], row, c) : 0;
            same = same && fabs((double)rows.rows[i * 16 + c] - value) < 1e-6;
          }
        }
        assert_true(same);
      }
    }
    assert_int_equal(sample.total, sum);
    lac_start_sample_clear(&all_here, &sample);
    assert_null(sample.shards);
  }
  for (int s = 0; s < SHARDS; s++) {
    drop_shard(&made[s]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statistics_of_bytes_and_floats),
      cmocka_unit_test(statistics_of_extremes),
      cmocka_unit_test(statistics_far_from_zero),
      cmocka_unit_test(values_that_are_not_finite_are_named),
      cmocka_unit_test(principal_components_that_are_known),
      cmocka_unit_test(itq_is_at_its_optimum),
      cmocka_unit_test(itq_finds_a_turned_cube),
      cmocka_unit_test(random_weights_are_normal_and_keyed),
      cmocka_unit_test(scaled_margins_are_one_on_average),
      cmocka_unit_test(samples_are_one_row_of_each_stratum),
      cmocka_unit_test(equal_rows_are_counted),
      cmocka_unit_test(start_samples_are_rows_of_the_shards),
  };
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
