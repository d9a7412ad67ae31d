/* Every kind of attention with every kind of map: the list that tests go through. */
#ifndef BO_TEST_ATTENTION_KINDS_H
#define BO_TEST_ATTENTION_KINDS_H

#include "testing.h"
#include <bochner/attention.h>

static inline void kinds_custom(void *user, size_t rows, size_t frequencies, const float *u, size_t dim, const float *x,
                                size_t features, float *out)
{
    (void)user, (void)dim, (void)x, (void)features;
    for (size_t i = 0; i < rows * frequencies; i++) out[i] = 1 / (1 + u[i] * u[i]);
}

static inline void kinds_custom_backward(void *user, size_t rows, size_t frequencies, const float *u, size_t dim,
                                         const float *x, size_t features, const float *dz, float *du, float *dx)
{
    (void)user, (void)dim, (void)x, (void)features, (void)dx;
    for (size_t i = 0; i < rows * frequencies; i++) {
        float reach = 1 + u[i] * u[i];
        du[i] = -2 * dz[i] * u[i] / (reach * reach);
    }
}

typedef struct kind_of {
    const char *name;
    bo_attention_kind kind;
    bo_kernel kernel;
    bo_function function;
    bo_gate gate;
    bo_normaliser normaliser;
    size_t window;
    bool causal_only;
    bool low_rank;
    bo_draw draw;
    int degree;           /* POLYNOMIAL */
    double power;         /* POWER */
    bool unit;            /* the memories */
    bo_proposal proposal; /* drawn for data like the trial's … */
    bo_sampling sampling; /* … or chosen by it */
} kind_of;

