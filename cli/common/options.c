/* The parser of options. */
#include "options.h"
#include "format.h"
#include "streams.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const cli_option cli_common_rows[] = {
    SECTION("Common"),
    COUNT("threads", "N", cli_common, threads, "number of threads; results do not depend on it", .low = 1, .high = 4096,
          .default_text = "all cores"),
    SEED("seed", "N", cli_common, seed, "seed of all random numbers", .initial = "0"),
    FLAG("json", cli_common, json, "print one JSON object on standard output"),
    FLAG("quiet", cli_common, quiet, "print only results, warnings and errors"),
    FLAG("verbose", cli_common, verbose, "print more, such as measured rates and timings"),
    TEXT("isa", "NAME", cli_common, isa, "instruction set to use: amx, avx512bf16, avx512, avx2, neon or ref",
         .default_text = "the best for this CPU"),
    END_OF_OPTIONS,
};

/* ---- given ------------------------------------------------------------------------------------------------------- */

bool cli_given_at(const cli_given *given, size_t at)
{
    return given->bits[at / 8] >> at % 8 & 1;
}

void cli_set_given_at(cli_given *given, size_t at, bool value)
{
    const uint8_t bit = (uint8_t)(1u << at % 8);
    given->bits[at / 8] = (uint8_t)(value ? given->bits[at / 8] | bit : given->bits[at / 8] & ~bit);
}

const cli_option *cli_next_given(const cli_option *rows, const void *options, const cli_option *after)
{
    for (const cli_option *row = after ? after + 1 : rows; row->type != CLI_END; row++)
        if (row->type != CLI_SECTION && cli_given_at(options, row->at)) return row;
    return NULL;
}

static size_t bytes_of(cli_type type)
{
    switch (type) {
    case CLI_FLAG:
        return sizeof(bool);
    case CLI_TEXT:
        return sizeof(const char *);
    case CLI_COUNT:
    case CLI_BYTES:
        return sizeof(size_t);
    case CLI_REAL:
    case CLI_REAL_OR_AUTO:
        return sizeof(double);
    case CLI_CHOICE:
        return sizeof(unsigned);
    case CLI_SEED:
        return sizeof(uint64_t);
    case CLI_LIST:
        return sizeof(cli_list);
    default:
        return 0;
    }
}

