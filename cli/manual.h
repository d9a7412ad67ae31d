/* The manual page and the lists of options in docs/reference/commands.md, from the rows that --help is printed from. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "common/options.h"

typedef struct cli_manual {
    const cli_usage *const *usages; /* of all commands, in order */
    size_t count;
} cli_manual;

/* Copies a template of the manual page (cmake/bochner.1.in): @VERSION@ becomes the version, and a line @COMMANDS@ all commands
 * with their options. */
void cli_manual_page(const cli_manual *manual, FILE *in, FILE *out);
/* Copies a page of Markdown: what stands between lines "<!-- options: COMMAND -->" and "<!-- end -->" becomes the table of the
 * command's options ("common": those of all commands). False after naming a command that there is not, or a list without end. */
bool cli_manual_lists(const cli_manual *manual, FILE *in, FILE *out);

#endif
