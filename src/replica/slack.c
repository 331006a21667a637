#include "replica/slack.h"

void lac_slack_step(int64_t n, float part, const float *to, float *x, lac_slack_tally *tally) {
  int64_t lost = 0, moves = 0;
  for (int64_t i = 0; i < n; i++) {
    float step = to[i] - x[i], next = x[i] + part * step;
    moves += step != 0;
    lost += step != 0 && next == x[i];
    x[i] = next;
  }
  tally->moves += moves;
  tally->lost += lost;
}
