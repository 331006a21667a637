/* The method of auxiliary coordinates for any nested model, serially or on a ring of workers (ParMAC).
 *
 * A caller brings a problem as a table of operations on *shards*: a shard is one worker's data, its auxiliary
 * coordinates Z and its copy of the model. The engine alternates a W step, in which M independent submodels visit every
 * shard, and a Z step, which is local to each shard. Data and coordinates never travel.
 *
 * Source: Carreira-Perpinan and Wang 2014 (MAC); Carreira-Perpinan and Alizadeh 2016 (ParMAC). */
#ifndef LACONIC_MAC_H
#define LACONIC_MAC_H

#include "laconic/context.h"
#include "laconic/options.h"
#include "laconic/world.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LAC_MAC_KINDS = 4 };

/* What the steps of a problem take on a machine of speed 1: for worlds whose clock does not run by itself, where the
 * engine spends it (lac_world_spend), and for predictions (laconic/plan.h). In the terms of the speedup model, t_r^W is
 * submodel + visit / q when q submodels train together, t_r^Z is z / M and the communication's own t_c^W is the
 * world's. */
typedef struct lac_mac_costs {
  double begin; /* seconds per point, before each W step */
  double visit; /* seconds per point and pass of a visit, however many submodels train together in it, if any of them
                   costs anything */
  int kinds;    /* 1 to LAC_MAC_KINDS: submodel m is of kind m mod kinds */
  double submodel[LAC_MAC_KINDS]; /* seconds per point and pass of a visit for each submodel of that kind */
  double handling;                /* seconds of each visit for each submodel, whatever the points */
  double z;                       /* seconds per point of a Z step, all submodels' coordinates together */
  int64_t early;                  /* in the first so many iterations, while mu is small, … */
  double early_begin, early_z;    /* … these stand for begin and z */
} lac_mac_costs;

/* The costs of an iteration (from 1), with begin and z that hold for it. Local. */
LAC_API lac_mac_costs lac_mac_costs_at(const lac_mac_costs *costs, int64_t iteration);

/* Seconds of a visit of `count` submodels `ids` to a shard of `points` points. Local. */
LAC_API double lac_mac_visit_seconds(const lac_mac_costs *costs, int64_t points, int64_t count, const int64_t *ids,
                                     int64_t passes);

/* Which of the P shards are in this process. On a ring: world size P, one shard here, its number the rank. Serial:
 * world NULL, all P shards here. Reductions over a team add in shard order, so that both give the same bits. */
typedef struct lac_team {
  lac_world *world;
  int total;                  /* P */
  int first;                  /* number of the first shard here */
  int count;                  /* shards here: 1 on a ring, P in a serial run */
  const lac_mac_costs *costs; /* borrowed; not NULL: what the steps take is spent on the world's clock, which must be a
                                 simulated one to notice */
} lac_team;

/* sum (n) = the sum over all P shards of their values; values (count, n) are those of the shards here. Collective. */
LAC_API LAC_MUST_USE lac_status lac_team_sum_f64(lac_context *context, const lac_team *team, const double *values,
                                                 int64_t n, double *sum);
LAC_API LAC_MUST_USE lac_status lac_team_sum_i64(lac_context *context, const lac_team *team, const int64_t *values,
                                                 int64_t n, int64_t *sum);

/* What a Z step says of its shard. */
typedef struct lac_mac_sums {
  double penalised;      /* E_Q: objective with the penalty, at the new coordinates */
  double nested;         /* objective of the nested model, coordinates replaced by the layers' outputs */
  int64_t disagreements; /* coordinates (bits, say) that differ from the layers' outputs */
  int64_t points;        /* points in this shard */
} lac_mac_sums;

/* A problem. `shard` is the problem's own; the engine passes it through. Operations are local unless they say
 * otherwise, and are called by one thread per shard. A failing operation ends the run with its status. */
