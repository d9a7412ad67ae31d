/* The data of networks, as options and as examples. */
#include "network.h"
#include <string.h>
#include <unistd.h>

const char *cli_part_choice(int index)
{
    return index < BO_SPLIT_COUNT ? bo_split_name((bo_split)index) : NULL;
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

int cli_network_data_check(const char *command, const cli_network_data *o)
{
    if (o->target && o->labels) return cli_wrong_use(command, "give --target or --labels, not both");
    if ((o->undirected || o->self_loops) && !o->graph)
        return cli_wrong_use(command, "--undirected and --self-loops need --graph FILE");
    return CLI_DONE;
}

/* The first option of networks that was given; NULL: none. */
static const char *given(const cli_network_use *use)
{
    cli_network_data now = use->data, none = {0};
    cli_option options[CLI_NETWORK_DATA], others[CLI_NETWORK_DATA];
    const size_t count = cli_network_data_table(&now, options);
    cli_network_data_table(&none, others);
    for (size_t i = 0; i < count; i++)
        if (cli_option_differs(&options[i], &others[i])) return options[i].name;
    return use->part < 0 ? NULL : "part";
}

int cli_network_use_check(const char *command, const cli_network_use *use, const char *other)
{
    const bool network = cli_is_network(use->folder);
    if (network && other)
        return cli_wrong_use(command, "--%s is no option of networks, and %s holds one", other, use->folder);
    if (!network && given(use))
        return cli_wrong_use(command, "--%s is an option of networks, and %s holds none", given(use), use->folder);
    if (use->part >= 0 && !use->data.split)
        return cli_wrong_use(command, "--part needs --split FILE, which says what part each row is in");
    return cli_network_data_check(command, &use->data);
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

static bool holds(const char *folder, const char *name)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && length < (int)sizeof path && access(path, F_OK) == 0;
}

bool cli_is_network(const char *folder)
{
    return holds(folder, "network.json");
}

bool cli_is_no_network(cli_session *session, const char *folder)
{
    if (!cli_is_network(folder)) return true;
    cli_fail(session, "%s holds a network (bochner eval, predict and info take it), not a language model", folder);
    return false;
}

bool cli_is_model(const char *folder)
{
    return holds(folder, "config.json") || holds(folder, "adapter_config.json");
}
