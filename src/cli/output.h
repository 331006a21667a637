/* What the program prints: results on stdout, either for people or as JSON lines; everything else on stderr, one line
 * each, prefixed "laconic: ". */
#ifndef LACONIC_CLI_OUTPUT_H
#define LACONIC_CLI_OUTPUT_H

#include <jansson.h>

#include "cli/session.h"

/* Prepares the session's output and points the context's log at it. Errors: MEMORY. */
LAC_MUST_USE lac_status lac_session_open(lac_session *session);
void lac_session_close(lac_session *session);

/* Applies --json, --quiet and --verbose. */
void lac_session_set_modes(lac_session *session, bool json, bool quiet, bool verbose);

/* One line on stderr, whatever the modes; the progress line is cleared first. */
void lac_say(lac_session *session, const char *format, ...) LAC_PRINTF(2, 3);

/* Text for people on stdout: nothing with --json. */
void lac_print(lac_session *session, const char *format, ...) LAC_PRINTF(2, 3);

/* The same, but nothing with --quiet either: for what is said besides a command's result. */
void lac_print_note(lac_session *session, const char *format, ...) LAC_PRINTF(2, 3);

/* One JSON line on stdout with --json, nothing otherwise. Takes the reference; NULL stands for no memory while it was
 * built. A failure is kept for lac_print_finish. Callable from any worker. */
void lac_print_json(lac_session *session, json_t *object);

/* A JSON number, null for what is not finite. */
json_t *lac_json_real(double value);

/* A JSON string; bytes that are no UTF-8, in a file name say, become question marks. */
json_t *lac_json_text(const char *text);

/* What a JSON text holds when it is an object or an array, else the text itself. */
json_t *lac_json_nested(const char *text);

/* Flushes stdout. Errors: IO when anything printed was lost. */
LAC_MUST_USE lac_status lac_print_finish(lac_session *session);

/* "1.5 GB", decimal units. */
const char *lac_bytes_text(double bytes, char text[32]);

/* "0.82 %" of a fraction, "-" of what is no number: there is nothing to measure it on. */
const char *lac_percent_text(double fraction, char text[32]);

#endif
