#include "cli/plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PANEL_WIDTH = 560, PANEL_HEIGHT = 420, KEY_HEIGHT = 18 };

/* "svg" or "png"; NULL for anything else. */
static const char *picture_kind(const char *path) {
  const char *dot = strrchr(path, '.');
  if (dot && strcasecmp(dot, ".svg") == 0) {
    return "svg";
  }
  return dot && strcasecmp(dot, ".png") == 0 ? "png" : NULL;
}

static bool in_search_path(const char *program) {
  const char *folders = getenv("PATH");
  while (folders && *folders) {
    int length = (int)strcspn(folders, ":");
    char path[4096];
    int written = snprintf(path, sizeof path, "%.*s/%s", length, folders, program);
    if (written > 0 && (size_t)written < sizeof path && access(path, X_OK) == 0) {
      return true;
    }
    folders += length + (folders[length] == ':');
  }
  return false;
}

lac_status lac_plot_check(lac_session *session, const char *path) {
  if (!picture_kind(path)) {
    return lac_fail(session->context, LAC_E_USAGE, "--plot: found '%s', expected a name that ends in .svg or .png",
                    path);
  }
  if (!in_search_path("gnuplot")) {
    return lac_fail(session->context, LAC_E_UNSUPPORTED,
                    "--plot: gnuplot is not installed, expected the program of the package gnuplot-nox");
  }
  return lac_output_check(session->context, path);
}

/* A quoted text of gnuplot in plain ASCII: what could end the quotes or start an escape becomes a question mark. */
static void put_text(FILE *script, const char *text) {
  fputc('"', script);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    fputc(c < 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '`' ? '?' : c, script);
  }
  fputc('"', script);
}

static void put_setting(FILE *script, const char *name, const char *text) {
  fprintf(script, "set %s ", name);
  put_text(script, text);
  fputc('\n', script);
}

static void put_data(FILE *script, const lac_panel *panel, int number) {
  for (int c = 0; c < panel->count; c++) {
    const lac_curve *curve = &panel->curves[c];
    fprintf(script, "$data_%d_%d << EOD\n", number, c);
    for (int i = 0; i < curve->count; i++) {
      if (isfinite(curve->x[i]) && isfinite(curve->y[i])) {
        fprintf(script, "%.9g %.9g\n", curve->x[i], curve->y[i]);
      }
    }
    fputs("EOD\n", script);
  }
}

static bool has_points(const lac_curve *curve) {
  for (int i = 0; i < curve->count; i++) {
    if (isfinite(curve->x[i]) && isfinite(curve->y[i])) {
      return true;
    }
  }
  return false;
}

/* From the first to the last point of all curves, and never empty. */
static void put_x_range(FILE *script, const lac_panel *panel) {
  double low = INFINITY, high = -INFINITY;
  for (int c = 0; c < panel->count; c++) {
    for (int i = 0; i < panel->curves[c].count; i++) {
      double x = panel->curves[c].x[i];
      low = isfinite(x) && x < low ? x : low;
      high = isfinite(x) && x > high ? x : high;
    }
  }
  low = isfinite(low) ? low : 1;
  fprintf(script, "set xrange [%.9g:%.9g]\n", low, high > low ? high : low + 1);
}

/* On a logarithmic scale the first curve's own places, if they are few: powers of ten would be fewer still. */
static void put_x_tics(FILE *script, const lac_panel *panel) {
  enum { FEW = 10 };
  const lac_curve *curve = panel->curves;
  const char *separator = "set xtics (";
  for (int i = 0; panel->log_x && panel->count > 0 && curve->count <= FEW && i < curve->count; i++) {
    if (isfinite(curve->x[i])) {
      fprintf(script, "%s%.9g", separator, curve->x[i]);
      separator = ", ";
    }
  }
  fputs(*separator == 's' ? "set xtics autofreq\n" : ")\n", script);
}

static void put_panel(FILE *script, const lac_panel *panel, int number) {
  put_setting(script, "title", panel->title);
  put_setting(script, "xlabel", panel->x_label);
  put_setting(script, "ylabel", panel->y_label);
  fputs(panel->log_x ? "set logscale x\n" : "unset logscale x\n", script);
  fputs(panel->log_y ? "set logscale y\n" : "unset logscale y\n", script);
  put_x_range(script, panel);
  put_x_tics(script, panel);
  fputs(panel->percent ? "set yrange [0:100]\n" : "set yrange [*:*]\n", script);
  const char *separator = "plot ";
  for (int c = 0; c < panel->count; c++) {
    if (has_points(&panel->curves[c])) { /* gnuplot stops at an empty one */
      fprintf(script, "%s$data_%d_%d using 1:2 with linespoints linewidth 1.5 pointsize 0.6 title ", separator, number,
              c);
      put_text(script, panel->curves[c].name);
      separator = ", ";
    }
  }
  const char *empty = panel->log_y ? "set yrange [1:10]\nplot NaN notitle\n" : "set yrange [0:1]\nplot NaN notitle\n";
  fputs(*separator == 'p' ? empty : "\n", script);
}

