#include <stdlib.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/storage.h"

enum { LAC_GZIP_START = 1 << 16, LAC_GZIP_STEP = 1 << 30 };

bool lac_storage_is_gzip(const lac_storage *storage) {
  return storage->size >= 3 && storage->bytes[0] == 0x1f && storage->bytes[1] == 0x8b && storage->bytes[2] == 8;
}

/* Where the stream stands: what is unread and what is unfilled. zlib counts in 32 bits, so both go in steps. */
typedef struct inflation {
  z_stream stream;
  const lac_storage *storage;
  size_t taken;
  uint8_t *out;
  size_t filled, capacity;
} inflation;

static lac_status grow(lac_context *context, inflation *self) {
  if (self->filled < self->capacity) {
    return LAC_OK;
  }
  size_t capacity = self->capacity ? 2 * self->capacity : LAC_GZIP_START;
  uint8_t *out = capacity > self->capacity ? realloc(self->out, capacity) : NULL;
  if (!out) {
    return lac_fail(context, LAC_E_MEMORY, "%s: cannot allocate %zu bytes to inflate it", self->storage->path,
                    capacity);
  }
  self->out = out;
  self->capacity = capacity;
  return LAC_OK;
}

/* One call of zlib's inflate; *result is what it said. */
static lac_status inflate_step(lac_context *context, inflation *self, int *result) {
  LAC_TRY(grow(context, self));
  size_t unread = self->storage->size - self->taken, unfilled = self->capacity - self->filled;
  uInt in = (uInt)(unread < LAC_GZIP_STEP ? unread : LAC_GZIP_STEP);
  uInt out = (uInt)(unfilled < LAC_GZIP_STEP ? unfilled : LAC_GZIP_STEP);
  self->stream.next_in = (Bytef *)(uintptr_t)(self->storage->bytes + self->taken);
  self->stream.avail_in = in;
  self->stream.next_out = self->out + self->filled;
  self->stream.avail_out = out;
  *result = inflate(&self->stream, Z_NO_FLUSH);
  self->taken += in - self->stream.avail_in;
  self->filled += out - self->stream.avail_out;
  return LAC_OK;
}

/* One member of the stream. */
static lac_status inflate_member(lac_context *context, inflation *self) {
  int result = Z_OK;
  while (result != Z_STREAM_END) {
    LAC_TRY(inflate_step(context, self, &result));
    if (result == Z_MEM_ERROR) {
      return lac_fail(context, LAC_E_MEMORY, "%s: cannot allocate memory to inflate it", self->storage->path);
    }
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return lac_fail(context, LAC_E_INPUT, "%s: offset %zu: gzip stream damaged: %s", self->storage->path, self->taken,
                      self->stream.msg ? self->stream.msg : "unexpected data");
    }
    if (result != Z_STREAM_END && self->taken == self->storage->size && self->filled < self->capacity) {
      return lac_fail(context, LAC_E_INPUT, "%s: offset %zu: gzip stream ends too early, the file is truncated",
                      self->storage->path, self->taken);
    }
    if (lac_context_interrupted(context)) {
      return lac_fail(context, LAC_E_INTERRUPTED, "%s: interrupted while inflating it", self->storage->path);
    }
  }
  return LAC_OK;
}

static lac_status inflate_all(lac_context *context, inflation *self) {
  do {
    LAC_TRY(inflate_member(context, self));
    if (inflateReset(&self->stream) != Z_OK) {
      return lac_fail(context, LAC_E_INTERNAL, "%s: zlib cannot go on", self->storage->path);
    }
  } while (self->taken < self->storage->size);
  return LAC_OK;
}

lac_status lac_storage_inflate(lac_context *context, lac_storage *storage) {
  inflation self = {.storage = storage};
  if (inflateInit2(&self.stream, 16 + MAX_WBITS) != Z_OK) { /* 16: a gzip header is expected */
    return lac_fail(context, LAC_E_MEMORY, "%s: cannot allocate memory to inflate it", storage->path);
  }
  lac_status status = inflate_all(context, &self);
  inflateEnd(&self.stream);
  if (!status && self.filled == 0) {
    status = lac_fail(context, LAC_E_INPUT, "%s: the gzipped content is empty (0 bytes)", storage->path);
  }
  if (status) {
    free(self.out);
    return status;
  }
  lac_storage_close(storage);
  storage->inflated = self.out; /* pages beyond what is filled were never touched and cost nothing */
  storage->bytes = storage->inflated;
  storage->size = self.filled;
  return LAC_OK;
}
