/* Input columns that are copied next to the predictions: predict --copy. */
#ifndef CLI_TABLES_COPIED_COLUMNS_H
#define CLI_TABLES_COPIED_COLUMNS_H

#include "../common/predictions.h"

/* A second reader of the table, synchronous with the predictions. {0}: no columns. */
typedef struct cli_copied {
    bo_reader *reader;
    size_t *columns, count;
    bo_data_block block;
    size_t next; /* row of the block */
    cli_cell *cells;
} cli_copied;

/* Finds the columns of a comma-separated list of names or indices (negative: from the end). False after a message. */
bool cli_copied_open(cli_session *session, cli_copied *copied, const char *path, bo_format format, const char *list);
/* Reads the cells of the next row. */
bool cli_copied_next(cli_session *session, cli_copied *copied);
const char *cli_copied_name(const cli_copied *copied, size_t index, char buffer[CLI_NAME]);
void cli_copied_close(cli_copied *copied);

#endif
