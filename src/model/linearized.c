/* Linearized models: the weights that a model and its teacher share. */
#include <string.h>
#include "internal.h"

/* Builds the teacher, whose weights have no memory. */
static bo_status build_original(bo_context *context, const bo_model *model, bo_model **out)
{
    bo_model_desc desc;
    BO_TRY(bo_model_original(context, &model->desc, &desc));
    const bo_status status = bo_model_build(context, &desc, NULL, out);
    bo_model_desc_release(&desc);
    return status;
}

bo_status bo_model_check_fixed(bo_context *context, const bo_model *model)
{
    bo_model *original;
    const char *trained = NULL;
    BO_TRY(build_original(context, model, &original));
    for (size_t i = 0; i < bo_weights_count(model->weights) && !trained; i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i);
        if (!weight->frozen && bo_weights_find(original->weights, weight->name)) trained = weight->name;
    }
    bo_model_destroy(original);
    if (!trained) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "imitate: %s is trained, but the teacher has this weight too: do not adapt it as a whole", trained);
}

bo_status bo_model_freeze_original(bo_context *context, bo_model *model)
{
    bo_model *original;
    BO_TRY(build_original(context, model, &original));
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        if (bo_weights_find(original->weights, bo_weights_at(model->weights, i)->name))
            bo_weights_set_frozen(model->weights, i, true);
    bo_model_destroy(original);
    return BO_OK;
}

/* Returns the length of the name of a weight's layer: of "model.layers.3.self_attn.g_proj" without ".weight". */
static size_t layer_length(const char *name)
{
    static const char *const ends[] = {".weight", ".bias"};
    size_t all = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (all > end && strcmp(name + all - end, ends[i]) == 0) all -= end;
    }
    return all;
}

/* Returns the part of a weight's name that names its layer: "g_proj" in "model.layers.3.self_attn.g_proj.weight". */
static const char *local_name(const char *name, size_t *length)
{
    const char *from = strstr(name, ".self_attn.");
    from = from ? from + strlen(".self_attn.") : name;
    *length = (size_t)(name + layer_length(name) - from);
    return from;
}

/* True if a layer of the model has this name, also one that has another mixer. */
static bool has_name(const bo_model *model, const char *name, size_t length)
{
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        size_t other;
        const char *local = local_name(bo_weights_at(model->weights, i)->name, &other);
        if (other == length && strncmp(local, name, length) == 0) return true;
    }
    return false;
}

static bool lists(const char *list, const char *name, size_t length)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0) return true;
    return false;
}

bo_status bo_model_new_parameters(bo_context *context, const bo_model *model, char **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, out);
    bo_model *original;
    size_t capacity = 1, used = 0;
    if (!bo_model_is_linearized(&model->desc))
        return bo_fail(context, BO_INVALID, "new parameters: the model is not linearized");
    BO_TRY(build_original(context, model, &original));
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        capacity += strlen(bo_weights_at(model->weights, i)->name) + 1;
    char *list = *out = bo_alloc(context, capacity, 1, "names of weights");
    for (size_t i = 0; list && i < bo_weights_count(model->weights); i++) {
        const char *name = bo_weights_at(model->weights, i)->name;
        size_t length;
        if (bo_weights_find(original->weights, name)) continue;
        const char *local = local_name(name, &length);
        if (has_name(original, local, length)) local = name, length = layer_length(name);
        if (lists(list, local, length)) continue;
        if (used) list[used++] = ',';
        memcpy(list + used, local, length);
        used += length;
    }
    bo_model_destroy(original);
    return list ? BO_OK : BO_MEMORY;
}
