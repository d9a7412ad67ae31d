/* Labels of texts as a graph: an encoder, the last norm, each text pooled to one vector, and a matrix that says how well the
 * vector fits each class; of two texts, what both vectors have to do with each other first.
 *
 *     model.…             as a language model's                score.weight           classes x width
 *     match.weight, .bias of [u, v, u ∘ v, u - v] (MATCH) */
#include "stack.h"

typedef struct recording {
    bo_stack stack;
    const bo_model_graph_desc *desc;
    bo_model_graph *out;
} recording;

static bo_value index_input(const recording *r, const char *name, size_t rows)
{
    return bo_graph_input(r->stack.graph, name, BO_ELEMENT_INT32, rows, 1);
}

static bo_value choose(const recording *r, bo_value which, bo_value x)
{
    return bo_graph_one(r->stack.graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2, (bo_value[]){which, x});
}

static size_t texts_of(const recording *r)
{
    const bool pairs = r->stack.model->desc.task == BO_MODEL_MATCH && r->desc->half != BO_HALF_SOURCE;
    return r->desc->examples * (pairs ? 2 : 1);
}

/* A norm sees rows by themselves: those that nobody chooses need none. */
static bo_value pool(const recording *r, bo_value x)
{
    const bo_pooling pooling = r->stack.model->desc.pooling;
    bo_model_graph *out = r->out;
    bo_graph_scope(r->stack.graph, "pooling");
    if (pooling == BO_POOLING_FIRST || pooling == BO_POOLING_LAST) {
        out->places = index_input(r, "places", texts_of(r));
        return bo_stack_norm(&r->stack, "model.norm", choose(r, out->places, x));
    }
    out->first = index_input(r, "first", texts_of(r) + 1);
    out->places = index_input(r, "places", r->desc->rows);
    bo_aggregate_layer layer = {.kind = pooling == BO_POOLING_MAX ? BO_AGGREGATE_MAX : BO_AGGREGATE_MEAN};
    return bo_nn_aggregate(r->stack.graph, bo_stack_norm(&r->stack, "model.norm", x),
                           &(bo_edges){out->first, out->places}, &layer);
}

static bo_value encode(recording *r)
{
    r->stack = bo_stack_of(r->stack.model, r->desc, r->out);
    if (bo_model_alternates(&r->stack.model->desc))
        r->stack.reversal = r->out->reversal = index_input(r, "reversal", r->desc->rows);
    return pool(r, bo_stack_record(&r->stack, bo_stack_embed(&r->stack, r->out->tokens)));
}

/* ---- labels ----------------------------------------------------------------------------------------------------------- */

static bo_value compare(const recording *r, bo_value pooled)
{
    bo_value *sides = r->out->sides;
    bo_graph_scope(r->stack.graph, "match");
    sides[0] = index_input(r, "left", r->desc->examples);
    sides[1] = index_input(r, "right", r->desc->examples);
    return bo_nn_pair(r->stack.graph, "match", choose(r, sides[0], pooled), choose(r, sides[1], pooled),
                      r->stack.model->desc.width);
}

static void label(const recording *r, bo_value x)
{
    const bo_stack *stack = &r->stack;
    const bo_model_desc *d = &stack->model->desc;
    if (d->task == BO_MODEL_MATCH) x = compare(r, x);
    bo_graph_scope(stack->graph, "output");
    x = bo_nn_dropout(stack->graph, x, d->dropout, BO_STACK_POOLED_STREAM);
    bo_value inputs[3] = {x, bo_stack_head(stack, "score", d->classes)};
    const bo_weight *score = bo_graph_weight_of(stack->graph, inputs[1]);
    const double scale = score ? score->scale : 1;
    if (r->desc->logits) bo_stack_logits(stack, inputs, scale, r->out);
    if (!r->desc->loss) return;
    inputs[2] = r->out->targets = index_input(r, "targets", r->desc->examples);
    bo_stack_loss(stack, inputs, scale, r->desc->smoothing, r->out);
}

void bo_model_graph_labels(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    recording r = {.stack = {.graph = out->graph, .model = model}, .desc = desc, .out = out};
    if (desc->half == BO_HALF_TARGET)
        out->summary = bo_graph_input(out->graph, "pooled", BO_ELEMENT_FLOAT32, texts_of(&r), model->desc.width);
    bo_value pooled = desc->half == BO_HALF_TARGET ? out->summary : encode(&r);
    if (desc->half != BO_HALF_SOURCE) {
        label(&r, pooled);
    } else {
        out->summary = pooled;
        bo_graph_keep(out->graph, pooled);
    }
}
