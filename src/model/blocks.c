/* The blocks of layers, and descriptors that own their lists. */
#include "blocks.h"
#include <stdlib.h>
#include <string.h>
#include "../attention/attention.h"
#include "../nn/nn.h"

/* ====================================================================================================================
 * Blocks of a descriptor. */

static size_t repeats(const bo_block *block)
{
    return block->repeat && block->repeat < BO_MAX_BLOCKS ? block->repeat : block->repeat ? BO_MAX_BLOCKS : 1;
}

/* Returns the index of the block of a layer in a repeated list. */
static size_t index_of(const bo_block *blocks, size_t count, size_t layer)
{
    size_t period = 0, i = 0;
    for (size_t b = 0; b < count; b++) period += repeats(&blocks[b]);
    for (layer %= period; layer >= repeats(&blocks[i]); i++) layer -= repeats(&blocks[i]);
    return i;
}

bo_block_list bo_blocks_of(const bo_model_desc *d, bo_model_part part)
{
    const bool encodes = part == BO_MODEL_PART_ENCODER;
    const bo_block *one = encodes ? &d->encoder : &d->block, *list = encodes ? d->encoder_blocks : d->blocks;
    const size_t count = encodes ? d->encoder_block_count : d->block_count;
    const bool lists = list && count;
    return (bo_block_list){(bo_block *)(uintptr_t)(lists ? list : one), lists ? count : 1};
}

static const bo_block *block_of(const bo_model_desc *d, bo_model_part part, size_t layer)
{
    const bo_block_list list = bo_blocks_of(d, part);
    return &list.blocks[index_of(list.blocks, list.count, layer)];
}

const bo_block *bo_model_block(const bo_model_desc *desc, size_t layer)
{
    return desc ? block_of(desc, BO_MODEL_PART_LAYERS, layer) : NULL;
}

bo_model_part bo_model_part_of(const bo_model_desc *d, size_t place)
{
    if (place < d->layers) return BO_MODEL_PART_LAYERS;
    return place < bo_model_place(d, BO_MODEL_PART_ENCODER) ? BO_MODEL_PART_CROSS : BO_MODEL_PART_ENCODER;
}

const bo_block *bo_block_at(const bo_model_desc *d, size_t place)
{
    const bo_model_part part = bo_model_part_of(d, place);
    return block_of(d, part == BO_MODEL_PART_ENCODER ? part : BO_MODEL_PART_LAYERS, place - bo_model_place(d, part));
}

bo_block *bo_block_edit(bo_model_desc *d, size_t place)
{
    return (bo_block *)(uintptr_t)bo_block_at(d, place);
}

bo_status bo_block_fail(bo_context *context, bo_status status, const bo_model_desc *d, bo_model_part part,
                        const bo_block *block)
{
    static const char prefix[] = "model: ";
    const bo_block_list list = bo_blocks_of(d, part == BO_MODEL_PART_ENCODER ? part : BO_MODEL_PART_LAYERS);
    const char *error = bo_context_error(context);
    if (list.count == 1 || (status != BO_INVALID && status != BO_UNSUPPORTED)) return status;
    if (strncmp(error, prefix, strlen(prefix)) == 0) error += strlen(prefix);
    return bo_fail(context, status, "%s%sblock %zu: %s", prefix, part == BO_MODEL_PART_ENCODER ? "encoder " : "",
                   (size_t)(block - list.blocks), error);
}

const bo_attention_desc *bo_attention_at(const bo_model_desc *d, size_t place)
{
    const bo_block *block = bo_block_at(d, place);
    if (bo_model_part_of(d, place) == BO_MODEL_PART_CROSS)
        return d->cross == BO_CROSS_ATTENTION ? &block->cross_attention : NULL;
    return bo_nn_mixer_attends(block->mixer) ? &block->attention : NULL;
}

bool bo_positions_embedded(bo_positions positions)
{
    return positions == BO_POSITIONS_LEARNED || positions == BO_POSITIONS_SINUSOIDAL;
}

bo_positions bo_model_positions_kind(const bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    for (size_t i = 0; i < list.count; i++)
        if (list.blocks[i].positions != BO_POSITIONS_NONE) return list.blocks[i].positions;
    return BO_POSITIONS_NONE;
}

