/* Mixing times and spectra, timed: one thread, CPU time, medians are bench/mixing.py's. A JSON line for each repeat.
 *
 *     mixing exact N REPEATS              lac_mixing_exact of a dense ring of N, weights 1/3
 *     mixing spectrum KIND N REPEATS      lac_mixing_spectrum of a topology, seed 1
 *     mixing numeric KIND N REPEATS       the same matrix as one of which nothing is known, as from a file
 *     mixing weights KIND N FILE          the matrix for others: n, entries (int64), start (int64), column (int32),
 *                                         weight (double), as this machine has them
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "laconic/mixing.h"
#include "mixing/spectrum.h"
#include "rates.h"

static lac_status time_exact(lac_context *context, int64_t n) {
  double *matrix;
  int64_t steps;
  LAC_TRY(LAC_NEW(context, n * n, &matrix));
  for (int64_t i = 0; i < n; i++) {
    matrix[i * n + i] = matrix[i * n + (i + 1) % n] = matrix[i * n + (i + n - 1) % n] = 1.0 / 3;
  }
  double start = cpu_seconds();
  lac_status status = lac_mixing_exact(context, n, n, matrix, &steps);
  if (!status) {
    printf("{\"steps\": %lld, \"seconds\": %.6f}\n", (long long)steps, cpu_seconds() - start);
  }
  lac_free(matrix);
  return status;
}

static lac_status time_spectrum(lac_context *context, const lac_topology *topology, bool numeric) {
  static const char *const methods[] = {"closed", "dense", "arpack", "shift-invert", "lanczos"};
  lac_spectrum spectrum;
  double lower, upper, start = cpu_seconds();
  if (numeric) {
    LAC_TRY(lac_spectrum_of_weights(context, lac_topology_weights(topology, 0), LAC_SPECTRUM_ANY, &spectrum));
  } else {
    LAC_TRY(lac_mixing_spectrum(context, topology, &spectrum));
  }
  double seconds = cpu_seconds() - start;
  lac_mixing_bounds(&spectrum, &lower, &upper);
  printf("{\"method\": \"%s\", \"gap\": %.17g, \"lower\": %.17g, ", methods[spectrum.method], 1 - spectrum.second,
         lower);
  if (isnan(upper)) {
    printf("\"upper\": null, \"seconds\": %.6f}\n", seconds);
  } else {
    printf("\"upper\": %.17g, \"seconds\": %.6f}\n", upper, seconds);
  }
  return LAC_OK;
}

static lac_status write_weights(lac_context *context, const lac_weights *w, const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) {
    return lac_fail(context, LAC_E_OUTPUT, "%s: not writable", path);
  }
  int64_t entries = w->start[w->n];
  bool written = fwrite(&w->n, sizeof w->n, 1, file) == 1 && fwrite(&entries, sizeof entries, 1, file) == 1 &&
                 fwrite(w->start, sizeof *w->start, (size_t)w->n + 1, file) == (size_t)w->n + 1 &&
                 fwrite(w->column, sizeof *w->column, (size_t)entries, file) == (size_t)entries &&
                 fwrite(w->weight, sizeof *w->weight, (size_t)entries, file) == (size_t)entries;
  return fclose(file) == 0 && written ? LAC_OK : lac_fail(context, LAC_E_OUTPUT, "%s: not written", path);
}

static lac_status create(lac_context *context, const char *kind, int64_t n, lac_topology **topology) {
  lac_topology_options options = {.degree = 4};
  while (options.kind < LAC_TOPOLOGY_FILE && strcmp(lac_topology_kind_name(options.kind), kind) != 0) {
    options.kind++;
  }
  if (options.kind == LAC_TOPOLOGY_FILE) {
    return lac_fail(context, LAC_E_USAGE, "found '%s', expected a kind of topology", kind);
  }
  return lac_topology_create(context, &options, n, 1, topology);
}

static lac_status run(lac_context *context, int count, char **words) {
  if (count == 4 && strcmp(words[1], "exact") == 0) {
    for (long i = strtol(words[3], NULL, 10); i > 0; i--) {
      LAC_TRY(time_exact(context, strtol(words[2], NULL, 10)));
    }
    return LAC_OK;
  }
  if (count != 5) {
    return lac_fail(context, LAC_E_USAGE,
                    "mixing exact N REPEATS | spectrum|numeric KIND N REPEATS | weights KIND N FILE");
  }
  lac_topology *topology = NULL;
  LAC_TRY(create(context, words[2], strtol(words[3], NULL, 10), &topology));
  lac_status status = LAC_OK;
  if (strcmp(words[1], "weights") == 0) {
    status = write_weights(context, lac_topology_weights(topology, 0), words[4]);
  } else {
    for (long i = strtol(words[4], NULL, 10); i > 0 && !status; i--) {
      status = time_spectrum(context, topology, strcmp(words[1], "numeric") == 0);
    }
  }
  lac_topology_destroy(&topology);
  return status;
}

int main(int count, char **words) {
  lac_context *context = NULL;
  lac_status status = lac_context_create(&context);
  if (!status) {
    status = run(context, count, words);
    if (status) {
      fprintf(stderr, "mixing: %s\n", lac_context_message(context));
    }
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
