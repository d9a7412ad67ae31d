/* A language model as a graph: a stack of layers, a norm, and logits or their loss. */
#include <math.h>
#include "stack.h"

bo_value bo_stack_head(const bo_stack *s, const char *prefix, size_t rows)
{
    const bo_model_desc *d = &s->model->desc;
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    bo_weight own = {.name = name.text,
                     .rank = 2,
                     .shape = {rows, d->width},
                     .role = BO_WEIGHT_HEAD,
                     .init = {.law = BO_INIT_NORMAL, .b = 1 / sqrt((double)d->width)}};
    if (d->parametrization == BO_PARAMETRIZATION_UNIT) own.init.b = 1, own.scale = 1 / (double)d->width;
    return bo_graph_weight(s->graph, &own);
}

/* The matrix of the output projection: the embedding's, or its own. */
static bo_value head(const bo_stack *s)
{
    const bo_model_desc *d = &s->model->desc;
    bo_weight tied = {.name = "model.embed_tokens.weight",
                      .rank = 2,
                      .shape = {d->vocab, d->width},
                      .role = BO_WEIGHT_EMBEDDING,
                      .init = {.law = BO_INIT_NORMAL, .b = BO_STACK_TIED}};
    return d->untied ? bo_stack_head(s, "lm_head", d->vocab) : bo_graph_weight(s->graph, &tied);
}

/* Of the logits. A table that is an embedding too follows that rule (its steps do not shrink with the width), so what a head
 * of its own would have in front of it stands here. */
static double logit_scale(const bo_stack *s, bo_value matrix)
{
    const bo_weight *w = bo_graph_weight_of(s->graph, matrix);
    if (!w) return 1;
    return s->model->desc.untied ? w->scale : 1 / w->out;
}

static void record_loss(const bo_stack *s, const bo_model_graph_desc *desc, bo_model_graph *out, bo_value x)
{
    bo_value inputs[3] = {bo_stack_norm(s, "model.norm", x), head(s)};
    inputs[2] = out->targets = bo_graph_input(s->graph, "targets", BO_ELEMENT_INT32, desc->rows, 1);
    bo_stack_loss(s, inputs, logit_scale(s, inputs[1]), desc->smoothing, out);
}

static void record_logits(const bo_stack *s, const bo_model_graph_desc *desc, bo_model_graph *out, bo_value x)
{
    const size_t chosen = desc->chosen ? desc->chosen : 1;
    if (chosen != desc->rows) {
        out->chosen = bo_graph_input(s->graph, "chosen", BO_ELEMENT_INT32, chosen, 1);
        x = bo_graph_one(s->graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2, (bo_value[]){out->chosen, x});
    }
    bo_value inputs[2] = {bo_stack_norm(s, "model.norm", x), head(s)};
    bo_stack_logits(s, inputs, logit_scale(s, inputs[1]), out);
}

void bo_model_graph_finish(const bo_stack *stack, const bo_model_graph_desc *desc, bo_model_graph *out, bo_value x)
{
    bo_graph_scope(stack->graph, "output");
    if (desc->loss) record_loss(stack, desc, out, x);
    if (desc->logits) record_logits(stack, desc, out, x);
}

void bo_model_graph_language(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    bo_stack stack = bo_stack_of(model, desc, out);
    bo_model_graph_finish(&stack, desc, out, bo_stack_record(&stack, bo_stack_embed(&stack, out->tokens)));
}

bo_status bo_model_graph_create(bo_context *context, const bo_model *model, const bo_model_graph_desc *desc,
                                bo_model_graph *out)
{
    static void (*const record[BO_MODEL_TASK_COUNT])(const bo_model *, const bo_model_graph_desc *,
                                                     bo_model_graph *) = {[BO_MODEL_LANGUAGE] = bo_model_graph_language,
                                                                          [BO_MODEL_CLASSIFY] = bo_model_graph_labels,
                                                                          [BO_MODEL_MATCH] = bo_model_graph_labels,
                                                                          [BO_MODEL_TRANSLATE] =
                                                                              bo_model_graph_translate};
    *out = (bo_model_graph){0};
    if (!desc->rows) return bo_fail(context, BO_INVALID, "a graph of a model over no tokens");
    BO_TRY(bo_graph_create(context, model->weights, &out->graph));
    record[model->desc.task](model, desc, out);
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
