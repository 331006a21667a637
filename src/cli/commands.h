/* Every command's description, each defined in the file of its name. */
#ifndef LACONIC_CLI_COMMANDS_H
#define LACONIC_CLI_COMMANDS_H

#include "cli/command.h"

extern const lac_command lac_command_hash_encode;
extern const lac_command lac_command_hash_search;
extern const lac_command lac_command_hash_export;
extern const lac_command lac_command_info;
extern const lac_command lac_command_help;
extern const lac_command lac_command_man;
extern const lac_command lac_command_completion;

#endif
