/* The properties of a submodel's path, for many shapes of a W step. */
#include "mac/path.h"

#include "base/memory.h"
#include "support.h"

static lac_mac_options options_of(int64_t epochs, bool local, int64_t seed) {
  return (lac_mac_options){.epochs = epochs, .local_epochs = local, .seed = seed};
}

/* Follows submodel m: host (visits). */
static void follow(const lac_path *path, int64_t m, int *host) {
  host[0] = lac_path_start(path, m);
  for (int64_t v = 0; v + 1 < path->visits; v++) {
    host[v + 1] = lac_path_next(path, host[v], v);
    assert_in_range(host[v + 1], 0, path->workers - 1);
    assert_true(path->workers == 1 || host[v + 1] != host[v]);
  }
  assert_int_equal(lac_path_next(path, host[path->visits - 1], path->visits - 1), -1);
}

/* P visits from `first` go to P different workers; the last lap to the P - 1 that the last trainer is not. */
static void check_laps(const lac_path *path, const int *host) {
  bool met[64];
  for (int64_t v = 0; v < path->visits; v++) {
    if (v % path->workers == 0) {
      memset(met, 0, sizeof met);
      if (v == path->training) {
        met[host[v - 1]] = true;
      }
    }
    assert_false(met[host[v]]);
    met[host[v]] = true;
  }
}

/* All submodels follow the same ring in an epoch, from the hop that leads into it, and the last lap goes on around the
 * last one. */
static void check_ring(const lac_path *path, const int *host, int *ring) {
  for (int64_t v = 0; v + 1 < path->visits; v++) {
    int64_t epoch = (v + 1) / path->workers < path->rings ? (v + 1) / path->workers : path->rings - 1;
    int *successor = &ring[epoch * path->workers + host[v]];
    assert_true(*successor == -1 || *successor == host[v + 1]);
    *successor = host[v + 1];
  }
}

static void check_shape(int64_t submodels, int workers, int64_t epochs, bool local) {
  lac_context *context;
  lac_path path;
  int host[1024], ring[1024], load[64] = {0};
  lac_mac_options options = options_of(epochs, local, 42);
  assert_int_equal(lac_context_create(&context), LAC_OK);
  assert_ok(context, lac_path_create(context, &options, submodels, workers, 3, &path));
  int64_t rounds = local ? 1 : epochs;
  assert_int_equal(path.training, rounds * workers);
  assert_int_equal(path.visits, (rounds + 1) * workers - 1);
  assert_int_equal(workers == 1 ? 0 : submodels * (path.visits - 1),
                   lac_mac_messages(submodels, workers, epochs, local));
  memset(ring, -1, sizeof ring);
  int before = 0;
  for (int64_t m = 0; m < submodels; m++) {
    follow(&path, m, host);
    check_laps(&path, host);
    check_ring(&path, host, ring);
    assert_true(host[0] >= before); /* contiguous blocks … */
    before = host[0];
    load[host[0]]++;
    assert_in_range(m, lac_path_first(&path, host[0]), lac_path_first(&path, host[0] + 1) - 1);
  }
  for (int w = 0; w < workers; w++) { /* … as even as can be */
    assert_in_range(load[w], submodels / workers, (submodels + workers - 1) / workers);
  }
  lac_path_destroy(&path);
  lac_context_destroy(&context);
}

static void test_shapes(void **state) {
  static const int workers[] = {1, 2, 3, 5, 8, 16, 37};
  static const int64_t submodels[] = {1, 2, 7, 16, 33};
  (void)state;
  for (int w = 0; w < 7; w++) {
    for (int m = 0; m < 5; m++) {
      for (int64_t epochs = 1; epochs <= 4; epochs++) {
        check_shape(submodels[m], workers[w], epochs, false);
        check_shape(submodels[m], workers[w], epochs, true);
      }
    }
  }
}

static bool same_rings(lac_context *context, int64_t seed_a, int64_t iteration_a, int64_t epoch_a, int64_t seed_b,
                       int64_t iteration_b, int64_t epoch_b) {
  lac_path a, b;
  lac_mac_options options_a = options_of(5, false, seed_a), options_b = options_of(5, false, seed_b);
  assert_ok(context, lac_path_create(context, &options_a, 10, 8, iteration_a, &a));
  assert_ok(context, lac_path_create(context, &options_b, 10, 8, iteration_b, &b));
  bool same = memcmp(a.successor + epoch_a * 8, b.successor + epoch_b * 8, 8 * sizeof *a.successor) == 0;
  lac_path_destroy(&a);
  lac_path_destroy(&b);
  return same;
}

/* The ring is drawn anew for each epoch, iteration and seed, and from them alone. */
static void test_redrawn(void **state) {
  lac_context *context = *state;
  assert_true(same_rings(context, 1, 2, 3, 1, 2, 3));
  assert_false(same_rings(context, 1, 2, 3, 1, 2, 4));
  assert_false(same_rings(context, 1, 2, 3, 1, 3, 3));
  assert_false(same_rings(context, 1, 2, 3, 2, 2, 3));
}

/* Over many draws every worker follows every other about equally often: 3,000 draws, 7 successors, 428.6 expected with
 * a standard deviation of 19.2. */
static void test_fair(void **state) {
  lac_context *context = *state;
  int64_t often[8][8] = {{0}};
  for (int64_t iteration = 0; iteration < 1000; iteration++) {
    lac_path path;
    lac_mac_options options = options_of(3, false, 9);
    assert_ok(context, lac_path_create(context, &options, 8, 8, iteration, &path));
    for (int i = 0; i < 24; i++) {
      often[i % 8][path.successor[i]]++;
    }
    lac_path_destroy(&path);
  }
  for (int from = 0; from < 8; from++) {
    for (int to = 0; to < 8; to++) {
      assert_in_range(often[from][to], from == to ? 0 : 332, from == to ? 0 : 525);
    }
  }
}

/* Figures worked out by hand: M ((e + 1) P - 2), local epochs M (2 P - 2). */
static void test_messages(void **state) {
  (void)state;
  assert_int_equal(lac_mac_messages(128, 16, 1, false), 3840);
  assert_int_equal(lac_mac_messages(7, 3, 2, false), 49);
  assert_int_equal(lac_mac_messages(7, 3, 2, true), 28);
  assert_int_equal(lac_mac_messages(64, 1, 5, false), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shapes),
      cmocka_unit_test_setup_teardown(test_redrawn, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_fair, make_context, drop_context),
      cmocka_unit_test(test_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
