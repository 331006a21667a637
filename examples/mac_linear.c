/* A MAC problem of one's own, run by Laconic's ring: the network y = a (w.x) with one hidden unit, x and y in the
 * plane.
 *
 * The hidden unit's value z_n at every point is the auxiliary coordinate. Given z, the two layers are three independent
 * least-squares fits, the submodels: z from x (w), y_1 from z (a_1), y_2 from z (a_2). Each travels as its normal
 * equations: the workers add their points' sums in turn, and whoever holds the total can solve. Given the layers, the
 * best z_n is a formula. Data and coordinates stay where they are. Exits 0 when the ring and the serial engine agree
 * bit for bit and the network has found the one that made the data. */
#include <laconic/laconic.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 3000, WORKERS = 3, SUBMODELS = 3, LOCAL = POINTS / WORKERS };

typedef struct layers {
  double w[2], a[2];
} layers;

typedef struct shard {
  double x[LOCAL][2], y[LOCAL][2];
  double z[LOCAL], kept_z[LOCAL];
  layers model, kept_model;
} shard;

/* Normal equations of a fit with at most two unknowns. */
typedef struct sums {
  double ff[2][2], ft[2]; /* features by features, features by target */
} sums;

static size_t submodel_bytes(const void *self, int64_t m) {
  (void)self, (void)m;
  return sizeof(sums);
}

static lac_status w_begin(void *self, lac_context *context, int64_t iteration) {
  (void)self, (void)context, (void)iteration; /* sums do not depend on the order of the points: nothing to shuffle */
  return LAC_OK;
}

static lac_status pack(void *self, lac_context *context, int64_t m, void *state) {
  (void)self, (void)context, (void)m;
  memset(state, 0, sizeof(sums));
  return LAC_OK;
}

static lac_status train(void *self, lac_context *context, int64_t count, const int64_t *ids, const int64_t *visits,
                        int64_t passes, void *const *states) {
  (void)context, (void)visits, (void)passes;
  const shard *data = self;
  for (int64_t i = 0; i < count; i++) {
    sums *total = states[i];
    for (int n = 0; n < LOCAL; n++) {
      const double hidden[2] = {data->z[n], 0};
      const double *feature = ids[i] == 0 ? data->x[n] : hidden;
      double target = ids[i] == 0 ? data->z[n] : data->y[n][ids[i] - 1];
      for (int j = 0; j < 2; j++) {
        total->ft[j] += feature[j] * target;
        for (int k = 0; k < 2; k++) {
          total->ff[j][k] += feature[j] * feature[k];
        }
      }
    }
  }
  return LAC_OK;
}

static lac_status unpack(void *self, lac_context *context, int64_t m, const void *state) {
  (void)context;
  layers *model = &((shard *)self)->model;
  const sums *s = state;
  if (m == 0) {
    double determinant = s->ff[0][0] * s->ff[1][1] - s->ff[0][1] * s->ff[1][0];
    model->w[0] = (s->ft[0] * s->ff[1][1] - s->ft[1] * s->ff[0][1]) / determinant;
    model->w[1] = (s->ft[1] * s->ff[0][0] - s->ft[0] * s->ff[1][0]) / determinant;
  } else {
    model->a[m - 1] = s->ft[0] / s->ff[0][0];
  }
  return LAC_OK;
}

static double hidden_unit(const layers *model, const double *x) {
  return model->w[0] * x[0] + model->w[1] * x[1];
}

static double squared_error(const layers *model, const double *y, double z) {
  return pow(y[0] - model->a[0] * z, 2) + pow(y[1] - model->a[1] * z, 2);
}

static lac_status z_step(void *self, lac_context *context, double mu, lac_mac_sums *result) {
  (void)context;
  shard *data = self;
  const layers *model = &data->model;
  *result = (lac_mac_sums){.points = LOCAL, .disagreements = LOCAL};
  for (int n = 0; n < LOCAL; n++) {
    double unit = hidden_unit(model, data->x[n]);
    data->z[n] = (model->a[0] * data->y[n][0] + model->a[1] * data->y[n][1] + mu * unit) /
                 (model->a[0] * model->a[0] + model->a[1] * model->a[1] + mu);
    result->penalised += 0.5 * (squared_error(model, data->y[n], data->z[n]) + mu * pow(data->z[n] - unit, 2));
    result->nested += 0.5 * squared_error(model, data->y[n], unit);
  }
  return LAC_OK;
}

