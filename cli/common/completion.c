#include "completion.h"
#include "external.h"
#include <stdlib.h>
#include <string.h>

typedef struct script {
    const cli_listed *const *commands;
    size_t count;
    FILE *out;
} script;

typedef void (*row_fn)(FILE *out, const cli_usage *usage, const cli_option *row);

static void each_row(FILE *out, const cli_usage *usage, row_fn write)
{
    for (size_t g = 0; g <= CLI_GROUPS; g++) {
        const cli_option *row = g < CLI_GROUPS ? usage->groups[g].rows : cli_common_rows;
        for (; row && row->type != CLI_END; row++)
            if (row->type != CLI_SECTION) write(out, usage, row);
    }
}

typedef void (*usage_fn)(FILE *out, const cli_usage *usage);

static void each_usage(const cli_listed *command, usage_fn write, FILE *out)
{
    for (size_t k = 0; k < CLI_USAGES && command->usages[k]; k++) write(out, command->usages[k]);
}

/* Prints a part for every command. The program of an external command prints its own part. */
static void write_parts(const script *s, const char *shell, const char *part)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->commands[i]->external)
            cli_external_describe(s->commands[i]->name, (const char *const[]){shell, part}, 2, s->out);
        else
            cli_completion_part(shell, part, s->commands[i], s->out);
    }
}

/* Names of the values of an option, or "auto"; nothing if it takes other values. */
static void write_values(FILE *out, const cli_option *row)
{
    const char *between = "";
    if (row->type == CLI_REAL_OR_AUTO) fputs("auto", out);
    for (unsigned i = 0; row->type == CLI_CHOICE && i < cli_choice_count(row); i++) {
        if (!cli_choice_name(row, i)) continue;
        fprintf(out, "%s%s", between, cli_choice_name(row, i));
        between = " ";
    }
}

static bool has_values(const cli_option *row)
{
    return row->type == CLI_CHOICE || row->type == CLI_REAL_OR_AUTO;
}

static bool may_be_file(const cli_option *row)
{
    return row->type == CLI_TEXT || row->type == CLI_LIST;
}

