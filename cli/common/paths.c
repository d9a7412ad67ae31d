#include "paths.h"
#include "cli.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Splits a path into its directory and its file name, which is returned. */
static const char *split(const char *path, char *directory, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(directory, size, ".");
    else
        snprintf(directory, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return slash ? slash + 1 : path;
}

/* Existing files are compared by device and inode, so that links and ./ are recognized; new files by directory and
 * name. Devices and pipes may be shared. */
static bool same_file(const char *a, const char *b)
{
    struct stat first, second;
    bool is_first = stat(a, &first) == 0, is_second = stat(b, &second) == 0;
    if (is_first != is_second) return false;
    if (is_first) return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    char directory_a[4096], directory_b[4096];
    const char *name_a = split(a, directory_a, sizeof directory_a), *name_b = split(b, directory_b, sizeof directory_b);
    if (strcmp(name_a, name_b) != 0 || stat(directory_a, &first) != 0 || stat(directory_b, &second) != 0) return false;
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

int cli_paths_apart(const char *command, const cli_path *outputs, size_t output_count, const cli_path *inputs,
                    size_t input_count)
{
    for (size_t i = 0; i < output_count; i++) {
        const char *path = outputs[i].path;
        for (size_t j = 0; path && j < input_count; j++) {
            const char *input = inputs[j].path;
            if (!input || strcmp(input, "-") == 0 || !same_file(path, input)) continue;
            return cli_usage_error(command, "--%s %s would replace an input file (%s%s%s%s): choose another name",
                                   outputs[i].option, path, inputs[j].option ? "--" : "",
                                   inputs[j].option ? inputs[j].option : "", inputs[j].option ? " " : "", input);
        }
        for (size_t j = 0; path && j < i; j++)
            if (outputs[j].path && same_file(path, outputs[j].path))
                return cli_usage_error(command, "--%s and --%s name the same file, %s: choose two names",
                                       outputs[j].option, outputs[i].option, path);
    }
    return CLI_DONE;
}
