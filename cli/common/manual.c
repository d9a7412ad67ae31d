#include "manual.h"
#include "external.h"
#include "streams.h"
#include <bochner/bochner.h>
#include <stdlib.h>
#include <string.h>

typedef void (*row_fn)(FILE *out, const cli_usage *usage, const cli_option *row);

/* The number of groups that are not listed with another command. */
static size_t command_group_count(const cli_usage *usage)
{
    return usage->as_of ? usage->as_of_from : CLI_GROUPS;
}

static void each_row(FILE *out, const cli_usage *usage, row_fn print)
{
    const size_t end = command_group_count(usage);
    for (size_t g = 0; g < end && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++) print(out, usage, row);
}

/* Sections listed with another command, "Model, Attention, Learning", and defaults that differ from it, "--optim
 * adamw". */
typedef struct left_out {
    char sections[256], defaults[256];
} left_out;

static void append(char *list, size_t size, const char *dashes, const char *name, const char *value)
{
    const size_t length = strlen(list);
    snprintf(list + length, size - length, "%s%s%s%s%s", length ? ", " : "", dashes, name, *value ? " " : "", value);
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

/* Writes a character of `bytes` bytes as its code point, \[u2026]: roff reads ASCII. */
static void write_roff_char(FILE *out, const char *text, size_t bytes)
{
    unsigned code = (unsigned char)text[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) code = code << 6 | ((unsigned char)text[i] & 0x3fu);
    fprintf(out, "\\[u%04X]", code);
}

/* Escapes text for roff. A dash becomes a minus sign, so that options can be pasted. */
static void write_roff(FILE *out, const char *text, size_t length)
{
    if (length && (text[0] == '.' || text[0] == '\'')) fputs("\\&", out);
    for (size_t i = 0; i < length; i++) {
        const size_t bytes = bo_utf8_length(text + i, length - i);
        if (bytes > 1) {
            write_roff_char(out, text + i, bytes);
            i += bytes - 1;
        } else if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] == '\\')
            fputs("\\e", out);
        else
            putc(text[i], out);
    }
}

static void write_roff_line(FILE *out, const char *text)
{
    write_roff(out, text, strlen(text));
    putc('\n', out);
}

/* "--data FILE   or   --resume": one line for each form of the command. */
static void write_synopsis(FILE *out, const cli_usage *usage)
{
    static const char between[] = "   or   ";
    for (const char *at = usage->synopsis; at;) {
        const char *end = strstr(at, between);
        if (at != usage->synopsis) fputs(".br\n", out);
        fputs(".B bochner ", out);
        write_roff_line(out, usage->command);
        write_roff(out, at, end ? (size_t)(end - at) : strlen(at));
        if (*at) putc('\n', out);
        at = end ? end + strlen(between) : NULL;
    }
}

static void write_examples(FILE *out, const char *examples)
{
    fputs(".PP\n.nf\n", out);
    for (const char *at = examples; *at;) {
        const size_t length = strcspn(at, "\n");
        write_roff(out, at, length);
        putc('\n', out);
        at += length + (at[length] == '\n');
    }
    fputs(".fi\n", out);
}

static void write_roff_row(FILE *out, const cli_usage *usage, const cli_option *row)
{
    if (row->type == CLI_SECTION) {
        fputs(".PP\n.I ", out);
        write_roff_line(out, row->name);
        return;
    }
    char *help = cli_help_text(row);
    const char *default_text = cli_default_text(usage, row);
    fputs(".TP\n.B \\-\\-", out);
    write_roff(out, row->name, strlen(row->name));
    if (row->argument) fputs("\\fR \\fI", out);
    write_roff_line(out, row->argument ? row->argument : "");
    write_roff(out, help, strlen(help));
    if (default_text) fputs(" (default: ", out);
    write_roff(out, default_text ? default_text : "", default_text ? strlen(default_text) : 0);
    fputs(default_text ? ")\n" : "\n", out);
    free(help);
}

static void write_roff_kinds(FILE *out, const cli_usage *usage)
{
    cli_kind_options kinds;
    for (size_t at = 0, first = 1; cli_next_kind_options(usage, command_group_count(usage), &at, &kinds); first = 0) {
        if (first) fputs(".PP\n.I " CLI_KINDS_TITLE "\n", out);
        fputs(".TP\n.B ", out);
        write_roff_line(out, kinds.kinds);
        write_roff_line(out, kinds.options);
    }
}

