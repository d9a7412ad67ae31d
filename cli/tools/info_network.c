/* bochner info: networks. */
#include "info.h"
#include <stdio.h>

/* `profile` may be NULL. */
static void network_json(const char *directory, const bo_model *network, const bo_profile *profile)
{
    const bo_network_info *info = bo_model_report(network)->network;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "directory", directory);
    cli_json_add_text(&json, "folder", directory); /* former key */
    cli_json_add_text(&json, "holds", "network");
    cli_json_add_text(&json, "input", bo_enum_name(BO_ENUM_NETWORK_INPUT, info->input));
    cli_json_add_count(&json, "dim", info->dim);
    cli_json_add_count(&json, "outputs", info->outputs);
    cli_json_add_count(&json, "classes", info->classes);
    cli_json_add_text(&json, "loss", info->loss);
    cli_json_add_flag(&json, "reconstructs", info->reconstructs);
    cli_json_add_count(&json, "parameters", (size_t)info->parameters);
    cli_json_add_number(&json, "width_multiplier", info->width_multiplier);
    cli_json_array(&json, "layers");
    for (size_t i = 0; i < bo_model_report(network)->network->layers; i++) {
        const bo_layer_info *layer = &bo_model_report(network)->network->layer[i];
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "name", layer->name);
        cli_json_add_text(&json, "type", layer->type);
        cli_json_add_text(&json, "shape", layer->shape);
        cli_json_add_count(&json, "weights", (size_t)layer->weights);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    if (profile) cli_profile_json(&json, profile);
    cli_json_end(&json);
}

static void network_print(const char *directory, const bo_model *network, const bo_profile *profile)
{
    const bo_network_info *info = bo_model_report(network)->network;
    printf("%s: a network with %zu layers and %s parameters\n", directory, bo_model_report(network)->network->layers,
           cli_count((size_t)info->parameters).s);
    printf("%-12s%s, %s numbers%s\n", "Input", bo_enum_name(BO_ENUM_NETWORK_INPUT, info->input), cli_count(info->dim).s,
           info->input == BO_NETWORK_INPUT_GRAPH ? " per node" : " per example");
    if (info->classes)
        printf("%-12s%zu classes, loss %s\n", "Output", info->classes, info->loss);
    else
        printf("%-12s%s numbers, loss %s%s\n", "Output", cli_count(info->outputs).s, info->loss,
               info->reconstructs ? "; the target is the input" : "");
    if (info->width_multiplier != 1)
        printf("%-12s%g times the widths of the description\n", "Widths", info->width_multiplier);
    printf("\n  %-24s %-16s %-20s %12s\n", "layer", "type", "output", "parameters");
    for (size_t i = 0; i < bo_model_report(network)->network->layers; i++) {
        const bo_layer_info *layer = &bo_model_report(network)->network->layer[i];
        printf("  %-24s %-16s %-20s %12s\n", layer->name, layer->type, layer->shape,
               layer->weights ? cli_count((size_t)layer->weights).s : "");
    }
    if (profile) cli_profile_print(profile);
}

int cli_info_network(cli_session *session, const char *directory, const cli_profile_options *options)
{
    bo_model *network = NULL;
    bo_profile *profile = NULL;
    const bo_profile_desc desc = cli_profile_desc(options, &session->common);
    bo_status status = bo_model_load(session->context, &(bo_source){.path = directory}, NULL, &network);
    if (status == BO_OK && options->graph) status = bo_model_profile(session->context, network, &desc, &profile);
    int result = status == BO_OK ? CLI_DONE : cli_fail_status(session, status);
    if (profile) result = cli_profile_draw(session, options, profile);
    if (result == CLI_DONE) (session->common.json ? network_json : network_print)(directory, network, profile);
    bo_profile_destroy(profile);
    bo_model_destroy(network);
    return result;
}
