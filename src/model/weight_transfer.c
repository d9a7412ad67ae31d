/* What one model takes over from another: weights of the same name and shape, and the maps of attention made alike. */
#include <string.h>
#include "files.h"

static bool same_shape(const bo_weight *a, const bo_weight *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

/* Rows of an embedding and of a head are tokens: those of another tokenizer mean other things. */
static bool speaks_otherwise(const bo_model *model, const bo_model *from)
{
    return model->tokenizer && from->tokenizer &&
           bo_tokenizer_fingerprint(model->tokenizer) != bo_tokenizer_fingerprint(from->tokenizer);
}

static bool holds_tokens(const bo_weight *weight)
{
    return strcmp(weight->name, "model.embed_tokens.weight") == 0 || strcmp(weight->name, "lm_head.weight") == 0;
}

static bo_status adopt_maps(bo_context *context, bo_model *model, const bo_model *from)
{
    static const char *const parts[] = {"layer", "cross attention of layer", "encoder layer"};
    for (size_t i = 0; i < bo_model_place(&model->desc, BO_MODEL_PART_END); i++) {
        const bo_model_part part = bo_model_part_of(&model->desc, i);
        const size_t layer = i - bo_model_place(&model->desc, part);
        bool taken;
        BO_TRY(bo_maps_adopt(context, model, from, i, &taken));
        if (!taken && model->attentions[i] && bo_attention_features(model->attentions[i], 0))
            bo_log(context, BO_LOG_INFO, "%s %zu: frequencies are new", parts[part], layer);
        BO_TRY(bo_mlp_map_adopt(context, model, from, i, &taken));
        if (!taken && model->mlp_maps && model->mlp_maps[i])
            bo_log(context, BO_LOG_INFO, "%s %zu: frequencies of the MLP are new", parts[part], layer);
    }
    return BO_OK;
}

bo_status bo_model_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t *taken)
{
    const bo_backend *backend = bo_weights_backend(model->weights);
    const bool other_tokens = speaks_otherwise(model, from);
    size_t count = 0;
    if (other_tokens)
        bo_log(context, BO_LOG_WARNING,
               "the tokenizer is another than that of the model to begin with: embedding and output begin anew, for "
               "their rows mean other tokens");
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *mine = bo_weights_at(model->weights, i), *theirs = bo_weights_find(from->weights, mine->name);
        if (!theirs || !same_shape(mine, theirs)) {
            bo_log(context, BO_LOG_INFO, "%s: %s", mine->name, theirs ? "new: it has another shape there" : "new");
            continue;
        }
        if (other_tokens && holds_tokens(mine)) {
            bo_log(context, BO_LOG_INFO, "%s: new: its rows are tokens of another tokenizer", mine->name);
            continue;
        }
        if (mine->element != BO_ELEMENT_FLOAT32)
            return bo_fail(context, BO_INVALID, "model: weight '%s' is kept in fewer bits, for reading only",
                           mine->name);
        BO_TRY(backend->widen(context, theirs->element, mine->rows, mine->columns, theirs->data, mine->data));
        count++;
    }
    for (size_t i = 0; i < bo_weights_count(from->weights); i++) {
        const char *name = bo_weights_at(from->weights, i)->name;
        if (!bo_weights_find(model->weights, name)) bo_log(context, BO_LOG_INFO, "%s: left out", name);
    }
    if (taken) *taken = count;
    return adopt_maps(context, model, from);
}
