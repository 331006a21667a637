#include "mac/path.h"

#include "base/memory.h"
#include "base/random.h"

/* The cyclic order of the workers in one epoch. */
static void draw_ring(const lac_mac_options *options, int64_t iteration, int64_t epoch, int64_t *order,
                      lac_path *path) {
  lac_random stream = lac_random_stream(options->seed, LAC_RANDOM_RING, (uint64_t)iteration, (uint64_t)epoch);
  int *successor = path->successor + epoch * path->workers;
  lac_random_permutation(&stream, path->workers, order);
  for (int i = 0; i < path->workers; i++) {
    successor[order[i]] = (int)order[(i + 1) % path->workers];
  }
}

lac_status lac_path_create(lac_context *context, const lac_mac_options *options, int64_t submodels, int workers,
                           int64_t iteration, lac_path *path) {
  int64_t rings = options->local_epochs ? 1 : options->epochs;
  *path = (lac_path){.submodels = submodels,
                     .workers = workers,
                     .rings = rings,
                     .training = rings * workers,
                     .visits = (rings + 1) * workers - 1};
  int64_t *order;
  LAC_TRY(LAC_NEW(context, workers, &order));
  lac_status status = LAC_NEW(context, rings * workers, &path->successor);
  for (int64_t epoch = 0; epoch < rings && !status; epoch++) {
    draw_ring(options, iteration, epoch, order, path);
  }
  lac_free(order);
  return status;
}

void lac_path_destroy(lac_path *path) {
  lac_free(path->successor);
  path->successor = NULL;
}

int64_t lac_path_first(const lac_path *path, int worker) {
  return worker * path->submodels / path->workers;
}

int lac_path_start(const lac_path *path, int64_t submodel) {
  /* the last worker whose block begins at or before the submodel */
  return (int)(((submodel + 1) * path->workers - 1) / path->submodels);
}

int lac_path_next(const lac_path *path, int worker, int64_t visit) {
  if (visit + 1 >= path->visits) {
    return -1;
  }
  int64_t epoch = (visit + 1) / path->workers;
  int64_t ring = epoch < path->rings ? epoch : path->rings - 1;
  return path->successor[ring * path->workers + worker];
}
