#include "cli/openblas.h"

#include <dlfcn.h>
#include <string.h>

/* OpenBLAS ends its threads like this before a process forks, too. Of another BLAS the names are not there. */
void lac_end_blas_threads(void) {
  enum { OF_PTHREADS = 1 };
  static const char *const names[] = {"openblas_get_parallel", "openblas_get_num_threads", "openblas_set_num_threads",
                                      "blas_thread_shutdown_"};
  enum { NAMES = sizeof names / sizeof *names };
  void *found[NAMES];
  for (int i = 0; i < NAMES; i++) {
    found[i] = dlsym(RTLD_DEFAULT, names[i]);
    if (!found[i]) {
      return;
    }
  }
  int (*parallel)(void), (*threads)(void), (*shut_down)(void);
  void (*set_threads)(int);
  memcpy(&parallel, &found[0], sizeof parallel);
  memcpy(&threads, &found[1], sizeof threads);
  memcpy(&set_threads, &found[2], sizeof set_threads);
  memcpy(&shut_down, &found[3], sizeof shut_down);
  if (parallel() == OF_PTHREADS && threads() > 1) {
    set_threads(1); /* now, as it would start them anew later */
    shut_down();
  }
}

#if defined(__x86_64__) && defined(__linux__) && !defined(LACONIC_SMPI)
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char variable[] = "OPENBLAS_CORETYPE";

/* The list and the rule are those of bench/blas.py. */
static bool uses_avx(const char *kernels) {
  static const char *const older[] = {"Prescott",     "Core2",     "Penryn", "Dunnington", "Nehalem",
                                      "Atom",         "Katmai",    "Banias", "Athlon",     "Opteron",
                                      "Opteron_SSE3", "Barcelona", "Bobcat", "Nano",       "Northwood"};
  for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
    if (strcasecmp(kernels, older[i]) == 0) {
      return false;
    }
  }
  return true;
}

static const char *best_kernels(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return NULL;
  }
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
  return wide ? "SkylakeX" : "Haswell";
}

/* By its own name, which tools show; the link alone where the file has been replaced since. */
static void start_anew(char **argv) {
  static const char self[] = "/proc/self/exe";
  char path[PATH_MAX];
  ssize_t length = readlink(self, path, sizeof path - 1);
  if (length > 0) {
    path[length] = 0;
    execv(path, argv);
  }
  execv(self, argv);
}

void lac_choose_blas_kernels(char **argv) {
  void *symbol = dlsym(RTLD_DEFAULT, "openblas_get_corename"); /* of OpenBLAS alone */
  char *(*corename)(void);
  bool loader = getauxval(AT_BASE) == 0; /* was asked to run this program: it would be what is started */
  if (!symbol || loader || getenv(variable)) {
    return;
  }
  memcpy(&corename, &symbol, sizeof corename);
  const char *best = uses_avx(corename()) ? NULL : best_kernels();
  if (best && setenv(variable, best, 0) == 0) {
    start_anew(argv);
    unsetenv(variable);
  }
}
#else
void lac_choose_blas_kernels(char **argv) {
  (void)argv;
}
#endif
