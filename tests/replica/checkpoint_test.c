/* Checkpoints through the library: what is written is what comes back, on the same number of workers and on another. */
#include <math.h>

#include "comm/workers.h"
#include "laconic/checkpoint.h"
#include "laconic/tensors.h"

enum { N = 257, BATCHES = 5 };

static const char model[] = "a made-up model";

/* Towards a point that differs by worker and batch. */
static lac_status slope(void *user, lac_context *context, int64_t step, const float *x, float *gradient,
                        lac_batch_result *result) {
  (void)context;
  int worker = *(const int *)user;
  *result = (lac_batch_result){.loss = 1.0 / (double)(3 + step + worker), .errors = step % 3, .points = 5};
  for (int i = 0; i < N; i++) {
    gradient[i] = 0.5F * (x[i] - (float)(worker + i % 7 + (step * 3 + i) % 5));
  }
  return LAC_OK;
}

static lac_replica_options settings(bool overlap) {
  return (lac_replica_options){.method = LAC_METHOD_PARLE,
                               .epochs = 10,
                               .inner_steps = 3,
                               .average = 0.25,
                               .gamma = 100,
                               .rho = 1,
                               .scoping = 1,
                               .optimizer = {.kind = LAC_OPTIMIZER_NESTEROV, .momentum = 0.9},
                               .outer_momentum = 0.9,
                               .learning_rate = 0.05,
                               .drop_factor = 0.2,
                               .overlap = overlap};
}

typedef struct job {
  lac_replica_options options;
  const char *path;
  bool taken_up;
  float *x;                  /* (workers, N), of the replicas that are in this process */
  lac_replica_progress *end; /* (workers), if not NULL */
} job;

static lac_status create(lac_context *context, lac_world *world, const job *j, int *rank, lac_replica **replica) {
  static const float start[N] = {0};
  *rank = lac_world_rank(world);
  lac_objective objective = {.parameters = N, .batches_per_pass = BATCHES, .gradient = slope, .user = rank};
  return lac_replica_create(context, world, &objective, &j->options, start, replica);
}

/* Seven outer steps, of which the first four are written down. */
static lac_status write_body(lac_world *world, void *argument) {
  const job *j = argument;
  lac_context *context = lac_world_context(world);
  lac_checkpoint_writer *writer = NULL;
  lac_checkpoint *checkpoint = NULL;
  lac_replica *replica;
  int rank;
  lac_status status = create(context, world, j, &rank, &replica);
  if (!status && rank == 0) {
    status = lac_checkpoint_writer_create(context, j->path, model, &writer);
  }
  for (int part = 0; part < 3 && !status; part++) { /* twice, so that one replaces another while it may be on its way */
    status = lac_replica_advance(context, replica, part < 2 ? 2 : 3);
    if (!status && part < 2) {
      status = lac_checkpoint_gather(context, world, replica, &checkpoint);
    }
    if (!status && part < 2 && rank == 0) {
      status = lac_checkpoint_writer_put(context, writer, &checkpoint, "sums so far");
    }
  }
  if (!status && rank == 0) {
    status = lac_checkpoint_writer_wait(context, writer);
  }
  if (!status) {
    memcpy(j->x + (size_t)rank * N, lac_replica_own(replica), N * sizeof(float));
  }
  if (!status && j->end) {
    j->end[rank] = lac_replica_progress_of(replica);
  }
  lac_checkpoint_writer_destroy(&writer);
  lac_replica_destroy(&replica);
  return status;
}

static lac_status resume_body(lac_world *world, void *argument) {
  const job *j = argument;
  lac_context *context = lac_world_context(world);
  lac_checkpoint_file *file = NULL;
  lac_replica *replica;
  int rank;
  lac_status status = create(context, world, j, &rank, &replica);
  if (!status) {
    status = lac_checkpoint_open(context, j->path, model, N, &file);
  }
  if (!status) {
    status = lac_checkpoint_restore(context, file, rank, lac_world_size(world), replica);
  }
  if (!status && (strcmp(lac_checkpoint_totals(file), "sums so far") != 0 ||
                  lac_replica_progress_of(replica).step != 4 || lac_replica_progress_of(replica).gradients != 12)) {
    status = lac_fail(context, LAC_E_INTERNAL, "other totals or counters");
  }
  if (!status && lac_replica_progress_of(replica).points !=
                     (lac_checkpoint_replicas(file) == lac_world_size(world) ? 12 * 5 : 0)) {
    status = lac_fail(context, LAC_E_INTERNAL, "%d points in the means", (int)lac_replica_progress_of(replica).points);
  }
  if (!status && j->taken_up) {
    status = lac_replica_advance(context, replica, 3);
  }
  if (!status) {
    memcpy(j->x + (size_t)rank * N, lac_replica_own(replica), N * sizeof(float));
  }
  if (!status && j->end) {
    j->end[rank] = lac_replica_progress_of(replica);
  }
  lac_checkpoint_close(&file);
  lac_replica_destroy(&replica);
  return status;
}

static lac_world_options threads(int count) {
  return (lac_world_options){.backend = "local", .workers = count, .timeout_ms = 60000};
}

static void taken_up_is_as_never_put_down(void **state) {
  (void)state;
  for (int overlap = 0; overlap < 2; overlap++) {
    float whole[3 * N], resumed[3 * N];
    lac_replica_progress end[2][3];
    job j = {.options = settings(overlap), .path = "c.safetensors", .taken_up = true, .x = whole, .end = end[0]};
    run(threads(3), write_body, &j, LAC_OK, NULL);
    j.x = resumed;
    j.end = end[1];
    run(threads(3), resume_body, &j, LAC_OK, NULL);
    assert_memory_equal(whole, resumed, sizeof whole);
    for (int r = 0; r < 3; r++) { /* the means are those of all 21 gradients, in the same order */
      assert_true(end[0][r].points == 21 * 5 && end[1][r].points == 21 * 5);
      assert_true(end[0][r].errors == 21 && end[1][r].errors == 21);
      assert_memory_equal(&end[0][r].loss, &end[1][r].loss, sizeof(double));
    }
  }
}

