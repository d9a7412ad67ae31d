/* The parametrization of a model. The same model at the base width determines which dimensions of the weights grow. */
#include <math.h>
#include "internal.h"

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

/* Keeps the number of queries per key or, if that is not possible, the number of keys. */
static size_t widen_key_heads(const bo_block *b, size_t heads)
{
    if (!b->key_heads || b->key_heads > b->heads) return b->key_heads;
    size_t group = b->heads / b->key_heads;
    if (heads % group == 0) return heads / group;
    return heads % b->key_heads == 0 ? b->key_heads : heads;
}

/* Scales the hidden size as its default does: with the width; for quadratic forms, whose fan-in is its square, with the
 * square root of the width. */
static size_t widen_hidden(const bo_block *b, double share)
{
    double groups = b->degree_heads ? (double)b->degree_heads : 1;
    if (!b->hidden) return 0;
    if (b->mlp == BO_MLP_QUADRATIC) share = sqrt(share);
    return (size_t)(groups * fmax(1, nearbyint((double)b->hidden * share / groups)));
}

static bo_status widen_layers(bo_context *context, double share, bo_block *b)
{
    char *text;
    const bo_status status = bo_layers_widen(context, b->layers, share, &text);
    if (status == BO_MEMORY) return status;
    if (status != BO_OK) return bo_fail(context, status, "model: %s", bo_context_error(context));
    bo_free((void *)(uintptr_t)b->layers);
    b->layers = text;
    return BO_OK;
}

static bo_status widen_block(bo_context *context, size_t from, size_t to, bo_block *b)
{
    size_t heads;
    if (__builtin_mul_overflow(b->heads, to, &heads) || heads % from)
        REFUSE(
            "the number of heads must be whole at every width: %zu heads at width %zu would be %g heads at width %zu",
            b->heads, from, (double)b->heads * (double)to / (double)from, to);
    const bo_block before = *b;
    b->heads = heads / from;
    b->key_heads = widen_key_heads(&before, b->heads);
    b->hidden = widen_hidden(&before, (double)to / (double)from);
    b->attention.heads = b->attention.key_heads = b->cross_attention.key_heads = b->replaced.key_heads = 0;
    if (b->cross_attention.heads) b->cross_attention.heads = b->heads; /* marks cross attention as set */
    if (b->replaced.heads) b->replaced.heads = b->heads;
    b->mlp_features.dim = b->mlp_features.features = 0;
    return b->layers ? widen_layers(context, (double)to / (double)from, b) : BO_OK;
}

static bo_status widen_blocks(bo_context *context, size_t width, bo_model_desc *d)
{
    for (int part = BO_MODEL_PART_LAYERS; part <= BO_MODEL_PART_ENCODER; part += BO_MODEL_PART_ENCODER) {
        const bo_block_list list = bo_blocks_of(d, (bo_model_part)part);
        for (size_t i = 0; i < list.count; i++) BO_TRY(widen_block(context, d->width, width, &list.blocks[i]));
    }
    d->width = width;
    bo_blocks_mirror(d);
    return BO_OK;
}

bo_status bo_model_widen(bo_context *context, const bo_model_desc *desc, size_t width, bo_model_desc *out)
{
    if (out) *out = (bo_model_desc){0};
    BO_REQUIRE(context, desc, out);
    BO_TRY(bo_check_reserved(context, "bo_model_desc", desc->reserved));
    if (!desc->width || !width) REFUSE("width must be at least 1, found %zu and %zu", desc->width, width);
    BO_TRY(bo_model_desc_copy(context, desc, out));
    const bo_status status = widen_blocks(context, width, out);
    if (status != BO_OK) bo_model_desc_release(out);
    return status;
}

/* Declares the weights of the model at the base width. */
static bo_status base_weights(bo_context *context, const bo_model_desc *d, bo_weights **out)
{
    bo_model_desc desc;
    bo_model *model;
    BO_TRY(bo_model_widen(context, d, d->base_width, &desc));
    desc.parametrization = BO_PARAMETRIZATION_STANDARD;
    const bo_status status = bo_model_build(context, &desc, NULL, &model);
    bo_model_desc_release(&desc);
    BO_TRY(status);
    *out = model->weights;
    model->weights = NULL;
    bo_model_destroy(model);
    return BO_OK;
}

/* Returns the gradient scale that makes gradients at the last layer about 1: it removes the mean over several thousand
 * tokens and the head's 1/width. It is a power of two, so that scaling does not round. */
static double unit_gradients(const bo_model_desc *d)
{
    enum { LOG_TOKENS = 12 };
    return ldexp(1, LOG_TOKENS + (int)nearbyint(log2((double)d->width)));
}

bo_status bo_model_parametrize(bo_context *context, bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    bo_rules rules = {
        .kind = d->parametrization, .base_width = d->base_width, .float8 = d->storage == BO_STORAGE_FLOAT8};
    for (size_t i = 0; i < d->layers; i++) rules.branches += bo_model_block(d, i)->mlp == BO_MLP_NONE ? 1 : 2;
    if (rules.kind == BO_PARAMETRIZATION_UNIT) rules.gradient_scale = unit_gradients(d);
    if (rules.kind == BO_PARAMETRIZATION_MUP && d->width != d->base_width)
        BO_TRY(base_weights(context, d, &rules.base));
    bo_weights_set_rules(model->weights, &rules);
    return BO_OK;
}
