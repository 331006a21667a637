/* What the program asks of OpenBLAS before it does anything. Neither does harm with another BLAS. */
#ifndef LACONIC_CLI_OPENBLAS_H
#define LACONIC_CLI_OPENBLAS_H

/* OpenBLAS takes its kernels by the processor's model when it is loaded. One that is younger than itself it does not
 * know, and Debian 12's then takes kernels without AVX, a quarter as fast. Its own variable asks for others: the
 * program sets OPENBLAS_CORETYPE to the best that the processor's instruction sets allow and starts itself anew. Not
 * where the variable is set, nor where the kernels use AVX, nor with a BLAS that is linked into the program. Returns
 * when there is nothing to choose, or when it cannot be. */
void lac_choose_blas_kernels(char **argv);

/* Ends the threads that OpenBLAS starts when it is loaded. Here every product is computed by one thread, workers being
 * the unit of parallelism, and its own would look for work for a tenth of a second before they sleep, on the cores of
 * the workers. */
void lac_end_blas_threads(void);

#endif
