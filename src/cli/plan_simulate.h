/* The cluster of a plan, and runs of this very program on it under SimGrid's SMPI. */
#ifndef LACONIC_CLI_PLAN_SIMULATE_H
#define LACONIC_CLI_PLAN_SIMULATE_H

#include <jansson.h>

#include "cli/command.h"

/* Options that commands which plan have in common; in their structs as a member. */
typedef struct lac_plan_cluster_options {
  char *network, *cluster, *speeds;
  double real_limit; /* seconds */
  bool links;
} lac_plan_cluster_options;

/* clang-format off */
#define LAC_PLAN_CLUSTER_OPTIONS(struct_type, part)                                                                   \
  LAC_TEXT_OPTION(struct_type, part.network, "network", "NETWORK",                                                    \
                  "bandwidth of a worker's link and latency of a message; when not given 1Gbit,50us"),                \
  LAC_TEXT_OPTION(struct_type, part.cluster, "cluster", "FILE",                                                       \
                  "a SimGrid platform file in place of --network and --speeds: its hosts in the order of their names, " \
                  "speeds relative to the first; needs SimGrid"),                                                     \
  LAC_TEXT_OPTION(struct_type, part.speeds, "speeds", "LIST",                                                         \
                  "relative speeds of the workers, as 1,1,0.5, repeated for the others"),                             \
  {.key = "links", .type = LAC_OPTION_FLAG, .offset = offsetof(struct_type, part.links),                              \
   .help = "also say what leaves the link of each worker"},                                                           \
  {.key = "real-limit", .type = LAC_OPTION_REAL, .offset = offsetof(struct_type, part.real_limit), .low = 0,          \
   .high = 1e6, .fallback = "60", .unit = "seconds",                                                                  \
   .help = "with --simulate: that a real run may be predicted to take, 0 for none"}
/* clang-format on */

typedef struct lac_plan_cluster {
  lac_cluster cluster;  /* its speeds are those below, or NULL when all are 1 */
  double *speeds;       /* (limit); NULL */
  json_t *hosts;        /* of a platform file: [{"name", "speed"}, …]; NULL */
  const int64_t *sizes; /* (size_count), rising: numbers of workers that it was read for; borrowed */
  int size_count;
  lac_cluster *of_size; /* (size_count) of a platform file; NULL */
  bool given;           /* by these options */
  bool in_turn; /* set by the command: in a simulation a link carries one message after another, as the connection
                   does on which all that a worker sends goes to the same other; else all that are under way share
                   it, and one that is waited for is held up by those behind it */
} lac_plan_cluster;

/* Reads the options for these numbers of workers, and says of a platform file what it is taken as. Close it also after
 * a failure. Errors: USAGE, INPUT for a platform file (too few hosts, not readable), UNSUPPORTED naming the package
 * where SimGrid is missing, MEMORY. */
LAC_MUST_USE lac_status lac_plan_cluster_open(lac_session *session, const lac_plan_cluster_options *options,
                                              const int64_t *sizes, int size_count, lac_plan_cluster *cluster);
/* Sets cluster->cluster for one of its sizes: a platform file may have other routes among fewer hosts. At first it is
 * that of the last. */
void lac_plan_cluster_size(lac_plan_cluster *cluster, int workers);
void lac_plan_cluster_close(lac_plan_cluster *cluster);

/* Whether runs can be simulated, and what the largest takes in memory. Errors: UNSUPPORTED naming the package to
 * install, USAGE when `workers` processes of `bytes` bytes each do not fit, with the estimate. */
LAC_MUST_USE lac_status lac_simulation_check(lac_session *session, int workers, double bytes);

/* The same of rehearsals on the program's own clock, a thread for each worker: USAGE. */
LAC_MUST_USE lac_status lac_rehearsal_check(lac_session *session, int workers, double bytes);

/* One simulated run of `command` with these options, --rehearse, --json, --workers and the cluster in numbers; those
 * whose keys are in `left_out` (ends with NULL, or NULL) are not passed on, the words `added` (ends with NULL, or NULL)
 * are. *line is its first JSON line with "workers", to be released. Errors: IO and those of the run, whose line becomes
 * this one's; INTERRUPTED; MEMORY. */
LAC_MUST_USE lac_status lac_simulate(lac_session *session, const lac_command *command, const void *options,
                                     const char *const *left_out, const char *const *added,
                                     const lac_plan_cluster_options *where, const lac_plan_cluster *cluster,
                                     int workers, json_t **line);

/* What lac_plan_print_json has printed; links (workers) or NULL. */
void lac_plan_read_json(const json_t *line, lac_plan *plan, lac_link *links);

/* Whether a real run of so many workers, of which one needs `bytes` of memory, is for this machine: it has a core for
 * each and twice the memory, and the run is predicted to take no longer than the options allow. */
bool lac_plan_fits_here(const lac_plan_cluster_options *options, int workers, double bytes, double seconds);

/* That a command which plans runs as one process or, simulated, as the ranks of one rehearsal. Errors: USAGE. */
LAC_MUST_USE lac_status lac_plan_check_ranks(lac_session *session, const char *command, bool one_rehearsal,
                                             int workers);

#endif
