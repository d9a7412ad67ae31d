/* The parser of options, and their help. */
#include "options.h"
#include "format.h"
#include <bochner/attention.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cli_option cli_common_rows[] = {
    SECTION("Common"),
    COUNT("threads", "N", cli_common, threads, "number of threads; results do not depend on it", .low = 1, .high = 4096,
          .otherwise = "all cores"),
    SEED("seed", "N", cli_common, seed, "seed of every random choice", .initial = "0"),
    FLAG("json", cli_common, json, "print one JSON object, and nothing else, on standard output"),
    FLAG("quiet", cli_common, quiet, "print no plan, progress or notes on standard error"),
    FLAG("verbose", cli_common, verbose, "print more details on standard error, such as measured rates and timings"),
    TEXT("isa", "NAME", cli_common, isa, "kernels to use: avx512, avx2, neon or ref",
         .otherwise = "the best for this CPU"),
    END_OF_OPTIONS,
};

/* ---- given ------------------------------------------------------------------------------------------------ */

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

/* ---- help ---------------------------------------------------------------------------------------------- */

enum { HELP_COLUMN = 30, HELP_WIDTH = 108 };

/* Prints `text` wrapped; the cursor is at `column` and later lines start at `indent`. */
static void wrap(const char *text, int column, int indent)
{
    bool first = true;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (!first && column + 1 + (int)length > HELP_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)length, text);
        column += (int)length;
        text += length + (text[length] == ' ');
        first = false;
    }
    putchar('\n');
}

/* The name of a value that is offered; NULL: it is not. */
static const char *choice_name(const cli_option *row, unsigned value)
{
    return value < 32 && row->without >> value & 1 ? NULL : row->names(value);
}

/* All are; what is left out at the end has names too. */
static unsigned choice_count(const cli_option *row)
{
    unsigned count = 0;
    while (row->names(count)) count++;
    return count;
}

/* The names that go by traits, or else all others. */
static const char *kinds(unsigned traits, bool having, char *out, size_t room)
{
    size_t used = 0;
    const char *name;
    out[0] = 0;
    for (size_t i = 0; (name = bo_attention_preset_name(i)) && used < room; i++) {
        bo_attention_desc d = {0};
        bo_attention_preset(name, &d);
        if (bo_attention_may(d.kind, traits) == having)
            used += (size_t)snprintf(out + used, room - used, "%s%s", used ? ", " : "", name);
    }
    return out;
}

const char *cli_kinds_with(unsigned traits, char *out, size_t room)
{
    return kinds(traits, true, out, room);
}

/* "; kinds: softmax, power", or "; kinds: all but softmax, power" where that is shorter. */
static void put_kinds(FILE *out, unsigned traits)
{
    char with[256], without[256];
    kinds(traits, true, with, sizeof with);
    kinds(traits, false, without, sizeof without);
    const bool few = strlen(with) <= strlen(without);
    if (*with && *without) fprintf(out, "; kinds: %s%s", few ? "" : "all but ", few ? with : without);
}

char *cli_help_words(const cli_option *row)
{
    char *words = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&words, &length);
    if (!out) return cli_allocate(1, 1, "help");
    fputs(row->help, out);
    const char *between = ": ";
    for (unsigned i = 0; row->names && i < choice_count(row); i++) {
        if (!choice_name(row, i)) continue;
        fprintf(out, "%s%s", between, choice_name(row, i));
        between = ", ";
    }
    put_kinds(out, row->traits);
    fclose(out);
    return words;
}

/* What the command says in place of the row; NULL: nothing. */
static const cli_default *default_of(const cli_usage *usage, const cli_option *row)
{
    for (size_t i = 0; i < CLI_DEFAULTS && usage->defaults[i].option; i++)
        if (strcmp(usage->defaults[i].option, row->name) == 0) return &usage->defaults[i];
    return NULL;
}

static const char *initial_of(const cli_usage *usage, const cli_option *row)
{
    const cli_default *own = default_of(usage, row);
    return own ? own->initial : row->initial;
}

const char *cli_default_words(const cli_usage *usage, const cli_option *row)
{
    if (row->type == CLI_SECTION) return NULL;
    const char *initial = initial_of(usage, row);
    const cli_default *own = default_of(usage, row);
    return initial ? initial : own ? own->otherwise : row->otherwise;
}

