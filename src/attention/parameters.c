/* The table of parameters: parameters.h. */
#include "enums.h"
#include "parameters.h"
#include <math.h>
#include <stddef.h>
#include "given.h"
#include "kinds.h"

typedef enum range { ANY, POSITIVE, NOT_POSITIVE } range;

typedef struct definition {
    const char *name;
    unsigned traits; /* traits of the kinds that have it */
    range range;
    size_t in, gradient; /* offsets of the pointers in bo_attention_inputs and bo_attention_gradients */
} definition;

#define ARRAY(name, traits, range)                                                                                     \
    {#name, traits, range, offsetof(bo_attention_inputs, name), offsetof(bo_attention_gradients, name)}

static const definition definitions[BO_PARAMETER_COUNT] = {
    [BO_PARAMETER_SIGMA] = ARRAY(sigma, BO_TRAIT_SIGMA, ANY),
    [BO_PARAMETER_M] = ARRAY(m, BO_TRAIT_MATRIX | BO_TRAIT_AFFINE, ANY),
    [BO_PARAMETER_M_K] = ARRAY(m_k, BO_TRAIT_AFFINE, ANY),
    [BO_PARAMETER_BIAS] = ARRAY(bias, BO_TRAIT_AFFINE, ANY),
    [BO_PARAMETER_BIAS_K] = ARRAY(bias_k, BO_TRAIT_AFFINE, ANY),
    [BO_PARAMETER_MIX] = ARRAY(mix, BO_TRAIT_MIX, POSITIVE),
    [BO_PARAMETER_LOG_DECAY] = ARRAY(log_decay, BO_TRAIT_GATE_FIXED, NOT_POSITIVE),
    [BO_PARAMETER_LAMBDA] = ARRAY(lambda, BO_TRAIT_LAMBDA, POSITIVE),
};

size_t bo_parameter_size(const bo_attention *attention, bo_parameter which)
{
    const bo_attention_desc *d = &attention->desc;
    if (!(attention->traits & definitions[which].traits)) return 0;
    switch (which) {
    case BO_PARAMETER_SIGMA:
    case BO_PARAMETER_LAMBDA:
        return d->dim;
    case BO_PARAMETER_M:
    case BO_PARAMETER_M_K:
        return d->rank * d->dim;
    case BO_PARAMETER_BIAS:
    case BO_PARAMETER_BIAS_K:
        return d->rank;
    case BO_PARAMETER_MIX:
        return attention->group;
    case BO_PARAMETER_LOG_DECAY:
        return d->gate == BO_GATE_FIXED ? 1 : 0;
    case BO_PARAMETER_COUNT:
        break;
    }
    return 0;
}

const char *bo_given_name(size_t place)
{
#define NAME(BIT, name) [BO_GIVEN_##BIT] = #name,
    static const char *const names[] = {BO_ATTENTION_GIVEN_LIST(NAME, NAME)};
#undef NAME
    return names[place];
}

size_t bo_given_width(const bo_attention *attention, size_t place)
{
    switch (place) {
#define WIDTH(BIT, name)                                                                                               \
    case BO_GIVEN_##BIT:                                                                                               \
        return bo_parameter_size(attention, BO_PARAMETER_##BIT);
        BO_ATTENTION_GIVEN_LIST(BO_GIVEN_NONE, WIDTH)
#undef WIDTH
    case BO_GIVEN_LOG_GATE:
        return bo_gate_width(&attention->desc);
    case BO_GIVEN_BETA:
        return attention->traits & BO_TRAIT_BETA ? 1 : 0;
    default:
        return 0;
    }
}

size_t bo_parameter_offset(const bo_attention *attention, bo_parameter which)
{
    size_t offset = 0;
    for (int p = 0; p < (int)which; p++) offset += bo_parameter_size(attention, (bo_parameter)p);
    return offset;
}

const float *bo_parameter_in(const bo_attention_inputs *in, bo_parameter which)
{
    return *(const float *const *)((const char *)in + definitions[which].in);
}

float *bo_parameter_gradient(const bo_attention_gradients *gradients, bo_parameter which)
{
    return *(float *const *)((const char *)gradients + definitions[which].gradient);
}

static bo_status check_values(bo_context *context, const bo_kernels *kernels, const definition *of, const float *values,
                              bool f64, size_t count)
{
    static const char *const expected[] = {"a finite number", "a positive number",
                                           "the logarithm of a decay in (0, 1], at most 0"};
    /* A fast check, because matrices are checked for every token of a step. */
    if (!f64 && of->range == ANY && kernels->finite(count, values)) return BO_OK;
    for (size_t i = 0; i < count; i++) {
        double value = bo_number_at(values, f64, i);
        bool fits = of->range == ANY || (of->range == POSITIVE ? value > 0 : value <= 0);
        if (isfinite(value) && fits) continue;
        return bo_fail(context, isfinite(value) ? BO_INVALID : BO_NUMERIC, "attention: %s[%zu] is %g, expected %s",
                       of->name, i, value, expected[isfinite(value) ? of->range : ANY]);
    }
    return BO_OK;
}

/* Checks that the attention has an array that is given or whose gradient is requested. */
static bo_status check_accepted(bo_context *context, const bo_attention *attention, bool gradient, const char *name,
                                unsigned traits, bool accepted)
{
    const bo_attention_desc *d = &attention->desc;
    char list[BO_KIND_LIST_BYTES];
    if (accepted) return BO_OK;
    return bo_fail(context, BO_INVALID, "attention: %s%s%s applies only to %s %s; found kind %s, gate %s",
                   gradient ? "the gradient of " : "", name, gradient ? " is requested, but it" : "",
                   traits == BO_TRAIT_GATE_FIXED ? "gate" : "kinds",
                   traits == BO_TRAIT_GATE_FIXED ? "fixed" : bo_kinds_with(traits, list),
                   bo_attention_kind_name(d->kind), bo_gate_name(d->gate));
}

bo_status bo_parameters_check(bo_context *context, const bo_attention *attention, const bo_attention_inputs *in,
                              bool f64)
{
    for (int p = 0; p < BO_PARAMETER_COUNT; p++) {
        const definition *of = &definitions[p];
        const float *values = bo_parameter_in(in, (bo_parameter)p);
        if (!values) continue;
        size_t size = bo_parameter_size(attention, (bo_parameter)p);
        BO_TRY(check_accepted(context, attention, false, of->name, of->traits, size > 0));
        BO_TRY(check_values(context, attention->kernels, of, values, f64, attention->desc.key_heads * size));
    }
    return check_accepted(context, attention, false, "beta", BO_TRAIT_BETA,
                          !in->beta || attention->traits & BO_TRAIT_BETA);
}

bo_status bo_parameter_gradients_check(bo_context *context, const bo_attention *attention,
                                       const bo_attention_gradients *gradients)
{
    for (int p = 0; p < BO_PARAMETER_COUNT; p++)
        if (bo_parameter_gradient(gradients, (bo_parameter)p))
            BO_TRY(check_accepted(context, attention, true, definitions[p].name, definitions[p].traits,
                                  bo_parameter_size(attention, (bo_parameter)p) > 0));
    return check_accepted(context, attention, true, "beta", BO_TRAIT_BETA,
                          !gradients->beta || attention->traits & BO_TRAIT_BETA);
}

bo_status bo_parameter_gradients_locate_nonfinite(bo_context *context, const bo_attention *attention,
                                                  const bo_attention_gradients *gradients, bool f64, const char *advice)
{
    for (int p = 0; p < BO_PARAMETER_COUNT; p++) {
        const float *values = bo_parameter_gradient(gradients, (bo_parameter)p);
        size_t count = attention->desc.key_heads * bo_parameter_size(attention, (bo_parameter)p), i = 0;
        while (values && i < count && isfinite(bo_number_at(values, f64, i))) i++;
        if (values && i < count)
            return bo_fail(context, BO_NUMERIC, "attention: the gradient of %s[%zu] is %g; %s", definitions[p].name, i,
                           bo_number_at(values, f64, i), advice);
    }
    return bo_fail(context, BO_NUMERIC, "attention: a gradient overflowed %s", f64 ? "float64" : "float32");
}
