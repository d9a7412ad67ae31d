/* Networks on the command line: their data, and what other commands do with the folder of one. */
#ifndef CLI_MODELS_NETWORK_H
#define CLI_MODELS_NETWORK_H

#include "../common/cli.h"

/* Where examples come from, beside the file itself. */
typedef struct cli_network_data {
    cli_given was_given;
    const char *labels, *target, *categorical, *graph, *split;
    bool undirected, self_loops;
    bo_impute impute;
    bo_split part; /* of the split */
} cli_network_data;

extern const cli_option cli_network_column_rows[], cli_network_graph_rows[], cli_network_part_rows[];
bo_split cli_network_part(const cli_network_data *data);                       /* all where none was given */
int cli_network_data_check(const char *command, const cli_network_data *data); /* Do they go together? */

/* What to read: the file, how it is told apart, and the network it is for (NULL: `needs` says what it is to be). */
typedef struct cli_network_source {
    const char *path, *labels; /* labels NULL: those of `data` */
    const cli_network_data *data;
    const bo_network *network;
    const bo_network_needs *needs;
    double valid;
} cli_network_source;
/* False after saying what is wrong. */
bool cli_network_examples(cli_session *session, const cli_network_source *source, bo_examples **out);

bool cli_is_network(const char *folder); /* Does it hold a network? */
/* False after saying that it does, where a language model is wanted. */
bool cli_is_no_network(cli_session *session, const char *folder);

typedef struct cli_network_use {
    cli_network_data data;
    const char *folder, *path, *out; /* out NULL: standard output */
    bool proba;
} cli_network_use;
/* Does what was given fit what the folder holds? `other`: an option given that networks do not have; NULL: none. */
int cli_network_use_check(const char *command, const cli_network_use *use, const char *other);
int cli_predict_network(cli_session *session, const cli_network_use *use);

#endif
