#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAC_CACHE_LINE = 64 };

lac_status lac_allocate(lac_context *context, int64_t count, size_t size, void **memory) {
  *memory = NULL;
  if (count < 0 || (size != 0 && (uint64_t)count > (SIZE_MAX - LAC_CACHE_LINE) / size)) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate %lld elements of %zu bytes", (long long)count, size);
  }
  size_t bytes = (size_t)count * size;
  bytes = (bytes + LAC_CACHE_LINE - 1) / LAC_CACHE_LINE * LAC_CACHE_LINE;
  if (bytes == 0) {
    bytes = LAC_CACHE_LINE;
  }
  void *block = aligned_alloc(LAC_CACHE_LINE, bytes);
  if (!block) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate %zu bytes", bytes);
  }
  memset(block, 0, bytes);
  *memory = block;
  return LAC_OK;
}

void lac_free(void *memory) {
  free(memory);
}

lac_status lac_copy_text(lac_context *context, const char *text, char **copy) {
  *copy = NULL;
  if (!text) {
    return LAC_OK;
  }
  *copy = strdup(text);
  return *copy ? LAC_OK : lac_fail(context, LAC_E_MEMORY, "cannot allocate %zu bytes", strlen(text) + 1);
}

lac_status lac_format_text(lac_context *context, char **text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(text, format, arguments);
  va_end(arguments);
  if (length < 0) {
    *text = NULL;
    return lac_fail(context, LAC_E_MEMORY, "cannot format a text");
  }
  return LAC_OK;
}
