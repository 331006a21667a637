/* The safetensors reader and writer against files laid out by hand from the published format. */
#include "laconic/tensors.h"

#include "support.h"

/* Writes length + header + data as they are. */
static void lay_out(const char *path, uint64_t length, const char *header, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  for (int i = 0; i < 8; i++) {
    fputc((int)(length >> (8 * i) & 255), file);
  }
  fwrite(header, 1, strlen(header), file);
  fwrite(data, 1, bytes, file);
  fclose(file);
}

static void reads_a_file_laid_out_by_hand(void **state) {
  static const char header[] =
      "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
      "\"__metadata__\":{\"k\":\"v\",\"\\u00e9\":\"\"},"
      "\"a\":{\"data_offsets\":[0,8],\"shape\":[2,1],\"dtype\":\"F32\"},"
      "\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[11,12]},"
      "\"none\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,0,4611686018427387904],\"data_offsets\":[8,8]}}   ";
  static const unsigned char data[] = {0, 0, 128, 63, 0, 0, 0, 192, 1, 2, 3, 42}; /* 1.0f, -2.0f, 1, 2, 3, 42 */
  lac_tensors *file;
  lay_out("hand", strlen(header), header, data, sizeof data);
  assert_ok(*state, lac_tensors_open(*state, "hand", &file));
  assert_int_equal(lac_tensors_count(file), 4);
  assert_string_equal(lac_tensors_at(file, 0)->name, "a");
  assert_string_equal(lac_tensors_at(file, 1)->name, "none");
  const lac_tensor *a = lac_tensors_find(file, "a"), *b = lac_tensors_find(file, "b"),
                   *scalar = lac_tensors_find(file, "scalar"), *none = lac_tensors_find(file, "none");
  assert_null(lac_tensors_find(file, "c"));
  float values[2];
  unsigned char bytes[3];
  assert_int_equal(a->axes, 2);
  assert_int_equal(a->shape[0], 2);
  assert_int_equal(a->shape[1], 1);
  assert_int_equal(a->type, LAC_TENSOR_F32);
  assert_ok(*state, lac_tensors_read(*state, file, a, values));
  assert_true(values[0] == 1.0F && values[1] == -2.0F);
  assert_int_equal(lac_tensor_bytes(b), 3);
  assert_ok(*state, lac_tensors_read(*state, file, b, bytes));
  assert_memory_equal(bytes, "\1\2\3", 3);
  assert_int_equal(scalar->axes, 0);
  assert_int_equal(lac_tensor_elements(scalar), 1);
  assert_ok(*state, lac_tensors_read(*state, file, scalar, bytes));
  assert_int_equal(bytes[0], 42);
  assert_int_equal(lac_tensor_elements(none), 0);
  assert_int_equal(lac_tensor_bytes(none), 0);
  assert_int_equal(lac_tensors_pair_count(file), 2);
  assert_string_equal(lac_tensors_meta(file, "k"), "v");
  assert_string_equal(lac_tensors_meta(file, "\xC3\xA9"), "");
  assert_null(lac_tensors_meta(file, "x"));
  lac_tensors_close(&file);
  assert_null(file);
  lac_tensors_close(&file);
}

