#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "replica/checkpoint.h"
#include "store/safetensors.h"

enum { NAME_BYTES = 48, MOST_REPLICAS = 1000000 };

static const int64_t most_number = INT64_C(1) << 53;

static lac_status read_number(lac_context *context, const lac_tensors *tensors, const char *key, int64_t low,
                              int64_t high, int64_t *value) {
  const char *text = lac_tensors_meta(tensors, key);
  char *end = NULL;
  long long found = text ? strtoll(text, &end, 10) : 0;
  if (!text || end == text || *end || found < low || found > high) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: metadata %s: found '%.40s', expected a number from %" PRId64 " to %" PRId64,
                    lac_tensors_path(tensors), key, text ? text : "nothing", low, high);
  }
  *value = found;
  return LAC_OK;
}

static bool read_counter(const char **text, char stop, int64_t *value) {
  char *end;
  long long found = strtoll(*text, &end, 10);
  bool good = end != *text && *end == stop && found >= 0 && found <= most_number;
  *text = *end ? end + 1 : end;
  *value = found;
  return good;
}

/* Where replica `replica` stands, which has a place of its own. */
static lac_status read_place(lac_context *context, const lac_checkpoint_file *file, int replica,
                             lac_checkpoint_place *place) {
  const char *text = file->places;
  bool good = true;
  for (int r = 0; r <= replica && good; r++) {
    good = read_counter(&text, ' ', &place->step) &&
           read_counter(&text, r + 1 < file->replicas ? ',' : '\0', &place->gradients);
  }
  return good ? LAC_OK
              : lac_fail(context, LAC_E_INPUT,
                         "%s: metadata laconic.places: found '%.40s', expected steps and gradients of %d replicas",
                         lac_tensors_path(file->tensors), file->places, file->replicas);
}

/* The sums of replica `replica`. */
static lac_status read_sums(lac_context *context, const lac_checkpoint_file *file, int replica,
                            lac_checkpoint_place *place) {
  const char *text = file->sums;
  int r = 0;
  bool good = true;
  for (; r <= replica && good; r++) {
    good = read_counter(&text, ' ', &place->batches) && read_counter(&text, ' ', &place->errors) &&
           read_counter(&text, ' ', &place->points);
    char *end = NULL;
    uint64_t loss = good ? strtoull(text, &end, 16) : 0;
    memcpy(&place->loss, &loss, sizeof loss);
    good = good && end != text && *end == (r + 1 < file->replicas ? ',' : '\0') && isfinite(place->loss);
    text = good && *end ? end + 1 : text;
  }
  return good ? LAC_OK
              : lac_fail(context, LAC_E_INPUT,
                         "%s: metadata laconic.sums: found '%.40s', expected batches, errors, points and losses of %d "
                         "replicas; that of replica %d cannot be read",
                         lac_tensors_path(file->tensors), file->sums, file->replicas, r - 1);
}

static lac_status check_kind(lac_context *context, const lac_tensors *tensors) {
  const char *kind = lac_tensors_meta(tensors, "laconic.kind"), *version = lac_tensors_meta(tensors, "laconic.version");
  if (!kind || strcmp(kind, LAC_CHECKPOINT_KIND) != 0 || !version || strcmp(version, LAC_CHECKPOINT_VERSION) != 0) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found kind '%.40s' version '%.10s', expected " LAC_CHECKPOINT_KIND
                    " version " LAC_CHECKPOINT_VERSION,
                    lac_tensors_path(tensors), kind ? kind : "none", version ? version : "none");
  }
  return LAC_OK;
}

static lac_status read_metadata(lac_context *context, const char *model, int64_t parameters,
                                lac_checkpoint_file *file) {
  const lac_tensors *tensors = file->tensors;
  const char *stored = lac_tensors_meta(tensors, "laconic.layers");
  int64_t replicas = 0, pending = 0;
  LAC_TRY(check_kind(context, tensors));
  LAC_TRY(read_number(context, tensors, "laconic.replicas", 1, MOST_REPLICAS, &replicas));
  LAC_TRY(read_number(context, tensors, "laconic.parameters", 1, most_number, &file->parameters));
  LAC_TRY(read_number(context, tensors, "laconic.step", 0, most_number, &file->step));
  LAC_TRY(read_number(context, tensors, "laconic.gradients", 0, most_number, &file->gradients));
  LAC_TRY(read_number(context, tensors, "laconic.pending", 0, 1, &pending));
  file->replicas = (int)replicas;
  file->pending = pending;
  file->places = lac_tensors_meta(tensors, "laconic.places");
  if (file->places) {
    lac_checkpoint_place last;
    LAC_TRY(read_place(context, file, file->replicas - 1, &last));
  }
  file->sums = lac_tensors_meta(tensors, "laconic.sums");
  if (file->sums) {
    lac_checkpoint_place last;
    LAC_TRY(read_sums(context, file, file->replicas - 1, &last));
  }
  if (!stored || strcmp(stored, model) != 0 || file->parameters != parameters) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found a checkpoint of another network, of %" PRId64
                    " parameters, expected the run's, of %" PRId64,
                    lac_tensors_path(tensors), file->parameters, parameters);
  }
  if (!lac_tensors_meta(tensors, "laconic.totals")) {
    return lac_fail(context, LAC_E_INPUT, "%s: metadata laconic.totals: found nothing, expected a text",
                    lac_tensors_path(tensors));
  }
  return LAC_OK;
}

