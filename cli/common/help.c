/* Help texts, generated from the option tables. */
#include "options.h"
#include "format.h"
#include "streams.h"
#include <bochner/attention.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCREEN = 40,
    WIDEST = 100,
    TEXT_COLUMN = 26,
    NARROW = 64,
    NARROW_COLUMN = 8,
    SHORT_NAMES = 6,
    SHORT_EXAMPLES = 3,
    FEW_KINDS = 5
};

/* ---- kinds of attention ------------------------------------------------------------------------------------------ */

const char *cli_attention_preset(const char *name)
{
    const int index = bo_enum_parse(BO_ENUM_ATTENTION_PRESET, name);
    return index < 0 ? NULL : bo_enum_name(BO_ENUM_ATTENTION_PRESET, index);
}

/* Lists the kinds with (having) or without one of the traits; returns their number. */
static size_t list_kinds(unsigned traits, bool having, char *out, size_t size)
{
    size_t used = 0, count = 0;
    const char *name;
    out[0] = 0;
    for (size_t i = 0; (name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)) && used < size; i++) {
        bo_attention_desc d = {0};
        bo_attention_preset(name, &d);
        if (bo_attention_may(d.kind, traits) != having) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", count++ ? ", " : "", name);
    }
    return count;
}

const char *cli_kinds_with(unsigned traits, char *out, size_t size)
{
    list_kinds(traits, true, out, size);
    return out;
}

static bool is_of_some_kinds(unsigned traits)
{
    char names[256];
    return traits && list_kinds(traits, true, names, sizeof names) && list_kinds(traits, false, names, sizeof names);
}

/* "; kinds: softmax, power", or "; kinds: all but softmax, power" if that is shorter. */
static void write_kinds(FILE *out, unsigned traits)
{
    char with[256], without[256];
    const size_t count = list_kinds(traits, true, with, sizeof with);
    const size_t without_count = list_kinds(traits, false, without, sizeof without);
    if (!count || !without_count) return;
    if (count > FEW_KINDS && without_count > FEW_KINDS)
        fputs("; some kinds only", out);
    else
        fprintf(out, "; kinds: %s%s", count <= without_count ? "" : "all but ",
                count <= without_count ? with : without);
}

/* Bit i is set if the kind has the i-th option that not all kinds have. */
static uint64_t options_of_kind(const cli_usage *usage, size_t groups, const char *name)
{
    bo_attention_desc d = {0};
    uint64_t found = 0, bit = 1;
    bo_attention_preset(name, &d);
    for (size_t g = 0; g < groups && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++) {
            if (row->type == CLI_SECTION || !is_of_some_kinds(row->traits)) continue;
            if (bo_attention_may(d.kind, row->traits)) found |= bit;
            bit <<= 1;
        }
    return found;
}

static void append_name(char *list, size_t size, const char *between, const char *before, const char *name)
{
    const size_t length = strlen(list);
    snprintf(list + length, size - length, "%s%s%s", length ? between : "", before, name);
}

static void name_options(const cli_usage *usage, size_t groups, uint64_t which, cli_kind_options *out)
{
    for (size_t g = 0; g < groups && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++) {
            if (row->type == CLI_SECTION || !is_of_some_kinds(row->traits)) continue;
            if (which & 1) append_name(out->options, sizeof out->options, " ", "--", row->name);
            which >>= 1;
        }
}

bool cli_next_kind_options(const cli_usage *usage, size_t groups, size_t *at, cli_kind_options *out)
{
    enum { KINDS = 64 };
    uint64_t options[KINDS];
    const char *name;
    size_t count = 0, first = *at;
    for (; count < KINDS && (name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)count)); count++)
        options[count] = options_of_kind(usage, groups, name);
    for (; first < count; first++) { /* the next kind with options that is not in the group of an earlier kind */
        size_t same = 0;
        while (options[same] != options[first]) same++;
        if (options[first] && same == first) break;
    }
    *at = first + 1;
    if (first >= count) return false;
    *out = (cli_kind_options){{0}, {0}};
    for (size_t i = first; i < count; i++)
        if (options[i] == options[first])
            append_name(out->kinds, sizeof out->kinds, ", ", "", bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i));
    name_options(usage, groups, options[first], out);
    return true;
}

