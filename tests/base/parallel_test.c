#include "base/parallel.h"

#include <stdatomic.h>

#include "support.h"

enum { CHUNKS = 1000, MOST_THREADS = 8 };

typedef struct tally {
  atomic_int visits[CHUNKS];
  atomic_int inside[MOST_THREADS]; /* a thread's scratch memory is its own */
  atomic_bool shared_scratch, bad_thread;
  int64_t threads, fail_from;
} tally;

static lac_status visit(void *argument, lac_context *context, int64_t chunk, int thread) {
  tally *t = argument;
  if (thread < 0 || thread >= t->threads) {
    atomic_store(&t->bad_thread, true);
    return LAC_OK;
  }
  if (atomic_fetch_add(&t->inside[thread], 1) != 0) {
    atomic_store(&t->shared_scratch, true);
  }
  atomic_fetch_add(&t->visits[chunk], 1);
  atomic_fetch_sub(&t->inside[thread], 1);
  if (t->fail_from >= 0 && chunk >= t->fail_from) {
    if (chunk == t->fail_from) {
      usleep(2000); /* so that a later chunk fails sooner, when there is another thread */
    }
    return lac_fail(context, LAC_E_INPUT, "chunk %d", (int)chunk);
  }
  return LAC_OK;
}

static void every_chunk_runs_once(void **state) {
  for (int64_t threads = 1; threads <= MOST_THREADS; threads++) {
    for (int64_t chunks = 0; chunks <= CHUNKS; chunks = chunks * 3 + 1) {
      tally *t = calloc(1, sizeof *t);
      t->threads = threads;
      t->fail_from = -1;
      assert_int_equal(lac_parallel(*state, threads, chunks, visit, t), LAC_OK);
      for (int64_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(atomic_load(&t->visits[i]), i < chunks);
      }
      assert_false(atomic_load(&t->shared_scratch));
      assert_false(atomic_load(&t->bad_thread));
      free(t);
    }
  }
}

/* Which thread is quickest must not show: the failure of lowest number is told, whoever met it. */
static void lowest_failure_is_told(void **state) {
  for (int64_t threads = 1; threads <= 4; threads++) {
    tally *t = calloc(1, sizeof *t);
    t->threads = threads;
    t->fail_from = 37;
    assert_int_equal(lac_parallel(*state, threads, CHUNKS, visit, t), LAC_E_INPUT);
    assert_string_equal(lac_context_message(*state), "chunk 37");
    int64_t visited = 0;
    for (int64_t i = 0; i < CHUNKS; i++) {
      visited += atomic_load(&t->visits[i]);
    }
    assert_true(visited >= 38 && visited <= 38 + threads);
    free(t);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_chunk_runs_once), cmocka_unit_test(lowest_failure_is_told)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
