#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/option_text.h"

/* Text in roff: backslashes and dashes escaped, no line that could be taken for a request. */
static void roff_text(FILE *out, const char *text, size_t length) {
  bool line_begins = true;
  for (size_t i = 0; i < length; i++) {
    char c = text[i];
    if (line_begins && (c == '.' || c == '\'')) {
      fputs("\\&", out);
    }
    if (c == '\\') {
      fputs("\\e", out);
    } else if (c == '-') {
      fputs("\\-", out);
    } else {
      fputc(c, out);
    }
    line_begins = c == '\n';
  }
}

static void roff(FILE *out, const char *text) {
  roff_text(out, text, strlen(text));
}

static void roff_heading(FILE *out, const char *request, const char *title) {
  fprintf(out, "%s \"", request);
  roff(out, title);
  fputs("\"\n", out);
}

static void roff_paragraphs(FILE *out, const char *text) {
  while (*text) {
    const char *end = strstr(text, "\n\n");
    size_t length = end ? (size_t)(end - text) : strlen(text);
    fputs(".PP\n", out);
    roff_text(out, text, length);
    fputc('\n', out);
    text += length + (end ? 2 : 0);
  }
}

static void roff_option(FILE *out, const lac_option *option) {
  char label[128], help[1024];
  lac_option_label(option, label, sizeof label);
  lac_option_help(option, help, sizeof help);
  size_t key = strcspn(label, " ");
  fputs(".TP\n", out);
  if (option->letter) {
    fprintf(out, "\\fB\\-%c\\fR, ", option->letter);
  }
  fputs("\\fB", out);
  roff_text(out, label, key);
  fputs("\\fR", out);
  if (label[key]) {
    fputs(" \\fI", out);
    roff(out, label + key + 1);
    fputs("\\fR", out);
  }
  fputc('\n', out);
  roff(out, help);
  fputc('\n', out);
}

static void roff_options(FILE *out, const lac_option *table) {
  for (const lac_option *option = table; option->key; option++) {
    roff_option(out, option);
  }
}

static void roff_command(FILE *out, const lac_command *command) {
  char usage[256];
  lac_command_usage(command, usage, sizeof usage);
  roff_heading(out, ".SS", usage);
  roff_paragraphs(out, command->description);
  for (int i = 0; command->groups[i].title; i++) {
    roff_options(out, lac_group_options(&command->groups[i]));
  }
}

static void roff_examples(FILE *out) {
  fputs(".SH EXAMPLES\n.nf\n", out);
  for (int i = 0; lac_commands[i]; i++) {
    if (lac_commands[i]->example) {
      roff(out, lac_commands[i]->example);
      fputc('\n', out);
    }
  }
  fputs(".fi\n", out);
}

static lac_status run_man(lac_session *session, const void *options, char *const *operands, int count) {
  (void)options, (void)operands, (void)count;
  if (session->silent) {
    return LAC_OK;
  }
  FILE *out = stdout;
  fprintf(out, ".TH LACONIC 1 \"\" \"laconic %s\" \"User Commands\"\n", lac_version());
  fputs(".SH NAME\nlaconic \\- learns compact models of data that stay where they are\n", out);
  fputs(".SH SYNOPSIS\n\\fBlaconic\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH COMMANDS\n", out);
  for (int i = 0; lac_commands[i]; i++) {
    roff_command(out, lac_commands[i]);
  }
  fputs(".SH \"COMMON OPTIONS\"\n", out);
  roff_options(out, lac_common_option_table);
  fputs(
      ".SH \"EXIT STATUS\"\n"
      ".TP\n0\nsuccess\n"
      ".TP\n1\na failure during the work\n"
      ".TP\n2\nbad usage, or bad input found before the work\n"
      ".TP\n130\ninterrupted; the best model so far was saved\n",
      out);
  roff_examples(out);
  return LAC_OK;
}

static const lac_option_group no_groups[] = {{0}};

const lac_command lac_command_man = {
    .name = "man",
    .operands = "",
    .summary = "print the manual page, in roff",
    .description = "Prints the manual page of the program, made from the same tables as --help. Read it with man -l.",
    .example = "laconic man > laconic.1",
    .groups = no_groups,
    .options_size = sizeof(lac_common_options),
    .on_ranks = true,
    .run = run_man,
};
