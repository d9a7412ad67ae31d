/* A model as a graph: embedding, then for each layer mixer and MLP, each after a norm and added to the residual, a
 * norm, and logits or their loss. */
#include <math.h>
#include <stdio.h>
#include "internal.h"

typedef struct recording {
    bo_graph *graph;
    const bo_model *model;
    const bo_model_graph_desc *desc;
    bo_model_graph *out;
} recording;

static bool has_positions(const bo_model_desc *d)
{
    return d->positions != BO_POSITIONS_NONE;
}

static bo_value norm(const recording *r, const char *prefix, bo_value x)
{
    const bo_model_desc *d = &r->model->desc;
    return bo_nn_norm(r->graph, prefix, x,
                      &(bo_norm_layer){.kind = d->norm, .width = d->width, .epsilon = d->norm_epsilon});
}

/* Deviation of a table that is an embedding and the output's matrix too, so that logits begin small. */
#define TIED 0.02

/* Layers of a degree are steep: where the stream begins as small as the table, what norms make of small changes in it grows
 * from layer to layer. Where there are many it begins at size 1; few learn faster from a small one. */
enum { FEW = 8 };
static bool is_steep(const bo_model_desc *d)
{
    if (d->layers <= FEW) return false;
    return d->mlp >= BO_MLP_DEGREE_2 || (d->mixer >= BO_MIXER_DEGREE_2 && d->mixer <= BO_MIXER_DEGREE_E);
}

static bo_value embed(const recording *r)
{
    const bo_model_desc *d = &r->model->desc;
    bo_graph_scope(r->graph, "embedding");
    bo_value x =
        bo_nn_embedding(r->graph, "model.embed_tokens", r->out->tokens, d->vocab, d->width, d->untied ? 1 : TIED);
    if (!d->untied && is_steep(d)) x = bo_nn_factor(r->graph, x, 1 / TIED);
    x = bo_nn_positions(r->graph, "model.embed_positions", x, r->out->positions, d->positions, d->context);
    return bo_nn_dropout(r->graph, x, d->dropout, 0);
}

static bo_attention_layer attention_layer(const bo_model_desc *d, size_t layer, bo_attention *attention)
{
    return (bo_attention_layer){.attention = attention,
                                .positions = d->positions,
                                .rope_base = d->rope_base,
                                .query_norm = d->query_norm == BO_CHOICE_YES,
                                .output_norm = d->output_norm == BO_CHOICE_YES,
                                .bias = d->bias,
                                .epsilon = d->norm_epsilon,
                                .dropout = d->dropout,
                                .sigma = d->sigma,
                                .gate_first = d->gate_first,
                                .gate_last = d->gate_last,
                                .layer = layer};
}

bo_mixer_layer bo_model_mixer(const bo_model_desc *d, size_t layer, bo_attention *attention)
{
    return (bo_mixer_layer){.kind = d->mixer,
                            .attention = attention_layer(d, layer, attention),
                            .width = d->width,
                            .heads = d->heads,
                            .context = d->context,
                            .ssm = d->ssm,
                            .state_size = d->state_size,
                            .state_rank = d->state_rank,
                            .kernel = d->kernel,
                            .bias = d->bias,
                            .epsilon = d->norm_epsilon,
                            .dropout = d->dropout,
                            .layer = layer};
}

static bo_value mixer(const recording *r, size_t layer, const char *prefix, bo_value x)
{
    const bo_model_desc *d = &r->model->desc;
    bo_attention *const *attentions = r->desc->attentions ? r->desc->attentions : r->model->attentions;
    bo_mixer_layer desc = bo_model_mixer(d, layer, attentions[layer]);
    const char *name = bo_nn_mixer_attends(d->mixer) ? ".self_attn" : ".mixer";
    desc.tokens = desc.attention.tokens = r->desc->tokens;
    desc.most_sequences = desc.attention.most_sequences = r->desc->most_sequences;
    bo_graph_scope(r->graph, "layer %zu %s", layer, bo_mixer_name(d->mixer));
    bo_value normed = norm(r, bo_nn_join(prefix, ".input_layernorm").text, x);
    return bo_nn_mixer(r->graph, bo_nn_join(prefix, name).text, normed, x, r->out->positions, &desc);
}

static bo_value mlp(const recording *r, size_t layer, const char *prefix, bo_value x)
{
    const bo_model_desc *d = &r->model->desc;
    bo_mlp_layer desc = {.kind = d->mlp,
                         .hidden = d->hidden,
                         .features = r->model->mlp_maps ? r->model->mlp_maps[layer] : NULL,
                         .heads = d->degree_heads,
                         .bias = d->bias,
                         .dropout = d->dropout,
                         .epsilon = d->norm_epsilon,
                         .layer = layer};
    if (d->mlp == BO_MLP_NONE) return x;
    bo_graph_scope(r->graph, "layer %zu mlp", layer);
    bo_value normed = norm(r, bo_nn_join(prefix, ".post_attention_layernorm").text, x);
    return bo_nn_mlp(r->graph, bo_nn_join(prefix, ".mlp").text, normed, x, &desc);
}

