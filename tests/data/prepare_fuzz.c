/* Any bytes as a model file with a preparation: loading must end in a status and one line that names the file, and what
 * was loaded must prepare pictures and be what it is loaded from. */
#include <math.h>

#include "data/fuzz.h"
#include "data/prepare.h"
#include "store/safetensors.h"

enum { FUZZ_PICTURES = 3 };

static void use(lac_context *context, const lac_prepare *prepare, int64_t pixels) {
  float values[FUZZ_PICTURES * 6];
  lac_tensor tensors[3];
  int64_t count = lac_prepare_tensors(prepare, tensors);
  fuzz_require(count == (lac_prepare_kind_of(prepare) == LAC_PREPARE_NONE ? 0 : 2), "the kind has its tensors");
  for (int64_t i = 0; i < count; i++) {
    const float *data = tensors[i].data;
    for (int64_t k = 0; k < lac_tensor_elements(&tensors[i]); k++) {
      fuzz_require(isfinite(data[k]), "tensors are finite");
    }
  }
  for (int i = 0; i < FUZZ_PICTURES * 6; i++) {
    values[i] = (float)(i * 37 % 256);
  }
  fuzz_require(lac_prepare_pixels(context, prepare, FUZZ_PICTURES, values) == LAC_OK, "pictures are prepared");
  fuzz_require(lac_shape_pixels(lac_prepare_shape(prepare)) == pixels, "the shape is as asked for");
}

static void load(lac_context *context, const lac_tensors *file, lac_image_shape shape) {
  lac_prepare *prepare;
  if (!fuzz_status(context, lac_prepare_load(context, file, shape, &prepare))) {
    use(context, prepare, lac_shape_pixels(shape));
  } else {
    fuzz_require(prepare == NULL, "a failure leaves NULL");
  }
  lac_prepare_destroy(&prepare);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  lac_context *context;
  lac_tensors *file;
  if (lac_context_create(&context)) {
    return 0;
  }
  if (!fuzz_status(context, lac_tensors_open_memory(context, "fuzz", data, size, &file))) {
    load(context, file, (lac_image_shape){1, 2, 3});
    load(context, file, (lac_image_shape){3, 1, 2});
  }
  lac_tensors_close(&file);
  lac_context_destroy(&context);
  return 0;
}
