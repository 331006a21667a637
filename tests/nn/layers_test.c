/* Every layer, alone and in small networks, on every back end: probabilities, loss, gradients and statistics against
 * the oracle's. A back end has its line in the list. */
#include <math.h>

#include "base/random.h"
#include "laconic/net.h"
#include "oracle.h"
#include "support.h"

static const lac_net_backend backends[] = {
    LAC_BACKEND_REFERENCE,
#ifdef LACONIC_HAVE_ONEDNN
    LAC_BACKEND_ONEDNN,
#endif
};
enum { BACKENDS = sizeof backends / sizeof *backends, SLOPES = 12 };

typedef struct network {
  const char *text; /* or the name of a built-in */
  lac_image_shape input;
  int64_t classes, batch;
  double width; /* of a built-in */
} network;

/* What is fed to all back ends. */
typedef struct feed {
  lac_context *context;
  const network *of;
  char *text;
  lac_graph graph;
  float *parameters, *statistics, *pictures;
  double *exact; /* the parameters */
  int32_t *labels;
  lac_net_key key;
} feed;

static void *room(int64_t count, size_t size) {
  void *memory = calloc((size_t)count + 1, size);
  assert_non_null(memory);
  return memory;
}

static feed make_feed(lac_context *context, const network *of) {
  feed self = {.context = context, .of = of, .key = {.seed = 3, .replica = 1, .step = 7}};
  if (of->width > 0) {
    assert_ok(context, lac_net_builtin(context, of->text, of->width, &self.text));
  } else {
    self.text = strdup(of->text);
  }
  assert_ok(context, lac_graph_parse(context, self.text, "test", of->input, of->classes, of->batch, &self.graph));
  int64_t pixels = of->batch * of->input.channels * of->input.height * of->input.width;
  self.parameters = room(self.graph.parameters, sizeof(float));
  self.exact = room(self.graph.parameters, sizeof(double));
  self.statistics = room(self.graph.statistics, sizeof(float));
  self.pictures = room(pixels, sizeof(float));
  self.labels = room(of->batch, sizeof(int32_t));
  lac_random random = lac_random_stream(11, LAC_RANDOM_TEST, 0, 0);
  for (int i = 0; i < self.graph.count; i++) {
    const lac_node *node = &self.graph.nodes[i];
    bool norm = node->kind == LAC_NODE_BATCHNORM;
    double spread = norm                 ? 0.3
                    : node->weight_count ? sqrt(2.0 * (double)node->shape.channels / (double)node->weight_count)
                                         : 0;
    for (int64_t j = 0; j < node->weight_count; j++) {
      self.parameters[node->weight + j] = (float)(norm + spread * lac_random_normal(&random));
    }
    for (int64_t j = 0; j < node->offset_count; j++) {
      self.parameters[node->offset + j] = (float)(0.3 * lac_random_normal(&random));
    }
    for (int64_t j = 0; norm && j < node->shape.channels; j++) {
      self.statistics[node->mean + j] = (float)(0.3 * lac_random_normal(&random));
      self.statistics[node->variance + j] = (float)(0.5 + lac_random_uniform(&random));
    }
  }
  for (int64_t j = 0; j < self.graph.parameters; j++) {
    self.exact[j] = self.parameters[j];
  }
  for (int64_t j = 0; j < pixels; j++) {
    self.pictures[j] = (float)lac_random_normal(&random);
  }
  for (int64_t j = 0; j < of->batch; j++) {
    self.labels[j] = (int32_t)lac_random_below(&random, of->classes);
  }
  return self;
}

static void clear_feed(feed *self) {
  lac_graph_clear(&self->graph);
  free(self->text);
  free(self->parameters);
  free(self->exact);
  free(self->statistics);
  free(self->pictures);
  free(self->labels);
}

