/* Datasets in use: slices and lifetimes, several threads at once, and what a large file costs in memory. */
#include "support.h"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/resource.h>

#include "base/parallel.h"
#include "base/random.h"
#include "data/format.h"

static char folder[64];

static int enter(void **state) {
  enter_folder(folder);
  return make_context(state);
}

static int leave(void **state) {
  leave_folder(folder);
  return drop_context(state);
}

static lac_dataset *open_file(lac_context *context, const char *path) {
  lac_dataset *dataset = NULL;
  assert_ok(context, lac_dataset_open(context, path, NULL, &dataset));
  return dataset;
}

/* The value that every test file here has at a place. */
static float value_at(int64_t row, int64_t column) {
  return (float)((row * 31 + column * 7) % 251);
}

enum { ROWS = 1000, COLUMNS = 37 };

static void fill(float *values) {
  for (int64_t i = 0; i < ROWS; i++) {
    for (int64_t j = 0; j < COLUMNS; j++) {
      values[i * COLUMNS + j] = value_at(i, j);
    }
  }
}

/* a.fvecs, a.npy in Fortran order and big-endian, and a.h5 in compressed chunks: the three ways that rows are not
 * simply adjacent. */
static void write_files(lac_context *context) {
  static float values[ROWS * COLUMNS];
  fill(values);
  assert_ok(context, lac_array_write(context, "a.fvecs", LAC_F32, values, ROWS, COLUMNS));
  FILE *npy = fopen("a.npy", "wb");
  fprintf(npy, "\x93NUMPY%c%c%c%c%-118s", 1, 0, 118, 0,
          "{'descr': '>f4', 'fortran_order': True, 'shape': (1000, 37), }");
  for (int64_t j = 0; j < COLUMNS; j++) {
    for (int64_t i = 0; i < ROWS; i++) {
      uint32_t bits;
      memcpy(&bits, &values[i * COLUMNS + j], sizeof bits);
      bits = __builtin_bswap32(bits);
      assert_int_equal(fwrite(&bits, sizeof bits, 1, npy), 1);
    }
  }
  assert_int_equal(fclose(npy), 0);
  hsize_t shape[2] = {ROWS, COLUMNS}, chunk[2] = {64, 10};
  hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), layout = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = H5Screate_simple(2, shape, NULL);
  assert_true(H5Pset_chunk(layout, 2, chunk) >= 0 && H5Pset_deflate(layout, 1) >= 0);
  hid_t set = H5Dcreate2(file, "train", H5T_IEEE_F32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT);
  assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(layout);
  assert_true(H5Fclose(file) >= 0);
}

static const char *const names[] = {"a.fvecs", "a.npy", "a.h5"};

static void expect_rows(lac_context *context, const lac_dataset *dataset, int64_t first, int64_t count,
                        int64_t offset) {
  float *rows = malloc((size_t)(count * COLUMNS) * sizeof *rows);
  assert_non_null(rows);
  assert_ok(context, lac_dataset_read_f32(context, dataset, first, count, rows));
  for (int64_t i = 0; i < count * COLUMNS; i++) {
    assert_true(rows[i] == value_at(offset + first + i / COLUMNS, i % COLUMNS));
  }
  free(rows);
}

static void slices_outlive_their_whole(void **state) {
  lac_context *context = *state;
  write_files(context);
  for (int i = 0; i < 3; i++) {
    lac_dataset *whole = open_file(context, names[i]), *half, *quarter;
    assert_ok(context, lac_dataset_slice(context, whole, 500, 500, &half));
    assert_ok(context, lac_dataset_slice(context, half, 100, 250, &quarter));
    assert_int_equal(lac_dataset_rows(quarter), 250);
    assert_int_equal(lac_dataset_columns(quarter), COLUMNS);
    assert_string_equal(lac_dataset_path(quarter), names[i]);
    int64_t shape[8];
    assert_int_equal(lac_dataset_shape(quarter, shape), 2);
    assert_int_equal(shape[0], 250);
    expect_rows(context, whole, 0, ROWS, 0);
    lac_dataset_destroy(&whole);
    expect_rows(context, half, 0, 500, 500);
    lac_dataset_destroy(&half);
    expect_rows(context, quarter, 0, 250, 600);
    expect_rows(context, quarter, 249, 1, 600);
    lac_dataset_destroy(&quarter);
    lac_dataset_destroy(&quarter);
  }
}

