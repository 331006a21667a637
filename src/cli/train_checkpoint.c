#include "cli/train_checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"

static const char file_kind[] = "checkpoint", file_version[] = "1";

enum { STATE_TAG = 1, NAME_BYTES = 48, PAIRS = 9 };

/* ---- from the replicas to worker 0 ---- */

static lac_status pack_state(lac_context *context, lac_replica *replica, int64_t parameters, int workers,
                             lac_checkpoint *checkpoint) {
  lac_replica_state state;
  CLI_TRY(lac_replica_state_of(context, replica, &state));
  *checkpoint = (lac_checkpoint){
      .parameters = parameters, .step = state.step, .gradients = state.gradients, .pending = state.pending};
  int kept[LAC_REPLICA_VECTORS] = {0};
  for (int v = 0; v < state.count; v++) { /* a mean that has been used is not part of the state */
    if (state.pending || strcmp(state.names[v], "pending") != 0) {
      kept[checkpoint->count] = v;
      checkpoint->names[checkpoint->count++] = state.names[v];
    }
  }
  checkpoint->replicas = workers;
  checkpoint->values = calloc((size_t)(workers * checkpoint->count) * (size_t)parameters, sizeof(float));
  if (!checkpoint->values) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate the %d vectors of %" PRId64 " numbers of a checkpoint",
                    workers * checkpoint->count, parameters);
  }
  for (int v = 0; v < checkpoint->count; v++) {
    memcpy(checkpoint->values + v * parameters, state.vectors[kept[v]], (size_t)parameters * sizeof(float));
  }
  return LAC_OK;
}

lac_status lac_checkpoint_gather(lac_context *context, lac_world *world, lac_replica *replica, int64_t parameters,
                                 lac_checkpoint *checkpoint) {
  int rank = lac_world_rank(world), workers = lac_world_size(world);
  CLI_TRY(pack_state(context, replica, parameters, rank == 0 ? workers : 1, checkpoint));
  size_t bytes = (size_t)checkpoint->count * (size_t)parameters * sizeof(float);
  if (rank > 0) {
    lac_status status = lac_world_send(world, 0, STATE_TAG, checkpoint->values, bytes, LAC_TRAFFIC_CONTROL);
    lac_checkpoint_clear(checkpoint);
    return status;
  }
  for (int from = 1; from < workers; from++) {
    lac_message message;
    lac_status status = lac_world_receive(world, from, STATE_TAG, &message);
    if (!status && message.bytes != bytes) {
      status =
          lac_fail(context, LAC_E_PEER, "worker %d sent %zu bytes of state, expected %zu", from, message.bytes, bytes);
      free(message.data);
    }
    if (status) {
      lac_checkpoint_clear(checkpoint);
      return status;
    }
    memcpy((char *)checkpoint->values + (size_t)from * bytes, message.data, bytes);
    free(message.data);
  }
  return LAC_OK;
}

void lac_checkpoint_clear(lac_checkpoint *checkpoint) {
  free(checkpoint->values);
  *checkpoint = (lac_checkpoint){0};
}

/* ---- to a file ---- */

lac_status lac_checkpoint_write(lac_context *context, const char *path, const lac_checkpoint *checkpoint,
                                const char *layers, const char *totals) {
  int count = checkpoint->replicas * checkpoint->count;
  char numbers[5][32], (*names)[NAME_BYTES] = calloc((size_t)count, sizeof *names);
  lac_tensor *tensors = calloc((size_t)count, sizeof *tensors);
  lac_status status = LAC_OK;
  if (!names || !tensors) {
    status = lac_fail(context, LAC_E_MEMORY, "cannot allocate the header of a checkpoint");
  }
  for (int i = 0; !status && i < count; i++) {
    snprintf(names[i], sizeof names[i], "%d.%s", i / checkpoint->count, checkpoint->names[i % checkpoint->count]);
    tensors[i] = (lac_tensor){.name = names[i],
                              .type = LAC_TENSOR_F32,
                              .axes = 1,
                              .shape = {checkpoint->parameters},
                              .data = checkpoint->values + i * checkpoint->parameters};
  }
  snprintf(numbers[0], sizeof numbers[0], "%d", checkpoint->replicas);
  snprintf(numbers[1], sizeof numbers[1], "%" PRId64, checkpoint->parameters);
  snprintf(numbers[2], sizeof numbers[2], "%" PRId64, checkpoint->step);
  snprintf(numbers[3], sizeof numbers[3], "%" PRId64, checkpoint->gradients);
  snprintf(numbers[4], sizeof numbers[4], "%d", checkpoint->pending);
  const lac_text_pair pairs[PAIRS] = {
      {"laconic.kind", file_kind},        {"laconic.version", file_version}, {"laconic.replicas", numbers[0]},
      {"laconic.parameters", numbers[1]}, {"laconic.step", numbers[2]},      {"laconic.gradients", numbers[3]},
      {"laconic.pending", numbers[4]},    {"laconic.layers", layers},        {"laconic.totals", totals}};
  if (!status) {
    status = lac_tensors_write(context, path, tensors, count, pairs, PAIRS);
  }
  free(tensors);
  free(names);
  return status;
}

