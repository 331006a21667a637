/* Batches of a prepared set.
 *
 * Which pictures a replica has is a part of one shuffle, keyed by the seed alone; the order in which it sees them is a
 * shuffle of its own for each pass, keyed by (seed, replica, pass); flips and crops are keyed by (seed, replica, step).
 * So a batch is a function of its step, whoever makes it and whatever was made before. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "data/images.h"

/* Of random streams of purpose BATCH: the shared shuffle, and those of replica i, which have i more. */
enum { SHARED_STREAM = 0, REPLICA_STREAM = 1 };

/* A batch and where it is written. */
typedef struct batch_slot {
  int64_t step;    /* -1: none yet */
  float *pictures; /* (batch, C, H, W) */
  int32_t *labels; /* (batch) */
} batch_slot;

struct lac_batches {
  lac_batches_options options;
  lac_image_shape shape;
  const float *prepared; /* (N, C, H, W) */
  const int32_t *labels; /* (N) */
  int64_t points, per_pass;
  int64_t *part; /* (points) the replica's pictures */

  /* What making a batch works with: the thread's while it is making, else the caller's. */
  int64_t pass;        /* that `order` is of; -1: none */
  int64_t *order;      /* (points) places in `part` */
  int64_t *columns;    /* (W) where the columns of a cropped picture come from */
  batch_slot slots[2]; /* the second one only when ahead */
  int current;         /* the slot that the caller has */

  /* The thread, if there is one: makes `wanted` in slot `target`. */
  bool started;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool stop, making;
  int64_t wanted;
  int target;
};

/* ---- Parts ---- */

/* ceil(f N), where a product that is whole but for rounding counts as whole. */
static int64_t part_size(int64_t count, double fraction) {
  double size = ceil(fraction * (double)count * (1 - 1e-12));
  return size < 1 ? 1 : size > (double)count ? count : (int64_t)size;
}

/* floor(i N / n) without the product. */
static int64_t part_start(int64_t count, int64_t replica, int64_t replicas) {
  return count / replicas * replica + count % replicas * replica / replicas;
}

int64_t lac_batches_unseen(int64_t count, int64_t replicas, double fraction) {
  if (count < 1 || replicas < 1 || !(fraction > 0)) {
    return count < 0 ? 0 : count;
  }
  /* The starts are floor(N / n) or one more apart; what a part does not reach up to the next start is seen by none. */
  int64_t size = part_size(count, fraction), gap = count / replicas, wider = count % replicas;
  int64_t rest = gap > size ? gap - size : 0, wider_rest = gap + 1 > size ? gap + 1 - size : 0;
  return (replicas - wider) * rest + wider * wider_rest;
}

static lac_status choose_part(lac_context *context, lac_batches *batches, int64_t count) {
  const lac_batches_options *options = &batches->options;
  int64_t *shuffle;
  LAC_TRY(LAC_NEW(context, batches->points, &batches->part));
  LAC_TRY(LAC_NEW(context, count, &shuffle));
  lac_random stream = lac_random_stream(options->seed, LAC_RANDOM_BATCH, SHARED_STREAM, 0);
  lac_random_permutation(&stream, count, shuffle);
  int64_t start = part_start(count, options->replica, options->replicas);
  for (int64_t i = 0; i < batches->points; i++) {
    batches->part[i] = shuffle[(start + i) % count];
  }
  lac_free(shuffle);
  return LAC_OK;
}

/* ---- Making a batch ---- */

/* Place i of n pixels that are mirrored about the first and the last one, which are not repeated; -n < i < 2 n - 1. */
static int64_t mirrored(int64_t i, int64_t n) {
  return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
}

/* A picture of which row y and column x come from row y + down and column x + right, x from the other side if flipped.
 */
static void move_picture(lac_batches *batches, const float *from, bool flip, int64_t down, int64_t right, float *to) {
  lac_image_shape shape = batches->shape;
  int64_t *columns = batches->columns;
  for (int64_t x = 0; x < shape.width; x++) {
    columns[x] = mirrored((flip ? shape.width - 1 - x : x) + right, shape.width);
  }
  for (int64_t c = 0; c < shape.channels; c++, from += shape.height * shape.width) {
    for (int64_t y = 0; y < shape.height; y++, to += shape.width) {
      const float *row = from + mirrored(y + down, shape.height) * shape.width;
      for (int64_t x = 0; x < shape.width; x++) {
        to[x] = row[columns[x]];
      }
    }
  }
}

