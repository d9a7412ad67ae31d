/* bochner plan: chooses a model for a training budget, and predicts its time, memory and loss. */
#include "plan.h"
#include "../attention/attention.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *attention_name(const cli_plan_options *o)
{
    return cli_attention_kind_choice(o->attention);
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

/* A calibration for another attention or another host would give wrong predictions. */
static bool is_measured_here(cli_plan_job *job)
{
    const bo_plan_host *m = job->machine;
    const char *path = job->options->calibration, *attention = m->timings[0].shape.attention;
    bo_context *context = job->session->context;
    const int threads = bo_context_describe(context)->threads;
    if (strcmp(attention, attention_name(job->options)) != 0)
        cli_fail(job->session,
                 "%s: measured with --attention %s, expected %s; give another --calibration FILE to measure again",
                 path, attention, attention_name(job->options));
    else if (m->threads != threads || strcmp(m->isa, bo_context_describe(context)->isa) != 0)
        cli_fail(job->session,
                 "%s: measured with %d threads and %s, expected %d threads and %s; give another --calibration FILE to "
                 "measure again",
                 path, m->threads, m->isa, threads, bo_context_describe(context)->isa);
    else
        return true;
    return false;
}

static bool ok(cli_plan_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

static bool open_machine(cli_plan_job *job)
{
    const cli_plan_options *o = job->options;
    bo_context *context = job->session->context;
    const bo_plan_calibration desc = {.attention = attention_name(o), .quick = o->quick};
    if (o->calibration && access(o->calibration, F_OK) == 0)
        return ok(job, bo_plan_host_load(context, o->calibration, &job->machine)) && is_measured_here(job);
    if (o->calibration && !cli_can_write(job->session, o->calibration)) return false;
    job->measured = true;
    if (!ok(job, bo_plan_host_calibrate(context, &desc, &job->machine))) return false;
    return !o->calibration || ok(job, cli_record_output(job->session, o->calibration,
                                                        bo_plan_host_save(context, job->machine, o->calibration)));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int run(cli_plan_job *job)
{
    const cli_plan_options *o = job->options;
    const bo_plan_budget budget = {.parameters = o->parameters,
                                   .minutes = o->minutes,
                                   .tokens = o->tokens,
                                   .context = o->context,
                                   .features = o->features,
                                   .memory = o->memory};
    bo_context *context = job->session->context;
    if (!open_machine(job) || !ok(job, bo_plan_losses_fit(context, NULL, 0, &job->losses)) ||
        !ok(job, bo_plan_create(context, &(bo_plan_basis){.host = job->machine, .losses = job->losses}, &budget,
                                &job->plan)))
        return CLI_FAILED;
    cli_progress_clear(&job->session->progress);
    (job->session->common.json ? cli_plan_json : cli_plan_print)(job);
    return CLI_DONE;
}

/* Options that fitted laws read from the runs. */
static int plan_fitted(const cli_plan_options *o, const cli_common *common, const cli_arguments *runs)
{
    if (o->fit && !runs->count) return cli_usage_error("plan", "--fit: no runs; give directories of bochner train");
    if (!o->fit && runs->count) return cli_usage_error("plan", "found '%s'; runs need --fit", runs->items[0]);
    if (runs->count + o->holdout.count > CLI_LIST_CAPACITY)
        return cli_usage_error("plan", "expected at most %d runs, found %zu", CLI_LIST_CAPACITY,
                               runs->count + o->holdout.count);
    if (!o->fit && (o->holdout.count || o->loss_only))
        return cli_usage_error("plan", "--holdout and --loss-only need --fit RUN...");
    if (CLI_GIVEN(o, attention) || o->context || o->features || o->calibration || o->quick || o->data)
        return cli_usage_error("plan",
                               "--fit and --law take context, attention, features, times and data from the runs");
    if (!o->fit && !(o->parameters > 0 || o->minutes > 0 || o->tokens > 0))
        return cli_usage_error("plan", "no budget; give --minutes M, or --params N and --tokens T");
    cli_session session;
    if (!cli_session_open(&session, "plan", common, false)) return CLI_FAILED;
    const int status = cli_plan_fitted(&session, o, runs);
    cli_session_close(&session);
    return status;
}

static int plan(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_plan_options *o = options;
    if (o->fit || o->law) return plan_fitted(o, common, arguments);
    if (arguments->count)
        return cli_usage_error("plan", "expected options only, found '%s'; runs need --fit", arguments->items[0]);
    if (o->holdout.count || o->loss_only) return cli_usage_error("plan", "--holdout and --loss-only need --fit RUN...");
    if (!(o->parameters > 0 || o->minutes > 0 || o->tokens > 0))
        return cli_usage_error("plan", "no budget; give --params N, --minutes M or --tokens T");
    if (o->minutes > 0 && o->tokens > 0) return cli_usage_error("plan", "give --minutes or --tokens, not both");
    cli_session session;
    if (!cli_session_open(&session, "plan", common, false)) return CLI_FAILED;
    cli_plan_job *job = cli_allocate(1, sizeof *job, "a plan");
    *job = (cli_plan_job){.session = &session, .options = o};
    const int status = run(job);
    bo_plan_destroy(job->plan);
    bo_plan_losses_destroy(job->losses);
    bo_plan_host_destroy(job->machine);
    free(job);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Budget"),
    REAL("minutes", "M", cli_plan_options, minutes, "training time", .low = 1e-3, .high = 1e7),
    REAL("tokens", "T", cli_plan_options, tokens, "number of training tokens, instead of --minutes", .low = 1,
         .high = 1e15),
    REAL("params", "N", cli_plan_options, parameters,
         "number of parameters, within 10%; alone, or with --minutes or --tokens", .low = 1, .high = 1e15),
    BYTES("memory", "BYTES", cli_plan_options, memory, "maximum memory of training",
          .default_text = "3/4 of the memory of the host", .low = 1),
    SECTION("Model"),
    COUNT("context", "N", cli_plan_options, context, "tokens per sequence", .low = 1, .high = 1 << 20,
          .default_text = "256"),
    CHOICE_OF("attention", "KIND", cli_plan_options, attention, cli_attention_kind_choice, "attention in each layer",
              .find = cli_attention_preset, .initial = "rfa-gate"),
    COUNT("features", "D", cli_plan_options, features, "features of the attention", .low = 1, .high = 1 << 16,
          .default_text = "128"),
    SECTION("Calibration"),
    TEXT("calibration", "FILE", cli_plan_options, calibration,
         "file with measurements of this host; read if it exists, otherwise written"),
    FLAG("quick", cli_plan_options, quick, "measure fewer and smaller models: takes seconds instead of a minute"),
    SECTION("Scaling laws fitted to your runs"),
    FLAG("fit", cli_plan_options, fit,
         "fit a loss law and a time law to the runs in the arguments, directories of bochner train"),
    TEXT("law", "FILE", cli_plan_options, law, "with --fit, write the laws to this file; otherwise plan with its laws"),
    LIST("holdout", "RUN", cli_plan_options, holdout,
         "with --fit, exclude this run from the fit, predict it and compare; may be given several times"),
    FLAG("loss-only", cli_plan_options, loss_only,
         "with --fit, ignore times, so that runs of several hosts can be fitted"),
    SECTION("Command"),
    TEXT("data", "FILE", cli_plan_options, data, "text in the printed command", .default_text = "text.txt"),
    TEXT("out", "DIR", cli_plan_options, out, "directory of the run in the printed command", .default_text = "model"),
    END_OF_OPTIONS,
};

const cli_usage cli_plan_usage = {
    .command = "plan",
    .synopsis = "--minutes M | --tokens T | --params N [--context N] [--memory BYTES]\n"
                "--fit RUN... [--law FILE] [--holdout RUN] [--minutes M]\n"
                "--law FILE --minutes M",
    .about = "Chooses the model size for a training budget. It times a dozen small models on this host, fits the cost "
             "per layer, per copied value and per operation, and predicts steps, tokens, loss and memory for models "
             "of many shapes. It prints the best model, some alternatives, and the training command. Losses are "
             "for English text with one token per byte. With --fit, the laws are fitted to your runs, with any "
             "attention, mixer, MLP, tokenizer and text.",
    .examples = "  bochner plan --minutes 10 --quick --calibration host.json\n"
                "  bochner plan --params 1e6 --calibration host.json\n"
                "  bochner plan --tokens 2e7 --memory 2G --calibration host.json --json\n"
                "  bochner plan --fit runs/* --law law.json\n"
                "  bochner plan --law law.json --minutes 10 --out story\n",
    .groups = {{rows, 0}},
    .short_help = {"minutes", "tokens", "params", "memory", "context", "attention", "calibration", "quick", "fit",
                   "law", "holdout", "data", "out", "json"},
};

int cli_plan(int argc, char **argv)
{
    cli_plan_options o = {0};
    return cli_command(&cli_plan_usage, argc, argv, &o, plan);
}
