#include "cli/hash_train_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/data_options.h"

enum { PATH_LIMIT = 4096, FILE_LIMIT = 1 << 20 };

static const char rank_mark[] = "%r";

bool lac_base_has_rank(const char *path) {
  return strstr(path, rank_mark) != NULL;
}

/* Every %r becomes the number. */
static void path_of(const char *pattern, int64_t number, char path[PATH_LIMIT]) {
  size_t used = 0;
  path[0] = 0;
  while (*pattern && used < PATH_LIMIT - 1) {
    const char *mark = strstr(pattern, rank_mark);
    int length = mark ? (int)(mark - pattern) : (int)strlen(pattern);
    used += (size_t)snprintf(path + used, PATH_LIMIT - used, "%.*s", length, pattern);
    if (mark && used < PATH_LIMIT) {
      used += (size_t)snprintf(path + used, PATH_LIMIT - used, "%" PRId64, number);
      length += 2;
    }
    pattern += length;
  }
}

/* FILE.h5:NAME means FILE.h5. */
static bool file_exists(char *path) {
  if (access(path, F_OK) == 0) {
    return true;
  }
  char *colon = strrchr(path, ':');
  if (!colon) {
    return false;
  }
  *colon = 0;
  return access(path, F_OK) == 0;
}

int64_t lac_base_count_files(const char *path) {
  int64_t count = 0;
  char file[PATH_LIMIT];
  for (; count < FILE_LIMIT; count++) {
    path_of(path, count, file);
    if (!file_exists(file)) {
      break;
    }
  }
  return count;
}

lac_status lac_base_check_apart(lac_session *session, const char *path, const char *output, const char *plot) {
  int64_t count = lac_base_has_rank(path) ? lac_base_count_files(path) : 1;
  lac_status status = LAC_OK;
  for (int64_t i = 0; i < count && !status; i++) {
    char file[PATH_LIMIT];
    path_of(path, i, file);
    const lac_file_use files[] = {{"-o", output, true}, {"--plot", plot, true}, {"BASE", file, false}};
    status = lac_check_apart(session, files, 3);
  }
  return status;
}

lac_status lac_train_base_set_shares(lac_session *session, lac_train_base *base, const char *shares, int workers) {
  if (!shares) {
    return LAC_OK;
  }
  if (lac_base_has_rank(base->path)) {
    return lac_fail(session->context, LAC_E_USAGE,
                    "--shares: found '%s', expected none: the files of %s are the shares", shares, base->path);
  }
  if (strcmp(shares, "measured") == 0) {
    base->measured = true;
    return LAC_OK;
  }
  void *speeds;
  CLI_TRY(lac_session_allocate(session, workers, sizeof(double), &speeds));
  base->speeds = speeds;
  return lac_parse_reals(session, "shares", shares, workers, base->speeds);
}

void lac_train_base_close(lac_train_base *base) {
  lac_dataset_destroy(&base->whole);
  free(base->speeds);
  *base = (lac_train_base){0};
}

lac_status lac_team_agree(const lac_team *team, lac_status mine) {
  return team->world ? lac_world_agree(team->world, mine) : mine;
}

/* ---- measured speeds -------------------------------------------------------------------------------------------- */

enum { SAMPLE_POINTS = 4096, SAMPLE_RUNS = 5 };

/* Seconds of one short training on a few points: the loops that the real one spends its time in. */
static lac_status time_training(lac_context *context, const lac_dataset *sample, const lac_hash_options *options,
                                double *seconds) {
  lac_hash_options brief = *options;
  brief.mac.iterations = 2;
  brief.validation = 0;
  lac_team alone = {.total = 1, .count = 1};
  lac_hash *model;
  lac_hash_result result;
  double begin = lac_clock_seconds();
  lac_status status = lac_hash_train(context, &alone, &sample, &brief, NULL, NULL, &model, &result);
  *seconds = lac_clock_seconds() - begin;
  lac_hash_destroy(&model);
  return status;
}

