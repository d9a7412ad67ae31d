/* bochner train: the common steps of all kinds of training. */
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first kind selected by the options; the last kind accepts all options. */
static const cli_train_kind *const kinds[] = {&cli_train_readout, &cli_train_network, &cli_train_texts,
                                              &cli_train_language};

const cli_train_kind *cli_train_kind_of(const cli_train_options *options)
{
    size_t i = 0;
    while (i + 1 < CLI_COUNT_OF(kinds) && !kinds[i]->is_requested(options)) i++;
    return kinds[i];
}

int cli_train_check_kind(const cli_train_args *args)
{
    int status = cli_train_kind_of(&args->options)->check(args);
    for (size_t i = 0; i < CLI_COUNT_OF(kinds) && status == CLI_DONE; i++)
        if (kinds[i]->check_absent && !kinds[i]->is_requested(&args->options))
            status = kinds[i]->check_absent(&args->options);
    return status;
}

cli_train_job cli_train_job_of(cli_session *session, const cli_train_args *args)
{
    const cli_train_options *o = &args->options;
    return (cli_train_job){.session = session,
                           .args = args,
                           .options = o,
                           .kind = cli_train_kind_of(o),
                           .weights = o->lora.rank ? &cli_train_adapters : &cli_train_new_model};
}

bool cli_train_ok(cli_train_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static bo_optimizer_desc optimizer(const cli_train_options *o)
{
    return (bo_optimizer_desc){.kind = o->optim,
                               .rate = o->lr,
                               .other_rate = o->other_lr,
                               .decay = o->decay,
                               .momentum = o->momentum,
                               .factor = o->muon_factor,
                               .iteration = o->muon_iteration,
                               .clip = o->clip,
                               .average = o->average};
}

void cli_train_describe_run(cli_train_job *job)
{
    const cli_train_options *o = job->options;
    const bool length = o->steps || o->minutes > 0 || job->resumed;
    job->ranks = cli_ranks_collective(&job->session->ranks);
    job->desc = (bo_trainer_desc){
        .directory = o->out,
        .resume = o->resume,
        .optimizer = optimizer(o),
        .schedule = {.kind = o->schedule,
                     .warmup = CLI_GIVEN(o, warmup) && o->warmup == 0 ? UINT64_MAX : o->warmup,
                     .floor = o->floor},
        .batch = o->batch,
        .micro_batch = o->micro_batch,
        .steps = o->steps,
        .minutes = length ? o->minutes : 5,
        .eval_every = o->eval_every,
        .eval_tokens = CLI_GIVEN(o, eval_tokens) ? o->eval_tokens : job->kind->test_tokens,
        .checkpoint_every = o->checkpoint_every,
        .keep = o->keep,
        .patience = o->patience,
        .checkpointing = o->checkpointing,
        .activations = o->activations,
        .documents = o->documents,
        .stateful = o->stateful,
        .whiten = o->attention.whiten,
        .state_windows = o->state_windows,
        .freeze = o->freeze,
        .seed = job->session->common.seed,
        .calibrate_every = o->calibrate_every,
        .redraw_every = o->redraw,
        .ranks = job->ranks.size > 1 ? &job->ranks : NULL,
        .report = cli_train_progress,
        .user = job,
    };
    job->kind->describe(job);
}

void cli_train_close(cli_train_job *job)
{
    bo_trainer_destroy(job->trainer);
    bo_model_destroy(job->model);
    bo_model_destroy(job->init);
    bo_model_desc_release(&job->described);
    free(job->encoder_blocks);
    if (job->held_out != job->examples) bo_examples_destroy(job->held_out);
    bo_examples_destroy(job->examples);
    bo_texts_close(job->held_out_texts);
    bo_texts_close(job->texts);
    bo_corpus_close(job->valid);
    bo_corpus_close(job->train);
    bo_tokenizer_destroy(job->tokenizer);
}

/* ---- the steps --------------------------------------------------------------------------------------------------- */

void cli_train_suggest_next(const cli_train_job *job)
{
    char best[4096];
    snprintf(best, sizeof best, "%s/best", job->options->out);
    char *directory = cli_shell_quoted(access(best, F_OK) == 0 ? best : job->options->out);
    job->kind->suggest_next(job, directory);
    free(directory);
}

/* Stopped by a signal: the trainer wrote a checkpoint after the first step. */
static int stopped(cli_train_job *job)
{
    const bo_training_report *report = job->trainer ? bo_trainer_report(job->trainer) : NULL;
    if (!report || report->step == 0) {
        cli_warn(job->session, "stopped before the first step; no checkpoint was written");
    } else {
        char *directory = cli_shell_quoted(job->options->out);
        cli_warn(job->session,
                 "stopped after step %llu; a checkpoint was written. To resume: bochner train --resume --out %s",
                 (unsigned long long)report->step, directory);
        free(directory);
    }
    return CLI_INTERRUPTED;
}

static int failed(cli_train_job *job, bo_status status)
{
    return status == BO_CANCELED ? stopped(job) : cli_fail_status(job->session, status);
}

/* A resumed run may already be complete; its report then has no estimate of the remaining time. */
static void report_if_complete(const cli_train_job *job)
{
    const bo_training_report *report = bo_trainer_report(job->trainer);
    if (!job->resumed || !isnan(report->seconds_left)) return;
    char *directory = cli_shell_quoted(job->options->out);
    cli_note(job->session,
             "Complete    the run has already completed all %s steps; to train longer, start a new run: "
             "bochner train --init %s --data FILE --out DIR",
             cli_count((size_t)report->steps).s, directory);
    free(directory);
}

static int run(cli_train_job *job)
{
    cli_session *session = job->session;
    const cli_train_kind *kind = job->kind;
    const bool first = session->ranks.rank == 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", job->options->out, job->weights->file);
    job->resumed = job->options->resume && access(path, F_OK) == 0;
    if (job->options->plot && first && !cli_can_write(session, job->options->plot)) return CLI_FAILED;
    if (!kind->open(job)) return CLI_FAILED;
    if (kind->solve) return kind->solve(job);
    cli_train_describe_run(job);
    if (!cli_train_plan(job)) return CLI_FAILED;
    bo_status status = bo_trainer_create(session->context, &job->desc, &job->trainer);
    if (status != BO_OK) return failed(job, status);
    if (job->weights->write_files && !job->weights->write_files(job)) return CLI_FAILED;
    if (first && !job->resumed && !cli_train_save_options(session, job->args)) return CLI_FAILED;
    session->progress.only = "training";
    cli_signals_saving(); /* before this, there is nothing to save */
    status = bo_trainer_run(session->context, job->trainer);
    cli_progress_clear(&session->progress);
    if (status != BO_OK) return failed(job, status);
    if (!first) return CLI_DONE;
    report_if_complete(job);
    (session->common.json ? kind->json : kind->print)(job);
    const int plotted = job->options->plot ? cli_train_plot(job) : CLI_DONE;
    cli_train_suggest_next(job);
    return plotted;
}

static int train(const cli_train_args *args)
{
    const int status = cli_train_check(args);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open_in(&session, "train", &args->common, true, CLI_COMPUTE(&args->options))) return CLI_FAILED;
    cli_signals_between_steps(session.ranks.size > 1);
    cli_train_job job = cli_train_job_of(&session, args);
    const int ended = run(&job);
    cli_train_close(&job);
    cli_session_close(&session);
    return ended;
}

int cli_train(int argc, char **argv)
{
    cli_train_args args = {0};
    const cli_parsed parsed = cli_train_parse(argc, argv, &args);
    const int status = parsed == CLI_PARSED       ? train(&args)
                       : parsed == CLI_HELP_SHOWN ? CLI_DONE
                       : parsed == CLI_UNREADABLE ? CLI_FAILED
                                                  : CLI_USAGE_ERROR;
    cli_train_args_free(&args);
    return status;
}
