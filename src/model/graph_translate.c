/* A translator as a graph: an encoder of the source, and a decoder of the target that asks it in every layer, between mixer and
 * MLP, or that sees of it one summary alone.
 *
 *     model.embed_tokens                     of source and target, and, tied, of the output
 *     model.encoder.layers.i, .norm          the encoder
 *     model.layers.i.encoder_attn, .encoder_attn_layer_norm      cross attention
 *     model.summary                          what brings the summary to the target's embedding */
#include "stack.h"

typedef struct recording {
    const bo_model *model;
    const bo_model_graph_desc *desc;
    bo_model_graph *out;
    bo_attention *const *attentions; /* by place */
} recording;

static bo_value index_input(const recording *r, const char *name, size_t rows)
{
    return bo_graph_input(r->out->graph, name, BO_ELEMENT_INT32, rows, 1);
}

/* ---- the encoder -------------------------------------------------------------------------------------------------- */

/* A summary is the last token's: it knows all of the source only where every layer reads forwards. */
static bool reads_backwards(const bo_model_desc *d)
{
    return d->cross != BO_CROSS_SUMMARY && bo_model_alternates(d);
}

static bo_value encode(const recording *r)
{
    const bo_model_desc *d = &r->model->desc;
    bo_model_graph *out = r->out;
    size_t rows = r->desc->source_rows;
    size_t first = bo_model_place(d, BO_MODEL_PART_ENCODER);
    bo_stack stack = {.graph = out->graph,
                      .model = r->model,
                      .root = "model.encoder",
                      .layers = d->encoder_layers,
                      .attentions = r->attentions + first,
                      .mlp_maps = r->model->mlp_maps ? r->model->mlp_maps + first : NULL,
                      .number = first,
                      .tokens = r->desc->source_tokens,
                      .most_sequences = r->desc->most_sequences,
                      .source = true};
    out->source_tokens = index_input(r, "source tokens", rows);
    if (bo_stack_has_positions(d)) stack.positions = out->source_positions = index_input(r, "source positions", rows);
    if (reads_backwards(d)) stack.reversal = out->source_reversal = index_input(r, "source reversal", rows);
    bo_value x = bo_stack_record(&stack, bo_stack_embed(&stack, out->source_tokens));
    bo_graph_scope(out->graph, "encoder output");
    return bo_stack_norm(&stack, "model.encoder.norm", x);
}

/* ---- what the decoder sees of it ----------------------------------------------------------------------------------- */

typedef struct asked {
    const recording *r;
    bo_value encoded; /* 0: states have read it */
} asked;

static bo_attention_layer cross_layer(const recording *r, size_t layer)
{
    const bo_model_desc *d = &r->model->desc;
    bo_attention *attention = r->attentions[bo_model_place(d, BO_MODEL_PART_CROSS) + layer];
    bo_attention_layer desc = bo_model_cross_layer(d, layer, attention);
    desc.tokens = r->desc->tokens;
    desc.key_tokens = r->desc->source_tokens;
    desc.most_sequences = r->desc->most_sequences;
    bo_graph_scope(r->out->graph, "layer %zu cross attention", layer);
    return desc;
}

static bo_value ask(const bo_stack *stack, size_t layer, const char *prefix, bo_value x, const void *user)
{
    const asked *source = user;
    bo_attention_layer desc = cross_layer(source->r, layer);
    bo_value normed = bo_stack_norm(stack, bo_nn_join(prefix, ".encoder_attn_layer_norm").text, x);
    return bo_nn_cross(stack->graph, bo_nn_join(prefix, ".encoder_attn").text, normed, source->encoded, x, &desc);
}

/* Sources into states, layer by layer. */
static void read_source(const recording *r, bo_value encoded)
{
    const bo_model_desc *d = &r->model->desc;
    r->out->queries =
        bo_graph_input(r->out->graph, "queries", BO_ELEMENT_FLOAT32, r->desc->rows, d->heads * d->head_dim);
    for (size_t i = 0; i < d->layers; i++) {
        char prefix[64];
        bo_attention_layer desc = cross_layer(r, i);
        snprintf(prefix, sizeof prefix, "model.layers.%zu.encoder_attn", i);
        bo_nn_cross_read(r->out->graph, prefix, r->out->queries, encoded, &desc);
    }
}

static bo_value summarize(const recording *r, bo_value encoded)
{
    r->out->sources = index_input(r, "sources", r->desc->rows);
    return bo_graph_one(r->out->graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2,
                        (bo_value[]){r->out->sources, encoded});
}

static bo_value add_summary(const recording *r, bo_value summary, bo_value x)
{
    bo_graph_scope(r->out->graph, "summary");
    bo_linear_desc desc = {
        .out = r->model->desc.width, .bias = r->model->desc.bias, .init = {.law = BO_INIT_ZERO, .a = 1}, .residual = x};
    return bo_nn_linear(r->out->graph, "model.summary", summary, &desc);
}

/* ---- the decoder --------------------------------------------------------------------------------------------------- */

/* encoded 0: what was read before is asked. */
static void decode(const recording *r, bo_value encoded)
{
    const bo_model_desc *d = &r->model->desc;
    bo_model_graph *out = r->out;
    asked source = {r, encoded};
    bo_stack stack = bo_stack_of(r->model, r->desc, out);
    bo_value x = bo_stack_embed(&stack, out->tokens);
    if (d->cross == BO_CROSS_SUMMARY) {
        if (!encoded) out->summary = bo_graph_input(out->graph, "summary", BO_ELEMENT_FLOAT32, r->desc->rows, d->width);
        x = add_summary(r, encoded ? summarize(r, encoded) : out->summary, x);
    } else {
        stack.between = ask;
        stack.user = &source;
    }
    bo_model_graph_finish(&stack, r->desc, out, bo_stack_record(&stack, x));
}

void bo_model_graph_translate(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    recording r = {model, desc, out, desc->attentions ? desc->attentions : model->attentions};
    bo_value encoded = desc->half == BO_HALF_TARGET ? 0 : encode(&r);
    if (desc->half != BO_HALF_SOURCE) {
        decode(&r, encoded);
    } else if (model->desc.cross != BO_CROSS_SUMMARY) {
        read_source(&r, encoded);
    } else {
        out->summary = summarize(&r, encoded);
        bo_graph_keep(out->graph, out->summary);
    }
}
