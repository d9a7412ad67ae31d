/* The table of parameters: parameters.h. */
#include "parameters.h"
#include <math.h>
#include <stddef.h>

typedef enum range { ANY, POSITIVE, NOT_POSITIVE } range;

typedef struct definition {
    const char *name, *owner; /* owner: as an error says it */
    range range;
    size_t in, gradient; /* offsets of the pointers in bo_attention_inputs and bo_attention_gradients */
} definition;

#define ARRAY(name, owner, range)                                                                                      \
    {                                                                                                                  \
#name, owner, range, offsetof(bo_attention_inputs, name), offsetof(bo_attention_gradients, name)               \
    }

static const definition definitions[BO_PARAMETER_COUNT] = {
    [BO_PARAMETER_SIGMA] = ARRAY(sigma, "kind rfa", ANY),
    [BO_PARAMETER_M] = ARRAY(m, "kinds dark and learned", ANY),
    [BO_PARAMETER_M_K] = ARRAY(m_k, "kind learned", ANY),
    [BO_PARAMETER_BIAS] = ARRAY(bias, "kind learned", ANY),
    [BO_PARAMETER_BIAS_K] = ARRAY(bias_k, "kind learned", ANY),
    [BO_PARAMETER_MIX] = ARRAY(mix, "kind hybrid", POSITIVE),
    [BO_PARAMETER_LOG_DECAY] = ARRAY(log_decay, "gate fixed", NOT_POSITIVE),
    [BO_PARAMETER_LAMBDA] = ARRAY(lambda, "kind ridge", POSITIVE),
};

size_t bo_parameter_size(const bo_attention *attention, bo_parameter which)
{
    const bo_attention_desc *d = &attention->desc;
    bool learned = bo_has_learned_map(d);
    switch (which) {
    case BO_PARAMETER_SIGMA:
        return d->kind == BO_ATTENTION_RFA ? d->dim : 0;
    case BO_PARAMETER_M:
        return learned || d->kind == BO_ATTENTION_DARK ? d->rank * d->dim : 0;
    case BO_PARAMETER_M_K:
        return learned ? d->rank * d->dim : 0;
    case BO_PARAMETER_BIAS:
    case BO_PARAMETER_BIAS_K:
        return learned ? d->rank : 0;
    case BO_PARAMETER_MIX:
        return d->kind == BO_ATTENTION_HYBRID ? attention->group : 0;
    case BO_PARAMETER_LOG_DECAY:
        return d->gate == BO_GATE_FIXED ? 1 : 0;
    case BO_PARAMETER_LAMBDA:
        return d->kind == BO_ATTENTION_RIDGE ? d->dim : 0;
    case BO_PARAMETER_COUNT:
        break;
    }
    return 0;
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
                              size_t count)
{
    static const char *const expected[] = {"a finite number", "a positive number",
                                           "the logarithm of a decay in (0, 1], at most 0"};
    /* Matrices are looked at with every token of a step. */
    if (of->range == ANY && kernels->finite(count, values)) return BO_OK;
    for (size_t i = 0; i < count; i++) {
        bool fits = of->range == ANY || (of->range == POSITIVE ? values[i] > 0 : values[i] <= 0);
        if (isfinite(values[i]) && fits) continue;
        return bo_fail(context, isfinite(values[i]) ? BO_INVALID : BO_NUMERIC, "attention: %s[%zu] is %g, expected %s",
                       of->name, i, (double)values[i], expected[isfinite(values[i]) ? of->range : ANY]);
    }
    return BO_OK;
}

bo_status bo_parameters_check(bo_context *context, const bo_attention *attention, const bo_attention_inputs *in)
{
    const bo_attention_desc *d = &attention->desc;
    for (int p = 0; p < BO_PARAMETER_COUNT; p++) {
        const definition *of = &definitions[p];
        const float *values = bo_parameter_in(in, (bo_parameter)p);
        size_t size = bo_parameter_size(attention, (bo_parameter)p);
        if (!values) continue;
        if (!size)
            return bo_fail(context, BO_INVALID, "attention: %s belongs to %s; found kind %s, gate %s", of->name,
                           of->owner, bo_attention_name(d->kind), bo_gate_name(d->gate));
        BO_TRY(check_values(context, attention->kernels, of, values, d->key_heads * size));
    }
    return BO_OK;
}

bo_status bo_parameter_gradients_check(bo_context *context, const bo_attention *attention,
                                       const bo_attention_gradients *gradients)
{
    const bo_attention_desc *d = &attention->desc;
    for (int p = 0; p < BO_PARAMETER_COUNT; p++)
        if (bo_parameter_gradient(gradients, (bo_parameter)p) && !bo_parameter_size(attention, (bo_parameter)p))
            return bo_fail(context, BO_INVALID,
                           "attention: the gradient of %s is asked for, which belongs to %s; found kind %s, gate %s",
                           definitions[p].name, definitions[p].owner, bo_attention_name(d->kind),
                           bo_gate_name(d->gate));
    return BO_OK;
}

bo_status bo_parameter_gradients_blame(bo_context *context, const bo_attention *attention,
                                       const bo_attention_gradients *gradients, const char *advice)
{
    for (int p = 0; p < BO_PARAMETER_COUNT; p++) {
        const float *values = bo_parameter_gradient(gradients, (bo_parameter)p);
        size_t count = attention->desc.key_heads * bo_parameter_size(attention, (bo_parameter)p), i = 0;
        while (values && i < count && isfinite(values[i])) i++;
        if (values && i < count)
            return bo_fail(context, BO_NUMERIC, "attention: the gradient of %s[%zu] is %g; %s", definitions[p].name, i,
                           (double)values[i], advice);
    }
    return bo_fail(context, BO_NUMERIC, "attention: a gradient has left float32");
}
