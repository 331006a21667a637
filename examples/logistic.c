/* Logistic regression by replicas that speak seldom: not a network, any gradient will do. Uses nothing but Laconic's
 * public headers.
 *
 *     logistic [FILE [WORKERS]]
 *
 * FILE holds points in the format of libsvm, a line each: LABEL INDEX:VALUE …, labels positive or not, indices from 1.
 * Without one the example makes a file of its own. Every worker keeps a share of the points and a replica of the
 * weights; each method says what it reached and what it sent. Exits 0 when all of them learnt. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <laconic/laconic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 20, MADE_POINTS = 3000, MADE_COLUMNS = 30, MOST_COLUMNS = 1000000 };

typedef struct entry {
  int column;
  float value;
} entry;

/* Points as rows of entries: row i is entries[rows[i]] to entries[rows[i + 1]], its label +1 or -1. */
typedef struct points {
  int count, columns;
  long entry_count, *rows;
  entry *entries;
  float *labels;
} points;

/* ---- the file --------------------------------------------------------------------------------------------------- */

static double uniform(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) / 16777216.0;
}

/* Sparse points whose label is the sign of a fixed sum of their values, one in twenty of them wrong. */
static void make_file(FILE *file) {
  unsigned state = 7;
  for (int i = 0; i < MADE_POINTS; i++) {
    float values[MADE_COLUMNS] = {0};
    double sum = 0;
    for (int j = 0; j < MADE_COLUMNS; j++) {
      if (uniform(&state) < 0.3) {
        values[j] = (float)(2 * uniform(&state) - 1);
        sum += (j % 5 - 2) * values[j];
      }
    }
    fprintf(file, "%+d", (sum > 0) != (uniform(&state) < 0.05) ? 1 : -1);
    for (int j = 0; j < MADE_COLUMNS; j++) {
      if (values[j] != 0) {
        fprintf(file, " %d:%.4f", j + 1, values[j]);
      }
    }
    fputc('\n', file);
  }
  rewind(file);
}

static int fail(const char *path, int line, const char *what) {
  fprintf(stderr, "%s: line %d: %s\n", path, line, what);
  return 2;
}

static int read_line(const char *path, int line, char *text, points *p) {
  char *at = text;
  errno = 0;
  double label = strtod(at, &at);
  if (at == text) {
    return fail(path, line, "found no label, expected LABEL INDEX:VALUE ...");
  }
  p->labels = realloc(p->labels, (size_t)(p->count + 1) * sizeof *p->labels);
  p->rows = realloc(p->rows, (size_t)(p->count + 2) * sizeof *p->rows);
  p->labels[p->count++] = label > 0 ? 1 : -1;
  while (at[strspn(at, " \t\r\n")]) {
    char *colon, *end;
    long column = strtol(at, &colon, 10);
    double value = *colon == ':' ? strtod(colon + 1, &end) : 0;
    if (*colon != ':' || end == colon + 1 || column < 1 || column > MOST_COLUMNS || !isfinite(value)) {
      return fail(path, line, "found something else than INDEX:VALUE with an index from 1");
    }
    if ((p->entry_count & (p->entry_count - 1)) == 0) { /* room for 1, 2, 4, … */
      p->entries = realloc(p->entries, (size_t)(p->entry_count ? 2 * p->entry_count : 1) * sizeof *p->entries);
    }
    p->entries[p->entry_count++] = (entry){(int)column - 1, (float)value};
    p->columns = column > p->columns ? (int)column : p->columns;
    at = end;
  }
  p->rows[p->count] = p->entry_count;
  return 0;
}

static int read_points(const char *path, FILE *file, points *p) {
  char *text = NULL;
  size_t room = 0;
  int status = 0;
  *p = (points){.rows = calloc(2, sizeof(long))};
  for (int line = 1; !status && getline(&text, &room, file) > 0; line++) {
    status = text[strspn(text, " \t\r\n")] ? read_line(path, line, text, p) : 0;
  }
  free(text);
  return status || p->count > 0 ? status : fail(path, 1, "found no points");
}

static void free_points(points *p) {
  free(p->rows);
  free(p->entries);
  free(p->labels);
}

/* ---- the objective ---------------------------------------------------------------------------------------------- */

static double margin_of(const points *p, int i, const float *x) {
  double sum = x[p->columns]; /* the last weight is the bias */
  for (long e = p->rows[i]; e < p->rows[i + 1]; e++) {
    sum += (double)x[p->entries[e].column] * p->entries[e].value;
  }
  return p->labels[i] * sum;
}

/* A worker's share of the points. */
typedef struct share {
  const points *all;
  int first, count;
} share;

