/* Packed codes as the commands need them: encoded from vectors, or taken from a file of codes. */
#ifndef LACONIC_CLI_CODES_H
#define LACONIC_CLI_CODES_H

#include "cli/session.h"

typedef struct lac_codes {
  const uint8_t *codes; /* (rows, ceil(bits / 8)) */
  int64_t rows;
  void *owned;          /* their memory when they are not a mapping */
  lac_dataset *mapping; /* the file that they are mapped from */
} lac_codes;

/* Bytes of a code. */
int64_t lac_code_bytes(int64_t bits);

/* Encodes all rows, with progress. `what` says on the progress line what is going on. Errors: those of lac_hash_encode.
 */
LAC_MUST_USE lac_status lac_codes_encode(lac_session *session, const lac_hash *model, const lac_dataset *dataset,
                                         int64_t threads, const char *what, lac_codes *codes);

/* Whether a dataset can be codes of `bits` bits: unsigned bytes, as many columns as such a code has. */
bool lac_codes_fit(const lac_dataset *dataset, int64_t bits);

/* Takes a dataset that fits as codes; keeps its mapping where the rows are adjacent. *dataset becomes NULL. Errors:
 * INPUT when a padding bit is set, MEMORY, IO. */
LAC_MUST_USE lac_status lac_codes_take(lac_session *session, lac_dataset **dataset, int64_t bits, lac_codes *codes);

void lac_codes_clear(lac_codes *codes);

#endif
