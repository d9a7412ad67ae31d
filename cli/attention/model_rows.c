/* bochner attention --advise --model: queries, keys and values of a layer of a language model on a text. */
#include "../inspect/inspect.h"
#include "attention.h"
#include <stdlib.h>
#include <string.h>

typedef struct receiving {
    cli_attention_job *job;
    size_t layer;
    bool found;
} receiving;

/* Copies q, k and v of the layer, which are the first arrays of a layer, and then stops. */
static bool receive(void *user, const bo_inspect_array *array)
{
    receiving *r = user;
    cli_attention_job *job = r->job;
    size_t count = 1;
    if (array->layer != r->layer || array->kind > BO_INSPECT_ARRAY_V) return true;
    for (size_t i = 0; i < array->rank; i++) count *= array->shape[i];
    float *copy = cli_allocate(count, sizeof *copy, "queries, keys and values");
    memcpy(copy, array->values, count * sizeof *copy);
    job->model_rows[array->kind] = copy;
    job->call.sequences = array->shape[0];
    job->call.tokens = job->call.key_tokens = array->shape[2];
    r->found = array->kind == BO_INSPECT_ARRAY_V;
    return !r->found;
}

static bool read_rows(cli_attention_job *job, const cli_inspected *from)
{
    const size_t layers = bo_model_describe(from->model)->layers, layer = job->options->layer;
    receiving r = {job, layer, false};
    const bo_inspect_desc desc = {.no_report = true, .receive = receive, .user = &r};
    bo_inspection *report = NULL;
    if (layer >= layers) {
        cli_fail(job->session, "--layer: %s has layers 0 to %zu, found %zu", job->options->model, layers - 1, layer);
        return false;
    }
    const bo_status status = bo_inspect(job->session->context, from->model, from->ids, from->count, &desc, &report);
    bo_inspection_destroy(report);
    if (!r.found) return cli_attention_ok(job, status);
    const bo_attention_desc *a = bo_attention_describe(bo_model_attention(from->model, layer));
    job->desc = (bo_attention_desc){.heads = a->heads,
                                    .key_heads = a->key_heads,
                                    .dim = a->dim,
                                    .value_dim = a->value_dim,
                                    .causal = true,
                                    .scale = a->scale};
    job->call.q.data = job->model_rows[0];
    job->call.k.data = job->model_rows[1];
    job->call.v.data = job->model_rows[2];
    cli_progress_clear(&job->session->progress);
    cli_note(job->session, "Data        layer %zu of %s: %zu windows of %s tokens, %zu heads of dimension %zu", layer,
             job->options->model, job->call.sequences, cli_count(job->call.tokens).s, a->heads, a->dim);
    return true;
}

bool cli_attention_load_model(cli_attention_job *job)
{
    const cli_inspect_source source = {.directory = job->options->model, .data = &job->options->data};
    cli_inspected from;
    const bool ok = cli_inspected_open(job->session, &source, &from) && read_rows(job, &from);
    cli_inspected_close(&from);
    return ok;
}
