/* Descriptors: every check that can be made before anything is built, and the defaults. */
#include <float.h>
#include <math.h>
#include "internal.h"

/* ---- checks ---------------------------------------------------------------------------------------------------- */

/* Sizes beyond this are a mistake, and their products stay far from overflow. */
enum { MOST_HEADS = 1 << 16, MOST_DIM = 1 << 20, MOST_CHUNK = 1024, MOST_ITERATIONS = 1 << 20 };
#define MOST_TOKENS ((size_t)1 << 40)

#define REFUSE(...) return bo_fail(context, BO_INVALID, "attention: " __VA_ARGS__)

static bo_status check_size(bo_context *context, const char *name, size_t value, size_t most)
{
    if (value == 0) REFUSE("%s must be at least 1, found 0", name);
    if (value > most) REFUSE("%s must be at most %zu, found %zu", name, most, value);
    return BO_OK;
}

static bo_status check_real(bo_context *context, const char *name, double value)
{
    if (!isfinite(value) || value < 0) REFUSE("%s must be a positive number (0: the default), found %g", name, value);
    return BO_OK;
}

static bo_status resolve_sizes(bo_context *context, bo_attention_desc *d)
{
    BO_TRY(check_size(context, "heads", d->heads, MOST_HEADS));
    if (!d->key_heads) d->key_heads = d->heads;
    if (d->key_heads > d->heads || d->heads % d->key_heads)
        REFUSE("key_heads must divide heads = %zu, found %zu", d->heads, d->key_heads);
    BO_TRY(check_size(context, "dim", d->dim, MOST_DIM));
    if (!d->value_dim) d->value_dim = d->dim;
    BO_TRY(check_size(context, "value_dim", d->value_dim, MOST_DIM));
    if (d->chunk > MOST_CHUNK) REFUSE("chunk must be at most %d, found %zu", MOST_CHUNK, d->chunk);
    BO_TRY(check_real(context, "scale", d->scale));
    BO_TRY(check_real(context, "clamp", d->clamp));
    BO_TRY(check_real(context, "tolerance", d->tolerance));
    BO_TRY(check_real(context, "power", d->power));
    return check_real(context, "temperature", d->temperature);
}

static bo_status resolve_window(bo_context *context, bo_attention_desc *d)
{
    bool keeps = bo_is_explicit(d), hybrid = d->kind == BO_ATTENTION_HYBRID;
    const char *name = bo_attention_name(d->kind);
    if (hybrid && !d->causal) REFUSE("kind hybrid is causal; found causal = false");
    if (hybrid && !d->window) d->window = 64;
    if (d->window && !keeps && !hybrid)
        REFUSE("a window of %zu with kind %s: only exact, power and hybrid have one", d->window, name);
    if (d->window && !d->causal) REFUSE("a window of %zu needs causal attention", d->window);
    if (d->window > MOST_TOKENS) REFUSE("window must be at most %zu, found %zu", MOST_TOKENS, d->window);
    if (d->capacity && !keeps) REFUSE("capacity %zu with kind %s: only exact and power have one", d->capacity, name);
    if (keeps && !d->capacity) d->capacity = d->window ? d->window : 4096;
    if (d->capacity > MOST_TOKENS) REFUSE("capacity must be at most %zu, found %zu", MOST_TOKENS, d->capacity);
    return BO_OK;
}

static bo_status resolve_gate(bo_context *context, bo_attention_desc *d)
{
    const char *name = bo_attention_name(d->kind);
    if ((unsigned)d->gate >= BO_GATE_COUNT) REFUSE("no gate with number %d", (int)d->gate);
    if ((unsigned)d->normalizer >= BO_NORMALIZER_COUNT) REFUSE("no normalizer with number %d", (int)d->normalizer);
    bool keeps_keys = bo_is_explicit(d) || d->kind == BO_ATTENTION_HYBRID;
    if (d->gate != BO_GATE_NONE && keeps_keys) REFUSE("kind %s has no gate; found %s", name, bo_gate_name(d->gate));
    if (d->gate != BO_GATE_NONE && d->kind == BO_ATTENTION_GLA)
        REFUSE("kind gla has gates of its own, one a channel; found gate %s", bo_gate_name(d->gate));
    if (d->gate != BO_GATE_NONE && d->gate != BO_GATE_DECAY && bo_is_memory(d))
        REFUSE("kind %s has gate none or decay; found %s", name, bo_gate_name(d->gate));
    if (d->gate != BO_GATE_NONE && !d->causal) REFUSE("gate %s needs causal attention", bo_gate_name(d->gate));
    if (d->normalizer == BO_NORMALIZER_NONE && keeps_keys) REFUSE("kind %s is always normalized", name);
    return BO_OK;
}

