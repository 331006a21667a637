/* Round trips between workers 0 and 1, for messages from 64 bytes to 4 MB. Half the median of each size is what a
 * message takes, and a line through them, by least squares of relative errors, has what it takes whatever its size and
 * what a byte adds. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/calibration.h"
#include "plan/fit.h"

enum {
  SIZES = 9,
  SMALLEST = 64,
  LARGEST = SMALLEST << 2 * (SIZES - 1),
  TRIPS = 200,
  FEW_TRIPS = 20,
  LARGE = 1 << 18,
  TAG = 0
};

/* Sends `bytes` bytes to `other` and frees what comes back, or the other way round. */
static lac_status send_then_receive(lac_world *world, int other, const char *data, size_t bytes) {
  lac_message message;
  LAC_TRY(lac_world_send(world, other, TAG, data, bytes, LAC_TRAFFIC_CONTROL));
  LAC_TRY(lac_world_receive(world, other, TAG, &message));
  free(message.data);
  return LAC_OK;
}

static lac_status receive_then_send(lac_world *world, int other) {
  lac_message message;
  LAC_TRY(lac_world_receive(world, other, TAG, &message));
  lac_status status = lac_world_send(world, other, TAG, message.data, message.bytes, LAC_TRAFFIC_CONTROL);
  free(message.data);
  return status;
}

static int64_t trips_of(size_t bytes) {
  return bytes < LARGE ? TRIPS : FEW_TRIPS;
}

/* The first trip of a size, which may open a connection or find memory, does not count. */
static lac_status time_size(lac_world *world, const char *data, size_t bytes, double *half) {
  double times[TRIPS];
  int64_t count = trips_of(bytes);
  for (int64_t i = -1; i < count; i++) {
    double start = lac_world_now(world);
    LAC_TRY(send_then_receive(world, 1, data, bytes));
    if (i >= 0) {
      times[i] = (lac_world_now(world) - start) / 2;
    }
  }
  *half = lac_fit_median(times, count);
  return LAC_OK;
}

static size_t size_of(int number) {
  return (size_t)SMALLEST << 2 * number;
}

static lac_status measure(lac_world *world, const char *data, lac_link_entry *entry) {
  double bytes[SIZES], seconds[SIZES], message, byte;
  for (int i = 0; i < SIZES; i++) {
    bytes[i] = (double)size_of(i);
    LAC_TRY(time_size(world, data, size_of(i), &seconds[i]));
  }
  lac_fit_line(bytes, seconds, SIZES, &message, &byte);
  lac_calibration_text(entry->backend, lac_world_backend(world));
  entry->message = lac_measured(message);
  entry->byte = lac_measured(byte);
  return LAC_OK;
}

static lac_status answer(lac_world *world) {
  for (int size = 0; size < SIZES; size++) {
    for (int64_t i = -1; i < trips_of(size_of(size)); i++) {
      LAC_TRY(receive_then_send(world, 0));
    }
  }
  return LAC_OK;
}

/* Whatever can fail on one side alone is agreed upon before the other waits for messages. */
static lac_status run_trips(lac_context *context, lac_world *world, const lac_calibration *calibration,
                            lac_link_entry *entry) {
  int rank = lac_world_rank(world);
  char *data = NULL;
  lac_status status = rank == 0 && !calibration
                          ? lac_fail(context, LAC_E_USAGE, "calibration: found none on worker 0, expected one")
                          : LAC_NEW(context, rank == 0 ? LARGEST : 0, &data);
  status = lac_world_agree(world, status);
  if (!status && rank < 2) {
    status = rank == 0 ? measure(world, data, entry) : answer(world);
  }
  lac_free(data);
  return status;
}

lac_status lac_calibration_measure_link(lac_context *context, lac_world *world, lac_calibration *calibration) {
  lac_link_entry entry;
  if (lac_world_size(world) < 2) {
    return LAC_OK;
  }
  lac_status status = run_trips(context, world, calibration, &entry);
  if (!status && lac_world_rank(world) == 0) {
    status = lac_calibration_put_link(context, calibration, &entry, NULL);
  }
  return lac_world_agree(world, status);
}
