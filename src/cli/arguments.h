/* From argv to a filled options struct. */
#ifndef LACONIC_CLI_ARGUMENTS_H
#define LACONIC_CLI_ARGUMENTS_H

#include "cli/command.h"

typedef struct lac_arguments {
  const lac_command *command;
  void *options;   /* the command's struct, options_size bytes */
  char **operands; /* borrowed texts of argv */
  int count;
} lac_arguments;

/* Finds the command whose words argv[0..argc) begins with; *words is how many. NULL when there is none. */
const lac_command *lac_command_find(int argc, char *const *argv, int *words);

/* Parses what follows the command's words: --key value, --key=value, -k value, -kvalue, flags with --no-KEY, `--`
 * before operands that begin with a dash. Stops at --help and then leaves the operands unchecked. Errors: USAGE naming
 * the option, MEMORY. */
LAC_MUST_USE lac_status lac_arguments_parse(lac_session *session, const lac_command *command, int argc, char **argv,
                                            lac_arguments *arguments);
void lac_arguments_clear(lac_arguments *arguments);

/* Group `index` of a command: its own, then the common one, then NULL. */
const lac_option_group *lac_command_group(const lac_command *command, int index);

/* The one of `count` texts that is nearest to `text` in edits; NULL when none is near enough to be what was meant. */
const char *lac_nearest(const char *text, const char *const *texts, int count);

/* "laconic hash train BASE -o MODEL [OPTION]..." into usage[0..bytes). */
void lac_command_usage(const lac_command *command, char *usage, size_t bytes);

/* Reads "50,100,1000": 1 to `limit` whole numbers of at least 1 into values; *count is how many. `key` names the option
 * in the message. Errors: USAGE. */
LAC_MUST_USE lac_status lac_parse_list(lac_session *session, const char *key, const char *text, int limit,
                                       int64_t *values, int *count);

/* Reads "1,1,0.5": exactly `count` numbers above 0. Errors: USAGE. */
LAC_MUST_USE lac_status lac_parse_reals(lac_session *session, const char *key, const char *text, int count,
                                        double *values);

#endif
