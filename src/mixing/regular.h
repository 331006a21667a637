/* Random regular graphs. */
#ifndef LACONIC_MIXING_REGULAR_H
#define LACONIC_MIXING_REGULAR_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/context.h"

/* Whether there is a connected graph of n vertices that all have `degree` neighbours. */
bool lac_regular_exists(int64_t n, int64_t degree);

/* Draws one: neighbour (n, degree), a row the neighbours of a vertex, in no order. By the pairing model, whose loops
 * and double edges are taken out by random switches with other edges (McKay and Wormald 1990): near uniform, not
 * exactly. Graphs that do not connect are drawn again. Errors: NUMERICAL, MEMORY. */
LAC_MUST_USE lac_status lac_regular_draw(lac_context *context, int64_t n, int64_t degree, int64_t seed,
                                         int32_t *neighbour);

#endif
