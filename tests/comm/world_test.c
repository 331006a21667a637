/* What is beneath the contract: whose failure a run reports, messages that break the protocol, what the environment and
 * the build decide. */
#include <sys/resource.h>

#include "base/memory.h"
#include "comm/backend.h"
#include "comm/workers.h"

/* One outcome of a worker: status, echo, awaited. */
static lac_outcome ended(lac_status status, bool echo, int awaited) {
  return (lac_outcome){.status = (int32_t)status, .echo = echo, .awaited = awaited};
}

static void test_verdict(void **state) {
  (void)state;
  lac_outcome fine = ended(LAC_OK, false, -1), echo = ended(LAC_E_PEER, true, -1);
  lac_outcome input = ended(LAC_E_INPUT, false, -1);
  assert_int_equal(lac_world_verdict((lac_outcome[]){fine, fine, fine}, 3), -1);
  assert_int_equal(lac_world_verdict((lac_outcome[]){echo, fine, input}, 3), 2);
  assert_int_equal(lac_world_verdict((lac_outcome[]){echo, input, input}, 3), 1);
  /* An echo whose cause is not there is better than nothing. */
  assert_int_equal(lac_world_verdict((lac_outcome[]){fine, echo, echo}, 3), 1);
  /* 0 waited for 1, 1 for 2, 2 for 3, which did nothing wrong that it knows of. */
  assert_int_equal(lac_world_verdict((lac_outcome[]){ended(LAC_E_TIMEOUT, false, 1), ended(LAC_E_TIMEOUT, false, 2),
                                                     ended(LAC_E_TIMEOUT, false, 3), echo},
                                     4),
                   2);
  /* … or which failed itself. */
  assert_int_equal(lac_world_verdict((lac_outcome[]){ended(LAC_E_TIMEOUT, false, 1), ended(LAC_E_TIMEOUT, false, 2),
                                                     ended(LAC_E_TIMEOUT, false, 3), input},
                                     4),
                   3);
  /* Two that waited for each other: the search ends. */
  assert_in_range(
      lac_world_verdict((lac_outcome[]){ended(LAC_E_TIMEOUT, false, 1), ended(LAC_E_TIMEOUT, false, 0), fine}, 3), 0,
      1);
}

static void test_launched(void **state) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  (void)state;
  for (int i = 0; i < 4; i++) {
    unsetenv(names[i]);
  }
  assert_false(lac_world_launched());
  for (int i = 0; i < 2; i++) {
    setenv(names[i], "0", 1);
    assert_true(lac_world_launched());
    unsetenv(names[i]);
  }
  setenv("PMI_RANK", "0", 1);
  assert_false(lac_world_launched());
  setenv("PMI_SIZE", "2", 1);
  assert_true(lac_world_launched());
#ifndef LACONIC_HAVE_MPI
  run((lac_world_options){0}, NULL, NULL, LAC_E_UNSUPPORTED, "mpi is not part of this build, but an MPI launcher");
#endif
  unsetenv("PMI_RANK");
  unsetenv("PMI_SIZE");
}

static lac_status one_body(lac_world *world, void *argument) {
  int *size = argument;
  *size = lac_world_size(world);
  CHECK(lac_world_context(world), strcmp(lac_world_backend(world), "local") == 0);
  return LAC_OK;
}

static void test_defaults(void **state) {
  int size = 0;
  (void)state;
  run((lac_world_options){0}, one_body, &size, LAC_OK, NULL);
  assert_int_equal(size, 1);
#ifndef LACONIC_HAVE_MPI
  run((lac_world_options){.backend = "mpi"}, NULL, NULL, LAC_E_UNSUPPORTED, "mpi is not part of this build");
#endif
}

/* ---- broken protocol ---- */

typedef struct bad_packet {
  int tag;
  size_t bytes;
  int64_t words[3];
} bad_packet;

/* Worker 1 sends packets that no worker of ours would; worker 0 names it. */
static lac_status broken_body(lac_world *world, void *argument) {
  const bad_packet *bad = argument;
  lac_message message;
  if (lac_world_rank(world) == 1) {
    for (; bad->tag; bad++) {
      LAC_TRY(lac_world_packet(world, 0, bad->tag, bad->words, bad->bytes));
    }
  }
  lac_status status = lac_world_receive(world, LAC_ANY_WORKER, 1, &message);
  free(message.data);
  CHECK(lac_world_context(world), status == LAC_E_PEER);
  return status;
}

static void test_broken_protocol(void **state) {
  static const bad_packet cases[][3] = {
      {{LAC_TAG_PART, 8, {0}}},
      {{LAC_TAG_LONG, 8, {1}}},
      {{LAC_TAG_LONG, 16, {1, -1}}},
      {{LAC_TAG_LONG, 16, {1, 100}}, {LAC_TAG_LONG, 16, {1, 100}}},
      {{LAC_TAG_LONG, 16, {1, 10}}, {LAC_TAG_PART, 16, {0}}},
      {{LAC_TAG_QUESTION, 16, {0}}},
      {{LAC_TAG_ANSWER, 8, {0}}},
      {{LAC_TAG_FAILURE, 8, {0}}},
  };
  (void)state;
  backend = "local";
  workers = 2;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    run(plain(), broken_body, (void *)cases[i], LAC_E_PEER, "worker 1 broke the protocol");
  }
}

/* ---- threads that cannot be started ---- */

static lac_status never_body(lac_world *world, void *argument) {
  *(bool *)argument = true;
  return lac_world_barrier(world);
}

static void test_no_threads(void **state) {
  (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* these reserve more than any limit leaves */
  struct rlimit before, tight;
  bool ran = false;
  getrlimit(RLIMIT_AS, &before);
  tight = before;
  tight.rlim_cur = (rlim_t)2 << 30; /* room for some 200 stacks */
  setrlimit(RLIMIT_AS, &tight);
  run((lac_world_options){.backend = "local", .workers = 1000}, never_body, &ran, LAC_E_MEMORY,
      "cannot start a thread for worker ");
  setrlimit(RLIMIT_AS, &before);
  assert_false(ran);
#else
  (void)never_body;
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_verdict),         cmocka_unit_test(test_launched),   cmocka_unit_test(test_defaults),
      cmocka_unit_test(test_broken_protocol), cmocka_unit_test(test_no_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