/* The matrix of the output projection: the embedding's, or its own. */
static bo_value head(const recording *r)
{
    const bo_model_desc *d = &r->model->desc;
    bo_weight tied = {.name = "model.embed_tokens.weight",
                      .rank = 2,
                      .shape = {d->vocab, d->width},
                      .role = BO_WEIGHT_EMBEDDING,
                      .init = {.law = BO_INIT_NORMAL, .b = TIED}};
    bo_weight own = tied;
    own.name = "lm_head.weight";
    own.role = BO_WEIGHT_HEAD;
    own.init = (bo_init){.law = BO_INIT_NORMAL, .b = 1 / sqrt((double)d->width)};
    if (d->parametrization == BO_PARAMETRIZATION_UNIT) own.init.b = 1, own.scale = 1 / (double)d->width;
    return bo_graph_weight(r->graph, d->untied ? &own : &tied);
}

/* Of the logits. A table that is an embedding too follows that rule (its steps do not shrink with the width), so what a head
 * of its own would have in front of it stands here. */
static double logit_scale(const recording *r, bo_value matrix)
{
    const bo_weight *w = bo_graph_weight_of(r->graph, matrix);
    if (!w) return 1;
    return r->model->desc.untied ? w->scale : 1 / w->out;
}

static void finish(const recording *r, bo_value x)
{
    bo_model_graph *out = r->out;
    bo_graph_scope(r->graph, "output");
    if (r->desc->loss) {
        bo_value results[BO_OP_OUTPUTS] = {0};
        bo_value inputs[3] = {norm(r, "model.norm", x), head(r), out->targets};
        bo_cross_entropy_attributes attributes = {.scale = logit_scale(r, inputs[1])};
        bo_graph_apply(r->graph, BO_OP_CROSS_ENTROPY, &attributes, 3, inputs, results);
        out->loss = results[0];
        out->losses = results[1];
        bo_graph_keep(r->graph, out->loss);
        bo_graph_keep(r->graph, out->losses);
    }
    if (r->desc->logits) {
        if (out->chosen)
            x = bo_graph_one(r->graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2, (bo_value[]){out->chosen, x});
        bo_value inputs[2] = {norm(r, "model.norm", x), head(r)};
        bo_linear_attributes attributes = {.weights = 1, .scale = logit_scale(r, inputs[1])};
        out->logits = bo_graph_one(r->graph, BO_OP_LINEAR, &attributes, 2, inputs);
        bo_graph_keep(r->graph, out->logits);
    }
}

static void watch(const recording *r, size_t part, bo_value x)
{
    if (!r->desc->stream) return;
    r->desc->stream[part] = x;
    bo_graph_keep(r->graph, x);
}

static void record(const recording *r)
{
    const bo_model_desc *d = &r->model->desc;
    size_t rows = r->desc->rows, chosen = r->desc->chosen ? r->desc->chosen : 1;
    bo_model_graph *out = r->out;
    out->tokens = bo_graph_input(r->graph, "tokens", BO_ELEMENT_INT32, rows, 1);
    if (has_positions(d)) out->positions = bo_graph_input(r->graph, "positions", BO_ELEMENT_INT32, rows, 1);
    if (r->desc->loss) out->targets = bo_graph_input(r->graph, "targets", BO_ELEMENT_INT32, rows, 1);
    if (r->desc->logits && rows > 1) out->chosen = bo_graph_input(r->graph, "chosen", BO_ELEMENT_INT32, chosen, 1);
    bo_value x = embed(r);
    watch(r, 0, x);
    for (size_t i = 0; i < d->layers; i++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "model.layers.%zu", i);
        bo_graph_segment_begin(r->graph);
        x = mixer(r, i, prefix, x);
        watch(r, 1 + 2 * i, x);
        x = mlp(r, i, prefix, x);
        watch(r, 2 + 2 * i, x);
        bo_graph_segment_end(r->graph);
    }
    finish(r, x);
}

bo_status bo_model_graph_create(bo_context *context, const bo_model *model, const bo_model_graph_desc *desc,
                                bo_model_graph *out)
{
    *out = (bo_model_graph){0};
    if (!desc->rows) return bo_fail(context, BO_INVALID, "a graph of a model over no tokens");
    BO_TRY(bo_graph_create(context, model->weights, &out->graph));
    record(&(recording){out->graph, model, desc, out});
    bo_graph_desc plan = {
        .loss = out->loss, .gradients = desc->gradients, .checkpoint = desc->checkpoint, .bfloat16 = desc->bfloat16};
    bo_status status = bo_graph_plan(context, out->graph, &plan);
    if (status != BO_OK) bo_model_graph_destroy(out);
    return status;
}

void bo_model_graph_destroy(bo_model_graph *graph)
{
    bo_graph_destroy(graph->graph);
    *graph = (bo_model_graph){0};
}
