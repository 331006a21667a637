#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  /* The content is recognised, a name ending in .gz taken off. */
  fuzz_format(data, size, "fuzz.bvecs.gz", NULL);
  fuzz_format(data, size, "fuzz", NULL);
  return 0;
}
