#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/data_options.h"
#include "cli/option_text.h"

/* Prints the n-th word of every command that begins with the words of `prefix`, each once. */
static void print_words(FILE *out, const char *prefix) {
  size_t length = strlen(prefix);
  const char *last = "";
  size_t last_length = 0;
  for (int i = 0; lac_commands[i]; i++) {
    const char *name = lac_commands[i]->name;
    if (strncmp(name, prefix, length) != 0) {
      continue;
    }
    const char *word = name + length;
    size_t word_length = strcspn(word, " ");
    if (word_length != last_length || strncmp(word, last, word_length) != 0) {
      fprintf(out, " %.*s", (int)word_length, word);
    }
    last = word;
    last_length = word_length;
  }
}

static void print_first_words(FILE *out) {
  fputs("    '') words='", out);
  print_words(out, "");
  fputs(" --help --version' ;;\n", out);
  const char *last = "";
  size_t last_length = 0;
  for (int i = 0; lac_commands[i]; i++) {
    const char *name = lac_commands[i]->name;
    const char *space = strchr(name, ' ');
    size_t length = space ? (size_t)(space - name) : 0;
    if (space && (length != last_length || strncmp(name, last, length) != 0)) {
      char prefix[64];
      snprintf(prefix, sizeof prefix, "%.*s ", (int)length, name);
      fprintf(out, "    '%.*s') words='", (int)length, name);
      print_words(out, prefix);
      fputs("' ;;\n", out);
      last = name;
      last_length = length;
    }
  }
}

static void print_command_options(FILE *out, const lac_command *command) {
  fprintf(out, "    '%s') words='", command->name);
  const lac_option_group *group;
  for (int i = 0; (group = lac_command_group(command, i)); i++) {
    for (const lac_option *option = lac_group_options(group); option->key; option++) {
      fprintf(out, " --%s%s", lac_option_default_on(option) ? "no-" : "", option->key);
    }
  }
  fputs("' ;;\n", out);
}

/* What an option may be set to, ending with NULL; NULL when that is no list. */
static const char *const *values_of(const lac_option *option) {
  if (option->type == LAC_OPTION_NAME) {
    return option->names;
  }
  return option->unit && strcmp(option->unit, LAC_FORMAT_UNIT) == 0 ? lac_dataset_formats() : NULL;
}

static void print_option_values(FILE *out, const lac_command *command) {
  const lac_option_group *group;
  for (int i = 0; (group = lac_command_group(command, i)); i++) {
    for (const lac_option *option = lac_group_options(group); option->key; option++) {
      const char *const *values = values_of(option);
      if (values) {
        fprintf(out, "    '%s --%s') words='", command->name, option->key);
        for (int n = 0; values[n]; n++) {
          fprintf(out, " %s", values[n]);
        }
        fputs("' ;;\n", out);
      }
    }
  }
}

/* 'hash'|'hash train'|…: what the words before an option may be, groups once each. */
static void print_paths(FILE *out) {
  const char *last = "";
  size_t last_length = 0;
  for (int i = 0; lac_commands[i]; i++) {
    const char *name = lac_commands[i]->name, *space = strchr(name, ' ');
    size_t length = space ? (size_t)(space - name) : 0;
    if (space && (length != last_length || strncmp(name, last, length) != 0)) {
      fprintf(out, "%s'%.*s'", i ? "|" : "", (int)length, name);
    }
    fprintf(out, "%s'%s'", i || space ? "|" : "", name);
    last = name;
    last_length = length;
  }
}

static void print_bash(FILE *out) {
  fputs(
      "# Completion of laconic's commands, options and their values in bash: source this file.\n"
      "_laconic() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path='' words='' word\n"
      "  local before=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
      "  case $current in -*) ;; *) if [ \"${before[0]-}\" = help ]; then before=(\"${before[@]:1}\"); fi ;; esac\n"
      "  # --option=value comes as three words\n"
      "  if [ \"$previous\" = = ]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
      "  if [ \"$current\" = = ]; then current=''; fi\n"
      "  for word in ${before[@]+\"${before[@]}\"}; do\n"
      "    case $word in -*) break ;; esac\n"
      "    case \"$path${path:+ }$word\" in\n      ",
      out);
  print_paths(out);
  fputs(
      ") path=\"$path${path:+ }$word\" ;;\n"
      "      *) break ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path $previous\" in\n",
      out);
  for (int i = 0; lac_commands[i]; i++) {
    print_option_values(out, lac_commands[i]);
  }
  fputs(
      "  esac\n"
      "  if [ -z \"$words\" ]; then\n"
      "    case $current in\n"
      "    -*) case \"$path\" in\n",
      out);
  for (int i = 0; lac_commands[i]; i++) {
    print_command_options(out, lac_commands[i]);
  }
  fputs("    esac ;;\n    *) case \"$path\" in\n", out);
  print_first_words(out);
  fprintf(out, "    '%s') words='%s' ;;\n", lac_command_completion.name, lac_command_completion.operands);
  fputs(
      "    esac ;;\n"
      "    esac\n"
      "  fi\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "}\n"
      "complete -o default -F _laconic laconic\n",
      out);
}

static lac_status run_completion(lac_session *session, const void *options, char *const *operands, int count) {
  (void)options, (void)count;
  if (strcmp(operands[0], "bash") != 0) {
    return lac_fail(session->context, LAC_E_USAGE, "completion: unknown shell '%s', expected bash", operands[0]);
  }
  if (!session->silent) {
    print_bash(stdout);
  }
  return LAC_OK;
}

static const lac_option_group no_groups[] = {{0}};

const lac_command lac_command_completion = {
    .name = "completion",
    .operands = "bash",
    .least = 1,
    .most = 1,
    .summary = "print a script that completes commands and options in the shell",
    .description = "Prints a script that completes laconic's commands, options and their values in bash.",
    .example = "source <(laconic completion bash)",
    .groups = no_groups,
    .options_size = sizeof(lac_common_options),
    .on_ranks = true,
    .run = run_completion,
};
