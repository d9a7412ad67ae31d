/* Descriptors: every check that can be made before anything is built, the defaults, and the names. */
#include <float.h>
#include <math.h>
#include "internal.h"

static const char *const kind_names[BO_ATTENTION_COUNT] = {"exact", "linear", "rfa", "favor", "dark", "hybrid"};
static const char *const gate_names[BO_GATE_COUNT] = {"none", "convex", "decay"};

const char *bo_attention_name(bo_attention_kind kind)
{
    return (unsigned)kind < BO_ATTENTION_COUNT ? kind_names[kind] : NULL;
}

const char *bo_gate_name(bo_gate gate)
{
    return (unsigned)gate < BO_GATE_COUNT ? gate_names[gate] : NULL;
}

bool bo_attention_parse(const char *name, bo_attention_kind *out)
{
    for (int i = 0; i < BO_ATTENTION_COUNT; i++) {
        if (!bo_same_name(name, kind_names[i])) continue;
        *out = (bo_attention_kind)i;
        return true;
    }
    return false;
}

bool bo_gate_parse(const char *name, bo_gate *out)
{
    for (int i = 0; i < BO_GATE_COUNT; i++) {
        if (!bo_same_name(name, gate_names[i])) continue;
        *out = (bo_gate)i;
        return true;
    }
    return false;
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

/* Sizes beyond this are a mistake, and their products stay far from overflow. */
enum { MOST_HEADS = 1 << 16, MOST_DIM = 1 << 20, MOST_CHUNK = 1024 };
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
    return check_real(context, "temperature", d->temperature);
}

static bo_status resolve_window(bo_context *context, bo_attention_desc *d)
{
    bool exact = d->kind == BO_ATTENTION_EXACT, hybrid = d->kind == BO_ATTENTION_HYBRID;
    const char *name = kind_names[d->kind];
    if (hybrid && !d->causal) REFUSE("kind hybrid is causal; found causal = false");
    if (hybrid && !d->window) d->window = 64;
    if (d->window && !exact && !hybrid)
        REFUSE("a window of %zu with kind %s: only exact and hybrid have one", d->window, name);
    if (d->window && !d->causal) REFUSE("a window of %zu needs causal attention", d->window);
    if (d->window > MOST_TOKENS) REFUSE("window must be at most %zu, found %zu", MOST_TOKENS, d->window);
    if (d->capacity && !exact) REFUSE("capacity %zu with kind %s: only exact has one", d->capacity, name);
    if (exact && !d->capacity) d->capacity = d->window ? d->window : 4096;
    if (d->capacity > MOST_TOKENS) REFUSE("capacity must be at most %zu, found %zu", MOST_TOKENS, d->capacity);
    return BO_OK;
}

static bo_status resolve_gate(bo_context *context, bo_attention_desc *d)
{
    const char *name = kind_names[d->kind];
    if ((unsigned)d->gate >= BO_GATE_COUNT) REFUSE("no gate with number %d", (int)d->gate);
    if ((unsigned)d->normaliser >= BO_NORMALISER_COUNT) REFUSE("no normaliser with number %d", (int)d->normaliser);
    bool keeps_keys = d->kind == BO_ATTENTION_EXACT || d->kind == BO_ATTENTION_HYBRID;
    if (d->gate != BO_GATE_NONE && keeps_keys) REFUSE("kind %s has no gate; found %s", name, gate_names[d->gate]);
    if (d->gate != BO_GATE_NONE && !d->causal) REFUSE("gate %s needs causal attention", gate_names[d->gate]);
    if (d->normaliser == BO_NORMALISER_NONE && keeps_keys) REFUSE("kind %s is always normalised", name);
    return BO_OK;
}

/* scale and features.gamma are one number for the kinds that estimate exp(s q·k). */
static bo_status resolve_softmax_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    const char *name = kind_names[d->kind];
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

static bo_status resolve_map(bo_context *context, bo_attention_desc *d)
{
    bo_features_desc *f = &d->features;
    bool rfa = d->kind == BO_ATTENTION_RFA, dark = d->kind == BO_ATTENTION_DARK;
    if (d->temperature != 0 && !rfa)
        REFUSE("temperature %g with kind %s: only rfa has one", d->temperature, kind_names[d->kind]);
    if (d->rank && !dark) REFUSE("rank %zu with kind %s: only dark has one", d->rank, kind_names[d->kind]);
    if (d->rank > d->dim) REFUSE("rank must be at most dim = %zu, found %zu", d->dim, d->rank);
    if (dark && !d->rank) d->rank = d->dim;
    if (f->dim && f->dim != (dark ? d->rank : d->dim))
        REFUSE("features.dim must be %zu (or 0), found %zu", dark ? d->rank : d->dim, f->dim);
    if (f->sampling != BO_SAMPLING_DRAWN)
        REFUSE("features are drawn, not sampled by data (bo_dark_propose chooses them for data); found %s",
               bo_sampling_name(f->sampling) ? bo_sampling_name(f->sampling) : "no known sampling");
    f->dim = dark ? d->rank : d->dim;
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
    if (d->kind != BO_ATTENTION_LINEAR) return resolve_softmax_map(context, d);
    if (d->scale != 0 && f->gamma != 0 && d->scale != f->gamma)
        REFUSE("kind linear: scale and features.gamma are one number; found %g and %g", d->scale, f->gamma);
    if (d->scale != 0) f->gamma = d->scale;
    return BO_OK;
}

bo_status bo_attention_resolve(bo_context *context, const bo_attention_desc *desc, bo_attention_desc *out)
{
    bo_attention_desc d = *desc;
    if ((unsigned)d.kind >= BO_ATTENTION_COUNT) REFUSE("no kind with number %d", (int)d.kind);
    BO_TRY(resolve_sizes(context, &d));
    BO_TRY(resolve_window(context, &d));
    BO_TRY(resolve_gate(context, &d));
    if (d.kind == BO_ATTENTION_EXACT) {
        if (!d.scale) d.scale = 1 / sqrt((double)d.dim);
        if (d.rank || d.temperature != 0) REFUSE("kind exact has neither rank nor temperature");
        d.features = (bo_features_desc){0};
    } else {
        BO_TRY(resolve_map(context, &d));
    }
    *out = d;
    return BO_OK;
}
