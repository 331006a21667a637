#include "math/cpu.h"

lac_isa lac_cpu_isa(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt")) {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vpopcntdq")) {
      return LAC_ISA_AVX512;
    }
    return LAC_ISA_AVX2;
  }
#endif
  return LAC_ISA_PLAIN;
}

const char *lac_isa_name(lac_isa isa) {
  static const char *const names[LAC_ISA_COUNT] = {"plain", "avx2", "avx512"};
  return names[isa];
}
