#include "classifier/onnx.h"

#include <string.h>

#include "base/memory.h"
#include "classifier/onnx.pb-c.h"
#include "laconic/output.h"
#include "laconic/version.h"

enum { IR_VERSION = 7, OPSET = 13 };

/* A piece of memory that lives as long as the model. */
typedef struct room {
  struct room *before;
  void *memory;
} room;

struct lac_onnx {
  lac_context *context;
  lac_status status; /* the first failure */
  room *rooms;
  LacOnnx__Graph graph;
  LacOnnx__Node *last;
};

/* ---- memory ---- */

/* Zeroed; NULL when something has failed. */
static void *take(lac_onnx *self, size_t bytes) {
  room *made = NULL;
  if (!self->status) {
    self->status = LAC_NEW(self->context, 1, &made);
  }
  if (self->status) {
    return NULL;
  }
  made->before = self->rooms;
  self->rooms = made;
  self->status = lac_allocate(self->context, (int64_t)bytes, 1, &made->memory);
  return made->memory;
}

static void *take_copy(lac_onnx *self, const void *from, size_t bytes) {
  void *copy = take(self, bytes);
  return copy ? memcpy(copy, from, bytes) : NULL;
}

/* A message of its kind, with its starting values. */
#define TAKE_MESSAGE(self, kind, start) (kind *)take_copy((self), &(const kind)start, sizeof(kind))

static char *copy_text(lac_onnx *self, const char *text) {
  return take_copy(self, text, strlen(text) + 1);
}

/* Appends to an array of pointers that grows by doubling. */
static void append(lac_onnx *self, void ***array, size_t *count, void *item) {
  if (*count == 0 || (*count & (*count - 1)) == 0) { /* between two powers of two there is room */
    void **grown = take(self, 2 * (*count + 1) * sizeof *grown);
    if (grown && *count) {
      memcpy(grown, *array, *count * sizeof *grown);
    }
    *array = grown ? grown : *array;
  }
  if (!self->status) {
    (*array)[(*count)++] = item;
  }
}

lac_status lac_onnx_create(lac_context *context, lac_onnx **onnx) {
  static const LacOnnx__Graph empty = LAC_ONNX__GRAPH__INIT;
  LAC_TRY(LAC_NEW(context, 1, onnx));
  (*onnx)->context = context;
  (*onnx)->graph = empty;
  return LAC_OK;
}

void lac_onnx_destroy(lac_onnx **onnx) {
  if (*onnx) {
    for (room *at = (*onnx)->rooms, *before; at; at = before) {
      before = at->before;
      lac_free(at->memory);
      lac_free(at);
    }
    lac_free(*onnx);
    *onnx = NULL;
  }
}

/* ---- values ---- */

static void append_dimension(lac_onnx *self, LacOnnx__Shape *shape, int64_t size) {
  LacOnnx__Shape__Dimension *dimension =
      TAKE_MESSAGE(self, LacOnnx__Shape__Dimension, LAC_ONNX__SHAPE__DIMENSION__INIT);
  if (dimension) {
    dimension->has_dim_value = size > 0;
    dimension->dim_value = size;
    dimension->dim_param = size > 0 ? NULL : copy_text(self, "N");
    append(self, (void ***)&shape->dim, &shape->n_dim, dimension);
  }
}

static LacOnnx__ValueInfo *describe(lac_onnx *self, const char *name, int axes, const int64_t *sizes) {
  LacOnnx__ValueInfo *value = TAKE_MESSAGE(self, LacOnnx__ValueInfo, LAC_ONNX__VALUE_INFO__INIT);
  LacOnnx__Type *type = TAKE_MESSAGE(self, LacOnnx__Type, LAC_ONNX__TYPE__INIT);
  LacOnnx__Type__Array *array = TAKE_MESSAGE(self, LacOnnx__Type__Array, LAC_ONNX__TYPE__ARRAY__INIT);
  LacOnnx__Shape *shape = TAKE_MESSAGE(self, LacOnnx__Shape, LAC_ONNX__SHAPE__INIT);
  if (!shape) {
    return NULL;
  }
  value->name = copy_text(self, name);
  value->type = type;
  type->tensor_type = array;
  array->has_elem_type = 1;
  array->elem_type = LAC_ONNX__TENSOR__TYPE__FLOAT;
  array->shape = shape;
  for (int i = 0; i < axes; i++) {
    append_dimension(self, shape, sizes[i]);
  }
  return value;
}

void lac_onnx_input(lac_onnx *onnx, const char *name, int axes, const int64_t *shape) {
  append(onnx, (void ***)&onnx->graph.input, &onnx->graph.n_input, describe(onnx, name, axes, shape));
}

void lac_onnx_output(lac_onnx *onnx, const char *name, int axes, const int64_t *shape) {
  append(onnx, (void ***)&onnx->graph.output, &onnx->graph.n_output, describe(onnx, name, axes, shape));
}

