/* Training of the built-in networks, one thread: `nets [REPEATS]` prints images per CPU-second as Markdown, medians of
 * alternating steps. A step is what a step of training costs: the gradient of a batch of 128 random pictures and a
 * Nesterov update of the parameters. `nets NET WAY` makes a step for every line on standard input and prints its CPU
 * seconds; bench/nets_torch.py drives that. The ways are
 *
 *     reference   im2col and BLAS
 *     direct      oneDNN
 *     auto        oneDNN with Winograd's algorithm where that is faster
 *     bf16        oneDNN with products and activations in bfloat16
 *
 * Ask OpenBLAS for the processor's own kernels first: env $(python3 bench/blas.py) build/bench/nets. */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "laconic/net.h"
#include "rates.h"

enum { REPEATS = 9, MOST_REPEATS = 100, BATCH = 128, CLASSES = 10 };

static const struct {
  const char *name;
  lac_image_shape input;
} networks[] = {{"lenet", {1, 28, 28}}, {"allcnn", {3, 32, 32}}, {"resnet20", {3, 32, 32}}};

static const struct {
  const char *name;
  lac_net_options options;
} ways[] = {
    {"reference", {LAC_BACKEND_REFERENCE, LAC_PRECISION_F32, LAC_CONVOLUTION_DIRECT}},
    {"direct", {LAC_BACKEND_ONEDNN, LAC_PRECISION_F32, LAC_CONVOLUTION_DIRECT}},
    {"auto", {LAC_BACKEND_ONEDNN, LAC_PRECISION_F32, LAC_CONVOLUTION_AUTO}},
    {"bf16", {LAC_BACKEND_ONEDNN, LAC_PRECISION_BF16, LAC_CONVOLUTION_DIRECT}},
};
enum { NETWORKS = sizeof networks / sizeof *networks, WAYS = sizeof ways / sizeof *ways };

typedef struct bench {
  lac_net *net;
  int64_t count, step;
  float *parameters, *gradient, *momentum; /* (count) */
  float *pictures;
  int32_t labels[BATCH];
  double rates[MOST_REPEATS];
} bench;

static void bench_clear(bench *b) {
  lac_net_destroy(&b->net);
  lac_free(b->parameters);
  lac_free(b->gradient);
  lac_free(b->momentum);
  lac_free(b->pictures);
}

static lac_status bench_create(lac_context *context, int network, int way, bench *b) {
  lac_image_shape shape = networks[network].input;
  int64_t pixels = BATCH * shape.channels * shape.height * shape.width;
  char *text = NULL;
  float *statistics = NULL;
  *b = (bench){.net = NULL};
  LAC_TRY(lac_net_builtin(context, networks[network].name, 1, &text));
  lac_status status =
      lac_net_create(context, text, networks[network].name, shape, CLASSES, BATCH, &ways[way].options, &b->net);
  free(text);
  LAC_TRY(status);
  b->count = lac_net_parameters(b->net);
  LAC_TRY(LAC_NEW(context, b->count, &b->parameters));
  LAC_TRY(LAC_NEW(context, b->count, &b->gradient));
  LAC_TRY(LAC_NEW(context, b->count, &b->momentum));
  LAC_TRY(LAC_NEW(context, pixels, &b->pictures));
  LAC_TRY(LAC_NEW(context, lac_net_statistics(b->net), &statistics));
  lac_net_initialise(b->net, 1, b->parameters, statistics);
  lac_free(statistics);
  lac_random random = lac_random_stream(1, LAC_RANDOM_TEST, 0, 0);
  for (int64_t i = 0; i < pixels; i++) {
    b->pictures[i] = (float)lac_random_normal(&random);
  }
  for (int i = 0; i < BATCH; i++) {
    b->labels[i] = (int32_t)lac_random_below(&random, CLASSES);
  }
  return LAC_OK;
}

