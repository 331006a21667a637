/* The program for SMPI keeps simulated time: closed forms of how long messages and computations take on the cluster of
 * tests/house/cluster.xml. Runs under SMPI only. */
#include "comm/workers.h"

#include <math.h>

#include "base/memory.h"
#include "base/profile.h"

static const double LATENCY = 1e-4, BANDWIDTH = 1e8, MISS = 1e-6;
static const size_t ENVELOPE = 16; /* bytes that SMPI adds to a message */

enum { LARGE = 1000000, SMALL = 100 };

static double span(size_t bytes) {
  return (double)(bytes + ENVELOPE) / BANDWIDTH;
}

static bool near(double found, double expected) {
  return fabs(found - expected) <= 1e-9;
}

#define CHECK_NEAR(world, found, expected)                                                                          \
  do {                                                                                                              \
    double check_found = (found), check_expected = (expected);                                                      \
    if (!near(check_found, check_expected)) {                                                                       \
      return lac_fail(lac_world_context(world), LAC_E_INTERNAL, "%s:%d: found %.12f s, expected %.12f s", __FILE__, \
                      __LINE__, check_found, check_expected);                                                       \
    }                                                                                                               \
  } while (0)

static const char *zeros(void) {
  static const char bytes[LARGE];
  return bytes;
}

static lac_status send(lac_world *world, int to, int tag, size_t bytes) {
  return lac_world_send(world, to, tag, zeros(), bytes, LAC_TRAFFIC_MODEL);
}

static lac_status receive(lac_world *world, int from, int tag, size_t bytes) {
  lac_message message;
  LAC_TRY(lac_world_receive(world, from, tag, &message));
  free(message.data);
  CHECK(lac_world_context(world), message.bytes == bytes);
  return LAC_OK;
}

/* Waits, whatever the speed of the host, until a time that is the same for all workers and later than now for each. */
static lac_status meet(lac_world *world, double *start) {
  *start = lac_world_now(world);
  LAC_TRY(lac_world_max_f64(world, start, 1));
  *start = ceil(100 * *start + 10) / 100;
  double speed = lac_world_rank(world) % 2 ? 0.5 : 1;
  lac_world_spend(world, speed * (*start - lac_world_now(world)));
  CHECK_NEAR(world, lac_world_now(world), *start);
  *start = lac_world_now(world);
  return LAC_OK;
}

/* Keeps still until all is over, so that what ends the run does not share the links with what is measured. */
static lac_status rest(lac_world *world, double start) {
  double speed = lac_world_rank(world) % 2 ? 0.5 : 1;
  lac_world_spend(world, speed * (start + 3 - lac_world_now(world)));
  return LAC_OK;
}

/* ---- computing ---- */

static lac_status spend_body(lac_world *world, void *argument) {
  (void)argument;
  double slowness = lac_world_rank(world) % 2 ? 2 : 1;
  static const double spans[] = {1, 0.25, 1e-3, 1e-5, 1e-7, 0, -1, NAN, INFINITY};
  for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
    double start = lac_world_now(world);
    lac_world_spend(world, spans[i]);
    CHECK_NEAR(world, lac_world_now(world) - start, isfinite(spans[i]) && spans[i] > 0 ? slowness * spans[i] : 0);
  }
  CHECK(lac_world_context(world), lac_seconds() == lac_world_now(world));
  return LAC_OK;
}

/* ---- one message ---- */

static lac_status ping_body(lac_world *world, void *argument) {
  (void)argument;
  static const size_t sizes[] = {0, 1, 65535, 65536, LARGE};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    double start;
    LAC_TRY(meet(world, &start));
    if (lac_world_rank(world) == 0) {
      LAC_TRY(send(world, 1, 1, sizes[i]));
      CHECK(lac_world_context(world), lac_world_now(world) == start); /* sending takes its sender no time */
      LAC_TRY(receive(world, 1, 2, sizes[i]));
      CHECK_NEAR(world, lac_world_now(world) - start, 2 * (LATENCY + span(sizes[i])));
    } else if (lac_world_rank(world) == 1) {
      LAC_TRY(receive(world, 0, 1, sizes[i]));
      LAC_TRY(send(world, 0, 2, sizes[i]));
    }
    LAC_TRY(rest(world, start));
  }
  return LAC_OK;
}

