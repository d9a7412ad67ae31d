/* One block: checks and defaults, with the options that belong to each mixer and each MLP. */
#include <math.h>
#include <string.h>
#include "../nn/enums.h"
#include "../features/facts.h"
#include "enums.h"
#include "../attention/enums.h"
#include "../attention/attention.h"
#include "../nn/nn.h"
#include "blocks.h"
#include "internal.h"

enum { MAX_WIDTH = 1 << 20, MAX_HEADS = 1 << 16, MAX_STATE = 1 << 16 };

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

/* ---- derived properties ------------------------------------------------------------------------------------------ */

bool bo_attention_looks_back(const bo_attention_desc *a)
{
    return a->gate != BO_GATE_NONE || a->window || bo_attention_has(a, BO_TRAIT_CAUSAL);
}

bo_choice bo_query_norm(const bo_attention_desc *a)
{
    return a->unit || bo_attention_has(a, BO_TRAIT_UNIT_ROWS) ? BO_CHOICE_NO : BO_CHOICE_YES;
}

bo_choice bo_output_norm(const bo_attention_desc *a)
{
    return a->normalizer == BO_NORMALIZER_NONE ? BO_CHOICE_YES : BO_CHOICE_NO;
}

void bo_block_attend(bo_block *block, const bo_attention_desc *attention)
{
    if (block->attention.kind != attention->kind) block->query_norm = block->output_norm = BO_CHOICE_AUTO;
    if (bo_attention_has(&block->attention, BO_TRAIT_MIX) != bo_attention_has(attention, BO_TRAIT_MIX))
        block->sigma = 1;
    block->attention = *attention;
}

/* ---- sizes and numbers ------------------------------------------------------------------------------------------- */

static bool turns(bo_positions positions)
{
    return positions == BO_POSITIONS_ROPE || positions == BO_POSITIONS_ROPE_NEIGHBORS;
}

static bo_status check_choices(bo_context *context, const bo_block *b)
{
    if (!bo_mixer_name(b->mixer)) REFUSE("unknown mixer %d", (int)b->mixer);
    if (!bo_mlp_name(b->mlp)) REFUSE("unknown MLP %d", (int)b->mlp);
    if (!bo_norm_name(b->norm)) REFUSE("unknown norm %d", (int)b->norm);
    if (!bo_positions_name(b->positions)) REFUSE("unknown positions %d", (int)b->positions);
    if (!bo_residual_name(b->residual)) REFUSE("unknown residual rule %d", (int)b->residual);
    if ((unsigned)b->query_norm > BO_CHOICE_YES || (unsigned)b->output_norm > BO_CHOICE_YES)
        REFUSE("query_norm and output_norm must be auto, no or yes, found numbers %d and %d", (int)b->query_norm,
               (int)b->output_norm);
    return BO_OK;
}

static bo_status resolve_heads(bo_context *context, const bo_model_desc *d, bo_block *b)
{
    BO_TRY(bo_model_check_size(context, "heads", b->heads, MAX_HEADS));
    if (!b->key_heads) b->key_heads = b->heads;
    if (b->key_heads > b->heads || b->heads % b->key_heads)
        REFUSE("key_heads must divide heads = %zu, found %zu", b->heads, b->key_heads);
    if (!b->head_dim && d->width % b->heads)
        REFUSE("heads must divide width = %zu if head_dim is 0, found %zu", d->width, b->heads);
    if (!b->head_dim) b->head_dim = d->width / b->heads;
    BO_TRY(bo_model_check_size(context, "head_dim", b->head_dim, MAX_WIDTH));
    if (turns(b->positions) && b->head_dim % 2)
        REFUSE("positions %s rotate pairs of columns: head_dim must be even, found %zu",
               bo_positions_name(b->positions), b->head_dim);
    return BO_OK;
}

