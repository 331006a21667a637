#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "data/format.h"
#include "hash/start.h"

enum { LAC_STATISTICS_ROWS = 8192, LAC_STATISTICS_BLOCK = 64 };

/* Of one run of rows. */
typedef struct lac_run_statistics {
  double *sum;       /* (D) */
  float *low, *high; /* (D) */
  double square;
} lac_run_statistics;

typedef struct lac_scan {
  const lac_dataset *data;
  int64_t columns;
  double *sums;      /* (runs, D) */
  float *low, *high; /* (runs, D) */
  double *squares;   /* (runs) */
} lac_scan;

static void scan_bytes(const uint8_t *rows, size_t stride, int64_t count, int64_t columns, uint32_t *sum, uint8_t *low,
                       uint8_t *high, lac_run_statistics *run) {
  int64_t square = 0;
  for (int64_t c = 0; c < columns; c++) {
    sum[c] = 0;
    low[c] = 255;
    high[c] = 0;
  }
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *row = rows + (size_t)i * stride;
    uint64_t of_row = 0;
    for (int64_t c = 0; c < columns; c++) {
      uint8_t value = row[c];
      sum[c] += value;
      of_row += (uint32_t)value * value;
      low[c] = value < low[c] ? value : low[c];
      high[c] = value > high[c] ? value : high[c];
    }
    square += (int64_t)of_row;
  }
  for (int64_t c = 0; c < columns; c++) {
    run->sum[c] = sum[c];
    run->low[c] = low[c];
    run->high[c] = high[c];
  }
  run->square = (double)square;
}

static void scan_floats(const float *rows, int64_t count, int64_t columns, lac_run_statistics *run) {
  for (int64_t i = 0; i < count; i++) {
    for (int64_t c = 0; c < columns; c++) {
      float value = rows[i * columns + c];
      run->sum[c] += (double)value;
      run->square += (double)value * (double)value;
      run->low[c] = value < run->low[c] ? value : run->low[c];
      run->high[c] = value > run->high[c] ? value : run->high[c];
    }
  }
}

static lac_status scan_run(void *argument, lac_context *context, int64_t number, int thread) {
  (void)thread;
  const lac_scan *scan = argument;
  int64_t columns = scan->columns, first = number * LAC_STATISTICS_ROWS;
  int64_t count = lac_dataset_rows(scan->data) - first;
  count = count < LAC_STATISTICS_ROWS ? count : LAC_STATISTICS_ROWS;
  lac_run_statistics run = {scan->sums + number * columns, scan->low + number * columns, scan->high + number * columns,
                            0};
  size_t stride;
  const uint8_t *bytes = lac_dataset_bytes(scan->data, &stride);
  if (bytes) {
    LAC_TRY(lac_dataset_check_rows(context, scan->data, first, count)); /* as reading them would */
    uint32_t *sum;
    uint8_t *range;
    LAC_TRY(LAC_NEW(context, columns, &sum));
    lac_status status = LAC_NEW(context, 2 * columns, &range);
    if (!status) {
      scan_bytes(bytes + (size_t)first * stride, stride, count, columns, sum, range, range + columns, &run);
    }
    lac_free(sum);
    lac_free(range);
    LAC_TRY(status);
  } else {
    float *rows;
    LAC_TRY(LAC_NEW(context, LAC_STATISTICS_BLOCK * columns, &rows));
    lac_status status = LAC_OK;
    for (int64_t c = 0; c < columns; c++) {
      run.low[c] = INFINITY;
      run.high[c] = -INFINITY;
    }
    for (int64_t i = 0; !status && i < count; i += LAC_STATISTICS_BLOCK) {
      int64_t n = count - i < LAC_STATISTICS_BLOCK ? count - i : LAC_STATISTICS_BLOCK;
      status = lac_dataset_read_f32(context, scan->data, first + i, n, rows);
      if (!status) {
        status = lac_check_finite(context, scan->data, first + i, rows, n);
      }
      if (!status) {
        scan_floats(rows, n, columns, &run);
      }
    }
    lac_free(rows);
    LAC_TRY(status);
  }
  scan->squares[number] = run.square;
  return lac_context_interrupted(context) ? lac_fail(context, LAC_E_INTERRUPTED, "interrupted while scanning the data")
                                          : LAC_OK;
}

/* sums (D + 2): column sums, square, rows; low and -high (D) folded into range (2 D) by minimum. */
static lac_status scan_shard(lac_context *context, const lac_dataset *data, int64_t threads, double *sums,
                             double *range) {
  int64_t rows = lac_dataset_rows(data), columns = lac_dataset_columns(data);
  int64_t runs = (rows + LAC_STATISTICS_ROWS - 1) / LAC_STATISTICS_ROWS;
  lac_scan scan = {.data = data, .columns = columns};
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, runs * columns, &scan.sums), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, runs * columns, &scan.low), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, runs * columns, &scan.high), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, runs, &scan.squares), done);
  LAC_TRY_GOTO(status, lac_parallel(context, threads, runs, scan_run, &scan), done);
  for (int64_t run = 0; run < runs; run++) {
    for (int64_t c = 0; c < columns; c++) {
      sums[c] += scan.sums[run * columns + c];
      range[c] = fmin(range[c], (double)scan.low[run * columns + c]);
      range[columns + c] = fmin(range[columns + c], -(double)scan.high[run * columns + c]);
    }
    sums[columns] += scan.squares[run];
  }
  sums[columns + 1] = (double)rows;
done:
  lac_free(scan.sums);
  lac_free(scan.low);
  lac_free(scan.high);
  lac_free(scan.squares);
  return status;
}

lac_status lac_statistics_create(lac_context *context, const lac_team *team, const lac_dataset *const *data,
                                 int64_t threads, lac_statistics *statistics) {
  int64_t columns = lac_dataset_columns(data[0]);
  double *sums = NULL, *total = NULL, *range = NULL;
  lac_status status = LAC_OK;
  *statistics = (lac_statistics){0};
  LAC_TRY_GOTO(status, LAC_NEW(context, team->count * (columns + 2), &sums), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, columns + 2, &total), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, 2 * columns, &range), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, columns, &statistics->mean), done);
  for (int64_t i = 0; i < 2 * columns; i++) {
    range[i] = INFINITY;
  }
  for (int shard = 0; !status && shard < team->count; shard++) {
    status = scan_shard(context, data[shard], threads, sums + shard * (columns + 2), range);
  }
  if (team->world) {
    status = lac_world_agree(team->world, status);
  }
  LAC_TRY_GOTO(status, status, done);
  LAC_TRY_GOTO(status, lac_team_sum_f64(context, team, sums, columns + 2, total), done);
  if (team->world) {
    LAC_TRY_GOTO(status, lac_world_min_f64(team->world, range, 2 * columns), done);
  }
  double points = total[columns + 1], inside = 0;
  statistics->points = (int64_t)points;
  statistics->low = INFINITY;
  statistics->high = -INFINITY;
  for (int64_t c = 0; c < columns; c++) {
    statistics->mean[c] = total[c] / points;
    inside += statistics->mean[c] * statistics->mean[c];
    statistics->low = fmin(statistics->low, range[c]);
    statistics->high = fmax(statistics->high, -range[columns + c]);
    statistics->constant += range[c] == -range[columns + c];
  }
  statistics->variance = fmax(total[columns] / points - inside, 0);
done:
  lac_free(sums);
  lac_free(total);
  lac_free(range);
  return status;
}
