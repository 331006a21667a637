/* What training hash codes takes, from short runs of the trainer on drawn points.
 *
 * The whole of a default run is made, all its iterations included and each over all points, with two numbers of points,
 * so that what does not depend on the points separates from what does, as the two terms of a line. Two parts change
 * over the iterations: the Z step, which finds less and less to do (and makes relaxed starts in the first of them only,
 * if at all), and what precedes the W step, which looks at changed bits only. Of each there is the mean of the first
 * LAC_HASH_EARLY iterations, which a run with more points makes on a subsample, and that of the others.
 *
 * The clocks are the thread's own, so that other work on the machine does not count; it disturbs all the same, and only
 * ever adds. Runs of the same points do the same work, so of each part the shortest time over several runs is taken.
 * The steps inside an iteration are known by the profile, which has elapsed time: they are stretched or shrunk by one
 * factor to what iterations compute.
 *
 * Visits of few submodels are timed apart, with two batches and more, at one number of points, and with hardly any
 * points for what a submodel takes whatever the points. A batch is never of one submodel: one of a decoder group alone
 * reads no points, and would halve what a visit seems to take. Batches of two (an encoder and a group) make as many
 * visits that read. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "laconic/profile.h"
#include "plan/calibration.h"
#include "plan/fit.h"

enum {
  ITERATIONS = 13,     /* the default of a run */
  SMALL = 10000,       /* points, but at least the sample that the start is found from, … */
  SAMPLE = 100000,     /* … and at most so many */
  LARGE = 3,           /* times as many */
  FEW = 256,           /* points, where what does not depend on them is sought */
  REPEATS = 3,         /* of a run, at most */
  SIZES = 2,           /* of whole runs */
  TIMINGS = SIZES + 4, /* of W steps */
  EVENTS = 64,
};

double lac_thread_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double lac_measured(double value) {
  if (!(value > 0)) {
    return 0;
  }
  double unit = pow(10, 4 - floor(log10(value)));
  return rint(value * unit) / unit;
}

/* Clocks at one moment; of the profile's events and of whole iterations the elapsed time so far. */
typedef struct moment {
  double cpu, w, z, train, all;
} moment;

/* A run. */
typedef struct probe {
  lac_context *context;
  moment begin, end[ITERATIONS + 1]; /* of the run; of iteration i */
  double finish;                     /* seconds of the thread at the beginning and, once it is over, of the end */
  int64_t iterations;
} probe;

/* Iterations of runs that do the same: the shortest of each step. */
typedef struct steps {
  double w[ITERATIONS + 1], z[ITERATIONS + 1], train[ITERATIONS + 1];
  double rest[ITERATIONS + 1]; /* what an iteration takes beside its steps, from the second on */
  double cpu[ITERATIONS + 1];  /* of the thread, in whole iterations, from the second on */
  double first;                /* from the beginning of the run to the end of iteration 1 */
  double finish;
  int64_t iterations;
} steps;

/* Seconds of the parts of a run: of the start and end in all, of the others in the mean of an iteration. */
typedef struct parts {
  double start, begin, early_begin, train, z, early_z, rest, finish;
} parts;

/* What a case is measured with. */
typedef struct measurement {
  lac_context *context;
  lac_hash_options options;
  int64_t columns;
  lac_type type;
  void *points;
  int64_t small;
  lac_fit_row timings[TIMINGS]; /* of W steps' visits, in the unknowns visit, encoder, handling */
  int64_t timing_count;
} measurement;

static moment now(const lac_context *context) {
  lac_event events[EVENTS];
  moment found = {.cpu = lac_thread_seconds()};
  int count = lac_profile_events(context, events, EVENTS);
  for (int i = 0; i < count && i < EVENTS; i++) {
    double *into = strcmp(events[i].name, "w step") == 0    ? &found.w
                   : strcmp(events[i].name, "z step") == 0  ? &found.z
                   : strcmp(events[i].name, "w train") == 0 ? &found.train
                                                            : NULL;
    if (into) {
      *into = events[i].seconds;
    }
  }
  return found;
}

