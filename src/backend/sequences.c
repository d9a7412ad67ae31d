/* Sequences of a call. */
#include "sequences.h"

static size_t default_count(size_t rows, const bo_sequences *sequences)
{
    size_t tokens = sequences->tokens ? sequences->tokens : rows;
    return tokens ? rows / tokens : 0;
}

size_t bo_spans_max_count(const bo_op_call *call, const bo_sequences *sequences)
{
    return sequences->max_sequences ? sequences->max_sequences : default_count(call->in[0].rows, sequences);
}

static bo_status check_lengths(bo_context *context, const bo_spans *spans, size_t rows, const char *op)
{
    size_t remaining = rows;
    for (size_t s = 0; s < spans->count; s++) {
        if (spans->lengths[s] > remaining)
            return bo_fail(context, BO_INVALID,
                           "%s: sequence %zu of the pass has %zu tokens, but of its %zu rows only %zu are left", op, s,
                           spans->lengths[s], rows, remaining);
        remaining -= spans->lengths[s];
    }
    if (remaining)
        return bo_fail(context, BO_INVALID, "%s: %zu of the pass's %zu rows belong to no sequence", op, remaining,
                       rows);
    return BO_OK;
}

bo_status bo_spans_of_input(bo_context *context, const bo_op_call *call, size_t input, const bo_sequences *sequences,
                            const char *op, bo_spans *out)
{
    size_t rows = call->in[input].rows,
           max_count = sequences->max_sequences ? sequences->max_sequences : default_count(rows, sequences);
    const size_t *lengths = NULL;
    if (call->pass) lengths = sequences->source ? call->pass->source_lengths : call->pass->lengths;
    *out = (bo_spans){.count = default_count(rows, sequences), .tokens = sequences->tokens ? sequences->tokens : rows};
    if (!lengths) return BO_OK;
    *out = (bo_spans){.count = call->pass->sequences, .lengths = lengths};
    if (out->count > max_count)
        return bo_fail(context, BO_INVALID, "%s: the pass has %zu sequences, but the plan allows at most %zu", op,
                       out->count, max_count);
    return check_lengths(context, out, rows, op);
}

bo_status bo_spans_of(bo_context *context, const bo_op_call *call, const bo_sequences *sequences, const char *op,
                      bo_spans *out)
{
    if (bo_pass_segments(call->pass) && !sequences->source)
        return bo_fail(context, BO_INVALID,
                       "%s: a pass with final states is supported by attention and recurrent layers only", op);
    return bo_spans_of_input(context, call, 0, sequences, op, out);
}

bool bo_spans_have_states(const bo_op_call *call, const bo_sequences *sequences)
{
    return call->pass && call->pass->states && !sequences->source;
}

void *bo_span_state(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s)
{
    if (!bo_spans_have_states(call, sequences)) return NULL;
    return (char *)call->pass->states[sequences->layer * spans->count + s] + sequences->offset;
}

/* The index of the state of sequence s in the arrays of a pass. */
static size_t state_index(const bo_sequences *sequences, const bo_spans *spans, size_t s)
{
    return sequences->layer * spans->count + s;
}

void *bo_span_final(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s)
{
    if (!bo_pass_segments(call->pass) || sequences->source) return bo_span_state(call, sequences, spans, s);
    return (char *)call->pass->final_states[state_index(sequences, spans, s)] + sequences->offset;
}

const float *bo_span_final_gradient(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans,
                                    size_t s)
{
    if (!bo_pass_segments(call->pass) || sequences->source || !call->pass->final_gradients) return NULL;
    return call->pass->final_gradients[state_index(sequences, spans, s)] + sequences->offset / sizeof(float);
}

float *bo_span_state_gradient(const bo_op_call *call, const bo_sequences *sequences, const bo_spans *spans, size_t s)
{
    if (!bo_pass_segments(call->pass) || sequences->source || !call->pass->state_gradients) return NULL;
    return call->pass->state_gradients[state_index(sequences, spans, s)] + sequences->offset / sizeof(float);
}

bo_status bo_spans_refuse_states(bo_context *context, const bo_op_call *call, const bo_sequences *sequences,
                                 const char *op)
{
    if (bo_spans_have_states(call, sequences) && !bo_pass_segments(call->pass))
        return bo_fail(context, BO_INVALID, "%s: a pass that continues from states has no gradients", op);
    return BO_OK;
}
