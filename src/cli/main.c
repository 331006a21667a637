#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/cut_file.h"
#include "cli/help.h"
#include "cli/log_view.h"
#include "cli/openblas.h"
#include "cli/output.h"
#include "cli/progress.h"

/* The only globals: a signal handler has no other way to its program's state. Atomic: a signal is handled by any
 * thread, those of libraries among them, and two signals by two at once. */
static lac_context *_Atomic signalled_context;
static volatile sig_atomic_t *_Atomic signalled_stop; /* of a command that stops softly, until it has been asked */

/* What asks the work to stop: control-C, a launcher or batch system, a terminal that goes away. */
static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

/* Except that under nohup the terminal may go away. */
static bool is_ignored(int number) {
  struct sigaction now;
  return number == SIGHUP && sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void handle_signals(void (*handler)(int)) {
  /* Without SA_RESTART: a launcher that is asked to stop no longer reads what its ranks print, and a rank that is stuck
   * in such a write could not save its model. */
  struct sigaction action = {.sa_handler = handler};
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < STOP_SIGNALS; i++) {
    if (!is_ignored(stop_signals[i])) {
      sigaction(stop_signals[i], &action, NULL);
    }
  }
}

/* The first signal asks the work to stop, the second kills; a command that stops softly is first asked for that. */
static void on_signal(int number) {
  (void)number;
  volatile sig_atomic_t *stop = atomic_exchange(&signalled_stop, NULL);
  if (stop) {
    *stop = 1;
    return;
  }
  handle_signals(SIG_DFL);
  lac_context_interrupt(signalled_context);
}

static void watch_signals(lac_context *context) {
  signalled_context = context;
  handle_signals(on_signal);
  /* A reader that leaves early, or a peer that died, shows as a failed write. */
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN); /* so does a file that may not grow further */
}

static lac_status note_rank(lac_world *world, void *argument) {
  lac_session *session = argument;
  session->ranks = lac_world_size(world);
  session->silent = lac_world_rank(world) > 0;
  return LAC_OK;
}

/* Under an MPI launcher the ranks find each other before anything is said, so that one speaks for all. */
static lac_status meet_ranks(lac_session *session) {
  if (!lac_world_launched()) {
    return LAC_OK;
  }
  lac_world_options options = {0};
  lac_status status = lac_world_run(session->context, &options, note_rank, session);
  lac_session_set_modes(session, false, false, false);
  return status;
}

static bool is_group(const char *word) {
  size_t length = strlen(word);
  for (int i = 0; lac_commands[i]; i++) {
    if (strncmp(lac_commands[i]->name, word, length) == 0 && lac_commands[i]->name[length] == ' ') {
      return true;
    }
  }
  return false;
}

enum { COMMAND_LIMIT = 64 };

static lac_status fail_unknown_command(lac_session *session, int argc, char **argv) {
  char written[128];
  bool group = is_group(argv[0]);
  if (group && argc == 1) {
    return lac_fail(session->context, LAC_E_USAGE, "%s: no command given; see laconic %s --help", argv[0], argv[0]);
  }
  snprintf(written, sizeof written, "%.60s%s%.60s", argv[0], group ? " " : "", group ? argv[1] : "");
  const char *names[COMMAND_LIMIT];
  int count = 0;
  while (lac_commands[count] && count < COMMAND_LIMIT) {
    names[count] = lac_commands[count]->name;
    count++;
  }
  const char *nearest = lac_nearest(written, names, count);
  return lac_fail(session->context, LAC_E_USAGE, "unknown command '%s'; %s%s%s", written,
                  nearest ? "did you mean '" : "see laconic help", nearest ? nearest : "", nearest ? "'?" : "");
}

static bool asks_help(const char *word) {
  return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static lac_status run_command(lac_session *session, const lac_command *command, int argc, char **argv) {
  lac_arguments arguments;
  CLI_TRY(lac_arguments_parse(session, command, argc, argv, &arguments));
  if (session->ranks > 1 && !command->on_ranks) {
    lac_arguments_clear(&arguments);
    return lac_fail(session->context, LAC_E_USAGE, "%s: found %d ranks, expected one: start it without mpiexec",
                    command->name, session->ranks);
  }
  const lac_common_options *common = arguments.options;
  lac_status status = LAC_OK;
  if (common->help) {
    if (!session->silent) {
      lac_help_command(stdout, command);
    }
  } else {
    lac_session_set_modes(session, common->json, common->quiet, common->verbose);
    signalled_stop = command->stops_softly ? &session->stop : NULL;
    status = command->run(session, arguments.options, arguments.operands, arguments.count);
    signalled_stop = NULL;
    lac_progress_clear(session);
    if (common->log_view && (!status || session->ranks == 1)) {
      lac_status viewed = lac_log_view_print(session);
      status = status ? status : viewed;
    }
  }
  lac_arguments_clear(&arguments);
  return status;
}

static lac_status dispatch(lac_session *session, int argc, char **argv) {
  if (argc == 0) {
    return lac_fail(session->context, LAC_E_USAGE, "no command given; see laconic help");
  }
  if (asks_help(argv[0])) {
    return run_command(session, &lac_command_help, argc - 1, argv + 1);
  }
  if (strcmp(argv[0], "--version") == 0) {
    lac_print(session, "laconic %s\n", lac_version());
    return LAC_OK;
  }
  int words;
  const lac_command *command = lac_command_find(argc, argv, &words);
  if (command) {
    return run_command(session, command, argc - words, argv + words);
  }
  if (argc == 2 && is_group(argv[0]) && asks_help(argv[1])) {
    return run_command(session, &lac_command_help, 1, argv);
  }
  return fail_unknown_command(session, argc, argv);
}

/* Freed memory is kept for what comes next, up to 256 MiB, in place of its going back to the system and coming anew
 * page by page. Not where the user has asked for something else, nor in the process of smpirun. */
static void keep_memory(void) {
#if defined(__GLIBC__) && !defined(LACONIC_SMPI)
  enum { MEBIBYTE = 1 << 20 };
  if (!getenv("MALLOC_TRIM_THRESHOLD_") && !getenv("MALLOC_MMAP_THRESHOLD_") && !getenv("GLIBC_TUNABLES")) {
    (void)mallopt(M_MMAP_THRESHOLD, 32 * MEBIBYTE); /* larger blocks go back at once, as always */
    (void)mallopt(M_TRIM_THRESHOLD, 256 * MEBIBYTE);
  }
#endif
}

int main(int argc, char **argv) {
  lac_choose_blas_kernels(argv);
  keep_memory();
  lac_end_blas_threads();
  lac_session session;
  lac_status status = lac_session_open(&session);
  if (status) {
    fprintf(stderr, "laconic: %s\n", lac_status_text(status));
    return lac_status_exit(status);
  }
  watch_signals(session.context);
  lac_watch_cut_files();
  status = meet_ranks(&session);
  if (!status) {
    status = dispatch(&session, argc - 1, argv + 1);
  }
  if (!status) {
    status = lac_print_finish(&session);
  }
  if (status) {
    session.silent = session.silent && !lac_world_alone();
    const char *message = lac_context_message(session.context);
    lac_say(&session, "%s", *message ? message : lac_status_text(status));
  }
  int exit_status = lac_status_exit(status);
  handle_signals(SIG_DFL); /* the handler's context ends here, and leaving may take as long as the other ranks do */
  lac_session_close(&session);
  lac_world_finish();
  return exit_status;
}
