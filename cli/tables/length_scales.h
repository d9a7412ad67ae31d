/* --length-scales: reads one positive number per column from a file in any table format. */
#ifndef CLI_TABLES_LENGTH_SCALES_H
#define CLI_TABLES_LENGTH_SCALES_H

#include "../common/cli.h"

/* One number per column of `data`, which has `dim` columns; freed by the caller. NULL after an error was reported. */
float *cli_length_scales(cli_session *session, const char *path, const char *data, size_t dim);

#endif
