#include "cli/codes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

enum { ENCODE_ROWS = 1 << 16, COPY_ROWS = 1 << 12 };

int64_t lac_code_bytes(int64_t bits) {
  return (bits + 7) / 8;
}

static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

lac_status lac_codes_encode(lac_session *session, const lac_hash *model, const lac_dataset *dataset, int64_t threads,
                            const char *what, lac_codes *codes) {
  int64_t rows = lac_dataset_rows(dataset), width = lac_code_bytes(lac_hash_bits(model));
  *codes = (lac_codes){.rows = rows};
  CLI_TRY(lac_session_allocate(session, rows, (size_t)width, &codes->owned));
  uint8_t *out = codes->owned;
  codes->codes = out;
  lac_progress_meter meter = lac_progress_meter_begin(session, what);
  for (int64_t first = 0; first < rows; first += ENCODE_ROWS) {
    int64_t count = at_most(ENCODE_ROWS, rows - first);
    lac_status status = lac_hash_encode(session->context, model, dataset, first, count, threads, out + first * width);
    if (status) {
      lac_codes_clear(codes);
      return status;
    }
    lac_progress_meter_update(&meter, (double)(first + count) / (double)rows);
  }
  lac_progress_clear(session);
  return LAC_OK;
}

bool lac_codes_fit(const lac_dataset *dataset, int64_t bits) {
  return lac_dataset_type(dataset) == LAC_U8 && lac_dataset_columns(dataset) == lac_code_bytes(bits);
}

/* Bits beyond the code's last must be zero: they would count as distances. */
static lac_status check_padding(lac_session *session, const lac_dataset *dataset, const lac_codes *codes,
                                int64_t bits) {
  int64_t width = lac_code_bytes(bits);
  unsigned padding = bits % 8 ? 0xffu << bits % 8 & 0xffu : 0;
  for (int64_t row = 0; padding && row < codes->rows; row++) {
    uint8_t last = codes->codes[row * width + width - 1];
    if (last & padding) {
      return lac_fail(session->context, LAC_E_INPUT,
                      "%s: row %" PRId64 ": found 0x%02x in its last byte, expected codes of %" PRId64
                      " bits with zeros above",
                      lac_dataset_path(dataset), row, last, bits);
    }
  }
  return LAC_OK;
}

/* The rows as float32 and back to bytes: exact, and the one way to read bytes that are not in a mapping. */
static lac_status copy_rows(lac_session *session, const lac_dataset *dataset, int64_t width, lac_codes *codes) {
  CLI_TRY(lac_session_allocate(session, codes->rows, (size_t)width, &codes->owned));
  void *memory;
  CLI_TRY(lac_session_allocate(session, COPY_ROWS * width, sizeof(float), &memory));
  uint8_t *out = codes->owned;
  const float *block = memory;
  lac_status status = LAC_OK;
  for (int64_t first = 0; first < codes->rows && !status; first += COPY_ROWS) {
    int64_t count = at_most(COPY_ROWS, codes->rows - first);
    status = lac_dataset_read_f32(session->context, dataset, first, count, memory);
    for (int64_t i = 0; i < count * width && !status; i++) {
      out[first * width + i] = (uint8_t)block[i];
    }
  }
  free(memory);
  codes->codes = out;
  return status;
}

lac_status lac_codes_take(lac_session *session, lac_dataset **dataset, int64_t bits, lac_codes *codes) {
  int64_t width = lac_code_bytes(bits);
  *codes = (lac_codes){.rows = lac_dataset_rows(*dataset), .mapping = *dataset};
  *dataset = NULL;
  size_t stride = 0;
  const uint8_t *bytes = lac_dataset_bytes(codes->mapping, &stride);
  lac_status status = LAC_OK;
  if (bytes && stride == (size_t)width) {
    codes->codes = bytes;
  } else {
    status = copy_rows(session, codes->mapping, width, codes);
  }
  if (!status) {
    status = check_padding(session, codes->mapping, codes, bits);
  }
  if (status) {
    lac_codes_clear(codes);
  }
  return status;
}

void lac_codes_clear(lac_codes *codes) {
  free(codes->owned);
  lac_dataset_destroy(&codes->mapping);
  *codes = (lac_codes){0};
}
