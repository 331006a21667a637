/* Predictions: how long a job takes on a cluster, before it is paid for.
 *
 * Two kinds of jobs, as everywhere: submodels on a ring, and replicas that mix. A cluster is lac_cluster of
 * laconic/world.h: latency, bandwidth of each worker's link, relative speeds. docs/planning.md has the formulas with
 * their derivations and limits; the same jobs can be rehearsed (lac_plan_rehearse_*): the real engine runs with nothing
 * to compute, and only its clock is spent, on the back end sim or, in a program built for it, under SMPI; and really
 * made on this machine (lac_plan_real_*), on data drawn for it, which is what a prediction is held against.
 *
 * Sources: Carreira-Perpinan and Alizadeh 2016 (speedup of ParMAC); Chaudhari et al. 2017 (Parle's communication). */
#ifndef LACONIC_PLAN_H
#define LACONIC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "laconic/calibration.h"
#include "laconic/hash.h"
#include "laconic/mac.h"
#include "laconic/net.h"
#include "laconic/process.h"
#include "laconic/replica.h"
#include "laconic/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where time goes, in seconds of the whole job: the parts of the worker that computes longest, and what is left. */
typedef struct lac_plan_seconds {
  double w, z;          /* computing in the two steps; of replicas w is the gradients and updates of the mean worker */
  double serial;        /* starts and ends, and what each iteration needs beside its steps */
  double communication; /* messages on the way while that worker has nothing else to do */
  double waiting;       /* for slower workers, and where submodels do not divide among the workers */
  double total;
} lac_plan_seconds;

typedef struct lac_plan {
  int64_t workers;
  lac_plan_seconds seconds;
  double speedup, efficiency; /* total time of one worker over this; that over the sum of the speeds */
  double messages, bytes;     /* of models, summed over workers */
  double link_bytes;          /* most bytes that leave one worker */
  double memory;              /* bytes of the worker that needs most; 0 where it is not known */
} lac_plan;

/* What leaves a worker of models in the whole job; of all workers together it is messages and bytes of the plan.
 * Whoever wants it of each gives an array of one for each worker as the last argument `links`, others NULL. */
typedef struct lac_link {
  double messages, bytes;
} lac_link;

/* ---- a ring of submodels ---- */

/* The plain model: one time per submodel and point, no overlap, lock step where P does not divide M. */
typedef struct lac_ring_plain {
  double w, z, hop; /* t_r^W, t_r^Z, t_c^W in any one unit */
  double points;    /* N */
  int64_t submodels, epochs;
  bool local_epochs;
} lac_ring_plain;

/* S(P) = rho k / (P / N + rho_1 k / P + rho_2); a little below 1 at P = 1, which it charges with communication. Local.
 */
LAC_API double lac_plan_plain_speedup(const lac_ring_plain *model, int64_t workers);
/* T_W(P) and T_Z(P) of an iteration, in the unit of w, z and hop. Local. */
LAC_API void lac_plan_plain_times(const lac_ring_plain *model, int64_t workers, double *w, double *communication,
                                  double *z);
/* P* (a real number) and S* beyond which more workers do not pay: sqrt(rho_1 M N) where rho_1 N >= M, else M. Local. */
LAC_API void lac_plan_plain_best(const lac_ring_plain *model, double *workers, double *speedup);

/* A job on a ring. */
typedef struct lac_ring_job {
  double points;                                /* N, over all workers */
  int64_t submodels, epochs, batch, iterations; /* M, e, most trained together (0: ceil(M / P)), of mu */
  int64_t subsampled; /* first of the iterations, those that work on a subsample of the points … */
  double subsample;   /* … of so large a part, … */
  int64_t granule;    /* … which a worker takes in blocks of so many points, one at least; 0: exactly */
  bool local_epochs;
  double bytes[LAC_MAC_KINDS]; /* of a submodel of each kind while it travels, envelope included */
  lac_mac_costs costs;
  double start_point, start_fixed; /* once: per point of a shard; whatever the points */
  double iteration_point, iteration_fixed;
  double finish_point, finish_fixed;
  int64_t seed; /* of the ring's order, in a rehearsal */
} lac_ring_job;

/* A job of lac_hash_train: M = 2 L submodels of two kinds, encoders and groups of the decoder. `costs` is NULL for a
 * job without costs. Errors: USAGE for options that cannot be. Local. */
LAC_API LAC_MUST_USE lac_status lac_plan_hash_job(lac_context *context, const lac_hash_options *options, double points,
                                                  int64_t columns, const lac_hash_costs *costs, lac_ring_job *job);

