/* Descriptions: what they mean, by hand; what is wrong with them, a line that says so. */
#include "nn/graph.h"

#include "support.h"

static const lac_image_shape picture = {3, 8, 10};

static void check_node(const lac_node *found, lac_node expected) {
  assert_int_equal(found->kind, expected.kind);
  assert_int_equal(found->input, expected.input);
  assert_int_equal(found->other, expected.other);
  assert_int_equal(found->uses, expected.uses);
  assert_int_equal(found->shape.channels, expected.shape.channels);
  assert_int_equal(found->shape.height, expected.shape.height);
  assert_int_equal(found->shape.width, expected.shape.width);
  assert_int_equal(found->kernel, expected.kernel);
  assert_int_equal(found->stride, expected.stride);
  assert_int_equal(found->pad, expected.pad);
  assert_true(found->rate == expected.rate);
  assert_int_equal(found->bias, expected.bias);
  assert_int_equal(found->weight, expected.weight);
  assert_int_equal(found->weight_count, expected.weight_count);
  assert_int_equal(found->offset, expected.offset);
  assert_int_equal(found->offset_count, expected.offset_count);
  assert_int_equal(found->mean, expected.mean);
  assert_int_equal(found->variance, expected.variance);
  assert_int_equal(found->line, expected.line);
}

static void every_statement_is_read(void **state) {
  static const char text[] =
      "# all of them\n"
      "input 240\n"
      "\n"
      "conv 4 kernel=3 pad=1      # 4 x 8 x 10\n"
      "batchnorm\n"
      "\trelu \r\n"
      "mark the-first_1.\n"
      "conv 6 stride=2 bias=no kernel=3\n"
      "maxpool 2 stride=1 pad=1\n"
      "dropout 0.25\n"
      "avgpool 2\n"
      "mark b\n"
      "from the-first_1.\n"
      "avgpool 4 # stride 4\n"
      "conv 6 kernel=1 pad=0\n"
      "add b\n"
      "dense 7 bias=no\n"
      "batchnorm\n"
      "dense classes";
  static const lac_node expected[] = {
      {.kind = LAC_NODE_INPUT, .input = -1, .other = -1, .uses = 1, .shape = {3, 8, 10}, .line = 0},
      {LAC_NODE_CONV, 0, -1, 1, {4, 8, 10}, 3, 1, 1, 0, true, 0, 108, 108, 4, 0, 0, 4},
      {LAC_NODE_BATCHNORM, 1, -1, 1, {4, 8, 10}, 0, 0, 0, 0, false, 112, 4, 116, 4, 0, 4, 5},
      {LAC_NODE_RELU, 2, -1, 2, {4, 8, 10}, 0, 0, 0, 0, false, 0, 0, 0, 0, 0, 0, 6},
      {LAC_NODE_CONV, 3, -1, 1, {6, 3, 4}, 3, 2, 0, 0, false, 120, 216, 336, 0, 0, 0, 8},
      {LAC_NODE_MAXPOOL, 4, -1, 1, {6, 4, 5}, 2, 1, 1, 0, false, 0, 0, 0, 0, 0, 0, 9},
      {LAC_NODE_DROPOUT, 5, -1, 1, {6, 4, 5}, 0, 0, 0, 0.25, false, 0, 0, 0, 0, 0, 0, 10},
      {LAC_NODE_AVGPOOL, 6, -1, 1, {6, 2, 2}, 2, 2, 0, 0, false, 0, 0, 0, 0, 0, 0, 11},
      {LAC_NODE_AVGPOOL, 3, -1, 1, {4, 2, 2}, 4, 4, 0, 0, false, 0, 0, 0, 0, 0, 0, 14},
      {LAC_NODE_CONV, 8, -1, 1, {6, 2, 2}, 1, 1, 0, 0, true, 336, 24, 360, 6, 0, 0, 15},
      {LAC_NODE_ADD, 9, 7, 1, {6, 2, 2}, 0, 0, 0, 0, false, 0, 0, 0, 0, 0, 0, 16},
      {LAC_NODE_DENSE, 10, -1, 1, {7, 1, 1}, 0, 0, 0, 0, false, 366, 168, 534, 0, 0, 0, 17},
      {LAC_NODE_BATCHNORM, 11, -1, 1, {7, 1, 1}, 0, 0, 0, 0, false, 534, 7, 541, 7, 8, 15, 18},
      {LAC_NODE_DENSE, 12, -1, 1, {5, 1, 1}, 0, 0, 0, 0, true, 548, 35, 583, 5, 0, 0, 19},
  };
  enum { NODES = sizeof expected / sizeof *expected };
  lac_graph graph;
  assert_ok(*state, lac_graph_parse(*state, text, "test", picture, 5, 2, &graph));
  assert_int_equal(graph.count, NODES);
  for (int i = 0; i < NODES; i++) {
    check_node(&graph.nodes[i], expected[i]);
  }
  assert_int_equal(graph.parameters, 588);
  assert_int_equal(graph.statistics, 22);
  assert_int_equal(graph.classes, 5);
  assert_int_equal(graph.batch, 2);
  lac_graph_clear(&graph);
  assert_null(graph.nodes);
}

