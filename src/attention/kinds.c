/* The table of attention kinds, the presets, and the functions that look them up: kinds.h. */
#include "../features/enums.h"
#include "../features/facts.h"
#include "enums.h"
#include "kinds.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

#define T(trait)  BO_TRAIT_##trait
#define K(kernel) (1u << BO_KERNEL_##kernel)

enum {
    ALL_KERNELS = (1 << BO_KERNEL_COUNT) - 1,
    GATES = T(GATE_CONVEX) | T(GATE_DECAY) | T(GATE_FIXED),
    /* attention with features whose denominator is a sum of features */
    SUMS = T(FEATURES) | T(NORMALIZER) | GATES | T(CROSS),
    /* an estimate of exp(s q·k) */
    ESTIMATE = T(SCALE) | T(DRAWS) | T(PROPOSAL),
    /* explicit keys only */
    KEYS = T(SCALE) | T(WINDOW) | T(CAPACITY) | T(CROSS),
    /* a matrix that is not a sum of features */
    MATRIX_MEMORY = T(MEMORY) | T(UNIT) | T(CROSS),
};

/* In cross attention HYBRID uses only the features of its past. */
static bo_attention_kind kind_of_past(const bo_attention_desc *desc)
{
    bo_kernel kernel = desc->features.kernel;
    if (bo_kernel_is_learned(kernel)) return BO_ATTENTION_LEARNED;
    if (bo_attention_has(desc, BO_TRAIT_MATRIX)) return BO_ATTENTION_DARK;
    return kernel == BO_KERNEL_SOFTMAX || kernel == (bo_kernel)0 ? BO_ATTENTION_FAVOR : BO_ATTENTION_LINEAR;
}

static const bo_kind kinds[BO_ATTENTION_COUNT] = {
    [BO_ATTENTION_SOFTMAX] = {.name = "softmax", .engine = &bo_engine_exact, .traits = KEYS},
    [BO_ATTENTION_LINEAR] = {.name = "linear",
                             .engine = &bo_engine_linear,
                             .traits = SUMS | T(SCALE) | T(DRAWS) | T(ANY_KERNEL) | T(UNNORMALIZED),
                             .kernels = ALL_KERNELS,
                             .resolve_map = bo_resolve_linear_map},
    [BO_ATTENTION_RFA] = {.name = "rfa",
                          .engine = &bo_engine_linear,
                          .traits = SUMS | T(DRAWS) | T(UNNORMALIZED) | T(TEMPERATURE) | T(SIGMA) | T(UNIT_ROWS),
                          .kernels = K(RBF) | K(ARCCOS),
                          .no_scale = "a temperature instead of a scale",
                          .resolve_map = bo_resolve_rfa_map},
    [BO_ATTENTION_FAVOR] = {.name = "favor",
                            .engine = &bo_engine_linear,
                            .traits = SUMS | ESTIMATE | T(PROPOSE),
                            .kernels = K(SOFTMAX),
                            .default_kernel = BO_KERNEL_SOFTMAX,
                            .resolve_map = bo_resolve_softmax_map},
    [BO_ATTENTION_DARK] = {.name = "dark",
                           .engine = &bo_engine_linear,
                           .traits = SUMS | ESTIMATE | T(PROPOSE) | T(MATRIX),
                           .kernels = K(SOFTMAX),
                           .default_kernel = BO_KERNEL_SOFTMAX,
                           .resolve_map = bo_resolve_softmax_map},
    [BO_ATTENTION_HYBRID] = {.name = "hybrid",
                             .engine = &bo_engine_hybrid,
                             .traits = T(FEATURES) | GATES | ESTIMATE | T(ANY_KERNEL) | T(GAMMA) | T(WINDOW) | T(MIX) |
                                       T(CAUSAL),
                             .learned_traits = T(AFFINE),
                             .ranked_traits = T(MATRIX),
                             .kernels = ALL_KERNELS & ~K(RBF),
                             .default_kernel = BO_KERNEL_SOFTMAX,
                             .resolve_map = bo_resolve_softmax_map,
                             .cross_kind = kind_of_past},
    [BO_ATTENTION_LEARNED] = {.name = "learned",
                              .engine = &bo_engine_linear,
                              .traits = SUMS | T(AFFINE) | T(UNNORMALIZED),
                              .default_kernel = BO_KERNEL_COSH,
                              .no_scale = "W instead of a scale",
                              .resolve_map = bo_resolve_learned_map},
    [BO_ATTENTION_POWER] = {.name = "power", .engine = &bo_engine_exact, .traits = KEYS | T(POWER)},
    [BO_ATTENTION_GLA] = {.name = "gla",
                          .engine = &bo_engine_gla,
                          .traits = MATRIX_MEMORY | T(CAUSAL) | T(SCALE) | T(CHANNELS),
                          .no_gate = "its own gates, one per channel"},
    [BO_ATTENTION_DELTA] = {.name = "delta",
                            .engine = &bo_engine_delta,
                            .traits = MATRIX_MEMORY | T(CAUSAL) | T(SCALE) | T(GATE_DECAY) | T(BETA)},
    [BO_ATTENTION_RIDGE] = {.name = "ridge",
                            .engine = &bo_engine_ridge,
                            .traits = MATRIX_MEMORY | T(GATE_DECAY) | T(BETA) | T(LAMBDA) | T(ITERATIONS),
                            .no_scale = "no scale"},
};

