/* The data of networks, as options and as examples. */
#include "network.h"
#include <string.h>
#include <unistd.h>

const char *cli_part_choice(int index)
{
    return index < BO_PART_COUNT ? bo_part_name((bo_part)index) : NULL;
}

size_t cli_network_data_table(cli_network_data *o, cli_option out[CLI_NETWORK_DATA])
{
    const cli_option options[] = {
        {CLI_TEXT, "target", "NAME|N", "of a network: the column to predict; the last unless given", &o->target, NULL,
         0, 0},
        {CLI_TEXT, "labels", "FILE", "of a network: targets in a file of their own, a row a row", &o->labels, NULL, 0,
         0},
        {CLI_TEXT, "categorical", "NAMES", "of a network: columns of words, one-hot; auto: all that are",
         &o->categorical, NULL, 0, 0},
        {CLI_CHOICE, "impute", "KIND", "of a network: what stands in for missing numbers", &o->impute,
         cli_impute_choice, 0, 0},
        {CLI_TEXT, "graph", "FILE", "of a network: rows are nodes, and these the edges, two columns: from, to",
         &o->graph, NULL, 0, 0},
        {CLI_FLAG, "undirected", NULL, "of --graph: edges go both ways", &o->undirected, NULL, 0, 0},
        {CLI_FLAG, "self-loops", NULL, "of --graph: every node sees itself", &o->self_loops, NULL, 0, 0},
        {CLI_TEXT, "split", "FILE", "of a network: which rows are train, valid, test or none, a word a row", &o->split,
         NULL, 0, 0},
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

/* A network made by a program may know no columns: then all of them are inputs, but for one that is named. */
bool cli_network_examples(cli_session *session, const cli_network_source *source, bo_examples **out)
{
    const cli_network_data *o = source->data;
    const char *labels = source->labels ? source->labels : o->labels;
    const bo_network_needs *needs = source->needs;
    bo_examples_desc desc = {.data = {.path = source->path,
                                      .labels = labels,
                                      .target = o->target,
                                      .categorical = o->categorical,
                                      .impute = (bo_impute)o->impute,
                                      .seed = session->common.seed},
                             .edges = o->graph,
                             .undirected = o->undirected,
                             .self_loops = o->self_loops,
                             .split = o->split,
                             .valid = source->valid,
                             .seed = session->common.seed};
    if (needs) desc.data.task = needs->task;
    if (needs) desc.data.no_target = !needs->targets && !labels && !o->target;
    const bool unknown = source->network && !bo_network_describe(source->network).schema;
    if (unknown) desc.data.no_target = !labels && !o->target;
    const bo_status status = bo_examples_load(session->context, &desc, source->network, out);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

bool cli_is_network(const char *folder)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/network.json", folder);
    return length > 0 && length < (int)sizeof path && access(path, F_OK) == 0;
}