/* The extended model: costs by kind and by how many train together, latency apart from bandwidth, overlap, the speeds
 * of the cluster and any shares (P points each, as lac_hash_shares gives; NULL: equal). All links are given their mean
 * over the orders that the ring is drawn in. Errors: USAGE for what cannot be, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_plan_ring(lac_context *context, const lac_ring_job *job, const lac_cluster *cluster,
                                              int workers, const int64_t *shares, lac_plan *plan, lac_link *links);

/* The same job as the engine runs it, computing nothing: after a first iteration `iterations` of them are run and
 * timed, and the seconds of all job->iterations are given; one is enough unless rings are to be averaged over. Waiting
 * is not told from communication: both are in seconds.communication. Starts, ends and what iterations need beside their
 * steps are the formula's. world NULL: on the back end sim over `cluster`, local; else collective over a world whose
 * clock is simulated, with the result the same on all workers. Errors: USAGE, MEMORY, those of lac_mac_run. */
LAC_API LAC_MUST_USE lac_status lac_plan_rehearse_ring(lac_context *context, const lac_ring_job *job,
                                                       const lac_cluster *cluster, lac_world *world, int workers,
                                                       const int64_t *shares, int64_t iterations, lac_plan *plan,
                                                       lac_link *links);

/* lac_hash_train itself on `workers` threads of this machine, on points drawn for it (points * columns elements of
 * memory): the seconds that passed, with communication and waiting within w. shares (workers) adds up to points. The
 * plan's speedup and efficiency are left 0. Errors: those of lac_hash_train, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_plan_real_ring(lac_context *context, const lac_hash_options *options,
                                                   int64_t points, int64_t columns, lac_type type, int workers,
                                                   const int64_t *shares, lac_plan *plan, lac_link *links);

/* ---- replicas ---- */

/* A job of replicas: so many gradients of each, mixed as the options say. */
typedef struct lac_replica_job {
  const lac_replica_options *options; /* method, inner steps, overlap, exchange; borrowed */
  double gradient;                    /* seconds of a gradient on a machine of speed 1 */
  double update;                      /* seconds of everything else in a step: moving the parameters */
  int64_t parameters;                 /* n: a vector has 4 n bytes */
  double gradients;                   /* of each replica in the whole job */
} lac_replica_job;

/* Seconds of a round of a process, on the average over its period, when a worker takes `compute` seconds for its update
 * and a vector has `bytes` bytes: synchronous protocols compute and then exchange, asynchronous ones wait for the
 * answer if they ask somebody, and the slower of computing and sending counts. Speeds are not looked at. Local. */
LAC_API double lac_plan_round(const lac_process *process, double compute, double bytes, const lac_cluster *cluster);

/* Time, messages and bytes of a job. Rounds wait for the slowest worker, asynchronous exchanges do not: for those,
 * gradients of all workers together count (n times `gradients`). speedup: gradients a second over those of one worker.
 * Errors: USAGE, MEMORY, those of lac_replica_process. Local. */
LAC_API LAC_MUST_USE lac_status lac_plan_replicas(lac_context *context, const lac_replica_job *job,
                                                  const lac_cluster *cluster, int workers, lac_plan *plan,
                                                  lac_link *links);

/* The same job as the trainer runs it, with gradients that are 0 and take their time on the clock: after two mixings
 * `gradients` of each replica are made, rounded up to a period of the exchange (without rounds: of the fastest, and to
 * 20 mixings), and the seconds of all
 * job->gradients are given. Vectors really move: some 44 bytes of memory a parameter, gradient and worker. world as
 * above. Errors: USAGE, also for a world of another size or on a real clock; MEMORY, those of lac_replica_advance. */
LAC_API LAC_MUST_USE lac_status lac_plan_rehearse_replicas(lac_context *context, const lac_replica_job *job,
                                                           const lac_cluster *cluster, lac_world *world, int workers,
                                                           int64_t gradients, lac_plan *plan, lac_link *links);

/* Gradients of each replica (without rounds: of the fastest) that a rehearsal or a real run of `gradients` makes in
 * all, those included that come before what is measured. Errors: those of lac_plan_replicas. Local. */
LAC_API LAC_MUST_USE lac_status lac_plan_trial_gradients(lac_context *context, const lac_replica_job *job, int workers,
                                                         int64_t gradients, double *made);

/* A network whose gradients are really computed, as lac_net_create takes it. All borrowed. */
typedef struct lac_plan_network {
  const char *layers, *name;
  lac_image_shape shape;
  int64_t classes, batch;
  const lac_net_options *options;
} lac_plan_network;

/* The trainer itself on `workers` threads of this machine: `gradients` of each replica, rounded up as above, are really
 * computed, on drawn pictures, and the seconds of all job->gradients are given: w is what a worker's thread computed,
 * the mean over workers, and waiting what else passed: for messages, for other workers, for a processor that somebody
 * else wanted. job->gradient and job->update, together above 0, are not used, job->parameters is the network's. speedup
 * and efficiency are left 0. Errors: USAGE, those of lac_net_create, lac_net_gradient and lac_replica_advance, MEMORY.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_plan_real_replicas(lac_context *context, const lac_replica_job *job,
                                                       const lac_plan_network *network, int workers, int64_t gradients,
                                                       lac_plan *plan, lac_link *links);

#ifdef __cplusplus
}
#endif
#endif
