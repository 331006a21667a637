#include "cli/help.h"

#include <string.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/option_text.h"

enum { WIDTH = 80, OPTION_COLUMN = 26, SUMMARY_COLUMN = 20 };

/* Writes words, wrapped; the cursor stands at column `at`, further lines are indented by `indent`. */
static void wrap(FILE *out, const char *text, int at, int indent) {
  bool fresh = true;
  while (*text) {
    text += strspn(text, " ");
    int length = (int)strcspn(text, " ");
    if (length && !fresh && at + 1 + length > WIDTH) {
      fprintf(out, "\n%*s", indent, "");
      at = indent;
      fresh = true;
    }
    fprintf(out, "%s%.*s", fresh || !length ? "" : " ", length, text);
    at += length + !fresh;
    fresh = false;
    text += length;
  }
  fputc('\n', out);
}

/* Paragraphs, a blank line between them. */
static void wrap_paragraphs(FILE *out, const char *text) {
  while (*text) {
    const char *end = strstr(text, "\n\n");
    int length = end ? (int)(end - text) : (int)strlen(text);
    char paragraph[1024];
    snprintf(paragraph, sizeof paragraph, "%.*s", length, text);
    wrap(out, paragraph, 0, 0);
    fputc('\n', out);
    text += length + (end ? 2 : 0);
  }
}

static void help_option(FILE *out, const lac_option *option) {
  char label[128], help[1024];
  lac_option_label(option, label, sizeof label);
  lac_option_help(option, help, sizeof help);
  int at = fprintf(out, "  %c%c%s%s", option->letter ? '-' : ' ', option->letter ? option->letter : ' ',
                   option->letter ? ", " : "  ", label);
  if (at > OPTION_COLUMN - 2) {
    fputc('\n', out);
    at = 0;
  }
  fprintf(out, "%*s", OPTION_COLUMN - at, "");
  wrap(out, help, OPTION_COLUMN, OPTION_COLUMN);
}

static void help_examples(FILE *out, const char *example) {
  if (!example) {
    return;
  }
  fputs("\nExamples:\n", out);
  while (*example) {
    int length = (int)strcspn(example, "\n");
    fprintf(out, "  %.*s\n", length, example);
    example += length + (example[length] == '\n');
  }
}

void lac_help_command(FILE *out, const lac_command *command) {
  char usage[256];
  lac_command_usage(command, usage, sizeof usage);
  fprintf(out, "Usage: %s\n\n", usage);
  wrap_paragraphs(out, command->description);
  const lac_option_group *group;
  for (int i = 0; (group = lac_command_group(command, i)); i++) {
    fprintf(out, "%s%s:\n", i ? "\n" : "", group->title);
    for (const lac_option *option = lac_group_options(group); option->key; option++) {
      help_option(out, option);
    }
  }
  help_examples(out, command->example);
}

int lac_help_overview(FILE *out, const char *prefix) {
  int count = 0;
  size_t length = strlen(prefix);
  for (int i = 0; lac_commands[i]; i++) {
    const char *name = lac_commands[i]->name;
    if (strncmp(name, prefix, length) == 0 && (!length || name[length] == ' ')) {
      fprintf(out, "  %-*s", SUMMARY_COLUMN - 2, name);
      wrap(out, lac_commands[i]->summary, SUMMARY_COLUMN, SUMMARY_COLUMN);
      count++;
    }
  }
  return count;
}

/* ---- laconic help ----------------------------------------------------------------------------------------------- */

static lac_status run_help(lac_session *session, const void *options, char *const *operands, int count) {
  (void)options;
  if (session->silent) {
    return LAC_OK;
  }
  if (count == 0) {
    fputs("Usage: laconic COMMAND [OPTION]...\n\n", stdout);
    wrap(stdout, "Learns compact models of data that stay where they are.", 0, 0);
    fputs("\nCommands:\n", stdout);
    lac_help_overview(stdout, "");
    fputs("\nlaconic COMMAND --help tells more of one; laconic --version prints the version.\n", stdout);
    return LAC_OK;
  }
  int words;
  const lac_command *command = lac_command_find(count, operands, &words);
  if (command && words == count) {
    lac_help_command(stdout, command);
    return LAC_OK;
  }
  if (count == 1 && lac_help_overview(stdout, operands[0]) > 0) {
    return LAC_OK;
  }
  return lac_fail(session->context, LAC_E_USAGE, "help: there is no command '%s%s%s'; see laconic help", operands[0],
                  count > 1 ? " " : "", count > 1 ? operands[1] : "");
}

static const lac_option_group no_groups[] = {{0}};

const lac_command lac_command_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .most = 2,
    .summary = "print the list of commands, or the help of one",
    .description = "Prints the list of commands, or the help of the named one.",
    .groups = no_groups,
    .options_size = sizeof(lac_common_options),
    .on_ranks = true,
    .run = run_help,
};
