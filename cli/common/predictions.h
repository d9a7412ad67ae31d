/* A table of answers, row by row as they are made: .csv, .tsv, .npy, CSV on standard output, or the beginning of a JSON object
 * ("columns", "predictions"). Nothing is written before the first row, so that input that cannot be read leaves nothing. */
#ifndef CLI_COMMON_PREDICTIONS_H
#define CLI_COMMON_PREDICTIONS_H

#include "json.h"
#include "output.h"

enum { CLI_NAME = 512 };
/* The name of something; `room` may hold it. */
typedef const char *(*cli_name_fn)(const void *user, size_t index, char room[CLI_NAME]);

/* What is said of it, then what it keeps. */
typedef struct cli_answers {
    cli_session *session;
    const char *out;   /* .csv, .tsv, .npy; NULL: standard output */
    size_t classes;    /* the first column, "prediction", is one of these; 0: there is none */
    cli_name_fn label; /* of a class */
    size_t numbers;    /* columns of numbers */
    cli_name_fn name;  /* of one of them */
    const void *user;
    size_t item; /* bytes of a number in a .npy: 4 or 8 */

    cli_output output;
    cli_json json;
    bool begun;
    double *class_values; /* .npy: what stands for each class */
    double *row;
} cli_answers;

/* CLI_DONE where `out` has an ending we write. */
int cli_answers_check_name(const char *command, const char *out);
/* Each says what went wrong and returns false. */
bool cli_answers_open(cli_answers *answers);
bool cli_answers_row(cli_answers *answers, size_t class_index, const double *numbers);
bool cli_answers_flush(cli_answers *answers); /* what was written is with its reader */
bool cli_answers_end(cli_answers *answers);   /* the file is at its place */
/* The object for what else is to be said, after the end; cli_json_end closes it. */
cli_json *cli_answers_json(cli_answers *answers);
void cli_answers_close(cli_answers *answers); /* after an error nothing is left at `out` */

#endif
