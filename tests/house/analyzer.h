/* Included before every source by tests/tidy.sh: the analyser sees one file at a time and must be told that lac_fail
 * returns the status it was given, else it follows paths on which a call both failed and succeeded. */
#include "laconic/context.h"

#define lac_fail(context, status, ...) ((void)!lac_fail((context), (status), __VA_ARGS__), (status))
