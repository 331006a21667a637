/* Batches: what they hold, by properties that do not know how they are made. Labels are the numbers of pictures, and no
 * two pixels of a set are equal, so that a batch tells where each of its pixels comes from. */
#include <math.h>

#include "data/images.h"
#include "data/picture_files.h"

typedef struct fixture {
  lac_context *context;
  lac_images *images;
  float *prepared;
  char folder[64];
} fixture;

enum { CHANNELS = 2, HEIGHT = 5, WIDTH = 6, PLANE = HEIGHT * WIDTH, PIXELS = CHANNELS * PLANE };

/* A set of `count` pictures. */
static void make_set(fixture *self, int64_t count) {
  int64_t *labels = malloc((size_t)count * sizeof *labels);
  self->prepared = malloc((size_t)(count * PIXELS) * sizeof(float));
  assert_true(labels && self->prepared);
  for (int64_t i = 0; i < count * PIXELS; i++) {
    self->prepared[i] = (float)i;
    labels[i / PIXELS] = i / PIXELS;
  }
  char axes[64];
  snprintf(axes, sizeof axes, "(%d, 2, 5, 6)", (int)count);
  put_npy("x.npy", "<f4", axes, self->prepared, (size_t)(count * PIXELS) * sizeof(float));
  snprintf(axes, sizeof axes, "(%d,)", (int)count);
  put_npy("y.npy", "<i8", axes, labels, (size_t)count * sizeof *labels);
  assert_ok(self->context, lac_images_open(self->context, "x.npy+y.npy", LAC_IMAGES_TRAIN, &self->images));
  free(labels);
}

static void drop_set(fixture *self) {
  lac_images_destroy(&self->images);
  free(self->prepared);
  self->prepared = NULL;
}

static int enter(void **state) {
  fixture *self = calloc(1, sizeof *self);
  *state = self;
  enter_folder(self->folder);
  return lac_context_create(&self->context) == LAC_OK ? 0 : -1;
}

static int leave(void **state) {
  fixture *self = *state;
  drop_set(self);
  leave_folder(self->folder);
  lac_context_destroy(&self->context);
  free(self);
  return 0;
}

static lac_batches *make_batches(fixture *self, lac_batches_options options) {
  lac_batches *batches;
  assert_ok(self->context, lac_batches_create(self->context, self->images, self->prepared, &options, &batches));
  return batches;
}

typedef struct held {
  const float *pictures;
  const int32_t *labels;
} held;

static held get(fixture *self, lac_batches *batches, int64_t step) {
  held batch;
  assert_ok(self->context, lac_batches_get(self->context, batches, step, &batch.pictures, &batch.labels));
  assert_int_equal((uintptr_t)batch.pictures % 64, 0);
  return batch;
}

static const lac_batches_options plain = {.batch = 10, .seed = 3, .replicas = 1, .fraction = 1};

/* ---- Held out ---- */

/* Marks the labels of a part, which must rise; returns how many there are. */
static int64_t mark(const lac_images *part, int mark_as, int *marks) {
  int64_t count = part ? lac_images_count(part) : 0;
  for (int64_t i = 0; i < count; i++) {
    int32_t label = lac_images_labels(part)[i];
    assert_int_equal(marks[label], 0);
    assert_true(i == 0 || lac_images_labels(part)[i - 1] < label);
    marks[label] = mark_as;
  }
  return count;
}

static void a_split_parts_the_set(void **state) {
  enum { COUNT = 57 };
  fixture *self = *state;
  make_set(self, COUNT);
  lac_images *rest, *apart;
  int first[COUNT] = {0};
  for (int64_t wanted = 0; wanted <= COUNT; wanted += 19) {
    for (int64_t seed = 0; seed < 3; seed++) {
      int marks[COUNT] = {0};
      assert_ok(self->context, lac_images_split(self->context, self->images, seed, wanted, &rest, &apart));
      assert_int_equal(mark(apart, 1, marks), wanted);
      assert_int_equal(mark(rest, 2, marks), COUNT - wanted);
      if (wanted == 19 && seed == 0) {
        memcpy(first, marks, sizeof first);
      } else if (wanted == 19) {
        assert_memory_not_equal(first, marks, sizeof first); /* the seed draws */
      }
      lac_images_destroy(&rest);
      lac_images_destroy(&apart);
    }
  }
  assert_failure(self->context, lac_images_split(self->context, self->images, 0, COUNT + 1, &rest, &apart), LAC_E_USAGE,
                 "58 pictures held out");
  assert_failure(self->context, lac_images_split(self->context, self->images, 0, -1, &rest, &apart), LAC_E_USAGE, "-1");
  assert_null(rest);
  assert_null(apart);
}

