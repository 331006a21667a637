/* The bytes that datasets read from: a mapped file, an inflated one, or the caller's memory; with counted references,
 * so that a dataset and its slices may be destroyed in any order. */
#ifndef LACONIC_DATA_STORAGE_H
#define LACONIC_DATA_STORAGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "laconic/context.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the readers map little-endian files as they are: a big-endian host is not supported"
#endif

/* Rows that cannot be mapped (chunked or compressed inside the file) and are read on request. `read` may be called by
 * several threads and fills raw (count, D) with elements as the file has them. */
typedef struct lac_block_ops {
  lac_status (*read)(lac_context *context, void *state, int64_t first, int64_t count, void *raw);
  void (*destroy)(void *state);
} lac_block_ops;

typedef struct lac_storage {
  atomic_int references;
  char *path;           /* as the caller named it, for messages */
  char *file;           /* the path without :PART */
  const char *part;     /* of FILE:PART, else NULL */
  const uint8_t *bytes; /* the content, inflated if the file is gzipped */
  size_t size;
  int descriptor;          /* of a mapped file, else -1 */
  void *mapping;           /* of the file, else NULL */
  size_t mapped;           /* bytes of the mapping */
  void *inflated;          /* the content of a gzipped file, else NULL */
  double *parsed;          /* values of a text file, else NULL */
  int64_t *column_offsets; /* (D) bytes from a row's first value to each column's, else NULL: adjacent */
  const lac_block_ops *ops;
  void *state; /* for ops */
} lac_storage;

/* Maps a file for reading; one reference. A path FILE:PART is split where no file has the whole name. Errors: INPUT
 * when it is missing, empty, no regular file or not readable; MEMORY. */
LAC_MUST_USE lac_status lac_storage_map(lac_context *context, const char *path, lac_storage **storage);

/* The same over `size` bytes of the caller's memory, which must outlive it. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_storage_borrow(lac_context *context, const char *path, const void *bytes, size_t size,
                                           lac_storage **storage);

/* Whether the content begins like a gzip stream. */
bool lac_storage_is_gzip(const lac_storage *storage);

/* Replaces gzipped content by what it holds; all members, checksums checked. Errors: INPUT (offset), MEMORY. */
LAC_MUST_USE lac_status lac_storage_inflate(lac_context *context, lac_storage *storage);

/* Gives back the content: its values are elsewhere by now. */
void lac_storage_close(lac_storage *storage);

/* That a mapped file is still as long as it was: reading beyond its end would be a signal, not an error. Errors: IO. */
LAC_MUST_USE lac_status lac_storage_check(lac_context *context, const lac_storage *storage);

lac_storage *lac_storage_share(lac_storage *storage); /* one reference more */
void lac_storage_release(lac_storage *storage);       /* one less; the last frees; takes NULL */

#endif