static void check_close(const feed *self, const char *backend, const char *what, int64_t at, double found,
                        double expected, double tolerance) {
  if (!(fabs(found - expected) <= tolerance)) {
    fail_msg("%s: %s[%lld]: found %.9g, expected %.9g within %.2g; layers:\n%s", backend, what, (long long)at, found,
             expected, tolerance, self->text);
  }
}

/* With all pictures and with fewer; the second run must not see what the first has left. */
static void check_predict(const feed *self, lac_net *net) {
  const char *name = lac_net_backend_name(net);
  int64_t classes = self->graph.classes,
          counts[] = {self->graph.batch, self->graph.batch > 1 ? self->graph.batch - 1 : 1, 1};
  float *probabilities = room(self->graph.batch * classes, sizeof *probabilities);
  for (int i = 0; i < 3; i++) {
    oracle exact = oracle_make(&self->graph, counts[i], self->pictures);
    exact.parameters = self->exact;
    exact.given = self->statistics;
    oracle_forward(&exact);
    for (int64_t j = 0; j < self->graph.batch * classes; j++) {
      probabilities[j] = 9;
    }
    assert_ok(self->context, lac_net_predict(self->context, net, self->parameters, self->statistics, counts[i],
                                             self->pictures, probabilities));
    for (int64_t j = 0; j < self->graph.batch * classes; j++) {
      bool asked = j < counts[i] * classes; /* nothing is written behind */
      check_close(self, name, "probability", j, (double)probabilities[j], asked ? exact.probabilities[j] : 9,
                  asked ? 2e-5 : 0);
    }
    oracle_clear(&exact);
  }
  free(probabilities);
}

static void check_collect(const feed *self, lac_net *net) {
  oracle exact = oracle_make(&self->graph, self->graph.batch, self->pictures);
  exact.parameters = self->exact;
  oracle_forward(&exact);
  float *statistics = room(self->graph.statistics, sizeof *statistics);
  assert_ok(self->context, lac_net_collect(self->context, net, self->parameters, self->pictures, statistics));
  for (int64_t j = 0; j < self->graph.statistics; j++) {
    check_close(self, lac_net_backend_name(net), "statistics", j, (double)statistics[j], exact.statistics[j],
                1e-5 * (1 + fabs(exact.statistics[j])));
  }
  free(statistics);
  oracle_clear(&exact);
}

/* Some slopes of each piece, its first and last among them. */
typedef struct slopes {
  int64_t at[SLOPES];
  double value[SLOPES];
  int count;
  double largest;
} slopes;

static slopes find_slopes(const feed *self, oracle *exact, const lac_net_piece *piece) {
  slopes found = {.count = 0};
  int64_t count = 1;
  for (int axis = 0; axis < piece->axes; axis++) {
    count *= piece->shape[axis];
  }
  found.count = count < SLOPES ? (int)count : SLOPES;
  for (int i = 0; i < found.count; i++) {
    found.at[i] = piece->offset + (found.count > 1 ? i * (count - 1) / (found.count - 1) : 0);
    found.value[i] = oracle_slope(exact, self->exact, self->labels, found.at[i]);
    found.largest = fmax(found.largest, fabs(found.value[i]));
  }
  return found;
}

