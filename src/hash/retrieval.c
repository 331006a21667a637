#include "laconic/retrieval.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "base/profile.h"
#include "hash/hamming.h"

enum {
  GROUP = 64, /* queries of a chunk: what is summed together, so it does not depend on the number of threads */
  TABLES = 4  /* neighbouring codes are counted in different tables: equal distances would wait for each other */
};

typedef struct lac_measure {
  const lac_codes *codes;
  const int32_t *truth; /* (queries, depth) */
  int64_t depth, used;  /* how many true neighbours of each query are looked at */
  const int64_t *ks, *Rs;
  int nk, nR;
  int64_t bins; /* bits + 1 */
  size_t scratch_bytes;
  uint8_t *scratch;    /* (threads, scratch_bytes) */
  int32_t *histograms; /* (threads, GROUP, TABLES, bins) */
  uint16_t *distances; /* (threads, used) */
  double *sums;        /* (chunks, nk + nR) */
} lac_measure;

typedef struct lac_count {
  int32_t *histograms; /* (GROUP, TABLES, bins) */
  int64_t bins;
} lac_count;

static void count_tile(void *argument, int64_t query, int64_t first, int64_t count, const uint8_t *narrow,
                       const uint16_t *wide) {
  (void)first;
  const lac_count *counting = argument;
  int64_t bins = counting->bins, i = 0;
  int32_t *t0 = counting->histograms + query * TABLES * bins;
  int32_t *t1 = t0 + bins, *t2 = t1 + bins, *t3 = t2 + bins;
  for (; narrow && i + TABLES <= count; i += TABLES) {
    t0[narrow[i]]++;
    t1[narrow[i + 1]]++;
    t2[narrow[i + 2]]++;
    t3[narrow[i + 3]]++;
  }
  for (; i < count; i++) {
    t0[narrow ? narrow[i] : wide[i]]++;
  }
}

/* The histogram of a query: its first table takes in the others. */
static int32_t *merge_tables(int32_t *tables, int64_t bins) {
  for (int64_t i = bins; i < TABLES * bins; i++) {
    tables[i % bins] += tables[i];
  }
  return tables;
}

/* Among the k nearest are all that are nearer than the k-th distance, and of those at it as many as have place left,
 * each with the same chance. distances are those of the k true neighbours. */
static double precision_at(const int32_t *histogram, const uint16_t *distances, int64_t k) {
  int64_t below = 0, limit = 0;
  while (below + histogram[limit] < k) {
    below += histogram[limit++];
  }
  int64_t hits_below = 0, hits_at = 0;
  for (int64_t i = 0; i < k; i++) {
    hits_below += distances[i] < limit;
    hits_at += distances[i] == limit;
  }
  return ((double)hits_below + (double)hits_at * (double)(k - below) / histogram[limit]) / (double)k;
}

/* The chance that the true nearest neighbour, at this distance, is among the first R. */
static double recall_at(const int32_t *histogram, int distance, int64_t R) {
  int64_t below = 0;
  for (int d = 0; d < distance; d++) {
    below += histogram[d];
  }
  double chance = (double)(R - below) / histogram[distance];
  return chance < 0 ? 0 : chance > 1 ? 1 : chance;
}

static bool k_is_known(const lac_measure *measure, int64_t k) {
  return k <= measure->codes->rows && k <= measure->depth;
}

static void add_query(const lac_measure *measure, const int32_t *histogram, const uint16_t *distances, double *sums) {
  for (int i = 0; i < measure->nk; i++) {
    if (k_is_known(measure, measure->ks[i])) {
      sums[i] += precision_at(histogram, distances, measure->ks[i]);
    }
  }
  for (int i = 0; i < measure->nR; i++) {
    if (measure->Rs[i] <= measure->codes->rows) {
      sums[measure->nk + i] += recall_at(histogram, distances[0], measure->Rs[i]);
    }
  }
}

static lac_status measure_group(void *argument, lac_context *context, int64_t chunk, int thread) {
  const lac_measure *measure = argument;
  const lac_codes *codes = measure->codes;
  int64_t first = chunk * GROUP, group = codes->queries - first < GROUP ? codes->queries - first : GROUP;
  int64_t row = TABLES * measure->bins, bytes = (codes->bits + 7) / 8;
  uint8_t *scratch = measure->scratch + (size_t)thread * measure->scratch_bytes;
  uint16_t *distances = measure->distances + thread * measure->used;
  lac_count counting = {measure->histograms + thread * GROUP * row, measure->bins};
  memset(counting.histograms, 0, (size_t)(group * row) * sizeof *counting.histograms);
  LAC_TRY(lac_codes_scan(context, codes, first, group, scratch, count_tile, &counting));
  for (int64_t q = 0; q < group; q++) {
    /* The scan is over: its scratch takes the padded query. */
    lac_hamming_pad(codes->query + (first + q) * bytes, codes->bits, scratch);
    codes->kernels->listed(codes->base, scratch, codes->bits, measure->truth + (first + q) * measure->depth,
                           measure->used, distances);
    add_query(measure, merge_tables(counting.histograms + q * row, measure->bins), distances,
              measure->sums + chunk * (measure->nk + measure->nR));
  }
  return LAC_OK;
}

