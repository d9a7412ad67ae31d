/* The search path of plugins: shared objects that the library (CUDA) or the program (MPI) opens when they are needed.
 * The order:
 *
 *   1. the file that an environment variable names, an absolute path; if it is set, nothing else is tried. Ignored in a
 *      program with more privileges than its user (set-user-ID)
 *   2. the directory of the program or shared library that contains this code, as in a build tree
 *   3. the plugin directory of the installation that this file belongs to
 *
 * The kernel reports the directory of the real file, after symbolic links: argv[0], PATH and the current directory do
 * not matter. */
#ifndef BO_BASE_PLUGIN_H
#define BO_BASE_PLUGIN_H

#include <stdbool.h>

enum { BO_PLUGIN_PATH = 4096, BO_PLUGIN_TEXT = 3 * BO_PLUGIN_PATH };

/* Returns the value of the environment variable; NULL if it is empty or must be ignored. */
const char *bo_plugin_variable(const char *variable);

/* Finds the plugin with this file name and writes its path. If there is none, returns false and writes the reason,
 * which names the variable or the missing files. */
bool bo_plugin_find(const char *name, const char *variable, char text[BO_PLUGIN_TEXT]);

#endif
