#include "hash/codes.h"

#include "base/memory.h"

void lac_pad_bias(const float *bias, int64_t bits, float *padded) {
  for (int64_t l = 0; l < (bits + 7) / 8 * 8; l++) {
    padded[l] = l < bits ? bias[l] : -1;
  }
}

lac_status lac_encoding_create(lac_context *context, const float *weight, const float *bias, int64_t bits,
                               int64_t padded, lac_encoding *encoding) {
  *encoding = (lac_encoding){.bits = bits, .bytes = (bits + 7) / 8, .sign = lac_sign_kernel_of(lac_cpu_isa())};
  lac_status status = LAC_NEW(context, 8 * encoding->bytes, &encoding->bias);
  if (!status) {
    status = lac_factor_create(context, lac_cpu_isa(), weight, bits, padded, &encoding->factor);
  }
  if (status) {
    lac_encoding_clear(encoding);
    return status;
  }
  lac_pad_bias(bias, bits, encoding->bias);
  return LAC_OK;
}

void lac_encoding_clear(lac_encoding *encoding) {
  lac_factor_destroy(&encoding->factor);
  lac_free(encoding->bias);
  encoding->bias = NULL;
}

void lac_encoding_run(const lac_encoding *encoding, const float *x, int64_t n, float *scratch, uint8_t *codes) {
  lac_factor_product(encoding->factor, x, n, scratch);
  for (int64_t i = 0; i < n; i++) {
    (void)encoding->sign(scratch + i * lac_factor_width(encoding->factor), encoding->bias, encoding->bytes,
                         codes + i * encoding->bytes);
  }
}
