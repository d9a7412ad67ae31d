/* The report of bochner inspect as JSON. */
#include "inspect.h"
#include "../common/json.h"

static void numbers(cli_json *json, const char *key, const double *values, size_t count)
{
    cli_json_array(json, key);
    for (size_t i = 0; values && i < count; i++) cli_json_add_number(json, NULL, values[i]);
    cli_json_end(json);
}

static void json_sizes(cli_json *json, const bo_model_sizes *s)
{
    cli_json_object(json, "sizes");
    cli_json_add_count(json, "context", s->context);
    cli_json_add_count(json, "parameters", (size_t)s->parameters);
    cli_json_add_count(json, "weight_bytes", s->weight_bytes);
    cli_json_add_count(json, "cache_bytes", s->cache_bytes);
    cli_json_add_count(json, "state_bytes", s->state_bytes);
    cli_json_add_number(json, "operations_per_token", s->operations);
    cli_json_add_number(json, "attention_operations_per_token", s->attention_operations);
    cli_json_end(json);
}

static void json_moments(cli_json *json, const char *key, const bo_head_moments *m)
{
    if (!m->dim) return;
    cli_json_object(json, key);
    cli_json_add_number(json, "query_norm", m->query_norm);
    cli_json_add_number(json, "key_norm", m->key_norm);
    cli_json_add_number(json, "largest", m->largest);
    cli_json_add_number(json, "smallest", m->smallest);
    cli_json_add_number(json, "condition", m->condition);
    cli_json_add_number(json, "effective_dimension", m->effective);
    cli_json_add_number(json, "mean_share", m->mean_share);
    cli_json_add_flag(json, "below_sixth", m->largest < 1.0 / 6);
    cli_json_add_flag(json, "below_half", m->largest < 0.5);
    cli_json_add_flag(json, "isotropic_finite", m->isotropic_finite);
    cli_json_add_flag(json, "proposal_finite", m->proposal_finite);
    cli_json_add_number(json, "log_gain", m->log_gain);
    numbers(json, "eigenvalues", m->eigenvalues, m->dim);
    cli_json_end(json);
}

static void json_circuit(cli_json *json, const char *key, const bo_circuit *c)
{
    if (!c->rank) return;
    cli_json_object(json, key);
    cli_json_add_number(json, "effective_rank", c->effective);
    cli_json_add_number(json, "positive", c->positive);
    numbers(json, "singular_values", c->singular, c->rank);
    cli_json_end(json);
}

static void json_behavior(cli_json *json, const bo_head_report *h)
{
    cli_json_add_number(json, "entropy", h->entropy);
    cli_json_add_number(json, "entropy_share", h->entropy_share);
    cli_json_add_number(json, "previous", h->previous);
    cli_json_add_number(json, "self", h->self);
    cli_json_add_number(json, "first", h->first);
    cli_json_add_number(json, "induction", h->induction);
    cli_json_add_number(json, "induction_uniform", h->induction_uniform);
    cli_json_add_number(json, "previous_repeated", h->previous_repeated);
    cli_json_add_number(json, "induction_repeated", h->induction_repeated);
}

static void json_head(cli_json *json, const cli_inspect_job *job, const bo_head_report *h)
{
    const size_t candidates = job->report->candidate_count;
    cli_json_object(json, NULL);
    json_moments(json, "moments", &h->moments);
    json_moments(json, "mapped_moments", &h->mapped);
    json_circuit(json, "qk", &h->qk);
    json_circuit(json, "ov", &h->ov);
    if (cli_inspect_has(job, BO_INSPECT_PART_CIRCUITS)) cli_json_add_number(json, "copying", h->copying);
    if (cli_inspect_has(job, BO_INSPECT_PART_BEHAVIOR)) json_behavior(json, h);
    if (cli_inspect_has(job, BO_INSPECT_PART_ATTRIBUTION)) {
        cli_json_add_number(json, "written", h->written);
        cli_json_add_number(json, "logit", h->logit);
        cli_json_add_number(json, "logit_size", h->logit_size);
        cli_json_add_number(json, "subspace_share", h->subspace_share);
        cli_json_add_count(json, "subspace_dimension", h->writes_dim);
    }
    if (h->errors && cli_inspect_choice(job)) {
        cli_json_add_text(json, "replacement", job->report->candidates[h->choice].name);
        cli_json_add_text(json, "options", job->report->candidates[h->choice].options);
        numbers(json, "errors", h->errors, candidates);
        numbers(json, "predicted", h->predicted, candidates);
    }
    cli_json_end(json);
}

