/* Shapes of attention, within one stream of rows or across two. */
#include "../attention/enums.h"
#include "shapes_internal.h"
#include "../attention/given.h"

/* Checks optional input number `place` of the list in attention/given.h. For parameters, only the number of entries is
 * checked, since files store them as key_heads x …. tokens: rows of the keys. */
static bo_status check_given(bo_context *context, const bo_op_call *call, size_t i, size_t place, size_t tokens)
{
    const bo_attention_attributes *a = call->attributes;
    const bo_attention_desc *d = bo_attention_describe(a->attention);
    const bo_tensor *in = &call->in[i];
    const char *name = bo_given_name(place);
    const size_t rows = BO_GIVEN_TOKENS >> place & 1 ? tokens : 1;
    const size_t columns = bo_given_width(a->attention, place) * d->key_heads;
    if (!columns) REFUSE("attention: kind %s does not use %s", bo_attention_kind_name(d->kind), name);
    if (rows == 1 && in->rows * in->columns == columns) return check_floats(context, call, "attention", i, name, 0, 0);
    return check_floats(context, call, "attention", i, name, rows, columns);
}

/* Refuses flags that exclude each other. */
static bo_status check_flags(bo_context *context, const bo_attention_attributes *a)
{
    if (!a->attention) REFUSE("attention: the attention is NULL");
    if (a->given >> BO_ATTENTION_GIVEN_COUNT) REFUSE("attention: the flags %#x include unknown inputs", a->given);
    if (a->queries_only && !a->cross) REFUSE("attention: only cross attention can read states without keys");
    if (a->source && a->cross)
        REFUSE("attention: the queries of cross attention must be rows of the stream, not of the source");
    for (size_t place = 0; a->queries_only && place < BO_ATTENTION_GIVEN_COUNT; place++)
        if (a->given & BO_GIVEN_TOKENS & 1u << place)
            REFUSE("attention: there are no keys, to which %s would belong", bo_given_name(place));
    return BO_OK;
}

/* Checks q and, unless the operation only reads states, k and v: k and v have the rows of q or, in cross attention, the
 * rows of the source. */
static bo_status check_rows(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    const bo_attention_desc *d = bo_attention_describe(a->attention);
    size_t rows = call->in[0].rows, keys = a->cross ? call->in[1].rows : rows;
    BO_TRY(check_tokens(context, call, "attention", a->tokens));
    BO_TRY(check_floats(context, call, "attention", 0, "q", rows, d->heads * d->dim));
    if (a->queries_only) return BO_OK;
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
    size_t at = a->queries_only ? 1 : 3;
    BO_TRY(begin(context, call, "attention", at + (size_t)__builtin_popcount(a->given)));
    BO_TRY(check_rows(context, call));
    const size_t tokens = a->queries_only ? 0 : call->in[1].rows;
    for (size_t place = 0; place < BO_ATTENTION_GIVEN_COUNT; place++)
        if (a->given >> place & 1) BO_TRY(check_given(context, call, at++, place, tokens));
    if (bo_gate_width(d) && !a->queries_only && !(a->given & BO_ATTENTION_GIVEN_LOG_GATE))
        REFUSE("attention: kind %s with gate %s needs log_gate", bo_attention_kind_name(d->kind),
               bo_gate_name(d->gate));
    set_output(call, 0, call->in[0].rows, d->heads * d->value_dim);
    return BO_OK;
}