/* ---- the text of an option --------------------------------------------------------------------------------------- */

static void write_names(FILE *out, const cli_option *row, unsigned limit)
{
    const char *between = ": ";
    unsigned shown = 0;
    for (unsigned i = 0; i < cli_choice_count(row); i++) {
        if (!cli_choice_name(row, i)) continue;
        if (shown++ == limit) {
            fputs(", …", out);
            return;
        }
        fprintf(out, "%s%s", between, cli_choice_name(row, i));
        between = ", ";
    }
}

static char *option_text(const cli_option *row, bool all)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return cli_allocate(1, 1, "help");
    const int summary = (int)strcspn(row->help, ";"); /* the names stand between the summary and the details */
    fprintf(out, "%.*s", summary, row->help);
    write_names(out, row, all ? ~0u : SHORT_NAMES);
    if (all) fputs(row->help + summary, out);
    if (all) write_kinds(out, row->traits);
    fclose(out);
    return text;
}

char *cli_help_text(const cli_option *row)
{
    return option_text(row, true);
}

char *cli_help_summary(const cli_option *row)
{
    char *text = cli_allocate(strlen(row->help) + 1, 1, "help");
    memcpy(text, row->help, strcspn(row->help, ";"));
    return text;
}

/* ---- a page of help ---------------------------------------------------------------------------------------------- */

typedef struct page {
    FILE *out;
    const cli_usage *usage;
    int width;
    bool all;
} page;

static void write_entry(const page *p, const char *name, const char *argument, const char *text)
{
    const int indent = p->width < NARROW ? NARROW_COLUMN : TEXT_COLUMN;
    const int column = 2 + (int)cli_display_width(name) + (*argument ? 1 + (int)cli_display_width(argument) : 0);
    fprintf(p->out, "  %s%s%s", name, *argument ? " " : "", argument);
    if (*text && column > indent - 2)
        fprintf(p->out, "\n%*s", indent, "");
    else if (*text)
        fprintf(p->out, "%*s", indent - column, "");
    cli_wrap_text(p->out, text, (cli_wrap){.width = p->width, .column = indent, .indent = indent});
}

static void write_option(const page *p, const cli_option *row)
{
    if (row->type == CLI_SECTION) {
        fprintf(p->out, "\n%s\n", row->name);
        return;
    }
    char name[64], text[2048], *help = option_text(row, p->all);
    const char *default_text = cli_default_text(p->usage, row);
    snprintf(name, sizeof name, "--%s", row->name);
    if (default_text)
        snprintf(text, sizeof text, "%s (default: %.*s)", help,
                 (int)(p->all ? strlen(default_text) : strcspn(default_text, ";")), default_text);
    else
        snprintf(text, sizeof text, "%s", help);
    free(help);
    write_entry(p, name, row->argument ? row->argument : "", text);
}

/* One line for each form of the command. */
static void write_synopsis(const page *p)
{
    static const char start[] = "Usage: ", between[] = "   or   ";
    for (const char *at = p->usage->synopsis; at;) {
        const char *end = strstr(at, between);
        char line[512];
        snprintf(line, sizeof line, "bochner %s %.*s", p->usage->command, (int)(end ? (size_t)(end - at) : strlen(at)),
                 at);
        line[strlen(line) - (line[strlen(line) - 1] == ' ')] = 0;
        fprintf(p->out, "%*s", (int)strlen(start), at == p->usage->synopsis ? start : "");
        cli_wrap_text(
            p->out, line,
            (cli_wrap){
                .width = p->width, .column = (int)strlen(start), .indent = (int)strlen(start) + 4, .command = true});
        at = end ? end + strlen(between) : NULL;
    }
}