static int most_curves(const lac_panel *panels, int count) {
  int most = 1;
  for (int p = 0; p < count; p++) {
    most = panels[p].count > most ? panels[p].count : most;
  }
  return most;
}

static void put_script(FILE *script, const char *kind, const lac_panel *panels, int count) {
  int keys = most_curves(panels, count); /* a line each below the panel */
  /* ASCII texts, taken as they are: names of files are full of what enhanced text would interpret */
  fprintf(script, "set encoding utf8\nset terminal %s noenhanced size %d,%d\n",
          strcmp(kind, "svg") == 0 ? "svg background rgb 'white'" : "pngcairo", count * PANEL_WIDTH,
          PANEL_HEIGHT + keys * KEY_HEIGHT);
  fprintf(script, "set key below maxcols 1\nset bmargin %d\n", keys + 4);
  fputs("set grid\nset border 3\nset tics nomirror\n", script);
  for (int p = 0; p < count; p++) {
    put_data(script, &panels[p], p);
  }
  fprintf(script, "set multiplot layout 1,%d\n", count);
  for (int p = 0; p < count; p++) {
    put_panel(script, &panels[p], p);
  }
  fputs("unset multiplot\n", script);
}

/* Runs gnuplot on the script; its picture goes to `picture`, what it says to `errors`. Plain files rather than pipes:
 * nobody waits for anybody. Returns 0 or an errno. */
static int run_gnuplot(FILE *script, FILE *picture, FILE *errors) {
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) {
    return error;
  }
  error = posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
  error = error ? error : posix_spawn_file_actions_adddup2(&actions, fileno(picture), STDOUT_FILENO);
  error = error ? error : posix_spawn_file_actions_adddup2(&actions, fileno(errors), STDERR_FILENO);
  char name[] = "gnuplot", option[] = "--default-settings";
  char *const arguments[] = {name, option, NULL};
  pid_t child;
  error = error ? error : posix_spawnp(&child, "gnuplot", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) {
    return error;
  }
  int state;
  while (waitpid(child, &state, 0) < 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? 0 : ECHILD;
}

/* The first line with text in it that gnuplot said. */
static void first_line(FILE *errors, char *line, int bytes) {
  rewind(errors);
  while (fgets(line, bytes, errors)) {
    line[strcspn(line, "\n")] = 0;
    if (line[strspn(line, " ^\t")]) {
      return;
    }
  }
  snprintf(line, (size_t)bytes, "it said nothing");
}

static lac_status copy_picture(lac_session *session, FILE *picture, const char *path) {
  lac_output output;
  CLI_TRY(lac_output_open(session->context, path, &output));
  rewind(picture);
  char block[1 << 14];
  size_t bytes;
  while ((bytes = fread(block, 1, sizeof block, picture)) > 0) {
    lac_status status = lac_output_write(session->context, &output, block, bytes);
    if (status) {
      lac_output_discard(&output);
      return status;
    }
  }
  return lac_output_commit(session->context, &output);
}

static lac_status draw(lac_session *session, const char *path, FILE *script, FILE *picture, FILE *errors) {
  if (fflush(script) != 0 || ferror(script)) {
    return lac_fail(session->context, LAC_E_IO, "%s: the plot's script cannot be written: %s", path, strerror(errno));
  }
  rewind(script);
  int error = run_gnuplot(script, picture, errors);
  if (error) {
    char line[200];
    first_line(errors, line, sizeof line);
    return lac_fail(session->context, LAC_E_IO, "%s: gnuplot failed: %s", path,
                    error == ECHILD ? line : strerror(error));
  }
  return copy_picture(session, picture, path);
}

lac_status lac_plot_write(lac_session *session, const char *path, const lac_panel *panels, int count) {
  FILE *script = tmpfile(), *picture = tmpfile(), *errors = tmpfile();
  lac_status status;
  if (!script || !picture || !errors) {
    status = lac_fail(session->context, LAC_E_IO, "%s: no temporary file for the plot: %s", path, strerror(errno));
  } else {
    put_script(script, picture_kind(path), panels, count);
    status = draw(session, path, script, picture, errors);
  }
  FILE *const files[] = {script, picture, errors};
  for (int i = 0; i < 3; i++) {
    if (files[i]) {
      fclose(files[i]);
    }
  }
  return status;
}
