/* The list of commands, in the order of the overview; each is described in the file of its name. */
#ifndef LACONIC_CLI_COMMANDS_H
#define LACONIC_CLI_COMMANDS_H

#include "cli/command.h"

#define LAC_COMMAND_LIST(X) \
  X(train)                  \
  X(compare)                \
  X(mix)                    \
  X(eval)                   \
  X(predict)                \
  X(export)                 \
  X(hash_train)             \
  X(hash_encode)            \
  X(hash_search)            \
  X(hash_eval)              \
  X(hash_export)            \
  X(plan_hash)              \
  X(plan_train)             \
  X(plan_calibrate)         \
  X(info)                   \
  X(help)                   \
  X(man)                    \
  X(completion)

#define LAC_COMMAND_DECLARE(name) extern const lac_command lac_command_##name;
LAC_COMMAND_LIST(LAC_COMMAND_DECLARE)
#undef LAC_COMMAND_DECLARE

#endif
