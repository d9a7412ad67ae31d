/* Gates, segments and rows of engines with fixed-size memory: segments.h. */
#include "segments.h"

/* Minimum log gate: sums of smaller log gates lose precision in double, and the past has no weight in both cases. */
static const float min_log_gate = -1e8f;

float bo_log_gate(const float *log_gate)
{
    if (!log_gate) return 0;
    return *log_gate > min_log_gate ? *log_gate : min_log_gate;
}

/* Returns about √(chunks) chunks, so that the tape stores about as many states as backward recomputes per segment. */
size_t bo_segment(size_t chunk, size_t tokens)
{
    size_t chunks = (tokens + chunk - 1) / chunk, side = 1;
    while (side * side < chunks) side++;
    return side * chunk;
}

size_t bo_segment_states(const bo_attention *attention, const bo_attention_cost *plan, size_t queries, size_t keys)
{
    (void)queries;
    return attention->desc.causal && keys ? (keys - 1) / plan->segment : 1;
}

bo_token_rows bo_token_rows_at(const bo_call *call, size_t sequence, size_t key_head)
{
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_inputs *in = call->in;
    return (bo_token_rows){.k = bo_rows_at(call, in->k, d->key_heads, d->dim, true, sequence, key_head),
                           .v = bo_rows_at(call, in->v, d->key_heads, d->value_dim, true, sequence, key_head),
                           .gate =
                               bo_rows_at(call, in->log_gate, d->key_heads, bo_gate_width(d), true, sequence, key_head),
                           .beta = bo_rows_at(call, in->beta, d->key_heads, 1, true, sequence, key_head)};
}
