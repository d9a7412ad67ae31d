/* Named curves and a plot of them: both axes logarithmic, or y from 0 to 100%. */
#ifndef CLI_COMMON_CURVES_H
#define CLI_COMMON_CURVES_H

#include "cli.h"

enum { CLI_CURVES = 32, CLI_CURVE_POINTS = 32 };

typedef struct cli_curve {
    char name[48];
    double x[CLI_CURVE_POINTS], y[CLI_CURVE_POINTS];
    size_t count;
} cli_curve;

typedef struct cli_curves {
    cli_curve curves[CLI_CURVES];
    size_t count;
} cli_curves;

/* Adds a point to the curve of that name, which is created if necessary. Curves and points beyond the limits are
 * dropped. */
void cli_curves_add(cli_curves *curves, const char *name, double x, double y);

typedef struct cli_drawing {
    const cli_curves *curves;
    char title[128];
    const char *x_label, *y_label, *key; /* key: position of the legend, in gnuplot's syntax */
    double factor;                       /* of y */
    bool percent;                        /* y is linear, from 0 to 100 */
} cli_drawing;
/* See cli_plot_file. */
int cli_curves_plot(cli_session *session, const char *path, const cli_drawing *drawing);

#endif
