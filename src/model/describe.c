/* Model descriptors: checks and defaults, and the options that belong to each task and each part. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../attention/attention.h"
#include "../text/unicode.h"
#include "internal.h"

/* Larger sizes are treated as mistakes. Their products cannot overflow. */
#define MOST_CONTEXT ((size_t)1 << 31) /* positions are int32 */
enum { MOST_LAYERS = 1 << 12, MOST_WIDTH = 1 << 20, MOST_HEADS = 1 << 16, MOST_VOCAB = 1 << 28, MOST_STATE = 1 << 16 };
enum { MOST_CLASSES = 1 << 14, MOST_LABEL = 255 }; /* a list of labels is meant to be read by people */

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

/* ====================================================================================================================
 * Descriptors of models that classify or translate texts: the options of each task, classes, and cross attention. */

static bool labels(bo_model_task task)
{
    return task == BO_MODEL_TASK_CLASSIFY || task == BO_MODEL_TASK_MATCH;
}

bo_status bo_model_require_language(bo_context *context, const bo_model *model, const char *who)
{
    static const char *const uses[] = {"", "classifies texts: use bo_model_classify",
                                       "classifies pairs of texts: use bo_model_classify",
                                       "translates texts: use bo_model_translate"};
    if (model->desc.task == BO_MODEL_TASK_LANGUAGE) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s requires a language model; this model %s (tasks.h)", who,
                   uses[model->desc.task]);
}

/* ---- direction --------------------------------------------------------------------------------------------------- */

/* True if the attention can only be causal. */
static bool looks_back(const bo_attention_desc *a)
{
    return a->gate != BO_GATE_NONE || a->window || bo_attention_has(a, BO_TRAIT_CAUSAL);
}

bool bo_model_has_kept(const bo_model_desc *d)
{
    return d->kept_attention.heads > 0;
}

const bo_attention_desc *bo_model_kind_at(const bo_model_desc *d, size_t place)
{
    const bo_model_part part = bo_model_part_of(d, place);
    return part == BO_MODEL_PART_LAYERS && bo_model_keeps(d, place) ? &d->kept_attention : bo_model_kind(d, part);
}

const bo_attention_desc *bo_model_kind(const bo_model_desc *d, bo_model_part part)
{
    if (part == BO_MODEL_PART_CROSS) return &d->cross_attention;
    const bool separate = d->task == BO_MODEL_TASK_TRANSLATE && d->mixer == BO_MIXER_ATTENTION;
    return part == BO_MODEL_PART_ENCODER && separate ? &d->encoder_attention : &d->attention;
}

bool bo_model_is_causal(const bo_model_desc *d, bo_model_part part)
{
    const bool encodes = labels(d->task) || part != BO_MODEL_PART_LAYERS;
    return !encodes || (labels(d->task) && d->forward) || looks_back(bo_model_kind(d, part));
}

/* A summary is the output of the last token, which depends on the whole source only if every layer reads forward. */
bool bo_model_alternates(const bo_model_desc *d)
{
    if (d->task == BO_MODEL_TASK_LANGUAGE || d->cross == BO_CROSS_SUMMARY || d->forward) return false;
    return !bo_nn_mixer_attends(d->mixer) || looks_back(bo_model_kind(d, BO_MODEL_PART_ENCODER));
}

static bool chosen(bo_choice choice, bool otherwise)
{
    return choice == BO_CHOICE_AUTO ? otherwise : choice == BO_CHOICE_YES;
}

bo_model_biases bo_model_biases_of(const bo_model_desc *d)
{
    bo_model_biases out = {.attention = chosen(d->attention_bias, d->bias), .mlp = chosen(d->mlp_bias, d->bias)};
    out.output = chosen(d->output_bias, out.attention);
    return out;
}

/* The attention to which window_first and window_period refer. */
static const bo_attention_desc *windowed(const bo_model_desc *d)
{
    return bo_model_has_kept(d) ? &d->kept_attention : &d->attention;
}

bool bo_model_mixes_windows(const bo_model_desc *d)
{
    return windowed(d)->window && (d->window_first || d->window_period);
}

