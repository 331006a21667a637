/* The built-in networks: parameters against published numbers or sums by hand, shapes against the papers' tables. */
#include <math.h>

#include "nn/graph.h"
#include "support.h"

static const lac_image_shape digit = {1, 28, 28}, colour = {3, 32, 32};

static lac_graph graph_of(lac_context *context, const char *name, double width, lac_image_shape input,
                          int64_t classes) {
  char *text;
  lac_graph graph;
  assert_ok(context, lac_net_builtin(context, name, width, &text));
  assert_ok(context, lac_graph_parse(context, text, name, input, classes, 1, &graph));
  free(text);
  return graph;
}

static void parameters_are_counted(void **state) {
  /* All-CNN: weights and biases of nine convolutions, then scale and shift for each of their channels. */
  const int64_t allcnn = (3 * 96 + 2 * 96 * 96 + 96 * 192 + 4 * 192 * 192) * 9 + 192 * 10 + 3 * (3 * 96 + 5 * 192 + 10);
  /* ResNet-20 by its table: 3 x 3 weights of the stages, 1 x 1 shortcuts, scales and shifts, the dense layer. */
  const int64_t resnet = 9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64) + 16 * 32 +
                         32 * 64 + 2 * (7 * 16 + 7 * 32 + 7 * 64) + 64 * 10 + 10;
  const struct {
    const char *name;
    lac_image_shape input;
    int64_t classes, parameters;
  } cases[] = {
      {"lenet", digit, 10, 132220}, /* Chaudhari et al. 2017 */
      {"allcnn", colour, 10, allcnn},
      {"resnet20", colour, 10, resnet},
      {"wrn-28-10", colour, 10, 36479194}, /* as the authors' program prints it; 36.5 M in their table */
      {"wrn-28-10", colour, 100, 36536884},
      {"wrn-16-4", colour, 10, 2748890},
      {"wrn-40-2", colour, 10, 2243546},
      {"mlp:784-500-10", digit, 10, 784 * 500 + 500 + 500 * 10 + 10},
      {"mlp:3072-10", colour, 10, 3072 * 10 + 10},
      {"mlp:784-300-100-10", digit, 10, 266610}, /* LeCun et al. 1998 */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_graph graph = graph_of(*state, cases[i].name, 1, cases[i].input, cases[i].classes);
    assert_int_equal(graph.parameters, cases[i].parameters);
    lac_graph_clear(&graph);
  }
}

/* The outputs of layers of one kind, in order, as "20x24x24 50x4x4 ". */
static void check_shapes(lac_context *context, const char *name, double width, lac_image_shape input,
                         lac_node_kind kind, const char *expected) {
  lac_graph graph = graph_of(context, name, width, input, 10);
  char found[2000] = "";
  for (int i = 0; i < graph.count; i++) {
    const lac_image_shape *shape = &graph.nodes[i].shape;
    size_t length = strlen(found);
    if (graph.nodes[i].kind == kind) {
      snprintf(found + length, sizeof found - length, "%s%dx%dx%d", length ? " " : "", (int)shape->channels,
               (int)shape->height, (int)shape->width);
    }
  }
  assert_string_equal(found, expected);
  lac_graph_clear(&graph);
}

static void shapes_are_the_papers(void **state) {
  check_shapes(*state, "lenet", 1, digit, LAC_NODE_CONV, "20x24x24 50x4x4");
  check_shapes(*state, "lenet", 1, digit, LAC_NODE_MAXPOOL, "20x8x8 50x2x2");
  check_shapes(*state, "lenet", 1, digit, LAC_NODE_DENSE, "500x1x1 10x1x1");
  check_shapes(*state, "lenet", 1, digit, LAC_NODE_DROPOUT, "20x8x8 50x2x2 500x1x1");
  check_shapes(*state, "allcnn", 1, colour, LAC_NODE_CONV,
               "96x32x32 96x32x32 96x16x16 192x16x16 192x16x16 192x8x8 192x8x8 192x8x8 10x8x8");
  check_shapes(*state, "allcnn", 1, colour, LAC_NODE_DROPOUT, "3x32x32 96x16x16 192x8x8");
  check_shapes(*state, "resnet20", 1, colour, LAC_NODE_ADD,
               "16x32x32 16x32x32 16x32x32 32x16x16 32x16x16 32x16x16 64x8x8 64x8x8 64x8x8");
  check_shapes(*state, "resnet20", 1, colour, LAC_NODE_AVGPOOL, "64x1x1");
  check_shapes(*state, "wrn-16-4", 1, colour, LAC_NODE_ADD, "64x32x32 64x32x32 128x16x16 128x16x16 256x8x8 256x8x8");
  /* The widths of He et al.'s blocks, K = 1: the first stage has the shape of what it reads, and no shortcut layer. */
  check_shapes(*state, "wrn-10-1", 1, colour, LAC_NODE_CONV,
               "16x32x32 16x32x32 16x32x32 32x16x16 32x16x16 32x16x16 64x8x8 64x8x8 64x8x8");
}

