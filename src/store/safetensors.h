/* The room's name for a public header, and what stays inside. */
#ifndef LACONIC_STORE_SAFETENSORS_H
#define LACONIC_STORE_SAFETENSORS_H

#include "laconic/tensors.h"

/* lac_tensors_open over a file's bytes in memory, which are borrowed and must outlive it; `name` stands in messages. */
LAC_MUST_USE lac_status lac_tensors_open_memory(lac_context *context, const char *name, const void *bytes, size_t size,
                                                lac_tensors **tensors);

#endif
