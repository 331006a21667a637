/* What commands that train a network, or say how long that would take, share. */
#ifndef LACONIC_CLI_NETWORK_H
#define LACONIC_CLI_NETWORK_H

#include "cli/session.h"

/* The description of a network that the command line names: a built-in, its width multiplied, or a file; *layers is
 * malloc'ed, the caller's. Errors: INPUT, USAGE, MEMORY. */
LAC_MUST_USE lac_status lac_network_read(lac_session *session, const char *model, double width, char **layers);

/* The mixing time of an exchange where finding it takes seconds at most; else, and for one worker, NaN, kind
 * LAC_MIXING_AUTO or that which it would be. Errors: those of lac_replica_process and lac_mixing_time_of. */
LAC_MUST_USE lac_status lac_mixing_foretell(lac_context *context, const lac_replica_options *options, int workers,
                                            lac_mixing_time *time);

#endif
