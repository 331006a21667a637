/* The oneDNN back end beside the reference on whole networks, and what holds for it alone: the same bits on every call
 * and in every thread, one thread a network, nothing touched beyond the caller's vectors. Run once more with an older
 * instruction set, for which oneDNN takes other layouts. */
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include "base/random.h"
#include "laconic/net.h"
#include "support.h"

/* Of the OpenMP that oneDNN is linked with. */
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

typedef struct network {
  const char *text; /* or the name of a built-in */
  lac_image_shape input;
  int64_t batch;
  double width; /* of a built-in */
} network;

enum { CLASSES = 10, MOST_BATCH = 16, BATCHES = 3, THREADS = 3 };

/* Without kinks: an error in a score is an error of the same size in a slope. */
static const network smooth[] = {
    {"conv 32 kernel=3 pad=1\nbatchnorm\nconv 32 kernel=3 pad=1\nmark a\nconv 32 kernel=3 pad=1\nadd a\nbatchnorm\n"
     "avgpool 2\nconv 48 kernel=3 pad=1\navgpool all\ndense classes",
     {3, 16, 16},
     16},
    {"conv 48 kernel=3 pad=1\nconv 48 kernel=3 pad=1 bias=no\nbatchnorm\nconv 64 kernel=3 pad=1\navgpool all\n"
     "dense classes",
     {3, 32, 32},
     16},
    {"dense 100\nbatchnorm\ndropout 0.25\ndense 60\ndense classes", {2, 6, 7}, 16},
    {"conv 20 kernel=5\nbatchnorm\ndropout 0.25\nconv 33 kernel=3 stride=2 bias=no\nconv classes kernel=1\navgpool all",
     {1, 14, 14},
     9},
};
static const network whole[] = {
    {"lenet", {1, 28, 28}, 4, 1},    {"allcnn", {3, 16, 16}, 4, 0.35}, /* 34 and 67 channels: blocks that are not full
                                                                        */
    {"resnet20", {3, 16, 16}, 4, 1}, {"wrn-16-2", {3, 16, 16}, 4, 1},  {"mlp:64-50-40-10", {1, 8, 8}, 7, 1},
};
enum { SMOOTH = sizeof smooth / sizeof *smooth, WHOLE = sizeof whole / sizeof *whole };

static const lac_net_options on_reference = {.backend = LAC_BACKEND_REFERENCE};
static const lac_net_options on_direct = {.backend = LAC_BACKEND_ONEDNN};
static const lac_net_options on_auto = {.backend = LAC_BACKEND_ONEDNN, .convolution = LAC_CONVOLUTION_AUTO};
static const lac_net_options on_bf16 = {.backend = LAC_BACKEND_ONEDNN, .precision = LAC_PRECISION_BF16};

/* What a network computes of given parameters and pictures. */
typedef struct outcome {
  lac_net *net;
  int64_t parameters, statistics, pixels, batch;
  float *at, *pictures;                        /* given */
  float *gradient, *collected, *probabilities; /* found */
  int32_t labels[MOST_BATCH];
  double loss;
  int64_t errors;
} outcome;

static float *floats(int64_t count) {
  float *memory = calloc((size_t)count + 1, sizeof *memory);
  assert_non_null(memory);
  return memory;
}

static lac_net *make_net(lac_context *context, const network *of, const lac_net_options *options) {
  lac_net *net = NULL;
  char *text = strdup(of->text);
  if (of->width > 0) {
    free(text);
    assert_ok(context, lac_net_builtin(context, of->text, of->width, &text));
  }
  assert_ok(context, lac_net_create(context, text, of->text, of->input, CLASSES, of->batch, options, &net));
  free(text);
  return net;
}

static outcome make_outcome(lac_context *context, const network *of, const lac_net_options *options) {
  outcome self = {.batch = of->batch, .pixels = of->batch * of->input.channels * of->input.height * of->input.width};
  self.net = make_net(context, of, options);
  self.parameters = lac_net_parameters(self.net);
  self.statistics = lac_net_statistics(self.net);
  self.at = floats(self.parameters);
  self.pictures = floats(self.pixels);
  self.gradient = floats(self.parameters);
  self.collected = floats(self.statistics);
  self.probabilities = floats(self.batch * CLASSES);
  return self;
}

static void clear_outcome(outcome *self) {
  lac_net_destroy(&self->net);
  free(self->at);
  free(self->pictures);
  free(self->gradient);
  free(self->collected);
  free(self->probabilities);
}

