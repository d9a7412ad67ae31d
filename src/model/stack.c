/* A stack of layers. */
#include "../nn/enums.h"
#include "stack.h"
#include <stdio.h>
#include <string.h>

bool bo_stack_has_positions(const bo_model_desc *d)
{
    return bo_model_positions_kind(d) != BO_POSITIONS_NONE;
}

bo_stack bo_stack_of(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out)
{
    bo_stack stack = {.graph = out->graph,
                      .desc = &model->desc,
                      .root = "model",
                      .layers = model->desc.layers,
                      .attentions = desc->attentions ? desc->attentions : model->attentions,
                      .mlp_maps = model->mlp_maps,
                      .mlp_layers = model->mlp_layers,
                      .tokens = desc->tokens,
                      .max_sequences = desc->max_sequences,
                      .watched = desc->stream,
                      .values = desc->values};
    out->tokens = bo_graph_input(out->graph, "tokens", BO_ELEMENT_INT32, desc->rows, 1);
    if (bo_stack_has_positions(&model->desc))
        out->positions = bo_graph_input(out->graph, "positions", BO_ELEMENT_INT32, desc->rows, 1);
    stack.positions = out->positions;
    return stack;
}

const bo_block *bo_stack_block(const bo_stack *s, size_t layer)
{
    return bo_block_at(s->desc, s->number + layer);
}

static bo_norm_layer norm_layer(const bo_stack *s, size_t layer)
{
    const bo_block *b = bo_stack_block(s, layer);
    return (bo_norm_layer){.kind = b->norm, .width = s->desc->width, .epsilon = b->norm_epsilon};
}

bo_value bo_stack_norm(const bo_stack *s, size_t layer, const char *prefix, bo_value x)
{
    const bo_norm_layer desc = norm_layer(s, layer);
    return bo_nn_norm(s->graph, prefix, x, &desc);
}

bo_value bo_stack_last_norm(const bo_stack *s, const char *prefix, bo_value x)
{
    return bo_stack_norm(s, s->layers - 1, prefix, x);
}

/* The names of the norms of a layer, and the order of its branches. */
static const bo_residual_rule *rule_of(const bo_stack *s, size_t layer)
{
    return bo_residual_rule_of(bo_stack_block(s, layer)->residual);
}

/* The prefix of a weight of a layer. name: NULL: "" */
static bo_nn_name part_of(const char *prefix, const char *name)
{
    return name ? bo_nn_join(bo_nn_join(prefix, ".").text, name) : (bo_nn_name){0};
}

/* Records a norm of the input of a branch. name: NULL: none */
static bo_value input_norm(const bo_stack *s, size_t layer, const char *prefix, const char *name, bo_value x)
{
    return name ? bo_stack_norm(s, layer, part_of(prefix, name).text, x) : x;
}

void bo_stack_loss(const bo_stack *s, const bo_stack_head *head, bo_value targets, double smoothing,
                   bo_model_graph *out)
{
    const bool bias = head->bias != 0;
    bo_cross_entropy_attributes attributes = {.scale = head->scale, .smoothing = smoothing, .bias = bias};
    bo_value inputs[5] = {head->x, head->matrix, targets, head->bias};
    size_t count = bias ? 4 : 3;
    if (head->taught) attributes.teacher = head->share, inputs[count++] = head->taught;
    out->loss = bo_graph_one(s->graph, BO_OPERATION_CROSS_ENTROPY, &attributes, count, inputs);
    out->losses = bo_graph_output(s->graph, out->loss, 1);
    bo_graph_keep(s->graph, out->loss);
    bo_graph_keep(s->graph, out->losses);
}

void bo_stack_logits(const bo_stack *s, const bo_stack_head *head, bo_model_graph *out)
{
    const bool bias = head->bias != 0;
    bo_linear_attributes attributes = {.weights = 1, .scale = head->scale, .bias = bias};
    const bo_value inputs[3] = {head->x, head->matrix, head->bias};
    out->outputs = bo_graph_one(s->graph, BO_OPERATION_LINEAR, &attributes, bias ? 3 : 2, inputs);
    bo_graph_keep(s->graph, out->outputs);
}