/* Both ways at once, as fast as one. */
static lac_status duplex_body(lac_world *world, void *argument) {
  (void)argument;
  int other = lac_world_rank(world) ^ 1;
  double start;
  LAC_TRY(meet(world, &start));
  LAC_TRY(send(world, other, 1, LARGE));
  LAC_TRY(receive(world, other, 1, LARGE));
  CHECK_NEAR(world, lac_world_now(world) - start, LATENCY + span(LARGE));
  return rest(world, start);
}

/* A transfer goes on while its receiver computes, and is seen when it has ended: not before, and at once after. */
static lac_status overlap_body(lac_world *world, void *argument) {
  (void)argument;
  double start, end = LATENCY + span(LARGE);
  lac_context *context = lac_world_context(world);
  lac_message message = {0};
  bool found;
  LAC_TRY(meet(world, &start));
  if (lac_world_rank(world) == 1) {
    LAC_TRY(send(world, 0, 1, LARGE));
    LAC_TRY(send(world, 0, 2, LARGE));
  } else if (lac_world_rank(world) == 0) {
    lac_world_spend(world, end);
    LAC_TRY(lac_world_poll(world, 1, 1, &message, &found));
    CHECK(context, !found); /* two share the link */
    CHECK_NEAR(world, lac_world_now(world) - start, end + MISS);
    lac_world_spend(world, 1);
    double now = lac_world_now(world);
    for (int tag = 1; tag <= 2; tag++) {
      LAC_TRY(lac_world_poll(world, 1, tag, &message, &found));
      free(message.data);
      CHECK(context, found);
    }
    CHECK(context, lac_world_now(world) == now);
  }
  return rest(world, start);
}

/* A loop of polls comes to an end: those that find nothing take a microsecond each. */
static lac_status poll_body(lac_world *world, void *argument) {
  (void)argument;
  double start;
  LAC_TRY(meet(world, &start));
  if (lac_world_rank(world) == 1) {
    LAC_TRY(send(world, 0, 1, SMALL));
  }
  bool found = lac_world_rank(world) != 0;
  int misses = 0;
  for (; !found; misses++) {
    lac_message message;
    LAC_TRY(lac_world_poll(world, 1, 1, &message, &found));
    free(message.data);
  }
  CHECK(lac_world_context(world),
        lac_world_rank(world) != 0 || misses - 1 == (int)ceil((LATENCY + span(SMALL)) / MISS));
  return rest(world, start);
}

/* ---- several messages ---- */

enum { BURST = 12, CROWD = 200 }; /* fewer and more than the receives that are posted at first */

static lac_status burst_body(lac_world *world, void *argument) {
  (void)argument;
  double start;
  LAC_TRY(meet(world, &start));
  if (lac_world_rank(world) == 1) {
    for (int i = 0; i < BURST; i++) {
      LAC_TRY(send(world, 0, i, LARGE));
    }
  } else if (lac_world_rank(world) == 0) {
    for (int i = BURST; i-- > 0;) {
      LAC_TRY(receive(world, 1, i, LARGE));
    }
    CHECK_NEAR(world, lac_world_now(world) - start, LATENCY + BURST * span(LARGE));
  }
  return rest(world, start);
}

/* Two senders share the way into the receiver, two receivers the way out of the sender. */
static lac_status share_body(lac_world *world, void *argument) {
  (void)argument;
  int rank = lac_world_rank(world);
  double start;
  LAC_TRY(meet(world, &start));
  if (rank == 1 || rank == 2) {
    LAC_TRY(send(world, 0, 1, LARGE));
  } else if (rank == 0) {
    LAC_TRY(receive(world, 1, 1, LARGE));
    LAC_TRY(receive(world, 2, 1, LARGE));
    CHECK_NEAR(world, lac_world_now(world) - start, LATENCY + 2 * span(LARGE));
  }
  LAC_TRY(rest(world, start));
  LAC_TRY(meet(world, &start));
  if (rank == 0) {
    LAC_TRY(send(world, 1, 1, LARGE));
    LAC_TRY(send(world, 2, 1, LARGE));
  } else if (rank < 3) {
    LAC_TRY(receive(world, 0, 1, LARGE));
    CHECK_NEAR(world, lac_world_now(world) - start, LATENCY + 2 * span(LARGE));
  }
  return rest(world, start);
}

