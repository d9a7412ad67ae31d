/* --length-scales: one number for each column, from a file in any format. */
#ifndef CLI_TABLES_LENGTH_SCALES_H
#define CLI_TABLES_LENGTH_SCALES_H

#include "../common/cli.h"

/* A positive number for each of the `dim` columns of `data`; freed by the caller. NULL after saying what is wrong. */
float *cli_length_scales(cli_session *session, const char *path, const char *data, size_t dim);

#endif