static void watch(const bo_stack *s, size_t part, bo_value x)
{
    if (!s->watched) return;
    s->watched[part] = x;
    bo_graph_keep(s->graph, x);
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

/* Layers of a given degree are steep: if the stream starts at the scale of the embedding table, norms amplify small
 * changes from layer to layer. Deep stacks therefore start at scale 1. Shallow stacks learn faster from a small
 * start. */
enum { FEW = 8 };
static bool is_steep(const bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    bool degree = false;
    for (size_t i = 0; i < list.count; i++) {
        const bo_block *b = &list.blocks[i];
        degree = degree || (b->mlp >= BO_MLP_DEGREE_2 && b->mlp <= BO_MLP_QUADRATIC) ||
                 (b->mixer >= BO_MIXER_DEGREE_2 && b->mixer <= BO_MIXER_DEGREE_E);
    }
    return degree && d->layers > FEW;
}

bo_value bo_stack_embed(const bo_stack *s, bo_value tokens)
{
    const bo_model_desc *d = s->desc;
    bo_graph_scope(s->graph, s->source ? "source embedding" : "embedding");
    bo_value x =
        bo_nn_embedding(s->graph, "model.embed_tokens", tokens, d->vocab, d->width, d->untied ? 1 : BO_STACK_TIED);
    if (!d->untied && is_steep(d)) x = bo_graph_scale(s->graph, x, 1 / BO_STACK_TIED);
    if (d->embedding_scale != 1) x = bo_graph_scale(s->graph, x, d->embedding_scale);
    x = bo_nn_positions(s->graph, bo_nn_join(s->root, ".embed_positions").text, x, s->positions,
                        bo_model_positions_kind(d), bo_model_positions(d));
    x = bo_nn_dropout(s->graph, x, d->dropout, s->source ? BO_STACK_SOURCE_STREAM : 0);
    watch(s, 0, x);
    return x;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

bo_branch bo_model_branch(const bo_model_desc *d, size_t number, const bo_attention *attention)
{
    return (bo_branch){.block = bo_block_at(d, number),
                       .attention = attention,
                       .width = d->width,
                       .context = bo_model_positions(d),
                       .dropout = d->dropout,
                       .layer = number};
}

/* Only HYBRID starts at another sigma by default. */
bo_block bo_model_cross_block(const bo_model_desc *d, size_t layer)
{
    bo_block b = *bo_model_block(d, layer);
    const bo_attention_desc *kind = &b.cross_attention;
    b.query_norm = bo_query_norm(kind);
    b.output_norm = bo_output_norm(kind);
    if (bo_attention_has(&b.attention, BO_TRAIT_MIX) != bo_attention_has(kind, BO_TRAIT_MIX)) b.sigma = 1;
    return b;
}

static bo_branch branch_of(const bo_stack *s, size_t layer)
{
    bo_branch branch = bo_model_branch(s->desc, s->number + layer, s->attentions[layer]);
    branch.features = s->mlp_maps ? s->mlp_maps[layer] : NULL;
    branch.tokens = s->tokens;
    branch.max_sequences = s->max_sequences;
    branch.source = s->source;
    branch.layer += s->stream;
    return branch;
}

static const char *place_of(const bo_stack *s)
{
    return s->source ? "encoder layer" : "layer";
}

static void keep_values(bo_graph *graph, const bo_attention_values *values)
{
    const bo_value kept[] = {values->q, values->k, values->v, values->out};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) bo_graph_keep(graph, kept[i]);
}

/* Records the mixer of a layer. *normed: its input. */
static bo_value mixer(const bo_stack *s, size_t layer, const char *prefix, bo_value x, bo_value *normed)
{
    const bo_block *b = bo_stack_block(s, layer);
    bo_branch desc = branch_of(s, layer);
    const char *name = bo_nn_mixer_attends(b->mixer) ? ".self_attn" : ".mixer";
    const bo_norm_layer norm = norm_layer(s, layer);
    const bo_residual_rule *rule = rule_of(s, layer);
    const bo_nn_name after = part_of(prefix, rule->mixer_summand);
    const bo_summand_norm summand = {after.text, &norm};
    if (rule->mixer_summand) desc.norm = &summand;
    bo_graph_scope(s->graph, "%s %zu %s", place_of(s), layer, bo_mixer_name(b->mixer));
    *normed = input_norm(s, layer, prefix, rule->mixer, x);
    bo_attention_values values = {0};
    const bo_nn_name full_name = bo_nn_join(prefix, name);
    if ((s->values || s->observe) && bo_nn_mixer_attends(b->mixer)) desc.values = &values;
    const bo_value out = bo_nn_mixer(s->graph, full_name.text, *normed, x, s->positions, &desc);
    if (s->values && values.out) keep_values(s->graph, &values);
    if (s->values) s->values[layer] = values;
    if (s->observe) s->observe(s, layer, full_name.text, *normed, &values, s->observer);
    return out;
}

/* Records a list of layers, and adds its result to the residual stream. norm: NULL: none */
static bo_value inner_layers(const bo_stack *s, size_t layer, bo_value normed, bo_value x, const bo_summand_norm *norm)
{
    const bo_value y = bo_network_record(s->graph, s->mlp_layers[layer], normed);
    bo_graph_scope(s->graph, "%s %zu mlp", place_of(s), layer);
    return bo_nn_add(s->graph, y, x,
                     &(bo_output_layer){.factor = bo_stack_block(s, layer)->residual_scale,
                                        .dropout = s->desc->dropout,
                                        .stream = bo_nn_stream(s->number + layer + s->stream, 1),
                                        .norm = norm});
}

/* Records a custom layer, and checks its result. */
static bo_value custom(const bo_stack *s, size_t layer, const char *prefix, bo_value normed, bo_value x)
{
    const bo_custom_layer *desc = &bo_stack_block(s, layer)->custom_mlp;
    bo_custom_place place = {.user = desc->user,
                             .prefix = prefix,
                             .layer = layer,
                             .x = normed,
                             .residual = x,
                             .stream = bo_nn_stream(s->number + layer + s->stream, 1),
                             .model = s->desc,
                             .block = bo_stack_block(s, layer)};
    if (!x) return 0; /* an earlier operation failed */
    const size_t before = bo_graph_recorded(s->graph);
    const bo_value y = desc->record(s->graph, &place);
    const char *mixing = bo_graph_mixes(s->graph, before);
    if (y && mixing) /* when tokens are read one at a time, it would need a state */
        return bo_graph_fail(
            s->graph, "custom layer '%s' records %s, which mixes rows; layers between mixers must act on single rows",
            desc->name, mixing);
    const size_t rows = bo_graph_rows(s->graph, y), columns = bo_graph_columns(s->graph, y);
    if (rows == bo_graph_rows(s->graph, x) && columns == bo_graph_columns(s->graph, x)) return y;
    return bo_graph_fail(s->graph, "custom layer '%s' returns %zu x %zu, expected the %zu x %zu of the residual stream",
                         desc->name, rows, columns, bo_graph_rows(s->graph, x), bo_graph_columns(s->graph, x));
}

/* The inputs of a layer's MLP. */
typedef struct mlp_inputs {
    bo_value x;      /* the residual stream, to which its output is added */
    bo_value before; /* the residual stream before the mixer */
    bo_value normed; /* the input of the mixer */
} mlp_inputs;

static bo_value mlp_norm(const bo_stack *s, size_t layer, const char *prefix, const mlp_inputs *in)
{
    const bo_residual_rule *rule = rule_of(s, layer);
    const bool same = rule->parallel && rule->mixer && rule->mlp && strcmp(rule->mixer, rule->mlp) == 0;
    return same ? in->normed : input_norm(s, layer, prefix, rule->mlp, rule->parallel ? in->before : in->x);
}

static bo_value mlp(const bo_stack *s, size_t layer, const char *prefix, const mlp_inputs *in)
{
    const bo_block *b = bo_stack_block(s, layer);
    bo_branch desc = branch_of(s, layer);
    if (b->mlp == BO_MLP_NONE) return in->x;
    const bo_norm_layer norm = norm_layer(s, layer);
    const bo_residual_rule *rule = rule_of(s, layer);
    const bo_nn_name after = part_of(prefix, rule->mlp_summand);
    const bo_summand_norm summand = {after.text, &norm};
    if (rule->mlp_summand) desc.norm = &summand;
    bo_graph_scope(s->graph, "%s %zu mlp", place_of(s), layer);
    bo_value normed = mlp_norm(s, layer, prefix, in);
    if (b->mlp == BO_MLP_CUSTOM) return custom(s, layer, bo_nn_join(prefix, ".mlp").text, normed, in->x);
    if (b->mlp == BO_MLP_LAYERS) return inner_layers(s, layer, normed, in->x, desc.norm);
    return bo_nn_block_mlp(s->graph, bo_nn_join(prefix, ".mlp").text, normed, in->x, &desc);
}

/* Reverses the rows of each sequence; applied twice, it restores the order. Layers between mixers act on single rows,
 * so the order is restored only before the next mixer. */
static bo_value turned(const bo_stack *s, bo_value x)
{
    return bo_graph_one(s->graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){s->reversal, x});
}

bo_value bo_stack_record(const bo_stack *s, bo_value x)
{
    for (size_t i = 0; i < s->layers; i++) {
        char prefix[160];
        snprintf(prefix, sizeof prefix, "%.127s.layers.%zu", s->root, i);
        if (!s->within) bo_graph_segment(s->graph, true);
        if (s->reversal && i) x = turned(s, x);
        mlp_inputs in = {.before = x};
        x = mixer(s, i, prefix, x, &in.normed);
        watch(s, 1 + 2 * i, x);
        if (s->between) x = s->between(s, i, prefix, x, s->user);
        in.x = x;
        x = mlp(s, i, prefix, &in);
        watch(s, 2 + 2 * i, x);
        if (!s->within) bo_graph_segment(s->graph, false);
    }
    return s->reversal && s->layers % 2 == 0 ? turned(s, x) : x;
}
