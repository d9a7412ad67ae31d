/* Commands in separate programs: `bochner lab` runs bochner-lab. The program is searched like a plugin
 * (src/base/plugin.h): an absolute path in the environment (BOCHNER_LAB), the directory of this program, the plugin
 * directory of its installation. It replaces this process, so it receives signals, owns the terminal and sets the exit
 * status. Its option tables are unknown to this program: it prints everything that is generated from them. */
#ifndef CLI_COMMON_EXTERNAL_H
#define CLI_COMMON_EXTERNAL_H

#include "completion.h"

/* ---- the calling program ----------------------------------------------------------------------------------------- */

/* Runs the program of the command with these arguments. Returns only if that fails: CLI_FAILED after a message. The
 * environment variable BOCHNER_PROGRAM has the path of this program (cli_find_program). */
int cli_external_run(const char *command, int argc, char **argv);

/* Copies the output of the program with `--describe args…` (cli_external_main). Returns false, and prints nothing, if
 * the program is not installed. */
bool cli_external_describe(const char *command, const char *const *args, size_t count, FILE *out);

/* ---- the called program ------------------------------------------------------------------------------------------ */

/* The main function of the program of a command. Its arguments are those after the name of the command. Hidden
 * descriptions of its options follow a first argument --describe:
 *
 *     SHELL names     the arguments that may follow the command, for the completion of that shell
 *     SHELL options   its part of the completion script of that shell
 *     man             the manual page, from a template on standard input
 *     markdown NAME   the table of options of the command NAME; exit status 2: unknown command */
int cli_external_main(const cli_listed *command, int (*run)(int argc, char **argv), int argc, char **argv);

/* Writes the absolute path of the program bochner. On failure writes the reason and returns false. */
enum { CLI_EXTERNAL_TEXT = 3 * 4096 };
bool cli_find_program(char text[CLI_EXTERNAL_TEXT]);

#endif
