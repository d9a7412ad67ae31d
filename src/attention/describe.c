/* Descriptors: all checks that need no allocation, and the defaults. The table of kinds lists the fields that each kind
 * uses. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include "../features/enums.h"
#include "../features/facts.h"
#include "enums.h"
#include "kinds.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Larger sizes are treated as errors; products of allowed sizes cannot overflow. */
enum { MAX_HEADS = 1 << 16, MAX_DIM = 1 << 20, MAX_CHUNK = 1024, MAX_ITERATIONS = 1 << 20 };
#define MAX_TOKENS ((size_t)1 << 40)

#define REFUSE(...) return bo_fail(context, BO_INVALID, "attention: " __VA_ARGS__)

static bo_status check_size(bo_context *context, const char *name, size_t value, size_t max)
{
    if (value == 0) REFUSE("%s must be at least 1, found 0", name);
    if (value > max) REFUSE("%s must be at most %zu, found %zu", name, max, value);
    return BO_OK;
}

static bo_status check_real(bo_context *context, const char *name, double value)
{
    if (!isfinite(value) || value < 0) REFUSE("%s must be a positive number (0: the default), found %g", name, value);
    return BO_OK;
}

static bo_status resolve_sizes(bo_context *context, bo_attention_desc *d)
{
    BO_TRY(check_size(context, "heads", d->heads, MAX_HEADS));
    if (!d->key_heads) d->key_heads = d->heads;
    if (d->key_heads > d->heads || d->heads % d->key_heads)
        REFUSE("key_heads must divide heads = %zu, found %zu", d->heads, d->key_heads);
    BO_TRY(check_size(context, "dim", d->dim, MAX_DIM));
    if (!d->value_dim) d->value_dim = d->dim;
    BO_TRY(check_size(context, "value_dim", d->value_dim, MAX_DIM));
    if (d->chunk > MAX_CHUNK) REFUSE("chunk must be at most %d, found %zu", MAX_CHUNK, d->chunk);
    BO_TRY(check_real(context, "scale", d->scale));
    BO_TRY(check_real(context, "clamp", d->clamp));
    BO_TRY(check_real(context, "tolerance", d->tolerance));
    BO_TRY(check_real(context, "power", d->power));
    return check_real(context, "temperature", d->temperature);
}

/* ---- fields that only some kinds use ----------------------------------------------------------------------------- */

/* A field that is set, as it appears in a message. */
typedef struct given {
    unsigned traits; /* traits of the kinds that use it */
    bool given;
    char text[64];
} given;

static given field(unsigned traits, bool is_given, const char *name, double value)
{
    given out = {.traits = traits, .given = is_given};
    snprintf(out.text, sizeof out.text, "%s %g", name, value);
    return out;
}

static given size_field(unsigned traits, const char *name, size_t value)
{
    given out = {.traits = traits, .given = value > 0};
    snprintf(out.text, sizeof out.text, "%s %zu", name, value);
    return out;
}

static given named_field(unsigned traits, bool is_given, const char *name, const char *value_name)
{
    given out = {.traits = traits, .given = is_given};
    snprintf(out.text, sizeof out.text, "%s%s%s", name, value_name ? " " : "", value_name ? value_name : "");
    return out;
}

/* Checks that every field that is set is used by the kind. */
static bo_status check_fields(bo_context *context, const bo_attention_desc *d)
{
    const unsigned traits = bo_attention_traits(d);
    const given fields[] = {
        size_field(BO_TRAIT_WINDOW, "window", d->window),
        size_field(BO_TRAIT_CAPACITY, "capacity", d->capacity),
        size_field(BO_TRAIT_MATRIX | BO_TRAIT_AFFINE, "rank", d->rank),
        size_field(BO_TRAIT_ITERATIONS, "iterations", d->iterations),
        field(BO_TRAIT_ITERATIONS, d->tolerance != 0, "tolerance", d->tolerance),
        field(BO_TRAIT_TEMPERATURE, d->temperature != 0, "temperature", d->temperature),
        field(BO_TRAIT_POWER, d->power != 0, "power", d->power),
        field(BO_TRAIT_FEATURES, d->clamp != 0, "clamp", d->clamp),
        named_field(BO_TRAIT_UNIT, d->unit, "unit", NULL),
        named_field(BO_TRAIT_FEATURES, d->one_draw, "one_draw", NULL),
        named_field(BO_TRAIT_PROPOSAL, d->proposal != BO_PROPOSAL_NONE, "proposal", bo_proposal_name(d->proposal)),
        named_field(BO_TRAIT_DRAWS, d->features.sampling != BO_SAMPLING_DRAWN, "sampling",
                    bo_sampling_name(d->features.sampling)),
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char list[BO_KIND_LIST_BYTES];
        if (!fields[i].given || fields[i].traits & traits) continue;
        REFUSE("%s does not apply to kind %s, only to %s", fields[i].text, bo_attention_kind_name(d->kind),
               bo_kinds_with(fields[i].traits, list));
    }
    return BO_OK;
}