static void rows_outside_are_refused(void **state) {
  lac_context *context = *state;
  write_files(context);
  static const int64_t outside[][2] = {{-1, 1}, {0, ROWS + 1}, {ROWS, 1}, {ROWS + 1, 0}, {5, -1}, {1, INT64_MAX}};
  float row[COLUMNS];
  int32_t integers[COLUMNS];
  for (int i = 0; i < 3; i++) {
    lac_dataset *dataset = open_file(context, names[i]), *slice;
    for (size_t j = 0; j < sizeof outside / sizeof outside[0]; j++) {
      int64_t first = outside[j][0], count = outside[j][1];
      assert_failure(context, lac_dataset_read_f32(context, dataset, first, count, row), LAC_E_USAGE, names[i]);
      assert_failure(context, lac_dataset_read_i32(context, dataset, first, count, integers), LAC_E_USAGE, names[i]);
      assert_failure(context, lac_dataset_slice(context, dataset, first, count, &slice), LAC_E_USAGE, names[i]);
      assert_null(slice);
    }
    assert_failure(context, lac_dataset_slice(context, dataset, 5, 0, &slice), LAC_E_USAGE, "0 rows");
    assert_ok(context, lac_dataset_read_f32(context, dataset, ROWS, 0, row));
    lac_dataset_destroy(&dataset);
  }
}

/* ---- Threads ---- */

static lac_status read_somewhere(void *argument, lac_context *context, int64_t chunk, int thread) {
  (void)thread;
  const lac_dataset *dataset = argument;
  lac_random stream = lac_random_stream(1, LAC_RANDOM_TEST, (uint64_t)chunk, 0);
  int64_t first = lac_random_below(&stream, ROWS), count = 1 + lac_random_below(&stream, ROWS - first);
  float *rows;
  LAC_TRY(LAC_NEW(context, count * COLUMNS, &rows));
  lac_status status = lac_dataset_read_f32(context, dataset, first, count, rows);
  for (int64_t i = 0; i < count * COLUMNS && !status; i++) {
    if (rows[i] != value_at(first + i / COLUMNS, i % COLUMNS)) {
      status = lac_fail(context, LAC_E_INTERNAL, "row %d is wrong", (int)(first + i / COLUMNS));
    }
  }
  lac_free(rows);
  return status;
}

/* Opens, reads, slices and closes on its own: what the process shares (the HDF5 library) must take it. */
static lac_status open_and_read(void *argument, lac_context *context, int64_t chunk, int thread) {
  lac_dataset *dataset, *slice;
  (void)argument;
  LAC_TRY(lac_dataset_open(context, names[chunk % 3], NULL, &dataset));
  lac_status status = read_somewhere(dataset, context, chunk, thread);
  if (!status && !(status = lac_dataset_slice(context, dataset, chunk, 1, &slice))) {
    lac_dataset_destroy(&slice);
  }
  lac_dataset_destroy(&dataset);
  return status;
}

static void several_threads_read_at_once(void **state) {
  lac_context *context = *state;
  write_files(context);
  for (int i = 0; i < 3; i++) {
    lac_dataset *dataset = open_file(context, names[i]);
    assert_ok(context, lac_parallel(context, 4, 100, read_somewhere, dataset));
    lac_dataset_destroy(&dataset);
  }
  assert_ok(context, lac_parallel(context, 4, 60, open_and_read, NULL));
}

/* ---- Chunks ---- */

static double cpu_seconds(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec;
}

