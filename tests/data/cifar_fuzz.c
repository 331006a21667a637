#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_format(data, size, "fuzz.bin", NULL);
  fuzz_format(data, size, "fuzz", "cifar10");
  fuzz_format(data, size, "fuzz", "cifar100");
  return 0;
}
