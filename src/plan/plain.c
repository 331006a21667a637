/* The plain speedup model of a ring (docs/planning.md): every submodel takes the same time per point, messages are not
 * overlapped with computing, and where P does not divide M all wait for the workers with one submodel more. */
#include <math.h>

#include "laconic/plan.h"

static double laps(const lac_ring_plain *model) {
  return model->local_epochs ? 2 : (double)model->epochs + 1;
}

/* Submodels of the fullest worker: ceil(M / P). */
static double fullest(const lac_ring_plain *model, int64_t workers) {
  int64_t most = (model->submodels + workers - 1) / workers;
  return (double)most;
}

void lac_plan_plain_times(const lac_ring_plain *model, int64_t workers, double *w, double *communication, double *z) {
  double most = fullest(model, workers), p = (double)workers;
  *w = most * (double)model->epochs * model->points * model->w;
  *communication = most * laps(model) * p * model->hop;
  *z = (double)model->submodels * model->points / p * model->z;
}

double lac_plan_plain_speedup(const lac_ring_plain *model, int64_t workers) {
  double w, communication, z;
  lac_plan_plain_times(model, workers, &w, &communication, &z);
  double alone = (double)model->submodels * model->points * (model->z + (double)model->epochs * model->w);
  return alone / (w + communication + z);
}

void lac_plan_plain_best(const lac_ring_plain *model, double *workers, double *speedup) {
  double m = (double)model->submodels, n = model->points;
  double rho_1 = model->z / (laps(model) * model->hop);
  double rho_2 = (double)model->epochs * model->w / (laps(model) * model->hop);
  if (rho_1 * n >= m) {
    *workers = sqrt(rho_1 * m * n);
    *speedup = (rho_1 + rho_2) * m / (rho_2 + 2 * sqrt(rho_1 * m / n));
  } else {
    *workers = m;
    *speedup = lac_plan_plain_speedup(model, model->submodels);
  }
}