/* ====================================================================================================================
 * Owned descriptors. */

static void release_names(bo_block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bo_free((void *)(uintptr_t)blocks[i].custom_mlp.name);
        bo_free((void *)(uintptr_t)blocks[i].layers);
    }
}

static void release_part(bo_model_desc *d, bo_model_part part)
{
    const bo_block_list list = bo_blocks_of(d, part);
    const bool encodes = part == BO_MODEL_PART_ENCODER;
    bo_block *one = encodes ? &d->encoder : &d->block;
    release_names(list.blocks, list.count);
    if (list.blocks != one) bo_free(list.blocks);
    if (encodes)
        d->encoder_blocks = NULL, d->encoder_block_count = 0;
    else
        d->blocks = NULL, d->block_count = 0;
    *one = (bo_block){0};
}

void bo_model_desc_release(bo_model_desc *d)
{
    if (!d) return;
    release_part(d, BO_MODEL_PART_LAYERS);
    release_part(d, BO_MODEL_PART_ENCODER);
    for (size_t i = 0; d->labels && i < d->classes; i++) bo_free((void *)(uintptr_t)d->labels[i]);
    bo_free((void *)(uintptr_t)d->labels);
    d->labels = NULL;
}

static bo_status copy_name(bo_context *context, const char *name, const char **out)
{
    *out = name ? bo_strdup(context, name) : NULL;
    return !name || *out ? BO_OK : BO_MEMORY;
}

/* Sets the blocks of an empty part to copies. */
static bo_status put_blocks(bo_context *context, bo_model_desc *d, bo_model_part part, const bo_block *blocks,
                            size_t count)
{
    bo_block *one = part == BO_MODEL_PART_ENCODER ? &d->encoder : &d->block, *to = one;
    if (count > 1) {
        to = bo_alloc(context, count, sizeof *to, "a list of blocks");
        if (!to) return BO_MEMORY;
        if (part == BO_MODEL_PART_ENCODER)
            d->encoder_blocks = to, d->encoder_block_count = count;
        else
            d->blocks = to, d->block_count = count;
    }
    bo_status status = BO_OK;
    for (size_t i = 0; i < count; i++) {
        to[i] = blocks[i];
        to[i].custom_mlp.name = to[i].layers = NULL;
        if (status == BO_OK) status = copy_name(context, blocks[i].custom_mlp.name, &to[i].custom_mlp.name);
        if (status == BO_OK) status = copy_name(context, blocks[i].layers, &to[i].layers);
    }
    *one = *to;
    return status;
}

static bo_status copy_labels(bo_context *context, const bo_model_desc *from, bo_model_desc *out)
{
    const char **labels = bo_alloc(context, from->classes, sizeof *labels, "labels");
    if (!labels) return BO_MEMORY;
    out->labels = labels;
    for (size_t i = 0; i < from->classes; i++) BO_TRY(copy_name(context, from->labels[i], &labels[i]));
    return BO_OK;
}

bo_status bo_model_desc_copy(bo_context *context, const bo_model_desc *desc, bo_model_desc *out)
{
    if (out && out != desc) *out = (bo_model_desc){0};
    BO_REQUIRE(context, desc, out);
    if (out == desc) return bo_fail(context, BO_INVALID, "a descriptor cannot be copied to itself");
    const bo_block_list layers = bo_blocks_of(desc, BO_MODEL_PART_LAYERS),
                        encoder = bo_blocks_of(desc, BO_MODEL_PART_ENCODER);
    *out = *desc;
    out->blocks = out->encoder_blocks = NULL;
    out->block_count = out->encoder_block_count = 0;
    out->labels = NULL;
    out->block = out->encoder = (bo_block){0};
    bo_status status = put_blocks(context, out, BO_MODEL_PART_LAYERS, layers.blocks, layers.count);
    if (status == BO_OK) status = put_blocks(context, out, BO_MODEL_PART_ENCODER, encoder.blocks, encoder.count);
    if (status == BO_OK && desc->labels && desc->classes) status = copy_labels(context, desc, out);
    if (status != BO_OK) bo_model_desc_release(out);
    return status;
}

