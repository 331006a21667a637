/* Elements as files have them to elements in memory. */
#ifndef LACONIC_DATA_CONVERT_H
#define LACONIC_DATA_CONVERT_H

#include "laconic/dataset.h"

/* Converts n adjacent elements at any address; swapped: they are big-endian. out is float, double, or the type itself.
 */
typedef void (*lac_convert_fn)(lac_type type, bool swapped, const uint8_t *in, int64_t n, void *out);

void lac_convert_f32(lac_type type, bool swapped, const uint8_t *in, int64_t n, void *out);
void lac_convert_f64(lac_type type, bool swapped, const uint8_t *in, int64_t n, void *out);
void lac_convert_native(lac_type type, bool swapped, const uint8_t *in, int64_t n, void *out);

#endif
