/* A block of text models as a layer of a network: mixer and MLP with their norms, on a sequence. */
#include <stddef.h>
#include <string.h>
#include "../../nn/enums.h"
#include "../../base/rng.h"
#include "../config.h"
#include "../internal.h"
#include "../stack.h"
#include "internal.h"

static const bo_field block_fields[] = {
    {.name = "causal", .type = BO_FIELD_BOOL, .offset = offsetof(bo_layer_options, causal)},
    {.name = "dropout", .type = BO_FIELD_RANGE, .offset = offsetof(bo_layer_options, rate), .max = 1},
};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Copies the members of a layer into one object and the members of the block into another. */
static bool divide(const bo_json *json, bo_json *options, bo_json *block)
{
    static const char *const names[] = {"name", "type", "from", "causal", "dropout"};
    for (const bo_json *item = json->child; item; item = item->next) {
        bool of_layer = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) of_layer |= strcmp(item->key, names[i]) == 0;
        bo_json *copy = bo_json_copy(item);
        if (bo_json_put(of_layer ? options : block, item->key, copy)) continue;
        bo_json_delete(copy);
        return false;
    }
    return true;
}

static bo_status read_members(bo_context *context, const char *where, bo_layer *layer, const bo_json *options,
                              const bo_json *block)
{
    char place[400];
    BO_TRY(bo_layer_read(context, where, layer, options));
    layer->block = bo_alloc(context, 1, sizeof *layer->block, "a block");
    if (!layer->block) return BO_MEMORY;
    snprintf(place, sizeof place, "%.200s: %s", where, bo_layer_name(layer).text);
    return bo_config_block_read(context, place, block, &layer->block->block);
}

static bo_status read_block(bo_context *context, const char *where, bo_layer *layer, const bo_json *json)
{
    bo_json *options = bo_json_new(BO_JSON_OBJECT), *block = bo_json_new(BO_JSON_OBJECT);
    const bo_status status = options && block && divide(json, options, block)
                                 ? read_members(context, where, layer, options, block)
                                 : bo_fail(context, BO_MEMORY, "out of memory: a description");
    bo_json_delete(options);
    bo_json_delete(block);
    return status;
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_block *b, bool causal)
{
    if (b->repeat > 1) return bo_fail(context, BO_INVALID, "\"repeat\" is for lists of blocks: list the layer again");
    if (b->replaced.heads || b->cross_attention.heads)
        return bo_fail(context, BO_INVALID, "\"replaced\" and \"cross_attention\" are for text models");
    if (b->mixer == BO_MIXER_MLP && !causal)
        return bo_fail(context, BO_INVALID, "the mixer mlp reads forward only: \"causal\" should be true");
    if (!bo_positions_embedded(b->positions)) return BO_OK;
    return bo_fail(context, BO_INVALID, "positions %s are added before the layers: use a layer of type positions",
                   bo_positions_name(b->positions));
}

static bo_status create_map(bo_context *context, bo_layer *layer)
{
    bo_features **maps;
    BO_TRY(bo_mlp_maps_create(context, layer->block, &maps));
    if (maps) layer->features = maps[0];
    bo_free(maps);
    return BO_OK;
}

/* Widths of the list are multiplied like widths of the network. */
static bo_status make_layers(bo_context *context, bo_layer *layer, const bo_network *network)
{
    const bo_model_desc *d = layer->block;
    const bo_nn_name prefix = bo_nn_join(layer->name, ".layers.0.mlp");
    const bo_layers_place place = {prefix.text, d->width, layer->place, d->seed};
    char *text;
    if (!d->block.layers) return BO_OK;
    BO_TRY(bo_layers_widen(context, d->block.layers, network->multiplier, &text));
    const bo_status status = bo_network_of_layers(context, text, &place, &layer->inner);
    bo_free(text);
    /* an error in the description of the network; its name is added */
    return status == BO_FORMAT ? bo_fail(context, BO_INVALID, "%s", bo_context_error(context)) : status;
}

/* A causal block is built as in a language model, a bidirectional one as in a classifier. */
static bo_status create_block(bo_context *context, bo_layer *layer, const bo_shape *in, const bo_network *network)
{
    bo_model_desc *d = layer->block;
    bo_rng rng = bo_rng_make(network->seed, bo_rng_stream("network.block", layer->place));
    bo_attention **attentions;
    d->layers = 1;
    d->width = in->channels;
    d->context = bo_shape_places(in);
    d->dropout = layer->options.rate;
    d->task = layer->options.causal ? BO_MODEL_TASK_LANGUAGE : BO_MODEL_TASK_CLASSIFY;
    d->seed = bo_rng_bits(&rng);
    BO_TRY(check(context, &d->block, layer->options.causal));
    BO_TRY(bo_block_resolve(context, d, BO_MODEL_PART_LAYERS, &d->block));
    BO_TRY(bo_attentions_create(context, d, 0, 0, &attentions));
    layer->attention = attentions[0];
    bo_free(attentions);
    BO_TRY(create_map(context, layer));
    return make_layers(context, layer, network);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static bo_value record_block(bo_recorder *r)
{
    const bo_layer *layer = r->layer;
    const bo_positions positions = layer->block->block.positions;
    const bo_stack stack = {.graph = r->graph,
                            .desc = layer->block,
                            .root = layer->name,
                            .layers = 1,
                            .attentions = &layer->attention,
                            .mlp_maps = &layer->features,
                            .mlp_layers = &layer->inner,
                            .stream = layer->place,
                            .within = true,
                            .tokens = bo_shape_places(&r->shapes[0]),
                            .positions = positions == BO_POSITIONS_NONE ? 0 : bo_record_positions(r)};
    return bo_stack_record(&stack, r->in[0]);
}

const bo_layer_type bo_layers_block[] = {
    {.name = "block",
     .fields = block_fields,
     .field_count = sizeof block_fields / sizeof *block_fields,
     .accepts = BO_ACCEPTS_PLACES,
     .read = read_block,
     .create = create_block,
     .record = record_block},
    {0},
};
