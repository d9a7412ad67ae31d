/* Public calls of attention from shapes and contiguous arrays. */
#ifndef BO_TEST_ATTENTION_PUBLIC_CALL_H
#define BO_TEST_ATTENTION_PUBLIC_CALL_H

#include "attention/attention.h"

static inline bo_attention_call call_of_shape(const bo_attention_shape *shape)
{
    return (bo_attention_call){.sequences = shape->sequences,
                               .tokens = shape->tokens,
                               .layout = shape->layout,
                               .key_tokens = shape->key_tokens,
                               .lengths = shape->lengths,
                               .key_lengths = shape->key_lengths,
                               .no_keys = shape->no_keys,
                               .no_queries = shape->no_queries};
}

/* For inputs in float32 or float64, which have members with the same names. */
#define CALL_SET_INPUTS(call, in)                                                                                      \
    ((call)->q.data = (in)->q, (call)->k.data = (in)->k, (call)->v.data = (in)->v,                                     \
     (call)->log_gate.data = (in)->log_gate, (call)->beta.data = (in)->beta, (call)->sigma = (in)->sigma,              \
     (call)->m = (in)->m, (call)->mix = (in)->mix, (call)->log_decay = (in)->log_decay, (call)->lambda = (in)->lambda, \
     (call)->m_k = (in)->m_k, (call)->bias = (in)->bias, (call)->bias_k = (in)->bias_k)
#define CALL_SET_GRADIENTS(call, g)                                                                                    \
    ((call)->dq.data = (g)->q, (call)->dk.data = (g)->k, (call)->dv.data = (g)->v,                                     \
     (call)->dlog_gate.data = (g)->log_gate, (call)->dbeta.data = (g)->beta, (call)->dsigma = (g)->sigma,              \
     (call)->dm = (g)->m, (call)->dmix = (g)->mix, (call)->dlog_decay = (g)->log_decay, (call)->dlambda = (g)->lambda, \
     (call)->dm_k = (g)->m_k, (call)->dbias = (g)->bias, (call)->dbias_k = (g)->bias_k)

static inline bo_attention_call call_of_arrays(const bo_attention_shape *shape, const bo_attention_inputs *in,
                                               float *out)
{
    bo_attention_call call = call_of_shape(shape);
    CALL_SET_INPUTS(&call, in);
    call.solves = in->solves;
    call.out.data = out;
    return call;
}

#endif
