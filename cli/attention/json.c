/* What attention did, as JSON. */
#include "attention.h"
#include <stdio.h>

static void json_shape(bo_json *json, const char *key, const bo_array *array)
{
    bo_json_array(json, key);
    for (size_t i = 0; i < array->rank; i++) bo_json_add_count(json, NULL, array->shape[i]);
    bo_json_end(json);
}

/* Decays, one per key head, and the range of lambda. */
static void json_parameters(bo_json *json, const cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    if (d->gate == BO_GATE_FIXED) {
        bo_json_array(json, "decay");
        for (size_t i = 0; i < d->key_heads; i++) bo_json_add_number(json, NULL, cli_attention_decay(job, i));
        bo_json_end(json);
    }
    if (bo_attention_has(d, BO_TRAIT_LAMBDA)) {
        double smallest, largest;
        cli_attention_lambdas(job, &smallest, &largest);
        bo_json_object(json, "lambda");
        bo_json_add_number(json, "smallest", smallest);
        bo_json_add_number(json, "largest", largest);
        bo_json_end(json);
    }
}

static void json_descriptor(bo_json *json, const cli_attention_job *job)
{
    const bo_attention_desc *d = bo_attention_describe(job->attention);
    const bo_features_desc *map = cli_attention_map(job);
    bo_json_add_text(json, "kind", cli_attention_kind_choice(job->options->kind));
    bo_json_add_count(json, "sequences", job->shape.sequences);
    bo_json_add_count(json, "heads", d->heads);
    bo_json_add_count(json, "key_heads", d->key_heads);
    bo_json_add_count(json, "tokens", job->shape.tokens);
    bo_json_add_count(json, "key_tokens", job->shape.key_tokens);
    bo_json_add_count(json, "dim", d->dim);
    bo_json_add_count(json, "value_dim", d->value_dim);
    bo_json_add_flag(json, "causal", d->causal);
    bo_json_add_number(json, "scale", cli_attention_scale(job));
    if (d->temperature > 0) bo_json_add_number(json, "temperature", d->temperature);
    if (d->rank) bo_json_add_count(json, "rank", d->rank);
    if (d->power > 0) bo_json_add_number(json, "degree", d->power);
    if (bo_attention_has(d, BO_TRAIT_UNIT)) bo_json_add_flag(json, "unit", d->unit);
    if (d->iterations) bo_json_add_count(json, "iterations", d->iterations);
    if (d->iterations) bo_json_add_number(json, "tolerance", d->tolerance);
    if (d->window) bo_json_add_count(json, "window", d->window);
    bo_json_add_text(json, "gate", bo_gate_name(d->gate));
    json_parameters(json, job);
    bo_json_add_text(json, "normalizer", cli_attention_normalizer_choice((int)d->normalizer));
    if (!map) return;
    bo_json_add_text(json, "kernel", bo_kernel_name(map->kernel));
    bo_json_add_text(json, "function", bo_function_name(map->function));
    if (map->kernel == BO_KERNEL_POLYNOMIAL) bo_json_add_count(json, "degree", (size_t)map->degree);
    if (bo_features_frequencies(bo_attention_features(job->attention, 0)))
        bo_json_add_text(json, "draw", bo_draw_name(map->draw));
    if (bo_attention_has(d, BO_TRAIT_DRAWS)) {
        bo_json_add_text(json, "proposal", bo_proposal_name(d->proposal));
        bo_json_add_text(json, "sampling", bo_sampling_name(d->features.sampling));
    }
    bo_json_add_count(json, "features", map->features);
    bo_json_add_flag(json, "one_draw", d->one_draw);
}

static void json_plan(bo_json *json, const cli_attention_job *job)
{
    const bo_attention_cost *p = &job->plan;
    bo_json_object(json, "plan");
    bo_json_add_count(json, "chunk", p->chunk);
    bo_json_add_count(json, "segment", p->segment);
    bo_json_add_count(json, "query_tile", p->query_tile);
    bo_json_add_count(json, "key_tile", p->key_tile);
    bo_json_add_count(json, "tasks", p->tasks);
    bo_json_add_count(json, "forward_bytes", p->forward_bytes);
    bo_json_add_count(json, "backward_bytes", p->backward_bytes);
    bo_json_add_count(json, "tape_bytes", p->tape_bytes);
    bo_json_add_count(json, "state_bytes", bo_attention_state_bytes(job->attention));
    bo_json_add_count(json, "level1_bytes", p->level1_bytes);
    bo_json_add_count(json, "level2_bytes", p->level2_bytes);
    bo_json_add_number(json, "operations", p->operations);
    bo_json_end(json);
}