static void fill(outcome *self, uint64_t seed) {
  lac_random random = lac_random_stream(17, LAC_RANDOM_TEST, seed, 0);
  lac_net_initialise(self->net, 5, self->at, self->collected);
  for (int64_t i = 0; i < self->parameters; i++) {
    self->at[i] += 0.02F * (float)lac_random_normal(&random);
  }
  for (int64_t i = 0; i < self->pixels; i++) {
    self->pictures[i] = (float)lac_random_normal(&random);
  }
  for (int64_t i = 0; i < self->batch; i++) {
    self->labels[i] = (int32_t)lac_random_below(&random, CLASSES);
  }
}

static lac_status compute(lac_context *context, outcome *self) {
  lac_net_key key = {.seed = 4, .replica = 2, .step = 9};
  lac_status status = lac_net_gradient(context, self->net, self->at, self->pictures, self->labels, key, self->gradient,
                                       &self->loss, &self->errors);
  status = status ? status : lac_net_collect(context, self->net, self->at, self->pictures, self->collected);
  return status ? status
                : lac_net_predict(context, self->net, self->at, self->collected, self->batch, self->pictures,
                                  self->probabilities);
}

/* ---- beside the reference ---- */

typedef struct difference {
  double gradient, statistics, probabilities, loss; /* |found - expected| / |expected| */
} difference;

static double distance(int64_t count, const float *found, const float *expected) {
  double apart = 0, size = 0;
  for (int64_t i = 0; i < count; i++) {
    apart += ((double)found[i] - (double)expected[i]) * ((double)found[i] - (double)expected[i]);
    size += (double)expected[i] * (double)expected[i];
  }
  return size > 0 ? sqrt(apart / size) : apart;
}

static difference measure(lac_context *context, outcome *found, outcome *expected, uint64_t batch) {
  fill(found, batch);
  fill(expected, batch);
  assert_ok(context, compute(context, found));
  assert_ok(context, compute(context, expected));
  return (difference){distance(found->parameters, found->gradient, expected->gradient),
                      distance(found->statistics, found->collected, expected->collected),
                      distance(found->batch * CLASSES, found->probabilities, expected->probabilities),
                      fabs(found->loss - expected->loss) / expected->loss};
}

static bool is_within(difference is, difference most) {
  return is.gradient <= most.gradient && is.statistics <= most.statistics && is.probabilities <= most.probabilities &&
         is.loss <= most.loss;
}

/* One of a few batches must pass: an activation closer to a kink than rounding goes one way on one back end and the
 * other way on the other, which changes the gradient by a thousandth. Most batches have none, and a fault shows in all.
 */
static void check_one(lac_context *context, const network *of, const lac_net_options *options, difference most) {
  outcome found = make_outcome(context, of, options), expected = make_outcome(context, of, &on_reference);
  assert_string_equal(lac_net_backend_name(found.net), "onednn");
  difference is = measure(context, &found, &expected, 0);
  for (uint64_t batch = 1; batch < BATCHES && !is_within(is, most); batch++) {
    is = measure(context, &found, &expected, batch);
  }
  if (!is_within(is, most)) {
    fail_msg(
        "relative errors of gradient, statistics, probabilities, loss: found %.2g %.2g %.2g %.2g, expected at "
        "most %.2g %.2g %.2g %.2g; layers:\n%s",
        is.gradient, is.statistics, is.probabilities, is.loss, most.gradient, most.statistics, most.probabilities,
        most.loss, of->text);
  }
  clear_outcome(&found);
  clear_outcome(&expected);
}

static void check(lac_context *context, int count, const network *networks, const lac_net_options *options,
                  difference most) {
  for (int n = 0; n < count; n++) {
    check_one(context, &networks[n], options, most);
  }
}

static void direct(void **state) {
  check(*state, SMOOTH, smooth, &on_direct, (difference){1e-4, 1e-5, 1e-5, 1e-6});
  check(*state, WHOLE, whole, &on_direct, (difference){1e-4, 1e-5, 1e-5, 1e-6});
}

static void winograd(void **state) {
  check(*state, SMOOTH, smooth, &on_auto, (difference){1e-4, 1e-4, 1e-4, 1e-5});
  check(*state, WHOLE, whole, &on_auto, (difference){1e-4, 1e-4, 1e-4, 1e-5});
}

static bool processor_has(const char *flag) {
  if (getenv("ONEDNN_MAX_CPU_ISA")) { /* as the second run of this program says */
    return false;
  }
  FILE *file = fopen("/proc/cpuinfo", "r");
  assert_non_null(file);
  char line[8192];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    found = strncmp(line, "flags", 5) == 0 && strstr(line, flag);
  }
  fclose(file);
  return found;
}

