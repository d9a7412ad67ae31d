/* One parser for every command's long options, driven by a table; the help is printed from the same table.
 *
 * --name value and --name=value; flags take no value; "--" ends the options; "-" is an argument (standard
 * input). */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum cli_type {
    CLI_SECTION,      /* not an option: a heading of the help; name is its title */
    CLI_FLAG,         /* bool */
    CLI_TEXT,         /* const char *; empty only where high > 0 */
    CLI_COUNT,        /* size_t, within [low, high] where high > 0 */
    CLI_REAL,         /* double, within [low, high] where high > low */
    CLI_REAL_OR_AUTO, /* double > 0; "auto" is 0 */
    CLI_CHOICE,       /* int: the index of the name in `choice` */
    CLI_BYTES,        /* size_t; K, M, G, T are powers of 1024 */
    CLI_SEED,         /* uint64_t */
    CLI_LIST          /* cli_list: may be given several times */
} cli_type;

typedef struct cli_option {
    cli_type type;
    const char *name;     /* without the dashes */
    const char *argument; /* the word for the value in the help */
    const char *help;
    void *value;
    const char *(*choice)(int index); /* CHOICE: NULL past the last name */
    double low, high;
} cli_option;

enum { CLI_LIST_ROOM = 64 };
typedef struct cli_list {
    const char *items[CLI_LIST_ROOM];
    size_t count;
} cli_list;

/* What every command understands. */
typedef struct cli_common {
    size_t threads;
    uint64_t seed;
    bool json, quiet;
    const char *isa;
} cli_common;

typedef struct cli_usage {
    const char *command;  /* "fit" */
    const char *synopsis; /* "TRAIN… --out MODEL" */
    const char *about;    /* a paragraph */
    const char *examples; /* lines that work as they stand */
    const cli_option *options;
    size_t count;
} cli_usage;

typedef struct cli_arguments {
    const char **items; /* arguments that are not options; freed by the caller */
    size_t count;
} cli_arguments;

typedef enum cli_parsed { CLI_PARSED, CLI_HELP_SHOWN, CLI_WRONG } cli_parsed;

/* Fills the values of the table and `common`. Prints the help, or to stderr what is wrong. */
cli_parsed cli_parse(const cli_usage *usage, int argc, char **argv, cli_common *common, cli_arguments *arguments);

/* The members of a JSON object as words of a command line, "--name=value" ("--name" of true; a list gives one word an item);
 * each and the array freed with free. False after saying what is wrong with the file. */
bool cli_config_read(const char *command, const char *path, int *count, char ***words);
/* Has it another value than the same option of another table? */
bool cli_option_differs(const cli_option *option, const cli_option *from);
/* The options that differ from those of `defaults`, a table alike, as such an object. */
void cli_config_print(FILE *out, const cli_option *options, const cli_option *defaults, size_t count);

/* Names of the library's enums, for CLI_CHOICE. */
const char *cli_kernel_choice(int index);
const char *cli_function_choice(int index);
const char *cli_draw_choice(int index);
const char *cli_sampling_choice(int index);
const char *cli_task_choice(int index);
const char *cli_loss_choice(int index);
const char *cli_solver_choice(int index);
const char *cli_precision_choice(int index);
const char *cli_scaling_choice(int index);
const char *cli_impute_choice(int index);
const char *cli_format_choice(int index);

#define CLI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
