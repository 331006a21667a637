/* --log-view: where time, messages and bytes went. */
#ifndef LACONIC_CLI_LOG_VIEW_H
#define LACONIC_CLI_LOG_VIEW_H

#include "cli/session.h"

/* A table on stderr of the profile's events, those of this process. */
void lac_log_view_print(lac_session *session);

#endif
