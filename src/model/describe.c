/* Descriptors of models: presets, defaults, and what makes no sense. */
#include <math.h>
#include <string.h>
#include "../attention/attention.h"
#include "internal.h"

/* Sizes beyond these are a mistake, and their products stay far from overflow. */
enum { MOST_LAYERS = 1 << 12, MOST_WIDTH = 1 << 20, MOST_HEADS = 1 << 16, MOST_VOCAB = 1 << 28, MOST_STATE = 1 << 16 };
#define MOST_CONTEXT ((size_t)1 << 31) /* positions are int32 */

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

/* ---- presets ------------------------------------------------------------------------------------------------------ */

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
    for (size_t i = 0; desc && i < PRESETS; i++) {
        if (!bo_same_name(name, presets[i].name)) continue;
        desc->layers = presets[i].layers;
        desc->width = presets[i].width;
        desc->heads = presets[i].heads;
        desc->context = presets[i].context;
        return true;
    }
    return false;
}

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

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

/* A text and its end. */
size_t bo_model_positions(const bo_model_desc *d)
{
    return d->context + (d->task == BO_MODEL_TRANSLATE);
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
        REFUSE("heads must divide width = %zu where head_dim is not given, found %zu", d->width, d->heads);
    if (!d->head_dim) d->head_dim = d->width / d->heads;
    BO_TRY(check_size(context, "head_dim", d->head_dim, MOST_WIDTH));
    if (turns(d->positions) && d->head_dim % 2)
        REFUSE("positions %s turn pairs: head_dim must be even, found %zu", bo_positions_name(d->positions),
               d->head_dim);
    return BO_OK;
}

/* Translations end, also where the tokenizer has nothing that says so. */
static size_t count_ids(const bo_tokenizer *tokenizer, bo_model_task task)
{
    return bo_tokenizer_vocab(tokenizer) + (task == BO_MODEL_TRANSLATE && bo_tokenizer_end(tokenizer) < 0);
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
        REFUSE("vocab must hold the tokenizer's %zu ids%s, found %zu", bo_tokenizer_vocab(tokenizer),
               ids > bo_tokenizer_vocab(tokenizer) ? " and an end" : "", d->vocab);
    BO_TRY(resolve_heads(context, d));
    return bo_mlp_resolve(context, 64 * (size_t)MOST_WIDTH, d);
}

/* ---- numbers and choices ------------------------------------------------------------------------------------------ */

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
    if (!(fabs(d->gate_first) <= 100 && fabs(d->gate_last) <= 100)) /* σ is 0 or 1 long before */
        REFUSE("gates must begin at numbers from -100 to 100, found %g and %g", d->gate_first, d->gate_last);
    if (d->rope_base == 0) d->rope_base = 10000;
    if (d->norm_epsilon == 0) d->norm_epsilon = 1e-6;
    if (d->sigma == 0) d->sigma = d->attention.kind == BO_ATTENTION_HYBRID ? 3 : 1; /* a window wants to be sharp */
    if (d->gate_first == 0 && d->gate_last == 0) {
        d->gate_first = 1;
        d->gate_last = 5;
    }
    return BO_OK;
}

/* A table that is both an embedding and the output's can follow one of unit scale's two rules only: there it is two. */
static bo_status resolve_parametrization(bo_context *context, bo_model_desc *d)
{
    if (!bo_parametrization_name(d->parametrization))
        REFUSE("no parametrization with number %d", (int)d->parametrization);
    if (d->storage != BO_STORAGE_FLOAT32 && d->storage != BO_STORAGE_FLOAT8)
        REFUSE("storage must be float32 or float8, found number %d", (int)d->storage);
    if (d->parametrization == BO_PARAMETRIZATION_STANDARD) d->base_width = 0;
    if (d->parametrization == BO_PARAMETRIZATION_STANDARD) return BO_OK;
    if (!d->base_width) d->base_width = 128;
    if (d->parametrization == BO_PARAMETRIZATION_UNIT) d->untied = true;
    return check_size(context, "base_width", d->base_width, MOST_WIDTH);
}

/* A mixer of a degree is one attention and no other. Its queries and keys are as they are projected; heads are normalized. */
static void resolve_degree(bo_model_desc *d)
{
    const size_t capacity = d->attention.capacity, chunk = d->attention.chunk;
    bo_nn_mixer_attention(d->mixer, &d->attention);
    d->attention.capacity = capacity;
    d->attention.chunk = chunk;
    if (d->query_norm == BO_CHOICE_AUTO) d->query_norm = BO_CHOICE_NO;
    if (d->output_norm == BO_CHOICE_AUTO) d->output_norm = BO_CHOICE_YES;
}

