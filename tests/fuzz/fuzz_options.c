/* The command lines of all commands: parsed or refused, never run. The first byte selects the command; the arguments
 * follow, one per line. Options that were accepted are printed as JSON, read from a file in memory and parsed again,
 * and must be the same. */
#include "fuzz.h"
int bochner_main(int argc, char **argv);
#define main bochner_main
#include "cli/main.c"
#undef main
#include "bench/bench.h"
#include "cli/lab/lab.h"
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_ARGS = 64, OPTIONS_BYTES = 1 << 16 };

/* Commands that are separate programs. */
static const cli_usage *const external[] = {
    &cli_lab_usage,      &bench_machines_usage, &bench_attention_usage, &bench_train_usage, &bench_layers_usage,
    &bench_recall_usage, &bench_tasks_usage,    &bench_decode_usage,    &bench_scale_usage, &bench_serve_usage,
};

static const cli_usage *usage_at(size_t index)
{
    static const cli_usage *usages[(CLI_COUNT_OF(commands) + 1) * CLI_USAGES];
    static size_t count;
    if (count > 0) return usages[index % count];
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++)
        for (size_t k = 0; k < CLI_USAGES && commands[i].listed.usages[k]; k++)
            usages[count++] = commands[i].listed.usages[k];
    for (size_t i = 0; i < CLI_COUNT_OF(external); i++) usages[count++] = external[i];
    return usage_at(index);
}

/* The help does not depend on the other arguments, and is long. */
static bool requests_help(int count, char **args)
{
    bool requested = false;
    for (int i = 0; i < count; i++) requested |= strncmp(args[i], "--help", 6) == 0 || strcmp(args[i], "-h") == 0;
    return requested;
}

static int split(char *text, char **args)
{
    int count = 0;
    for (char *end; count < MAX_ARGS && *text; text = end) {
        args[count++] = text;
        end = text + strcspn(text, "\n");
        if (*end) *end++ = 0;
    }
    return count;
}

/* Messages are discarded; reports of sanitizers, which write to the descriptor, are not. */
static cli_parsed parse(const cli_usage *usage, int count, char **args, void *options, cli_common *common,
                        cli_arguments *arguments)
{
    static FILE *nowhere;
    FILE *const out = stdout, *const err = stderr;
    if (!nowhere && !(nowhere = fopen("/dev/null", "w"))) abort();
    stdout = stderr = nowhere;
    const cli_parsed parsed = cli_parse(usage, count, args, options, common, arguments);
    stdout = out;
    stderr = err;
    return parsed;
}

static uint64_t first_options[OPTIONS_BYTES / sizeof(uint64_t)], again_options[OPTIONS_BYTES / sizeof(uint64_t)];

/* To be freed. */
static char *print(const cli_usage *usage, const void *options, const cli_common *common, size_t *length)
{
    char *text;
    FILE *file = open_memstream(&text, length);
    if (!file || !cli_config_print(file, usage, options, common) || fclose(file) != 0) abort();
    return text;
}

/* The path of a file in memory with this text. */
static const char *in_memory(const char *text, size_t length)
{
    static int file = -1;
    static char path[32];
    if (file < 0 && (file = memfd_create("options", MFD_CLOEXEC)) < 0) abort();
    if (ftruncate(file, 0) != 0 || pwrite(file, text, length, 0) != (ssize_t)length) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}

/* Printed options are read and parsed to the same options. */
static void read_again(const cli_usage *usage, const void *options, const cli_common *common)
{
    cli_common common_again = {0};
    cli_arguments arguments = {0};
    size_t length, length_again;
    int count;
    char **args, *text = print(usage, options, common, &length);
    if (cli_config_read(usage->command, in_memory(text, length), &count, &args) != CLI_PARSED) abort();
    memset(again_options, 0, sizeof again_options);
    if (parse(usage, count, args, again_options, &common_again, &arguments) != CLI_PARSED) abort();
    if (arguments.count > 0) abort();
    char *again = print(usage, again_options, &common_again, &length_again);
    if (length != length_again || memcmp(text, again, length) != 0) abort();
    for (int i = 0; i < count; i++) free(args[i]);
    free(args);
    free(arguments.items);
    free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *args[MAX_ARGS];
    cli_common common = {0};
    cli_arguments arguments = {0};
    memcpy(text, data, size);
    text[size] = 0;
    memset(first_options, 0, sizeof first_options);
    const cli_usage *usage = usage_at(size ? data[0] : 0);
    const int count = size ? split(text + 1, args) : 0;
    if (!requests_help(count, args) && parse(usage, count, args, first_options, &common, &arguments) == CLI_PARSED)
        read_again(usage, first_options, &common);
    free(arguments.items);
    free(text);
    return 0;
}
