/* Named events: how often, how long, how many bytes, messages and floating-point operations. One profile per context,
 * shared by the workers of this process; lac_profile_add may be called from any of them. */
#ifndef LACONIC_BASE_PROFILE_H
#define LACONIC_BASE_PROFILE_H

#include <stdint.h>

#include "laconic/profile.h"

typedef struct lac_profile lac_profile;

lac_profile *lac_profile_create(void); /* NULL without memory */
void lac_profile_destroy(lac_profile *profile);
lac_profile *lac_context_profile(const lac_context *context);

/* Adds one call of an event. `name` is a static text: events are told apart by its characters. At most 64 kinds; what
 * comes beyond is added to the kind "other". */
void lac_profile_add(lac_context *context, const char *name, double seconds, int64_t messages, int64_t bytes,
                     double flops);

/* Seconds on the monotonic clock; in a program for SMPI on the simulated one, where only lac_world_spend and messages
 * take time. */
double lac_seconds(void);

#endif