static void watch(void *user, const lac_hash_progress *progress) {
  probe *run = user;
  if (strcmp(progress->phase, "train") == 0 && progress->mac.iteration <= ITERATIONS) {
    run->iterations = progress->mac.iteration;
    run->end[run->iterations] = now(run->context);
    run->end[run->iterations].all = progress->mac.total_seconds;
  } else if (strcmp(progress->phase, "finish") == 0) {
    run->finish = lac_thread_seconds();
  }
}

/* Trains on the first `rows` points. */
static lac_status run_once(const measurement *self, const lac_hash_options *options, int64_t rows, probe *run) {
  lac_dataset *data;
  lac_hash *model;
  lac_hash_result result;
  lac_team team = {.total = 1, .count = 1};
  size_t stride = (size_t)self->columns * lac_type_size(self->type);
  LAC_TRY(lac_dataset_borrow(self->context, self->points, self->type, rows, self->columns, stride, &data));
  const lac_dataset *shards[] = {data};
  *run = (probe){.context = self->context, .begin = now(self->context)};
  run->end[0] = run->begin;
  lac_status status = lac_hash_train(self->context, &team, shards, options, watch, run, &model, &result);
  run->finish = lac_thread_seconds() - run->finish;
  lac_hash_destroy(&model);
  lac_dataset_destroy(&data);
  return status;
}

static double least(int64_t repeat, double before, double value) {
  return repeat == 0 || value < before ? value : before;
}

static lac_status repeat_run(const measurement *self, const lac_hash_options *options, int64_t rows, int64_t repeats,
                             steps *all) {
  *all = (steps){.iterations = 0};
  for (int64_t r = 0; r < repeats; r++) {
    probe run;
    LAC_TRY(run_once(self, options, rows, &run));
    all->iterations = run.iterations;
    for (int64_t i = 1; i <= run.iterations; i++) {
      const moment *before = &run.end[i - 1], *after = &run.end[i];
      all->w[i] = least(r, all->w[i], after->w - before->w);
      all->z[i] = least(r, all->z[i], after->z - before->z);
      all->train[i] = least(r, all->train[i], after->train - before->train);
      all->rest[i] =
          least(r, all->rest[i], (after->all - before->all) - (after->w - before->w) - (after->z - before->z));
      all->cpu[i] = least(r, all->cpu[i], after->cpu - before->cpu);
    }
    all->first = least(r, all->first, run.end[1].cpu - run.begin.cpu);
    all->finish = least(r, all->finish, run.finish);
  }
  if (all->iterations < 1) {
    return lac_fail(self->context, LAC_E_NUMERICAL, "calibration: training made no iteration, expected 1 or more");
  }
  return LAC_OK;
}

/* What the iterations after the first compute over the elapsed time that the shortest of each step add up to. */
static double stretch_of(const steps *all) {
  double cpu = 0, elapsed = 0;
  for (int64_t i = 2; i <= all->iterations; i++) {
    cpu += all->cpu[i];
    elapsed += all->w[i] + all->z[i] + all->rest[i];
  }
  return cpu > 0 && elapsed > 0 ? cpu / elapsed : 1;
}

static parts parts_of(const steps *all) {
  double stretch = stretch_of(all), n = (double)all->iterations;
  parts sum = {.finish = all->finish};
  for (int64_t i = 1; i <= all->iterations; i++) {
    bool early = i <= LAC_HASH_EARLY;
    double of = early ? fmin(n, LAC_HASH_EARLY) : n - LAC_HASH_EARLY;
    *(early ? &sum.early_begin : &sum.begin) += stretch * fmax(all->w[i] - all->train[i], 0) / of;
    *(early ? &sum.early_z : &sum.z) += stretch * all->z[i] / of;
    sum.train += stretch * all->train[i] / n;
    sum.rest += i > 1 ? stretch * fmax(all->rest[i], 0) / (n - 1) : 0;
  }
  if (all->iterations <= LAC_HASH_EARLY) { /* the codes have settled before */
    sum.begin = sum.early_begin;
    sum.z = sum.early_z;
  }
  double first = stretch * (all->w[1] + all->z[1]) + sum.rest;
  sum.start = fmax(all->first - first, 0);
  return sum;
}