static void shuffle_pass(lac_batches *batches, int64_t pass) {
  if (batches->pass != pass) {
    const lac_batches_options *options = &batches->options;
    lac_random stream =
        lac_random_stream(options->seed, LAC_RANDOM_BATCH, REPLICA_STREAM + (uint64_t)options->replica, (uint64_t)pass);
    lac_random_permutation(&stream, batches->points, batches->order);
    batches->pass = pass;
  }
}

/* Places (batch) in the replica's part. Those that are drawn anew are kept where the shuffle would be. */
static const int64_t *choose_places(lac_batches *batches, int64_t step) {
  const lac_batches_options *options = &batches->options;
  if (!options->replacement) {
    shuffle_pass(batches, step / batches->per_pass);
    return batches->order + step % batches->per_pass * options->batch;
  }
  lac_random stream =
      lac_random_stream(options->seed, LAC_RANDOM_BATCH, REPLICA_STREAM + (uint64_t)options->replica, (uint64_t)step);
  for (int64_t i = 0; i < options->batch; i++) {
    batches->order[i] = lac_random_below(&stream, batches->points);
  }
  return batches->order;
}

static void make_batch(lac_batches *batches, int64_t step, batch_slot *slot) {
  const lac_batches_options *options = &batches->options;
  int64_t pixels = lac_shape_pixels(batches->shape);
  const int64_t *places = choose_places(batches, step);
  lac_random stream = lac_random_stream(options->seed, LAC_RANDOM_AUGMENT, (uint64_t)options->replica, (uint64_t)step);
  for (int64_t i = 0; i < options->batch; i++) {
    int64_t row = batches->part[places[i]], down = 0, right = 0;
    bool flip = options->flip && lac_random_below(&stream, 2) == 1;
    if (options->crop > 0) {
      down = lac_random_below(&stream, 2 * options->crop + 1) - options->crop;
      right = lac_random_below(&stream, 2 * options->crop + 1) - options->crop;
    }
    const float *from = batches->prepared + row * pixels;
    if (flip || down || right) {
      move_picture(batches, from, flip, down, right, slot->pictures + i * pixels);
    } else {
      memcpy(slot->pictures + i * pixels, from, (size_t)pixels * sizeof *from);
    }
    slot->labels[i] = batches->labels[row];
  }
  slot->step = step;
}

/* ---- The thread that is one batch ahead ---- */

static void *work_ahead(void *argument) {
  lac_batches *batches = argument;
  pthread_mutex_lock(&batches->lock);
  while (!batches->stop) {
    if (batches->making) {
      pthread_mutex_unlock(&batches->lock); /* until it is done, what making needs is this thread's */
      make_batch(batches, batches->wanted, &batches->slots[batches->target]);
      pthread_mutex_lock(&batches->lock);
      batches->making = false;
      pthread_cond_broadcast(&batches->changed);
    } else {
      pthread_cond_wait(&batches->changed, &batches->lock);
    }
  }
  pthread_mutex_unlock(&batches->lock);
  return NULL;
}

/* A thread that cannot be started is no failure: the batches are then made when they are asked for. */
static void start_thread(lac_batches *batches) {
  if (pthread_mutex_init(&batches->lock, NULL) != 0) {
    return;
  }
  if (pthread_cond_init(&batches->changed, NULL) != 0) {
    pthread_mutex_destroy(&batches->lock);
    return;
  }
  batches->started = pthread_create(&batches->thread, NULL, work_ahead, batches) == 0;
  if (!batches->started) {
    pthread_cond_destroy(&batches->changed);
    pthread_mutex_destroy(&batches->lock);
  }
}

static void stop_thread(lac_batches *batches) {
  if (!batches->started) {
    return;
  }
  pthread_mutex_lock(&batches->lock);
  batches->stop = true;
  pthread_cond_broadcast(&batches->changed);
  pthread_mutex_unlock(&batches->lock);
  pthread_join(batches->thread, NULL);
  pthread_cond_destroy(&batches->changed);
  pthread_mutex_destroy(&batches->lock);
}

static void wait_until_made(lac_batches *batches) {
  if (batches->started) {
    pthread_mutex_lock(&batches->lock);
    while (batches->making) {
      pthread_cond_wait(&batches->changed, &batches->lock);
    }
    pthread_mutex_unlock(&batches->lock);
  }
}

/* Lets the thread make a batch in the slot that the caller does not have. */
static void order_ahead(lac_batches *batches, int64_t step) {
  int other = 1 - batches->current;
  if (batches->started && batches->slots[other].step != step) {
    pthread_mutex_lock(&batches->lock);
    batches->wanted = step;
    batches->target = other;
    batches->making = true;
    pthread_cond_broadcast(&batches->changed);
    pthread_mutex_unlock(&batches->lock);
  }
}

