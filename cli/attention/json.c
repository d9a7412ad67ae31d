/* The report of attention as JSON. */
#include "attention.h"
#include <stdio.h>

static void json_shape(cli_json *json, const char *key, const bo_array *array)
{
    cli_json_array(json, key);
    for (size_t i = 0; i < array->rank; i++) cli_json_add_count(json, NULL, array->shape[i]);
    cli_json_end(json);
}

/* Decays, one per key head, and the range of lambda. */
static void json_parameters(cli_json *json, const cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    if (d->gate == BO_GATE_FIXED) {
        cli_json_array(json, "decay");
        for (size_t i = 0; i < d->key_heads; i++) cli_json_add_number(json, NULL, cli_attention_decay(job, i));
        cli_json_end(json);
    }
    if (bo_attention_has(d, BO_TRAIT_LAMBDA)) {
        double smallest, largest;
        cli_attention_lambdas(job, &smallest, &largest);
        cli_json_object(json, "lambda");
        cli_json_add_number(json, "smallest", smallest);
        cli_json_add_number(json, "largest", largest);
        cli_json_end(json);
    }
}

static void json_descriptor(cli_json *json, const cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const bo_features_desc *map = cli_attention_map(job);
    cli_json_add_text(json, "kind", cli_attention_kind_choice(job->options->kind));
    cli_json_add_count(json, "sequences", job->call.sequences);
    cli_json_add_count(json, "heads", d->heads);
    cli_json_add_count(json, "key_heads", d->key_heads);
    cli_json_add_count(json, "tokens", job->call.tokens);
    cli_json_add_count(json, "key_tokens", job->call.key_tokens);
    cli_json_add_count(json, "dim", d->dim);
    cli_json_add_count(json, "value_dim", d->value_dim);
    cli_json_add_flag(json, "causal", d->causal);
    cli_json_add_number(json, "scale", cli_attention_scale(job));
    if (d->temperature > 0) cli_json_add_number(json, "temperature", d->temperature);
    if (d->rank) cli_json_add_count(json, "rank", d->rank);
    if (d->power > 0) cli_json_add_number(json, "degree", d->power);
    if (bo_attention_has(d, BO_TRAIT_UNIT)) cli_json_add_flag(json, "unit", d->unit);
    if (d->iterations) cli_json_add_count(json, "iterations", d->iterations);
    if (d->iterations) cli_json_add_number(json, "tolerance", d->tolerance);
    if (d->window) cli_json_add_count(json, "window", d->window);
    cli_json_add_text(json, "gate", bo_enum_name(BO_ENUM_GATE, d->gate));
    json_parameters(json, job);
    cli_json_add_text(json, "normalizer", cli_attention_normalizer_choice((int)d->normalizer));
    if (!map) return;
    cli_json_add_text(json, "kernel", bo_enum_name(BO_ENUM_KERNEL, map->kernel));
    cli_json_add_text(json, "function", bo_enum_name(BO_ENUM_FUNCTION, map->function));
    if (map->kernel == BO_KERNEL_POLYNOMIAL) cli_json_add_count(json, "degree", (size_t)map->degree);
    if (bo_features_frequencies(bo_attention_features(job->attention, 0)))
        cli_json_add_text(json, "draw", bo_enum_name(BO_ENUM_DRAW, map->draw));
    if (bo_attention_has(d, BO_TRAIT_DRAWS)) {
        cli_json_add_text(json, "proposal", bo_enum_name(BO_ENUM_PROPOSAL, d->proposal));
        cli_json_add_text(json, "sampling", bo_enum_name(BO_ENUM_SAMPLING, d->features.sampling));
    }
    cli_json_add_count(json, "features", map->features);
    cli_json_add_flag(json, "one_draw", d->one_draw);
}

static void json_plan(cli_json *json, const cli_attention_job *job)
{
    const bo_attention_cost *p = &job->plan;
    cli_json_object(json, "plan");
    cli_json_add_count(json, "chunk", p->chunk);
    cli_json_add_count(json, "segment", p->segment);
    cli_json_add_count(json, "query_tile", p->query_tile);
    cli_json_add_count(json, "key_tile", p->key_tile);
    cli_json_add_count(json, "tasks", p->tasks);
    cli_json_add_count(json, "forward_bytes", p->forward_bytes);
    cli_json_add_count(json, "backward_bytes", p->backward_bytes);
    cli_json_add_count(json, "tape_bytes", p->tape_bytes);
    cli_json_add_count(json, "state_bytes", bo_attention_state_bytes(job->attention));
    cli_json_add_count(json, "level1_bytes", p->level1_bytes);
    cli_json_add_count(json, "level2_bytes", p->level2_bytes);
    cli_json_add_number(json, "operations", p->operations);
    cli_json_end(json);
}