void bo_blocks_cut(bo_model_desc *d, bo_model_part part)
{
    const bo_block_list list = bo_blocks_of(d, part);
    const size_t layers = part == BO_MODEL_PART_ENCODER ? d->encoder_layers : d->layers;
    size_t used = 0;
    for (size_t i = 0; used < list.count && i < layers; used++) i += repeats(&list.blocks[used]);
    if (used == list.count || !used) return;
    release_names(list.blocks + used, list.count - used);
    *(part == BO_MODEL_PART_ENCODER ? &d->encoder_block_count : &d->block_count) = used;
}

void bo_blocks_mirror(bo_model_desc *d)
{
    d->block = *bo_blocks_of(d, BO_MODEL_PART_LAYERS).blocks;
    d->encoder = *bo_blocks_of(d, BO_MODEL_PART_ENCODER).blocks;
}

/* ---- the shortest list ------------------------------------------------------------------------------------------- */

static size_t find_period(const size_t *which, size_t layers)
{
    for (size_t period = 1; period < layers; period++) {
        size_t i = period;
        while (i < layers && which[i] == which[i % period]) i++;
        if (i == layers) return period;
    }
    return layers;
}

bo_status bo_blocks_arrange(bo_context *context, bo_model_desc *d, bo_model_part part, const bo_block *kinds,
                            const size_t *which)
{
    const size_t layers = part == BO_MODEL_PART_ENCODER ? d->encoder_layers : d->layers;
    const size_t period = find_period(which, layers);
    size_t count = 0;
    bo_block *list = bo_alloc(context, period, sizeof *list, "a list of blocks");
    if (!list) return BO_MEMORY;
    for (size_t i = 0; i < period; i++) {
        if (i && which[i] == which[i - 1]) {
            list[count - 1].repeat++;
            continue;
        }
        list[count] = kinds[which[i]];
        list[count++].repeat = 1;
    }
    bo_model_desc made = *d; /* copied before the blocks are released, because they may be the originals */
    made.block = made.encoder = (bo_block){0};
    made.blocks = made.encoder_blocks = NULL;
    made.block_count = made.encoder_block_count = 0;
    bo_status status = put_blocks(context, &made, part, list, count);
    bo_free(list);
    if (status != BO_OK) {
        release_part(&made, part);
        return status;
    }
    release_part(d, part);
    if (part == BO_MODEL_PART_ENCODER)
        d->encoder = made.encoder, d->encoder_blocks = made.encoder_blocks,
        d->encoder_block_count = made.encoder_block_count;
    else
        d->block = made.block, d->blocks = made.blocks, d->block_count = made.block_count;
    return BO_OK;
}

/* ====================================================================================================================
 * The teacher of a linearized model. */

const bo_block *bo_model_main_block(const bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    for (size_t i = 0; i < list.count; i++)
        if (bo_block_replaces(&list.blocks[i])) return &list.blocks[i];
    return list.blocks;
}

size_t bo_model_key_heads(const bo_model_desc *d)
{
    size_t heads = 0;
    for (size_t i = 0; i < d->layers; i++) heads += bo_model_block(d, i)->key_heads;
    return heads;
}

bool bo_model_is_linearized(const bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    for (size_t i = 0; i < list.count; i++)
        if (bo_block_replaces(&list.blocks[i])) return true;
    return false;
}

bo_status bo_model_original(bo_context *context, const bo_model_desc *d, bo_model_desc *out)
{
    BO_TRY(bo_model_desc_copy(context, d, out));
    const bo_block_list list = bo_blocks_of(out, BO_MODEL_PART_LAYERS);
    for (size_t i = 0; i < list.count; i++) {
        bo_block *block = &list.blocks[i];
        if (!bo_block_replaces(block)) continue;
        block->attention = block->replaced; /* both attentions share the weights of q_norm and k_norm */
        block->output_norm = bo_output_norm(&block->attention);
        block->replaced = (bo_attention_desc){0};
    }
    bo_blocks_mirror(out);
    out->dropout = 0; /* a teacher is not trained */
    return BO_OK;
}
