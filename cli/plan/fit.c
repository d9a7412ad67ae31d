/* bochner plan --fit and --law: scaling laws fitted to training runs. */
#include "fit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct fit_job {
    cli_session *session;
    const cli_plan_options *options;
    cli_plan_run *runs; /* fitted runs, then held-out runs */
    size_t fitted, count;
    bo_plan_laws *laws;
    bo_plan *plan;
} fit_job;

static bool ok(fit_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

static bool has_budget(const cli_plan_options *o)
{
    return o->parameters > 0 || o->minutes > 0 || o->tokens > 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool read_all(fit_job *job, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cli_plan_run *run = &job->runs[job->count++];
        if (!cli_plan_run_read(job->session, names[i], run)) return false;
        if (job->options->loss_only) run->observation.seconds = NAN;
        if (job->count > 1 && !cli_plan_run_matches(job->session, &job->runs[0], run, !job->options->loss_only))
            return false;
        for (size_t k = 0; k + 1 < job->count; k++)
            if (strcmp(job->runs[k].name, run->name) == 0) {
                cli_fail(job->session, "%s: the run is given twice", run->name);
                return false;
            }
    }
    return true;
}

/* The largest run: plans derive their shapes from it. */
static const cli_plan_run *base_of(const fit_job *job)
{
    const cli_plan_run *base = &job->runs[0];
    for (size_t i = 1; i < job->fitted; i++)
        if (job->runs[i].observation.counts.parameters > base->observation.counts.parameters) base = &job->runs[i];
    return base;
}

static bool fit(fit_job *job, const cli_arguments *arguments)
{
    if (!read_all(job, (const char *const *)arguments->items, arguments->count)) return false;
    job->fitted = job->count;
    const cli_plan_run *base = base_of(job);
    bo_plan_observation observations[CLI_LIST_CAPACITY];
    char path[4096];
    for (size_t i = 0; i < job->fitted; i++) observations[i] = job->runs[i].observation;
    if (!base->threads && !job->options->loss_only)
        cli_warn(job->session,
                 "%s: metrics.jsonl does not record the threads; all runs must be timed on one host with the same "
                 "number of threads",
                 base->name);
    snprintf(path, sizeof path, "%s/train.json", base->name);
    const bo_plan_family family = {.config = base->config_text,
                                   .options = path,
                                   .batch = base->batch,
                                   .micro_batch = base->micro_batch,
                                   .optimizer = base->optimizer,
                                   .activations = base->activations,
                                   .checkpointing = base->checkpointing,
                                   .token_bytes = base->token_bytes,
                                   .isa = base->isa[0] ? base->isa : NULL,
                                   .threads = base->threads};
    bo_context *context = job->session->context;
    const char *law = job->options->law;
    return ok(job, bo_plan_laws_fit(context, &family, observations, job->fitted, &job->laws)) &&
           (!law || ok(job, cli_record_output(job->session, law, bo_plan_laws_save(context, job->laws, law))));
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_law_parameters(const bo_plan_parameter *parameters, size_t count)
{
    printf("  %-12s %12s   %-26s %s\n", "parameter", "value", "90% interval", "origin");
    for (size_t i = 0; i < count; i++) {
        const bo_plan_parameter *p = &parameters[i];
        char interval[64] = "";
        if (p->origin != BO_PLAN_ORIGIN_ABSENT)
            snprintf(interval, sizeof interval, "%.3g to %.3g", p->range.low, p->range.high);
        printf("  %-12s %12.4g   %-26s %s\n", p->name, p->range.value, interval,
               bo_enum_name(BO_ENUM_PLAN_ORIGIN, p->origin));
    }
}

static void print_origins(const bo_plan_laws *laws)
{
    const bo_plan_origin size = laws->loss[2].origin, data = laws->loss[4].origin;
    if (size == BO_PLAN_ORIGIN_ABSENT)
        printf("All runs have the same size: the floor includes the size term, and the law is valid for this size "
               "only.\n");
    if (data == BO_PLAN_ORIGIN_ABSENT)
        printf("All runs have the same amount of data: the floor includes the data term, and the law is valid for this "
               "amount "
               "only.\n");
    if (size == BO_PLAN_ORIGIN_STORED || data == BO_PLAN_ORIGIN_STORED)
        printf(
            "The runs do not determine %s%s%s, which %s from the default law. To fit %s, train runs of three or more "
            "%s.\n",
            size == BO_PLAN_ORIGIN_STORED ? "size_power" : "",
            size == data && size == BO_PLAN_ORIGIN_STORED ? " and " : "",
            data == BO_PLAN_ORIGIN_STORED ? "data_power" : "", size == data ? "are" : "is",
            size == data ? "them" : "it",
            size == data                    ? "sizes and lengths"
            : size == BO_PLAN_ORIGIN_STORED ? "sizes"
                                            : "lengths");
}

static cli_short_text percent(double predicted, double measured)
{
    cli_short_text word = {"-"};
    const double e = 100 * (predicted / measured - 1);
    if (isfinite(e)) snprintf(word.s, sizeof word.s, "%+.1f%%", e);
    return word;
}

static cli_short_text number(double value, int digits)
{
    cli_short_text word = {"-"};
    if (isfinite(value)) snprintf(word.s, sizeof word.s, "%.*f", digits, value);
    return word;
}

static void print_runs(const bo_plan_laws *laws)
{
    printf("\nPrediction errors of each run, from a fit to the other runs:\n  %-28s %10s %9s %8s %8s %10s %8s %8s\n",
           "run", "parameters", "bytes", "loss", "error", "step, ms", "error", "beyond");
    for (size_t i = 0; i < laws->count; i++) {
        const bo_plan_observation *o = &laws->observations[i];
        const bo_plan_forecast *f = &laws->left_out[i];
        printf("  %-28s %10s %9.3g %8s %8s %10s %8s %8.3g\n", o->name, cli_count((size_t)o->counts.parameters).s,
               o->bytes, number(o->loss, 4).s, percent(f->loss.value, o->loss).s, number(1e3 * o->seconds, 3).s,
               percent(f->step.value, o->seconds).s, f->beyond);
    }
}

static void print_laws(const bo_plan_laws *laws)
{
    const bo_plan_family *f = &laws->family;
    printf("Loss law    L = floor + size N^-size_power + data D^-data_power; N parameters, D bytes, L nats per byte\n");
    print_law_parameters(laws->loss, 5);
    print_origins(laws);
    printf("Deviation of single runs: %.2g%%\n", 100 * laws->loss_error);
    if (!isfinite(laws->step_error)) {
        printf("\nTime law    none: fewer than two runs have times\n");
    } else {
        printf("\nTime law    seconds per step = sum of costs; %s, %d thread%s, %s\n", f->isa ? f->isa : "unknown host",
               f->threads, f->threads == 1 ? "" : "s", bo_enum_name(BO_ENUM_OPTIMIZER_KIND, f->optimizer));
        print_law_parameters(laws->costs, 3);
        printf("Deviation of single runs: %.2g%%\n", 100 * laws->step_error);
    }
    print_runs(laws);
}

static cli_short_text interval(bo_plan_range r, double unit)
{
    cli_short_text word = {"-"};
    if (isfinite(r.value))
        snprintf(word.s, sizeof word.s, "%.4g (%.4g to %.4g)", unit * r.value, unit * r.low, unit * r.high);
    return word;
}

static void print_holdout(const fit_job *job)
{
    if (job->count == job->fitted) return;
    printf("\nHeld-out runs, with 90%% intervals:\n");
    for (size_t i = job->fitted; i < job->count; i++) {
        const bo_plan_observation *o = &job->runs[i].observation;
        bo_plan_forecast f = {.beyond = 1};
        if (bo_plan_forecast_run(job->session->context, job->laws, &o->counts, o->bytes, &f) != BO_OK) continue;
        printf("  %s: %s parameters, %.3g bytes, %.3g times beyond the fitted runs\n", o->name,
               cli_count((size_t)o->counts.parameters).s, o->bytes, f.beyond);
        printf("    loss      predicted %s, measured %s, error %s\n", interval(f.loss, 1).s, number(o->loss, 4).s,
               percent(f.loss.value, o->loss).s);
        printf("    step, ms  predicted %s, measured %s, error %s\n", interval(f.step, 1e3).s,
               number(1e3 * o->seconds, 3).s, percent(f.step.value, o->seconds).s);
    }
}

static void print_command(FILE *out, const fit_job *job)
{
    const bo_plan_choice *c = &job->plan->choices[0];
    const bo_plan_shape *s = &c->shape;
    fputs("bochner train --config ", out);
    cli_print_shell_quoted(out, job->laws->family.options ? job->laws->family.options : "train.json");
    fputs(" --out ", out);
    cli_print_shell_quoted(out, job->options->out ? job->options->out : "model");
    fprintf(out, " --layers %zu --width %zu --heads %zu", s->layers, s->width, s->heads);
    if (c->hidden) fprintf(out, " --hidden %zu", c->hidden);
    if (c->micro_batch < s->batch) fprintf(out, " --micro-batch %zu", c->micro_batch);
    fprintf(out, " --steps %llu", (unsigned long long)c->steps);
}

static void print_plan(const fit_job *job)
{
    const bo_plan *plan = job->plan;
    printf("\n  %6s %6s %5s %11s %8s %9s %9s %-26s %-26s %s\n", "layers", "width", "heads", "parameters", "steps",
           "tokens", "memory", "minutes", "loss", "beyond");
    for (size_t i = 0; i < plan->choice_count; i++) {
        const bo_plan_choice *c = &plan->choices[i];
        printf("%s %6zu %6zu %5zu %11s %8llu %9.3g %9s %-26s %-26s %.3g%s\n", i ? " " : "*", c->shape.layers,
               c->shape.width, c->shape.heads, cli_count((size_t)c->parameters).s, (unsigned long long)c->steps,
               c->tokens, cli_bytes((double)c->memory).s, interval(c->minutes, 1).s, interval(c->loss, 1).s, c->beyond,
               c->beyond > 1 ? " extrapolated" : "");
    }
    printf("\n* Best model for the budget. Loss in nats per byte. Intervals: 90%%. beyond: factor outside the fitted "
           "runs.\n\n");
    print_command(stdout, job);
    putchar('\n');
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_parameters(cli_json *json, const char *key, const bo_plan_parameter *parameters, size_t count,
                            double error)
{
    cli_json_object(json, key);
    for (size_t i = 0; i < count; i++) {
        cli_json_object(json, parameters[i].name);
        cli_json_add_number(json, "value", parameters[i].range.value);
        cli_json_add_number(json, "low", parameters[i].range.low);
        cli_json_add_number(json, "high", parameters[i].range.high);
        cli_json_add_text(json, "origin", bo_enum_name(BO_ENUM_PLAN_ORIGIN, parameters[i].origin));
        cli_json_end(json);
    }
    cli_json_add_number(json, "deviation", error);
    cli_json_end(json);
}

static void json_run(cli_json *json, const bo_plan_observation *o, const bo_plan_forecast *f)
{
    cli_json_object(json, NULL);
    cli_json_add_text(json, "run", o->name);
    cli_json_add_number(json, "parameters", o->counts.parameters);
    cli_json_add_number(json, "bytes", o->bytes);
    cli_json_add_number(json, "loss", o->loss);
    cli_json_add_number(json, "step_seconds", o->seconds);
    cli_plan_json_range(json, "predicted_loss", f->loss);
    cli_plan_json_range(json, "predicted_step_seconds", f->step);
    cli_json_add_number(json, "beyond", f->beyond);
    cli_json_end(json);
}

static void json_plan(cli_json *json, const fit_job *job)
{
    char *command = NULL;
    size_t length = 0;
    FILE *command_text = open_memstream(&command, &length);
    if (command_text) {
        print_command(command_text, job);
        fclose(command_text);
    }
    cli_json_array(json, "choices");
    for (size_t i = 0; i < job->plan->choice_count; i++) cli_plan_json_choice(json, &job->plan->choices[i]);
    cli_json_end(json);
    cli_json_add_text(json, "command", command);
    free(command);
}

static void print_json(const fit_job *job)
{
    const bo_plan_laws *laws = job->laws;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    json_parameters(&json, "loss_law", laws->loss, 5, laws->loss_error);
    json_parameters(&json, "time_law", laws->costs, 3, laws->step_error);
    cli_json_array(&json, "runs");
    for (size_t i = 0; i < laws->count; i++) json_run(&json, &laws->observations[i], &laws->left_out[i]);
    cli_json_end(&json);
    cli_json_array(&json, "held_out");
    for (size_t i = job->fitted; i < job->count; i++) {
        bo_plan_forecast f = {.beyond = 1};
        const bo_plan_observation *o = &job->runs[i].observation;
        if (bo_plan_forecast_run(job->session->context, laws, &o->counts, o->bytes, &f) == BO_OK)
            json_run(&json, o, &f);
    }
    cli_json_end(&json);
    if (job->plan) json_plan(&json, job);
    cli_json_end(&json);
}

static void print_text(const fit_job *job)
{
    if (job->options->fit) print_laws(job->laws);
    print_holdout(job);
    if (job->plan) print_plan(job);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* A time law of another host, or of another number of threads, would predict wrong times. */
static bool is_measured_here(fit_job *job)
{
    const bo_plan_family *f = &job->laws->family;
    bo_context *context = job->session->context;
    if (!f->threads || !f->isa || job->options->fit) return true;
    if (f->threads == bo_context_describe(context)->threads && strcmp(f->isa, bo_context_describe(context)->isa) == 0)
        return true;
    cli_fail(job->session,
             "%s: the runs used %d threads and %s, expected %d threads and %s; give --threads %d or fit "
             "runs of this host",
             job->options->law, f->threads, f->isa, bo_context_describe(context)->threads,
             bo_context_describe(context)->isa, f->threads);
    return false;
}

static bool run(fit_job *job, const cli_arguments *arguments)
{
    const cli_plan_options *o = job->options;
    bo_context *context = job->session->context;
    if (o->fit && o->law && !cli_can_write(job->session, o->law)) return false;
    if (o->fit ? !fit(job, arguments) : !ok(job, bo_plan_laws_load(context, o->law, &job->laws))) return false;
    if (!read_all(job, o->holdout.items, o->holdout.count)) return false;
    if (!has_budget(o)) return true;
    const bo_plan_budget budget = {
        .parameters = o->parameters, .minutes = o->minutes, .tokens = o->tokens, .memory = o->memory};
    return is_measured_here(job) &&
           ok(job, bo_plan_create(context, &(bo_plan_basis){.laws = job->laws}, &budget, &job->plan));
}

int cli_plan_fitted(cli_session *session, const cli_plan_options *options, const cli_arguments *runs)
{
    fit_job job = {.session = session, .options = options};
    job.runs = cli_allocate(CLI_LIST_CAPACITY, sizeof *job.runs, "runs");
    const bool done = run(&job, runs);
    cli_progress_clear(&session->progress);
    if (done) (session->common.json ? print_json : print_text)(&job);
    for (size_t i = 0; i < job.count; i++) cli_plan_run_free(&job.runs[i]);
    free(job.runs);
    bo_plan_destroy(job.plan);
    bo_plan_laws_destroy(job.laws);
    return done ? CLI_DONE : CLI_FAILED;
}