/* What belongs to another mixer stays 0; positions that turn queries and keys have none to turn. */
static bo_status resolve_mixer(bo_context *context, bo_model_desc *d)
{
    const bool ssm = d->mixer == BO_MIXER_SSM, convolves = ssm || d->mixer == BO_MIXER_CONV;
    if (!bo_ssm_name(d->ssm)) REFUSE("no state-space system with number %d", (int)d->ssm);
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
    if (!bo_mixer_name(d->mixer)) REFUSE("no mixer with number %d", (int)d->mixer);
    if (!bo_mlp_name(d->mlp)) REFUSE("no MLP with number %d", (int)d->mlp);
    if (!bo_norm_name(d->norm)) REFUSE("no norm with number %d", (int)d->norm);
    if (!bo_positions_name(d->positions)) REFUSE("no positions with number %d", (int)d->positions);
    if ((unsigned)d->query_norm > BO_CHOICE_YES || (unsigned)d->output_norm > BO_CHOICE_YES)
        REFUSE("query_norm and output_norm are auto, no or yes, found numbers %d and %d", (int)d->query_norm,
               (int)d->output_norm);
    return BO_OK;
}

/* ---- attention ---------------------------------------------------------------------------------------------------- */

bool bo_map_has_free_length(const bo_features_desc *map)
{
    bo_kernel kernel = map->kernel;
    bo_function function = map->function;
    if (function == BO_FUNCTION_TENSORSKETCH || function == BO_FUNCTION_SELFTENSOR) return true;
    return kernel != BO_KERNEL_POLYNOMIAL && kernel != BO_KERNEL_TAYLOR && kernel != BO_KERNEL_ELU &&
           kernel != BO_KERNEL_LINEAR && !bo_kernel_is_learned(kernel);
}

static bool wants_features(const bo_attention_desc *a)
{
    if (bo_is_explicit(a) || bo_is_memory(a) || bo_has_learned_map(a)) return false;
    return bo_map_has_free_length(&a->features);
}

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
    if (!bo_attention_name(a->kind)) REFUSE("no attention with number %d", (int)a->kind);
    if (f->kernel == BO_KERNEL_CUSTOM || f->custom) REFUSE("a callback does not fit a model's file: kernel custom");
    if (f->length_scales || f->sample) REFUSE("attention.features has length_scales or a sample: a model has none");
    BO_TRY(fill_size(context, "heads", d->heads, &a->heads));
    BO_TRY(fill_size(context, "key_heads", d->key_heads, &a->key_heads));
    BO_TRY(fill_size(context, "dim", d->head_dim, &a->dim));
    BO_TRY(fill_size(context, "value_dim", d->head_dim, &a->value_dim));
    a->causal = bo_model_is_causal(d, part);
    if (bo_is_memory(a)) a->normalizer = BO_NORMALIZER_NONE;
    if (!f->features && wants_features(a)) f->features = 128;
    if (!f->seed) f->seed = d->seed;
    bool signed_features = a->kind == BO_ATTENTION_RFA && f->kernel == BO_KERNEL_RBF;
    if (a->clamp == 0 && signed_features && a->normalizer == BO_NORMALIZER_SUM) a->clamp = 0.02;
    if (!a->capacity && bo_is_explicit(a) && !a->window) a->capacity = bo_model_positions(d);
    return BO_OK;
}

bo_choice bo_query_norm(const bo_attention_desc *a)
{
    return a->unit || a->kind == BO_ATTENTION_RFA ? BO_CHOICE_NO : BO_CHOICE_YES;
}

bo_choice bo_output_norm(const bo_attention_desc *a)
{
    return a->normalizer == BO_NORMALIZER_NONE ? BO_CHOICE_YES : BO_CHOICE_NO;
}

static bo_status resolve_attention(bo_context *context, bo_model_desc *d)
{
    bo_attention_desc *a = &d->attention;
    BO_TRY(bo_model_resolve_attention(context, d, BO_MODEL_PART_LAYERS, a));
    if (d->query_norm == BO_CHOICE_AUTO) d->query_norm = bo_query_norm(a);
    if (d->output_norm == BO_CHOICE_AUTO) d->output_norm = bo_output_norm(a);
    return BO_OK;
}

bo_status bo_model_resolve(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                           bo_model_desc *out)
{
    if (!desc) REFUSE("the descriptor is NULL");
    bo_model_desc d = *desc;
    BO_TRY(check_choices(context, &d));
    BO_TRY(bo_task_resolve(context, &d));
    BO_TRY(resolve_mixer(context, &d));
    BO_TRY(resolve_sizes(context, tokenizer, &d));
    BO_TRY(resolve_numbers(context, &d));
    BO_TRY(resolve_parametrization(context, &d));
    if (bo_nn_mixer_attends(d.mixer)) BO_TRY(resolve_attention(context, &d));
    BO_TRY(bo_cross_resolve(context, &d));
    *out = d;
    return BO_OK;
}
