/* The state of bochner explain: a model, a sample of a table, and measurements. */
#ifndef CLI_TABLES_EXPLAIN_H
#define CLI_TABLES_EXPLAIN_H

#include "../common/cli.h"
#include "../common/json.h"
#include "../common/metrics.h"

typedef struct cli_explain_options {
    cli_given was_given;
    const char *columns, *target, *labels, *out;
    bo_format format;
    size_t row, rows, repeats, samples, points, curves, top;
} cli_explain_options;

/* A column of the table. */
typedef struct cli_explain_column {
    char *name; /* owned */
    size_t first, inputs;
    bool category; /* its inputs are categories: "town=Rye" */
    bool number;   /* its first input is its value */
    bool date;     /* its first inputs are the year and the day of the year */
} cli_explain_column;

/* The value of a column in a row as text. */
typedef struct cli_explain_value {
    char text[64];
    double number; /* dates: in years; NAN: text only */
    bool missing;
} cli_explain_value;

/* The curve of a column: points x outputs numbers. */
typedef struct cli_explain_curve {
    size_t column, points;
    cli_explain_value *values;
    double *mean, *low, *high;
} cli_explain_curve;

typedef struct cli_explain_job {
    cli_session *session;
    const cli_explain_options *options;
    const char *model_path, *data_path; /* as given */
    const char *open_path;              /* the data, or a temporary copy of a pipe */
    bo_machine *machine;
    const bo_fit_report *report;
    bo_schema *schema;
    bo_table_desc source;
    bo_table *table;
    bool has_target, has_row;
    size_t outputs;
    size_t shown; /* the output in texts and plots */
    size_t columns;
    cli_explain_column *column;
    size_t *starts;
    bo_explain_desc desc;
    /* the sample */
    size_t table_rows; /* 0: not counted */
    size_t rows;
    float *x;
    double *y;  /* NULL without a target */
    float *row; /* dim numbers, the explained row; NULL: none */
    /* measured */
    double *gradients;
    bo_explain_errors errors;
    bo_column_importance *importance;
    size_t permuted; /* number of permuted columns */
    size_t *order;   /* columns, the most important first */
    size_t directions;
    double *shares, *vectors;
    size_t curve_rows, curve_count;
    cli_explain_curve *curves;
    size_t samples;
    double *base, *prediction, *contributions, *contribution_errors;
    double seconds;
} cli_explain_job;

/* explain_table.c: the model, the table and its columns. Each function returns false after a message. */
bool cli_explain_open(cli_explain_job *job);
/* Reads the sample and, with --row, the row. */
bool cli_explain_read(cli_explain_job *job);
void cli_explain_value_of(const cli_explain_job *job, size_t column, const float *row, cli_explain_value *out);
/* The name of an output, a class or a target. `buffer` stores generated names. */
const char *cli_explain_output(const cli_explain_job *job, size_t output, cli_short_text *buffer);

/* The metric of permutation importance: "RMSE". */
const char *cli_explain_measure(const cli_explain_job *job);
/* The unit of the scaled inputs, for gradients: "standard deviation of the column". */
const char *cli_explain_slope_unit(const cli_explain_job *job);
/* Formats a number with the decimals of five digits of `scale`, the largest number of a sum, so that sums agree. */
cli_short_text cli_explain_number(double value, double scale);
double cli_explain_curve_scale(const cli_explain_job *job, const cli_explain_curve *curve);
double cli_explain_row_scale(const cli_explain_job *job);
/* Columns in descending order of their contributions to the shown output; freed by the caller. */
size_t *cli_explain_row_order(const cli_explain_job *job);
/* The inputs of a direction with the largest coordinates, at least `threshold`; returns their number, at most
 * `capacity`. */
size_t cli_explain_loadings(const cli_explain_job *job, size_t direction, size_t capacity, double threshold,
                            size_t *out);

void cli_explain_print(const cli_explain_job *job);
void cli_explain_json(const cli_explain_job *job);
void cli_explain_page(FILE *out, const cli_explain_job *job); /* HTML */

#endif