static bo_status resolve_numbers(bo_context *context, bo_block *b)
{
    BO_TRY(bo_model_check_real(context, "rope_base", b->rope_base));
    BO_TRY(bo_model_check_real(context, "norm_epsilon", b->norm_epsilon));
    BO_TRY(bo_model_check_real(context, "sigma", b->sigma));
    /* in single precision the sigmoid is 0 or 1 far below this limit */
    if (!(fabs(b->gate_first) <= 100 && fabs(b->gate_last) <= 100))
        REFUSE("gate_first and gate_last must be from -100 to 100, found %g and %g", b->gate_first, b->gate_last);
    if (b->rope_base == 0) b->rope_base = 10000;
    if (b->norm_epsilon == 0) b->norm_epsilon = 1e-6;
    if (b->sigma == 0) /* the window of HYBRID needs sharper weights */
        b->sigma = bo_attention_has(&b->attention, BO_TRAIT_MIX) ? 3 : 1;
    if (b->gate_first == 0 && b->gate_last == 0) {
        b->gate_first = 1;
        b->gate_last = 5;
    }
    return BO_OK;
}

/* ---- mixers ------------------------------------------------------------------------------------------------------ */

/* A mixer of degree 3 or 4 is one specific attention. Its queries and keys are not normalized; its outputs are
 * normalized per head. */
static void resolve_degree(bo_block *b)
{
    const size_t capacity = b->attention.capacity, chunk = b->attention.chunk;
    b->attention = bo_nn_mixer_attention();
    b->attention.capacity = capacity;
    b->attention.chunk = chunk;
    if (b->query_norm == BO_CHOICE_AUTO) b->query_norm = BO_CHOICE_NO;
    if (b->output_norm == BO_CHOICE_AUTO) b->output_norm = BO_CHOICE_YES;
}

/* Options of other mixers remain 0. A mixer without queries and keys has no rotary positions. */
static bo_status resolve_mixer(bo_context *context, bo_block *b)
{
    const bool ssm = b->mixer == BO_MIXER_SSM, convolves = ssm || b->mixer == BO_MIXER_CONV;
    if (!bo_ssm_name(b->ssm)) REFUSE("unknown state-space system %d", (int)b->ssm);
    if (!ssm) b->ssm = BO_SSM_DIAGONAL;
    b->state_size = !ssm ? 0 : b->state_size ? b->state_size : 16;
    b->state_rank = !ssm || b->ssm == BO_SSM_DIAGONAL ? 0 : b->state_rank ? b->state_rank : 1;
    b->kernel = !convolves ? 0 : b->kernel ? b->kernel : ssm ? 4 : 64;
    if (ssm) BO_TRY(bo_model_check_size(context, "state_size", b->state_size, MAX_STATE));
    if (b->state_rank > b->state_size)
        REFUSE("state_rank must be at most state_size = %zu, found %zu", b->state_size, b->state_rank);
    if (convolves) BO_TRY(bo_model_check_size(context, "kernel", b->kernel, MAX_WIDTH));
    if (b->mixer == BO_MIXER_ATTENTION) return BO_OK;
    if (bo_nn_mixer_attends(b->mixer)) return resolve_degree(b), BO_OK;
    if (turns(b->positions)) b->positions = BO_POSITIONS_NONE;
    b->attention = (bo_attention_desc){0};
    b->query_norm = b->output_norm = BO_CHOICE_NO;
    return BO_OK;
}

/* ---- biases, RoPE, residual rule --------------------------------------------------------------------------------- */

/* If all biases are equal, only `bias` is set, so that it can be changed in a model's descriptor. */
static bo_status resolve_biases(bo_context *context, bo_block *b)
{
    if ((unsigned)b->attention_bias > BO_CHOICE_YES || (unsigned)b->output_bias > BO_CHOICE_YES ||
        (unsigned)b->mlp_bias > BO_CHOICE_YES)
        REFUSE("attention_bias, output_bias and mlp_bias must be auto, no or yes, found numbers %d, %d and %d",
               (int)b->attention_bias, (int)b->output_bias, (int)b->mlp_bias);
    if (!bo_nn_mixer_attends(b->mixer)) b->attention_bias = b->output_bias = BO_CHOICE_AUTO;
    const bo_block_biases have = bo_block_biases_of(b);
    if (have.output && !have.attention) REFUSE("output_bias requires attention_bias");
    if (have.attention == have.output && have.attention == have.mlp) {
        b->bias = have.mlp;
        b->attention_bias = b->output_bias = b->mlp_bias = BO_CHOICE_AUTO;
    }
    return BO_OK;
}