static void widths_are_rounded(void **state) {
  check_shapes(*state, "lenet", 0.5, digit, LAC_NODE_CONV, "10x24x24 25x4x4");
  check_shapes(*state, "lenet", 0.5, digit, LAC_NODE_DENSE, "250x1x1 10x1x1"); /* classes are not scaled */
  check_shapes(*state, "lenet", 0.001, digit, LAC_NODE_CONV, "1x24x24 1x4x4");
  check_shapes(*state, "lenet", 0.13, digit, LAC_NODE_CONV, "3x24x24 7x4x4"); /* 2.6, 6.5 */
  check_shapes(*state, "mlp:784-30-9-10", 2, digit, LAC_NODE_DENSE, "60x1x1 18x1x1 10x1x1");
  check_shapes(*state, "wrn-10-2", 0.25, colour, LAC_NODE_ADD, "8x32x32 16x16x16 32x8x8");
}

static void unknown_names_are_refused(void **state) {
  static const struct {
    const char *name, *message;
  } cases[] = {
      {"lenett", "network 'lenett': unknown, did you mean lenet?"},
      {"resnet18", "network 'resnet18': unknown, did you mean resnet20?"},
      {"transformer", "network 'transformer': unknown, expected lenet, allcnn, resnet20, wrn-D-K or mlp:A-B-C"},
      {"", "network '': unknown"},
      {"wrn-28", "network 'wrn-28': expected wrn-D-K"},
      {"wrn-27-10", "network 'wrn-27-10': expected wrn-D-K"},
      {"wrn-4-10", "network 'wrn-4-10': expected wrn-D-K"},
      {"wrn-28-0", "network 'wrn-28-0': expected wrn-D-K"},
      {"wrn-28-10x", "network 'wrn-28-10x': expected wrn-D-K"},
      {"wrn-99999999999999999999-1", "expected wrn-D-K"},
      {"mlp:", "network 'mlp:': expected mlp:A-B"},
      {"mlp:784", "network 'mlp:784': expected mlp:A-B"},
      {"mlp:784-", "network 'mlp:784-': expected mlp:A-B"},
      {"mlp:784--10", "network 'mlp:784--10': expected mlp:A-B"},
      {"mlp:784-0-10", "network 'mlp:784-0-10': expected mlp:A-B"},
      {"mlp:784-5,10", "network 'mlp:784-5,10': expected mlp:A-B"},
      {"mlp:1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-"
       "1-1-1-1-1-1-1-1-1-1-1-1",
       "expected mlp:A-B"},
  };
  char *text;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_failure(*state, lac_net_builtin(*state, cases[i].name, 1, &text), LAC_E_USAGE, cases[i].message);
    assert_null(text);
  }
  static const double widths[] = {0, -1, 1e9, (double)NAN};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    assert_failure(*state, lac_net_builtin(*state, "lenet", widths[i], &text), LAC_E_USAGE,
                   "expected more than 0, at most 1000");
  }
}

/* The ends of an mlp's list are promises about the data. */
static void lists_are_checked_against_the_data(void **state) {
  char *text;
  lac_graph graph;
  assert_ok(*state, lac_net_builtin(*state, "mlp:784-20-10", 1, &text));
  assert_failure(*state, lac_graph_parse(*state, text, "mlp", colour, 10, 1, &graph), LAC_E_INPUT,
                 "mlp: line 1: found pictures of 3 x 32 x 32, expected 784 numbers");
  assert_failure(*state, lac_graph_parse(*state, text, "mlp", digit, 100, 1, &graph), LAC_E_INPUT,
                 "mlp: line 4: dense: found 10 x 1 x 1 at the end, expected one number for each of 100 classes");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(parameters_are_counted, make_context, drop_context),
      cmocka_unit_test_setup_teardown(shapes_are_the_papers, make_context, drop_context),
      cmocka_unit_test_setup_teardown(widths_are_rounded, make_context, drop_context),
      cmocka_unit_test_setup_teardown(unknown_names_are_refused, make_context, drop_context),
      cmocka_unit_test_setup_teardown(lists_are_checked_against_the_data, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
