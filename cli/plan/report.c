/* The report of `bochner plan` as text and as JSON. */
#include "plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the training command ---------------------------------------------------------------------------------------- */

static void print_command(FILE *out, const cli_plan_job *job)
{
    const cli_plan_options *o = job->options;
    const bo_plan_choice *c = &job->plan->choices[0];
    const bo_plan_shape *s = &c->shape;
    fputs("bochner train --data ", out);
    cli_print_shell_quoted(out, o->data ? o->data : "text.txt");
    fputs(" --out ", out);
    cli_print_shell_quoted(out, o->out ? o->out : "model");
    fprintf(out, " --layers %zu --width %zu --heads %zu --context %zu --attention %s", s->layers, s->width, s->heads,
            s->context, s->attention);
    if (s->features) fprintf(out, " --features %zu", s->features);
    fprintf(out, " --batch %zu", s->batch);
    if (c->micro_batch < s->batch) fprintf(out, " --micro-batch %zu", c->micro_batch);
    if (o->minutes > 0)
        fprintf(out, " --minutes %g", o->minutes);
    else
        fprintf(out, " --steps %llu", (unsigned long long)c->steps);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_host(const cli_plan_job *job)
{
    const bo_plan_host *m = job->machine;
    const bo_plan_shape *first = &m->timings[0].shape;
    printf("Host        %s, %d thread%s; step times of %zu models with %s attention and %s: %s\n", m->isa, m->threads,
           m->threads == 1 ? "" : "s", m->timing_count, first->attention,
           bo_enum_name(BO_ENUM_OPTIMIZER_KIND, first->optimizer),
           job->measured ? "measured now" : job->options->calibration);
    printf("Costs       layer %.3g ms, copied value %.3g ns, operation %.3g ps, attention operation %.3g ps\n",
           1e3 * m->costs[BO_PLAN_TERM_LAYERS], 1e9 * m->costs[BO_PLAN_TERM_COPIES],
           1e12 * m->costs[BO_PLAN_TERM_OPERATIONS], 1e12 * m->costs[BO_PLAN_TERM_ATTENTION]);
    printf("Accuracy    predicted / measured:");
    for (size_t i = 0; i < m->timing_count; i++) {
        bo_plan_range step;
        if (bo_plan_step(job->session->context, m, &m->timings[i].shape, &step) == BO_OK)
            printf(" %.2f", step.value / m->timings[i].seconds);
    }
    printf("; error on left-out models %.1f%%\n", 100 * m->error);
}

cli_short_text cli_plan_plus_minus(bo_plan_range range, double unit)
{
    cli_short_text word;
    const double half = unit * (range.high - range.low) / 2;
    const int digits = half > 0 ? (int)fmin(fmax(1 - floor(log10(half)), 0), 6) : 3;
    snprintf(word.s, sizeof word.s, "%.*f ± %.*f", digits, unit * range.value, digits, half);
    return word;
}

static void print_choices(const bo_plan *plan)
{
    printf("\n  %6s %6s %5s %5s %11s %16s %9s %16s %14s %8s\n", "layers", "width", "heads", "batch", "parameters",
           "step, ms", "tokens", "minutes", "loss", "memory");
    for (size_t i = 0; i < plan->choice_count; i++) {
        const bo_plan_choice *c = &plan->choices[i];
        printf("%s %6zu %6zu %5zu %5zu %11s %17s %9.3g %17s %15s %8s\n", i ? " " : "*", c->shape.layers, c->shape.width,
               c->shape.heads, c->shape.batch, cli_count((size_t)c->parameters).s, cli_plan_plus_minus(c->step, 1e3).s,
               c->tokens, cli_plan_plus_minus(c->minutes, 1).s, cli_plan_plus_minus(c->loss, 1).s,
               cli_bytes((double)c->memory).s);
    }
    printf("\n* Best model for the budget. Loss in nats per byte of English text, each byte read once. ±: 95%% "
           "interval.\n\n");
}

void cli_plan_print(const cli_plan_job *job)
{
    print_host(job);
    print_choices(job->plan);
    print_command(stdout, job);
    putchar('\n');
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

void cli_plan_json_range(cli_json *json, const char *key, bo_plan_range range)
{
    cli_json_object(json, key);
    cli_json_add_number(json, "value", range.value);
    cli_json_add_number(json, "low", range.low);
    cli_json_add_number(json, "high", range.high);
    cli_json_end(json);
}

static void shape(cli_json *json, const bo_plan_shape *s)
{
    cli_json_add_count(json, "layers", s->layers);
    cli_json_add_count(json, "width", s->width);
    cli_json_add_count(json, "heads", s->heads);
    cli_json_add_count(json, "features", s->features);
    cli_json_add_count(json, "context", s->context);
    cli_json_add_count(json, "batch", s->batch);
}

static void machine(cli_json *json, const cli_plan_job *job)
{
    const bo_plan_host *m = job->machine;
    cli_json_object(json, "machine");
    cli_json_add_text(json, "isa", m->isa);
    cli_json_add_count(json, "threads", (size_t)m->threads);
    cli_json_add_text(json, "attention", m->timings[0].shape.attention);
    cli_json_add_text(json, "optimizer", bo_enum_name(BO_ENUM_OPTIMIZER_KIND, m->timings[0].shape.optimizer));
    cli_json_add_number(json, "error", m->error);
    cli_json_object(json, "seconds_each");
    for (size_t t = 0; t < m->cost_count; t++)
        cli_json_add_number(json, bo_enum_name(BO_ENUM_PLAN_TERM, (bo_plan_term)t), m->costs[t]);
    cli_json_end(json);
    cli_json_array(json, "timings");
    for (size_t i = 0; i < m->timing_count; i++) {
        bo_plan_range step = {NAN, NAN, NAN};
        bo_plan_step(job->session->context, m, &m->timings[i].shape, &step);
        cli_json_object(json, NULL);
        shape(json, &m->timings[i].shape);
        cli_json_add_number(json, "seconds", m->timings[i].seconds);
        cli_json_add_number(json, "predicted", step.value);
        cli_json_end(json);
    }
    cli_json_end(json);
    cli_json_end(json);
}

void cli_plan_json_choice(cli_json *json, const bo_plan_choice *c)
{
    cli_json_object(json, NULL);
    shape(json, &c->shape);
    cli_json_add_number(json, "parameters", c->parameters);
    cli_json_add_number(json, "tokens", c->tokens);
    cli_json_add_count(json, "steps", (size_t)c->steps);
    cli_json_add_count(json, "micro_batch", c->micro_batch);
    cli_json_add_count(json, "memory_bytes", c->memory);
    cli_plan_json_range(json, "step_seconds", c->step);
    cli_plan_json_range(json, "minutes", c->minutes);
    cli_plan_json_range(json, "loss", c->loss);
    cli_json_end(json);
}

static void law(cli_json *json, const bo_plan_losses *losses)
{
    const bo_plan_law *l = &losses->law;
    cli_json_object(json, "loss_law");
    cli_json_add_number(json, "floor", l->floor);
    cli_json_add_number(json, "size", l->size);
    cli_json_add_number(json, "size_power", l->size_power);
    cli_json_add_number(json, "data", l->data);
    cli_json_add_number(json, "data_power", l->data_power);
    cli_json_add_number(json, "batch", l->batch);
    cli_json_add_number(json, "error", losses->error);
    cli_json_end(json);
}

void cli_plan_json(const cli_plan_job *job)
{
    cli_json json = {.out = stdout};
    char *command = NULL;
    size_t length = 0;
    FILE *command_text = open_memstream(&command, &length);
    if (command_text) {
        print_command(command_text, job);
        fclose(command_text);
    }
    cli_json_object(&json, NULL);
    machine(&json, job);
    law(&json, job->losses);
    cli_json_array(&json, "choices");
    for (size_t i = 0; i < job->plan->choice_count; i++) cli_plan_json_choice(&json, &job->plan->choices[i]);
    cli_json_end(&json);
    cli_json_add_text(&json, "command", command);
    cli_json_end(&json);
    free(command);
}