/* Rows read one by one from a large packed chunk: it is unpacked once, not for each of them. */
static void chunks_are_unpacked_once(void **state) {
  lac_context *context = *state;
  enum { LONG = 4096, WIDE = 1024 };
  uint8_t *bytes = malloc(LONG * WIDE);
  assert_non_null(bytes);
  lac_random stream = lac_random_stream(3, LAC_RANDOM_TEST, 0, 0);
  for (int i = 0; i < LONG * WIDE; i++) {
    bytes[i] = (uint8_t)(lac_random_bits(&stream) & 15);
  }
  hsize_t shape[2] = {LONG, WIDE};
  hid_t file = H5Fcreate("a.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), layout = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = H5Screate_simple(2, shape, NULL);
  assert_true(H5Pset_chunk(layout, 2, shape) >= 0 && H5Pset_deflate(layout, 1) >= 0);
  hid_t set = H5Dcreate2(file, "train", H5T_STD_U8LE, space, H5P_DEFAULT, layout, H5P_DEFAULT);
  assert_true(H5Dwrite(set, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) >= 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(layout);
  assert_true(H5Fclose(file) >= 0);
  static float rows[WIDE];
  lac_dataset *dataset = open_file(context, "a.h5");
  double start = cpu_seconds();
  assert_ok(context, lac_dataset_read_f32(context, dataset, 0, 1, rows));
  double once = cpu_seconds() - start;
  for (int64_t i = 1; i < 200; i++) {
    assert_ok(context, lac_dataset_read_f32(context, dataset, i * 20, 1, rows));
    assert_true(rows[i] == bytes[i * 20 * WIDE + i]);
  }
  assert_true(cpu_seconds() - start < 20 * once); /* else about 200 */
  lac_dataset_destroy(&dataset);
  free(bytes);
}

/* ---- Memory ---- */

/* A figure of /proc/self/status in bytes. */
static int64_t memory_of(const char *key) {
  char line[256];
  long long kilobytes = -1;
  FILE *file = fopen("/proc/self/status", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, key, strlen(key)) == 0) {
      sscanf(line + strlen(key), ": %lld", &kilobytes);
    }
  }
  fclose(file);
  assert_true(kilobytes >= 0);
  return kilobytes * 1024;
}

/* A file of `size` bytes that begins with `head`, else a hole. */
static void write_sparse(const char *path, const void *head, size_t bytes, int64_t size) {
  int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0666);
  assert_true(file >= 0);
  assert_int_equal(write(file, head, bytes), bytes);
  assert_int_equal(ftruncate(file, size), 0);
  assert_int_equal(close(file), 0);
}

/* What passes may take; the thread sanitizer notes down every byte that is read. */
#ifdef __SANITIZE_THREAD__
enum { MEGABYTE = 1 << 20, PASS_BYTES = 512 * MEGABYTE };
#else
enum { MEGABYTE = 1 << 20, PASS_BYTES = 4 * MEGABYTE };
#endif

/* Opening takes no memory worth the name and touches no more than some pages, however large the file is; reading and
 * passes over a part of it leave what they read in the file's pages, which the system can drop. */
