/* Interpretation of an attention call, shared by all devices. */
#ifndef BO_BACKEND_ATTENTION_H
#define BO_BACKEND_ATTENTION_H

#include "sequences.h"

static inline const bo_attention_attributes *bo_attention_attributes_of(const bo_op_call *call)
{
    return call->attributes;
}

/* The inputs listed in `given` follow q, k and v, or q alone if only states are read. */
static inline size_t bo_attention_first_given(const bo_op_call *call)
{
    return bo_attention_attributes_of(call)->queries_only ? 1 : 3;
}

/* The sequences of the queries, and of the keys in cross attention. */
static inline bo_sequences bo_attention_stream(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    return (bo_sequences){
        .tokens = a->tokens, .max_sequences = a->max_sequences, .layer = a->layer, .source = a->source};
}

static inline bo_sequences bo_attention_source(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    return (bo_sequences){.tokens = a->key_tokens, .max_sequences = a->max_sequences, .source = true};
}

/* True if the source is read into one state per sequence, and all queries then attend to the whole source: cross
 * attention of kinds that process keys sequentially. */
static inline bool bo_attention_reads(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    return a->cross && !a->queries_only && bo_attention_describe(a->attention)->causal;
}

#endif
