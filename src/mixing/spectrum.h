/* The second largest modulus of a single matrix, whatever topology it comes from. */
#ifndef LACONIC_MIXING_SPECTRUM_H
#define LACONIC_MIXING_SPECTRUM_H

#include "laconic/mixing.h"

enum { LAC_SPECTRUM_ANY = -1 }; /* the method is chosen */

/* Of weights that connect all workers. `method` is LAC_SPECTRUM_ANY, or one that is to be used: what it does not find
 * is not converged. A matrix is dense up to 512 workers; beyond that Lanczos and ARPACK make at most 2,000 products,
 * and a factor has at most 10^8 entries (1.6 GB) and takes at most 2 10^10 flops (some 20 seconds). Errors: USAGE for
 * weights that do not connect all workers, and for a method that takes symmetry where there is none; NUMERICAL,
 * INTERRUPTED, MEMORY. */
LAC_MUST_USE lac_status lac_spectrum_of_weights(lac_context *context, const lac_weights *weights, int method,
                                                lac_spectrum *spectrum);

#endif
