/* Pictures by gnuplot through a pipe. Without gnuplot the picture is lost, never the numbers. */
#ifndef CLI_COMMON_PLOT_H
#define CLI_COMMON_PLOT_H

#include "metrics.h"
#include <stdio.h>

/* Draws through a pipe to gnuplot into a file that is renamed to `path` once it is whole: `draw` writes gnuplot's commands,
 * cli_picture_begin first. `note` follows the path where it is said. CLI_FAILED, after a message, when the picture could not
 * be written; that gnuplot is missing is only a warning. */
typedef void (*cli_draw_fn)(FILE *pipe, const char *path, const void *what);
int cli_picture(cli_session *session, const char *path, const char *note, cli_draw_fn draw, const void *what);
/* The same without a word about it. */
typedef enum cli_drawn { CLI_DRAWN, CLI_NO_TOOL, CLI_NOT_DRAWN, CLI_NOT_WRITTEN } cli_drawn;
cli_drawn cli_picture_try(const char *path, cli_draw_fn draw, const void *what);
/* The same through another program, a command that reads the drawing and writes the picture: "dot -Tsvg". */
cli_drawn cli_picture_through(const char *tool, const char *path, cli_draw_fn draw, const void *what);
/* The terminal, by the ending of the path; `font` in pixels at 96 to the inch. */
void cli_picture_begin(FILE *pipe, const char *path, int width, int height, int font);
/* A text in gnuplot's single quotes, as it is. */
void cli_picture_quoted(FILE *pipe, const char *text);
/* A title that fits into `room` pixels, and the size of its letters. */
void cli_picture_title(FILE *pipe, const char *title, int room);
int cli_picture_title_font(const char *title, int room);
/* The colors of curves, in their order; after the last comes the first. */
const char *cli_picture_color(size_t index);
enum { CLI_PICTURE_COLORS = 11 };

/* True when the ending names a kind of picture we draw: .svg, .png, .pdf. */
bool cli_plot_known(const char *path);
/* Predicted against true, or the confusion matrix; see cli_picture. */
int cli_plot(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, const char *path);

#endif