static bo_status resolve_window(bo_context *context, bo_attention_desc *d)
{
    const unsigned traits = bo_attention_traits(d);
    const bool caches = traits & BO_TRAIT_CAPACITY;
    if (traits & BO_TRAIT_CAUSAL && !d->causal)
        REFUSE("kind %s requires causal = true, found false", bo_attention_kind_name(d->kind));
    if (traits & BO_TRAIT_WINDOW && !caches && !d->window) d->window = BO_DEFAULT_WINDOW;
    if (d->window && !d->causal) REFUSE("window %zu requires causal attention", d->window);
    if (d->window > MAX_TOKENS) REFUSE("window must be at most %zu, found %zu", MAX_TOKENS, d->window);
    if (caches && !d->capacity) d->capacity = d->window ? d->window : 4096;
    if (d->capacity > MAX_TOKENS) REFUSE("capacity must be at most %zu, found %zu", MAX_TOKENS, d->capacity);
    return BO_OK;
}

static bo_status resolve_gate(bo_context *context, bo_attention_desc *d)
{
    const bo_kind *kind = bo_kind_of(d->kind);
    char list[BO_KIND_LIST_BYTES];
    if ((unsigned)d->gate >= BO_GATE_COUNT) REFUSE("unknown gate %d", (int)d->gate);
    if ((unsigned)d->normalizer >= BO_NORMALIZER_COUNT) REFUSE("unknown normalizer %d", (int)d->normalizer);
    if (!bo_attention_takes_gate(d->kind, d->gate)) {
        if (kind->no_gate)
            REFUSE("kind %s has %s; gate must be none, found %s", kind->name, kind->no_gate, bo_gate_name(d->gate));
        REFUSE("kind %s requires gate %s, found %s", kind->name, bo_gates_accepted(d->kind, list),
               bo_gate_name(d->gate));
    }
    if (d->gate != BO_GATE_NONE && !d->causal) REFUSE("gate %s requires causal attention", bo_gate_name(d->gate));
    if (kind->traits & BO_TRAIT_MEMORY) d->normalizer = BO_NORMALIZER_NONE;
    if (d->normalizer == BO_NORMALIZER_NONE && !(kind->traits & (BO_TRAIT_NORMALIZER | BO_TRAIT_MEMORY)))
        REFUSE("kind %s requires a normalizer, found none", kind->name);
    return BO_OK;
}

/* Resolves the scale and other numbers of kinds without a map. For kinds with maps, they are resolved with the map. */
static bo_status resolve_numbers(bo_context *context, bo_attention_desc *d)
{
    const bo_kind *kind = bo_kind_of(d->kind);
    const bool iterates = kind->traits & BO_TRAIT_ITERATIONS && d->gate != BO_GATE_NONE;
    if (d->scale != 0 && kind->no_scale)
        REFUSE("kind %s has %s; found scale = %g", kind->name, kind->no_scale, d->scale);
    if (d->power != 0 && (d->power < (double)FLT_MIN || d->power > (double)FLT_MAX))
        REFUSE("power must be a float from %g to %g, found %g", (double)FLT_MIN, (double)FLT_MAX, d->power);
    if (kind->traits & BO_TRAIT_POWER && d->power == 0) d->power = 2;
    if ((d->iterations || d->tolerance != 0) && !iterates)
        REFUSE("iterations and tolerance apply to kind %s only with a gate, found gate %s", kind->name,
               bo_gate_name(d->gate));
    if (d->iterations > MAX_ITERATIONS)
        REFUSE("iterations must be at most %d, found %zu", MAX_ITERATIONS, d->iterations);
    if (iterates && !d->iterations) d->iterations = d->dim;
    if (iterates && d->tolerance == 0) d->tolerance = 1e-6;
    return BO_OK;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* A learned map (LEARNED, or HYBRID with one): W and b are inputs, so there is no scale. */
bo_status bo_resolve_learned_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    if (f->gamma != 0 && f->gamma != 1) REFUSE("a learned map has W instead of gamma; found gamma = %g", f->gamma);
    if (f->length_scales) REFUSE("a learned map has W instead of length scales");
    return BO_OK;
}

/* scale and features.gamma are the same number for kinds that estimate exp(s q·k). Other kernels for the past of HYBRID
 * have a separate γ. */
bo_status bo_resolve_softmax_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    if (bo_kernel_is_learned(f->kernel)) BO_TRY(bo_resolve_learned_map(context, d));
    if (!d->scale) d->scale = 1 / sqrt((double)d->dim);
    if (f->kernel != BO_KERNEL_SOFTMAX) return BO_OK;
    if (f->gamma != 0 && f->gamma != d->scale)
        REFUSE("kind %s sets gamma to scale = %g; found gamma = %g", bo_attention_kind_name(d->kind), d->scale,
               f->gamma);
    f->gamma = d->scale;
    return BO_OK;
}