bool bo_model_has_window(const bo_model_desc *d, size_t layer)
{
    return layer >= d->window_first && !(d->window_period && (layer + 1) % d->window_period == 0);
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

/* ---- options of each task ---------------------------------------------------------------------------------------- */

static bo_status resolve_task(bo_context *context, bo_model_desc *d)
{
    const char *name = bo_model_task_name(d->task);
    if (!name) REFUSE("unknown task %d", (int)d->task);
    if (!bo_pooling_name(d->pooling)) REFUSE("unknown pooling %d", (int)d->pooling);
    if (!bo_cross_name(d->cross)) REFUSE("unknown cross %d", (int)d->cross);
    if (!labels(d->task) && (d->classes || d->labels || d->pooling || d->forward))
        REFUSE("classes, labels, pooling and forward require the task classify or match, found %s", name);
    if (d->task != BO_MODEL_TASK_TRANSLATE && (d->encoder_layers || d->cross))
        REFUSE("encoder_layers and cross require the task translate, found %s", name);
    if (d->task == BO_MODEL_TASK_LANGUAGE) return BO_OK;
    if (d->mixer == BO_MIXER_MLP)
        REFUSE(
            "mixer mlp requires sequences of a fixed length, but texts of the task %s have any length: choose another mixer",
            name);
    if (d->forward && d->pooling == BO_POOLING_FIRST)
        REFUSE("pooling first cannot be combined with forward: the first token does not depend on later ones");
    if (labels(d->task)) return check_classes(context, d);
    if (d->parametrization == BO_PARAMETRIZATION_UNIT)
        REFUSE(
            "parametrization unit supports one residual stream, but the task translate has two: use standard or mup");
    if (!d->encoder_layers) d->encoder_layers = d->layers;
    if (d->encoder_layers > MOST_LAYERS)
        REFUSE("encoder_layers must be at most %d, found %zu", MOST_LAYERS, d->encoder_layers);
    return BO_OK;
}

/* ---- attention of the encoder, and cross attention --------------------------------------------------------------- */

bool bo_model_is_given(const bo_attention_desc *a)
{
    return a->kind || a->heads || a->dim || a->scale > 0 || a->gate || a->window || a->normalizer || a->capacity ||
           a->chunk;
}

static bo_status resolve_encoder(bo_context *context, bo_model_desc *d)
{
    bo_attention_desc *a = &d->encoder_attention;
    const bool used = bo_model_kind(d, BO_MODEL_PART_ENCODER) == a;
    if (!used || !bo_model_is_given(a)) *a = used ? d->attention : (bo_attention_desc){0};
    return used ? bo_model_resolve_attention(context, d, BO_MODEL_PART_ENCODER, a) : BO_OK;
}

static bo_attention_desc usual_cross(const bo_model_desc *d)
{
    bo_attention_desc a = d->attention;
    if (d->mixer != BO_MIXER_ATTENTION) return (bo_attention_desc){0};
    a.kind = bo_attention_cross_kind(&a);
    a.gate = BO_GATE_NONE;
    a.window = a.capacity = 0;
    return a;
}

static bo_status resolve_cross(bo_context *context, bo_model_desc *d)
{
    bo_attention_desc *a = &d->cross_attention;
    if (d->task != BO_MODEL_TASK_TRANSLATE || d->cross != BO_CROSS_ATTENTION) *a = (bo_attention_desc){0};
    if (d->task != BO_MODEL_TASK_TRANSLATE || d->cross != BO_CROSS_ATTENTION) return BO_OK;
    if (!bo_model_is_given(a)) *a = usual_cross(d);
    if (a->gate != BO_GATE_NONE || a->window || !bo_attention_has(a, BO_TRAIT_CROSS))
        REFUSE(
            "cross_attention must have no gate and no window and must not be hybrid: it attends to the whole source at once");
    return bo_model_resolve_attention(context, d, BO_MODEL_PART_CROSS, a);
}

/* ---- attention of a part ----------------------------------------------------------------------------------------- */

bool bo_model_attends(const bo_model_desc *d, bo_model_part part)
{
    if (part == BO_MODEL_PART_CROSS) return d->task == BO_MODEL_TASK_TRANSLATE && d->cross == BO_CROSS_ATTENTION;
    return bo_nn_mixer_attends(d->mixer);
}

bo_model_part bo_model_part_of(const bo_model_desc *d, size_t place)
{
    if (place < d->layers) return BO_MODEL_PART_LAYERS;
    return place < bo_model_place(d, BO_MODEL_PART_ENCODER) ? BO_MODEL_PART_CROSS : BO_MODEL_PART_ENCODER;
}

bo_attention_desc bo_model_attention_at(const bo_model_desc *d, size_t place)
{
    const bo_attention_desc *kind = bo_model_kind_at(d, place);
    bo_attention_desc a = *kind;
    a.causal = bo_model_is_causal(d, bo_model_part_of(d, place));
    if (bo_model_mixes_windows(d) && kind == windowed(d))
        *(bo_model_has_window(d, place) ? &a.capacity : &a.window) = 0;
    return a;
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
        desc->heads = presets[i].heads;
        desc->context = presets[i].context;
        return true;
    }
    return false;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static bo_status check_size(bo_context *context, const char *name, size_t value, size_t most)
{
    if (value == 0) REFUSE("%s must be at least 1, found 0", name);
    if (value > most) REFUSE("%s must be at most %zu, found %zu", name, most, value);
    return BO_OK;
}

static bool turns(bo_positions positions)
{
    return positions == BO_POSITIONS_ROPE || positions == BO_POSITIONS_ROPE_NEIGHBORS;
}

/* A text and its end token. */
size_t bo_model_positions(const bo_model_desc *d)
{
    return d->context + (d->task == BO_MODEL_TASK_TRANSLATE);
}

size_t bo_model_most_tokens(const bo_model_desc *d)
{
    return d->positions == BO_POSITIONS_LEARNED || d->mixer == BO_MIXER_MLP ? bo_model_positions(d) : 0;
}

static bo_status resolve_heads(bo_context *context, bo_model_desc *d)
{
    if (!d->key_heads) d->key_heads = d->heads;
    if (d->key_heads > d->heads || d->heads % d->key_heads)
        REFUSE("key_heads must divide heads = %zu, found %zu", d->heads, d->key_heads);
    if (!d->head_dim && d->width % d->heads)
        REFUSE("heads must divide width = %zu if head_dim is not given, found %zu", d->width, d->heads);
    if (!d->head_dim) d->head_dim = d->width / d->heads;
    BO_TRY(check_size(context, "head_dim", d->head_dim, MOST_WIDTH));
    if (turns(d->positions) && d->head_dim % 2)
        REFUSE("positions %s rotate pairs of columns: head_dim must be even, found %zu",
               bo_positions_name(d->positions), d->head_dim);
    return BO_OK;
}

/* Returns the number of token ids. Translations need an end token, also if the tokenizer has none. */
static size_t count_ids(const bo_tokenizer *tokenizer, bo_model_task task)
{
    return bo_tokenizer_vocab(tokenizer) + (task == BO_MODEL_TASK_TRANSLATE && bo_tokenizer_end(tokenizer) < 0);
}

static bo_status resolve_sizes(bo_context *context, const bo_tokenizer *tokenizer, bo_model_desc *d)
{
    BO_TRY(check_size(context, "layers", d->layers, MOST_LAYERS));
    BO_TRY(check_size(context, "width", d->width, MOST_WIDTH));
    BO_TRY(check_size(context, "heads", d->heads, MOST_HEADS));
    BO_TRY(check_size(context, "context", d->context, MOST_CONTEXT));
    const size_t ids = tokenizer ? count_ids(tokenizer, d->task) : 0;
    if (!d->vocab) d->vocab = ids;
    BO_TRY(check_size(context, "vocab", d->vocab, MOST_VOCAB));
    if (d->vocab < ids)
        REFUSE("vocab must be at least the tokenizer's %zu ids%s, found %zu", bo_tokenizer_vocab(tokenizer),
               ids > bo_tokenizer_vocab(tokenizer) ? " and an end token" : "", d->vocab);
    BO_TRY(resolve_heads(context, d));
    return bo_mlp_resolve(context, 64 * (size_t)MOST_WIDTH, d);
}

/* ---- numbers and choices ----------------------------------------------------------------------------------------- */

static bo_status check_real(bo_context *context, const char *name, double value)
{
    if (!isfinite(value) || value < 0) REFUSE("%s must be a positive number (0: the default), found %g", name, value);
    return BO_OK;
}

static bo_status resolve_numbers(bo_context *context, bo_model_desc *d)
{
    BO_TRY(check_real(context, "rope_base", d->rope_base));
    BO_TRY(check_real(context, "norm_epsilon", d->norm_epsilon));
    BO_TRY(check_real(context, "sigma", d->sigma));
    if (!(d->dropout >= 0 && d->dropout < 1)) REFUSE("dropout must be in [0, 1), found %g", d->dropout);
    /* the sigmoid is 0 or 1 in single precision far below this */
    if (!(fabs(d->gate_first) <= 100 && fabs(d->gate_last) <= 100))
        REFUSE("gate_first and gate_last must be from -100 to 100, found %g and %g", d->gate_first, d->gate_last);
    if (d->rope_base == 0) d->rope_base = 10000;
    if (d->norm_epsilon == 0) d->norm_epsilon = 1e-6;
    if (d->sigma == 0) /* the window of HYBRID needs sharper weights */
        d->sigma = bo_attention_has(&d->attention, BO_TRAIT_MIX) ? 3 : 1;
    if (d->gate_first == 0 && d->gate_last == 0) {
        d->gate_first = 1;
        d->gate_last = 5;
    }
    return BO_OK;
}

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
    return check_size(context, "base_width", d->base_width, MOST_WIDTH);
}