#define TENSOR(name, type, shape, begin, end) \
  "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void refuses_damaged_files(void **state) {
  static const struct {
    const char *header;
    size_t bytes;
    const char *words;
  } cases[] = {
      {"", 0, "offset 8: found no '{'"},
      {" {}", 0, "offset 8: found no '{'"},
      {"[]", 0, "offset 8: found no '{'"},
      {"{", 0, "the JSON header is damaged"},
      {"{}x", 0, "the JSON header is damaged"},
      {"{\"a\xFF\":1}", 0, "the JSON header is damaged"},
      {"{\"a\\u0000\":1}", 0, "the JSON header is damaged"},
      {"{\"a\":1}", 0, "tensor 'a': found no object of three members"},
      {"{\"a\\u000ab\":1}", 0, "tensor 'a?b': found no object"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("a", "F32", "[1]", 0, 4) "}", 4, "duplicate"},
      {"{" TENSOR("a", "F31", "[1]", 0, 4) "}", 4, "found dtype 'F31'"},
      {"{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "found no text as dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, "no object of three members"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"offsets\":[0,4]}}", 4, "data_offsets that are not two"},
      {"{" TENSOR("a", "F32", "1", 0, 4) "}", 4, "found no list as shape"},
      {"{" TENSOR("a", "F32", "[1.0]", 0, 4) "}", 4, "no list of whole numbers"},
      {"{" TENSOR("a", "F32", "[-1]", 0, 4) "}", 4, "no list of whole numbers"},
      {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "found 9 axes, expected at most 8"},
      {"{" TENSOR("a", "F32", "[99999999999999999999]", 0, 4) "}", 4, "the JSON header is damaged"},
      {"{" TENSOR("a", "F32", "[4611686018427387904,4]", 0, 4) "}", 4, "more than 2^63 bytes"},
      {"{" TENSOR("a", "F32", "[4611686018427387904]", 0, 4) "}", 4, "more than 2^63 bytes"},
      {"{" TENSOR("a", "F32", "[2]", 0, 4) "}", 4, "found 4 bytes of data, expected 8"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", 3, "data_offsets [0, 4], expected them within the 3 bytes"},
      {"{" TENSOR("a", "F32", "[1]", 4, 0) "}", 4, "data_offsets [4, 0]"},
      {"{" TENSOR("a", "F32", "[1]", -4, 0) "}", 4, "data_offsets that are not two whole numbers"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", 5, "found 1 bytes after the last tensor"},
      {"{" TENSOR("a", "F32", "[1]", 1, 5) "}", 5, "found a hole before it, expected its data to begin at 0"},
      {"{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[4]", 3, 7) "}", 7, "tensor 'b': found an overlap"},
      {"{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[4]", 0, 4) "}", 4, "tensor 'b': found an overlap"},
      {"{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[0]", 2, 2) "}", 4, "tensor 'b': found an overlap"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__ 'k': found no text"},
      {"{\"__metadata__\":[]}", 0, "found __metadata__ that is no object"},
      {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate"},
  };
  static const char data[16] = {0};
  lac_tensors *file;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lay_out("bad", strlen(cases[i].header), cases[i].header, data, cases[i].bytes);
    assert_failure(*state, lac_tensors_open(*state, "bad", &file), LAC_E_INPUT, cases[i].words);
    assert_non_null(strstr(lac_context_message(*state), "bad: "));
    assert_null(file);
  }
}

static void refuses_lengths_that_do_not_fit(void **state) {
  static const uint64_t lengths[] = {3, 100, 100000001, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFF8};
  lac_tensors *file;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    lay_out("bad", lengths[i], "{}", "", 0);
    assert_failure(*state, lac_tensors_open(*state, "bad", &file), LAC_E_INPUT, "bad: offset 0: found a header of");
  }
  for (int bytes = 0; bytes < 8; bytes++) {
    FILE *short_file = fopen("short", "wb");
    fwrite("\2\0\0\0\0\0\0\0", 1, (size_t)bytes, short_file);
    fclose(short_file);
    assert_failure(*state, lac_tensors_open(*state, "short", &file), LAC_E_INPUT, "expected a safetensors file");
  }
  /* A header beyond the limit of the format in a file that is large enough (sparse). */
  lay_out("large", 100000001, "{}", "", 0);
  assert_int_equal(truncate("large", 200000000), 0);
  assert_failure(*state, lac_tensors_open(*state, "large", &file), LAC_E_INPUT, "with at most 100000000");
  lay_out("empty", 2, "{}", "", 0);
  assert_ok(*state, lac_tensors_open(*state, "empty", &file)); /* no tensor at all is well-formed */
  assert_int_equal(lac_tensors_count(file), 0);
  lac_tensors_close(&file);
}

static void notices_a_file_that_is_cut_while_open(void **state) {
  static const char header[] = "{" TENSOR("a", "U8", "[4]", 0, 4) "}";
  lac_tensors *file;
  char data[4];
  lay_out("cut", strlen(header), header, "abcd", 4);
  assert_ok(*state, lac_tensors_open(*state, "cut", &file));
  assert_int_equal(truncate("cut", (off_t)(8 + strlen(header) + 2)), 0);
  assert_failure(*state, lac_tensors_read(*state, file, lac_tensors_at(file, 0), data), LAC_E_IO, "has been cut");
  lac_tensors_close(&file);
}

