#include "base/memory.h"

#include "support.h"

static void blocks_are_zeroed_and_aligned(void **state) {
  for (int64_t count = 0; count < 200; count += 13) {
    double *block;
    assert_int_equal(LAC_NEW(*state, count, &block), LAC_OK);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    for (int64_t i = 0; i < count; i++) {
      assert_true(block[i] == 0);
    }
    memset(block, 0xff, (size_t)count * sizeof *block);
    lac_free(block);
  }
  lac_free(NULL);
}

/* Large blocks are got in another way; one that was used and freed comes back zeroed all the same. */
static void large_blocks_are_zeroed(void **state) {
  static const int64_t sizes[] = {(1 << 20) - 64, 1 << 20, (1 << 20) + 1, 2 << 20, (2 << 20) + 1, 9 << 20, 70 << 20};
  for (int turn = 0; turn < 2; turn++) {
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      uint8_t *block;
      assert_int_equal(LAC_NEW(*state, sizes[s], &block), LAC_OK);
      assert_int_equal((uintptr_t)block % (sizes[s] >= 1 << 20 ? 2 << 20 : 64), 0); /* of a huge page */
      int64_t marks = 0;
      for (int64_t i = 0; i < sizes[s]; i++) {
        marks += block[i] != 0;
      }
      assert_int_equal(marks, 0);
      memset(block, 0xff, (size_t)sizes[s]);
      lac_free(block);
    }
  }
}

/* Counts come from file headers and options: none may wrap around to a small block. */
static void impossible_sizes_fail(void **state) {
  static const struct {
    int64_t count;
    size_t size;
  } sizes[] = {{-1, 1},
               {INT64_MIN, 8},
               {INT64_MAX, 8},
               {INT64_MAX / 8 + 1, 16},
               {(int64_t)1 << 61, 8},
               {((int64_t)1 << 61) + 1, 8},
               {1, SIZE_MAX},
               {1, SIZE_MAX - 1},
               {INT64_MAX, 2},
               {2, SIZE_MAX / 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *block = (void *)1;
    assert_int_equal(lac_allocate(*state, sizes[i].count, sizes[i].size, &block), LAC_E_MEMORY);
    assert_null(block);
    assert_non_null(strstr(lac_context_message(*state), "cannot allocate"));
  }
}

static void texts_are_copied(void **state) {
  char original[] = "part-%r.bvecs", *copy, *none = original, *formatted;
  assert_int_equal(lac_copy_text(*state, original, &copy), LAC_OK);
  original[0] = 'X';
  assert_string_equal(copy, "part-%r.bvecs");
  assert_int_equal(lac_copy_text(*state, NULL, &none), LAC_OK);
  assert_null(none);
  assert_int_equal(lac_format_text(*state, &formatted, "%s of %d", copy, 3), LAC_OK);
  assert_string_equal(formatted, "part-%r.bvecs of 3");
  free(formatted);
  free(copy);
}

static lac_status try_twice(lac_status first, int *reached) {
  LAC_TRY(first);
  (*reached)++;
  return LAC_OK;
}

static lac_status try_goto(lac_status first, int *cleaned) {
  lac_status status;
  LAC_TRY_GOTO(status, first, done);
done:
  (*cleaned)++;
  return status;
}

static void tries_leave_with_the_status(void **state) {
  (void)state;
  int reached = 0, cleaned = 0;
  assert_int_equal(try_twice(LAC_E_IO, &reached), LAC_E_IO);
  assert_int_equal(reached, 0);
  assert_int_equal(try_twice(LAC_OK, &reached), LAC_OK);
  assert_int_equal(reached, 1);
  assert_int_equal(try_goto(LAC_E_PEER, &cleaned), LAC_E_PEER);
  assert_int_equal(cleaned, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_zeroed_and_aligned),
                                     cmocka_unit_test(large_blocks_are_zeroed), cmocka_unit_test(impossible_sizes_fail),
                                     cmocka_unit_test(texts_are_copied), cmocka_unit_test(tries_leave_with_the_status)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