static void large_files_are_mapped(void **state) {
  lac_context *context = *state;
  const int64_t rows = 80000000, columns = 128; /* 10 GB */
  uint32_t head[2] = {(uint32_t)rows, (uint32_t)columns};
  char npy[128 + 1];
  snprintf(npy + 10, sizeof npy - 10, "%-118s", "{'descr': '<f4', 'fortran_order': True, 'shape': (80000000, 32), }");
  memcpy(npy, "\x93NUMPY\1\0\x76", 10);
  write_sparse("a.u8bin", head, sizeof head, 8 + rows * columns);
  write_sparse("a.npy", npy, 128, 128 + rows * columns);
  int64_t private = memory_of("RssAnon"), mapped = memory_of("RssFile");
  lac_dataset *bytes = open_file(context, "a.u8bin"), *floats = open_file(context, "a.npy"), *part;
  assert_true(memory_of("RssFile") - mapped < MEGABYTE);
  assert_true(memory_of("RssAnon") - private < MEGABYTE);
  size_t stride;
  const uint8_t *base = lac_dataset_bytes(bytes, &stride);
  assert_non_null(base);
  assert_int_equal(base[(size_t)(rows - 1) * stride], 0);
  float row[128];
  for (int64_t i = 1; i < 5; i++) {
    assert_ok(context, lac_dataset_read_f32(context, bytes, i * 17654321, 1, row));
  }
  assert_ok(context, lac_dataset_read_f32(context, floats, rows / 2, 1, row));
  double low, high;
  uint64_t fingerprint;
  assert_ok(context, lac_dataset_slice(context, bytes, 1000000, 200000, &part));
  assert_ok(context, lac_dataset_check(context, part, &low, &high));
  assert_ok(context, lac_dataset_fingerprint(context, part, &fingerprint));
  assert_ok(context, lac_dataset_variance(context, part, 2, &low));
  assert_true(memory_of("RssAnon") - private < PASS_BYTES);
  lac_dataset_destroy(&part);
  lac_dataset_destroy(&floats);
  lac_dataset_destroy(&bytes);
}

/* The same for records, whose dimensions are looked at: 10 of 1 GB. */
static void large_records_are_mapped(void **state) {
  lac_context *context = *state;
  const int64_t size = (int64_t)1 << 30;
  int32_t dimension = (int32_t)(size - 4);
  write_sparse("a.bvecs", &dimension, 4, 10 * size);
  int file = open("a.bvecs", O_WRONLY);
  for (int64_t i = 1; i < 10; i++) {
    assert_int_equal(pwrite(file, &dimension, 4, i * size), 4);
  }
  int64_t private = memory_of("RssAnon"), mapped = memory_of("RssFile");
  lac_dataset *dataset = open_file(context, "a.bvecs");
  assert_int_equal(lac_dataset_rows(dataset), 10);
  assert_true(memory_of("RssFile") - mapped < 8 * MEGABYTE);
  assert_true(memory_of("RssAnon") - private < MEGABYTE);
  lac_dataset_destroy(&dataset);
  dimension++;
  assert_int_equal(pwrite(file, &dimension, 4, 7 * size), 4);
  close(file);
  assert_failure(context, lac_dataset_open(context, "a.bvecs", NULL, &dataset), LAC_E_INPUT,
                 "record 7 at offset 7516192768: found dimension 1073741821, expected 1073741820");
}

/* ---- Interruption ---- */

static void passes_can_be_interrupted(void **state) {
  lac_context *context = *state;
  write_files(context);
  FILE *csv = fopen("a.csv", "w");
  fprintf(csv, "1,2\n3,4\n");
  fclose(csv);
  lac_dataset *dataset = open_file(context, "a.npy"), *text;
  double low, high;
  uint64_t fingerprint;
  lac_context_interrupt(context);
  assert_failure(context, lac_dataset_check(context, dataset, &low, &high), LAC_E_INTERRUPTED, "a.npy");
  assert_failure(context, lac_dataset_fingerprint(context, dataset, &fingerprint), LAC_E_INTERRUPTED, "a.npy");
  assert_failure(context, lac_dataset_variance(context, dataset, 2, &low), LAC_E_INTERRUPTED, "a.npy");
  assert_failure(context, lac_dataset_open(context, "a.csv", NULL, &text), LAC_E_INTERRUPTED, "a.csv");
  assert_null(text);
  lac_dataset_destroy(&dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(slices_outlive_their_whole, enter, leave),
      cmocka_unit_test_setup_teardown(rows_outside_are_refused, enter, leave),
      cmocka_unit_test_setup_teardown(several_threads_read_at_once, enter, leave),
      cmocka_unit_test_setup_teardown(chunks_are_unpacked_once, enter, leave),
      cmocka_unit_test_setup_teardown(large_files_are_mapped, enter, leave),
      cmocka_unit_test_setup_teardown(large_records_are_mapped, enter, leave),
      cmocka_unit_test_setup_teardown(passes_can_be_interrupted, enter, leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