/* That automatic is more than a word: where oneDNN has Winograd's algorithm its roundings are others. */
static void winograd_is_used(void **state) {
  outcome plain = make_outcome(*state, &smooth[1], &on_direct), quick = make_outcome(*state, &smooth[1], &on_auto);
  fill(&plain, 1);
  fill(&quick, 1);
  assert_ok(*state, compute(*state, &plain));
  assert_ok(*state, compute(*state, &quick));
  if (processor_has(" avx512dq")) {
    assert_true(distance(plain.parameters, quick.gradient, plain.gradient) > 0);
  }
  clear_outcome(&plain);
  clear_outcome(&quick);
}

/* A bfloat16 has 8 bits: a rounding is off by 2^-9 at most and by 2^-9 / sqrt(3) in the mean square. The few dozen
 * roundings between a picture and a slope add up to about a hundredth. Kinks make more of it: of the activations of a
 * layer a hundredth lie closer to 0 than what has been rounded before them, each of which adds or takes away its whole
 * share, so that the error is about the square root of that part, over a few layers: 0.1 to 0.3. Those errors fall on
 * either side; the loss stays within thousandths. */
static void bf16(void **state) {
  if (processor_has(" avx512_bf16")) {
    check(*state, SMOOTH, smooth, &on_bf16, (difference){2e-2, 1e-2, 1e-2, 1e-3});
    check(*state, WHOLE, whole, &on_bf16, (difference){0.4, 1e-2, 2e-2, 5e-3});
    return;
  }
  lac_net *net = NULL;
  assert_failure(*state,
                 lac_net_create(*state, "dense classes", "test", (lac_image_shape){4, 1, 1}, 3, 2, &on_bf16, &net),
                 LAC_E_UNSUPPORTED, "AVX512_BF16");
  assert_null(net);
}

