#include "plan/within.h"

#include <math.h>
#include <string.h>

lac_status lac_check_within(lac_context *context, const lac_world *world, int workers) {
  if (lac_world_size(world) != workers) {
    return lac_fail(context, LAC_E_USAGE, "workers: found %d, expected the %d of this world", workers,
                    lac_world_size(world));
  }
  if (strcmp(lac_world_backend(world), "sim") != 0 && !lac_world_smpi()) {
    return lac_fail(context, LAC_E_USAGE, "back end: found %s, expected one whose clock is simulated",
                    lac_world_backend(world));
  }
  return LAC_OK;
}

lac_link lac_link_since(const lac_world *world, const lac_counts *before, double part) {
  lac_counts now = lac_world_counts(world);
  return (lac_link){part * (double)(now.messages[LAC_TRAFFIC_MODEL] - before->messages[LAC_TRAFFIC_MODEL]),
                    part * (double)(now.bytes[LAC_TRAFFIC_MODEL] - before->bytes[LAC_TRAFFIC_MODEL])};
}

lac_status lac_links_gather(lac_world *world, lac_link own, lac_link *links) {
  return lac_world_gather(world, &own, sizeof own, links);
}

void lac_links_take(const lac_link *links, int workers, lac_plan *plan, lac_link *to) {
  plan->link_bytes = 0;
  for (int i = 0; i < workers; i++) {
    plan->link_bytes = fmax(plan->link_bytes, links[i].bytes);
    if (to) {
      to[i] = links[i];
    }
  }
}
