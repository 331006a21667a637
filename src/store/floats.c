/* Arrays of float32 as model files must have them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/safetensors.h"

const char *lac_tensor_shape_text(int axes, const int64_t *shape, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < axes && used < bytes; i++) {
    used += (size_t)snprintf(text + used, bytes - used, "%s%" PRId64, i ? ", " : "[", shape[i]);
  }
  if (used < bytes) {
    snprintf(text + used, bytes - used, axes ? "]" : "[]");
  }
  return text;
}

lac_status lac_tensors_find_f32(lac_context *context, const lac_tensors *file, const char *name, int axes,
                                const lac_tensor **tensor) {
  *tensor = lac_tensors_find(file, name);
  if (!*tensor) {
    return lac_fail(context, LAC_E_INPUT, "%s: tensor '%s': found none, expected one", lac_tensors_path(file), name);
  }
  if ((*tensor)->type != LAC_TENSOR_F32 || (*tensor)->axes != axes) {
    return lac_fail(context, LAC_E_INPUT, "%s: tensor '%s': found %s of %d axes, expected F32 of %d",
                    lac_tensors_path(file), name, lac_tensor_type_name((*tensor)->type), (*tensor)->axes, axes);
  }
  return LAC_OK;
}

lac_status lac_tensors_check_f32(lac_context *context, const lac_tensors *file, const char *name, int axes,
                                 const int64_t *shape) {
  const lac_tensor *tensor = lac_tensors_find(file, name);
  char found[LAC_SHAPE_TEXT], expected[LAC_SHAPE_TEXT];
  lac_tensor_shape_text(axes, shape, expected, sizeof expected);
  if (!tensor) {
    return lac_fail(context, LAC_E_INPUT, "%s: tensor '%s': found none, expected F32 of %s", lac_tensors_path(file),
                    name, expected);
  }
  if (tensor->type != LAC_TENSOR_F32 || tensor->axes != axes ||
      memcmp(tensor->shape, shape, (size_t)axes * sizeof *shape) != 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: tensor '%s': found %s of %s, expected F32 of %s", lac_tensors_path(file),
                    name, lac_tensor_type_name(tensor->type),
                    lac_tensor_shape_text(tensor->axes, tensor->shape, found, sizeof found), expected);
  }
  return LAC_OK;
}

lac_status lac_tensors_read_f32(lac_context *context, const lac_tensors *file, const char *name, int axes,
                                const int64_t *shape, float *out) {
  LAC_TRY(lac_tensors_check_f32(context, file, name, axes, shape));
  const lac_tensor *tensor = lac_tensors_find(file, name);
  LAC_TRY(lac_tensors_read(context, file, tensor, out));
  int64_t count = lac_tensor_elements(tensor);
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(out[i])) {
      return lac_fail(context, LAC_E_INPUT, "%s: tensor '%s': element %" PRId64 ": found %g, expected a finite number",
                      lac_tensors_path(file), name, i, (double)out[i]);
    }
  }
  return LAC_OK;
}
