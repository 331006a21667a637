/* From BASE on the command line to the shards of the workers. */
#ifndef LACONIC_CLI_HASH_TRAIN_DATA_H
#define LACONIC_CLI_HASH_TRAIN_DATA_H

#include "cli/session.h"

/* BASE as this process sees it. Texts are borrowed. */
typedef struct lac_train_base {
  const char *path;   /* %r in it stands for the worker's number */
  const char *format; /* NULL: recognised */
  int64_t rows;       /* limit on the rows of a file, 0: all */
  lac_dataset *whole; /* a plain file, opened once for all workers here; NULL with %r */
  double *speeds;     /* (P) given with --shares; NULL: equal, or measured */
  bool measured;
} lac_train_base;

/* Whether every worker has a file of its own. */
bool lac_base_has_rank(const char *path);

/* How many files of a path with %r there are, numbered from 0 without a gap. */
int64_t lac_base_count_files(const char *path);

/* That -o and --plot are neither one file nor files of the workers. Errors: USAGE. */
LAC_MUST_USE lac_status lac_base_check_apart(lac_session *session, const char *path, const char *output,
                                             const char *plot);

/* Reads --shares: NULL, "measured", or P speeds. Errors: USAGE. */
LAC_MUST_USE lac_status lac_train_base_set_shares(lac_session *session, lac_train_base *base, const char *shares,
                                                  int workers);
void lac_train_base_close(lac_train_base *base);

/* The shards of a team that are here: all in a serial run, one on a ring. */
typedef struct lac_train_shards {
  int count;
  lac_dataset **shards; /* (count) */
  int64_t *points;      /* (P) rows of every shard, here or not */
} lac_train_shards;

/* LAC_OK on every worker when it is on all of them. Collective. */
LAC_MUST_USE lac_status lac_team_agree(const lac_team *team, lac_status mine);

/* Opens the shards here and learns the sizes of all. With measured shares each worker first times a short training on
 * an equal share. Collective. Errors: USAGE, INPUT. */
LAC_MUST_USE lac_status lac_train_shards_open(lac_context *context, const lac_team *team, const lac_train_base *base,
                                              const lac_hash_options *options, lac_train_shards *shards);

/* prints (P): the fingerprint of every shard; a pass over the data. Collective. */
LAC_MUST_USE lac_status lac_train_shards_fingerprint(lac_context *context, const lac_team *team,
                                                     const lac_train_shards *shards, int64_t *prints);
void lac_train_shards_close(lac_train_shards *shards);

#endif
