/* Shapes of attention, within one stream of rows or across two. */
#include "shapes_internal.h"
#include "../attention/attention.h"

/* An optional input after q, k and v. */
typedef struct given {
    const char *name;
    size_t rows, columns; /* columns 0: this kind has no such input */
} given;

/* In the order of bo_attention_given. */
static void list_given(const bo_attention *attention, size_t tokens, given list[BO_ATTENTION_GIVEN_COUNT])
{
    const bo_attention_desc *d = bo_attention_describe(attention);
    static const struct {
        const char *name;
        bo_parameter parameter;
    } parameters[BO_ATTENTION_GIVEN_COUNT] = {
        [1] = {"sigma", BO_PARAMETER_SIGMA},   [2] = {"m", BO_PARAMETER_M},
        [3] = {"mix", BO_PARAMETER_MIX},       [5] = {"log_decay", BO_PARAMETER_LOG_DECAY},
        [6] = {"lambda", BO_PARAMETER_LAMBDA}, [7] = {"m_k", BO_PARAMETER_M_K},
        [8] = {"bias", BO_PARAMETER_BIAS},     [9] = {"bias_k", BO_PARAMETER_BIAS_K},
    };
    for (size_t i = 0; i < BO_ATTENTION_GIVEN_COUNT; i++)
        if (parameters[i].name)
            list[i] =
                (given){parameters[i].name, 1, bo_parameter_size(attention, parameters[i].parameter) * d->key_heads};
    list[0] = (given){"log_gate", tokens, bo_gate_width(d) * d->key_heads};
    list[4] = (given){"beta", tokens, bo_attention_has(d, BO_TRAIT_BETA) ? d->key_heads : 0};
}

/* Checks the number of entries of parameters, since files store them as key_heads x …. */
static bo_status check_given(bo_context *context, const bo_op_call *call, size_t i, const given *g)
{
    const bo_attention_attributes *a = call->attributes;
    const bo_tensor *in = &call->in[i];
    if (!g->columns)
        REFUSE("attention: kind %s does not use %s", bo_attention_kind_name(bo_attention_describe(a->attention)->kind),
               g->name);
    if (g->rows == 1 && in->rows * in->columns == g->columns)
        return check_floats(context, call, "attention", i, g->name, 0, 0);
    return check_floats(context, call, "attention", i, g->name, g->rows, g->columns);
}

/* Refuses flags that exclude each other. */
static bo_status check_flags(bo_context *context, const bo_attention_attributes *a)
{
    if (!a->attention) REFUSE("attention: the attention is NULL");
    if (a->given >> BO_ATTENTION_GIVEN_COUNT) REFUSE("attention: the flags %#x include unknown inputs", a->given);
    if (a->ask && !a->cross) REFUSE("attention: only cross attention can read states without keys");
    if (a->source && a->cross)
        REFUSE("attention: the queries of cross attention must be rows of the stream, not of the source");
    if (a->ask && a->given & (BO_ATTENTION_GIVEN_LOG_GATE | BO_ATTENTION_GIVEN_BETA))
        REFUSE("attention: there are no keys, to which %s would belong",
               a->given & BO_ATTENTION_GIVEN_LOG_GATE ? "log_gate" : "beta");
    return BO_OK;
}

/* Checks q and, unless the operation only reads states, k and v: they have as many rows as q or, across streams, those
 * of the source. */
static bo_status check_rows(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    const bo_attention_desc *d = bo_attention_describe(a->attention);
    size_t rows = call->in[0].rows, keys = a->cross ? call->in[1].rows : rows;
    BO_TRY(check_tokens(context, call, "attention", a->tokens));
    BO_TRY(check_floats(context, call, "attention", 0, "q", rows, d->heads * d->dim));
    if (a->ask) return BO_OK;
    BO_TRY(check_floats(context, call, "attention", 1, "k", keys, d->key_heads * d->dim));
    if (a->cross && a->key_tokens && keys % a->key_tokens)
        REFUSE("attention: sources of %zu tokens do not divide %zu rows", a->key_tokens, keys);
    return check_floats(context, call, "attention", 2, "v", keys, d->key_heads * d->value_dim);
}

bo_status bo_shape_attention(bo_context *context, bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    BO_TRY(check_flags(context, a));
    const bo_attention_desc *d = bo_attention_describe(a->attention);
    size_t at = a->ask ? 1 : 3;
    given list[BO_ATTENTION_GIVEN_COUNT];
    BO_TRY(begin(context, call, "attention", at + (size_t)__builtin_popcount(a->given)));
    BO_TRY(check_rows(context, call));
    list_given(a->attention, a->ask ? 0 : call->in[1].rows, list);
    for (size_t i = 0; i < BO_ATTENTION_GIVEN_COUNT; i++)
        if (a->given >> i & 1) BO_TRY(check_given(context, call, at++, &list[i]));
    if (bo_gate_width(d) && !a->ask && !(a->given & BO_ATTENTION_GIVEN_LOG_GATE))
        REFUSE("attention: kind %s with gate %s needs log_gate", bo_attention_kind_name(d->kind),
               bo_gate_name(d->gate));
    give(call, 0, call->in[0].rows, d->heads * d->value_dim);
    return BO_OK;
}
