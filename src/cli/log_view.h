/* --log-view: where time, messages and bytes went. */
#ifndef LACONIC_CLI_LOG_VIEW_H
#define LACONIC_CLI_LOG_VIEW_H

#include "cli/session.h"

/* A table on stderr of the profile's events: sums over all processes, and how the seconds spread over these. Collective
 * over the ranks of an MPI job. Errors: MEMORY and those of a world. */
LAC_MUST_USE lac_status lac_log_view_print(lac_session *session);

#endif