/* The bytes that the format asks for, worked out by hand. */
static void writes_the_published_bytes(void **state) {
  static const unsigned char small[3] = {7, 8, 9};
  static const double wide[1] = {1.0};
  static const float middle[2] = {1.0F, -2.0F};
  const lac_tensor tensors[] = {
      {.name = "s", .type = LAC_TENSOR_U8, .axes = 1, .shape = {3}, .data = small},
      {.name = "m", .type = LAC_TENSOR_F32, .axes = 2, .shape = {1, 2}, .data = middle},
      {.name = "w", .type = LAC_TENSOR_F64, .axes = 0, .data = wide},
  };
  const lac_text_pair pairs[] = {{"k", "a\"b"}};
  static const char header[] = "{\"__metadata__\":{\"k\":\"a\\\"b\"}," TENSOR("w", "F64", "[]", 0, 8) "," TENSOR(
      "m", "F32", "[1,2]", 8, 16) "," TENSOR("s", "U8", "[3]", 16, 19) "}";
  assert_ok(*state, lac_tensors_write(*state, "written", tensors, 3, pairs, 1));
  size_t padded = (sizeof header - 1 + 7) / 8 * 8;
  unsigned char expected[512] = {(unsigned char)padded}, found[512];
  memset(expected + 8, ' ', padded);
  memcpy(expected + 8, header, sizeof header - 1);
  memcpy(expected + 8 + padded, wide, 8);
  memcpy(expected + 16 + padded, middle, 8);
  memcpy(expected + 24 + padded, small, 3);
  FILE *file = fopen("written", "rb");
  assert_int_equal(fread(found, 1, sizeof found, file), 8 + padded + 19);
  fclose(file);
  assert_memory_equal(found, expected, 8 + padded + 19);
}

static void refuses_to_write_what_cannot_be_read(void **state) {
  static const float data[4] = {0};
  const lac_tensor good = {.name = "a", .type = LAC_TENSOR_F32, .axes = 1, .shape = {4}, .data = data};
  const lac_tensor twice[] = {good, good};
  lac_tensor bad = good;
  assert_failure(*state, lac_tensors_write(*state, "no", twice, 2, NULL, 0), LAC_E_USAGE, "'a' is to be written twice");
  bad.name = "\xFF";
  assert_failure(*state, lac_tensors_write(*state, "no", &bad, 1, NULL, 0), LAC_E_USAGE, "UTF-8");
  bad.name = "__metadata__";
  assert_failure(*state, lac_tensors_write(*state, "no", &bad, 1, NULL, 0), LAC_E_USAGE, "__metadata__");
  bad = good;
  bad.axes = 9;
  assert_failure(*state, lac_tensors_write(*state, "no", &bad, 1, NULL, 0), LAC_E_USAGE, "shape of 'a'");
  bad.axes = 1;
  bad.shape[0] = -1;
  assert_failure(*state, lac_tensors_write(*state, "no", &bad, 1, NULL, 0), LAC_E_USAGE, "shape of 'a'");
  bad.shape[0] = INT64_MAX;
  assert_failure(*state, lac_tensors_write(*state, "no", &bad, 1, NULL, 0), LAC_E_USAGE, "shape of 'a'");
  const lac_text_pair pairs[] = {{"k", "\xC0"}}, same[] = {{"k", "1"}, {"k", "2"}};
  assert_failure(*state, lac_tensors_write(*state, "no", &good, 1, pairs, 1), LAC_E_USAGE, "text of 'k' is not UTF-8");
  assert_failure(*state, lac_tensors_write(*state, "no", &good, 1, same, 2), LAC_E_USAGE, "'k' is to be written twice");
  assert_int_equal(access("no", F_OK), -1);
  assert_failure(*state, lac_tensors_write(*state, "/dev/full", &good, 1, NULL, 0), LAC_E_IO,
                 "/dev/full: writing failed");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_file_laid_out_by_hand),   cmocka_unit_test(refuses_damaged_files),
      cmocka_unit_test(refuses_lengths_that_do_not_fit), cmocka_unit_test(notices_a_file_that_is_cut_while_open),
      cmocka_unit_test(writes_the_published_bytes),      cmocka_unit_test(refuses_to_write_what_cannot_be_read),
  };
  char folder[64];
  enter_folder(folder);
  int failed = cmocka_run_group_tests(tests, make_context, drop_context);
  leave_folder(folder);
  return failed;
}