struct lac_checkpoint_writer {
  lac_context *context; /* the thread's own */
  char *path, *layers, *totals;
  lac_checkpoint checkpoint;
  pthread_t thread;
  bool running;
  lac_status status;
};

static void *write_body(void *argument) {
  lac_checkpoint_writer *writer = argument;
  writer->status =
      lac_checkpoint_write(writer->context, writer->path, &writer->checkpoint, writer->layers, writer->totals);
  return NULL;
}

lac_status lac_checkpoint_writer_create(lac_context *context, const char *path, const char *layers,
                                        lac_checkpoint_writer **writer) {
  lac_checkpoint_writer *made = calloc(1, sizeof *made);
  *writer = NULL;
  lac_status status = LAC_OK;
  if (made) {
    made->path = strdup(path);
    made->layers = strdup(layers);
  }
  if (!made || !made->path || !made->layers) {
    status = lac_fail(context, LAC_E_MEMORY, "cannot allocate a writer of checkpoints");
  }
  if (!status) {
    status = lac_context_child(context, &made->context);
  }
  if (status) {
    lac_checkpoint_writer_destroy(&made);
    return status;
  }
  *writer = made;
  return LAC_OK;
}

lac_status lac_checkpoint_writer_wait(lac_context *context, lac_checkpoint_writer *writer) {
  if (!writer->running) {
    return LAC_OK;
  }
  pthread_join(writer->thread, NULL);
  writer->running = false;
  lac_checkpoint_clear(&writer->checkpoint);
  free(writer->totals);
  writer->totals = NULL;
  return writer->status ? lac_fail(context, writer->status, "%s", lac_context_message(writer->context)) : LAC_OK;
}

lac_status lac_checkpoint_writer_put(lac_context *context, lac_checkpoint_writer *writer, lac_checkpoint *checkpoint,
                                     const char *totals) {
  lac_status status = lac_checkpoint_writer_wait(context, writer);
  if (!status) {
    writer->totals = strdup(totals);
    status = writer->totals ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate a checkpoint's totals");
  }
  if (status) {
    lac_checkpoint_clear(checkpoint);
    return status;
  }
  writer->checkpoint = *checkpoint;
  *checkpoint = (lac_checkpoint){0};
  if (pthread_create(&writer->thread, NULL, write_body, writer) == 0) {
    writer->running = true;
    return LAC_OK;
  }
  write_body(writer); /* without a thread it is only slower */
  lac_checkpoint_clear(&writer->checkpoint);
  free(writer->totals);
  writer->totals = NULL;
  return writer->status ? lac_fail(context, writer->status, "%s", lac_context_message(writer->context)) : LAC_OK;
}

void lac_checkpoint_writer_destroy(lac_checkpoint_writer **writer) {
  lac_checkpoint_writer *old = *writer;
  if (!old) {
    return;
  }
  if (old->running) {
    pthread_join(old->thread, NULL);
  }
  lac_checkpoint_clear(&old->checkpoint);
  lac_context_destroy(&old->context);
  free(old->totals);
  free(old->layers);
  free(old->path);
  free(old);
  *writer = NULL;
}

/* ---- and back ---- */

static lac_status read_number(lac_context *context, const lac_checkpoint_file *file, const char *key, int64_t low,
                              int64_t high, int64_t *value) {
  const char *text = lac_tensors_meta(file->tensors, key);
  char *end = NULL;
  long long found = text ? strtoll(text, &end, 10) : 0;
  if (!text || end == text || *end || found < low || found > high) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: metadata %s: found '%.40s', expected a number from %" PRId64 " to %" PRId64, file->path, key,
                    text ? text : "nothing", low, high);
  }
  *value = found;
  return LAC_OK;
}