typedef struct lac_mac_problem {
  const char *name;
  int64_t submodels; /* M, equal on all shards */

  /* Bytes of submodel m while it travels; equal on all shards and constant over a run. */
  size_t (*submodel_bytes)(const void *shard, int64_t m);

  /* Before a W step at every shard: for example to redraw the local order of the data, keyed by (seed, iteration,
   * shard). */
  lac_status (*w_begin)(void *shard, lac_context *context, int64_t iteration);

  /* Writes the starting state of submodel m; called once per W step, at the shard where the submodel starts. States are
   * aligned to 16 bytes. */
  lac_status (*pack)(void *shard, lac_context *context, int64_t m, void *state);

  /* Trains `count` submodels beside each other, each with `passes` passes over the shard's data. visits[i] counts the
   * training visits that submodel ids[i] has had in this W step, 0 at its first. The new state of one submodel may
   * depend on its old state, its visits and the shard, never on what stands beside it: this is what makes runs
   * reproducible. */
  lac_status (*train)(void *shard, lac_context *context, int64_t count, const int64_t *ids, const int64_t *visits,
                      int64_t passes, void *const *states);

  /* Takes the final state of submodel m into the shard's copy of the model. Called for every m at every shard, in order
   * and after the shard's last `train` of the W step: what a problem trains on does not change while it trains. */
  lac_status (*unpack)(void *shard, lac_context *context, int64_t m, const void *state);

  /* After the last unpack of a W step, at every shard. NULL: nothing to do. */
  lac_status (*w_end)(void *shard, lac_context *context);

  /* Optimises the shard's coordinates at this mu. Called at every shard. */
  lac_status (*z_step)(void *shard, lac_context *context, double mu, lac_mac_sums *sums);

  /* The validation measure as a fraction *sum / *weight after addition over shards; larger is better. NULL: no
   * validation, and no step is undone. */
  lac_status (*validate)(void *shard, lac_context *context, double *sum, double *weight);

  /* Keeps the model and the coordinates / takes back what was kept last. `save` is called before the first iteration
   * and after every accepted one. */
  lac_status (*save)(void *shard, lac_context *context);
  lac_status (*restore)(void *shard, lac_context *context);

  /* A shard may begin on a subsample of its points, which is enough while mu is small: this takes in the others, with
   * coordinates as a Z step at mu, that of the last iteration, finds them under the current model. Called at most once,
   * at every shard, before the first of the last `full_iterations` iterations; never if mu leaves the numbers before.
   * NULL: all points take part from the first iteration. */
  lac_status (*widen)(void *shard, lac_context *context, double mu);

  /* Points of a shard that take part: what costs are counted by. NULL where no costs are given. */
  int64_t (*points)(const void *shard);
} lac_mac_problem;

typedef struct lac_mac_options {
  int64_t iterations;      /* most values of mu that are tried */
  double mu;               /* mu_0 > 0 */
  double mu_factor;        /* a > 1: mu_i = mu_0 a^i; 0: lac_mac_mu_factor() */
  int64_t epochs;          /* e: passes over all data in a W step */
  bool local_epochs;       /* all e passes in one visit */
  int64_t batch;           /* most submodels trained together; 0: ceil(M / P) */
  int64_t full_iterations; /* last iterations, over all points; those before: over the problem's subsample, if any */
  int64_t undo_limit;      /* stop after this many undone steps in a row */
  double undo_tolerance;   /* a step is undone when the measure is below (1 - this) times the best so far */
  int64_t seed;            /* keys the ring's order */
} lac_mac_options;

/* Rows for the options above, for a module's own table: the destination struct has a member `part` of type
 * lac_mac_options. */
/* clang-format off */
#define LAC_MAC_OPTIONS(struct_type, part) \
  {.key = "iterations", .type = LAC_OPTION_INT, .offset = offsetof(struct_type, part.iterations), .low = 0, .high = 1000, .fallback = "13", \
   .help = "most values of mu that are tried"}, \
  {.key = "mu", .type = LAC_OPTION_REAL, .offset = offsetof(struct_type, part.mu), .low = 1e-12, .high = 1e12, .fallback = "0.002", \
   .help = "first value of the penalty weight mu, in units of the data's variance per bit"}, \
  {.key = "mu-factor", .type = LAC_OPTION_REAL, .offset = offsetof(struct_type, part.mu_factor), .low = 0, .high = 1e6, .fallback = "0", \
   .help = "factor from one mu to the next, more than 1; 0 chooses: 1.8 with 13 iterations, more or less with fewer or more, so that they span the same range, at most 2.7"}, \
  {.key = "epochs", .type = LAC_OPTION_INT, .offset = offsetof(struct_type, part.epochs), .low = 1, .high = 1000, .fallback = "1", \
   .help = "passes of every submodel over all data in a W step"}, \
  {.key = "local-epochs", .type = LAC_OPTION_FLAG, .offset = offsetof(struct_type, part.local_epochs), \
   .help = "make all passes of a W step in one visit to each worker: fewer messages, less shuffling"}, \
  {.key = "batch", .type = LAC_OPTION_INT, .offset = offsetof(struct_type, part.batch), .low = 0, .high = 1e6, .fallback = "0", \
   .help = "most submodels that a worker trains together; 0 is submodels / workers, rounded up"}, \
  {.key = "full-iterations", .type = LAC_OPTION_INT, .offset = offsetof(struct_type, part.full_iterations), .low = 1, .high = 1000, .fallback = "5", \
   .help = "so many iterations at the end are over all points; those before over a subsample, where the problem has one"}, \
  {.key = "undo-limit", .type = LAC_OPTION_INT, .offset = offsetof(struct_type, part.undo_limit), .low = 1, .high = 1000, .fallback = "3", \
   .help = "stop after this many undone steps in a row"}, \
  {.key = "undo-tolerance", .type = LAC_OPTION_REAL, .offset = offsetof(struct_type, part.undo_tolerance), .low = 0, .high = 1, .fallback = "0.05", \
   .help = "undo a step when the validation measure is below 1 minus this times the best so far"}
