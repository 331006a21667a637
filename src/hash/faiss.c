/* Index files of FAISS 1.7.3, byte by byte: little-endian fields without padding, a vector as its length (u64) and its
 * elements. */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "hash/model.h"
#include "laconic/output.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fields are written as they are in memory");

enum { METRIC_L2 = 1, FILLER = 1 << 20 };

/* A file that is being written; the first failure stays and stops the rest. */
typedef struct lac_faiss_file {
  lac_context *context;
  lac_output output;
  lac_status status;
} lac_faiss_file;

static void put(lac_faiss_file *file, const void *data, size_t bytes) {
  if (!file->status) {
    file->status = lac_output_write(file->context, &file->output, data, bytes);
  }
}

static void put_kind(lac_faiss_file *file, const char kind[4]) {
  put(file, kind, 4);
}

static void put_bool(lac_faiss_file *file, bool value) {
  put(file, &(uint8_t){value}, 1);
}

static void put_int(lac_faiss_file *file, int64_t value) {
  put(file, &(int32_t){(int32_t)value}, 4);
}

static void put_long(lac_faiss_file *file, int64_t value) {
  put(file, &value, 8);
}

static void put_vector(lac_faiss_file *file, const void *elements, int64_t count, size_t size) {
  put_long(file, count);
  put(file, elements, (size_t)count * size);
}

/* Every index begins so: dimension, vectors, two fillers, trained, metric. */
static void put_index_head(lac_faiss_file *file, int64_t dimension) {
  put_int(file, dimension);
  put_long(file, 0);
  put_long(file, FILLER);
  put_long(file, FILLER);
  put_bool(file, true);
  put_int(file, METRIC_L2);
}

/* What every linear transform has: bias, weight (d_out, d_in), dimensions, trained. */
static void put_transform(lac_faiss_file *file, const float *weight, const float *bias, int64_t d_in, int64_t d_out) {
  put_bool(file, bias != NULL);
  put_vector(file, weight, weight ? d_in * d_out : 0, sizeof *weight);
  put_vector(file, bias, bias ? d_out : 0, sizeof *bias);
  put_int(file, d_in);
  put_int(file, d_out);
  put_bool(file, weight != NULL);
}

/* IndexLSH of L dimensions and L bits, without rotation and thresholds: bit l is the sign of coordinate l. */
static void put_lsh(lac_faiss_file *file, int64_t bits) {
  put_kind(file, "IxHe");
  put_index_head(file, bits);
  put_int(file, bits);
  put_bool(file, false); /* rotate_data */
  put_bool(file, false); /* train_thresholds */
  put_vector(file, NULL, 0, sizeof(float));
  put_int(file, (bits + 7) / 8);
  put_kind(file, "rrot"); /* a rotation is there in any case, untrained */
  put_transform(file, NULL, NULL, bits, bits);
  put_vector(file, NULL, 0, 1); /* codes */
}

static lac_status finish(lac_faiss_file *file) {
  if (file->status) {
    lac_output_discard(&file->output);
    return file->status;
  }
  return lac_output_commit(file->context, &file->output);
}

/* FAISS counts dimensions in int. */
static lac_status check_int(lac_context *context, const char *path, const char *what, int64_t value) {
  return value <= INT32_MAX ? LAC_OK
                            : lac_fail(context, LAC_E_UNSUPPORTED, "%s: found %" PRId64 " %s, FAISS takes at most %d",
                                       path, value, what, INT32_MAX);
}

lac_status lac_faiss_write_encoder(lac_context *context, const lac_hash *model, const char *path) {
  if (model->encoder != LAC_ENCODER_LINEAR) {
    return lac_fail(context, LAC_E_UNSUPPORTED,
                    "%s: found an RBF encoder, expected a linear one: FAISS has no such transform; its codes can be "
                    "exported as a binary index",
                    path);
  }
  LAC_TRY(check_int(context, path, "columns", model->columns));
  lac_faiss_file file = {.context = context};
  LAC_TRY(lac_output_open(context, path, &file.output));
  put_kind(&file, "IxPT");
  put_index_head(&file, model->columns);
  put_int(&file, 1); /* transforms before the index */
  put_kind(&file, "LTra");
  put_transform(&file, model->weight, model->bias, model->columns, model->bits);
  put_lsh(&file, model->bits);
  return finish(&file);
}

lac_status lac_faiss_write_binary(lac_context *context, const uint8_t *codes, int64_t rows, int64_t bits,
                                  const char *path) {
  if (bits < 8 || bits % 8 != 0) {
    return lac_fail(context, LAC_E_USAGE,
                    "%s: found %" PRId64 " bits, expected a multiple of 8 for a FAISS binary index", path, bits);
  }
  LAC_TRY(check_int(context, path, "bits", bits));
  lac_faiss_file file = {.context = context};
  LAC_TRY(lac_output_open(context, path, &file.output));
  put_kind(&file, "IBxF");
  put_int(&file, bits);
  put_int(&file, bits / 8);
  put_long(&file, rows);
  put_bool(&file, true);
  put_int(&file, METRIC_L2);
  put_vector(&file, codes, rows * (bits / 8), 1);
  return finish(&file);
}
