/* Finds the file of a plugin. */
#include "plugin.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *bo_plugin_variable(const char *variable)
{
    const char *value = secure_getenv(variable);
    return value && *value ? value : NULL;
}

/* Writes the directory of the file that is mapped at the address of this code, with a slash at the end. dladdr() does
 * not help: for a program it returns argv[0], and for a library a path that may be relative. */
static bool library_directory(char directory[BO_PLUGIN_PATH])
{
    static const char anchor = 0;
    const uintptr_t address = (uintptr_t)&anchor;
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false, known = false;
    while (maps && !found && getline(&line, &size, maps) > 0) {
        uintptr_t first, end;
        int at = 0;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &first, &end, &at) != 2) continue;
        found = first <= address && address < end;
        char *slash = found && at && line[at] == '/' ? strrchr(line + at, '/') : NULL;
        if (slash && slash + 1 - (line + at) < BO_PLUGIN_PATH) {
            slash[1] = 0;
            strcpy(directory, line + at);
            known = true;
        }
    }
    free(line);
    if (maps) fclose(maps);
    return known;
}

/* The plugin directory relative to `directory`, which contains the programs or the libraries of an installation. */
static const char *installed(const char *directory)
{
    static const char programs[] = "/" BOCHNER_PROGRAM_DIR "/";
    size_t length = strlen(directory), end = sizeof programs - 1;
    bool program = length >= end && strcmp(directory + length - end, programs) == 0;
    return program ? BOCHNER_PLUGIN_FROM_PROGRAM "/" : "bochner/";
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool find_named(const char *variable, const char *path, char text[BO_PLUGIN_TEXT])
{
    if (*path != '/') {
        snprintf(text, BO_PLUGIN_TEXT, "%s must be an absolute path, found %s", variable, path);
        return false;
    }
    const bool found = exists(path);
    snprintf(text, BO_PLUGIN_TEXT, found ? "%s" : "%s does not exist (%s)", path, variable);
    return found;
}

bool bo_plugin_find(const char *name, const char *variable, char text[BO_PLUGIN_TEXT])
{
    char directory[BO_PLUGIN_PATH];
    const char *requested = bo_plugin_variable(variable);
    if (requested) return find_named(variable, requested, text);
    if (!library_directory(directory)) {
        snprintf(text, BO_PLUGIN_TEXT,
                 "/proc/self/maps does not contain the path of this program; set %s to the path of %s", variable, name);
        return false;
    }
    snprintf(text, BO_PLUGIN_TEXT, "%s%s", directory, name);
    if (exists(text)) return true;
    snprintf(text, BO_PLUGIN_TEXT, "%s%s%s", directory, installed(directory), name);
    if (exists(text)) return true;
    snprintf(text, BO_PLUGIN_TEXT, "neither %s%s nor %s%s%s exists", directory, name, directory, installed(directory),
             name);
    return false;
}
