/* Pictures of curves, drawn by gnuplot: SVG or PNG by the file's extension. */
#ifndef LACONIC_CLI_PLOT_H
#define LACONIC_CLI_PLOT_H

#include "cli/session.h"

typedef struct lac_curve {
  const char *name;
  const double *x, *y; /* (count); points that are not finite are left out */
  int count;
} lac_curve;

typedef struct lac_panel {
  const char *title, *x_label, *y_label;
  bool log_x;
  bool percent; /* y runs from 0 to 100 */
  const lac_curve *curves;
  int count;
  bool log_y;
} lac_panel;

/* Whether such a picture could be drawn: the extension, gnuplot, the folder. Errors: USAGE, UNSUPPORTED naming the
 * package to install, OUTPUT. */
LAC_MUST_USE lac_status lac_plot_check(lac_session *session, const char *path);

/* Draws panels side by side. The file appears whole or not at all. Errors: IO, MEMORY. */
LAC_MUST_USE lac_status lac_plot_write(lac_session *session, const char *path, const lac_panel *panels, int count);

#endif