/* Wide commands are continued with a backslash, so that they can be pasted. */
static void write_examples(const page *p)
{
    const char *at = p->usage->examples;
    fprintf(p->out, "\n%s\n", strchr(at, '\n')[1] ? "Examples" : "Example");
    for (size_t i = 0; *at && (p->all || i < SHORT_EXAMPLES); i++) {
        char line[512];
        const size_t length = strcspn(at, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        cli_wrap_text(p->out, line, (cli_wrap){.width = p->width, .indent = 6, .command = true, .join = " \\"});
        at += length + (at[length] == '\n');
    }
}

static size_t count_options(const cli_usage *usage)
{
    size_t count = 0;
    for (size_t g = 0; g < CLI_GROUPS && usage->groups[g].rows; g++)
        for (const cli_option *row = usage->groups[g].rows; row->type != CLI_END; row++)
            count += row->type != CLI_SECTION;
    for (const cli_option *row = cli_common_rows; row->type != CLI_END; row++) count += row->type != CLI_SECTION;
    return count;
}

static void write_all_options(const page *p)
{
    cli_kind_options kinds;
    const cli_option *start = p->usage->groups[0].rows;
    if (start && start->type != CLI_SECTION) fputs("\nOptions\n", p->out);
    for (size_t g = 0; g < CLI_GROUPS && p->usage->groups[g].rows; g++)
        for (const cli_option *row = p->usage->groups[g].rows; row->type != CLI_END; row++) write_option(p, row);
    for (size_t at = 0, first = 1; cli_next_kind_options(p->usage, CLI_GROUPS, &at, &kinds); first = 0) {
        if (first) fprintf(p->out, "\n%s\n", CLI_KINDS_TITLE);
        write_entry(p, kinds.kinds, "", kinds.options);
    }
    for (const cli_option *row = cli_common_rows; row->type != CLI_END; row++) write_option(p, row);
    write_entry(p, "--help", "", "print the most common options");
    write_entry(p, "--help-all", "", "print all options");
}

static const cli_option *short_help_row(const cli_usage *usage, size_t index)
{
    const cli_option *row = cli_find_row(usage, usage->short_help[index]);
    if (row) return row;
    cli_streams_print("bochner %s: --%s of the short help is not an option\n", usage->command,
                      usage->short_help[index]);
    abort();
}

/* Prints with `write` to a string, which the caller frees; returns the number of lines. */
typedef void (*write_fn)(const page *p, const cli_option *row);
static size_t render(page p, write_fn write, const cli_option *row, char **text)
{
    size_t length = 0, lines = 0;
    *text = NULL;
    p.out = open_memstream(text, &length);
    if (!p.out) return 0;
    write(&p, row);
    fclose(p.out);
    for (size_t i = 0; i < length; i++) lines += (*text)[i] == '\n';
    return lines;
}

static void write_head(const page *p, const cli_option *unused)
{
    (void)unused;
    write_synopsis(p);
    putc('\n', p->out);
    cli_wrap_text(p->out, p->usage->about, (cli_wrap){.width = p->width});
    write_examples(p);
}

static void write_whole(const page *p, const cli_option *unused)
{
    write_head(p, unused);
    write_all_options(p);
}

/* The most important options, as many as fit on a screen. */
static void write_short(const page *p)
{
    char *text;
    size_t lines = render(*p, write_head, NULL, &text) + 4; /* including the lines around the options */
    fprintf(p->out, "%s\nOptions\n", text ? text : "");
    free(text);
    for (size_t i = 0; i < CLI_SHORT_HELP && p->usage->short_help[i]; i++) {
        lines += render(*p, write_option, short_help_row(p->usage, i), &text);
        if (lines <= SCREEN && text) fputs(text, p->out);
        free(text);
    }
    fprintf(p->out, "\nbochner %s --help-all lists all %zu options.\n", p->usage->command, count_options(p->usage));
}

void cli_help(FILE *out, const cli_usage *usage, bool all)
{
    const int columns = cli_columns(out);
    const page full = {out, usage, columns < WIDEST ? columns : WIDEST, true};
    page shorter = full;
    char *text;
    const size_t lines = render(full, write_whole, NULL, &text);
    shorter.all = false;
    if (all || lines <= SCREEN || !usage->short_help[0])
        fputs(text ? text : "", out);
    else
        write_short(&shorter);
    free(text);
}
