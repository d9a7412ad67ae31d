/* Descriptors of models that label or translate texts: what belongs to which task, classes, and cross attention. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../attention/attention.h"
#include "../text/unicode.h"
#include "internal.h"

enum { MOST_CLASSES = 1 << 14, MOST_LABEL = 255, MOST_LAYERS = 1 << 12 }; /* a list of labels is read by people */

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

static bool labels(bo_model_task task)
{
    return task == BO_MODEL_CLASSIFY || task == BO_MODEL_MATCH;
}

bo_status bo_model_require_language(bo_context *context, const bo_model *model, const char *who)
{
    static const char *const uses[] = {"", "labels texts: bo_model_classify",
                                       "labels pairs of texts: bo_model_classify",
                                       "translates texts: bo_model_translate"};
    if (!model) return bo_fail(context, BO_INVALID, "%s: the model is NULL", who);
    if (model->desc.task == BO_MODEL_LANGUAGE) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s is for language models; this model %s (tasks.h) uses it", who,
                   uses[model->desc.task]);
}

/* ---- which way ------------------------------------------------------------------------------------------------------ */

/* It is causal and nothing else. */
static bool looks_back(const bo_attention_desc *a)
{
    return a->gate != BO_GATE_NONE || a->window || a->kind == BO_ATTENTION_HYBRID || bo_is_memory(a);
}

bool bo_model_is_causal(const bo_model_desc *d, bo_model_part part)
{
    if (part == BO_MODEL_PART_CROSS) return looks_back(&d->cross_attention);
    const bool encodes = labels(d->task) || part == BO_MODEL_PART_ENCODER;
    return !encodes || (labels(d->task) && d->forward) || looks_back(&d->attention);
}

/* A summary is the last token's output, which knows all of the source only where every layer reads forwards. */
bool bo_model_alternates(const bo_model_desc *d)
{
    if (d->task == BO_MODEL_LANGUAGE || d->cross == BO_CROSS_SUMMARY || d->forward) return false;
    return !bo_nn_mixer_attends(d->mixer) || looks_back(&d->attention);
}

/* ---- classes -------------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bo_status check_distinct(bo_context *context, const bo_model_desc *d)
{
    const char **sorted = bo_alloc(context, d->classes, sizeof *sorted, "labels");
    if (!sorted) return BO_MEMORY;
    bo_status status = BO_OK;
    memcpy(sorted, d->labels, d->classes * sizeof *sorted);
    qsort(sorted, d->classes, sizeof *sorted, by_bytes);
    for (size_t i = 1; i < d->classes && status == BO_OK; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = bo_fail(context, BO_INVALID, "model: labels must differ, found '%.60s' twice", sorted[i]);
    bo_free(sorted);
    return status;
}

static bo_status check_classes(bo_context *context, const bo_model_desc *d)
{
    if (d->classes < 2 || d->classes > MOST_CLASSES)
        REFUSE("task %s needs 2 to %d classes, found %zu", bo_model_task_name(d->task), MOST_CLASSES, d->classes);
    for (size_t i = 0; d->labels && i < d->classes; i++) {
        if (!d->labels[i] || bo_utf8_blank(d->labels[i], strlen(d->labels[i])))
            REFUSE("label %zu of %zu is empty", i, d->classes);
        if (strlen(d->labels[i]) > MOST_LABEL)
            REFUSE("label %zu must have at most %d bytes, found %zu", i, MOST_LABEL, strlen(d->labels[i]));
        if (bo_utf8_has_control(d->labels[i], strlen(d->labels[i])))
            REFUSE("label %zu must have no control characters", i);
    }
    return d->labels ? check_distinct(context, d) : BO_OK;
}

bo_status bo_labels_copy(bo_context *context, const bo_model_desc *d, char ***out)
{
    *out = NULL;
    if (!labels(d->task)) return BO_OK;
    char **copies = bo_alloc(context, d->classes, sizeof *copies, "a model's labels");
    if (!copies) return BO_MEMORY;
    for (size_t i = 0; i < d->classes; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        const char *label = d->labels ? d->labels[i] : number;
        copies[i] = bo_alloc(context, strlen(label) + 1, 1, "a label");
        if (!copies[i]) {
            bo_labels_free(copies, d->classes);
            return BO_MEMORY;
        }
        strcpy(copies[i], label);
    }
    *out = copies;
    return BO_OK;
}

void bo_labels_free(char **copies, size_t classes)
{
    for (size_t i = 0; copies && i < classes; i++) bo_free(copies[i]);
    bo_free(copies);
}

/* ---- what belongs to which task --------------------------------------------------------------------------------------- */

