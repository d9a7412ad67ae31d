/* Commands that are programs of their own: `bochner lab` runs bochner-lab. The program is found as a plugin is
 * (src/base/plugin.h): an absolute path in the environment (BOCHNER_LAB), the directory of this program, the plugin
 * directory of its installation. It replaces this process, so that signals, the terminal and the exit status are its
 * own. Its tables of options are not known here: what is made from them, it prints itself. */
#ifndef CLI_COMMON_EXTERNAL_H
#define CLI_COMMON_EXTERNAL_H

#include "completion.h"

/* ---- the program that starts another ----------------------------------------------------------------------------- */

/* Runs the program of the command with these arguments, and returns only if it cannot: CLI_FAILED after a message. The
 * program finds this one by the environment variable BOCHNER_PROGRAM (cli_find_program). */
int cli_external_run(const char *command, int argc, char **argv);

/* Copies what the program prints when it describes itself (cli_external_main); words: the description. Returns false,
 * and prints nothing, if there is no such program; it may be left out of an installation. */
bool cli_external_describe(const char *command, const char *const *args, size_t count, FILE *out);

/* ---- the program that is started --------------------------------------------------------------------------------- */

/* The main function of the program of a command, which takes the arguments after the name of the command. Hidden
 * descriptions of its options, after the first word --describe:
 *
 *     SHELL names     the words that may follow the command, for the completion of that shell
 *     SHELL options   its part of the completion script of that shell
 *     man             the manual page, made from a template on standard input
 *     markdown NAME   the table of options of the command NAME; exit status 2: there is no such command */
int cli_external_main(const cli_listed *command, int (*run)(int argc, char **argv), int argc, char **argv);

/* Writes the absolute path of the program bochner. Returns false after writing the reason. */
enum { CLI_EXTERNAL_TEXT = 3 * 4096 };
bool cli_find_program(char text[CLI_EXTERNAL_TEXT]);

#endif
