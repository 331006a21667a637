/* A run of training as all its workers see it, and a worker's part in it. */
#ifndef LACONIC_CLI_TRAIN_WORKER_H
#define LACONIC_CLI_TRAIN_WORKER_H

#include "cli/train_folder.h"
#include "cli/train_set.h"

/* What a run adds up, over all workers and over what came before a checkpoint. */
typedef struct lac_train_totals {
  int64_t messages, bytes, control_bytes;
  double seconds; /* of training alone */
  double best;    /* least held-out error; NaN before the first */
  double best_epoch;
  double best_test; /* test error of that model */
} lac_train_totals;

typedef struct lac_train_run {
  lac_session *session;
  const lac_train_options *options;
  lac_replica_options replica; /* borrowed texts */
  int workers;
  double split, time_limit, begin;
  char *layers; /* the network's description */
  char source[64];
  char *folder_path, checkpoint_path[4096];
  lac_train_set set;
  lac_world_options world;
  lac_cluster cluster; /* with --simulate */
  double compute;      /* seconds of a gradient there */
  lac_status prepared; /* how this process's part before the workers ended; its message is the session's */
  int64_t lines;       /* of metrics that the checkpoint goes with */
  /* worker 0's */
  lac_train_folder folder;
  lac_checkpoint_file *checkpoint; /* to go on from; NULL in a new run */
  lac_checkpoint_writer *writer;
  lac_train_totals before; /* what the checkpoint said */
  lac_train_totals now;
  lac_mixing_time predicted; /* of the exchange, before anything is trained */
  double most_spread;        /* of the epochs so far; 0 before the first */
  bool stopped;
  bool saved; /* the output, by this process */
} lac_train_run;

/* How replica `rank` of it draws its batches. */
lac_batches_options lac_train_batches(const lac_train_run *run, int rank);

/* The name of its method. */
const char *lac_train_method(const lac_train_run *run);

/* The name of its exchange's topology; NULL when the protocol has none. */
const char *lac_train_topology(const lac_train_run *run);

/* What the exchange is going to be like, into run->predicted: rounds are NaN for one worker, where there are only
 * bounds, and where sampling would take too long. */
/* What a checkpoint is of: pictures, method, optimiser, batches a pass; NULL without memory. */
json_t *lac_train_what(const lac_train_run *run);

LAC_MUST_USE lac_status lac_train_predict(lac_context *context, lac_train_run *run);

/* The body of a worker; `argument` is a lac_train_run. Trains to the end, or until it is asked to stop, which worker 0
 * notes in run->stopped. INTERRUPTED, without a message, when a signal asked. Collective. */
LAC_MUST_USE lac_status lac_train_worker(lac_world *world, void *argument);

#endif
