/* Workers that are threads of this process: what the back ends local and sim share. */
#ifndef LACONIC_COMM_THREADS_H
#define LACONIC_COMM_THREADS_H

#include "comm/backend.h"

/* Runs the body on one thread per worker, worker 0 on the caller's, and gives the verdict on how they ended. `links`
 * are the workers' ends of the back end, `link_bytes` each. None begins unless all threads could be started. Errors:
 * MEMORY, and whatever the body returns. */
LAC_MUST_USE lac_status lac_threads_run(lac_context *context, const lac_world_options *options,
                                        const lac_backend *backend, void *links, size_t link_bytes, lac_world_fn body,
                                        void *argument);

#endif