/* ---- Which pictures ---- */

static void every_picture_once_a_pass(void **state) {
  fixture *self = *state;
  enum { N = 103, PASSES = 40 };
  make_set(self, N);
  lac_batches *batches = make_batches(self, plain);
  assert_int_equal(lac_batches_points(batches), N);
  assert_int_equal(lac_batches_per_pass(batches), 10);
  int seen[N] = {0}, dropped[N] = {0}, same = 0;
  int32_t before[100] = {0};
  for (int64_t pass = 0; pass < PASSES; pass++) {
    int once[N] = {0};
    for (int64_t step = 0; step < 10; step++) {
      held batch = get(self, batches, pass * 10 + step);
      for (int i = 0; i < 10; i++) {
        int32_t label = batch.labels[i];
        assert_in_range(label, 0, N - 1);
        assert_int_equal(once[label]++, 0);
        seen[label]++;
        assert_memory_equal(batch.pictures + i * PIXELS, self->prepared + label * PIXELS, PIXELS * sizeof(float));
        same += before[step * 10 + i] == label;
        before[step * 10 + i] = label;
      }
    }
    for (int i = 0; i < N; i++) {
      dropped[i] += !once[i];
    }
  }
  /* Three of a pass's 103 are left out, others each time; and an order has one place in common with the next, about. */
  for (int i = 0; i < N; i++) {
    assert_int_equal(seen[i] + dropped[i], PASSES);
    assert_true(dropped[i] <= 8); /* of 1.2: one in 10^4 or less for the whole set */
  }
  assert_true(same < 3 * PASSES);
  lac_batches_destroy(&batches);
  assert_null(batches);
}

/* Marks the pictures of a replica. */
static void mark_part(fixture *self, lac_batches_options options, bool *has) {
  options.batch = 1;
  lac_batches *batches = make_batches(self, options);
  int64_t points = lac_batches_points(batches);
  assert_int_equal(lac_batches_per_pass(batches), points);
  for (int64_t step = 0; step < points; step++) {
    int32_t label = get(self, batches, step).labels[0];
    assert_false(has[label]);
    has[label] = true;
  }
  lac_batches_destroy(&batches);
}

/* Parts are intervals of one circle: what any two have in common, and what no part has, is counted on an explicit one.
 */
static void parts_are_intervals_of_one_shuffle(void **state) {
  fixture *self = *state;
  enum { N = 50, MOST = 7 };
  static const struct {
    int replicas;
    double fraction;
    int size;
  } cases[] = {{1, 1, 50},   {3, 1, 50},    {3, 0.5, 25}, {6, 0.25, 13}, {7, 0.1, 5},     {3, 1 / 3.0, 17},
               {5, 0.2, 10}, {4, 0.001, 1}, {1, 0.07, 4}, {2, 0.58, 29}, {7, 1 / 7.0, 8}, {3, 0.7, 35}};
  make_set(self, N);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    bool has[MOST][N] = {{false}}, circle[MOST][N] = {{false}};
    int n = cases[k].replicas, unseen = 0, unseen_here = 0;
    for (int i = 0; i < n; i++) {
      lac_batches_options options = {.seed = 5, .replica = i, .replicas = n, .fraction = cases[k].fraction};
      mark_part(self, options, has[i]);
      for (int j = 0; j < cases[k].size; j++) {
        circle[i][(i * N / n + j) % N] = true;
      }
    }
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) {
        int common = 0, expected = 0;
        for (int x = 0; x < N; x++) {
          common += has[i][x] && has[j][x];
          expected += circle[i][x] && circle[j][x];
        }
        assert_int_equal(common, expected);
      }
    }
    for (int x = 0; x < N; x++) {
      bool any = false, any_here = false;
      for (int i = 0; i < n; i++) {
        any = any || circle[i][x];
        any_here = any_here || has[i][x];
      }
      unseen += !any;
      unseen_here += !any_here;
    }
    assert_int_equal(unseen_here, unseen);
    assert_int_equal(lac_batches_unseen(N, n, cases[k].fraction), unseen);
  }
}

