/* Defaults of the sanitizers, compiled into every sanitised program, so that they hold however it is started (by hand,
 * by a script, under mpiexec). The variables ASAN_OPTIONS and so on still come on top. */
#define SANITIZER_API __attribute__((visibility("default"), used))

SANITIZER_API int dlclose(void *handle);
SANITIZER_API const char *__asan_default_options(void);
SANITIZER_API const char *__ubsan_default_options(void);
SANITIZER_API const char *__tsan_default_options(void);
SANITIZER_API const char *__lsan_default_options(void);
SANITIZER_API const char *__lsan_default_suppressions(void);
SANITIZER_API const char *__tsan_default_suppressions(void);

/* In place of the system's: Open MPI unloads its components before the leak check at exit, which then could not tell
 * whose they are. */
int dlclose(void *handle) {
  (void)handle;
  return 0;
}

/* Stacks that outlive their function are watched in the least room: the default, 11 MB a thread, takes a third of the
 * time of tests with a thousand threads.
 *
 * Call stacks by the fast unwinder: whole ones would cost nine tenths of the time of a program that trains a network,
 * as oneDNN asks for memory very often. tests/house/mpiexec.sh asks for true ones. */
const char *__asan_default_options(void) {
  return "detect_leaks=1:detect_stack_use_after_return=1:max_uar_stack_size_log=16:strict_string_checks=1:"
         "allocator_may_return_null=1";
}

const char *__ubsan_default_options(void) {
  return "print_stacktrace=1:halt_on_error=1";
}

const char *__tsan_default_options(void) {
  return "halt_on_error=1:second_deadlock_stack=1";
}

const char *__lsan_default_options(void) {
  return "print_suppressions=0";
}

/* What other people's libraries keep until the process ends. Nothing of this project stands here. Works under
 * fast_unwind_on_malloc=0, which tests/house/mpiexec.sh sets. */
const char *__lsan_default_suppressions(void) {
  return "leak:pthread_getattr_np\n" /* the sanitizer's own, when a process ends while OpenBLAS starts its threads */
         "leak:/openmpi/\n"
         "leak:libmpi.so\n"
         "leak:libopen-pal.so\n"
         "leak:libopen-rte.so\n"
         "leak:libpmix.so\n"
         "leak:libhwloc.so\n"
         "leak:libevent\n";
}

/* OpenBLAS hands work between its threads by means that the sanitizer does not see. */
const char *__tsan_default_suppressions(void) {
  return "called_from_lib:libopenblas.so.0\n";
}
