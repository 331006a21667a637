#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LAC_CACHE_LINE = 64, LAC_HUGE_PAGE = 2 << 20, LAC_LARGE = 1 << 20 };

/* Zeroed bytes. Large blocks are whole huge pages, as their first touch is a fault for every page. It is no error that
 * the system has none to give, though it may look for them first, nor that there is no room to align. */
static void *zeroed(size_t bytes) {
  void *block = NULL;
  size_t whole =
      bytes >= LAC_LARGE && bytes < SIZE_MAX / 2 ? (bytes + LAC_HUGE_PAGE - 1) / LAC_HUGE_PAGE * LAC_HUGE_PAGE : 0;
  if (whole > 0 && posix_memalign(&block, LAC_HUGE_PAGE, whole)) {
    whole = 0;
  }
  if (whole == 0 && posix_memalign(&block, LAC_CACHE_LINE, bytes)) {
    return NULL;
  }
#ifdef MADV_HUGEPAGE
  if (whole > 0) {
    (void)madvise(block, whole, MADV_HUGEPAGE);
  }
#endif
  return memset(block, 0, bytes);
}

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
  void *block = zeroed(bytes);
  if (!block) {
    return lac_fail(context, LAC_E_MEMORY, "cannot allocate %zu bytes", bytes);
  }
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