/* The formula against walking the circle, for every small case. */
static void unseen_is_what_a_walk_finds(void **state) {
  (void)state;
  enum { MOST = 60 };
  for (int count = 1; count <= MOST; count++) {
    for (int n = 1; n <= 12; n++) {
      for (int size = 1; size <= count; size++) {
        bool seen[MOST] = {false};
        int64_t unseen = 0;
        for (int i = 0; i < n; i++) {
          for (int j = 0; j < size; j++) {
            seen[(i * count / n + j) % count] = true;
          }
        }
        for (int i = 0; i < count; i++) {
          unseen += !seen[i];
        }
        assert_int_equal(lac_batches_unseen(count, n, (double)size / count), unseen);
      }
    }
  }
  /* f = 1 / n leaves nothing, whatever does not divide. */
  for (int n = 1; n < 200; n++) {
    assert_int_equal(lac_batches_unseen(50000, n, 1.0 / n), 0);
    assert_int_equal(lac_batches_unseen(59999, n, 1.0 / n), 0);
  }
  assert_int_equal(lac_batches_unseen(60000, 2, 0.25), 30000);
  assert_int_equal(lac_batches_unseen(50, 0, 0.25), 50);
  assert_int_equal(lac_batches_unseen(50, 2, 0), 50);
  assert_int_equal(lac_batches_unseen(0, 2, 0.5), 0);
}

/* Another seed has other parts and orders; another replica another order of the same part. */
static void keys_matter(void **state) {
  fixture *self = *state;
  enum { N = 200 };
  make_set(self, N);
  lac_batches_options options = plain;
  options.batch = 100;
  options.fraction = 0.5;
  bool first[N] = {false}, second[N] = {false};
  mark_part(self, options, first);
  options.seed++;
  mark_part(self, options, second);
  int common = 0;
  for (int i = 0; i < N; i++) {
    common += first[i] && second[i];
  }
  assert_true(common > 30 && common < 70); /* 50 +- 5.0 standard deviations */

  options = plain;
  options.batch = N;
  options.replicas = 2;
  options.flip = true;
  lac_batches *one = make_batches(self, options);
  options.replica = 1;
  lac_batches *two = make_batches(self, options);
  held a = get(self, one, 0), b = get(self, two, 0);
  int same = 0, same_flips = 0;
  for (int i = 0; i < N; i++) {
    bool flipped_a = a.pictures[i * PIXELS] != self->prepared[a.labels[i] * PIXELS];
    bool flipped_b = b.pictures[i * PIXELS] != self->prepared[b.labels[i] * PIXELS];
    same += a.labels[i] == b.labels[i];
    same_flips += flipped_a == flipped_b;
  }
  assert_true(same < 8);
  assert_true(same_flips > 60 && same_flips < 140);
  lac_batches_destroy(&one);
  lac_batches_destroy(&two);
}

/* Drawn anew: from the part alone, evenly, with repetitions. */
static void replacement(void **state) {
  fixture *self = *state;
  enum { N = 60, STEPS = 600, BATCH = 20 };
  make_set(self, N);
  lac_batches_options options = plain;
  options.batch = BATCH;
  options.fraction = 0.5;
  bool part[N] = {false};
  mark_part(self, options, part);
  options.replacement = true;
  lac_batches *batches = make_batches(self, options);
  int counts[N] = {0}, repeated = 0;
  for (int64_t step = 0; step < STEPS; step++) {
    held batch = get(self, batches, step);
    bool has[N] = {false};
    for (int i = 0; i < BATCH; i++) {
      assert_true(part[batch.labels[i]]);
      repeated += has[batch.labels[i]];
      has[batch.labels[i]] = true;
      counts[batch.labels[i]]++;
    }
  }
  double chi = 0, expected = (double)STEPS * BATCH / 30;
  for (int i = 0; i < N; i++) {
    chi += part[i] ? (counts[i] - expected) * (counts[i] - expected) / expected : 0;
  }
  assert_true(chi < 58.3); /* 29 degrees of freedom: exceeded once in a thousand */
  /* 20 - 30 (1 - (29/30)^20) = 5.2 of a batch. */
  assert_true(repeated > 4.8 * STEPS && repeated < 5.7 * STEPS);
  lac_batches_destroy(&batches);
}

/* ---- How pictures are changed ---- */

/* The place that a walk to and fro over n places, without standing at the ends, has reached after `steps` from 0. */
static int walk(int steps, int n) {
  int place = 0, direction = steps < 0 ? -1 : 1;
  for (int i = 0; i < abs(steps); i++) {
    if (place + direction < 0 || place + direction >= n) {
      direction = -direction;
    }
    place += direction;
  }
  return place;
}

/* Whether `out` is the crop at (down, right) of a picture padded by `crop` on each side, mirrored or not. */
static bool is_crop(const float *picture, const float *out, int crop, int down, int right, bool flip) {
  for (int c = 0; c < CHANNELS; c++) {
    for (int y = 0; y < HEIGHT; y++) {
      for (int x = 0; x < WIDTH; x++) {
        int from_y = walk(y + down - crop, HEIGHT), from_x = walk((flip ? WIDTH - 1 - x : x) + right - crop, WIDTH);
        if (out[c * PLANE + y * WIDTH + x] != picture[c * PLANE + from_y * WIDTH + from_x]) {
          return false;
        }
      }
    }
  }
  return true;
}