/* scale and features.gamma are one number for the kinds that estimate exp(s q·k). */
static bo_status resolve_softmax_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    const char *name = bo_attention_name(d->kind);
    if (!d->scale) d->scale = 1 / sqrt((double)d->dim);
    if (f->kernel == BO_KERNEL_RBF) f->kernel = BO_KERNEL_SOFTMAX;
    if (f->kernel != BO_KERNEL_SOFTMAX && d->kind != BO_ATTENTION_HYBRID)
        REFUSE("kind %s estimates the softmax kernel; found kernel %s", name, bo_kernel_name(f->kernel));
    if (f->kernel != BO_KERNEL_SOFTMAX) return BO_OK;
    if (f->gamma != 0 && f->gamma != d->scale)
        REFUSE("kind %s takes gamma from scale = %g; found gamma = %g", name, d->scale, f->gamma);
    f->gamma = d->scale;
    return BO_OK;
}

/* A learned map (LEARNED, or HYBRID with one): W and b come with the inputs, so there is nothing to scale. */
static bo_status resolve_learned_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    if (d->kind == BO_ATTENTION_LEARNED && f->kernel == BO_KERNEL_RBF) f->kernel = BO_KERNEL_COSH;
    if (!bo_kernel_is_learned(f->kernel))
        REFUSE("kind learned has kernel cosh, hedgehog or rectifier; found %s",
               bo_kernel_name(f->kernel) ? bo_kernel_name(f->kernel) : "none");
    if (d->kind == BO_ATTENTION_LEARNED && d->scale != 0)
        REFUSE("kind learned has W instead of a scale; found scale = %g", d->scale);
    if (f->gamma != 0 && f->gamma != 1) REFUSE("a learned map has W instead of gamma; found gamma = %g", f->gamma);
    if (f->length_scales) REFUSE("a learned map has W instead of length scales");
    return BO_OK;
}

/* LINEAR: scale and gamma are one number, 1/√dim by default where the kernel is a function of s q·k. */
static bo_status resolve_linear_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    bool of_products = f->kernel == BO_KERNEL_SOFTMAX || f->kernel == BO_KERNEL_LINEAR ||
                       f->kernel == BO_KERNEL_POLYNOMIAL || f->kernel == BO_KERNEL_TAYLOR;
    if (d->scale != 0 && f->gamma != 0 && d->scale != f->gamma)
        REFUSE("kind linear: scale and features.gamma are one number; found %g and %g", d->scale, f->gamma);
    if (d->scale != 0) f->gamma = d->scale;
    if (f->gamma == 0 && of_products) f->gamma = 1 / sqrt((double)d->dim);
    return BO_OK;
}

static bo_status resolve_sampling(bo_context *context, const bo_attention_desc *d)
{
    const bo_features_desc *f = &d->features;
    bool estimates = f->kernel == BO_KERNEL_SOFTMAX || f->kernel == BO_KERNEL_RBF;
    bool may = (d->kind == BO_ATTENTION_FAVOR || d->kind == BO_ATTENTION_DARK || d->kind == BO_ATTENTION_HYBRID) &&
               estimates && (f->function == BO_FUNCTION_DEFAULT || f->function == BO_FUNCTION_POSITIVE);
    if ((unsigned)d->proposal >= BO_PROPOSAL_COUNT) REFUSE("no proposal with number %d", (int)d->proposal);
    if (d->proposal != BO_PROPOSAL_NONE && !may)
        REFUSE("proposal %s is for positive features of the softmax kernel of kinds favor, dark and hybrid; found kind "
               "%s, "
               "kernel %s, function %s",
               bo_proposal_name(d->proposal), bo_attention_name(d->kind),
               estimates                   ? "softmax"
               : bo_kernel_name(f->kernel) ? bo_kernel_name(f->kernel)
                                           : "none",
               bo_function_name(f->function) ? bo_function_name(f->function) : "none");
    if (f->sampling != BO_SAMPLING_DRAWN && f->sampling != BO_SAMPLING_OPTIMAL)
        REFUSE("features are drawn or sampled optimally; found %s",
               bo_sampling_name(f->sampling) ? bo_sampling_name(f->sampling) : "no known sampling");
    return BO_OK;
}

