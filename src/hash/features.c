/* The inputs of an RBF encoder: features around centres that are drawn from all shards. */
#include <inttypes.h>
#include <math.h>

#include "base/memory.h"
#include "hash/run.h"

typedef struct lac_centres {
  const lac_run *run;
  int64_t columns, padded, place; /* place: of a shard's first among all */
  double *centres;                /* (m, D), in the units of the data */
} lac_centres;

static lac_status put_centres(void *self, lac_context *context, int64_t first, int64_t n, const float *x) {
  (void)context;
  const lac_centres *to = self;
  for (int64_t i = 0; i < n && to->place + first + i < to->run->options->centres; i++) {
    double *centre = to->centres + (to->place + first + i) * to->columns;
    for (int64_t c = 0; c < to->columns; c++) {
      centre[c] = ((double)x[i * to->padded + c] - (double)to->run->shift[c]) / (double)to->run->scale;
    }
  }
  return LAC_OK;
}

/* Centres are points of the data, drawn from all shards: with the model they are the only points that travel. */
static lac_status draw_centres(lac_run *run) {
  int64_t m = run->options->centres, columns = run->common.columns;
  const lac_team *team = run->team;
  const lac_rows **views = NULL;
  double *mine = NULL, *all = NULL;
  int64_t *mark = NULL, *before = NULL;
  lac_start_sample sample = {0};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count, &views), done);
  for (int shard = 0; shard < team->count; shard++) {
    views[shard] = &run->trainers[shard].x;
  }
  /* Rounded up shares give m rows or a few more, in shard order; the first m are taken. */
  LAC_TRY_GOTO(status, lac_start_sample_create(run->context, team, views, run->options->seed, m, &sample), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count * team->total, &mark), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->total, &before), done);
  for (int shard = 0; shard < team->count; shard++) {
    mark[shard * team->total + team->first + shard] = sample.shards[shard].count;
  }
  LAC_TRY_GOTO(status, lac_team_sum_i64(run->context, team, mark, team->total, before), done);
  if (sample.total < m) {
    status = lac_fail(run->context, LAC_E_INPUT,
                      "--centres: found %" PRId64 " for %" PRId64 " points, expected at most as many", m, sample.total);
    goto done;
  }
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count * m * columns, &mine), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, m * columns, &all), done);
  for (int shard = 0; shard < team->count; shard++) {
    int64_t place = 0;
    for (int other = 0; other < team->first + shard; other++) {
      place += before[other];
    }
    lac_centres centres = {run, columns, lac_padded(columns), place, mine + shard * m * columns};
    LAC_TRY_GOTO(status, lac_start_blocks(run->context, &sample, shard, put_centres, &centres), done);
  }
  LAC_TRY_GOTO(status, lac_team_sum_f64(run->context, team, mine, m * columns, all), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, m * columns, &run->centres), done);
  for (int64_t i = 0; i < m * columns; i++) {
    run->centres[i] = (float)all[i];
  }
  run->width = run->options->width > 0 ? run->options->width : sqrt(run->statistics.variance);
done:
  lac_free(views);
  lac_free(mine);
  lac_free(all);
  lac_free(mark);
  lac_free(before);
  lac_start_sample_clear(team, &sample);
  return status;
}

/* Features of one shard's rows, and their column sums (m). */
static lac_status make_features(lac_run *run, const lac_rbf *rbf, int shard, double *sums) {
  int64_t m = run->options->centres, columns = run->common.columns, rows = run->trainers[shard].x.count;
  float *block = NULL, *scratch = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(run->context, rows * m, &run->features[shard]), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, LAC_BLOCK * columns, &block), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, lac_rbf_scratch(rbf), &scratch), done);
  for (int64_t first = 0; first < rows; first += LAC_BLOCK) {
    int64_t n = rows - first < LAC_BLOCK ? rows - first : LAC_BLOCK;
    uint8_t *out = run->features[shard] + first * m;
    LAC_TRY_GOTO(status, lac_dataset_read_f32(run->context, run->data[shard], first, n, block), done);
    lac_rbf_features(rbf, block, n, scratch, out);
    for (int64_t i = 0; i < n * m; i++) {
      sums[i % m] += out[i];
    }
    if (lac_context_interrupted(run->context)) {
      status = lac_fail(run->context, LAC_E_INTERRUPTED, "interrupted while computing features");
      goto done;
    }
  }
  LAC_TRY_GOTO(
      status,
      lac_dataset_borrow(run->context, run->features[shard], LAC_U8, rows, m, (size_t)m, &run->feature_data[shard]),
      done);
done:
  lac_free(block);
  lac_free(scratch);
  return status;
}

/* A width far above the distances makes all features 1, one far below them 0 but at the centres themselves: then there
 * is nothing to learn. `total` (m) are sums of bytes over all points. */
static lac_status check_features(const lac_run *run, const double *total, int64_t m) {
  const double full = 255 * (double)run->statistics.points, hardly = 0.5 / 255;
  double most = 0;
  for (int64_t i = 0; i < m; i++) {
    most = fmax(most, fmin(total[i], full - total[i]) / full);
  }
  if (most >= hardly && most > 1 / (double)run->statistics.points) {
    return LAC_OK;
  }
  return lac_fail(run->context, LAC_E_INPUT,
                  "--width: found %g, with which all features of the RBF encoder are nearly %s everywhere; distances "
                  "between points are about %g",
                  run->width, total[0] > full / 2 ? "1" : "0", sqrt(2 * run->statistics.variance));
}

lac_status lac_run_set_features(lac_run *run) {
  int64_t m = run->options->centres;
  const lac_team *team = run->team;
  double *sums = NULL, *total = NULL;
  lac_rbf *rbf = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, draw_centres(run), done);
  LAC_TRY_GOTO(status, lac_rbf_create(run->context, run->centres, m, run->common.columns, run->width, &rbf), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count, &run->features), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count, &run->feature_data), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, team->count * m, &sums), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, m, &total), done);
  LAC_TRY_GOTO(status, LAC_NEW(run->context, lac_padded(m), &run->feature_shift), done);
  for (int shard = 0; shard < team->count; shard++) {
    LAC_TRY_GOTO(status, make_features(run, rbf, shard, sums + shard * m), done);
  }
  LAC_TRY_GOTO(status, lac_team_sum_f64(run->context, team, sums, m, total), done);
  LAC_TRY_GOTO(status, check_features(run, total, m), done);
  for (int64_t i = 0; i < m; i++) {
    run->feature_shift[i] = (float)(-total[i] / ((double)run->statistics.points * 255));
  }
  for (int shard = 0; shard < team->count; shard++) {
    run->trainers[shard].input = lac_run_rows(run->feature_data[shard], 1.0F / 255, run->feature_shift);
  }
  run->common.features = m;
done:
  lac_rbf_destroy(&rbf);
  lac_free(sums);
  lac_free(total);
  return status;
}