const bo_kind *bo_kind_of(bo_attention_kind kind)
{
    assert((unsigned)kind < BO_ATTENTION_COUNT);
    const bo_kind *row = &kinds[kind];
    unsigned forms = row->traits & (T(MEMORY) | T(CAPACITY) | T(FEATURES));
    assert(row->name && row->engine && forms && !(forms & (forms - 1)));
    assert(!row->resolve_map == !(row->traits & T(FEATURES)));
    assert(!(row->traits & (row->learned_traits | row->ranked_traits)) && !row->no_scale == !!(row->traits & T(SCALE)));
    assert(!row->cross_kind == !!(row->traits & T(CROSS)));
    (void)forms;
    return row;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

static bool is_kind(bo_attention_kind kind)
{
    return (unsigned)kind < BO_ATTENTION_COUNT;
}

bool bo_attention_may(bo_attention_kind kind, unsigned traits)
{
    const bo_kind *row = is_kind(kind) ? &kinds[kind] : NULL;
    return row && (row->traits | row->learned_traits | row->ranked_traits) & traits;
}

unsigned bo_attention_traits(const bo_attention_desc *desc)
{
    if (!is_kind(desc->kind)) return 0;
    const bo_kind *row = &kinds[desc->kind];
    bo_kernel kernel = desc->features.kernel == (bo_kernel)0 ? row->default_kernel : desc->features.kernel;
    if (bo_kernel_is_learned(desc->features.kernel)) return row->traits | row->learned_traits;
    return row->traits | (desc->rank && kernel == BO_KERNEL_SOFTMAX ? row->ranked_traits : 0);
}

bool bo_attention_has(const bo_attention_desc *desc, unsigned traits)
{
    return desc && (bo_attention_traits(desc) & traits);
}

bo_attention_kind bo_attention_cross_kind(const bo_attention_desc *desc)
{
    if (!is_kind(desc->kind) || !kinds[desc->kind].cross_kind) return desc->kind;
    return kinds[desc->kind].cross_kind(desc);
}

bool bo_attention_takes_gate(bo_attention_kind kind, bo_gate gate)
{
    static const unsigned traits[BO_GATE_COUNT] = {
        [BO_GATE_CONVEX] = T(GATE_CONVEX), [BO_GATE_DECAY] = T(GATE_DECAY), [BO_GATE_FIXED] = T(GATE_FIXED)};
    if (!is_kind(kind) || (unsigned)gate >= BO_GATE_COUNT) return false;
    return gate == BO_GATE_NONE || kinds[kind].traits & traits[gate];
}

bool bo_attention_takes_kernel(bo_attention_kind kind, bo_kernel kernel)
{
    if (!is_kind(kind) || (unsigned)kernel >= BO_KERNEL_COUNT) return false;
    return kinds[kind].kernels >> kernel & 1 || (kinds[kind].traits & T(AFFINE) && bo_kernel_is_learned(kernel));
}

/* ---- lists for messages ------------------------------------------------------------------------------------------ */

/* Lists the names that are not NULL; `joint` precedes the last one. */
static const char *list(const char *const *names, size_t count, const char *joint, char out[BO_KIND_LIST_BYTES])
{
    size_t last = 0, used = 0;
    out[0] = 0;
    for (size_t i = 0; i < count; i++)
        if (names[i]) last = i;
    for (size_t i = 0; i < count && used < BO_KIND_LIST_BYTES; i++)
        if (names[i])
            used += (size_t)snprintf(out + used, BO_KIND_LIST_BYTES - used, "%s%s",
                                     !used       ? ""
                                     : i == last ? joint
                                                 : ", ",
                                     names[i]);
    return out;
}

const char *bo_kinds_with(unsigned traits, char out[BO_KIND_LIST_BYTES])
{
    const char *names[BO_ATTENTION_COUNT];
    char maps[BO_ATTENTION_COUNT][64];
    for (size_t i = 0; i < BO_ATTENTION_COUNT; i++) {
        bool learned = kinds[i].learned_traits & traits, ranked = kinds[i].ranked_traits & traits;
        snprintf(maps[i], sizeof maps[i], "%s with %s%s%s", kinds[i].name,
                 ranked ? "the softmax kernel and a rank" : "", learned && ranked ? " or " : "",
                 learned ? "a learned map" : "");
        names[i] = kinds[i].traits & traits ? kinds[i].name : learned || ranked ? maps[i] : NULL;
    }
    return list(names, BO_ATTENTION_COUNT, " and ", out);
}

const char *bo_gates_accepted(bo_attention_kind kind, char out[BO_KIND_LIST_BYTES])
{
    const char *names[BO_GATE_COUNT];
    for (size_t i = 0; i < BO_GATE_COUNT; i++)
        names[i] = bo_attention_takes_gate(kind, (bo_gate)i) ? bo_gate_name((bo_gate)i) : NULL;
    return list(names, BO_GATE_COUNT, " or ", out);
}

const char *bo_kernels_accepted(bo_attention_kind kind, char out[BO_KIND_LIST_BYTES])
{
    const char *names[BO_KERNEL_COUNT];
    for (size_t i = 0; i < BO_KERNEL_COUNT; i++)
        names[i] = bo_attention_takes_kernel(kind, (bo_kernel)i) ? bo_kernel_name((bo_kernel)i) : NULL;
    return list(names, BO_KERNEL_COUNT, " or ", out);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *const gate_names[BO_GATE_COUNT] = {"none", "convex", "decay", "fixed"};
static const char *const proposal_names[BO_PROPOSAL_COUNT] = {"none", "oprf", "sderf", "gaussian"};

BO_NAMED(gate, bo_gate, gate_names)
BO_NAMED(proposal, bo_proposal, proposal_names)

const char *bo_attention_kind_name(bo_attention_kind kind)
{
    return is_kind(kind) ? kinds[kind].name : NULL;
}

/* Names of the same attention in papers and other libraries. */
static const struct {
    const char *alias, *name;
} aliases[] = {
    {"exact", "softmax"},
    {"performer", "favor"},
    {"favor+", "favor"},
    {"darkformer", "dark"},
    {"linear-transformer", "linear"},
    {"retnet", "retention"},
    {"deltanet", "delta"},
    {"gated-deltanet", "gated-delta"},
};

/* Returns the name in the tables, with aliases resolved. */
static const char *listed_name(const char *name)
{
    for (size_t i = 0; name && i < sizeof aliases / sizeof *aliases; i++)
        if (bo_same_name(name, aliases[i].alias)) return aliases[i].name;
    return name;
}

bool bo_attention_kind_parse(const char *name, bo_attention_kind *out)
{
    if (!out) return false;
    name = listed_name(name);
    for (size_t i = 0; i < BO_ATTENTION_COUNT; i++) {
        if (!bo_same_name(name, kinds[i].name)) continue;
        *out = (bo_attention_kind)i;
        return true;
    }
    return false;
}

/* ---- presets ----------------------------------------------------------------------------------------------------- */

typedef struct preset {
    const char *name;
    bo_attention_kind kind;
    bo_gate gate;
    bo_normalizer normalizer;
    bo_proposal proposal;
    bo_kernel kernel;
    bo_function function;
    bool causal, unit; /* causal: always causal */
} preset;

static const preset presets[] = {
    {.name = "softmax", .kind = BO_ATTENTION_SOFTMAX},
    {.name = "linear", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_ELU},
    {.name = "rfa", .kind = BO_ATTENTION_RFA},
    {.name = "rfa-gate", .kind = BO_ATTENTION_RFA, .gate = BO_GATE_CONVEX, .causal = true},
    {.name = "favor", .kind = BO_ATTENTION_FAVOR},
    {.name = "favor++", .kind = BO_ATTENTION_FAVOR, .proposal = BO_PROPOSAL_OPRF},
    {.name = "favor#", .kind = BO_ATTENTION_FAVOR, .proposal = BO_PROPOSAL_SDERF},
    {.name = "dark", .kind = BO_ATTENTION_DARK},
    {.name = "hybrid", .kind = BO_ATTENTION_HYBRID, .causal = true},
    {.name = "poly", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_POLYNOMIAL},
    {.name = "taylor", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_TAYLOR},
    {.name = "retention",
     .kind = BO_ATTENTION_LINEAR,
     .gate = BO_GATE_FIXED,
     .normalizer = BO_NORMALIZER_NONE,
     .kernel = BO_KERNEL_LINEAR,
     .causal = true},
    {.name = "hedgehog", .kind = BO_ATTENTION_LEARNED, .kernel = BO_KERNEL_COSH},
    {.name = "t2r", .kind = BO_ATTENTION_LEARNED, .kernel = BO_KERNEL_RECTIFIER},
    {.name = "power", .kind = BO_ATTENTION_POWER},
    {.name = "gla", .kind = BO_ATTENTION_GLA, .normalizer = BO_NORMALIZER_NONE, .causal = true},
    {.name = "delta", .kind = BO_ATTENTION_DELTA, .normalizer = BO_NORMALIZER_NONE, .causal = true, .unit = true},
    {.name = "gated-delta",
     .kind = BO_ATTENTION_DELTA,
     .gate = BO_GATE_DECAY,
     .normalizer = BO_NORMALIZER_NONE,
     .causal = true,
     .unit = true},
    {.name = "ridge", .kind = BO_ATTENTION_RIDGE, .normalizer = BO_NORMALIZER_NONE},
    {.name = "gated-ridge",
     .kind = BO_ATTENTION_RIDGE,
     .gate = BO_GATE_DECAY,
     .normalizer = BO_NORMALIZER_NONE,
     .causal = true},
};

enum { PRESETS = sizeof presets / sizeof *presets };

const char *bo_attention_preset_name(size_t index)
{
    return index < PRESETS ? presets[index].name : NULL;
}

bool bo_attention_preset_parse(const char *name, size_t *out)
{
    if (!name) return false;
    name = listed_name(name);
    for (size_t i = 0; i < PRESETS; i++)
        if (bo_same_name(name, presets[i].name)) return *out = i, true;
    return false;
}

const char *bo_attention_preset_find(const char *name)
{
    size_t index;
    return bo_attention_preset_parse(name, &index) ? presets[index].name : NULL;
}

const char *bo_attention_name(const bo_attention_desc *desc)
{
    if (!desc) return NULL;
    for (size_t i = 0; i < PRESETS; i++) {
        const preset *p = &presets[i];
        if (p->kind != desc->kind || p->gate != desc->gate || p->proposal != desc->proposal) continue;
        if (p->kernel == (bo_kernel)0 || p->kernel == desc->features.kernel) return p->name;
    }
    return bo_attention_kind_name(desc->kind);
}

bool bo_attention_preset(const char *name, bo_attention_desc *desc)
{
    if (!name || !desc) return false;
    name = listed_name(name);
    for (size_t i = 0; i < PRESETS; i++) {
        const preset *p = &presets[i];
        if (!bo_same_name(name, p->name)) continue;
        desc->kind = p->kind;
        desc->gate = p->gate;
        desc->normalizer = p->normalizer;
        desc->proposal = p->proposal;
        desc->features.kernel = p->kernel;
        desc->features.function = p->function;
        desc->unit = p->unit;
        if (p->causal) desc->causal = true;
        return true;
    }
    return false;
}
