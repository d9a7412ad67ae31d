/* A table of predictions, written row by row: .csv, .tsv, .npy, CSV on standard output, or the start of a JSON object
 * ("columns", "predictions" or another key). Nothing is written before the first row, so that unreadable input produces
 * no output. */
#ifndef CLI_COMMON_PREDICTIONS_H
#define CLI_COMMON_PREDICTIONS_H

#include "json.h"
#include "output.h"

enum { CLI_NAME = 512 };
/* Returns the name of an item, which may be written to `room`. */
typedef const char *(*cli_name_fn)(const void *user, size_t index, char buffer[CLI_NAME]);

/* A cell that is copied from the input: a text, or a number if the text is NULL; NAN: missing. */
typedef struct cli_cell {
    const char *text;
    double number;
} cli_cell;

/* The caller sets the members up to `copied`. */
typedef struct cli_predictions {
    cli_session *session;
    const char *out;   /* .csv, .tsv, .npy; NULL: standard output */
    size_t classes;    /* the first column, "prediction", is one of these; 0: there is none */
    cli_name_fn label; /* of a class */
    size_t numbers;    /* columns of numbers */
    cli_name_fn name;  /* of one of them */
    const void *user;
    size_t item;     /* bytes of a number in a .npy: 4 or 8 */
    const char *key; /* of the rows in a JSON object; NULL: "predictions" */
    size_t copies;   /* columns before all others that are copied from the input; not for .npy */
    cli_name_fn copy_name;
    const cli_cell *copied; /* of the next row */

    cli_output output;
    cli_json json;
    bool begun;
    double *class_values; /* .npy: the number for each class */
    char **names;         /* of the columns, all different */
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
void cli_predictions_close(cli_predictions *table); /* without cli_predictions_end no file is left */

#endif
