/* bochner train --readout ridge: a network whose last layer is solved for, and nothing else is trained. */
#include "train.h"
#include <math.h>

static void print_json(const cli_train_job *job, const bo_network_evaluation *found, double seconds)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_text(&json, "out", job->options->out);
    cli_json_count(&json, "parameters", (size_t)bo_network_describe(job->network).parameters);
    cli_json_number(&json, "lambda", job->options->network.lambda);
    if (job->held_out) {
        cli_json_number(&json, "valid_loss", found->loss);
        if (!isnan(found->accuracy)) cli_json_number(&json, "valid_accuracy", found->accuracy);
        if (!isnan(found->rmse)) cli_json_number(&json, "valid_rmse", found->rmse);
    }
    cli_json_number(&json, "seconds", seconds);
    cli_json_end(&json);
}

static void print(const cli_train_job *job, const bo_network_evaluation *found, double seconds)
{
    printf("Solved      the last layer, in %s\n", cli_seconds(seconds).s);
    if (job->held_out && !isnan(found->accuracy)) printf("Test        %.2f%% right\n", 100 * found->accuracy);
    if (job->held_out && !isnan(found->rmse)) printf("Test        rmse %.5g\n", found->rmse);
    printf("Network     %s\n", job->options->out);
}

int cli_train_readout(cli_train_job *job)
{
    bo_context *context = job->session->context;
    bo_network_evaluation found = {0};
    const double start = cli_now();
    bo_status status = bo_network_solve(context, job->network, job->examples, job->options->network.lambda);
    const double seconds = cli_now() - start;
    if (status == BO_OK && job->held_out)
        status = bo_network_evaluate(context, job->network, job->held_out, BO_SPLIT_VALID, &found);
    if (status == BO_OK) status = bo_network_save(context, job->network, job->options->out);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? print_json : print)(job, &found, seconds);
    return CLI_DONE;
}