static void write_roff_left_out(FILE *out, const cli_usage *usage)
{
    const left_out omitted_groups = find_left_out(usage);
    if (!usage->as_of) return;
    fprintf(out, ".PP\n.I %s\n.br\nthe options of bochner %s", omitted_groups.sections, usage->as_of);
    if (omitted_groups.defaults[0]) fputs("; defaults here: ", out);
    write_roff_line(out, omitted_groups.defaults);
}

static void write_commands(FILE *out, const cli_manual *manual)
{
    for (size_t i = 0; i < manual->count; i++) {
        const cli_usage *usage = manual->usages[i];
        fputs(".SS bochner ", out);
        write_roff_line(out, usage->command);
        write_synopsis(out, usage);
        fputs(".PP\n", out);
        write_roff_line(out, usage->about);
        write_examples(out, usage->examples);
        each_row(out, usage, write_roff_row);
        write_roff_kinds(out, usage);
        write_roff_left_out(out, usage);
    }
    for (size_t i = 0; i < manual->external_count; i++) {
        const cli_listed *command = manual->external[i];
        fprintf(out, ".SS bochner %s\n", command->name);
        write_roff(out, command->summary, strlen(command->summary));
        fprintf(out, ":\n.BR bochner\\-%s (1).\n", command->name);
    }
    fputs(".SS Common options\n", out);
    each_row(out, &common, write_roff_row);
}

void cli_manual_page(const cli_manual *manual, FILE *in, FILE *out)
{
    static const char version[] = "@VERSION@";
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, in) >= 0) {
        const char *mark = strstr(line, version);
        if (strcmp(line, "@COMMANDS@\n") == 0)
            write_commands(out, manual);
        else if (mark)
            fprintf(out, "%.*s%s%s", (int)(mark - line), line, bo_version(), mark + strlen(version));
        else
            fputs(line, out);
    }
    free(line);
}

/* ---- tables of Markdown ------------------------------------------------------------------------------------------ */

static void write_markdown(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("|*_<>[]", *text)) putc('\\', out);
        putc(*text, out);
    }
}

/* A bar would end the table cell, even within backquotes. */
static void write_code(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|') putc('\\', out);
        putc(*text, out);
    }
}

static void write_markdown_row(FILE *out, const cli_usage *usage, const cli_option *row)
{
    if (row->type == CLI_SECTION) {
        fprintf(out, "| **%s** | | |\n", row->name);
        return;
    }
    char *help = cli_help_text(row);
    const char *default_text = cli_default_text(usage, row);
    fprintf(out, "| `--%s%s", row->name, row->argument ? " " : "");
    write_code(out, row->argument ? row->argument : "");
    fputs("` | ", out);
    write_markdown(out, help);
    fputs(default_text ? " | " : " |", out);
    write_markdown(out, default_text ? default_text : "");
    fputs(" |\n", out);
    free(help);
}

static void write_markdown_kinds(FILE *out, const cli_usage *usage)
{
    cli_kind_options kinds;
    for (size_t at = 0, first = 1; cli_next_kind_options(usage, command_group_count(usage), &at, &kinds); first = 0) {
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
    each_row(out, usage, write_markdown_row);
    write_markdown_kinds(out, usage);
    const left_out omitted_groups = find_left_out(usage);
    if (usage->as_of)
        fprintf(out, "| **%s** | the options of [%s](#%s) | %s |\n", omitted_groups.sections, usage->as_of,
                usage->as_of, omitted_groups.defaults);
    fputs("\n", out);
    return true;
}

/* The program of an external command prints its tables: bochner-bench prints "bench train". */
static bool write_table(const cli_manual *manual, const char *name, FILE *out)
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
    size_t capacity = 0;
    bool found = true;
    while (found && getline(&line, &capacity, in) >= 0) {
        const bool begins = strncmp(line, mark, strlen(mark)) == 0;
        if (strcmp(line, end) == 0) open[0] = 0;
        if (!open[0]) fputs(line, out);
        if (!begins) continue;
        const char *name = line + strlen(mark), *close = strstr(name, " -->");
        snprintf(open, sizeof open, "%.*s", close ? (int)(close - name) : (int)strcspn(name, "\n"), name);
        found = write_table(manual, open, out);
    }
    if (!found)
        cli_streams_print("bochner help: unknown command in \"<!-- options: %s -->\"\n", open);
    else if (open[0])
        cli_streams_print("bochner help: no \"<!-- end -->\" after \"<!-- options: %s -->\"\n", open);
    free(line);
    return found && !open[0];
}
