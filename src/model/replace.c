/* A copy of a language model with another attention. */
#include <string.h>
#include "../nn/enums.h"
#include "internal.h"

static const bo_block *linear_block(const bo_block_list *list)
{
    size_t i = 0;
    while (!bo_block_replaces(&list->blocks[i])) i++;
    return &list->blocks[i];
}

static bool is_softmax(const bo_block *b)
{
    return b->mixer == BO_MIXER_ATTENTION && b->attention.kind == BO_ATTENTION_SOFTMAX;
}

static size_t count_replaceable(const bo_block_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += is_softmax(&list->blocks[i]) && list->blocks[i].output_norm != BO_CHOICE_YES;
    return count;
}

/* Says why a block has no attention that can be replaced. */
static bo_status refuse_block(bo_context *context, const bo_block *b)
{
    if (b->mixer != BO_MIXER_ATTENTION)
        return bo_fail(context, BO_INVALID,
                       "replace attention: the layers of the model have the mixer %s and no attention",
                       bo_mixer_name(b->mixer));
    if (b->attention.kind != BO_ATTENTION_SOFTMAX)
        return bo_fail(context, BO_INVALID,
                       "replace attention: the model has %s attention, whose state already has a fixed size; "
                       "expected softmax attention",
                       bo_attention_name(&b->attention));
    return bo_fail(context, BO_INVALID,
                   "replace attention: the outputs of the heads are normalized (output_norm), which is not supported "
                   "for softmax attention that is replaced");
}

static bo_status check(bo_context *context, const bo_model *model)
{
    const bo_block_list list = bo_blocks_of(&model->desc, BO_MODEL_PART_LAYERS);
    BO_TRY(bo_model_require_language(context, model, "replace attention"));
    if (bo_model_is_linearized(&model->desc))
        return bo_fail(context, BO_INVALID,
                       "replace attention: the model is linearized already (its layers have %s attention)",
                       bo_attention_name(&linear_block(&list)->attention));
    if (count_replaceable(&list) == 0) BO_TRY(refuse_block(context, list.blocks));
    if (model->adapter && !model->adapter->aside)
        return bo_fail(context, BO_INVALID, "replace attention: merge the adapters of the model first");
    return BO_OK;
}

/* ---- the layers that keep their attention ------------------------------------------------------------------------ */

/* By default, layers with a window keep their attention, because its state has a fixed size. Layers without softmax
 * attention always keep it. */
static bo_status choose_kept(bo_context *context, const bo_model_desc *d, const char *list, bool *kept)
{
    size_t count = 0;
    if (list) BO_TRY(bo_layers_list(context, "replace attention", list, d, kept));
    for (size_t i = 0; i < d->layers; i++) {
        const bo_block *b = bo_model_block(d, i);
        if ((!list && b->attention.window) || !is_softmax(b) || b->output_norm == BO_CHOICE_YES) kept[i] = true;
        count += kept[i];
    }
    if (count < d->layers) return BO_OK;
    if (list)
        return bo_fail(context, BO_INVALID,
                       "replace attention: kept_layers must leave at least one of %zu layers with softmax attention, "
                       "found '%.60s'",
                       d->layers, list);
    size_t first = 0;
    while (!is_softmax(bo_model_block(d, first))) first++;
    return bo_fail(context, BO_INVALID,
                   "replace attention: all layers with softmax attention have a window (layer %zu: %zu tokens), so "
                   "their state already has a fixed size; to replace them anyway, pass an empty list of layers to keep",
                   first, bo_model_block(d, first)->attention.window);
}

/* Kinds that estimate exp(s q·k) get the factor s of the replaced attention by default. */
static void follow_scale(const bo_attention_desc *before, bo_attention_desc *a)
{
    const bo_kernel kernel = a->features.kernel;
    const bool products = kernel == BO_KERNEL_SOFTMAX || kernel == BO_KERNEL_LINEAR || kernel == BO_KERNEL_POLYNOMIAL ||
                          kernel == BO_KERNEL_TAYLOR;
    if (a->scale != 0 || !bo_attention_has(a, BO_TRAIT_SCALE) || bo_attention_has(a, BO_TRAIT_MEMORY)) return;
    if (a->kind != BO_ATTENTION_LINEAR || products) a->scale = before->scale;
}

/* Returns a block whose attention is replaced. */
static bo_block linearized(const bo_block *before, const bo_replacement_desc *desc)
{
    bo_block b = *before;
    b.replaced = b.attention;
    b.attention = desc->attention;
    follow_scale(&b.replaced, &b.attention);
    b.sigma = desc->sigma;
    b.gate_first = desc->gate_first;
    b.gate_last = desc->gate_last;
    b.output_norm = bo_output_norm(&b.attention);
    return b;
}

/* Gives the layers of an owned descriptor their blocks. */
static bo_status replace(bo_context *context, const bo_replacement_desc *desc, bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    bo_block *kinds = bo_alloc(context, 2 * list.count, sizeof *kinds, "blocks");
    size_t *which = bo_alloc(context, d->layers, sizeof *which, "a list of blocks");
    bool *kept = bo_alloc(context, d->layers, sizeof *kept, "a list of layers");
    bo_status status = kinds && which && kept ? choose_kept(context, d, desc->kept_layers, kept) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < list.count; i++) {
        kinds[2 * i] = list.blocks[i];
        kinds[2 * i + 1] = linearized(&list.blocks[i], desc);
    }
    for (size_t i = 0; status == BO_OK && i < d->layers; i++)
        which[i] = 2 * (size_t)(bo_model_block(d, i) - list.blocks) + !kept[i];
    if (status == BO_OK) status = bo_blocks_arrange(context, d, BO_MODEL_PART_LAYERS, kinds, which);
    bo_free(kinds);
    bo_free(which);
    bo_free(kept);
    return status;
}

bo_status bo_model_replace_attention(bo_context *context, const bo_model *model, const bo_replacement_desc *desc,
                                     bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, desc, out);
    BO_TRY(bo_check_reserved(context, "bo_replacement_desc", desc->reserved));
    BO_TRY(check(context, model));
    bo_model_desc d;
    bo_model *made = NULL;
    BO_TRY(bo_model_desc_copy(context, &model->desc, &d));
    d.seed = desc->seed;
    bo_status status = replace(context, desc, &d);
    if (status == BO_OK) status = bo_model_create(context, &d, model->tokenizer, &made);
    bo_model_desc_release(&d);
    if (status == BO_OK) status = bo_model_adopt(context, made, model, NULL);
    if (status != BO_OK) {
        bo_model_destroy(made);
        return status;
    }
    *out = made;
    return BO_OK;
}
