#include "options.h"
#include "format.h"
#include <bochner/bochner.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names of enums ------------------------------------------------------------------------------------ */

const char *cli_kernel_choice(int index)
{
    return index < BO_KERNEL_CUSTOM ? bo_kernel_name((bo_kernel)index) : NULL; /* a callback needs a program */
}

const char *cli_function_choice(int index)
{
    return index < BO_FUNCTION_CUSTOM ? bo_function_name((bo_function)index) : NULL;
}

const char *cli_draw_choice(int index)
{
    return index < BO_DRAW_COUNT ? bo_draw_name((bo_draw)index) : NULL;
}

const char *cli_sampling_choice(int index)
{
    return index < BO_SAMPLING_COUNT ? bo_sampling_name((bo_sampling)index) : NULL;
}

const char *cli_loss_choice(int index)
{
    return index <= BO_LOSS_LOGISTIC ? bo_loss_name((bo_loss)index) : NULL;
}

const char *cli_solver_choice(int index)
{
    return index <= BO_SOLVER_SGD ? bo_solver_name((bo_solver)index) : NULL;
}

const char *cli_precision_choice(int index)
{
    return index <= BO_PRECISION_FLOAT64 ? bo_precision_name((bo_precision)index) : NULL;
}

const char *cli_scaling_choice(int index)
{
    return index <= BO_SCALING_NONE ? bo_scaling_name((bo_scaling)index) : NULL;
}

const char *cli_task_choice(int index)
{
    return index <= BO_TASK_CLASSIFICATION ? bo_task_name((bo_task)index) : NULL;
}

const char *cli_impute_choice(int index)
{
    return index <= BO_IMPUTE_MEDIAN ? bo_impute_name((bo_impute)index) : NULL;
}

const char *cli_format_choice(int index)
{
    return index <= BO_FORMAT_SPACED ? bo_format_name((bo_format)index) : NULL;
}

/* ---- the shared table ---------------------------------------------------------------------------------- */

enum { COMMON = 6 };