static lac_status read_metadata(lac_context *context, const char *layers, int64_t parameters,
                                lac_checkpoint_file *file) {
  static const int64_t most = INT64_C(1) << 53;
  const char *kind = lac_tensors_meta(file->tensors, "laconic.kind");
  const char *version = lac_tensors_meta(file->tensors, "laconic.version");
  const char *described = lac_tensors_meta(file->tensors, "laconic.layers");
  const char *totals = lac_tensors_meta(file->tensors, "laconic.totals");
  int64_t replicas = 0, pending = 0;
  if (!kind || strcmp(kind, file_kind) != 0 || !version || strcmp(version, file_version) != 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: found kind '%.40s' version '%.10s', expected %s version %s", file->path,
                    kind ? kind : "none", version ? version : "none", file_kind, file_version);
  }
  CLI_TRY(read_number(context, file, "laconic.replicas", 1, 1000000, &replicas));
  CLI_TRY(read_number(context, file, "laconic.parameters", 1, most, &file->parameters));
  CLI_TRY(read_number(context, file, "laconic.step", 0, most, &file->step));
  CLI_TRY(read_number(context, file, "laconic.gradients", 0, most, &file->gradients));
  CLI_TRY(read_number(context, file, "laconic.pending", 0, 1, &pending));
  file->replicas = (int)replicas;
  file->pending = pending;
  if (!described || strcmp(described, layers) != 0 || file->parameters != parameters) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found a checkpoint of another network, of %" PRId64
                    " parameters, expected the run's, of %" PRId64,
                    file->path, file->parameters, parameters);
  }
  file->totals = totals ? json_loads(totals, 0, NULL) : NULL;
  if (!json_is_object(file->totals)) {
    return lac_fail(context, LAC_E_INPUT, "%s: metadata laconic.totals: found no JSON object, expected one",
                    file->path);
  }
  return LAC_OK;
}

lac_status lac_checkpoint_open(lac_context *context, const char *path, const char *layers, int64_t parameters,
                               lac_checkpoint_file *file) {
  *file = (lac_checkpoint_file){.path = path};
  lac_status status = lac_tensors_open(context, path, &file->tensors);
  if (!status) {
    status = read_metadata(context, layers, parameters, file);
  }
  if (status) {
    lac_checkpoint_close(file);
  }
  return status;
}

void lac_checkpoint_close(lac_checkpoint_file *file) {
  lac_tensors_close(&file->tensors);
  json_decref(file->totals);
  *file = (lac_checkpoint_file){0};
}

static lac_status read_vector(lac_context *context, const lac_checkpoint_file *file, int replica, const char *name,
                              float *vector) {
  char full[NAME_BYTES];
  snprintf(full, sizeof full, "%d.%s", replica, name);
  const lac_tensor *tensor = lac_tensors_find(file->tensors, full);
  if (!tensor || tensor->type != LAC_TENSOR_F32 || lac_tensor_elements(tensor) != file->parameters) {
    return lac_fail(context, LAC_E_INPUT,
                    "%s: found no tensor %s of %" PRId64 " numbers, expected one; the options of the run are others",
                    file->path, full, file->parameters);
  }
  CLI_TRY(lac_tensors_read(context, file->tensors, tensor, vector));
  for (int64_t i = 0; i < file->parameters; i++) {
    if (!isfinite(vector[i])) {
      return lac_fail(context, LAC_E_INPUT, "%s: tensor %s: number %" PRId64 " is not finite", file->path, full, i);
    }
  }
  return LAC_OK;
}

static lac_status read_mean(lac_context *context, const lac_checkpoint_file *file, const char *name, float *mean) {
  float *one = calloc((size_t)file->parameters, sizeof *one);
  if (!one) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate a vector of a checkpoint");
  }
  lac_status status = LAC_OK;
  memset(mean, 0, (size_t)file->parameters * sizeof *mean);
  for (int replica = 0; !status && replica < file->replicas; replica++) {
    status = read_vector(context, file, replica, name, one);
    for (int64_t i = 0; !status && i < file->parameters; i++) {
      mean[i] += one[i] / (float)file->replicas;
    }
  }
  free(one);
  return status;
}

lac_status lac_checkpoint_restore(lac_context *context, const lac_checkpoint_file *file, int rank, int workers,
                                  lac_replica *replica) {
  lac_replica_state state;
  CLI_TRY(lac_replica_state_of(context, replica, &state));
  for (int v = 0; v < state.count; v++) {
    if (!file->pending && strcmp(state.names[v], "pending") == 0) {
      continue;
    }
    CLI_TRY(workers == file->replicas ? read_vector(context, file, rank, state.names[v], state.vectors[v])
                                      : read_mean(context, file, state.names[v], state.vectors[v]));
  }
  state.step = file->step;
  state.gradients = file->gradients;
  state.pending = file->pending;
  lac_replica_restore(replica, &state);
  return LAC_OK;
}
