/* A dataset: the rows of one file as an (N, D) array of numbers.
 *
 * Uncompressed formats are mapped and never read whole; bytes stay bytes until a block of rows is asked for. Sizes in
 * headers are checked against the file before anything is allocated. Formats: IDX (also gzipped), CIFAR-10/100 binary,
 * fvecs, bvecs, ivecs, npy, HDF5, fbin, u8bin, CSV. A dataset is immutable and may be read by several threads at once.
 */
#ifndef LACONIC_DATASET_H
#define LACONIC_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "laconic/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lac_dataset lac_dataset;

typedef enum lac_type { LAC_U8, LAC_I32, LAC_F16, LAC_F32, LAC_F64, LAC_I64, LAC_I8, LAC_I16 } lac_type;

/* "u8", "i32", …, and bytes per element. Local. */
LAC_API const char *lac_type_name(lac_type type);
LAC_API size_t lac_type_size(lac_type type);

/* Opens a file. `path` may end in :NAME for a dataset inside an HDF5 file (default: train, else the only one). `format`
 * is one of lac_dataset_formats or NULL: recognised by content where there is a magic number, else by extension, with
 * the sizes checked against the file. Errors: INPUT (file, offset, found, expected), USAGE for an unknown format,
 * MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_open(lac_context *context, const char *path, const char *format,
                                                 lac_dataset **dataset);

/* The names that `format` takes, ending with NULL. Borrowed. Local. */
LAC_API const char *const *lac_dataset_formats(void);

/* A dataset over the caller's memory: `rows` rows of `columns` elements in native byte order, `stride` bytes apart.
 * Borrowed: the memory must outlive the dataset. Errors: USAGE, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_borrow(lac_context *context, const void *memory, lac_type type,
                                                   int64_t rows, int64_t columns, size_t stride, lac_dataset **dataset);

/* Rows [first, first + count) of another dataset as a dataset of its own, sharing the mapping (counted references, so
 * that the order of destruction does not matter). Errors: USAGE, MEMORY. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_slice(lac_context *context, const lac_dataset *whole, int64_t first,
                                                  int64_t count, lac_dataset **dataset);

/* Destroys and nulls; takes NULL. Local. */
LAC_API void lac_dataset_destroy(lac_dataset **dataset);

/* Local. */
LAC_API int64_t lac_dataset_rows(const lac_dataset *dataset);
LAC_API int64_t lac_dataset_columns(const lac_dataset *dataset);
LAC_API lac_type lac_dataset_type(const lac_dataset *dataset);
LAC_API const char *lac_dataset_format(const lac_dataset *dataset); /* borrowed */
LAC_API const char *lac_dataset_path(const lac_dataset *dataset);   /* borrowed; "(memory)" for a borrowed one */

/* Which row of its file row 0 of a slice is, so that messages can name the file's rows; 0 for a whole file. Local. */
LAC_API int64_t lac_dataset_first_row(const lac_dataset *dataset);

/* Axes beyond (rows, columns) as the file gave them, for example 60000 x 28 x 28: the number of axes, sizes in
 * shape[0..7]. Local. */
LAC_API int lac_dataset_shape(const lac_dataset *dataset, int64_t shape[8]);

/* Copies rows [first, first + count) as float32 into out (count, D). Values of other types are converted, not scaled; a
 * value beyond float32's range becomes infinite. Errors: USAGE for rows outside, INPUT when a record of a vecs file has
 * another dimension, IO when the file cannot be read any more. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_read_f32(lac_context *context, const lac_dataset *dataset, int64_t first,
                                                     int64_t count, float *out);

/* The same for int32, for ivecs truths and label files: INPUT when a value is no integer in int32's range. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_read_i32(lac_context *context, const lac_dataset *dataset, int64_t first,
                                                     int64_t count, int32_t *out);

/* When the rows are unsigned bytes in memory or in a mapping: the address of row 0 (the columns of a row are adjacent)
 * and the bytes from row to row; NULL otherwise. Borrowed. This is the path of the hot loops: nothing is checked on it,
 * so a pass of lac_dataset_range comes first. Local. */
LAC_API const uint8_t *lac_dataset_bytes(const lac_dataset *dataset, size_t *stride);

/* One pass over all values: smallest and largest, and the first value that is not finite, if any. Read in blocks; costs
 * a pass over the file. Both are those of the finite values, NaN if there is none; `bad_row` is -1 when every value is
 * finite. Errors: INPUT (as reading), IO, MEMORY, INTERRUPTED. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_range(lac_context *context, const lac_dataset *dataset, double *low,
                                                  double *high, int64_t *bad_row, int64_t *bad_column);

/* The same, but a value that is not finite is an INPUT error that names file, row and column. low and high may be NULL.
 */
LAC_API LAC_MUST_USE lac_status lac_dataset_check(lac_context *context, const lac_dataset *dataset, double *low,
                                                  double *high);

/* Mean over points of |x - mean|^2: the total variance that e_ba is relative to. Two passes, in float64, or exact sums
 * for bytes; does not depend on the number of threads. Errors: as lac_dataset_range. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_variance(lac_context *context, const lac_dataset *dataset, int64_t threads,
                                                     double *variance);

/* 64-bit fingerprint of rows, columns, type and values: equal for equal arrays whatever the format and the byte order.
 * One pass. Errors: as lac_dataset_range. Local. */
LAC_API LAC_MUST_USE lac_status lac_dataset_fingerprint(lac_context *context, const lac_dataset *dataset,
                                                        uint64_t *fingerprint);

/* Writes a whole array of (rows, columns) in native order as NAME.npy (any type), .ivecs (I32), .fvecs
 * (F32) or .bvecs (U8), by extension; beside the target first, renamed when complete. Errors: USAGE, OUTPUT, IO. Local.
 */
LAC_API LAC_MUST_USE lac_status lac_array_write(lac_context *context, const char *path, lac_type type,
                                                const void *values, int64_t rows, int64_t columns);

/* Whether lac_array_write would take that name and type and could write there. Changes nothing. Errors: USAGE, OUTPUT.
 * Local. */
LAC_API LAC_MUST_USE lac_status lac_array_check(lac_context *context, const char *path, lac_type type);

/* The same array piece by piece, for what need not be in memory at once. Rows are appended in order, (n, columns)
 * values at a time; the file appears when all are there and the writer is finished. Finish and discard destroy and
 * null, discard takes NULL and leaves nothing behind. Errors: as lac_array_write, USAGE for too many or too few rows.
 * Local. */
typedef struct lac_array_writer lac_array_writer;
LAC_API LAC_MUST_USE lac_status lac_array_create(lac_context *context, const char *path, lac_type type, int64_t rows,
                                                 int64_t columns, lac_array_writer **writer);
LAC_API LAC_MUST_USE lac_status lac_array_append(lac_context *context, lac_array_writer *writer, const void *values,
                                                 int64_t rows);
LAC_API LAC_MUST_USE lac_status lac_array_finish(lac_context *context, lac_array_writer **writer);
LAC_API void lac_array_discard(lac_array_writer **writer);

#ifdef __cplusplus
}
#endif
#endif
