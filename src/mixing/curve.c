#include "mixing/curve.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

static const double threshold = 0.25;

int64_t lac_curve_after(int64_t time) {
  return time + 1 + time / 100;
}

void lac_curve_close(lac_curve *curve) {
  lac_free(curve->time);
  lac_free(curve->sum);
  lac_free(curve->square);
}

lac_status lac_curve_open(lac_context *context, int64_t horizon, lac_curve *curve) {
  *curve = (lac_curve){0};
  int64_t count = 1;
  for (int64_t t = 0; t < horizon; t = lac_curve_after(t)) {
    count++;
  }
  curve->count = count;
  LAC_TRY(LAC_NEW(context, count, &curve->time));
  LAC_TRY(LAC_NEW(context, count, &curve->sum));
  LAC_TRY(LAC_NEW(context, count, &curve->square));
  for (int64_t k = 1; k < count; k++) {
    curve->time[k] = lac_curve_after(curve->time[k - 1]);
  }
  return LAC_OK;
}

void lac_curve_add(lac_curve *curve, int64_t k, double distance) {
  curve->sum[k] += distance;
  curve->square[k] += distance * distance;
}

bool lac_curve_crossing(const lac_curve *curve, double *time, double *error) {
  double paths = (double)curve->paths;
  int64_t k = 0;
  while (k < curve->count && curve->sum[k] / paths > threshold) {
    k++;
  }
  if (k == curve->count) {
    return false;
  }
  if (k == 0) {
    *time = *error = 0;
    return true;
  }
  double before = curve->sum[k - 1] / paths, after = curve->sum[k] / paths;
  double t0 = (double)curve->time[k - 1], t1 = (double)curve->time[k];
  *time = t0 + (t1 - t0) * (before - threshold) / (before - after);
  if (t1 - t0 <= 1) {
    *time = t1; /* between two events there is nothing */
  }
  int64_t low = k - 1, high = k;
  while (low > 0 && (k - low < 4 || (double)curve->time[low] > 0.8 * t1)) {
    low--;
  }
  while (high < curve->count - 1 && (high - k < 4 || (double)curve->time[high] < 1.25 * t1)) {
    high++;
  }
  double slope = (curve->sum[low] - curve->sum[high]) / paths / (double)(curve->time[high] - curve->time[low]);
  double variance = fmax(0, curve->square[k] / paths - after * after) / fmax(1, paths - 1);
  *error = slope > 0 ? sqrt(variance) / slope : (double)INFINITY;
  return true;
}

/* Four sums, which the processor forms side by side. */
static double total_variation(int64_t columns, const double *row, const double *mean) {
  double part[4] = {0};
  int64_t c = 0;
  for (; c + 4 <= columns; c += 4) {
    for (int k = 0; k < 4; k++) {
      part[k] += fabs(row[c + k] - mean[c + k]);
    }
  }
  for (; c < columns; c++) {
    part[0] += fabs(row[c] - mean[c]);
  }
  return ((part[0] + part[1]) + (part[2] + part[3])) / 2;
}

double lac_curve_distance(int64_t workers, int64_t columns, const double *x, double *mean) {
  double most = 0;
  memset(mean, 0, (size_t)columns * sizeof *mean);
  for (int64_t i = 0; i < workers; i++) {
    for (int64_t c = 0; c < columns; c++) {
      mean[c] += x[i * columns + c];
    }
  }
  for (int64_t c = 0; c < columns; c++) {
    mean[c] /= (double)workers;
  }
  for (int64_t i = 0; i < workers; i++) {
    most = fmax(most, total_variation(columns, x + i * columns, mean));
  }
  return most;
}
