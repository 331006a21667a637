/* A loop shared by threads. Results must not depend on which thread takes which chunk: what is summed is stored per
 * chunk and added in chunk order afterwards. */
#ifndef LACONIC_BASE_PARALLEL_H
#define LACONIC_BASE_PARALLEL_H

#include <stdint.h>

#include "laconic/context.h"

/* One chunk. `thread` is in 0..threads-1 and picks scratch memory. `context` is this thread's own. */
typedef lac_status (*lac_chunk_fn)(void *argument, lac_context *context, int64_t chunk, int thread);

/* Runs chunk 0..chunks-1, taken in order by `threads` threads (the caller is one of them; threads beyond the chunks are
 * not started). On failure no further chunk is started and the failing chunk of lowest number gives the status and
 * message. */
LAC_MUST_USE lac_status lac_parallel(lac_context *context, int64_t threads, int64_t chunks, lac_chunk_fn chunk,
                                     void *argument);

#endif