static lac_status step(lac_context *context, bench *b, double *seconds) {
  double start = cpu_seconds(), loss;
  int64_t errors;
  lac_net_key key = {.seed = 1, .step = b->step++};
  LAC_TRY(lac_net_gradient(context, b->net, b->parameters, b->pictures, b->labels, key, b->gradient, &loss, &errors));
  for (int64_t i = 0; i < b->count; i++) {
    b->momentum[i] = 0.9F * b->momentum[i] + b->gradient[i];
    b->parameters[i] -= 0.01F * (b->gradient[i] + 0.9F * b->momentum[i]);
  }
  *seconds = cpu_seconds() - start;
  return LAC_OK;
}

/* ---- all networks in all ways ---- */

static lac_status run_repeats(lac_context *context, int repeats, bench *benches) {
  for (int r = -1; r < repeats; r++) { /* the first warms up */
    for (int way = 0; way < WAYS; way++) {
      double seconds = 0;
      if (benches[way].net) {
        LAC_TRY(step(context, &benches[way], &seconds));
      }
      benches[way].rates[r < 0 ? 0 : r] = seconds > 0 ? BATCH / seconds : 0;
    }
  }
  return LAC_OK;
}

static lac_status measure_network(lac_context *context, int network, int repeats, bench benches[WAYS]) {
  for (int way = 0; way < WAYS; way++) {
    lac_status status = bench_create(context, network, way, &benches[way]);
    if (status && status != LAC_E_UNSUPPORTED) {
      return status;
    }
  }
  LAC_TRY(run_repeats(context, repeats, benches));
  printf("| %s |", networks[network].name);
  for (int way = 0; way < WAYS; way++) {
    figure rate = figure_of(benches[way].rates, repeats);
    if (benches[way].net) {
      printf(" %.0f (%.0f to %.0f) |", rate.median, rate.low, rate.high);
    } else {
      printf(" not here |");
    }
  }
  printf("\n");
  fflush(stdout);
  return LAC_OK;
}

static lac_status measure_all(lac_context *context, int repeats) {
  printf("images per CPU-second, batch %d, gradient and update, one thread, median (lowest to highest) of %d\n\n",
         BATCH, repeats);
  printf("| net |");
  for (int way = 0; way < WAYS; way++) {
    printf(" %s |", ways[way].name);
  }
  printf("\n| --- | --- | --- | --- | --- |\n");
  lac_status status = LAC_OK;
  for (int network = 0; !status && network < NETWORKS; network++) {
    bench benches[WAYS] = {{.net = NULL}};
    status = measure_network(context, network, repeats, benches);
    for (int way = 0; way < WAYS; way++) {
      bench_clear(&benches[way]);
    }
  }
  return status;
}

/* ---- one step a line ---- */

static lac_status serve(lac_context *context, int network, int way) {
  char line[16];
  bench b;
  double seconds = 0;
  lac_status status = bench_create(context, network, way, &b);
  while (!status && fgets(line, sizeof line, stdin)) {
    status = step(context, &b, &seconds);
    printf("%.6f\n", seconds);
    fflush(stdout);
  }
  bench_clear(&b);
  return status;
}

static lac_status run(lac_context *context, int count, char **arguments) {
  if (count == 2) {
    for (int network = 0; network < NETWORKS; network++) {
      for (int way = 0; way < WAYS; way++) {
        if (strcmp(arguments[0], networks[network].name) == 0 && strcmp(arguments[1], ways[way].name) == 0) {
          return serve(context, network, way);
        }
      }
    }
  }
  int repeats = count == 1 ? atoi(arguments[0]) : count == 0 ? REPEATS : 0;
  if (repeats < 1 || repeats > MOST_REPEATS) {
    return lac_fail(context, LAC_E_USAGE,
                    "usage: nets [REPEATS], from 1 to %d, or nets lenet|allcnn|resnet20 reference|direct|auto|bf16",
                    MOST_REPEATS);
  }
  return measure_all(context, repeats);
}

int main(int argc, char **argv) {
  lac_context *context;
  if (lac_context_create(&context) != LAC_OK) {
    return 1;
  }
  lac_status status = run(context, argc - 1, argv + 1);
  if (status) {
    fprintf(stderr, "nets: %s\n", lac_context_message(context));
  }
  lac_context_destroy(&context);
  return lac_status_exit(status);
}
