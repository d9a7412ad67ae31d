/* The options of all commands as tables. The parser, --help, the manual page, the completion scripts and the lists in
 * docs/reference/commands.md use the same tables.
 *
 * A command has an options struct, whose first member is a cli_given. Each row names the member that it sets:
 *
 *     typedef struct fit_options {
 *         cli_given was_given;
 *         size_t features;
 *         bo_kernel kernel;
 *     } fit_options;
 *     static const cli_option rows[] = {
 *         COUNT("features", "R", fit_options, features, "length of the feature vector", .low = 1, .initial = "4096"),
 *         CHOICE("kernel", "K", fit_options, kernel, BO_ENUM_KERNEL, "similarity of two rows"),
 *         END_OF_OPTIONS,
 *     };
 *
 * On the command line: --name value and --name=value; flags take no value; "--" ends the options; "-" is an argument
 * (standard input). */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include <bochner/names.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- rows -------------------------------------------------------------------------------------------------------- */

typedef enum cli_type {
    CLI_END,          /* ends a table */
    CLI_SECTION,      /* a heading of the help, not an option; the name is its title */
    CLI_FLAG,         /* bool */
    CLI_TEXT,         /* const char * */
    CLI_COUNT,        /* size_t, within [low, high]; high 0: no upper bound */
    CLI_REAL,         /* double, within [low, high] where high > low */
    CLI_REAL_OR_AUTO, /* double > 0; "auto" is 0, as if not given */
    CLI_CHOICE,       /* an enumeration: the index of the name; "auto" and "default": not given */
    CLI_BYTES,        /* size_t; K, M, G, T are powers of 1024 */
    CLI_SEED,         /* uint64_t */
    CLI_LIST          /* cli_list: may be given several times */
} cli_type;

/* Names of an enumeration of the program; NULL after the last name. Enumerations without negative values are compatible
 * with unsigned. */
typedef const char *(*cli_names_fn)(unsigned index);

typedef struct cli_option {
    cli_type type;
    const char *name;                      /* without the dashes */
    const char *former_name;               /* also accepted, with a note, until the next version; NULL: none */
    const char *argument;                  /* placeholder of the value in the help */
    size_t at;                             /* offset of the member in the options struct */
    bo_enum enumeration;                   /* CHOICE: an enumeration of the library, or */
    cli_names_fn names;                    /* one of the program */
    const char *(*find)(const char *word); /* CHOICE: returns the name for an alias, or NULL; NULL: no aliases */
    const char *help;
    double low, high;
    unsigned without;         /* CHOICE: bit mask of values that are not offered */
    bool may_be_empty;        /* TEXT */
    const char *initial;      /* default value, as on the command line; NULL: the member stays zero */
    const char *default_text; /* describes a default that the library or the command chooses */
    /* Bits of bo_attention_trait: the option applies to kinds of attention that may have one of these traits; 0: to
     * all. Other bits are defined by the command. */
    unsigned traits;
} cli_option;

#define SECTION(title) {.type = CLI_SECTION, .name = title}
#define END_OF_OPTIONS {.type = CLI_END}
/* .default_text repeats a default of the library; tests/cli/test_defaults.sh compares it with the library. */

/* The last arguments are the help and any other members of the row: .low = 1, .initial = "4096". */
#define FLAG(option, owner, member, ...) CLI_ROW(CLI_FLAG, option, NULL, CLI_AT(owner, member, bool * : 0), __VA_ARGS__)
#define TEXT(option, word, owner, member, ...)                                                                         \
    CLI_ROW(CLI_TEXT, option, word, CLI_AT(owner, member, const char ** : 0), __VA_ARGS__)
#define COUNT(option, word, owner, member, ...)                                                                        \
    CLI_ROW(CLI_COUNT, option, word, CLI_AT(owner, member, size_t * : 0), __VA_ARGS__)
#define REAL(option, word, owner, member, ...)                                                                         \
    CLI_ROW(CLI_REAL, option, word, CLI_AT(owner, member, double * : 0), __VA_ARGS__)
#define REAL_OR_AUTO(option, owner, member, ...)                                                                       \
    CLI_ROW(CLI_REAL_OR_AUTO, option, "X|auto", CLI_AT(owner, member, double * : 0), __VA_ARGS__)
#define CHOICE(option, word, owner, member, which, ...)                                                                \
    CLI_ROW(CLI_CHOICE, option, word, CLI_AT(owner, member, unsigned * : 0), __VA_ARGS__, .enumeration = which)