/* Twice: the second run must overwrite what the first has left, in its gradient and inside, and give the same bits. */
static void check_gradient(const feed *self, lac_net *const nets[BACKENDS]) {
  oracle exact = oracle_make(&self->graph, self->graph.batch, self->pictures);
  oracle_drop(&exact, self->key);
  int64_t wrong;
  double loss = oracle_loss(&exact, self->exact, self->labels, &wrong), largest = 0;
  float *gradients[BACKENDS];
  for (int b = 0; b < BACKENDS; b++) {
    gradients[b] = room(self->graph.parameters, sizeof **gradients);
    float *first = room(self->graph.parameters, sizeof *first);
    for (int run = 0; run < 2; run++) {
      memcpy(first, gradients[b], (size_t)self->graph.parameters * sizeof *first);
      double found;
      int64_t errors;
      for (int64_t j = 0; j < self->graph.parameters; j++) {
        gradients[b][j] = NAN;
      }
      assert_ok(self->context, lac_net_gradient(self->context, nets[b], self->parameters, self->pictures, self->labels,
                                                self->key, gradients[b], &found, &errors));
      check_close(self, lac_net_backend_name(nets[b]), "loss", run, found, loss, 1e-5 * (1 + loss));
      check_close(self, lac_net_backend_name(nets[b]), "errors", run, (double)errors, (double)wrong, 0);
    }
    assert_memory_equal(first, gradients[b], (size_t)self->graph.parameters * sizeof *first);
    free(first);
    for (int64_t j = 0; j < self->graph.parameters; j++) {
      largest = fmax(largest, fabs((double)gradients[b][j]));
    }
  }
  for (int64_t p = 0; p < lac_net_piece_count(nets[0]); p++) {
    lac_net_piece piece = lac_net_piece_at(nets[0], p);
    slopes expected = piece.statistic ? (slopes){.count = 0} : find_slopes(self, &exact, &piece);
    for (int b = 0; b < BACKENDS; b++) {
      for (int i = 0; i < expected.count; i++) {
        /* A bias before a batch norm has slope 0: what is left are the roundings of a sum of thousands. */
        check_close(self, lac_net_backend_name(nets[b]), piece.name, expected.at[i] - piece.offset,
                    (double)gradients[b][expected.at[i]], expected.value[i], 5e-5 * expected.largest + 3e-5 * largest);
      }
    }
  }
  for (int b = 0; b < BACKENDS; b++) {
    free(gradients[b]);
  }
  oracle_clear(&exact);
}

static void check_networks(lac_context *context, const network *networks, size_t count) {
  for (size_t i = 0; i < count; i++) {
    feed self = make_feed(context, &networks[i]);
    lac_net *nets[BACKENDS];
    for (int b = 0; b < BACKENDS; b++) {
      lac_net_options options = {.backend = backends[b]};
      assert_ok(context, lac_net_create(context, self.text, "test", networks[i].input, networks[i].classes,
                                        networks[i].batch, &options, &nets[b]));
      check_predict(&self, nets[b]);
      check_collect(&self, nets[b]);
    }
    check_gradient(&self, nets);
    for (int b = 0; b < BACKENDS; b++) { /* the passes leave nothing for each other */
      check_predict(&self, nets[b]);
      check_collect(&self, nets[b]);
      lac_net_destroy(&nets[b]);
    }
    clear_feed(&self);
  }
}

#define CHECK(context, networks) check_networks((context), (networks), sizeof(networks) / sizeof *(networks))

static void dense(void **state) {
  static const network networks[] = {
      {"dense classes", {5, 1, 1}, 3, 4},
      {"dense classes", {1, 1, 1}, 2, 1},
      {"dense classes bias=no", {2, 3, 4}, 5, 3},
      {"dense 7\nrelu\ndense 9 bias=no\nrelu\ndense classes", {3, 4, 2}, 4, 5},
      {"conv 3 kernel=2\ndense 6\ndense classes", {2, 4, 5}, 3, 4},
      {"dense 200\nrelu\ndense classes", {1, 20, 20}, 10, 33},
  };
  CHECK(*state, networks);
}