/* clang-format on */

/* The factor that options ask for. One that is chosen takes the last of the iterations to 1.8^12 mu_0, so that more of
 * them are finer steps over the same range and not steps beyond it, where nothing moves any more; at most 2.7. */
LAC_API double lac_mac_mu_factor(const lac_mac_options *options);

/* What an iteration did, as given to the callback on every worker. */
typedef struct lac_mac_report {
  int64_t iteration; /* from 1 */
  double mu;
  double penalised, nested; /* sums over the points that took part */
  int64_t disagreements, points;
  double score;  /* validation measure; NaN without one */
  bool accepted; /* false: the step was undone */
  double w_seconds, z_seconds, total_seconds;
  lac_counts counts; /* this worker's traffic in the W steps so far */
} lac_mac_report;

typedef void (*lac_mac_report_fn)(void *user, const lac_mac_report *report);

typedef struct lac_mac_result {
  int64_t iterations;          /* values of mu tried */
  bool converged;              /* Z = layers' outputs at all points */
  double score;                /* of the accepted state */
  double w_seconds, z_seconds; /* this worker's elapsed time */
  int64_t w_steps;
  int64_t messages, bytes; /* of the W steps, summed over workers: messages = w_steps M ((e + 1) P - 2), or
                              w_steps M (2 P - 2) with local epochs, and none when P = 1 or in a serial run. When the
                              run fails, this worker's own */
} lac_mac_result;

/* Bytes of the envelope that travels with a submodel (its number and its visit counter), counted in
 * lac_mac_result.bytes. */
#define LAC_MAC_ENVELOPE 16

/* Runs MAC to its end: for mu = mu_0 a^i, W step, Z step, validation; a step whose measure falls is undone and the next
 * mu is tried; stops when Z equals the layers' outputs, after undo_limit undone steps in a row, or after the last mu.
 * On a subsample none of these ends the run: full_iterations more follow, over all points. shards (team->count) are the
 * problem's. The result is the same, bit for bit, on a ring and in a serial run over the same shards. On INTERRUPTED
 * every shard has been restored to its last accepted state, which that of another worker can be an iteration ahead of;
 * a worker that has reported one has accepted it. `report` may be NULL. Collective over the team. Errors: USAGE,
 * MEMORY, TIMEOUT, PEER, INTERRUPTED and those of the problem's operations. */
LAC_API LAC_MUST_USE lac_status lac_mac_run(lac_context *context, const lac_team *team, const lac_mac_problem *problem,
                                            void *const *shards, const lac_mac_options *options,
                                            lac_mac_report_fn report, void *user, lac_mac_result *result);

/* One W step of that run, apart: what lac_mac_run calls. `iteration` keys the ring's order. Adds its traffic to
 * *messages and *bytes of this worker (not summed). Collective over the team. */
LAC_API LAC_MUST_USE lac_status lac_mac_w_step(lac_context *context, const lac_team *team,
                                               const lac_mac_problem *problem, void *const *shards,
                                               const lac_mac_options *options, int64_t iteration, int64_t *messages,
                                               int64_t *bytes);

/* Messages of one W step over P workers: M ((e + 1) P - 2), local epochs M (2 P - 2), 0 for P = 1.
 * Local. */
LAC_API int64_t lac_mac_messages(int64_t submodels, int64_t workers, int64_t epochs, bool local_epochs);

#ifdef __cplusplus
}
#endif
#endif