bo_status bo_task_resolve(bo_context *context, bo_model_desc *d)
{
    const char *name = bo_model_task_name(d->task);
    if (!name) REFUSE("no task with number %d", (int)d->task);
    if (!bo_pooling_name(d->pooling)) REFUSE("no pooling with number %d", (int)d->pooling);
    if (!bo_cross_name(d->cross)) REFUSE("no way to see a source with number %d", (int)d->cross);
    if (!labels(d->task) && (d->classes || d->labels || d->pooling || d->forward))
        REFUSE("classes, labels, pooling and forward belong to the tasks classify and match, found them with %s", name);
    if (d->task != BO_MODEL_TRANSLATE && (d->encoder_layers || d->cross))
        REFUSE("encoder_layers and cross belong to the task translate, found them with %s", name);
    if (d->task == BO_MODEL_LANGUAGE) return BO_OK;
    if (d->mixer == BO_MIXER_MLP)
        REFUSE("mixer mlp has matrices for the places of a window; texts of the task %s have any length: another mixer",
               name);
    if (d->forward && d->pooling == BO_POOLING_FIRST)
        REFUSE("pooling first with forward: the first token knows nothing of those that follow");
    if (labels(d->task)) return check_classes(context, d);
    if (d->parametrization == BO_PARAMETRIZATION_UNIT)
        REFUSE("parametrization unit shares out one residual stream, and the task translate has two: standard or mup");
    if (!d->encoder_layers) d->encoder_layers = d->layers;
    if (d->encoder_layers > MOST_LAYERS)
        REFUSE("encoder_layers must be at most %d, found %zu", MOST_LAYERS, d->encoder_layers);
    return BO_OK;
}

/* ---- cross attention --------------------------------------------------------------------------------------------------- */

static bool is_given(const bo_attention_desc *a)
{
    return a->kind != BO_ATTENTION_EXACT || a->heads || a->dim || a->scale > 0 || a->capacity || a->chunk;
}

/* HYBRID asks the source through the features of its past alone. */
static bo_attention_kind features_of_hybrid(const bo_attention_desc *a)
{
    if (bo_kernel_is_learned(a->features.kernel)) return BO_ATTENTION_LEARNED;
    return a->features.kernel == BO_KERNEL_SOFTMAX || a->features.kernel == BO_KERNEL_RBF ? BO_ATTENTION_FAVOR
                                                                                          : BO_ATTENTION_LINEAR;
}

static bo_attention_desc usual_cross(const bo_model_desc *d)
{
    bo_attention_desc a = d->attention;
    if (d->mixer != BO_MIXER_ATTENTION) return (bo_attention_desc){0};
    if (a.kind == BO_ATTENTION_HYBRID) a.kind = features_of_hybrid(&a);
    a.gate = BO_GATE_NONE;
    a.window = a.capacity = 0;
    return a;
}

bo_status bo_cross_resolve(bo_context *context, bo_model_desc *d)
{
    bo_attention_desc *a = &d->cross_attention;
    if (d->task != BO_MODEL_TRANSLATE || d->cross != BO_CROSS_ATTENTION) *a = (bo_attention_desc){0};
    if (d->task != BO_MODEL_TRANSLATE || d->cross != BO_CROSS_ATTENTION) return BO_OK;
    if (!is_given(a)) *a = usual_cross(d);
    if (a->gate != BO_GATE_NONE || a->window || a->kind == BO_ATTENTION_HYBRID)
        REFUSE("cross_attention sees all of a source at once: it has no gate and no window, and is not hybrid");
    return bo_model_resolve_attention(context, d, BO_MODEL_PART_CROSS, a);
}

/* ---- of a place -------------------------------------------------------------------------------------------------------- */

bool bo_model_attends(const bo_model_desc *d, bo_model_part part)
{
    if (part == BO_MODEL_PART_CROSS) return d->task == BO_MODEL_TRANSLATE && d->cross == BO_CROSS_ATTENTION;
    return bo_nn_mixer_attends(d->mixer);
}

bo_model_part bo_model_part_of(const bo_model_desc *d, size_t place)
{
    if (place < d->layers) return BO_MODEL_PART_LAYERS;
    return place < bo_model_place(d, BO_MODEL_PART_ENCODER) ? BO_MODEL_PART_CROSS : BO_MODEL_PART_ENCODER;
}

bo_attention_desc bo_model_attention_of(const bo_model_desc *d, bo_model_part part)
{
    bo_attention_desc a = part == BO_MODEL_PART_CROSS ? d->cross_attention : d->attention;
    a.causal = bo_model_is_causal(d, part);
    return a;
}