#define CHOICE_OF(option, word, owner, member, names_of, ...)                                                          \
    CLI_ROW(CLI_CHOICE, option, word, CLI_AT(owner, member, unsigned * : 0), __VA_ARGS__, .names = names_of)
#define BYTES(option, word, owner, member, ...)                                                                        \
    CLI_ROW(CLI_BYTES, option, word, CLI_AT(owner, member, size_t * : 0), __VA_ARGS__)
#define SEED(option, word, owner, member, ...)                                                                         \
    CLI_ROW(CLI_SEED, option, word, CLI_AT(owner, member, uint64_t * : 0), __VA_ARGS__)
#define LIST(option, word, owner, member, ...)                                                                         \
    CLI_ROW(CLI_LIST, option, word, CLI_AT(owner, member, cli_list * : 0), __VA_ARGS__)

/* The device of the context of a command, a member of its options: const char *device. */
#define DEVICE(owner)                                                                                                  \
    TEXT(                                                                                                              \
        "device", "NAME", owner, device,                                                                               \
        "where the model is computed: cpu, cuda (a GPU; one per rank with mpirun), cuda:N or auto (a GPU if there is " \
        "one)",                                                                                                        \
        .initial = "cpu")

/* The precision of the context of a command, a member of its options: bo_precision precision. */
#define PRECISION(owner, ...)                                                                                          \
    CHOICE("precision", "P", owner, precision, BO_ENUM_PRECISION,                                                      \
           "precision of matrix products; bfloat16 is faster on GPUs, and on CPUs with AMX or AVX512-BF16",            \
           .default_text = "float32; on a GPU bfloat16", __VA_ARGS__)

#define CLI_ROW(kind, option, word, place, ...)                                                                        \
    {.type = kind, .name = option, .argument = word, .at = place, .help = __VA_ARGS__}
/* The offset of a member. Does not compile if the member has another type, or if `was_given` is not the first
 * member. */
#define CLI_AT(owner, member, ...)                                                                                     \
    (offsetof(owner, member) + 0 * sizeof(_Generic(&((owner *)0)->member, __VA_ARGS__)) +                              \
     0 * sizeof(char[offsetof(owner, was_given) == 0 && offsetof(owner, member) < CLI_MAX_OPTIONS_BYTES ? 1 : -1]))

enum { CLI_LIST_CAPACITY = 1024 }; /* for the files of large data sets */
typedef struct cli_list {
    const char *items[CLI_LIST_CAPACITY];
    size_t count;
} cli_list;

/* ---- which options were given ------------------------------------------------------------------------------------ */

/* The first member of each options struct: one bit per byte of the struct, set at the offset of each given member. */
enum { CLI_MAX_OPTIONS_BYTES = 16384 };
typedef struct cli_given {
    uint8_t bits[CLI_MAX_OPTIONS_BYTES / 8];
} cli_given;

bool cli_given_at(const cli_given *given, size_t at);
void cli_set_given_at(cli_given *given, size_t at, bool value);
#define CLI_MEMBER(options, member) ((size_t)((const char *)&(options)->member - (const char *)(options)))
#define CLI_GIVEN(options, member)  cli_given_at(&(options)->was_given, CLI_MEMBER(options, member))
#define CLI_SET_GIVEN(options, member, value)                                                                          \
    cli_set_given_at(&(options)->was_given, CLI_MEMBER(options, member), value)

/* The next row after `after` (NULL: from the start) whose option was given; NULL: none. `options` is the options struct
 * of the rows. */
const cli_option *cli_next_given(const cli_option *rows, const void *options, const cli_option *after);
/* Resets an option without .initial, as if it was not given. */
void cli_reset_option(const cli_option *row, void *options);

/* ---- commands ---------------------------------------------------------------------------------------------------- */

/* Rows, and the offset of their struct in the options struct of the command. */
typedef struct cli_group {
    const cli_option *rows;
    size_t at;
} cli_group;

/* Overrides `initial` and `default_text` of the row of that option. */
typedef struct cli_default {
    const char *option, *initial, *default_text;
} cli_default;