void cli_reset_option(const cli_option *row, void *options)
{
    memset((char *)options + row->at, 0, bytes_of(row->type));
    cli_set_given_at(options, row->at, false);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Also returns names of values that are not offered. */
static const char *name_of(const cli_option *row, unsigned value)
{
    return row->names ? row->names(value) : bo_enum_name(row->enumeration, (int)value);
}

const char *cli_choice_name(const cli_option *row, unsigned value)
{
    return value < 32 && row->without >> value & 1 ? NULL : name_of(row, value);
}

unsigned cli_choice_count(const cli_option *row)
{
    unsigned count = 0;
    while (name_of(row, count)) count++;
    return count;
}

const cli_option *cli_find_row(const cli_usage *usage, const char *name)
{
    for (size_t g = 0; g <= CLI_GROUPS; g++) {
        const cli_option *row = g < CLI_GROUPS ? usage->groups[g].rows : cli_common_rows;
        for (; row && row->type != CLI_END; row++)
            if (row->type != CLI_SECTION && strcmp(row->name, name) == 0) return row;
    }
    return NULL;
}

/* The default of the command, which overrides the default of the row; NULL: none. */
static const cli_default *default_of(const cli_usage *usage, const cli_option *row)
{
    for (size_t i = 0; i < CLI_DEFAULTS && usage->defaults[i].option; i++)
        if (strcmp(usage->defaults[i].option, row->name) == 0) return &usage->defaults[i];
    return NULL;
}

static const char *initial_of(const cli_usage *usage, const cli_option *row)
{
    const cli_default *override = default_of(usage, row);
    return override ? override->initial : row->initial;
}

const char *cli_default_text(const cli_usage *usage, const cli_option *row)
{
    if (row->type == CLI_SECTION) return NULL;
    const char *initial = initial_of(usage, row);
    const cli_default *override = default_of(usage, row);
    return initial ? initial : override ? override->default_text : row->default_text;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bool parse_real(const char *text, double *out)
{
    char *end;
    if (*text == 0 || strchr(" \t\n", *text)) return false;
    *out = strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

static bool parse_count(const char *text, uint64_t *out, const char **rest)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0) return false;
    *out = value;
    *rest = end;
    return true;
}

static bool parse_bytes(const char *text, size_t *out)
{
    uint64_t value;
    const char *rest;
    if (!parse_count(text, &value, &rest)) return false;
    static const char suffixes[] = "KMGT";
    const char *suffix = *rest ? strchr(suffixes, *rest >= 'a' ? *rest - 'a' + 'A' : *rest) : NULL;
    const int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (suffix) rest++;
    if (suffix && *rest == 'i') rest++;
    if (*rest == 'B') rest++;
    if (*rest || value > (SIZE_MAX >> shift)) return false;
    *out = (size_t)value << shift;
    return true;
}

static const char *choice_at(const void *row, size_t index)
{
    return cli_choice_name(row, (unsigned)index);
}

static bool invalid_choice(const cli_usage *usage, const cli_option *row, const char *text)
{
    cli_streams_print("bochner %s: --%s: expected one of", usage->command, row->name);
    const unsigned count = cli_choice_count(row);
    const char *between = " ", *near = cli_nearest(text, count, choice_at, row);
    for (unsigned i = 0; i < count; i++) {
        if (!cli_choice_name(row, i)) continue;
        cli_streams_print("%s%s", between, cli_choice_name(row, i));
        between = ", ";
    }
    cli_streams_print("; found '%s'", text);
    if (near) cli_streams_print("; did you mean %s?", near);
    cli_streams_print("\n");
    return false;
}

static bool invalid_value(const cli_usage *usage, const cli_option *row, const char *expected, const char *text)
{
    cli_streams_print("bochner %s: --%s: expected %s, found '%s'\n", usage->command, row->name, expected, text);
    return false;
}

static bool set_count(const cli_usage *usage, const cli_option *row, const char *text, size_t *out)
{
    char expected[128];
    uint64_t value;
    const char *rest;
    if (row->high > 0)
        snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", row->low, row->high);
    else if (strlen(text) > 18 && !text[strspn(text, "0123456789")]) /* too large */
        snprintf(expected, sizeof expected, "a whole number from %.0f to %zu", row->low, SIZE_MAX - 1);
    else
        snprintf(expected, sizeof expected, "a whole number of at least %.0f", row->low);
    if (!parse_count(text, &value, &rest) || *rest || (double)value < row->low ||
        (row->high > 0 && (double)value > row->high) || value >= SIZE_MAX)
        return invalid_value(usage, row, expected, text);
    *out = (size_t)value;
    return true;
}

static bool set_real(const cli_usage *usage, const cli_option *row, const char *text, double *out)
{
    char expected[128] = "a number";
    if (row->high > row->low) snprintf(expected, sizeof expected, "a number from %g to %g", row->low, row->high);
    double value;
    if (!parse_real(text, &value) || (row->high > row->low && !(value >= row->low && value <= row->high)))
        return invalid_value(usage, row, expected, text);
    *out = value;
    return true;
}

/* The name for an alias in upper or lower case; NULL: not an alias. */
static const char *find_alias(const cli_option *row, const char *text)
{
    char lower[64];
    size_t i = 0;
    if (!row->find || strlen(text) >= sizeof lower) return NULL;
    if (row->find(text)) return row->find(text);
    for (; text[i]; i++) lower[i] = (char)tolower((unsigned char)text[i]);
    lower[i] = 0;
    return row->find(lower);
}

static bool set_choice(const cli_usage *usage, const cli_option *row, const char *text, unsigned *out)
{
    const char *alias = find_alias(row, text), *word = alias ? alias : text;
    for (unsigned i = 0; i < cli_choice_count(row); i++) {
        if (!cli_choice_name(row, i) || strcasecmp(cli_choice_name(row, i), word) != 0) continue;
        *out = i;
        return true;
    }
    return invalid_choice(usage, row, text);
}

static bool add_to_list(const cli_usage *usage, const cli_option *row, const char *text, cli_list *list)
{
    char expected[32] = "a value";
    if (*text) snprintf(expected, sizeof expected, "at most %d values", CLI_LIST_CAPACITY);
    if (!*text || list->count == CLI_LIST_CAPACITY) return invalid_value(usage, row, expected, text);
    list->items[list->count++] = text;
    return true;
}

/* `at` is the member that the row sets. */
static bool set_value(const cli_usage *usage, const cli_option *row, const char *text, void *at)
{
    switch (row->type) {
    case CLI_TEXT:
        if (!*text && !row->may_be_empty) return invalid_value(usage, row, "a value", text);
        *(const char **)at = text;
        return true;
    case CLI_COUNT:
        return set_count(usage, row, text, at);
    case CLI_REAL:
        return set_real(usage, row, text, at);
    case CLI_REAL_OR_AUTO: {
        double value = 0;
        if (strcmp(text, "auto") != 0 && (!parse_real(text, &value) || value <= 0))
            return invalid_value(usage, row, "a positive number or auto", text);
        *(double *)at = value;
        return true;
    }
    case CLI_CHOICE:
        return set_choice(usage, row, text, at);
    case CLI_BYTES:
        return (parse_bytes(text, at) && (double)*(size_t *)at >= row->low) ||
               invalid_value(usage, row, "a number of bytes such as 800M or 4G", text);
    case CLI_LIST:
        return add_to_list(usage, row, text, at);
    case CLI_SEED: {
        const char *rest;
        return (parse_count(text, at, &rest) && !*rest) ||
               invalid_value(usage, row, "a whole number from 0 to 18446744073709551615", text);
    }
    default:
        return false;
    }
}

/* ---- the parser -------------------------------------------------------------------------------------------------- */

/* A row and the struct with its member. */
typedef struct place {
    const cli_option *row;
    char *options;
} place;

typedef struct parser {
    const cli_usage *usage;
    char *options;
    cli_common *common;
} parser;

/* Row `index` of all groups, followed by the common rows; row NULL: after the last. */
static place place_at(const parser *p, size_t index)
{
    for (size_t g = 0; g < CLI_GROUPS && p->usage->groups[g].rows; g++)
        for (const cli_option *row = p->usage->groups[g].rows; row->type != CLI_END; row++)
            if (index-- == 0) return (place){row, p->options + p->usage->groups[g].at};
    for (const cli_option *row = cli_common_rows; row->type != CLI_END; row++)
        if (index-- == 0) return (place){row, (char *)p->common};
    return (place){NULL, NULL};
}

static const char *option_name_at(const void *p, size_t index)
{
    const cli_option *row = place_at(p, index).row;
    return row->type == CLI_SECTION ? NULL : row->name;
}

static bool is_name(const char *name, const char *text, size_t length)
{
    return name && strlen(name) == length && strncmp(name, text, length) == 0;
}

static place find_option(const parser *p, const char *name, size_t length)
{
    place at;
    for (size_t i = 0; (at = place_at(p, i)).row; i++)
        if (at.row->type != CLI_SECTION && is_name(at.row->name, name, length)) break;
    return at;
}

/* The same for a former name, with a note. */
static place find_renamed_option(const parser *p, const char *name, size_t length)
{
    place at;
    for (size_t i = 0; (at = place_at(p, i)).row; i++) {
        if (!is_name(at.row->former_name, name, length)) continue;
        cli_streams_print("bochner %s: --%s is now --%s; the old name will go away\n", p->usage->command,
                          at.row->former_name, at.row->name);
        break;
    }
    return at;
}

static bool unknown_option(const parser *p, const char *argument, const char *name)
{
    char word[64];
    size_t count = 0;
    while (place_at(p, count).row) count++;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
    const char *near = cli_nearest(word, count, option_name_at, p);
    cli_streams_print("bochner %s: unknown option %.*s", p->usage->command, (int)strcspn(argument, "="), argument);
    if (near) cli_streams_print("; did you mean --%s?", near);
    cli_streams_print(" (bochner %s --help-all lists all options)\n", p->usage->command);
    return false;
}

/* Reports a single dash: a mistyped option, or a file name that starts with a dash. */
static void invalid_dash(const parser *p, const char *argument)
{
    cli_streams_print("bochner %s: '%s': options start with two dashes", p->usage->command, argument);
    if (find_option(p, argument + 1, strcspn(argument + 1, "=")).row)
        cli_streams_print("; did you mean -%s?\n", argument);
    else
        cli_streams_print("; a file whose name starts with a dash is written after --\n");
}

/* True for "auto" as a number, and "auto" and "default" as a choice, which mean that the option is not given. */
static bool is_left_open(const cli_option *row, const char *text)
{
    if (row->type == CLI_REAL_OR_AUTO) return strcmp(text, "auto") == 0;
    return row->type == CLI_CHOICE && (strcmp(text, "auto") == 0 || strcmp(text, "default") == 0);
}

static bool set_option(const parser *p, place to, const char *text)
{
    if (!set_value(p->usage, to.row, text, to.options + to.row->at)) return false;
    cli_set_given_at((cli_given *)to.options, to.row->at, !is_left_open(to.row, text));
    return true;
}

/* Parses the option at argv[*at] and moves *at to its last word. */
static bool parse_option(const parser *p, int argc, char **argv, int *at)
{
    const char *argument = argv[*at], *name = argument + 2;
    const size_t length = strcspn(name, "=");
    place to = find_option(p, name, length);
    if (!to.row) to = find_renamed_option(p, name, length);
    if (!to.row) return unknown_option(p, argument, name);
    if (to.row->type == CLI_FLAG) {
        if (name[length] == '=') {
            cli_streams_print("bochner %s: --%s takes no value, found '%s'\n", p->usage->command, to.row->name,
                              name + length + 1);
            return false;
        }
        *(bool *)(to.options + to.row->at) = true;
        cli_set_given_at((cli_given *)to.options, to.row->at, true);
        return true;
    }
    if (name[length] == '=') return set_option(p, to, name + length + 1);
    if (*at + 1 >= argc || (strncmp(argv[*at + 1], "--", 2) == 0 && argv[*at + 1][2] != 0)) {
        cli_streams_print("bochner %s: --%s needs a value (%s), found %s\n", p->usage->command, to.row->name,
                          to.row->argument, *at + 1 < argc ? argv[*at + 1] : "the end of the command line");
        return false;
    }
    return set_option(p, to, argv[++*at]);
}

/* Prints the help if an option requests it, and then returns true. */
static bool show_help(const cli_usage *usage, int argc, char **argv)
{
    bool help = false, all = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        help |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        all |= strcmp(argv[i], "--help-all") == 0;
    }
    if (help || all) cli_help(stdout, usage, all);
    return help || all;
}

