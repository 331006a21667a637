/* A file format: how it is recognised and how its header becomes a layout. One file per family of formats; the table is
 * in dataset.c. */
#ifndef LACONIC_DATA_FORMAT_H
#define LACONIC_DATA_FORMAT_H

#include "base/memory.h"
#include "data/storage.h"
#include "laconic/dataset.h"

enum { LAC_AXES = 8 };

/* The view that a reader fills. A row's values stand at values + row * row_stride, its columns adjacent or at
 * storage->column_offsets; or values is NULL and storage->ops reads. */
struct lac_dataset {
  lac_storage *storage;
  const char *format;
  lac_type type;
  bool swapped;      /* big-endian elements */
  bool records;      /* vecs: 4 bytes before each row repeat D, and are checked when the row is read */
  int axes;          /* of the file's array */
  int64_t shape[8];  /* (N, …) */
  int64_t rows;      /* N */
  int64_t columns;   /* D */
  int64_t first_row; /* of a slice, in its file: messages name the file's rows */
  const uint8_t *values;
  int64_t row_stride; /* bytes */
};

typedef struct lac_format {
  const char *name;
  const char *const *suffixes;                      /* of file names, ending with NULL */
  bool weak;                                        /* other formats' files may begin like this: their suffix decides */
  bool parts;                                       /* FILE:PART names an array inside it */
  bool (*probe)(const uint8_t *bytes, size_t size); /* by magic number; NULL when the format has none */
  bool (*fits)(const lac_storage *storage);         /* by size, where formats share a suffix; else NULL */
  lac_status (*open)(lac_context *context, lac_dataset *dataset); /* storage and format are set */
} lac_format;

extern const lac_format lac_format_idx, lac_format_fvecs, lac_format_bvecs, lac_format_ivecs, lac_format_npy,
    lac_format_fbin, lac_format_u8bin, lac_format_cifar10, lac_format_cifar100, lac_format_csv, lac_format_hdf5;

/* Sets axes, shape, rows, columns and the number of values' bytes after checking that no axis is 0, that there are 1 to
 * 8 and that the product is in range. `offset` is where the file states the shape. Errors: INPUT. */
LAC_MUST_USE lac_status lac_layout_shape(lac_context *context, lac_dataset *dataset, size_t offset, int axes,
                                         const int64_t *shape, int64_t *bytes);

/* Lets the values begin at `offset`, rows adjacent, after checking that `bytes` are what the file has left. Errors:
 * INPUT. */
LAC_MUST_USE lac_status lac_layout_values(lac_context *context, lac_dataset *dataset, size_t offset, int64_t bytes);

/* That the file has at least `size` bytes for `what`. Errors: INPUT. */
LAC_MUST_USE lac_status lac_storage_need(lac_context *context, const lac_storage *storage, size_t size,
                                         const char *what);

/* lac_dataset_open over bytes in memory, which must outlive the dataset; `name` stands for the path. */
LAC_MUST_USE lac_status lac_dataset_open_memory(lac_context *context, const char *name, const void *bytes, size_t size,
                                                const char *format, lac_dataset **dataset);

/* Reads rows as they are, in native byte order and adjacent (count, D), or as float64. Errors: as
 * lac_dataset_read_f32. */
LAC_MUST_USE lac_status lac_dataset_read_native(lac_context *context, const lac_dataset *dataset, int64_t first,
                                                int64_t count, void *out);
LAC_MUST_USE lac_status lac_dataset_read_f64(lac_context *context, const lac_dataset *dataset, int64_t first,
                                             int64_t count, double *out);

/* That rows [first, first + count), which the caller is about to use in place, can be read: the file is as long as it
 * was and each record's dimension is D. Errors: IO, INPUT. */
LAC_MUST_USE lac_status lac_dataset_check_rows(lac_context *context, const lac_dataset *dataset, int64_t first,
                                               int64_t count);

/* Rows that make a block of about 256 KiB of float64, at least 1. */
int64_t lac_dataset_block(const lac_dataset *dataset);

#endif
