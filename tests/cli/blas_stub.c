/* Put before OpenBLAS: writes what the program's environment asks for, and the program's name as tools show it, into
 * the file LACONIC_STUB whenever it is loaded, and calls the kernels what LACONIC_STUB_KERNELS says. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

char *openblas_get_corename(void);

char *openblas_get_corename(void) {
  return getenv("LACONIC_STUB_KERNELS");
}

__attribute__((constructor)) static void note(void) {
  char name[17] = "";
  const char *asked = getenv("OPENBLAS_CORETYPE");
  prctl(PR_GET_NAME, name);
  FILE *file = fopen(getenv("LACONIC_STUB"), "a");
  if (file) {
    fprintf(file, "%s %s\n", asked ? asked : "-", name);
    fclose(file);
  }
}
