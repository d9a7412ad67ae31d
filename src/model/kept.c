/* The second attention of a model: the layers that have it, and the model that has it in all layers. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"

/* Reads "N" or "N-M" and the comma after it. Returns false if the text is malformed. */
static bool read_range(const char **text, size_t *first, size_t *last)
{
    char *end;
    if (!isdigit((unsigned char)**text)) return false;
    *first = *last = strtoul(*text, &end, 10);
    if (*end == '-') {
        if (!isdigit((unsigned char)end[1])) return false;
        *last = strtoul(end + 1, &end, 10);
    }
    const bool more = *end == ',' && end[1];
    *text = end + (*end == ',');
    return (more || !*end) && *first <= *last;
}

bool bo_model_keeps(const bo_model_desc *d, size_t layer)
{
    const char *text = d->kept_layers;
    size_t first, last;
    while (text && *text && read_range(&text, &first, &last))
        if (first <= layer && layer <= last) return true;
    return false;
}

static bo_status check_layers(bo_context *context, const bo_model_desc *d)
{
    enum { EACH = 24 };                                              /* characters of "N-M," */
    if (d->kept_layers && strlen(d->kept_layers) > EACH * d->layers) /* the list is read once per layer */
        return bo_fail(context, BO_INVALID, "model: kept_layers must have at most %zu characters, found %zu",
                       EACH * d->layers, strlen(d->kept_layers));
    const char *text = d->kept_layers;
    size_t first, last, kept = 0;
    while (text && *text) {
        if (!read_range(&text, &first, &last))
            return bo_fail(context, BO_INVALID,
                           "model: kept_layers must list numbers and ranges such as 0,5-7, found '%.60s'",
                           d->kept_layers);
        if (last >= d->layers)
            return bo_fail(context, BO_INVALID, "model: kept_layers must be below %zu, the number of layers, found %zu",
                           d->layers, last);
    }
    for (size_t i = 0; i < d->layers; i++) kept += bo_model_keeps(d, i);
    if (kept < d->layers) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "model: kept_layers must leave at least one of %zu layers to `attention`, found '%.60s'", d->layers,
                   d->kept_layers);
}

bo_status bo_model_resolve_kept(bo_context *context, bo_model_desc *d)
{
    static const bo_attention_desc none = {0};
    const bool lists = d->kept_layers && *d->kept_layers, has = lists || bo_model_is_given(&d->kept_attention);
    if (!has) d->kept_attention = none;
    if (!lists) d->kept_layers = NULL;
    if (!has) return BO_OK;
    if (d->task != BO_MODEL_TASK_LANGUAGE || d->mixer != BO_MIXER_ATTENTION)
        return bo_fail(context, BO_INVALID, "model: kept_attention requires the task language and the mixer attention");
    if (!d->kept_attention.heads) d->kept_attention.heads = d->heads; /* marks it as present */
    return check_layers(context, d);
}

bo_model_desc bo_model_original(const bo_model_desc *d)
{
    bo_model_desc out = *d;
    out.attention = d->kept_attention;
    out.kept_attention = (bo_attention_desc){0};
    out.kept_layers = NULL;
    out.output_norm = bo_output_norm(&out.attention);
    out.dropout = 0; /* a teacher is not trained */
    return out;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Builds the model with kept_attention in all layers, whose weights have no memory. */
static bo_status build_original(bo_context *context, const bo_model *model, bo_model **out)
{
    const bo_model_desc desc = bo_model_original(&model->desc);
    return bo_model_build(context, &desc, NULL, out);
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

/* Returns the part of a weight's name that names its layer: "g_proj" in "model.layers.3.self_attn.g_proj.weight". */
static const char *own_name(const char *name, size_t *length)
{
    static const char *const ends[] = {".weight", ".bias"};
    size_t all = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (all > end && strcmp(name + all - end, ends[i]) == 0) all -= end;
    }
    const char *from = strstr(name, ".self_attn.");
    from = from ? from + strlen(".self_attn.") : name;
    *length = (size_t)(name + all - from);
    return from;
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
    size_t room = 1, used = 0;
    if (!bo_model_has_kept(&model->desc))
        return bo_fail(context, BO_INVALID, "new parameters: the model has no second attention (kept_attention)");
    BO_TRY(build_original(context, model, &original));
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        room += strlen(bo_weights_at(model->weights, i)->name) + 1;
    char *list = *out = bo_alloc(context, room, 1, "names of weights");
    for (size_t i = 0; list && i < bo_weights_count(model->weights); i++) {
        const char *name = bo_weights_at(model->weights, i)->name;
        size_t length;
        if (bo_weights_find(original->weights, name)) continue;
        const char *own = own_name(name, &length);
        if (lists(list, own, length)) continue;
        if (used) list[used++] = ',';
        memcpy(list + used, own, length);
        used += length;
    }
    bo_model_destroy(original);
    return list ? BO_OK : BO_MEMORY;
}
