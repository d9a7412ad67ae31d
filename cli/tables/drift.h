/* Two tables as rows of numbers and category codes, and the report of bochner drift. */
#ifndef CLI_TABLES_DRIFT_H
#define CLI_TABLES_DRIFT_H

#include "../common/cli.h"
#include "../common/json.h"

typedef struct cli_drift_options {
    cli_given was_given;
    const char *drop, *categorical;
    bo_format format;
    bo_kernel kernel;
    bo_p_value p_value;
    size_t features, permutations, shown;
    double gamma, alpha;
    bool common, exit_code;
} cli_drift_options;

/* The distinct texts of a column, in a hash table. */
typedef struct cli_labels {
    struct cli_label {
        char *text;
        size_t count[2]; /* in A and B */
        size_t code;
    } *items;
    size_t count, capacity;
    size_t *slots; /* index of the item + 1; 0: empty */
    size_t slot_count;
} cli_labels;

/* Sums over the numbers of one side. */
typedef struct cli_drift_sums {
    size_t present, missing;
    double mean, squares; /* of the deviations from the mean */
} cli_drift_sums;

typedef struct cli_drift_part {
    const char *name;    /* owned by the table */
    size_t at[2];        /* column index in each file */
    bool category, date; /* both false: numbers */
    int form;            /* date format, an index of bo_text_meaning.date; dates are stored as days since 1970-01-01 */
    /* Counts of the first pass: numbers; texts; dates in each format; texts that mean a missing value; infinities. */
    size_t numbers, texts, dates[3], missing_texts, infinite;
    double wide; /* the last out-of-range number, or 0 */
    int wide_side;
    cli_labels labels;
    size_t categories; /* number of codes: the most frequent labels, then one code for all other labels */
    cli_drift_sums sums[2];
} cli_drift_part;

/* Both files. A row has one number per column: a number or a category code, NAN if it is missing. */
typedef struct cli_drift_table {
    cli_session *session;
    const cli_drift_options *options;
    const char *paths[2]; /* as given */
    bo_reader *readers[2];
    size_t rows[2];
    size_t columns;
    cli_drift_part *parts;
    char *names;           /* generated names of unnamed columns */
    size_t sample_rows[2]; /* number of sampled rows */
    double *sample[2];     /* uniform samples of the rows of each side */
    uint64_t random;       /* state of the generator */
} cli_drift_table;

enum { CLI_DRIFT_CATEGORIES = 256 }; /* maximum codes per column */

/* Opens both files and matches their columns. `open_paths` are the files or temporary copies of pipes. Each function
 * returns false after a message. */
bool cli_drift_open(cli_drift_table *table, const char *const *open_paths);
/* Determines the kinds and categories of the columns, and samples rows. */
bool cli_drift_scan(cli_drift_table *table);
/* Calls `use` with the rows of one side in blocks. */
typedef bo_status (*cli_drift_fn)(void *user, size_t rows, const double *x);
bool cli_drift_read(cli_drift_table *table, int side, cli_drift_fn use, void *user);
/* A uniform sample of the rows of both sides, freed by the caller. */
double *cli_drift_pool(cli_drift_table *table, size_t *rows);
void cli_drift_close(cli_drift_table *table);

typedef struct cli_drift_result {
    const cli_drift_table *table;
    bo_drift_report report;
    bo_drift_column *columns;
    size_t *order; /* columns in descending order of their difference */
    bool differs;
    double seconds;
} cli_drift_result;

void cli_drift_print(const cli_drift_result *result);
void cli_drift_json(const cli_drift_result *result);

#endif
