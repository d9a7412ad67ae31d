/* What `bochner info` says of a network: its layers, what they give and how much they hold. */
#include "../common/json.h"
#include "network.h"

static void print_json(const char *folder, const bo_network *network)
{
    const bo_network_info info = bo_network_describe(network);
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_text(&json, "folder", folder);
    cli_json_text(&json, "holds", "network");
    cli_json_text(&json, "input", bo_network_input_name(info.input));
    cli_json_count(&json, "dim", info.dim);
    cli_json_count(&json, "outputs", info.outputs);
    cli_json_count(&json, "classes", info.classes);
    cli_json_text(&json, "loss", info.loss);
    cli_json_flag(&json, "reconstructs", info.reconstructs);
    cli_json_count(&json, "parameters", (size_t)info.parameters);
    cli_json_number(&json, "width_multiplier", info.width_multiplier);
    cli_json_array(&json, "layers");
    for (size_t i = 0; i < info.layers; i++) {
        const bo_layer_info layer = bo_network_layer(network, i);
        cli_json_object(&json, NULL);
        cli_json_text(&json, "name", layer.name);
        cli_json_text(&json, "type", layer.type);
        cli_json_text(&json, "shape", layer.shape);
        cli_json_count(&json, "weights", (size_t)layer.weights);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_end(&json);
}

static void print(const char *folder, const bo_network *network)
{
    const bo_network_info info = bo_network_describe(network);
    printf("%s: a network of %zu layers, %s parameters\n", folder, info.layers, cli_count((size_t)info.parameters).s);
    printf("%-12s%s, %s numbers%s\n", "Input", bo_network_input_name(info.input), cli_count(info.dim).s,
           info.input == BO_NETWORK_GRAPH ? " a node" : " an example");
    if (info.classes)
        printf("%-12s%zu classes, loss %s\n", "Output", info.classes, info.loss);
    else
        printf("%-12s%s numbers, loss %s%s\n", "Output", cli_count(info.outputs).s, info.loss,
               info.reconstructs ? " from the input itself" : "");
    if (info.width_multiplier != 1) printf("%-12s%g times the description's\n", "Widths", info.width_multiplier);
    printf("\n  %-24s %-16s %-20s %12s\n", "layer", "type", "gives", "numbers");
    for (size_t i = 0; i < info.layers; i++) {
        const bo_layer_info layer = bo_network_layer(network, i);
        printf("  %-24s %-16s %-20s %12s\n", layer.name, layer.type, layer.shape,
               layer.weights ? cli_count((size_t)layer.weights).s : "");
    }
}

int cli_info_network(cli_session *session, const char *folder)
{
    bo_network *network;
    const bo_status status = bo_network_load(session->context, folder, &network);
    if (status != BO_OK) return cli_fail_status(session, status);
    (session->common.json ? print_json : print)(folder, network);
    bo_network_destroy(network);
    return CLI_DONE;
}