/* The least of a few, in seconds of this thread, which computes a gradient alone. */
static double seconds_of(lac_context *context, const network *of, const lac_net_options *options) {
  outcome self = make_outcome(context, of, options);
  double least = INFINITY;
  fill(&self, 0);
  for (int i = 0; i < 4; i++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    assert_ok(context, compute(context, &self));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    least = fmin(least, (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
  }
  clear_outcome(&self);
  return least;
}

/* 24 channels against 32: three quarters of the arithmetic. Where oneDNN had no fast code for them, it took thirty
 * times as long. */
static void no_width_is_slow(void **state) {
  static const char *const wide =
      "conv 32 kernel=3 pad=1\nbatchnorm\nrelu\nconv 32 kernel=3 pad=1\nbatchnorm\nrelu\n"
      "avgpool all\ndense classes";
  static const char *const odd =
      "conv 24 kernel=3 pad=1\nbatchnorm\nrelu\nconv 24 kernel=3 pad=1\nbatchnorm\nrelu\n"
      "avgpool all\ndense classes";
  const lac_net_options *const ways[] = {&on_direct, &on_auto, &on_bf16};
  for (int way = 0; way < (processor_has(" avx512_bf16") ? 3 : 2); way++) {
    double other = seconds_of(*state, &(network){wide, {3, 32, 32}, 16, 0}, ways[way]);
    double found = seconds_of(*state, &(network){odd, {3, 32, 32}, 16, 0}, ways[way]);
    if (found > 6 * other) {
      fail_msg("way %d: 24 channels take %g s, 32 take %g s", way, found, other);
    }
  }
}

/* ---- the same bits ---- */

static void assert_same(const outcome *a, const outcome *b) {
  assert_memory_equal(a->gradient, b->gradient, (size_t)a->parameters * sizeof(float));
  assert_memory_equal(a->collected, b->collected, (size_t)a->statistics * sizeof(float));
  assert_memory_equal(a->probabilities, b->probabilities, (size_t)(a->batch * CLASSES) * sizeof(float));
  assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
  assert_int_equal(a->errors, b->errors);
}

typedef struct worker {
  lac_context *context;
  outcome *work;
  lac_status status;
} worker;

static void *work(void *of) {
  worker *self = of;
  for (int repeat = 0; repeat < 2 && !self->status; repeat++) {
    self->status = compute(self->context, self->work);
  }
  return NULL;
}

/* One after the other, with something else in between, and at the same time. */
static void same_bits(void **state) {
  static const lac_net_options *const options[] = {&on_direct, &on_auto};
  for (int n = 0; n < WHOLE; n++) {
    outcome once = make_outcome(*state, &whole[n], options[n % 2]), beside[THREADS];
    fill(&once, 1);
    assert_ok(*state, compute(*state, &once));
    worker workers[THREADS] = {0};
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
      beside[t] = make_outcome(*state, &whole[n], options[n % 2]);
      fill(&beside[t], 2);
      assert_ok(*state, compute(*state, &beside[t]));
      fill(&beside[t], 1);
      workers[t].work = &beside[t];
      assert_ok(*state, lac_context_child(*state, &workers[t].context));
      assert_int_equal(pthread_create(&threads[t], NULL, work, &workers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
      assert_int_equal(pthread_join(threads[t], NULL), 0);
      assert_ok(workers[t].context, workers[t].status);
      assert_same(&once, &beside[t]);
      lac_context_destroy(&workers[t].context);
      clear_outcome(&beside[t]);
    }
    clear_outcome(&once);
  }
}

/* ---- one thread ---- */

static int count_tasks(void) {
  DIR *folder = opendir("/proc/self/task");
  assert_non_null(folder);
  int count = 0;
  while (readdir(folder)) {
    count++;
  }
  closedir(folder);
  return count;
}

/* Whatever the caller has asked of OpenMP, which stays as it was. */
static void one_thread(void **state) {
  int before = omp_get_max_threads(), tasks = count_tasks();
  omp_set_num_threads(4);
  outcome self = make_outcome(*state, &whole[2], &on_direct);
  fill(&self, 1);
  assert_ok(*state, compute(*state, &self));
  assert_int_equal(count_tasks(), tasks);
  assert_int_equal(omp_get_max_threads(), 4);
  omp_set_num_threads(before);
  clear_outcome(&self);
}

/* ---- within bounds ---- */

typedef struct fence {
  char *pages;
  size_t bytes, page;
} fence;

/* Room for numbers between two pages that cannot be touched, close to the first or to the last. */
static fence make_fence(int64_t count, bool last, float **numbers) {
  fence self = {.page = (size_t)sysconf(_SC_PAGESIZE)};
  size_t size = (size_t)count * sizeof(float), inside = (size + self.page - 1) / self.page * self.page;
  self.bytes = inside + 2 * self.page;
  self.pages = mmap(NULL, self.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(self.pages != MAP_FAILED);
  if (inside > 0) {
    assert_int_equal(mprotect(self.pages + self.page, inside, PROT_READ | PROT_WRITE), 0);
  }
  *numbers = (float *)(void *)(self.pages + self.page + (last ? inside - size : 0));
  return self;
}

/* oneDNN's code is beyond any sanitizer. Where what is only read is concerned, so that a write is seen too, it lies in
 * pages that cannot be written while it is read. */
static void check_fenced(lac_context *context, const network *of, const lac_net_options *options, bool last) {
  outcome self = make_outcome(context, of, options);
  fill(&self, 1);
  int64_t counts[] = {self.parameters, self.pixels, self.parameters, self.statistics, self.batch * CLASSES};
  float **vectors[] = {&self.at, &self.pictures, &self.gradient, &self.collected, &self.probabilities}, *kept[5];
  fence fences[5];
  for (int v = 0; v < 5; v++) {
    float *fenced;
    fences[v] = make_fence(counts[v], last, &fenced);
    kept[v] = *vectors[v];
    memcpy(fenced, kept[v], (size_t)counts[v] * sizeof(float));
    *vectors[v] = fenced;
    if (v < 2) {
      assert_int_equal(mprotect(fences[v].pages + fences[v].page, fences[v].bytes - 2 * fences[v].page, PROT_READ), 0);
    }
  }
  assert_ok(context, compute(context, &self));
  for (int v = 0; v < 5; v++) {
    *vectors[v] = kept[v];
    munmap(fences[v].pages, fences[v].bytes);
  }
  clear_outcome(&self);
}

static void within_bounds(void **state) {
  for (int last = 0; last < 2; last++) {
    for (int n = 0; n < SMOOTH; n++) {
      check_fenced(*state, &smooth[n], &on_auto, last);
    }
    for (int n = 0; n < WHOLE; n++) {
      check_fenced(*state, &whole[n], processor_has(" avx512_bf16") ? &on_bf16 : &on_auto, last);
      check_fenced(*state, &whole[n], &on_direct, last);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(direct, make_context, drop_context),
      cmocka_unit_test_setup_teardown(winograd, make_context, drop_context),
      cmocka_unit_test_setup_teardown(winograd_is_used, make_context, drop_context),
      cmocka_unit_test_setup_teardown(bf16, make_context, drop_context),
      cmocka_unit_test_setup_teardown(no_width_is_slow, make_context, drop_context),
      cmocka_unit_test_setup_teardown(same_bits, make_context, drop_context),
      cmocka_unit_test_setup_teardown(one_thread, make_context, drop_context),
      cmocka_unit_test_setup_teardown(within_bounds, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
