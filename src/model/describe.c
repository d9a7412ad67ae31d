/* Model descriptors: checks and defaults, and the options that belong to each task and each part. */
#include "../text/facts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../nn/enums.h"
#include "enums.h"
#include "../attention/attention.h"
#include "../text/unicode.h"
#include "internal.h"

/* Larger sizes are treated as errors. Products of allowed sizes cannot overflow. */
#define MAX_CONTEXT ((size_t)1 << 31) /* positions are int32 */
enum { MAX_LAYERS = BO_MAX_BLOCKS, MAX_WIDTH = 1 << 20, MAX_VOCAB = 1 << 28 };
enum { MAX_CLASSES = 1 << 14, MAX_LABEL = 255 }; /* labels are meant for human readers */

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

/* ====================================================================================================================
 * Descriptors of models that classify or translate texts: the options of each task, classes, and cross attention. */

static bool labels(bo_model_task task)
{
    return task == BO_MODEL_TASK_CLASSIFY || task == BO_MODEL_TASK_MATCH;
}

bo_status bo_model_require_language(bo_context *context, const bo_model *model, const char *caller)
{
    static const char *const uses[] = {
        "", "classifies texts: use bo_model_classify", "classifies pairs of texts: use bo_model_classify",
        "translates texts: use bo_model_translate", "predicts from examples: use bo_model_predict"};
    if (model->desc.task == BO_MODEL_TASK_LANGUAGE) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s requires a language model; this model %s (%s.h)", caller,
                   uses[model->desc.task], model->network ? "network" : "tasks");
}

bo_status bo_model_require_text(bo_context *context, const bo_model *model, const char *caller)
{
    if (!model->network) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "%s requires a text model; this model predicts from examples (network.h)",
                   caller);
}

/* ---- direction --------------------------------------------------------------------------------------------------- */

/* A summary is the output of the last token, which depends on the whole source only if every layer reads forward. */
bool bo_model_alternates(const bo_model_desc *d)
{
    if (d->task == BO_MODEL_TASK_LANGUAGE || d->cross == BO_CROSS_SUMMARY || d->forward) return false;
    const bool translates = d->task == BO_MODEL_TASK_TRANSLATE;
    const bo_block_list list = bo_blocks_of(d, translates ? BO_MODEL_PART_ENCODER : BO_MODEL_PART_LAYERS);
    for (size_t i = 0; i < list.count; i++)
        if (!bo_nn_mixer_attends(list.blocks[i].mixer) || bo_attention_looks_back(&list.blocks[i].attention))
            return true;
    return false;
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

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
    if (d->classes < 2 || d->classes > MAX_CLASSES)
        REFUSE("task %s needs 2 to %d classes, found %zu", bo_model_task_name(d->task), MAX_CLASSES, d->classes);
    for (size_t i = 0; d->labels && i < d->classes; i++) {
        if (!d->labels[i] || bo_utf8_is_space_only(d->labels[i], strlen(d->labels[i])))
            REFUSE("label %zu of %zu is empty", i, d->classes);
        if (strlen(d->labels[i]) > MAX_LABEL)
            REFUSE("label %zu must have at most %d bytes, found %zu", i, MAX_LABEL, strlen(d->labels[i]));
        if (bo_utf8_has_control(d->labels[i], strlen(d->labels[i])))
            REFUSE("label %zu must have no control characters", i);
    }
    return d->labels ? check_distinct(context, d) : BO_OK;
}

/* Numbers the classes of a descriptor that owns its labels. */
static bo_status number_classes(bo_context *context, bo_model_desc *d)
{
    const char **copies = bo_alloc(context, d->classes, sizeof *copies, "a model's labels");
    d->labels = copies;
    for (size_t i = 0; copies && i < d->classes; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        copies[i] = bo_strdup(context, number);
        if (!copies[i]) return BO_MEMORY;
    }
    return copies ? BO_OK : BO_MEMORY;
}

/* ---- options of each task ---------------------------------------------------------------------------------------- */