static void help_option(const cli_usage *usage, const cli_option *row)
{
    if (row->type == CLI_SECTION) {
        printf("\n%s\n", row->name);
        return;
    }
    int column = printf("  --%s%s%s", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
    if (column > HELP_COLUMN - 2) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", HELP_COLUMN - column, "");
    char text[2048], *words = cli_help_words(row);
    const char *otherwise = cli_default_words(usage, row);
    snprintf(text, sizeof text, "%s%s%s%s", words, otherwise ? " (default: " : "", otherwise ? otherwise : "",
             otherwise ? ")" : "");
    free(words);
    wrap(text, HELP_COLUMN, HELP_COLUMN);
}

static void help(const cli_usage *usage)
{
    printf("bochner %s %s\n\n", usage->command, usage->synopsis);
    wrap(usage->about, 0, 0);
    printf("\nExample\n%s", usage->examples);
    for (size_t g = 0; g < CLI_GROUPS && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++) help_option(usage, row);
    for (const cli_option *row = cli_common_rows; row->type != CLI_END; row++) help_option(usage, row);
    printf("  --help\n");
}

/* ---- values -------------------------------------------------------------------------------------------- */

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
    static const char letters[] = "KMGT";
    const char *letter = *rest ? strchr(letters, *rest >= 'a' ? *rest - 'a' + 'A' : *rest) : NULL;
    const int shift = letter ? 10 * (int)(letter - letters + 1) : 0;
    if (letter) rest++;
    if (letter && *rest == 'i') rest++;
    if (*rest == 'B') rest++;
    if (*rest || value == 0 || value > (SIZE_MAX >> shift)) return false;
    *out = (size_t)value << shift;
    return true;
}

static const char *choice_at(const void *row, size_t index)
{
    return choice_name(row, (unsigned)index);
}

static bool wrong_choice(const cli_usage *usage, const cli_option *row, const char *text)
{
    fprintf(stderr, "bochner %s: --%s: expected one of", usage->command, row->name);
    const unsigned count = choice_count(row);
    const char *between = " ", *near = cli_nearest(text, count, choice_at, row);
    for (unsigned i = 0; i < count; i++) {
        if (!choice_name(row, i)) continue;
        fprintf(stderr, "%s%s", between, choice_name(row, i));
        between = ", ";
    }
    fprintf(stderr, "; found '%s'", text);
    if (near) fprintf(stderr, "; did you mean %s?", near);
    fputc('\n', stderr);
    return false;
}

static bool wrong_value(const cli_usage *usage, const cli_option *row, const char *expected, const char *text)
{
    fprintf(stderr, "bochner %s: --%s: expected %s, found '%s'\n", usage->command, row->name, expected, text);
    return false;
}

static bool set_count(const cli_usage *usage, const cli_option *row, const char *text, size_t *out)
{
    char expected[128];
    if (row->high > 0)
        snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", row->low, row->high);
    else
        snprintf(expected, sizeof expected, "a whole number, %.0f or more", row->low);
    uint64_t value;
    const char *rest;
    if (!parse_count(text, &value, &rest) || *rest || (double)value < row->low ||
        (row->high > 0 && (double)value > row->high) || value >= SIZE_MAX)
        return wrong_value(usage, row, expected, text);
    *out = (size_t)value;
    return true;
}

static bool set_real(const cli_usage *usage, const cli_option *row, const char *text, double *out)
{
    char expected[128] = "a number";
    if (row->high > row->low) snprintf(expected, sizeof expected, "a number from %g to %g", row->low, row->high);
    double value;
    if (!parse_real(text, &value) || (row->high > row->low && !(value >= row->low && value <= row->high)))
        return wrong_value(usage, row, expected, text);
    *out = value;
    return true;
}

static bool set_choice(const cli_usage *usage, const cli_option *row, const char *text, unsigned *out)
{
    if (row->find && row->find(text)) text = row->find(text);
    for (unsigned i = 0; i < choice_count(row); i++) {
        if (!choice_name(row, i) || strcmp(choice_name(row, i), text) != 0) continue;
        *out = i;
        return true;
    }
    return wrong_choice(usage, row, text);
}

static bool add_to_list(const cli_usage *usage, const cli_option *row, const char *text, cli_list *list)
{
    if (!*text || list->count == CLI_LIST_ROOM)
        return wrong_value(usage, row, *text ? "at most 64 of them" : "a word", text);
    list->items[list->count++] = text;
    return true;
}

/* `at` is the member that the row fills. */
static bool set_value(const cli_usage *usage, const cli_option *row, const char *text, void *at)
{
    switch (row->type) {
    case CLI_TEXT:
        if (!*text && !row->may_be_empty) return wrong_value(usage, row, "a word", text);
        *(const char **)at = text;
        return true;
    case CLI_COUNT:
        return set_count(usage, row, text, at);
    case CLI_REAL:
        return set_real(usage, row, text, at);
    case CLI_REAL_OR_AUTO: {
        double value = 0;
        if (strcmp(text, "auto") != 0 && (!parse_real(text, &value) || value <= 0))
            return wrong_value(usage, row, "a number above 0, or auto", text);
        *(double *)at = value;
        return true;
    }
    case CLI_CHOICE:
        return set_choice(usage, row, text, at);
    case CLI_BYTES:
        return parse_bytes(text, at) || wrong_value(usage, row, "a number of bytes such as 800M or 4G", text);
    case CLI_LIST:
        return add_to_list(usage, row, text, at);
    case CLI_SEED: {
        const char *rest;
        return (parse_count(text, at, &rest) && !*rest) || wrong_value(usage, row, "a whole number, 0 or more", text);
    }
    default:
        return false;
    }
}

