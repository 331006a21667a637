#include "cli/commands.h"

const lac_command *const lac_commands[] = {
    &lac_command_hash_export, &lac_command_info, &lac_command_help, &lac_command_man, &lac_command_completion, NULL,
};