/* The vectors in the file, read as any reader would, are averaged here in double. */
static void others_start_at_the_mean(void **state) {
  float whole[3 * N], fewer[2 * N], stored[N];
  job j = {.options = settings(false), .path = "c.safetensors", .x = whole};
  run(threads(3), write_body, &j, LAC_OK, NULL);
  double mean[N] = {0};
  lac_tensors *file;
  assert_ok(*state, lac_tensors_open(*state, "c.safetensors", &file));
  for (int r = 0; r < 3; r++) {
    char name[16];
    snprintf(name, sizeof name, "%d.x", r);
    assert_non_null(lac_tensors_find(file, name));
    assert_ok(*state, lac_tensors_read(*state, file, lac_tensors_find(file, name), stored));
    for (int i = 0; i < N; i++) {
      mean[i] += (double)stored[i] / 3;
    }
  }
  lac_tensors_close(&file);
  j.x = fewer;
  run(threads(2), resume_body, &j, LAC_OK, NULL);
  for (int i = 0; i < 2 * N; i++) {
    assert_true(fabs((double)fewer[i] - mean[i % N]) < 1e-5);
  }
}

/* Without rounds: worker r makes r steps more than the one before it, and goes on from there. */
static lac_status uneven_body(lac_world *world, void *argument) {
  const job *j = argument;
  lac_context *context = lac_world_context(world);
  lac_checkpoint *checkpoint = NULL;
  lac_checkpoint_file *file = NULL;
  lac_replica *replica;
  int rank;
  lac_status status = create(context, world, j, &rank, &replica);
  if (!status) {
    status = lac_replica_advance(context, replica, 2 + 3 * rank);
  }
  if (!status) {
    status = lac_checkpoint_gather(context, world, replica, &checkpoint);
  }
  if (!status && rank == 0) {
    lac_checkpoint_writer *writer;
    status = lac_checkpoint_writer_create(context, j->path, model, &writer);
    status = status ? status : lac_checkpoint_writer_put(context, writer, &checkpoint, "sums so far");
    status = status ? status : lac_checkpoint_writer_wait(context, writer);
    lac_checkpoint_writer_destroy(&writer);
  }
  if (!status) {
    status = lac_world_barrier(world);
  }
  lac_replica_destroy(&replica);
  if (!status) {
    status = create(context, world, j, &rank, &replica);
  }
  if (!status) {
    status = lac_checkpoint_open(context, j->path, model, N, &file);
  }
  for (int count = 3; count >= 2 && !status; count--) { /* as many as there were, and others: where worker 0 stood */
    status = lac_checkpoint_restore(context, file, rank, count, replica);
    lac_replica_progress progress = lac_replica_progress_of(replica);
    int64_t step = count == 3 ? 2 + 3 * rank : 2;
    if (!status && (progress.step != step || progress.gradients != step)) {
      status =
          lac_fail(context, LAC_E_INTERNAL, "worker %d: step %d, expected %d", rank, (int)progress.step, (int)step);
    }
  }
  lac_checkpoint_close(&file);
  lac_replica_destroy(&replica);
  return status;
}

static void each_worker_goes_on_where_it_stood(void **state) {
  (void)state;
  job j = {.options = settings(false), .path = "c.safetensors"};
  j.options.method = LAC_METHOD_SGD;
  j.options.exchange = (lac_process_options){.protocol = LAC_PROTOCOL_ADPSGD, .topology.kind = LAC_TOPOLOGY_RING};
  run(threads(3), uneven_body, &j, LAC_OK, NULL);
}

static void other_models_are_refused(void **state) {
  float x[N];
  job j = {.options = settings(false), .path = "c.safetensors", .x = x};
  run(threads(1), write_body, &j, LAC_OK, NULL);
  lac_checkpoint_file *file;
  assert_failure(*state, lac_checkpoint_open(*state, "c.safetensors", "another", N, &file), LAC_E_INPUT,
                 "another network");
  assert_failure(*state, lac_checkpoint_open(*state, "c.safetensors", model, N + 1, &file), LAC_E_INPUT, "258");
  assert_failure(*state, lac_checkpoint_open(*state, "gone.safetensors", model, N, &file), LAC_E_INPUT, "gone");
  assert_null(file);
  /* Other vectors: sgd has no inner ones to give. */
  j.options.method = LAC_METHOD_SGD;
  run(threads(1), write_body, &j, LAC_OK, NULL);
  j.options = settings(false);
  run(threads(1), resume_body, &j, LAC_E_INPUT, "0.inner.0");
}

/* A path that cannot be written: the failure comes with the next call, and nothing is left behind. */
static void failures_are_told(void **state) {
  float x[N];
  job j = {.options = settings(false), .path = "gone/c.safetensors", .x = x};
  run(threads(1), write_body, &j, LAC_E_OUTPUT, "gone/c.safetensors");
  (void)state;
}

static char folder[64];

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(taken_up_is_as_never_put_down),
      cmocka_unit_test_setup_teardown(others_start_at_the_mean, make_context, drop_context),
      cmocka_unit_test(each_worker_goes_on_where_it_stood),
      cmocka_unit_test_setup_teardown(other_models_are_refused, make_context, drop_context),
      cmocka_unit_test(failures_are_told),
  };
  enter_folder(folder);
  backend = "local";
  workers = 3;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  leave_folder(folder);
  return failed;
}