lac_status lac_checkpoint_from_tensors(lac_context *context, lac_tensors **tensors, const char *model,
                                       int64_t parameters, lac_checkpoint_file **file) {
  lac_checkpoint_file *made;
  *file = NULL;
  lac_status status = LAC_NEW(context, 1, &made);
  if (status) {
    lac_tensors_close(tensors);
    return status;
  }
  made->tensors = *tensors;
  *tensors = NULL;
  status = read_metadata(context, model, parameters, made);
  if (status) {
    lac_checkpoint_close(&made);
    return status;
  }
  *file = made;
  return LAC_OK;
}

lac_status lac_checkpoint_open(lac_context *context, const char *path, const char *model, int64_t parameters,
                               lac_checkpoint_file **file) {
  lac_tensors *tensors;
  *file = NULL;
  LAC_TRY(lac_tensors_open(context, path, &tensors));
  return lac_checkpoint_from_tensors(context, &tensors, model, parameters, file);
}

void lac_checkpoint_close(lac_checkpoint_file **file) {
  if (*file) {
    lac_tensors_close(&(*file)->tensors);
    lac_free(*file);
    *file = NULL;
  }
}

int lac_checkpoint_replicas(const lac_checkpoint_file *file) {
  return file->replicas;
}

const char *lac_checkpoint_totals(const lac_checkpoint_file *file) {
  return lac_tensors_meta(file->tensors, "laconic.totals");
}

static lac_status read_vector(lac_context *context, const lac_checkpoint_file *file, int replica, const char *name,
                              float *vector) {
  char full[NAME_BYTES];
  snprintf(full, sizeof full, "%d.%s", replica, name);
  return lac_tensors_read_f32(context, file->tensors, full, 1, &file->parameters, vector);
}

static lac_status read_mean(lac_context *context, const lac_checkpoint_file *file, const char *name, float *mean) {
  float *one;
  LAC_TRY(LAC_NEW(context, file->parameters, &one));
  lac_status status = LAC_OK;
  memset(mean, 0, (size_t)file->parameters * sizeof *mean);
  for (int replica = 0; !status && replica < file->replicas; replica++) {
    status = read_vector(context, file, replica, name, one);
    for (int64_t i = 0; !status && i < file->parameters; i++) {
      mean[i] += one[i] / (float)file->replicas;
    }
  }
  lac_free(one);
  return status;
}

lac_status lac_checkpoint_restore(lac_context *context, const lac_checkpoint_file *file, int rank, int workers,
                                  lac_replica *replica) {
  lac_replica_state state;
  LAC_TRY(lac_replica_state_of(context, replica, &state));
  if (state.parameters != file->parameters) {
    return lac_fail(context, LAC_E_USAGE, "%s: found %" PRId64 " parameters, expected the replica's %" PRId64,
                    lac_tensors_path(file->tensors), file->parameters, state.parameters);
  }
  for (int v = 0; v < state.count; v++) {
    if (!file->pending && strcmp(state.names[v], "pending") == 0) {
      continue;
    }
    LAC_TRY(workers == file->replicas ? read_vector(context, file, rank, state.names[v], state.vectors[v])
                                      : read_mean(context, file, state.names[v], state.vectors[v]));
  }
  lac_checkpoint_place place = {.step = file->step, .gradients = file->gradients};
  if (file->places && workers == file->replicas) {
    LAC_TRY(read_place(context, file, rank, &place));
  }
  if (file->sums && workers == file->replicas) {
    LAC_TRY(read_sums(context, file, rank, &place));
  }
  state.batches = place.batches;
  state.errors = place.errors;
  state.points = place.points;
  state.loss = place.loss;
  state.step = place.step;
  state.gradients = place.gradients;
  state.pending = file->pending;
  lac_replica_restore(replica, &state);
  return LAC_OK;
}
