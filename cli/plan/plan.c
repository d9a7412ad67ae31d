/* bochner plan: the model to train for a budget, with what it will take and come to. */
#include "plan.h"
#include "../attention/attention.h"
#include "../common/rows.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *attention_name(const cli_plan_options *o)
{
    return o->attention < 0 ? "rfa-gate" : cli_attention_kind_choice(o->attention);
}

/* ---- the machine --------------------------------------------------------------------------------------------------------- */

/* A file of other circumstances would predict them. */
static bool is_of_here(cli_plan_job *job)
{
    const bo_plan_machine *m = &job->machine;
    const char *path = job->options->calibration, *attention = m->timings[0].shape.attention;
    bo_context *context = job->session->context;
    const int threads = bo_context_threads(context);
    if (strcmp(attention, attention_name(job->options)) != 0)
        cli_fail(job->session, "%s: measured with --attention %s, not %s; another --calibration FILE measures anew",
                 path, attention, attention_name(job->options));
    else if (m->threads != threads || strcmp(m->isa, bo_context_isa(context)) != 0)
        cli_fail(job->session,
                 "%s: measured with %d threads and %s, not %d and %s; another --calibration FILE measures anew", path,
                 m->threads, m->isa, threads, bo_context_isa(context));
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
    struct stat info;
    const bool there = o->calibration && stat(o->calibration, &info) == 0;
    if (there && !S_ISREG(info.st_mode))
        return cli_fail(job->session, "--calibration %s: it is no file", o->calibration), false;
    if (there) return ok(job, bo_plan_machine_read(context, o->calibration, &job->machine)) && is_of_here(job);
    if (o->calibration && !cli_can_write(job->session, o->calibration)) return false;
    job->measured = true;
    if (!ok(job, bo_plan_calibrate(context, &desc, &job->machine))) return false;
    return !o->calibration || ok(job, bo_plan_machine_write(context, &job->machine, o->calibration));
}

/* ---- the command ---------------------------------------------------------------------------------------------------------- */

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
    if (!open_machine(job) || !ok(job, bo_plan_losses_usual(context, &job->losses)) ||
        !ok(job, bo_plan_propose(context, &job->machine, &job->losses, &budget, &job->plan)))
        return cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
    cli_progress_clear(&job->session->progress);
    (job->session->common.json ? cli_plan_json : cli_plan_print)(job);
    return CLI_DONE;
}

static int plan(const cli_plan_options *o, const cli_common *common, const cli_arguments *arguments)
{
    if (arguments->count) return cli_wrong_use("plan", "expected options only, found '%s'", arguments->items[0]);
    if (!(o->parameters > 0 || o->minutes > 0 || o->tokens > 0))
        return cli_wrong_use("plan", "no budget; give --params N, --minutes M or --tokens T");
    if (o->minutes > 0 && o->tokens > 0) return cli_wrong_use("plan", "--minutes or --tokens, not both");
    cli_session session;
    if (!cli_session_open(&session, "plan", common, false)) return CLI_FAILED;
    cli_plan_job *job = cli_allocate(1, sizeof *job, "a plan");
    *job = (cli_plan_job){.session = &session, .options = o};
    const int status = run(job);
    free(job);
    cli_session_close(&session);
    return status;
}

int cli_plan(int argc, char **argv)
{
    cli_plan_options o = {.attention = -1};
    const cli_option options[] = {
        SECTION("Budget"),
        REAL("minutes", "M", "of training", &o.minutes, 1e-3, 1e7),
        REAL("tokens", "T", "to learn from, in place of minutes", &o.tokens, 1, 1e15),
        REAL("params", "N", "parameters, within a tenth; alone, or with one of the others", &o.parameters, 1, 1e15),
        {CLI_BYTES, "memory", "BYTES", "most that training may take; 3/4 of the machine's unless given", &o.memory,
         NULL, 0, 0},
        SECTION("Model"),
        COUNT("context", "N", "tokens of a sequence; 256 unless given", &o.context, 1, 1 << 20),
        CHOICE("attention", "KIND", "rfa-gate unless given", &o.attention, cli_attention_kind_choice),
        COUNT("features", "D", "of attention; 128 unless given", &o.features, 1, 1 << 16),
        SECTION("Machine"),
        TEXT("calibration", "FILE", "what was measured: read where the file exists, else written", &o.calibration),
        FLAG("quick", "measure fewer and smaller models: seconds in place of a minute", &o.quick),
        SECTION("Command"),
        TEXT("data", "FILE", "the text, for the command that is printed", &o.data),
        TEXT("out", "DIR", "its folder", &o.out),
    };
    const cli_usage usage = {"plan",
                             "--minutes M | --tokens T | --params N [--context N] [--memory BYTES]",
                             "Which model is a budget best spent on? Times the training of a dozen small models on "
                             "this machine, fits what a layer, a number copied and an operation cost, predicts steps, "
                             "tokens, loss and memory of models of all shapes, and prints the best of them, some "
                             "others beside it, and the command that trains it. Losses are those of English text as "
                             "bytes.",
                             "  bochner plan --minutes 10 --quick --calibration machine.json\n"
                             "  bochner plan --params 1e6 --calibration machine.json\n"
                             "  bochner plan --tokens 2e7 --memory 2G --calibration machine.json --json\n",
                             options,
                             CLI_COUNT_OF(options)};
    cli_common common = {0};
    cli_arguments arguments = {0};
    const cli_parsed parsed = cli_parse(&usage, argc, argv, &common, &arguments);
    const int status = parsed == CLI_PARSED       ? plan(&o, &common, &arguments)
                       : parsed == CLI_HELP_SHOWN ? CLI_DONE
                                                  : CLI_WRONG_USE;
    free(arguments.items);
    return status;
}
