/* Which instruction set a kernel may use. Each hot kernel exists in plain C and in one variant per set named here; a
 * table of kernels is asked for by set, so that tests compare every variant that the processor has. */
#ifndef LACONIC_MATH_CPU_H
#define LACONIC_MATH_CPU_H

typedef enum lac_isa {
  LAC_ISA_PLAIN,
  LAC_ISA_AVX2,   /* AVX2, FMA, POPCNT */
  LAC_ISA_AVX512, /* AVX-512 F, BW, VL and VPOPCNTDQ on top of it */
  LAC_ISA_COUNT
} lac_isa;

/* The best set that this processor and system have. */
lac_isa lac_cpu_isa(void);

/* "plain", "avx2", "avx512" */
const char *lac_isa_name(lac_isa isa);

#endif
