/* Writes clustered byte vectors, as many as wanted, to measure with: see usage() below.
 *
 * Row i depends on (seed, clusters, spread, columns, i) alone. So queries are rows after those of the base (--first),
 * and parts of one set can be written on many machines. A row is its cluster's centre plus noise of a normal
 * distribution in 256 quantiles, one random byte a value, cut to bytes. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/profile.h"
#include "base/random.h"
#include "laconic/options.h"
#include "laconic/output.h"

enum { BUFFER_BYTES = 1 << 20, CENTRE_SPREAD = 40, CENTRES = 0, ROWS = 1 };

typedef struct generator_options {
  int64_t rows, columns, clusters, first, seed;
  double spread;
} generator_options;

#define INTEGER(name, letter_, low_, high_, fallback_, unit_, help_)                                                   \
  {                                                                                                                    \
    .key = #name, .type = LAC_OPTION_INT, .letter = letter_, .offset = offsetof(generator_options, name), .low = low_, \
    .high = high_, .fallback = fallback_, .unit = unit_, .help = help_                                                 \
  }

static const lac_option table[] = {
    INTEGER(rows, 'n', 1, 1e12, "1M", "vectors", "vectors to write"),
    INTEGER(columns, 'd', 1, 1e6, "128", "columns", "dimensions of a vector"),
    INTEGER(clusters, 'c', 1, 1e6, "1000", "clusters", "clusters, all of the same size in the mean"),
    INTEGER(first, 'f', 0, 1e15, "0", "rows", "number of the first row: rows of a seed are numbered without end"),
    INTEGER(seed, 's', 0, 1e15, "1", NULL, "seed of the random numbers"),
    {.key = "spread",
     .type = LAC_OPTION_REAL,
     .letter = 'w',
     .offset = offsetof(generator_options, spread),
     .low = 0,
     .high = 100,
     .fallback = "20",
     .help = "standard deviation of a value within its cluster; centres have 40 about 128"},
    LAC_OPTIONS_END,
};

static void usage(FILE *out) {
  fprintf(out,
          "usage: generate_vectors [--OPTION VALUE]... OUT.bvecs|OUT.u8bin|OUT.fvecs\n"
          "Writes clustered vectors of values 0 to 255. Numbers may end in k, M or G.\n");
  for (const lac_option *option = table; option->key; option++) {
    fprintf(out, "  --%-10s %s [%s]\n", option->key, option->help, option->fallback);
  }
}

/* ---- Interruption: the only thing that a signal handler can reach is a global ---- */

static lac_context *volatile interruptible;

static void on_signal(int number) {
  (void)number;
  lac_context_interrupt(interruptible);
}

/* ---- Vectors ---- */

/* The value that a standard normal variable stays below with this probability, by bisection. */
static double normal_quantile(double probability) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; i++) {
    double middle = (low + high) / 2;
    if (erfc(-middle / sqrt(2)) / 2 < probability) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

static uint8_t cut(double value) {
  return (uint8_t)fmin(fmax(rint(value), 0), 255);
}

/* What rows are made of. */
typedef struct generator {
  generator_options options;
  uint8_t *centres;   /* (clusters, D) */
  int16_t noise[256]; /* quantiles of the noise */
  uint8_t *random;    /* (D, up to 8 bytes more) */
} generator;

static lac_status prepare(lac_context *context, generator *self) {
  int64_t columns = self->options.columns;
  LAC_TRY(LAC_NEW(context, self->options.clusters * columns, &self->centres));
  LAC_TRY(LAC_NEW(context, columns + 8, &self->random));
  for (int64_t i = 0; i < self->options.clusters; i++) {
    lac_random stream = lac_random_stream(self->options.seed, LAC_RANDOM_TEST, CENTRES, (uint64_t)i);
    for (int64_t j = 0; j < columns; j++) {
      self->centres[i * columns + j] = cut(128 + CENTRE_SPREAD * lac_random_normal(&stream));
    }
  }
  for (int i = 0; i < 256; i++) {
    self->noise[i] = (int16_t)rint(self->options.spread * normal_quantile((i + 0.5) / 256));
  }
  return LAC_OK;
}

static void make_row(generator *self, int64_t number, uint8_t *row) {
  int64_t columns = self->options.columns;
  lac_random stream = lac_random_stream(self->options.seed, LAC_RANDOM_TEST, ROWS, (uint64_t)number);
  const uint8_t *centre = self->centres + lac_random_below(&stream, self->options.clusters) * columns;
  for (int64_t j = 0; j < columns; j += 8) {
    uint64_t bits = lac_random_bits(&stream);
    memcpy(self->random + j, &bits, sizeof bits);
  }
  for (int64_t j = 0; j < columns; j++) {
    int value = centre[j] + self->noise[self->random[j]];
    row[j] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
  }
}

/* ---- Files ---- */

typedef struct file_kind {
  const char *suffix;
  bool records; /* the dimension before each row, else rows and columns at the start */
  size_t size;  /* bytes of a value */
} file_kind;

static const file_kind kinds[] = {{".bvecs", true, 1}, {".u8bin", false, 1}, {".fvecs", true, 4}};

static lac_status find_kind(lac_context *context, const char *path, const generator_options *options,
                            const file_kind **kind) {
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot && i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcasecmp(dot, kinds[i].suffix) == 0) {
      *kind = &kinds[i];
      if (!kinds[i].records && options->rows > UINT32_MAX) {
        return lac_fail(context, LAC_E_USAGE, "%s: %" PRId64 " rows asked for, u8bin holds at most %" PRIu32, path,
                        options->rows, UINT32_MAX);
      }
      return LAC_OK;
    }
  }
  return lac_fail(context, LAC_E_USAGE, "%s: found extension '%s', expected .bvecs, .u8bin or .fvecs", path,
                  dot ? dot : "");
}

