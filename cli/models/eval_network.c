/* bochner eval of a network: loss and accuracy or error on a table. */
#include "../common/json.h"
#include "network.h"
#include <math.h>

static void print_json(const bo_network *network, const bo_network_evaluation *found)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_text(&json, "loss_kind", bo_network_describe(network).loss);
    cli_json_number(&json, "loss", found->loss);
    if (!isnan(found->accuracy)) cli_json_number(&json, "accuracy", found->accuracy);
    if (!isnan(found->rmse)) cli_json_number(&json, "rmse", found->rmse);
    cli_json_count(&json, "examples", (size_t)found->examples);
    cli_json_number(&json, "seconds", found->seconds);
    cli_json_end(&json);
}

static void print(const bo_network *network, const bo_network_evaluation *found)
{
    printf("Loss        %.5g (%s)\n", found->loss, bo_network_describe(network).loss);
    if (!isnan(found->accuracy))
        printf("Accuracy    %.2f%%\n", 100 * found->accuracy);
    else
        printf("Error       %.5g, root mean square\n", found->rmse);
    printf("Examples    %s in %s\n", cli_count((size_t)found->examples).s, cli_seconds(found->seconds).s);
}

static int evaluate(cli_session *session, const cli_network_use *use, const bo_network *network)
{
    bo_examples *examples;
    bo_network_evaluation found;
    const cli_network_source source = {.path = use->path, .data = &use->data, .network = network};
    if (!cli_network_examples(session, &source, &examples)) return CLI_FAILED;
    const bo_split part = cli_network_part(&use->data);
    const bo_status status = bo_network_evaluate(session->context, network, examples, part, &found);
    cli_progress_clear(&session->progress);
    bo_examples_destroy(examples);
    if (status != BO_OK) return cli_fail_status(session, status);
    (session->common.json ? print_json : print)(network, &found);
    return CLI_DONE;
}

int cli_eval_network(cli_session *session, const cli_network_use *use)
{
    bo_network *network;
    const bo_status status = bo_network_load(session->context, use->folder, &network);
    if (status != BO_OK) return cli_fail_status(session, status);
    const int ended = evaluate(session, use, network);
    bo_network_destroy(network);
    return ended;
}