static void json_dark(cli_json *json, const bo_proposal_report *dark)
{
    cli_json_object(json, "propose");
    cli_json_add_count(json, "key_head", dark->key_head);
    cli_json_add_number(json, "largest", dark->largest);
    cli_json_add_number(json, "smallest", dark->smallest);
    cli_json_add_number(json, "mean_share", dark->mean_share);
    cli_json_add_number(json, "mismatch", dark->mismatch);
    cli_json_add_number(json, "normality", dark->normality);
    cli_json_add_flag(json, "isotropic_finite", dark->isotropic_finite);
    cli_json_add_flag(json, "proposal_finite", dark->proposal_finite);
    cli_json_add_count(json, "clipped", dark->clipped);
    cli_json_add_number(json, "log_gain", dark->log_gain);
    cli_json_end(json);
}

/* The data of the fit: files (null: the input), tokens of each sequence, and the number of first outputs without the
 * fit. */
static void json_fit(cli_json *json, const cli_attention_job *job)
{
    cli_json_object(json, "fit");
    cli_json_add_text(json, "q", job->options->sources[CLI_CALIBRATE_Q]);
    cli_json_add_text(json, "k", job->options->sources[CLI_CALIBRATE_K]);
    cli_json_add_count(json, "tokens", job->sample.call.tokens);
    cli_json_add_count(json, "key_tokens", job->sample.call.key_tokens);
    cli_json_add_count(json, "unfitted_outputs", job->unfitted);
    cli_json_end(json);
}

static void json_calibration(cli_json *json, const cli_attention_job *job)
{
    const bo_calibration_report *c = &job->calibration;
    cli_json_object(json, "calibration");
    cli_json_add_count(json, "rows", (size_t)c->rows);
    cli_json_add_count(json, "key_head", c->key_head);
    cli_json_add_number(json, "log_isotropic", c->log_isotropic);
    cli_json_add_number(json, "log_drawn", c->log_drawn);
    cli_json_add_number(json, "log_floor", c->log_floor);
    cli_json_end(json);
}

static void json_solves(cli_json *json, const bo_solves *s)
{
    cli_json_object(json, "solves");
    cli_json_add_count(json, "systems", (size_t)s->systems);
    cli_json_add_count(json, "steps", (size_t)s->iterations);
    cli_json_add_number(json, "largest_residual", s->largest_residual);
    cli_json_add_count(json, "refactored", (size_t)s->refactored);
    cli_json_end(json);
}

static void json_error(cli_json *json, const bo_attention_accuracy *e)
{
    cli_json_object(json, "compare");
    cli_json_add_count(json, "queries", e->queries);
    cli_json_add_number(json, "against_softmax", e->against_softmax);
    cli_json_add_number(json, "against_kernel", e->against_kernel);
    cli_json_add_number(json, "kernel_rms", e->kernel_rms);
    cli_json_add_number(json, "kernel_error", e->kernel_error);
    cli_json_add_number(json, "kernel_predicted", e->kernel_predicted);
    cli_json_add_number(json, "kind_seconds", e->kind_seconds);
    cli_json_add_number(json, "softmax_seconds", e->softmax_seconds);
    cli_json_add_count(json, "kind_bytes", e->kind_bytes);
    cli_json_add_count(json, "softmax_bytes", e->softmax_bytes);
    cli_json_end(json);
}

void cli_attention_json(const cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    json_descriptor(&json, job);
    json_plan(&json, job);
    if (!o->plan) {
        size_t shape[CLI_ATTENTION_RANK];
        const bo_array output = cli_attention_output(job, shape);
        cli_json_add_number(&json, "seconds", job->seconds);
        cli_json_add_number(&json, "tokens_per_second", cli_attention_rate(job));
        cli_json_add_text(&json, "out", o->out);
        json_shape(&json, "shape", &output);
        cli_json_add_count(&json, "zero_outputs", job->zeros);
        if (job->sample.call.q.data) json_fit(&json, job);
        if (o->propose) json_dark(&json, &job->dark);
        if (cli_attention_calibrates(&job->desc)) json_calibration(&json, job);
        if (job->call.solves) json_solves(&json, &job->solves);
        if (o->compare) json_error(&json, &job->error);
    }
    cli_json_add_text(&json, "precision",
                      bo_enum_name(BO_ENUM_PRECISION, bo_context_describe(job->session->context)->precision));
    cli_json_add_count(&json, "threads", (size_t)bo_context_describe(job->session->context)->threads);
    cli_json_add_text(&json, "isa", bo_context_describe(job->session->context)->isa);
    cli_json_end(&json);
}
