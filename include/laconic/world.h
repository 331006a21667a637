/* A world: workers that run the same function and exchange messages (single program, multiple data).
 *
 * Back ends, chosen by name: "local" (threads of this process; the default), "mpi" (one worker per rank) and "sim" (a
 * simulated cluster in this process). Messages between a pair of workers under one tag arrive in the order sent.
 * Collectives are built on messages in one fixed order, so that all back ends give the same bits. Every wait has a
 * deadline and its error names whom it waited for.
 *
 * Under "sim" every worker has a virtual clock, which begins at 0. It advances by lac_world_spend, to the arrival of a
 * message that is waited for, to a deadline, and by 1 microsecond for a poll that finds nothing; all else takes no
 * time. The workers run one at a time, and whoever sends or looks at what has arrived is the one with the earliest
 * clock (the lowest rank of equals), so that the same program on the same cluster gives the same run to the bit,
 * receives from any worker and deadlines included. When all wait in vain, time jumps to the earliest deadline. A body
 * must not wait for another in any other way (a lock, a barrier of threads), and real time does not count: a body that
 * computes for ever is not stopped by the others' deadlines. */
#ifndef LACONIC_WORLD_H
#define LACONIC_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "laconic/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_world lac_world;

/* What "sim" simulates. All 0 is an ideal network of equal workers. A message of b bytes that is sent at time t begins
 * to leave at t or, if that is later, when what its sender sent before it has left; it has left b / bandwidth after
 * that and arrives `latency` later. So do the library's own questions and notices of failure, but a message of a worker
 * to itself arrives at once. */
typedef struct lac_cluster {
  int64_t seed;     /* of the jitter */
  double latency;   /* seconds */
  double bandwidth; /* of each worker's link, bytes a second; 0: without limit */
  double jitter;    /* each lac_world_spend is multiplied by a lognormal number of mean 1 and this standard deviation,
                       keyed by the seed, the worker and how many there were before */
  const double *speeds; /* (workers), relative: at 0.5 a lac_world_spend takes twice its time; NULL: all 1 */
} lac_cluster;

/* A timeout_ms for worlds in simulated time, where waiting costs nothing: 30 years. */
#define LAC_PATIENCE_MS INT64_C(1000000000000)

typedef struct lac_world_options {
  const char *backend; /* "local", "mpi", "sim", or NULL: mpi when an MPI launcher started this process, else local */
  int64_t workers;     /* local, sim: how many threads; mpi: 0 or the number of ranks, anything else is an error */
  int64_t timeout_ms;  /* longest silence that a wait accepts; 0: 600,000 */
  int64_t delay_seed;  /* tests: when not 0, every delivery is delayed by a keyed random time … */
  int64_t delay_limit_us;     /* … of up to this many microseconds */
  const lac_cluster *cluster; /* sim only, borrowed during the run; NULL: all 0 */
} lac_world_options;

/* What a message is for: the product's claim is about submodels (or model vectors), the rest is control. */
typedef enum lac_traffic { LAC_TRAFFIC_MODEL, LAC_TRAFFIC_CONTROL, LAC_TRAFFIC_KINDS } lac_traffic;

typedef struct lac_counts {
  int64_t messages[LAC_TRAFFIC_KINDS]; /* sent by this worker */
  int64_t bytes[LAC_TRAFFIC_KINDS];    /* payload bytes of those messages */
} lac_counts;

/* The body of a worker. */
typedef lac_status (*lac_world_fn)(lac_world *world, void *argument);

/* True when an MPI launcher started this process (so that backend NULL means mpi). Looks at the environment only.
 * Local. */
LAC_API bool lac_world_launched(void);

/* The number of workers that these options mean: ranks under MPI (starts MPI if need be), else options->workers (0 is
 * 1). Errors: USAGE when options->workers contradicts the number of ranks, UNSUPPORTED for mpi in a build without it.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_world_size_of(lac_context *context, const lac_world_options *options, int *size);

/* Runs `body` once per worker and returns when all have ended: local and sim start the threads; mpi runs the body on
 * this rank. Each worker has a child context. When a body fails, the others' waits end with PEER and name the worker;
 * the status returned is the first failing worker's own, and so is the message left in `context`. Collective on mpi.
 * Errors: USAGE (also for a cluster that cannot be), UNSUPPORTED, MEMORY, and whatever the body returns. */
LAC_API LAC_MUST_USE lac_status lac_world_run(lac_context *context, const lac_world_options *options, lac_world_fn body,
                                              void *argument);

/* Cores that this process may use, at least 1: more workers of the back end local take turns. Local. */
LAC_API int64_t lac_world_cores(void);

/* Whether the last run ended here without word from some other rank, and it was this one that noticed. As the silent
 * rank may be the one that speaks for all, a program should then say on this rank, too, why it ends. False
 * but on mpi. Local. */
LAC_API bool lac_world_alone(void);

/* Ends MPI if this process started it. Call once, last; does nothing otherwise. Collective on mpi. */
LAC_API void lac_world_finish(void);

