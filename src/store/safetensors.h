/* The room's name for a public header, and what stays inside. */
#ifndef LACONIC_STORE_SAFETENSORS_H
#define LACONIC_STORE_SAFETENSORS_H

#include "laconic/tensors.h"

/* lac_tensors_open over a file's bytes in memory, which are borrowed and must outlive it; `name` stands in messages. */
LAC_MUST_USE lac_status lac_tensors_open_memory(lac_context *context, const char *name, const void *bytes, size_t size,
                                                lac_tensors **tensors);

/* "[3, 4]", cut to fit. Returns text. */
enum { LAC_SHAPE_TEXT = 128 };
const char *lac_tensor_shape_text(int axes, const int64_t *shape, char *text, size_t bytes);

/* A tensor that must be there, F32 and of `axes` axes. Errors: INPUT. */
LAC_MUST_USE lac_status lac_tensors_find_f32(lac_context *context, const lac_tensors *file, const char *name, int axes,
                                             const lac_tensor **tensor);

/* That there is one of this shape, to be asked before anything is allocated by it. Errors: INPUT. */
LAC_MUST_USE lac_status lac_tensors_check_f32(lac_context *context, const lac_tensors *file, const char *name, int axes,
                                              const int64_t *shape);

/* Reads one that must have this shape and finite values. Errors: INPUT, IO. */
LAC_MUST_USE lac_status lac_tensors_read_f32(lac_context *context, const lac_tensors *file, const char *name, int axes,
                                             const int64_t *shape, float *out);

#endif
