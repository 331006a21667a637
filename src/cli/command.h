/* A command of the program: everything that parsing, help, the man page and completion need to know of it. */
#ifndef LACONIC_CLI_COMMAND_H
#define LACONIC_CLI_COMMAND_H

#include "cli/session.h"

/* One module's options within a command's options struct. */
typedef struct lac_option_group {
  const char *title;                /* heading in --help; NULL ends a command's groups */
  const lac_option *own;            /* the command's own table, or */
  const lac_option *(*table)(void); /* a module's */
  size_t offset;                    /* of the module's struct in the command's */
} lac_option_group;

/* A group's options. */
const lac_option *lac_group_options(const lac_option_group *group);

/* The first member of every command's options struct. */
typedef struct lac_common_options {
  bool json, quiet, verbose, log_view, help;
} lac_common_options;

extern const lac_option lac_common_option_table[];

typedef struct lac_command {
  const char *name;        /* its words: "hash train" */
  const char *operands;    /* as in the usage line: "BASE -o MODEL" */
  int least, most;         /* number of operands; most -1: any */
  const char *summary;     /* one line */
  const char *description; /* paragraphs, a blank line between them */
  const char *example;     /* command lines, one a line */
  const lac_option_group *groups;
  size_t options_size;
  bool on_ranks;     /* may be started as several ranks by an MPI launcher */
  bool stops_softly; /* looks at session->stop: the first signal sets it, the second interrupts */
  /* NULL, or: replaces `options`, as parsed, by options that are stored somewhere, and says so; what the command line
   * says is then set once more on top of them. */
  lac_status (*recall)(lac_session *session, void *options, bool *recalled);
  lac_status (*run)(lac_session *session, const void *options, char *const *operands, int count);
} lac_command;

/* The commands, in the order of the overview, ending with NULL. A new one is a file of its own and a line in
 * commands.h. */
extern const lac_command *const lac_commands[];

#endif