/* ---- Public ---- */

static lac_status check_least(lac_context *context, const lac_images *images, const char *name, int64_t value,
                              int64_t least, int64_t most) {
  return value >= least && value <= most
             ? LAC_OK
             : lac_fail(context, LAC_E_USAGE, "%s: %s: found %" PRId64 ", expected %" PRId64 " to %" PRId64,
                        images->source, name, value, least, most);
}

static lac_status check_options(lac_context *context, const lac_images *images, const lac_batches_options *options) {
  int64_t side = images->shape.height < images->shape.width ? images->shape.height : images->shape.width;
  if (!images->labels) {
    return lac_fail(context, LAC_E_USAGE, "%s: found pictures without labels, expected labels for batches",
                    images->source);
  }
  LAC_TRY(check_least(context, images, "batch", options->batch, 1, INT64_MAX));
  LAC_TRY(check_least(context, images, "replicas", options->replicas, 1, INT32_MAX));
  LAC_TRY(check_least(context, images, "replica", options->replica, 0, options->replicas - 1));
  LAC_TRY(check_least(context, images, "crop", options->crop, 0, side - 1));
  if (!(options->fraction > 0 && options->fraction <= 1)) {
    return lac_fail(context, LAC_E_USAGE, "%s: fraction: found %g, expected more than 0, at most 1", images->source,
                    options->fraction);
  }
  return LAC_OK;
}

static lac_status allocate(lac_context *context, lac_batches *batches, int64_t count) {
  int64_t batch = batches->options.batch;
  LAC_TRY(choose_part(context, batches, count));
  LAC_TRY(LAC_NEW(context, batches->points, &batches->order));
  LAC_TRY(LAC_NEW(context, batches->shape.width, &batches->columns));
  for (int i = 0; i < (batches->options.ahead ? 2 : 1); i++) {
    LAC_TRY(LAC_NEW(context, batch * lac_shape_pixels(batches->shape), &batches->slots[i].pictures));
    LAC_TRY(LAC_NEW(context, batch, &batches->slots[i].labels));
  }
  return LAC_OK;
}

lac_status lac_batches_create(lac_context *context, const lac_images *images, const float *prepared,
                              const lac_batches_options *options, lac_batches **batches) {
  *batches = NULL;
  LAC_TRY(check_options(context, images, options));
  int64_t points = part_size(images->count, options->fraction);
  if (points < options->batch) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found %" PRId64 " pictures for replica %" PRId64 " of %" PRId64
                    ", expected at least a batch of %" PRId64,
                    images->source, points, options->replica, options->replicas, options->batch);
  }
  lac_batches *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  made->options = *options;
  made->shape = images->shape;
  made->prepared = prepared;
  made->labels = images->labels;
  made->points = points;
  made->per_pass = points / options->batch;
  made->pass = made->slots[0].step = made->slots[1].step = -1;
  lac_status status = allocate(context, made, images->count);
  if (status) {
    lac_batches_destroy(&made);
    return status;
  }
  if (options->ahead) {
    start_thread(made);
  }
  *batches = made;
  return LAC_OK;
}

void lac_batches_destroy(lac_batches **batches) {
  if (!*batches) {
    return;
  }
  stop_thread(*batches);
  for (int i = 0; i < 2; i++) {
    lac_free((*batches)->slots[i].labels);
    lac_free((*batches)->slots[i].pictures);
  }
  lac_free((*batches)->columns);
  lac_free((*batches)->order);
  lac_free((*batches)->part);
  lac_free(*batches);
  *batches = NULL;
}

int64_t lac_batches_points(const lac_batches *batches) {
  return batches->points;
}
int64_t lac_batches_per_pass(const lac_batches *batches) {
  return batches->per_pass;
}

lac_status lac_batches_get(lac_context *context, lac_batches *batches, int64_t step, const float **pictures,
                           const int32_t **labels) {
  if (step < 0) {
    return lac_fail(context, LAC_E_USAGE, "batch %" PRId64 " asked for, expected one from 0 up", step);
  }
  wait_until_made(batches);
  if (batches->slots[1].step == step) {
    batches->current = 1;
  } else if (batches->slots[0].step == step) {
    batches->current = 0;
  } else {
    make_batch(batches, step, &batches->slots[batches->current]);
  }
  const batch_slot *current = &batches->slots[batches->current];
  if (step < INT64_MAX) {
    order_ahead(batches, step + 1);
  }
  *pictures = current->pictures;
  *labels = current->labels;
  return LAC_OK;
}