static bo_status resolve_task(bo_context *context, bo_model_desc *d)
{
    const char *name = bo_model_task_name(d->task);
    if (d->task == BO_MODEL_TASK_PREDICT)
        REFUSE("a model of the task predict is created from a description: use bo_model_create_described()");
    if (!bo_pooling_name(d->pooling)) REFUSE("unknown pooling %d", (int)d->pooling);
    if (!bo_cross_name(d->cross)) REFUSE("unknown cross %d", (int)d->cross);
    if (!labels(d->task) && (d->classes || d->labels || d->pooling || d->forward))
        REFUSE("classes, labels, pooling and forward require the task classify or match, found %s", name);
    if (d->task != BO_MODEL_TASK_TRANSLATE && (d->encoder_layers || d->cross))
        REFUSE("encoder_layers and cross require the task translate, found %s", name);
    if (d->task == BO_MODEL_TASK_LANGUAGE) return BO_OK;
    if (d->forward && d->pooling == BO_POOLING_FIRST)
        REFUSE("pooling first cannot be combined with forward: the first token does not depend on later ones");
    if (labels(d->task)) return check_classes(context, d);
    if (d->parametrization == BO_PARAMETRIZATION_UNIT)
        REFUSE(
            "parametrization unit supports one residual stream, but the task translate has two: use standard or mup");
    if (!d->encoder_layers) d->encoder_layers = d->layers;
    if (d->encoder_layers > MAX_LAYERS)
        REFUSE("encoder_layers must be at most %d, found %zu", MAX_LAYERS, d->encoder_layers);
    return BO_OK;
}

/* ====================================================================================================================
 * Descriptors of models: presets, defaults and checks. */

/* ---- presets ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t layers, width, heads, context;
} presets[] = {{"tiny", 4, 128, 4, 256}, {"small", 6, 384, 6, 1024}, {"base", 12, 768, 12, 1024}};
enum { PRESETS = sizeof presets / sizeof *presets };

const char *bo_model_preset_name(size_t index)
{
    return index < PRESETS ? presets[index].name : NULL;
}

bool bo_model_preset(const char *name, bo_model_desc *desc)
{
    if (!name || !desc) return false;
    for (size_t i = 0; i < PRESETS; i++) {
        if (!bo_same_name(name, presets[i].name)) continue;
        desc->layers = presets[i].layers;
        desc->width = presets[i].width;
        desc->block.heads = presets[i].heads;
        desc->context = presets[i].context;
        return true;
    }
    return false;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

bo_status bo_model_check_size(bo_context *context, const char *name, size_t value, size_t max_value)
{
    if (value == 0) REFUSE("%s must be at least 1, found 0", name);
    if (value > max_value) REFUSE("%s must be at most %zu, found %zu", name, max_value, value);
    return BO_OK;
}

bo_status bo_model_check_real(bo_context *context, const char *name, double value)
{
    if (!isfinite(value) || value < 0) REFUSE("%s must be a positive number (0: the default), found %g", name, value);
    return BO_OK;
}

/* A text and its end token. */
size_t bo_model_positions(const bo_model_desc *d)
{
    return d->context + (d->task == BO_MODEL_TASK_TRANSLATE);
}

size_t bo_model_max_tokens(const bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    bool limited = bo_model_positions_kind(d) == BO_POSITIONS_LEARNED;
    for (size_t i = 0; i < list.count; i++) limited = limited || list.blocks[i].mixer == BO_MIXER_MLP;
    return limited ? bo_model_positions(d) : 0;
}

/* Returns the number of token ids. Translations need an end token, also if the tokenizer has none. */
static size_t count_ids(const bo_tokenizer *tokenizer, bo_model_task task)
{
    return bo_tokenizer_vocab(tokenizer) + (task == BO_MODEL_TASK_TRANSLATE && bo_tokenizer_end(tokenizer) < 0);
}

static bo_status resolve_sizes(bo_context *context, const bo_tokenizer *tokenizer, bo_model_desc *d)
{
    BO_TRY(bo_model_check_size(context, "layers", d->layers, MAX_LAYERS));
    BO_TRY(bo_model_check_size(context, "width", d->width, MAX_WIDTH));
    BO_TRY(bo_model_check_size(context, "context", d->context, MAX_CONTEXT));
    const size_t ids = tokenizer ? count_ids(tokenizer, d->task) : 0;
    if (!d->vocab) d->vocab = ids;
    BO_TRY(bo_model_check_size(context, "vocab", d->vocab, MAX_VOCAB));
    if (d->vocab < ids)
        REFUSE("vocab must be at least the tokenizer's %zu ids%s, found %zu", bo_tokenizer_vocab(tokenizer),
               ids > bo_tokenizer_vocab(tokenizer) ? " and an end token" : "", d->vocab);
    return BO_OK;
}