/* A mixer of degree 3 or 4 is one specific attention. Its queries and keys are not normalized; its outputs are
 * normalized per head. */
static void resolve_degree(bo_model_desc *d)
{
    const size_t capacity = d->attention.capacity, chunk = d->attention.chunk;
    d->attention = bo_nn_mixer_attention();
    d->attention.capacity = capacity;
    d->attention.chunk = chunk;
    if (d->query_norm == BO_CHOICE_AUTO) d->query_norm = BO_CHOICE_NO;
    if (d->output_norm == BO_CHOICE_AUTO) d->output_norm = BO_CHOICE_YES;
}

/* Options of other mixers stay 0. Rotary positions are turned off if the mixer has no queries and keys. */
static bo_status resolve_mixer(bo_context *context, bo_model_desc *d)
{
    const bool ssm = d->mixer == BO_MIXER_SSM, convolves = ssm || d->mixer == BO_MIXER_CONV;
    if (!bo_ssm_name(d->ssm)) REFUSE("unknown state-space system %d", (int)d->ssm);
    if (!ssm) d->ssm = BO_SSM_DIAGONAL;
    d->state_size = !ssm ? 0 : d->state_size ? d->state_size : 16;
    d->state_rank = !ssm || d->ssm == BO_SSM_DIAGONAL ? 0 : d->state_rank ? d->state_rank : 1;
    d->kernel = !convolves ? 0 : d->kernel ? d->kernel : ssm ? 4 : 64;
    if (ssm) BO_TRY(check_size(context, "state_size", d->state_size, MOST_STATE));
    if (d->state_rank > d->state_size)
        REFUSE("state_rank must be at most state_size = %zu, found %zu", d->state_size, d->state_rank);
    if (convolves) BO_TRY(check_size(context, "kernel", d->kernel, MOST_WIDTH));
    if (d->mixer == BO_MIXER_ATTENTION) return BO_OK;
    if (bo_nn_mixer_attends(d->mixer)) return resolve_degree(d), BO_OK;
    if (turns(d->positions)) d->positions = BO_POSITIONS_NONE;
    d->attention = (bo_attention_desc){0};
    d->query_norm = d->output_norm = BO_CHOICE_NO;
    return BO_OK;
}

