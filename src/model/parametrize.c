/* The parametrization of a model. The same model at the base width determines which dimensions of the weights grow. */
#include <math.h>
#include "internal.h"

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

/* Keeps the number of queries per key or, if that is not possible, the number of keys. */
static size_t widen_key_heads(const bo_model_desc *d, size_t heads)
{
    if (!d->key_heads || d->key_heads > d->heads) return d->key_heads;
    size_t group = d->heads / d->key_heads;
    if (heads % group == 0) return heads / group;
    return heads % d->key_heads == 0 ? d->key_heads : heads;
}

/* Scales the hidden size as its default does: with the width; for quadratic forms, whose fan-in is its square, with the
 * square root of the width. */
static size_t widen_hidden(const bo_model_desc *d, double share)
{
    double groups = d->degree_heads ? (double)d->degree_heads : 1;
    if (!d->hidden) return 0;
    if (d->mlp == BO_MLP_QUADRATIC) share = sqrt(share);
    return (size_t)(groups * fmax(1, nearbyint((double)d->hidden * share / groups)));
}

bo_status bo_model_widen(bo_context *context, const bo_model_desc *desc, size_t width, bo_model_desc *out)
{
    BO_REQUIRE(context, desc, out);
    size_t heads;
    BO_TRY(bo_check_reserved(context, "bo_model_desc", desc->reserved));
    if (!desc->width || !width) REFUSE("width must be at least 1, found %zu and %zu", desc->width, width);
    if (__builtin_mul_overflow(desc->heads, width, &heads) || heads % desc->width)
        REFUSE(
            "the number of heads must be whole at every width: %zu heads at width %zu would be %g heads at width %zu",
            desc->heads, desc->width, (double)desc->heads * (double)width / (double)desc->width, width);
    bo_model_desc wide = *desc;
    wide.width = width;
    wide.heads = heads / desc->width;
    wide.key_heads = widen_key_heads(desc, wide.heads);
    wide.hidden = widen_hidden(desc, (double)width / (double)desc->width);
    wide.attention.heads = wide.attention.key_heads = wide.cross_attention.key_heads = 0;
    wide.encoder_attention.key_heads = wide.kept_attention.key_heads = 0;
    if (desc->cross_attention.heads) wide.cross_attention.heads = wide.heads; /* marks cross attention as given */
    if (desc->encoder_attention.heads) wide.encoder_attention.heads = wide.heads;
    if (desc->kept_attention.heads) wide.kept_attention.heads = wide.heads;
    wide.mlp_features.dim = wide.mlp_features.features = 0;
    *out = wide;
    return BO_OK;
}

/* Declares the weights of the model at the base width. */
static bo_status base_weights(bo_context *context, const bo_model_desc *d, bo_weights **out)
{
    bo_model_desc desc;
    bo_model *model;
    BO_TRY(bo_model_widen(context, d, d->base_width, &desc));
    desc.parametrization = BO_PARAMETRIZATION_STANDARD;
    BO_TRY(bo_model_build(context, &desc, NULL, &model));
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
    rules.branches = d->layers * (d->mlp == BO_MLP_NONE ? 1 : 2);
    if (rules.kind == BO_PARAMETRIZATION_UNIT) rules.gradient_scale = unit_gradients(d);
    if (rules.kind == BO_PARAMETRIZATION_MUP && d->width != d->base_width)
        BO_TRY(base_weights(context, d, &rules.base));
    bo_weights_set_rules(model->weights, &rules);
    return BO_OK;
}
