/* A transformer of CPU operations, recorded directly, to test plans. */
#ifndef BO_TEST_TRANSFORMER_H
#define BO_TEST_TRANSFORMER_H

#include "testing.h"
#include "tape/internal.h"

typedef struct transformer_desc {
    size_t layers, width, heads, tokens, sequences, vocab;
    const char *attention; /* a preset; its gate is projected from the tokens */
    double dropout;
    bool gated_mlp;
} transformer_desc;

typedef struct transformer {
    bo_context *context;
    const transformer_desc *desc;
    bo_attention *attention;
    bo_weights *weights;
    bo_graph *graph;
    bo_value tokens, targets, positions, loss;
} transformer;

static bo_value transformer_weight(transformer *t, size_t layer, const char *name, size_t rows, size_t columns)
{
    char full[64];
    snprintf(full, sizeof full, "layer %zu %s", layer, name);
    bo_weight_init init = {.kind = rows == 1 ? BO_WEIGHT_INIT_KIND_ONE : BO_WEIGHT_INIT_KIND_NORMAL,
                           .b = 1 / sqrt((double)columns)};
    return bo_graph_weight(
        t->graph, &(bo_weight_desc){.name = full, .rank = 2, .shape = (size_t[]){rows, columns}, .init = init});
}

static bo_value transformer_norm(transformer *t, size_t layer, const char *name, bo_value x)
{
    size_t width = t->desc->width;
    return bo_graph_one(t->graph, BO_OPERATION_NORM,
                        &(bo_norm_attributes){.width = width, .epsilon = 1e-5, .gain = true}, 2,
                        (bo_value[]){x, transformer_weight(t, layer, name, 1, width)});
}

static bo_value transformer_linear(transformer *t, size_t layer, const char *name, bo_value x, size_t out, bo_value to)
{
    return bo_graph_one(t->graph, BO_OPERATION_LINEAR, &(bo_linear_attributes){.weights = 1, .residual = to != 0},
                        to ? 3 : 2,
                        (bo_value[]){x, transformer_weight(t, layer, name, out, bo_graph_columns(t->graph, x)), to});
}

static bo_value transformer_attention(transformer *t, size_t l, bo_value x, bo_value residual)
{
    const transformer_desc *d = t->desc;
    size_t width = d->width;
    bo_value qkv[3], inputs[4];
    bool gate = !strcmp(d->attention, "rfa-gate");
    qkv[0] = bo_graph_one(t->graph, BO_OPERATION_LINEAR, &(bo_linear_attributes){.weights = 3}, 4,
                          (bo_value[]){x, transformer_weight(t, l, "q", width, width),
                                       transformer_weight(t, l, "k", width, width),
                                       transformer_weight(t, l, "v", width, width)});
    for (size_t i = 1; i < 3; i++) qkv[i] = bo_graph_output(t->graph, qkv[0], i);
    for (size_t i = 0; i < 2; i++)
        inputs[i] = bo_graph_one(t->graph, BO_OPERATION_ROPE, &(bo_rope_attributes){.dim = width / d->heads}, 2,
                                 (bo_value[]){qkv[i], t->positions});
    inputs[2] = qkv[2];
    if (gate)
        inputs[3] = bo_graph_one(t->graph, BO_OPERATION_UNARY, &(bo_unary_attributes){.function = BO_UNARY_LOG_SIGMOID},
                                 1, (bo_value[]){transformer_linear(t, l, "gate", x, d->heads, 0)});
    bo_attention_attributes attributes = {
        .attention = t->attention, .layer = l, .tokens = d->tokens, .given = gate ? BO_ATTENTION_GIVEN_LOG_GATE : 0};
    bo_value mixed = bo_graph_one(t->graph, BO_OPERATION_ATTENTION, &attributes, 3 + gate, inputs);
    if (d->dropout > 0)
        mixed = bo_graph_one(t->graph, BO_OPERATION_DROPOUT, &(bo_dropout_attributes){d->dropout, l}, 1,
                             (bo_value[]){mixed});
    return transformer_linear(t, l, "o", mixed, width, residual);
}

static bo_value transformer_mlp(transformer *t, size_t l, bo_value x, bo_value residual)
{
    size_t hidden = 4 * t->desc->width;
    bo_value up = transformer_linear(t, l, "up", x, hidden, 0);
    if (t->desc->gated_mlp)
        up = bo_graph_one(t->graph, BO_OPERATION_GLU, &(bo_unary_attributes){.function = BO_UNARY_SILU}, 2,
                          (bo_value[]){transformer_linear(t, l, "gate of the mlp", x, hidden, 0), up});
    else
        up = bo_graph_one(t->graph, BO_OPERATION_UNARY, &(bo_unary_attributes){.function = BO_UNARY_RELU2}, 1, &up);
    return transformer_linear(t, l, "down", up, t->desc->width, residual);
}

static void transformer_record(transformer *t)
{
    const transformer_desc *d = t->desc;
    size_t rows = d->tokens * d->sequences;
    t->tokens = bo_graph_input(t->graph, "tokens", BO_ELEMENT_INT32, rows, 1);
    t->targets = bo_graph_input(t->graph, "targets", BO_ELEMENT_INT32, rows, 1);
    t->positions = bo_graph_input(t->graph, "positions", BO_ELEMENT_INT32, rows, 1);
    bo_value table = transformer_weight(t, 0, "table", d->vocab, d->width);
    bo_value x = bo_graph_one(t->graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){t->tokens, table});
    for (size_t l = 0; l < d->layers; l++) {
        bo_graph_segment(t->graph, true);
        bo_graph_scope(t->graph, "layer %zu attention", l);
        x = transformer_attention(t, l, transformer_norm(t, l, "norm 1", x), x);
        bo_graph_scope(t->graph, "layer %zu mlp", l);
        x = transformer_mlp(t, l, transformer_norm(t, l, "norm 2", x), x);
        bo_graph_segment(t->graph, false);
    }
    bo_graph_scope(t->graph, "head");
    x = transformer_norm(t, d->layers, "norm", x);
    t->loss = bo_graph_one(t->graph, BO_OPERATION_CROSS_ENTROPY, &(bo_cross_entropy_attributes){0}, 3,
                           (bo_value[]){x, table, t->targets});
}

/* Recorded with a backend that has the operations of the CPU. */
static transformer transformer_create(bo_context *context, bo_device *device, const transformer_desc *desc)
{
    transformer t = {.context = context, .desc = desc};
    bo_attention_desc attention = {.heads = desc->heads,
                                   .dim = desc->width / desc->heads,
                                   .causal = true,
                                   .features = {.features = 32, .seed = 1}};
    assert_true(bo_attention_preset(desc->attention, &attention));
    assert_ok(context, bo_attention_create(context, &attention, &t.attention));
    if (!bo_device_is_gpu(device)) assert_ok(context, bo_context_use_device(context, "cpu"));
    assert_ok(context, bo_weights_create_on(context, device, &t.weights));
    assert_ok(context, bo_graph_create(context, t.weights, &t.graph));
    transformer_record(&t);
    return t;
}

static void transformer_drop(transformer *t)
{
    bo_graph_destroy(t->graph);
    bo_weights_destroy(t->weights);
    bo_attention_destroy(t->attention);
}

/* The function sets the loss in `desc`. */
static void transformer_plan(transformer *t, bo_graph_compile_desc desc)
{
    desc.loss = t->loss;
    assert_ok(t->context, bo_graph_compile(t->context, t->graph, &desc));
}

#endif
