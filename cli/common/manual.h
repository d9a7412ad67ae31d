/* The manual page and the option lists in docs/reference/commands.md, generated from the option tables. */
#ifndef CLI_COMMON_MANUAL_H
#define CLI_COMMON_MANUAL_H

#include "completion.h"

typedef struct cli_manual {
    const cli_usage *const *usages; /* of all commands, in order */
    size_t count;
    const cli_listed *const *external; /* commands in separate programs, which have their own pages */
    size_t external_count;
} cli_manual;

/* Copies a template of the manual page (cmake/bochner.1.in). @VERSION@ is replaced by the version, and a line
 * @COMMANDS@ by all commands with their options. */
void cli_manual_page(const cli_manual *manual, FILE *in, FILE *out);
/* Copies a page of Markdown. The lines between "<!-- options: COMMAND -->" and "<!-- end -->" are replaced by a table
 * of the command's options ("common": options of all commands). Returns false, after a message, for an unknown command
 * or a missing end. */
bool cli_manual_lists(const cli_manual *manual, FILE *in, FILE *out);
/* Prints the table of a command. Returns false, and prints nothing, for an unknown command. */
bool cli_manual_table(const cli_manual *manual, const char *command, FILE *out);

#endif
