#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/tags.h"
#include "replica/checkpoint.h"

enum { NAME_BYTES = 48, PAIRS = 10, PLACE_BYTES = 48, SUMS_BYTES = 96 };

/* ---- from the replicas to worker 0 ---- */

void lac_checkpoint_destroy(lac_checkpoint **checkpoint) {
  if (*checkpoint) {
    lac_free((*checkpoint)->values);
    lac_free((*checkpoint)->place);
    lac_free(*checkpoint);
    *checkpoint = NULL;
  }
}

/* What a mean gave and has been used is not part of the state. */
static bool is_kept(const lac_replica_state *state, int v) {
  return state->pending || strcmp(state->names[v], "pending") != 0;
}

/* This worker's own part, with room for those of `replicas`. */
static lac_status pack_state(lac_context *context, lac_replica *replica, int replicas, lac_checkpoint **packed) {
  lac_replica_state state;
  lac_checkpoint *made;
  *packed = NULL;
  LAC_TRY(lac_replica_state_of(context, replica, &state));
  LAC_TRY(LAC_NEW(context, 1, &made));
  *made = (lac_checkpoint){.replicas = replicas,
                           .parameters = state.parameters,
                           .step = state.step,
                           .gradients = state.gradients,
                           .pending = state.pending};
  lac_status status = LAC_NEW(context, (int64_t)replicas * state.count * made->parameters, &made->values);
  status = status ? status : LAC_NEW(context, replicas, &made->place);
  if (status) {
    lac_checkpoint_destroy(&made);
    return status;
  }
  made->place[0] = (lac_checkpoint_place){.step = state.step,
                                          .gradients = state.gradients,
                                          .batches = state.batches,
                                          .errors = state.errors,
                                          .points = state.points,
                                          .loss = state.loss};
  for (int v = 0; v < state.count; v++) {
    if (is_kept(&state, v)) {
      memcpy(made->values + made->count * made->parameters, state.vectors[v], (size_t)made->parameters * sizeof(float));
      made->names[made->count++] = state.names[v];
    }
  }
  *packed = made;
  return LAC_OK;
}

static size_t bytes_of_replica(const lac_checkpoint *checkpoint) {
  return (size_t)checkpoint->count * (size_t)checkpoint->parameters * sizeof(float);
}

/* One message: the vectors and the place. */
static lac_status send_state(lac_context *context, lac_world *world, const lac_checkpoint *checkpoint) {
  char *message;
  size_t bytes = bytes_of_replica(checkpoint), all = bytes + sizeof *checkpoint->place;
  LAC_TRY(LAC_NEW(context, (int64_t)all, &message));
  memcpy(message, checkpoint->values, bytes);
  memcpy(message + bytes, checkpoint->place, sizeof *checkpoint->place);
  lac_status status = lac_world_send_tagged(world, 0, LAC_TAG_STATE, message, all, LAC_TRAFFIC_CONTROL);
  lac_free(message);
  return status;
}

static lac_status receive_state(lac_context *context, lac_world *world, int from, lac_checkpoint *checkpoint) {
  lac_message message;
  size_t bytes = bytes_of_replica(checkpoint);
  LAC_TRY(lac_world_receive_tagged(world, from, LAC_TAG_STATE, from, &message));
  lac_status status = LAC_OK;
  if (message.bytes == bytes + sizeof *checkpoint->place) {
    memcpy((char *)checkpoint->values + (size_t)from * bytes, message.data, bytes);
    memcpy(&checkpoint->place[from], (const char *)message.data + bytes, sizeof *checkpoint->place);
  } else {
    status = lac_fail(context, LAC_E_PEER, "worker %d sent %zu bytes of state, expected %zu", from, message.bytes,
                      bytes + sizeof *checkpoint->place);
  }
  free(message.data);
  return status;
}

lac_status lac_checkpoint_gather(lac_context *context, lac_world *world, lac_replica *replica,
                                 lac_checkpoint **checkpoint) {
  int rank = world ? lac_world_rank(world) : 0, workers = world ? lac_world_size(world) : 1;
  LAC_TRY(pack_state(context, replica, rank == 0 ? workers : 1, checkpoint));
  lac_status status = LAC_OK;
  if (rank > 0) {
    status = send_state(context, world, *checkpoint);
  }
  for (int from = 1; rank == 0 && from < workers && !status; from++) {
    status = receive_state(context, world, from, *checkpoint);
  }
  if (status || rank > 0) {
    lac_checkpoint_destroy(checkpoint);
  }
  return status;
}

/* ---- to a file ---- */

/* Where the replicas stand; *text stays NULL when all stand at one place. */
static lac_status write_places(lac_context *context, const lac_checkpoint *checkpoint, char **text) {
  bool same = true;
  *text = NULL;
  for (int r = 0; r < checkpoint->replicas; r++) {
    same = same && checkpoint->place[r].step == checkpoint->step &&
           checkpoint->place[r].gradients == checkpoint->gradients;
  }
  if (same) {
    return LAC_OK;
  }
  LAC_TRY(LAC_NEW(context, (int64_t)checkpoint->replicas * PLACE_BYTES, text));
  char *at = *text;
  for (int r = 0; r < checkpoint->replicas; r++) {
    at += snprintf(at, PLACE_BYTES, "%s%" PRId64 " %" PRId64, r > 0 ? "," : "", checkpoint->place[r].step,
                   checkpoint->place[r].gradients);
  }
  return LAC_OK;
}