static void json_layers(cli_json *json, const cli_inspect_job *job)
{
    cli_json_array(json, "layers");
    for (size_t l = 0; l < job->report->layer_count; l++) {
        const bo_layer_report *layer = &job->report->layers[l];
        cli_json_object(json, NULL);
        cli_json_add_text(json, "attention", bo_attention_name(layer->attention));
        cli_json_add_count(json, "window", layer->attention->window);
        cli_json_add_count(json, "features", layer->attention->features.features);
        if (job->report->candidate_count) cli_json_add_number(json, "error", layer->error);
        if (cli_inspect_has(job, BO_INSPECT_PART_ATTRIBUTION)) {
            cli_json_add_number(json, "logit", layer->logit);
            cli_json_add_number(json, "stream_norm", layer->stream_norm);
        }
        cli_json_array(json, "heads");
        for (size_t h = 0; h < layer->head_count; h++) json_head(json, job, &job->report->layers[l].heads[h]);
        cli_json_end(json);
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_candidates(cli_json *json, const cli_inspect_job *job)
{
    char advice[CLI_INSPECT_TEXT];
    const bo_inspect_candidate *choice = cli_inspect_choice(job);
    if (!choice) return;
    cli_json_array(json, "replacements");
    for (size_t i = 0; i < job->report->candidate_count; i++) {
        const bo_inspect_candidate *c = &job->report->candidates[i];
        cli_json_object(json, NULL);
        cli_json_add_text(json, "name", c->name);
        cli_json_add_text(json, "options", c->options);
        cli_json_add_count(json, "features", c->features);
        cli_json_add_count(json, "window", c->window);
        cli_json_add_count(json, "state", c->state);
        cli_json_add_number(json, "error", c->error);
        cli_json_end(json);
    }
    cli_json_end(json);
    cli_json_add_number(json, "target", job->report->target);
    cli_json_add_flag(json, "reachable", job->report->reachable);
    cli_json_add_text(json, "replacement", choice->name);
    cli_json_add_text(json, "options", choice->options);
    cli_json_add_text(json, "advice", cli_inspect_advice(job, advice));
}

static void json_separation(cli_json *json, const cli_inspect_job *job)
{
    if (!job->separation) return;
    cli_json_array(json, "separation");
    for (size_t p = 0; p < 1 + 2 * job->desc->layers; p++) {
        cli_json_object(json, NULL);
        cli_json_add_text(json, "after", bo_model_activation(job->inspected.model, p));
        cli_json_add_number(json, "effective_rank", job->separation[p].effective);
        cli_json_add_number(json, "rank_within_tenth", job->separation[p].within);
        cli_json_add_number(json, "interaction", job->separation[p].share);
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_inspect_json(const cli_inspect_job *job)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "directory", job->directory);
    cli_json_add_text(&json, "folder", job->directory); /* former key */
    cli_json_add_count(&json, "tokens", job->report->tokens);
    cli_json_add_count(&json, "windows", job->report->windows);
    cli_json_add_count(&json, "repeated", job->report->repeated);
    cli_json_add_flag(&json, "rotated", job->report->rotated);
    json_sizes(&json, &job->sizes);
    json_candidates(&json, job);
    json_separation(&json, job);
    json_layers(&json, job);
    if (job->options->dump) cli_json_add_count(&json, "arrays", job->arrays);
    cli_json_add_number(&json, "seconds", job->seconds);
    cli_json_end(&json);
}