static void convolutions(void **state) {
  static const network networks[] = {
      {"conv 4 kernel=3 pad=1\nrelu\ndense classes", {3, 6, 6}, 3, 4},
      {"conv 4 kernel=3\nconv 5 kernel=3 bias=no\ndense classes", {2, 7, 9}, 3, 3},
      {"conv 4 kernel=5 stride=2 pad=2\nconv 3 kernel=3 stride=2 pad=1\ndense classes", {2, 7, 10}, 4, 3},
      {"conv 3 kernel=3 stride=3 pad=2\ndense classes", {2, 8, 5}, 3, 3},
      {"conv 4 kernel=1\nrelu\nconv 3 kernel=1 stride=2\nconv 5 kernel=1 bias=no\ndense classes", {3, 5, 7}, 3, 4},
      {"conv 4 kernel=1 pad=0\nconv 3 kernel=2 pad=1\nconv 2 kernel=4 pad=3 stride=2\ndense classes", {2, 3, 3}, 3, 2},
      {"conv 6 kernel=5\nconv classes kernel=3", {1, 7, 7}, 10, 4},
      {"conv 3 kernel=7 pad=3\ndense classes", {2, 2, 3}, 3, 3}, /* windows larger than the picture */
      {"conv 16 kernel=3 pad=1\nconv 17 kernel=3 pad=1\ndense classes", {16, 4, 4}, 3, 2}, /* around blocks of 16 */
      {"conv 2 kernel=3 pad=1\navgpool all\ndense classes", {24, 32, 32}, 3, 3},
      {"conv 40 kernel=1\nconv 2 kernel=5 pad=2 stride=2\navgpool all\ndense classes", {2, 24, 24}, 3, 2},
  };
  CHECK(*state, networks);
}

static void pools(void **state) {
  static const network networks[] = {
      {"conv 3 kernel=3\nmaxpool 2\ndense classes", {2, 8, 8}, 3, 4},
      {"conv 3 kernel=2\nmaxpool 3 stride=2\ndense classes", {2, 9, 7}, 3, 3},
      {"conv 3 kernel=1\nmaxpool 3 stride=2 pad=1\nconv 2 kernel=2\ndense classes", {2, 6, 9}, 3, 3},
      {"conv 3 kernel=1\nmaxpool 4 stride=3 pad=3\ndense classes", {2, 5, 5}, 3, 3},
      {"conv 3 kernel=3\navgpool 2\ndense classes", {2, 8, 8}, 3, 4},
      {"conv 3 kernel=1\navgpool 3 stride=2 pad=1\nconv 2 kernel=2\ndense classes", {2, 6, 9}, 3, 3},
      {"conv 3 kernel=1\navgpool 4 stride=1 pad=2\ndense classes", {2, 5, 5}, 3, 3},
      {"conv 3 kernel=1\navgpool 2 stride=5\ndense classes", {2, 9, 9}, 3, 3}, /* pixels that no window sees */
      {"conv 3 kernel=1\nmaxpool 2 stride=5\ndense classes", {2, 9, 9}, 3, 3},
      {"conv classes kernel=3\navgpool all", {3, 6, 6}, 4, 4},
      {"conv classes kernel=3\nmaxpool all", {3, 6, 6}, 4, 4},
      {"maxpool 2\nconv 3 kernel=2\nrelu\nmaxpool 2\ndense classes", {2, 7, 7}, 3, 4}, /* first layer: no way back */
      {"avgpool 2\nmaxpool 2 stride=1\ndense classes", {2, 7, 7}, 3, 4},
  };
  CHECK(*state, networks);
}

static void norms(void **state) {
  static const network networks[] = {
      {"conv 4 kernel=3\nbatchnorm\nrelu\ndense classes", {2, 6, 6}, 3, 5},
      {"dense 6\nbatchnorm\nrelu\ndense classes", {7, 1, 1}, 3, 6},
      {"batchnorm\ndense classes", {3, 4, 5}, 3, 4},
      {"conv 3 kernel=3 bias=no\nbatchnorm\nconv 3 kernel=2\nbatchnorm\nrelu\nmaxpool 2\nbatchnorm\ndense classes",
       {2, 7, 8},
       3,
       5},
      {"dense classes\nbatchnorm", {5, 1, 1}, 3, 8},
      {"conv 17 kernel=1\nbatchnorm\navgpool all\ndense classes", {1, 16, 16}, 3, 5},
  };
  CHECK(*state, networks);
}