void cli_set_initial(const cli_usage *usage, void *options)
{
    for (size_t g = 0; g < CLI_GROUPS && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++) {
            const char *initial = row->type == CLI_SECTION ? NULL : initial_of(usage, row);
            if (initial && !set_value(usage, row, initial, (char *)options + usage->groups[g].at + row->at)) abort();
        }
    for (size_t i = 0; i < CLI_DEFAULTS && usage->defaults[i].option; i++) {
        const char *name = usage->defaults[i].option;
        if (find_option(&(parser){usage, options, NULL}, name, strlen(name)).options) continue;
        cli_streams_print("bochner %s: a default for --%s, which is not an option of the command\n", usage->command,
                          name);
        abort();
    }
}

cli_parsed cli_parse_over(const cli_usage *usage, int argc, char **argv, void *options, cli_common *common,
                          cli_arguments *arguments)
{
    const parser p = {usage, options, common};
    if (show_help(usage, argc, argv)) return CLI_HELP_SHOWN;
    arguments->items = cli_allocate((size_t)argc, sizeof(char *), "arguments");
    arguments->count = 0;
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        if (ended || argv[i][0] != '-' || strcmp(argv[i], "-") == 0) {
            arguments->items[arguments->count++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (strncmp(argv[i], "--", 2) != 0) {
            invalid_dash(&p, argv[i]);
            return CLI_PARSE_ERROR;
        } else if (!parse_option(&p, argc, argv, &i)) {
            return CLI_PARSE_ERROR;
        }
    }
    return CLI_PARSED;
}

cli_parsed cli_parse(const cli_usage *usage, int argc, char **argv, void *options, cli_common *common,
                     cli_arguments *arguments)
{
    cli_set_initial(usage, options);
    return cli_parse_over(usage, argc, argv, options, common, arguments);
}
