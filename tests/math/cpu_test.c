/* The chosen instruction set is one that the kernel also says this processor has. */
#include "math/cpu.h"

#include <stdbool.h>

#include "support.h"

/* Whether /proc/cpuinfo lists the flag. */
static bool listed(const char *flags, const char *flag) {
  char padded[64];
  snprintf(padded, sizeof padded, " %s ", flag);
  return strstr(flags, padded) != NULL;
}

static void best_set_is_what_the_processor_lists(void **state) {
  (void)state;
  static char line[16384], flags[16384];
  FILE *file = fopen("/proc/cpuinfo", "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "flags", 5) == 0) {
      line[strcspn(line, "\n")] = ' ';
      memcpy(flags, line, sizeof flags);
      break;
    }
  }
  fclose(file);
  bool avx2 = listed(flags, "avx2") && listed(flags, "fma") && listed(flags, "popcnt");
  bool avx512 = avx2 && listed(flags, "avx512f") && listed(flags, "avx512bw") && listed(flags, "avx512vl") &&
                listed(flags, "avx512_vpopcntdq");
  assert_int_equal(lac_cpu_isa(), avx512 ? LAC_ISA_AVX512 : avx2 ? LAC_ISA_AVX2 : LAC_ISA_PLAIN);
}

static void sets_have_names(void **state) {
  (void)state;
  assert_string_equal(lac_isa_name(LAC_ISA_PLAIN), "plain");
  assert_string_equal(lac_isa_name(LAC_ISA_AVX2), "avx2");
  assert_string_equal(lac_isa_name(LAC_ISA_AVX512), "avx512");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(best_set_is_what_the_processor_lists),
                                     cmocka_unit_test(sets_have_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
