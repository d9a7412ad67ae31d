/* The kinds of attention, each with every kind of map, that the tests cover. */
#ifndef BO_TEST_ATTENTION_KIND_CASES_H
#define BO_TEST_ATTENTION_KIND_CASES_H

#include "testing.h"
#include "kind_cases_list.h"

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

/* Kinds with softmax or power weights of explicit keys. */
static inline bool kind_is_explicit(const kind_of *kind)
{
    return kind->kind == BO_ATTENTION_SOFTMAX || kind->kind == BO_ATTENTION_POWER;
}

static inline bool kind_is_memory(const kind_of *kind)
{
    return kind->kind == BO_ATTENTION_GLA || kind->kind == BO_ATTENTION_DELTA || kind->kind == BO_ATTENTION_RIDGE;
}

static inline bool kind_has_map(const kind_of *kind)
{
    return !kind_is_explicit(kind) && !kind_is_memory(kind);
}

/* The number of features of the map grows as a power of the dimension. */
static inline bool kind_grows(const kind_of *kind)
{
    return kind->function == BO_FUNCTION_TAYLOR || kind->function == BO_FUNCTION_POLYNOMIAL;
}

/* The number of features, close to the given one, for maps that do not determine it. */
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

/* Uses `features` if the map does not determine their number. */
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
                              .normalizer = kind->normalizer,
                              .window = kind->window,
                              .rank = kind->low_rank    ? (dim + 1) / 2
                                      : kind->full_rank ? dim
                                                        : 0,
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