static const kind_of kinds[] = {
    {.name = "exact", .kind = BO_ATTENTION_EXACT},
    {.name = "exact in a window", .kind = BO_ATTENTION_EXACT, .window = 5, .causal_only = true},
    {.name = "exact in a wide window", .kind = BO_ATTENTION_EXACT, .window = 70, .causal_only = true},
    {.name = "linear elu", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_ELU, .function = BO_FUNCTION_ELU},
    {.name = "linear elu, decay",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_ELU,
     .function = BO_FUNCTION_ELU,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "linear relu", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_ARCCOS, .function = BO_FUNCTION_RELU},
    {.name = "linear relu, convex",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_ARCCOS,
     .function = BO_FUNCTION_RELU,
     .gate = BO_GATE_CONVEX,
     .causal_only = true},
    {.name = "linear positive",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE},
    {.name = "linear oprf", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_OPRF},
    {.name = "linear rbf", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_RBF, .function = BO_FUNCTION_SINCOS},
    {.name = "linear rbf with a phase",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_COSBIAS},
    {.name = "linear laplacian",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_LAPLACIAN,
     .function = BO_FUNCTION_SINCOS},
    {.name = "linear matern, sobol",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_MATERN52,
     .function = BO_FUNCTION_SINCOS,
     .draw = BO_DRAW_SOBOL},
    {.name = "linear taylor", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_TAYLOR, .function = BO_FUNCTION_TAYLOR},
    {.name = "linear polynomial",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_POLYNOMIAL,
     .function = BO_FUNCTION_POLYNOMIAL},
    {.name = "linear sketch",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_POLYNOMIAL,
     .function = BO_FUNCTION_TENSORSKETCH},
    {.name = "linear custom", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_CUSTOM, .function = BO_FUNCTION_CUSTOM},
    {.name = "linear elu, not divided",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_ELU,
     .function = BO_FUNCTION_ELU,
     .normaliser = BO_NORMALISER_NONE},
    {.name = "linear rbf, decay, not divided",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_SINCOS,
     .gate = BO_GATE_DECAY,
     .normaliser = BO_NORMALISER_NONE,
     .causal_only = true},
    {.name = "linear taylor, convex, not divided",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_TAYLOR,
     .function = BO_FUNCTION_TAYLOR,
     .gate = BO_GATE_CONVEX,
     .normaliser = BO_NORMALISER_NONE,
     .causal_only = true},
    {.name = "rfa", .kind = BO_ATTENTION_RFA, .kernel = BO_KERNEL_RBF, .function = BO_FUNCTION_SINCOS},
    {.name = "rfa-gate",
     .kind = BO_ATTENTION_RFA,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_SINCOS,
     .gate = BO_GATE_CONVEX,
     .causal_only = true},
    {.name = "rfa, decay",
     .kind = BO_ATTENTION_RFA,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_SINCOS,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "rfa arc-cosine", .kind = BO_ATTENTION_RFA, .kernel = BO_KERNEL_ARCCOS, .function = BO_FUNCTION_RELU},
    {.name = "rfa-gate arc-cosine",
     .kind = BO_ATTENTION_RFA,
     .kernel = BO_KERNEL_ARCCOS,
     .function = BO_FUNCTION_RELU,
     .gate = BO_GATE_CONVEX,
     .causal_only = true},
    {.name = "favor", .kind = BO_ATTENTION_FAVOR, .kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_POSITIVE},
    {.name = "favor iid",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .draw = BO_DRAW_IID},
    {.name = "favor hadamard",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .draw = BO_DRAW_HADAMARD},
    {.name = "favor, decay",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "favor, convex",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .gate = BO_GATE_CONVEX,
     .causal_only = true},
    {.name = "favor hyperbolic",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_HYPERBOLIC},
    {.name = "favor oprf, decay",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_OPRF,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "favor sin/cos", .kind = BO_ATTENTION_FAVOR, .kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_SINCOS},
    {.name = "favor sin/cos, convex",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_SINCOS,
     .gate = BO_GATE_CONVEX,
     .causal_only = true},
    {.name = "dark", .kind = BO_ATTENTION_DARK, .kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_POSITIVE},
    {.name = "dark of low rank",
     .kind = BO_ATTENTION_DARK,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .low_rank = true},
    {.name = "dark hyperbolic, decay",
     .kind = BO_ATTENTION_DARK,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_HYPERBOLIC,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "hybrid",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .window = 5,
     .causal_only = true},
    {.name = "hybrid, wide window",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_HYPERBOLIC,
     .window = 33,
     .causal_only = true},
    {.name = "hybrid, window of one",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .window = 1,
     .causal_only = true},
    {.name = "hybrid sin/cos",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_SINCOS,
     .window = 9,
     .causal_only = true},
    {.name = "hybrid of elu",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_ELU,
     .function = BO_FUNCTION_ELU,
     .window = 7,
     .causal_only = true},
    {.name = "hybrid of relu",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_ARCCOS,
     .function = BO_FUNCTION_RELU,
     .window = 16,
     .causal_only = true},
    {.name = "retention",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_LINEAR,
     .function = BO_FUNCTION_IDENTITY,
     .gate = BO_GATE_FIXED,
     .normaliser = BO_NORMALISER_NONE,
     .causal_only = true},
    {.name = "linear elu, fixed",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_ELU,
     .function = BO_FUNCTION_ELU,
     .gate = BO_GATE_FIXED,
     .causal_only = true},
    {.name = "rfa, fixed",
     .kind = BO_ATTENTION_RFA,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_SINCOS,
     .gate = BO_GATE_FIXED,
     .causal_only = true},
    {.name = "favor, fixed",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .gate = BO_GATE_FIXED,
     .causal_only = true},
    {.name = "linear identity",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_LINEAR,
     .function = BO_FUNCTION_IDENTITY},
    {.name = "linear identity, decay, not divided",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_LINEAR,
     .function = BO_FUNCTION_IDENTITY,
     .gate = BO_GATE_DECAY,
     .normaliser = BO_NORMALISER_NONE,
     .causal_only = true},
    {.name = "linear cubic",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_POLYNOMIAL,
     .function = BO_FUNCTION_POLYNOMIAL,
     .degree = 3},
    {.name = "linear polynomial, fixed",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_POLYNOMIAL,
     .function = BO_FUNCTION_POLYNOMIAL,
     .gate = BO_GATE_FIXED,
     .causal_only = true},
    {.name = "linear selftensor",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_POLYNOMIAL,
     .function = BO_FUNCTION_SELFTENSOR,
     .degree = 4},
    {.name = "linear cosh", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_COSH, .function = BO_FUNCTION_EXPONENTIAL},
    {.name = "linear hedgehog, decay",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_HEDGEHOG,
     .function = BO_FUNCTION_HEDGEHOG,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "linear rectifier",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_RECTIFIER,
     .function = BO_FUNCTION_RECTIFIER},
    {.name = "hedgehog", .kind = BO_ATTENTION_LEARNED, .kernel = BO_KERNEL_COSH, .function = BO_FUNCTION_EXPONENTIAL},
    {.name = "hedgehog, convex",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_COSH,
     .function = BO_FUNCTION_EXPONENTIAL,
     .gate = BO_GATE_CONVEX,
     .causal_only = true},
    {.name = "hedgehog of low rank, fixed",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_COSH,
     .function = BO_FUNCTION_EXPONENTIAL,
     .gate = BO_GATE_FIXED,
     .low_rank = true,
     .causal_only = true},
    {.name = "hedgehog by softmax",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_HEDGEHOG,
     .function = BO_FUNCTION_HEDGEHOG},
    {.name = "hedgehog by softmax, decay",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_HEDGEHOG,
     .function = BO_FUNCTION_HEDGEHOG,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "t2r", .kind = BO_ATTENTION_LEARNED, .kernel = BO_KERNEL_RECTIFIER, .function = BO_FUNCTION_RECTIFIER},
    {.name = "t2r of low rank",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_RECTIFIER,
     .function = BO_FUNCTION_RECTIFIER,
     .low_rank = true},
    {.name = "t2r, decay, not divided",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_RECTIFIER,
     .function = BO_FUNCTION_RECTIFIER,
     .gate = BO_GATE_DECAY,
     .normaliser = BO_NORMALISER_NONE,
     .causal_only = true},
    {.name = "hybrid of hedgehog",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_COSH,
     .function = BO_FUNCTION_EXPONENTIAL,
     .window = 7,
     .causal_only = true},
    {.name = "hybrid of hedgehog by softmax, low rank",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_HEDGEHOG,
     .function = BO_FUNCTION_HEDGEHOG,
     .window = 4,
     .low_rank = true,
     .causal_only = true},
    {.name = "hybrid of t2r",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_RECTIFIER,
     .function = BO_FUNCTION_RECTIFIER,
     .window = 10,
     .causal_only = true},
    {.name = "power", .kind = BO_ATTENTION_POWER},
    {.name = "power of 3.7 in a window", .kind = BO_ATTENTION_POWER, .power = 3.7, .window = 9, .causal_only = true},
    {.name = "power of a half", .kind = BO_ATTENTION_POWER, .power = 0.5},
    {.name = "delta", .kind = BO_ATTENTION_DELTA, .unit = true, .causal_only = true},
    {.name = "gated delta", .kind = BO_ATTENTION_DELTA, .gate = BO_GATE_DECAY, .unit = true, .causal_only = true},
    {.name = "delta of plain keys", .kind = BO_ATTENTION_DELTA, .causal_only = true},
    {.name = "gated delta of plain keys", .kind = BO_ATTENTION_DELTA, .gate = BO_GATE_DECAY, .causal_only = true},
    {.name = "gla", .kind = BO_ATTENTION_GLA, .causal_only = true},
    {.name = "gla of unit keys", .kind = BO_ATTENTION_GLA, .unit = true, .causal_only = true},
    {.name = "ridge", .kind = BO_ATTENTION_RIDGE, .causal_only = true},
    {.name = "ridge of unit keys", .kind = BO_ATTENTION_RIDGE, .unit = true, .causal_only = true},
    {.name = "gated ridge", .kind = BO_ATTENTION_RIDGE, .gate = BO_GATE_DECAY, .causal_only = true},
    {.name = "gated ridge of unit keys",
     .kind = BO_ATTENTION_RIDGE,
     .gate = BO_GATE_DECAY,
     .unit = true,
     .causal_only = true},
    {.name = "favor++",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .proposal = BO_PROPOSAL_OPRF},
    {.name = "favor#",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .proposal = BO_PROPOSAL_SDERF},
    {.name = "favor gaussian, decay",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .proposal = BO_PROPOSAL_GAUSSIAN,
     .gate = BO_GATE_DECAY,
     .causal_only = true},
    {.name = "favor, optimal",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .sampling = BO_SAMPLING_OPTIMAL},
    {.name = "favor#, optimal",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .proposal = BO_PROPOSAL_SDERF,
     .sampling = BO_SAMPLING_OPTIMAL},
    {.name = "favor sin/cos, optimal",
     .kind = BO_ATTENTION_FAVOR,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_SINCOS,
     .sampling = BO_SAMPLING_OPTIMAL},
    {.name = "dark#, low rank",
     .kind = BO_ATTENTION_DARK,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .proposal = BO_PROPOSAL_SDERF,
     .low_rank = true},
    {.name = "rfa, optimal",
     .kind = BO_ATTENTION_RFA,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_SINCOS,
     .sampling = BO_SAMPLING_OPTIMAL},
    {.name = "hybrid#",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .proposal = BO_PROPOSAL_SDERF,
     .window = 6,
     .causal_only = true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Weights of explicit keys. */
static inline bool kind_is_explicit(const kind_of *kind)
{
    return kind->kind == BO_ATTENTION_EXACT || kind->kind == BO_ATTENTION_POWER;
}

static inline bool kind_is_memory(const kind_of *kind)
{
    return kind->kind == BO_ATTENTION_GLA || kind->kind == BO_ATTENTION_DELTA || kind->kind == BO_ATTENTION_RIDGE;
}

static inline bool kind_has_map(const kind_of *kind)
{
    return !kind_is_explicit(kind) && !kind_is_memory(kind);
}

/* The map has as many features as a power of the dimension. */
static inline bool kind_grows(const kind_of *kind)
{
    return kind->function == BO_FUNCTION_TAYLOR || kind->function == BO_FUNCTION_POLYNOMIAL;
}

/* How many features, where the map does not fix it: near the number asked for. */
static inline size_t kind_features(const kind_of *kind, size_t features)
{
    size_t sketch = 1;
    switch (kind->function) {
    case BO_FUNCTION_ELU:
    case BO_FUNCTION_TAYLOR:
    case BO_FUNCTION_POLYNOMIAL:
    case BO_FUNCTION_IDENTITY:
    case BO_FUNCTION_EXPONENTIAL:
    case BO_FUNCTION_HEDGEHOG:
    case BO_FUNCTION_RECTIFIER:
        return 0;
    case BO_FUNCTION_SELFTENSOR: /* r(r + 1)/2 */
        while ((sketch + 1) * (sketch + 2) / 2 <= features) sketch++;
        return sketch * (sketch + 1) / 2;
    default:
        return features;
    }
}

/* `features` where the map does not fix their number. */
static inline bo_attention_desc kind_desc(const kind_of *kind, size_t heads, size_t key_heads, size_t dim,
                                          size_t value_dim, bool causal, size_t features)
{
    bo_attention_desc desc = {.kind = kind->kind,
                              .heads = heads,
                              .key_heads = key_heads,
                              .dim = dim,
                              .value_dim = value_dim,
                              .causal = causal || kind->causal_only,
                              .gate = kind->gate,
                              .normaliser = kind->normaliser,
                              .window = kind->window,
                              .rank = kind->low_rank ? (dim + 1) / 2 : 0,
                              .power = kind->power,
                              .unit = kind->unit,
                              .proposal = kind->proposal};
    if (!kind_has_map(kind)) return desc;
    desc.features = (bo_features_desc){.kernel = kind->kernel,
                                       .function = kind->function,
                                       .draw = kind->draw,
                                       .sampling = kind->sampling,
                                       .features = kind_features(kind, features),
                                       .pair_norm = kind->function == BO_FUNCTION_OPRF ? 2.5 : 0,
                                       .degree = kind->degree,
                                       .seed = 11};
    if (kind->kind == BO_ATTENTION_LINEAR) desc.features.gamma = 0.4;
    if (kind->kind == BO_ATTENTION_RFA) desc.temperature = 0.7;
    if (kind->kernel == BO_KERNEL_CUSTOM)
        desc.features.custom = kinds_custom, desc.features.custom_backward = kinds_custom_backward;
    return desc;
}

static inline const kind_of *kind_named(const char *name)
{
    for (size_t i = 0; i < KINDS; i++)
        if (!strcmp(kinds[i].name, name)) return &kinds[i];
    fail_msg("no kind is called %s", name);
    return NULL;
}

#endif
