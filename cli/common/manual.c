#include "manual.h"
#include "external.h"
#include "streams.h"
#include <bochner/bochner.h>
#include <stdlib.h>
#include <string.h>

typedef void (*row_fn)(FILE *out, const cli_usage *usage, const cli_option *row);

/* The groups of a command that are not listed with another command. */
static size_t own_groups(const cli_usage *usage)
{
    return usage->as_of ? usage->as_of_from : CLI_GROUPS;
}

static void each_row(FILE *out, const cli_usage *usage, row_fn print)
{
    const size_t end = own_groups(usage);
    for (size_t g = 0; g < end && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++) print(out, usage, row);
}

/* What is listed with another command, "Model, Attention, Learning", and defaults that differ there, "--optim
 * adamw". */
typedef struct left_out {
    char sections[256], defaults[256];
} left_out;

static void append(char *list, size_t room, const char *dashes, const char *name, const char *value)
{
    const size_t length = strlen(list);
    snprintf(list + length, room - length, "%s%s%s%s%s", length ? ", " : "", dashes, name, *value ? " " : "", value);
}

static left_out find_left_out(const cli_usage *usage)
{
    left_out found = {{0}, {0}};
    for (size_t g = usage->as_of_from; g < CLI_GROUPS && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++)
            if (row->type == CLI_SECTION) append(found.sections, sizeof found.sections, "", row->name, "");
    for (size_t i = 0; i < CLI_DEFAULTS && usage->defaults[i].option; i++)
        if (usage->defaults[i].initial)
            append(found.defaults, sizeof found.defaults, "--", usage->defaults[i].option, usage->defaults[i].initial);
    return found;
}

/* The common options, without their heading. */
static const cli_usage common = {.command = "common", .groups = {{cli_common_rows + 1, 0}}};

/* ---- the manual page --------------------------------------------------------------------------------------------- */

/* A character of `bytes` bytes as its code point, \[u2026]: roff reads ASCII. */
static void put_roff_letter(FILE *out, const char *text, size_t bytes)
{
    unsigned code = (unsigned char)text[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) code = code << 6 | ((unsigned char)text[i] & 0x3fu);
    fprintf(out, "\\[u%04X]", code);
}

/* Escapes text for roff. A dash becomes a minus sign, so that options can be pasted. */
static void put_roff(FILE *out, const char *text, size_t length)
{
    if (length && (text[0] == '.' || text[0] == '\'')) fputs("\\&", out);
    for (size_t i = 0; i < length; i++) {
        const size_t bytes = bo_utf8_length(text + i, length - i);
        if (bytes > 1) {
            put_roff_letter(out, text + i, bytes);
            i += bytes - 1;
        } else if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] == '\\')
            fputs("\\e", out);
        else
            putc(text[i], out);
    }
}

static void put_roff_line(FILE *out, const char *text)
{
    put_roff(out, text, strlen(text));
    putc('\n', out);
}

/* "--data FILE   or   --resume": a line for each way to call the command. */
static void put_synopsis(FILE *out, const cli_usage *usage)
{
    static const char between[] = "   or   ";
    for (const char *at = usage->synopsis; at;) {
        const char *end = strstr(at, between);
        if (at != usage->synopsis) fputs(".br\n", out);
        fputs(".B bochner ", out);
        put_roff_line(out, usage->command);
        put_roff(out, at, end ? (size_t)(end - at) : strlen(at));
        if (*at) putc('\n', out);
        at = end ? end + strlen(between) : NULL;
    }
}

static void put_examples(FILE *out, const char *examples)
{
    fputs(".PP\n.nf\n", out);
    for (const char *at = examples; *at;) {
        const size_t length = strcspn(at, "\n");
        put_roff(out, at, length);
        putc('\n', out);
        at += length + (at[length] == '\n');
    }
    fputs(".fi\n", out);
}

static void put_roff_row(FILE *out, const cli_usage *usage, const cli_option *row)
{
    if (row->type == CLI_SECTION) {
        fputs(".PP\n.I ", out);
        put_roff_line(out, row->name);
        return;
    }
    char *words = cli_help_words(row);
    const char *otherwise = cli_default_words(usage, row);
    fputs(".TP\n.B \\-\\-", out);
    put_roff(out, row->name, strlen(row->name));
    if (row->argument) fputs("\\fR \\fI", out);
    put_roff_line(out, row->argument ? row->argument : "");
    put_roff(out, words, strlen(words));
    if (otherwise) fputs(" (default: ", out);
    put_roff(out, otherwise ? otherwise : "", otherwise ? strlen(otherwise) : 0);
    fputs(otherwise ? ")\n" : "\n", out);
    free(words);
}

static void put_roff_kinds(FILE *out, const cli_usage *usage)
{
    cli_kind_options kinds;
    for (size_t at = 0, first = 1; cli_next_kind_options(usage, own_groups(usage), &at, &kinds); first = 0) {
        if (first) fputs(".PP\n.I " CLI_KINDS_TITLE "\n", out);
        fputs(".TP\n.B ", out);
        put_roff_line(out, kinds.kinds);
        put_roff_line(out, kinds.options);
    }
}

static void put_roff_left_out(FILE *out, const cli_usage *usage)
{
    const left_out others = find_left_out(usage);
    if (!usage->as_of) return;
    fprintf(out, ".PP\n.I %s\n.br\nthe options of bochner %s", others.sections, usage->as_of);
    if (others.defaults[0]) fputs("; defaults here: ", out);
    put_roff_line(out, others.defaults);
}