static bo_status resolve_rope(bo_context *context, bo_block *b)
{
    bo_rope_scaling *s = &b->rope_scaling;
    if (!bo_rope_scaling_kind_name(s->kind)) REFUSE("unknown scaling of RoPE %d", (int)s->kind);
    if (!turns(b->positions)) {
        b->rotated = 0;
        *s = (bo_rope_scaling){0};
        return BO_OK;
    }
    if (b->rotated > b->head_dim || b->rotated % 2)
        REFUSE("rotated must be an even number up to head_dim = %zu, found %zu", b->head_dim, b->rotated);
    if (b->rotated == b->head_dim) b->rotated = 0; /* remains valid if head_dim changes */
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

static bo_status resolve_residual(bo_context *context, const bo_model_desc *d, bo_block *b)
{
    if (b->residual != BO_RESIDUAL_SEQUENTIAL && d->task == BO_MODEL_TASK_TRANSLATE)
        REFUSE("residual rule %s does not support the task translate: cross attention is between mixer and MLP",
               bo_residual_name(b->residual));
    const bo_residual_rule *rule = bo_residual_rule_of(b->residual);
    const bool normed = bo_nn_mlp_token_wise(b->mlp) || b->mlp == BO_MLP_LAYERS;
    if ((rule->mixer_summand && b->mixer != BO_MIXER_ATTENTION) || (rule->mlp_summand && !normed))
        REFUSE(
            "residual rule %s requires the mixer attention and an MLP with an activation function or layers, found %s "
            "and %s",
            bo_residual_name(b->residual), bo_mixer_name(b->mixer), bo_mlp_name(b->mlp));
    BO_TRY(resolve_biases(context, b));
    BO_TRY(bo_model_check_real(context, "residual_scale", b->residual_scale));
    if (b->residual_scale == 0) b->residual_scale = 1;
    if (b->residual_scale != 1 && (bo_block_biases_of(b).output || bo_block_biases_of(b).mlp))
        REFUSE("residual_scale requires layers without output_bias and mlp_bias, which it would not multiply");
    return BO_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static bo_status fill_size(bo_context *context, const char *name, size_t required, size_t *size)
{
    if (*size && *size != required) REFUSE("attention.%s must be %zu (or 0), found %zu", name, required, *size);
    *size = required;
    return BO_OK;
}

static bo_status resolve_attention(bo_context *context, const bo_model_desc *d, const bo_block *b, bool encodes,
                                   bo_attention_desc *a)
{
    bo_features_desc *f = &a->features;
    if (!bo_attention_kind_name(a->kind)) REFUSE("unknown attention %d", (int)a->kind);
    if (f->kernel == BO_KERNEL_CUSTOM || f->custom)
        REFUSE("kernel custom is not supported in a model: a callback cannot be saved in a file");
    if (f->length_scales || f->sample) REFUSE("attention.features must not have length_scales or a sample");
    BO_TRY(fill_size(context, "heads", b->heads, &a->heads));
    BO_TRY(fill_size(context, "key_heads", b->key_heads, &a->key_heads));
    BO_TRY(fill_size(context, "dim", b->head_dim, &a->dim));
    BO_TRY(fill_size(context, "value_dim", b->head_dim, &a->value_dim));
    a->causal = !encodes || bo_attention_looks_back(a);
    if (bo_attention_has(a, BO_TRAIT_MEMORY)) a->normalizer = BO_NORMALIZER_NONE;
    if (!f->features && bo_attention_has(a, BO_TRAIT_DRAWS) && bo_features_needs_length(f)) f->features = 128;
    if (!f->seed) f->seed = d->seed;
    const bool signed_features = bo_attention_has(a, BO_TRAIT_UNIT_ROWS) && f->kernel == BO_KERNEL_RBF;
    if (a->clamp == 0 && signed_features && a->normalizer == BO_NORMALIZER_SUM) a->clamp = 0.02;
    if (!a->capacity && bo_attention_has(a, BO_TRAIT_CAPACITY) && !a->window) a->capacity = bo_model_positions(d);
    return BO_OK;
}

static bool is_set(const bo_attention_desc *a)
{
    return a->kind || a->heads || a->dim || a->scale > 0 || a->gate || a->window || a->normalizer || a->capacity ||
           a->chunk;
}

static bo_attention_desc default_cross(const bo_block *b)
{
    bo_attention_desc a = b->attention;
    if (b->mixer != BO_MIXER_ATTENTION) return (bo_attention_desc){0};
    a.kind = bo_attention_cross_kind(&a);
    a.gate = BO_GATE_NONE;
    a.window = a.capacity = 0;
    return a;
}

static bo_status resolve_cross(bo_context *context, const bo_model_desc *d, bo_model_part part, bo_block *b)
{
    bo_attention_desc *a = &b->cross_attention;
    const bool has =
        d->task == BO_MODEL_TASK_TRANSLATE && d->cross == BO_CROSS_ATTENTION && part == BO_MODEL_PART_LAYERS;
    if (!has) *a = (bo_attention_desc){0};
    if (!has) return BO_OK;
    if (!is_set(a)) *a = default_cross(b);
    if (a->gate != BO_GATE_NONE || a->window || !bo_attention_has(a, BO_TRAIT_CROSS))
        REFUSE("cross_attention must have no gate and no window and must not be hybrid, because it attends to the "
               "whole source");
    return resolve_attention(context, d, b, true, a);
}

static bo_status resolve_replaced(bo_context *context, const bo_model_desc *d, bo_block *b)
{
    bo_attention_desc *a = &b->replaced;
    if (!is_set(a)) *a = (bo_attention_desc){0};
    if (!is_set(a)) return BO_OK;
    if (d->task != BO_MODEL_TASK_LANGUAGE || b->mixer != BO_MIXER_ATTENTION)
        REFUSE("an attention that replaces another requires the task language and the mixer attention");
    return resolve_attention(context, d, b, false, a);
}

static bo_status resolve_attentions(bo_context *context, const bo_model_desc *d, bo_model_part part, bo_block *b)
{
    const bool labels = d->task == BO_MODEL_TASK_CLASSIFY || d->task == BO_MODEL_TASK_MATCH;
    const bool encodes = part == BO_MODEL_PART_ENCODER || (labels && !d->forward);
    if (bo_nn_mixer_attends(b->mixer)) {
        BO_TRY(resolve_attention(context, d, b, encodes, &b->attention));
        if (b->query_norm == BO_CHOICE_AUTO) b->query_norm = bo_query_norm(&b->attention);
        if (b->output_norm == BO_CHOICE_AUTO) b->output_norm = bo_output_norm(&b->attention);
    }
    BO_TRY(resolve_replaced(context, d, b));
    return resolve_cross(context, d, part, b);
}

bo_status bo_block_resolve(bo_context *context, const bo_model_desc *d, bo_model_part part, bo_block *b)
{
    BO_TRY(bo_check_reserved(context, "bo_block", b->reserved));
    if (b->repeat > BO_MAX_BLOCKS) REFUSE("repeat must be at most %d, found %zu", BO_MAX_BLOCKS, b->repeat);
    if (!b->repeat) b->repeat = 1;
    BO_TRY(check_choices(context, b));
    if (d->task != BO_MODEL_TASK_LANGUAGE && b->mixer == BO_MIXER_MLP)
        REFUSE("mixer mlp requires sequences of a fixed length, but texts of the task %s have any length: choose "
               "another mixer",
               bo_model_task_name(d->task));
    BO_TRY(resolve_mixer(context, b));
    BO_TRY(resolve_heads(context, d, b));
    BO_TRY(bo_mlp_resolve(context, 64 * (size_t)MAX_WIDTH, d, b));
    BO_TRY(resolve_numbers(context, b));
    BO_TRY(resolve_residual(context, d, b));
    BO_TRY(resolve_rope(context, b));
    return resolve_attentions(context, d, part, b);
}
