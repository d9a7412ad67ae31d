/* Memory and operations of a model for a given text length. */
#include "../model/enums.h"
#include "internal.h"

/* Adds the KV cache of a layer for a text of `tokens` tokens. */
static bo_status add_cache(bo_context *context, const bo_attention_desc *attention, size_t tokens, bo_model_sizes *out)
{
    bo_attention_desc desc = *attention;
    bo_attention *sized;
    desc.capacity = desc.window ? bo_min(desc.window, tokens) : tokens;
    BO_TRY(bo_attention_create(context, &desc, &sized));
    out->cache_bytes += bo_attention_state_bytes(sized);
    bo_attention_destroy(sized);
    return BO_OK;
}

static bo_status add_attention(bo_context *context, const bo_attention *attention, size_t tokens, bo_model_sizes *out)
{
    const bo_attention_desc *desc = bo_attention_describe(attention);
    const bo_attention_shape shape = {.sequences = 1, .tokens = tokens};
    bo_attention_cost cost = {0};
    if (bo_attention_has(desc, BO_TRAIT_CAPACITY))
        BO_TRY(add_cache(context, desc, tokens, out));
    else
        out->state_bytes += bo_attention_state_bytes(attention);
    BO_TRY(bo_attention_estimate_arrays(context, attention, &shape, &cost));
    out->attention_operations += cost.operations / (double)tokens;
    return BO_OK;
}

static bo_status count_operations(bo_context *context, const bo_model *model, size_t tokens, bo_model_sizes *out)
{
    bo_model_graph graph;
    const bo_model_graph_desc desc = {.rows = tokens, .tokens = tokens, .outputs = true, .chosen = tokens};
    BO_TRY(bo_model_graph_create(context, model, &desc, &graph));
    out->operations = bo_graph_describe(graph.graph)->flops / (double)tokens;
    bo_model_graph_destroy(&graph);
    return BO_OK;
}

bo_status bo_model_measure(bo_context *context, const bo_model *model, size_t tokens, bo_model_sizes *out)
{
    if (out) *out = (bo_model_sizes){0};
    BO_REQUIRE(context, model, out);
    const bo_model_desc *d = &model->desc;
    const size_t positions = bo_model_positions_kind(d) == BO_POSITIONS_LEARNED ? d->context : INT32_MAX;
    if (d->task != BO_MODEL_TASK_LANGUAGE)
        return bo_fail(context, BO_INVALID, "sizes: expected a language model, found a model of task %s",
                       bo_model_task_name(d->task));
    if (!tokens) tokens = d->context;
    if (tokens > positions)
        return bo_fail(context, BO_INVALID, "sizes: a text of %zu tokens, but the model has only %zu positions", tokens,
                       positions);
    out->context = tokens;
    out->parameters = bo_model_report(model)->parameters;
    out->weight_bytes = bo_model_report(model)->bytes;
    for (size_t l = 0; l < d->layers; l++)
        if (bo_model_attention(model, l))
            BO_TRY(add_attention(context, bo_model_attention(model, l), tokens, out));
        else
            out->state_bytes += bo_layer_state_bytes(d, l, NULL);
    return count_operations(context, model, tokens, out);
}