static bo_status check_choices(bo_context *context, const bo_model_desc *d)
{
    if (!bo_mixer_name(d->mixer)) REFUSE("unknown mixer %d", (int)d->mixer);
    if (!bo_mlp_name(d->mlp)) REFUSE("unknown MLP %d", (int)d->mlp);
    if (!bo_norm_name(d->norm)) REFUSE("unknown norm %d", (int)d->norm);
    if (!bo_positions_name(d->positions)) REFUSE("unknown positions %d", (int)d->positions);
    if ((unsigned)d->query_norm > BO_CHOICE_YES || (unsigned)d->output_norm > BO_CHOICE_YES)
        REFUSE("query_norm and output_norm must be auto, no or yes, found numbers %d and %d", (int)d->query_norm,
               (int)d->output_norm);
    return BO_OK;
}

/* ---- options of pretrained models -------------------------------------------------------------------------------- */

static bo_status resolve_factor(bo_context *context, const char *name, double *factor)
{
    if (!isfinite(*factor) || *factor < 0)
        REFUSE("%s must be a positive number (0: the default), found %g", name, *factor);
    if (*factor == 0) *factor = 1;
    return BO_OK;
}

/* If all biases are the same, `bias` alone tells it, so that it can be changed in a descriptor of a model. */
static bo_status resolve_biases(bo_context *context, bo_model_desc *d)
{
    if ((unsigned)d->attention_bias > BO_CHOICE_YES || (unsigned)d->output_bias > BO_CHOICE_YES ||
        (unsigned)d->mlp_bias > BO_CHOICE_YES)
        REFUSE("attention_bias, output_bias and mlp_bias must be auto, no or yes, found numbers %d, %d and %d",
               (int)d->attention_bias, (int)d->output_bias, (int)d->mlp_bias);
    if (!bo_nn_mixer_attends(d->mixer)) d->attention_bias = d->output_bias = BO_CHOICE_AUTO;
    const bo_model_biases have = bo_model_biases_of(d);
    if (have.output && !have.attention) REFUSE("output_bias requires attention_bias");
    if (have.attention == have.output && have.attention == have.mlp) {
        d->bias = have.mlp;
        d->attention_bias = d->output_bias = d->mlp_bias = BO_CHOICE_AUTO;
    }
    if (d->head_bias && d->task != BO_MODEL_TASK_LANGUAGE)
        REFUSE("head_bias requires the task language, found %s", bo_model_task_name(d->task));
    return BO_OK;
}