/* A timing of the visits of a W step in batches of `batch` submodels. */
static void add_timing(measurement *self, int64_t rows, int64_t batch, double seconds) {
  int64_t submodels = 2 * self->options.bits;
  int64_t visits = (submodels + batch - 1) / batch;
  if (seconds > 0) {
    double n = (double)rows;
    self->timings[self->timing_count++] = (lac_fit_row){
        .factor = {n * (double)visits, n * (double)self->options.bits, (double)submodels}, .seconds = seconds};
  }
}

/* Times W steps alone, from a start that costs little. */
static lac_status time_batch(measurement *self, int64_t rows, int64_t batch) {
  lac_hash_options options = self->options;
  steps all;
  options.init = LAC_INIT_RANDOM;
  options.sample = 1000;
  options.validation = 0;
  options.mac.iterations = 3;
  options.mac.batch = batch;
  LAC_TRY(repeat_run(self, &options, rows, 2, &all));
  add_timing(self, rows, batch, parts_of(&all).train);
  return LAC_OK;
}

static lac_status time_batches(measurement *self) {
  static const int64_t batches[] = {2, 8, 32};
  int64_t submodels = 2 * self->options.bits;
  int64_t few = self->options.encoder == LAC_ENCODER_RBF && self->options.centres > FEW ? self->options.centres : FEW;
  for (int i = 0; i < 3; i++) {
    if (batches[i] < submodels) {
      LAC_TRY(time_batch(self, self->small, batches[i]));
    }
  }
  return time_batch(self, few, submodels);
}

static lac_status measure(measurement *self, lac_hash_costs *costs) {
  double n[SIZES], start[SIZES], begin[SIZES], z[SIZES], early_begin[SIZES], early_z[SIZES], rest[SIZES], finish[SIZES];
  double x[LAC_FIT_UNKNOWNS], fixed[5], early = (double)LAC_HASH_EARLY / ITERATIONS;
  for (int size = 0; size < SIZES; size++) {
    int64_t rows = size ? LARGE * self->small : self->small;
    steps all;
    LAC_TRY(repeat_run(self, &self->options, rows, size ? REPEATS - 1 : REPEATS, &all));
    parts found = parts_of(&all);
    n[size] = (double)rows;
    start[size] = found.start;
    begin[size] = found.begin;
    z[size] = found.z;
    early_begin[size] = found.early_begin;
    early_z[size] = found.early_z;
    rest[size] = found.rest;
    finish[size] = found.finish;
    add_timing(self, rows, 2 * self->options.bits, found.train);
  }
  LAC_TRY(time_batches(self));
  lac_fit(self->timings, self->timing_count, LAC_FIT_UNKNOWNS, x);
  *costs = (lac_hash_costs){.basis = LAC_BASIS_MEASURED};
  costs->mac = (lac_mac_costs){.kinds = 2, .visit = x[0], .submodel = {x[1], 0}, .handling = x[2]};
  lac_fit_line(n, start, SIZES, &costs->start_fixed, &costs->start_point);
  lac_fit_line(n, finish, SIZES, &costs->finish_fixed, &costs->finish_point);
  lac_fit_line(n, begin, SIZES, &fixed[0], &costs->mac.begin);
  lac_fit_line(n, z, SIZES, &fixed[1], &costs->mac.z);
  lac_fit_line(n, early_begin, SIZES, &fixed[2], &costs->mac.early_begin);
  lac_fit_line(n, early_z, SIZES, &fixed[3], &costs->mac.early_z);
  lac_fit_line(n, rest, SIZES, &fixed[4], &costs->iteration_point);
  costs->iteration_fixed = (1 - early) * (fixed[0] + fixed[1]) + early * (fixed[2] + fixed[3]) + fixed[4];
  costs->mac.early = LAC_HASH_EARLY;
  return LAC_OK;
}

static void round_costs(lac_hash_costs *costs) {
  double *const all[] = {&costs->mac.begin,   &costs->mac.visit,       &costs->mac.submodel[0], &costs->mac.handling,
                         &costs->mac.z,       &costs->start_point,     &costs->mac.early_begin, &costs->mac.early_z,
                         &costs->start_fixed, &costs->iteration_point, &costs->iteration_fixed, &costs->finish_point,
                         &costs->finish_fixed};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    *all[i] = lac_measured(*all[i]);
  }
}

