/* The options of `laconic train`, from which its parts take what they need. The command is in train.c, its table of
 * options in train_options.c; a part is a file: the pictures (train_set), the folder of a run (train_folder),
 * checkpoints (train_checkpoint), a worker and its loop (train_worker), what is measured at the end of an epoch
 * (train_measure). */
#ifndef LACONIC_CLI_TRAIN_H
#define LACONIC_CLI_TRAIN_H

#include "cli/command.h"

typedef enum lac_train_prepare { LAC_TRAIN_PREPARE_AUTO = 0 } lac_train_prepare; /* else 1 + lac_prepare_kind */
typedef enum lac_train_keep { LAC_KEEP_BEST, LAC_KEEP_LAST } lac_train_keep;

typedef struct lac_train_options {
  lac_common_options common;
  lac_replica_options replica;
  lac_net_options net;
  char *model, *data, *test, *output, *run, *resume, *time_limit, *zca_cache, *simulate, *compute;
  double width, split, zca_epsilon, jitter;
  int64_t workers, batch, held_out, crop, seed, timeout, statistics, checkpoint_every;
  int prepare; /* lac_train_prepare */
  int keep;    /* lac_train_keep */
  bool flip, replacement, ahead, overwrite, dry_run;
} lac_train_options;

extern const lac_command lac_command_train;

/* The command's own options. */
extern const lac_option lac_train_option_table[];

#endif
