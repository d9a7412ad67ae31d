#include "external.h"
#include "cli.h"
#include "manual.h"
#include "streams.h"
#include "../../src/base/plugin.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM_VARIABLE "BOCHNER_PROGRAM"

_Static_assert((int)CLI_EXTERNAL_TEXT == (int)BO_PLUGIN_TEXT, "the text of bo_plugin_find");

/* ---- the calling program ----------------------------------------------------------------------------------------- */

enum { NAME = 32, DESCRIBED = 4 };

/* lab: bochner-lab, BOCHNER_LAB */
static bool find_external(const char *command, char text[BO_PLUGIN_TEXT])
{
    char file[NAME], variable[NAME];
    snprintf(file, sizeof file, "bochner-%s", command);
    snprintf(variable, sizeof variable, "BOCHNER_%s", command);
    for (char *c = variable; *c; c++) *c = (char)toupper((unsigned char)*c);
    return bo_plugin_find(file, variable, text);
}

/* The path of this program, unless the environment has one: a test may run it under an emulator. */
static void set_program_variable(void)
{
    char path[BO_PLUGIN_PATH];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    setenv(PROGRAM_VARIABLE, path, 0);
}

/* The arguments of the program, up to NULL; freed with free. */
static const char **make_arguments(const char *path, const char *const *arguments, size_t count)
{
    const char **args = cli_allocate(count + 2, sizeof *args, "a command line");
    args[0] = path;
    if (count) memcpy(args + 1, arguments, count * sizeof *args);
    args[count + 1] = NULL;
    return args;
}

int cli_external_run(const char *command, int argc, char **argv)
{
    char text[BO_PLUGIN_TEXT];
    if (!find_external(command, text)) {
        cli_streams_print("bochner %s: bochner-%s was not found: %s; it is the component %s of an installation "
                          "(cmake --install BUILD --component %s), and make builds it beside bochner\n",
                          command, command, text, command, command);
        return CLI_FAILED;
    }
    const char **args = make_arguments(text, (const char *const *)argv, (size_t)argc);
    set_program_variable();
    fflush(NULL);
    execv(text, (char *const *)(uintptr_t)args);
    cli_streams_print("bochner %s: cannot run %s: %s\n", command, text, strerror(errno));
    free(args);
    return CLI_FAILED;
}

static void run_child(const char *path, const char *const *args, size_t count, int output)
{
    const char *all[DESCRIBED + 1] = {"--describe"};
    for (size_t i = 0; i < count && i + 1 < DESCRIBED; i++) all[i + 1] = args[i];
    const char **line = make_arguments(path, all, count + 1);
    dup2(output, STDOUT_FILENO);
    execv(path, (char *const *)(uintptr_t)line);
    _exit(127);
}

bool cli_external_describe(const char *command, const char *const *args, size_t count, FILE *out)
{
    char path[BO_PLUGIN_TEXT], block[4096];
    int ends[2], ended = -1;
    if (!find_external(command, path) || pipe(ends) != 0) return false;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_child(path, args, count, ends[1]);
    }
    close(ends[1]);
    for (ssize_t got; child > 0 && ((got = read(ends[0], block, sizeof block)) > 0 || (got < 0 && errno == EINTR));)
        if (got > 0) fwrite(block, 1, (size_t)got, out);
    close(ends[0]);
    return child > 0 && waitpid(child, &ended, 0) == child && WIFEXITED(ended) && WEXITSTATUS(ended) == CLI_DONE;
}

/* ---- the called program ------------------------------------------------------------------------------------------ */

static int describe(const cli_listed *command, int count, char **args)
{
    cli_manual manual = {.usages = command->usages};
    while (manual.count < CLI_USAGES && command->usages[manual.count]) manual.count++;
    const char *kind = count > 0 ? args[0] : "", *part = count > 1 ? args[1] : "";
    if (strcmp(kind, "man") == 0) {
        cli_manual_page(&manual, stdin, stdout);
        return CLI_DONE;
    }
    if (strcmp(kind, "markdown") == 0) return cli_manual_table(&manual, part, stdout) ? CLI_DONE : CLI_USAGE_ERROR;
    return cli_completion_part(kind, part, command, stdout) ? CLI_DONE : CLI_USAGE_ERROR;
}

int cli_external_main(const cli_listed *command, int (*run)(int argc, char **argv), int argc, char **argv)
{
    cli_streams_open();
    const bool described = argc > 1 && strcmp(argv[1], "--describe") == 0;
    const int status = described ? describe(command, argc - 2, argv + 2) : run(argc - 1, argv + 1);
    return cli_streams_close(command->name, status);
}

bool cli_find_program(char text[CLI_EXTERNAL_TEXT])
{
    return bo_plugin_find("bochner", PROGRAM_VARIABLE, text);
}
