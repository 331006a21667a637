/* An ONNX model while it is built: values with names, arrays, and nodes that make values of others. The only place that
 * knows protobuf.
 *
 * Building never fails: what does is remembered, and writing returns it. Names and integers are copied, arrays of
 * floats are borrowed until the model is written. */
#ifndef LACONIC_CLASSIFIER_ONNX_H
#define LACONIC_CLASSIFIER_ONNX_H

#include <stdint.h>

#include "laconic/context.h"

enum { LAC_ONNX_AXES = 4, LAC_ONNX_NAME = 96 /* room for the name of a value */ };

typedef struct lac_onnx lac_onnx;

/* An empty graph. The context outlives it. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_onnx_create(lac_context *context, lac_onnx **onnx);
void lac_onnx_destroy(lac_onnx **onnx);

/* The graph's input and output, float32; size 0 of an axis: whatever it is, by the name N. */
void lac_onnx_input(lac_onnx *onnx, const char *name, int axes, const int64_t *shape);
void lac_onnx_output(lac_onnx *onnx, const char *name, int axes, const int64_t *shape);

/* An array that the graph holds; no more than LAC_ONNX_AXES axes. */
void lac_onnx_floats(lac_onnx *onnx, const char *name, int axes, const int64_t *shape, const float *values);
void lac_onnx_integers(lac_onnx *onnx, const char *name, int64_t count, const int64_t *values);

/* A node: its operator, the value that it makes, the values that it reads, ending with NULL. Nodes come in an order in
 * which what is read was made before. */
void lac_onnx_node(lac_onnx *onnx, const char *operation, const char *output, const char *const *inputs);

/* Attributes of the last node. */
void lac_onnx_int(lac_onnx *onnx, const char *name, int64_t value);
void lac_onnx_ints(lac_onnx *onnx, const char *name, int count, const int64_t *values);
void lac_onnx_float(lac_onnx *onnx, const char *name, float value);

/* Errors: what went wrong while building; UNSUPPORTED for more bytes than such a file may have; OUTPUT, IO, MEMORY. */
LAC_MUST_USE lac_status lac_onnx_write(lac_onnx *onnx, const char *path);

#endif
