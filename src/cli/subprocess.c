#include "cli/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static lac_status no_memory(lac_session *session) {
  return lac_fail(session->context, LAC_E_MEMORY, "cannot allocate what a program prints");
}

/* Until there is something to read, or nothing more to come. */
static lac_status await_output(lac_session *session, int file) {
  enum { LOOK_MS = 200 }; /* an interrupt just before the wait does not end it */
  struct pollfd wanted = {.fd = file, .events = POLLIN};
  int ready = 0;
  while (ready == 0 || (ready < 0 && errno == EINTR)) {
    if (lac_context_interrupted(session->context)) {
      return lac_fail(session->context, LAC_E_INTERRUPTED, "interrupted");
    }
    ready = poll(&wanted, 1, LOOK_MS);
  }
  return LAC_OK;
}

static lac_status read_all(lac_session *session, int file, lac_captured *out) {
  for (;;) {
    if (out->room - out->used < 4096) {
      size_t room = out->room ? 2 * out->room : 8192;
      char *text = realloc(out->text, room);
      if (!text) {
        return no_memory(session);
      }
      out->text = text;
      out->room = room;
    }
    CLI_TRY(await_output(session, file));
    ssize_t got = read(file, out->text + out->used, out->room - out->used - 1);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    out->used += got > 0 ? (size_t)got : 0;
    out->text[out->used] = 0;
    if (got <= 0) {
      return LAC_OK;
    }
  }
}

/* Whether a line is SimGrid's goodbye, or part of the list of calls that it says it with. */
static bool is_goodbye(const char *line) {
  static const char *const beginnings[] = {"Exiting now.", "Backtrace", "  ->"};
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
    if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0) {
      return true;
    }
  }
  return false;
}

/* The last line of a file that says something. */
static void last_line(FILE *file, char *line, size_t bytes) {
  char buffer[512];
  line[0] = 0;
  rewind(file);
  while (fgets(buffer, sizeof buffer, file)) {
    buffer[strcspn(buffer, "\n")] = 0;
    if (*buffer && !is_goodbye(buffer)) {
      snprintf(line, bytes, "%s", buffer);
    }
  }
}

/* In a process group of its own, so that what it starts can be ended with it. */
static lac_status start(lac_session *session, char *const *argv, int out, int error, pid_t *child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions) != 0) {
    return no_memory(session);
  }
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return no_memory(session);
  }
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO);
  int failed = posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed ? lac_fail(session->context, LAC_E_IO, "%s: cannot be started: %s", argv[0], strerror(failed)) : LAC_OK;
}

static void wait_for(pid_t child, lac_captured *out) {
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  out->code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

/* Whether the program ends of itself in a second or two. It is not reaped: its number stays its own. */
static bool ends_soon(pid_t child) {
  const struct timespec moment = {.tv_nsec = 20000000};
  for (int look = 0; look < 100; look++) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child) {
      return true;
    }
    nanosleep(&moment, NULL);
  }
  return false;
}

/* Ends a program and what it has started: smpirun is a script, and ends before the simulation does. What is in the pipe
 * ends when the last of them has ended. */
static void end_program(pid_t child, int file, lac_captured *out) {
  char rest[4096];
  ssize_t got;
  kill(-child, SIGTERM);
  ends_soon(child);
  kill(-child, SIGKILL); /* those of the group that have not listened */
  wait_for(child, out);
  do {
    got = read(file, rest, sizeof rest);
  } while (got > 0 || (got < 0 && errno == EINTR));
}

lac_status lac_run_program(lac_session *session, char *const *argv, lac_captured *out) {
  int ends[2];
  pid_t child;
  *out = (lac_captured){.code = -1};
  FILE *error = tmpfile();
  if (error) {
    fcntl(fileno(error), F_SETFD, FD_CLOEXEC); /* the child has a copy of its own */
  }
  if (!error || pipe2(ends, O_CLOEXEC) != 0) {
    if (error) {
      fclose(error);
    }
    return lac_fail(session->context, LAC_E_IO, "%s: cannot make a pipe: %s", argv[0], strerror(errno));
  }
  lac_status status = start(session, argv, ends[1], fileno(error), &child);
  close(ends[1]);
  if (!status) {
    status = read_all(session, ends[0], out);
    if (status) {
      end_program(child, ends[0], out);
    } else {
      wait_for(child, out);
    }
  }
  close(ends[0]);
  last_line(error, out->error, sizeof out->error);
  fclose(error);
  return status;
}