enum { CLI_GROUPS = 14, CLI_DEFAULTS = 4, CLI_SHORT_HELP = 24, CLI_SUBCOMMANDS = 8 };
typedef struct cli_usage {
    const char *command;                /* "fit" */
    const char *synopsis;               /* "TRAIN… --out MODEL" */
    const char *about;                  /* a paragraph */
    const char *examples;               /* commands that can be pasted, one per line */
    cli_group groups[CLI_GROUPS];       /* up to the first without rows */
    cli_default defaults[CLI_DEFAULTS]; /* up to the first without a name */
    /* Groups from index `as_of_from` on are shared with the command `as_of`; manuals list them only there. NULL:
     * none. */
    const char *as_of;
    size_t as_of_from;
    /* Names of the options in the short help (--help), the most important first, up to the first NULL; options that do
     * not fit on a screen are omitted. --help-all lists all options. Empty: --help lists all options, too. */
    const char *short_help[CLI_SHORT_HELP];
    const char *subcommands[CLI_SUBCOMMANDS]; /* values of the first argument, up to the first NULL */
} cli_usage;

/* Options of all commands. */
typedef struct cli_common {
    cli_given was_given;
    size_t threads;
    uint64_t seed;
    bool json, quiet, verbose;
    const char *isa;
} cli_common;
extern const cli_option cli_common_rows[];

typedef struct cli_arguments {
    const char **items; /* arguments that are not options; freed by the caller */
    size_t count;
} cli_arguments;

/* CLI_UNREADABLE: a file of options is unreadable or damaged, which is not a usage error. */
typedef enum cli_parsed { CLI_PARSED, CLI_HELP_SHOWN, CLI_PARSE_ERROR, CLI_UNREADABLE } cli_parsed;

/* Sets the defaults of the rows, then the values of the command line. `options` is zero except for members without a
 * row. Prints the help, or an error on stderr. */
cli_parsed cli_parse(const cli_usage *usage, int argc, char **argv, void *options, cli_common *common,
                     cli_arguments *arguments);
/* The two steps separately, to apply several command lines in order. An invalid default, or a default of an unknown
 * option, is an error in the tables: the program aborts. */
void cli_set_initial(const cli_usage *usage, void *options);
cli_parsed cli_parse_over(const cli_usage *usage, int argc, char **argv, void *options, cli_common *common,
                          cli_arguments *arguments);

/* The default of a row for the help: `initial` or `default_text`; NULL: none. */
const char *cli_default_text(const cli_usage *usage, const cli_option *row);
/* The row of the option of that name, common ones included; NULL: none. */
const cli_option *cli_find_row(const cli_usage *usage, const char *name);
/* The name of a value of a CHOICE; NULL: the value is not offered. Values are below cli_choice_count. */
const char *cli_choice_name(const cli_option *row, unsigned value);
unsigned cli_choice_count(const cli_option *row);

/* ---- help -------------------------------------------------------------------------------------------------------- */

/* Prints the help of a command: all options in sections, or only the most important ones if `all` is false and the full
 * help does not fit on a screen. */
void cli_help(FILE *out, const cli_usage *usage, bool all);
/* Returns the attention preset for a name or alias; NULL if unknown. */
const char *cli_attention_preset(const char *name);
/* "softmax, hybrid, power": the kinds of attention that may have one of these traits. */
const char *cli_kinds_with(unsigned traits, char *out, size_t out_size);
/* The help of a row with the names of a choice and the kinds of its traits, without the default; freed by the caller.
 * "some kinds only" replaces a long list of kinds, which cli_next_kind_options returns. */
char *cli_help_text(const cli_option *row);
/* The help of a row up to the first semicolon; freed by the caller. */
char *cli_help_summary(const cli_option *row);

/* Kinds of attention with the same options, and these options: "rfa, rfa-gate", "--map --features". Options of all
 * kinds are omitted. */
typedef struct cli_kind_options {
    char kinds[256], options[1024];
} cli_kind_options;
#define CLI_KINDS_TITLE "Options of each kind of attention"
/* The next of them among the first `groups` groups of the command; *at is 0 for the first. False: there are no more. */
bool cli_next_kind_options(const cli_usage *usage, size_t groups, size_t *at, cli_kind_options *out);

/* ---- options in files -------------------------------------------------------------------------------------------- */

/* Reads a JSON object as command-line arguments, "--name=value" ("--name" for true; one argument per item of a list).
 * The caller frees each argument and the array. Other results follow a message. */
cli_parsed cli_config_read(const char *command, const char *path, int *count, char ***args);
/* Prints the given options and seed as such an object with a checksum (bo_json_seal). Returns false and sets errno if
 * memory is exhausted or writing fails. */
bool cli_config_print(FILE *out, const cli_usage *usage, const void *options, const cli_common *common);

#define CLI_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
