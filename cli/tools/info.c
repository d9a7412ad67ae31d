/* bochner info: describes a file or a directory. */
#include "info.h"
#include "../network/network.h"
#include "../text/text_tasks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- parts of reports -------------------------------------------------------------------------------------------- */

double cli_info_file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (double)info.st_size : NAN;
}

void cli_info_json_file(cli_json *json, const char *path, const char *holds)
{
    cli_json_object(json, NULL);
    cli_json_add_text(json, "file", path);
    cli_json_add_number(json, "bytes", cli_info_file_size(path));
    cli_json_add_text(json, "holds", holds);
}

void cli_info_names(const char *title, size_t count, const char *const *names)
{
    enum { SHOWN = 12 };
    printf("%-12s%s: ", title, cli_count(count).s);
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        printf("%s%s", i ? ", " : "", names[i] ? names[i] : "(no name)");
    }
    printf("%s\n", count > SHOWN ? ", ..." : "");
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Tries an embedding and a feature map after bo_machine_load() has failed with `status`, and reports a file of another
 * kind. */
static int describe_other(cli_session *session, const char *path, bo_status status)
{
    const bo_source source = {.path = path};
    bo_embedding *embedding = NULL;
    bo_schema *schema = NULL;
    bo_features *map = NULL;
    char *message = strdup(bo_context_error(session->context)); /* of the machine, for a file of no known kind */
    const bool maybe = status == BO_FORMAT || status == BO_UNSUPPORTED || status == BO_INVALID;
    bo_status found = maybe ? bo_embedding_load(session->context, &source, &embedding, &schema) : BO_FORMAT;
    if (embedding) cli_info_embedding(session, path, embedding, schema);
    if (maybe && !embedding) found = bo_features_load(session->context, &source, &map);
    if (map) cli_info_features(session, path, map);
    const bool described = embedding || map;
    bo_embedding_destroy(embedding);
    bo_schema_destroy(schema);
    bo_features_destroy(map);
    if (!described && found != BO_FORMAT && found != BO_IO)
        cli_fail_status(session, found); /* a feature map of a newer version, or larger than memory */
    else if (!described && !cli_fail_foreign(session, path))
        cli_fail(session, status == BO_FORMAT ? "%s; supported: %s" : "%s",
                 message ? message : bo_status_string(status),
                 "kernel machines (bochner fit --out), embeddings (bochner embed --save), feature maps (bochner "
                 "features --save), and text models and networks (bochner train --out)");
    free(message);
    return described ? CLI_DONE : CLI_FAILED;
}

static int describe_file(cli_session *session, const char *path)
{
    bo_machine *machine = NULL;
    bo_schema *schema = NULL;
    const bo_status status = bo_machine_load(session->context, &(bo_source){.path = path}, &machine, &schema);
    if (status != BO_OK) return describe_other(session, path, status);
    cli_info_machine(session, path, machine, schema);
    bo_machine_destroy(machine);
    bo_schema_destroy(schema);
    return CLI_DONE;
}

static int describe(cli_session *session, const char *path, const cli_profile_options *options)
{
    if (cli_is_network(path)) return cli_info_network(session, path, options);
    if (is_directory(path) || bo_model_exists(session->context, path)) return cli_info_model(session, path, options);
    if (options->graph)
        return cli_fail(session,
                        "--graph: %s is not a text model or a network; other files have no graph of operations", path);
    return describe_file(session, path);
}

static int info(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_profile_options *o = options;
    if (arguments->count != (o->devices ? 0 : 1))
        return cli_usage_error("info", "expected %s, found %zu", o->devices ? "--devices alone" : "one FILE or DIR",
                               arguments->count);
    cli_session session;
    if (!cli_session_open_in(&session, "info", common, false, CLI_COMPUTE(o))) return CLI_FAILED;
    int status;
    if (o->devices)
        status = cli_info_devices(&session);
    else if (cli_profile_check(&session, options, &status))
        status = describe(&session, arguments->items[0], options);
    cli_session_close(&session);
    return status;
}

const cli_usage cli_info_usage = {
    .command = "info",
    .synopsis = "FILE|DIR [--graph FILE]   or   --devices",
    .about =
        "Describes a kernel machine, a feature map, a text model or a network: a file or directory written by bochner. "
        "With --graph, it also times one training step by operation and plots the graph of operations.",
    .examples = "  bochner info price.model\n"
                "  bochner info model\n"
                "  bochner info model --graph step.svg --tokens 128\n"
                "  bochner info --devices\n",
    .groups = {{cli_profile_rows, 0}},
    .short_help = {"devices", "graph", "batch", "tokens", "device", "json"},
};

int cli_info(int argc, char **argv)
{
    cli_profile_options options = {0};
    return cli_command(&cli_info_usage, argc, argv, &options, info);
}