static lac_status check_cuts(lac_context *context, const char *what, const int64_t *cuts, int count) {
  for (int i = 0; i < count; i++) {
    if (cuts[i] < 1) {
      return lac_fail(context, LAC_E_USAGE, "%s of %lld, expected 1 or more", what, (long long)cuts[i]);
    }
  }
  return LAC_OK;
}

/* Looks at the whole truth, also at what no k reaches: a truth of another base should not pass for a good one. */
static lac_status check_truth(lac_context *context, const lac_measure *measure) {
  for (int64_t q = 0; q < measure->codes->queries; q++) {
    for (int64_t i = 0; i < measure->depth; i++) {
      int32_t id = measure->truth[q * measure->depth + i];
      if (id < 0 || id >= measure->codes->rows) {
        return lac_fail(context, LAC_E_INPUT, "truth: row %lld, column %lld, found %d, expected 0 to %lld",
                        (long long)q, (long long)i, id, (long long)measure->codes->rows - 1);
      }
    }
  }
  return LAC_OK;
}

static lac_status run_measure(lac_context *context, lac_measure *measure, int64_t threads, int64_t chunks) {
  int64_t outputs = measure->nk + measure->nR;
  LAC_TRY(lac_allocate(context, threads, measure->scratch_bytes, (void **)&measure->scratch));
  LAC_TRY(LAC_NEW(context, threads * GROUP * TABLES * measure->bins, &measure->histograms));
  LAC_TRY(LAC_NEW(context, threads * measure->used, &measure->distances));
  LAC_TRY(LAC_NEW(context, chunks * outputs, &measure->sums));
  return lac_parallel(context, threads, chunks, measure_group, measure);
}

/* Means over queries of output i, NaN where it is not known or there is no query. */
static double mean_of(const lac_measure *measure, int64_t chunks, int i, bool known) {
  double sum = 0;
  for (int64_t c = 0; c < chunks; c++) {
    sum += measure->sums[c * (measure->nk + measure->nR) + i];
  }
  return known ? sum / (double)measure->codes->queries : NAN;
}

lac_status lac_retrieval_measure_with(lac_context *context, const lac_codes *codes, const int32_t *truth, int64_t depth,
                                      const int64_t *ks, int nk, const int64_t *Rs, int nR, int64_t threads,
                                      double *precision, double *recall) {
  double start = lac_seconds();
  lac_measure measure = {codes, truth, depth, nR > 0, ks, Rs, nk, nR, codes->bits + 1};
  LAC_TRY(lac_codes_check(context, codes));
  LAC_TRY(check_cuts(context, "precision at k", ks, nk));
  LAC_TRY(check_cuts(context, "recall at R", Rs, nR));
  if (depth < 1) {
    return lac_fail(context, LAC_E_INPUT, "truth: %lld neighbours a query, expected 1 or more", (long long)depth);
  }
  LAC_TRY(check_truth(context, &measure));
  for (int i = 0; i < nk; i++) {
    measure.used = k_is_known(&measure, ks[i]) && ks[i] > measure.used ? ks[i] : measure.used;
  }
  measure.scratch_bytes = lac_codes_scratch_bytes(codes->bits, GROUP);
  int64_t chunks = (codes->queries + GROUP - 1) / GROUP;
  threads = threads > chunks ? chunks : threads;
  lac_status status = run_measure(context, &measure, threads < 1 ? 1 : threads, chunks);
  for (int i = 0; !status && i < nk; i++) {
    precision[i] = mean_of(&measure, chunks, i, k_is_known(&measure, ks[i]));
  }
  for (int i = 0; !status && i < nR; i++) {
    recall[i] = mean_of(&measure, chunks, nk + i, Rs[i] <= codes->rows);
  }
  lac_free(measure.sums);
  lac_free(measure.distances);
  lac_free(measure.histograms);
  lac_free(measure.scratch);
  lac_profile_add(context, "retrieval measure", lac_seconds() - start, 0, 0, 0);
  return status;
}

lac_status lac_retrieval_measure(lac_context *context, const uint8_t *base, int64_t rows, const uint8_t *query,
                                 int64_t queries, int64_t bits, const int32_t *truth, int64_t depth, const int64_t *ks,
                                 int nk, const int64_t *Rs, int nR, int64_t threads, double *precision,
                                 double *recall) {
  lac_codes codes = {lac_hamming_kernels_here(), base, query, rows, queries, bits};
  return lac_retrieval_measure_with(context, &codes, truth, depth, ks, nk, Rs, nR, threads, precision, recall);
}