static bo_status resolve_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    bool rfa = d->kind == BO_ATTENTION_RFA, learned = bo_has_learned_map(d);
    bool ranked = learned || d->kind == BO_ATTENTION_DARK;
    if (d->temperature != 0 && !rfa)
        REFUSE("temperature %g with kind %s: only rfa has one", d->temperature, bo_attention_name(d->kind));
    if (d->rank && !ranked)
        REFUSE("rank %zu with kind %s: only dark and learned maps have one", d->rank, bo_attention_name(d->kind));
    if (d->rank > d->dim) REFUSE("rank must be at most dim = %zu, found %zu", d->dim, d->rank);
    if (ranked && !d->rank) d->rank = d->dim;
    size_t width = ranked ? d->rank : d->dim;
    if (f->dim && f->dim != width) REFUSE("features.dim must be %zu (or 0), found %zu", width, f->dim);
    f->dim = width;
    BO_TRY(resolve_sampling(context, d));
    if (rfa) {
        if (d->scale != 0) REFUSE("kind rfa has a temperature instead of a scale; found scale = %g", d->scale);
        if (f->gamma != 0) REFUSE("kind rfa has a temperature instead of gamma; found gamma = %g", f->gamma);
        if (f->kernel != BO_KERNEL_RBF && f->kernel != BO_KERNEL_ARCCOS)
            REFUSE("kind rfa has kernel rbf or arccos; found %s",
                   bo_kernel_name(f->kernel) ? bo_kernel_name(f->kernel) : "none");
        if (d->temperature == 0) d->temperature = 1;
        double inverse = 1 / (d->temperature * d->temperature);
        f->gamma = f->kernel == BO_KERNEL_RBF ? inverse / 2 : inverse;
        return BO_OK;
    }
    if (learned) BO_TRY(resolve_learned_map(context, d));
    if (d->kind == BO_ATTENTION_LEARNED) return BO_OK;
    return d->kind == BO_ATTENTION_LINEAR ? resolve_linear_map(context, d) : resolve_softmax_map(context, d);
}

/* EXACT, POWER and the memories: no map. */
static bo_status resolve_mapless(bo_context *context, bo_attention_desc *d)
{
    const char *name = bo_attention_name(d->kind);
    bool ridge = d->kind == BO_ATTENTION_RIDGE;
    if (d->rank || d->temperature != 0) REFUSE("kind %s has neither rank nor temperature", name);
    if (d->proposal != BO_PROPOSAL_NONE || d->features.sampling != BO_SAMPLING_DRAWN)
        REFUSE("kind %s has no features to draw; found proposal %s, sampling %s", name,
               bo_proposal_name(d->proposal) ? bo_proposal_name(d->proposal) : "unknown",
               bo_sampling_name(d->features.sampling) ? bo_sampling_name(d->features.sampling) : "unknown");
    if (d->one_draw) REFUSE("one_draw with kind %s, which has no features to draw", name);
    if (d->clamp != 0)
        REFUSE("clamp %g with kind %s: only the denominators of kinds with features have one", d->clamp, name);
    if (ridge && d->scale != 0) REFUSE("kind ridge has no scale; found %g", d->scale);
    if (bo_is_memory(d) && !d->causal) REFUSE("kind %s is causal; found causal = false", name);
    if (bo_is_memory(d)) d->normalizer = BO_NORMALIZER_NONE;
    if (!d->scale && !ridge) d->scale = 1 / sqrt((double)d->dim);
    if (d->kind == BO_ATTENTION_POWER && d->power == 0) d->power = 2;
    d->features = (bo_features_desc){0};
    return BO_OK;
}

/* What only some kinds have. */
static bo_status resolve_rest(bo_context *context, bo_attention_desc *d)
{
    const char *name = bo_attention_name(d->kind);
    bool ridge = d->kind == BO_ATTENTION_RIDGE, iterates = ridge && d->gate != BO_GATE_NONE;
    if (d->power != 0 && d->kind != BO_ATTENTION_POWER)
        REFUSE("power %g with kind %s: only power has one", d->power, name);
    if (d->power != 0 && (d->power < (double)FLT_MIN || d->power > (double)FLT_MAX))
        REFUSE("power must be a float from %g to %g, found %g", (double)FLT_MIN, (double)FLT_MAX, d->power);
    if (d->unit && !bo_is_memory(d)) REFUSE("unit with kind %s: only gla, delta and ridge have it", name);
    if ((d->iterations || d->tolerance != 0) && !iterates)
        REFUSE("iterations and tolerance belong to kind ridge with a gate; found kind %s, gate %s", name,
               bo_gate_name(d->gate));
    if (d->iterations > MOST_ITERATIONS)
        REFUSE("iterations must be at most %d, found %zu", MOST_ITERATIONS, d->iterations);
    if (iterates && !d->iterations) d->iterations = d->dim;
    if (iterates && d->tolerance == 0) d->tolerance = 1e-6;
    return BO_OK;
}

bo_status bo_attention_resolve(bo_context *context, const bo_attention_desc *desc, bo_attention_desc *out)
{
    bo_attention_desc d = *desc;
    if ((unsigned)d.kind >= BO_ATTENTION_COUNT) REFUSE("no kind with number %d", (int)d.kind);
    BO_TRY(resolve_sizes(context, &d));
    BO_TRY(resolve_window(context, &d));
    BO_TRY(resolve_gate(context, &d));
    BO_TRY(resolve_rest(context, &d));
    BO_TRY((bo_is_explicit(&d) || bo_is_memory(&d) ? resolve_mapless : resolve_map)(context, &d));
    *out = d;
    return BO_OK;
}