/* The picture is one of all crops; which one is counted. Returns of how many. */
static int find_crop(const float *picture, const float *out, int crop, bool flips, int *counts) {
  int found = 0, side = 2 * crop + 1;
  for (int flip = 0; flip < (flips ? 2 : 1); flip++) {
    for (int down = 0; down < side; down++) {
      for (int right = 0; right < side; right++) {
        if (is_crop(picture, out, crop, down, right, flip)) {
          found++;
          counts[(flip * side + down) * side + right]++;
        }
      }
    }
  }
  assert_true(found > 0);
  return found;
}

static void flips_and_crops(void **state) {
  fixture *self = *state;
  enum { N = 100, STEPS = 150 };
  /* chi: the value exceeded once in a thousand; of wide padding some crops are the mirror of others. */
  static const struct {
    bool flip;
    int crop;
    double chi;
  } cases[] = {{true, 0, 10.8}, {false, 1, 26.1}, {true, 2, 85.4}, {false, 3, 84.1}, {true, 4, INFINITY}};
  make_set(self, N);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    lac_batches_options options = plain;
    options.batch = N;
    options.flip = cases[k].flip;
    options.crop = cases[k].crop;
    lac_batches *batches = make_batches(self, options);
    int counts[2 * 81] = {0}, side = 2 * cases[k].crop + 1, kinds = (cases[k].flip ? 2 : 1) * side * side;
    for (int64_t step = 0; step < STEPS; step++) {
      held batch = get(self, batches, step);
      for (int i = 0; i < N; i++) {
        int found = find_crop(self->prepared + batch.labels[i] * PIXELS, batch.pictures + i * PIXELS, cases[k].crop,
                              cases[k].flip, counts);
        assert_true(found == 1 || cases[k].crop == 4);
      }
    }
    double chi = 0, expected = (double)N * STEPS / kinds;
    for (int i = 0; i < kinds; i++) {
      chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    if (chi > cases[k].chi) {
      fail_msg("flip %d, crop %d: chi squared %.1f, expected at most %.1f", cases[k].flip, cases[k].crop, chi,
               cases[k].chi);
    }
    lac_batches_destroy(&batches);
  }
}

/* ---- In any order, and ahead ---- */

static void same_in_any_order_and_ahead(void **state) {
  fixture *self = *state;
  enum { N = 47, BATCH = 10, STEPS = 30 };
  make_set(self, N);
  for (int kind = 0; kind < 4; kind++) {
    lac_batches_options options = plain;
    options.batch = BATCH;
    options.flip = kind != 1;
    options.crop = kind == 2 ? 0 : 2;
    options.replacement = kind == 3;
    float *pictures = malloc(sizeof(float) * STEPS * BATCH * PIXELS);
    int32_t labels[STEPS][BATCH];
    lac_batches *batches = make_batches(self, options);
    for (int64_t step = 0; step < STEPS; step++) {
      held batch = get(self, batches, step);
      memcpy(pictures + step * BATCH * PIXELS, batch.pictures, sizeof(float) * BATCH * PIXELS);
      memcpy(labels[step], batch.labels, sizeof labels[step]);
    }
    lac_batches_destroy(&batches);
    for (int ahead = 0; ahead < 2; ahead++) {
      options.ahead = ahead;
      batches = make_batches(self, options);
      /* In order; then all over the place, the same one again, one back. */
      for (int64_t i = 0; i < 10 * STEPS; i++) {
        int64_t step = i < STEPS    ? i
                       : i % 7 == 0 ? (i - 1) * 11 % STEPS
                       : i % 5 == 0 ? (i - 1) * 11 % STEPS + 1
                                    : i * 11;
        step %= STEPS;
        held batch = get(self, batches, step);
        for (int look = 0; look < 2; look++) { /* twice: it stays while the next one is made */
          assert_memory_equal(batch.pictures, pictures + step * BATCH * PIXELS, sizeof(float) * BATCH * PIXELS);
          assert_memory_equal(batch.labels, labels[step], sizeof labels[step]);
        }
      }
      lac_batches_destroy(&batches);
    }
    free(pictures);
  }
}