static void put_commands(FILE *out, const cli_manual *manual)
{
    for (size_t i = 0; i < manual->count; i++) {
        const cli_usage *usage = manual->usages[i];
        fputs(".SS bochner ", out);
        put_roff_line(out, usage->command);
        put_synopsis(out, usage);
        fputs(".PP\n", out);
        put_roff_line(out, usage->about);
        put_examples(out, usage->examples);
        each_row(out, usage, put_roff_row);
        put_roff_kinds(out, usage);
        put_roff_left_out(out, usage);
    }
    for (size_t i = 0; i < manual->external_count; i++) {
        const cli_listed *command = manual->external[i];
        fprintf(out, ".SS bochner %s\n", command->name);
        put_roff(out, command->summary, strlen(command->summary));
        fprintf(out, ":\n.BR bochner\\-%s (1).\n", command->name);
    }
    fputs(".SS Common options\n", out);
    each_row(out, &common, put_roff_row);
}

void cli_manual_page(const cli_manual *manual, FILE *in, FILE *out)
{
    static const char version[] = "@VERSION@";
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, in) >= 0) {
        const char *mark = strstr(line, version);
        if (strcmp(line, "@COMMANDS@\n") == 0)
            put_commands(out, manual);
        else if (mark)
            fprintf(out, "%.*s%s%s", (int)(mark - line), line, bo_version(), mark + strlen(version));
        else
            fputs(line, out);
    }
    free(line);
}

/* ---- tables of Markdown ------------------------------------------------------------------------------------------ */

static void put_markdown(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("|*_<>[]", *text)) putc('\\', out);
        putc(*text, out);
    }
}

/* A bar would end the cell of the table, even within backquotes. */
static void put_code(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|') putc('\\', out);
        putc(*text, out);
    }
}

static void put_markdown_row(FILE *out, const cli_usage *usage, const cli_option *row)
{
    if (row->type == CLI_SECTION) {
        fprintf(out, "| **%s** | | |\n", row->name);
        return;
    }
    char *words = cli_help_words(row);
    const char *otherwise = cli_default_words(usage, row);
    fprintf(out, "| `--%s%s", row->name, row->argument ? " " : "");
    put_code(out, row->argument ? row->argument : "");
    fputs("` | ", out);
    put_markdown(out, words);
    fputs(otherwise ? " | " : " |", out);
    put_markdown(out, otherwise ? otherwise : "");
    fputs(" |\n", out);
    free(words);
}

static void put_markdown_kinds(FILE *out, const cli_usage *usage)
{
    cli_kind_options kinds;
    for (size_t at = 0, first = 1; cli_next_kind_options(usage, own_groups(usage), &at, &kinds); first = 0) {
        if (first) fputs("| **" CLI_KINDS_TITLE "** | | |\n", out);
        fprintf(out, "| %s | `%s` | |\n", kinds.kinds, kinds.options);
    }
}

static const cli_usage *find_usage(const cli_manual *manual, const char *name)
{
    for (size_t i = 0; i <= manual->count; i++) {
        const cli_usage *usage = i < manual->count ? manual->usages[i] : &common;
        if (strcmp(usage->command, name) == 0) return usage;
    }
    return NULL;
}

bool cli_manual_table(const cli_manual *manual, const char *command, FILE *out)
{
    const cli_usage *usage = find_usage(manual, command);
    if (!usage) return false;
    fputs("\n| option | meaning | default |\n|---|---|---|\n", out);
    each_row(out, usage, put_markdown_row);
    put_markdown_kinds(out, usage);
    const left_out others = find_left_out(usage);
    if (usage->as_of)
        fprintf(out, "| **%s** | the options of [%s](#%s) | %s |\n", others.sections, usage->as_of, usage->as_of,
                others.defaults);
    fputs("\n", out);
    return true;
}

/* The program of an external command prints its tables: "bench train" is one of bench. */
static bool put_table(const cli_manual *manual, const char *name, FILE *out)
{
    for (size_t i = 0; i < manual->external_count; i++) {
        const char *command = manual->external[i]->name;
        const size_t length = strlen(command);
        if (strncmp(name, command, length) == 0 && (name[length] == 0 || name[length] == ' '))
            return cli_external_describe(command, (const char *const[]){"markdown", name}, 2, out);
    }
    return cli_manual_table(manual, name, out);
}

bool cli_manual_lists(const cli_manual *manual, FILE *in, FILE *out)
{
    static const char mark[] = "<!-- options: ", end[] = "<!-- end -->\n";
    char *line = NULL, open[128] = "";
    size_t room = 0;
    bool found = true;
    while (found && getline(&line, &room, in) >= 0) {
        const bool begins = strncmp(line, mark, strlen(mark)) == 0;
        if (strcmp(line, end) == 0) open[0] = 0;
        if (!open[0]) fputs(line, out);
        if (!begins) continue;
        const char *name = line + strlen(mark), *close = strstr(name, " -->");
        snprintf(open, sizeof open, "%.*s", close ? (int)(close - name) : (int)strcspn(name, "\n"), name);
        found = put_table(manual, open, out);
    }
    if (!found)
        cli_streams_print("bochner help: unknown command in \"<!-- options: %s -->\"\n", open);
    else if (open[0])
        cli_streams_print("bochner help: no \"<!-- end -->\" after \"<!-- options: %s -->\"\n", open);
    free(line);
    return found && !open[0];
}
