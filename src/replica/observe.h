/* Where mixing times of running jobs come from. Collective: all workers get what worker 0 finds. */
#ifndef LACONIC_REPLICA_OBSERVE_H
#define LACONIC_REPLICA_OBSERVE_H

#include "laconic/mixing.h"
#include "replica/asynchronous.h"

enum { LAC_OBSERVED_EVENTS = 1 << 18 }; /* gathered at most, of all workers together */

LAC_MUST_USE lac_status lac_observe_record(lac_context *context, lac_world *world, const lac_replica_options *options,
                                           const lac_async_log *log, lac_mixing_time *time);
LAC_MUST_USE lac_status lac_observe_process(lac_context *context, lac_world *world, const lac_replica_options *options,
                                            lac_mixing_time *time);

#endif
