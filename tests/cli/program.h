/* Runs the program from tests in C, in a temporary directory. */
#ifndef TEST_CLI_PROGRAM_H
#define TEST_CLI_PROGRAM_H

#include "testing.h"
#include <sys/wait.h>
#include <unistd.h>

/* Returns the output of the command, including standard error if it must fail; the caller frees it. `status` is the
 * expected exit status. Lines that contain the text `without` (or NULL), such as times, are removed. */
static inline char *program_prints(const char *directory, int status, const char *arguments, const char *without)
{
    enum { CAPACITY = 1 << 16 };
    const char *program = getenv("BOCHNER");
    if (!program) skip();
    char command[1024], line[4096], *text = calloc(CAPACITY, 1);
    snprintf(command, sizeof command, "cd '%s' && '%s' %s 2>%s", directory, program, arguments,
             status ? "&1" : "/dev/null");
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = 0;
    while (fgets(line, sizeof line, pipe)) {
        if (without && strstr(line, without)) continue;
        if (length + strlen(line) < CAPACITY) length += (size_t)snprintf(text + length, CAPACITY - length, "%s", line);
    }
    const int ended = pclose(pipe);
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != status)
        fail_msg("bochner %s ended with %d: %.300s", arguments, ended, text);
    return text;
}

/* Teardown of a test whose state is the name of a directory, allocated with malloc. */
static inline int remove_directory(void **state)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    const int status = system(command);
    free(*state);
    return status;
}

#endif
