/* The safetensors file format: named arrays behind a JSON header.
 *
 * A file is: the header's length (u64, little-endian), the header (JSON, {"NAME": {"dtype", "shape", "data_offsets"},
 * "__metadata__": {text: text}}), then the arrays one after another without holes, row-major, little-endian. */
#ifndef LACONIC_TENSORS_H
#define LACONIC_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "laconic/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(symbol, name in the file, bytes per element) */
#define LAC_TENSOR_TYPE_TABLE(X) \
  X(BOOL, "BOOL", 1)             \
  X(U8, "U8", 1)                 \
  X(I8, "I8", 1)                 \
  X(F8_E5M2, "F8_E5M2", 1)       \
  X(F8_E4M3, "F8_E4M3", 1)       \
  X(I16, "I16", 2)               \
  X(U16, "U16", 2)               \
  X(F16, "F16", 2)               \
  X(BF16, "BF16", 2)             \
  X(I32, "I32", 4)               \
  X(U32, "U32", 4)               \
  X(F32, "F32", 4)               \
  X(I64, "I64", 8)               \
  X(U64, "U64", 8)               \
  X(F64, "F64", 8)

typedef enum lac_tensor_type {
#define LAC_TENSOR_SYMBOL(symbol, name, bytes) LAC_TENSOR_##symbol,
  LAC_TENSOR_TYPE_TABLE(LAC_TENSOR_SYMBOL)
#undef LAC_TENSOR_SYMBOL
      LAC_TENSOR_TYPES
} lac_tensor_type;

LAC_API const char *lac_tensor_type_name(lac_tensor_type type);
LAC_API size_t lac_tensor_type_size(lac_tensor_type type);

enum { LAC_TENSOR_AXES = 8 }; /* most axes of a tensor that is read or written */

typedef struct lac_tensor {
  const char *name;
  lac_tensor_type type;
  int axes;
  int64_t shape[LAC_TENSOR_AXES];
  const void *data; /* to write; NULL in a file that was opened */
} lac_tensor;

/* A key and its value in __metadata__. */
typedef struct lac_text_pair {
  const char *key, *value;
} lac_text_pair;

/* A file opened for reading: the header is in memory, the data stay in the file. */
typedef struct lac_tensors lac_tensors;

/* Opens and validates: the header's length against the file and the limit of 100 MB, UTF-8, duplicate names, types,
 * shapes, bytes against shape times type, and that the data fill the file without overlap or hole. Errors: INPUT,
 * MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_tensors_open(lac_context *context, const char *path, lac_tensors **tensors);
LAC_API void lac_tensors_close(lac_tensors **tensors);

/* As it was opened. Borrowed, valid until the close. */
LAC_API const char *lac_tensors_path(const lac_tensors *tensors);

/* Borrowed, valid until the close; tensors in the order of their data, pairs in the order of the header. */
LAC_API int64_t lac_tensors_count(const lac_tensors *tensors);
LAC_API const lac_tensor *lac_tensors_at(const lac_tensors *tensors, int64_t index);
LAC_API const lac_tensor *lac_tensors_find(const lac_tensors *tensors, const char *name); /* NULL when there is none */
LAC_API int64_t lac_tensors_pair_count(const lac_tensors *tensors);
LAC_API const lac_text_pair *lac_tensors_pair_at(const lac_tensors *tensors, int64_t index);
LAC_API const char *lac_tensors_meta(const lac_tensors *tensors, const char *key); /* NULL when there is none */

/* Elements and bytes of a tensor. A tensor of an opened file never overflows them. */
LAC_API int64_t lac_tensor_elements(const lac_tensor *tensor);
LAC_API size_t lac_tensor_bytes(const lac_tensor *tensor);

/* Copies a tensor's data into out (lac_tensor_bytes). Errors: IO when the file has been cut since. */
LAC_API LAC_MUST_USE lac_status lac_tensors_read(lac_context *context, const lac_tensors *tensors,
                                                 const lac_tensor *tensor, void *out);

/* Writes a file. The header is padded to a multiple of 8 bytes and wider elements come first, so that every tensor is
 * aligned to its element; tensors of one width keep their order. The same arguments give the same bytes. Errors: USAGE
 * (names or texts that are not UTF-8, twice the same name or key, more than LAC_TENSOR_AXES axes), OUTPUT, IO,
 * MEMORY. */
LAC_API LAC_MUST_USE lac_status lac_tensors_write(lac_context *context, const char *path, const lac_tensor *tensors,
                                                  int64_t count, const lac_text_pair *pairs, int64_t pair_count);

#ifdef __cplusplus
}
#endif
#endif