static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static lac_status check(lac_context *context, int64_t columns, lac_type type, const lac_hash_options *options) {
  lac_hash_estimate estimate;
  if (columns < 1 || (int)type < LAC_U8 || (int)type > LAC_I16) {
    return lac_fail(context, LAC_E_USAGE, "calibration: found %lld columns of type %d, expected at least 1 and a type",
                    (long long)columns, (int)type);
  }
  if (options->method != LAC_HASH_BA) {
    return lac_fail(context, LAC_E_USAGE, "calibration: found a method without W and Z steps, expected ba");
  }
  return lac_hash_train_estimate(context, options, SMALL, columns, type, 1, &estimate);
}

/* So many rows of a dataset, evenly spaced: bytes as they are, other types as float32. */
static lac_status take_rows(lac_context *context, const lac_dataset *base, int64_t count, measurement *self) {
  int64_t rows = lac_dataset_rows(base);
  size_t stride, bytes = (size_t)self->columns;
  const uint8_t *mapped = lac_dataset_bytes(base, &stride);
  self->type = mapped ? LAC_U8 : LAC_F32;
  LAC_TRY(lac_allocate(context, count * self->columns, lac_type_size(self->type), &self->points));
  for (int64_t i = 0; i < count; i++) {
    int64_t row = (int64_t)((double)i * (double)rows / (double)count);
    if (mapped) {
      memcpy((uint8_t *)self->points + (size_t)i * bytes, mapped + (size_t)row * stride, bytes);
    } else {
      LAC_TRY(lac_dataset_read_f32(context, base, row, 1, (float *)self->points + i * self->columns));
    }
  }
  return LAC_OK;
}

/* base NULL: drawn points. */
static lac_status measure_case(lac_context *context, lac_calibration *calibration, const lac_dataset *base,
                               int64_t columns, lac_type type, const lac_hash_options *options) {
  measurement self = {.context = context, .options = *options, .columns = columns, .type = type};
  lac_hash_entry entry = {.which = {columns, type, options->bits, options->encoder}};
  LAC_TRY(check(context, columns, type, options));
  lac_hash_options *mine = &self.options, resolved = *options;
  lac_hash_options_resolve(&resolved, SMALL, columns, 1);
  bool rbf = options->encoder == LAC_ENCODER_RBF;
  self.small = most(SMALL, most(resolved.sample, rbf ? 10 * most(options->centres, columns) : 0));
  self.small = self.small < SAMPLE ? self.small : SAMPLE;
  if (base && lac_dataset_rows(base) < LARGE * self.small) {
    self.small = lac_dataset_rows(base) / LARGE;
  }
  if (self.small < FEW) {
    return lac_fail(context, LAC_E_INPUT, "%s: found %lld rows, expected at least %d to measure with",
                    lac_dataset_path(base), (long long)lac_dataset_rows(base), LARGE * FEW);
  }
  entry.points = LARGE * self.small;
  mine->threads = 1;
  mine->mac.iterations = mine->mac.undo_limit = ITERATIONS; /* undone or not, it takes as long */
  mine->subsample = 1;
  mine->mac.batch = 0;
  mine->mac.epochs = 1; /* costs are per pass */
  mine->mac.local_epochs = false;
  lac_status status = base ? take_rows(context, base, entry.points, &self)
                           : lac_draw_points(context, type, entry.points, columns, &self.points);
  entry.which.type = self.type; /* of a base the one that is worked with */
  if (!status) {
    status = measure(&self, &entry.costs);
  }
  lac_free(self.points);
  LAC_TRY(status);
  round_costs(&entry.costs);
  return lac_calibration_put_hash(context, calibration, &entry, NULL);
}

lac_status lac_calibration_measure_hash(lac_context *context, lac_calibration *calibration, int64_t columns,
                                        lac_type type, const lac_hash_options *options) {
  return measure_case(context, calibration, NULL, columns, type, options);
}

lac_status lac_calibration_measure_base(lac_context *context, lac_calibration *calibration, const lac_dataset *base,
                                        const lac_hash_options *options) {
  return measure_case(context, calibration, base, lac_dataset_columns(base), lac_dataset_type(base), options);
}
