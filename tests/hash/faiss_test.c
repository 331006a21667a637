/* What cannot become a FAISS file, and files that cannot be written. What is in the files: faiss_reader_test.py. */
#include "hash/model.h"
#include "support.h"

static void an_rbf_encoder_is_no_transform(void **state) {
  lac_hash *model;
  assert_ok(*state, lac_hash_create(*state, 16, 4, LAC_HASH_BA, 3, &model));
  assert_failure(*state, lac_faiss_write_encoder(*state, model, "rbf.faiss"), LAC_E_UNSUPPORTED,
                 "rbf.faiss: found an RBF encoder, expected a linear one");
  assert_int_equal(access("rbf.faiss", F_OK), -1);
  static const uint8_t codes[4] = {1, 2, 3, 4};
  assert_ok(*state, lac_faiss_write_binary(*state, codes, 2, 16, "rbf.faiss")); /* its codes can be */
  lac_hash_destroy(&model);
}

static void binary_indexes_have_whole_bytes(void **state) {
  static const int64_t bits[] = {0, -8, 1, 12, 63};
  static const uint8_t codes[8] = {0};
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
    char words[80];
    snprintf(words, sizeof words, "no.faiss: found %d bits, expected a multiple of 8", (int)bits[i]);
    assert_failure(*state, lac_faiss_write_binary(*state, codes, 1, bits[i], "no.faiss"), LAC_E_USAGE, words);
  }
  assert_int_equal(access("no.faiss", F_OK), -1);
}

static void unwritable_outputs_are_named(void **state) {
  static const uint8_t codes[8] = {0};
  lac_hash *model;
  assert_ok(*state, lac_hash_create(*state, 8, 4, LAC_HASH_PCA, 0, &model));
  assert_failure(*state, lac_faiss_write_encoder(*state, model, "no/folder.faiss"), LAC_E_OUTPUT, "no/folder.faiss: ");
  assert_failure(*state, lac_faiss_write_encoder(*state, model, "/dev/full"), LAC_E_IO, "/dev/full: writing failed");
  assert_failure(*state, lac_faiss_write_binary(*state, codes, 8, 8, "/dev/full"), LAC_E_IO,
                 "/dev/full: writing failed");
  assert_failure(*state, lac_faiss_write_binary(*state, codes, 8, 8, "."), LAC_E_OUTPUT, "is a folder");
  lac_hash_destroy(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(an_rbf_encoder_is_no_transform),
                                     cmocka_unit_test(binary_indexes_have_whole_bytes),
                                     cmocka_unit_test(unwritable_outputs_are_named)};
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests(tests, make_context, drop_context);
  leave_folder(folder);
  return failed;
}
