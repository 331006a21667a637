/* Arrays written whole and piece by piece. The bytes expected here follow from the formats' definitions. */
#include "support.h"

#include "laconic/dataset.h"
#include "laconic/output.h"

static char folder[64];

static int enter(void **state) {
  enter_folder(folder);
  return make_context(state);
}

static int leave(void **state) {
  leave_folder(folder);
  return drop_context(state);
}

static size_t read_file(const char *path, unsigned char *bytes, size_t limit) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, limit, file);
  fclose(file);
  return size;
}

static const int32_t values[6] = {1, -2, 3, 4, 5, 256}; /* (3, 2) */

static void pieces_make_the_same_file(void **state) {
  lac_context *context = *state;
  static const char *const names[] = {"a.npy", "a.ivecs"};
  for (int i = 0; i < 2; i++) {
    unsigned char whole[512], pieces[512];
    assert_ok(context, lac_array_write(context, names[i], LAC_I32, values, 3, 2));
    size_t size = read_file(names[i], whole, sizeof whole);
    assert_int_equal(size, i == 0 ? 128 + 24 : 3 * (4 + 8));
    assert_memory_equal(whole + size - 8, "\5\0\0\0\0\1\0\0", 8);
    lac_array_writer *writer;
    assert_ok(context, lac_array_create(context, names[i], LAC_I32, 3, 2, &writer));
    assert_ok(context, lac_array_append(context, writer, values, 1));
    assert_ok(context, lac_array_append(context, writer, NULL, 0));
    assert_ok(context, lac_array_append(context, writer, values + 2, 2));
    assert_ok(context, lac_array_finish(context, &writer));
    assert_null(writer);
    assert_int_equal(read_file(names[i], pieces, sizeof pieces), size);
    assert_memory_equal(pieces, whole, size);
  }
}

static void too_few_rows_leave_what_was_there(void **state) {
  lac_context *context = *state;
  unsigned char before[512], after[512];
  assert_ok(context, lac_array_write(context, "b.npy", LAC_I32, values, 3, 2));
  size_t size = read_file("b.npy", before, sizeof before);
  lac_array_writer *writer;
  assert_ok(context, lac_array_create(context, "b.npy", LAC_I32, 2, 2, &writer));
  assert_failure(context, lac_array_append(context, writer, values, 3), LAC_E_USAGE, "b.npy: 3 rows");
  assert_ok(context, lac_array_append(context, writer, values, 1));
  assert_failure(context, lac_array_finish(context, &writer), LAC_E_USAGE, "b.npy: finished after 1 rows, of 2");
  assert_null(writer);
  assert_ok(context, lac_array_create(context, "b.npy", LAC_I32, 2, 2, &writer));
  lac_array_discard(&writer);
  lac_array_discard(&writer);
  assert_int_equal(read_file("b.npy", after, sizeof after), size);
  assert_memory_equal(after, before, size);
  assert_int_equal(system("test \"$(ls | wc -l)\" = \"$(ls -d *.npy *.ivecs | wc -l)\""), 0); /* nothing beside them */
}

static void names_are_checked_beforehand(void **state) {
  lac_context *context = *state;
  assert_ok(context, lac_array_check(context, "c.npy", LAC_F32));
  assert_ok(context, lac_array_check(context, "c.ivecs", LAC_I32));
  assert_failure(context, lac_array_check(context, "c.ivecs", LAC_U8), LAC_E_USAGE,
                 "'.ivecs', expected .npy or .bvecs for");
  assert_failure(context, lac_array_check(context, "c.bvecs", LAC_F32), LAC_E_USAGE,
                 "'.bvecs', expected .npy or .fvecs for");
  assert_failure(context, lac_array_check(context, "c.fvecs", LAC_I32), LAC_E_USAGE,
                 "'.fvecs', expected .npy or .ivecs for");
  assert_failure(context, lac_array_check(context, "c.fvecs", LAC_F64), LAC_E_USAGE, "'.fvecs', expected .npy for");
  assert_failure(context, lac_array_check(context, "c.txt", LAC_U8), LAC_E_USAGE, "'.txt'");
  assert_failure(context, lac_array_check(context, "c.npy.d", LAC_U8), LAC_E_USAGE, "'.d'");
  assert_failure(context, lac_array_check(context, "none/c.npy", LAC_U8), LAC_E_OUTPUT, "none/c.npy");
  assert_failure(context, lac_array_check(context, "/", LAC_U8), LAC_E_OUTPUT, "/: is a folder");
  assert_failure(context, lac_array_check(context, "", LAC_U8), LAC_E_OUTPUT, "empty name");
  assert_failure(context, lac_array_check(context, "../c", LAC_U8), LAC_E_USAGE, "extension ''");
  assert_int_not_equal(access("c.npy", F_OK), 0);
}

static void full_disk_is_a_failure_of_the_work(void **state) {
  lac_context *context = *state;
  assert_int_equal(symlink("/dev/full", "full.npy"), 0);
  assert_failure(context, lac_array_write(context, "full.npy", LAC_I32, values, 3, 2), LAC_E_IO, "full.npy");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_make_the_same_file),
      cmocka_unit_test(too_few_rows_leave_what_was_there),
      cmocka_unit_test(names_are_checked_beforehand),
      cmocka_unit_test(full_disk_is_a_failure_of_the_work),
  };
  return cmocka_run_group_tests_name("data/array", tests, enter, leave);
}