/* Replicas of one process share a set, each from a thread that is ahead of it; destroying at once waits for it. */
static void several_share_a_set(void **state) {
  fixture *self = *state;
  make_set(self, 90);
  lac_batches *batches[3];
  lac_batches_options options = plain;
  options.ahead = true;
  options.flip = true;
  options.replicas = 3;
  for (int i = 0; i < 3; i++) {
    options.replica = i;
    batches[i] = make_batches(self, options);
  }
  int counts[90] = {0};
  for (int64_t step = 0; step < 9; step++) {
    for (int i = 0; i < 3; i++) {
      held batch = get(self, batches[i], step);
      for (int k = 0; k < 10; k++) {
        counts[batch.labels[k]]++;
      }
    }
  }
  for (int i = 0; i < 90; i++) {
    assert_int_equal(counts[i], 3);
  }
  for (int i = 0; i < 3; i++) {
    lac_batches_destroy(&batches[i]);
  }
  lac_batches *never = make_batches(self, options);
  lac_batches_destroy(&never);
  lac_batches_destroy(&never);
}

static void refused(void **state) {
  fixture *self = *state;
  make_set(self, 20);
  static const struct {
    lac_batches_options options;
    lac_status status;
    const char *words;
  } cases[] = {
      {{.batch = 0, .replicas = 1, .fraction = 1}, LAC_E_USAGE, "x.npy+y.npy: batch: found 0, expected 1"},
      {{.batch = 5, .replicas = 0, .fraction = 1}, LAC_E_USAGE, "replicas: found 0"},
      {{.batch = 5, .replica = 2, .replicas = 2, .fraction = 1}, LAC_E_USAGE, "replica: found 2, expected 0 to 1"},
      {{.batch = 5, .replica = -1, .replicas = 2, .fraction = 1}, LAC_E_USAGE, "replica: found -1"},
      {{.batch = 5, .replicas = 1, .fraction = 0}, LAC_E_USAGE, "fraction: found 0"},
      {{.batch = 5, .replicas = 1, .fraction = 1.01}, LAC_E_USAGE, "fraction: found 1.01"},
      {{.batch = 5, .replicas = 1, .fraction = NAN}, LAC_E_USAGE, "fraction: found"},
      {{.batch = 5, .replicas = 1, .fraction = 1, .crop = -1}, LAC_E_USAGE, "crop: found -1, expected 0 to 4"},
      {{.batch = 5, .replicas = 1, .fraction = 1, .crop = 5}, LAC_E_USAGE, "crop: found 5, expected 0 to 4"},
      {{.batch = 21, .replicas = 1, .fraction = 1},
       LAC_E_INPUT,
       "20 pictures for replica 0 of 1, expected at least a b"},
      {{.batch = 11, .replica = 1, .replicas = 3, .fraction = 0.5}, LAC_E_INPUT, "10 pictures for replica 1 of 3"},
      {{.batch = INT64_MAX, .replicas = 1, .fraction = 1}, LAC_E_INPUT, "9223372036854775807"},
  };
  lac_batches *batches;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    batches = (lac_batches *)self;
    assert_failure(self->context,
                   lac_batches_create(self->context, self->images, self->prepared, &cases[i].options, &batches),
                   cases[i].status, cases[i].words);
    assert_null(batches);
  }
  lac_images *unlabelled;
  assert_ok(self->context, lac_images_open_unlabelled(self->context, "x.npy",
                                                      (lac_image_shape){CHANNELS, HEIGHT, WIDTH}, &unlabelled));
  assert_failure(self->context, lac_batches_create(self->context, unlabelled, self->prepared, &plain, &batches),
                 LAC_E_USAGE, "x.npy: found pictures without labels");
  lac_images_destroy(&unlabelled);
  batches = make_batches(self, plain);
  held batch;
  assert_failure(self->context, lac_batches_get(self->context, batches, -1, &batch.pictures, &batch.labels),
                 LAC_E_USAGE, "batch -1 asked for");
  (void)get(self, batches, INT64_MAX);
  lac_batches_destroy(&batches);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_split_parts_the_set, enter, leave),
      cmocka_unit_test_setup_teardown(every_picture_once_a_pass, enter, leave),
      cmocka_unit_test_setup_teardown(parts_are_intervals_of_one_shuffle, enter, leave),
      cmocka_unit_test(unseen_is_what_a_walk_finds),
      cmocka_unit_test_setup_teardown(keys_matter, enter, leave),
      cmocka_unit_test_setup_teardown(replacement, enter, leave),
      cmocka_unit_test_setup_teardown(flips_and_crops, enter, leave),
      cmocka_unit_test_setup_teardown(same_in_any_order_and_ahead, enter, leave),
      cmocka_unit_test_setup_teardown(several_share_a_set, enter, leave),
      cmocka_unit_test_setup_teardown(refused, enter, leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
