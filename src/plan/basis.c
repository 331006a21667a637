#include "laconic/calibration.h"

const char *lac_basis_name(lac_basis basis) {
  static const char *const names[] = {"measured", "scaled", "given", "assumed"};
  return names[basis];
}