/* ---- options of the whole model ---------------------------------------------------------------------------------- */

/* An embedding table that is also the output matrix can follow only one of the two rules of unit scaling, so under unit
 * scaling the tables are separate. */
static bo_status resolve_parametrization(bo_context *context, bo_model_desc *d)
{
    if (!bo_parametrization_name(d->parametrization)) REFUSE("unknown parametrization %d", (int)d->parametrization);
    if (d->storage != BO_STORAGE_FLOAT32 && d->storage != BO_STORAGE_FLOAT8)
        REFUSE("storage must be float32 or float8, found number %d", (int)d->storage);
    if (d->parametrization == BO_PARAMETRIZATION_STANDARD) d->base_width = 0;
    if (d->parametrization == BO_PARAMETRIZATION_STANDARD) return BO_OK;
    if (!d->base_width) d->base_width = 128;
    if (d->parametrization == BO_PARAMETRIZATION_UNIT) d->untied = true;
    return bo_model_check_size(context, "base_width", d->base_width, MAX_WIDTH);
}

static bo_status resolve_factor(bo_context *context, const char *name, double *factor)
{
    BO_TRY(bo_model_check_real(context, name, *factor));
    if (*factor == 0) *factor = 1;
    return BO_OK;
}

static bo_status resolve_options(bo_context *context, bo_model_desc *d)
{
    if (!(d->dropout >= 0 && d->dropout < 1)) REFUSE("dropout must be in [0, 1), found %g", d->dropout);
    if (d->head_bias && d->task != BO_MODEL_TASK_LANGUAGE)
        REFUSE("head_bias requires the task language, found %s", bo_model_task_name(d->task));
    BO_TRY(resolve_factor(context, "embedding_scale", &d->embedding_scale));
    return resolve_factor(context, "logit_scale", &d->logit_scale);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static bo_status check_list(bo_context *context, const char *name, const bo_block *list, size_t count)
{
    if (!list == !count && count <= BO_MAX_BLOCKS) return BO_OK;
    if (!list == !count) REFUSE("%s must be at most %d blocks, found %zu", name, BO_MAX_BLOCKS, count);
    REFUSE("%s and its count must be set together, found %s and %zu", name, list ? "a list" : "no list", count);
}

static bo_status resolve_blocks(bo_context *context, bo_model_desc *d, bo_model_part part)
{
    const bo_block_list list = bo_blocks_of(d, part);
    for (size_t i = 0; i < list.count; i++) {
        const bo_status status = bo_block_resolve(context, d, part, &list.blocks[i]);
        if (status != BO_OK) return bo_block_fail(context, status, d, part, &list.blocks[i]);
    }
    bo_blocks_cut(d, part);
    bo_blocks_mirror(d);
    return BO_OK;
}

/* Positions are added to the embedding or applied in each layer. */
static bo_status check_positions(bo_context *context, const bo_model_desc *d, bo_model_part part)
{
    const bo_block_list list = bo_blocks_of(d, part);
    const bo_positions first = bo_model_positions_kind(d);
    for (size_t i = 0; i < list.count; i++) {
        const bo_positions positions = list.blocks[i].positions;
        const bool embedded = bo_positions_embedded(positions) || bo_positions_embedded(first);
        if (positions != first && (embedded || positions != BO_POSITIONS_NONE) && first != BO_POSITIONS_NONE)
            REFUSE("all blocks must have the same positions, or none instead of RoPE, found %s and %s",
                   bo_positions_name(first), bo_positions_name(positions));
        if (positions != first && first == BO_POSITIONS_NONE && bo_positions_embedded(positions))
            REFUSE("all blocks must have the same positions, found none and %s", bo_positions_name(positions));
    }
    return BO_OK;
}

/* The queries that read a source into the states of cross attention have one width. */
static bo_status check_cross(bo_context *context, const bo_model_desc *d)
{
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    if (d->task != BO_MODEL_TASK_TRANSLATE || d->cross != BO_CROSS_ATTENTION) return BO_OK;
    for (size_t i = 1; i < list.count; i++)
        if (list.blocks[i].heads * list.blocks[i].head_dim != list.blocks[0].heads * list.blocks[0].head_dim)
            REFUSE("all blocks with cross attention must have as many columns in all heads, found %zu and %zu",
                   list.blocks[0].heads * list.blocks[0].head_dim, list.blocks[i].heads * list.blocks[i].head_dim);
    return BO_OK;
}

/* Without blocks, the encoder uses the blocks of the decoder. */
static bo_status give_encoder(bo_context *context, bo_model_desc *d)
{
    if (d->task != BO_MODEL_TASK_TRANSLATE || d->encoder.heads || d->encoder_blocks) return BO_OK;
    const bo_block_list list = bo_blocks_of(d, BO_MODEL_PART_LAYERS);
    size_t *which = bo_alloc(context, d->encoder_layers, sizeof *which, "a list of blocks");
    if (!which) return BO_MEMORY;
    for (size_t i = 0; i < d->encoder_layers; i++) which[i] = (size_t)(bo_model_block(d, i) - list.blocks);
    const bo_status status = bo_blocks_arrange(context, d, BO_MODEL_PART_ENCODER, list.blocks, which);
    bo_free(which);
    return status;
}

static bo_status resolve_encoder(bo_context *context, bo_model_desc *d)
{
    if (d->task != BO_MODEL_TASK_TRANSLATE && (d->encoder.heads || d->encoder_blocks))
        REFUSE("encoder requires the task translate, found %s", bo_model_task_name(d->task));
    if (d->task != BO_MODEL_TASK_TRANSLATE) return BO_OK;
    BO_TRY(resolve_blocks(context, d, BO_MODEL_PART_ENCODER));
    return check_positions(context, d, BO_MODEL_PART_ENCODER);
}

/* Resolves an owned descriptor. */
static bo_status resolve(bo_context *context, const bo_tokenizer *tokenizer, bo_model_desc *d)
{
    BO_TRY(resolve_task(context, d));
    BO_TRY(resolve_sizes(context, tokenizer, d));
    BO_TRY(resolve_parametrization(context, d));
    BO_TRY(resolve_options(context, d));
    BO_TRY(give_encoder(context, d));
    BO_TRY(resolve_blocks(context, d, BO_MODEL_PART_LAYERS));
    BO_TRY(check_positions(context, d, BO_MODEL_PART_LAYERS));
    BO_TRY(check_cross(context, d));
    BO_TRY(resolve_encoder(context, d));
    return labels(d->task) && !d->labels ? number_classes(context, d) : BO_OK;
}

bo_status bo_model_resolve(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                           bo_model_desc *out)
{
    bo_model_desc d = {.width = 0};
    BO_TRY(bo_check_reserved(context, "bo_model_desc", desc->reserved));
    BO_TRY(check_list(context, "blocks", desc->blocks, desc->block_count));
    BO_TRY(check_list(context, "encoder_blocks", desc->encoder_blocks, desc->encoder_block_count));
    for (size_t i = 0; i < desc->encoder_block_count; i++)
        if (!desc->encoder_blocks[i].heads) REFUSE("encoder block %zu: heads must be at least 1, found 0", i);
    if (!bo_model_task_name(desc->task)) REFUSE("unknown task %d", (int)desc->task);
    if (desc->labels && !labels(desc->task)) /* they cannot be counted */
        REFUSE("classes, labels, pooling and forward require the task classify or match, found %s",
               bo_model_task_name(desc->task));
    if (labels(desc->task)) BO_TRY(check_classes(context, desc));
    BO_TRY(bo_model_desc_copy(context, desc, &d));
    const bo_status status = resolve(context, tokenizer, &d);
    if (status != BO_OK) {
        bo_model_desc_release(&d);
        return status;
    }
    *out = d;
    return BO_OK;
}
