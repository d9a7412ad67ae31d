/* A copy of a language model with another attention. */
#include <stdio.h>
#include <string.h>
#include "internal.h"

static bo_status check(bo_context *context, const bo_model *model)
{
    const bo_model_desc *d = &model->desc;
    BO_TRY(bo_model_require_language(context, model, "replace attention"));
    if (d->mixer != BO_MIXER_ATTENTION)
        return bo_fail(context, BO_INVALID,
                       "replace attention: the layers of the model have the mixer %s and no attention",
                       bo_mixer_name(d->mixer));
    if (bo_model_has_kept(d))
        return bo_fail(context, BO_INVALID,
                       "replace attention: the model is linearized already (its layers have %s attention)",
                       bo_attention_name(&d->attention));
    if (d->attention.kind != BO_ATTENTION_SOFTMAX)
        return bo_fail(context, BO_INVALID,
                       "replace attention: the model has %s attention, which has a state of fixed size already; "
                       "expected softmax attention",
                       bo_attention_name(&d->attention));
    if (d->output_norm == BO_CHOICE_YES)
        return bo_fail(context, BO_INVALID,
                       "replace attention: the outputs of the heads are normalized (output_norm), which is not supported "
                       "for softmax attention that is replaced");
    if (model->adapter && !model->adapter->aside)
        return bo_fail(context, BO_INVALID, "replace attention: merge the adapters of the model first");
    return BO_OK;
}

/* Lists the layers with a window. */
static bo_status list_windows(bo_context *context, const bo_model_desc *d, char **out)
{
    enum { DIGITS = 24 };
    size_t used = 0, windows = 0;
    *out = bo_alloc(context, d->layers + 1, DIGITS, "a list of layers");
    if (!*out) return BO_MEMORY;
    for (size_t i = 0; i < d->layers; i++) {
        if (!d->attention.window || !bo_model_has_window(d, i)) continue;
        used += (size_t)sprintf(*out + used, "%s%zu", used ? "," : "", i);
        windows++;
    }
    if (windows < d->layers) return BO_OK;
    bo_free(*out);
    *out = NULL;
    return bo_fail(context, BO_INVALID,
                   "replace attention: all layers have a window of %zu tokens, so their state has a fixed size already; "
                   "to replace them all the same, give an empty list of layers to keep",
                   d->attention.window);
}

/* Kinds that estimate exp(s q·k) have the factor s of the attention that they replace, unless they are given another. */
static void follow_scale(const bo_attention_desc *before, bo_attention_desc *a)
{
    const bo_kernel kernel = a->features.kernel;
    const bool products = kernel == BO_KERNEL_SOFTMAX || kernel == BO_KERNEL_LINEAR || kernel == BO_KERNEL_POLYNOMIAL ||
                          kernel == BO_KERNEL_TAYLOR;
    if (a->scale != 0 || !bo_attention_has(a, BO_TRAIT_SCALE) || bo_attention_has(a, BO_TRAIT_MEMORY)) return;
    if (a->kind != BO_ATTENTION_LINEAR || products) a->scale = before->scale;
}

bo_status bo_model_replace_attention(bo_context *context, const bo_model *model, const bo_replacement_desc *desc,
                                     bo_model **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, desc, out);
    BO_TRY(bo_check_reserved(context, "bo_replacement_desc", desc->reserved));
    BO_TRY(check(context, model));
    char *windows = NULL;
    if (!desc->kept_layers) BO_TRY(list_windows(context, &model->desc, &windows));
    bo_model_desc d = model->desc;
    d.kept_attention = d.attention;
    d.kept_layers = desc->kept_layers ? desc->kept_layers : windows;
    d.attention = desc->attention;
    follow_scale(&d.kept_attention, &d.attention);
    d.sigma = desc->sigma;
    d.gate_first = desc->gate_first;
    d.gate_last = desc->gate_last;
    d.seed = desc->seed;
    d.output_norm = bo_output_norm(&d.attention);
    bo_model *made = NULL;
    bo_status status = bo_model_create(context, &d, model->tokenizer, &made);
    bo_free(windows);
    if (status == BO_OK) status = bo_model_adopt(context, made, model, NULL);
    if (status != BO_OK) {
        bo_model_destroy(made);
        return status;
    }
    *out = made;
    return BO_OK;
}