/* Local. */
LAC_API int lac_world_rank(const lac_world *world);
LAC_API int lac_world_size(const lac_world *world);
LAC_API const char *lac_world_backend(const lac_world *world);
LAC_API lac_context *lac_world_context(lac_world *world); /* borrowed: this worker's own */
LAC_API lac_counts lac_world_counts(const lac_world *world);

/* Seconds on the clock by which waits are measured: virtual on sim, else monotonic from some moment of the machine's.
 * Local. */
LAC_API double lac_world_now(const lac_world *world);

/* Whether this program was built for the MPI simulator SMPI: its ranks then live in simulated time, their clock is the
 * simulator's, and lac_world_spend advances it. Local. */
LAC_API bool lac_world_smpi(void);

/* Says that this worker has computed for so long: on sim its clock advances by `seconds`, divided by its speed and
 * jittered, and before it next sends or receives, the workers that are behind it run. Values that are below 0, or not
 * finite, or would set the clock beyond all numbers, count as 0. In a program for SMPI it executes that long on its
 * simulated host, at the host's speed. Does nothing on the other back ends, where computing takes its time by itself.
 * Local. */
LAC_API void lac_world_spend(lac_world *world, double seconds);

/* Callers' tags are 0 to LAC_TAG_LIMIT - 1. */
enum { LAC_TAG_LIMIT = 16384 };

/* Most workers of the back ends local and sim. */
enum { LAC_WORKERS_LIMIT = 4096 };

/* Sends a copy of `bytes` bytes; never waits for the receiver. To itself is allowed. Errors: MEMORY, PEER when a worker
 * is known to have failed, USAGE for a worker or tag out of range. Local. */
LAC_API LAC_MUST_USE lac_status lac_world_send(lac_world *world, int to, int tag, const void *data, size_t bytes,
                                               lac_traffic traffic);

#define LAC_ANY_WORKER (-1)

typedef struct lac_message {
  int from, tag;
  size_t bytes;
  void *data; /* malloc'ed, owned by the receiver: free(data) */
} lac_message;

/* Waits for the next message with this tag from this worker (or any). What has arrived is still received after a worker
 * failed or an interrupt. Errors: TIMEOUT naming whom it waited for and whom that one waits for in turn, PEER when a
 * worker has failed, INTERRUPTED, also when it was another worker that was interrupted, MEMORY, USAGE. Local. */
LAC_API LAC_MUST_USE lac_status lac_world_receive(lac_world *world, int from, int tag, lac_message *message);

/* The same without waiting: *found says whether there was one; when not, 1 microsecond passes on sim. It knows no
 * deadline: whoever looks in a loop has its own. Errors: USAGE, PEER, INTERRUPTED, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_world_poll(lac_world *world, int from, int tag, lac_message *message, bool *found);

/* Collectives. Every worker calls them in the same order with the same sizes; status equal on all workers unless
 * TIMEOUT or MEMORY. Reductions add in rank order, ((x_0 + x_1) + x_2) + …: up to 65,536 / P bytes the values of all
 * come to worker 0 by a tree and the result goes back by one, more goes along a chain and back in pieces of 64 KiB.
 * Control messages, summed over workers: a reduction 2 (P - 1) or 2 (P - 1) ceil(8 n / 65536), a barrier
 * P ceil(log2 P), a broadcast (P - 1) ceil(bytes / 65536), a gathering 2 (P - 1) when all blocks together are at most
 * 64 KiB and P (P - 1) when they are more, an agreement 2 (P - 1). One after the other are 2 ceil(log2 P) of a small
 * reduction, a small gathering and an agreement, ceil(log2 P) of a barrier and of a broadcast of up to 64 KiB. In min
 * and max a value that is not a number wins. */
LAC_API LAC_MUST_USE lac_status lac_world_barrier(lac_world *world);
LAC_API LAC_MUST_USE lac_status lac_world_sum_f64(lac_world *world, double *values, int64_t count);
LAC_API LAC_MUST_USE lac_status lac_world_sum_i64(lac_world *world, int64_t *values, int64_t count);
LAC_API LAC_MUST_USE lac_status lac_world_min_f64(lac_world *world, double *values, int64_t count);
LAC_API LAC_MUST_USE lac_status lac_world_max_f64(lac_world *world, double *values, int64_t count);

/* The same sum for worker P - 1 alone, along the chain whatever the size: (P - 1) ceil(8 n / 65536) control messages.
 * Elsewhere the values are partial sums afterwards. */
LAC_API LAC_MUST_USE lac_status lac_world_sum_at_last_f64(lac_world *world, double *values, int64_t count);

LAC_API LAC_MUST_USE lac_status lac_world_broadcast(lac_world *world, int root, void *data, size_t bytes);

/* Every worker's `bytes` bytes, in rank order, at every worker: all (P * bytes). */
LAC_API LAC_MUST_USE lac_status lac_world_gather(lac_world *world, const void *mine, size_t bytes, void *all);

/* Agreement on success: returns LAC_OK on all workers when all passed LAC_OK; otherwise the failing worker of lowest
 * rank gets its own status back and the others the same status with a message that names that worker and repeats its
 * line. */
LAC_API LAC_MUST_USE lac_status lac_world_agree(lac_world *world, lac_status mine);

#ifdef __cplusplus
}
#endif
#endif
