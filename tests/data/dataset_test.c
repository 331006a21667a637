/* Datasets from bytes written here by hand, format by format: what the published formats say, not what our writer
 * does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "data/format.h"
#include "laconic/dataset.h"

typedef struct fixture {
  lac_context *context;
  char folder[32];
  char path[96];
} fixture;

static int setup(void **state) {
  fixture *self = calloc(1, sizeof *self);
  *state = self;
  strcpy(self->folder, "/tmp/laconic-data-XXXXXX");
  return !self || lac_context_create(&self->context) || !mkdtemp(self->folder);
}

static int teardown(void **state) {
  fixture *self = *state;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", self->folder);
  int result = system(command);
  lac_context_destroy(&self->context);
  free(self);
  return result;
}

/* Writes a file into the test's folder; its path is in self->path. */
static void put(fixture *self, const char *name, const void *bytes, size_t size) {
  snprintf(self->path, sizeof self->path, "%s/%s", self->folder, name);
  FILE *file = fopen(self->path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

/* Opens what put() wrote. */
static lac_dataset *get(fixture *self, const char *format) {
  lac_dataset *dataset = NULL;
  lac_status status = lac_dataset_open(self->context, self->path, format, &dataset);
  if (status) {
    fail_msg("%s", lac_context_message(self->context));
  }
  return dataset;
}

/* That opening fails with this status and one line that names the file and has all the given texts. */
static void refuse(fixture *self, const char *format, lac_status expected, const char *first, const char *second) {
  lac_dataset *dataset = (lac_dataset *)self;
  lac_status status = lac_dataset_open(self->context, self->path, format, &dataset);
  const char *message = lac_context_message(self->context);
  assert_int_equal(status, expected);
  assert_null(dataset);
  const char *parts[] = {self->path, first, second};
  for (int i = 0; i < 3; i++) {
    if (parts[i] && !strstr(message, parts[i])) {
      fail_msg("'%s' lacks '%s'", message, parts[i]);
    }
  }
  assert_null(strchr(message, '\n'));
}

static void expect_shape(const lac_dataset *dataset, const char *format, lac_type type, int64_t rows, int64_t columns) {
  assert_string_equal(lac_dataset_format(dataset), format);
  assert_int_equal(lac_dataset_type(dataset), type);
  assert_int_equal(lac_dataset_rows(dataset), rows);
  assert_int_equal(lac_dataset_columns(dataset), columns);
}

/* That all values, read as float32, are these. */
static void expect_values(fixture *self, const lac_dataset *dataset, const float *values) {
  int64_t n = lac_dataset_rows(dataset) * lac_dataset_columns(dataset);
  float *out = malloc((size_t)n * sizeof *out);
  assert_int_equal(lac_dataset_read_f32(self->context, dataset, 0, lac_dataset_rows(dataset), out), LAC_OK);
  for (int64_t i = 0; i < n; i++) {
    if (!(out[i] == values[i])) {
      fail_msg("value %d: %g, expected %g", (int)i, (double)out[i], (double)values[i]);
    }
  }
  free(out);
}

/* Opens, compares and closes. */
static void accept(fixture *self, const char *format, const char *name, lac_type type, int64_t rows, int64_t columns,
                   const float *values) {
  lac_dataset *dataset = get(self, format);
  expect_shape(dataset, name, type, rows, columns);
  expect_values(self, dataset, values);
  lac_dataset_destroy(&dataset);
  assert_null(dataset);
}

static const float counting[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

/* ---- IDX ---- */

static const uint8_t idx3[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static void idx_bytes(void **state) {
  fixture *self = *state;
  put(self, "images-idx3-ubyte", idx3, sizeof idx3);
  accept(self, NULL, "idx", LAC_U8, 2, 6, counting);
  put(self, "no-extension", idx3, sizeof idx3);
  lac_dataset *dataset = get(self, NULL);
  int64_t shape[8];
  assert_int_equal(lac_dataset_shape(dataset, shape), 3);
  assert_int_equal(shape[0], 2);
  assert_int_equal(shape[1], 2);
  assert_int_equal(shape[2], 3);
  size_t stride;
  const uint8_t *bytes = lac_dataset_bytes(dataset, &stride);
  assert_non_null(bytes);
  assert_int_equal(stride, 6);
  assert_int_equal(bytes[7], 7);
  lac_dataset_destroy(&dataset);
}

static void idx_types(void **state) {
  fixture *self = *state;
  static const uint8_t i8[] = {0, 0, 9, 1, 0, 0, 0, 2, 0xff, 5};
  static const uint8_t i16[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 0};
  static const uint8_t i32[] = {0, 0, 0x0c, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xfd, 0, 1, 0, 0};
  static const uint8_t f32[] = {0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0};
  static const uint8_t f64[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0xc0, 4, 0, 0, 0, 0, 0, 0};
  put(self, "i8", i8, sizeof i8);
  accept(self, NULL, "idx", LAC_I8, 2, 1, (float[]){-1, 5});
  put(self, "i16", i16, sizeof i16);
  accept(self, NULL, "idx", LAC_I16, 2, 1, (float[]){-2, 256});
  put(self, "i32", i32, sizeof i32);
  accept(self, NULL, "idx", LAC_I32, 1, 2, (float[]){-3, 65536});
  put(self, "f32", f32, sizeof f32);
  accept(self, NULL, "idx", LAC_F32, 1, 1, (float[]){1.5});
  put(self, "f64", f64, sizeof f64);
  accept(self, NULL, "idx", LAC_F64, 1, 1, (float[]){-2.5});
}

static void idx_damaged(void **state) {
  fixture *self = *state;
  uint8_t bytes[sizeof idx3 + 1] = {0};
  put(self, "a-ubyte", idx3, 3);
  refuse(self, NULL, LAC_E_INPUT, "offset 3", NULL);
  put(self, "a-ubyte", idx3, 11);
  refuse(self, NULL, LAC_E_INPUT, "offset 11", "at least 16 bytes");
  put(self, "a-ubyte", idx3, sizeof idx3 - 1);
  refuse(self, NULL, LAC_E_INPUT, "offset 16: found 11 bytes", "truncated");
  memcpy(bytes, idx3, sizeof idx3);
  put(self, "a-ubyte", bytes, sizeof bytes);
  refuse(self, NULL, LAC_E_INPUT, "found 13 bytes", "expected 12");
  bytes[7] = 0;
  put(self, "a-ubyte", bytes, sizeof idx3);
  refuse(self, NULL, LAC_E_INPUT, "offset 4", "(0, 2, 3)");
  bytes[7] = 2;
  bytes[11] = 0;
  put(self, "a-ubyte", bytes, sizeof idx3);
  refuse(self, NULL, LAC_E_INPUT, "(2, 0, 3)", "column");
  memset(bytes + 4, 0xff, 12);
  put(self, "a-ubyte", bytes, sizeof idx3);
  refuse(self, NULL, LAC_E_INPUT, "which no file can hold", NULL);
  bytes[2] = 7;
  put(self, "a-ubyte", bytes, sizeof idx3);
  refuse(self, NULL, LAC_E_INPUT, "offset 0", "00 00 07 03");
}

/* ---- gzip ---- */

static size_t deflate_to(uint8_t *out, size_t limit, const void *bytes, size_t size) {
  z_stream stream = {0};
  assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = (Bytef *)(uintptr_t)bytes;
  stream.avail_in = (uInt)size;
  stream.next_out = out;
  stream.avail_out = (uInt)limit;
  assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflateEnd(&stream);
  return stream.total_out;
}

static void gzip_content(void **state) {
  fixture *self = *state;
  uint8_t packed[256];
  size_t size = deflate_to(packed, sizeof packed, idx3, sizeof idx3);
  put(self, "images-idx3-ubyte.gz", packed, size);
  accept(self, NULL, "idx", LAC_U8, 2, 6, counting);
  accept(self, "idx", "idx", LAC_U8, 2, 6, counting);
  put(self, "nameless", packed, size);
  accept(self, NULL, "idx", LAC_U8, 2, 6, counting);
  /* Two members, as `cat a.gz b.gz` makes. */
  size = deflate_to(packed, sizeof packed, idx3, 10);
  size += deflate_to(packed + size, sizeof packed - size, idx3 + 10, sizeof idx3 - 10);
  put(self, "two.gz", packed, size);
  accept(self, NULL, "idx", LAC_U8, 2, 6, counting);
  /* Not gzipped in spite of its name, as a browser may have left it. */
  put(self, "plain-ubyte.gz", idx3, sizeof idx3);
  accept(self, NULL, "idx", LAC_U8, 2, 6, counting);
}

static void gzip_damaged(void **state) {
  fixture *self = *state;
  uint8_t packed[256];
  size_t size = deflate_to(packed, sizeof packed, idx3, sizeof idx3);
  put(self, "a-ubyte.gz", packed, size - 1);
  refuse(self, NULL, LAC_E_INPUT, "gzip stream ends too early", "truncated");
  packed[size] = 7;
  put(self, "a-ubyte.gz", packed, size + 1);
  refuse(self, NULL, LAC_E_INPUT, "gzip", NULL);
  packed[size - 6] ^= 1; /* the checksum */
  put(self, "a-ubyte.gz", packed, size);
  refuse(self, NULL, LAC_E_INPUT, "damaged", "incorrect data check");
  size = deflate_to(packed, sizeof packed, "", 0);
  put(self, "a-ubyte.gz", packed, size);
  refuse(self, NULL, LAC_E_INPUT, "gzipped content is empty", NULL);
  size = deflate_to(packed, sizeof packed, idx3, sizeof idx3 - 2);
  put(self, "a-ubyte.gz", packed, size);
  refuse(self, NULL, LAC_E_INPUT, "offset 16: found 10 bytes", "truncated");
}

/* ---- vecs ---- */

static void vecs_values(void **state) {
  fixture *self = *state;
  static const uint8_t fvecs[] = {2, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3f};
  static const uint8_t bvecs[] = {3, 0, 0, 0, 1, 2, 255, 3, 0, 0, 0, 4, 5, 6};
  static const uint8_t ivecs[] = {1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 1, 0, 0};
  put(self, "a.fvecs", fvecs, sizeof fvecs);
  accept(self, NULL, "fvecs", LAC_F32, 2, 2, (float[]){1, -2, 0, 0.5});
  put(self, "a.BVECS", bvecs, sizeof bvecs);
  accept(self, NULL, "bvecs", LAC_U8, 2, 3, (float[]){1, 2, 255, 4, 5, 6});
  put(self, "a.ivecs", ivecs, sizeof ivecs);
  accept(self, NULL, "ivecs", LAC_I32, 2, 1, (float[]){-2, 256});
  put(self, "a.dat", ivecs, sizeof ivecs);
  accept(self, "ivecs", "ivecs", LAC_I32, 2, 1, (float[]){-2, 256});
  lac_dataset *dataset = get(self, "ivecs");
  int32_t found[2];
  assert_int_equal(lac_dataset_read_i32(self->context, dataset, 0, 2, found), LAC_OK);
  assert_int_equal(found[0], -2);
  assert_int_equal(found[1], 256);
  lac_dataset_destroy(&dataset);
}

static void vecs_damaged(void **state) {
  fixture *self = *state;
  uint8_t bvecs[] = {3, 0, 0, 0, 1, 2, 255, 3, 0, 0, 0, 4, 5, 6, 3, 0, 0, 0, 4, 5, 6};
  put(self, "a.bvecs", bvecs, 3);
  refuse(self, NULL, LAC_E_INPUT, "offset 3", "record 0");
  put(self, "a.bvecs", bvecs, 4);
  refuse(self, NULL, LAC_E_INPUT, "record 0 at offset 0: found 4 bytes", "expected 7");
  put(self, "a.bvecs", bvecs, sizeof bvecs - 1);
  refuse(self, NULL, LAC_E_INPUT, "record 2 at offset 14: found 6 bytes", "truncated");
  bvecs[7] = 4;
  put(self, "a.bvecs", bvecs, sizeof bvecs);
  refuse(self, NULL, LAC_E_INPUT, "record 1 at offset 7: found dimension 4", "expected 3");
  bvecs[0] = 0;
  put(self, "a.bvecs", bvecs, sizeof bvecs);
  refuse(self, NULL, LAC_E_INPUT, "record 0 at offset 0: found dimension 0", NULL);
  memset(bvecs, 0xff, 4);
  put(self, "a.bvecs", bvecs, sizeof bvecs);
  refuse(self, NULL, LAC_E_INPUT, "found dimension -1", NULL);
}

/* A record in the middle of a large file whose dimension differs, at a place that opening does not look at: reading it
 * and every pass finds it. */
static void vecs_bad_record_in_a_large_file(void **state) {
  fixture *self = *state;
  enum { ROWS = 1 << 18, SIZE = 4 + 4, BAD = 77777 };
  uint8_t *bytes = calloc(ROWS, SIZE);
  for (int i = 0; i < ROWS; i++) {
    bytes[i * SIZE] = i == BAD ? 3 : 4;
  }
  put(self, "a.bvecs", bytes, (size_t)ROWS * SIZE);
  lac_dataset *dataset = get(self, NULL);
  float row[4];
  double low, high;
  int64_t bad_row, bad_column;
  uint64_t fingerprint;
  assert_int_equal(lac_dataset_read_f32(self->context, dataset, BAD - 1, 1, row), LAC_OK);
  assert_int_equal(lac_dataset_read_f32(self->context, dataset, BAD, 1, row), LAC_E_INPUT);
  assert_non_null(strstr(lac_context_message(self->context), "record 77777 at offset 622216: found dimension 3"));
  assert_int_equal(lac_dataset_range(self->context, dataset, &low, &high, &bad_row, &bad_column), LAC_E_INPUT);
  assert_int_equal(lac_dataset_fingerprint(self->context, dataset, &fingerprint), LAC_E_INPUT);
  assert_int_equal(lac_dataset_variance(self->context, dataset, 2, &low), LAC_E_INPUT);
  assert_non_null(strstr(lac_context_message(self->context), "record 77777 "));
  /* A slice names the file's records, not its own. */
  lac_dataset *slice;
  assert_int_equal(lac_dataset_slice(self->context, dataset, BAD - 5, 10, &slice), LAC_OK);
  assert_int_equal(lac_dataset_first_row(slice), BAD - 5);
  assert_int_equal(lac_dataset_first_row(dataset), 0);
  lac_dataset_destroy(&dataset);
  assert_int_equal(lac_dataset_read_f32(self->context, slice, 5, 1, row), LAC_E_INPUT);
  assert_non_null(strstr(lac_context_message(self->context), "record 77777 at offset 622216"));
  lac_dataset_destroy(&slice);
  /* From there on out of step: opening finds the very record. */
  memmove(bytes + BAD * SIZE + 1, bytes + BAD * SIZE, (size_t)(ROWS - BAD) * SIZE - 1);
  put(self, "a.bvecs", bytes, (size_t)ROWS * SIZE);
  refuse(self, NULL, LAC_E_INPUT, "record 77777 at offset 622216: found dimension", NULL);
  free(bytes);
}

/* ---- fbin, u8bin ---- */

static void bin_values(void **state) {
  fixture *self = *state;
  static const uint8_t u8[] = {2, 0, 0, 0, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5};
  static const uint8_t f32[] = {1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
  put(self, "a.u8bin", u8, sizeof u8);
  accept(self, NULL, "u8bin", LAC_U8, 2, 3, counting);
  put(self, "a.fbin", f32, sizeof f32);
  accept(self, NULL, "fbin", LAC_F32, 1, 2, (float[]){1, -2});
  put(self, "a.fbin", f32, sizeof f32 - 3);
  refuse(self, NULL, LAC_E_INPUT, "offset 8: found 5 bytes", "expected 8");
  put(self, "a.fbin", f32, 7);
  refuse(self, NULL, LAC_E_INPUT, "offset 7", NULL);
  uint8_t zero[sizeof u8];
  memcpy(zero, u8, sizeof u8);
  zero[0] = 0;
  put(self, "a.u8bin", zero, sizeof zero);
  refuse(self, NULL, LAC_E_INPUT, "(0, 3)", "row");
  memset(zero, 0xff, 8);
  put(self, "a.fbin", zero, sizeof zero);
  refuse(self, NULL, LAC_E_INPUT, "which no file can hold", NULL);
  zero[3] = zero[7] = 0x7f;
  put(self, "a.u8bin", zero, sizeof zero);
  refuse(self, NULL, LAC_E_INPUT, "truncated", "(2147483647, 2147483647)");
}

/* ---- npy ---- */

/* An npy file with this header and these values. */
static void put_npy(fixture *self, int version, const char *header, const void *values, size_t size) {
  uint8_t bytes[1024] = "\x93NUMPY";
  size_t length = strlen(header), at = 8;
  bytes[6] = (uint8_t)version;
  for (int i = 0; i < (version == 1 ? 2 : 4); i++) {
    bytes[at++] = (uint8_t)(length >> 8 * i);
  }
  memcpy(bytes + at, header, length);
  memcpy(bytes + at + length, values, size);
  put(self, "a.npy", bytes, at + length + size);
}

static void npy_values(void **state) {
  fixture *self = *state;
  static const uint8_t u8[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  put_npy(self, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 6), }     \n", u8, 12);
  accept(self, NULL, "npy", LAC_U8, 2, 6, counting);
  put_npy(self, 2, "{\"shape\":(3L,4L),'fortran_order':False,'descr':'u1'}", u8, 12);
  accept(self, NULL, "npy", LAC_U8, 3, 4, counting);
  put_npy(self, 3, "{'descr': '|u1', 'fortran_order': False, 'shape': (12,)}", u8, 12);
  accept(self, NULL, "npy", LAC_U8, 12, 1, counting);
  static const uint8_t columns[] = {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
  put_npy(self, 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 4)}", columns, 12);
  accept(self, NULL, "npy", LAC_U8, 3, 4, counting);
  static const uint8_t half[] = {0x3e, 0, 0xc0, 0, 0, 1, 0x7c, 0};
  put_npy(self, 1, "{'descr': '>f2', 'fortran_order': False, 'shape': (4, 1)}", half, 8);
  accept(self, NULL, "npy", LAC_F16, 4, 1, (float[]){1.5, -2, 0x1p-24f, INFINITY});
  static const uint8_t i64[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf9};
  put_npy(self, 1, "{'descr': '>i8', 'fortran_order': False, 'shape': (1, 1)}", i64, 8);
  accept(self, NULL, "npy", LAC_I64, 1, 1, (float[]){-7});
}

static void npy_damaged(void **state) {
  fixture *self = *state;
  static const uint8_t u8[12] = {0};
  put(self, "a.npy", "\x93NUMPX\1\0", 8);
  refuse(self, NULL, LAC_E_INPUT, "offset 0", "NUMPY");
  put(self, "a.npy", "\x93NUMPY\1\0", 8);
  refuse(self, NULL, LAC_E_INPUT, "offset 8", NULL);
  put_npy(self, 4, "{}", u8, 0);
  refuse(self, NULL, LAC_E_INPUT, "offset 6", "4.0");
  put(self, "a.npy", "\x93NUMPY\1\0\xff\xff{}", 12);
  refuse(self, NULL, LAC_E_INPUT, "offset 12", "header");
  static const char *const headers[] = {
      "",
      "{",
      "{}",
      "[]",
      "{'descr': '|u1', 'fortran_order': False}",
      "{'descr': '|u1', 'shape': (2, 6)}",
      "{'fortran_order': False, 'shape': (2, 6)}",
      "{'descr': '|u1', 'fortran_order': 0, 'shape': (2, 6)}",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2, -6)}",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2 6)}",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 6}",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 2, 6)}",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 6)}",
      "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (12,)}",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 6)} x",
      "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 6), 'more': 1}",
      "{'descr': '|u1",
  };
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    put_npy(self, 1, headers[i], u8, 12);
    refuse(self, NULL, LAC_E_INPUT, "offset", "found a header that cannot be read here");
  }
  put_npy(self, 1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 6)}", u8, 12);
  refuse(self, NULL, LAC_E_INPUT, "'<c8'", NULL);
  put_npy(self, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 7)}", u8, 12);
  refuse(self, NULL, LAC_E_INPUT, "found 12 bytes of values, expected 14", "truncated");
  put_npy(self, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 5)}", u8, 12);
  refuse(self, NULL, LAC_E_INPUT, "expected 10", NULL);
  put_npy(self, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': ()}", u8, 1);
  refuse(self, NULL, LAC_E_INPUT, "0 axes", NULL);
  put_npy(self, 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (0, 5)}", u8, 0);
  refuse(self, NULL, LAC_E_INPUT, "(0, 5)", NULL);
  put_npy(self, 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (4294967296, 4294967296)}", u8, 0);
  refuse(self, NULL, LAC_E_INPUT, "which no file can hold", NULL);
}