static bo_status resolve_rope(bo_context *context, bo_model_desc *d)
{
    bo_rope_scaling *s = &d->rope_scaling;
    BO_TRY(check_real(context, "local_rope_base", d->local_rope_base));
    if (!bo_rope_scaling_kind_name(s->kind)) REFUSE("unknown scaling of RoPE %d", (int)s->kind);
    if (!turns(d->positions)) {
        d->rotated = 0;
        d->local_rope_base = 0;
        *s = (bo_rope_scaling){0};
        return BO_OK;
    }
    if (d->rotated > d->head_dim || d->rotated % 2)
        REFUSE("rotated must be an even number up to head_dim = %zu, found %zu", d->head_dim, d->rotated);
    if (d->rotated == d->head_dim) d->rotated = 0; /* stays right if head_dim is changed */
    if (s->kind == BO_ROPE_SCALING_KIND_NONE) *s = (bo_rope_scaling){0};
    if (s->kind != BO_ROPE_SCALING_KIND_LLAMA3) s->low = s->high = s->original = 0;
    if (s->kind != BO_ROPE_SCALING_KIND_NONE && !(s->factor > 0 && isfinite(s->factor)))
        REFUSE("rope_scaling.factor must be a positive number, found %g", s->factor);
    if (s->kind == BO_ROPE_SCALING_KIND_LLAMA3 &&
        !(s->low > 0 && s->high > s->low && isfinite(s->high) && s->original > 0 && isfinite(s->original)))
        REFUSE("rope_scaling must have 0 < low < high and 0 < original, found %g, %g and %g", s->low, s->high,
               s->original);
    return BO_OK;
}

/* Only attention that keeps keys can have a window in some of the layers. */
static void resolve_windows(bo_model_desc *d)
{
    const bool keeps = d->mixer == BO_MIXER_ATTENTION && bo_attention_has(windowed(d), BO_TRAIT_CAPACITY);
    if (d->task == BO_MODEL_TASK_LANGUAGE && keeps && windowed(d)->window) return;
    d->window_first = d->window_period = 0;
    d->local_rope_base = 0;
}