/* Points per second of the best of a few runs; 0 when such a sample cannot be trained on (all points equal, say). */
static lac_status measure_speed(lac_context *context, const lac_dataset *share, const lac_hash_options *options,
                                double *speed) {
  lac_dataset *sample;
  int64_t points = lac_dataset_rows(share) < SAMPLE_POINTS ? lac_dataset_rows(share) : SAMPLE_POINTS;
  lac_status status = lac_dataset_slice(context, share, 0, points, &sample);
  *speed = 0;
  for (int run = 0; run <= SAMPLE_RUNS && !status; run++) {
    double seconds;
    status = time_training(context, sample, options, &seconds);
    if (!status && run > 0 && (double)points / seconds > *speed) { /* the first one warms up */
      *speed = (double)points / seconds;
    }
  }
  lac_dataset_destroy(&sample);
  if (status == LAC_E_INPUT || status == LAC_E_NUMERICAL) {
    *speed = 0;
    return LAC_OK;
  }
  return status;
}

static lac_status measure_speeds(lac_context *context, const lac_team *team, const lac_train_base *base,
                                 const lac_hash_options *options, double *speeds) {
  int64_t first = 0;
  int64_t *counts = calloc((size_t)team->total, sizeof *counts);
  double *mine = calloc((size_t)team->total, sizeof *mine);
  lac_dataset *share = NULL;
  lac_status status = counts && mine ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate the shares");
  if (!status) {
    status = lac_hash_shares(context, lac_dataset_rows(base->whole), team->total, NULL, counts);
  }
  for (int i = 0; i < team->first && !status; i++) {
    first += counts[i];
  }
  if (!status) {
    status = lac_dataset_slice(context, base->whole, first, counts[team->first], &share);
  }
  if (!status) {
    status = measure_speed(context, share, options, &mine[team->first]);
  }
  status = lac_team_agree(team, status);
  if (!status) {
    status = lac_team_sum_f64(context, team, mine, team->total, speeds);
  }
  lac_dataset_destroy(&share);
  free(mine);
  free(counts);
  return status;
}

/* Three digits are more than such a measurement is worth. */
static bool round_speeds(double *speeds, int workers) {
  double most = 0;
  for (int i = 0; i < workers; i++) {
    most = speeds[i] > most ? speeds[i] : most;
  }
  bool measured = most > 0;
  for (int i = 0; i < workers; i++) {
    measured = measured && speeds[i] > 0;
    speeds[i] = measured ? (double)(int64_t)(1000 * speeds[i] / most + 0.5) : 1;
  }
  return measured;
}

/* points (P) from measured speeds. */
static lac_status measured_shares(lac_context *context, const lac_team *team, const lac_train_base *base,
                                  const lac_hash_options *options, int64_t *points) {
  double *speeds = calloc((size_t)team->total, sizeof *speeds);
  if (!speeds) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate the speeds");
  }
  lac_status status = measure_speeds(context, team, base, options, speeds);
  if (!status) {
    bool measured = round_speeds(speeds, team->total);
    if (!measured && team->first == 0) {
      lac_context_log(context, LAC_LOG_WARNING,
                      "--shares measured: a sample could not be trained on, the shares are equal");
    }
    status = lac_hash_shares(context, lac_dataset_rows(base->whole), team->total, measured ? speeds : NULL, points);
  }
  free(speeds);
  return status;
}

/* ---- shards ----------------------------------------------------------------------------------------------------- */

static lac_status resolve_points(lac_context *context, const lac_team *team, const lac_train_base *base,
                                 const lac_hash_options *options, int64_t *points) {
  if (base->measured && team->world && team->total > 1) {
    return measured_shares(context, team, base, options, points);
  }
  return lac_hash_shares(context, lac_dataset_rows(base->whole), team->total, base->speeds, points);
}