static void write_verbs(FILE *out, const cli_usage *usage)
{
    for (size_t i = 0; i < CLI_SUBCOMMANDS && usage->subcommands[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", usage->subcommands[i]);
}

/* "attention" of "bench attention". */
static const char *subject_of(const cli_usage *usage)
{
    const char *space = strchr(usage->command, ' ');
    return space ? space + 1 : usage->command;
}

static void write_subjects(FILE *out, const cli_listed *command)
{
    for (size_t k = 0; k < CLI_USAGES && command->usages[k]; k++)
        fprintf(out, "%s%s", k ? " " : "", subject_of(command->usages[k]));
}

/* Text within single quotes, with a backslash before each of the characters `special`. */
static void write_quoted(FILE *out, const char *text, const char *special, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs(quote, out);
            continue;
        }
        if (strchr(special, *text)) putc('\\', out);
        putc(*text, out);
    }
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

static void write_bash_name(FILE *out, const cli_usage *usage, const cli_option *row)
{
    (void)usage;
    fprintf(out, "--%s ", row->name);
}

static void write_bash_values(FILE *out, const cli_usage *usage, const cli_option *row)
{
    (void)usage;
    if (!has_values(row)) return;
    fprintf(out, "        --%s) values='", row->name);
    write_values(out, row);
    fputs("' ;;\n", out);
}

static void write_bash_usage(FILE *out, const cli_usage *usage)
{
    fprintf(out, "    '%s')\n        verbs='", usage->command);
    write_verbs(out, usage);
    fputs("'\n        options='", out);
    each_row(out, usage, write_bash_name);
    fputs("--help --help-all'\n        case $prev in\n", out);
    each_row(out, usage, write_bash_values);
    fputs("        esac\n        ;;\n", out);
}

static void write_bash_names(FILE *out, const cli_listed *command)
{
    fprintf(out, "    if [ \"$command\" = %s ]; then\n        if [ \"$COMP_CWORD\" -eq 2 ]; then\n", command->name);
    fputs("            COMPREPLY=($(compgen -W '", out);
    write_subjects(out, command);
    fputs(" --help --help-all' -- \"$cur\"))\n            return\n        fi\n"
          "        command=\"$command ${COMP_WORDS[2]}\"\n        first=3\n    fi\n",
          out);
}

static void write_bash(const script *s)
{
    FILE *out = s->out;
    fputs("# Completion of bochner in bash; printed by: bochner completion bash\n"
          "_bochner()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}\n"
          "    local first=2 words= verbs= options= values=\n"
          "    COMPREPLY=()\n"
          "    # --name=value is three words\n"
          "    if [ \"$cur\" = = ]; then\n        cur=\n"
          "    elif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '",
          out);
    for (size_t i = 0; i < s->count; i++) fprintf(out, "%s ", s->commands[i]->name);
    fputs("--help --version' -- \"$cur\"))\n        return\n    fi\n", out);
    write_parts(s, "bash", "names");
    fputs("    case $command in\n", out);
    write_parts(s, "bash", "options");
    fputs("    esac\n    if [ \"$command\" = help ]; then\n        verbs='", out);
    for (size_t i = 0; i < s->count; i++) fprintf(out, "%s%s", i ? " " : "", s->commands[i]->name);
    fputs("'\n        options=--all\n    fi\n"
          "    if [ -n \"$values\" ]; then\n        words=$values\n"
          "    elif [ \"${cur:0:1}\" = - ]; then\n        words=$options\n"
          "    elif [ \"$COMP_CWORD\" -eq \"$first\" ]; then\n        words=$verbs\n    fi\n"
          "    # without words the shell completes names of files\n"
          "    if [ -n \"$words\" ]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    fi\n}\n"
          "complete -o default -F _bochner bochner\n",
          out);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------- */

static const char zsh_special[] = "[]:\\", zsh_quote[] = "'\\''";

static void write_zsh_row(FILE *out, const cli_usage *usage, const cli_option *row)
{
    (void)usage;
    char *summary = cli_help_summary(row);
    fprintf(out, "            '%s--%s%s[", row->type == CLI_LIST ? "*" : "", row->name,
            row->type == CLI_FLAG ? "" : "=");
    write_quoted(out, summary, zsh_special, zsh_quote);
    fputs("]", out);
    free(summary);
    if (row->type != CLI_FLAG) {
        putc(':', out);
        write_quoted(out, row->argument, zsh_special, zsh_quote);
        putc(':', out);
        if (has_values(row)) {
            putc('(', out);
            write_values(out, row);
            putc(')', out);
        } else
            fputs(may_be_file(row) ? "_files" : " ", out);
    }
    fputs("' \\\n", out);
}

static void write_zsh_usage(FILE *out, const cli_usage *usage)
{
    fprintf(out, "    ('%s')\n        _arguments \\\n", usage->command);
    each_row(out, usage, write_zsh_row);
    fputs("            '--help[print the most common options]' \\\n"
          "            '--help-all[print all options]' \\\n",
          out);
    if (usage->subcommands[0]) {
        fputs("            '1:action:(", out);
        write_verbs(out, usage);
        fputs(")' \\\n", out);
    }
    fputs("            '*:file:_files'\n        ;;\n", out);
}

static void write_zsh_names(FILE *out, const cli_listed *command)
{
    fprintf(out, "    if [[ $command = %s ]]; then\n        if (( CURRENT == 2 )); then\n            compadd -- ",
            command->name);
    write_subjects(out, command);
    fputs("\n            return\n        fi\n"
          "        command=\"$command $words[2]\"\n        shift words\n        (( CURRENT-- ))\n    fi\n",
          out);
}

static void write_zsh(const script *s)
{
    FILE *out = s->out;
    fputs("#compdef bochner\n"
          "# Completion of bochner in zsh; printed by: bochner completion zsh\n"
          "_bochner()\n{\n    local -a commands\n    commands=(\n",
          out);
    for (size_t i = 0; i < s->count; i++) {
        fprintf(out, "        '%s:", s->commands[i]->name);
        write_quoted(out, s->commands[i]->summary, ":\\", zsh_quote);
        fputs("'\n", out);
    }
    fputs(
        "    )\n"
        "    if (( CURRENT == 2 )); then\n        _describe -t commands command commands\n        return\n    fi\n"
        "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
        "    if [[ $command = help ]]; then\n        _describe -t commands command commands\n        return\n    fi\n",
        out);
    write_parts(s, "zsh", "names");
    fputs("    case $command in\n", out);
    write_parts(s, "zsh", "options");
    fputs("    esac\n}\n\n"
          "if [[ $funcstack[1] = _bochner ]]; then\n    _bochner \"$@\"\nelse\n    compdef _bochner bochner\nfi\n",
          out);
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

static const char fish_special[] = "\\", fish_quote[] = "\\'";

static void write_fish_row(FILE *out, const cli_usage *usage, const cli_option *row)
{
    char *summary = cli_help_summary(row);
    fprintf(out, "complete -c bochner -n '__bochner_is %s' -l %s", usage->command, row->name);
    if (row->type != CLI_FLAG) fputs(may_be_file(row) ? " -r" : " -x", out);
    if (has_values(row)) {
        fputs(" -a '", out);
        write_values(out, row);
        putc('\'', out);
    }
    fputs(" -d '", out);
    write_quoted(out, summary, fish_special, fish_quote);
    fputs("'\n", out);
    free(summary);
}

static void write_fish_usage(FILE *out, const cli_usage *usage)
{
    if (usage->subcommands[0]) {
        fprintf(out, "complete -c bochner -n '__bochner_is %s; and __bochner_after 2' -f -a '", usage->command);
        write_verbs(out, usage);
        fputs("'\n", out);
    }
    each_row(out, usage, write_fish_row);
    fprintf(out,
            "complete -c bochner -n '__bochner_is %s' -l help -d 'print the most common options'\n"
            "complete -c bochner -n '__bochner_is %s' -l help-all -d 'print all options'\n",
            usage->command, usage->command);
}

static void write_fish_names(FILE *out, const cli_listed *command)
{
    fprintf(out, "complete -c bochner -n '__bochner_is %s; and __bochner_after 2' -f -a '", command->name);
    write_subjects(out, command);
    fputs("'\n", out);
}

static void write_fish(const script *s)
{
    FILE *out = s->out;
    fputs("# Completion of bochner in fish; printed by: bochner completion fish\n"
          "function __bochner_is\n"
          "    set -l words (commandline -opc)\n"
          "    set -e words[1]\n"
          "    set -l count (count $argv)\n"
          "    test (count $words) -ge $count; and test \"$words[1..$count]\" = \"$argv\"\n"
          "end\n"
          "function __bochner_after\n"
          "    test (count (commandline -opc)) -eq $argv[1]\n"
          "end\n",
          out);
    for (size_t i = 0; i < s->count; i++)
        for (int help = 0; help < 2; help++) {
            fprintf(out, "complete -c bochner -n '%s' -f -a %s -d '",
                    help ? "__bochner_is help; and __bochner_after 2" : "__bochner_after 1", s->commands[i]->name);
            write_quoted(out, s->commands[i]->summary, fish_special, fish_quote);
            fputs("'\n", out);
        }
    write_parts(s, "fish", "names");
    write_parts(s, "fish", "options");
}

/* ---- all shells -------------------------------------------------------------------------------------------------- */

typedef struct shell_script {
    const char *name;
    void (*write)(const script *s);
    void (*write_names)(FILE *out, const cli_listed *command);
    usage_fn write_usage;
} shell_script;

static const shell_script shells[] = {
    {"bash", write_bash, write_bash_names, write_bash_usage},
    {"zsh", write_zsh, write_zsh_names, write_zsh_usage},
    {"fish", write_fish, write_fish_names, write_fish_usage},
};

static const shell_script *find_shell(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT_OF(shells); i++)
        if (strcmp(shells[i].name, name) == 0) return &shells[i];
    return NULL;
}

bool cli_completion_part(const char *shell, const char *part, const cli_listed *command, FILE *out)
{
    const shell_script *found = find_shell(shell);
    const bool names = strcmp(part, "names") == 0;
    if (!found || (!names && strcmp(part, "options") != 0)) return false;
    if (!names)
        each_usage(command, found->write_usage, out);
    else if (command->usages[1]) /* the first word is a subject */
        found->write_names(out, command);
    return true;
}

bool cli_completion(const char *shell, const cli_listed *const *commands, size_t count, FILE *out)
{
    const shell_script *found = find_shell(shell);
    const script s = {commands, count, out};
    if (found) found->write(&s);
    return found != NULL;
}