static bo_status resolve_options(bo_context *context, bo_model_desc *d)
{
    if (!bo_block_name(d->block)) REFUSE("unknown block %d", (int)d->block);
    if (d->block != BO_BLOCK_SEQUENTIAL && d->task == BO_MODEL_TASK_TRANSLATE)
        REFUSE("block %s does not support the task translate: cross attention is between mixer and MLP",
               bo_block_name(d->block));
    const bool inner = d->block == BO_BLOCK_SANDWICH || d->block == BO_BLOCK_AFTER;
    if (inner && (d->mixer != BO_MIXER_ATTENTION || !bo_nn_mlp_token_wise(d->mlp)))
        REFUSE("block %s requires the mixer attention and an MLP with an activation function, found %s and %s",
               bo_block_name(d->block), bo_mixer_name(d->mixer), bo_mlp_name(d->mlp));
    BO_TRY(resolve_biases(context, d));
    BO_TRY(resolve_factor(context, "embedding_scale", &d->embedding_scale));
    BO_TRY(resolve_factor(context, "residual_scale", &d->residual_scale));
    if (d->residual_scale != 1 && (bo_model_biases_of(d).output || bo_model_biases_of(d).mlp))
        REFUSE("residual_scale requires layers without output_bias and mlp_bias, which it would not multiply");
    BO_TRY(resolve_factor(context, "logit_scale", &d->logit_scale));
    resolve_windows(d);
    return resolve_rope(context, d);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static bo_status fill_size(bo_context *context, const char *name, size_t wanted, size_t *size)
{
    if (*size && *size != wanted) REFUSE("attention.%s must be %zu (or 0), found %zu", name, wanted, *size);
    *size = wanted;
    return BO_OK;
}

bo_status bo_model_resolve_attention(bo_context *context, const bo_model_desc *d, bo_model_part part,
                                     bo_attention_desc *a)
{
    bo_features_desc *f = &a->features;
    if (!bo_attention_kind_name(a->kind)) REFUSE("unknown attention %d", (int)a->kind);
    if (f->kernel == BO_KERNEL_CUSTOM || f->custom)
        REFUSE("kernel custom is not supported in a model: a callback cannot be saved in a file");
    if (f->length_scales || f->sample) REFUSE("attention.features must not have length_scales or a sample");
    BO_TRY(fill_size(context, "heads", d->heads, &a->heads));
    BO_TRY(fill_size(context, "key_heads", d->key_heads, &a->key_heads));
    BO_TRY(fill_size(context, "dim", d->head_dim, &a->dim));
    BO_TRY(fill_size(context, "value_dim", d->head_dim, &a->value_dim));
    a->causal = bo_model_is_causal(d, part);
    if (bo_attention_has(a, BO_TRAIT_MEMORY)) a->normalizer = BO_NORMALIZER_NONE;
    if (!f->features && bo_attention_has(a, BO_TRAIT_DRAWS) && bo_features_needs_length(f)) f->features = 128;
    if (!f->seed) f->seed = d->seed;
    bool signed_features = bo_attention_has(a, BO_TRAIT_UNIT_ROWS) && f->kernel == BO_KERNEL_RBF;
    if (a->clamp == 0 && signed_features && a->normalizer == BO_NORMALIZER_SUM) a->clamp = 0.02;
    const bool all = !a->window || (bo_model_mixes_windows(d) && a == windowed(d)); /* some layer sees all keys */
    if (!a->capacity && bo_attention_has(a, BO_TRAIT_CAPACITY) && all) a->capacity = bo_model_positions(d);
    return BO_OK;
}

bo_choice bo_query_norm(const bo_attention_desc *a)
{
    return a->unit || bo_attention_has(a, BO_TRAIT_UNIT_ROWS) ? BO_CHOICE_NO : BO_CHOICE_YES;
}

bo_choice bo_output_norm(const bo_attention_desc *a)
{
    return a->normalizer == BO_NORMALIZER_NONE ? BO_CHOICE_YES : BO_CHOICE_NO;
}

static bo_status resolve_attention(bo_context *context, bo_model_desc *d)
{
    bo_attention_desc *a = &d->attention;
    BO_TRY(bo_model_resolve_attention(context, d, BO_MODEL_PART_LAYERS, a));
    if (bo_model_has_kept(d)) BO_TRY(bo_model_resolve_attention(context, d, BO_MODEL_PART_LAYERS, &d->kept_attention));
    if (d->query_norm == BO_CHOICE_AUTO) d->query_norm = bo_query_norm(a);
    if (d->output_norm == BO_CHOICE_AUTO) d->output_norm = bo_output_norm(a);
    return BO_OK;
}

bo_status bo_model_resolve(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                           bo_model_desc *out)
{
    BO_TRY(bo_check_reserved(context, "bo_model_desc", desc->reserved));
    bo_model_desc d = *desc;
    BO_TRY(check_choices(context, &d));
    BO_TRY(resolve_task(context, &d));
    BO_TRY(resolve_mixer(context, &d));
    BO_TRY(resolve_sizes(context, tokenizer, &d));
    BO_TRY(bo_model_resolve_kept(context, &d));
    BO_TRY(resolve_numbers(context, &d));
    BO_TRY(resolve_parametrization(context, &d));
    BO_TRY(resolve_options(context, &d));
    if (bo_nn_mixer_attends(d.mixer)) BO_TRY(resolve_attention(context, &d));
    BO_TRY(resolve_encoder(context, &d));
    BO_TRY(resolve_cross(context, &d));
    *out = d;
    return BO_OK;
}