/* Floor of (length + 2 pad - kernel) / stride, plus 1: the sizes that papers' tables give. */
static void windows_have_known_sizes(void **state) {
  static const struct {
    const char *text;
    int64_t height, width;
  } cases[] = {
      {"conv 1 kernel=7 stride=2 pad=3\n", 112, 112}, /* ResNet's first */
      {"conv 1 kernel=11 stride=4 pad=2\n", 55, 55},  /* AlexNet's first */
      {"maxpool 3 stride=2\n", 111, 111},
      {"maxpool 3 stride=2 pad=1\n", 112, 112},
      {"avgpool all\n", 1, 1},
      {"maxpool 5\n", 44, 44},
      {"conv 1 kernel=224\n", 1, 1},
      {"conv 1 kernel=230 pad=3\n", 1, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[100];
    lac_graph graph;
    snprintf(text, sizeof text, "%sdense classes", cases[i].text);
    assert_ok(*state, lac_graph_parse(*state, text, "test", (lac_image_shape){1, 224, 224}, 2, 1, &graph));
    assert_int_equal(graph.nodes[1].shape.height, cases[i].height);
    assert_int_equal(graph.nodes[1].shape.width, cases[i].width);
    lac_graph_clear(&graph);
  }
}

static void faults_are_named(void **state) {
  static const struct {
    const char *text, *message; /* the beginning of it */
  } cases[] = {
      {"", "test: found 0 layers without parameters, expected something to train"},
      {"# nothing\n\n", "test: found 0 layers"},
      {"relu\navgpool 8\n", "test: found 2 layers without parameters"},
      {"dense classes\nconvolution 3 kernel=3", "test: line 2: found 'convolution', expected a layer: conv, dense"},
      {"cnv 3 kernel=3", "test: line 1: found 'cnv', expected a layer; did you mean conv?"},
      {"maxpol 3", "test: line 1: found 'maxpol', expected a layer; did you mean maxpool?"},
      {"Conv 3 kernel=3", "test: line 1: found 'Conv', expected a layer; did you mean conv?"},
      {"conv", "test: line 1: conv: found the end of the line, expected channels, or classes"},
      {"conv kernel=3", "test: line 1: conv: found a key, expected channels, or classes"},
      {"conv 3", "test: line 1: conv: found no kernel=, expected one"},
      {"conv 0 kernel=3", "test: line 1: conv: found '0', expected a whole number from 1 to 2147483647"},
      {"conv -3 kernel=3", "test: line 1: conv: found '-3', expected a whole number"},
      {"conv 3.5 kernel=3", "test: line 1: conv: found '3.5', expected a whole number"},
      {"conv 2147483648 kernel=3", "test: line 1: conv: found '2147483648', expected a whole number"},
      {"conv 99999999999999999999 kernel=3", "test: line 1: conv: found '99999999999999999999', expected"},
      {"conv class kernel=3", "test: line 1: conv: found 'class', expected a whole number"},
      {"conv 3 kernel=", "test: line 1: kernel: found '', expected a whole number"},
      {"conv 3 kernel=0", "test: line 1: kernel: found '0', expected a whole number from 1"},
      {"conv 3 kernel=3 stride=0", "test: line 1: stride: found '0', expected a whole number from 1"},
      {"conv 3 kernel=3 pad=x", "test: line 1: pad: found 'x', expected a whole number from 0"},
      {"conv 3 kernel=3 pad=3", "test: line 1: conv: found pad 3, expected less than the window, 3"},
      {"conv 3 kernel=3 bias=maybe", "test: line 1: bias: found 'maybe', expected yes or no"},
      {"conv 3 kernel=3 kernel=5", "test: line 1: conv: found kernel= twice, expected it once"},
      {"conv 3 kernel=3 padding=1",
       "test: line 1: conv: found 'padding=1', expected kernel= stride= pad= bias= or the end of the line"},
      {"conv 3 kernel=3 3", "test: line 1: conv: found '3', expected kernel="},
      {"conv 3 kernel=9", "test: line 1: conv: found a window of 9, expected at most 8, as the picture is 8 x 10 here"},
      {"conv 3 kernel=3\nmaxpool 8",
       "test: line 2: maxpool: found a window of 8, expected at most 6, as the picture is "
       "6 x 8 here and the pad 0"},
      {"maxpool 2 kernel=2", "test: line 1: maxpool: found 'kernel=2', expected stride= pad= or the end of the line"},
      {"maxpool 2 pad=2", "test: line 1: maxpool: found pad 2, expected less than the window, 2"},
      {"maxpool", "test: line 1: maxpool: found the end of the line, expected a window, or all"},
      {"avgpool all", "test: line 1: avgpool all: found a picture of 8 x 10 here, expected a square"},
      {"avgpool some", "test: line 1: avgpool: found 'some', expected a whole number"},
      {"relu 3", "test: line 1: relu: found '3', expected the end of the line"},
      {"batchnorm epsilon=3", "test: line 1: batchnorm: found 'epsilon=3', expected the end of the line"},
      {"dense 3 kernel=1", "test: line 1: dense: found 'kernel=1', expected bias= or the end of the line"},
      {"dropout 1", "test: line 1: dropout: found '1', expected a rate from 0 to below 1"},
      {"dropout -0.1", "test: line 1: dropout: found '-0.1', expected a rate"},
      {"dropout nan", "test: line 1: dropout: found 'nan', expected a rate"},
      {"dropout 0,5", "test: line 1: dropout: found '0,5', expected a rate"},
      {"dropout 0.3333333333333333333333333333333333333333333333", "test: line 1: dropout: found '0.33333"},
      {"mark a\nrelu\nmark a", "test: line 3: mark: found a a second time, expected another name"},
      {"mark a/b", "test: line 1: mark: found 'a/b', expected letters, digits, _ . and -"},
      {"mark abcdefghijklmnopqrstuvwxyz012345",
       "test: line 1: mark: found a name of 32 characters, expected at most 31"},
      {"from a", "test: line 1: from: found 'a', expected a mark of an earlier line"},
      {"add a\nmark a", "test: line 1: add: found 'a', expected a mark of an earlier line"},
      {"mark a\nadd a", "test: line 2: add: found a to be this activation itself, expected another"},
      {"mark a\nconv 3 kernel=3\nadd a", "test: line 3: add: found a of shape 3 x 8 x 10, expected 3 x 6 x 8"},
      {"mark a\nconv 4 kernel=1\nadd a", "test: line 3: add: found a of shape 3 x 8 x 10, expected 4 x 8 x 10"},
      {"dense 4\nmark a\nrelu\nfrom a\ndense classes", "test: line 3: relu: found nothing that reads its output"},
      {"dense classes\nmark a\nrelu\nfrom a", "test: line 3: relu: found nothing that reads its output"},
      {"dense 4\n", "test: line 1: dense: found 4 x 1 x 1 at the end, expected one number for each of 5 classes"},
      {"conv classes kernel=3\nrelu\n", "test: line 2: relu: found 5 x 6 x 8 at the end, expected one number"},
      {"input 241\ndense classes", "test: line 1: found pictures of 3 x 8 x 10, expected 241 numbers"},
      {"relu\ninput 240\ndense classes", "test: line 2: found input after 1 layers, expected it first"},
      {"input\n", "test: line 1: input: found the end of the line, expected a number"},
      {"conv 1 kernel=3 stride=1 pad=1 bias=no more\n", "test: line 1: found 'more', expected the end of the line"},
      {"dense 100000\ndense 100000", "test: line 2: dense: found 1.00242e+10 parameters, expected at most 2.14748e+09"},
      {"conv 2000000000 kernel=1", "test: line 1: conv: found 8e+09 parameters, expected"},
      {"avgpool 1000000000 pad=999999999 stride=1\n",
       "test: line 1: avgpool: found 6e+18 activations for a batch of 2"},
      {"conv 1 kernel=40000 pad=39999\n", "test: line 1: conv: found 4.8e+09 parameters"},
      {"dense 1000000\n\xff\xfe", "test: line 2: found '\xff\xfe', expected a layer"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_graph graph;
    memset(&graph, 1, sizeof graph);
    assert_failure(*state, lac_graph_parse(*state, cases[i].text, "test", picture, 5, 2, &graph), LAC_E_INPUT,
                   cases[i].message);
    assert_ptr_equal(strstr(lac_context_message(*state), cases[i].message), lac_context_message(*state));
    assert_null(graph.nodes);
    assert_int_equal(graph.count, 0);
  }
}

/* Together they are too many, though none of them is alone. */
static void sums_are_bounded(void **state) {
  lac_graph graph;
  char *text = malloc(200000);
  assert_non_null(text);
  size_t length = 0;
  for (int i = 0; i < LAC_GRAPH_NODES; i++) {
    length += (size_t)sprintf(text + length, "relu\n");
  }
  strcpy(text + length, "dense classes");
  assert_failure(*state, lac_graph_parse(*state, text, "test", picture, 5, 2, &graph), LAC_E_INPUT,
                 "test: line 10000: found more than 9999 layers, expected fewer");
  text[0] = text[1] = text[2] = text[3] = ' ';
  memcpy(text + 5, "    ", 4);
  assert_ok(*state, lac_graph_parse(*state, text, "test", picture, 5, 2, &graph)); /* the pictures and 9,999 */
  lac_graph_clear(&graph);
  strcpy(text, "relu\nrelu\nrelu\nrelu\ndense classes");
  assert_failure(*state, lac_graph_parse(*state, text, "test", (lac_image_shape){1, 1, 2}, 5, 1000000000, &graph),
                 LAC_E_INPUT, "test: line 4: relu: found 2e+09 activations for a batch of 1000000000, 1e+10 so far");
  free(text);
}

static void sizes_are_checked(void **state) {
  static const struct {
    lac_image_shape shape;
    int64_t classes, batch;
    lac_status status;
    const char *message;
  } cases[] = {
      {{0, 1, 1}, 2, 1, LAC_E_USAGE, "test: found pictures of 0 x 1 x 1, expected numbers from 1"},
      {{1, -1, 1}, 2, 1, LAC_E_USAGE, "test: found pictures of 1 x -1 x 1"},
      {{1, 1, (int64_t)1 << 40}, 2, 1, LAC_E_USAGE, "test: found pictures of 1 x 1 x 1099511627776"},
      {{1, 1, 1}, 1, 1, LAC_E_USAGE, "test: found 1 classes and batches of 1, expected at least 2 and 1"},
      {{1, 1, 1}, 2, 0, LAC_E_USAGE, "test: found 2 classes and batches of 0, expected at least 2 and 1"},
      {{100, 5000, 5000}, 2, 1, LAC_E_INPUT, "test: line 0: input: found 2.5e+09 activations for a batch of 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lac_graph graph;
    assert_failure(
        *state,
        lac_graph_parse(*state, "dense classes", "test", cases[i].shape, cases[i].classes, cases[i].batch, &graph),
        cases[i].status, cases[i].message);
    assert_null(graph.nodes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_statement_is_read, make_context, drop_context),
      cmocka_unit_test_setup_teardown(windows_have_known_sizes, make_context, drop_context),
      cmocka_unit_test_setup_teardown(faults_are_named, make_context, drop_context),
      cmocka_unit_test_setup_teardown(sums_are_bounded, make_context, drop_context),
      cmocka_unit_test_setup_teardown(sizes_are_checked, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
