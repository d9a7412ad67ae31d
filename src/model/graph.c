/* A language model as a graph: a stack of layers, a norm, and logits or their loss. */
#include <math.h>
#include "stack.h"

typedef struct recording {
    bo_stack stack;
    const bo_model_graph_desc *desc;
    bo_model_graph *out;
} recording;

/* The matrix of the output projection: the embedding's, or its own. */
static bo_value head(const recording *r)
{
    const bo_model_desc *d = &r->stack.model->desc;
    bo_weight tied = {.name = "model.embed_tokens.weight",
                      .rank = 2,
                      .shape = {d->vocab, d->width},
                      .role = BO_WEIGHT_EMBEDDING,
                      .init = {.law = BO_INIT_NORMAL, .b = BO_STACK_TIED}};
    bo_weight own = tied;
    own.name = "lm_head.weight";
    own.role = BO_WEIGHT_HEAD;
    own.init = (bo_init){.law = BO_INIT_NORMAL, .b = 1 / sqrt((double)d->width)};
    if (d->parametrization == BO_PARAMETRIZATION_UNIT) own.init.b = 1, own.scale = 1 / (double)d->width;
    return bo_graph_weight(r->stack.graph, d->untied ? &own : &tied);
}

/* Of the logits. A table that is an embedding too follows that rule (its steps do not shrink with the width), so what a head
 * of its own would have in front of it stands here. */
static double logit_scale(const recording *r, bo_value matrix)
{
    const bo_weight *w = bo_graph_weight_of(r->stack.graph, matrix);
    if (!w) return 1;
    return r->stack.model->desc.untied ? w->scale : 1 / w->out;
}

static void finish(const recording *r, bo_value x)
{
    bo_model_graph *out = r->out;
    bo_graph_scope(r->stack.graph, "output");
    if (r->desc->loss) {
        bo_value results[BO_OP_OUTPUTS] = {0};
        bo_value inputs[3] = {bo_stack_norm(&r->stack, "model.norm", x), head(r), out->targets};
        bo_cross_entropy_attributes attributes = {.scale = logit_scale(r, inputs[1])};
        bo_graph_apply(r->stack.graph, BO_OP_CROSS_ENTROPY, &attributes, 3, inputs, results);
        out->loss = results[0];
        out->losses = results[1];
        bo_graph_keep(r->stack.graph, out->loss);
        bo_graph_keep(r->stack.graph, out->losses);
    }
    if (r->desc->logits) {
        if (out->chosen)
            x = bo_graph_one(r->stack.graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2, (bo_value[]){out->chosen, x});
        bo_value inputs[2] = {bo_stack_norm(&r->stack, "model.norm", x), head(r)};
        bo_linear_attributes attributes = {.weights = 1, .scale = logit_scale(r, inputs[1])};
        out->logits = bo_graph_one(r->stack.graph, BO_OP_LINEAR, &attributes, 2, inputs);
        bo_graph_keep(r->stack.graph, out->logits);
    }
}

static void record(recording *r)
{
    bo_graph *graph = r->stack.graph;
    size_t rows = r->desc->rows, chosen = r->desc->chosen ? r->desc->chosen : 1;
    bo_model_graph *out = r->out;
    out->tokens = bo_graph_input(graph, "tokens", BO_ELEMENT_INT32, rows, 1);
    if (bo_stack_has_positions(&r->stack.model->desc))
        r->stack.positions = out->positions = bo_graph_input(graph, "positions", BO_ELEMENT_INT32, rows, 1);
    if (r->desc->loss) out->targets = bo_graph_input(graph, "targets", BO_ELEMENT_INT32, rows, 1);
    if (r->desc->logits && rows > 1) out->chosen = bo_graph_input(graph, "chosen", BO_ELEMENT_INT32, chosen, 1);
    finish(r, bo_stack_record(&r->stack, bo_stack_embed(&r->stack, out->tokens)));
}

void bo_model_graph_language(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    recording r = {.stack = {.graph = out->graph,
                             .model = model,
                             .root = "model",
                             .layers = model->desc.layers,
                             .attentions = desc->attentions ? desc->attentions : model->attentions,
                             .mlp_maps = model->mlp_maps,
                             .tokens = desc->tokens,
                             .most_sequences = desc->most_sequences,
                             .watched = desc->stream},
                   .desc = desc,
                   .out = out};
    record(&r);
}

bo_status bo_model_graph_create(bo_context *context, const bo_model *model, const bo_model_graph_desc *desc,
                                bo_model_graph *out)
{
    *out = (bo_model_graph){0};
    if (!desc->rows) return bo_fail(context, BO_INVALID, "a graph of a model over no tokens");
    BO_TRY(bo_graph_create(context, model->weights, &out->graph));
    bo_model_graph_language(model, desc, out);
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
