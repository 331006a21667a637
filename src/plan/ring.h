/* What the two ways to foretell a ring share: the formula and the rehearsal. */
#ifndef LACONIC_PLAN_RING_H
#define LACONIC_PLAN_RING_H

#include "laconic/plan.h"

/* That a job, a cluster and so many workers can be. Errors: USAGE. Local. */
LAC_MUST_USE lac_status lac_ring_check(lac_context *context, const lac_ring_job *job, const lac_cluster *cluster,
                                       int workers, const int64_t *shares);

double lac_ring_speed(const lac_cluster *cluster, int worker);
/* Points of a worker over its speed: seconds for each second that a point costs. */
double lac_ring_load(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                     int worker);
/* A job's iterations, early or not, over a subsample or not, are of three kinds at most, one after the other. How many
 * of kind 0, 1 or 2 there are, and their costs: those of a point for the part of the points that is taken. */
enum { LAC_RING_KINDS = 3 };
int64_t lac_ring_kind(const lac_ring_job *job, int workers, int kind, lac_mac_costs *costs);
/* Seconds of the Z step over the points that join in the end. */
double lac_ring_joining(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares);
/* Fills in what follows from the other plan->seconds and the job: serial seconds, the total, speedup, efficiency. */
void lac_ring_complete(const lac_ring_job *job, const lac_cluster *cluster, int workers, const int64_t *shares,
                       lac_plan *plan);

#endif