static void common_table(cli_common *common, cli_option table[COMMON])
{
    const cli_option options[COMMON] = {
        {CLI_SECTION, "Common", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_COUNT, "threads", "N", "threads to use; every core unless given; the result is the same for any",
         &common->threads, NULL, 1, 4096},
        {CLI_SEED, "seed", "N", "of every random choice; 0 unless given", &common->seed, NULL, 0, 0},
        {CLI_FLAG, "json", NULL, "one JSON object on standard output and nothing else there", &common->json, NULL, 0,
         0},
        {CLI_FLAG, "quiet", NULL, "no plan, progress or notes on standard error", &common->quiet, NULL, 0, 0},
        {CLI_TEXT, "isa", "NAME", "kernels to use: avx512, avx2 or ref; the best of this CPU unless given",
         &common->isa, NULL, 0, 0},
    };
    memcpy(table, options, sizeof options);
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

static void help_option(const cli_option *option)
{
    if (option->type == CLI_SECTION) {
        printf("\n%s\n", option->name);
        return;
    }
    int column =
        printf("  --%s%s%s", option->name, option->argument ? " " : "", option->argument ? option->argument : "");
    if (column > HELP_COLUMN - 2) {
        putchar('\n');
        column = 0;
    }
    printf("%*s", HELP_COLUMN - column, "");
    char text[1024];
    size_t length = (size_t)snprintf(text, sizeof text, "%s", option->help);
    for (int i = 0; option->choice && option->choice(i) && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i ? ", " : ": ", option->choice(i));
    wrap(text, HELP_COLUMN, HELP_COLUMN);
}

static void help(const cli_usage *usage, const cli_option *common)
{
    printf("bochner %s %s\n\n", usage->command, usage->synopsis);
    wrap(usage->about, 0, 0);
    printf("\nExample\n%s", usage->examples);
    for (size_t i = 0; i < usage->count; i++) help_option(&usage->options[i]);
    for (size_t i = 0; i < COMMON; i++) help_option(&common[i]);
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
    int shift = 0;
    if (*rest) {
        const char *letter = strchr(letters, *rest >= 'a' ? *rest - 'a' + 'A' : *rest);
        if (!letter) return false;
        shift = 10 * (int)(letter - letters + 1);
        rest++;
        if (*rest == 'i') rest++;
        if (*rest == 'B') rest++;
    } else if (strcmp(rest, "B") == 0) {
        rest++;
    }
    if (*rest || value == 0 || value > (SIZE_MAX >> shift)) return false;
    *out = (size_t)value << shift;
    return true;
}

static const char *choice_at(const void *option, size_t index)
{
    return ((const cli_option *)option)->choice((int)index);
}

static bool wrong_choice(const cli_usage *usage, const cli_option *option, const char *text)
{
    fprintf(stderr, "bochner %s: --%s: expected one of", usage->command, option->name);
    size_t count = 0;
    for (; option->choice((int)count); count++) fprintf(stderr, "%s %s", count ? "," : "", option->choice((int)count));
    const char *near = cli_nearest(text, count, choice_at, option);
    fprintf(stderr, "; found '%s'", text);
    if (near) fprintf(stderr, "; did you mean %s?", near);
    fputc('\n', stderr);
    return false;
}

static bool wrong_value(const cli_usage *usage, const cli_option *option, const char *expected, const char *text)
{
    fprintf(stderr, "bochner %s: --%s: expected %s, found '%s'\n", usage->command, option->name, expected, text);
    return false;
}

static bool set_count(const cli_usage *usage, const cli_option *option, const char *text)
{
    char expected[128];
    if (option->high > 0)
        snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", option->low, option->high);
    else
        snprintf(expected, sizeof expected, "a whole number, %.0f or more", option->low);
    uint64_t value;
    const char *rest;
    if (!parse_count(text, &value, &rest) || *rest || (double)value < option->low ||
        (option->high > 0 && (double)value > option->high) || value >= SIZE_MAX) /* which is "not given" */
        return wrong_value(usage, option, expected, text);
    *(size_t *)option->value = (size_t)value;
    return true;
}

static bool set_real(const cli_usage *usage, const cli_option *option, const char *text)
{
    char expected[128] = "a number";
    if (option->high > option->low)
        snprintf(expected, sizeof expected, "a number from %g to %g", option->low, option->high);
    double value;
    if (!parse_real(text, &value) || (option->high > option->low && !(value >= option->low && value <= option->high)))
        return wrong_value(usage, option, expected, text);
    *(double *)option->value = value;
    return true;
}

static bool set_value(const cli_usage *usage, const cli_option *option, const char *text)
{
    switch (option->type) {
    case CLI_TEXT:
        if (!*text && option->high <= 0) return wrong_value(usage, option, "a word", text);
        *(const char **)option->value = text;
        return true;
    case CLI_COUNT:
        return set_count(usage, option, text);
    case CLI_REAL:
        return set_real(usage, option, text);
    case CLI_REAL_OR_AUTO: {
        double value = 0;
        if (strcmp(text, "auto") != 0 && (!parse_real(text, &value) || value <= 0))
            return wrong_value(usage, option, "a number above 0, or auto", text);
        *(double *)option->value = value;
        return true;
    }
    case CLI_CHOICE:
        for (int i = 0; option->choice(i); i++) {
            if (strcmp(option->choice(i), text) != 0) continue;
            *(int *)option->value = i;
            return true;
        }
        return wrong_choice(usage, option, text);
    case CLI_BYTES:
        if (!parse_bytes(text, option->value))
            return wrong_value(usage, option, "a number of bytes such as 800M or 4G", text);
        return true;
    case CLI_LIST: {
        cli_list *list = option->value;
        if (!*text || list->count == CLI_LIST_ROOM)
            return wrong_value(usage, option, *text ? "at most 64 of them" : "a word", text);
        list->items[list->count++] = text;
        return true;
    }
    case CLI_SEED: {
        const char *rest;
        if (!parse_count(text, option->value, &rest) || *rest)
            return wrong_value(usage, option, "a whole number, 0 or more", text);
        return true;
    }
    default:
        return false;
    }
}

/* ---- the parser ---------------------------------------------------------------------------------------- */

typedef struct both_tables {
    const cli_usage *usage;
    const cli_option *common;
} both_tables;

static const cli_option *option_at(const both_tables *tables, size_t index)
{
    if (index < tables->usage->count) return &tables->usage->options[index];
    return &tables->common[index - tables->usage->count];
}

static const char *option_name_at(const void *tables, size_t index)
{
    const cli_option *option = option_at(tables, index);
    return option->type == CLI_SECTION ? NULL : option->name;
}

static const cli_option *find_option(const both_tables *tables, const char *name, size_t length)
{
    for (size_t i = 0; i < tables->usage->count + COMMON; i++) {
        const char *candidate = option_name_at(tables, i);
        if (candidate && strlen(candidate) == length && strncmp(candidate, name, length) == 0)
            return option_at(tables, i);
    }
    return NULL;
}

static bool unknown_option(const both_tables *tables, const char *argument, const char *name)
{
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
    const char *near = cli_nearest(word, tables->usage->count + COMMON, option_name_at, tables);
    fprintf(stderr, "bochner %s: there is no option %.*s", tables->usage->command, (int)strcspn(argument, "="),
            argument);
    if (near) fprintf(stderr, "; did you mean --%s?", near);
    fprintf(stderr, " (bochner %s --help lists them)\n", tables->usage->command);
    return false;
}

/* One option at argv[*at]; moves *at to its last word. */
static bool parse_option(const both_tables *tables, int argc, char **argv, int *at)
{
    const char *argument = argv[*at], *name = argument + 2;
    size_t length = strcspn(name, "=");
    const cli_option *option = find_option(tables, name, length);
    if (!option) return unknown_option(tables, argument, name);
    if (option->type == CLI_FLAG) {
        if (name[length] == '=') {
            fprintf(stderr, "bochner %s: --%s takes no value, found '%s'\n", tables->usage->command, option->name,
                    name + length + 1);
            return false;
        }
        *(bool *)option->value = true;
        return true;
    }
    if (name[length] == '=') return set_value(tables->usage, option, name + length + 1);
    if (*at + 1 >= argc || (strncmp(argv[*at + 1], "--", 2) == 0 && argv[*at + 1][2] != 0)) {
        fprintf(stderr, "bochner %s: --%s needs a value (%s), found %s\n", tables->usage->command, option->name,
                option->argument, *at + 1 < argc ? argv[*at + 1] : "the end of the line");
        return false;
    }
    return set_value(tables->usage, option, argv[++*at]);
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

cli_parsed cli_parse(const cli_usage *usage, int argc, char **argv, cli_common *common, cli_arguments *arguments)
{
    cli_option shared[COMMON];
    common_table(common, shared);
    both_tables tables = {usage, shared};
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (!is_help(argv[i])) continue;
        help(usage, shared);
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
        } else if (!parse_option(&tables, argc, argv, &i)) {
            return CLI_WRONG;
        }
    }
    return CLI_PARSED;
}
