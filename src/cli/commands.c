#include "cli/commands.h"

const lac_command *const lac_commands[] = {
#define LAC_COMMAND_ADDRESS(name) &lac_command_##name,
    LAC_COMMAND_LIST(LAC_COMMAND_ADDRESS)
#undef LAC_COMMAND_ADDRESS
        NULL,
};
