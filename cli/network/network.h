/* Networks on the command line: options of their data, and commands that read a network directory. */
#ifndef CLI_NETWORK_H
#define CLI_NETWORK_H

#include "../common/cli.h"

/* Options of examples. */
typedef struct cli_network_data {
    cli_given was_given;
    const char *labels, *target, *categorical, *graph, *split;
    bool undirected, self_loops;
    bo_impute impute;
    bo_split part;
} cli_network_data;

extern const cli_option cli_network_column_rows[], cli_network_graph_rows[], cli_network_part_rows[];
bo_split cli_network_part(const cli_network_data *data); /* all rows if --part was not given */
int cli_network_data_check(const char *command,
                           const cli_network_data *data); /* checks that the options are consistent */

/* The file, its options, and the network (NULL for a new network: then `needs` describes the data). */
typedef struct cli_network_source {
    const char *path, *labels; /* labels NULL: data->labels */
    const cli_network_data *data;
    const bo_model *network;
    const bo_description_needs *needs;
    double valid;
} cli_network_source;
/* False after an error message. */
bool cli_network_examples(cli_session *session, const cli_network_source *source, bo_examples **out);

bool cli_is_network(const char *path); /* true if the directory, or the file, contains a network */
/* False after an error message: the directory contains a network, but a text model is expected. */
bool cli_is_no_network(cli_session *session, const char *directory);

typedef struct cli_network_use {
    cli_network_data data;
    const char *directory, *path, *out; /* out NULL: standard output */
    bool proba;
} cli_network_use;
/* Checks the options against the content of the directory. `other`: a given option that does not apply to networks, or
 * NULL. */
int cli_network_use_check(const char *command, const cli_network_use *use, const char *other);
int cli_predict_network(cli_session *session, const cli_network_use *use);

#endif