/* One row as the file has it; returns the bytes. */
static size_t encode_row(const file_kind *kind, const uint8_t *row, int64_t columns, uint8_t *out) {
  uint8_t *at = out;
  if (kind->records) {
    int32_t dimension = (int32_t)columns;
    memcpy(at, &dimension, sizeof dimension);
    at += sizeof dimension;
  }
  if (kind->size == 1) {
    memcpy(at, row, (size_t)columns);
    return (size_t)(at - out) + (size_t)columns;
  }
  for (int64_t j = 0; j < columns; j++, at += sizeof(float)) {
    float value = row[j];
    memcpy(at, &value, sizeof value);
  }
  return (size_t)(at - out);
}

static lac_status write_rows(lac_context *context, generator *self, const file_kind *kind, lac_output *output) {
  int64_t columns = self->options.columns;
  size_t most = 4 + (size_t)columns * kind->size, used = 0;
  uint8_t *buffer = NULL, *row = NULL;
  lac_status status;
  LAC_TRY_GOTO(status, LAC_NEW(context, (int64_t)(BUFFER_BYTES + most), &buffer), failed);
  LAC_TRY_GOTO(status, LAC_NEW(context, columns, &row), failed);
  if (!kind->records) {
    uint32_t head[2] = {(uint32_t)self->options.rows, (uint32_t)columns};
    memcpy(buffer, head, sizeof head);
    used = sizeof head;
  }
  for (int64_t i = 0; i < self->options.rows; i++) {
    make_row(self, self->options.first + i, row);
    used += encode_row(kind, row, columns, buffer + used);
    if (used >= BUFFER_BYTES || i == self->options.rows - 1) {
      LAC_TRY_GOTO(status, lac_output_write(context, output, buffer, used), failed);
      used = 0;
      if (lac_context_interrupted(context)) {
        status = lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted after %" PRId64 " rows", output->path, i + 1);
        goto failed;
      }
    }
  }

failed:
  lac_free(row);
  lac_free(buffer);
  return status;
}

static lac_status generate(lac_context *context, generator *self, const char *path) {
  const file_kind *kind = NULL;
  lac_output output;
  double start = lac_seconds();
  LAC_TRY(find_kind(context, path, &self->options, &kind));
  LAC_TRY(lac_output_open(context, path, &output));
  lac_status status = prepare(context, self);
  if (!status) {
    status = write_rows(context, self, kind, &output);
  }
  if (status) {
    lac_output_discard(&output);
    return status;
  }
  LAC_TRY(lac_output_commit(context, &output));
  double seconds = lac_seconds() - start;
  double bytes = (double)self->options.rows * (double)self->options.columns * (double)kind->size;
  fprintf(stderr, "%s: %" PRId64 " rows of %" PRId64 " columns in %.2f s, %.0f MB/s\n", path, self->options.rows,
          self->options.columns, seconds, bytes / 1e6 / seconds);
  return LAC_OK;
}

/* --key value, --key=value or the output's name. */
static lac_status parse(lac_context *context, int argc, char **argv, generator_options *options, const char **path) {
  LAC_TRY(lac_options_default(context, table, options));
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) != 0) {
      if (*path) {
        return lac_fail(context, LAC_E_USAGE, "%s: a second output, expected one (%s)", argv[i], *path);
      }
      *path = argv[i];
      continue;
    }
    char *key = argv[i] + 2, *equals = strchr(key, '=');
    if (equals) {
      *equals = 0;
    }
    const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : "";
    LAC_TRY(lac_options_set(context, table, options, key, value));
  }
  return *path ? LAC_OK : lac_fail(context, LAC_E_USAGE, "no output named, expected OUT.bvecs, OUT.u8bin or OUT.fvecs");
}

int main(int argc, char **argv) {
  lac_context *context;
  generator self = {0};
  const char *path = NULL;
  if (argc == 2 && strcmp(argv[1], "--help") == 0) {
    usage(stdout);
    return 0;
  }
  if (lac_context_create(&context)) {
    return 1;
  }
  interruptible = context;
  sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
  sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
  lac_status status = parse(context, argc, argv, &self.options, &path);
  if (!status) {
    status = generate(context, &self, path);
  }
  if (status) {
    fprintf(stderr, "generate_vectors: %s\n", lac_context_message(context));
    if (status == LAC_E_USAGE) {
      usage(stderr);
    }
  }
  lac_free(self.centres);
  lac_free(self.random);
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
