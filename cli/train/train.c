/* bochner train: text in, a language model out. */
#include "train.h"
#include <stdlib.h>
#include <string.h>

/* Stopped on request: a checkpoint was written, where there was a step to keep. */
static int stopped(cli_train_job *job)
{
    const bo_training_report *report = job->trainer ? bo_trainer_report(job->trainer) : NULL;
    if (!report || report->step == 0) {
        cli_warn(job->session, "stopped on request before the first step; nothing was kept");
    } else {
        cli_warn(job->session,
                 "stopped on request after step %llu, which is kept; bochner train --resume --out %s goes on",
                 (unsigned long long)report->step, job->options->out);
    }
    return CLI_INTERRUPTED;
}

static int failed(cli_train_job *job, bo_status status)
{
    return status == BO_CANCELED ? stopped(job) : cli_fail_status(job->session, status);
}

static int run(cli_train_job *job)
{
    cli_session *session = job->session;
    const bool first = session->ranks.rank == 0;
    if (job->options->plot && first && !cli_can_write(session, job->options->plot)) return CLI_FAILED;
    if (!cli_train_open(job)) return cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
    if (job->network && job->options->network.readout) return cli_train_readout(job);
    if (!cli_train_plan(job)) return cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
    bo_status status = bo_trainer_create(session->context, &job->desc, &job->trainer);
    if (status != BO_OK) return failed(job, status);
    if (first && !job->resumed && !cli_train_keep(session, job->words)) return CLI_FAILED;
    session->progress.only = "training";
    status = bo_trainer_run(session->context, job->trainer);
    cli_progress_clear(&session->progress);
    if (status != BO_OK) return failed(job, status);
    if (!first) return CLI_DONE;
    if (session->common.json)
        (job->network ? cli_train_network_json : cli_train_json)(job);
    else
        (job->network ? cli_train_network_print : cli_train_print)(job);
    return job->options->plot ? cli_train_plot(job) : CLI_DONE;
}

static int train(const cli_train_words *words)
{
    const int status = cli_train_check(words);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open(&session, "train", &words->common, true)) return CLI_FAILED;
    cli_stop_between_steps(&session);
    cli_train_job job = {.session = &session, .words = words, .options = &words->options};
    const int ended = run(&job);
    cli_train_close(&job);
    cli_session_close(&session);
    return ended;
}

int cli_train(int argc, char **argv)
{
    cli_train_words words = {0};
    const cli_parsed parsed = cli_train_parse(argc, argv, &words);
    const int status = parsed == CLI_PARSED ? train(&words) : parsed == CLI_HELP_SHOWN ? CLI_DONE : CLI_WRONG_USE;
    cli_train_forget(&words);
    return status;
}
