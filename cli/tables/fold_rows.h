/* The training and test rows of a fold. Encodings of columns (categories, replacements of missing values) are learned
 * from the training rows of the fold. */
#ifndef CLI_TABLES_FOLD_ROWS_H
#define CLI_TABLES_FOLD_ROWS_H

#include "fit.h"

/* A table whose rows are divided into folds. */
typedef struct cli_fold_table {
    cli_session *session;
    bo_data_desc desc;
    const bo_data *data; /* the whole table */
    size_t folds;
    char *drop;   /* indices of the columns omitted from the table */
    size_t *fold; /* the fold of each row; CLI_NEVER_TESTED: a training row in every fold */
    /* The rows as CSV: row i is text[start[i], start[i + 1]), and the header ends at start[0]. NULL: all folds use the
     * encodings of the whole table, because these do not depend on the rows, or because the format is not text. */
    char *text;
    size_t *start;
    bool shared; /* some fold uses the encodings of the whole table, although they depend on the rows */
} cli_fold_table;

#define CLI_NEVER_TESTED ((size_t)-1)

/* Divides the training rows of the job into folds. Returns false after a message, like the functions below. */
bool cli_fold_table_open(cli_fold_table *table, const cli_fit_job *job, size_t folds);
void cli_fold_table_close(cli_fold_table *table);

/* Rows and their storage. */
typedef struct cli_rows {
    bo_samples samples;
    bo_data *data; /* NULL: the members below are the storage */
    float *x, *weights;
    double *y;
    bo_sparse sparse;
} cli_rows;

bool cli_fold_rows(cli_fold_table *table, size_t fold, cli_rows *train, cli_rows *test);
/* Copies rows with a part less than `below`. */
void cli_rows_select(const bo_samples *from, const size_t *parts, size_t below, cli_rows *out);
void cli_rows_free(cli_rows *rows);

#endif