static lac_status slice_shards(lac_context *context, const lac_team *team, const lac_train_base *base,
                               lac_train_shards *shards) {
  int64_t first = 0;
  for (int i = 0; i < team->first + team->count; i++) {
    if (i >= team->first) {
      CLI_TRY(lac_dataset_slice(context, base->whole, first, shards->points[i], &shards->shards[i - team->first]));
    }
    first += shards->points[i];
  }
  return LAC_OK;
}

static lac_status open_own_file(lac_context *context, const lac_train_base *base, int number, lac_dataset **shard) {
  char path[PATH_LIMIT];
  path_of(base->path, number, path);
  lac_dataset *whole;
  CLI_TRY(lac_dataset_open(context, path, base->format, &whole));
  if (base->rows == 0 || base->rows >= lac_dataset_rows(whole)) {
    *shard = whole;
    return LAC_OK;
  }
  lac_status status = lac_dataset_slice(context, whole, 0, base->rows, shard);
  lac_dataset_destroy(&whole);
  return status;
}

/* The files of %r; every worker learns the rows of all. */
static lac_status open_own_files(lac_context *context, const lac_team *team, const lac_train_base *base,
                                 lac_train_shards *shards) {
  lac_status status = LAC_OK;
  int64_t *mine = calloc((size_t)team->count * (size_t)team->total, sizeof *mine); /* (count, P) */
  if (!mine) {
    status = lac_fail(context, LAC_E_MEMORY, "cannot allocate the sizes of the shards");
  }
  for (int i = 0; i < team->count && !status; i++) {
    status = open_own_file(context, base, team->first + i, &shards->shards[i]);
    if (!status) {
      mine[(int64_t)i * team->total + team->first + i] = lac_dataset_rows(shards->shards[i]);
    }
  }
  status = lac_team_agree(team, status);
  if (!status) {
    status = lac_team_sum_i64(context, team, mine, team->total, shards->points);
  }
  free(mine);
  return status;
}

lac_status lac_train_shards_open(lac_context *context, const lac_team *team, const lac_train_base *base,
                                 const lac_hash_options *options, lac_train_shards *shards) {
  *shards = (lac_train_shards){.count = team->count};
  shards->shards = calloc((size_t)team->count, sizeof *shards->shards);
  shards->points = calloc((size_t)team->total, sizeof *shards->points);
  bool allocated = shards->shards && shards->points;
  lac_status status = allocated ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate the shards");
  status = lac_team_agree(team, status);
  if (status || !allocated) {
    lac_train_shards_close(shards);
    return status;
  }
  if (!base->whole) {
    status = open_own_files(context, team, base, shards);
  } else {
    status = resolve_points(context, team, base, options, shards->points);
    if (!status) {
      status = slice_shards(context, team, base, shards);
    }
    status = lac_team_agree(team, status);
  }
  if (status) {
    lac_train_shards_close(shards);
  }
  return status;
}

lac_status lac_train_shards_fingerprint(lac_context *context, const lac_team *team, const lac_train_shards *shards,
                                        int64_t *prints) {
  lac_status status = LAC_OK;
  int64_t *mine = calloc((size_t)team->count * (size_t)team->total, sizeof *mine); /* (count, P) */
  if (!mine) {
    status = lac_fail(context, LAC_E_MEMORY, "cannot allocate the fingerprints");
  }
  for (int i = 0; i < team->count && !status; i++) {
    uint64_t print;
    status = lac_dataset_fingerprint(context, shards->shards[i], &print);
    if (!status) {
      memcpy(&mine[(int64_t)i * team->total + team->first + i], &print, sizeof print);
    }
  }
  status = lac_team_agree(team, status);
  if (!status) {
    status = lac_team_sum_i64(context, team, mine, team->total, prints); /* one summand each that is not zero */
  }
  free(mine);
  return status;
}

void lac_train_shards_close(lac_train_shards *shards) {
  for (int i = 0; i < shards->count && shards->shards; i++) {
    lac_dataset_destroy(&shards->shards[i]);
  }
  free(shards->shards);
  free(shards->points);
  *shards = (lac_train_shards){0};
}
