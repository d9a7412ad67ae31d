/* bochner train for language models. */
#include "../text/corpora.h"
#include "../text/text_tasks.h"
#include "train.h"
#include <math.h>
#include <string.h>

/* ---- options and data -------------------------------------------------------------------------------------------- */

static bool is_requested(const cli_train_options *o)
{
    (void)o;
    return true;
}

static int check(const cli_train_args *args)
{
    return cli_train_check_text(&args->options, &cli_train_language);
}

static const char *attention(const cli_train_options *o)
{
    (void)o;
    return "rfa-gate";
}

static bool learn_tokenizer(cli_train_job *job, const char *const *paths, size_t count, const bo_tokenizer_desc *desc)
{
    return cli_train_ok(job, bo_tokenizer_train(job->session->context, desc, paths, count, &job->tokenizer));
}

static bool accepts(const cli_train_job *job, const bo_model *init)
{
    const bo_model_task task = bo_model_describe(init)->task;
    if (task == BO_MODEL_TASK_LANGUAGE) return true;
    cli_fail(job->session, "--init: %s holds %s, expected a language model; give --task %s", job->options->init,
             cli_task_phrase(task), bo_enum_name(BO_ENUM_MODEL_TASK, task));
    return false;
}

static bool open_files(cli_train_job *job, const char *const *paths, size_t count)
{
    const cli_train_options *o = job->options;
    const cli_corpora files = {.paths = paths,
                               .count = count,
                               .valid = o->valid,
                               .valid_fraction = o->valid_fraction,
                               .field = o->field,
                               .separator = o->separator,
                               .tokenizer = job->tokenizer};
    return cli_train_ok(job, cli_corpora_open(job->session->context, &files, &job->train, &job->valid));
}

static void describe(cli_train_job *job)
{
    job->desc.model = job->model;
    job->desc.train.corpus = job->train;
    job->desc.valid.corpus = job->valid;
    job->desc.window = cli_train_window(job);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void report_text(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    char files[CLI_TRAIN_FILES], test[96] = "";
    if (job->valid)
        snprintf(test, sizeof test, ", %s for validation%s", cli_count(bo_corpus_tokens(job->valid)).s,
                 o->valid ? "" : " (the end of the text)");
    cli_note(job->session, "Text        %s: %s tokens for training%s; %s", cli_train_files(job, files),
             cli_count(bo_corpus_tokens(job->train)).s, test,
             bo_tokenizer_describe(job->tokenizer)->bytes ? "one token per byte" : "byte-pair tokenizer");
}

static void report_run(const cli_train_job *job)
{
    const bo_trainer_desc *r = &job->desc;
    const size_t batch = r->batch ? r->batch : 16, windows = r->state_windows > 1 ? r->state_windows : 1,
                 window = r->window ? r->window : bo_model_describe(job->model)->context, context = window * windows;
    char length[256] = "the steps left in the run", about[CLI_TRAIN_ABOUT];
    if (r->steps) {
        const double tokens = (double)r->steps * (double)(batch * context);
        snprintf(length, sizeof length, "%s steps, %s tokens (%s epochs)%s", cli_count(r->steps).s,
                 cli_count((size_t)tokens).s, cli_significant(tokens / (double)bo_corpus_tokens(job->train), 2).s,
                 cli_train_about(job, about));
    } else if (r->minutes > 0) {
        snprintf(length, sizeof length, "%s", cli_seconds(60 * r->minutes).s);
    }
    cli_note(job->session, "Plan        %s; %zu x %s tokens per step%s%s; %s", length, batch, cli_count(context).s,
             job->plan.micro_batch < batch ? " in several parts" : "", r->stateful ? ", states carried" : "",
             bo_enum_name(BO_ENUM_OPTIMIZER_KIND, r->optimizer.kind));
}

static void report_plan(const cli_train_job *job)
{
    report_text(job);
    cli_train_report_model(job);
    report_run(job);
    cli_train_report_memory(job);
}

static void format_loss(const cli_train_job *job, const bo_training_report *r, char out[CLI_TRAIN_LOSS])
{
    int length = snprintf(out, CLI_TRAIN_LOSS, "loss %.3f", r->loss);
    if (isnan(r->valid_loss)) return;
    length += snprintf(out + length, CLI_TRAIN_LOSS - (size_t)length, "  valid %.3f", r->valid_loss);
    if (bo_tokenizer_describe(job->tokenizer)->bytes)
        snprintf(out + length, CLI_TRAIN_LOSS - (size_t)length, " (%.3f bits per byte)", r->valid_metric);
}

static void print(const cli_train_job *job)
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    printf("Trained     %s steps, %s tokens, in %s%s\n", cli_count(r->step).s, cli_count(r->tokens).s,
           cli_seconds(r->seconds).s,
           r->stopped_early ? "; stopped early: the validation loss no longer improved" : "");
    if (!isnan(r->valid_loss))
        printf("Validation  %.4f nats per token, %.4f bits per byte; best %.4f nats per token\n", r->valid_loss,
               r->valid_metric, r->best_valid_loss);
    cli_train_print_directory(job, "Model");
}

static void suggest_next(const cli_train_job *job, const char *directory)
{
    cli_suggest_next(job->session, "bochner generate %s --prompt 'The '", directory);
}

static void json(const cli_train_job *job)
{
    cli_train_model_json(job, NULL);
}

static const char *plot_labels(const cli_train_job *job, char title[CLI_TRAIN_TITLE])
{
    cli_train_model_title(job->model, title);
    return "nats per token";
}

const cli_train_kind cli_train_language = {
    .unit = "tokens",
    .test_tokens = 32768,
    .is_requested = is_requested,
    .check = check,
    .attention = attention,
    .open = cli_train_open_model,
    .describe = describe,
    .report_plan = report_plan,
    .format_loss = format_loss,
    .print = print,
    .suggest_next = suggest_next,
    .json = json,
    .plot_labels = plot_labels,
    .learn_tokenizer = learn_tokenizer,
    .open_files = open_files,
    .accepts = accepts,
};
