#include "base/profile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef LACONIC_SMPI
#include <simgrid/engine.h>
#endif

enum { LAC_EVENT_LIMIT = 64 };

struct lac_profile {
  pthread_mutex_t lock;
  int count;
  lac_event events[LAC_EVENT_LIMIT];
};

lac_profile *lac_profile_create(void) {
  lac_profile *profile = calloc(1, sizeof *profile);
  if (profile && pthread_mutex_init(&profile->lock, NULL) != 0) {
    free(profile);
    profile = NULL;
  }
  return profile;
}

void lac_profile_destroy(lac_profile *profile) {
  if (profile) {
    pthread_mutex_destroy(&profile->lock);
    free(profile);
  }
}

static lac_event *find_event(lac_profile *profile, const char *name) {
  for (int i = 0; i < profile->count; i++) {
    if (strcmp(profile->events[i].name, name) == 0) {
      return &profile->events[i];
    }
  }
  if (profile->count == LAC_EVENT_LIMIT) {
    return &profile->events[LAC_EVENT_LIMIT - 1];
  }
  lac_event *event = &profile->events[profile->count++];
  event->name = profile->count == LAC_EVENT_LIMIT ? "other" : name;
  return event;
}

void lac_profile_add(lac_context *context, const char *name, double seconds, int64_t messages, int64_t bytes,
                     double flops) {
  lac_profile *profile = lac_context_profile(context);
  pthread_mutex_lock(&profile->lock);
  lac_event *event = find_event(profile, name);
  event->least = event->count == 0 || seconds < event->least ? seconds : event->least;
  event->most = seconds > event->most ? seconds : event->most;
  event->count++;
  event->seconds += seconds;
  event->messages += messages;
  event->bytes += bytes;
  event->flops += flops;
  pthread_mutex_unlock(&profile->lock);
}

int lac_profile_events(const lac_context *context, lac_event *events, int limit) {
  lac_profile *profile = lac_context_profile(context);
  pthread_mutex_lock(&profile->lock);
  int count = profile->count;
  for (int i = 0; i < count && i < limit; i++) {
    events[i] = profile->events[i];
  }
  pthread_mutex_unlock(&profile->lock);
  return count;
}

double lac_seconds(void) {
#ifdef LACONIC_SMPI
  return simgrid_get_clock();
#else
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
#endif
}