static lac_status save(void *self, lac_context *context) {
  (void)context;
  shard *data = self;
  data->kept_model = data->model;
  memcpy(data->kept_z, data->z, sizeof data->z);
  return LAC_OK;
}

static lac_status restore(void *self, lac_context *context) {
  (void)context;
  shard *data = self;
  data->model = data->kept_model;
  memcpy(data->z, data->kept_z, sizeof data->z);
  return LAC_OK;
}

static const lac_mac_problem problem = {.name = "linear",
                                        .submodels = SUBMODELS,
                                        .submodel_bytes = submodel_bytes,
                                        .w_begin = w_begin,
                                        .pack = pack,
                                        .train = train,
                                        .unpack = unpack,
                                        .z_step = z_step,
                                        .save = save,
                                        .restore = restore};
static const lac_mac_options options = {
    .iterations = 40, .mu = 0.1, .mu_factor = 1.5, .epochs = 1, .undo_limit = 1, .seed = 1};
static const layers truth = {{0.6, -0.8}, {2, 1}};

/* y = the true network's answer plus noise; z starts as y_1. */
static void make_shard(shard *data, unsigned state) {
  for (int n = 0; n < LOCAL; n++) {
    double random[4];
    for (int i = 0; i < 4; i++) {
      state = state * 1664525u + 1013904223u;
      random[i] = (state >> 8) / 8388608.0 - 1;
    }
    double unit = hidden_unit(&truth, random);
    for (int j = 0; j < 2; j++) {
      data->x[n][j] = random[j];
      data->y[n][j] = truth.a[j] * unit + 0.05 * random[2 + j];
    }
    data->z[n] = data->y[n][0];
  }
}

/* One worker of the ring: its shard, and what it was told. */
static lac_status work(lac_world *world, void *argument) {
  int rank = lac_world_rank(world);
  shard *mine = (shard *)argument + rank;
  void *shards[] = {mine};
  lac_team team = {.world = world, .total = WORKERS, .first = rank, .count = 1};
  lac_mac_result result;
  lac_status status = lac_mac_run(lac_world_context(world), &team, &problem, shards, &options, NULL, NULL, &result);
  if (!status && rank == 0) {
    printf("%lld W steps, %lld messages, %lld bytes\n", (long long)result.w_steps, (long long)result.messages,
           (long long)result.bytes);
  }
  return status;
}

int main(void) {
  static shard ring[WORKERS], serial[WORKERS];
  void *shards[WORKERS];
  for (int p = 0; p < WORKERS; p++) {
    make_shard(&ring[p], 7u + (unsigned)p);
    make_shard(&serial[p], 7u + (unsigned)p);
    shards[p] = &serial[p];
  }
  lac_context *context;
  if (lac_context_create(&context)) {
    fprintf(stderr, "no memory\n");
    return 1;
  }
  lac_world_options world = {.backend = "local", .workers = WORKERS};
  lac_team team = {.total = WORKERS, .count = WORKERS};
  lac_mac_result result;
  lac_status status = lac_world_run(context, &world, work, ring);
  if (!status) {
    status = lac_mac_run(context, &team, &problem, shards, &options, NULL, NULL, &result);
  }
  if (status) {
    fprintf(stderr, "%s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  if (status) {
    return lac_status_exit(status);
  }
  const layers *found = &ring[0].model;
  bool equal = memcmp(found, &serial[0].model, sizeof *found) == 0;
  double worst = 0;
  for (int i = 0; i < 2; i++) {
    for (int j = 0; j < 2; j++) {
      worst = fmax(worst, fabs(found->a[i] * found->w[j] - truth.a[i] * truth.w[j]));
    }
  }
  printf("largest error of the network's 2 x 2 matrix: %.4f; ring and serial engine %s\n", worst,
         equal ? "agree bit for bit" : "differ");
  return equal && worst < 0.01 ? 0 : 1;
}