/* ---- the parser ---------------------------------------------------------------------------------------- */

/* A row and the struct that it fills. */
typedef struct place {
    const cli_option *row;
    char *options;
} place;

typedef struct parser {
    const cli_usage *usage;
    char *options;
    cli_common *common;
} parser;

/* The place of row `index`, those of all groups and then the common ones counted through; row NULL: past the last. */
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

static place find_option(const parser *p, const char *name, size_t length)
{
    place at;
    for (size_t i = 0; (at = place_at(p, i)).row; i++)
        if (at.row->type != CLI_SECTION && strlen(at.row->name) == length && strncmp(at.row->name, name, length) == 0)
            break;
    return at;
}

static bool unknown_option(const parser *p, const char *argument, const char *name)
{
    char word[64];
    size_t count = 0;
    while (place_at(p, count).row) count++;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
    const char *near = cli_nearest(word, count, option_name_at, p);
    fprintf(stderr, "bochner %s: there is no option %.*s", p->usage->command, (int)strcspn(argument, "="), argument);
    if (near) fprintf(stderr, "; did you mean --%s?", near);
    fprintf(stderr, " (bochner %s --help lists them)\n", p->usage->command);
    return false;
}

/* "auto" of a number, "auto" and "default" of a choice leave it to the command: as if the option was not given. */
static bool is_left_open(const cli_option *row, const char *text)
{
    if (row->type == CLI_REAL_OR_AUTO) return strcmp(text, "auto") == 0;
    return row->type == CLI_CHOICE && (strcmp(text, "auto") == 0 || strcmp(text, "default") == 0);
}

static bool take(const parser *p, place to, const char *text)
{
    if (!set_value(p->usage, to.row, text, to.options + to.row->at)) return false;
    cli_set_given_at((cli_given *)to.options, to.row->at, !is_left_open(to.row, text));
    return true;
}

/* One option at argv[*at]; moves *at to its last word. */
static bool parse_option(const parser *p, int argc, char **argv, int *at)
{
    const char *argument = argv[*at], *name = argument + 2;
    const size_t length = strcspn(name, "=");
    const place to = find_option(p, name, length);
    if (!to.row) return unknown_option(p, argument, name);
    if (to.row->type == CLI_FLAG) {
        if (name[length] == '=') {
            fprintf(stderr, "bochner %s: --%s takes no value, found '%s'\n", p->usage->command, to.row->name,
                    name + length + 1);
            return false;
        }
        *(bool *)(to.options + to.row->at) = true;
        cli_set_given_at((cli_given *)to.options, to.row->at, true);
        return true;
    }
    if (name[length] == '=') return take(p, to, name + length + 1);
    if (*at + 1 >= argc || (strncmp(argv[*at + 1], "--", 2) == 0 && argv[*at + 1][2] != 0)) {
        fprintf(stderr, "bochner %s: --%s needs a value (%s), found %s\n", p->usage->command, to.row->name,
                to.row->argument, *at + 1 < argc ? argv[*at + 1] : "the end of the line");
        return false;
    }
    return take(p, to, argv[++*at]);
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
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
        fprintf(stderr, "bochner %s: a default for --%s, which is no option of the command\n", usage->command, name);
        abort();
    }
}

cli_parsed cli_parse_over(const cli_usage *usage, int argc, char **argv, void *options, cli_common *common,
                          cli_arguments *arguments)
{
    const parser p = {usage, options, common};
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!is_help(argv[i])) continue;
        help(usage);
        return CLI_HELP_SHOWN;
    }
    arguments->items = cli_allocate((size_t)argc, sizeof(char *), "arguments");
    arguments->count = 0;
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        if (ended || argv[i][0] != '-' || strcmp(argv[i], "-") == 0) {
            arguments->items[arguments->count++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            ended = true;
        } else if (strncmp(argv[i], "--", 2) != 0) {
            fprintf(stderr,
                    "bochner %s: '%s': options begin with two dashes (a file whose name begins with a dash "
                    "comes after --)\n",
                    usage->command, argv[i]);
            return CLI_WRONG;
        } else if (!parse_option(&p, argc, argv, &i)) {
            return CLI_WRONG;
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
