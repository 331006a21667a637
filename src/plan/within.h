/* What trial runs ask of a world: whether it is one for rehearsals, and what leaves each worker. */
#ifndef LACONIC_PLAN_WITHIN_H
#define LACONIC_PLAN_WITHIN_H

#include "laconic/plan.h"

/* That a world has so many workers, and a simulated clock. Errors: USAGE. Local. */
LAC_MUST_USE lac_status lac_check_within(lac_context *context, const lac_world *world, int workers);

/* What this worker has sent of models since `before`, times `part`. Local. */
lac_link lac_link_since(const lac_world *world, const lac_counts *before, double part);
/* Everybody's into links (workers), in the order of their ranks. Collective. Errors: those of lac_world_gather. */
LAC_MUST_USE lac_status lac_links_gather(lac_world *world, lac_link own, lac_link *links);
/* Fills in plan->link_bytes, and `to` where it is not NULL, from links (workers). Local. */
void lac_links_take(const lac_link *links, int workers, lac_plan *plan, lac_link *to);

#endif
