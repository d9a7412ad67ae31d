/* Plots by gnuplot through a pipe. Without gnuplot, plots are skipped with a warning, and results are still printed. */
#ifndef CLI_COMMON_PLOT_H
#define CLI_COMMON_PLOT_H

#include "metrics.h"
#include <stdio.h>

/* Writes a plot by gnuplot to a temporary file, which is renamed to `path` when it is complete. `draw` writes the
 * gnuplot commands, starting with cli_plot_begin. `note` is printed after the path. Returns CLI_FAILED, after a
 * message, if the plot could not be written; a missing gnuplot is only a warning. */
typedef void (*cli_draw_fn)(FILE *pipe, const char *path, const void *what);
int cli_plot_file(cli_session *session, const char *path, const char *note, cli_draw_fn draw, const void *what);
/* The same without messages. */
typedef enum cli_drawn { CLI_DRAWN, CLI_NO_TOOL, CLI_NOT_DRAWN, CLI_NOT_WRITTEN } cli_drawn;
cli_drawn cli_plot_try(const char *path, cli_draw_fn draw, const void *what);
/* The same with another program that reads the commands and writes the plot, such as "dot -Tsvg". */
cli_drawn cli_plot_through(const char *tool, const char *path, cli_draw_fn draw, const void *what);
/* Selects the gnuplot terminal by the ending of the path; `font` is in pixels at 96 per inch. */
void cli_plot_begin(FILE *pipe, const char *path, int width, int height, int font);
/* Prints a quoted string, in which no character has a special meaning. */
void cli_plot_quoted(FILE *pipe, const char *text);
/* Prints an axis tic: its label, shortened to `max_chars` characters, and its position. */
void cli_plot_tic(FILE *pipe, const char *text, size_t max_chars, double at);
/* Prints a title that fits into `width` pixels; the second function returns its font size. */
void cli_plot_title(FILE *pipe, const char *title, int width);
int cli_plot_title_font(const char *title, int width);
/* The color of a curve; colors repeat after the last one. */
const char *cli_plot_color(size_t index);
enum { CLI_PLOT_COLORS = 11 };

/* True for the endings of supported formats: .svg, .png, .pdf. */
bool cli_plot_known(const char *path);
/* The kind of plot of a test. DEFAULT: PREDICTIONS for numbers, CONFUSION for classes. */
typedef enum cli_plot_kind {
    CLI_PLOT_DEFAULT,
    CLI_PLOT_PREDICTIONS, /* predicted against true values */
    CLI_PLOT_RESIDUALS,   /* true minus predicted, against predicted values */
    CLI_PLOT_ROC,         /* ROC curves */
    CLI_PLOT_RELIABILITY, /* observed frequencies against predicted probabilities */
    CLI_PLOT_CONFUSION    /* the confusion matrix */
} cli_plot_kind;
const char *cli_plot_kind_name(unsigned kind);
/* Returns false, after a message, if the kind does not suit the task; 0 classes: numbers. */
bool cli_plot_suits(cli_session *session, cli_plot_kind kind, size_t classes);
/* Plots a test; see cli_plot_file. */
int cli_plot(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, cli_plot_kind kind,
             const char *path);

#endif