static void dropouts(void **state) {
  static const network networks[] = {
      {"dropout 0.2\ndense classes", {3, 4, 4}, 3, 5},
      {"conv 4 kernel=3\nrelu\ndropout 0.5\ndense 9\nrelu\ndropout 0.25\ndense classes", {2, 6, 6}, 3, 4},
      {"conv 4 kernel=3\ndropout 0.5\nrelu\ndropout 0.3\nmaxpool 2\ndense classes", {2, 6, 6}, 3, 4},
      {"conv 4 kernel=3\nrelu\nmark a\ndropout 0.5\nconv 4 kernel=1\nadd a\nrelu\nrelu\ndense classes",
       {2, 6, 6},
       3,
       4},
      {"dense 5\nbatchnorm\ndropout 0.4\ndense classes", {8, 1, 1}, 3, 9},
      {"conv 3 kernel=3\ndropout 0\ndense classes", {2, 6, 6}, 3, 4},
      {"dropout 0.2\nmark a\nrelu\nadd a\nconv 3 kernel=3\ndense classes", {2, 6, 6}, 3, 4},
  };
  CHECK(*state, networks);
}

static void residuals(void **state) {
  static const network networks[] = {
      {"conv 4 kernel=3 pad=1\nmark a\nconv 4 kernel=3 pad=1\nbatchnorm\nrelu\nadd a\ndense classes", {2, 5, 5}, 3, 4},
      {"conv 4 kernel=3 pad=1\nrelu\nmark a\nconv 6 kernel=3 stride=2 pad=1\nbatchnorm\nmark b\nfrom a\n"
       "conv 6 kernel=1 stride=2\nadd b\nrelu\navgpool all\ndense classes",
       {2, 8, 8},
       3,
       4},
      /* One activation read five times, by each kind of layer that passes back to one. */
      {"conv 3 kernel=3 pad=1\nmark a\nrelu\nmark r\nfrom a\nbatchnorm\nadd r\nmark s\nfrom a\nmaxpool 3 stride=1 "
       "pad=1\n"
       "add s\nmark t\nfrom a\navgpool 3 stride=1 pad=1\nadd t\nmark u\nfrom a\nconv 3 kernel=1\nadd u\nadd a\ndense "
       "classes",
       {2, 5, 6},
       3,
       4},
      {"conv 3 kernel=3\nmark a\nmaxpool 2\nmark b\nfrom a\navgpool 2\nadd b\nmark c\nfrom a\nconv 3 kernel=2 "
       "stride=2\n"
       "add c\nmark d\ndense 5\nmark e\nfrom d\ndense 5\nadd e\nrelu\ndense classes",
       {2, 8, 8},
       3,
       4},
      {"dense 6\nmark a\ndropout 0.3\nmark b\nfrom a\ndense 6\nadd b\nadd a\ndense classes", {5, 1, 1}, 3, 4},
      {"mark a\nrelu\nadd a\nmark b\navgpool 2\ndense 4\nmark c\nfrom b\ndense 4\nadd c\ndense classes",
       {2, 4, 4},
       3,
       4},
  };
  CHECK(*state, networks);
}

static void builtins(void **state) {
  static const network networks[] = {
      {"lenet", {1, 24, 24}, 10, 4, 0.1},   {"allcnn", {3, 8, 8}, 4, 4, 0.04},  {"resnet20", {3, 8, 8}, 5, 3, 0.125},
      {"wrn-10-2", {3, 8, 8}, 5, 4, 0.125}, {"wrn-16-1", {3, 8, 8}, 5, 3, 0.2}, {"mlp:16-9-5-4", {1, 4, 4}, 4, 6, 1},
  };
  CHECK(*state, networks);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(dense, make_context, drop_context),
      cmocka_unit_test_setup_teardown(convolutions, make_context, drop_context),
      cmocka_unit_test_setup_teardown(pools, make_context, drop_context),
      cmocka_unit_test_setup_teardown(norms, make_context, drop_context),
      cmocka_unit_test_setup_teardown(dropouts, make_context, drop_context),
      cmocka_unit_test_setup_teardown(residuals, make_context, drop_context),
      cmocka_unit_test_setup_teardown(builtins, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
