/* OpenBLAS takes its kernels by the processor's model when it is loaded. One that is younger than itself it does not
 * know, and Debian 12's then takes kernels without AVX, a quarter as fast. Its own variable asks for others: the
 * program sets OPENBLAS_CORETYPE to the best that the processor's instruction sets allow and starts itself anew, before
 * it has done anything. Not where the variable is set, nor where the kernels use AVX, nor with another BLAS or one that
 * is linked into the program. */
#ifndef LACONIC_CLI_BLAS_KERNELS_H
#define LACONIC_CLI_BLAS_KERNELS_H

/* Returns when there is nothing to choose, or when it cannot be. */
void lac_choose_blas_kernels(char **argv);

#endif
