#include "cli/arguments.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const lac_option lac_common_option_table[] = {
    {.key = "json",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_common_options, json),
     .help = "print JSON lines on stdout and nothing else there"},
    {.key = "quiet",
     .letter = 'q',
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_common_options, quiet),
     .help = "say nothing but results and errors: no progress, notes or warnings"},
    {.key = "verbose",
     .letter = 'v',
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_common_options, verbose),
     .help = "say on stderr what is going on"},
    {.key = "log-view",
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_common_options, log_view),
     .help = "print a table on stderr of where time, messages and bytes went"},
    {.key = "help",
     .letter = 'h',
     .type = LAC_OPTION_FLAG,
     .offset = offsetof(lac_common_options, help),
     .help = "print this help"},
    LAC_OPTIONS_END,
};

static const lac_option_group common_group = {.title = "Common options", .own = lac_common_option_table};

const lac_option *lac_group_options(const lac_option_group *group) {
  return group->table ? group->table() : group->own;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

const char *lac_nearest(const char *text, const char *const *texts, int count) {
  const char *best = NULL;
  int bound = ((int)strlen(text) + 2) / 3; /* further away it would be a guess, not a correction */
  for (int i = 0; i < count; i++) {
    int distance = lac_text_distance(text, texts[i]);
    if (distance <= bound) {
      bound = distance - 1;
      best = texts[i];
    }
  }
  return best;
}

static int count_words(const char *name) {
  int words = 1;
  for (; *name; name++) {
    words += *name == ' ';
  }
  return words;
}

static bool begins_with_words(const char *name, int argc, char *const *argv) {
  for (int i = 0; i < argc; i++) {
    size_t length = strcspn(name, " ");
    if (strlen(argv[i]) != length || strncmp(name, argv[i], length) != 0) {
      return false;
    }
    name += length;
    if (!*name) {
      return true;
    }
    name++;
  }
  return false;
}

const lac_command *lac_command_find(int argc, char *const *argv, int *words) {
  for (int i = 0; lac_commands[i]; i++) {
    if (begins_with_words(lac_commands[i]->name, argc, argv)) {
      *words = count_words(lac_commands[i]->name);
      return lac_commands[i];
    }
  }
  return NULL;
}

void lac_command_usage(const lac_command *command, char *usage, size_t bytes) {
  snprintf(usage, bytes, "laconic %s%s%s [OPTION]...", command->name, *command->operands ? " " : "", command->operands);
}

const lac_option_group *lac_command_group(const lac_command *command, int index) {
  for (int i = 0; command->groups[i].title; i++) {
    if (i == index) {
      return &command->groups[i];
    }
    if (i + 1 == index && !command->groups[i + 1].title) {
      return &common_group;
    }
  }
  return index == 0 && !command->groups[0].title ? &common_group : NULL;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

typedef struct cli_parser {
  lac_session *session;
  const lac_command *command;
  lac_arguments *arguments;
  int argc;
  char **argv;
  int next; /* index of the argument that comes next */
} cli_parser;

typedef struct found_option {
  const lac_option_group *group;
  const lac_option *option;
} found_option;

static found_option find_key(const lac_command *command, const char *key) {
  const lac_option_group *group;
  for (int i = 0; (group = lac_command_group(command, i)); i++) {
    const lac_option *option = lac_options_find(lac_group_options(group), key);
    if (option) {
      return (found_option){group, option};
    }
  }
  return (found_option){0};
}

static found_option find_letter(const lac_command *command, char letter) {
  const lac_option_group *group;
  for (int i = 0; (group = lac_command_group(command, i)); i++) {
    for (const lac_option *option = lac_group_options(group); option->key; option++) {
      if (option->letter == letter) {
        return (found_option){group, option};
      }
    }
  }
  return (found_option){0};
}

enum { KEY_LIMIT = 256, WORD_LIMIT = 64 };

static lac_status fail_unknown_key(cli_parser *parser, const char *key) {
  const char *keys[KEY_LIMIT];
  int count = 0;
  const lac_option_group *group;
  for (int i = 0; (group = lac_command_group(parser->command, i)); i++) {
    for (const lac_option *option = lac_group_options(group); option->key && count < KEY_LIMIT; option++) {
      keys[count++] = option->key;
    }
  }
  const char *nearest = lac_nearest(key, keys, count);
  return lac_fail(parser->session->context, LAC_E_USAGE, "%s: unknown option --%s; %s%s%s", parser->command->name, key,
                  nearest ? "did you mean --" : "see laconic ", nearest ? nearest : parser->command->name,
                  nearest ? "?" : " --help");
}

static lac_status set_option(cli_parser *parser, found_option found, const char *value) {
  char *module = (char *)parser->arguments->options + found.group->offset;
  return lac_options_set(parser->session->context, lac_group_options(found.group), module, found.option->key, value);
}

static lac_status take_value(cli_parser *parser, const char *written, const char **value) {
  if (parser->next >= parser->argc || strncmp(parser->argv[parser->next], "--", 2) == 0) {
    return lac_fail(parser->session->context, LAC_E_USAGE, "%s: option %s needs a value", parser->command->name,
                    written);
  }
  *value = parser->argv[parser->next++];
  return LAC_OK;
}

static lac_status parse_flag(cli_parser *parser, found_option found, const char *value, bool on) {
  if (value) {
    return lac_fail(parser->session->context, LAC_E_USAGE, "%s: option --%s%s: found '%s', expected no value",
                    parser->command->name, on ? "" : "no-", found.option->key, value);
  }
  return set_option(parser, found, on ? "true" : "false");
}

/* --key, --key=value or --no-key */
static lac_status parse_long(cli_parser *parser, char *written) {
  char key[WORD_LIMIT + 1];
  char *value = strchr(written, '=');
  size_t length = value ? (size_t)(value - written) - 2 : strlen(written) - 2;
  if (length > WORD_LIMIT) {
    return lac_fail(parser->session->context, LAC_E_USAGE, "%s: unknown option %.80s...", parser->command->name,
                    written);
  }
  memcpy(key, written + 2, length);
  key[length] = 0;
  value += value != NULL;
  found_option found = find_key(parser->command, key);
  if (!found.option && strncmp(key, "no-", 3) == 0) {
    found = find_key(parser->command, key + 3);
    if (found.option && found.option->type == LAC_OPTION_FLAG) {
      return parse_flag(parser, found, value, false);
    }
    found.option = NULL;
  }
  if (!found.option) {
    return fail_unknown_key(parser, key);
  }
  if (found.option->type == LAC_OPTION_FLAG) {
    return parse_flag(parser, found, value, true);
  }
  const char *given = value;
  if (!given) {
    CLI_TRY(take_value(parser, written, &given));
  }
  return set_option(parser, found, given);
}

/* -x, -xyz of flags, -kvalue or -k value */
static lac_status parse_letters(cli_parser *parser, const char *written) {
  for (const char *letter = written + 1; *letter; letter++) {
    found_option found = find_letter(parser->command, *letter);
    if (!found.option) {
      return lac_fail(parser->session->context, LAC_E_USAGE, "%s: unknown option -%c; see laconic %s --help",
                      parser->command->name, *letter, parser->command->name);
    }
    if (found.option->type != LAC_OPTION_FLAG) {
      const char *value = letter + 1;
      if (!*value) {
        char name[] = {'-', *letter, 0};
        CLI_TRY(take_value(parser, name, &value));
      }
      return set_option(parser, found, value);
    }
    CLI_TRY(set_option(parser, found, "true"));
  }
  return LAC_OK;
}

static lac_status check_operands(cli_parser *parser) {
  const lac_command *command = parser->command;
  char usage[256];
  lac_command_usage(command, usage, sizeof usage);
  int count = parser->arguments->count;
  if (count < command->least) {
    return lac_fail(parser->session->context, LAC_E_USAGE, "%s: found %d operand%s, expected %s%d; usage: %s",
                    command->name, count, count == 1 ? "" : "s", command->most == command->least ? "" : "at least ",
                    command->least, usage);
  }
  if (command->most >= 0 && count > command->most) {
    return lac_fail(parser->session->context, LAC_E_USAGE, "%s: unexpected argument '%s'; usage: %s", command->name,
                    parser->arguments->operands[command->most], usage);
  }
  return LAC_OK;
}

static const lac_common_options *common_of(const lac_arguments *arguments) {
  return arguments->options;
}

static lac_status parse_all(cli_parser *parser) {
  bool operands_only = false;
  while (parser->next < parser->argc) {
    char *word = parser->argv[parser->next++];
    if (operands_only || word[0] != '-' || !word[1]) {
      parser->arguments->operands[parser->arguments->count++] = word;
    } else if (strcmp(word, "--") == 0) {
      operands_only = true;
    } else {
      CLI_TRY(word[1] == '-' ? parse_long(parser, word) : parse_letters(parser, word));
      if (common_of(parser->arguments)->help) {
        return LAC_OK;
      }
    }
  }
  const lac_common_options *common = common_of(parser->arguments);
  if (common->quiet && common->verbose) {
    return lac_fail(parser->session->context, LAC_E_USAGE, "%s: --quiet and --verbose exclude each other",
                    parser->command->name);
  }
  return check_operands(parser);
}

lac_status lac_arguments_parse(lac_session *session, const lac_command *command, int argc, char **argv,
                               lac_arguments *arguments) {
  *arguments = (lac_arguments){0};
  void *options, *operands;
  CLI_TRY(lac_session_allocate(session, 1, command->options_size, &options));
  lac_status status = lac_session_allocate(session, argc, sizeof(char *), &operands);
  if (status) {
    free(options);
    return status;
  }
  *arguments = (lac_arguments){.command = command, .options = options, .operands = operands};
  cli_parser parser = {session, command, arguments, argc, argv, 0};
  const lac_option_group *group;
  for (int i = 0; (group = lac_command_group(command, i)); i++) {
    CLI_TRY_GOTO(
        status, lac_options_default(session->context, lac_group_options(group), (char *)options + group->offset), done);
  }
  status = parse_all(&parser);
  if (!status && command->recall && !common_of(arguments)->help) {
    bool recalled;
    CLI_TRY_GOTO(status, command->recall(session, options, &recalled), done);
    if (recalled) {
      arguments->count = parser.next = 0;
      status = parse_all(&parser);
    }
  }
done:
  if (status) {
    lac_arguments_clear(arguments);
  }
  return status;
}

void lac_arguments_clear(lac_arguments *arguments) {
  const lac_option_group *group;
  for (int i = 0; arguments->options && (group = lac_command_group(arguments->command, i)); i++) {
    lac_options_clear(lac_group_options(group), (char *)arguments->options + group->offset);
  }
  free(arguments->options);
  free(arguments->operands);
  *arguments = (lac_arguments){0};
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

lac_status lac_parse_list(lac_session *session, const char *key, const char *text, int limit, int64_t *values,
                          int *count) {
  *count = 0;
  for (const char *next = text;; next++) {
    char *end;
    errno = 0;
    long long value = strtoll(next, &end, 10);
    bool whole = end != next && *next >= '0' && *next <= '9' && !errno && (*end == ',' || !*end);
    if (!whole || value < 1) {
      return lac_fail(session->context, LAC_E_USAGE,
                      "--%s: found '%s', expected whole numbers of at least 1 separated by commas", key, text);
    }
    if (*count == limit) {
      return lac_fail(session->context, LAC_E_USAGE, "--%s: more than %d numbers in '%s'", key, limit, text);
    }
    values[(*count)++] = value;
    if (!*end) {
      return LAC_OK;
    }
    next = end;
  }
}

lac_status lac_parse_reals(lac_session *session, const char *key, const char *text, int count, double *values) {
  const char *next = text;
  for (int i = 0; i < count; i++) {
    char *end;
    values[i] = strtod(next, &end);
    bool good = end != next && isfinite(values[i]) && values[i] > 0;
    if (!good || *end != (i + 1 < count ? ',' : 0)) {
      return lac_fail(session->context, LAC_E_USAGE,
                      "--%s: found '%s', expected %d number%s above 0, separated by commas", key, text, count,
                      count == 1 ? "" : "s");
    }
    next = end + 1;
  }
  return LAC_OK;
}
