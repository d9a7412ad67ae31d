/* Pictures by gnuplot through a pipe. Without gnuplot the picture is lost, never the numbers. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "metrics.h"

/* True when the ending names a kind of picture we draw: .svg, .png, .pdf. */
bool cli_plot_known(const char *path);
/* Predicted against true, or the confusion matrix. CLI_FAILED, after a message, when the picture could not be written; that
 * gnuplot is missing is only a warning. */
int cli_plot(cli_session *session, const cli_metrics *metrics, const bo_schema *schema, const char *path);

#endif
