#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_format(data, size, "fuzz", "npy");
  return 0;
}
