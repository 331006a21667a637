/* What a run spent its time on: named events, kept per context and shared by the workers of this process. */
#ifndef LACONIC_PROFILE_H
#define LACONIC_PROFILE_H

#include <stdint.h>

#include "laconic/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_event {
  const char *name; /* static text */
  int64_t count;
  double seconds, least, most; /* sum, shortest and longest of the single calls */
  int64_t bytes, messages;
  double flops;
} lac_event;

/* Copies the events in order of first use into events[0..limit); returns how many there are, at most 64. Local,
 * callable from any worker. */
LAC_API int lac_profile_events(const lac_context *context, lac_event *events, int limit);

#ifdef __cplusplus
}
#endif
#endif
