/* Output files: whole or not there, and what was there before is lost only to a whole successor. */
#include "laconic/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/memory.h"
#include "support.h"

/* In place of the C library's, to see who calls it. */
static int umask_calls;
mode_t umask(mode_t mask) {
  umask_calls++;
  return (mode_t)syscall(SYS_umask, mask);
}

typedef struct fixture {
  lac_context *context;
  char folder[64], path[128];
} fixture;

static int make_folder(void **state) {
  fixture *f = calloc(1, sizeof *f);
  *state = f;
  strcpy(f->folder, "/tmp/laconic-output-XXXXXX");
  if (!f || !mkdtemp(f->folder) || lac_context_create(&f->context)) {
    return -1;
  }
  snprintf(f->path, sizeof f->path, "%s/out", f->folder);
  return 0;
}

static int entries(const char *folder) {
  DIR *open_folder = opendir(folder);
  assert_non_null(open_folder);
  int count = -2; /* . and .. */
  while (readdir(open_folder)) {
    count++;
  }
  closedir(open_folder);
  return count;
}

static int drop_folder(void **state) {
  fixture *f = *state;
  unlink(f->path);
  int bad = entries(f->folder) != 0 || rmdir(f->folder) != 0; /* nothing is left lying about */
  lac_context_destroy(&f->context);
  free(f);
  return bad;
}

