/* Status of a call: one table gives the enumeration, the names and the texts. */
#ifndef LACONIC_STATUS_H
#define LACONIC_STATUS_H

#if defined(__GNUC__)
#define LAC_API __attribute__((visibility("default")))
#define LAC_MUST_USE __attribute__((warn_unused_result))
#define LAC_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define LAC_API
#define LAC_MUST_USE
#define LAC_PRINTF(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(symbol, exit status of the command line, text) */
#define LAC_STATUS_TABLE(X)                                                   \
  X(LAC_OK, 0, "success")                                                     \
  X(LAC_E_USAGE, 2, "an argument or option is not valid")                     \
  X(LAC_E_INPUT, 2, "an input is missing, damaged or does not fit")           \
  X(LAC_E_OUTPUT, 2, "an output cannot be written there")                     \
  X(LAC_E_UNSUPPORTED, 2, "this build or machine does not have that feature") \
  X(LAC_E_IO, 1, "reading or writing failed during the work")                 \
  X(LAC_E_MEMORY, 1, "memory could not be allocated")                         \
  X(LAC_E_TIMEOUT, 1, "a worker did not answer before the deadline")          \
  X(LAC_E_PEER, 1, "another worker failed or broke the protocol")             \
  X(LAC_E_NUMERICAL, 1, "a computation did not converge or left the reals")   \
  X(LAC_E_INTERNAL, 1, "an invariant of the library does not hold")           \
  X(LAC_E_INTERRUPTED, 130, "the work was interrupted")

typedef enum lac_status {
#define LAC_STATUS_SYMBOL(symbol, exit_status, text) symbol,
  LAC_STATUS_TABLE(LAC_STATUS_SYMBOL)
#undef LAC_STATUS_SYMBOL
} lac_status;

/* "LAC_E_INPUT" and so on; "LAC_E_INTERNAL" for a value outside the table. Local. */
LAC_API const char *lac_status_name(lac_status status);

/* The general text of a status. What happened in particular is in lac_context_message. Local. */
LAC_API const char *lac_status_text(lac_status status);

/* The exit status that the command line gives for it: 0, 1, 2 or 130. Local. */
LAC_API int lac_status_exit(lac_status status);

#ifdef __cplusplus
}
#endif
#endif
