/* Any bytes as a calibration: reading ends in one line that names the file, or in cases that are written and read back
 * to the same text, and that questions are answered from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/calibration.h"

static void require(bool held) {
  if (!held) {
    abort();
  }
}

static char *text_of(lac_context *context, const lac_calibration *calibration) {
  char *text;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  require(stream != NULL);
  require(lac_calibration_write(context, calibration, stream) == LAC_OK);
  fclose(stream);
  return text;
}

static void ask(const lac_calibration *calibration) {
  lac_hash_costs costs;
  lac_basis basis;
  double message, byte;
  char reason[64];
  for (int64_t i = 0; i < calibration->hash_count; i++) {
    lac_calibration_hash(calibration, &calibration->hash[i].which, &costs);
    require(costs.basis == LAC_BASIS_MEASURED && costs.mac.z == calibration->hash[i].costs.mac.z);
  }
  lac_calibration_hash(calibration, &(lac_hash_case){100, LAC_F32, 20, LAC_ENCODER_LINEAR}, &costs);
  require(costs.mac.kinds >= 1 && costs.mac.z >= 0 && costs.mac.submodel[0] >= 0);
  require(lac_calibration_gradient(calibration, "lenet", 64, LAC_PRECISION_F32, 1e6, &basis) >= 0);
  for (int64_t i = 0; i < calibration->link_count; i++) {
    require(lac_calibration_link(calibration, calibration->links[i].backend, &message, &byte));
  }
  (void)lac_calibration_is_here(calibration, reason, sizeof reason);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lac_context *context;
  lac_calibration *read, *again;
  require(lac_context_create(&context) == LAC_OK);
  if (lac_calibration_parse(context, "input", data, size, &read) == LAC_OK) {
    char *text = text_of(context, read);
    require(lac_calibration_parse(context, "text", text, strlen(text), &again) == LAC_OK);
    char *second = text_of(context, again);
    require(strcmp(text, second) == 0);
    ask(read);
    free(text);
    free(second);
    lac_calibration_destroy(&again);
  } else {
    const char *message = lac_context_message(context);
    require(!read && strncmp(message, "input: ", 7) == 0 && !strchr(message, '\n'));
  }
  lac_calibration_destroy(&read);
  lac_context_destroy(&context);
  return 0;
}
