#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_format(data, size, "fuzz", "fvecs");
  fuzz_format(data, size, "fuzz", "bvecs");
  fuzz_format(data, size, "fuzz", "ivecs");
  return 0;
}