static void add_array(lac_onnx *self, const char *name, int type, size_t size, int axes, const int64_t *shape,
                      const void *values) {
  LacOnnx__Tensor *tensor = TAKE_MESSAGE(self, LacOnnx__Tensor, LAC_ONNX__TENSOR__INIT);
  if (!tensor) {
    return;
  }
  size_t bytes = size;
  for (int i = 0; i < axes; i++) {
    bytes *= (size_t)shape[i];
  }
  tensor->name = copy_text(self, name);
  tensor->has_data_type = 1;
  tensor->data_type = type;
  tensor->n_dims = (size_t)axes;
  tensor->dims = take_copy(self, shape, (size_t)axes * sizeof *shape);
  tensor->has_raw_data = 1;
  tensor->raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)values};
  append(self, (void ***)&self->graph.initializer, &self->graph.n_initializer, tensor);
}

void lac_onnx_floats(lac_onnx *onnx, const char *name, int axes, const int64_t *shape, const float *values) {
  add_array(onnx, name, LAC_ONNX__TENSOR__TYPE__FLOAT, sizeof *values, axes, shape, values);
}

void lac_onnx_integers(lac_onnx *onnx, const char *name, int64_t count, const int64_t *values) {
  add_array(onnx, name, LAC_ONNX__TENSOR__TYPE__INT64, sizeof *values, 1, &count,
            take_copy(onnx, values, (size_t)count * sizeof *values));
}

/* ---- nodes ---- */

void lac_onnx_node(lac_onnx *onnx, const char *operation, const char *output, const char *const *inputs) {
  LacOnnx__Node *node = TAKE_MESSAGE(onnx, LacOnnx__Node, LAC_ONNX__NODE__INIT);
  if (!node) {
    return;
  }
  node->op_type = copy_text(onnx, operation);
  node->name = copy_text(onnx, output);
  append(onnx, (void ***)&node->output, &node->n_output, copy_text(onnx, output));
  for (; *inputs; inputs++) {
    append(onnx, (void ***)&node->input, &node->n_input, copy_text(onnx, *inputs));
  }
  append(onnx, (void ***)&onnx->graph.node, &onnx->graph.n_node, node);
  onnx->last = node;
}

static LacOnnx__Attribute *add_attribute(lac_onnx *self, const char *name, LacOnnx__Attribute__Type type) {
  LacOnnx__Attribute *attribute = TAKE_MESSAGE(self, LacOnnx__Attribute, LAC_ONNX__ATTRIBUTE__INIT);
  if (attribute) {
    attribute->name = copy_text(self, name);
    attribute->has_type = 1;
    attribute->type = type;
    append(self, (void ***)&self->last->attribute, &self->last->n_attribute, attribute);
  }
  return attribute;
}

void lac_onnx_int(lac_onnx *onnx, const char *name, int64_t value) {
  LacOnnx__Attribute *attribute = add_attribute(onnx, name, LAC_ONNX__ATTRIBUTE__TYPE__INT);
  if (attribute) {
    attribute->has_i = 1;
    attribute->i = value;
  }
}

void lac_onnx_float(lac_onnx *onnx, const char *name, float value) {
  LacOnnx__Attribute *attribute = add_attribute(onnx, name, LAC_ONNX__ATTRIBUTE__TYPE__FLOAT);
  if (attribute) {
    attribute->has_f = 1;
    attribute->f = value;
  }
}

void lac_onnx_ints(lac_onnx *onnx, const char *name, int count, const int64_t *values) {
  LacOnnx__Attribute *attribute = add_attribute(onnx, name, LAC_ONNX__ATTRIBUTE__TYPE__INTS);
  if (attribute) {
    attribute->n_ints = (size_t)count;
    attribute->ints = take_copy(onnx, values, (size_t)count * sizeof *values);
  }
}

/* ---- writing ---- */

static lac_status write_bytes(lac_context *context, const char *path, const uint8_t *bytes, size_t count) {
  lac_output output;
  LAC_TRY(lac_output_open(context, path, &output));
  lac_status status = lac_output_write(context, &output, bytes, count);
  if (status) {
    lac_output_discard(&output);
    return status;
  }
  return lac_output_commit(context, &output);
}

lac_status lac_onnx_write(lac_onnx *onnx, const char *path) {
  LacOnnx__Model model = LAC_ONNX__MODEL__INIT;
  LacOnnx__OperatorSet operators = LAC_ONNX__OPERATOR_SET__INIT, *sets[] = {&operators};
  lac_context *context = onnx->context;
  onnx->graph.name = copy_text(onnx, "classifier");
  model.producer_name = copy_text(onnx, "laconic");
  model.producer_version = copy_text(onnx, lac_version());
  LAC_TRY(onnx->status);
  operators.has_version = 1; /* without a domain: the operators of ONNX itself */
  operators.version = OPSET;
  model.has_ir_version = 1;
  model.ir_version = IR_VERSION;
  model.opset_import = sets;
  model.n_opset_import = 1;
  model.graph = &onnx->graph;
  size_t count = lac_onnx__model__get_packed_size(&model);
  if (count > INT32_MAX) {
    return lac_fail(context, LAC_E_UNSUPPORTED, "%s: found %zu bytes to write, an ONNX file has at most %d", path,
                    count, INT32_MAX);
  }
  uint8_t *bytes;
  LAC_TRY(LAC_NEW(context, (int64_t)count, &bytes));
  lac_onnx__model__pack(&model, bytes);
  lac_status status = write_bytes(context, path, bytes, count);
  lac_free(bytes);
  return status;
}
