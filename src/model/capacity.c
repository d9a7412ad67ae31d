/* Attentions of a model with a given capacity. */
#include "capacity.h"
#include "internal.h"
#include "../attention/attention.h"

static bool keeps_every_key(const bo_attention *attention)
{
    if (!attention) return false;
    const bo_attention_desc *desc = bo_attention_describe(attention);
    return bo_attention_has(desc, BO_TRAIT_CAPACITY) && !desc->window;
}

const bo_attention *bo_model_cached_attention(const bo_model *model)
{
    for (size_t i = 0; i < model->desc.layers; i++)
        if (keeps_every_key(model->attentions[i])) return model->attentions[i];
    return NULL;
}

static bo_status resize_attention(bo_context *context, const bo_model *model, size_t place, size_t capacity,
                                  bo_sized_attentions *out)
{
    bo_attention *attention = model->attentions[place];
    out->all[place] = attention;
    if (!keeps_every_key(attention) || bo_attention_describe(attention)->capacity == capacity) return BO_OK;
    bo_attention_desc desc = *bo_attention_describe(attention);
    desc.capacity = capacity;
    BO_TRY(bo_attention_create(context, &desc, &out->owned[place]));
    out->all[place] = out->owned[place];
    return BO_OK;
}

bo_status bo_sized_attentions_create(bo_context *context, const bo_model *model, size_t capacity, size_t source,
                                     bo_sized_attentions *out)
{
    const bo_model_desc *d = &model->desc;
    const size_t cross = bo_model_place(d, BO_MODEL_PART_CROSS), places = bo_model_place(d, BO_MODEL_PART_END);
    out->owned = bo_alloc(context, places, sizeof *out->owned, "attentions of a capacity");
    out->all = bo_alloc(context, places, sizeof *out->all, "attentions of a capacity");
    if (!out->owned || !out->all) return BO_MEMORY;
    for (size_t i = 0; i < places; i++) BO_TRY(resize_attention(context, model, i, i < cross ? capacity : source, out));
    return BO_OK;
}

void bo_sized_attentions_destroy(bo_sized_attentions *attentions, const bo_model *model)
{
    if (attentions->owned) bo_attentions_destroy(attentions->owned, &model->desc);
    bo_free(attentions->all);
    *attentions = (bo_sized_attentions){0};
}
