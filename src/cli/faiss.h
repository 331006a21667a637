/* What a FAISS index file says of itself: enough for `laconic info`. */
#ifndef LACONIC_CLI_FAISS_H
#define LACONIC_CLI_FAISS_H

#include "cli/session.h"

typedef struct lac_faiss_about {
  char index[5]; /* the four characters that the file begins with */
  bool binary;   /* an index of codes, its columns are bits */
  bool trained;
  int64_t rows, columns;
  int64_t bits;   /* of the codes behind a linear transform, 0 when unknown */
  char what[128]; /* in words */
} lac_faiss_about;

/* Whether the file begins with the mark of a FAISS index. */
bool lac_faiss_recognise(const char *path);

/* Reads the header, and the chain behind a pre-transform as far as it is known. Errors: INPUT. */
LAC_MUST_USE lac_status lac_faiss_describe(lac_session *session, const char *path, lac_faiss_about *about);

#endif