/* Batch `step` is the next BATCH points of the share, round and round: it depends on `step` alone, as it must. */
static lac_status gradient(void *user, lac_context *context, int64_t step, const float *x, float *out,
                           lac_batch_result *result) {
  (void)context;
  const share *mine = user;
  const points *p = mine->all;
  memset(out, 0, (size_t)(p->columns + 1) * sizeof *out);
  *result = (lac_batch_result){.points = BATCH};
  for (int b = 0; b < BATCH; b++) {
    int i = mine->first + (int)((step * BATCH + b) % mine->count);
    double margin = margin_of(p, i, x), slope = -p->labels[i] / (1 + exp(margin)) / BATCH;
    for (long e = p->rows[i]; e < p->rows[i + 1]; e++) {
      out[p->entries[e].column] += (float)slope * p->entries[e].value;
    }
    out[p->columns] += (float)slope;
    result->loss += log1p(exp(-margin)) / BATCH;
    result->errors += margin <= 0;
  }
  return LAC_OK;
}

/* ---- the workers ------------------------------------------------------------------------------------------------ */

typedef struct job {
  const points *all;
  lac_replica_options options;
  float *answer; /* worker 0's; the others' are equal bit for bit */
  lac_counts counts;
  double spread;
} job;

static lac_status train(lac_world *world, void *argument) {
  job *job = argument;
  lac_context *context = lac_world_context(world);
  int rank = lac_world_rank(world), workers = lac_world_size(world), columns = job->all->columns;
  share mine = {.all = job->all, .first = job->all->count / workers * rank, .count = job->all->count / workers};
  lac_objective objective = {
      .parameters = columns + 1, .batches_per_pass = mine.count / BATCH, .gradient = gradient, .user = &mine};
  float *x = calloc((size_t)columns + 1, sizeof *x);
  lac_replica *replica;
  double spread;
  lac_status status = lac_replica_create(context, world, &objective, &job->options, x, &replica);
  if (!status) {
    status = lac_replica_advance(context, replica, lac_replica_progress_of(replica).steps);
  }
  lac_counts counts = lac_world_counts(world);
  if (!status) {
    status = lac_replica_answer(context, replica, x);
  }
  if (!status) {
    status = lac_replica_spread(context, replica, x, &spread);
  }
  if (!status && rank == 0) {
    memcpy(job->answer, x, ((size_t)columns + 1) * sizeof *x);
    job->counts = counts;
    job->spread = spread;
  }
  lac_replica_destroy(&replica);
  free(x);
  return status;
}

static int run_method(lac_context *context, const points *all, const char *method, int workers, const char *epochs) {
  const lac_option *table = lac_replica_option_table();
  job job = {.all = all, .answer = calloc((size_t)all->columns + 1, sizeof(float))};
  lac_world_options world = {.workers = workers};
  lac_status status = lac_options_default(context, table, &job.options);
  if (!status) {
    status = lac_options_set(context, table, &job.options, "method", method);
  }
  if (!status) {
    status = lac_options_set(context, table, &job.options, "epochs", epochs);
  }
  if (!status) {
    status = lac_world_run(context, &world, train, &job);
  }
  int wrong = 0;
  double loss = 0;
  for (int i = 0; !status && i < all->count; i++) {
    double margin = margin_of(all, i, job.answer);
    wrong += margin <= 0;
    loss += log1p(exp(-margin)) / all->count;
  }
  if (status) {
    fprintf(stderr, "%s: %s\n", method, lac_context_message(context));
  } else {
    printf("%-8s %d workers: loss %.4f, %.2f %% wrong, %lld messages of %lld bytes in all by worker 0, spread %.2g\n",
           method, workers, loss, 100.0 * wrong / all->count, (long long)job.counts.messages[LAC_TRAFFIC_MODEL],
           (long long)job.counts.bytes[LAC_TRAFFIC_MODEL], job.spread);
  }
  lac_options_clear(table, &job.options);
  free(job.answer);
  return status == LAC_OK && wrong < all->count / 4;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "(made up)";
  int workers = argc > 2 ? atoi(argv[2]) : 3;
  FILE *file = argc > 1 ? fopen(path, "r") : tmpfile();
  if (!file || workers < 1) {
    fprintf(stderr, "%s: %s\n", file ? argv[2] : path, file ? "expected a number of workers" : strerror(errno));
    return 2;
  }
  if (argc <= 1) {
    make_file(file);
  }
  points all;
  int status = read_points(path, file, &all);
  fclose(file);
  if (!status && all.count / workers < BATCH) {
    status = fail(path, all.count, "found fewer points than a batch for every worker");
  }
  lac_context *context = NULL;
  if (!status && lac_context_create(&context) != LAC_OK) {
    status = 1;
  }
  if (!status) {
    int learnt = run_method(context, &all, "sgd", workers, "20") + run_method(context, &all, "elastic", workers, "20") +
                 run_method(context, &all, "entropy", 1, "2") + run_method(context, &all, "parle", workers, "2");
    status = learnt == 4 ? 0 : 1;
  }
  lac_context_destroy(&context);
  free_points(&all);
  return status;
}
