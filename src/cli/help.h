/* Text made from the commands' tables: --help, the overview, the man page, shell completion. */
#ifndef LACONIC_CLI_HELP_H
#define LACONIC_CLI_HELP_H

#include <stdio.h>

#include "cli/command.h"

/* The help of one command. */
void lac_help_command(FILE *out, const lac_command *command);

/* All commands whose words begin with `prefix` ("" for all), one line each. Returns how many there are. */
int lac_help_overview(FILE *out, const char *prefix);

#endif
