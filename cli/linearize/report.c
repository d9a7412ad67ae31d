/* The report of `bochner linearize`: teacher and student side by side. */
#include "linearize.h"
#include "../model/mixer_text.h"
#include <math.h>

static const size_t lengths[CLI_LINEARIZE_LENGTHS] = {1024, 16384, 131072};

/* ---- measurements ------------------------------------------------------------------------------------------------ */

static size_t window_of(const cli_linearize_job *job)
{
    enum { DEFAULT_MAX_CONTEXT = 1024 };
    const size_t context = bo_model_describe(job->teacher)->context;
    return job->options->context           ? job->options->context
           : context < DEFAULT_MAX_CONTEXT ? context
                                           : DEFAULT_MAX_CONTEXT;
}

static bo_status measure_side(cli_linearize_job *job, const bo_model *model, cli_linearize_side *side)
{
    bo_context *context = job->session->context;
    for (size_t i = 0; i < CLI_LINEARIZE_LENGTHS; i++)
        side->costs[i] = (bo_session_cost){.tokens = lengths[i], .seconds = NAN};
    bo_status status = BO_OK;
    if (job->valid)
        status =
            bo_model_evaluate(context, model, job->valid, window_of(job), job->options->eval_tokens, &side->quality);
    if (status != BO_OK || job->options->no_timing) return status;
    return bo_session_measure(context, model, lengths, CLI_LINEARIZE_LENGTHS, side->costs);
}

bo_status cli_linearize_measure(cli_linearize_job *job)
{
    enum { MAX_TOKENS = 8192 };
    bo_context *context = job->session->context;
    bo_status status = measure_side(job, job->teacher, &job->sides[0]);
    if (status == BO_OK) status = measure_side(job, job->student, &job->sides[1]);
    if (status != BO_OK || !job->valid) return status;
    return bo_model_agreement(context, job->teacher, job->student, job->valid, window_of(job), MAX_TOKENS,
                              &job->agreement);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_quality(const cli_linearize_job *job)
{
    const bo_evaluation *teacher = &job->sides[0].quality, *student = &job->sides[1].quality;
    printf("Perplexity  teacher %s, student %s (x %.3f), on %s held-out tokens\n",
           cli_significant(teacher->perplexity, 4).s, cli_significant(student->perplexity, 4).s,
           student->perplexity / teacher->perplexity, cli_count(student->tokens).s);
    printf("Agreement   %.1f%% of the most likely tokens are the same; divergence %s nats per token\n",
           100 * job->agreement.greedy, cli_significant(job->agreement.divergence, 3).s);
}

static void print_layers(const cli_linearize_job *job)
{
    printf("Layers      relative squared error of attention after the transfer:");
    for (size_t i = 0; i < bo_model_describe(job->student)->layers; i++) {
        if (isnan(job->errors[i]))
            printf(" kept");
        else
            printf(" %s", cli_significant(job->errors[i], 2).s);
    }
    putchar('\n');
}

static void print_cost(const bo_session_cost *cost)
{
    if (isnan(cost->seconds))
        printf("  %18s", "not available");
    else
        printf("  %7s tokens/s", cli_count((size_t)(1 / cost->seconds)).s);
    printf("  %10s", cost->state_bytes ? cli_bytes((double)cost->state_bytes).s : "-");
}

static void print_costs(const cli_linearize_job *job)
{
    printf("\nContext        teacher: decoding, state         student: decoding, state\n");
    for (size_t i = 0; i < CLI_LINEARIZE_LENGTHS; i++) {
        printf("%-10s", cli_count(lengths[i]).s);
        print_cost(&job->sides[0].costs[i]);
        printf("  ");
        print_cost(&job->sides[1].costs[i]);
        putchar('\n');
    }
}

void cli_linearize_print(const cli_linearize_job *job)
{
    char mixer[CLI_MIXER_TEXT];
    char kept[CLI_LAYER_LIST];
    cli_kept_layers(bo_model_describe(job->student), kept);
    printf("Student     %s attention%s%s; %s steps of transfer and %s of finetuning, %s\n",
           cli_attention_summary(&cli_main_block(bo_model_describe(job->student))->attention, mixer),
           *kept ? "; softmax in layers " : "", kept, cli_count(job->steps[BO_LINEARIZE_STAGE_TRANSFER]).s,
           cli_count(job->steps[BO_LINEARIZE_STAGE_FINETUNE]).s,
           cli_seconds(job->seconds[BO_LINEARIZE_STAGE_TRANSFER] + job->seconds[BO_LINEARIZE_STAGE_FINETUNE]).s);
    if (job->valid) print_quality(job);
    if (job->errors) print_layers(job);
    printf("Model       %s\n", job->options->out);
    if (!job->options->no_timing) print_costs(job);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_side(cli_json *json, const char *name, const cli_linearize_job *job, const cli_linearize_side *side)
{
    cli_json_object(json, name);
    if (job->valid) {
        cli_json_add_number(json, "loss", side->quality.loss);
        cli_json_add_number(json, "perplexity", side->quality.perplexity);
    }
    cli_json_array(json, "decoding");
    for (size_t i = 0; i < CLI_LINEARIZE_LENGTHS && !job->options->no_timing; i++) {
        cli_json_object(json, NULL);
        cli_json_add_count(json, "context", side->costs[i].tokens);
        cli_json_add_number(json, "tokens_per_second", 1 / side->costs[i].seconds);
        cli_json_add_count(json, "state_bytes", side->costs[i].state_bytes);
        cli_json_end(json);
    }
    cli_json_end(json);
    cli_json_end(json);
}

void cli_linearize_json(const cli_linearize_job *job)
{
    const bo_model_desc *d = bo_model_describe(job->student);
    const bo_attention_desc *a = &cli_main_block(d)->attention;
    char kept[CLI_LAYER_LIST];
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "out", job->options->out);
    cli_json_add_text(&json, "attention", bo_attention_name(a));
    cli_json_add_count(&json, "features", a->features.features);
    cli_json_add_count(&json, "window", a->window);
    cli_json_add_text(&json, "gate", bo_enum_name(BO_ENUM_GATE, a->gate));
    cli_json_add_text(&json, "kept_layers", cli_kept_layers(d, kept));
    cli_json_add_count(&json, "transfer_steps", job->steps[BO_LINEARIZE_STAGE_TRANSFER]);
    cli_json_add_count(&json, "finetune_steps", job->steps[BO_LINEARIZE_STAGE_FINETUNE]);
    cli_json_add_number(&json, "seconds",
                        job->seconds[BO_LINEARIZE_STAGE_TRANSFER] + job->seconds[BO_LINEARIZE_STAGE_FINETUNE]);
    json_side(&json, "teacher", job, &job->sides[0]);
    json_side(&json, "student", job, &job->sides[1]);
    if (job->valid) {
        cli_json_add_number(&json, "perplexity_ratio",
                            job->sides[1].quality.perplexity / job->sides[0].quality.perplexity);
        cli_json_add_number(&json, "greedy_agreement", job->agreement.greedy);
        cli_json_add_number(&json, "divergence", job->agreement.divergence);
    }
    cli_json_array(&json, "layer_errors");
    for (size_t i = 0; job->errors && i < d->layers; i++) cli_json_add_number(&json, NULL, job->errors[i]);
    cli_json_end(&json);
    cli_json_end(&json);
}
