/* The inside of a communication process. */
#ifndef LACONIC_MIXING_PROCESS_H
#define LACONIC_MIXING_PROCESS_H

#include "laconic/process.h"

/* The links of a topology's first phase, numbered reader by reader. With a delay, slot workers + 2 l is the copy that
 * the reader of link l has, the next one the copy that travels. */
typedef struct lac_links {
  int64_t count;
  int32_t *from;          /* (count): whose model */
  int64_t *incoming;      /* (workers + 1): reader i has links incoming[i] to incoming[i + 1] - 1, as in its row */
  int64_t *outgoing;      /* (workers + 1): model i leaves by outgoing_link[outgoing[i]] to … [outgoing[i + 1] - 1] */
  int64_t *outgoing_link; /* (count) */
} lac_links;

/* The names of the protocols, for the tables of options of other rooms. */
extern const char *const lac_protocol_name_list[];

struct lac_process {
  int protocol;
  int64_t workers, slots, seed, period;
  double slack, delay;
  lac_topology *topology;
  lac_links links; /* with a delay only */
};

#endif
