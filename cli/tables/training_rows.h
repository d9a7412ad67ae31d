/* Training rows from one or several files, whole or in blocks, with a share of them held out for the test.
 *
 * A row is held out when a hash of (seed, its number) says so: the same rows in memory and in a stream. */
#ifndef CLI_TABLES_TRAINING_ROWS_H
#define CLI_TABLES_TRAINING_ROWS_H

#include "../common/cli.h"

typedef struct cli_source {
    bo_data_desc desc;  /* path is the first file */
    const char **paths; /* borrowed */
    size_t files;
    double holdout; /* share of the rows kept for the test */
    uint64_t seed;
} cli_source;

/* One positive number a column of `data`, from a file in any format; freed by the caller. NULL after saying what is wrong. */
float *cli_length_scales(cli_session *session, const char *path, const char *data, size_t dim);

/* ---- in memory ----------------------------------------------------------------------------------------- */

typedef struct cli_table {
    bo_data *data; /* the file as it was read, or NULL when x and y are our own */
    float *x, *test_x;
    double *y, *test_y;
    size_t rows, test_rows, dim, targets, classes;
    bo_schema *schema; /* ours when data is NULL */
} cli_table;

/* Says what is wrong and returns false. */
bool cli_table_load(cli_session *session, const cli_source *source, cli_table *table);
void cli_table_close(cli_table *table);

/* ---- in blocks ----------------------------------------------------------------------------------------- */

typedef enum cli_side { CLI_TRAIN_ROWS, CLI_TEST_ROWS } cli_side;

typedef struct cli_rows {
    const cli_source *source;
    const bo_schema *schema;
    cli_side side;
    int rank, size;    /* of a parallel job */
    size_t file;       /* the next to open */
    bo_stream *stream; /* the one being read, or NULL */
    uint64_t next_row; /* number of the next row over all files, where rows are held out */
} cli_rows;

void cli_rows_open(cli_rows *rows, const cli_source *source, const bo_schema *schema, cli_side side, int rank,
                   int size);
/* Up to max_rows rows; *count is 0 at the end. */
bo_status cli_rows_next(bo_context *context, cli_rows *rows, size_t max_rows, float *x, double *y, size_t *count);
void cli_rows_close(cli_rows *rows);

bo_status cli_schema_copy(bo_context *context, const bo_schema *schema, bo_schema **out);

/* Rows of each file, held out ones included. */
bo_status cli_source_count(bo_context *context, const cli_source *source, const bo_schema *schema, size_t *counts);
/* A uniform sample of the training rows. `counts` as above. */
bo_status cli_source_sample(bo_context *context, const cli_source *source, const bo_schema *schema,
                            const size_t *counts, size_t want, float *x, double *y, size_t *sampled);

#endif