static lac_status write_sums(lac_context *context, const lac_checkpoint *checkpoint, char **text) {
  LAC_TRY(LAC_NEW(context, (int64_t)checkpoint->replicas * SUMS_BYTES, text));
  char *at = *text;
  for (int r = 0; r < checkpoint->replicas; r++) {
    const lac_checkpoint_place *place = &checkpoint->place[r];
    uint64_t loss; /* its bits read the same under every locale */
    memcpy(&loss, &place->loss, sizeof loss);
    at += snprintf(at, SUMS_BYTES, "%s%" PRId64 " %" PRId64 " %" PRId64 " %" PRIx64, r > 0 ? "," : "", place->batches,
                   place->errors, place->points, loss);
  }
  return LAC_OK;
}

lac_status lac_checkpoint_write(lac_context *context, const char *path, const lac_checkpoint *checkpoint,
                                const char *model, const char *totals) {
  int count = checkpoint->replicas * checkpoint->count;
  char numbers[5][32], (*names)[NAME_BYTES] = NULL, *places = NULL, *sums = NULL;
  lac_tensor *tensors = NULL;
  lac_status status = LAC_OK;
  LAC_TRY_GOTO(status, LAC_NEW(context, count, &names), done);
  LAC_TRY_GOTO(status, LAC_NEW(context, count, &tensors), done);
  LAC_TRY_GOTO(status, write_places(context, checkpoint, &places), done);
  LAC_TRY_GOTO(status, write_sums(context, checkpoint, &sums), done);
  for (int i = 0; i < count; i++) {
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
  const lac_text_pair pairs[PAIRS + 1] = {{"laconic.kind", LAC_CHECKPOINT_KIND},
                                          {"laconic.version", LAC_CHECKPOINT_VERSION},
                                          {"laconic.replicas", numbers[0]},
                                          {"laconic.parameters", numbers[1]},
                                          {"laconic.step", numbers[2]},
                                          {"laconic.gradients", numbers[3]},
                                          {"laconic.pending", numbers[4]},
                                          {"laconic.layers", model},
                                          {"laconic.totals", totals},
                                          {"laconic.sums", sums},
                                          {"laconic.places", places}};
  status = lac_tensors_write(context, path, tensors, count, pairs, places ? PAIRS + 1 : PAIRS);
done:
  lac_free(places);
  lac_free(sums);
  lac_free(tensors);
  lac_free(names);
  return status;
}

struct lac_checkpoint_writer {
  lac_context *context; /* the thread's own */
  char *path, *model, *totals;
  lac_checkpoint *checkpoint; /* on its way; NULL when there is none */
  pthread_t thread;
  bool threaded;
  lac_status status;
};

static void *write_body(void *argument) {
  lac_checkpoint_writer *writer = argument;
  writer->status =
      lac_checkpoint_write(writer->context, writer->path, writer->checkpoint, writer->model, writer->totals);
  return NULL;
}

lac_status lac_checkpoint_writer_create(lac_context *context, const char *path, const char *model,
                                        lac_checkpoint_writer **writer) {
  lac_checkpoint_writer *made = NULL;
  lac_status status;
  *writer = NULL;
  LAC_TRY_GOTO(status, LAC_NEW(context, 1, &made), failed);
  LAC_TRY_GOTO(status, lac_copy_text(context, path, &made->path), failed);
  LAC_TRY_GOTO(status, lac_copy_text(context, model, &made->model), failed);
  LAC_TRY_GOTO(status, lac_context_child(context, &made->context), failed);
  *writer = made;
  return LAC_OK;
failed:
  lac_checkpoint_writer_destroy(&made);
  return status;
}

/* The writer is free for the next one. */
static lac_status collect(lac_checkpoint_writer *writer) {
  if (!writer->checkpoint) {
    return LAC_OK;
  }
  if (writer->threaded) {
    pthread_join(writer->thread, NULL);
  }
  lac_checkpoint_destroy(&writer->checkpoint);
  free(writer->totals);
  writer->totals = NULL;
  return writer->status;
}

lac_status lac_checkpoint_writer_wait(lac_context *context, lac_checkpoint_writer *writer) {
  lac_status status = collect(writer);
  return status ? lac_fail(context, status, "%s", lac_context_message(writer->context)) : LAC_OK;
}

lac_status lac_checkpoint_writer_put(lac_context *context, lac_checkpoint_writer *writer, lac_checkpoint **checkpoint,
                                     const char *totals) {
  lac_status status = lac_checkpoint_writer_wait(context, writer);
  if (!status) {
    status = lac_copy_text(context, totals, &writer->totals);
  }
  if (status) {
    lac_checkpoint_destroy(checkpoint);
    return status;
  }
  writer->checkpoint = *checkpoint;
  *checkpoint = NULL;
  writer->threaded = pthread_create(&writer->thread, NULL, write_body, writer) == 0;
  if (!writer->threaded) {
    write_body(writer); /* without a thread it only takes longer */
  }
  return LAC_OK;
}

void lac_checkpoint_writer_destroy(lac_checkpoint_writer **writer) {
  lac_checkpoint_writer *old = *writer;
  if (!old) {
    return;
  }
  if (collect(old)) {
    old->status = LAC_OK; /* who wants to know asks by lac_checkpoint_writer_wait */
  }
  lac_context_destroy(&old->context);
  free(old->model);
  free(old->path);
  lac_free(old);
  *writer = NULL;
}
