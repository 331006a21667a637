/* The last step of encoding: signs of a row of encoder outputs as bits. */
#ifndef LACONIC_HASH_SIGN_H
#define LACONIC_HASH_SIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "math/cpu.h"

/* Bit l of code (bytes) = y[l] + bias[l] >= 0, for l in 0..8 bytes-1; a bit of padding is 0 when its y is 0 and its
 * bias -1. Gives whether every sum is finite: a row with a value that is not finite has none that is. */
typedef bool (*lac_sign_kernel)(const float *y, const float *bias, int64_t bytes, uint8_t *code);

/* The kernel for an instruction set that the processor has. */
lac_sign_kernel lac_sign_kernel_of(lac_isa isa);

#endif
