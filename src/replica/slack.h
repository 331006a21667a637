/* Going part of the way to a mean, as slack has it, and what float32 loses of that. */
#ifndef LACONIC_REPLICA_SLACK_H
#define LACONIC_REPLICA_SLACK_H

#include <stdint.h>

typedef struct lac_slack_tally {
  int64_t moves, lost; /* numbers that should have moved, and those that stayed where they were */
} lac_slack_tally;

/* x <- x + part (to - x), both (n). With a small part the step may be below the last digit of x: that is counted. */
void lac_slack_step(int64_t n, float part, const float *to, float *x, lac_slack_tally *tally);

#endif