static void put(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void expect(const char *path, const char *text) {
  char found[100] = {0};
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(fread(found, 1, sizeof found - 1, file), strlen(text));
  fclose(file);
  assert_string_equal(found, text);
}

static void target_appears_at_the_commit(void **state) {
  fixture *f = *state;
  lac_output output;
  assert_int_equal(lac_output_open(f->context, f->path, &output), LAC_OK);
  assert_int_equal(lac_output_write(f->context, &output, "abc", 3), LAC_OK);
  assert_int_not_equal(access(f->path, F_OK), 0);
  assert_int_equal(lac_output_commit(f->context, &output), LAC_OK);
  assert_null(output.file);
  expect(f->path, "abc");
  assert_int_equal(entries(f->folder), 1);
}

static void discard_keeps_what_was_there(void **state) {
  fixture *f = *state;
  lac_output output;
  put(f->path, "before");
  assert_int_equal(lac_output_open(f->context, f->path, &output), LAC_OK);
  assert_int_equal(lac_output_write(f->context, &output, "half", 4), LAC_OK);
  expect(f->path, "before");
  lac_output_discard(&output);
  lac_output_discard(&output);
  expect(f->path, "before");
  assert_int_equal(entries(f->folder), 1);
}

static void replacing_keeps_the_mode(void **state) {
  fixture *f = *state;
  lac_output output;
  struct stat about;
  put(f->path, "before");
  assert_int_equal(chmod(f->path, 0640), 0);
  assert_int_equal(lac_output_open(f->context, f->path, &output), LAC_OK);
  assert_int_equal(lac_output_commit(f->context, &output), LAC_OK);
  assert_int_equal(stat(f->path, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0640);
  assert_int_equal(about.st_size, 0);
}

static void new_files_follow_the_umask(void **state) {
  fixture *f = *state;
  lac_output output;
  struct stat about;
  mode_t before = umask(027);
  assert_int_equal(lac_output_open(f->context, f->path, &output), LAC_OK);
  assert_int_equal(lac_output_commit(f->context, &output), LAC_OK);
  umask(before);
  assert_int_equal(stat(f->path, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0640);
}

/* The umask belongs to the whole process: asking for it by setting it would open other threads' new files to all. */
static void the_umask_is_left_alone(void **state) {
  fixture *f = *state;
  lac_output output;
  int before = umask_calls;
  assert_int_equal(lac_output_open(f->context, f->path, &output), LAC_OK);
  assert_int_equal(lac_output_commit(f->context, &output), LAC_OK);
  assert_int_equal(umask_calls, before);
}

/* A link stays a link, and the file that it leads to is the one replaced, in its own folder. */
static void links_are_followed(void **state) {
  fixture *f = *state;
  char folder[200], target[220], link[200];
  lac_output output;
  struct stat about;
  snprintf(folder, sizeof folder, "%s/inner", f->folder);
  snprintf(target, sizeof target, "%s/target", folder);
  snprintf(link, sizeof link, "%s/link", f->folder);
  assert_int_equal(mkdir(folder, 0777), 0);
  put(target, "before");
  assert_int_equal(symlink("inner/target", link), 0);
  assert_int_equal(lac_output_open(f->context, link, &output), LAC_OK);
  assert_int_equal(lac_output_write(f->context, &output, "after", 5), LAC_OK);
  assert_int_equal(lac_output_commit(f->context, &output), LAC_OK);
  expect(target, "after");
  assert_int_equal(lstat(link, &about), 0);
  assert_true(S_ISLNK(about.st_mode));
  assert_int_equal(unlink(target), 0);
  assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
  assert_int_equal(unlink(link), 0);
}

/* A limit on the file size acts as a full disk does: writes fail after the work has begun. */
static void full_disk_leaves_nothing_half_written(void **state) {
  fixture *f = *state;
  put(f->path, "before");
  struct rlimit old, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 10000;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  char *block = calloc(1, 1000);
  lac_output output;
  lac_status status = lac_output_open(f->context, f->path, &output);
  for (int i = 0; i < 100 && !status; i++) {
    status = lac_output_write(f->context, &output, block, 1000);
  }
  if (!status) {
    status = lac_output_commit(f->context, &output);
  } else {
    lac_output_discard(&output);
  }
  free(block);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  signal(SIGXFSZ, SIG_DFL);
  assert_int_equal(status, LAC_E_IO);
  assert_non_null(strstr(lac_context_message(f->context), f->path));
  assert_non_null(strstr(lac_context_message(f->context), strerror(EFBIG)));
  expect(f->path, "before");
  assert_int_equal(entries(f->folder), 1);
}

/* The same when all of it fits in the buffer and only the commit meets the disk. */
static void a_device_that_is_full_fails_at_the_commit(void **state) {
  fixture *f = *state;
  lac_output output;
  assert_int_equal(lac_output_open(f->context, "/dev/full", &output), LAC_OK);
  assert_int_equal(lac_output_write(f->context, &output, "abc", 3), LAC_OK);
  assert_int_equal(lac_output_commit(f->context, &output), LAC_E_IO);
  assert_non_null(strstr(lac_context_message(f->context), "/dev/full"));
  struct stat about;
  assert_int_equal(stat("/dev/full", &about), 0);
  assert_true(S_ISCHR(about.st_mode)); /* neither replaced nor removed */
}

static void unwritable_places_are_named_before_the_work(void **state) {
  fixture *f = *state;
  char inside[200], missing[200];
  put(f->path, "a file, no folder");
  snprintf(inside, sizeof inside, "%s/x", f->path);
  snprintf(missing, sizeof missing, "%s/none/x", f->folder);
  const char *bad[] = {"", f->folder, inside, missing};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    lac_output output;
    assert_int_equal(lac_output_check(f->context, bad[i]), LAC_E_OUTPUT);
    assert_non_null(strstr(lac_context_message(f->context), bad[i]));
    assert_int_equal(lac_output_open(f->context, bad[i], &output), LAC_E_OUTPUT);
    assert_null(output.file);
    lac_output_discard(&output);
  }
  assert_int_equal(lac_output_check(f->context, f->path), LAC_OK);
  expect(f->path, "a file, no folder");
}

int main(void) {
#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)
  const struct CMUnitTest tests[] = {FOLDER_TEST(target_appears_at_the_commit),
                                     FOLDER_TEST(discard_keeps_what_was_there),
                                     FOLDER_TEST(replacing_keeps_the_mode),
                                     FOLDER_TEST(new_files_follow_the_umask),
                                     FOLDER_TEST(the_umask_is_left_alone),
                                     FOLDER_TEST(links_are_followed),
                                     FOLDER_TEST(full_disk_leaves_nothing_half_written),
                                     FOLDER_TEST(a_device_that_is_full_fails_at_the_commit),
                                     FOLDER_TEST(unwritable_places_are_named_before_the_work)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
