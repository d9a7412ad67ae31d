/* The manual page and the lists of options in docs/reference/commands.md, made from the tables of options. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "common/options.h"

typedef struct cli_manual {
    const cli_usage *const *usages; /* of all commands, in order */
    size_t count;
} cli_manual;

/* Copies a template of the manual page (cmake/bochner.1.in). @VERSION@ is replaced by the version, and a line
 * @COMMANDS@ by all commands with their options. */
void cli_manual_page(const cli_manual *manual, FILE *in, FILE *out);
/* Copies a page of Markdown. The lines between "<!-- options: COMMAND -->" and "<!-- end -->" are replaced by a
 * table of the command's options ("common": those of all commands). Returns false, after a message, for an unknown
 * command or a missing end. */
bool cli_manual_lists(const cli_manual *manual, FILE *in, FILE *out);

#endif
