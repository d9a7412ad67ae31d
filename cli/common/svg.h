/* Plots of HTML pages as SVG elements. Colors come from the style of the page (page.h). */
#ifndef CLI_COMMON_SVG_H
#define CLI_COMMON_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A horizontal bar from `from` to `to`, with an interval of `error` around `to` (NAN: none) and a text at its end. */
typedef struct cli_bar {
    const char *name, *label;
    double from, to, error;
    const char *style; /* class of the element */
} cli_bar;

/* Bars, one per line, on a common scale with ticks; `zero`: the scale contains 0. */
void cli_bars_svg(FILE *out, const cli_bar *bars, size_t count, int zero, const char *title);

/* A curve: y over x with a band; lines of other outputs are thin. */
typedef struct cli_line {
    const double *y, *low, *high; /* low and high are NULL without a band */
    size_t stride;                /* numbers between two points */
} cli_line;

/* The range that a plot must show, so that several plots have the same scale. */
typedef struct cli_bounds {
    double low, high;
} cli_bounds;

/* lines[0] is the main one. Points whose x is NAN are left out. */
void cli_curve_svg(FILE *out, const double *x, size_t points, const cli_line *lines, size_t count, cli_bounds bounds,
                   const char *title);

/* Ranges with a mark, one per line: values of categories. */
typedef struct cli_range {
    const char *name;
    double low, mark, high;
} cli_range;
void cli_ranges_svg(FILE *out, const cli_range *ranges, size_t count, cli_bounds bounds, const char *title);

/* A table of numbers as colored cells. The color scale covers `low` to `high`; with `signs`, negative and positive
 * numbers have different colors. NAN is an empty cell. */
typedef struct cli_heat {
    const char *title;
    const char *row, *column; /* names of the axes: "layer", "head" */
    size_t rows, columns;
    const double *values; /* rows x columns */
    double low, high;
    bool signs;
    int digits; /* significant digits of a number in a cell and in its tooltip */
} cli_heat;
void cli_heat_svg(FILE *out, const cli_heat *heat);

#endif
