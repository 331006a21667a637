#include "cli/cut_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All of this runs in a signal handler: system calls, and memory that is there already. */

typedef struct reader {
  int file;
  size_t at, have;
  char buffer[4096];
} reader;

/* The next character, 0 at the end. */
static char next(reader *from) {
  if (from->at == from->have) {
    ssize_t got = read(from->file, from->buffer, sizeof from->buffer);
    from->have = got > 0 ? (size_t)got : 0;
    from->at = 0;
  }
  return from->at < from->have ? from->buffer[from->at++] : 0;
}

/* A number in hexadecimal digits; *end is what follows it. */
static uint64_t hexadecimal(reader *from, char *end) {
  uint64_t value = 0;
  for (;;) {
    char c = next(from);
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) {
      *end = c;
      return value;
    }
    value = 16 * value + (uint64_t)digit;
  }
}

static void skip_word(reader *from) {
  for (char c = next(from); c && c != ' ' && c != '\n'; c = next(from)) {
  }
}

typedef struct mapping {
  uint64_t offset; /* in the file, of the address asked for */
  char path[1024]; /* as much of it as fits; empty where it is no file */
} mapping;

/* One line of /proc/self/maps: "start-end rights offset device inode    path". */
static bool read_line(reader *from, uint64_t address, bool *found, mapping *map) {
  char end;
  uint64_t start = hexadecimal(from, &end);
  if (end != '-') {
    return false;
  }
  uint64_t limit = hexadecimal(from, &end);
  skip_word(from);
  uint64_t offset = hexadecimal(from, &end);
  skip_word(from);
  skip_word(from);
  size_t length = 0;
  char c = next(from);
  while (c == ' ') {
    c = next(from);
  }
  *found = address >= start && address < limit;
  for (; c && c != '\n'; c = next(from)) {
    if (length + 1 < sizeof map->path) {
      map->path[length++] = c;
    }
  }
  map->path[length] = 0;
  map->offset = offset + (address - start);
  return true;
}

static bool find_mapping(uint64_t address, mapping *map) {
  static reader from;
  bool found = false;
  from = (reader){.file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  while (from.file >= 0 && !found && read_line(&from, address, &found, map)) {
  }
  if (from.file >= 0) {
    close(from.file);
  }
  return found && map->path[0] == '/';
}

static size_t append(char *line, size_t at, size_t size, const char *text) {
  for (; *text && at < size; text++) {
    line[at++] = *text;
  }
  return at;
}

static size_t append_number(char *line, size_t at, size_t size, uint64_t value) {
  char digits[24];
  size_t count = sizeof digits - 1;
  digits[count] = 0;
  do {
    digits[--count] = (char)('0' + value % 10);
    value /= 10;
  } while (value > 0);
  return append(line, at, size, digits + count);
}

static void end_with_a_line(int number, siginfo_t *about, void *machine) {
  static atomic_flag taken = ATOMIC_FLAG_INIT;
  static mapping map;
  char line[1400];
  struct stat file;
  size_t at = 0, size = sizeof line;
  (void)machine;
  while (atomic_flag_test_and_set(&taken)) {
    pause(); /* another thread is about to end the process */
  }
  if (about->si_code <= 0 || !find_mapping((uint64_t)(uintptr_t)about->si_addr, &map)) {
    signal(number, SIG_DFL);
    raise(number); /* sent by somebody, or of no file */
    return;
  }
  at = append(line, at, size, "laconic: ");
  at = append(line, at, size, map.path);
  at = append(line, at, size, ": offset ");
  at = append_number(line, at, size, map.offset);
  bool cut = stat(map.path, &file) == 0 && map.offset >= (uint64_t)file.st_size;
  at = append(line, at, size,
              cut ? ": found the end of the file, expected what was there when it was opened: it was cut meanwhile\n"
                  : ": found nothing to be read, expected what was there when the file was opened\n");
  ssize_t written = write(STDERR_FILENO, line, at);
  (void)written;
  _exit(1);
}

void lac_watch_cut_files(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = end_with_a_line;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, NULL);
}
