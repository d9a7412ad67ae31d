/* The data of networks: options, and loading of examples. */
#include "network.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const cli_option cli_network_column_rows[] = {
    TEXT("target", "NAME|N", cli_network_data, target, "for networks: column to predict",
         .default_text = "the last column"),
    TEXT("labels", "FILE", cli_network_data, labels, "for networks: separate file with the targets, in the same order"),
    TEXT("categorical", "NAMES", cli_network_data, categorical,
         "for networks: columns to one-hot encode; none: text columns are an error",
         .default_text = "auto: text columns of up to 32 values"),
    CHOICE("impute", "KIND", cli_network_data, impute, BO_ENUM_IMPUTE, "for networks: replacement of missing numbers",
           .initial = "none"),
    END_OF_OPTIONS,
};

const cli_option cli_network_graph_rows[] = {
    TEXT("graph", "FILE", cli_network_data, graph,
         "for networks: edges of a graph whose nodes are the rows; two columns: from, to"),
    FLAG("undirected", cli_network_data, undirected, "for --graph: edges have no direction"),
    FLAG("self-loops", cli_network_data, self_loops, "for --graph: add an edge from each node to itself"),
    TEXT("split", "FILE", cli_network_data, split,
         "for networks: file with the part of each row, one word per line: train, valid, test or none"),
    END_OF_OPTIONS,
};

const cli_option cli_network_part_rows[] = {
    SECTION("Networks"),
    CHOICE("part", "PART", cli_network_data, part, BO_ENUM_SPLIT, "for networks: use only these rows of --split",
           .default_text = "all rows"),
    END_OF_OPTIONS,
};

int cli_network_data_check(const char *command, const cli_network_data *o)
{
    if (o->target && o->labels) return cli_usage_error(command, "give --target or --labels, not both");
    if ((o->undirected || o->self_loops) && !o->graph)
        return cli_usage_error(command, "--undirected and --self-loops need --graph FILE");
    return CLI_DONE;
}

/* The first given option of networks; NULL: none. */
static const char *given(const cli_network_data *o)
{
    const cli_option *row = cli_next_given(cli_network_column_rows, o, NULL);
    if (!row) row = cli_next_given(cli_network_graph_rows, o, NULL);
    if (!row) row = cli_next_given(cli_network_part_rows, o, NULL);
    return row ? row->name : NULL;
}

int cli_network_use_check(const char *command, const cli_network_use *use, const char *other)
{
    const bool network = cli_is_network(use->directory);
    if (network && other)
        return cli_usage_error(command, "--%s does not apply to networks; %s holds a network", other, use->directory);
    if (!network && given(&use->data))
        return cli_usage_error(command, "--%s applies to networks only; %s does not hold a network", given(&use->data),
                               use->directory);
    if (CLI_GIVEN(&use->data, part) && !use->data.split)
        return cli_usage_error(command, "--part needs --split FILE, which assigns a part to each row");
    return cli_network_data_check(command, &use->data);
}

bo_split cli_network_part(const cli_network_data *o)
{
    return CLI_GIVEN(o, part) ? o->part : BO_SPLIT_ALL;
}

/* A network saved through the API may have no schema: then all columns are inputs, except the target if it is named. */
bool cli_network_examples(cli_session *session, const cli_network_source *source, bo_examples **out)
{
    const cli_network_data *o = source->data;
    const char *labels = source->labels ? source->labels : o->labels;
    const bo_description_needs *needs = source->needs;
    bo_examples_desc desc = {.data = {.path = source->path,
                                      .labels = labels,
                                      .target = o->target,
                                      .categorical = o->categorical,
                                      .impute = o->impute,
                                      .seed = session->common.seed},
                             .edges = o->graph,
                             .undirected = o->undirected,
                             .self_loops = o->self_loops,
                             .split = o->split,
                             .valid = source->valid,
                             .seed = session->common.seed};
    if (needs) desc.data.task = needs->task;
    if (needs) desc.data.no_target = !needs->targets && !labels && !o->target;
    const bool unknown = source->network && !bo_model_report(source->network)->network->schema;
    if (unknown) desc.data.no_target = !labels && !o->target;
    const bo_status status = bo_examples_load(session->context, &desc, source->network, out);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

/* Reads the start of a file of a directory as text. False: no such file, or a pipe or device, which would block and
 * which the loader refuses. */
static bool read_head(const char *directory, const char *name, char out[4096])
{
    char path[4096];
    struct stat status;
    const int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (length >= (int)sizeof path || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    out[fread(out, 1, 4095, file)] = 0;
    fclose(file);
    return true;
}

/* True if the task of a configuration, which may be embedded in JSON text, is predict. */
static bool predicts(const char *config)
{
    const char *at = strstr(config, "\"task");
    if (!at) return false;
    at += strlen("\"task");
    return strncmp(at + strspn(at, " \t\r\n:\\\""), "predict", strlen("predict")) == 0;
}

/* Returns the header of a safetensors file, freed by the caller; NULL: another kind of file. */
static char *read_header(const char *path)
{
    enum { MAX_HEADER_BYTES = 100000000 };
    unsigned char size[8];
    uint64_t length = 0;
    FILE *file = fopen(path, "rb");
    char *header = NULL;
    if (file && fread(size, 1, sizeof size, file) == sizeof size)
        for (int i = 7; i >= 0; i--) length = length << 8 | size[i];
    if (length >= 2 && length <= MAX_HEADER_BYTES) header = calloc(length + 1, 1);
    if (header && fread(header, 1, length, file) != length) free(header), header = NULL;
    if (file) fclose(file);
    return header;
}

/* A model in one file has its configuration in the metadata. */
static bool is_network_image(const char *path)
{
    char *header = read_header(path);
    const char *config = header ? strstr(header, "\"config.json\"") : NULL;
    const bool found = (config && predicts(config)) || (header && strstr(header, "\"network.json\""));
    free(header);
    return found;
}

/* The task is one of the first members of config.json. Earlier versions wrote network.json instead. */
bool cli_is_network(const char *path)
{
    struct stat status;
    char head[4096];
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) return is_network_image(path);
    if (!read_head(path, "config.json", head)) return read_head(path, "network.json", head);
    return predicts(head);
}

bool cli_is_no_network(cli_session *session, const char *directory)
{
    if (!cli_is_network(directory)) return true;
    cli_fail(session, "%s holds a network, expected a text model; use bochner eval, predict or info", directory);
    return false;
}
