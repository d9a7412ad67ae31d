/* A table of predictions, written row by row: .csv, .tsv, .npy, CSV on standard output, or the start of a JSON object
 * ("columns", "predictions" or another key). Nothing is written before the first row, so unreadable input produces no
 * output. */
#ifndef CLI_COMMON_PREDICTIONS_H
#define CLI_COMMON_PREDICTIONS_H

#include "json.h"
#include "output.h"

enum { CLI_NAME = 512 };
/* Returns the name of an item, which may be stored in `buffer`. */
typedef const char *(*cli_name_fn)(const void *user, size_t index, char buffer[CLI_NAME]);

/* A cell copied from the input: text, or a number if the text is NULL; NAN: missing. */
typedef struct cli_cell {
    const char *text;
    double number;
} cli_cell;

/* The caller sets the members up to `copied`. */
typedef struct cli_predictions {
    cli_session *session;
    const char *out;   /* .csv, .tsv, .npy; NULL: standard output */
    size_t classes;    /* number of classes in the first column, "prediction"; 0: no such column */
    cli_name_fn label; /* label of a class */
    size_t numbers;    /* number columns */
    cli_name_fn name;  /* name of a number column */
    const void *user;
    size_t item;     /* bytes of a number in a .npy: 4 or 8 */
    const char *key; /* key of the rows in a JSON object; NULL: "predictions" */
    size_t copies;   /* leading columns copied from the input; not for .npy */
    cli_name_fn copy_name;
    const cli_cell *copied; /* cells of the next row */

    cli_output output;
    cli_json json;
    bool begun;
    double *class_values; /* .npy: the number for each class */
    char **names;         /* unique names of the columns */
    double *row;
} cli_predictions;

/* Returns CLI_DONE if `out` has a supported ending, otherwise CLI_USAGE_ERROR after a message. */
int cli_predictions_check_name(const char *command, const char *out);
/* Each returns false after a message. */
bool cli_predictions_open(cli_predictions *table);
bool cli_predictions_row(cli_predictions *table, size_t class_index, const double *numbers);
bool cli_predictions_flush(cli_predictions *table); /* flushes the rows to the reader */
bool cli_predictions_end(cli_predictions *table);   /* completes the file */
/* The JSON object for further members, after the end; cli_json_end closes it. */
cli_json *cli_predictions_json(cli_predictions *table);
void cli_predictions_close(cli_predictions *table); /* without cli_predictions_end the file is removed */

#endif