/* LINEAR: scale and gamma are the same number, 1/√dim by default if the kernel is a function of s q·k. */
bo_status bo_resolve_linear_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    if (d->scale != 0 && f->gamma != 0 && d->scale != f->gamma)
        REFUSE("kind linear: scale and features.gamma are the same parameter, found %g and %g", d->scale, f->gamma);
    if (d->scale != 0) f->gamma = d->scale;
    if (f->gamma == 0 && bo_kernel_of_products(f->kernel)) f->gamma = 1 / sqrt((double)d->dim);
    return BO_OK;
}

bo_status bo_resolve_rfa_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    if (f->gamma != 0) REFUSE("kind rfa has a temperature instead of gamma; found gamma = %g", f->gamma);
    if (d->temperature == 0) d->temperature = 1;
    double inverse = 1 / (d->temperature * d->temperature);
    f->gamma = f->kernel == BO_KERNEL_RBF ? inverse / 2 : inverse;
    return BO_OK;
}

static bo_status check_sampling(bo_context *context, const bo_attention_desc *d)
{
    const bo_features_desc *f = &d->features;
    const bool positive = f->function == BO_FUNCTION_DEFAULT || f->function == BO_FUNCTION_POSITIVE;
    char list[BO_KIND_LIST_BYTES];
    if (d->proposal != BO_PROPOSAL_NONE && !(f->kernel == BO_KERNEL_SOFTMAX && positive))
        REFUSE("proposal %s applies only to positive features of the softmax kernel with kinds %s; found kind %s, "
               "kernel %s, function %s",
               bo_proposal_name(d->proposal), bo_kinds_with(BO_TRAIT_PROPOSAL, list), bo_attention_kind_name(d->kind),
               bo_kernel_name(f->kernel), bo_function_name(f->function) ? bo_function_name(f->function) : "none");
    if (f->sampling != BO_SAMPLING_DRAWN && f->sampling != BO_SAMPLING_OPTIMAL)
        REFUSE("sampling must be drawn or optimal, found %s",
               bo_sampling_name(f->sampling) ? bo_sampling_name(f->sampling) : "an unknown value");
    return BO_OK;
}

static bo_status resolve_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    const bo_kind *kind = bo_kind_of(d->kind);
    char list[BO_KIND_LIST_BYTES];
    if (f->kernel == (bo_kernel)0) f->kernel = kind->default_kernel;
    if (!bo_kernel_name(f->kernel)) REFUSE("unknown kernel %d", (int)f->kernel);
    if (!bo_attention_takes_kernel(d->kind, f->kernel))
        REFUSE("kind %s requires kernel %s, found %s", kind->name, bo_kernels_accepted(d->kind, list),
               bo_kernel_name(f->kernel));
    const bool ranked = bo_attention_has(d, BO_TRAIT_MATRIX | BO_TRAIT_AFFINE);
    if (d->rank > d->dim) REFUSE("rank must be at most dim = %zu, found %zu", d->dim, d->rank);
    if (ranked && !d->rank) d->rank = d->dim;
    size_t width = ranked ? d->rank : d->dim;
    if (f->dim && f->dim != width) REFUSE("features.dim must be %zu (or 0), found %zu", width, f->dim);
    f->dim = width;
    BO_TRY(check_sampling(context, d));
    return kind->resolve_map(context, d);
}

/* Kinds without a map: clears the fields of the map. */
static bo_status resolve_mapless(bo_context *context, bo_attention_desc *d)
{
    (void)context;
    if (!d->scale && bo_attention_has(d, BO_TRAIT_SCALE)) d->scale = 1 / sqrt((double)d->dim);
    d->features = (bo_features_desc){0};
    return BO_OK;
}

bo_status bo_attention_resolve(bo_context *context, const bo_attention_desc *desc, bo_attention_desc *out)
{
    bo_attention_desc d = *desc;
    BO_TRY(bo_check_reserved(context, "bo_attention_desc", d.reserved));
    if ((unsigned)d.kind >= BO_ATTENTION_COUNT) REFUSE("unknown kind %d", (int)d.kind);
    if ((unsigned)d.proposal >= BO_PROPOSAL_COUNT) REFUSE("unknown proposal %d", (int)d.proposal);
    BO_TRY(resolve_sizes(context, &d));
    BO_TRY(check_fields(context, &d));
    BO_TRY(resolve_window(context, &d));
    BO_TRY(resolve_gate(context, &d));
    BO_TRY(resolve_numbers(context, &d));
    BO_TRY((bo_attention_has(&d, BO_TRAIT_FEATURES) ? resolve_map : resolve_mapless)(context, &d));
    *out = d;
    return BO_OK;
}