/* ---- Files of any format ---- */

static void unusable_files(void **state) {
  fixture *self = *state;
  snprintf(self->path, sizeof self->path, "%s/none.npy", self->folder);
  refuse(self, NULL, LAC_E_INPUT, "No such file", NULL);
  refuse(self, "parquet", LAC_E_USAGE, "'parquet'", "npy");
  strcat(self->path, ":train");
  refuse(self, NULL, LAC_E_INPUT, "No such file", NULL);
  put(self, "a.npy", "", 0);
  refuse(self, NULL, LAC_E_INPUT, "empty", NULL);
  put(self, "a.dat", "abc", 3);
  refuse(self, NULL, LAC_E_INPUT, "extension", "format");
  put(self, "a.bvecs", "\1\0\0\0\7", 5);
  strcat(self->path, ":train");
  refuse(self, NULL, LAC_E_INPUT, "HDF5", "bvecs");
  strcpy(self->path, self->folder);
  refuse(self, NULL, LAC_E_INPUT, "folder", NULL);
  strcpy(self->path, "/dev/null");
  refuse(self, NULL, LAC_E_INPUT, "regular", NULL);
  /* A name with a colon is fine where a file has it. */
  put(self, "a:b.bvecs", "\1\0\0\0\7", 5);
  accept(self, NULL, "bvecs", LAC_U8, 1, 1, (float[]){7});
}