static void json_dark(bo_json *json, const bo_dark_report *dark)
{
    bo_json_object(json, "propose");
    bo_json_add_count(json, "key_head", dark->key_head);
    bo_json_add_number(json, "largest", dark->largest);
    bo_json_add_number(json, "smallest", dark->smallest);
    bo_json_add_number(json, "mean_share", dark->mean_share);
    bo_json_add_number(json, "mismatch", dark->mismatch);
    bo_json_add_number(json, "normality", dark->normality);
    bo_json_add_flag(json, "isotropic_finite", dark->isotropic_finite);
    bo_json_add_flag(json, "proposal_finite", dark->proposal_finite);
    bo_json_add_count(json, "clipped", dark->clipped);
    bo_json_add_number(json, "log_gain", dark->log_gain);
    bo_json_end(json);
}

static void json_calibration(bo_json *json, const cli_attention_job *job)
{
    const bo_calibration_report *c = &job->calibration;
    bo_json_object(json, "calibration");
    bo_json_add_text(json, "q", job->options->sources[CLI_CALIBRATE_Q]);
    bo_json_add_text(json, "k", job->options->sources[CLI_CALIBRATE_K]);
    bo_json_add_count(json, "rows", (size_t)c->rows);
    bo_json_add_count(json, "key_head", c->key_head);
    bo_json_add_number(json, "log_isotropic", c->log_isotropic);
    bo_json_add_number(json, "log_drawn", c->log_drawn);
    bo_json_add_number(json, "log_floor", c->log_floor);
    bo_json_end(json);
}

static void json_solves(bo_json *json, const bo_solves *s)
{
    bo_json_object(json, "solves");
    bo_json_add_count(json, "systems", (size_t)s->systems);
    bo_json_add_count(json, "steps", (size_t)s->iterations);
    bo_json_add_number(json, "largest_residual", s->largest_residual);
    bo_json_add_count(json, "refactored", (size_t)s->refactored);
    bo_json_end(json);
}

static void json_error(bo_json *json, const bo_attention_accuracy *e)
{
    bo_json_object(json, "compare");
    bo_json_add_count(json, "queries", e->queries);
    bo_json_add_number(json, "against_softmax", e->against_softmax);
    bo_json_add_number(json, "against_kernel", e->against_kernel);
    bo_json_add_number(json, "kernel_rms", e->kernel_rms);
    bo_json_add_number(json, "kernel_error", e->kernel_error);
    bo_json_add_number(json, "kernel_predicted", e->kernel_predicted);
    bo_json_add_number(json, "kind_seconds", e->kind_seconds);
    bo_json_add_number(json, "softmax_seconds", e->softmax_seconds);
    bo_json_add_count(json, "kind_bytes", e->kind_bytes);
    bo_json_add_count(json, "softmax_bytes", e->softmax_bytes);
    bo_json_end(json);
}

void cli_attention_json(const cli_attention_job *job)
{
    const cli_attention_options *o = job->options;
    bo_json json = {.out = stdout};
    bo_json_object(&json, NULL);
    json_descriptor(&json, job);
    json_plan(&json, job);
    if (!o->plan) {
        const bo_array shape = cli_attention_shape_of_output(job);
        bo_json_add_number(&json, "seconds", job->seconds);
        bo_json_add_number(&json, "tokens_per_second", cli_attention_rate(job));
        bo_json_add_text(&json, "out", o->out);
        json_shape(&json, "shape", &shape);
        bo_json_add_count(&json, "zero_outputs", job->zeros);
        if (o->propose) json_dark(&json, &job->dark);
        if (cli_attention_calibrates(&job->desc)) json_calibration(&json, job);
        if (job->inputs.solves) json_solves(&json, &job->solves);
        if (o->compare) json_error(&json, &job->error);
    }
    bo_json_add_count(&json, "threads", (size_t)bo_context_threads(job->session->context));
    bo_json_add_text(&json, "isa", bo_context_isa(job->session->context));
    bo_json_end(&json);
}
