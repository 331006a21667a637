#include "data/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static lac_status storage_create(lac_context *context, const char *path, lac_storage **storage) {
  *storage = NULL;
  lac_storage *made;
  LAC_TRY(LAC_NEW(context, 1, &made));
  atomic_init(&made->references, 1);
  made->descriptor = -1;
  lac_status status = lac_copy_text(context, path, &made->path);
  if (!status) {
    status = lac_copy_text(context, path, &made->file);
  }
  if (status) {
    lac_storage_release(made);
    return status;
  }
  *storage = made;
  return LAC_OK;
}

lac_status lac_storage_borrow(lac_context *context, const char *path, const void *bytes, size_t size,
                              lac_storage **storage) {
  LAC_TRY(storage_create(context, path, storage));
  (*storage)->bytes = bytes;
  (*storage)->size = size;
  return LAC_OK;
}

void lac_storage_close(lac_storage *storage) {
  if (storage->mapping) {
    munmap(storage->mapping, storage->mapped);
    storage->mapping = NULL;
  }
  if (storage->descriptor >= 0) {
    close(storage->descriptor);
    storage->descriptor = -1;
  }
  free(storage->inflated);
  storage->inflated = NULL;
  storage->bytes = NULL;
  storage->size = 0;
}

static lac_status map_descriptor(lac_context *context, lac_storage *storage) {
  struct stat about;
  if (fstat(storage->descriptor, &about) != 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: cannot be read: %s", storage->path, strerror(errno));
  }
  if (S_ISDIR(about.st_mode)) {
    return lac_fail(context, LAC_E_INPUT, "%s: is a folder, expected a file", storage->path);
  }
  if (!S_ISREG(about.st_mode)) {
    return lac_fail(context, LAC_E_INPUT, "%s: is no regular file, so it cannot be mapped", storage->path);
  }
  if (about.st_size == 0) {
    return lac_fail(context, LAC_E_INPUT, "%s: the file is empty (0 bytes)", storage->path);
  }
  storage->size = (size_t)about.st_size;
  void *mapping = mmap(NULL, storage->size, PROT_READ, MAP_SHARED, storage->descriptor, 0);
  if (mapping == MAP_FAILED) {
    return lac_fail(context, LAC_E_INPUT, "%s: cannot be mapped: %s", storage->path, strerror(errno));
  }
  storage->mapping = mapping;
  storage->mapped = storage->size;
  storage->bytes = mapping;
  return LAC_OK;
}

/* FILE:PART becomes FILE, unless a file has the whole name, or no file has either: messages then name the whole. */
static void split_part(lac_storage *storage) {
  char *colon = strrchr(storage->file, ':');
  if (!colon || colon == storage->file || !colon[1] || access(storage->file, F_OK) == 0) {
    return;
  }
  *colon = 0;
  if (access(storage->file, F_OK) == 0) {
    storage->part = colon + 1;
  } else {
    *colon = ':';
  }
}

lac_status lac_storage_map(lac_context *context, const char *path, lac_storage **storage) {
  LAC_TRY(storage_create(context, path, storage));
  split_part(*storage);
  lac_status status;
  /* Not blocking: opening a pipe that nobody writes would wait for ever. */
  (*storage)->descriptor = open((*storage)->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if ((*storage)->descriptor < 0) {
    status = lac_fail(context, LAC_E_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
  } else {
    status = map_descriptor(context, *storage);
  }
  if (status) {
    lac_storage_release(*storage);
    *storage = NULL;
  }
  return status;
}

lac_status lac_storage_check(lac_context *context, const lac_storage *storage) {
  struct stat about;
  if (storage->descriptor < 0) {
    return LAC_OK;
  }
  if (fstat(storage->descriptor, &about) != 0) {
    return lac_fail(context, LAC_E_IO, "%s: cannot be read any more: %s", storage->path, strerror(errno));
  }
  if ((size_t)about.st_size < storage->size) {
    return lac_fail(context, LAC_E_IO, "%s: shortened while in use: found %lld bytes, expected %zu", storage->path,
                    (long long)about.st_size, storage->size);
  }
  return LAC_OK;
}

lac_storage *lac_storage_share(lac_storage *storage) {
  atomic_fetch_add_explicit(&storage->references, 1, memory_order_relaxed);
  return storage;
}

void lac_storage_release(lac_storage *storage) {
  if (!storage || atomic_fetch_sub_explicit(&storage->references, 1, memory_order_acq_rel) != 1) {
    return;
  }
  if (storage->ops) {
    storage->ops->destroy(storage->state);
  }
  lac_storage_close(storage);
  lac_free(storage->parsed);
  lac_free(storage->column_offsets);
  free(storage->path);
  free(storage->file);
  lac_free(storage);
}