static void shortened_while_open(void **state) {
  fixture *self = *state;
  put(self, "images", idx3, sizeof idx3);
  lac_dataset *dataset = get(self, NULL);
  float row[6];
  assert_int_equal(truncate(self->path, 20), 0);
  assert_int_equal(lac_dataset_read_f32(self->context, dataset, 1, 1, row), LAC_E_IO);
  assert_non_null(strstr(lac_context_message(self->context), "found 20 bytes, expected 28"));
  lac_dataset_destroy(&dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(idx_bytes, setup, teardown),
      cmocka_unit_test_setup_teardown(idx_types, setup, teardown),
      cmocka_unit_test_setup_teardown(idx_damaged, setup, teardown),
      cmocka_unit_test_setup_teardown(gzip_content, setup, teardown),
      cmocka_unit_test_setup_teardown(gzip_damaged, setup, teardown),
      cmocka_unit_test_setup_teardown(vecs_values, setup, teardown),
      cmocka_unit_test_setup_teardown(vecs_damaged, setup, teardown),
      cmocka_unit_test_setup_teardown(vecs_bad_record_in_a_large_file, setup, teardown),
      cmocka_unit_test_setup_teardown(bin_values, setup, teardown),
      cmocka_unit_test_setup_teardown(npy_values, setup, teardown),
      cmocka_unit_test_setup_teardown(npy_damaged, setup, teardown),
      cmocka_unit_test_setup_teardown(unusable_files, setup, teardown),
      cmocka_unit_test_setup_teardown(shortened_while_open, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
