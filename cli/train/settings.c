/* The sources of the options of `bochner train`: the directory of a resumed run, --config and the command line; and the
 * file train.json that stores them. */
#include "../common/output.h"
#include "../common/streams.h"
#include "train.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char KEPT[] = "train.json"; /* the original options in the directory of a run */

/* Parses one source over the earlier sources. Its data files, if any, replace all earlier data files. */
static cli_parsed parse(int argc, char **argv, cli_train_args *args)
{
    cli_train_options *o = &args->options;
    const cli_list before = o->data;
    o->data.count = 0;
    free(args->files.items);
    args->files = (cli_arguments){0};
    const cli_parsed parsed = cli_parse_over(&cli_train_usage, argc, argv, o, &args->common, &args->files);
    if (o->data.count == 0 && args->files.count == 0) o->data = before;
    return parsed;
}

/* Options of earlier versions and their current names, which are not longer. */
static const char *const renamed[][2] = {{"--normaliser", "--normalizer"},
                                         {"--positions=rope-neighbours", "--positions=rope-neighbors"}};

static void rename_saved_options(int count, char **stored)
{
    for (int i = 0; i < count; i++) {
        for (size_t n = 0; n < CLI_COUNT_OF(renamed); n++) {
            const size_t former = strlen(renamed[n][0]), now = strlen(renamed[n][1]);
            if (strncmp(stored[i], renamed[n][0], former) != 0) continue;
            memmove(stored[i] + now, stored[i] + former, strlen(stored[i] + former) + 1);
            memcpy(stored[i], renamed[n][1], now);
        }
    }
}

static cli_parsed parse_file(cli_train_args *args, int which, const char *path)
{
    cli_parsed parsed = cli_config_read("train", path, &args->stored_count[which], &args->stored[which]);
    if (parsed != CLI_PARSED) return parsed;
    rename_saved_options(args->stored_count[which], args->stored[which]);
    parsed = parse(args->stored_count[which], args->stored[which], args);
    if (parsed != CLI_PARSED) cli_streams_print("bochner train: the option is in %s\n", path);
    return parsed;
}

static void begin(cli_train_args *args)
{
    cli_train_clear(&args->options);
    args->common = (cli_common){0};
}

/* The original options of the run, without --resume. The program wrote them: if they cannot be parsed, the file is
 * damaged, which is not a usage error. */
static cli_parsed parse_saved(cli_train_args *args, const char *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, KEPT);
    if (access(path, F_OK) != 0) return CLI_PARSED;
    const cli_parsed parsed = parse_file(args, 0, path);
    CLI_SET_GIVEN(&args->options, precision, true); /* keeps the precision on another device */
    return parsed == CLI_PARSE_ERROR ? CLI_UNREADABLE : parsed;
}

static void set_length(cli_train_options *o, size_t steps, bool steps_given, double minutes, bool minutes_given)
{
    o->steps = steps;
    o->minutes = minutes;
    CLI_SET_GIVEN(o, steps, steps_given);
    CLI_SET_GIVEN(o, minutes, minutes_given);
}

cli_parsed cli_train_parse(int argc, char **argv, cli_train_args *args)
{
    begin(args);
    cli_parsed parsed = parse(argc, argv, args);
    if (parsed != CLI_PARSED) return parsed;
    const char *config = args->options.config, *directory = args->options.resume ? args->options.out : NULL;
    if (!config && !directory) return CLI_PARSED;
    begin(args);
    if (directory) parsed = parse_saved(args, directory);
    if (parsed == CLI_PARSED && config) parsed = parse_file(args, 1, config);
    if (parsed != CLI_PARSED) return parsed;
    const cli_train_options before = args->options; /* --steps or --minutes on the command line replaces both */
    set_length(&args->options, 0, false, 0, false);
    parsed = parse(argc, argv, args);
    if (!CLI_GIVEN(&args->options, steps) && !CLI_GIVEN(&args->options, minutes))
        set_length(&args->options, before.steps, CLI_GIVEN(&before, steps), before.minutes,
                   CLI_GIVEN(&before, minutes));
    return parsed;
}

void cli_train_args_free(cli_train_args *args)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < args->stored_count[which]; i++) free(args->stored[which][i]);
        free(args->stored[which]);
    }
    free(args->files.items);
}

/* ---- train.json -------------------------------------------------------------------------------------------------- */

/* If there are more files than the capacity of the list, no file is stored, and --resume requires --data. */
static void list_texts(const cli_arguments *files, cli_list *data)
{
    if (files->count > CLI_LIST_CAPACITY - data->count)
        data->count = 0;
    else
        for (size_t i = 0; i < files->count; i++) data->items[data->count++] = files->items[i];
}

/* Absolute paths of the input files of a run, so that it can be resumed from any directory. Freed by the caller. */
typedef struct absolute_paths {
    char *items[CLI_LIST_CAPACITY + 8];
    size_t count;
} absolute_paths;

static void make_absolute(const char **path, absolute_paths *names)
{
    char *whole = *path && strcmp(*path, "-") != 0 ? realpath(*path, NULL) : NULL;
    if (whole) *path = names->items[names->count++] = whole;
}

static bool write_options(cli_session *session, const cli_train_options *now, const cli_common *common,
                          const char *directory)
{
    char path[4096];
    cli_output output;
    snprintf(path, sizeof path, "%s/%s", directory, KEPT);
    if (!cli_output_text(session, &output, path)) return false;
    if (cli_config_print(output.file, &cli_train_usage, now, common)) return cli_output_commit(session, &output);
    cli_streams_print("bochner train: %s: %s\n", path, strerror(errno));
    cli_output_abandon(&output);
    return false;
}

bool cli_train_save_options(cli_session *session, const cli_train_args *args)
{
    cli_train_options now = args->options;
    absolute_paths names = {.count = 0};
    CLI_SET_GIVEN(&now, out, false);
    CLI_SET_GIVEN(&now, resume, false);
    CLI_SET_GIVEN(&now, config, false);
    now.precision = bo_context_describe(session->context)->precision; /* the default depends on the device */
    if (now.precision != BO_PRECISION_FLOAT32) CLI_SET_GIVEN(&now, precision, true);
    list_texts(&args->files, &now.data);
    CLI_SET_GIVEN(&now, data, now.data.count > 0);
    for (size_t i = 0; i < now.data.count; i++) make_absolute(&now.data.items[i], &names);
    make_absolute(&now.valid, &names);
    make_absolute(&now.tokenizer, &names);
    make_absolute(&now.init, &names);
    make_absolute(&now.blocks, &names);
    make_absolute(&now.network.model, &names);
    make_absolute(&now.network.valid_labels, &names);
    make_absolute(&now.network.data.labels, &names);
    make_absolute(&now.network.data.graph, &names);
    make_absolute(&now.network.data.split, &names);
    const bool kept = write_options(session, &now, &args->common, args->options.out);
    for (size_t i = 0; i < names.count; i++) free(names.items[i]);
    return kept;
}
