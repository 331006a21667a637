#include <math.h>

#include "nn/backend.h"

/* One picture. The largest score is taken off first, so that no power overflows; what is far below it becomes 0. */
static double row_loss(int64_t classes, const float *scores, int32_t label, float scale, float *probabilities,
                       float *gradient) {
  float largest = scores[0];
  for (int64_t i = 1; i < classes; i++) {
    largest = scores[i] > largest ? scores[i] : largest;
  }
  double sum = 0;
  for (int64_t i = 0; i < classes; i++) {
    sum += exp((double)scores[i] - largest);
  }
  for (int64_t i = 0; (probabilities || gradient) && i < classes; i++) {
    double probability = exp((double)scores[i] - largest) / sum;
    if (probabilities) {
      probabilities[i] = (float)probability;
    }
    if (gradient) {
      gradient[i] = (float)((probability - (i == label)) * scale);
    }
  }
  return label >= 0 ? log(sum) + ((double)largest - scores[label]) : 0;
}

static bool is_wrong(int64_t classes, const float *scores, int32_t label) {
  for (int64_t i = 0; i < classes; i++) {
    if (!(scores[i] <= scores[label])) { /* so that what is not a number is wrong */
      return true;
    }
  }
  return false;
}

void lac_softmax(int64_t batch, int64_t classes, const float *scores, const int32_t *labels, float *probabilities,
                 float *gradient, double *loss, int64_t *errors) {
  double sum = 0;
  int64_t wrong = 0;
  for (int64_t n = 0; n < batch; n++) {
    const float *row = scores + n * classes;
    int32_t label = labels ? labels[n] : -1;
    sum += row_loss(classes, row, label, 1 / (float)batch, probabilities ? probabilities + n * classes : NULL,
                    gradient ? gradient + n * classes : NULL);
    wrong += labels && is_wrong(classes, row, label);
  }
  if (loss) {
    *loss = sum / (double)batch;
  }
  if (errors) {
    *errors = wrong;
  }
}