/* A short message overtakes a burst of long ones from another worker, but none of its own sender's. While both ways
 * share the link into the receiver, the short one gets one part in BURST + 1, or in 2. */
static lac_status overtake_body(lac_world *world, void *argument) {
  (void)argument;
  int rank = lac_world_rank(world);
  double start;
  LAC_TRY(meet(world, &start));
  if (rank == 1) {
    for (int i = 0; i < BURST; i++) {
      LAC_TRY(send(world, 0, 1, LARGE));
    }
  } else if (rank == 2) {
    lac_world_spend(world, 1e-3);
    LAC_TRY(send(world, 0, 2, SMALL));
  } else if (rank == 0) {
    LAC_TRY(receive(world, 2, 2, SMALL));
    CHECK_NEAR(world, lac_world_now(world) - start, 1e-3 + LATENCY + (BURST + 1) * span(SMALL));
    for (int i = 0; i < BURST; i++) {
      LAC_TRY(receive(world, 1, 1, LARGE));
    }
  }
  LAC_TRY(rest(world, start));
  LAC_TRY(meet(world, &start));
  if (rank == 1) {
    LAC_TRY(send(world, 0, 1, LARGE));
    LAC_TRY(send(world, 0, 2, SMALL));
  } else if (rank == 0) {
    LAC_TRY(receive(world, 1, 2, SMALL));
    CHECK_NEAR(world, lac_world_now(world) - start, LATENCY + span(LARGE) + span(SMALL));
    LAC_TRY(receive(world, 1, 1, LARGE));
    CHECK_NEAR(world, lac_world_now(world) - start, LATENCY + span(LARGE) + span(SMALL));
  }
  return rest(world, start);
}

/* The same behind more long ones than there are receives at first. */
static lac_status crowd_body(lac_world *world, void *argument) {
  (void)argument;
  int rank = lac_world_rank(world);
  double start;
  LAC_TRY(meet(world, &start));
  if (rank == 1) {
    for (int i = 0; i < CROWD; i++) {
      LAC_TRY(send(world, 0, 1, LARGE));
    }
  } else if (rank == 2) {
    lac_world_spend(world, 1e-3);
    LAC_TRY(send(world, 0, 2, SMALL));
  } else if (rank == 0) {
    lac_world_spend(world, 0.1);
    LAC_TRY(receive(world, 2, 2, SMALL));
    CHECK_NEAR(world, lac_world_now(world) - start, 0.1);
    for (int i = 0; i < CROWD; i++) {
      LAC_TRY(receive(world, 1, 1, LARGE));
    }
    CHECK_NEAR(world, lac_world_now(world) - start, LATENCY + CROWD * span(LARGE) + span(SMALL));
  }
  return rest(world, start);
}

#define TIMING_TEST(name)                          \
  static void test_##name(void **state) {          \
    (void)state;                                   \
    run(plain(), name##_body, NULL, LAC_OK, NULL); \
  }
TIMING_TEST(spend)
TIMING_TEST(ping)
TIMING_TEST(duplex)
TIMING_TEST(overlap)
TIMING_TEST(poll)
TIMING_TEST(burst)
TIMING_TEST(share)
TIMING_TEST(overtake)
TIMING_TEST(crowd)

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spend),   cmocka_unit_test(test_ping),     cmocka_unit_test(test_duplex),
      cmocka_unit_test(test_overlap), cmocka_unit_test(test_poll),     cmocka_unit_test(test_burst),
      cmocka_unit_test(test_share),   cmocka_unit_test(test_overtake), cmocka_unit_test(test_crowd),
  };
  static const int counts[] = {4};
  int failed = lac_world_smpi() ? 0 : 1;
  run_on_workers(argc, argv, tests, counts, failed);
  return failed;
}
